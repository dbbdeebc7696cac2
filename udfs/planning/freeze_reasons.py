"""Why plans leave partitions as they are."""

from enum import IntEnum

_EXPLANATIONS = (
    "",
    "its topic is excluded",
    "it is being reassigned",
    "its topic is being deleted",
    "none of its in-sync replicas is on a live broker",
    "it has a replica on a down broker, which Kafka's tools reject: repair it first",
    "its topic is ignored",
    "a replica is outside of its broker set",
    "it has a replica in a failed log dir, which would never end its reassignment: repair it first",
    "too few live brokers can hold its replicas",
    "it has more in-sync replicas than its topic's replication factor: set that first (--goal rf)",
)
_EXPLANATIONS_OF_SEVERAL = (
    "",
    "their topics are excluded",
    "they are being reassigned",
    "their topics are being deleted",
    "none of their in-sync replicas is on a live broker",
    "they have a replica on a down broker, which Kafka's tools reject: repair them first",
    "their topics are ignored",
    "replicas are outside of their broker sets",
    "they have a replica in a failed log dir, which would never end their reassignments: repair them first",
    "too few live brokers can hold their replicas",
    "they have more in-sync replicas than the replication factors of their topics: set these first (--goal rf)",
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
    EXTRA_REPLICAS = 10

    @property
    def explanation(self) -> str:
        """Return the reason in words; empty for FREE."""
        return _EXPLANATIONS[self]

    def explain(self, partitions: int) -> str:
        """Return the reason in words for so many partitions."""
        return _EXPLANATIONS[self] if partitions == 1 else _EXPLANATIONS_OF_SEVERAL[self]


FREE = FreezeReason.FREE
