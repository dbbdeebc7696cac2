"""One cluster's sources read as a whole, without Spark: the input of `inspect`, `what-if`, `plan` and others."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SourceError
from pipelines.ingest.format_registry import UNORDERED_FORMATS, FileRecords, parse_records, read_files
from pipelines.ingest.formats import live_requests
from pipelines.ingest.merge.cluster_merge import merge_facts
from pipelines.ingest.merge.listings import describe_conflicting_listings
from pipelines.ingest.merge.live_brokers import infer_brokers
from pipelines.ingest.merge.shard_facts import KRAFT_LOG, SOURCED_FACTS
from pipelines.ingest.merge.topic_merge import infer_state
from pipelines.ingest.source_format import FactKind
from pipelines.ingest.sources import Source
from pipelines.ingest.text import MAX_FILE_BYTES
from pipelines.ingest.unsupported_inputs import FORMAT as UNSUPPORTED
from udfs.plurals import count_of

_KINDS = (FactKind.BROKER, FactKind.BROKER_CHANGE, FactKind.BROKER_REMOVED)


class BrokerStops(NamedTuple):
    """Brokers that are fenced; of others, no source shows when and how they stopped."""

    order: tuple[int, ...] = ()  # the first to stop comes first
    shut_down: tuple[int, ...] = ()  # of these, those that were in a controlled shutdown
    lines: Mapping[int, tuple[str, int]] = MappingProxyType({})  # file and line that show the stop, by broker


def find_stops(facts: pa.Table) -> BrokerStops:
    """Find how brokers stopped. facts: of all files, each log in its order (schema SOURCED_FACTS)."""
    rows = facts.filter(pc.and_(pc.equal(facts["format"], KRAFT_LOG), pc.is_in(facts["kind"], pa.array(_KINDS))))
    names = ("kind", "broker_id", "fenced", "shutting_down", "source", "line_number")
    stopped: dict[int, bool] = {}  # whether in a controlled shutdown; in the order of stops
    lines: dict[int, tuple[str, int]] = {}
    leaving: set[int] = set()
    for kind, broker, fenced, shuts_down, *line in zip(*(rows[name].to_pylist() for name in names), strict=True):
        if kind == FactKind.BROKER or fenced is False:  # a process that starts, or that is live
            leaving.discard(broker)
            stopped.pop(broker, None)
        if shuts_down:
            leaving.add(broker)
        # A registered process is fenced until it is ready: that it stopped, only the log's snapshot can say.
        if fenced and (kind == FactKind.BROKER_CHANGE or shuts_down):
            stopped[broker], lines[broker] = broker in leaving, (line[0], line[1])
        elif kind == FactKind.BROKER_REMOVED:
            stopped.pop(broker, None)
    shut_down = tuple(broker for broker, clean in stopped.items() if clean)
    return BrokerStops(tuple(stopped), shut_down, {broker: lines[broker] for broker in stopped})


_CLUSTER_ID = re.compile(r"[\s>|#`]*+Cluster ID: ([A-Za-z0-9_-]{16,36})[\s`]*+$")  # kafka-cluster cluster-id


@dataclass(frozen=True, kw_only=True)
class ClusterTables:
    """What a verdict needs of a cluster's sources; schemas are those of pipelines.ingest.merge.entities."""

    brokers: pa.Table  # BROKERS
    topics: pa.Table  # TOPICS
    partitions: pa.Table  # INFERRED_PARTITIONS; no verdict needs `logs`
    log_dirs: pa.Table  # LOG_DIRS
    quorum: pa.Table  # QUORUM
    quarantined: list[dict[str, Any]]  # rows with source, line_number and reasons
    conflicts: pa.Table  # CONFLICTS
    warnings: pa.Table  # WARNINGS
    unused_files: tuple[str, ...]  # names of files of which nothing is used
    shows_preferred_leaders: bool  # whether the first of a list of replicas is the preferred leader


