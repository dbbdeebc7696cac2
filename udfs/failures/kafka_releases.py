"""Which rules of Kafka hold from which release on: the one place that knows. A release is a number, as 307 for 3.7."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import pyarrow as pa

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
