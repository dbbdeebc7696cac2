"""Why plans leave partitions as they are."""

from enum import IntEnum

_EXPLANATIONS = (  # in words that follow `because of`
    "",
    "an excluded topic",
    "an ongoing reassignment",
    "the deletion of a topic",
    "the lack of an in-sync replica on a live broker",
    "a replica on a down broker, which Kafka's tools reject: repair first",
    "an ignored topic",
    "a replica outside of its broker set",
    "a replica in a failed log dir, which would never end its reassignment: repair first",
    "too few live brokers for all replicas",
    "racks that a better plan would leave",
    "more in-sync replicas than the topic's replication factor: set that first (--goal rf)",
    "a topic that --topics does not name",
    "a replica on a cordoned broker, which Kafka 4.4 rejects in every list: uncordon or drain it first",
    "a replica out of sync, as one in sync would leave instead",
)


class FreezeReason(IntEnum):
    """Why a partition stays as it is, whatever the goal: the codes in ClusterModel.frozen."""

    FREE = 0
    EXCLUDED = 1
    IN_FLIGHT = 2
    DELETED = 3
    OFFLINE = 4
    DOWN_REPLICA = 5
    IGNORED = 6
    OUTSIDE_SET = 7
    FAILED_DIR = 8
    FEW_BROKERS = 9
    RACKS = 10
    EXTRA_REPLICAS = 11
    OTHER_TOPIC = 12
    CORDONED = 13
    LAGGING = 14

    @property
    def explanation(self) -> str:
        """Return the reason in words; empty for FREE."""
        return _EXPLANATIONS[self]


FREE = FreezeReason.FREE
