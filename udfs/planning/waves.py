"""Waves of a plan: which replica lists are set when, so that no broker copies too much at a time.

Every list between two waves is legal. Its brokers are distinct; it has at least as many replicas as the shorter of the
lists before and after, at most as many as the longer; no rack holds more of it than before or after, whichever is more.
The leader stays first until the last step of its partition: it is the source of all copies. Replicas that are only
removed go with the last step. Down replicas go with the first, as Kafka's tool rejects files that name a down broker,
unless the plan keeps them: before the plan, a partition has its live replicas.
"""

from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import any_true, count_true, is_in_segment, offsets_of, position_of, row_of, take_segments
from udfs.planning.cluster_model import ClusterModel, Flags, Int32s, Ints, ProposedAssignment
from udfs.planning.kernels.array_types import ListChanges
from udfs.planning.kernels.wave_steps import NOTHING_ADDED, BrokerPlaces, Steps, WaveCapacity, assign_waves, fill_steps

IN, OUT = "in", "out"


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
    oversized: Ints  # int64, partitions larger than the limit of bytes, whose brokers copy nothing else in their waves

    @property
    def waves(self) -> int:
        """Return the number of waves."""
        return int(self.wave.max(initial=-1)) + 1

    @property
    def begins(self) -> Ints:
        """Return the first step of each wave, and the end of the last: int64 (waves + 1)."""
        begins: Ints = np.searchsorted(self.wave, np.arange(self.waves + 1))
        return begins


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


def find_reassigned_partitions(model: ClusterModel, proposal: ProposedAssignment) -> Flags:
    """Find the partitions (bool, p) that a plan sets: their list is neither the model's nor the source's."""
    reassigned = model.find_changed(proposal)
    if model.source_replicas is not None:
        in_source = model.with_lists(model.offsets, model.source_replicas)
        reassigned &= in_source.find_changed(proposal)
    return reassigned


def split_into_waves(model: ClusterModel, proposal: ProposedAssignment, limits: WaveLimits) -> Waves:
    """Split a proposal into few waves, large partitions first. Of unknown sizes, only moves are limited."""
    rows = np.flatnonzero(find_reassigned_partitions(model, proposal))
    old, old_offsets = _take_lists(model.replicas, model.offsets, rows)
    new, new_offsets = _take_lists(proposal.replicas, proposal.offsets, rows)
    # No step may name a down broker, unless the plan keeps it.
    keeps_down = any_true(~model.live[new], new_offsets)
    keep = model.live[old] | keeps_down[row_of(old_offsets)]
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
    fill_steps(ListChanges(old_offsets, old, new_offsets, new), BrokerPlaces(model.live, model.rack), steps)

    size = model.size[rows]
    order = np.lexsort((np.arange(len(rows)), -adds, -size * adds))
    capacity = WaveCapacity(float(limits.bytes_in_flight), limits.moves_per_broker)
    wave = assign_waves(steps, size, order, model.brokers, capacity)
    by_wave = np.lexsort((step_row, wave))
    replicas, offsets = _take_lists(replicas, offsets, by_wave)
    oversized = rows[(adds > 0) & (size > limits.bytes_in_flight)]
    step_row = step_row[by_wave]
    return Waves(limits, wave[by_wave], rows[step_row], offsets, replicas, added[by_wave], source[step_row], oversized)


def _take_lists(flat: Int32s, offsets: Ints, rows: Ints) -> tuple[Int32s, Ints]:
    used, taken_offsets = take_segments(flat, offsets, rows)
    return used.astype(np.int32, copy=False), taken_offsets


def report_waves(model: ClusterModel, waves: Waves) -> list[WaveReport]:
    """Report each wave in numbers; bytes and seconds are 0 where no sizes are known."""
    reports = []
    for wave, (begin, end) in enumerate(zip(waves.begins[:-1].tolist(), waves.begins[1:].tolist(), strict=True)):
        copies = np.flatnonzero(waves.added[begin:end] != NOTHING_ADDED) + begin
        size = model.size[waves.row[copies]]
        # Brokers that send are counted apart from those that receive.
        ends = np.concatenate([waves.added[copies].astype(np.int64), waves.source[copies] + np.int64(model.brokers)])
        load = np.bincount(ends, np.tile(size, 2), 2 * model.brokers)
        most, bytes_to_copy = int(load.argmax()), round(float(size.sum()))
        largest, direction = float(load[most]), (IN, OUT)[most // model.brokers]
        busiest = (int(model.broker_ids[most % model.brokers]), direction) if largest > 0 else (None, None)
        seconds = round(largest / waves.limits.throttle_bytes_per_s, 1)
        counts = (wave + 1, end - begin, len(copies), bytes_to_copy)
        reports.append(WaveReport(*counts, busiest[0], busiest[1], round(largest), seconds))
    return reports
