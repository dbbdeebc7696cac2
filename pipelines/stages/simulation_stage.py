"""internal.simulation_results, and the gold tables of a replay out of it: partitions are folded side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from pipelines.spark.local_frames import frame_of_rows
from pipelines.tables import simulation_tables as t
from udfs.simulation import spark_functions
from udfs.simulation.event_names import KINDS
from udfs.simulation.event_packing import OF_EVERY_SHARD
from udfs.simulation.event_shards import EVERY_SHARD, SHARDS, sharer
from udfs.simulation.kernels import codes
from udfs.simulation.kernels.simulation_state import CHECK_EVERY_MS, END_AT, FIRST_CHECK_MS, KRAFT, REBALANCES, START_AT
from udfs.simulation.simulation_schemas import JOINED_REQUESTS, LISTS, WIRE

_KEY = ("cluster_id", "snapshot_id")
_KEYS = StructType([StructField(name, StringType()) for name in _KEY])
_OF_ALL = tuple(KINDS[kind] for kind in OF_EVERY_SHARD)


def _lists() -> Column:
    """The lists of an event in one, as WIRE has them."""
    columns = [F.col(name).cast("array<bigint>") for name in (*LISTS, "numbers")]
    none = F.array().cast("array<bigint>")
    whole = F.concat(
        *(F.concat(F.array(F.coalesce(F.size(c), F.lit(-1)).cast("bigint")), F.coalesce(c, none)) for c in columns)
    )
    return F.when(F.coalesce(*columns).isNull(), none).otherwise(whole)


def _wire(events: DataFrame) -> DataFrame:
    return events.withColumn("lists", _lists()).select(*WIRE.names)


def _heads(events: DataFrame) -> list[dict[str, Any]]:
    """Key, at_ms and numbers of clusters at first; whether ZooKeeper's controller deletes topics."""
    at_first = events.where(F.col("kind") == KINDS[codes.HELD_CLUSTER]).select(*_KEY, "at_ms", "numbers")
    deletes = events.groupBy(*_KEY).agg(F.max(F.col("kind") == KINDS[codes.DELETE]).alias("deletes"))
    heads = []
    for row in at_first.join(deletes, list(_KEY)).collect():
        head = {name: row[name] for name in (*_KEY, "at_ms", "numbers")}
        heads.append({**head, "deletes": row["deletes"] and not row["numbers"][KRAFT]})
    return heads


def _head_rows(heads: list[dict[str, Any]]) -> pa.Table:
    """The same as rows of WIRE."""
    rows = [
        {
            **{name: head[name] for name in (*_KEY, "at_ms")},
            "event": -1,
            "kind": KINDS[codes.HELD_CLUSTER],
            "lists": [*([-1] * len(LISTS)), len(head["numbers"]), *head["numbers"]],
        }
        for head in heads
    ]
    return pa.Table.from_pylist(rows, schema=WIRE)


def _may_be_rebalanced(numbers: list[int]) -> bool:
    """Whether a cluster's time is long enough for its leaders to be rebalanced by themselves."""
    first = min(numbers[CHECK_EVERY_MS], numbers[FIRST_CHECK_MS])
    return numbers[REBALANCES] != 0 and numbers[END_AT] - numbers[START_AT] >= first


def _together(shards: DataFrame, of: dict[tuple[str, str], bool]) -> DataFrame:
    """Rows (WIRE) of what partitions do together, of these clusters. shards: SHARDS, all of theirs.

    of: by (cluster_id, snapshot_id), whether its leaders may be rebalanced; else topics of it are deleted. A worker has
    a whole cluster: who is elected depends on all of its partitions.
    """
    theirs = F.broadcast(frame_of_rows(shards.sparkSession, list(of), _KEYS))
    mine = shards.join(theirs, list(_KEY), "left_semi").repartition(*_KEY).select("rows")
    whole = [key for key, rebalanced in of.items() if rebalanced]
    return mine.mapInArrow(spark_functions.coupler(whole), from_arrow_schema(WIRE))


def _shared(rows: DataFrame, buckets: int) -> DataFrame:
    """Rows of WIRE as SHARDS."""
    shard = F.pmod(F.hash("topic", "partition"), F.lit(buckets))
    bucket = F.when(F.col("kind").isin(*_OF_ALL), F.lit(EVERY_SHARD)).otherwise(shard)
    packed = rows.withColumn("bucket", bucket).select(*WIRE.names, "bucket")
    return packed.mapInArrow(sharer(), from_arrow_schema(SHARDS))


