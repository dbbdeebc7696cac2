"""gold.headroom and gold.over_capacity: the headroom that failures require, and the survivors over capacity."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.table_columns import DOUBLE, INT, LONG, TEXT, column, schema_of
from udfs.failures.failure_outcomes import SchemeAggregates, SurvivorLoads, survivor_loads
from udfs.failures.failure_rows import KIND, SCENARIO_COLUMNS
from udfs.failures.kernels.partition_arrays import BYTES_IN, BYTES_OUT, FETCH, LEADERS

Floats = npt.NDArray[np.float64]

RESOURCES = {"leaders": LEADERS, "bytes_in_per_s": BYTES_IN, "bytes_out_per_s": BYTES_OUT, "fetch_per_s": FETCH}
_RESOURCE = column("resource", TEXT, ", ".join(RESOURCES), required=True)
HEADROOM_COLUMNS = (
    KIND,
    _RESOURCE,
    column(
        "capacity_source", TEXT, "uniform: the mean load of the live brokers now; file: capacity.file", required=True
    ),
    column(
        "required_headroom_ratio",
        DOUBLE,
        "smallest headroom with which no survivor is over capacity: capacities of 1 + this times the mean (or times "
        "those of the file); below 0 = to spare; null = a broker of capacity 0 gets load. No row where nothing is led",
    ),
    column("worst_scenario", TEXT, "the failure that requires it", required=True),
    column("worst_broker", INT, "the survivor that requires it", required=True),
    column("worst_load", DOUBLE, "load of that survivor: leaders, or bytes per second", required=True),
    column("scenarios", LONG, "failures of this kind", required=True),
    column("scenarios_over_capacity", LONG, "of those, failures that put a survivor over its capacity", required=True),
)
OVER_CAPACITY_COLUMNS = (
    *SCENARIO_COLUMNS,
    column("broker_id", INT, "the survivor", required=True),
    _RESOURCE,
    column("load_after", DOUBLE, "its load afterwards: leaders, or bytes per second", required=True),
    column("capacity", DOUBLE, "its capacity: of capacity.file, else 1 + capacity.headroom times the mean now"),
    column("excess_load", DOUBLE, "load_after less capacity", required=True),
    column("load_over_capacity_ratio", DOUBLE, "load_after over capacity; null = capacity 0"),
)


def headroom_rows(
    aggregates: SchemeAggregates, limits: Floats | None = None, headroom: float = 0
) -> tuple[pa.Table, pa.Table]:
    """Compute the headroom that each kind of failure requires, and the survivors over their capacity.

    Args:
        aggregates: of a cluster under a scheme.
        limits: float64 (n, loads), capacities, NaN = no limit; None = 1 + headroom times the mean load of a live
            broker now, for every broker.
        headroom: ratio >= 0.

    Returns:
        Rows of HEADROOM_COLUMNS and rows of OVER_CAPACITY_COLUMNS.
    """
    led = aggregates.floats("leader_loads")
    mean = led.mean(axis=0) if len(led) else np.zeros(led.shape[1])
    unit = np.broadcast_to(mean, led.shape) if limits is None else limits
    capacity = unit * (1 + headroom) if limits is None else unit
    source = "uniform" if limits is None else "file"
    required: list[dict[str, object]] = []
    over: list[dict[str, object]] = []
    for loads in survivor_loads(aggregates):
        for resource, load in RESOURCES.items():
            if not aggregates.is_known[load] or not loads.survives.any() or not led[:, load].any():
                continue
            after = np.where(loads.survives, loads.after[:, :, load], np.nan)
            with np.errstate(invalid="ignore", divide="ignore"):
                used = np.where(unit[None, :, load] > 0, after / unit[None, :, load], np.where(after > 0, np.inf, 0.0))
                used[np.isnan(after) | np.isnan(unit[None, :, load] + 0 * after)] = np.nan
                is_over = after > capacity[None, :, load]
            if np.isnan(used).all():
                continue
            names = loads.outcomes.name
            scenario, broker = np.unravel_index(np.nanargmax(used), used.shape)
            ratio = float(used[scenario, broker]) - 1
            required.append(
                {
                    "scenario_kind": str(loads.outcomes.kind),
                    "resource": resource,
                    "capacity_source": source,
                    "required_headroom_ratio": ratio if np.isfinite(ratio) else None,
                    "worst_scenario": names[int(scenario)].as_py(),
                    "worst_broker": int(aggregates.ids[broker]),
                    "worst_load": float(after[scenario, broker]),
                    "scenarios": len(names),
                    "scenarios_over_capacity": int(is_over.any(axis=1).sum()),
                }
            )
            over += _over_capacity(loads, aggregates.ids, resource, is_over, capacity[:, load])
    return (
        pa.Table.from_pylist(required, schema=schema_of(HEADROOM_COLUMNS)),
        pa.Table.from_pylist(over, schema=schema_of(OVER_CAPACITY_COLUMNS)),
    )


def _over_capacity(
    loads: SurvivorLoads, ids: npt.NDArray[np.int32], resource: str, is_over: npt.NDArray[np.bool_], capacity: Floats
) -> list[dict[str, object]]:
    """Return rows of the survivors that are over. is_over: bool (s, n); capacity: float64 (n), of this resource."""
    failed, rows = loads.outcomes.failed_brokers, []
    for s, b in zip(*np.nonzero(is_over), strict=True):
        load_after, limit = float(loads.after[s, b, RESOURCES[resource]]), float(capacity[b])
        rows.append(
            {
                "scenario_kind": str(loads.outcomes.kind),
                "scenario": loads.outcomes.name[int(s)].as_py(),
                "failed_brokers": failed[int(s)].as_py(),
                "broker_id": int(ids[b]),
                "resource": resource,
                "load_after": load_after,
                "capacity": limit,
                "excess_load": load_after - limit,
                "load_over_capacity_ratio": load_after / limit if limit > 0 else None,
            }
        )
    return rows
