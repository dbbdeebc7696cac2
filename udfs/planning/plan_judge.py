"""Judges the waves of a plan, from wherever it is: what Kafka rejects, what harms the cluster, and what is risky.

The waves are carried out as Kafka does (udfs/planning/plan_states.py): copy, join the ISR, complete, drop. At every
step, the failure of each broker and of each rack is considered. Only what is worse than now counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import any_true, count_true, first_true, is_in_segment, offsets_of, take_segments
from udfs.failures.disk_limits import FULL_RATIO
from udfs.failures.failure_rows import HOT_SURVIVOR_RATIO
from udfs.planning.bottleneck import MIN_RATIO, MIN_SECONDS
from udfs.planning.broker_log_dirs import ANY
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, FreezeReason, Int32s, Ints
from udfs.planning.constraints import find_fewer_racks, find_rejected_brokers, list_emptied_brokers
from udfs.planning.elections import find_last_copies, find_usable
from udfs.planning.plan_request import PlanRequest
from udfs.planning.plan_states import (
    NO_BROKER,
    OF_DISKS,
    OF_LOG_DIRS,
    FaultRows,
    PlanFault,
    PlanLevel,
    PlanStates,
    StepLists,
    find_plan_states,
    find_worst,
)
from udfs.planning.planned_waves import WaveFacts, measure_wave_facts, sum_bytes_by_wave

_LITTLE, _EVEN = 0.5, 1.1  # bytes over the mean: of a broker that has yet to be filled, and of one that is filled
_Brokers = tuple[Ints, Ints, Ints, Floats, Floats]  # members of FaultRows
_NOTICEABLE = 0.1  # of the duration of a plan


@dataclass(frozen=True)
class JudgeOptions:
    """What the judge knows beside the cluster and the steps."""

    asked_factors: tuple[int, ...] = ()  # replication factors that plans are to give
    throttle_bytes_per_s: float = 50e6  # that a broker copies, each way
    disk_room: Floats | None = None  # float64 (n), bytes by which the logs of a broker may grow; NaN = unknown
    disk_free: Floats | None = None  # float64 (n), bytes until its disks are full; NaN = unknown
    max_disk_ratio: float = FULL_RATIO  # share of the volume of a log dir that may be used
    emptied: tuple[int, ...] = ()  # ids of brokers that are to hold nothing, so that their racks may be left

    def find_staying(self, model: ClusterModel) -> Flags:
        """Find the brokers (bool, n) whose mean a broker is compared with: live ones that are not to be emptied."""
        return model.live & ~model.draining & ~np.isin(model.broker_ids, self.emptied)


def build_judge_options(
    model: ClusterModel,
    request: PlanRequest,
    throttle_bytes_per_s: float,
    disk_room: Floats | None = None,
    disk_free: Floats | None = None,
) -> JudgeOptions:
    """Return what a plan that is made for a request may do because it was asked for; the rest as in JudgeOptions."""
    return JudgeOptions(
        (request.factor,) if request.goal == "rf" and request.factor else (),
        throttle_bytes_per_s=throttle_bytes_per_s,
        disk_room=disk_room,
        disk_free=disk_free,
        max_disk_ratio=request.max_disk_ratio,
        emptied=tuple(list_emptied_brokers(model, request)),
    )


@dataclass(frozen=True)
class Judgement:
    """What is wrong with a plan, the worst first, and what its waves do."""

    faults: tuple[FaultRows, ...]
    waves: WaveFacts

    @property
    def level(self) -> PlanLevel:
        """The worst level of all faults."""
        return find_worst(rows.fault.level for rows in self.faults)


def judge_steps(model: ClusterModel, steps: StepLists, options: JudgeOptions) -> Judgement:
    """Judge the steps of a plan on the cluster as it is now. Lists name brokers of the model, each once."""
    states = find_plan_states(model, steps)
    changed = np.flatnonzero(states.previous >= 0)
    facts = measure_wave_facts(model, states)
    step = _JudgedSteps(model, states, changed, options)
    emptied = find_emptied(model, states)
    rows = [
        *step.find_rejections(),
        *step.find_harm(),
        *step.find_last_lists(),
        *step.find_waits(),
        *step.find_weaker_states(),
        *_find_full_disks(model, states, facts, options),
        *(_find_slow_brokers(model, facts, options, emptied) if _has_shareable_copies(states) else ()),
        *_find_uneven_leaders(model, facts, options.find_staying(model) & ~emptied),
    ]
    return Judgement(tuple(sorted(rows, key=lambda one: one.fault.rank)), facts)


class _JudgedSteps:
    """The k steps of a plan, each with the state before and after it."""

    def __init__(self, model: ClusterModel, states: PlanStates, changed: Ints, options: JudgeOptions) -> None:
        self._model, self._states, self._after, self._options = model, states, changed, options
        self._row, self._wave = states.row[changed], states.begin[changed]
        before, self._before_offsets, self._was_in_sync = states.take_previous(changed)
        self._before: Int32s = before
        self.offsets = offsets_of(np.diff(states.offsets)[changed])
        is_after = states.previous[states.state] >= 0
        self.replicas: Int32s = states.replicas[is_after]
        self._in_sync: Flags = states.in_sync[is_after]
        self._copied: Flags = states.copied[is_after]
        self._awaited: Flags = states.awaited[is_after]
        self._drops = ~is_in_segment(self._before, self._before_offsets, self.replicas, self.offsets)
        self._usable = find_usable(model, self._row, self.replicas, self.offsets)
        self._is_last = states.end[changed] > states.waves
        self._last_size = np.zeros(model.partitions, dtype=np.int64)  # of the last lists
        self._last_size[self._row[self._is_last]] = np.diff(self.offsets)[self._is_last]

    def _select(
        self, fault: PlanFault, is_faulty: Flags, broker: Ints | None = None, values: tuple[Ints, Ints] | None = None
    ) -> Iterator[FaultRows]:
        """Yield the first faulty step (bool, k) of each partition. broker: int64 (k). values: before and after, (k)."""
        at = np.flatnonzero(is_faulty)
        at = at[np.lexsort((self._wave[at], self._row[at]))]
        at = at[np.append(True, self._row[at][1:] != self._row[at][:-1])[: len(at)]]
        if not len(at):
            return
        brokers = np.full(len(at), NO_BROKER, dtype=np.int64) if broker is None else broker[at]
        nothing = np.full(len(self._row), np.nan)
        before, after = (one[at].astype(np.float64) for one in values or (nothing, nothing))
        yield FaultRows(fault, self._row[at], self._wave[at], brokers, before, after)

    def _first(self, mask: Flags, replicas: Int32s, offsets: Ints) -> Ints:
        """Return the broker of the first replica of each step that a mask has: int64 (k), NO_BROKER = none."""
        at = first_true(mask, offsets)
        return np.where(at >= 0, np.append(replicas, NO_BROKER)[at], NO_BROKER).astype(np.int64)

    def find_rejections(self) -> Iterator[FaultRows]:
        """Find the steps that Kafka or its tools reject."""
        down = self._first(~self._model.live[self.replicas], self.replicas, self.offsets)
        yield from self._select(PlanFault.DOWN_BROKER, down != NO_BROKER, down)
        cordoned = self._first(find_rejected_brokers(self._model)[self.replicas], self.replicas, self.offsets)
        yield from self._select(PlanFault.CORDONED_BROKER, cordoned != NO_BROKER, cordoned)
        yield from self._select(PlanFault.UNDER_WAY, self._model.frozen[self._row] == FreezeReason.IN_FLIGHT)

    def find_harm(self) -> Iterator[FaultRows]:
        """Find the steps that drop copies which are needed, and those that never complete."""
        before = count_true(self._was_in_sync, self._before_offsets)
        after = count_true(self._in_sync & ~self._awaited, self.offsets)  # unless others catch up
        size = np.diff(self.offsets)
        dropped = self._was_in_sync & self._drops
        drops = any_true(dropped, self._before_offsets)
        broker = self._first(dropped, self._before, self._before_offsets)
        is_offline = before == 0
        last = find_last_copies(self._model, self._model)
        copies = self._model.replicas[last], offsets_of(count_true(last, self._model.offsets))
        is_last = is_in_segment(self._before, self._before_offsets, *take_segments(*copies, self._row))
        lost = self._drops & is_last  # of offline partitions, replicas that may be the only complete ones
        yield from self._select(
            PlanFault.LAST_COPY,
            (drops & (after == 0)) | (any_true(lost, self._before_offsets) & is_offline),
            np.where(is_offline, self._first(lost, self._before, self._before_offsets), broker),
            (before, after),
        )
        min_isr = self._model.find_min_isr(self._row, size)
        most = np.maximum(size, self._last_size[self._row])  # what one wave drops, a later one may bring back
        # Nothing is dropped before all that it waits for are in sync.
        left = after if self._model.drops_at_once else count_true(self._in_sync | self._awaited, self.offsets)
        fewer = (left < np.minimum(before, most)) | ((left < min_isr) & (left < before))
        yield from self._select(PlanFault.DROPS_IN_SYNC, drops & (after > 0) & fewer, broker, (before, left))
        adds = any_true(self._copied, self.offsets)
        yield from self._select(PlanFault.NO_SOURCE, is_offline & adds)
        stuck = self._awaited & ~self._usable & self._model.live[self.replicas]
        waits_for = self._first(stuck, self.replicas, self.offsets)
        yield from self._select(PlanFault.CANNOT_COMPLETE, ~is_offline & (waits_for != NO_BROKER), waits_for)

    def find_waits(self) -> Iterator[FaultRows]:
        """Find the steps that complete only once a replica has caught up, or if a broker is live after all."""
        if self._model.unknown is not None:
            copies = self._copied & self._model.unknown[self.replicas]
            broker = self._first(copies, self.replicas, self.offsets)
            yield from self._select(PlanFault.UNKNOWN_STATE, broker != NO_BROKER, broker)
        lagging = self._first(self._awaited & self._usable & ~self._copied, self.replicas, self.offsets)
        yield from self._select(PlanFault.WAITS_FOR_LAGGING, lagging != NO_BROKER, lagging)

    def find_last_lists(self) -> Iterator[FaultRows]:
        """Find the last lists of partitions with another replication factor, or with fewer racks."""
        model, is_last = self._model, self._is_last
        size = np.diff(self.offsets)
        now, declared = model.factor[self._row], model.declared_factor[self._row]
        is_expected = (size == now) | (size == declared) | np.isin(size, self._options.asked_factors)
        yield from self._select(PlanFault.REPLICATION_FACTOR, is_last & ~is_expected, None, (declared, size))
        broker = self._first(np.ones(len(self.replicas), dtype=np.bool_), self.replicas, self.offsets)
        yield from self._select(PlanFault.SINGLE_REPLICA, is_last & (size == 1) & (now > 1), broker)
        in_sync = find_fewer_racks(model, self._row, self, self._options.emptied)
        listed = find_fewer_racks(model, self._row, self, self._options.emptied, listed=True)
        yield from self._select(PlanFault.FEWER_RACKS, is_last & in_sync[0], None, in_sync[1:])
        yield from self._select(PlanFault.LAGGING_RACK, is_last & listed[0] & ~in_sync[0], None, listed[1:])

    def find_weaker_states(self) -> Iterator[FaultRows]:
        """Find the states in which partitions bear less than now: while they are copied, and after each step."""
        model, states = self._model, self._states
        in_sync = count_true(states.in_sync, states.offsets)
        min_isr = model.find_min_isr(states.row, np.diff(states.offsets))
        counted = (model.counted[states.row] & (in_sync > 0))[self._after]
        needed = self._first(self._in_sync, self.replicas, self.offsets)
        first = states.row[self._after]  # the state now of the same partition

        def is_worse(flags: Flags) -> Flags:
            return counted & flags[self._after] & ~flags[first]

        yield from self._select(PlanFault.BLOCKED_WHILE_COPYING, self._find_blocked_copies(in_sync < min_isr))
        yield from self._select(PlanFault.UNDER_MIN_ISR, is_worse(in_sync < min_isr))
        failures = {
            (PlanFault.BROKER_TAKES_OFFLINE, PlanFault.BROKER_BLOCKS): np.minimum(in_sync, 1),
            (PlanFault.RACK_TAKES_OFFLINE, PlanFault.RACK_BLOCKS): _count_most_in_rack(model, states),
        }
        for (offline, blocked), lost in failures.items():
            if lost is not None:
                takes = in_sync == lost
                yield from self._select(offline, is_worse(takes), needed)
                yield from self._select(
                    blocked, is_worse(takes | (in_sync - lost < min_isr)) & ~takes[self._after], needed
                )

    def _find_blocked_copies(self, is_short: Flags) -> Flags:
        """Find the steps (bool, k) during which producers with acks=all fail, though they do not before.

        While replicas are added, the partition has the replicas from before as well, so that min.insync.replicas may
        count for more: from Kafka 3.7 on it counts up to the number of replicas.
        """
        at_once = np.diff(self._before_offsets) + count_true(self._copied, self.offsets)
        in_sync = count_true(self._was_in_sync, self._before_offsets)
        is_blocked = in_sync < self._model.find_min_isr(self._row, at_once)
        adds = any_true(self._copied, self.offsets)
        counted = self._model.counted[self._row]
        return counted & adds & (in_sync > 0) & is_blocked & ~is_short[self._states.previous[self._after]]


def _count_most_in_rack(model: ClusterModel, states: PlanStates) -> Ints | None:
    """Count the in-sync replicas of each state in the rack with most of them: int64 (k); None = racks are not known."""
    if len(model.rack_names) < 2:
        return None
    state, rack = states.state[states.in_sync], model.rack[states.replicas[states.in_sync]].astype(np.int64)
    racks = int(model.rack.max(initial=0)) + 1
    cells, counts = np.unique(state * racks + rack, return_counts=True)
    most = np.zeros(len(states.row), dtype=np.int64)
    np.maximum.at(most, cells // racks, counts)
    return most


def find_emptied(model: ClusterModel, states: PlanStates) -> Flags:
    """Find the brokers (bool, n) that hold replicas now, and none after the last wave."""
    lasts = states.replicas[states.end[states.state] > states.waves]
    now, after = (np.bincount(one, minlength=model.brokers) > 0 for one in (model.replicas, lasts))
    emptied: Flags = now & ~after
    return emptied


@dataclass(frozen=True)
class _CopyLoads:
    """Bytes that brokers copy in one direction in each wave, and how those that share them could divide them evenly."""

    load: Floats  # float64 (w, n)
    even: Floats  # float64 (w, n), the mean of the brokers that could share what a broker copies
    is_slow: Flags  # bool (n), whether a broker copies far more than these in all waves

    @property
    def shared(self) -> Floats:
        """The bytes if no broker copied far more than others: float64 (w, n)."""
        shared: Floats = np.where(self.is_slow, np.minimum(self.load, self.even), self.load)
        return shared


def _has_shareable_copies(states: PlanStates) -> bool:
    """Return whether several partitions are copied: of one, its leader has to send all."""
    copied = states.row[states.state[states.copied & (states.written > 0)]]
    return bool((copied != copied[:1]).any())


def _find_slow_brokers(
    model: ClusterModel, facts: WaveFacts, options: JudgeOptions, emptied: Flags
) -> Iterator[FaultRows]:
    """Find the broker that receives, and the one that sends, far more than those that could share it, if waves wait.

    Those that can share what a broker receives are the live ones of its rack, and for one that is filled up to the mean
    of its rack the others that are; a broker that is emptied has to send what it has.
    """
    stays, rack = model.live & ~emptied, model.rack.astype(np.int64)
    stored, received = facts.bytes_now, facts.received.sum(axis=0)
    mean = _average_by_group(stored, rack, stays)
    is_filled = (received > 0) & ((stored < mean * _LITTLE) | (stored + received <= mean * _EVEN))
    receives = _measure_copies(facts.received, rack * 2 + is_filled, stays, received > 0)
    sends = _measure_copies(facts.sent, np.zeros_like(rack), stays, stays)
    limit = max(MIN_SECONDS * options.throttle_bytes_per_s, _NOTICEABLE * facts.slowest_bytes.sum(), 1.0)
    for fault, own, other in (
        (PlanFault.SLOW_COPIES_IN, receives, sends),
        (PlanFault.SLOW_COPIES_OUT, sends, receives),
    ):
        now, shared = (np.maximum(one, other.shared).max(axis=1, initial=0.0).sum() for one in (own.load, own.shared))
        if now - shared >= limit:
            load = own.load.sum(axis=0) * own.is_slow
            whole_plan = np.zeros(model.brokers, dtype=np.int64)
            yield FaultRows(fault, *_select_brokers(np.array([load.argmax()]), whole_plan, own.even.sum(axis=0), load))


def _measure_copies(load: Floats, group: Ints, stays: Flags, is_judged: Flags) -> _CopyLoads:
    """Measure who copies far more than the brokers of its group (int64, n) that stay."""
    even = _average_by_group(load, group, stays)
    total, shared = load.sum(axis=0), even.sum(axis=0)
    return _CopyLoads(load, even, is_judged & (shared > 0) & (total >= MIN_RATIO * shared))  # 0: no broker could share


def _average_by_group(load: Floats, group: Ints, stays: Flags) -> Floats:
    """Return for each broker the mean load of those of its group that stay. load: float64 (..., n)."""
    mates = ((group == group[:, None]) & stays).astype(np.float64)
    average: Floats = load @ mates.T / np.maximum(mates.sum(axis=1), 1.0)
    return average


def _find_uneven_leaders(model: ClusterModel, facts: WaveFacts, stays: Flags) -> Iterator[FaultRows]:
    """Find the brokers that lead far more partitions than now. stays: bool (n), those of which the mean is."""
    if not len(facts.partitions):
        return
    mean = facts.leaders.sum(axis=1, keepdims=True) / max(int(stays.sum()), 1)
    ratio = np.where(facts.leaders > np.ceil(mean), facts.leaders / np.maximum(mean, 1e-9), 0.0)
    most, wave = ratio[1:].max(axis=0), ratio[1:].argmax(axis=0)
    uneven = np.flatnonzero(most > max(HOT_SURVIVOR_RATIO, float(ratio[0].max())))
    if len(uneven):
        yield FaultRows(PlanFault.UNEVEN_LEADERS, *_select_brokers(uneven, wave + 1, ratio[0], most))


def _find_full_disks(
    model: ClusterModel, states: PlanStates, facts: WaveFacts, options: JudgeOptions
) -> Iterator[FaultRows]:
    """Find the brokers, and the volumes of those with several, that hold more than they may while waves copy."""
    if not states.waves:
        return
    now, peak = facts.bytes_now, facts.peak_bytes
    limits = [now + (np.nan if room is None else room) for room in (options.disk_free, options.disk_room)]
    for fault, full in zip(OF_DISKS, _find_full(now, peak, *limits), strict=True):
        yield from [FaultRows(fault, *full)] if len(full[0]) else []
    dirs = model.log_dirs
    if dirs is None:
        return
    at = np.flatnonzero(states.log_dir != ANY)
    totals, peak = sum_bytes_by_wave(states, at, dirs.volume[states.log_dir[at]], len(dirs.paths))
    limits = []
    for ratio in (1.0, options.max_disk_ratio):
        room = np.full(len(dirs.paths), np.inf)
        np.minimum.at(room, dirs.volume, dirs.compute_room(ratio))
        room[dirs.only_dir[dirs.broker] != ANY] = np.inf  # the broker itself says it
        limits.append(totals[0] + room)
    for fault, (row, wave, log_dir, limit, most) in zip(OF_LOG_DIRS, _find_full(totals[0], peak, *limits), strict=True):
        if len(row):
            yield FaultRows(fault, row, wave, dirs.broker[log_dir], limit, most, log_dir)


def _find_full(now: Floats, peak: Floats, capacity: Floats, limit: Floats) -> Iterator[_Brokers]:
    """Yield the disks (d) that grow above what they have, and those that grow above a limit, as _select_brokers.

    peak: by wave and disk. The wave is the first of them; NaN = unknown.
    """
    most, grows = peak.max(axis=0), peak.max(axis=0) - now >= 1.0  # of sums of floats, less than a byte is nothing
    overflows = grows & (most > capacity)
    for full, threshold in ((overflows, capacity), (grows & ~overflows & (most > limit), limit)):
        yield _select_brokers(np.flatnonzero(full), (peak > threshold).argmax(axis=0) + 1, threshold, most)


def _select_brokers(brokers: Ints, wave: Ints, before: Floats, after: Floats) -> _Brokers:
    """Return the members of FaultRows for some brokers (int64, k), the worst first. The others are by broker (n)."""
    brokers = brokers[np.argsort(-after[brokers], kind="stable")].astype(np.int64)
    row = np.full(len(brokers), -1, dtype=np.int64)
    return row, wave[brokers].astype(np.int64), brokers, before[brokers], after[brokers]
