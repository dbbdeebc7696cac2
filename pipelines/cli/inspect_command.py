"""`inspect`: shows what is understood of a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from pipelines.cli.app import app, examples
from pipelines.cli.common_options import FormatOption, JsonOption, read_snapshot, write_answer
from pipelines.cli.source_arguments import CommandConfigOption, SourceArgument, open_source
from pipelines.ingest.sources import name_line
from pipelines.ingest.text import BLANK
from pipelines.ingest.unrecognised import NO_TEXT
from udfs.plurals import count_of

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.ingest.snapshot_reader import Snapshot

_TOPIC_COLUMNS = (
    *("topic", "topic_id", "partitions", "listed_partitions", "replication_factor"),
    *("configs", "marked_for_deletion", "incomplete", "warnings"),
)
_PARTITION_COLUMNS = (
    *("topic", "partition", "leader", "replicas", "isr", "elr", "leader_epoch"),
    *("adding_replicas", "removing_replicas", "observers", "offline_replicas", "size_bytes", "state_inferred"),
)
# Published keys of columns that have a better name now.
_MAX_SECTIONS = 8  # of a file that are named
_MAX_LINES = 6  # of ignored records that are named, by reason
_MAX_IDS = 20  # brokers that are named
_MAX_RACKS = 12  # racks that are named
_MAX_LISTED = 1_000  # topics, warnings, quarantined records and conflicts that are listed, of each


@app.command(rich_help_panel="Questions, without Spark", epilog=examples("inspect"))
def inspect(
    source: SourceArgument,
    json_file: JsonOption = None,
    format_name: FormatOption = None,
    command_config: CommandConfigOption = None,
) -> None:
    """Show how each file of a source is read. Does not start Spark."""
    snapshot = read_snapshot(open_source(source, command_config, None, format_name), format_name)
    write_answer(json_file, build_answer(snapshot) if json_file is not None else None, render_snapshot(snapshot))


@dataclass(frozen=True)
class SourceSection:
    """Lines of a file that one format reads."""

    format: str
    first_line: int
    last_line: int


@dataclass(frozen=True, kw_only=True)
class SourceRecords:
    """What became of the records of one file."""

    source: str
    format: str
    records: int
    accepted: int
    quarantined: int
    ignored: int
    ignored_reasons: Mapping[str, int]
    ignored_lines: Mapping[str, Sequence[int]]  # the first lines by reason
    sections: Sequence[SourceSection]


@dataclass(frozen=True)
class Inspection:
    """What is understood of a source. Rows have the columns of the silver tables."""

    cluster: str
    format: str
    sources: list[SourceRecords]
    skipped: tuple[str, ...]
    brokers: list[dict[str, Any]]
    topics: list[dict[str, Any]]
    partitions: list[dict[str, Any]]
    quarantined: list[dict[str, Any]]
    warnings: Sequence[dict[str, Any]]  # records that show that something is missing, with source and line
    conflicting_listings: Sequence[str]  # a sentence on each pair of listings that disagree on partitions
    conflicts: Sequence[dict[str, Any]]


def build_answer(snapshot: Snapshot) -> Inspection:
    """Build the answer for --json; no leader is null."""
    topics = _list_rows(snapshot.topics.select(_TOPIC_COLUMNS))
    for topic in topics:
        topic["configs"] = dict(topic["configs"] or [])
    partitions = _list_rows(snapshot.partitions.select(_PARTITION_COLUMNS))
    for partition in partitions:
        partition["leader"] = None if partition["leader"] == -1 else partition["leader"]
        partition.update({name: partition[name] or [] for name in ("replicas", "isr")})
    conflicts = snapshot.conflicts.to_pylist()
    formats = "+".join(sorted({name for file in snapshot.files for name in file.format_names}))
    head = (snapshot.cluster_id, formats, count_records(snapshot), snapshot.skipped, _list_rows(snapshot.brokers))
    warnings = _list_rows(snapshot.warnings.drop_columns(["record_number"]))
    faults = (snapshot.quarantined, warnings, snapshot.conflicting_listings, conflicts)
    return Inspection(*head, topics, partitions, *faults)


def _list_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows as dictionaries. Each null of a column without values would cost as much as a value."""
    names = table.schema.names
    columns = ([None] * len(c) if c.null_count == len(c) else c.to_pylist() for c in table.itercolumns())
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def count_records(snapshot: Snapshot) -> list[SourceRecords]:
    """Count the records of each file by what became of them, and the ignored ones by reason."""
    import pyarrow.compute as pc

    out = []
    for file in snapshot.files:
        name, form = file.name, "+".join(sorted(file.format_names))
        counts: dict[str, Any] = {"accepted": 0, "quarantined": 0, "ignored": 0}
        reasons, lines = {}, {}
        for row in snapshot.outcomes.filter(pc.equal(snapshot.outcomes["source"], name)).to_pylist():
            counts[row["outcome"]] += row["records"]
            if row["outcome"] == "ignored":
                reasons[row["reason"]], lines[row["reason"]] = row["records"], row["first_lines"]
        records = sum(len(part.records) for part in file.parts)
        sections = [
            SourceSection(section.format.name, section.first_line, section.last_line) for section in file.sections
        ]
        out.append(
            SourceRecords(
                source=name,
                format=form,
                records=records,
                ignored_reasons=reasons,
                ignored_lines=lines,
                sections=sections,
                **counts,
            )
        )
    return out


