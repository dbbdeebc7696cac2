"""What survivors of failures transfer, against their capacities: what `what-if` shows where rates are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.config.capacity_file import match_broker, read_capacities
from pipelines.ingest.merge.live_brokers import get_live_brokers
from udfs.arrow.columns import to_numpy
from udfs.failures.kernels.failure_totals import BYTES_IN, BYTES_OUT

if TYPE_CHECKING:
    from pipelines.config.setting_sections import CapacitySettings
    from pipelines.ingest.snapshot_reader import Snapshot
    from udfs.failures.failure_outcomes import SchemeAggregates, SurvivorLoads

Floats = npt.NDArray[np.float64]
RATES = {"bytes_in_per_s": BYTES_IN, "bytes_out_per_s": BYTES_OUT}


class SurvivorCapacities(NamedTuple):
    """Capacities of brokers by rate, bytes per second; NaN = no limit."""

    source: str  # where they are from
    by_broker: Mapping[int, Sequence[float]]
    of_others: Sequence[float]

    def list_limits(self, ids: Sequence[int]) -> Floats:
        """List the capacities of brokers: float64 (n, rates)."""
        return np.array([self.by_broker.get(broker, self.of_others) for broker in ids]).reshape(len(ids), len(RATES))


@dataclass(frozen=True)
class SurvivorLoad:
    """The survivor of a failure that comes closest to its capacity, or is over it; the busiest, if none has one."""

    quantity: str  # one of RATES
    failed: list[int]
    broker_id: int
    load: float  # bytes per second that it then leads
    capacity: float | None
    load_over_capacity_ratio: float | None
    capacity_source: str

    @property
    def is_over(self) -> bool:
        """Whether it is over its capacity."""
        return self.capacity is not None and self.load > self.capacity

    @property
    def label(self) -> str:
        """The name of the quantity in a sentence."""
        return "bytes in" if self.quantity == "bytes_in_per_s" else "bytes out"


def read_survivor_capacities(snapshot: Snapshot, settings: CapacitySettings) -> SurvivorCapacities:
    """Read the capacities of brokers: of capacity.file, else 1 + capacity.headroom times the mean of live brokers now.

    Raises: SettingsError if the file is wrong.
    """
    if settings.file:
        capacities = read_capacities(settings.file)
        ids = snapshot.brokers["broker_id"].to_pylist()
        rows = {broker: match_broker(capacities, snapshot.cluster_id, broker) for broker in ids}
        limits = {broker: [row[load] for load in RATES.values()] for broker, row in rows.items() if row}
        return SurvivorCapacities("as in capacity.file", limits, [np.nan] * len(RATES))
    live, partitions = get_live_brokers(snapshot.brokers), snapshot.partitions
    is_led = np.isin(to_numpy(partitions["leader"], -1), live)
    ratio = 1 + settings.headroom
    sums = [to_numpy(partitions[name], 0.0)[is_led].sum() for name in RATES]
    means = [ratio * total / max(len(live), 1) for total in sums]
    return SurvivorCapacities(f"assumed: {ratio:g} times the mean now (capacity.headroom)", {}, means)


def list_survivor_loads(
    loads: SurvivorLoads, aggregates: SchemeAggregates, capacities: SurvivorCapacities | None
) -> list[SurvivorLoad]:
    """List, for each failure and rate that is known, the survivor that comes closest to its capacity."""
    if capacities is None or not len(aggregates.ids):
        return []
    limits = capacities.list_limits(aggregates.ids.tolist())
    failed = loads.outcomes.failed_brokers.to_pylist()
    survivor_loads = []
    for column, (quantity, load) in enumerate(RATES.items()):
        if not aggregates.is_known[load]:
            continue
        limit = limits[:, column]
        after = np.where(loads.survives, loads.after[:, :, load], -1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            used = np.where(limit > 0, after / limit, np.where(after > 0, np.inf, 0.0))
        used = np.where(np.isnan(limit), after.clip(0) * 1e-30, used)  # after all those with a capacity
        for scenario, broker in enumerate(np.where(loads.survives, used, -1.0).argmax(axis=1).tolist()):
            if loads.survives[scenario].any():
                values = float(after[scenario, broker]), float(limit[broker])
                ids = failed[scenario], int(aggregates.ids[broker])
                survivor_loads.append(_describe(quantity, *ids, *values, capacities.source))
    return survivor_loads


def _describe(quantity: str, failed: list[int], broker: int, load: float, limit: float, source: str) -> SurvivorLoad:
    capacity = None if np.isnan(limit) else round(limit, 3)
    ratio = round(load / capacity, 4) if capacity else None
    return SurvivorLoad(quantity, failed, broker, round(load, 3), capacity, ratio, source)