@dataclass(frozen=True, kw_only=True)
class Snapshot(ClusterTables):
    """A cluster as its sources describe it. Rows of `quarantined` also have `raw`."""

    cluster_id: str
    files: tuple[FileRecords, ...]
    skipped: tuple[str, ...]  # names of what was not read of the source's folder
    stray_logs: pa.Table  # STRAY_LOGS
    conflicting_listings: list[str]  # a sentence on each pair of listings that disagree on partitions
    outcomes: pa.Table  # OUTCOMES
    stops: BrokerStops  # how and in which order brokers stopped, as far as it is known

    @property
    def kafka_cluster_id(self) -> str | None:
        """The id that Kafka gave the cluster, if its sources show exactly one."""
        parts = (file.find_part(UNSUPPORTED.name) for file in self.files)
        lines = (_CLUSTER_ID.match(text) for part in parts if part is not None for *_, text in part)
        ids = {line[1] for line in lines if line is not None}
        return ids.pop() if len(ids) == 1 else None

    @property
    def format_names(self) -> set[str]:
        """The formats of its files."""
        return {name for file in self.files for name in file.format_names}

    @property
    def is_empty(self) -> bool:
        """Whether a running cluster has said that it has no topic."""
        return self.has_state(live_requests.NO_TOPICS)

    def has_state(self, line: str) -> bool:
        """Return whether a reading of a running cluster has a line."""
        parts = (file.find_part(live_requests.FORMAT.name) for file in self.files)
        return any(text == line for part in parts if part is not None for *_, text in part)

    @property
    def log_summary(self) -> str:
        """What kafka-log-dirs shows of partitions that no source describes; empty without any."""
        logs = {(row["topic"], row["partition"], row["broker_id"]) for row in self.stray_logs.to_pylist()}
        if not logs:
            return ""
        partitions, brokers = len({log[:2] for log in logs}), len({broker for *_, broker in logs})
        return f"logs of {count_of(partitions, 'partition')} on {count_of(brokers, 'broker')}"

    def explain_no_replicas(self, remedy: str, usable: str = "") -> SourceError:
        """Return the error of sources that show no replicas."""
        problem = f"its sources show no replicas{usable}"
        if self.log_summary:
            problem = f"its sources show {self.log_summary}, but no leaders, ISRs or order of replicas{usable}"
        if self.is_empty:
            problem, remedy = live_requests.NO_TOPICS, "Repeat the command when it has some"
        return SourceError(self.cluster_id, problem, remedy)


def add_source(facts: pa.Table, source: str, format_name: str) -> pa.Table:
    """Return facts (schema FACTS) with their source (schema SOURCED_FACTS), all in their home shard."""
    columns = [pa.repeat(value, facts.num_rows) for value in (source, format_name, True)]
    return pa.Table.from_arrays([*facts.columns, *columns], schema=SOURCED_FACTS)


def parse_facts(files: Sequence[FileRecords]) -> pa.Table:
    """Return the facts of all records of a source's files (schema SOURCED_FACTS)."""
    parts = [(file.name, part) for file in files for part in file.parts]
    tables = [add_source(parse_records(part.format.name, part.records), name, part.format.name) for name, part in parts]
    return pa.concat_tables(tables).combine_chunks()


def load_snapshot(source: Source, format_name: str | None = None, max_file_bytes: int = MAX_FILE_BYTES) -> Snapshot:
    """Read a source's files and merge them. format_name: format of all files; None = recognise each."""
    files = list(read_files(source, format_name, max_file_bytes))
    return build_snapshot(source, files, parse_facts(files))


def build_snapshot(source: Source, files: Sequence[FileRecords], facts: pa.Table) -> Snapshot:
    """Merge the facts (schema SOURCED_FACTS) of a source's files."""
    entities = merge_facts(facts)
    brokers, conflicts = infer_brokers(entities.registrations, entities.usage)
    quarantined = entities.quarantine.to_pylist()
    raw = _find_raw(files, {(row["source"], row["record_number"]) for row in quarantined})
    for row in quarantined:
        row["raw"] = raw[row["source"], row.pop("record_number")]
    return Snapshot(
        cluster_id=source.cluster_id,
        files=tuple(files),
        unused_files=tuple(file.name for file in files if file.problem is not None),
        shows_preferred_leaders=all(UNORDERED_FORMATS.isdisjoint(file.format_names) for file in files),
        skipped=source.skipped,
        brokers=brokers,
        topics=entities.topics,
        partitions=infer_state(entities.partitions, brokers),
        stray_logs=entities.stray_logs,
        log_dirs=entities.log_dirs,
        quorum=entities.quorum,
        quarantined=quarantined,
        conflicts=pa.concat_tables([entities.conflicts, conflicts]),
        conflicting_listings=describe_conflicting_listings(facts, entities.conflicts),
        outcomes=entities.outcomes,
        warnings=entities.warnings,
        stops=find_stops(facts),
    )


def _find_raw(files: Sequence[FileRecords], records: set[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Return the text of these records, by file name and record number."""
    by_file: dict[str, list[int]] = {}
    for name, number in records:
        by_file.setdefault(name, []).append(number)
    raw: dict[tuple[str, int], str] = {}
    for file in files:
        numbers = np.array(by_file.get(file.name, []), dtype=np.int64)
        for part in file.parts if len(numbers) else ():
            selected = part.records.take(part.records.find(numbers))
            raw |= {(file.name, number): text for number, _, _, text in selected}
    return raw
