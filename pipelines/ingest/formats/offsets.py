"""`GetOffsetShell` (`kafka-get-offsets`): lines of topic:partition:offset."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from pipelines.ingest.formats._lines import PROSE, is_log_line, line_records, noise_reason
from pipelines.ingest.formats._values import INT64, Fact, as_int, ignored, parse_each, shown, unparsable
from pipelines.ingest.records import OFFSET, Format, Records

UNKNOWN = "offset unknown"

_LINE = re.compile(r"([^\s:][^:]*):([0-9]+):([0-9,\s-]*)")
_NEARLY = re.compile(r"\S+:\S*:\S*")


def _score(lines: Sequence[str]) -> float:
    filled = [line for line in lines if line.strip()]
    hits = sum(1 for line in filled if _LINE.fullmatch(line.strip()) and not is_log_line(line))
    return 0.5 + 0.4 * hits / len(filled) if hits else 0.0


def _frame(text: str, _path: str) -> Records:
    return line_records(text)


def _facts(_context: str | None, raw: str) -> list[Fact]:
    line = raw.strip()
    reason = noise_reason(line)
    if reason != PROSE and not (reason == "prompt" and _LINE.fullmatch(line)):
        return ignored(reason)
    match = _LINE.fullmatch(line)
    if match is None:
        if _NEARLY.fullmatch(line):
            raise unparsable(f"{shown(line)} is not topic:partition:offset")
        return ignored(PROSE)
    topic, partition, offsets = match.groups()
    # With --offsets N old versions print several, the newest first.
    newest = offsets.split(",")[0].strip()
    if newest in ("", "-1"):  # no leader, or no such offset
        return ignored(UNKNOWN)
    return [
        (
            OFFSET,
            {
                "topic": topic,
                "partition": as_int(partition, "partition"),
                "log_end_offset": as_int(newest, "offset", 0, INT64),
            },
        )
    ]


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format(
    name="offsets",
    title="GetOffsetShell, topic:partition:offset",
    score=_score,
    frame=_frame,
    parse=_parse,
)
