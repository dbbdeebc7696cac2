"""One cluster's sources read as a whole, without Spark: the input of `inspect`, `what-if`, `plan` and others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.ingest.format_registry import read_files
from pipelines.ingest.merge.cluster_merge import SOURCED_FACTS, merge_facts
from pipelines.ingest.merge.inferred_state import infer_brokers, infer_state
from pipelines.ingest.source_format import Format, Records
from pipelines.ingest.sources import Source


@dataclass(frozen=True)
class Snapshot:
    """A cluster as its sources describe it; schemas are those of pipelines.ingest.merge.entities."""

    cluster_id: str
    formats: dict[str, str]  # file name -> format name
    records: dict[str, int]  # file name -> number of records
    skipped: tuple[str, ...]  # names of what was not read of the source's folder
    brokers: pa.Table  # BROKERS
    topics: pa.Table  # TOPICS
    partitions: pa.Table  # INFERRED_PARTITIONS
    stray_logs: pa.Table  # STRAY_LOGS
    quarantined: list[dict[str, Any]]  # rows with source, line_number, reasons and raw
    conflicts: pa.Table  # CONFLICTS
    outcomes: pa.Table  # OUTCOMES


class FileRecords(NamedTuple):
    """The records of one of a source's files."""

    name: str
    format: Format
    records: Records


def read_records(source: Source, format_name: str | None) -> list[FileRecords]:
    """Read the records of each of the source's files. format_name: format of all files; None = detect each file's."""
    files = read_files(source, format_name)
    return [FileRecords(file.name, form, form.read_records(text, str(file))) for file, form, text in files]


def add_source(facts: pa.Table, source: str, format_name: str) -> pa.Table:
    """Return facts (schema FACTS) with their source (schema SOURCED_FACTS), all in their home shard."""
    columns = [pa.repeat(value, facts.num_rows) for value in (source, format_name, True)]
    return pa.Table.from_arrays([*facts.columns, *columns], schema=SOURCED_FACTS)


def parse_facts(files: Sequence[FileRecords]) -> pa.Table:
    """Return the facts of all records of a source's files (schema SOURCED_FACTS)."""
    tables = [add_source(file.format.parse_facts(file.records), file.name, file.format.name) for file in files]
    return pa.concat_tables(tables).combine_chunks()


def load_snapshot(source: Source, format_name: str | None = None) -> Snapshot:
    """Read a source's files and merge them. format_name: format of all files; None = detect each file's."""
    files = read_records(source, format_name)
    return build_snapshot(source, files, parse_facts(files))


def build_snapshot(source: Source, files: Sequence[FileRecords], facts: pa.Table) -> Snapshot:
    """Merge the facts (schema SOURCED_FACTS) of a source's files."""
    entities = merge_facts(facts)
    brokers, conflicts = infer_brokers(entities.registrations, entities.usage)
    raw = {file.name: file.records.raw for file in files}
    quarantined = entities.quarantine.to_pylist()
    for row in quarantined:
        row["raw"] = raw[row["source"]][row.pop("record_number")]
    return Snapshot(
        cluster_id=source.cluster_id,
        formats={file.name: file.format.name for file in files},
        records={file.name: len(file.records) for file in files},
        skipped=source.skipped,
        brokers=brokers,
        topics=entities.topics,
        partitions=infer_state(entities.partitions, brokers),
        stray_logs=entities.stray_logs,
        quarantined=quarantined,
        conflicts=pa.concat_tables([entities.conflicts, conflicts]),
        outcomes=entities.outcomes,
    )
