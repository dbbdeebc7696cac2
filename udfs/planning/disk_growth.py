"""Disk of the brokers that a plan fills: before it, and at most while its waves copy."""

from dataclasses import dataclass

import numpy as np

from udfs.planning.cluster_model import ClusterModel, Floats
from udfs.planning.plan_states import PlanStates, find_plan_states
from udfs.planning.planned_waves import PlannedWaves
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
    before, peak, after = measure_disk(execution)
    growth = peak - before
    order = np.argsort(-growth, kind="stable")[:_LISTED]
    order = order[(growth[order] > 0.0) & (growth[order] >= _MIN_SHARE * growth.max())]
    return tuple(
        DiskGrowth(int(model.broker_ids[b]), round(before[b]), round(peak[b]), round(after[b])) for b in order.tolist()
    )


def measure_disk(execution: PlannedWaves) -> tuple[Floats, Floats, Floats]:
    """Measure the bytes on each broker before a plan, at most during its waves, and after it: each float64 (n)."""
    model = execution.model
    totals = sum_bytes_by_wave(model, find_plan_states(model, execution.waves))
    peaks = totals[:-1] + measure_copy_loads(model, execution.waves).received
    return totals[0], np.concatenate([totals[:1], peaks]).max(axis=0), totals[-1]


def sum_bytes_by_wave(model: ClusterModel, states: PlanStates) -> Floats:
    """Sum the bytes that each broker holds now and after each wave: float64 (waves + 1, n)."""
    state = states.state
    size = model.measure_bytes(states.row[state], states.replicas)
    return states.sum_by_broker(state, states.replicas.astype(np.int64), model.brokers, size)
