"""Checks of a case's account: what becomes of every record, every line and every line of data."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.fuzz.data_lines import name_data
from tests.fuzz.source_lines import SourceLines

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.ingest.snapshot_reader import FileRecords, Snapshot

_TERMINAL_CODE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\))")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")  # characters without width
_OUTCOMES = ("accepted", "quarantined", "ignored")
# Reasons why a line of data may be ignored: what is wanted but not yet so, and the input of a tool.
MAY_BE_IGNORED = re.compile(r"proposed|target|topic to move|(?:unfinished|aborted) transaction|: not used$")
# What JSON, or the same as Python prints it, has on a line; a long string may be cut.
_TOKENS = re.compile(
    r"(?:[\s\[\]{}(),:]++|\"(?:[^\"\\]++|\\.)*+\"?|'(?:[^'\\]++|\\.)*+'?|-?[0-9][0-9.eE+-]*+|[Tt]rue|[Ff]alse|null|None"
    r"|NaN|-?Infinity)*+"
)
_STRAIGHT = str.maketrans("“”„", '"' * 3)
# Further lines of a document that is not JSON: its one fault is in the record above.
_REST = re.compile(r"[ \t]+[\[{\"',\d“”]|[ \t]*[\]}]")
_NO_WORD = re.compile("[^a-z0-9]+")
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)")  # what a terminal does not show
_NUMBER = re.compile(r"[0-9]+")
_MAX_DIGITS = 12


class Problem(NamedTuple):
    """What is wrong with a case: the check that failed, and details."""

    check: str
    detail: str


class _Record(NamedTuple):
    number: int
    line: int
    last_line: int
    raw: str
    context: str
    kinds: frozenset[str]
    reasons: tuple[str, ...]


def check_account(snapshot: Snapshot, facts: pa.Table, files: dict[str, SourceLines | None]) -> Iterator[Problem]:
    """Yield what is wrong with the records and lines of all files. files: own decoding, by the name that is shown."""
    rows = facts.select(["source", "record_number", "kind", "reasons"]).to_pylist()
    for file in snapshot.files:
        lines = files.get(file.name)
        records = _list_records(file, [row for row in rows if row["source"] == file.name])
        yield from _check_numbers(file, records)
        yield from _check_outcomes(snapshot, file, records)
        if lines is not None and any(line.strip() for line in lines.lines):
            yield from _check_sections(file, lines)
            yield from _check_positions(file, records, lines)
            yield from _check_lines(file, records, lines)


def _list_records(file: FileRecords, rows: list[dict[str, Any]]) -> list[_Record]:
    kinds: dict[int, set[str]] = {}
    reasons: dict[int, list[str]] = {}
    for row in rows:
        kinds.setdefault(row["record_number"], set()).add(row["kind"])
        reasons.setdefault(row["record_number"], []).extend(row["reasons"] or ())
    return [
        _Record(
            *(number, line, line + raw.count("\n"), raw, context or ""),
            *(frozenset(kinds.get(number, ())), tuple(reasons.get(number, ()))),
        )
        for part in file.parts
        for number, line, context, raw in part.records
    ]


def _check_numbers(file: FileRecords, records: list[_Record]) -> Iterator[Problem]:
    ordered = sorted(records)
    if [record.number for record in ordered] != list(range(len(records))):
        yield Problem("record numbers", f"{file.name}: not 0, 1, ...: {[record.number for record in ordered][:20]}")
    for record in records:
        if not record.kinds:
            yield Problem("record without facts", f"{file.name} line {record.line}: {record.raw[:200]!r}")
        if record.kinds & {"ignored", "rejected"} and not all(record.reasons or ("",)):
            yield Problem("no reason", f"{file.name} line {record.line}: {record.raw[:200]!r}")


def _check_outcomes(snapshot: Snapshot, file: FileRecords, records: list[_Record]) -> Iterator[Problem]:
    rows = [row for row in snapshot.outcomes.to_pylist() if row["source"] == file.name]
    counts = Counter({row["outcome"]: 0 for row in rows})
    for row in rows:
        counts[row["outcome"]] += row["records"]
        if (row["outcome"] == "ignored") != bool(row["reason"]) or row["outcome"] not in _OUTCOMES:
            yield Problem("outcome without reason", f"{file.name}: {row}")
    quarantined = [row for row in snapshot.quarantined if row["source"] == file.name]
    if sum(counts.values()) != len(records) or counts["quarantined"] != len(quarantined):
        listed = f"{len(quarantined)} listed as quarantined"
        yield Problem("account", f"{file.name}: {len(records)} records, {dict(counts)}, {listed}")
    for row in quarantined:
        if not row["reasons"] or not all(row["reasons"]):
            yield Problem("no reason", f"{file.name} line {row['line_number']} is quarantined")
    rejected = sum("rejected" in record.kinds for record in records)
    if counts["quarantined"] < rejected:
        yield Problem("rejected but not quarantined", f"{file.name}: {rejected} rejected, {dict(counts)}")


def _check_sections(file: FileRecords, lines: SourceLines) -> Iterator[Problem]:
    if not _TERMINAL_CODE.sub("", lines.text).strip():  # an empty file has no lines
        return
    expected = 1
    for section in file.sections:
        if section.first_line != expected or section.last_line < section.first_line:
            yield Problem("sections", f"{file.name}: lines {section.first_line} to {section.last_line}, not {expected}")
        expected = section.last_line + 1
    if expected - 1 not in (len(lines.lines), len(lines.lines) - 1):
        yield Problem("sections", f"{file.name}: they end at line {expected - 1} of {len(lines.lines)}")


def _check_positions(file: FileRecords, records: list[_Record], lines: SourceLines) -> Iterator[Problem]:
    """Check that the text of each record is on its line."""
    squashed: dict[int, str] = {}  # a long line may have thousands of records
    for record in records:
        begin, line = record.raw.split("\n", 1)[0], lines.get_line(record.line)
        is_plain = not begin.startswith(("{", "[")) and line.isascii() and line.replace("\t", "").isprintable()
        if record.line not in squashed:
            squashed[record.line] = _squash(line)
        short, whole = _squash(begin)[:20], squashed[record.line]
        if is_plain and len(short) > 3 and "\\" not in line + begin and short not in whole and whole[:20] not in short:
            where = f"{file.name} line {record.line} is {line[:200]!r}"
            yield Problem("record line", f"{where}, its record {record.raw[:200]!r}")


def _squash(text: str) -> str:
    """Return the letters and digits of a text, which readers keep as they are; they write null for Python's None."""
    return _NO_WORD.sub("", text.lower()).replace("none", "null")


