"""What can be wrong with a plan: levels, faults, and where they are."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from udfs.planning.kernels.array_types import Floats, Ints

NO_BROKER = -1


class PlanLevel(StrEnum):
    """How a plan is judged, the worst last."""

    SAFE = "SAFE"
    RISKY = "RISKY"
    HARMFUL = "HARMFUL"
    REJECTED = "REJECTED BY KAFKA"

    @property
    def rank(self) -> int:
        """How bad it is: 0 = safe."""
        return list(PlanLevel).index(self)

    @property
    def is_harmful(self) -> bool:
        """Whether a plan should not be executed."""
        return self.rank >= PlanLevel.HARMFUL.rank


def find_worst(levels: Iterable[PlanLevel]) -> PlanLevel:
    """Return the worst level; SAFE of none."""
    return max(levels, key=lambda level: level.rank, default=PlanLevel.SAFE)


class PlanFault(StrEnum):
    """What can be wrong with a step of a plan; the worst first."""

    UNKNOWN_PARTITION = "unknown_partition"
    REPEATED_PARTITION = "repeated_partition"
    EMPTY_LIST = "empty_list"
    REPEATED_REPLICA = "repeated_replica"
    LOG_DIRS_LENGTH = "log_dirs_length"
    UNKNOWN_BROKER = "unknown_broker"
    UNUSABLE_LOG_DIR = "unusable_log_dir"
    CORDONED_LOG_DIR = "cordoned_log_dir"
    DOWN_BROKER = "down_broker"
    CORDONED_BROKER = "cordoned_broker"
    UNDER_WAY = "under_way"
    LAST_COPY = "last_copy"
    DROPS_IN_SYNC = "drops_in_sync"
    NO_SOURCE = "no_source"
    CANNOT_COMPLETE = "cannot_complete"
    REPLICATION_FACTOR = "replication_factor"
    FEWER_RACKS = "fewer_racks"
    UNSHOWN_PARTITION = "unshown_partition"
    DISK_FULL = "disk_full"
    LOG_DIR_FULL = "log_dir_full"
    UNKNOWN_STATE = "unknown_state"
    WAITS_FOR_LAGGING = "waits_for_lagging"
    BLOCKED_WHILE_COPYING = "blocked_while_copying"
    SINGLE_REPLICA = "single_replica"
    UNDER_MIN_ISR = "under_min_isr"
    BROKER_TAKES_OFFLINE = "broker_takes_offline"
    BROKER_BLOCKS = "broker_blocks"
    RACK_TAKES_OFFLINE = "rack_takes_offline"
    RACK_BLOCKS = "rack_blocks"
    LAGGING_RACK = "lagging_rack"
    SLOW_COPIES_IN = "slow_copies_in"
    SLOW_COPIES_OUT = "slow_copies_out"
    UNEVEN_LEADERS = "uneven_leaders"

    @property
    def level(self) -> PlanLevel:
        """How bad it is."""
        if self.rank <= PlanFault.UNDER_WAY.rank:
            return PlanLevel.REJECTED
        return PlanLevel.HARMFUL if self.rank <= PlanFault.FEWER_RACKS.rank else PlanLevel.RISKY

    @property
    def rank(self) -> int:
        """Its place among all faults: 0 = the worst."""
        return list(PlanFault).index(self)


# Faults of the state that a step leads to: a rollback leads to that of before.
RESTORED = frozenset({PlanFault.DROPS_IN_SYNC, PlanFault.REPLICATION_FACTOR, PlanFault.FEWER_RACKS}) | {
    *(one for one in PlanFault if PlanFault.SINGLE_REPLICA.rank <= one.rank <= PlanFault.LAGGING_RACK.rank),
    PlanFault.UNEVEN_LEADERS,
}


class FaultRows(NamedTuple):
    """Where a fault is: k steps, each of another partition, or of a broker in a wave."""

    fault: PlanFault
    row: Ints  # int64 (k), the partition, -1 = none
    wave: Ints  # int64 (k), from 1; 0 = all waves together
    broker: Ints  # int64 (k), index of the broker that it is about; NO_BROKER = none
    before: Floats  # float64 (k), the measure now, see the sentence of the fault
    after: Floats  # float64 (k), the measure after the step, or at its peak
    log_dir: Ints | None = None  # int64 (k), the log dir that it is about, as in BrokerLogDirs; None = none
