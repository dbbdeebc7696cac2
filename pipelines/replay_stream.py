"""Replays of event logs that arrive file by file: the same tables as a replay of all files at once.

Each micro-batch appends its events to silver.cluster_events, once even if it is done again after a stop, and replays
the clusters that it is about. The order of events is their number, not that of the files.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pipelines.errors import SourceError
from pipelines.ingest.sources import SnapshotKey
from pipelines.replay_run import write_replay
from pipelines.store import Store
from pipelines.tables import replay as tables
from udfs.replay.words import KINDS

_CORRUPT, _FILE = "not_read", "file"
_NEEDED = ("cluster_id", "snapshot_id", "event", "at_ms", "kind")


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
        _replay(store, batch, name, number)

    writer = arriving.writeStream.foreachBatch(replay).option(
        "checkpointLocation", f"{store.warehouse}/_checkpoints/replay-{name}"
    )
    return writer.trigger(availableNow=True).start() if once else writer.start()


def _replay(store: Store, batch: DataFrame, stream: str, number: int) -> None:
    _check(batch)
    keys = batch.select("cluster_id", "snapshot_id").distinct().collect()
    if not keys:
        return
    store.append_once(tables.CLUSTER_EVENTS, batch, stream, number)
    write_replay(store, [SnapshotKey(*key) for key in keys])


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
