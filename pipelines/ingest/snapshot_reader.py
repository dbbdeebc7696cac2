"""The source formats by name, and the reading of files by them. A new format is a module and an entry here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SettingsError, SourceError
from pipelines.ingest.formats import (
    cluster_model_file,
    cruise_control_table,
    describe,
    java_descriptions,
    kafka_configs,
    kcat,
    kraft_log,
    live_requests,
    log_dirs,
    metadata_json,
    metadata_quorum,
    metadata_shell,
    rpk,
    shell_commands,
    strimzi_topics,
    topic_loads,
    zookeeper_cli,
    zookeeper_json,
)
from pipelines.ingest.formats.broker_and_topic_lists import BROKER_LIST, TOPIC_LIST
from pipelines.ingest.formats.broker_api_versions import API_VERSIONS, ENDPOINTS
from pipelines.ingest.formats.checked_values import quote
from pipelines.ingest.formats.log_dirs import OFFSET_CHECKPOINT, OFFSETS
from pipelines.ingest.formats.tool_documents import REASSIGNMENT, REASSIGNMENT_STATUS, TOOL_INPUT
from pipelines.ingest.merge.cluster_merge import merge_facts
from pipelines.ingest.merge.listings import describe_conflicting_listings
from pipelines.ingest.merge.live_brokers import infer_brokers
from pipelines.ingest.merge.shard_facts import KRAFT_LOG, SOURCED_FACTS
from pipelines.ingest.merge.topic_merge import infer_state
from pipelines.ingest.sections import FormatRecords, Section, claims, find_claims, find_sections, read_sections
from pipelines.ingest.source_format import FactKind, Format, Records
from pipelines.ingest.sources import Source, get_name
from pipelines.ingest.text import MAX_FILE_BYTES, read_text
from pipelines.ingest.unreadable_files import explain_unreadable, explain_unused_text
from pipelines.ingest.unrecognised import UNRECOGNISED
from pipelines.ingest.unsupported_inputs import FORMAT as UNSUPPORTED
from pipelines.ingest.unsupported_inputs import find_by_name
from udfs.wording import count_of

# In the order in which they claim lines and documents: the first that claims one gets it.
FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        *(kraft_log.FORMAT, log_dirs.FORMAT, cluster_model_file.FORMAT, zookeeper_json.FORMAT, zookeeper_cli.FORMAT),
        *(kcat.FORMAT, describe.FORMAT, API_VERSIONS, ENDPOINTS, java_descriptions.FORMAT, cruise_control_table.FORMAT),
        *(rpk.FORMAT, kafka_configs.FORMAT, metadata_shell.FORMAT, strimzi_topics.FORMAT, metadata_quorum.FORMAT),
        *(topic_loads.FORMAT, live_requests.FORMAT),
        shell_commands.FORMAT,  # no line of data can be a command or an error
        # An answer or a plan of this program has keys of the others.
        *(UNSUPPORTED, metadata_json.FORMAT, TOOL_INPUT, REASSIGNMENT_STATUS, REASSIGNMENT),
        *(OFFSET_CHECKPOINT, OFFSETS, BROKER_LIST, TOPIC_LIST, UNRECOGNISED),
    )
}
ZOOKEEPER_FORMATS = (zookeeper_json.FORMAT.name, zookeeper_cli.FORMAT.name)
# Files that have nothing else are an error.
UNUSED_FORMATS = frozenset({UNSUPPORTED.name, UNRECOGNISED.name, shell_commands.FORMAT.name})
# Their replica lists are sorted by id, and clusters of Redpanda elect no preferred leaders.
UNORDERED_FORMATS = frozenset({rpk.FORMAT.name})
# Formats whose claims are certain enough to reject what another reader has ignored: any object with an id may be an
# entry of a list.
_CERTAIN = tuple(form for form in FORMATS.values() if form not in (BROKER_LIST, TOPIC_LIST))
# Data that may be ignored: what we do not use, and what tools are to do.
_NO_LOSS = tuple(form for form in FORMATS.values() if form.name in UNUSED_FORMATS or form is TOOL_INPUT)
_QUOTED = 60  # characters of a record that a reason repeats
CHOICES = tuple(name for name in FORMATS if name not in UNUSED_FORMATS)  # what --format takes


class FileRecords(NamedTuple):
    """The records of one of a source's files."""

    path: Path
    sections: list[Section]
    parts: list[FormatRecords]  # one per format; record numbers are unique in the file
    problem: SourceError | None = None  # why nothing of it is used

    @property
    def name(self) -> str:
        """Name of the file."""
        return get_name(self.path)

    def find_part(self, format_name: str) -> Records | None:
        """Return the records that a format has read of this file, or None."""
        return next((part.records for part in self.parts if part.format.name == format_name), None)

    def replace_part(self, format_name: str, records: Records) -> FileRecords:
        """Return the file with other records of one format."""
        changed = (p._replace(records=records) if p.format.name == format_name else p for p in self.parts)
        return self._replace(parts=list(changed))

    @property
    def format_names(self) -> list[str]:
        """Names of the file's formats, in the order of their first lines; of unused ones only if there is no other."""
        names = list(dict.fromkeys(section.format.name for section in self.sections))
        return [name for name in names if name not in UNUSED_FORMATS] or names


