"""gold.placements: where each scheme puts every partition, beside where it is."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.tables.gold import PLACEMENTS as TABLE
from udfs.placement import PLACEMENTS, REQUESTS, LivingBrokers, placer
from udfs.schemes import OBSERVED

_KEY = ("cluster_id", "snapshot_id")


@dataclass(frozen=True)
class PlacementParameters:
    """schemes: names from udfs/schemes.py; seed: of the run - each topic's own seed follows from it.

    living: {(cluster, snapshot): ids of its living brokers, in the order to place over}.
    """

    schemes: tuple[str, ...]
    seed: int
    living: LivingBrokers


def computed_placements(topics: DataFrame, parameters: PlacementParameters) -> DataFrame:
    """Placements by all computed schemes, over the living brokers."""
    place = placer(parameters.schemes, parameters.seed, parameters.living)
    # An empty list for a null one: Spark hands null lists to Python slowly (see conf/spark.toml).
    loads = F.coalesce("partition_loads", F.array().cast(topics.schema["partition_loads"].dataType))
    requests = topics.withColumn("partition_loads", loads).select(*REQUESTS.names)
    placed = requests.mapInArrow(place, from_arrow_schema(PLACEMENTS))

    def load(position: int) -> Column:
        return F.nanvl(F.get("loads", F.lit(position)), F.lit(None).cast("double"))

    everyone = F.lit(None).cast("array<int>")  # a placement that is made anew has all replicas in sync
    derived = {
        "leader": F.get("replicas", F.lit(0)),
        "isr": everyone,
        "elr": everyone,
        "size_bytes": load(0).cast("long"),
        "bytes_in_per_s": load(1),
        "bytes_out_per_s": load(2),
    }
    return placed.withColumns(derived).select(*TABLE.column_names)


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
    computed = computed_placements(topics, parameters)
    if OBSERVED not in parameters.schemes:
        return computed
    return computed.unionByName(observed_placements(partitions)).select(*TABLE.column_names)
