"""Disk of the brokers that a plan fills: before it, and at most while its waves copy."""

from dataclasses import dataclass

import numpy as np

from udfs.planning.cluster_model import Floats, Int32s, Ints
from udfs.planning.plan_states import PlanStates, find_plan_states
from udfs.planning.planned_waves import PlannedWaves

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
