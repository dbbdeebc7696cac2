"""Offsets of partitions: `GetOffsetShell` (`kafka-get-offsets`), and a broker's `replication-offset-checkpoint`."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import PurePath

from pipelines.errors import SourceError
from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.formats.inactive_lines import MIXED_STATES
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, decide_rejected, ignore, read_lines
from pipelines.ingest.text import BLANK, DIFF_HEADER, PROMPT, PROSE, classify_noise, split_lines

_LINE = re.compile(r"([^\s:][^:]*+):([0-9]++):([0-9,\s-]*+)")
_TIME = re.compile(r"[0-2][0-9]:[0-5][0-9]:[0-5][0-9]")
# A topic may be named like the beginning of a log line (kafka.orders); a time of day is no topic, and `BROKER:1:` names
# a resource in kafka-metadata-shell.
_CLEAR = re.compile(r"(?!\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|BROKER:[0-9]++:$)[a-zA-Z0-9._-]++:[0-9]++:(?:-1|[0-9,]*+)")
_PLAIN_LINES = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9._-]*+:[0-9]++:[0-9]++\n)*+")
# Nearly an entry: three parts, an entry without its offset, or one that is cut off.
_NEARLY = re.compile(r"[^\s:]*+:[^\s:]*+:\S*+|[^\s:]++:[0-9]++|[^\s:]*+:[0-9]*+:?+[0-9]*+\s*+(?:\.{2,}+|…)")
# A topic may be named -orders, but not in a diff. No topic is named like the other marks.
_DIFF_MARK = re.compile(r"(?:\A|\n)(?:\+|< |@@ -[0-9]|[0-9,]++[acd][0-9])")

# A checkpoint: version, count, then topic, partition and high watermark a line.
_GOOD_ENTRY = re.compile(r"\S++ [0-9]++ [0-9]++")
_COUNT = re.compile(r"[0-9]{1,18}")
_BROKER_IN_FILE = (re.compile(r"broker[-_.]?([0-9]+)", re.I), re.compile(r"[._-]([0-9]+)(?:\.(?:txt|gz))*$"))
_BROKER_IN_FOLDER = (_BROKER_IN_FILE[0], re.compile(r"^[A-Za-z_-]*([0-9]+)$"))


def _match_offset(line: str) -> re.Match[str] | None:
    line = line.strip()
    is_entry = classify_noise(line) in (PROSE, PROMPT) or _CLEAR.fullmatch(line)
    return _LINE.fullmatch(line) if is_entry else None


def _reject_diff(text: str) -> Iterator[Row]:
    for number, line in enumerate(split_lines(text), 1):
        is_marked = line[:1] in ("-", "+", "<", ">") and classify_noise(line) != DIFF_HEADER
        yield number, decide_rejected(MIXED_STATES) if is_marked and _LINE.fullmatch(line.strip()) else None, line


def _parse_offset(_context: str | None, raw: str) -> list[Fact]:
    line = raw.strip()
    match = _match_offset(raw)
    if match is None:
        reason = classify_noise(line)
        if reason == PROSE and _NEARLY.fullmatch(line):
            raise check.unparsable(f"{check.quote(line)} is not topic:partition:offset")
        return ignore(reason)
    topic, partition = check.as_topic(match[1], "topic"), check.as_partition(match[2], "partition")
    if match[3].strip() in ("", "-1"):  # no leader, or no such offset
        return ignore("offset unknown")
    # With --offsets N old versions print several, the newest first.
    newest, *_ = [check.as_int(offset.strip(), "offset", 0, check.INT64) for offset in match[3].split(",")]
    return [(FactKind.OFFSET, {"topic": topic, "partition": partition, "log_end_offset": newest})]


def _is_checkpoint(lines: Sequence[str]) -> bool:
    filled = [line.strip() for line in lines]
    if len(filled) < 2 or not filled[0].isdigit() or not _COUNT.fullmatch(filled[1]):
        return False
    return len(filled) == 2 or any(_GOOD_ENTRY.fullmatch(line) for line in filled[2:])


def _find_broker_id(path: str) -> int:
    """Return the broker whose checkpoint a file is: by the file's name, else by its folder's."""
    file = PurePath(path)
    for patterns, name in ((_BROKER_IN_FILE, file.name), (_BROKER_IN_FOLDER, file.parent.name)):
        for pattern in patterns:
            if match := pattern.search(name):
                with suppress(check.BadValueError):
                    return check.as_int(match[1], "broker id")
    remedy = "Put the broker's id into the file's name, as in replication-offset-checkpoint.broker-0."
    raise SourceError(path, "an offset checkpoint does not show which broker it belongs to", remedy)


def _read_checkpoint(text: str, path: str) -> Iterator[Row]:
    broker_id, lines = _find_broker_id(path), split_lines(text)
    entries = sum(1 for line in lines if line.strip()) - 2
    contexts = iter(("version", f"count {entries}"))
    for number, line in enumerate(lines, 1):
        yield number, next(contexts, f"broker {broker_id}") if line.strip() else BLANK, line


def _parse_checkpoint(context: str | None, raw: str) -> list[Fact]:
    role, _, value = (context or "").partition(" ")
    line = raw.strip()
    if context == BLANK:
        return ignore(BLANK)
    if role == "version":
        check.as_int(line, "version", 0, 0)
        return ignore("header")
    if role == "count":
        if check.as_int(line, "count", 0, check.INT64) != int(value):
            raise check.unparsable(f"the count is {line}, but {value} entries follow (cut off?)")
        return ignore("header")
    entry = line.rsplit(None, 2)
    if len(entry) != 3:
        raise check.unparsable(f"{check.quote(line)} is not topic, partition, offset")
    texts = {"topic": entry[0], "partition": entry[1], "broker_id": value, "high_watermark": entry[2]}
    return [(FactKind.REPLICA, check.read_columns(texts, broker_id="broker id", high_watermark="offset"))]


OFFSETS = Format(
    "offsets",
    "GetOffsetShell, topic:partition:offset",
    Signature(
        lambda line: bool(_CLEAR.fullmatch(line.strip()) and not _TIME.fullmatch(line.strip())),
        beginning=lambda lines: any(map(_match_offset, lines)),
        plain_lines=_PLAIN_LINES,
    ),
    _parse_offset,
    lambda text, path: _reject_diff(text) if _DIFF_MARK.search(text) else read_lines(text, path),
)
OFFSET_CHECKPOINT = Format(
    "offset-checkpoint",
    "replication-offset-checkpoint of a broker",
    *(Signature(beginning=_is_checkpoint), _parse_checkpoint, _read_checkpoint),
)
