"""A broker's `replication-offset-checkpoint`: version, count, then topic, partition and high watermark a line."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from pipelines.errors import SourceError
from pipelines.ingest.fact_tables import Fact, FactKind, ignore
from pipelines.ingest.formats.checked_values import INT64, as_int, as_topic, quote, unparsable
from pipelines.ingest.formats.noise_lines import BLANK
from pipelines.ingest.source_format import Format, Records, Row
from pipelines.ingest.text import split_lines

_ENTRY = re.compile(r"(.*\S)\s+(\S+)\s+(\S+)")
_GOOD_ENTRY = re.compile(r"\S+ [0-9]+ [0-9]+")
_COUNT = re.compile(r"[0-9]{1,18}")
_BROKER_IN_FILE = (re.compile(r"broker[-_.]?([0-9]+)", re.I), re.compile(r"[._-]([0-9]+)(?:\.(?:txt|gz))*$"))
_BROKER_IN_FOLDER = (_BROKER_IN_FILE[0], re.compile(r"^[A-Za-z_-]*([0-9]+)$"))


def _detect(lines: Sequence[str]) -> float:
    filled = [line.strip() for line in lines if line.strip()]
    if len(filled) < 2 or not filled[0].isdigit() or not _COUNT.fullmatch(filled[1]):
        return 0.0
    if len(filled) == 2:
        return 0.9
    return 0.95 if any(_GOOD_ENTRY.fullmatch(line) for line in filled[2:]) else 0.0


def _find_broker_id(path: str) -> int:
    """Return the broker whose checkpoint a file is: by the file's name, else by its folder's."""
    file = PurePath(path)
    for patterns, name in ((_BROKER_IN_FILE, file.name), (_BROKER_IN_FOLDER, file.parent.name)):
        for pattern in patterns:
            if match := pattern.search(name):
                return as_int(match[1], "broker id")
    raise SourceError(
        path,
        "an offset checkpoint does not say which broker it is of",
        "Put the broker's id into the file's name, as in replication-offset-checkpoint.broker-0.",
    )


def _read_records(text: str, path: str) -> Records:
    return Records.from_rows(_read_rows(text, _find_broker_id(path)))


def _read_rows(text: str, broker_id: int) -> Iterator[Row]:
    lines = split_lines(text)
    entries = sum(1 for line in lines if line.strip()) - 2
    contexts = iter(("version", f"count {entries}"))
    for number, line in enumerate(lines, 1):
        yield number, next(contexts, f"broker {broker_id}") if line.strip() else BLANK, line


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    role, _, value = (context or "").partition(" ")
    line = raw.strip()
    if context == BLANK:
        return ignore(BLANK)
    if role == "version":
        as_int(line, "version", 0, 0)
        return ignore("header")
    if role == "count":
        if as_int(line, "count", 0, INT64) != int(value):
            raise unparsable(f"the count is {line}, but {value} entries follow (cut off?)")
        return ignore("header")
    match = _ENTRY.fullmatch(line)
    if match is None:
        raise unparsable(f"{quote(line)} is not topic, partition, offset")
    values = {
        "topic": as_topic(match[1], "topic"),
        "partition": as_int(match[2], "partition"),
        "broker_id": as_int(value, "broker id"),
        "high_watermark": as_int(match[3], "offset", 0, INT64),
    }
    return [(FactKind.REPLICA, values)]


FORMAT = Format(
    name="offset-checkpoint",
    title="replication-offset-checkpoint of a broker",
    detect=_detect,
    parse_record=_parse_record,
    read_records=_read_records,
)
