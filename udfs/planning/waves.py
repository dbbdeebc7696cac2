"""Waves of a plan: which replica lists are set when, so that no broker copies too much at a time.

Every list between two waves is legal. Its brokers are distinct; it has at least as many replicas as the shorter of the
lists before and after, at most as many as the longer; no rack holds more of it than before or after, whichever is more.
The leader stays first until the last step of its partition: it is the source of all copies. Replicas that are only
removed go with the last step. Down replicas go with the first, as Kafka's tool rejects files that name a down broker,
unless the plan keeps them: before the plan, a partition has its live replicas.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from udfs.arrow.ragged import any_true, count_true, is_in_segment, offsets_of, position_of, row_of, take_segments
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Int32s, Ints, ProposedAssignment
from udfs.planning.constraints import find_rejected_brokers
from udfs.planning.kernels.array_types import ListChanges
from udfs.planning.kernels.wave_steps import (
    BY_BYTES,
    BY_MOVES,
    BY_ORDER,
    BY_SIZE,
    NOTHING_ADDED,
    Steps,
    StepWaves,
    WaveCapacity,
    assign_waves,
    fill_steps,
)
from udfs.planning.log_dir_balance import find_dir_moves

IN, OUT = "in", "out"
_NOT_URGENT = np.iinfo(np.int64).max
_MOST_TIME_OF_SMALL_FIRST = 1.05  # of the time that large partitions first take


@dataclass(frozen=True)
class WaveLimits:
    """What a wave may demand of a broker."""

    bytes_in_flight: float = np.inf  # Bytes that a broker receives and sends together
    moves_per_broker: int = np.iinfo(np.int64).max  # Replicas that a broker receives
    throttle_bytes_per_s: float = 50e6  # Bytes per second that a broker copies, each way

    def __post_init__(self) -> None:
        """Check that all limits are positive, and the throttle finite."""
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} is {value}, but must be more than 0")
        if not np.isfinite(self.throttle_bytes_per_s):
            raise ValueError(f"throttle_bytes_per_s is {self.throttle_bytes_per_s}, but must be finite")


@dataclass(frozen=True)
class Waves:
    """The k steps of a plan, by wave and partition."""

    limits: WaveLimits  # Limits of a wave
    wave: Int32s  # int32 (k), from 0
    row: Ints  # int64 (k), the partition
    offsets: Ints  # int64 (k + 1), range of each step in `replicas`
    replicas: Int32s  # int32, the list after the step
    added: Int32s  # int32 (k), the broker that copies, NOTHING_ADDED = none
    source: Int32s  # int32 (k), the broker that it copies from: the leader
    deferral: Int32s  # int32 (k), the limit that kept the step out of the wave before, as in StepWaves
    deferring_broker: Int32s  # int32 (k), the broker that had no room for it there, or NOTHING_ADDED
    oversized: Ints  # int64, partitions larger than the limit of bytes, whose brokers copy nothing else in their waves
    log_dirs: Int32s | None = None  # int32, the log dir of each replica after the plan, as in ProposedAssignment

    @property
    def waves(self) -> int:
        """Return the number of waves."""
        return int(self.wave.max(initial=-1)) + 1

    @property
    def begins(self) -> Ints:
        """Return the first step of each wave, and the end of the last: int64 (waves + 1)."""
        begins: Ints = np.searchsorted(self.wave, np.arange(self.waves + 1))
        return begins


class _PartitionSteps(NamedTuple):
    """The steps of m partitions."""

    rows: Ints  # int64 (m), the partitions
    adds: Ints  # int64 (m), how many replicas each gets
    steps: Steps


class WaveLimit(StrEnum):
    """What closes a wave: the settings that limit it, or what copies need."""

    BYTES = "wave_bytes_per_broker"
    MOVES = "wave_moves_per_broker"
    ORDER = "one_replica_at_a_time"
    SIZE = "larger_than_wave_bytes_per_broker"


_LIMITS = {BY_BYTES: WaveLimit.BYTES, BY_MOVES: WaveLimit.MOVES, BY_ORDER: WaveLimit.ORDER, BY_SIZE: WaveLimit.SIZE}


@dataclass(frozen=True)
class WaveClosure:
    """A limit that closed a wave: it kept copies out that are in the next one."""

    limit: WaveLimit
    copies: int  # of the next wave
    brokers: int  # that had no room for them; 0 where the limit is not of a broker
    broker: int | None  # the one of these that had no room for most of the copies


@dataclass(frozen=True)
class WaveReport:
    """One wave in numbers. The busiest broker has the most bytes in, or out, and so determines the seconds."""

    wave: int  # from 1, as in the names of files
    partitions: int
    replicas_added: int
    bytes_to_copy: int
    busiest_broker: int | None
    busiest_direction: str | None
    busiest_bytes: int
    seconds: float
    closed_by: tuple[WaveClosure, ...]  # The limit of most copies first; empty for the last wave


@dataclass(frozen=True)
class CopyLoads:
    """Bytes that each broker copies in each wave."""

    received: Floats  # float64 (waves, n)
    sent: Floats  # float64 (waves, n)

    def get(self, direction: str) -> Floats:
        """Return the bytes of a direction: float64 (waves, n)."""
        return self.received if direction == IN else self.sent

    def estimate_seconds(self, receive_rate: Floats, send_rate: Floats) -> float:
        """Estimate the duration of all waves one after the other. Rates: float64 (n), bytes per second."""
        slowest = np.maximum((self.received / receive_rate).max(axis=1), (self.sent / send_rate).max(axis=1))
        return float(slowest.sum())


def measure_copy_loads(model: ClusterModel, waves: Waves) -> CopyLoads:
    """Sum the bytes of each broker and wave."""
    n, copies = model.brokers, np.flatnonzero(waves.added != NOTHING_ADDED)
    size = model.size[waves.row[copies]]

    def sum_bytes(broker: Ints) -> Floats:
        loads = np.bincount(waves.wave[copies].astype(np.int64) * n + broker, size, waves.waves * n)
        return np.asarray(loads, dtype=np.float64).reshape(waves.waves, n)

    ends = (waves.added[copies].astype(np.int64), waves.source[copies].astype(np.int64))
    return CopyLoads(*map(sum_bytes, ends))


def find_reassigned_partitions(model: ClusterModel, proposal: ProposedAssignment) -> Flags:
    """Find the partitions (bool, p) that a plan sets: their list is new, or a replica moves to another log dir.

    A list is new if it is neither the model's nor the source's.
    """
    reassigned = model.find_changed(proposal)
    if model.source_replicas is not None:
        in_source = model.with_lists(model.offsets, model.source_replicas)
        reassigned &= in_source.find_changed(proposal)
    reassigned[model.row[find_dir_moves(model, proposal)]] = True
    return reassigned


def split_into_waves(model: ClusterModel, proposal: ProposedAssignment, limits: WaveLimits) -> Waves:
    """Split a proposal into few waves. Of unknown sizes, only moves are limited.

    Partitions that have lost in-sync replicas go first, those with the fewest left before others. Equally urgent ones
    go small first, so that many are safe soon, unless all copies then take over 5 % longer. Others go large first.
    """
    steps = _list_steps(model, proposal)
    # The most urgent have the lowest: the in-sync replicas where some are lost. Without any, no copy can start.
    left = count_true(model.is_in_sync, model.offsets)
    urgency = np.where((left > 0) & (left < model.factor), left, _NOT_URGENT)[steps.rows]
    size = model.size[steps.rows]
    is_urgent = urgency < _NOT_URGENT
    large_first = _fill_waves(model, steps, limits, urgency, size)
    if not size[is_urgent].any():  # of unknown sizes, both orders are the same
        return large_first
    small_first = _fill_waves(model, steps, limits, urgency, np.where(is_urgent, -size, size))
    rates = np.full(model.brokers, limits.throttle_bytes_per_s)
    small_s, large_s = (
        measure_copy_loads(model, waves).estimate_seconds(rates, rates) for waves in (small_first, large_first)
    )
    return small_first if small_s <= _MOST_TIME_OF_SMALL_FIRST * large_s else large_first


def _list_steps(model: ClusterModel, proposal: ProposedAssignment) -> _PartitionSteps:
    """List the steps of the partitions that a proposal sets."""
    rows = np.flatnonzero(find_reassigned_partitions(model, proposal))
    old, old_offsets = take_segments(model.replicas, model.offsets, rows)
    new, new_offsets = take_segments(proposal.replicas, proposal.offsets, rows)
    # No step names a down broker, a replica in a failed log dir, or one that Kafka rejects, unless the plan keeps it.
    is_usable, is_in_sync = (
        take_segments(flags, model.offsets, rows)[0] for flags in (model.is_usable, model.is_in_sync)
    )
    keeps_lost = any_true(~is_usable & is_in_segment(old, old_offsets, new, new_offsets), old_offsets)
    is_rejected = find_rejected_brokers(model)[old] & ~is_in_segment(old, old_offsets, new, new_offsets)
    keep = (is_usable | keeps_lost[row_of(old_offsets)]) & ~is_rejected
    in_sync = is_in_sync[keep]
    old, old_offsets = old[keep], offsets_of(count_true(keep, old_offsets))
    adds = count_true(~is_in_segment(new, new_offsets, old, old_offsets), new_offsets)
    first = offsets_of(np.maximum(adds, 1))
    step_row = row_of(first)
    # Lists grow replica by replica, and shrink at their end.
    before, after = np.diff(old_offsets)[step_row], np.diff(new_offsets)[step_row]
    sizes = np.maximum(before, np.minimum(after, before + position_of(first) + 1))
    sizes[first[1:] - 1] = np.diff(new_offsets)
    offsets = offsets_of(sizes)
    replicas, added = np.empty(int(offsets[-1]), dtype=np.int32), np.empty(len(step_row), dtype=np.int32)
    source = model.current_leaders[rows].astype(np.int32)
    steps = Steps(first, source, added, offsets, replicas)
    fill_steps(ListChanges(old_offsets, old, new_offsets, new), in_sync, model.rack, steps)
    return _PartitionSteps(rows, adds, steps)


def _fill_waves(
    model: ClusterModel, partitions: _PartitionSteps, limits: WaveLimits, urgency: Ints, preference: Floats
) -> Waves:
    """Fill waves with steps: of the most urgent partitions (m) first, then of those with the highest preference (m)."""
    rows, adds, steps = partitions
    size, step_row = model.size[rows], row_of(steps.first)
    order = np.lexsort((np.arange(len(rows)), -adds, -preference * adds, urgency))
    capacity = WaveCapacity(float(limits.bytes_in_flight), limits.moves_per_broker)
    count = len(step_row)
    zeros = (np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.int32))
    step_waves = StepWaves(*zeros, np.full(count, NOTHING_ADDED, dtype=np.int32))
    assign_waves(steps, size, order, model.brokers, capacity, step_waves)
    by_wave = np.lexsort((step_row, step_waves.wave))
    replicas, offsets = take_segments(steps.replicas, steps.offsets, by_wave)
    oversized = rows[(adds > 0) & (size > limits.bytes_in_flight)]
    step_row = step_row[by_wave]
    wave, deferral, deferring_broker = (values[by_wave] for values in step_waves)
    copies = (steps.added[by_wave], steps.source[step_row], deferral, deferring_broker)
    return Waves(limits, wave, rows[step_row], offsets, replicas, *copies, oversized)


def report_waves(model: ClusterModel, waves: Waves) -> list[WaveReport]:
    """Report each wave in numbers; bytes and seconds are 0 where no sizes are known."""
    loads = measure_copy_loads(model, waves)
    return report_loads(model, waves, {IN: loads.received, OUT: loads.sent})


def report_loads(model: ClusterModel, waves: Waves, loads: Mapping[str, Floats]) -> list[WaveReport]:
    """Report each wave in numbers. loads: float64 (waves, n), bytes by direction, in each of which all are counted."""
    reports, begins = [], waves.begins.tolist()
    for wave, (begin, end) in enumerate(pairwise(begins)):
        load = np.stack([of_waves[wave] for of_waves in loads.values()])
        direction, broker = np.unravel_index(int(load.argmax()), load.shape)
        largest = float(load[direction, broker])
        busiest = (int(model.broker_ids[broker]), list(loads)[direction]) if largest > 0 else (None, None)
        seconds = round(largest / waves.limits.throttle_bytes_per_s, 1)
        copies = int((waves.added[begin:end] != NOTHING_ADDED).sum())
        counts = (wave + 1, end - begin, copies, round(float(load[0].sum())))
        closures = _find_closures(model, waves, *begins[wave + 1 : wave + 3]) if end < begins[-1] else ()
        reports.append(WaveReport(*counts, busiest[0], busiest[1], round(largest), seconds, closures))
    return reports


def _find_closures(model: ClusterModel, waves: Waves, begin: int, end: int) -> tuple[WaveClosure, ...]:
    """Find the limits that kept the steps of a wave, `begin` to `end`, out of the one before it."""
    closures = []
    for code, limit in _LIMITS.items():
        broker = waves.deferring_broker[begin:end][waves.deferral[begin:end] == code]
        if not len(broker):
            continue
        brokers, times = np.unique(broker[broker != NOTHING_ADDED], return_counts=True)
        fullest = int(model.broker_ids[brokers[times.argmax()]]) if len(brokers) else None
        closures.append(WaveClosure(limit, len(broker), len(brokers), fullest))
    return tuple(sorted(closures, key=lambda closure: -closure.copies))
