"""The gold tables that are arithmetic on internal.scheme_aggregates: one row of it -> the rows of each table."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow import ipc
from udfs.failures.broker_loads import cluster_hotspots
from udfs.failures.failure_outcomes import SchemeAggregates
from udfs.failures.headroom import headroom_rows
from udfs.failures.shards import read_aggregates
from udfs.hotspots.hotspot_measures import HOTSPOTS

# For `applyInArrow` by cluster, snapshot and scheme: a row of internal.scheme_aggregates -> rows, keys in front.
TableFunction = Callable[[pa.Table], pa.Table]
Racks = tuple[str | None, ...]
Limits = Mapping[tuple[str, str], npt.NDArray[np.float64]]  # capacities (n, loads) by cluster_id and snapshot_id

_KEY = (("cluster_id", pa.string()), ("snapshot_id", pa.string()), ("scheme", pa.string()))


def add_keys(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the keys of all these tables in front."""
    return pa.schema([*_KEY, *schema])


def _with_keys(make_rows: Callable[[SchemeAggregates, pa.Table], pa.Table]) -> TableFunction:
    def rows(row: pa.Table) -> pa.Table:
        aggregates = read_aggregates(row["brokers"][0].as_py(), row["sums"][0].as_py())
        result = make_rows(aggregates, row)
        keys = [pa.repeat(row[name][0], result.num_rows) for name, _ in _KEY]
        columns = [column.combine_chunks() for column in result.columns]
        return pa.Table.from_arrays([*keys, *columns], schema=add_keys(result.schema))

    return rows


def table_function(make_rows: Callable[[SchemeAggregates], pa.Table]) -> TableFunction:
    """Return the function of a table that follows from the aggregates alone."""
    return _with_keys(lambda aggregates, row: make_rows(aggregates))


def table_function_with_racks(make_rows: Callable[[SchemeAggregates, Racks], pa.Table]) -> TableFunction:
    """Return the function of a table that also needs the rack of each live broker."""
    return _with_keys(lambda aggregates, row: make_rows(aggregates, tuple(row["racks"][0].as_py())))


def hotspot_function(hot_ratio: float) -> TableFunction:
    """Return the function of gold.leader_hotspots: the cluster, and each topic."""

    def make_rows(aggregates: SchemeAggregates, row: pa.Table) -> pa.Table:
        cluster = pa.Table.from_batches([cluster_hotspots(aggregates, hot_ratio)])
        return pa.concat_tables([cluster, ipc.unpack_tables([row["topic_hotspots"][0].as_py()], HOTSPOTS)])

    return _with_keys(make_rows)


def headroom_function(limits: Limits, headroom: float, over_capacity: bool) -> TableFunction:
    """Return the function of gold.headroom, or of gold.over_capacity. Clusters without limits get uniform ones."""

    def make_rows(aggregates: SchemeAggregates, row: pa.Table) -> pa.Table:
        key = (row["cluster_id"][0].as_py(), row["snapshot_id"][0].as_py())
        return headroom_rows(aggregates, limits.get(key), headroom)[over_capacity]

    return _with_keys(make_rows)
