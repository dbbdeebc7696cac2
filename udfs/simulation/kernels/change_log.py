"""The log of changes: leaderships, state transitions, health intervals and the progress of fetches."""

import enum
from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import part
from udfs.simulation.kernels.simulation_arrays import Ints, Partition, SimulationArrays, columns


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


class ChangeLog(NamedTuple):
    """What a simulation writes."""

    leaderships: Ints  # (n, LeadershipRow)
    transitions: Ints  # (n, TransitionRow)
    health_intervals: Ints  # (n, HealthRow)
    progress: Ints  # (n, ProgressRow)
    written_lists: Ints  # lists of broker places; of a last health interval, also of offsets
    cursor: Ints  # (Cursor)


def new_change_log(rows: int, slots: int, enabled: bool = True) -> ChangeLog:
    """Make an empty log with room for `rows` of each kind and for one step of a partition with so many slots."""
    step_rows = 4 * (slots + 4) + 64
    rows += step_rows
    cursor = np.zeros(len(Cursor), np.int64)
    cursor[Cursor.ENABLED] = enabled
    return ChangeLog(
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