def get_format(name: str) -> Format:
    """Return the format of this name."""
    if name not in FORMATS:
        raise SettingsError(f"no format {name!r}. Choose one of: {', '.join(CHOICES)}.")
    return FORMATS[name]


def parse_records(format_name: str, records: Records) -> pa.Table:
    """Return the facts of a format's records (schema FACTS); ignored data of another format is rejected."""
    form = FORMATS[format_name]
    if form in _NO_LOSS or not form.signature.may_hide_lines:
        return form.parse_facts(records)
    return form.parse_facts(records, partial(_explain_overlooked, form))


def _explain_overlooked(form: Format, raw: str) -> str | None:
    """Return why a record that a format ignores is rejected: it belongs to another one. None if it does not.

    Sections give each line and document to its format. Damage defeats them: a document that breaks off hides the lines
    below it, a lost prompt joins two outputs.
    """
    if not raw or raw.isspace() or claims(form, raw):
        return None
    owner = next((other for other in _CERTAIN if claims(other, raw)), form)
    if owner is form or owner in _NO_LOSS:
        return None
    problem = f"{quote(raw.strip()[:_QUOTED])} looks like {owner.title}, but stands amid {form.title}"
    return f"{problem}: repair the text around it, or put it into a file of its own"


def read_files(
    source: Source, format_name: str | None = None, max_bytes: int = MAX_FILE_BYTES
) -> Iterator[FileRecords]:
    """Yield the records of each of the source's files. format_name: format of all files; None = recognise each.

    Beside files of known formats, an empty or unrecognised file has format `unrecognised`. Raises: SourceError.
    """
    problem: SourceError | None = None
    is_readable = False
    for file in source.files:
        text, chosen = "", source.choose_format(file, format_name)
        try:  # once only: a file may be a pipe
            text = read_text(file, max_bytes)
        except SourceError as error:
            problem, chosen = explain_unreadable(file, error), UNRECOGNISED.name
        read = _read_sections(file, text, chosen)
        if not UNUSED_FORMATS.issuperset(read.format_names):
            is_readable = True
            yield read
            continue
        if text and chosen is None:
            problem = explain_unused_text(text, str(file))
        yield read._replace(problem=problem)
    if problem is not None and not is_readable:
        raise problem


def list_problems(files: Iterable[FileRecords]) -> list[SourceError]:
    """Return why files are not used: empty, unrecognised, or recognised but not supported."""
    return [file.problem for file in files if file.problem is not None]


def check_source(source: Source, format_name: str | None, max_bytes: int) -> None:
    """Check that one of a source's files can be read. Raises: SourceError, that of the last file."""
    for number, file in enumerate(source.files, 1):
        try:
            text = read_text(file, max_bytes)
            if source.choose_format(file, format_name) is None and not _has_data(file, text):
                raise explain_unused_text(text, str(file))
            return
        except SourceError as error:
            if number == len(source.files):
                raise explain_unreadable(file, error) from None


def _has_data(path: Path, text: str) -> bool:
    """Return whether a file has anything that is used; the first line that is ends the search."""
    claims = find_claims(text, list(FORMATS.values()))
    return find_by_name(path.name) is None and any(form.name not in UNUSED_FORMATS for form in claims)


def read_file(path: Path, format_name: str | None, max_bytes: int = MAX_FILE_BYTES) -> FileRecords:
    """Read the records of a file. format_name: format of the whole file; None = recognise each section.

    A file that is no text has no records; one in no known format has records of format `unrecognised`.
    """
    try:
        text = read_text(path, max_bytes)
    except SourceError:
        text, format_name = "", UNRECOGNISED.name
    return _read_sections(path, text, format_name)


def _read_sections(path: Path, text: str, format_name: str | None) -> FileRecords:
    is_unsupported = format_name is None and text and find_by_name(path.name) is not None
    sections = divide_text(text, UNSUPPORTED.name if is_unsupported else format_name)
    return FileRecords(path, sections, read_sections(text, str(path), sections))


def divide_text(text: str, format_name: str | None = None) -> list[Section]:
    """Return the sections of a file's text. format_name: format of the whole file; None = recognise each section."""
    if format_name is not None:
        return [Section(get_format(format_name), 1, text.count("\n") + 1, 0, len(text))]
    return find_sections(text, list(FORMATS.values()))


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
    disk_capacities: Mapping[tuple[int, str], float] = field(default_factory=dict)  # of a file, see add_disk_capacities

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
