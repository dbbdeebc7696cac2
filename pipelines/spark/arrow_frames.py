"""Make Arrow tables, and data frames from them, give frames the columns of a table, and pair frames by snapshot."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.arrow.ipc import pack_table, rebatch, split_by_values, unpack_tables

_SIDES = pa.schema([*((name, pa.string()) for name in SNAPSHOT_KEY), ("side", pa.int32()), ("rows", pa.binary())])
# (cluster_id and snapshot_id, rows of the left frame, rows of the right one) -> rows
PairFunction = Callable[[tuple[pa.Scalar, ...], pa.Table, pa.Table], pa.Table]


def to_utc(at: datetime) -> datetime:
    """Return a time of a table's row as one that others can be compared with: without a zone, it is UTC."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def make_rows(rows: Sequence[Sequence[Any]], schema: StructType) -> pa.Table:
    """Make an Arrow table of plain rows."""
    arrow = to_arrow_schema(schema)
    columns = zip(*rows, strict=True) if rows else [()] * len(arrow)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    return pa.Table.from_arrays(arrays, schema=arrow)


def create_frame(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: StructType) -> DataFrame:
    """Create a data frame through Arrow: from plain rows, Spark would take two seconds to start Python workers."""
    return spark.createDataFrame(make_rows(rows, schema), schema)


def copy_table(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """Create a data frame from an Arrow table; Spark fails for columns of lists without any chunk."""
    return spark.createDataFrame(cast_rows(table, schema), schema)


def cast_rows(table: pa.Table, schema: StructType) -> pa.Table:
    """Return the columns of a schema with its types."""
    arrow = to_arrow_schema(schema)
    return table.select(arrow.names).cast(arrow) if table.num_rows else arrow.empty_table()


def complete_frame(frame: DataFrame, schema: StructType) -> DataFrame:
    """Select the columns of a schema; those that the frame lacks are null."""
    columns = (F.col(f.name) if f.name in frame.columns else F.lit(None).cast(f.dataType) for f in schema)
    return frame.select(*(column.alias(f.name) for column, f in zip(columns, schema, strict=True)))


def apply_to_pairs(left: DataFrame, right: DataFrame, function: PairFunction, schema: pa.Schema) -> DataFrame:
    """Apply a function to all rows that two frames have of each snapshot, which may be none of one of them.

    As `cogroup`, which not every Spark Connect server has; rows travel as Arrow IPC batches.
    """
    frames = (left, right)
    # Tables of Delta say which columns have no nulls, and Python's batches do not.
    schemas = [pa.schema([f.with_nullable(True) for f in to_arrow_schema(frame.schema)]) for frame in frames]
    packed = [
        frame.mapInArrow(partial(_pack_side, side=side, schema=schemas[side]), from_arrow_schema(_SIDES))
        for side, frame in enumerate(frames)
    ]

    def apply(key: tuple[pa.Scalar, ...], sides: pa.Table) -> pa.Table:
        packed = (sides["rows"].filter(pc.equal(sides["side"], side)).to_pylist() for side in (0, 1))
        return function(key, *map(unpack_tables, packed, schemas))

    both = packed[0].unionByName(packed[1]).groupBy(*SNAPSHOT_KEY)
    return both.applyInArrow(apply, from_arrow_schema(schema))


def _pack_side(batches: Iterable[pa.RecordBatch], side: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Pack rows into rows of _SIDES, a few for each snapshot."""

    def pack(table: pa.Table) -> Iterator[pa.RecordBatch]:
        for key, rows in split_by_values(table, SNAPSHOT_KEY):
            row = dict(zip(_SIDES.names, (*key, side, pack_table(rows.cast(schema))), strict=True))
            yield pa.RecordBatch.from_pylist([row], _SIDES)

    return rebatch(batches, pack)
