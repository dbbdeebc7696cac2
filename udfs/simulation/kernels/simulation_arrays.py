"""Arrays that a simulation works on, and their columns.

All arrays are int64. A partition is a row p. Every broker that ever has a replica of it is one of its slots, which
count from 0 in each partition; AR, ISR, ELR and target lists hold slots. A broker's place is its row among the brokers
of all clusters of a call. Times are milliseconds. Lists of any length stand in one array, their length first.
"""

import enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import part

Ints = npt.NDArray[np.int64]
NEVER = int(np.iinfo(np.int64).max)
LONG_AGO = int(np.iinfo(np.int64).min // 2)

columns = enum.verify(enum.UNIQUE, enum.CONTINUOUS)


@columns
class Partition(enum.IntEnum):
    """Columns of `partitions`. Leaders are slots or NONE."""

    AR_SIZE, ISR_SIZE, ELR_SIZE, TARGET_SIZE = range(4)  # of the lists in these columns of `replicas`
    REPLICA_BEGIN, SLOTS, PREFIX_BEGIN, CLUSTER = range(4, 8)  # its first row in `replicas` and `common_prefixes`
    LEADER, LEADER_EPOCH, CONTROLLER_EPOCH, LAST_KNOWN_LEADER = range(8, 12)
    STATE, DELETION = range(12, 14)  # PartitionState, Deletion
    UNCLEAN_ELECTION, MIN_ISR = range(14, 16)  # settings of its topic
    TIME, NEXT_STEP = range(16, 18)  # everything before this time and row of `steps` has happened; -1 = not started
    NEXT_EVENT, EVENT_BEGIN, EVENT_END, LAST_EVENT = range(18, 22)  # rows of `events`, number of the last one or -1
    # Whether its events ever concern data, one of these has happened, a replica has fetched.
    HAS_DATA, DATA_STARTED, FETCHES_STARTED = range(22, 25)
    PREVIOUS_LEADER, EPOCH_START_OFFSET, COMMITTED_OFFSET = range(25, 28)  # the last leader that was live
    # Of requests that wait: the next deadline; in `request_lists`, the range of produces, and how many fetches.
    NEXT_DEADLINE, PRODUCE_HEAD, PRODUCE_TAIL, CONSUMER_FETCHES = range(28, 32)
    APPENDS = 32  # how many appends the leader's log holds


@columns
class PartitionHealth(enum.IntEnum):
    """Columns of `health`: an interval of constant health, then offsets and exposed messages before the last event."""

    SINCE, LEADER, LEADER_EPOCH, ISR_SIZE, AR_SIZE, MIN_ISR = range(6)
    LOG_END_OFFSET, HIGH_WATERMARK, COMMITTED_OFFSET = range(6, 9)
    EXPOSED_ACKS_0, EXPOSED_ACKS_1, EXPOSED_ACKS_ALL = range(9, 12)  # messages above the committed offset, by acks


@columns
class Replica(enum.IntEnum):
    """Columns of `replicas`. The first four hold the entries of the partition's lists (slots)."""

    AR, ISR, ELR, TARGET = range(4)
    BROKER, STATE = range(4, 6)  # place, ReplicaState
    LEO, HW, HW_CHANGED_AT, CHECKPOINTED_HW = range(6, 10)
    REMOTE_LEO, LAST_CAUGHT_UP_AT = range(10, 12)  # as the leader knows them; no LEO = -1
    LAST_FETCH_AT, LAST_FETCH_LEADER_LEO = range(12, 14)
    WAITING_FETCH = 14  # row of the event, -1 = none
    REASSIGNMENT = 15  # ReassignmentFlag


class ReassignmentFlag(enum.IntEnum):
    """Flags of a replica in the running reassignment, which are added up: a second request may remove what is added."""

    ADDED = 1
    REMOVED = 2


class Deletion(enum.IntEnum):
    """How far the deletion of a partition is: QUEUED waits for its topic."""

    NONE, QUEUED, STARTED = range(3)


class SimulationState(NamedTuple):
    """State of partitions and replicas."""

    partitions: Ints  # (p, Partition)
    replicas: Ints  # (sum of slots, Replica)
    common_prefixes: Ints  # (sum of slots squared), how many messages the logs of two slots share
    health: Ints  # (p, PartitionHealth)


@columns
class TimelineStep(enum.IntEnum):
    """Columns of `steps`. ORDER: 2 x event + 1; of a leader rebalance 2 x event."""

    ORDER, TIME, KIND, BROKER, CONTROLLER_EPOCH, EVENT = range(6)


class StepKind(enum.IntEnum):
    """What a step does. CONTROLLER_DOWN, CONTROLLER_UP: the broker is the controller, or becomes it."""

    BROKER_DOWN, CONTROLLER_DOWN, UNNOTICED_DOWN, BROKER_UP, CONTROLLER_UP = range(5)
    CONTROLLED_SHUTDOWN, CONTROLLER_FAILOVER, QUORUM_CHANGE, LEADER_REBALANCE = range(5, 9)
    BROKER_FENCED, BROKER_UNFENCED, UNCLEAN_BROKER_UP = range(9, 12)


# Steps after which their broker is down, or live.
DOWN_STEPS = (StepKind.BROKER_DOWN, StepKind.CONTROLLER_DOWN, StepKind.UNNOTICED_DOWN, StepKind.BROKER_FENCED)
UP_STEPS = (StepKind.BROKER_UP, StepKind.CONTROLLER_UP, StepKind.UNCLEAN_BROKER_UP, StepKind.BROKER_UNFENCED)


@columns
class ClusterSetup(enum.IntEnum):
    """Columns of `clusters`: settings, then time, controller epoch and steps."""

    KRAFT, ELR_ENABLED, AUTO_LEADER_REBALANCE, REBALANCE_CHECK_MS, FIRST_REBALANCE_CHECK_MS = range(5)
    IMBALANCE_PERCENT, REPLICA_LAG_MS, REPLICA_LAG_MESSAGES, MESSAGE_BYTES, TRUNCATE_TO_HW = range(5, 10)
    CHECKPOINT_MS, JOIN_ISR_AT_EPOCH_START, COMPLETES_WITH_ADDED = range(10, 13)
    START_TIME, END_TIME, END_EVENT = range(13, 16)  # END_EVENT: the number that the next event would have
    INITIAL_CONTROLLER_EPOCH, STEP_BEGIN, STEP_END = range(16, 19)
    COMMON_STEP_BEGIN, COMMON_STEP_END = range(19, 21)  # in `broker_steps`, the steps that concern every partition


SETTINGS = int(ClusterSetup.START_TIME)  # how many columns are settings


class BrokerFlag(enum.IntEnum):
    """Flags of a broker, which are added up. One that fails in a controlled shutdown keeps SHUTTING_DOWN."""

    LIVE = 1
    SHUTTING_DOWN = 2


class Timeline(NamedTuple):
    """What is the same for all partitions of a cluster."""

    steps: Ints  # (t, TimelineStep), by cluster and order
    clusters: Ints  # (c, ClusterSetup)
    brokers: Ints  # (n, 4), where its rows of `broker_changes` begin and end, and its part of `broker_steps`
    # (k, 2), from which step on a broker has these flags (BrokerFlag); the first of each at step -1
    broker_changes: Ints
    broker_steps: Ints  # (i, 1), rows of `steps`, rising: of each broker; then, of each cluster, for every partition


@columns
class PartitionEvent(enum.IntEnum):
    """Columns of `events`. LIST: place in `lists`; of REPLICA_OFFSETS the high watermark."""

    NUMBER, TIME, KIND, SLOT, LIST, VALUE = range(6)
    ACKS, MESSAGES, WAIT_MS, MIN_BYTES, OFFSET = range(6, 11)
    PARTS, LEADER_EPOCH = range(11, 13)  # PARTS: how many partitions the request names


@columns
class RequestStatus(enum.IntEnum):
    """Columns of `requests`. OFFSET: high watermark that completes a produce, or where a fetch begins."""

    ERROR, ANSWERED_BY, ANSWERED_AT = range(3)  # RequestError, AnsweredBy
    BASE_OFFSET, MESSAGES, OFFSET, DEADLINE, DELAYED = range(3, 8)
    LOST_MESSAGES, LOST_AT, HIGH_WATERMARK = range(8, 11)


@columns
class RequestList(enum.IntEnum):
    """Rows of `request_lists`: produces that wait, appends that the leader's log holds, consumers' waiting fetches."""

    PRODUCES, APPENDS, CONSUMER_FETCHES = range(3)


class PartitionEvents(NamedTuple):
    """Events of partitions, and the requests among them."""

    events: Ints  # (e, PartitionEvent), by partition and order
    lists: Ints  # lists of slots, and records
    requests: Ints  # (e, RequestStatus), used for APPEND and FETCH
    request_lists: Ints  # (RequestList, e), rows of events; a partition has the columns of its events


class SimulationArrays(NamedTuple):
    """The arrays of SimulationState, Timeline, PartitionEvents and ChangeLog, in this order."""

    partitions: Ints
    replicas: Ints
    common_prefixes: Ints
    health: Ints
    steps: Ints
    clusters: Ints
    brokers: Ints
    broker_changes: Ints
    broker_steps: Ints
    events: Ints
    lists: Ints
    requests: Ints
    request_lists: Ints
    leaderships: Ints  # (n, LeadershipRow)
    transitions: Ints  # (n, TransitionRow)
    health_intervals: Ints  # (n, HealthRow)
    progress: Ints  # (n, ProgressRow)
    written_lists: Ints  # lists of broker places; of a last health interval, also of offsets
    cursor: Ints  # (Cursor)


@columns
class LeadershipRow(enum.IntEnum):
    """Columns of `leaderships`: a leader, epoch or ISR that was written. ISR: place in `written_lists`."""

    EVENT, PARTITION, CAUSE, FROM_BROKER, TO_BROKER, LEADER_EPOCH, CONTROLLER_EPOCH, ISR, TIME = range(9)


@columns
class TransitionRow(enum.IntEnum):
    """Columns of `transitions`: a change of state that was tried, of a partition (BROKER = NONE) or a replica."""

    EVENT, PARTITION, BROKER, FROM_STATE, TO_STATE, CAUSE = range(6)
    LEADER_EPOCH, CONTROLLER_EPOCH, LEGAL, TIME = range(6, 10)


@columns
class HealthRow(enum.IntEnum):
    """Columns of `health_intervals`. From LEADER on as PartitionHealth; REPLICA_LIST: in `written_lists`, or -1."""

    FROM_TIME, TO_TIME, PARTITION, LEADER, LEADER_EPOCH, ISR_SIZE, AR_SIZE, MIN_ISR = range(8)
    LOG_END_OFFSET, HIGH_WATERMARK, COMMITTED_OFFSET = range(8, 11)
    EXPOSED_ACKS_0, EXPOSED_ACKS_1, EXPOSED_ACKS_ALL, REPLICA_LIST = range(11, 15)


@columns
class ProgressRow(enum.IntEnum):
    """Columns of `progress`: how many bytes a waiting fetch could read from a time on; -1 = its leader failed."""

    REQUEST, TIME, BYTES = range(3)


@columns
class Cursor(enum.IntEnum):
    """Entries of `cursor`: rows used of each array, whether anything is written, what the next rows refer to."""

    LEADERSHIPS, TRANSITIONS, HEALTH, PROGRESS, LISTS, ENABLED = range(6)
    TIME, EVENT, CONTROLLER_EPOCH, STEP = range(6, 10)


# What a simulation writes: the last six arrays of SimulationArrays.
ChangeLog = tuple[Ints, Ints, Ints, Ints, Ints, Ints]


def new_change_log(rows: int, slots: int, enabled: bool = True) -> ChangeLog:
    """Make an empty log with room for `rows` of each kind and for one step of a partition with so many slots."""
    step_rows = 4 * (slots + 4) + 64
    rows += step_rows
    cursor = np.zeros(len(Cursor), np.int64)
    cursor[Cursor.ENABLED] = enabled
    return (
        np.empty((rows, len(LeadershipRow)), np.int64),
        np.empty((2 * rows, len(TransitionRow)), np.int64),
        np.empty((rows, len(HealthRow)), np.int64),
        np.empty((rows, len(ProgressRow)), np.int64),
        np.empty(8 * rows + 16 * step_rows, np.int64),
        cursor,
    )


@part
def has_room(sim: SimulationArrays, p: int) -> bool:
    """Return whether the log has room for whatever one step of p writes."""
    partition, cursor = sim.partitions[p], sim.cursor
    step_rows = 4 * (partition[Partition.SLOTS] + 4)
    room: bool = cursor[Cursor.ENABLED] == 0 or (
        cursor[Cursor.LEADERSHIPS] + step_rows < len(sim.leaderships)
        and cursor[Cursor.TRANSITIONS] + 2 * step_rows < len(sim.transitions)
        and cursor[Cursor.HEALTH] + step_rows < len(sim.health_intervals)
        and cursor[Cursor.PROGRESS] + step_rows + 2 * partition[Partition.CONSUMER_FETCHES] < len(sim.progress)
        and cursor[Cursor.LISTS] + 8 * step_rows < len(sim.written_lists)
    )
    return room
