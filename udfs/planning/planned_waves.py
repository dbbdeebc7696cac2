"""The waves that a plan is carried out in, and what is known of each: copies, load, the state before and after it."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from udfs.arrow.ragged import any_true, count_true, find_in_segment, is_in_segment, row_of, take_segments
from udfs.failures.partition_health import is_under_replicated
from udfs.planning.broker_log_dirs import ANY
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Int32s, Ints, ProposedAssignment
from udfs.planning.elections import NO_LEADER, PreferredElections, elect_preferred_leaders, find_in_sync_replicas
from udfs.planning.kernels.log_dir_search import assign_first_waves
from udfs.planning.kernels.wave_steps import NOTHING_ADDED
from udfs.planning.log_dir_balance import find_dir_moves
from udfs.planning.plan_states import PlanStates, find_plan_states
from udfs.planning.waves import WaveLimits, WaveReport, Waves, report_loads, report_waves, split_into_waves

_LOG_DIRS = "log dirs"  # direction of a wave's busiest broker


@dataclass(frozen=True)
class PlannedWaves:
    """A proposed assignment for a cluster model, the waves that execute it, and the elections after them."""

    model: ClusterModel
    proposal: ProposedAssignment
    waves: Waves
    wave_reports: tuple[WaveReport, ...]
    elections: PreferredElections

    @property
    def seconds(self) -> float:
        """Return the estimated duration of all copies; 0 where no sizes are known."""
        return round(sum(report.seconds for report in self.wave_reports), 1)

    @property
    def bytes_to_copy(self) -> int:
        """Return the bytes of all copies; 0 where no sizes are known."""
        return sum(report.bytes_to_copy for report in self.wave_reports)


def plan_waves(
    model: ClusterModel, proposal: ProposedAssignment, limits: WaveLimits, *, elects_all: bool = False
) -> PlannedWaves:
    """Split a proposal into waves, and find the elections after them. elects_all: as in elect_preferred_leaders."""
    if len(find_dir_moves(model, proposal)):
        waves = _split_dir_moves(model, proposal, limits)
        reports = tuple(_report_dir_moves(model, proposal, waves))
    else:
        waves = split_into_waves(model, proposal, limits)
        reports = tuple(report_waves(model, waves))
    elections = elect_preferred_leaders(model, proposal, elects_all=elects_all)
    return PlannedWaves(model, proposal, _choose_log_dirs(proposal, waves), reports, elections)


def _choose_log_dirs(proposal: ProposedAssignment, waves: Waves) -> Waves:
    """Return waves whose steps put replicas into the log dirs that a proposal chooses for them."""
    if proposal.log_dirs is None:
        return waves
    planned, offsets = take_segments(proposal.replicas, proposal.offsets, waves.row)
    chosen = np.append(take_segments(proposal.log_dirs, proposal.offsets, waves.row)[0], np.int32(ANY))
    place = find_in_segment(waves.replicas, waves.offsets, planned, offsets)
    at = np.where(place >= 0, offsets[row_of(waves.offsets)] + place, ANY)
    return replace(waves, log_dirs=chosen[at])


def _split_dir_moves(model: ClusterModel, proposal: ProposedAssignment, limits: WaveLimits) -> Waves:
    """Split moves between log dirs into waves: of each partition in one step, those of most bytes first.

    Each is in the first wave in which the limits allow it on all of its brokers, by what is moved there.
    """
    assert model.log_dirs is not None
    moves = find_dir_moves(model, proposal)
    row, size = model.row[moves], model.log_dirs.size[moves]
    rows, step = np.unique(row, return_inverse=True)
    total = np.bincount(step, size, len(rows))
    rank = np.empty(len(rows), dtype=np.int64)
    rank[np.argsort(-total, kind="stable")] = np.arange(len(rows))
    order = np.argsort(rank[step], kind="stable")
    wave_of_rank = np.zeros(len(rows), dtype=np.int64)
    brokers = model.replicas[moves[order]].astype(np.int64)
    most = (float(limits.bytes_in_flight), int(limits.moves_per_broker))
    assign_first_waves(rank[step][order], brokers, size[order], *most, wave_of_rank)
    wave = wave_of_rank[rank]
    by_wave = np.lexsort((rows, wave))
    replicas, offsets = take_segments(model.replicas, model.offsets, rows[by_wave])
    nothing = np.full(len(rows), NOTHING_ADDED, dtype=np.int32)
    source = model.current_leaders[rows[by_wave]].astype(np.int32)
    deferral = np.zeros(len(rows), dtype=np.int32)
    oversized = np.unique(row[size > limits.bytes_in_flight])
    steps = (wave[by_wave].astype(np.int32), rows[by_wave], offsets, replicas)
    return Waves(limits, *steps, nothing, source, deferral, nothing.copy(), oversized)


def _report_dir_moves(model: ClusterModel, proposal: ProposedAssignment, waves: Waves) -> list[WaveReport]:
    """Report each wave in numbers: the bytes that are moved between log dirs, and the broker that moves most."""
    assert model.log_dirs is not None
    moves = find_dir_moves(model, proposal)
    wave_of_row = np.zeros(model.partitions, dtype=np.int64)
    wave_of_row[waves.row] = waves.wave
    cells = wave_of_row[model.row[moves]] * model.brokers + model.replicas[moves]
    loads = np.bincount(cells, model.log_dirs.size[moves], waves.waves * model.brokers)
    by_wave = np.asarray(loads, dtype=np.float64).reshape(waves.waves, model.brokers)
    return report_loads(model, waves, {_LOG_DIRS: by_wave})


# What partitions lack in in-sync replicas while the waves of a plan repair them, and which brokers can restart when.
# Topics whose problems do not count are left out.
NEVER = -1  # instead of a wave


class WaveHealth(NamedTuple):
    """How many partitions lack in-sync replicas now, and after each of w waves; n brokers.

    Those that are offline count as under-replicated, as kafka-topics lists them, and not as anything else.
    """

    under_replicated: Ints  # int64 (w + 1), with several replicas, of which one is not in sync
    under_min_isr: Ints  # int64 (w + 1), with fewer replicas in sync than min.insync.replicas
    at_min_isr: Ints  # int64 (w + 1), with several replicas, and as many in sync as min.insync.replicas
    one_in_sync: Ints  # int64 (w + 1), with several replicas, of which one is in sync
    # int64 (w + 1, n), with several replicas, below min.insync.replicas or offline if this broker restarts
    blocked_by_restart: Ints
    incomplete_at_end: Ints  # int64 (n), of these after the last wave, those that are under-replicated

    def find_restart_waves(self) -> Ints:
        """Find the waves after which brokers can restart for good: int64 (n), 0 = now, NEVER = not after the last.

        Until then, the restart of the broker leaves a partition without enough replicas in sync.
        """
        is_blocking = self.blocked_by_restart > 0
        last_blocking = len(is_blocking) - 1 - is_blocking[::-1].argmax(axis=0)
        first = np.where(is_blocking.any(axis=0), last_blocking + 1, 0)
        return np.where(first < len(is_blocking), first, NEVER)


class StateHealth(NamedTuple):
    """Which of the k states of partitions lack in-sync replicas: each bool (k)."""

    under_replicated: Flags
    under_min_isr: Flags
    at_min_isr: Flags
    one_in_sync: Flags

    @property
    def is_critical(self) -> Flags:
        """Return whether the failure of any in-sync replica makes the partition worse: bool (p)."""
        return self.at_min_isr | self.one_in_sync


def find_lagging_brokers(model: ClusterModel) -> Ints:
    """Find the live brokers (int64) with a replica that is not in sync, but may catch up, of partitions that count."""
    lags = _find_caught_up(model) & ~find_in_sync_replicas(model, model) & model.counted[model.row]
    lags &= True if model.adding is None else ~model.adding
    brokers: Ints = np.unique(model.replicas[lags]).astype(np.int64)
    return brokers


def measure_wave_health(execution: PlannedWaves, *, catch_up: bool = False) -> WaveHealth:
    """Count the partitions that lack in-sync replicas now and after each wave.

    catch_up: as if all replicas on live brokers were in sync now, but for those in failed log dirs and those of
        offline partitions.
    """
    model, waves = execution.model, execution.waves
    model = replace(model, in_sync=_find_caught_up(model)) if catch_up else model
    states = find_plan_states(model, waves)
    counts = find_state_health(model, states)
    blocked = count_needing_broker(states, counts.is_critical, model.brokers)
    incomplete = count_needing_broker(states, counts.is_critical & counts.under_replicated, model.brokers)[-1]
    return WaveHealth(
        under_replicated=states.count(counts.under_replicated),
        under_min_isr=states.count(counts.under_min_isr),
        at_min_isr=states.count(counts.at_min_isr),
        one_in_sync=states.count(counts.one_in_sync),
        blocked_by_restart=blocked,
        incomplete_at_end=incomplete,
    )


def count_needing_broker(states: PlanStates, selected: Flags, brokers: int) -> Ints:
    """Count the selected states (bool, k) that need the replica on each broker: int64 (w + 1, n)."""
    needs = np.flatnonzero(selected[states.state] & states.in_sync)
    return states.sum_by_broker(states.state[needs], states.replicas[needs].astype(np.int64), brokers).astype(np.int64)


def _find_caught_up(model: ClusterModel) -> Flags:
    """Find the usable replicas (bool, r) of partitions with one in sync: the others have nothing to copy from."""
    is_online = count_true(find_in_sync_replicas(model, model), model.offsets) > 0
    caught_up: Flags = model.is_usable & is_online[model.row]
    return caught_up


def find_state_health(model: ClusterModel, states: PlanStates) -> StateHealth:
    """Find which states of partitions whose problems count lack in-sync replicas."""
    in_sync, factor = count_true(states.in_sync, states.offsets), np.diff(states.offsets)
    is_online = model.counted[states.row] & (in_sync > 0)
    min_isr = model.find_min_isr(states.row, factor)
    # Replicas that a running reassignment adds are not missed: Kafka's replication factor is without them.
    added = (
        np.zeros(model.partitions, dtype=np.int64) if model.adding is None else count_true(model.adding, model.offsets)
    )
    return StateHealth(
        under_replicated=model.counted[states.row] & is_under_replicated(in_sync, factor - added[states.row]),
        under_min_isr=is_online & (in_sync < min_isr),
        at_min_isr=is_online & (in_sync == min_isr) & (factor > 1),
        one_in_sync=is_online & (in_sync == 1) & (factor > 1),
    )


_LISTED = 3  # brokers
_MIN_SHARE = 0.1  # of the largest growth: less is not worth a line


@dataclass(frozen=True)
class DiskGrowth:
    """Bytes on a broker before a plan, at most during its waves, and after it."""

    broker: int
    before_bytes: int
    peak_bytes: int  # Kafka deletes old replicas only once the new ones are in sync
    after_bytes: int
    room_bytes: int | None  # by which it may grow; None = unknown


def find_disk_growth(execution: PlannedWaves, room: Floats) -> tuple[DiskGrowth, ...]:
    """Find the brokers whose disk grows most while a plan copies, the largest growth first; none of unknown sizes.

    room: by how many bytes the logs of each broker may grow, NaN = unknown.
    """
    model = execution.model
    if not model.known[0] or not execution.waves.waves:
        return ()
    before, peak, after = measure_disk(execution)
    growth = peak - before
    order = np.argsort(-growth, kind="stable")[:_LISTED]
    order = order[(growth[order] > 0.0) & (growth[order] >= _MIN_SHARE * growth.max())]
    ids, rooms = model.broker_ids.tolist(), [None if np.isnan(one) else round(one) for one in room.tolist()]
    return tuple(
        DiskGrowth(ids[b], round(before[b]), round(peak[b]), round(after[b]), rooms[b]) for b in order.tolist()
    )


def measure_disk(execution: PlannedWaves) -> tuple[Floats, Floats, Floats]:
    """Measure the bytes on each broker before a plan, at most during its waves, and after it: each float64 (n)."""
    model = execution.model
    states = find_plan_states(model, execution.waves)
    totals, peaks = sum_bytes_by_wave(states, np.arange(len(states.replicas)), states.replicas, model.brokers)
    return totals[0], np.concatenate([totals[:1], peaks]).max(axis=0), totals[-1]


def sum_bytes_by_wave(states: PlanStates, at: Ints, disk: Ints | Int32s, disks: int) -> tuple[Floats, Floats]:
    """Sum the bytes of replicas (int64, k, indices) by the disk (k) that each is on: a broker, or a volume.

    Returns: what is on each disk now and after each wave, float64 (waves + 1, disks), and at most during each wave,
    float64 (waves, disks): what a step drops is deleted at its end.
    """
    state = states.state[at]
    totals = states.sum_by_broker(state, disk, disks, states.size[at])
    is_step = states.begin[state] > 0
    cells = (states.begin[state[is_step]] - 1) * disks + disk[is_step]
    written = np.bincount(cells, states.written[at][is_step], states.waves * disks).reshape(-1, disks)
    peaks: Floats = totals[:-1] + written
    return totals, peaks


@dataclass(frozen=True)
class WaveFacts:
    """What happens in each of w waves, and the state after it; the first of w + 1 is the state now. n brokers."""

    partitions: Ints  # int64 (w)
    copies: Ints  # int64 (w), replicas
    received: Floats  # float64 (w, n), bytes
    sent: Floats  # float64 (w, n), bytes
    bytes_now: Floats  # float64 (n), that a broker holds
    peak_bytes: Floats  # float64 (w, n), that a broker holds at most during the wave
    leaders: Ints  # int64 (w + 1, n)
    under_replicated: Ints  # int64 (w + 1), partitions
    under_min_isr: Ints  # int64 (w + 1)
    one_in_sync: Ints  # int64 (w + 1)
    blocked_by_broker: (
        Ints  # int64 (w + 1), partitions that acks=all or everyone cannot write if the worst broker fails
    )
    rollback_copies: Ints  # int64 (w + 1), replicas to copy back if the plan is rolled back after the wave
    rollback_bytes: Floats  # float64 (w + 1)

    @property
    def slowest_broker(self) -> Ints:
        """The broker that copies most bytes in or out in each wave: int64 (w)."""
        slowest: Ints = np.maximum(self.received, self.sent).argmax(axis=1)
        return slowest

    @property
    def slowest_bytes(self) -> Floats:
        """The bytes of that broker: float64 (w)."""
        slowest: Floats = np.maximum(self.received, self.sent).max(axis=1, initial=0.0)
        return slowest


def measure_wave_facts(model: ClusterModel, states: PlanStates) -> WaveFacts:
    """Measure what happens in each wave, and the state after it."""
    n, w, state = model.brokers, states.waves, states.state
    health = find_state_health(model, states)
    copies = np.flatnonzero(states.copied)
    source = states.leader[states.previous[state[copies]]]
    size = states.written[copies]
    wave = states.begin[state[copies]] - 1

    def sum_bytes(broker: Ints) -> Floats:
        known = broker != NO_LEADER
        sums = np.bincount(wave[known] * n + broker[known], size[known], w * n)
        return np.asarray(sums, dtype=np.float64).reshape(w, n)

    received, sent = sum_bytes(states.replicas[copies].astype(np.int64)), sum_bytes(source)
    totals, peaks = sum_bytes_by_wave(states, np.arange(len(states.replicas)), states.replicas, n)
    led = np.flatnonzero(states.leader != NO_LEADER)
    missing, bytes_back = _measure_rollback(model, states)
    return WaveFacts(
        partitions=np.bincount(states.begin[model.partitions :] - 1, minlength=w).astype(np.int64),
        copies=np.bincount(wave, minlength=w).astype(np.int64),
        received=received,
        sent=sent,
        bytes_now=totals[0],
        peak_bytes=peaks,
        leaders=states.sum_by_broker(led, states.leader[led], n).astype(np.int64),
        under_replicated=states.count(health.under_replicated),
        under_min_isr=states.count(health.under_min_isr),
        one_in_sync=states.count(health.one_in_sync),
        blocked_by_broker=count_needing_broker(states, health.is_critical, n).max(axis=1, initial=0),
        rollback_copies=missing,
        rollback_bytes=bytes_back,
    )


def _measure_rollback(model: ClusterModel, states: PlanStates) -> tuple[Ints, Floats]:
    """Measure what a rollback copies, to the lists before the plan: replicas and bytes after each wave.

    Lists with a broker that is down or a failed log dir do not come back.
    """
    replicas, offsets = model.rollback_lists or (model.replicas, model.offsets)
    earlier = take_segments(replicas, offsets, states.row)
    missing = np.diff(earlier[1]) - count_true(is_in_segment(states.replicas, states.offsets, *earlier), states.offsets)
    is_lost = any_true(~model.live[replicas], offsets) | any_true(~model.is_usable, model.offsets)
    missing *= ~is_lost[states.row]
    weights = missing.astype(np.float64), missing * model.size[states.row]
    zero = np.zeros(len(states.row), dtype=np.int64)
    every = np.arange(len(states.row))
    copies, bytes_ = (states.sum_by_broker(every, zero, 1, weight)[:, 0] for weight in weights)
    return copies.astype(np.int64), bytes_
