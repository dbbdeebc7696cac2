"""Integer codes of consumer groups, with the names that tables and JSON answers show; states and errors are Kafka's."""

from udfs.simulation.kernels.codes import NamedCode


class GroupEventKind(NamedCode):
    """What happens to a group: the first four are requests of a member."""

    JOIN = "join"
    SYNC = "sync"
    HEARTBEAT = "heartbeat"
    LEAVE = "leave"
    COORDINATOR_LOST = "coordinator lost"
    COORDINATOR_LOADED = "coordinator loaded"


class GroupState(NamedCode):
    """State of a group."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupError(NamedCode):
    """Error in the answer to a request of a member."""

    NONE = "NONE"
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
    MEMBER_ID_REQUIRED = "MEMBER_ID_REQUIRED"
    INVALID_SESSION_TIMEOUT = "INVALID_SESSION_TIMEOUT"
    NOT_COORDINATOR = "NOT_COORDINATOR"


class GroupCause(NamedCode):
    """What caused an answer, the end of a delayed heartbeat or a change of state."""

    WAITING = "still waiting"
    AT_ONCE = "at once"
    ALL_JOINED = "all joined"
    REBALANCE_TIMEOUT = "rebalance timeout"
    INITIAL_DELAY = "initial delay over"
    LEADER_SYNC = "leader's sync"
    REBALANCE_STARTED = "rebalance began"
    NEXT_HEARTBEAT = "next heartbeat"
    SESSION_TIMEOUT = "session timeout"
    SYNC_TIMEOUT = "sync timeout"
    MEMBER_LEFT = "member left"
    NEWER_REQUEST = "newer request"
    MEMBER_JOINED = "member joined"
    LEADER_REJOINED = "leader joined again"
    METADATA_CHANGED = "member changed"
    COORDINATOR_LOST = "coordinator lost"
    COORDINATOR_LOADED = "coordinator loaded"
    MEMBER_WAITS = "member waits itself"
    REQUEST_ANSWERED = "request answered"
    NO_HEARTBEAT = "none made"
