"""The tables of a replay from its events, Spark alone doing the work; events may be more than one machine holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.store import Store
from pipelines.stages import simulation_stage as stages
from pipelines.stages.scheduler import run_steps
from pipelines.tables import TABLES
from pipelines.tables import simulation_tables as tables
from pipelines.tables.table_contract import Table
from udfs.simulation.groups.group_simulation import GroupsReplayed
from udfs.simulation.groups.group_tables import group_requests, group_transitions

BUCKETS = 8
_AT_ONCE = 3
Made = tuple[Table, Table, Callable[[DataFrame], DataFrame]]
# Each table, the one that it is made of, and how.
_MADE: tuple[Made, ...] = (
    (tables.REQUESTS, tables.REPLAYED, stages.requests),
    (tables.REPLICATION_HEALTH, tables.REPLAYED, stages.replication_health),
    (tables.LEADERSHIP_EVENTS, tables.REPLAYED, stages.leadership_events),
    (tables.STATE_TRANSITIONS, tables.REPLAYED, stages.state_transitions),
    (tables.FINAL_PARTITIONS, tables.REPLAYED, stages.partitions),
    (tables.AVAILABILITY, tables.REPLICATION_HEALTH, stages.availability),
)


def write_events(spark: SparkSession, store: Store, events: pa.Table, snapshots: Sequence[SnapshotKey]) -> None:
    """Nothing; silver.cluster_events holds these rows (EVENTS), and no others of these snapshots."""
    store.replace(tables.CLUSTER_EVENTS, spark.createDataFrame(events), snapshots)


def rows_of_groups(of: GroupsReplayed, snapshot: SnapshotKey) -> dict[str, pa.Table]:
    """By table, what was told of consumer groups; they are few, and only scenarios tell of them."""
    made = {tables.GROUP_REQUESTS: group_requests, tables.GROUP_TRANSITIONS: group_transitions}
    return {table.name: rows(of, snapshot.cluster_id, snapshot.snapshot_id) for table, rows in made.items()}


def write_replay(
    store: Store,
    snapshots: Sequence[SnapshotKey],
    buckets: int = BUCKETS,
    of_groups: Mapping[str, pa.Table] | None = None,
) -> dict[str, float]:
    """{table: seconds that it took}; the tables of the replay follow from the events of these snapshots.

    of_groups: as of rows_of_groups, for no table of events has them; None = these tables are left as they are.
    """

    seconds: dict[str, float] = {}
    of_groups = of_groups or {}
    kept: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        try:
            frame = frame.persist()
            kept.append(frame)
        except AnalysisException:  # a platform that keeps nothing computes it twice
            pass
        return frame

    def replayed(events: DataFrame) -> DataFrame:
        return stages.replayed(events, buckets, keep)

    packed = (tables.REPLAYED, tables.CLUSTER_EVENTS, replayed)
    made = {table.name: (table, source.name, make) for table, source, make in (packed, *_MADE)}

    def work(name: str) -> None:
        began = monotonic()
        if name in of_groups:
            table, rows = TABLES[name], store.spark.createDataFrame(of_groups[name])
        else:
            table, source, make = made[name]
            rows = make(store.read(source, snapshots))
        store.replace(table, rows, snapshots)
        if table is tables.REPLAYED:
            for frame in kept:
                frame.unpersist()
        seconds[name] = monotonic() - began

    run_steps([*made, *of_groups], {name: (source,) for name, (_, source, _) in made.items()}, work, _AT_ONCE)
    return seconds
