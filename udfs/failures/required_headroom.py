"""Compute headroom: how far above the mean brokers must be able to go, and the survivors over capacity."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.column_declarations import DOUBLE, INT, TEXT, column, schema_of
from udfs.arrow.columns import table_of
from udfs.failures.failure_outcomes import SchemeAggregates, survivor_loads
from udfs.failures.failure_rows import KIND, SCENARIO_COLUMNS
from udfs.failures.kernels.failure_totals import BYTES_IN, BYTES_OUT, FETCH, LEADERS

Floats = npt.NDArray[np.float64]


LOAD_QUANTITIES = {"leaders": LEADERS, "bytes_in_per_s": BYTES_IN, "bytes_out_per_s": BYTES_OUT, "fetch_per_s": FETCH}


_QUANTITY = column("quantity", TEXT, ", ".join(LOAD_QUANTITIES), required=True)


HEADROOM_COLUMNS = (
    KIND,
    _QUANTITY,
    column(
        "capacity_source", TEXT, "uniform: the mean load of the live brokers now; file: capacity.file", required=True
    ),
    column(
        "required_headroom_ratio",
        DOUBLE,
        "smallest h with which no survivor is over capacity, if capacities are (1 + h) times the mean (or times those "
        "of the file); below 0 = capacity to spare; null = a broker of capacity 0 gets load. No row without load",
    ),
    column("worst_scenario", TEXT, "the failure that requires it", required=True),
    column("worst_broker", INT, "the survivor that requires it", required=True),
    column("worst_load", DOUBLE, "load of that survivor: leaders, or bytes per second", required=True),
)


OVER_CAPACITY_COLUMNS = (
    *SCENARIO_COLUMNS,
    column("broker_id", INT, "the survivor", required=True),
    _QUANTITY,
    column("load_after", DOUBLE, "its load afterwards: leaders, or bytes per second", required=True),
    column("capacity", DOUBLE, "its capacity: from capacity.file, else (1 + capacity.headroom) times the mean now"),
    column("excess_load", DOUBLE, "load_after minus capacity", required=True),
    column("load_over_capacity_ratio", DOUBLE, "load_after over capacity; null = capacity 0"),
)


_OVER_CAPACITY = schema_of(OVER_CAPACITY_COLUMNS)


def headroom_rows(
    aggregates: SchemeAggregates, limits: Floats | None = None, headroom: float = 0
) -> tuple[pa.Table, pa.Table]:
    """Compute the headroom that each kind of failure requires, and the survivors over capacity: rows of both tables.

    limits: float64 (n, loads), capacities, NaN = no limit; None = 1 + headroom (a ratio >= 0) times the mean load of
    brokers now, for every broker.
    """
    led = aggregates.sums["leader_loads"]
    mean = led.sum(axis=0) / max(aggregates.counted.sum(), 1)
    units = np.broadcast_to(mean, led.shape) if limits is None else limits
    capacities = units * (1 + headroom) if limits is None else units
    source = "uniform" if limits is None else "file"
    required: list[tuple[object, ...]] = []
    over = [_OVER_CAPACITY.empty_table()]
    for loads in survivor_loads(aggregates):
        kind, names = str(loads.outcomes.kind), loads.outcomes.name
        for quantity, load in LOAD_QUANTITIES.items():
            if not aggregates.is_known[load] or not loads.survives.any() or not led[:, load].any():
                continue
            after, unit, capacity = loads.after[:, :, load], units[:, load], capacities[:, load]
            after = np.where(loads.survives, after, np.nan)
            with np.errstate(invalid="ignore", divide="ignore"):
                used = np.where(unit > 0, after / unit, np.where(after > 0, np.inf, 0.0))
                used[np.isnan(after) | np.isnan(unit)] = np.nan
                is_over = after > capacity
            if np.isnan(used).all():
                continue
            s, b = np.unravel_index(np.nanargmax(used), used.shape)
            ratio = float(used[s, b]) - 1 if np.isfinite(used[s, b]) else None
            worst = (names[int(s)].as_py(), int(aggregates.ids[b]), float(after[s, b]))
            required.append((kind, quantity, source, ratio, *worst))
            scenario, broker = np.nonzero(is_over)
            load_after, limit = after[scenario, broker], capacity[broker]
            columns = [
                pa.repeat(kind, len(scenario)),
                names.take(pa.array(scenario)),
                loads.outcomes.failed_brokers.take(pa.array(scenario)),
                aggregates.ids[broker],
                pa.repeat(quantity, len(scenario)),
                load_after,
                limit,
                load_after - limit,
                pa.array(load_after / np.where(limit > 0, limit, 1), mask=limit <= 0),
            ]
            over.append(pa.Table.from_arrays(columns, schema=_OVER_CAPACITY))
    return table_of(required, schema_of(HEADROOM_COLUMNS)), pa.concat_tables(over)
