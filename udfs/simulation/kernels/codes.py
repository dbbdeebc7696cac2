"""Integer codes of the simulation. Each has the name that tables and JSON answers show."""

import enum
from typing import Self

NONE = -1  # no broker, slot, member or code


class NamedCode(enum.IntEnum):
    """An integer code with the name that people see; codes count from 0 in the order of the members."""

    label: str

    def __new__(cls, label: str) -> Self:
        """Number the member."""
        code = int.__new__(cls, len(cls.__members__))
        code._value_ = len(cls.__members__)
        code.label = label
        return code

    @classmethod
    def labels(cls) -> tuple[str, ...]:
        """Return the names of all codes, in the order of the codes."""
        return tuple(code.label for code in cls)


class EventKind(NamedCode):
    """What happens to a cluster or a partition.

    PARTITION_RECORD to CONTROLLER_CHANGE come from the controller's own log: it has decided these already.
    LEADERS_REBALANCED to CREATION_BLOCKED are decided over several partitions. APPEND to REPLICA_OFFSETS concern data.
    INITIAL_CLUSTER and later give the initial state.
    """

    BROKER_DOWN = "broker down"
    BROKER_UP = "broker up"
    CONTROLLED_SHUTDOWN = "broker shutting down"
    CONTROLLER_LOST = "controller lost"
    CREATE_PARTITION = "partition created"
    DELETE_PARTITION = "partition deleted"
    REASSIGN_PARTITION = "reassignment"
    ELECT_PREFERRED_LEADER = "preferred election"
    SET_UNCLEAN_ELECTION = "unclean election allowed"
    SET_MIN_ISR = "min.insync.replicas"
    ALTER_ISR = "isr"
    STALE_CONTROLLER = "old controller"
    PARTITION_RECORD = "record"
    CLEAR_ELR = "elr cleared"
    REMOVE_PARTITION = "partition removed"
    BROKER_FENCED = "fenced"
    BROKER_UNFENCED = "unfenced"
    CONTROLLER_CHANGE = "controller"
    LEADERS_REBALANCED = "leaders rebalanced"
    TOPIC_DELETION_STARTED = "topic deletion starts"
    TOPIC_DELETION_COMPLETED = "topic deletion ends"
    CREATION_BLOCKED = "topic held by its deletion"
    APPEND = "append"
    FETCH = "fetch"
    REPLICA_OFFSETS = "offsets"
    INITIAL_CLUSTER = "cluster at first"
    INITIAL_BROKER = "broker at first"
    INITIAL_PARTITION = "partition at first"


class DownKind(enum.IntEnum):
    """Value of the failure of a broker: how the controller learns of it."""

    NOTICED, FENCED, UNNOTICED, NOTICED_LATER = range(4)  # FENCED: the process lives


class PartitionState(NamedCode):
    """State of a partition in the controller (Kafka's PartitionState)."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class ReplicaState(NamedCode):
    """State of a replica in the controller (Kafka's ReplicaState)."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


class ChangeCause(NamedCode):
    """Why a leadership, an ISR or a state was written. ISR_SHRINK to METADATA_UPDATE change no leader."""

    CREATED = "created"
    LEADER_FAILED = "leader failed"
    UNCLEAN_ELECTION = "unclean election"
    ELIGIBLE_LEADER_REPLICA = "eligible leader replica"
    LAST_KNOWN_LEADER = "last known leader"
    NO_LEADER = "no leader can be elected"
    PREFERRED_ELECTION = "preferred election"
    AUTO_REBALANCE = "auto rebalance"
    REASSIGNMENT = "reassignment"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    ISR_SHRINK = "isr shrunk"
    ISR_EXPAND = "isr expanded"
    METADATA_UPDATE = "metadata update"
    TOPIC_DELETION = "topic deleted"


class RequestError(NamedCode):
    """Error in the answer to a request, in Kafka's words where Kafka has one."""

    NONE = "NONE"
    LEADER_NOT_AVAILABLE = "LEADER_NOT_AVAILABLE"
    NOT_LEADER_OR_FOLLOWER = "NOT_LEADER_OR_FOLLOWER"
    NOT_ENOUGH_REPLICAS = "NOT_ENOUGH_REPLICAS"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    REQUEST_TIMED_OUT = "REQUEST_TIMED_OUT"
    DISCONNECTED = "DISCONNECTED"
    UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
    BROKER_DOWN = "BROKER_DOWN"
    NOT_ASSIGNED_REPLICA = "NOT_ASSIGNED_REPLICA"
    OFFSET_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    UNKNOWN_LEADER_EPOCH = "UNKNOWN_LEADER_EPOCH"
    STALE_CONTROLLER_EPOCH = "STALE_CONTROLLER_EPOCH"


class AnsweredBy(NamedCode):
    """What made a broker answer a request."""

    WAITING = "waiting"
    AT_ONCE = "at once"
    NOTHING_AWAITED = "nothing awaited"
    APPEND = "append"
    HIGH_WATERMARK = "high watermark"
    TIMEOUT = "timeout"
    LEADER_CHANGE = "leader changed"
    BROKER_DOWN = "broker down"
    NEWER_FETCH = "newer fetch"
    TOPIC_DELETION = "topic deleted"
