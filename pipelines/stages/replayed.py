"""silver.replayed, and the gold tables of a replay out of it: partitions are folded side by side."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.tables import replay as t
from udfs.kernels import replay_codes as codes
from udfs.kernels.replay_state import CHECK_EVERY_MS, REBALANCES, RULES
from udfs.replay import spread
from udfs.replay.packing import NUMBERS, OF_EVERY_SHARE
from udfs.replay.schema import JOINED_REQUESTS, LISTS, WIRE
from udfs.replay.words import KINDS

_KEY = ("cluster_id", "snapshot_id")
_OF_ALL = tuple(KINDS[kind] for kind in OF_EVERY_SHARE)


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


def _with_times(events: DataFrame) -> DataFrame:
    """The events; clusters at first know their last event, whoever wrote it."""
    at_first = F.col("event") < 0
    last = (
        events.where(~at_first).groupBy(*_KEY).agg(F.max("at_ms").alias("last_ms"), F.max("event").alias("last_event"))
    )
    held = F.col("kind") == KINDS[codes.HELD_CLUSTER]
    end, count = (F.element_at("numbers", RULES + 2), F.element_at("numbers", RULES + 3))
    numbers = F.concat(
        F.slice("numbers", 1, RULES + 1),
        F.array(F.greatest(end, "last_ms"), F.greatest(count, F.col("last_event") + 1)),
        F.slice("numbers", RULES + 4, NUMBERS),
    )
    clusters = events.where(held).join(F.broadcast(last), list(_KEY), "left").withColumn("numbers", numbers)
    return events.where(~held).unionByName(clusters.select(*events.columns))


def _rebalances(events: DataFrame) -> DataFrame | None:
    """Rows of automatic rebalances, or None if no cluster's time is long enough for one.

    All partitions of a cluster are in one worker then: who is elected depends on all of them.
    """

    def number(i: int) -> Column:
        return F.element_at("numbers", i + 1)

    long = (number(REBALANCES) != 0) & (
        number(RULES + 1) - number(RULES) >= F.least(number(CHECK_EVERY_MS), number(CHECK_EVERY_MS + 1))
    )
    clusters = events.where((F.col("kind") == KINDS[codes.HELD_CLUSTER]) & long).select(*_KEY)
    if clusters.isEmpty():
        return None
    theirs = _wire(events.join(F.broadcast(clusters), list(_KEY), "left_semi"))
    return theirs.repartition(*_KEY).mapInArrow(spread.rebalancer(), from_arrow_schema(WIRE))


def replayed(events: DataFrame, buckets: int, goes_on: bool = False) -> DataFrame:
    """Rows of silver.replayed.

    events: of silver.cluster_events; or of silver.replay_state, and those since.   buckets: shares that partitions are
    spread over.   goes_on: with what a later fold goes on from.
    """
    events = _with_times(events)
    rebalances = _rebalances(events)
    rows = _wire(events)
    every = rows.where(F.col("kind").isin(*_OF_ALL))
    if rebalances is not None:
        every = every.unionByName(rebalances)
    share = F.pmod(F.hash("topic", "partition"), F.lit(buckets))
    own = rows.where(~F.col("kind").isin(*_OF_ALL)).withColumn("bucket", share)
    spread_out = every.withColumn("bucket", F.explode(F.sequence(F.lit(0), F.lit(buckets - 1))))
    shares = own.unionByName(spread_out).repartition(buckets, "bucket").drop("bucket")
    return shares.mapInArrow(spread.replayer(goes_on), from_arrow_schema(spread.PARCELS)).select(
        *t.REPLAYED.column_names
    )


def _rows(replayed: DataFrame, part: str) -> DataFrame:
    parcels = replayed.where(F.col("part") == part).select("rows")
    return parcels.mapInArrow(spread.unpacker(), from_arrow_schema(spread.PARTS[part]))


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
    several = parts.mapInArrow(spread.joiner(), from_arrow_schema(JOINED_REQUESTS))
    return single.unionByName(several).select(*t.REQUESTS.column_names)


def partitions(replayed: DataFrame) -> DataFrame:
    """Rows of gold.replayed_partitions."""
    return _rows(replayed, "at_the_end").select(*t.REPLAYED_PARTITIONS.column_names)


def so_far(replayed: DataFrame) -> DataFrame:
    """Rows of events from which a fold goes on: those of clusters and brokers, which every worker has, once."""
    rows = _rows(replayed, "so_far")
    of_all = rows.where(F.col("topic").isNull()).dropDuplicates([*_KEY, "kind", "broker_id"])
    return rows.where(F.col("topic").isNotNull()).unionByName(of_all)


def availability(health: DataFrame) -> DataFrame:
    """Rows of gold.availability: of each partition, and of each topic as a whole (partition -1).

    health: of gold.replication_health.
    """
    lasts = F.col("to_ms") - F.col("from_ms")

    def time_where(condition: Column) -> Column:
        return F.coalesce(F.sum(F.when(condition, lasts)), F.lit(0))

    measures = {
        "observed_ms": F.sum(lasts),
        "without_leader_ms": time_where(F.col("leader").isNull()),
        "under_replicated_ms": time_where(F.col("under_replicated")),
        "at_min_isr_ms": time_where(F.col("at_min_isr")),
        "under_min_isr_ms": time_where(F.col("under_min_isr")),
        "outages": F.count(F.when(F.col("leader").isNull() & (lasts > 0), 1)),
        "longest_outage_ms": F.coalesce(F.max(F.when(F.col("leader").isNull(), lasts)), F.lit(0)),
    }
    aggregated = [column.alias(name) for name, column in measures.items()]
    each = health.groupBy(*_KEY, "topic", "partition").agg(*aggregated)
    whole = health.groupBy(*_KEY, "topic").agg(*aggregated).withColumn("partition", F.lit(-1))
    led = 1 - F.col("without_leader_ms") / F.col("observed_ms")
    both = each.unionByName(whole).withColumn("led_ratio", F.when(F.col("observed_ms") > 0, led))
    return both.select(*t.AVAILABILITY.column_names)
