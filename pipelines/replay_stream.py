"""Event logs as they arrive: files in a folder, replayed by Structured Streaming with what the batch would say.

Each event is added once, whatever files or a restart repeat. The snapshots that it is about go on from where they
stand (silver.replay_state, which is written last: until then a restart does the batch again); or begin anew, if these
are not the events that come next. The order of events is their number, not that of the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pipelines.errors import SourceError
from pipelines.ingest.sources import SnapshotKey
from pipelines.replay_run import BUCKETS, Keep, Write, write_tables
from pipelines.stages import replayed as stages
from pipelines.store import Store, of_snapshots
from pipelines.tables import replay as tables
from udfs.kernels.replay_codes import HELD_CLUSTER
from udfs.kernels.replay_state import END_EVENT
from udfs.replay.words import KINDS

_CORRUPT, _FILE = "not_read", "file"
_NEEDED = ("cluster_id", "snapshot_id", "event", "at_ms", "kind")
_KEY = ("cluster_id", "snapshot_id")
# What makes an event, or a row at first, the same as another: a file may come twice.
_SAME = (*_KEY, "event", "kind", "broker_id", "topic", "partition")


def follow(spark: SparkSession, store: Store, folder: str, once: bool) -> StreamingQuery:
    """The query that replays files of events (JSON lines, a row of silver.cluster_events each) as they arrive.

    once: it ends when all files that are there have been replayed. The warehouse has its checkpoint.
    """
    if "://" not in folder and not Path(folder).is_dir():
        raise SourceError(folder, "is no folder", "Name the folder in which files of events arrive.")
    name = hashlib.sha256(folder.encode()).hexdigest()[:16]
    columns = [f"`{field.name}` {field.dataType.simpleString()}" for field in tables.CLUSTER_EVENTS.schema.fields]
    reader = spark.readStream.schema(", ".join([*columns, f"{_CORRUPT} string"]))
    rows = reader.option("columnNameOfCorruptRecord", _CORRUPT).json(folder)
    arriving = rows.withColumn(_FILE, F.col("_metadata.file_path"))

    def replay(batch: DataFrame, number: int) -> None:
        batch.persist()  # it is read several times, and JSON takes its time
        try:
            _check(batch)
            _Batch(store, batch, name, number).replay()
        finally:
            batch.unpersist()

    writer = arriving.writeStream.foreachBatch(replay).option(
        "checkpointLocation", f"{store.warehouse}/_checkpoints/replay-{name}"
    )
    return writer.trigger(availableNow=True).start() if once else writer.start()


@dataclass(frozen=True)
class _Batch:
    """Events that have arrived: of which stream, as which of its batches."""

    store: Store
    events: DataFrame
    stream: str
    number: int

    def replay(self) -> None:
        """Nothing; the tables say what follows from all events until now."""
        new = _facts(self.events)
        if not new:
            return
        self.store.append_new(tables.CLUSTER_EVENTS, self.events, _SAME, "event")
        self.store.create(tables.REPLAY_STATE)
        states = self._states(sorted(new))
        known = _facts(self.store.read(tables.CLUSTER_EVENTS.name, sorted(new)))
        whole: list[SnapshotKey] = []
        going_on: list[SnapshotKey] = []
        for key in sorted(new):
            state = states.get(key)
            if state and state["stream"] == self.stream and state["batch"] >= self.number:
                continue  # done before a restart
            goes_on = state is not None and _comes_next(state, new[key], known[key])
            (going_on if goes_on else whole).append(key)
        for keys, goes_on in ((whole, False), (going_on, True)):
            if keys:
                self._write(keys, goes_on, {key: known[key] for key in keys})

    def _states(self, keys: Sequence[SnapshotKey]) -> dict[SnapshotKey, Row]:
        rows = self.store.read(tables.REPLAY_STATE.name, keys).where(F.col("kind") == KINDS[HELD_CLUSTER]).collect()
        return {SnapshotKey(row["cluster_id"], row["snapshot_id"]): row for row in rows}

    def _write(self, keys: Sequence[SnapshotKey], goes_on: bool, known: dict[SnapshotKey, Row]) -> None:
        def replayed(rows: DataFrame, keep: Keep) -> DataFrame:
            before = rows.select(*tables.CLUSTER_EVENTS.column_names)
            events = before.unionByName(self._events_of(keys)) if goes_on else before
            return stages.replayed(events, BUCKETS, goes_on=True, keep=keep)

        source = tables.REPLAY_STATE if goes_on else tables.CLUSTER_EVENTS
        write_tables(self.store, keys, (tables.REPLAYED, source, replayed), self._added(keys) if goes_on else {})
        rows = stages.so_far(self.store.read(tables.REPLAYED.name, keys)).join(F.broadcast(self._heads(known)), [*_KEY])
        self.store.replace(tables.REPLAY_STATE, rows, keys)

    def _events_of(self, keys: Sequence[SnapshotKey]) -> DataFrame:
        return self.events.where(of_snapshots(keys)).select(*tables.CLUSTER_EVENTS.column_names)

    def _added(self, keys: Sequence[SnapshotKey]) -> dict[str, Write]:
        """How what a fold that goes on tells comes to what its tables hold."""
        once: dict[str, Any] = {"writer": self.stream, "number": self.number}
        open_periods = f"{of_snapshots(keys)} AND at_the_end"
        return {
            tables.LEADERSHIP_EVENTS.name: partial(self.store.append_once, **once),
            tables.STATE_TRANSITIONS.name: partial(self.store.append_once, **once),
            tables.REPLICATION_HEALTH.name: partial(self.store.replace_once, where=open_periods, **once),
            tables.REQUESTS.name: partial(self.store.upsert, least="event"),
        }

    def _heads(self, known: dict[SnapshotKey, Row]) -> DataFrame:
        rows = [
            (key.cluster_id, key.snapshot_id, row["events"], row["several_parts"], self.stream, self.number)
            for key, row in known.items()
        ]
        names = ("of_events bigint", "several_parts boolean", "stream string", "batch bigint")
        schema = ", ".join((*(f"{name} string" for name in _KEY), *names))
        return self.store.spark.createDataFrame(rows, schema)


def _facts(events: DataFrame) -> dict[SnapshotKey, Row]:
    """By snapshot: how many events these are, the first number, whether requests of several partitions are there."""
    several = F.coalesce(F.max(F.col("parts") > 1), F.lit(False))
    facts = events.groupBy(*_KEY).agg(
        F.count("*").alias("events"), F.min("event").alias("first_event"), several.alias("several_parts")
    )
    return {SnapshotKey(row["cluster_id"], row["snapshot_id"]): row for row in facts.collect()}


def _comes_next(state: Row, new: Row, known: Row) -> bool:
    """Whether a fold goes on from `state` with the events of a batch, known: all that there are.

    Requests of several partitions are answered as wholes: out of all that their parts have met since their begin.
    """
    follow = new["first_event"] >= state["numbers"][END_EVENT]
    return follow and state["of_events"] + new["events"] == known["events"] and not known["several_parts"]


def _check(batch: DataFrame) -> None:
    """Nothing; SourceError with the file and the row if one is no event: then nothing of the batch is written."""
    wrong = F.col(_CORRUPT).isNotNull() | ~F.col("kind").isin(*KINDS)
    for column in _NEEDED:
        wrong = wrong | F.col(column).isNull()
    found = batch.where(F.coalesce(wrong, F.lit(True))).limit(1).collect()
    if found:
        row = found[0].asDict()
        said = row[_CORRUPT] or {name: row[name] for name in _NEEDED}
        remedy = "Write one JSON object a line with the columns of silver.cluster_events; kinds: docs/replay.md."
        raise SourceError(row[_FILE], f"is not all events: {said}", remedy)
