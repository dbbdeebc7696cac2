"""bronze.raw_metadata: the records of all sources, framed in parallel, a file at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from pipelines.ingest.detect import text_of
from pipelines.ingest.formats.format_registry import FORMATS
from pipelines.tables.bronze_tables import RAW_METADATA

_TEXTS = ("cluster_id", "snapshot_id", "source", "format", "path")
FILES = StructType([StructField(name, StringType()) for name in _TEXTS] + [StructField("ingested_at", TimestampType())])

_FRAMED = (
    "cluster_id string, snapshot_id string, source string, format string, "
    "record_number long, line_number long, context string, raw string, ingested_at timestamp"
)

# Records per Arrow batch, and at most so much text in one.
_BATCH_RECORDS = 20_000


def _numbers(values: Sequence[int]) -> pa.Array:
    if isinstance(values, range):  # as of lines: need not become Python numbers one by one
        return pa.array(np.arange(values.start, values.stop, values.step))
    return pa.array(values, pa.int64())


def _frame_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for file in batch.to_pylist():
            records = FORMATS[file["format"]].frame(text_of(file["path"], file["format"]), file["path"])
            for begin in range(0, len(records), _BATCH_RECORDS):
                part = slice(begin, begin + _BATCH_RECORDS)
                n = len(records.raw[part])
                fixed = [pa.repeat(file[k], n) for k in ("cluster_id", "snapshot_id", "source", "format")]
                yield pa.RecordBatch.from_arrays(
                    [
                        *fixed,
                        _numbers(records.record_number[part]),
                        _numbers(records.line_number[part]),
                        pa.array(records.context[part], pa.string()),
                        pa.array(records.raw[part], pa.string()),
                        pa.repeat(pa.scalar(file["ingested_at"], pa.timestamp("us", tz="UTC")), n),
                    ],
                    names=[c.split()[0] for c in _FRAMED.split(", ")],
                )


def raw_metadata(files: DataFrame) -> DataFrame:
    """Rows of bronze.raw_metadata. files: one row per file (FILES), readable where Spark's workers run.

    `ingested_at` is when the file's snapshot was first read.
    """
    return files.mapInArrow(_frame_files, _FRAMED).select(*RAW_METADATA.column_names)
