"""What holds for topics where sources do not show it: rules of Kafka by release, configs, what does not count."""

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import to_array, to_flags
from udfs.failures.kernels.election import Bools, Ids, Ints

# Where min.insync.replicas exceeds the number of replicas, that number counts (kafka.cluster.Partition, KAFKA-15583).
CAPS_MIN_ISR = 307
# A reassignment is complete once the replicas that it adds are in the ISR, unless it removes more than it adds; before,
# once all of the target are (PartitionReassignmentReplicas.maybeCompleteReassignment, KAFKA-19975). KRaft up to 3.7
# waits for the added ones only, whatever it removes. As nothing shows whether an old cluster runs KRaft, the worse
# of both counts up to 3.7: a reassignment waits for all, as with ZooKeeper, and drops what it removes at once.
COMPLETES_WITH_ADDED = 403
DROPS_WHEN_ALL_IN_SYNC = 308
# No list of replicas may name a broker whose log dirs are all cordoned, not even one that holds the partition
# (ReplicationControlManager.validateManualPartitionAssignment); 4.3 only creates no replicas there on its own.
REJECTS_CORDONED = 404
WITH_KRAFT, WITHOUT_ZOOKEEPER = 303, 400  # the first one for production; the first one with KRaft only
HAS_CORDONS = 403  # of metadata.version
FIRST_WITH_ELR = 307  # the first one whose tools show eligible leader replicas
NEWEST = 404  # the newest one that the rules were compared with


class ReleaseRange(NamedTuple):
    """What a source shows of the release of a broker: None = nothing."""

    first: int | None = None  # it is at least this one
    before: int | None = None  # it is earlier than this one

    def reaches(self, release: int) -> bool | None:
        """Return whether the broker runs this release or a later one; None = not shown."""
        if self.first is not None and self.first >= release:
            return True
        return False if self.before is not None and self.before <= release else None


UNKNOWN_RELEASE = ReleaseRange()


def read_releases(brokers: pa.Table) -> list[ReleaseRange]:
    """Return the releases that brokers may run, of their columns release_from and release_before."""
    return list(map(ReleaseRange, brokers["release_from"].to_pylist(), brokers["release_before"].to_pylist()))


def holds_since(
    release: int, brokers: Iterable[ReleaseRange], count: Callable[[Iterable[bool]], bool] = all
) -> bool | None:
    """Return whether a rule since this release holds in a cluster: for all brokers that show it; None = none does.

    While brokers are upgraded, some have the rule and some do not: then it is not relied on. count: any for a rule that
    forbids something, so that it is expected then.
    """
    known = [reaches for reaches in (broker.reaches(release) for broker in brokers) if reaches is not None]
    return count(known) if known else None


def find_end(brokers: Iterable[ReleaseRange]) -> int | None:
    """Return a release that all brokers are earlier than; None = not shown by all of them."""
    ends = [broker.before for broker in brokers]
    return None if None in ends else max((end for end in ends if end is not None), default=None)


def parse_release(text: str) -> int | None:
    """Return the release of a text like 3.7, 3.7.1 or 3.7-IV4; None for another text."""
    major, dot, rest = text.strip().partition(".")
    minor = rest.partition("-")[0].partition(".")[0]
    is_release = dot and major.isdecimal() and minor.isdecimal() and len(major) < 3 and len(minor) < 3
    return int(major) * 100 + int(minor) if is_release else None


@dataclass(frozen=True)
class TopicDefaults:
    """Configs of topics whose sources do not show them: Kafka's own defaults, unless the settings differ."""

    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    # The release of Kafka where no source shows it: rules of udfs.failures.topic_defaults follow from it
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
