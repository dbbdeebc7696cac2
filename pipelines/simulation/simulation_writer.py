"""Write the tables of a replay: its events, and what a simulation with Spark makes of them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.store import Store
from pipelines.stages import simulation_stages as stage
from pipelines.stages.scheduler import run_steps
from pipelines.tables import TABLES, simulation_tables
from pipelines.tables.table_contract import Table
from udfs.simulation.group_simulation import GroupSimulation, build_group_tables

BUCKETS = 8
_PARALLEL_TABLES = 3
# Each table, the one that it is built from, and how.
_RESULTS = simulation_tables.SIMULATION_RESULTS
_GOLD_TABLES: tuple[tuple[Table, Table, Callable[[DataFrame], DataFrame]], ...] = (
    (simulation_tables.REQUESTS, _RESULTS, stage.build_requests),
    (simulation_tables.REPLICATION_HEALTH, _RESULTS, stage.build_replication_health),
    (simulation_tables.LEADERSHIP_EVENTS, _RESULTS, stage.build_leadership_events),
    (simulation_tables.STATE_TRANSITIONS, _RESULTS, stage.build_state_transitions),
    (simulation_tables.FINAL_PARTITIONS, _RESULTS, stage.build_final_partitions),
    (simulation_tables.AVAILABILITY, simulation_tables.REPLICATION_HEALTH, stage.build_availability),
)


def write_events(store: Store, events: pa.Table, snapshots: Sequence[SnapshotKey]) -> None:
    """Write events (schema EVENTS) of these snapshots to silver.cluster_events."""
    store.replace(simulation_tables.CLUSTER_EVENTS, events, snapshots)


def build_tables_of_groups(groups: GroupSimulation, key: SnapshotKey) -> dict[str, pa.Table]:
    """Build the rows of the tables of consumer groups, by table; only scenarios have groups, so these are few."""
    requests, transitions = build_group_tables(groups, key.cluster_id, key.snapshot_id)
    return {simulation_tables.GROUP_REQUESTS.name: requests, simulation_tables.GROUP_TRANSITIONS.name: transitions}


def write_simulation(
    store: Store,
    snapshots: Sequence[SnapshotKey],
    buckets: int = BUCKETS,
    group_tables: Mapping[str, pa.Table] | None = None,
) -> dict[str, float]:
    """Write what follows from the events of these snapshots, and return the seconds that each table took."""
    # group_tables: rows of the tables of consumer groups, by table; None = leave these as they are.
    seconds: dict[str, float] = {}
    persisted: list[DataFrame] = []

    def persist(frame: DataFrame) -> DataFrame:
        try:
            frame = frame.persist()
            persisted.append(frame)
        except AnalysisException:  # a platform that cannot persist computes it twice
            pass
        return frame

    simulate: Callable[[DataFrame], DataFrame] = partial(stage.simulate_events, buckets=buckets, persist=persist)
    simulated = (_RESULTS, simulation_tables.CLUSTER_EVENTS, simulate)
    tables = {table.name: (table, source.name, build) for table, source, build in (simulated, *_GOLD_TABLES)}
    groups = group_tables or {}

    def write(name: str) -> None:
        began = monotonic()
        if name in groups:
            store.replace(TABLES[name], groups[name], snapshots)
        else:
            table, source, build = tables[name]
            store.replace(table, build(store.read(source, snapshots)), snapshots)
        if name == _RESULTS.name:
            for frame in persisted:
                frame.unpersist()
        seconds[name] = monotonic() - began

    run_steps([*tables, *groups], {name: (source,) for name, (_, source, _) in tables.items()}, write, _PARALLEL_TABLES)
    return seconds
