"""The election rule over Arrow columns: what the Spark function of stages, views and notebooks calls."""

import numpy as np
import pyarrow as pa

from udfs.arrow.columns import to_flags, to_numpy
from udfs.arrow.ragged import is_in_segment
from udfs.failures.kernels.election import ElectedFrom
from udfs.failures.kernels.partition_arrays import NO_BROKER, UNKNOWN, PartitionGroup
from udfs.failures.partition_groups import elect_after, flatten_lists

ELECTION = pa.struct([("leader", pa.int32()), ("elected_from", pa.string())])
_NAMES = pa.array([code.label for code in ElectedFrom])


def elect_batch(
    replicas: pa.Array,
    isr: pa.Array,
    elr: pa.Array,
    leader: pa.Array,
    unclean: pa.Array,
    live: pa.Array,
    failed: pa.Array,
) -> pa.Array:
    """Elect the leaders of partitions after brokers failed.

    Args:
        replicas: list<int32> (p), broker ids in assignment order.
        isr: list<int32> (p).
        elr: list<int32> (p).
        leader: int32 (p), before the failure; null or -1 = none, and the partition stays offline.
        unclean: bool (p), unclean.leader.election.enable.
        live: list<int32> (p), brokers that are live before the failure.
        failed: list<int32> (p), brokers that fail.

    Returns:
        struct<leader: int32, elected_from: string> (p); leader -1 = none, elected_from as in ElectedFrom.
    """
    broker, offsets = flatten_lists(replicas)
    broker = broker.astype(np.int32)
    is_live, in_isr, in_elr, fails = (
        is_in_segment(broker, offsets, *flatten_lists(lists)) for lists in (live, isr, elr, failed)
    )
    count = len(replicas)
    group = PartitionGroup(
        offsets,
        np.where(is_live, broker, NO_BROKER).astype(np.int32),  # the rule only compares brokers: ids do as indices
        in_isr,
        in_elr,
        np.full(len(broker), UNKNOWN, dtype=np.int64),
        to_numpy(leader, NO_BROKER).astype(np.int32),
        np.ones(count, dtype=np.int32),
        np.array(to_flags(unclean)),
        np.full(count, UNKNOWN, dtype=np.int64),
        np.zeros((count, 2)),
    )
    new_leader, elected_from = elect_after(group, fails)
    return pa.StructArray.from_arrays(
        [pa.array(new_leader), _NAMES.take(pa.array(elected_from))], fields=list(ELECTION)
    )
