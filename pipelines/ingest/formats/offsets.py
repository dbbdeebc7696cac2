"""`GetOffsetShell` (`kafka-get-offsets`): lines of topic:partition:offset."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from pipelines.ingest.formats.checked_values import (
    INT64,
    Fact,
    as_int,
    as_topic,
    ignored,
    parse_each,
    shown,
    unparsable,
)
from pipelines.ingest.formats.noise_lines import PROMPT, PROSE, line_records, noise_reason
from pipelines.ingest.records import OFFSET, Format, Records

UNKNOWN = "offset unknown"

_LINE = re.compile(r"([^\s:][^:]*):([0-9]+):([0-9,\s-]*)")
# A topic may be named like the beginning of a log line (kafka.orders); a time of day is no topic.
_CLEAR = re.compile(r"(?!\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[a-zA-Z0-9._-]+:[0-9]+:(?:-1|[0-9,]*)")
_NEARLY = re.compile(r"\S*:\S*:\S*|[^\s:]+:[0-9]+|\S*:[0-9]*:?[0-9]*\s*(?:\.{2,}|…)")


def _score(lines: Sequence[str]) -> float:
    filled = [line for line in lines if line.strip()]
    hits = sum(1 for line in filled if _LINE.fullmatch(line.strip()) and _is_entry(line.strip()))
    return 0.5 + 0.4 * hits / len(filled) if hits else 0.0


def _is_entry(line: str) -> bool:
    return noise_reason(line) in (PROSE, PROMPT) or _CLEAR.fullmatch(line) is not None


def _frame(text: str, _path: str) -> Records:
    return line_records(text)


def _facts(_context: str | None, raw: str) -> list[Fact]:
    line = raw.strip()
    match = _LINE.fullmatch(line) if _is_entry(line) else None
    if match is None:
        reason = noise_reason(line)
        if reason != PROSE:
            return ignored(reason)
        if _NEARLY.fullmatch(line):
            raise unparsable(f"{shown(line)} is not topic:partition:offset")
        return ignored(PROSE)
    topic, partition, offsets = match.groups()
    topic = as_topic(topic, "topic")
    number = as_int(partition, "partition")
    if offsets.strip() in ("", "-1"):  # no leader, or no such offset
        return ignored(UNKNOWN)
    # With --offsets N old versions print several, the newest first.
    newest, *_ = [as_int(offset.strip(), "offset", 0, INT64) for offset in offsets.split(",")]
    return [(OFFSET, {"topic": topic, "partition": number, "log_end_offset": newest})]


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format(
    name="offsets", title="GetOffsetShell, topic:partition:offset", score=_score, frame=_frame, parse=_parse
)
