"""The silver tables: the parts of internal.entities, each with what only the whole cluster can tell."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from pipelines.ingest.merge.broker_liveness import BROKERS as BROKER_SHAPE
from pipelines.ingest.merge.broker_liveness import assess_brokers
from pipelines.ingest.merge.merged_schemas import REGISTRATIONS, USAGE, USED
from pipelines.tables import silver_tables
from pipelines.tables.silver_tables import ENTITY_OF

_KEY = ("cluster_id", "snapshot_id")


def _part(entities: DataFrame, name: str) -> DataFrame:
    """The rows of one entity, its struct's fields as columns."""
    return entities.where(F.col("entity") == name).select(*_KEY, f"{ENTITY_OF[name]}.*")


def brokers(entities: DataFrame) -> DataFrame:
    """Rows of silver.brokers: every broker that is registered, listed or named by a replica, and whether it lives."""
    used = _part(entities, "usage").groupBy(*_KEY, "broker_id")
    counts = [name for name in USAGE.names if name != "broker_id"]
    summed = used.agg(*(F.sum(name).alias(name) for name in counts))
    known = _part(entities, "registrations").withColumn("known", F.lit(True))
    both = known.join(summed.withColumn("used", F.lit(True)), on=[*_KEY, "broker_id"], how="full")

    def assess(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        registrations = rows.filter(rows["known"]).select(REGISTRATIONS.names).cast(REGISTRATIONS)
        usage = rows.filter(rows["used"]).select(USAGE.names).cast(USAGE)
        found, _ = assess_brokers(registrations, usage)
        fixed = [pa.array([k.as_py()] * found.num_rows, pa.string()) for k in key]
        return pa.Table.from_arrays([*fixed, *found.columns], names=[*_KEY, *BROKER_SHAPE.names])

    schema = StructType([*(StructField(k, StringType()) for k in _KEY), *from_arrow_schema(BROKER_SHAPE).fields])
    return both.groupBy(*_KEY).applyInArrow(assess, schema).select(*silver_tables.BROKERS.column_names)


def topics(entities: DataFrame) -> DataFrame:
    """Rows of silver.topics."""
    return _part(entities, "topics").select(*silver_tables.TOPICS.column_names)


def partitions(entities: DataFrame, brokers: DataFrame) -> DataFrame:
    """Rows of silver.partitions. Where no source tells leader and ISR, they are taken as healthy, and marked so."""
    down = brokers.where(~F.col("live")).groupBy(*_KEY).agg(F.collect_list("broker_id").alias("down"))
    rows = _part(entities, "partitions").join(down, on=list(_KEY), how="left")
    silent = F.col("replicas").isNotNull() & F.col("leader").isNull() & F.col("isr").isNull()
    none_down = F.coalesce(F.col("down"), F.array().cast("array<int>"))
    live = F.filter("replicas", lambda broker: ~F.array_contains(none_down, broker))
    said = F.coalesce(F.col("leader"), F.lit(-1))
    leader = F.when(silent, F.coalesce(F.try_element_at(live, F.lit(1)), F.lit(-1))).otherwise(said)
    isr = F.when(silent, live).otherwise(F.coalesce(F.col("isr"), F.array().cast("array<int>")))
    placed = F.col("replicas").isNotNull()
    return (
        rows.withColumn("state_inferred", silent)
        .withColumn("new_leader", F.when(placed, leader).otherwise(F.col("leader")))
        .withColumn("new_isr", F.when(placed, isr).otherwise(F.col("isr")))
        .drop("leader", "isr")
        .withColumnsRenamed({"new_leader": "leader", "new_isr": "isr"})
        .select(*silver_tables.PARTITIONS.column_names)
    )


def replicas(entities: DataFrame, partitions: DataFrame) -> DataFrame:
    """Rows of silver.replicas: one per assigned replica, and one per log that no assignment accounts for."""
    fields = ("size_bytes", "offset_lag", "log_end_offset", "high_watermark", "log_dir")
    assigned = partitions.select(
        *_KEY,
        "topic",
        "partition",
        F.posexplode("replicas").alias("position", "broker_id"),
        "isr",
        "logs",
        F.col("size_bytes").alias("partition_bytes"),
    )
    log = F.try_element_at("logs", F.col("position") + 1)
    assigned = assigned.select(
        *_KEY,
        "topic",
        "partition",
        "broker_id",
        F.lit(False).alias("is_future"),
        "position",
        F.array_contains("isr", F.col("broker_id")).alias("in_sync"),
        # A model tells a partition's size, not each replica's: its replicas are taken as large as it is.
        *(
            F.coalesce(log[name], F.when(F.col("logs").isNull(), F.col("partition_bytes"))).alias(name)
            if name == "size_bytes"
            else log[name].alias(name)
            for name in fields
        ),
    )
    stray = _part(entities, "stray_logs").select(
        *_KEY,
        "topic",
        "partition",
        "broker_id",
        "is_future",
        F.lit(None).cast("int").alias("position"),
        F.lit(None).cast("boolean").alias("in_sync"),
        *(F.col(f"log.{name}").alias(name) for name in fields),
    )
    return assigned.unionByName(stray).select(*silver_tables.REPLICAS.column_names)


def quarantine(entities: DataFrame, raw_metadata: DataFrame) -> DataFrame:
    """Rows of silver.quarantine: the rejected records with their text."""
    rejected = _part(entities, "quarantine")
    texts = raw_metadata.select(*_KEY, "source", "record_number", "raw")
    found = rejected.join(texts, on=[*_KEY, "source", "record_number"], how="inner")
    return found.select(*silver_tables.QUARANTINE.column_names)


def conflicts(entities: DataFrame, brokers: DataFrame) -> DataFrame:
    """Rows of silver.conflicts: facts that differ, and down brokers that lead all the same."""
    down_leads = brokers.where(~F.col("live") & (F.col("leaders") > 0)).select(
        *_KEY,
        F.concat(F.lit("broker "), "broker_id").alias("entity"),
        F.lit("live").alias("field"),
        F.concat(F.lit("down: "), "live_reason").alias("value"),
        F.concat(F.lit("leads "), "leaders", F.lit(" partitions")).alias("other_value"),
        F.lit(USED).alias("outcome"),
    )
    both = _part(entities, "conflicts").unionByName(down_leads, allowMissingColumns=True)
    return both.select(*silver_tables.CONFLICTS.column_names)


def source_summary(entities: DataFrame, raw_metadata: DataFrame) -> DataFrame:
    """Rows of silver.source_summary: what became of each source's records."""
    counted = raw_metadata.groupBy(*_KEY, "source", "format").agg(F.count("*").alias("records"))
    account = _part(entities, "accounts")

    def of(verdict: str) -> Column:
        return F.coalesce(F.sum(F.when(F.col("verdict") == verdict, F.col("records"))), F.lit(0).cast("long"))

    by_reason = account.groupBy(*_KEY, "source", "verdict", "reason").agg(F.sum("records").alias("records"))
    ignored = (F.col("verdict") == "ignored") & F.col("reason").isNotNull()
    reasons = F.collect_list(F.when(ignored, F.struct("reason", "records")))
    verdicts = by_reason.groupBy(*_KEY, "source").agg(
        of("kept").alias("kept"),
        of("quarantined").alias("quarantined"),
        of("ignored").alias("ignored"),
        F.map_from_entries(F.array_sort(reasons)).alias("ignored_reasons"),
    )
    return counted.join(verdicts, on=[*_KEY, "source"], how="inner").select(*silver_tables.SOURCE_SUMMARY.column_names)
