"""gold.placements: where each scheme puts every partition, beside where it is."""

from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.ingest.merge.entities import LOADS
from pipelines.tables.gold_tables import PLACEMENTS as TABLE
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.placement.pandas_udf import partition_replicas, placement_udf
from udfs.placement.schemes import OBSERVED, is_computed
from udfs.placement.topic_placement import LiveBrokersBySnapshot

_REQUEST = (*SNAPSHOT_KEY, "topic", "partitions", "replication_factor")
# A longer list of partitions is cut into several. Without code generation, each row of an exploded list carries all of
# it, so that one list of 100,000 partitions would be copied 100,000 times.
_PARTITIONS_AT_ONCE = 256


class PlacementParameters(NamedTuple):
    """What the stage knows beside its tables."""

    schemes: tuple[str, ...]  # Names from udfs/placement/schemes.py
    seed: int  # Seed of the run, from which each topic's own seed is derived
    live_brokers: LiveBrokersBySnapshot  # Brokers to place over, by cluster and snapshot


def _select_table_columns(rows: DataFrame, scheme: str, listed: bool) -> DataFrame:
    """Select the table's columns from rows that have `placement`, `position` and, if listed, `load`."""
    rows = rows.withColumn("replicas", partition_replicas("placement", "position", "replication_factor"))
    values = {
        "scheme": f"'{scheme}'",
        "partition": "load.partition" if listed else "position",
        "leader": "get(replicas, 0)",
        "isr": "NULL",  # in a computed placement, all replicas are in sync
        "elr": "NULL",
        **{column.name: f"load.{column.name}" if listed else "NULL" for column in LOADS},
        **{name: f"placement.{name}" for name in ("start_index", "shift", "seed", "error")},
    }
    types = {field.name: field.dataType.simpleString() for field in TABLE.schema.fields}
    return rows.selectExpr(*(f"CAST({values.get(n, n)} AS {types[n]}) AS {n}" for n in TABLE.column_names))


def _place_whole_topics(topics: DataFrame, scheme: str, parameters: PlacementParameters) -> DataFrame:
    place = placement_udf(scheme, parameters.seed, parameters.live_brokers)
    placed = topics.where("partitions > 0").select(*_REQUEST, place(*_REQUEST).alias("placement"))
    rows = placed.selectExpr("*", "explode(sequence(0, partitions - 1)) AS position")
    return _select_table_columns(rows, scheme, listed=False)


def _place_listed_partitions(topics: DataFrame, scheme: str, parameters: PlacementParameters) -> DataFrame:
    """Place the partitions in `loads`, a list of structs, some at once."""
    lists = f"""explode(transform(sequence(0, (size(loads) - 1) DIV {_PARTITIONS_AT_ONCE}),
                i -> slice(loads, i * {_PARTITIONS_AT_ONCE} + 1, {_PARTITIONS_AT_ONCE}))) AS loads"""
    place = placement_udf(scheme, parameters.seed, parameters.live_brokers)
    requests = topics.selectExpr(*_REQUEST, lists)
    placed = requests.select(*_REQUEST, "loads", place(*_REQUEST, "loads.partition").alias("placement"))
    rows = placed.selectExpr(*_REQUEST, "placement", "posexplode(loads) AS (position, load)")
    return _select_table_columns(rows, scheme, listed=True)


def computed_placements(topics: DataFrame, parameters: PlacementParameters) -> DataFrame:
    """Place topics by all computed schemes; of those with `partition_loads`, only these partitions."""
    has_list = F.coalesce(F.size("partition_loads"), F.lit(0)) > 0
    is_large = F.col("partitions") > _PARTITIONS_AT_ONCE
    loads = ", ".join(f"CAST(NULL AS {TABLE.schema[c.name].dataType.simpleString()}) AS {c.name}" for c in LOADS)
    all_partitions = F.expr(f"transform(sequence(0, partitions - 1), p -> struct(p AS partition, {loads}))")
    listed = topics.where(has_list | is_large).withColumn(
        "loads", F.when(has_list, F.col("partition_loads")).otherwise(all_partitions)
    )
    whole = topics.where(~has_list & ~is_large)
    schemes = [name for name in parameters.schemes if is_computed(name)]
    parts = [_place_whole_topics(whole, scheme, parameters) for scheme in schemes]
    parts += [_place_listed_partitions(listed, scheme, parameters) for scheme in schemes]
    return reduce(DataFrame.union, parts)


def observed_placements(partitions: DataFrame) -> DataFrame:
    """The placement as the cluster is, for all partitions whose replicas are known."""
    missing = ("start_index", "shift", "seed", "error")
    columns = {
        "scheme": F.lit(OBSERVED),
        "isr": F.when(F.size("isr") != F.size("replicas"), F.col("isr")),
        "elr": F.when(F.size("elr") > 0, F.col("elr")),
        **{name: F.lit(None).cast(TABLE.schema[name].dataType) for name in missing},
    }
    return partitions.where(F.col("replicas").isNotNull()).withColumns(columns).select(*TABLE.column_names)


def placements(topics: DataFrame, partitions: DataFrame, parameters: PlacementParameters) -> DataFrame:
    """Rows of gold.placements."""
    parts = [computed_placements(topics, parameters)] if set(parameters.schemes) - {OBSERVED} else []
    if OBSERVED in parameters.schemes:
        parts.append(observed_placements(partitions))
    return reduce(DataFrame.unionByName, parts).select(*TABLE.column_names)