def render_snapshot(snapshot: Snapshot) -> Iterator[str]:
    """Yield the lines that a person reads."""
    from pipelines.verdict.snapshot_findings import list_warnings

    yield f"cluster {snapshot.cluster_id}"
    for source in count_records(snapshot):
        yield from _render_source(source)
    yield from (f"  {name} is ignored: only files directly in the folder are read" for name in snapshot.skipped)
    yield from _render_brokers(snapshot.brokers.to_pylist())
    yield from _render_partitions(snapshot)
    warnings = [] if snapshot.is_empty else list_warnings(snapshot)
    sentences = (f"  warning: {sentence}" for sentence in (*warnings, *snapshot.conflicting_listings))
    quarantined = (
        f"  quarantined: {name_line(row['source'], row['line_number'])}: {'; '.join(row['reasons'])}"
        for row in snapshot.quarantined
    )
    yield from _limit(_render_topics(snapshot), "topic")
    yield from _limit(sentences, "warning")
    yield from _limit(quarantined, "quarantined record")
    yield from _limit(_render_conflicts(snapshot), "conflict")


def _limit(lines: Iterator[str], noun: str) -> Iterator[str]:
    """Yield some of the lines, and how many there are more."""
    yield from islice(lines, _MAX_LISTED)
    if more := sum(1 for _ in lines):
        yield f"  and {count_of(more, f'more {noun}')}: inspect --json FILE writes all"


def _render_topics(snapshot: Snapshot) -> Iterator[str]:
    for topic in snapshot.topics.select(_TOPIC_COLUMNS).to_pylist():
        marks = ["incomplete"] * topic["incomplete"] + ["marked for deletion"] * topic["marked_for_deletion"]
        if marks or topic["warnings"]:
            yield f"  topic {topic['topic']}: {'; '.join([*marks, *topic['warnings']])}"


def _render_conflicts(snapshot: Snapshot) -> Iterator[str]:
    for row in snapshot.conflicts.to_pylist():
        value, other = (_render_value(row, prefix) for prefix in ("", "other_"))
        yield f"  conflict: {row['entity']}: {row['field']} is {value} or {other}: {row['outcome']}"


def _render_source(source: SourceRecords) -> Iterator[str]:
    counts = {outcome: getattr(source, outcome) for outcome in ("accepted", "quarantined", "ignored")}
    parts = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items() if count)
    records = count_of(source.records, "record") + (f": {parts}" if parts else "")
    yield f"  {source.source} ({source.format}): {records}"
    from pipelines.ingest.format_registry import UNUSED_FORMATS

    sections = [section for section in source.sections if section.format not in UNUSED_FORMATS]
    if len(sections) > 1:
        named = [f"{section.format} {_render_lines(section)}" for section in sections[:_MAX_SECTIONS]]
        more = len(sections) - _MAX_SECTIONS
        yield f"    sections: {', '.join(named)}{f', and {more:,} more' if more > 0 else ''}"
    for reason, count in source.ignored_reasons.items():
        if reason == NO_TEXT:
            yield "    the file is empty or not text: nothing is read from it"
            continue
        yield f"    ignored: {count:,} x {reason}{_render_ignored_lines(reason, count, source.ignored_lines[reason])}"


