"""gold.placements: where each scheme puts every partition, beside where it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from pipelines.tables.gold import PLACEMENTS as TABLE
from pipelines.tables.silver import LOADS
from udfs.placement import PLACED, LivingBrokers, placer
from udfs.schemes import OBSERVED

_KEY = ("cluster_id", "snapshot_id")
_REQUEST = (*_KEY, "topic", "partitions", "replication_factor")
_ANSWER = tuple(field.name for field in PLACED if field.name != "replicas")


@dataclass(frozen=True)
class PlacementParameters:
    """schemes: names from udfs/schemes.py; seed: of the run - each topic's own seed follows from it.

    living: {(cluster, snapshot): ids of its living brokers, in the order to place over}.
    """

    schemes: tuple[str, ...]
    seed: int
    living: LivingBrokers


def _placed(topics: DataFrame, scheme: str, parameters: PlacementParameters, listed: bool) -> DataFrame:
    """Rows of the table by one computed scheme: of topics that all have a list of partitions, or all have none."""
    # What depends on a nondeterministic function is left in place: Spark would else call this one twice, the first
    # time to drop topics without partitions.
    place = F.arrow_udf(
        placer(scheme, parameters.seed, parameters.living), from_arrow_type(PLACED)
    ).asNondeterministic()
    only = [F.col("partition_loads.partition")] if listed else []
    topic = topics.select(*_KEY, "topic", "partition_loads", place(*_REQUEST, *only).alias("answer"))
    # Zipped, lest each exploded row carry the whole list: without code generation Spark copies all that it carries.
    replicas, loads = F.col("answer.replicas"), F.col("partition_loads").alias("load")
    each = F.arrays_zip(replicas, loads) if listed else replicas
    fields = [F.col(f"answer.{name}") for name in _ANSWER]
    rows = topic.select(*_KEY, "topic", *fields, each.alias("each")).select(
        *_KEY, F.lit(scheme).alias("scheme"), "topic", *_ANSWER, F.posexplode("each").alias("position", "placed")
    )
    placed = F.col("placed")
    if listed:
        return _rows(rows, placed["load"]["partition"], placed["replicas"], placed["load"])
    return _rows(rows, F.col("position"), placed, None)


def _rows(placed: DataFrame, partition: Column, replicas: Column, loads: Column | None) -> DataFrame:
    """The table's rows, of one partition each."""
    everyone = F.lit(None)  # a placement that is made anew has all replicas in sync
    known = {column.name: loads[column.name] if loads is not None else F.lit(None) for column in LOADS}
    made = {
        "partition": partition,
        "replicas": replicas,
        "leader": F.get(replicas, F.lit(0)),
        "isr": everyone,
        "elr": everyone,
        **known,
    }
    return placed.select(*(made.get(f.name, F.col(f.name)).cast(f.dataType).alias(f.name) for f in TABLE.schema.fields))


def computed_placements(topics: DataFrame, parameters: PlacementParameters) -> DataFrame:
    """Placements by all computed schemes, over the living brokers.

    A topic with `partition_loads` gets just the partitions listed there: the pattern of a partition does not depend on
    how many there are.
    """
    listing = F.size(F.coalesce("partition_loads", F.array().cast(topics.schema["partition_loads"].dataType))) > 0
    schemes = [name for name in parameters.schemes if name != OBSERVED]
    parts = [
        _placed(topics.where(listing if listed else ~listing), scheme, parameters, listed)
        for scheme in schemes
        for listed in (False, True)
    ]
    return reduce(DataFrame.unionByName, parts)


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
