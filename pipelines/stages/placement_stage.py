"""gold.placements: where each scheme puts every partition, beside where it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from pipelines.tables.placement_tables import PLACEMENTS as TABLE
from pipelines.tables.silver_tables import LOADS
from udfs.placement.schemes import OBSERVED, computed
from udfs.placement.topic_batches import PLACED, LiveBrokersBySnapshot, placer

_KEY = ("cluster_id", "snapshot_id")
_REQUEST = (*_KEY, "topic", "partitions", "replication_factor")
_ANSWER = tuple(field.name for field in PLACED if field.name != "replicas")


@dataclass(frozen=True)
class PlacementParameters:
    """schemes: names from udfs/placement/schemes.py; seed: of the run - each topic's own seed follows from it.

    live: {(cluster, snapshot): its live brokers, in the order to place over}.
    """

    schemes: tuple[str, ...]
    seed: int
    live: LiveBrokersBySnapshot


def _placed(topics: DataFrame, scheme: str, parameters: PlacementParameters, listed: bool) -> DataFrame:
    """Rows of the table by one computed scheme: of topics that all have a list of partitions, or all have none."""
    # What depends on a nondeterministic function is left in place: Spark would else call this one twice, the first
    # time to drop topics without partitions.
    body = placer(scheme, parameters.seed, parameters.live)
    place = F.arrow_udf(body, from_arrow_type(PLACED)).asNondeterministic()  # type: ignore[attr-defined]
    only = ("partition_loads.partition",) if listed else ()
    answers = topics.select(*_KEY, "topic", "partition_loads", place(*_REQUEST, *only).alias("answer"))
    # Zipped, lest each exploded row carry the whole list: without code generation Spark copies all that it carries.
    each = "arrays_zip(answer.replicas, partition_loads)" if listed else "answer.replicas"
    fields = answers.selectExpr(*_KEY, "topic", *(f"answer.{name}" for name in _ANSWER), f"{each} AS each")
    rows = fields.selectExpr(*_KEY, "topic", *_ANSWER, "posexplode(each) AS (position, placed)")
    replicas = "placed.replicas" if listed else "placed"
    loads = {column.name: f"placed.partition_loads.{column.name}" if listed else "NULL" for column in LOADS}
    made = {
        "scheme": f"'{scheme}'",
        "partition": "placed.partition_loads.partition" if listed else "position",
        "replicas": replicas,
        "leader": f"get({replicas}, 0)",
        "isr": "NULL",  # a placement that is made anew has all replicas in sync
        "elr": "NULL",
        **loads,
    }
    return rows.selectExpr(
        *(f"CAST({made.get(f.name, f.name)} AS {f.dataType.simpleString()}) AS {f.name}" for f in TABLE.schema.fields)
    )


def computed_placements(topics: DataFrame, parameters: PlacementParameters) -> DataFrame:
    """Placements by all computed schemes, over the live brokers.

    A topic with `partition_loads` gets just the partitions listed there: the pattern of a partition does not depend on
    how many there are.
    """
    schemes = [name for name in parameters.schemes if computed(name)]
    listing = "coalesce(size(partition_loads), 0) > 0"
    with_list, without = topics.where(listing), topics.where(f"NOT {listing}")
    parts = [
        _placed(with_list if listed else without, scheme, parameters, listed)
        for scheme in schemes
        for listed in (False, True)
    ]
    return reduce(DataFrame.union, parts)


def observed_placements(partitions: DataFrame) -> DataFrame:
    """The placement as the cluster is, for all partitions whose replicas are known."""
    healthy = F.size("isr") == F.size("replicas")
    missing = ("start_index", "shift", "seed", "error")
    rows = partitions.where(F.col("replicas").isNotNull()).select(
        *_KEY,
        F.lit(OBSERVED).alias("scheme"),
        "topic",
        "partition",
        "replicas",
        "leader",
        F.when(~healthy, F.col("isr")).alias("isr"),
        F.when(F.size("elr") > 0, F.col("elr")).alias("elr"),
        *("size_bytes", "bytes_in_per_s", "bytes_out_per_s"),
        *(F.lit(None).cast(TABLE.schema[name].dataType).alias(name) for name in missing),
    )
    return rows.select(*TABLE.column_names)


def placements(topics: DataFrame, partitions: DataFrame, parameters: PlacementParameters) -> DataFrame:
    """Rows of gold.placements."""
    parts = [computed_placements(topics, parameters)] if set(parameters.schemes) - {OBSERVED} else []
    if OBSERVED in parameters.schemes:
        parts.append(observed_placements(partitions))
    return reduce(DataFrame.unionByName, parts).select(*TABLE.column_names)
