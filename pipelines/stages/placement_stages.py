"""Stages of placement: gold.placements, hotspot_distribution, topic_origin and cluster_origin."""

from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import LongType

from pipelines.ingest.merge.entities import LOADS
from pipelines.ingest.merge.live_brokers import COUNTS_AS_LIVE
from pipelines.spark.arrow_frames import apply_to_pairs
from pipelines.tables.gold_tables import CLUSTER_ORIGIN, HOTSPOT_DISTRIBUTION, TOPIC_ORIGIN
from pipelines.tables.gold_tables import PLACEMENTS as TABLE
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.hotspots import hotspots_by_scheme
from udfs.hotspots.hotspot_distribution import TrialOptions
from udfs.hotspots.leaders_by_seed import hash_names
from udfs.origin.topic_origins import ORIGIN_NAMES, PARTITIONS, TOPIC_ORIGINS, find_topic_origins
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
    return topics.select(*SNAPSHOT_KEY, topic.cast(from_arrow_type(hotspots_by_scheme.TOPIC)).alias("topic"))


def hotspot_distribution(
    topics: DataFrame, brokers: DataFrame, partitions: DataFrame, options: TrialOptions
) -> DataFrame:
    """Compute gold.hotspot_distribution from silver.topics, silver.brokers and silver.partitions."""
    broker = F.struct("broker_id", "rack", "cordoned").cast(from_arrow_type(hotspots_by_scheme.BROKER))
    live = brokers.where(COUNTS_AS_LIVE).select(*SNAPSHOT_KEY, broker.alias("broker"))
    replicas = partitions.select(*SNAPSHOT_KEY, "leader", F.explode("replicas").alias("broker_id"))
    leads = F.coalesce((F.col("leader") == F.col("broker_id")).cast("long"), F.lit(0))
    counted = replicas.groupBy(*SNAPSHOT_KEY, "broker_id").agg(F.sum(leads).alias("leaders"))
    leaders = F.struct("broker_id", "leaders").cast(from_arrow_type(hotspots_by_scheme.LEADERS))
    led = counted.select(*SNAPSHOT_KEY, leaders.alias("leaders"))
    # One shuffle for all three, instead of one each and joins.
    combined = _pack_topics(topics).unionByName(live, True).unionByName(led, True)
    names = {"topic": "topics", "broker": "brokers", "leaders": "leaders"}
    snapshots = combined.groupBy(*SNAPSHOT_KEY).agg(*(F.collect_list(one).alias(all_) for one, all_ in names.items()))
    chunks = snapshots.withColumn("chunk", F.explode(F.sequence(F.lit(0), F.lit(options.chunks - 1))))
    if options.chunks > 1:
        chunks = chunks.repartition(options.chunks, *SNAPSHOT_KEY, "chunk")
    trials = chunks.select(*hotspots_by_scheme.TRIAL_INPUT.names).mapInArrow(
        hotspots_by_scheme.make_trial_function(options), from_arrow_schema(hotspots_by_scheme.TRIAL_OUTPUT)
    )
    summarise = hotspots_by_scheme.make_summary_function(options)
    rows = trials.groupBy(*SNAPSHOT_KEY, "scheme").applyInArrow(
        summarise, from_arrow_schema(hotspots_by_scheme.DISTRIBUTION)
    )
    return rows.select(*HOTSPOT_DISTRIBUTION.column_names)


def topic_origin(topics: DataFrame, partitions: DataFrame, brokers: DataFrame) -> DataFrame:
    """Compute gold.topic_origin from silver tables, by cluster: topics that share a broker order determine it."""
    known = partitions.where(F.col("replicas").isNotNull())
    lists = F.collect_list(F.struct("partition", "replicas")).alias("partitions")
    by_topic = known.groupBy(*SNAPSHOT_KEY, "topic").agg(lists)
    with_lists = topics.select(*SNAPSHOT_KEY, "topic").join(by_topic, on=[*SNAPSHOT_KEY, "topic"], how="left")
    candidates = brokers.select(*SNAPSHOT_KEY, "broker_id", "rack", "live", "cordoned")

    def judge(_key: tuple[pa.Scalar, ...], cluster_topics: pa.Table, cluster_brokers: pa.Table) -> pa.Table:
        at = cluster_topics.schema.get_field_index("partitions")
        lists = cluster_topics["partitions"].cast(PARTITIONS)
        return find_topic_origins(cluster_topics.set_column(at, "partitions", lists), cluster_brokers)

    return apply_to_pairs(with_lists, candidates, judge, TOPIC_ORIGINS).select(*TOPIC_ORIGIN.column_names)


def cluster_origin(origins: DataFrame) -> DataFrame:
    """Compute gold.cluster_origin from gold.topic_origin."""
    has = {name: F.col("origin") == name for name in ORIGIN_NAMES.values()}
    is_known = ~has["unknown"]
    by_kafka = has["kafka"] | has["kafka_rack_aware"] | has["kraft"]
    is_conclusive = has["none"] | (F.col("evidence") > 0)
    counts = origins.groupBy(*SNAPSHOT_KEY).agg(
        F.count("*").alias("topics"),
        F.count_if(is_known & ~is_conclusive).alias("inconclusive_topics"),
        *(F.count_if(condition).alias(f"{name}_topics") for name, condition in has.items()),
        _percent(by_kafka, is_known).alias("kafka_placed_percent"),
        _percent(by_kafka & is_conclusive, is_known & is_conclusive).alias("kafka_placed_conclusive_percent"),
    )
    with_order = origins.where(has["kafka"] | has["kafka_rack_aware"])
    by_order = with_order.groupBy(*SNAPSHOT_KEY, "broker_order").agg(
        F.count("*").alias("topics"), F.sum("evidence").alias("evidence")
    )
    orders = by_order.groupBy(*SNAPSHOT_KEY).agg(
        F.max_by("broker_order", F.struct("topics", "evidence", "broker_order")).alias("broker_order"),
        F.max("topics").alias("broker_order_topics"),
        F.count("*").alias("broker_orders"),
    )
    both = counts.join(orders, on=list(SNAPSHOT_KEY), how="left").fillna(0, ["broker_order_topics", "broker_orders"])
    return both.select(*CLUSTER_ORIGIN.column_names)


def _percent(part: Column, total: Column) -> Column:
    return F.lit(100.0) * F.count_if(part) / F.nullif(F.count_if(total), F.lit(0))
