"""The silver tables: the parts of internal.entities, each with what only the whole cluster can show."""

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from pipelines.ingest.format_registry import UNUSED_FORMATS
from pipelines.ingest.merge.entities import BROKERS, CONFLICTS, INFERRED_PARTITIONS, LOG_COLUMNS, REGISTRATIONS, USAGE
from pipelines.ingest.merge.inferred_state import NEVER_INFERRED_IN_SYNC, STATE, infer_leader_and_isr
from pipelines.ingest.merge.live_brokers import COUNTS_AS_LIVE, find_leading_down_brokers, infer_brokers
from pipelines.ingest.merge.shard_facts import RecordOutcome
from pipelines.spark.election_udf import elect_leader
from pipelines.tables import silver_tables
from pipelines.tables.silver_tables import PARTITIONS
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.arrow.columns import to_flags, to_lists
from udfs.arrow.ragged import is_in_segment

_KEY_FIELDS = (pa.field("cluster_id", pa.string()), pa.field("snapshot_id", pa.string()))


def _select_entity(entities: DataFrame, name: str) -> DataFrame:
    """Return the rows of one entity, its struct's fields as columns."""
    return entities.where(F.col("entity") == name).select(*SNAPSHOT_KEY, f"{name}.*")


def _add_key(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
    """Return one snapshot's rows with its key in front, for applyInArrow."""
    keys = [pa.repeat(scalar, rows.num_rows) for scalar in key]
    return pa.Table.from_arrays([*keys, *rows.columns], names=[*SNAPSHOT_KEY, *rows.schema.names])


def brokers(entities: DataFrame) -> DataFrame:
    """Build silver.brokers: every broker that is registered, listed or named by a replica, and whether it is live."""
    usage = _select_entity(entities, "usage").groupBy(*SNAPSHOT_KEY, "broker_id")
    counts = [name for name in USAGE.names if name != "broker_id"]
    used = usage.agg(*(F.sum(name).alias(name) for name in counts)).withColumn("is_used", F.lit(True))
    registered = _select_entity(entities, "registrations").withColumn("is_registered", F.lit(True))

    def infer(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        registrations = rows.filter(rows["is_registered"]).select(REGISTRATIONS.names).cast(REGISTRATIONS)
        result, _ = infer_brokers(registrations, rows.filter(rows["is_used"]).select(USAGE.names).cast(USAGE))
        return _add_key(key, result)

    both = registered.join(used, on=[*SNAPSHOT_KEY, "broker_id"], how="full")
    rows = both.groupBy(*SNAPSHOT_KEY).applyInArrow(infer, from_arrow_schema(pa.schema([*_KEY_FIELDS, *BROKERS])))
    return rows.select(*silver_tables.BROKERS.column_names)


def topics(entities: DataFrame) -> DataFrame:
    """Build silver.topics."""
    return _select_entity(entities, "topics").select(*silver_tables.TOPICS.column_names)


def partitions(entities: DataFrame, brokers: DataFrame) -> DataFrame:
    """Build silver.partitions without `successor`. Leader and ISR that no source shows are inferred, and marked so."""
    down = brokers.where("live IS FALSE").groupBy(*SNAPSHOT_KEY).agg(F.collect_list("broker_id").alias("down"))
    rows = _select_entity(entities, "partitions").join(down, on=list(SNAPSHOT_KEY), how="left")

    # Defined here, so that Spark sends its code to the workers, which need not import all tables for it.
    def infer(
        leader: pa.Array,
        replicas: pa.Array,
        isr: pa.Array,
        outside: pa.Array,
        has_replicas: pa.Array,
        has_isr: pa.Array,
    ) -> pa.Array:
        assigned, out_of_sync = to_lists(replicas), to_lists(outside)
        is_out = is_in_segment(assigned.values, assigned.offsets, out_of_sync.values, out_of_sync.offsets)
        assigned = assigned._replace(valid=to_flags(has_replicas))
        return infer_leader_and_isr(assigned, leader, to_lists(isr)._replace(valid=to_flags(has_isr)), is_out)

    infer_state = F.arrow_udf(infer, from_arrow_type(STATE))  # type: ignore[attr-defined]
    # Empty lists and flags instead of null lists: Spark 4.1 takes quadratic time to write many null lists to Arrow.
    names = ("replicas", "isr", "down", *NEVER_INFERRED_IN_SYNC)
    replicas, isr, *others = (F.coalesce(name, F.array().cast("array<int>")) for name in names)
    lists = (replicas, isr, F.concat(*others))
    is_known = [F.col(name).isNotNull() for name in ("replicas", "isr")]
    rows = rows.withColumn("state", infer_state("leader", *lists, *is_known)).drop("leader", "isr")
    return rows.select("*", "state.*").select(*SNAPSHOT_KEY, *INFERRED_PARTITIONS.names)


def replicas(entities: DataFrame, partitions: DataFrame) -> DataFrame:
    """Build silver.replicas: one row per assigned replica, and one per log that no assignment accounts for."""
    fields, columns = [field.name for field in LOG_COLUMNS], silver_tables.REPLICAS.column_names
    assigned = partitions.select("*", F.posexplode("replicas").alias("position", "broker_id"))
    log = F.try_element_at("logs", F.col("position") + 1)
    values = {name: log[name] for name in fields}
    # A model shows a partition's size, not that of each replica: replicas are as large as their partition.
    values["size_bytes"] = F.coalesce(log["size_bytes"], F.when(F.col("logs").isNull(), F.col("size_bytes")))
    in_sync = F.array_contains("isr", F.col("broker_id"))
    assigned = assigned.withColumns({**values, "is_future": F.lit(False), "in_sync": in_sync})
    missing = {"position": F.lit(None).cast("int"), "in_sync": F.lit(None).cast("boolean")}
    stray = _select_entity(entities, "stray_logs").select("*", "log.*").withColumns(missing)
    return assigned.select(*columns).unionByName(stray.select(*columns))


def quarantine(entities: DataFrame, raw_metadata: DataFrame) -> DataFrame:
    """Build silver.quarantine: the rejected records with their text."""
    rejected = _select_entity(entities, "quarantine")
    texts = raw_metadata.select(*SNAPSHOT_KEY, "source", "record_number", "raw")
    result = rejected.join(texts, on=[*SNAPSHOT_KEY, "source", "record_number"], how="inner")
    return result.select(*silver_tables.QUARANTINE.column_names)


def warnings(entities: DataFrame) -> DataFrame:
    """Build silver.warnings: what the sources lack, as their records show."""
    return _select_entity(entities, "warnings").select(*silver_tables.WARNINGS.column_names)


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


def add_successors(
    partitions: DataFrame, brokers: DataFrame, topics: DataFrame, unclean_leader_election: bool
) -> DataFrame:
    """Complete rows of silver.partitions by the broker that takes over if the leader fails."""
    live = brokers.where(COUNTS_AS_LIVE).groupBy(*SNAPSHOT_KEY).agg(F.collect_list("broker_id").alias("live"))
    configs = topics.where(F.col("unclean_leader_election").isNotNull())
    configs = configs.select(*SNAPSHOT_KEY, "topic", F.col("unclean_leader_election").alias("unclean"))
    rows = partitions.join(F.broadcast(live), on=list(SNAPSHOT_KEY), how="left")
    rows = rows.join(configs, on=[*SNAPSHOT_KEY, "topic"], how="left")
    live_replicas = F.coalesce(F.array_intersect("replicas", "live"), F.array().cast("array<int>"))
    unclean = F.coalesce("unclean", F.lit(unclean_leader_election))
    successor = elect_leader(unclean, live_replicas, F.array("leader")).leader
    has_leader = F.array_contains(live_replicas, F.col("leader"))
    return rows.withColumn("successor", F.when(has_leader, successor)).select(*PARTITIONS.column_names)
