"""Make the rows of gold.scheme_comparison: metrics of each scheme, and their ratios to the naive scheme."""

from collections.abc import Iterable, Iterator
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.tables.gold_tables import SCHEME_COMPARISON
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.durability.durability_rows import BROKERS, RACKS
from udfs.failures.scenarios import ScenarioKind
from udfs.placement.schemes import NAIVE

_SCHEME = (*SNAPSHOT_KEY, "scheme")

# metric -> expression over gold.leader_hotspots of whole clusters
_NOW = {
    "leaders_max_over_mean_ratio": "max_over_mean_ratio",
    "leaders_cv_ratio": "cv_ratio",
    "leaders_gini_ratio": "gini_ratio",
    "bytes_out_max_over_mean_ratio": "bytes_out_max_over_mean_ratio",
    "offline_partitions": "partitions - leaders",
}
_TAKEOVER_BROKERS = "CASE WHEN leaders_lost > 0 THEN takeover_brokers END"  # nothing is taken over from the others
# metric -> (kind of scenario, aggregate over all of the kind, expression over gold.failure_summary)
_AFTER_FAILURES = {
    "worst_survivor_ratio": (ScenarioKind.BROKER, F.max, "worst_survivor_ratio"),
    "mean_worst_survivor_ratio": (ScenarioKind.BROKER, F.avg, "worst_survivor_ratio"),
    "worst_survivor_bytes_out_ratio": (ScenarioKind.BROKER, F.max, "worst_survivor_bytes_out_ratio"),
    "fewest_takeover_brokers": (ScenarioKind.BROKER, F.min, _TAKEOVER_BROKERS),
    "mean_takeover_brokers": (ScenarioKind.BROKER, F.avg, _TAKEOVER_BROKERS),
    "most_offline_partitions": (ScenarioKind.BROKER, F.max, "offline_partitions"),
    "most_newly_offline_partitions": (ScenarioKind.BROKER, F.max, "newly_offline_partitions"),
    "most_under_min_isr_partitions": (ScenarioKind.BROKER, F.max, "under_min_isr_partitions"),
    "worst_survivor_ratio_of_pairs": (ScenarioKind.PAIR, F.max, "worst_survivor_ratio"),
    "most_newly_offline_partitions_of_pairs": (ScenarioKind.PAIR, F.max, "newly_offline_partitions"),
    "worst_survivor_ratio_of_racks": (ScenarioKind.RACK, F.max, "worst_survivor_ratio"),
    "most_newly_offline_partitions_of_racks": (ScenarioKind.RACK, F.max, "newly_offline_partitions"),
    "worst_survivor_ratio_of_rolling_restart": (ScenarioKind.ROLLING_RESTART, F.max, "worst_survivor_ratio"),
}
# metric -> (rows of gold.durability, column)
_OF_BROKERS = f"failure_unit = '{BROKERS}'"
_DURABILITY = {
    "copysets": (_OF_BROKERS, "copysets"),
    "scatter_width_mean": (_OF_BROKERS, "scatter_width_mean"),
    **{
        f"loss_probability_of_{k}_brokers": (f"{_OF_BROKERS} AND failures = {k}", "loss_probability")
        for k in range(1, 6)
    },
    "loss_probability_of_1_rack": (f"failure_unit = '{RACKS}' AND failures = 1", "loss_probability"),
}
METRICS = (*_NOW, *_AFTER_FAILURES, *_DURABILITY)
_VALUES = pa.schema([*((name, pa.string()) for name in (*_SCHEME, "metric")), ("value", pa.float64())])


def _unpivot(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make a row of _VALUES of each metric of a scheme."""
    for batch in batches:
        keys = [batch.column(name) for name in _SCHEME]
        for name in batch.schema.names[len(_SCHEME) :]:
            yield pa.RecordBatch.from_arrays(
                [*keys, pa.repeat(name, batch.num_rows), batch.column(name)], schema=_VALUES
            )


def scheme_comparison(
    leader_hotspots: DataFrame, failure_summary: DataFrame, durability: DataFrame, scheme_distribution: DataFrame
) -> DataFrame:
    """Compute gold.scheme_comparison from the tables of the same names."""
    now = leader_hotspots.where("topic IS NULL").select(
        *_SCHEME, *(F.expr(f"double({expression})").alias(metric) for metric, expression in _NOW.items())
    )
    by_scheme = failure_summary.where(F.col("scenario_kind") != ScenarioKind.RANDOM).groupBy(*_SCHEME)
    of_kind = {
        metric: aggregate(F.when(F.col("scenario_kind") == kind, F.expr(expression)))
        for metric, (kind, aggregate, expression) in _AFTER_FAILURES.items()
    }
    after = by_scheme.agg(*(value.cast("double").alias(metric) for metric, value in of_kind.items()))
    losses = durability.groupBy(*_SCHEME).agg(
        *(
            F.expr(f"double(max({value}) FILTER (WHERE {rows}))").alias(name)
            for name, (rows, value) in _DURABILITY.items()
        )
    )
    frames = (frame.mapInArrow(_unpivot, from_arrow_schema(_VALUES)) for frame in (now, after, losses))
    values = reduce(DataFrame.unionByName, frames)
    naive = values.where(F.col("scheme") == NAIVE).drop("scheme").withColumnRenamed("value", "naive_value")
    seeds = scheme_distribution.select(*_SCHEME, "metric", "seeds", "value_p05", "value_p50", "value_p95")
    both = values.join(naive, on=[*SNAPSHOT_KEY, "metric"], how="left").join(seeds, on=[*_SCHEME, "metric"], how="left")
    ratio = F.col("value") / F.nullif(F.col("naive_value"), F.lit(0.0))
    return both.withColumn("ratio_to_naive", ratio).select(*SCHEME_COMPARISON.column_names)
