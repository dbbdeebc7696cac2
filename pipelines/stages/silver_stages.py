"""The silver tables: the parts of internal.entities, each with what only the whole cluster can show."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.ingest.merge.entities import BROKERS, CONFLICTS, ENTITY_SCHEMAS, IGNORED, LOG, QUORUM_NODES, REPLICAS
from pipelines.ingest.merge.kraft_merge import describe_nodes
from pipelines.ingest.merge.live_brokers import find_leading_down_brokers, infer_brokers
from pipelines.ingest.merge.shard_facts import RecordOutcome
from pipelines.ingest.merge.topic_merge import add_health
from pipelines.ingest.snapshot_reader import UNUSED_FORMATS
from pipelines.spark.entity_shards import (
    Shard,
    add_brokers,
    infer_partitions,
    map_shards,
    read_brokers,
    sum_shard_logs,
    unpack,
)
from pipelines.tables import silver_tables
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.arrow.columns import to_array, to_lists
from udfs.arrow.ragged import is_in_segment, position_of, row_of
from udfs.failures.replica_logs import UNKNOWN, list_replica_bytes, measure_replicas, take_logs
from udfs.failures.topic_defaults import TopicDefaults

_KEY_FIELDS = (pa.field("cluster_id", pa.string()), pa.field("snapshot_id", pa.string()))
_SMALL_BYTES = 4_000_000  # of packed rows that are sent to every worker: ten times as much unpacked


def _add_key(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
    """Return one snapshot's rows with its key in front, for applyInArrow."""
    keys = [pa.repeat(scalar, rows.num_rows) for scalar in key]
    return pa.Table.from_arrays([*keys, *rows.columns], names=[*SNAPSHOT_KEY, *rows.schema.names])


def _select_entity(entities: DataFrame, name: str) -> DataFrame:
    """Return the rows of one entity."""
    shards = entities.where(F.col(name).isNotNull()).select(*SNAPSHOT_KEY, name)
    return map_shards(
        shards, lambda shard: unpack([shard[name]], name), pa.schema([*_KEY_FIELDS, *ENTITY_SCHEMAS[name]])
    )


def brokers(entities: DataFrame) -> DataFrame:
    """Build silver.brokers: every broker that is registered, listed or named by a replica, and whether it is live."""

    def infer(key: tuple[pa.Scalar, ...], shards: pa.Table) -> pa.Table:
        registrations, usage = (unpack(shards[name].to_pylist(), name) for name in ("registrations", "usage"))
        return _add_key(key, infer_brokers(registrations, usage)[0])

    rows = entities.select(*SNAPSHOT_KEY, "registrations", "usage").groupBy(*SNAPSHOT_KEY)
    states = rows.applyInArrow(infer, from_arrow_schema(pa.schema([*_KEY_FIELDS, *BROKERS])))
    return states.select(*silver_tables.BROKERS.column_names)


def topics(entities: DataFrame, defaults: TopicDefaults) -> DataFrame:
    """Build silver.topics."""

    def build(shard: Shard) -> pa.Table:
        topics = unpack([shard["topics"]], "topics")
        return topics.append_column(IGNORED, defaults.find_ignored(topics["topic"]))

    shards = entities.where("topics IS NOT NULL").select(*SNAPSHOT_KEY, "topics")
    rows = map_shards(shards, build, pa.schema(silver_tables.TOPICS.columns))
    return rows.select(*silver_tables.TOPICS.column_names)


def _build_partitions(shard: Shard, defaults: TopicDefaults) -> pa.Table:
    """Return the rows of silver.partitions of a shard: leader and ISR that no source shows are inferred."""
    brokers, topics = read_brokers(shard), unpack([shard["topics"]], "topics")
    rows = add_health(infer_partitions(shard), topics, brokers, defaults)
    for name, values in list_replica_bytes(rows).items():
        rows = rows.append_column(name, values)
    return rows


def partitions(entities: DataFrame, brokers: DataFrame, defaults: TopicDefaults) -> DataFrame:
    """Build silver.partitions."""
    shards = entities.where("partitions IS NOT NULL").select(*SNAPSHOT_KEY, "partitions", "topics")
    build = partial(_build_partitions, defaults=defaults)
    return map_shards(add_brokers(shards, brokers), build, pa.schema(silver_tables.PARTITIONS.columns))


def _build_replicas(shard: Shard) -> pa.Table:
    """Return the rows of silver.replicas of a shard."""
    partitions = infer_partitions(shard)
    replicas, isr = to_lists(partitions["replicas"]), to_lists(partitions["isr"])
    row, position = row_of(replicas.offsets), position_of(replicas.offsets)
    log, (size, is_inferred) = take_logs(partitions), measure_replicas(partitions)
    values = {field.name: pc.struct_field(log, field.name) for field in LOG}
    values["size_bytes"] = pa.array(size, mask=is_inferred | (size == UNKNOWN))
    in_sync = is_in_segment(replicas.values, replicas.offsets, isr.values, isr.offsets)
    values |= {name: to_array(partitions[name]).take(pa.array(row)) for name in ("topic", "partition")}
    values |= {
        "broker_id": pa.array(replicas.values),
        "is_future": pa.repeat(False, len(row)),
        "position": pa.array(position.astype(np.int32)),
        "in_sync": pa.array(in_sync, mask=~isr.valid[row]),
    }
    stray = unpack([shard["stray_logs"]], "stray_logs")
    unassigned = {name: stray[name] for name in ("topic", "partition", "broker_id", "is_future")}
    unassigned |= {field.name: pc.struct_field(to_array(stray["log"]), field.name) for field in LOG}
    unassigned |= {name: pa.nulls(stray.num_rows, REPLICAS.field(name).type) for name in ("position", "in_sync")}
    parts = (pa.table(columns).select(REPLICAS.names).cast(REPLICAS) for columns in (values, unassigned))
    return pa.concat_tables(parts)


