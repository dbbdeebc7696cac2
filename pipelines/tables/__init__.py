"""THE contract: every Delta table once, in the order in which a run fills them."""

from __future__ import annotations

from pipelines.tables import (
    bronze_tables,
    failure_tables,
    ops_tables,
    placement_tables,
    silver_tables,
    simulation_tables,
)
from pipelines.tables.hotspot_tables import HOTSPOT_DISTRIBUTION
from pipelines.tables.origin_tables import CLUSTER_ORIGIN, TOPIC_ORIGIN
from pipelines.tables.plan_tables import PLAN_MOVES, PLANNED, PLANS
from pipelines.tables.table_contract import Table

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        bronze_tables.RAW_METADATA,
        silver_tables.ENTITIES,
        silver_tables.BROKERS,
        silver_tables.TOPICS,
        silver_tables.PARTITIONS,
        silver_tables.REPLICAS,
        silver_tables.QUARANTINE,
        silver_tables.CONFLICTS,
        silver_tables.SOURCE_SUMMARY,
        placement_tables.PLACEMENTS,
        failure_tables.SCHEME_AGGREGATES,
        placement_tables.BROKER_LOAD,
        placement_tables.LEADER_HOTSPOTS,
        HOTSPOT_DISTRIBUTION,
        failure_tables.FAILURE_SUMMARY,
        failure_tables.FAILURE_LOAD,
        failure_tables.RANDOM_FAILURES,
        failure_tables.HEADROOM,
        failure_tables.OVER_CAPACITY,
        failure_tables.DURABILITY,
        failure_tables.SCHEME_DISTRIBUTION,
        placement_tables.SCHEME_COMPARISON,
        TOPIC_ORIGIN,
        CLUSTER_ORIGIN,
        PLANNED,
        PLANS,
        PLAN_MOVES,
        simulation_tables.CLUSTER_EVENTS,
        simulation_tables.REPLAYED,
        simulation_tables.LEADERSHIP_EVENTS,
        simulation_tables.STATE_TRANSITIONS,
        simulation_tables.REPLICATION_HEALTH,
        simulation_tables.REQUESTS,
        simulation_tables.FINAL_PARTITIONS,
        simulation_tables.AVAILABILITY,
        simulation_tables.GROUP_REQUESTS,
        simulation_tables.GROUP_TRANSITIONS,
        ops_tables.RUNS,
        ops_tables.QUALITY_RESULTS,
    )
}

# What `run` makes; the others are what `replay` makes.
OF_REPLAYS = tuple(name for name, table in TABLES.items() if table in vars(simulation_tables).values())
OF_RUNS = tuple(name for name in TABLES if name not in OF_REPLAYS)
