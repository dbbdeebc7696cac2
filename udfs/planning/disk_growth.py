"""Disk of the brokers that a plan fills: before it, and at most while its waves copy."""

from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import row_of
from udfs.planning.cluster_model import Floats, Ints
from udfs.planning.planned_waves import PlannedWaves
from udfs.planning.wave_health import list_states
from udfs.planning.waves import measure_copy_loads

_LISTED = 3  # brokers
_MIN_SHARE = 0.1  # of the largest growth: less is not worth a line


@dataclass(frozen=True)
class DiskGrowth:
    """Bytes on a broker before a plan, at most during its waves, and after it."""

    broker: int
    before_bytes: int
    peak_bytes: int  # Kafka deletes old replicas only once the new ones are in sync
    after_bytes: int


def find_disk_growth(execution: PlannedWaves) -> tuple[DiskGrowth, ...]:
    """Find the brokers whose disk grows most while a plan copies, the largest growth first; none of unknown sizes."""
    model = execution.model
    if not model.known[0] or not execution.waves.waves:
        return ()
    totals = _sum_by_wave(execution)
    before, after = totals[0], totals[1:]
    peak = (totals[:-1] + measure_copy_loads(model, execution.waves).received).max(axis=0)
    growth = peak - before
    order = np.argsort(-growth, kind="stable")[:_LISTED]
    order = order[(growth[order] > 0.0) & (growth[order] >= _MIN_SHARE * growth.max())]
    return tuple(
        DiskGrowth(int(model.broker_ids[b]), round(before[b]), round(peak[b]), round(after[-1, b]))
        for b in order.tolist()
    )


def _sum_by_wave(execution: PlannedWaves) -> Floats:
    """Sum the bytes that each broker holds now and after each wave: float64 (waves + 1, n)."""
    model, states = execution.model, list_states(execution.model, execution.waves)
    state = row_of(states.offsets)
    size = model.measure_bytes(states.row[state], states.replicas)

    def sum_bytes(wave: Ints) -> Floats:
        cells = wave[state] * model.brokers + states.replicas
        loads = np.bincount(cells, size, (states.waves + 2) * model.brokers)
        return np.asarray(loads, dtype=np.float64).reshape(-1, model.brokers)

    totals: Floats = np.cumsum(sum_bytes(states.begin) - sum_bytes(states.end), axis=0)[:-1]
    return totals
