"""A broker's `replication-offset-checkpoint`: version, count, then topic, partition and high watermark a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

import pyarrow as pa

from pipelines.errors import SourceError
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
from pipelines.ingest.formats.noise_lines import BLANK
from pipelines.ingest.records import REPLICA, Format, Records
from pipelines.ingest.text import lines_of

_ENTRY = re.compile(r"(.*\S)\s+(\S+)\s+(\S+)")
_GOOD_ENTRY = re.compile(r"\S+ [0-9]+ [0-9]+")
_COUNT = re.compile(r"[0-9]{1,18}")
_BROKER_IN_FILE = (re.compile(r"broker[-_.]?([0-9]+)", re.I), re.compile(r"[._-]([0-9]+)(?:\.(?:txt|gz))*$"))
_BROKER_IN_FOLDER = (_BROKER_IN_FILE[0], re.compile(r"^[A-Za-z_-]*([0-9]+)$"))


def _score(lines: Sequence[str]) -> float:
    filled = [line.strip() for line in lines if line.strip()]
    if len(filled) < 2 or not filled[0].isdigit() or not _COUNT.fullmatch(filled[1]):
        return 0.0
    if len(filled) == 2:
        return 0.9
    return 0.95 if any(_GOOD_ENTRY.fullmatch(line) for line in filled[2:]) else 0.0


def _broker_id(path: str) -> int:
    """Broker that the file is of: its name says so, or else its folder's."""
    file = PurePath(path)
    for patterns, name in ((_BROKER_IN_FILE, file.name), (_BROKER_IN_FOLDER, file.parent.name)):
        for pattern in patterns:
            if match := pattern.search(name):
                return as_int(match[1], "broker id")
    raise SourceError(
        path,
        "an offset checkpoint does not say which broker it is of",
        "Name the file so that it does, as in replication-offset-checkpoint.broker-0.",
    )


def _frame(text: str, path: str) -> Records:
    return Records.of(_rows(text, _broker_id(path)))


def _rows(text: str, broker: int) -> Iterator[tuple[int, str | None, str]]:
    lines = lines_of(text)
    entries = sum(1 for line in lines if line.strip()) - 2
    seen = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            yield number, BLANK, line
            continue
        seen += 1
        yield number, "version" if seen == 1 else f"count {entries}" if seen == 2 else f"broker {broker}", line


def _facts(context: str | None, raw: str) -> list[Fact]:
    role, _, value = (context or "").partition(" ")
    line = raw.strip()
    if context == BLANK:
        return ignored(BLANK)
    if role == "version":
        as_int(line, "version", 0, 0)
        return ignored("header")
    if role == "count":
        if as_int(line, "count", 0, INT64) != int(value):
            raise unparsable(f"the count is {line}, but {value} entries follow (cut off?)")
        return ignored("header")
    match = _ENTRY.fullmatch(line)
    if match is None:
        raise unparsable(f"{shown(line)} is not topic, partition, offset")
    return [
        (
            REPLICA,
            {
                "topic": as_topic(match[1], "topic"),
                "partition": as_int(match[2], "partition"),
                "broker_id": as_int(value, "broker id"),
                "high_watermark": as_int(match[3], "offset", 0, INT64),
            },
        )
    ]


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format(
    name="offset-checkpoint",
    title="replication-offset-checkpoint of a broker",
    score=_score,
    frame=_frame,
    parse=_parse,
)
