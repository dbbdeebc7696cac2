"""A replay as tables: the event log in, what follows from it out, one commit a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pipelines.ingest.sources import SnapshotKey
from pipelines.schedule import run_steps
from pipelines.stages import replayed as stages
from pipelines.store import Store
from pipelines.tables import replay as tables
from pipelines.tables.contract import Table

BUCKETS = 8
_AT_ONCE = 3
# The tables that are parts of silver.replayed, and how each is made of it.
_PARTS: tuple[tuple[Table, Callable[[DataFrame], DataFrame]], ...] = (
    (tables.REQUESTS, stages.requests),
    (tables.REPLICATION_HEALTH, stages.replication_health),
    (tables.LEADERSHIP_EVENTS, stages.leadership_events),
    (tables.STATE_TRANSITIONS, stages.state_transitions),
    (tables.REPLAYED_PARTITIONS, stages.partitions),
)


def write_events(spark: SparkSession, store: Store, events: pa.Table, snapshots: Sequence[SnapshotKey]) -> None:
    """Nothing; silver.cluster_events holds these rows (EVENTS), and no others of these snapshots."""
    store.replace(tables.CLUSTER_EVENTS, spark.createDataFrame(events), snapshots)


def write_replay(store: Store, snapshots: Sequence[SnapshotKey], buckets: int = BUCKETS) -> dict[str, float]:
    """{table: seconds that it took}; the tables of the replay follow from the events of these snapshots."""
    seconds: dict[str, float] = {}

    def write(table: Table, rows: Callable[[], DataFrame]) -> None:
        began = monotonic()
        store.replace(table, rows(), snapshots)
        seconds[table.name] = monotonic() - began

    write(tables.REPLAYED, lambda: stages.replayed(store.read(tables.CLUSTER_EVENTS.name, snapshots), buckets))
    replayed = store.read(tables.REPLAYED.name, snapshots)
    makers = {table.name: (table, make) for table, make in _PARTS}

    def work(name: str) -> None:
        if name == tables.AVAILABILITY.name:
            health = store.read(tables.REPLICATION_HEALTH.name, snapshots)
            write(tables.AVAILABILITY, lambda: stages.availability(health))
            return
        table, make = makers[name]
        write(table, lambda: make(replayed))

    needs = {tables.AVAILABILITY.name: (tables.REPLICATION_HEALTH.name,)}
    run_steps([*makers, tables.AVAILABILITY.name], needs, work, _AT_ONCE)
    return seconds
