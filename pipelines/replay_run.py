"""A replay as tables: the event log in, what follows from it out, one commit a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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
Made = tuple[Table, Table, Callable[[DataFrame], DataFrame]]
# Each table, the one that it is made of, and how.
_MADE: tuple[Made, ...] = (
    (tables.REQUESTS, tables.REPLAYED, stages.requests),
    (tables.REPLICATION_HEALTH, tables.REPLAYED, stages.replication_health),
    (tables.LEADERSHIP_EVENTS, tables.REPLAYED, stages.leadership_events),
    (tables.STATE_TRANSITIONS, tables.REPLAYED, stages.state_transitions),
    (tables.REPLAYED_PARTITIONS, tables.REPLAYED, stages.partitions),
    (tables.AVAILABILITY, tables.REPLICATION_HEALTH, stages.availability),
)


def write_events(spark: SparkSession, store: Store, events: pa.Table, snapshots: Sequence[SnapshotKey]) -> None:
    """Nothing; silver.cluster_events holds these rows (EVENTS), and no others of these snapshots."""
    store.replace(tables.CLUSTER_EVENTS, spark.createDataFrame(events), snapshots)


def write_replay(store: Store, snapshots: Sequence[SnapshotKey], buckets: int = BUCKETS) -> dict[str, float]:
    """{table: seconds that it took}; the tables of the replay follow from the events of these snapshots."""
    seconds: dict[str, float] = {}
    first: Made = (tables.REPLAYED, tables.CLUSTER_EVENTS, partial(stages.replayed, buckets=buckets))
    made = {table.name: (table, source.name, make) for table, source, make in (first, *_MADE)}

    def work(name: str) -> None:
        began = monotonic()
        table, source, make = made[name]
        store.replace(table, make(store.read(source, snapshots)), snapshots)
        seconds[name] = monotonic() - began

    run_steps(list(made), {name: (source,) for name, (_, source, _) in made.items()}, work, _AT_ONCE)
    return seconds
