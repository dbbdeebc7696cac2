"""Configs of topics whose sources do not show them, and what follows from them for a partition."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import to_array
from udfs.failures.kernels.election import Ids, Ints


@dataclass(frozen=True)
class TopicDefaults:
    """Configs of topics whose sources do not show them: Kafka's own defaults, unless the settings differ."""

    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    # Kafka 3.7 and later (kafka.cluster.Partition): the number of replicas counts, where min.insync.replicas exceeds
    # it. Before, such a partition accepts nothing from producers with acks=all.
    cap_min_insync_replicas: bool = True

    def fill_min_isr(self, values: pa.Array | pa.ChunkedArray, replicas: Ints) -> Ids:
        """Return the effective min.insync.replicas of p partitions (int32, p), from the values of their topics.

        values: null = not shown; replicas (p): how many each partition has.
        """
        filled = np.asarray(pc.fill_null(to_array(values), self.min_insync_replicas)).astype(np.int32)
        return self.cap_min_isr(filled, replicas)

    def cap_min_isr(self, min_isr: Ids, replicas: Ints) -> Ids:
        """Return the effective min.insync.replicas (int32, p) of partitions with so many replicas (p)."""
        return (
            np.minimum(min_isr, np.maximum(replicas, 1)).astype(np.int32) if self.cap_min_insync_replicas else min_isr
        )

    def fill_unclean(self, values: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return values of unclean.leader.election.enable without nulls."""
        return pc.fill_null(to_array(values), self.unclean_leader_election)


KAFKA_DEFAULTS = TopicDefaults()
