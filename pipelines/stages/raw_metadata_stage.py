"""bronze.raw_metadata: the records of all sources, read in parallel, one file at a time."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from pipelines.ingest.format_registry import FORMATS, read_text_as
from pipelines.tables.bronze_tables import RAW_METADATA

_FILE_KEY = ("cluster_id", "snapshot_id", "source", "format")
FILES = StructType(
    [StructField(name, StringType()) for name in (*_FILE_KEY, "path")] + [StructField("ingested_at", TimestampType())]
)
_BATCH_RECORDS = 20_000


def _to_array(numbers: Sequence[int]) -> pa.Array:
    if isinstance(numbers, range):  # of lines: they need not become Python numbers one by one
        return pa.array(np.arange(numbers.start, numbers.stop, numbers.step))
    return pa.array(numbers, pa.int64())


def _read_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for file in (file for batch in batches for file in batch.to_pylist()):
        text = read_text_as(file["path"], file["format"])
        records = FORMATS[file["format"]].read_records(text, file["path"])
        for begin in range(0, len(records), _BATCH_RECORDS):
            part = records.slice(begin, begin + _BATCH_RECORDS)
            columns = {name: pa.repeat(file[name], len(part)) for name in _FILE_KEY} | {
                "record_number": _to_array(part.record_number),
                "line_number": _to_array(part.line_number),
                "context": pa.array(part.context, pa.string()),
                "raw": pa.array(part.raw, pa.string()),
                "ingested_at": pa.repeat(pa.scalar(file["ingested_at"], pa.timestamp("us", tz="UTC")), len(part)),
            }
            yield pa.RecordBatch.from_pydict(columns)


def raw_metadata(files: DataFrame) -> DataFrame:
    """Build bronze.raw_metadata.

    Args:
        files: One row per file (FILES), with paths that Spark's workers can read; `ingested_at` is when the file's
            snapshot was first read.
    """
    return files.mapInArrow(_read_files, RAW_METADATA.schema).select(*RAW_METADATA.column_names)
