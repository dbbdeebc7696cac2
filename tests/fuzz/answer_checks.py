"""Checks of what a case answers: no all-clear that its files contradict, no state that Kafka cannot be in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tests.fuzz.account_checks import MAY_BE_IGNORED, Problem
from tests.fuzz.data_lines import name_data
from tests.fuzz.session_mutations import CLUSTERS, FAILURES

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.ingest.snapshot_reader import Snapshot
    from tests.fuzz.source_lines import SourceLines

_COMMENT = re.compile(r"(?:#|//|;) ?(?=\s*[Tt]opic: )")
_WORD = re.compile(r"\b(topic|partition|leader|replicas|isr)\b\s?[:=]\s*[\w\[-]", re.I)
_OF_DESCRIBE = ("partition of describe", "topic of describe")
_NOT_CURRENT = ("ignored", "rejected")


def check_state(snapshot: Snapshot) -> Iterator[Problem]:
    """Yield partitions whose leader is not in their ISR, although both are shown."""
    for row in snapshot.partitions.select(["topic", "partition", "leader", "isr"]).to_pylist():
        if row["isr"] is not None and (row["leader"] or 0) >= 0 and row["leader"] not in (None, *row["isr"]):
            yield Problem("leader outside the ISR", str(row))


def check_comments(facts: pa.Table, files: dict[str, SourceLines | None]) -> Iterator[Problem]:
    """Yield lines of a describe that are commented out beside lines that are not, and are used all the same."""
    used: dict[str, set[int]] = {}
    for row in facts.select(["source", "line_number", "kind"]).to_pylist():
        if row["kind"] not in _NOT_CURRENT:
            used.setdefault(row["source"], set()).add(row["line_number"])
    for name, lines in files.items():
        if lines is None or not any(line for line in lines.lines if name_data(line) in _OF_DESCRIBE):
            continue
        for number, line in enumerate(lines.lines, 1):
            match = _COMMENT.match(line)
            if match and number in used.get(name, ()) and name_data(line[match.end() :]) in _OF_DESCRIBE:
                yield Problem("commented out, but used", f"{name} line {number}: {line[:200]!r}")


def check_all_clear(
    snapshot: Snapshot, facts: pa.Table, answer: Sequence[str], files: dict[str, SourceLines | None]
) -> Iterator[Problem]:
    """Yield why the answer must not be OK, if it is. answer: the lines of what-if."""
    if len(answer) < 2 or not answer[1].strip().startswith("OK"):
        return
    if snapshot.warnings.num_rows:
        yield Problem("OK with a warning", str(snapshot.warnings.slice(0, 1).to_pylist()))
    if snapshot.quarantined:
        yield Problem("OK with a quarantined record", str(snapshot.quarantined[0])[:500])
    if not snapshot.partitions.num_rows:
        yield Problem("OK without partitions", "")
    for row in snapshot.partitions.select(["topic", "partition", "leader"]).to_pylist():
        if row["leader"] == -1:
            yield Problem("OK with an offline partition", str(row))
            break
    for name, lines in files.items():
        for problem in _find_reasons(lines.lines if lines is not None else ()):
            yield Problem(problem, name)
    yield from _find_unread(snapshot, facts)


def _find_unread(snapshot: Snapshot, facts: pa.Table) -> Iterator[Problem]:
    """Yield the first record that is ignored although it has most of the words of a partition."""
    columns = ["source", "record_number", "kind", "reasons"]
    ignored = {
        (row["source"], row["record_number"]): row["reasons"]
        for row in facts.select(columns).to_pylist()
        if row["kind"] == "ignored" and not all(map(MAY_BE_IGNORED.search, row["reasons"]))
    }
    for file in snapshot.files:
        for part in file.parts:
            for number, line, _, raw in part.records:
                words = {word.lower() for word in _WORD.findall(raw)}
                if len(words) > 2 and (file.name, number) in ignored:
                    reasons = ignored[file.name, number]
                    yield Problem("OK with an unread line", f"{file.name} line {line}, {reasons}: {raw[:300]!r}")
                    return


def _find_reasons(lines: Sequence[str]) -> Iterator[str]:
    """Yield what the lines of a file show, whatever the readers make of them."""
    filled = [line for line in lines if line.strip()]
    if any(line in FAILURES for line in filled):
        yield "OK although a command failed"
    commands = [
        i
        for i, line in enumerate(filled)
        if line.startswith("$ kafka-topics.sh --bootstrap-server ") and line.endswith("describe")
    ]
    with_answer = (i for i in commands if i + 1 < len(filled) and name_data(filled[i + 1]) in _OF_DESCRIBE)
    servers = {word for i in with_answer for word in filled[i].split()[3:4]}
    if servers.issuperset(CLUSTERS):
        yield "OK although two clusters answered"
