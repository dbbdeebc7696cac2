"""THE contract: every Delta table once, in the order in which a run fills them."""

from __future__ import annotations

from pipelines.tables import bronze, failures, gold, ops, replay, silver
from pipelines.tables.contract import Table
from pipelines.tables.hotspot_odds import HOTSPOT_ODDS
from pipelines.tables.origin import CLUSTER_ORIGIN, TOPIC_ORIGIN
from pipelines.tables.plans import PLAN_MOVES, PLANNED, PLANS

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        bronze.RAW_METADATA,
        silver.ENTITIES,
        silver.BROKERS,
        silver.TOPICS,
        silver.PARTITIONS,
        silver.REPLICAS,
        silver.QUARANTINE,
        silver.CONTRADICTIONS,
        silver.SOURCE_ACCOUNTS,
        gold.PLACEMENTS,
        failures.SCHEME_SUMS,
        gold.BROKER_LOAD,
        gold.LEADER_HOTSPOTS,
        HOTSPOT_ODDS,
        failures.FAILURE_SUMMARY,
        failures.FAILURE_LOAD,
        failures.RANDOM_FAILURES,
        failures.HEADROOM,
        failures.OVER_CAPACITY,
        failures.DURABILITY,
        failures.SCHEME_SEEDS,
        gold.SCHEME_COMPARISON,
        TOPIC_ORIGIN,
        CLUSTER_ORIGIN,
        PLANNED,
        PLANS,
        PLAN_MOVES,
        replay.CLUSTER_EVENTS,
        replay.REPLAYED,
        replay.LEADERSHIP_EVENTS,
        replay.STATE_TRANSITIONS,
        replay.REPLICATION_HEALTH,
        replay.REQUESTS,
        replay.REPLAYED_PARTITIONS,
        replay.AVAILABILITY,
        replay.GROUP_REQUESTS,
        replay.GROUP_TRANSITIONS,
        ops.RUNS,
        ops.QUALITY_RESULTS,
    )
}

# What `run` makes; the others are what `replay` makes.
OF_REPLAYS = tuple(name for name, table in TABLES.items() if table in vars(replay).values())
OF_RUNS = tuple(name for name in TABLES if name not in OF_REPLAYS)