def replayed(
    events: DataFrame, buckets: int, keep: Callable[[DataFrame], DataFrame] = lambda frame: frame
) -> DataFrame:
    """Rows of internal.simulation_results.

    events: of silver.cluster_events.   buckets: shards that partitions are spread over.   keep: of a frame that is
    read twice, one that is computed once.
    """
    found = _heads(events)
    rows = _wire(events.where(F.col("kind") != KINDS[codes.HELD_CLUSTER]))
    heads = events.sparkSession.createDataFrame(_head_rows(found), from_arrow_schema(WIRE))
    shards = _shared(rows, buckets)
    together = {}
    for head in found:
        rebalanced = _may_be_rebalanced(head["numbers"])
        if rebalanced or head["deletes"]:
            together[head["cluster_id"], head["snapshot_id"]] = rebalanced
    if together:
        shards = keep(shards)
    every = shards.unionByName(_shared(heads, buckets))
    if together:
        every = every.unionByName(_shared(_together(every, together), buckets))
    each = F.sequence(F.lit(0), F.lit(buckets - 1))
    spread_out = every.select(F.explode(F.when(F.col("bucket") < 0, each).otherwise(F.array("bucket"))), "rows")
    spread_out = spread_out.repartitionById(buckets, "col").select("rows")
    ipc_batches = spread_out.mapInArrow(spark_functions.replayer(), from_arrow_schema(spark_functions.IPC_BATCHES))
    return ipc_batches.select(*t.REPLAYED.column_names)


def _rows(replayed: DataFrame, part: str) -> DataFrame:
    ipc_batches = replayed.where(F.col("part") == part).select("rows")
    return ipc_batches.mapInArrow(spark_functions.unpacker(), from_arrow_schema(spark_functions.PARTS[part]))


def leadership_events(replayed: DataFrame) -> DataFrame:
    """Rows of gold.leadership_events."""
    return _rows(replayed, "leaderships").select(*t.LEADERSHIP_EVENTS.column_names)


def state_transitions(replayed: DataFrame) -> DataFrame:
    """Rows of gold.state_transitions."""
    return _rows(replayed, "transitions").select(*t.STATE_TRANSITIONS.column_names)


def replication_health(replayed: DataFrame) -> DataFrame:
    """Rows of gold.replication_health."""
    return _rows(replayed, "health").select(*t.REPLICATION_HEALTH.column_names)


def requests(replayed: DataFrame) -> DataFrame:
    """Rows of gold.requests: those of several partitions meet again, to be answered as one."""
    own = {"part_error": F.col("error"), "part_answered_at_ms": F.col("answered_at_ms")}
    single = _rows(replayed, "requests").withColumns(own)
    parts = _rows(replayed, "requests_of_parts").repartition(*_KEY, "request")
    several = parts.mapInArrow(spark_functions.joiner(), from_arrow_schema(JOINED_REQUESTS))
    return single.unionByName(several).select(*t.REQUESTS.column_names)


def partitions(replayed: DataFrame) -> DataFrame:
    """Rows of gold.final_partitions."""
    return _rows(replayed, "at_the_end").select(*t.FINAL_PARTITIONS.column_names)


def availability(health: DataFrame) -> DataFrame:
    """Rows of gold.availability: of each partition, and of each topic as a whole (partition -1).

    health: of gold.replication_health.
    """
    lasts = F.col("to_ms") - F.col("from_ms")
    place = [*_KEY, "topic", "partition"]
    # An outage is the time without a leader as a whole: its epoch or its ISR may change meanwhile.
    none = health.where(F.col("leader").isNull() & (lasts > 0)).select(*place, "from_ms", "to_ms")
    in_order = Window.partitionBy(*place).orderBy("from_ms")
    begins = F.coalesce(F.lag("to_ms").over(in_order) != F.col("from_ms"), F.lit(True))
    outage = F.sum(begins.cast("bigint")).over(in_order)
    outages = none.withColumn("outage", outage).groupBy(*place, "outage").agg(F.sum(lasts).alias("outage_ms"))

    def time_where(condition: Column) -> Column:
        return F.coalesce(F.sum(F.when(condition, lasts)), F.lit(0))

    measures = {
        "observed_ms": F.sum(lasts),
        "without_leader_ms": time_where(F.col("leader").isNull()),
        "under_replicated_ms": time_where(F.col("under_replicated")),
        "at_min_isr_ms": time_where(F.col("at_min_isr")),
        "under_min_isr_ms": time_where(F.col("under_min_isr")),
    }
    aggregated = [column.alias(name) for name, column in measures.items()]
    ends = [F.count("*").alias("outages"), F.max("outage_ms").alias("longest_outage_ms")]
    joined = health.groupBy(*place).agg(*aggregated).join(outages.groupBy(*place).agg(*ends), place, "left")
    each = joined.fillna(0, ["outages", "longest_outage_ms"])
    whole = each.groupBy(*place[:-1]).agg(
        *(F.sum(name).alias(name) for name in (*measures, "outages")),
        F.max("longest_outage_ms").alias("longest_outage_ms"),
    )
    both = each.unionByName(whole.withColumn("partition", F.lit(-1)))
    led = 1 - F.col("without_leader_ms") / F.col("observed_ms")
    both = both.withColumn("led_ratio", F.when(F.col("observed_ms") > 0, led))
    return both.select(*t.AVAILABILITY.column_names)
