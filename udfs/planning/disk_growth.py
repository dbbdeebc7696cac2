"""Disk of the brokers that a plan fills: before it, and at most while its waves copy."""

from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import row_of
from udfs.planning.cluster_model import Floats, Ints
from udfs.planning.plan_execution import PlanExecution
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


def find_disk_growth(execution: PlanExecution) -> tuple[DiskGrowth, ...]:
    """Find the brokers whose disk grows most while a plan copies, the largest growth first; none of unknown sizes."""
    model = execution.model
    if not model.known[0] or not execution.waves.waves:
        return ()
    before = model.sum_bytes(model)
    after = before + np.cumsum(_sum_changes(execution), axis=0)
    started = np.concatenate([before[None, :], after[:-1]])
    peak = (started + measure_copy_loads(model, execution.waves).received).max(axis=0)
    growth = peak - before
    order = np.argsort(-growth, kind="stable")[:_LISTED]
    order = order[(growth[order] > 0.0) & (growth[order] >= _MIN_SHARE * growth.max())]
    return tuple(
        DiskGrowth(int(model.broker_ids[b]), round(before[b]), round(peak[b]), round(after[-1, b]))
        for b in order.tolist()
    )


def _sum_changes(execution: PlanExecution) -> Floats:
    """Sum the bytes that each wave adds to each broker, less those that it removes: float64 (waves, n)."""
    model, waves = execution.model, execution.waves
    step = row_of(waves.offsets)
    order = np.lexsort((waves.wave, waves.row))
    # A step's list stays until the next step of its partition, and the model's list until the first one.
    last_wave, first_wave = waves.waves, np.full(model.partitions, waves.waves, dtype=np.int64)
    np.minimum.at(first_wave, waves.row, waves.wave)
    ends = np.full(len(waves.row), last_wave, dtype=np.int64)
    follows = waves.row[order[1:]] == waves.row[order[:-1]]
    ends[order[:-1][follows]] = waves.wave[order[1:][follows]]

    def sum_bytes(wave: Ints, row: Ints, brokers: Ints) -> Floats:
        cells = wave * model.brokers + brokers
        loads = np.bincount(cells, model.measure_bytes(row, brokers), (waves.waves + 1) * model.brokers)
        return np.asarray(loads, dtype=np.float64).reshape(-1, model.brokers)[:-1]

    lists, current = waves.replicas.astype(np.int64), model.replicas.astype(np.int64)
    added = sum_bytes(waves.wave[step].astype(np.int64), waves.row[step], lists)
    removed = sum_bytes(ends[step], waves.row[step], lists)
    changes: Floats = added - removed - sum_bytes(first_wave[model.row], model.row, current)
    return changes
