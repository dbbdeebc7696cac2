"""gold.broker_load, leader_hotspots, headroom and over_capacity: columns, and rows out of the aggregates."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.columns import DOUBLE, INT, LONG, TEXT, column, schema_of, table_of
from udfs.failures.failure_outcomes import SchemeAggregates, survivor_loads
from udfs.failures.failure_rows import KIND, SCENARIO_COLUMNS
from udfs.failures.kernels import broker_sums
from udfs.failures.kernels.failure_totals import BYTES_IN, BYTES_OUT, FETCH, LEADERS
from udfs.failures.partition_groups import Placement
from udfs.hotspots.hotspot_measures import BrokerParts, measure_leaders

BROKER_LOAD_COLUMNS = (
    column("broker_id", INT, "broker id", required=True),
    column("rack", TEXT, "its rack"),
    column("leaders", LONG, "partitions it leads", required=True),
    column("preferred_leaders", LONG, "partitions whose first replica it is", required=True),
    column("replicas", LONG, "replicas it holds", required=True),
    column("size_bytes", LONG, "bytes of the replicas it holds; null = no size is known"),
    column("bytes_in_per_s", DOUBLE, "bytes per second written to the replicas it holds; null = unknown"),
    column("bytes_out_per_s", DOUBLE, "bytes per second that consumers fetch from what it leads; null = unknown"),
    column("leader_bytes_in_per_s", DOUBLE, "bytes per second produced to what it leads; null = unknown"),
)


def broker_load_rows(aggregates: SchemeAggregates, racks: tuple[str | None, ...]) -> pa.Table:
    """Return a row of gold.broker_load for every live broker, even if it holds nothing."""
    counts, loads = aggregates.sums["broker_counts"], aggregates.sums["broker_loads"]
    unknown = np.broadcast_to(aggregates.sums["known"] == 0, (len(counts), 3))
    size = loads[:, broker_sums.SIZE].astype(np.int64)
    rates = [broker_sums.REPLICA_BYTES_IN, broker_sums.LEADER_BYTES_OUT, broker_sums.LEADER_BYTES_IN]
    columns = [
        aggregates.ids,
        pa.array(racks, TEXT),
        *counts[:, [broker_sums.LED, broker_sums.PREFERRED, broker_sums.REPLICAS]].T,
        pa.array(size, mask=unknown[:, 0].copy()),
        *(
            pa.array(loads[:, rate], mask=unknown[:, known].copy())
            for rate, known in zip(rates, (1, 2, 1), strict=True)
        ),
    ]
    return pa.Table.from_arrays(columns, schema=schema_of(BROKER_LOAD_COLUMNS))


def topic_hotspots(
    placement: Placement, topics: pa.Array, ids: npt.NDArray[np.int32], hot_ratio: float
) -> pa.RecordBatch:
    """Measure each topic that has partitions in a shard. topics: names, as in placement.rows."""
    count, n, room = len(topics), len(ids), len(placement.group.broker)
    totals, ends = np.zeros((count, broker_sums.TOTALS), np.int64), np.zeros(count, np.int64)
    leaders, in_sync = np.empty(room, np.int64), np.empty(room, np.int64)
    out = broker_sums.TopicParts(totals, ends, np.empty(room, np.int32), leaders, in_sync, np.empty(room))
    used = slice(broker_sums.count_topics(placement.group, placement.rows, placement.out_rate, n, out))
    broker = out.broker[used]
    parts = BrokerParts(ids[broker] if n else broker, leaders[used], in_sync[used], out.out_rate[used])
    measures = measure_leaders(topics, n, np.append(0, ends), parts, totals, hot_ratio)
    return measures.filter(pa.array(totals[:, broker_sums.PARTITIONS] > 0))


def cluster_hotspots(aggregates: SchemeAggregates, hot_ratio: float) -> pa.RecordBatch:
    """Measure the cluster as a whole: one row, none if it has no partition."""
    counts, loads = aggregates.sums["broker_counts"], aggregates.sums["broker_loads"]
    totals = aggregates.sums["totals"][None]
    has_replicas = np.flatnonzero(counts[:, broker_sums.IN_SYNC])
    # One partition of unknown rate makes every sum unknown.
    is_known = int(aggregates.sums["known"][2]) == int(totals[0, broker_sums.PARTITIONS])
    rate = np.where(is_known, loads[has_replicas, broker_sums.LEADER_BYTES_OUT], np.nan)
    leaders, in_sync = counts[has_replicas, broker_sums.LED], counts[has_replicas, broker_sums.IN_SYNC]
    parts = BrokerParts(aggregates.ids[has_replicas], leaders, in_sync, rate)
    offsets = np.array([0, len(has_replicas)], dtype=np.int64)
    cluster = measure_leaders(pa.nulls(1, TEXT), len(aggregates.ids), offsets, parts, totals, hot_ratio)
    return cluster.filter(pa.array(totals[:, broker_sums.PARTITIONS] > 0))


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
_OVER_CAPACITY = schema_of(OVER_CAPACITY_COLUMNS)


def headroom_rows(
    aggregates: SchemeAggregates, limits: Floats | None = None, headroom: float = 0
) -> tuple[pa.Table, pa.Table]:
    """Compute the headroom that each kind of failure requires, and the survivors over capacity: rows of both tables.

    limits: float64 (n, loads), capacities, NaN = no limit; None = 1 + headroom (a ratio >= 0) times the mean load of a
    live broker now, for every broker.
    """
    led = aggregates.sums["leader_loads"]
    mean = led.mean(axis=0) if len(led) else np.zeros(led.shape[1])
    units = np.broadcast_to(mean, led.shape) if limits is None else limits
    capacities = units * (1 + headroom) if limits is None else units
    source = "uniform" if limits is None else "file"
    required: list[tuple[object, ...]] = []
    over = [_OVER_CAPACITY.empty_table()]
    for loads in survivor_loads(aggregates):
        kind, names = str(loads.outcomes.kind), loads.outcomes.name
        for resource, load in RESOURCES.items():
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
            counts = (len(names), int(is_over.any(axis=1).sum()))
            required.append((kind, resource, source, ratio, *worst, *counts))
            scenario, broker = np.nonzero(is_over)
            load_after, limit = after[scenario, broker], capacity[broker]
            columns = [
                pa.repeat(kind, len(scenario)),
                names.take(pa.array(scenario)),
                loads.outcomes.failed_brokers.take(pa.array(scenario)),
                aggregates.ids[broker],
                pa.repeat(resource, len(scenario)),
                load_after,
                limit,
                load_after - limit,
                pa.array(load_after / np.where(limit > 0, limit, 1), mask=limit <= 0),
            ]
            over.append(pa.Table.from_arrays(columns, schema=_OVER_CAPACITY))
    return table_of(required, schema_of(HEADROOM_COLUMNS)), pa.concat_tables(over)
