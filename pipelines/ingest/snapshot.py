"""One cluster's sources read as a whole, without Spark: what inspect, what-if and plan work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.ingest.detect import read_files
from pipelines.ingest.merge.broker_liveness import assess_brokers
from pipelines.ingest.merge.cluster_merge import SOURCED_FACTS, resolve
from pipelines.ingest.merge.inferred_state import down_brokers, settle
from pipelines.ingest.records import Format, Records
from pipelines.ingest.sources import Source


@dataclass(frozen=True)
class Snapshot:
    """A cluster as its sources describe it.

    formats: {file name: format name}.   records: {file name: how many}.   skipped: names of what was not read of
    the source's folder.   partitions: schema SETTLED;
    brokers: schema BROKERS; topics, stray_logs, conflicts, accounts: the schemas of their names.
    quarantined: [{"source", "line_number", "raw", "reasons"}].
    """

    cluster_id: str
    formats: dict[str, str]
    records: dict[str, int]
    skipped: tuple[str, ...]
    brokers: pa.Table
    topics: pa.Table
    partitions: pa.Table
    stray_logs: pa.Table
    quarantined: list[dict[str, Any]]
    conflicts: pa.Table
    accounts: pa.Table


Framed = list[tuple[str, Format, Records]]


def framed(source: Source, format_name: str | None) -> Framed:
    """(file name, format, records) of each of the source's files. format_name overrides recognition for all files."""
    files = read_files(source, format_name)
    return [(file.name, chosen, chosen.frame(text, str(file))) for file, chosen, text in files]


def sourced(facts: pa.Table, source: str, format_name: str) -> pa.Table:
    """Facts with their origin beside them (schema SOURCED_FACTS), all at home."""
    n = facts.num_rows
    columns = [pa.array([source]), pa.array([format_name]), pa.array([True])]
    repeated = [c.take(pa.array([0] * n, pa.int32())) for c in columns]
    return pa.Table.from_arrays([*facts.columns, *repeated], schema=SOURCED_FACTS)


def facts_of(files: Framed) -> pa.Table:
    """What all records of a source's files say, one by one (schema SOURCED_FACTS)."""
    return pa.concat_tables([sourced(f.parse(records), name, f.name) for name, f, records in files]).combine_chunks()


def load_snapshot(source: Source, format_name: str | None = None) -> Snapshot:
    """The snapshot that a source's files describe together. format_name overrides recognition for all files."""
    files = framed(source, format_name)
    return snapshot_of(source, files, facts_of(files))


def snapshot_of(source: Source, files: Framed, facts: pa.Table) -> Snapshot:
    """The snapshot of a source whose files are framed and parsed already; facts: schema SOURCED_FACTS."""
    resolution = resolve(facts)
    brokers, against = assess_brokers(resolution.registrations, resolution.usage)
    raw = {name: records for name, _, records in files}
    quarantined = []
    for row in resolution.quarantine.to_pylist():
        number = row.pop("record_number")
        quarantined.append({**row, "raw": raw[row["source"]].raw[number]})
    return Snapshot(
        source.cluster_id,
        {name: f.name for name, f, _ in files},
        {name: len(records) for name, _, records in files},
        source.skipped,
        brokers,
        resolution.topics,
        settle(resolution.partitions, down_brokers(brokers)),
        resolution.stray_logs,
        quarantined,
        pa.concat_tables([resolution.conflicts, against]),
        resolution.accounts,
    )
