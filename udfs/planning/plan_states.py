"""The states that a cluster goes through while a plan is carried out, and the faults that they may have."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np

from udfs.arrow.ragged import (
    any_true,
    count_true,
    expand_ranges,
    find_in_segment,
    first_true,
    is_in_segment,
    offsets_of,
    row_of,
    take_segments,
)
from udfs.planning.broker_log_dirs import ANY
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Int32s, Ints
from udfs.planning.elections import NO_LEADER, find_current_leaders, find_usable

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
    """What can be wrong with a step of a plan, and how bad it is; the worst first."""

    level: PlanLevel

    def __new__(cls, value: str, level: PlanLevel) -> "PlanFault":
        """Make a member that is the text `value`."""
        member = str.__new__(cls, value)
        member._value_, member.level = value, level
        return member

    UNKNOWN_PARTITION = "unknown_partition", PlanLevel.REJECTED
    REPEATED_PARTITION = "repeated_partition", PlanLevel.REJECTED
    EMPTY_LIST = "empty_list", PlanLevel.REJECTED
    REPEATED_REPLICA = "repeated_replica", PlanLevel.REJECTED
    LOG_DIRS_LENGTH = "log_dirs_length", PlanLevel.REJECTED
    UNKNOWN_BROKER = "unknown_broker", PlanLevel.REJECTED
    UNUSABLE_LOG_DIR = "unusable_log_dir", PlanLevel.REJECTED
    CORDONED_LOG_DIR = "cordoned_log_dir", PlanLevel.REJECTED
    DOWN_BROKER = "down_broker", PlanLevel.REJECTED
    CORDONED_BROKER = "cordoned_broker", PlanLevel.REJECTED
    UNDER_WAY = "under_way", PlanLevel.REJECTED
    LAST_COPY = "last_copy", PlanLevel.HARMFUL
    DROPS_IN_SYNC = "drops_in_sync", PlanLevel.HARMFUL
    NO_SOURCE = "no_source", PlanLevel.HARMFUL
    CANNOT_COMPLETE = "cannot_complete", PlanLevel.HARMFUL
    REPLICATION_FACTOR = "replication_factor", PlanLevel.HARMFUL
    FEWER_RACKS = "fewer_racks", PlanLevel.HARMFUL
    DISK_OVERFLOW = "disk_overflow", PlanLevel.HARMFUL
    LOG_DIR_OVERFLOW = "log_dir_overflow", PlanLevel.HARMFUL
    UNSHOWN_PARTITION = "unshown_partition", PlanLevel.RISKY
    DISK_FULL = "disk_full", PlanLevel.RISKY
    LOG_DIR_FULL = "log_dir_full", PlanLevel.RISKY
    UNKNOWN_STATE = "unknown_state", PlanLevel.RISKY
    WAITS_FOR_LAGGING = "waits_for_lagging", PlanLevel.RISKY
    BLOCKED_WHILE_COPYING = "blocked_while_copying", PlanLevel.RISKY
    SINGLE_REPLICA = "single_replica", PlanLevel.RISKY
    UNDER_MIN_ISR = "under_min_isr", PlanLevel.RISKY
    BROKER_TAKES_OFFLINE = "broker_takes_offline", PlanLevel.RISKY
    BROKER_BLOCKS = "broker_blocks", PlanLevel.RISKY
    RACK_TAKES_OFFLINE = "rack_takes_offline", PlanLevel.RISKY
    RACK_BLOCKS = "rack_blocks", PlanLevel.RISKY
    LAGGING_RACK = "lagging_rack", PlanLevel.RISKY
    SLOW_COPIES_IN = "slow_copies_in", PlanLevel.RISKY
    SLOW_COPIES_OUT = "slow_copies_out", PlanLevel.RISKY
    UNEVEN_LEADERS = "uneven_leaders", PlanLevel.RISKY

    @property
    def rank(self) -> int:
        """Its place among all faults: 0 = the worst."""
        return list(PlanFault).index(self)


# Of the disks of a broker, and of its log dirs: more than they have, and more than a limit.
OF_DISKS = (PlanFault.DISK_OVERFLOW, PlanFault.DISK_FULL)
OF_LOG_DIRS = (PlanFault.LOG_DIR_OVERFLOW, PlanFault.LOG_DIR_FULL)
OVERFLOWS, DISK_FAULTS = (OF_DISKS[0], OF_LOG_DIRS[0]), (*OF_DISKS, *OF_LOG_DIRS)
# Faults of the state that a step leads to: a rollback leads to that of before.
RESTORED = frozenset(
    {
        PlanFault.DROPS_IN_SYNC,
        PlanFault.REPLICATION_FACTOR,
        PlanFault.FEWER_RACKS,
        PlanFault.SINGLE_REPLICA,
        PlanFault.UNDER_MIN_ISR,
        PlanFault.BROKER_TAKES_OFFLINE,
        PlanFault.BROKER_BLOCKS,
        PlanFault.RACK_TAKES_OFFLINE,
        PlanFault.RACK_BLOCKS,
        PlanFault.LAGGING_RACK,
        PlanFault.UNEVEN_LEADERS,
    }
)


class FaultRows(NamedTuple):
    """Where a fault is: k steps, each of another partition, or of a broker in a wave."""

    fault: PlanFault
    row: Ints  # int64 (k), the partition, -1 = none
    wave: Ints  # int64 (k), from 1; 0 = all waves together
    broker: Ints  # int64 (k), index of the broker that it is about; NO_BROKER = none
    before: Floats  # float64 (k), the measure now, see the sentence of the fault
    after: Floats  # float64 (k), the measure after the step, or at its peak
    log_dir: Ints | None = None  # int64 (k), the log dir that it is about, as in BrokerLogDirs; None = none


NOW = -1  # instead of a state before


class StepLists(Protocol):
    """The k steps of a plan by wave, as in Waves: the partition of each, and its list after it."""

    @property
    def wave(self) -> Int32s:
        """Return the wave of each step, from 0: int32 (k)."""

    @property
    def row(self) -> Ints:
        """Return the partition of each step: int64 (k)."""

    @property
    def offsets(self) -> Ints:
        """Return the range of each step in `replicas`: int64 (k + 1)."""

    @property
    def replicas(self) -> Int32s:
        """Return the brokers of the lists: int32."""

    @property
    def log_dirs(self) -> Int32s | None:
        """Return the log dir that each of these is to have, as in BrokerLogDirs: int32; ANY, None = any."""

    @property
    def waves(self) -> int:
        """Return the number of waves."""


@dataclass(frozen=True)
class PlanStates:
    """The k states of partitions, by their r replicas: as they are now, and after each step of the waves."""

    row: Ints  # int64 (k), the partition; the first p states are those of now, in the order of the model
    offsets: Ints  # int64 (k + 1), range of each list in `replicas`
    replicas: Int32s  # int32 (r)
    begin: Ints  # int64 (k), the first wave after which the partition has the list, 0 = now
    end: Ints  # int64 (k), the first wave after which it has the next list; one more than there are for the last list
    previous: Ints  # int64 (k), the state before, NOW = it is the first
    in_sync: Flags  # bool (r)
    copied: Flags  # bool (r), whether the step to the state copies the replica
    awaited: (
        Flags  # bool (r), whether the step completes only once the replica, which is out of sync before, is in sync
    )
    size: Floats  # float64 (r), bytes of the replica's log
    log_dir: Int32s  # int32 (r), where it is, as in BrokerLogDirs; ANY = unknown
    written: Floats  # float64 (r), bytes that the step to the state writes on the disks of the broker
    leader: Ints  # int64 (k), NO_LEADER = none
    waves: int

    @property
    def state(self) -> Ints:
        """Return the state of each replica: int64 (r)."""
        return row_of(self.offsets)

    def count(self, selected: Flags) -> Ints:
        """Count the selected states (bool, k) that partitions have now and after each wave: int64 (waves + 1)."""
        begin, end = (np.bincount(wave[selected], minlength=self.waves + 2) for wave in (self.begin, self.end))
        return np.cumsum(begin - end)[:-1].astype(np.int64)

    def sum_by_broker(self, state: Ints, broker: Ints | Int32s, brokers: int, weight: Floats | None = None) -> Floats:
        """Sum what states (int64) have on brokers (int64), now and after each wave: float64 (waves + 1, brokers)."""
        size = (self.waves + 2) * brokers
        begin, end = (np.bincount(wave[state] * brokers + broker, weight, size) for wave in (self.begin, self.end))
        totals: Floats = np.cumsum((begin - end).reshape(-1, brokers), axis=0, dtype=np.float64)[:-1]
        return totals

    def take_previous(self, states: Ints) -> tuple[Int32s, Ints, Flags]:
        """Return what states (int64), each with one before, were before: replicas, offsets, and which were in sync."""
        replicas, offsets = take_segments(self.replicas, self.offsets, self.previous[states])
        return replicas, offsets, take_segments(self.in_sync, self.offsets, self.previous[states])[0]


def find_plan_states(model: ClusterModel, steps: StepLists) -> PlanStates:
    """Find the states of all partitions of a model while the waves of steps are carried out."""
    p, k = model.partitions, model.partitions + len(steps.row)
    row = np.concatenate([np.arange(p), steps.row])
    begin = np.concatenate([np.zeros(p, dtype=np.int64), steps.wave.astype(np.int64) + 1])
    offsets = np.concatenate([model.offsets, model.offsets[-1] + steps.offsets[1:]])
    order = np.lexsort((begin, row))
    end, previous = np.full(k, steps.waves + 1, dtype=np.int64), np.full(k, NOW, dtype=np.int64)
    is_followed = row[order][1:] == row[order][:-1]
    end[order[:-1][is_followed]] = begin[order[1:][is_followed]]
    previous[order[1:][is_followed]] = order[:-1][is_followed]
    replicas = np.concatenate([model.replicas, steps.replicas])
    size, r, log_dir = len(replicas), len(model.replicas), np.full(len(replicas), ANY, dtype=np.int32)
    if model.log_dirs is not None:
        log_dir[:r] = model.log_dirs.of_replica
    if steps.log_dirs is not None:
        log_dir[r:] = steps.log_dirs
    states = PlanStates(
        row,
        offsets,
        replicas,
        begin,
        end,
        previous,
        in_sync=np.zeros(size, dtype=np.bool_),
        copied=np.zeros(size, dtype=np.bool_),
        awaited=np.zeros(size, dtype=np.bool_),
        size=np.zeros(size),
        log_dir=log_dir,
        written=np.zeros(size),
        leader=np.full(k, NO_LEADER, dtype=np.int64),
        waves=steps.waves,
    )
    states.in_sync[:r] = model.is_in_sync
    states.size[:r] = model.size[model.row] if model.replica_size is None else model.replica_size
    states.leader[:p] = find_current_leaders(model)
    number = np.zeros(k, dtype=np.int64)
    starts = np.flatnonzero(np.append(True, ~is_followed))
    number[order] = np.arange(k) - np.repeat(starts, np.diff(np.append(starts, k)))
    for step in range(1, int(number.max(initial=0)) + 1):
        _carry_out(model, states, np.flatnonzero(number == step))
    return states


def _carry_out(model: ClusterModel, states: PlanStates, after: Ints) -> None:
    """Fill in some states (int64), each of another partition, from the states before them."""
    lists, offsets = take_segments(states.replicas, states.offsets, after)
    at = expand_ranges(states.offsets[:-1][after], np.diff(offsets)).astype(np.int64)
    before, before_offsets, was_in_sync = states.take_previous(after)
    in_isr = before[was_in_sync], offsets_of(count_true(was_in_sync, before_offsets))
    has_source = any_true(was_in_sync, before_offsets)
    place, row = find_in_segment(lists, offsets, before, before_offsets), row_of(offsets)
    is_old = place >= 0
    if model.adding is not None:  # a replica that is being added is copied already
        adding, of_rows = take_segments(model.adding, model.offsets, states.row[after])
        being_added = take_segments(model.replicas, model.offsets, states.row[after])[0]
        is_adding = is_in_segment(lists, offsets, being_added[adding], offsets_of(count_true(adding, of_rows)))
        is_old &= ~(is_adding & (states.previous[after] < model.partitions)[row])
    stays_in_sync = is_in_segment(lists, offsets, *in_isr)
    states.copied[at] = ~is_old
    usable = find_usable(model, states.row[after], lists, offsets)
    in_sync = usable & (stays_in_sync | (~is_old & has_source[row]))
    removed = count_true(~is_in_segment(before, before_offsets, lists, offsets), before_offsets)
    added = count_true(~is_old, offsets)
    waits_for_all = (removed > added) | ((added + removed > 0) & (not model.completes_with_added))
    states.awaited[at] = ~in_sync & (~is_old | waits_for_all[row])
    catches_up = usable & states.awaited[at] & has_source[row] & (not model.drops_at_once)
    states.in_sync[at] = in_sync | catches_up
    old_at = expand_ranges(states.offsets[:-1][states.previous[after]], np.diff(before_offsets))
    old = np.where(place >= 0, np.append(old_at, NOW)[before_offsets[row] + place], NOW)
    is_copied = ~is_old & has_source[row] & (usable | ~model.live[lists])  # to a broker that is down: once it is back
    _write_logs(model, states, at, old.astype(np.int64), is_copied)
    old_leader = states.leader[states.previous[after]]
    leads = states.in_sync[at] & (lists == old_leader[row])
    first = first_true(states.in_sync[at], offsets)
    successor = np.where(first >= 0, np.append(lists, NO_LEADER)[first], NO_LEADER)
    states.leader[after] = np.where(any_true(leads, offsets), old_leader, successor)


def _write_logs(model: ClusterModel, states: PlanStates, at: Ints, old: Ints, is_copied: Flags) -> None:
    """Fill in the logs of replicas (int64, indices) after a step. old: int64, where they were before, NOW = nowhere."""
    had = np.append(states.size, 0.0)[old]
    whole = model.size[states.row[states.state[at]]]
    written = np.where(is_copied, np.maximum(whole - had, 0.0), 0.0)
    states.size[at] = had + written
    chosen, before = states.log_dir[at], np.append(states.log_dir, np.int32(ANY))[old]
    is_moved = ~states.copied[at] & (chosen != ANY) & (chosen != before)
    states.written[at] = np.where(is_moved, had, written)
    only = ANY if model.log_dirs is None else model.log_dirs.only_dir[states.replicas[at]]
    place = np.where(chosen != ANY, chosen, np.where((before != ANY) | ~states.copied[at], before, only))
    states.log_dir[at] = np.where(states.copied[at] & ~is_copied, before, place)  # nothing is there to copy