def _render_ignored_lines(reason: str, count: int, lines: Sequence[int]) -> str:
    if reason == BLANK:
        return ""
    named = ", ".join(f"{line:,}" for line in lines[:_MAX_LINES])
    return f" ({'line' if count == 1 else 'lines'} {named}{', ...' if count > _MAX_LINES else ''})"


def _render_lines(section: SourceSection) -> str:
    first, last = section.first_line, section.last_line
    return f"line {first:,}" if first == last else f"lines {first:,}-{last:,}"


def _render_brokers(brokers: list[dict[str, Any]]) -> Iterator[str]:
    by_state: dict[bool | None, list[int]] = {True: [], False: [], None: []}
    unknown: dict[str, list[int]] = {}  # by reason
    for broker in brokers:
        by_state[broker["live"]].append(broker["broker_id"])
        if broker["live"] is None:
            unknown.setdefault(broker["live_reason"], []).append(broker["broker_id"])
    names = {True: "live", None: "of unknown state"}
    counts = [
        f"{len(by_state[state])} {name} ({_name_ids(by_state[state])})"
        for state, name in names.items()
        if by_state[state]
    ]
    yield "  brokers: " + ", ".join([*(counts or ["0 live"]), *_render_racks(brokers)])
    for broker in brokers:
        if broker["live"] is False:
            yield f"  broker {broker['broker_id']} is down: {broker['live_reason']}"
    for reason, ids in unknown.items():
        subject, verb = ("broker", "it is") if len(ids) == 1 else ("brokers", "they are")
        yield f"  {subject} {_name_ids(ids)}: unknown whether {verb} live: {reason}"


def _render_racks(brokers: list[dict[str, Any]]) -> Iterator[str]:
    """Yield how many racks there are, and the first with their brokers; nothing without racks."""
    live = dict.fromkeys(sorted({broker["rack"] for broker in brokers} - {None}), 0)
    for broker in brokers:
        if broker["rack"] is not None and broker["live"] is not False:
            live[broker["rack"]] += 1
    names = [f"{rack} {count:,}" for rack, count in islice(live.items(), _MAX_RACKS)]
    if len(live) > _MAX_RACKS:
        names.append(f"and {len(live) - _MAX_RACKS:,} more")
    if live:
        has_unknown = any(broker["rack"] is not None and broker["live"] is None for broker in brokers)
        state = "brokers that are not down" if has_unknown else "live brokers"
        yield f"{count_of(len(live), 'rack')} ({state}: {', '.join(names)})"


def _name_ids(ids: list[int]) -> str:
    return f"{','.join(map(str, ids[:_MAX_IDS]))}{',...' if len(ids) > _MAX_IDS else ''}"


def _render_partitions(snapshot: Snapshot) -> Iterator[str]:
    from udfs.arrow.columns import is_valid, to_flags, to_lists, to_numpy

    partitions = snapshot.partitions
    has_leader = to_numpy(partitions["leader"], -1) != -1
    has_replicas = is_valid(partitions["replicas"])
    leaderless = (~has_leader & (has_replicas | (to_lists(partitions["isr"]).lengths > 0))).sum()
    counts = [f"topics: {snapshot.topics.num_rows:,}", f"partitions: {partitions.num_rows:,}"]
    yield "  " + ", ".join([*counts, *([f"leaderless: {leaderless:,}"] if leaderless else [])])
    if not partitions.num_rows and not snapshot.is_empty:
        logs = f", only {snapshot.log_summary}" if snapshot.log_summary else ""
        yield f"  no partition is shown{logs}: add the output of kafka-topics --describe"
    if not has_replicas.all():
        with_leader = (has_leader & ~has_replicas).sum()
        leaders = f", {with_leader:,} of them with a leader" if with_leader else ""
        yield f"  {count_of(int((~has_replicas).sum()), 'partition')} without known replicas{leaders}"
    inferred = int(to_flags(partitions["state_inferred"]).sum())
    if inferred:
        yield f"  {count_of(inferred, 'partition')} without leader or ISR in the sources: inferred as healthy"
    observed = int((to_lists(partitions["observers"]).lengths > 0).sum())
    if observed:
        yield f"  {count_of(observed, 'partition')} with observers, which may be promoted to the ISR"


def _render_value(row: dict[str, Any], prefix: str) -> str:
    value, source, line = (row[prefix + name] for name in ("value", "source", "line_number"))
    return str(value) if source is None else f"{value} ({name_line(source, line)})"
