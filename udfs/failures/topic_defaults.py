"""What the settings say of topics: configs that their sources do not show, and topics that do not count."""

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import to_array, to_flags
from udfs.failures.kernels.election import Bools, Ids, Ints


@dataclass(frozen=True)
class TopicDefaults:
    """Configs of topics whose sources do not show them: Kafka's own defaults, unless the settings differ."""

    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    # Kafka 3.7 and later (kafka.cluster.Partition): the number of replicas counts, where min.insync.replicas exceeds
    # it. Before, such a partition accepts nothing from producers with acks=all. Only where no source shows the version.
    cap_min_insync_replicas: bool = True
    ignored: tuple[str, ...] = ()  # patterns with *, ? and [...] of topics whose problems do not count

    def adapt_to(self, caps_min_isr: Iterable[bool | None]) -> "TopicDefaults":
        """Return the defaults for a cluster. caps_min_isr: of each broker that may be live; None = not shown.

        While brokers are upgraded, some cap it and some do not: then no capping is relied on.
        """
        known = [caps for caps in caps_min_isr if caps is not None]
        return replace(self, cap_min_insync_replicas=all(known)) if known else self

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

    def find_ignored(self, names: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return whether each topic (t) is ignored: bool (t)."""
        names = to_array(names)
        if not self.ignored:
            return pa.array(np.zeros(len(names), dtype=np.bool_))
        return pc.match_substring_regex(names, f"^(?:{'|'.join(map(_to_regex, self.ignored))})$")

    def find_counted(self, topics: pa.Table) -> Bools:
        """Return whether the problems of each topic count (t): it is not ignored, and not marked for deletion.

        topics: columns topic and marked_for_deletion.
        """
        return ~(to_flags(self.find_ignored(topics["topic"])) | to_flags(topics["marked_for_deletion"]))


def _to_regex(pattern: str) -> str:
    """Return a pattern as a regular expression of RE2, which lacks what fnmatch uses for several asterisks."""
    parts = (fnmatch.translate(part).removeprefix("(?s:").removesuffix(r")\Z") for part in pattern.split("*"))
    return ".*".join(parts).replace("(?!)", r"[^\s\S]")  # a set without characters, such as [b-a]


KAFKA_DEFAULTS = TopicDefaults()
