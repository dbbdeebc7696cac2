"""`inspect`: shows what is understood of a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from pipelines.cli.app import app, examples
from pipelines.cli.common_options import FormatOption, JsonOption, read_snapshot, write_answer
from pipelines.cli.source_arguments import CommandConfigOption, SourceArgument, open_source
from pipelines.ingest.sources import name_line
from pipelines.ingest.text import BLANK
from pipelines.ingest.unrecognised import NO_TEXT
from udfs.wording import count_of, join_names

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


def build_answer(snapshot: Snapshot) -> dict[str, Any]:
    """Build the answer for --json: rows have the columns of the silver tables; no leader is null."""
    topics = _list_rows(snapshot.topics.select(_TOPIC_COLUMNS))
    for topic in topics:
        topic["configs"] = dict(topic["configs"] or [])
    partitions = _list_rows(snapshot.partitions.select(_PARTITION_COLUMNS))
    for partition in partitions:
        partition["leader"] = None if partition["leader"] == -1 else partition["leader"]
        partition.update({name: partition[name] or [] for name in ("replicas", "isr")})
    return {
        "cluster": snapshot.cluster_id,
        "format": "+".join(sorted(snapshot.format_names)),
        "sources": count_records(snapshot),
        "skipped": snapshot.skipped,
        "brokers": _list_rows(snapshot.brokers),
        "topics": topics,
        "partitions": partitions,
        "quarantined": snapshot.quarantined,
        "warnings": _list_rows(snapshot.warnings.drop_columns(["record_number"])),
        "conflicting_listings": snapshot.conflicting_listings,
        "conflicts": snapshot.conflicts.to_pylist(),
    }


def _list_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows as dictionaries. Each null of a column without values would cost as much as a value."""
    names = table.schema.names
    columns = ([None] * len(c) if c.null_count == len(c) else c.to_pylist() for c in table.itercolumns())
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def count_records(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Count the records of each file by what became of them, and the ignored ones by reason, with the first lines."""
    import pyarrow.compute as pc

    out = []
    for file in snapshot.files:
        counts: dict[str, Any] = {
            **{"source": file.name, "format": "+".join(sorted(file.format_names))},
            "records": sum(len(part.records) for part in file.parts),
            **{"accepted": 0, "quarantined": 0, "ignored": 0, "ignored_reasons": {}, "ignored_lines": {}},
            "sections": [
                {"format": one.format.name, "first_line": one.first_line, "last_line": one.last_line}
                for one in file.sections
            ],
        }
        for row in snapshot.outcomes.filter(pc.equal(snapshot.outcomes["source"], file.name)).to_pylist():
            counts[row["outcome"]] += row["records"]
            if row["outcome"] == "ignored":
                counts["ignored_reasons"][row["reason"]] = row["records"]
                counts["ignored_lines"][row["reason"]] = row["first_lines"]
        out.append(counts)
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
        values = []
        for prefix in ("", "other_"):
            value, source, line = (row[prefix + name] for name in ("value", "source", "line_number"))
            values.append(str(value) if source is None else f"{value} ({name_line(source, line)})")
        yield f"  conflict: {row['entity']}: {row['field']} is {' or '.join(values)}: {row['outcome']}"


def _render_source(source: Mapping[str, Any]) -> Iterator[str]:
    from pipelines.ingest.snapshot_reader import UNUSED_FORMATS

    outcomes = ("accepted", "quarantined", "ignored")
    parts = ", ".join(f"{source[outcome]:,} {outcome}" for outcome in outcomes if source[outcome])
    records = count_of(source["records"], "record") + (f": {parts}" if parts else "")
    yield f"  {source['source']} ({source['format']}): {records}"
    sections = [section for section in source["sections"] if section["format"] not in UNUSED_FORMATS]
    if len(sections) > 1:
        spans = ((one, one["first_line"], one["last_line"]) for one in sections)
        named = [f"{one['format']} line{f' {a:,}' if a == b else f's {a:,}-{b:,}'}" for one, a, b in spans]
        yield f"    sections: {join_names(named, _MAX_SECTIONS)}"
    for reason, count in source["ignored_reasons"].items():
        lines = source["ignored_lines"][reason][:_MAX_LINES]
        where = f" ({'line' if count == 1 else 'lines'} {join_names(lines, _MAX_LINES, count)})"
        yield f"    ignored: {count:,} x {reason}{'' if reason in (BLANK, NO_TEXT) else where}"


def _render_brokers(brokers: list[dict[str, Any]]) -> Iterator[str]:
    ids = {state: [row["broker_id"] for row in brokers if row["live"] is state] for state in (True, None)}
    names = {True: "live", None: "of unknown state"}
    counts = [f"{len(some)} {names[state]} ({join_names(some, _MAX_IDS)})" for state, some in ids.items() if some]
    yield "  brokers: " + ", ".join([*(counts or ["0 live"]), *_render_racks(brokers)])
    for broker in brokers:
        if broker["live"] is False:
            yield f"  broker {broker['broker_id']} is down: {broker['live_reason']}"
    for reason in dict.fromkeys(row["live_reason"] for row in brokers if row["live"] is None):
        some = [row["broker_id"] for row in brokers if row["live"] is None and row["live_reason"] == reason]
        yield f"  {count_of(len(some), 'broker')} of unknown state ({join_names(some, _MAX_IDS)}): {reason}"


def _render_racks(brokers: list[dict[str, Any]]) -> Iterator[str]:
    """Yield how many racks there are, and the first with their brokers; nothing without racks."""
    live = Counter({broker["rack"]: 0 for broker in brokers if broker["rack"] is not None})
    live.update(row["rack"] for row in brokers if row["rack"] is not None and row["live"] is not False)
    if live:
        has_unknown = any(broker["rack"] is not None and broker["live"] is None for broker in brokers)
        state = "brokers that are not down" if has_unknown else "live brokers"
        names = join_names((f"{rack} {count:,}" for rack, count in sorted(live.items())), _MAX_RACKS)
        yield f"{count_of(len(live), 'rack')} ({state}: {names})"


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
