"""A plan in waves: which replica lists are set when, so that no broker copies too much at a time.

Between two waves every list is legal: its brokers are distinct, it has no fewer replicas than before or after,
whichever is less, and no more than before or after, whichever is more; and no rack holds more of it than before or
after, whichever is more. The leader stays, and stays first, until the last step of its partition: it is the source
of all copies. Replicas that only go, go with the last step. Dead ones go with the first: no step names them, unless
the plan keeps them. What a partition has before is then what lives of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import any_true, contained, count_true, offsets_of, position_of, row_of, take_segments
from udfs.planning.cluster_model import ClusterModel, Flags, Ints, Places, ProposedAssignment, changed
from udfs.planning.kernels.wave_steps import NOTHING_ADDED, assign_waves, fill_steps

IN, OUT = "in", "out"


@dataclass(frozen=True)
class Limits:
    """What a wave may ask of a broker.

    bytes_in_flight: bytes that it receives and sends together.   moves_per_broker: replicas that it receives.
    throttle_bytes_per_s: at which it copies, each way.
    """

    bytes_in_flight: float = np.inf
    moves_per_broker: int = np.iinfo(np.int64).max
    throttle_bytes_per_s: float = 50e6

    def __post_init__(self) -> None:
        for name in ("bytes_in_flight", "moves_per_broker", "throttle_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be more than 0")
        if not np.isfinite(self.throttle_bytes_per_s):
            raise ValueError(f"throttle_bytes_per_s is {self.throttle_bytes_per_s}, but must be finite")


@dataclass(frozen=True)
class Waves:
    """The steps of a plan, by wave and partition.

    k steps; wave: int32 (k), from 0.   row: int64 (k), the partition.   offsets: int64 (k + 1), replicas: int32, the
    list after the step.   added: int32 (k), the place that copies, -1 = nothing is copied.
    source: int32 (k), the place that it copies from: the leader.
    oversized: int64, partitions larger than the limit of bytes, whose brokers copy nothing else in their waves.
    """

    limits: Limits
    wave: Places
    row: Ints
    offsets: Ints
    replicas: Places
    added: Places
    source: Places
    oversized: Ints

    @property
    def waves(self) -> int:
        """How many waves there are."""
        return int(self.wave.max(initial=-1)) + 1

    @property
    def begins(self) -> Ints:
        """The first step of each wave, and the end of the last: int64 (waves + 1)."""
        begins: Ints = np.searchsorted(self.wave, np.arange(self.waves + 1))
        return begins


@dataclass(frozen=True)
class WaveReport:
    """One wave in numbers. The busiest broker is the one with the most bytes in, or out: it makes the seconds."""

    wave: int  # from 1, as files are numbered
    partitions: int
    replicas_added: int
    bytes_to_copy: int
    busiest_broker: int | None
    busiest_direction: str | None
    busiest_bytes: int
    seconds: float


def to_change(model: ClusterModel, proposal: ProposedAssignment) -> Flags:
    """Which partitions (bool, p) a plan sets: those whose list is neither the model's nor the source's."""
    out = changed(model, proposal.offsets, proposal.replicas)
    if model.as_is is not None:
        out &= changed(model.placed(model.offsets, model.as_is), proposal.offsets, proposal.replicas)
    return out


def leader_of(model: ClusterModel) -> Places:
    """The place that leads each partition: int32 (p); the first replica where nobody says, or it is down."""
    first = model.replicas[model.offsets[:-1]]
    if model.leader is None:
        return first
    known = model.leader >= 0
    one = np.arange(model.partitions + 1)
    holds = contained(model.leader, one, model.replicas, model.offsets)
    known[known] = model.live[model.leader[known]]
    return np.where(known & holds, model.leader, first)


def split(model: ClusterModel, proposal: ProposedAssignment, limits: Limits) -> Waves:
    """The proposal in waves; what is large is first, so that they are few. What copies nothing is in the first.

    Sizes that are not known are 0: of such partitions only the number of moves is limited.
    """
    rows = np.flatnonzero(to_change(model, proposal))
    old, old_offsets = _lists(model.replicas, model.offsets, rows)
    new, new_offsets = _lists(proposal.replicas, proposal.offsets, rows)
    lively = ~any_true(~model.live[new], new_offsets)
    old, old_offsets = _live(model, old, old_offsets, lively)
    adds = count_true(~contained(new, new_offsets, old, old_offsets), new_offsets)
    first = offsets_of(np.maximum(adds, 1))
    of = row_of(first)
    # Lists grow replica by replica, and shrink at their end.
    before, after = np.diff(old_offsets)[of], np.diff(new_offsets)[of]
    sizes = np.maximum(before, np.minimum(after, before + position_of(first) + 1))
    sizes[first[1:] - 1] = np.diff(new_offsets)
    offsets = offsets_of(sizes)
    replicas, added = np.empty(int(offsets[-1]), dtype=np.int32), np.empty(len(of), dtype=np.int32)
    source = leader_of(model)[rows].astype(np.int32)
    lists = (old_offsets, old, new_offsets, new)
    fill_steps(*lists, source, model.live, model.rack, first, offsets, replicas, added)

    size = model.size[rows]
    order = np.lexsort((np.arange(len(rows)), -adds, -size * adds))
    most = (float(limits.bytes_in_flight), limits.moves_per_broker)
    wave = assign_waves(first, added, source, size, order, model.brokers, *most)
    by = np.lexsort((of, wave))
    replicas, offsets = _lists(replicas, offsets, by)
    oversized = rows[(adds > 0) & (size > limits.bytes_in_flight)]
    return Waves(limits, wave[by], rows[of[by]], offsets, replicas, added[by], source[of[by]], oversized)


def _live(model: ClusterModel, flat: Places, offsets: Ints, lively: Flags) -> tuple[Places, Ints]:
    """The lists, those of `lively` (bool) without down brokers, which no step may name: Kafka's tool rejects them."""
    keeps = model.live[flat] | ~lively[row_of(offsets)]
    return flat[keeps], offsets_of(count_true(keeps, offsets))


def _lists(flat: Places, offsets: Ints, rows: Ints) -> tuple[Places, Ints]:
    taken, taken_offsets = take_segments(flat, offsets, rows)
    return taken.astype(np.int32, copy=False), taken_offsets


def reports(model: ClusterModel, waves: Waves) -> list[WaveReport]:
    """Each wave in numbers; bytes and seconds are 0 where no sizes are known."""
    out = []
    for wave, (begin, end) in enumerate(zip(waves.begins[:-1].tolist(), waves.begins[1:].tolist(), strict=True)):
        copies = np.flatnonzero(waves.added[begin:end] != NOTHING_ADDED) + begin
        size = model.size[waves.row[copies]]
        # Those that send are counted apart from those that receive.
        both = np.concatenate([waves.added[copies].astype(np.int64), waves.source[copies] + np.int64(model.brokers)])
        load = np.bincount(both, np.tile(size, 2), 2 * model.brokers)
        most = int(load.argmax())
        busiest, direction = (most % model.brokers, (IN, OUT)[most // model.brokers])
        known = load[most] > 0
        out.append(
            WaveReport(
                wave + 1,
                end - begin,
                len(copies),
                round(float(size.sum())),
                int(model.broker_ids[busiest]) if known else None,
                direction if known else None,
                round(float(load[most])),
                round(float(load[most]) / waves.limits.throttle_bytes_per_s, 1),
            )
        )
    return out