def _check_lines(file: FileRecords, records: list[_Record], lines: SourceLines) -> Iterator[Problem]:
    """Check that each line belongs to a record or is part of a document, and that data is not ignored."""
    by_line: dict[int, list[_Record]] = {}
    for record in records:
        for number in range(record.line, min(record.last_line, len(lines.lines)) + 1):
            by_line.setdefault(number, []).append(record)
    begins = [section.first_line for section in file.sections]
    above: dict[str, tuple[int, ...]] = {}  # the last two lines so far that have a record, by format
    for number, line in enumerate(lines.lines, 1):
        visible = _ESCAPES.sub("", line).translate(_STRAIGHT)
        if not visible.strip():
            continue
        covering = by_line.get(number, [])
        section = file.sections[bisect_right(begins, number) - 1]
        if covering:
            above[section.format.name] = (*above.get(section.format.name, ())[-1:], number)
        name = name_data(line)
        if name is not None and not any(record.kinds - {"ignored"} for record in covering):
            reasons = sorted({reason for record in covering for reason in record.reasons})
            if not reasons or not all(MAY_BE_IGNORED.search(reason) for reason in reasons):
                why = "; ".join(reasons) or "in no record"
                yield Problem("data ignored", f"{name}: {why}: {file.name} line {number}: {line[:300]!r}")
        elif not covering:
            # A document may break off in a line that is prose.
            broken = [record for above_it in above.get(section.format.name, ()) for record in by_line[above_it]]
            is_broken = any("rejected" in record.kinds for record in broken)
            is_document = section.format.signature.reads_documents and (
                _TOKENS.fullmatch(line) or _TOKENS.fullmatch(visible) or (is_broken and _REST.match(line))
            )
            if not is_document and section.content is None:
                where = f"{file.name} line {number}: {line[:300]!r}"
                yield Problem("line in no record", f"section of {section.format.name}: {where}")


def check_partitions(snapshot: Snapshot, facts: pa.Table, files: dict[str, SourceLines | None]) -> Iterator[Problem]:
    """Yield partitions whose topic, number or replicas no file has."""
    raws = {
        (file.name, number): f"{context or ''} {raw}"
        for file in snapshot.files
        for part in file.parts
        for number, _, context, raw in part.records
    }
    text = "\n".join(_ESCAPES.sub("", lines.text) for lines in files.values() if lines is not None)
    numbers, words = set(_list_numbers(text)), _squash(text)
    known: set[tuple[Any, ...]] = set()
    columns = ["source", "record_number", "kind", "topic", "partition", "replicas"]
    for row in facts.select(columns).to_pylist():
        if row["replicas"] is None:
            continue
        known.add((row["partition"], tuple(row["replicas"])))
        own = _list_numbers(raws[row["source"], row["record_number"]])
        if not _is_subsequence(row["replicas"], own) or (
            row["partition"] not in own and row["partition"] not in numbers
        ):
            where = f"{row['source']}: {raws[row['source'], row['record_number']][:300]!r}"
            yield Problem("invented replicas", f"{row['topic']}-{row['partition']} {row['replicas']} in {where}")
    for row in snapshot.partitions.select(["topic", "partition", "replicas"]).to_pylist():
        if row["replicas"] is None:
            continue
        if _squash(row["topic"]) not in words or row["partition"] not in numbers:
            yield Problem("invented partition", f"{row['topic']}-{row['partition']}: not in the text")
        if (row["partition"], tuple(row["replicas"])) not in known:
            yield Problem("invented replicas", f"{row['topic']}-{row['partition']} {row['replicas']}: in no record")


def _list_numbers(text: str) -> list[int]:
    digits = (digits.lstrip("0") or "0" for digits in _NUMBER.findall(_INVISIBLE.sub("", text)))
    return [int(short) for short in digits if len(short) <= _MAX_DIGITS]


def _is_subsequence(values: list[int], numbers: list[int]) -> bool:
    rest = iter(numbers)
    return all(any(value == number for number in rest) for value in values)
