"""Finds the lines of a listing that are not its current state: commented out, struck out, or lines of a diff.

A paste in which every line has `# ` is a listing with a prefix. A line with `#` beside lines without is one that
somebody took out. So a mark is judged by the listing, and only files that have one pay for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from itertools import chain

from pipelines.ingest.formats import describe_labels as labels
from pipelines.ingest.source_format import Records, decide_rejected
from pipelines.ingest.text import CHANGED_LINES


class _Mark(Enum):
    """What stands before a line."""

    COMMENT = "comment"
    STRUCK = "struck out"
    REMOVED = "removed"  # `-` as in a diff
    BULLET = "bullet"  # `-` and a blank: of a list, or of a diff
    ADDED = "added"
    OLD = "old"  # `<` of a plain diff
    NEW = "new"  # `>` of a plain diff, or of a mail


_BEGIN = r"[\s>|]*+(?:[0-9]++(?:[:.)][^\S\n]*+|[^\S\n]++))?+(?:<(?!del|s[ >]|strike)[a-zA-Z][^<>\n]{0,100}+>\s*+)*+"
# Lines that decide that lines of their listing are not its state: those with a label, and those without (HUNK).
MARKS = re.compile(
    rf"{_BEGIN}(?:(?P<comment>\#+|//+|;+|/\*)|(?P<struck>~~|<!--|<(?:del|s|strike)\b)|(?P<bullet>-\ )"
    r"|(?P<removed>-(?=[\tTtPp]))|(?P<added>\+(?=[\tTtPp]|\ {1,9}[TtPp]))|(?P<old><(?=\s)))",
    re.I | re.X,
)
_QUOTE = re.compile(r"\s*+>")
HUNK = re.compile(rf"@@ -[0-9]|diff --git |{CHANGED_LINES}")
_HUNK_LINE = re.compile(CHANGED_LINES)
_PARTITION = re.compile(r"partition\s?[:：]", re.I)
_MAX_LOOK = 400  # characters of a line
MIXED_STATES = "looks like a line of a diff, which mixes two states: give one of the two listings"
_STRUCK = "struck out: delete the line if it is no longer true, or else its marks"
_COMMENT = "commented out beside lines that are not: delete the line if it is no longer true, or else its mark"


def reject_marked(records: Records) -> Records:
    """Return the records; those that are commented out, struck out or of a diff have a context with the problem."""
    marks = [_find_mark(raw) for raw in records.raw]
    # Sentences and shell comments say nothing about the listing.
    marked = [i for i, mark in enumerate(marks) if mark is not None and labels.looks_like_data(records.raw[i])]
    problems = dict.fromkeys((i for i in marked if marks[i] is _Mark.STRUCK), _STRUCK)
    comments = [i for i in marked if marks[i] is _Mark.COMMENT]
    rest = [i for i in marked if marks[i] not in (_Mark.COMMENT, _Mark.STRUCK)]
    if comments and (any(marks[i] is not None for i in rest) or _has_unmarked(records, marks, is_partition=False)):
        problems |= dict.fromkeys(comments, _COMMENT)
    problems |= dict.fromkeys(_find_diff(records, marks, rest), MIXED_STATES)
    if not problems:
        return records
    contexts = list(records.context)
    for i, problem in problems.items():
        contexts[i] = decide_rejected(problem)
    return Records(records.record_number, records.line_number, contexts, records.raw)


def _find_mark(raw: str) -> _Mark | None:
    match = MARKS.match(raw)
    if match is not None and match.lastgroup is not None:
        return _Mark[match.lastgroup.upper()]
    return _Mark.NEW if _QUOTE.match(raw) else None


def _has_unmarked(records: Records, marks: Sequence[_Mark | None], is_partition: bool) -> bool:
    """Return whether a line of data has no mark; is_partition: whether a line of a partition has none."""
    return any(
        mark is None
        and (not is_partition or _PARTITION.search(raw, 0, _MAX_LOOK) is not None)
        and labels.looks_like_data(raw)
        for mark, raw in zip(marks, records.raw, strict=True)
    )


def _find_diff(records: Records, marks: Sequence[_Mark | None], marked: Sequence[int]) -> list[int]:
    """Return which of the marked records are lines of a diff."""
    kinds = {marks[i] for i in marked}
    is_plain = _Mark.OLD in kinds or (_Mark.NEW in kinds and _has_line(records, _HUNK_LINE))
    lines = {_Mark.REMOVED, _Mark.ADDED, _Mark.OLD} | ({_Mark.NEW} if is_plain else set())
    if _Mark.BULLET in kinds:
        bullets = (records.raw[i] for i in marked if marks[i] is _Mark.BULLET)
        if (
            not kinds.isdisjoint({_Mark.REMOVED, _Mark.ADDED})
            or _has_line(records, HUNK)
            or (
                any(_PARTITION.search(raw, 0, _MAX_LOOK) for raw in bullets)
                and _has_unmarked(records, marks, is_partition=True)
            )
        ):
            lines.add(_Mark.BULLET)
    return [i for i in marked if marks[i] in lines]


def _has_line(records: Records, pattern: re.Pattern[str]) -> bool:
    lines = chain.from_iterable(raw.split("\n") if "\n" in raw else (raw,) for raw in records.raw)
    return any(pattern.match(line) is not None for line in lines)
