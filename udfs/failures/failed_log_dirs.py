"""Replicas in failed log dirs of live brokers (JBOD): they are offline, and cannot catch up there.

Kafka puts such a replica into no other log dir of its broker, also not if a reassignment takes it off the broker and
back (seen with Kafka 4.1): it returns once its disk is replaced and the broker restarts, or moves to another broker.
"""

import numpy as np
import pyarrow as pa

from udfs.arrow.columns import to_lists, to_numpy
from udfs.arrow.ragged import is_in_segment, row_of
from udfs.failures.kernels.election import NO_BROKER, Bools, Ids


def find_failed_dir_replicas(partitions: pa.Table, live: Ids) -> Bools:
    """Find the replicas (bool, r) in failed log dirs of live brokers.

    A live broker whose replica is offline has lost the log dir, and not itself. In the ISR of a partition with a
    leader, a replica is online, whatever another source shows; without a leader, the last one in sync stays in the ISR.

    Args:
        partitions: Columns replicas, isr, leader and offline_replicas; none failed without the last.
        live: Ids of the brokers that are known to be live.
    """
    broker, offsets, _ = to_lists(partitions["replicas"])
    if "offline_replicas" not in partitions.column_names:
        return np.zeros(len(broker), dtype=np.bool_)
    is_offline, in_isr = (
        is_in_segment(broker, offsets, *to_lists(partitions[name])[:2]) for name in ("offline_replicas", "isr")
    )
    has_leader = to_numpy(partitions["leader"], NO_BROKER) != NO_BROKER
    failed: Bools = is_offline & np.isin(broker, live) & ~(in_isr & has_leader[row_of(offsets)])
    return failed
