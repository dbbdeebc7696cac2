"""gold.broker_load: what each living broker leads and holds under each scheme."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.tables.gold import BROKER_LOAD

_KEY = ("cluster_id", "snapshot_id")
_COUNTS = ("leaders", "preferred_leaders", "replicas")
_BYTES = ("size_bytes", "bytes_in_per_s", "bytes_out_per_s", "leader_bytes_in_per_s")


def broker_load(placements: DataFrame, brokers: DataFrame, schemes: Sequence[str]) -> DataFrame:
    """Rows of gold.broker_load: a row for every living broker under every scheme, also where it holds nothing.

    schemes: those of the run; others that `placements` has come beside them.
    """
    held = placements.select(
        *_KEY,
        "scheme",
        "leader",
        *("size_bytes", "bytes_in_per_s", "bytes_out_per_s"),
        F.posexplode("replicas").alias("position", "broker_id"),
    )
    leads = F.col("leader") == F.col("broker_id")
    loads = held.groupBy(*_KEY, "scheme", "broker_id").agg(
        F.count_if(leads).alias("leaders"),
        F.count_if(F.col("position") == 0).alias("preferred_leaders"),
        F.count("*").alias("replicas"),
        F.sum("size_bytes").alias("size_bytes"),
        F.sum("bytes_in_per_s").alias("bytes_in_per_s"),
        F.sum(F.when(leads, F.col("bytes_out_per_s"))).alias("bytes_out_per_s"),
        F.sum(F.when(leads, F.col("bytes_in_per_s"))).alias("leader_bytes_in_per_s"),
    )
    living = brokers.where("alive").select(*_KEY, "broker_id", "rack")
    # Not from `placements` alone: a cluster without topics still has brokers, with nothing.
    of_run = living.select(*_KEY, F.explode(F.array(*map(F.lit, schemes))).alias("scheme"))
    every = of_run.unionByName(placements.select(*_KEY, "scheme")).distinct()
    living = living.join(every, on=list(_KEY), how="inner")
    rows = living.join(loads, on=[*_KEY, "scheme", "broker_id"], how="left")
    # A broker that leads nothing has no bytes, if any are known of the cluster; else they are unknown.
    of_scheme = loads.groupBy(*_KEY, "scheme").agg(*(F.max(name).isNotNull().alias(f"has_{name}") for name in _BYTES))
    rows = rows.join(of_scheme, on=[*_KEY, "scheme"], how="left")
    filled = {name: F.coalesce(F.col(name), F.lit(0)) for name in _COUNTS}
    filled |= {name: F.when(F.col(f"has_{name}"), F.coalesce(F.col(name), F.lit(0))) for name in _BYTES}
    return rows.withColumns(filled).select(*BROKER_LOAD.column_names)
