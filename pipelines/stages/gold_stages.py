"""gold.hotspot_distribution, topic_origin, cluster_origin and scheme_comparison, from tables of silver and gold."""

from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import LongType

from pipelines.tables.gold_tables import CLUSTER_ORIGIN, HOTSPOT_DISTRIBUTION, SCHEME_COMPARISON, TOPIC_ORIGIN
from udfs.durability.durability_rows import BROKERS, RACKS
from udfs.failures.scenarios import ScenarioKind
from udfs.hotspots import cluster_hotspots
from udfs.hotspots.hotspot_distribution import TrialOptions
from udfs.hotspots.leader_counting import hash_names
from udfs.origin.topic_origins import ORIGIN_NAMES, PARTITIONS, TOPIC_ORIGINS, find_topic_origins
from udfs.placement.schemes import NAIVE

_KEY = ("cluster_id", "snapshot_id")


def _pack_topics(topics: DataFrame) -> DataFrame:
    """Select the key and `topic`, a struct of 16 bytes; it has partition ids only where some are missing."""
    name_hash = F.arrow_udf(hash_names, LongType())  # type: ignore[attr-defined]
    ids = F.col("partition_loads.partition")
    is_complete = (F.size(ids) == F.col("partitions")) & (F.array_max(ids) == F.col("partitions") - 1)
    topic = F.struct(
        name_hash("cluster_id", "topic").alias("name_hash"),
        "partitions",
        "replication_factor",
        F.when((F.size(ids) > 0) & ~is_complete, ids).alias("partition_ids"),
    )
    return topics.select(*_KEY, topic.cast(from_arrow_type(cluster_hotspots.TOPIC)).alias("topic"))


def hotspot_distribution(
    topics: DataFrame, brokers: DataFrame, partitions: DataFrame, options: TrialOptions
) -> DataFrame:
    """Compute gold.hotspot_distribution from silver.topics, silver.brokers and silver.partitions."""
    broker = F.struct("broker_id", "rack").cast(from_arrow_type(cluster_hotspots.BROKER))
    live = brokers.where("live").select(*_KEY, broker.alias("broker"))
    with_leader = partitions.where(F.col("replicas").isNotNull() & (F.col("leader") >= 0))
    counted = with_leader.groupBy(*_KEY, F.col("leader").alias("broker_id")).agg(F.count("*").alias("leaders"))
    leaders = F.struct("broker_id", "leaders").cast(from_arrow_type(cluster_hotspots.LEADERS))
    led = counted.select(*_KEY, leaders.alias("leaders"))
    # One shuffle for all three, instead of one each and joins.
    combined = _pack_topics(topics).unionByName(live, True).unionByName(led, True)
    names = {"topic": "topics", "broker": "brokers", "leaders": "leaders"}
    snapshots = combined.groupBy(*_KEY).agg(*(F.collect_list(one).alias(all_) for one, all_ in names.items()))
    chunks = snapshots.withColumn("chunk", F.explode(F.sequence(F.lit(0), F.lit(options.chunks - 1))))
    if options.chunks > 1:
        chunks = chunks.repartition(options.chunks, *_KEY, "chunk")
    trials = chunks.select(*cluster_hotspots.TRIAL_INPUT.names).mapInArrow(
        cluster_hotspots.make_trial_function(options), from_arrow_schema(cluster_hotspots.TRIAL_OUTPUT)
    )
    summarise = cluster_hotspots.make_summary_function(options)
    rows = trials.groupBy(*_KEY, "scheme").applyInArrow(summarise, from_arrow_schema(cluster_hotspots.DISTRIBUTION))
    return rows.select(*HOTSPOT_DISTRIBUTION.column_names)


def topic_origin(topics: DataFrame, partitions: DataFrame, brokers: DataFrame) -> DataFrame:
    """Compute gold.topic_origin from silver tables, by cluster: topics that share a broker order determine it."""
    known = partitions.where(F.col("replicas").isNotNull())
    lists = F.collect_list(F.struct("partition", "replicas")).alias("partitions")
    by_topic = known.groupBy(*_KEY, "topic").agg(lists)
    with_lists = topics.select(*_KEY, "topic").join(by_topic, on=[*_KEY, "topic"], how="left")
    candidates = brokers.select(*_KEY, "broker_id", "rack", "live")

    def judge(cluster_topics: pa.Table, cluster_brokers: pa.Table) -> pa.Table:
        at = cluster_topics.schema.get_field_index("partitions")
        lists = cluster_topics["partitions"].cast(PARTITIONS)
        return find_topic_origins(cluster_topics.set_column(at, "partitions", lists), cluster_brokers)

    clusters = with_lists.groupBy(*_KEY).cogroup(candidates.groupBy(*_KEY))
    return clusters.applyInArrow(judge, from_arrow_schema(TOPIC_ORIGINS)).select(*TOPIC_ORIGIN.column_names)


def cluster_origin(origins: DataFrame) -> DataFrame:
    """Compute gold.cluster_origin from gold.topic_origin."""
    has = {name: F.col("origin") == name for name in ORIGIN_NAMES.values()}
    is_known = ~has["unknown"]
    by_kafka = has["kafka"] | has["kafka_rack_aware"] | has["kraft"]
    is_conclusive = has["none"] | (F.col("evidence") > 0)
    counts = origins.groupBy(*_KEY).agg(
        F.count("*").alias("topics"),
        F.count_if(is_known & ~is_conclusive).alias("inconclusive_topics"),
        *(F.count_if(condition).alias(f"{name}_topics") for name, condition in has.items()),
        _percent(by_kafka, is_known).alias("kafka_placed_percent"),
        _percent(by_kafka & is_conclusive, is_known & is_conclusive).alias("kafka_placed_conclusive_percent"),
    )
    with_order = origins.where(has["kafka"] | has["kafka_rack_aware"])
    by_order = with_order.groupBy(*_KEY, "broker_order").agg(
        F.count("*").alias("topics"), F.sum("evidence").alias("evidence")
    )
    orders = by_order.groupBy(*_KEY).agg(
        F.max_by("broker_order", F.struct("topics", "evidence", "broker_order")).alias("broker_order"),
        F.max("topics").alias("broker_order_topics"),
        F.count("*").alias("broker_orders"),
    )
    both = counts.join(orders, on=list(_KEY), how="left").fillna(0, ["broker_order_topics", "broker_orders"])
    return both.select(*CLUSTER_ORIGIN.column_names)


def _percent(part: Column, total: Column) -> Column:
    return F.try_divide(F.lit(100.0) * F.count_if(part), F.count_if(total))


_SCHEME = ("cluster_id", "snapshot_id", "scheme")

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
    frames = (frame.unpivot([*_SCHEME], tuple(frame.columns[3:]), "metric", "value") for frame in (now, after, losses))
    values = reduce(DataFrame.unionByName, frames)
    naive = values.where(F.col("scheme") == NAIVE).drop("scheme").withColumnRenamed("value", "naive_value")
    seeds = scheme_distribution.select(*_SCHEME, "metric", "seeds", "value_p05", "value_p50", "value_p95")
    both = values.join(naive, on=[*_KEY, "metric"], how="left").join(seeds, on=[*_SCHEME, "metric"], how="left")
    ratio = F.try_divide(F.col("value"), F.col("naive_value"))
    return both.withColumn("ratio_to_naive", ratio).select(*SCHEME_COMPARISON.column_names)
