"""Read files into bronze.raw_metadata, then parse and merge the records into internal.entities."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType, TimestampType

from pipelines.ingest.formats.broker_and_topic_lists import BROKER_LIST
from pipelines.ingest.merge.cluster_merge import merge_facts
from pipelines.ingest.merge.entities import ENTITY_SCHEMAS
from pipelines.ingest.merge.shard_facts import SOURCED_FACTS
from pipelines.ingest.snapshot_reader import add_source, parse_records, read_file
from pipelines.ingest.source_format import RECORDS, FactKind, Records
from pipelines.ingest.text import MAX_FILE_BYTES
from pipelines.tables.bronze_tables import RAW_METADATA
from pipelines.tables.internal_tables import ENTITIES
from udfs.arrow.columns import to_array, to_flags
from udfs.arrow.ipc import pack_table, topic_shards, unpack_tables

_FILE_KEY = ("cluster_id", "snapshot_id", "source", "format")
_KINDS_FOR_ALL = (FactKind.BROKER, FactKind.BROKER_CHANGE, FactKind.BROKER_REMOVED, FactKind.TOPIC_DEFAULTS)

# Facts on their way to their shard, as one binary value per batch. Row by row, their lists and nulls would cost several
# times what parsing and merging them costs.
_FACT_BATCHES = pa.schema(
    [("cluster_id", pa.string()), ("snapshot_id", pa.string()), ("shard", pa.int32()), ("facts", pa.binary())]
)


def _build_parser(shard_counts: Mapping[str, int]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for mapInArrow: raw records -> facts by shard (schema _FACT_BATCHES)."""

    def parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for begin, end in pairwise(_find_file_bounds(batch)):
                part = batch.slice(begin, end - begin)
                cluster, snapshot, source, form = (part.column(name)[0].as_py() for name in _FILE_KEY)
                facts = parse_records(form, Records.from_table(part))
                shards = _split_by_shard(add_source(facts, source, form), shard_counts.get(cluster, 1))
                rows = [
                    {"cluster_id": cluster, "snapshot_id": snapshot, "shard": shard, "facts": pack_table(table)}
                    for shard, table in shards
                ]
                yield pa.RecordBatch.from_pylist(rows, _FACT_BATCHES)

    return parse


def _find_file_bounds(batch: pa.RecordBatch) -> list[int]:
    """Return where the rows of each file begin, and the number of rows."""
    is_change = np.zeros(max(batch.num_rows - 1, 0), dtype=np.bool_)
    for name in _FILE_KEY:
        codes = np.asarray(pc.dictionary_encode(batch.column(name)).indices)
        is_change |= codes[1:] != codes[:-1]
    return [0, *(np.flatnonzero(is_change) + 1).tolist(), batch.num_rows] if batch.num_rows else [0]


