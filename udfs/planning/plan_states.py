"""The states that partitions pass through while waves of replica lists are carried out, one step after another.

After each wave, a partition has the list that its last step so far set, as on the cluster: replicas that later steps
add are not missing yet. A replica that a step adds is copied from the leader, and is in sync then; replicas that stay
are in sync if they were, or if Kafka drops others only once they are. Without a leader nothing is copied, and a
replica in a failed log dir never comes back on its broker. A replica that a step puts into another log dir of its
broker is copied there, and then deleted in the old one.
"""

from dataclasses import dataclass
from typing import Protocol

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
