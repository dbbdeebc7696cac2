"""Small frames from literal rows, and stages called on them as a run calls them.

All rows belong to cluster "c", snapshot "s": these keys are added to every frame, and compared. The other columns are
named in one text: `"topic partition leader"`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from pipelines.config.settings import load_settings
from pipelines.ingest.merge.entities import ENTITY_SCHEMAS
from pipelines.ingest.sources import SnapshotKey, Source
from pipelines.spark.arrow_frames import create_frame
from pipelines.stages.stage_registry import STAGES, Context
from pipelines.tables import TABLES
from udfs.arrow.ipc import pack_table

KEYS = {"cluster_id": "c", "snapshot_id": "s"}
# How expected rows are compared: Spark returns rows in any order, and not every stage declares what is never null.
SAME_ROWS: dict[str, Any] = {"ignore_row_order": True, "ignore_nullable": True}
# The same for floats: they differ at most in their last digits.
CLOSE_ROWS: dict[str, Any] = {**SAME_ROWS, "precision": 1e-12}

Frames = dict[str, DataFrame]  # By name of the table
Rows = Iterable[Sequence[Any]]
_STAGES = {stage.table: stage for stage in STAGES}
_AS_OF = datetime(2026, 1, 1, tzinfo=UTC)


def input_frame(spark: SparkSession, table: str, columns: str, rows: Rows) -> DataFrame:
    """Create a frame with every column of a table; columns without values are null."""
    values = [KEYS | dict(zip(columns.split(), row, strict=True)) for row in rows]
    fields = _list_fields(table, TABLES[table].column_names)
    return create_frame(spark, [[row.get(field.name) for field in fields] for row in values], StructType(fields))


def expected_frame(spark: SparkSession, table: str, columns: str, rows: Rows) -> DataFrame:
    """Create a frame with the keys and these columns of a table."""
    fields = _list_fields(table, [*KEYS, *columns.split()])
    return create_frame(spark, [[*KEYS.values(), *row] for row in rows], StructType(fields))


def select_columns(frame: DataFrame, columns: str) -> DataFrame:
    """Select the keys and these columns, without their comments."""
    return frame.select(*(F.col(name).alias(name, metadata={}) for name in [*KEYS, *columns.split()]))


def pack_entities(spark: SparkSession, frames: Frames) -> DataFrame:
    """Create internal.entities, in one shard, from the frames of silver.topics and silver.partitions."""
    packed = []
    for name in ("topics", "partitions"):
        schema = ENTITY_SCHEMAS[name]
        rows = frames[f"silver.{name}"].select(*schema.names).orderBy(*schema.names[: 1 + (name == "partitions")])
        packed.append(pack_table(pa.Table.from_pylist(rows.toArrow().to_pylist(), schema)))
    return input_frame(spark, "internal.entities", "shard topics partitions", [(0, *packed)])


def run_stage(table: str, frames: Frames, *settings: str) -> DataFrame:
    """Compute a table as a run does.

    Args:
        table: Name of the table.
        frames: Its inputs, by name.
        settings: Settings that differ from conf/pipeline.toml, as section.key=value.
    """
    sources = {SnapshotKey(**KEYS): Source(KEYS["cluster_id"], ())}
    context = Context("run", _AS_OF, load_settings(list(settings), environ={}), sources)
    stage = _STAGES[table]
    return stage.make({name: frames[name] for name in stage.inputs}, context)


def _list_fields(table: str, names: Iterable[str]) -> list[StructField]:
    schema = TABLES[table].schema
    return [StructField(name, schema[name].dataType) for name in names]
