"""What the settings say of topics: configs that their sources do not show, and topics that do not count."""

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import to_array, to_flags
from udfs.failures.kafka_releases import (
    CAPS_MIN_ISR,
    COMPLETES_WITH_ADDED,
    DROPS_WHEN_ALL_IN_SYNC,
    REJECTS_CORDONED,
    ReleaseRange,
    holds_since,
)
from udfs.failures.kernels.election import Bools, Ids, Ints


@dataclass(frozen=True)
class TopicDefaults:
    """Configs of topics whose sources do not show them: Kafka's own defaults, unless the settings differ."""

    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    # The release of Kafka where no source shows it: rules of udfs.failures.kafka_releases follow from it
    cap_min_insync_replicas: bool = True
    completes_with_added: bool = True
    drops_at_once: bool = False
    rejects_cordoned: bool = True
    assumed_release: int | None = None  # whose rules these are, where no source shows one; None = a source does
    ignored: tuple[str, ...] = ()  # patterns with *, ? and [...] of topics whose problems do not count

    def assume(self, release: int) -> "TopicDefaults":
        """Return the defaults with the rules of this release, where no source shows it."""
        return replace(self.adapt_to([ReleaseRange(release, release + 1)]), assumed_release=release)

    def adapt_to(self, brokers: Iterable[ReleaseRange]) -> "TopicDefaults":
        """Return the defaults for a cluster. brokers: the releases of those that may be live."""
        releases = list(brokers)
        since = (CAPS_MIN_ISR, COMPLETES_WITH_ADDED, DROPS_WHEN_ALL_IN_SYNC)
        caps, with_added, waits = (holds_since(release, releases) for release in since)
        rejects = holds_since(REJECTS_CORDONED, releases, count=any)  # the controller may be the one that does
        return replace(
            self,
            cap_min_insync_replicas=self.cap_min_insync_replicas if caps is None else caps,
            completes_with_added=self.completes_with_added if with_added is None else with_added,
            drops_at_once=self.drops_at_once if waits is None else not waits,
            rejects_cordoned=self.rejects_cordoned if rejects is None else rejects,
            assumed_release=self.assumed_release if None in (caps, with_added, waits) else None,
        )

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
        return match_topics(names, self.ignored)

    def find_counted(self, topics: pa.Table) -> Bools:
        """Return whether the problems of each topic count (t): it is not ignored, and not marked for deletion.

        topics: columns topic and marked_for_deletion.
        """
        return ~(to_flags(self.find_ignored(topics["topic"])) | to_flags(topics["marked_for_deletion"]))


def match_topics(names: pa.Array | pa.ChunkedArray, patterns: Sequence[str]) -> pa.Array:
    """Return whether each topic (t) matches a pattern, as in tmp-*: bool (t)."""
    names = to_array(names)
    if not patterns:
        return pa.array(np.zeros(len(names), dtype=np.bool_))
    return pc.match_substring_regex(names, f"^(?:{'|'.join(map(_to_regex, patterns))})$")


def _to_regex(pattern: str) -> str:
    """Return a pattern as a regular expression of RE2, which lacks what fnmatch uses for several asterisks."""
    parts = (fnmatch.translate(part).removeprefix("(?s:").removesuffix(r")\Z") for part in pattern.split("*"))
    return ".*".join(parts).replace("(?!)", r"[^\s\S]")  # a set without characters, such as [b-a]


KAFKA_DEFAULTS = TopicDefaults()