def _split_by_shard(facts: pa.Table, shard_count: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield (shard, its facts) of one file (schema SOURCED_FACTS): whole topics, and what all shards need to know."""
    if shard_count == 1:
        yield 0, facts
        return
    for_all = _needed_by_all(facts)
    topic = to_array(facts["topic"])
    home = topic_shards(pc.fill_null(topic, ""), shard_count)
    home[np.asarray(pc.is_null(topic)) | for_all] = 0
    for shard in np.unique(home).tolist() if not for_all.any() else range(shard_count):
        selected = for_all | (home == shard)
        part = facts.filter(pa.array(selected))
        if shard != 0:
            is_home = pa.array(home[selected] == shard)
            part = part.set_column(part.schema.get_field_index("home"), "home", is_home)
        if part.num_rows:
            yield shard, part


def _needed_by_all(facts: pa.Table) -> np.ndarray:
    """Return which facts every shard needs: of brokers, failed log dirs, all topics, rejected entries, and commands."""
    kind = facts["kind"]
    is_entry = to_flags(facts["listed"]) | to_flags(pc.equal(facts["format"], BROKER_LIST.name))
    clears_all = to_flags(pc.and_(pc.equal(kind, FactKind.CLEAR_ELR), pc.is_null(facts["topic"])))
    is_for_all = to_flags(pc.is_in(kind, pa.array(_KINDS_FOR_ALL, pa.string())))
    is_command = to_flags(pc.is_valid(facts["is_selection"]))
    # Which replicas a failed log dir has taken offline shows in the logs that its broker has of their topics.
    is_for_all |= to_flags(pc.is_valid(facts["log_dir_error"]))
    return is_for_all | is_command | clears_all | (to_flags(pc.equal(kind, FactKind.REJECTED)) & is_entry)


def _merge_shard(key: tuple[pa.Scalar, ...], batches: pa.Table) -> pa.Table:
    """Return the row of internal.entities of one shard of a cluster (batches: schema _FACT_BATCHES)."""
    unpacked = (unpack_tables([facts], SOURCED_FACTS) for facts in batches["facts"].to_pylist())
    parts = [part for part in unpacked if part.num_rows]
    parts.sort(key=lambda part: (part["source"][0].as_py(), pc.min(part["record_number"]).as_py()))  # not as they came
    entities = merge_facts(pa.concat_tables([SOURCED_FACTS.empty_table(), *parts]))
    row: dict[str, Any] = dict(zip(("cluster_id", "snapshot_id", "shard"), (part.as_py() for part in key), strict=True))
    for name in ENTITY_SCHEMAS:
        rows: pa.Table = getattr(entities, name)
        # Every shard has the facts of every broker and failed log dir; one shard is enough.
        if rows.num_rows and not (name in ("registrations", "log_dirs", "quorum") and row["shard"] != 0):
            row[name] = pack_table(rows)
    return pa.Table.from_pylist([row], pa.schema(ENTITIES.columns))


def entities(raw: DataFrame, shard_counts: Mapping[str, int]) -> DataFrame:
    """Build internal.entities from whole snapshots of bronze.raw_metadata; shard_counts: by cluster, else 1."""
    records = raw.select(*_FILE_KEY, *RECORDS.names)
    batches = records.mapInArrow(_build_parser(shard_counts), from_arrow_schema(_FACT_BATCHES))
    keyed = batches.groupBy("cluster_id", "snapshot_id", "shard")
    return keyed.applyInArrow(_merge_shard, ENTITIES.schema).select(*ENTITIES.column_names)


# `format` is that of the whole file, or null: each of its sections is recognised. A row stands for one part of so many
# of a file's records: a large file has several, so that no task waits for one that writes it all.
FILES = StructType(
    [StructField(name, StringType()) for name in _FILE_KEY]
    + [StructField("path", BinaryType()), StructField("ingested_at", TimestampType())]  # a path need not be UTF-8
    + [StructField("part", IntegerType()), StructField("parts", IntegerType())]
)
_BATCH_RECORDS = 20_000
_PART_BYTES = 64_000_000  # to read a file takes a tenth of the time that its records take to be written


def _read_files(batches: Iterable[pa.RecordBatch], max_bytes: int) -> Iterator[pa.RecordBatch]:
    for file in (file for batch in batches for file in batch.to_pylist()):
        number = 0
        for form, records in read_file(Path(os.fsdecode(file["path"])), file["format"], max_bytes).parts:
            same = {name: file[name] for name in _FILE_KEY} | {"format": form.name}
            for begin in range(0, len(records), _BATCH_RECORDS):
                number += 1
                if number % file["parts"] != file["part"]:
                    continue
                part = records.slice(begin, begin + _BATCH_RECORDS)
                columns = {name: pa.repeat(value, len(part)) for name, value in same.items()} | {
                    **dict(zip(RECORDS.names, map(to_array, part.to_table().itercolumns()), strict=True)),
                    "ingested_at": pa.repeat(pa.scalar(file["ingested_at"], pa.timestamp("us", tz="UTC")), len(part)),
                }
                yield pa.RecordBatch.from_pydict(columns)


def count_parts(size_bytes: int) -> int:
    """Return into how many parts a file of this size is divided."""
    return max(1, math.ceil(size_bytes / _PART_BYTES))


def raw_metadata(files: DataFrame, max_bytes: int = MAX_FILE_BYTES) -> DataFrame:
    """Build bronze.raw_metadata from files (FILES), with paths that Spark's workers can read."""
    read = partial(_read_files, max_bytes=max_bytes)
    return files.mapInArrow(read, RAW_METADATA.schema).select(*RAW_METADATA.column_names)
