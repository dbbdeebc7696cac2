"""gold.scheme_comparison: every scheme's figures beside the naive scheme's, and over many seeds."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.tables.placement_tables import SCHEME_COMPARISON
from udfs.placement.schemes import NAIVE

_SCHEME = ("cluster_id", "snapshot_id", "scheme")

# metric -> expression over gold.leader_hotspots for whole clusters
_NOW = {
    "leaders_max_over_mean_ratio": "max_over_mean_ratio",
    "leaders_cv_ratio": "cv_ratio",
    "leaders_gini_ratio": "gini_ratio",
    "bytes_out_max_over_mean_ratio": "bytes_out_max_over_mean_ratio",
    "offline_partitions": "partitions - leaders",
}
_RECEIVERS = "CASE WHEN leaders_lost > 0 THEN takeover_brokers END"  # who led nothing has nothing to spread
# metric -> (kind of scenario, aggregate over all of the kind, expression over gold.failure_summary)
_AFTER = {
    "worst_survivor_ratio": ("broker", F.max, "worst_survivor_ratio"),
    "mean_worst_survivor_ratio": ("broker", F.avg, "worst_survivor_ratio"),
    "worst_survivor_bytes_out_ratio": ("broker", F.max, "worst_survivor_bytes_out_ratio"),
    "fewest_takeover_brokers": ("broker", F.min, _RECEIVERS),
    "mean_takeover_brokers": ("broker", F.avg, _RECEIVERS),
    "most_offline_partitions": ("broker", F.max, "offline_partitions"),
    "most_newly_offline_partitions": ("broker", F.max, "newly_offline_partitions"),
    "most_under_min_isr_partitions": ("broker", F.max, "under_min_isr_partitions"),
    "worst_survivor_ratio_of_pairs": ("pair", F.max, "worst_survivor_ratio"),
    "most_newly_offline_partitions_of_pairs": ("pair", F.max, "newly_offline_partitions"),
    "worst_survivor_ratio_of_racks": ("rack", F.max, "worst_survivor_ratio"),
    "most_newly_offline_partitions_of_racks": ("rack", F.max, "newly_offline_partitions"),
    "worst_survivor_ratio_of_rolling_restart": ("shutdown", F.max, "worst_survivor_ratio"),
}


_SETS = ("copysets", "scatter_width_mean")


def _durability(durability: DataFrame) -> dict[str, Column]:
    def of(unit: str, failures: int, name: str) -> Column:
        return F.max(F.when((F.col("failure_unit") == unit) & (F.col("failures") == failures), F.col(name)))

    chances = {f"loss_probability_of_{k}_brokers": of("broker", k, "loss_probability") for k in range(1, 6)}
    return {
        # The same for every number of failures.
        **{name: F.max(F.when(F.col("failure_unit") == "broker", F.col(name))) for name in _SETS},
        **chances,
        "loss_probability_of_1_rack": of("rack", 1, "loss_probability"),
    }


_LOST = (*_SETS, *(f"loss_probability_of_{k}_brokers" for k in range(1, 6)), "loss_probability_of_1_rack")
METRICS = (*_NOW, *_AFTER, *_LOST)


def _unpivoted(frame: DataFrame, metrics: list[str]) -> DataFrame:
    return frame.unpivot(list(_SCHEME), [*metrics], "metric", "value")


def scheme_comparison(
    leader_hotspots: DataFrame, failure_summary: DataFrame, durability: DataFrame, scheme_distribution: DataFrame
) -> DataFrame:
    """Rows of gold.scheme_comparison."""
    clusters = leader_hotspots.where(F.col("topic").isNull())
    now = clusters.select(*_SCHEME, *(F.expr(e).cast("double").alias(m) for m, e in _NOW.items()))
    after = failure_summary.where(F.col("scenario_kind") != "random").groupBy(*_SCHEME)
    outcome = after.agg(
        *(
            aggregate(F.when(F.col("scenario_kind") == kind, F.expr(of))).cast("double").alias(metric)
            for metric, (kind, aggregate, of) in _AFTER.items()
        )
    )
    lost = _durability(durability)
    losses = durability.groupBy(*_SCHEME).agg(*(c.cast("double").alias(m) for m, c in lost.items()))
    parts = [_unpivoted(now, list(_NOW)), _unpivoted(outcome, list(_AFTER)), _unpivoted(losses, list(lost))]
    values = reduce(DataFrame.unionByName, parts)
    key = [*_SCHEME[:2], "metric"]
    naive = values.where(F.col("scheme") == NAIVE).drop("scheme").withColumnRenamed("value", "naive_value")
    both = values.join(naive, on=key, how="left")
    seeds = scheme_distribution.select(*_SCHEME, "metric", "seeds", "value_p05", "value_p50", "value_p95")
    every = both.join(seeds, on=[*_SCHEME, "metric"], how="left")
    ratio = F.try_divide(F.col("value"), F.col("naive_value"))
    return every.withColumn("ratio_to_naive", ratio).select(*SCHEME_COMPARISON.column_names)
