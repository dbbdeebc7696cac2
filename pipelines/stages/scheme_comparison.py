"""gold.scheme_comparison: every scheme's figures beside the naive scheme's."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.tables.gold import SCHEME_COMPARISON
from udfs.schemes import NAIVE

_KEY = ("cluster_id", "snapshot_id")

# metric -> (expression over gold.leader_hotspots for whole clusters)
_NOW = {
    "leaders_max_over_mean_ratio": "max_over_mean_ratio",
    "leaders_cv_ratio": "cv_ratio",
    "leaders_gini_ratio": "gini_ratio",
    "bytes_out_max_over_mean_ratio": "bytes_out_max_over_mean_ratio",
    "offline_partitions": "partitions - leaders",
}
# metric -> (aggregate over all single-broker failures, column of gold.failure_summary)
_AFTER = {
    "worst_survivor_max_over_mean_ratio": (F.max, "worst_max_over_mean_ratio"),
    "mean_survivor_max_over_mean_ratio": (F.avg, "worst_max_over_mean_ratio"),
    "worst_survivor_bytes_out_max_over_mean_ratio": (F.max, "worst_bytes_out_max_over_mean_ratio"),
    "fewest_receivers": (F.min, "receivers"),
    "mean_receivers": (F.avg, "receivers"),
    "most_offline_partitions": (F.max, "offline_partitions"),
    "most_newly_offline_partitions": (F.max, "newly_offline_partitions"),
    "most_under_min_isr_partitions": (F.max, "under_min_isr_partitions"),
}


def _unpivoted(frame: DataFrame, metrics: list[str]) -> DataFrame:
    return frame.unpivot([*_KEY, "scheme"], [*metrics], "metric", "value")


def scheme_comparison(leader_hotspots: DataFrame, failure_summary: DataFrame) -> DataFrame:
    """Rows of gold.scheme_comparison."""
    clusters = leader_hotspots.where(F.col("topic").isNull())
    now = clusters.select(*_KEY, "scheme", *(F.expr(e).cast("double").alias(m) for m, e in _NOW.items()))
    # A broker that led nothing has no takeovers to spread: its death says nothing of receivers.
    receivers = F.when(F.col("leaders_lost") > 0, F.col("receivers"))
    outcome = failure_summary.withColumn("receivers", receivers).groupBy(*_KEY, "scheme")
    after = outcome.agg(*(f(c).cast("double").alias(m) for m, (f, c) in _AFTER.items()))
    values = _unpivoted(now, list(_NOW)).unionByName(_unpivoted(after, list(_AFTER)))
    naive = values.where(F.col("scheme") == NAIVE).drop("scheme").withColumnRenamed("value", "naive_value")
    both = values.join(naive, on=[*_KEY, "metric"], how="left")
    ratio = F.try_divide(F.col("value"), F.col("naive_value"))
    return both.withColumn("ratio_to_naive", ratio).select(*SCHEME_COMPARISON.column_names)