def replicas(entities: DataFrame, brokers: DataFrame) -> DataFrame:
    """Build silver.replicas: one row per assigned replica, and one per log that no assignment accounts for."""
    shards = entities.where("partitions IS NOT NULL OR stray_logs IS NOT NULL")
    shards = shards.select(*SNAPSHOT_KEY, "partitions", "stray_logs")
    return map_shards(add_brokers(shards, brokers), _build_replicas, pa.schema(silver_tables.REPLICAS.columns))


def log_dirs(entities: DataFrame, brokers: DataFrame) -> DataFrame:
    """Build silver.log_dirs: the log dirs that brokers show, and those that only logs name, with what logs use."""
    used = sum_shard_logs(entities, brokers).where(F.col("log_dir").isNotNull())
    rows = _select_entity(entities, "log_dirs").join(used, on=[*SNAPSHOT_KEY, "broker_id", "log_dir"], how="full")
    # A log dir that is offline shows none of its logs.
    empty = F.when(F.col("log_dir_error").isNull(), F.lit(0).cast("long"))
    columns = {
        "used_bytes": F.when(F.col("replicas").isNull(), empty).when(F.col("unknown_logs") == 0, F.col("size_bytes")),
        "replicas": F.coalesce("replicas", F.lit(0).cast("long")),
    }
    return rows.select(*(columns.get(name, F.col(name)).alias(name) for name in silver_tables.LOG_DIRS.column_names))


def quorum(entities: DataFrame, brokers: DataFrame) -> DataFrame:
    """Build gold.quorum: the nodes of the controller quorum."""
    shards = add_brokers(entities.where("quorum IS NOT NULL").select(*SNAPSHOT_KEY, "quorum"), brokers)
    schema = pa.schema([*_KEY_FIELDS, *QUORUM_NODES])
    return map_shards(
        shards, lambda shard: describe_nodes(unpack([shard["quorum"]], "quorum"), read_brokers(shard)), schema
    )


def quarantine(entities: DataFrame, raw_metadata: DataFrame) -> DataFrame:
    """Build silver.quarantine: the rejected records with their text."""
    rejected = _select_entity(entities, "quarantine")
    (size,) = entities.agg(F.sum(F.length("quarantine"))).first() or (None,)
    if (size or 0) <= _SMALL_BYTES:  # the text of all records is not shuffled for few of them
        rejected = F.broadcast(rejected)
    texts = raw_metadata.select(*SNAPSHOT_KEY, "source", "record_number", "raw")
    result = rejected.join(texts, on=[*SNAPSHOT_KEY, "source", "record_number"], how="inner")
    return result.select(*silver_tables.QUARANTINE.column_names)


def warnings(entities: DataFrame) -> DataFrame:
    """Build silver.warnings: what the sources lack, as their records show."""
    return _select_entity(entities, "warnings").select(*silver_tables.WARNINGS.column_names)


def measured_loads(entities: DataFrame) -> DataFrame:
    """Build silver.measured_loads: what metrics show of topics and brokers."""
    return _select_entity(entities, "topic_loads").select(*silver_tables.MEASURED_LOADS.column_names)


def conflicts(entities: DataFrame, brokers: DataFrame) -> DataFrame:
    """Build silver.conflicts: facts that differ, and down brokers that lead partitions all the same."""

    def find(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        return _add_key(key, find_leading_down_brokers(rows.select(BROKERS.names)))

    schema = from_arrow_schema(pa.schema([*_KEY_FIELDS, *CONFLICTS]))
    leading = brokers.groupBy(*SNAPSHOT_KEY).applyInArrow(find, schema)
    return _select_entity(entities, "conflicts").unionByName(leading).select(*silver_tables.CONFLICTS.column_names)


def source_summary(entities: DataFrame, raw_metadata: DataFrame) -> DataFrame:
    """Build silver.source_summary: what became of each source's records."""
    # Formats that are not used are named only where there is no other.
    used = F.when(~F.col("format").isin(*UNUSED_FORMATS), F.col("format"))
    names = [F.array_join(F.array_sort(F.collect_set(form)), "+") for form in (used, F.col("format"))]
    formats = F.coalesce(F.nullif(names[0], F.lit("")), names[1]).alias("format")
    counted = raw_metadata.groupBy(*SNAPSHOT_KEY, "source").agg(formats, F.count("*").alias("records"))
    outcomes = _select_entity(entities, "outcomes").groupBy(*SNAPSHOT_KEY, "source", "outcome", "reason")
    summed = outcomes.agg(F.sum("records").alias("records"))

    def count(outcome: RecordOutcome) -> Column:
        records = F.sum(F.when(F.col("outcome") == outcome, F.col("records")))
        return F.coalesce(records, F.lit(0).cast("long")).alias(f"{outcome}_records")

    is_ignored = (F.col("outcome") == RecordOutcome.IGNORED) & F.col("reason").isNotNull()
    reasons = F.collect_list(F.when(is_ignored, F.struct("reason", "records")))
    by_source = summed.groupBy(*SNAPSHOT_KEY, "source").agg(
        *map(count, RecordOutcome), F.map_from_entries(F.array_sort(reasons)).alias("ignored_reasons")
    )
    return counted.join(by_source, on=[*SNAPSHOT_KEY, "source"], how="inner").select(
        *silver_tables.SOURCE_SUMMARY.column_names
    )
