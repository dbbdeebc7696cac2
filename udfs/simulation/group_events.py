"""Events of consumer groups, settings of coordinators, and codes with the names that tables and JSON answers show.

States and errors are Kafka's.
"""

from dataclasses import dataclass

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


@dataclass(frozen=True)
class GroupEvent:
    """A request to a group's coordinator, or an event of the coordinator itself. Times are ms."""

    at_ms: int
    kind: int  # A code of GroupEventKind
    group: str
    member: str = ""  # unique in its group; "" for events of the coordinator
    session_ms: int = 10_000  # Session timeout in a join
    rebalance_ms: int = 60_000  # Rebalance timeout in a join
    generation: int | None = None  # Generation in a sync or heartbeat; None = the group's current one
    # Whether a join carries the member's id, so that it is rejected if the group does not know it; otherwise, an
    # unknown member joins as a new one
    known: bool = False
    changed: bool = False  # Whether a join differs from the member's last one, e.g. in its topics.


@dataclass(frozen=True)
class GroupSettings:
    """Settings of coordinators, in ms; the defaults are those of Kafka 2.8.2."""

    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    # Whether a new member's first join is answered with an id, with which it joins again (since JoinGroup v4)
    member_id_required: bool = False
    # Whether a member that does not sync within the rebalance timeout is removed (since 2.8.1)
    sync_timeout: bool = True
    rejoin_sets_timeouts: bool = False  # Whether a member that joins again sets its timeouts anew (since 3.3)
    new_member_ms: int = 300_000  # How long a new member's join may wait, whatever its session timeout
    min_session_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_ms: int = 1_800_000  # group.max.session.timeout.ms
