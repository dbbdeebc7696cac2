"""Simulate events with Spark: internal.simulation_results, and the gold tables of a replay from it.

Partitions are simulated side by side, so that there may be more events than one machine's memory can hold. The stage is
not part of `run`: `replay --warehouse` runs it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from pipelines.spark.arrow_frames import create_frame
from pipelines.tables import simulation_tables
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table
from udfs.simulation import spark_functions
from udfs.simulation.event_columns import KINDS_OF_EVERY_SHARD
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.kernels.simulation_arrays import ClusterSetup
from udfs.simulation.simulation_schemas import JOINED_REQUESTS, LISTS, WIRE

_KEY_SCHEMA = StructType([StructField(name, StringType()) for name in SNAPSHOT_KEY])
_INITIAL_CLUSTER = EventKind.INITIAL_CLUSTER.label
_NAMES_OF_EVERY_SHARD = [kind.label for kind in KINDS_OF_EVERY_SHARD]

Persist = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class _Cluster:
    """A cluster of the event log."""

    key: tuple[str, str]
    at_ms: int
    numbers: list[int]  # of its row "cluster at first"
    has_deletions: bool  # of topics that wait for each other's partitions

    @property
    def can_rebalance(self) -> bool:
        """Whether its time is long enough for an automatic leader rebalance."""
        first = min(self.numbers[ClusterSetup.REBALANCE_CHECK_MS], self.numbers[ClusterSetup.FIRST_REBALANCE_CHECK_MS])
        length = self.numbers[ClusterSetup.END_TIME] - self.numbers[ClusterSetup.START_TIME]
        return self.numbers[ClusterSetup.AUTO_LEADER_REBALANCE] != 0 and length >= first


def simulate_events(events: DataFrame, buckets: int, persist: Persist = lambda frame: frame) -> DataFrame:
    """Return rows of internal.simulation_results for rows of silver.cluster_events."""
    # buckets: how many shards partitions are distributed over; persist: persists a frame that is read twice.
    clusters = _read_clusters(events)
    initial = events.sparkSession.createDataFrame(_make_initial_rows(clusters), from_arrow_schema(WIRE))
    shards = _shard(_to_wire(events.where(F.col("kind") != _INITIAL_CLUSTER)), buckets)
    has_joint_events = {one.key: one.can_rebalance for one in clusters if one.can_rebalance or one.has_deletions}
    if has_joint_events:
        shards = persist(shards)
    all_shards = shards.unionByName(_shard(initial, buckets))
    if has_joint_events:
        all_shards = all_shards.unionByName(_shard(_find_joint_events(all_shards, has_joint_events), buckets))
    every_bucket = F.sequence(F.lit(0), F.lit(buckets - 1))
    target = F.when(F.col("bucket") == spark_functions.EVERY_SHARD, every_bucket).otherwise(F.array("bucket"))
    distributed = all_shards.select(F.explode(target), "rows").repartitionById(buckets, "col").select("rows")
    results = distributed.mapInArrow(spark_functions.simulate_shards, from_arrow_schema(spark_functions.RESULTS))
    return results.select(*simulation_tables.SIMULATION_RESULTS.column_names)


def _read_clusters(events: DataFrame) -> list[_Cluster]:
    initial = events.where(F.col("kind") == _INITIAL_CLUSTER).select(*SNAPSHOT_KEY, "at_ms", "numbers")
    deletes = F.max(F.col("kind") == EventKind.DELETE_PARTITION.label)
    deletions = events.groupBy(*SNAPSHOT_KEY).agg(deletes.alias("has_deletions"))
    clusters = []
    for *key, at_ms, numbers, has_deletions in initial.join(deletions, list(SNAPSHOT_KEY)).collect():
        # With KRaft, a topic is deleted with its record: its partitions need not know of each other.
        clusters.append(_Cluster(tuple(key), at_ms, numbers, has_deletions and not numbers[ClusterSetup.KRAFT]))
    return clusters


def _make_initial_rows(clusters: Sequence[_Cluster]) -> pa.Table:
    rows = []
    for one in clusters:
        lists = [*([-1] * len(LISTS)), len(one.numbers), *one.numbers]
        row = {"at_ms": one.at_ms, "event": -1, "kind": _INITIAL_CLUSTER, "lists": lists}
        rows.append(dict(zip(SNAPSHOT_KEY, one.key, strict=True)) | row)
    return pa.Table.from_pylist(rows, schema=WIRE)


def _to_wire(events: DataFrame) -> DataFrame:
    """Join the lists of each event into one, as in WIRE."""
    columns = [F.col(name).cast("array<bigint>") for name in (*LISTS, "numbers")]
    empty = F.array().cast("array<bigint>")
    joined = F.concat(
        *(F.concat(F.array(F.coalesce(F.size(c), F.lit(-1)).cast("bigint")), F.coalesce(c, empty)) for c in columns)
    )
    lists = F.when(F.coalesce(*columns).isNull(), empty).otherwise(joined)
    return events.withColumn("lists", lists).select(*WIRE.names)


def _shard(rows: DataFrame, buckets: int) -> DataFrame:
    shard = F.pmod(F.hash("topic", "partition"), F.lit(buckets))
    bucket = F.when(F.col("kind").isin(_NAMES_OF_EVERY_SHARD), F.lit(spark_functions.EVERY_SHARD)).otherwise(shard)
    packed = rows.withColumn("bucket", bucket).select(*WIRE.names, "bucket")
    return packed.mapInArrow(spark_functions.shard_events, from_arrow_schema(spark_functions.SHARDS))


def _find_joint_events(shards: DataFrame, clusters: dict[tuple[str, str], bool]) -> DataFrame:
    """Find joint events (WIRE): a worker has all shards of a cluster, as all partitions take part in elections."""
    # clusters: by key, whether its leaders may be rebalanced; otherwise, it deletes topics.
    keys = F.broadcast(create_frame(shards.sparkSession, list(clusters), _KEY_SCHEMA))
    chosen = shards.join(keys, list(SNAPSHOT_KEY), "left_semi").repartition(*SNAPSHOT_KEY).select("rows")
    find = spark_functions.joint_event_finder([key for key, can_rebalance in clusters.items() if can_rebalance])
    return chosen.mapInArrow(find, from_arrow_schema(WIRE))


# ---- gold tables


def _build_part(part: str, table: Table) -> Callable[[DataFrame], DataFrame]:
    return lambda results: _unpack(results, part).select(*table.column_names)


build_leadership_events = _build_part("leaderships", simulation_tables.LEADERSHIP_EVENTS)
build_state_transitions = _build_part("transitions", simulation_tables.STATE_TRANSITIONS)
build_replication_health = _build_part("health", simulation_tables.REPLICATION_HEALTH)
build_final_partitions = _build_part("final_partitions", simulation_tables.FINAL_PARTITIONS)


def build_requests(results: DataFrame) -> DataFrame:
    """Build rows of gold.requests; the parts of a request come together again, to be answered as one."""
    own = {"part_error": F.col("error"), "part_answered_at_ms": F.col("answered_at_ms")}
    single = _unpack(results, "requests").withColumns(own)
    parts = _unpack(results, "requests_of_parts").repartition(*SNAPSHOT_KEY, "request")
    joined = parts.mapInArrow(spark_functions.join_request_parts, from_arrow_schema(JOINED_REQUESTS))
    return single.unionByName(joined).select(*simulation_tables.REQUESTS.column_names)


def _unpack(results: DataFrame, part: str) -> DataFrame:
    chosen = results.where(F.col("part") == part).select("rows")
    return chosen.mapInArrow(spark_functions.unpack_results, from_arrow_schema(spark_functions.RESULT_SCHEMAS[part]))


def build_availability(health: DataFrame) -> DataFrame:
    """Build rows of gold.availability, per partition and per whole topic (-1), from gold.replication_health."""
    length = F.col("to_ms") - F.col("from_ms")
    place = [*SNAPSHOT_KEY, "topic", "partition"]
    # An outage is a whole period without a leader, whose epoch or ISR may change meanwhile.
    leaderless = health.where(F.col("leader").isNull() & (length > 0)).select(*place, "from_ms", "to_ms")
    in_order = Window.partitionBy(*place).orderBy("from_ms")
    begins = F.coalesce(F.lag("to_ms").over(in_order) != F.col("from_ms"), F.lit(True))
    outage = F.sum(begins.cast("bigint")).over(in_order)
    outages = leaderless.withColumn("outage", outage).groupBy(*place, "outage").agg(F.sum(length).alias("outage_ms"))

    def time_where(condition: Column) -> Column:
        return F.coalesce(F.sum(F.when(condition, length)), F.lit(0))

    measures = {
        "observed_ms": F.sum(length),
        "without_leader_ms": time_where(F.col("leader").isNull()),
        "under_replicated_ms": time_where(F.col("under_replicated")),
        "at_min_isr_ms": time_where(F.col("at_min_isr")),
        "under_min_isr_ms": time_where(F.col("under_min_isr")),
    }
    aggregated = [column.alias(name) for name, column in measures.items()]
    counts = [F.count("*").alias("outages"), F.max("outage_ms").alias("longest_outage_ms")]
    joined = health.groupBy(*place).agg(*aggregated).join(outages.groupBy(*place).agg(*counts), place, "left")
    partitions = joined.fillna(0, ["outages", "longest_outage_ms"])
    topics = partitions.groupBy(*place[:-1]).agg(
        *(F.sum(name).alias(name) for name in (*measures, "outages")),
        F.max("longest_outage_ms").alias("longest_outage_ms"),
    )
    both = partitions.unionByName(topics.withColumn("partition", F.lit(-1)))
    led = 1 - F.col("without_leader_ms") / F.col("observed_ms")
    both = both.withColumn("led_ratio", F.when(F.col("observed_ms") > 0, led))
    return both.select(*simulation_tables.AVAILABILITY.column_names)
