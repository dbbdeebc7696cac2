"""`kafka-log-dirs --describe`: two lines of text, then one JSON document of brokers, log dirs and replicas.

Kafka's tool prints no bytes of a log dir's volume (up to 4.1). Where a log dir has the keys `totalBytes` and
`usableBytes` (Kafka 3.3 and later, KIP-827) or `isCordoned` (4.3, KIP-1066), named as in the answer of DescribeLogDirs,
they are read.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SourceError
from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.formats import json_documents as documents
from pipelines.ingest.formats.inactive_lines import MIXED_STATES
from pipelines.ingest.plain_records import parse_plain
from pipelines.ingest.source_format import (
    Fact,
    FactKind,
    Format,
    PlainFacts,
    Row,
    Signature,
    decide_rejected,
    ignore,
    read_lines,
)
from pipelines.ingest.text import BLANK, DIFF_HEADER, PROMPT, PROSE, classify_noise, split_lines
from udfs.arrow.columns import to_array
from udfs.failures.disk_limits import are_all_cordoned

# Both arrays: a broker without log dirs is an answer too, and replicas are elements of their own.
_ARRAYS = (("brokers",), ("brokers", "*", "logDirs", "*", "partitions"))
# An element as Kafka writes it, with -1 for an unknown lag; every other goes through the JSON parser. Tests hold both
# equal.
_REPLICA = (
    r'^\{"partition":"(?P<topic>[a-zA-Z0-9._-]*[a-zA-Z0-9_-])-(?P<partition>[0-9]{1,6})",'
    r'"size":(?P<size_bytes>0|[1-9][0-9]{0,17}),"offsetLag":(?:-1|(?P<offset_lag>0|[1-9][0-9]{0,17})),'
    r'"isFuture":(?P<is_future>true|false)\}$'
)
_MAX_PLAIN = 249  # bytes of such an element, so that no topic's name is longer than Kafka allows
_PLACE = pa.struct([("broker_id", pa.int32()), ("log_dir", pa.string())])
# Contexts, beside the place of a replica as JSON: a broker; a log dir that shows an error instead of its
# replicas.
_BROKER, _FAILED_DIR = "broker", "failed log dir"
_DIR_KEYS = ("logDir", "error", "totalBytes", "usableBytes", "isCordoned")
_KEYS = re.compile(r'"logDirs?"\s*:')
# How a broker renames the directory of a log that it is going to delete.
_TO_BE_DELETED = re.compile(r".+-[0-9]+\.[0-9a-f]+-(?:delete|stray)")


# Perhaps behind a prefix of a log. Where newlines were lost, the line has data too.
_MESSAGE = re.compile(
    r"[\s>|#]*+(?:\S{1,60} +){0,3}(?:Received log directory information from brokers|Querying brokers for log dir)"
    r"[\w ,.-]*+$"
)


def _is_line(line: str) -> bool:
    return "log dir" in line and _MESSAGE.match(line) is not None


class _Broker:
    """Collects one broker of the document: its keys come in any order."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.id: Any = None
        self.dirs: dict[int, dict[str, Any]] = {}
        self.dir_lines: dict[int, int] = {}
        self.replicas: list[tuple[int, int, str]] = []  # index of its log dir, line, raw
        self.odd_values: list[Row] = []

    def add(self, event: documents.JsonEvent) -> None:
        path = event.path
        if _is_odd(event):
            self.odd_values.append(_build_odd_row(event))
        elif event.kind == documents.JsonEventKind.VALUE and len(path) == 3 and path[2] == "broker":
            self.id = event.value
        elif len(path) >= 4 and path[2] == "logDirs" and isinstance(path[3], int):
            log_dir = self.dirs.setdefault(path[3], {})
            self.dir_lines.setdefault(path[3], event.line)
            if event.kind == documents.JsonEventKind.VALUE and len(path) == 5:
                log_dir[str(path[4])] = event.value
            elif event.kind == documents.JsonEventKind.ELEMENT:
                self.replicas.append((path[3], event.line, event.raw))

    def read_rows(self) -> Iterator[Row]:
        is_plain = isinstance(self.id, int | str | None)
        log_dirs = [{key: value for key, value in one.items() if key in _DIR_KEYS} for one in self.dirs.values()]
        broker = {"broker": self.id if is_plain else check.quote(self.id), "logDirs": log_dirs}
        yield self.line, _BROKER, json.dumps(broker)
        contexts = {
            i: json.dumps({"broker": self.id, "logDir": d.get("logDir"), "error": d.get("error")})
            for i, d in self.dirs.items()
        }
        for i, log_dir in self.dirs.items():
            if log_dir.get("error") is not None:
                yield self.dir_lines[i], _FAILED_DIR, contexts[i]
        for i, line, raw in self.replicas:
            yield line, contexts[i], raw
        yield from self.odd_values


def _is_odd(event: documents.JsonEvent) -> bool:
    """Return whether a value stands where Kafka writes none: an object or array, or one in the place of an array.

    It perhaps has replicas inside.
    """
    is_plain = not isinstance(event.value, dict | list) and len(event.path) in (1, 3, 5)
    return event.kind == documents.JsonEventKind.VALUE and not is_plain


def _build_odd_row(event: documents.JsonEvent) -> Row:
    text = json.dumps({str(event.path[-1]): event.value} if event.path else event.value)
    problem = f"Kafka writes no such value here (a broken document?): {check.quote(text[:60])}"
    return event.line, decide_rejected(problem), text[: documents.MAX_RAW]


def _read_rows(text: str, _path: str) -> Iterator[Row]:
    broker: _Broker | None = None
    for event in documents.walk_documents(text, _ARRAYS):
        row = documents.to_row(event, "brokers and their logDirs")
        depth = len(event.path) if event.path[:1] == ("brokers",) else 0
        if row is not None:
            if broker is not None:  # the document breaks off inside: what was read of this broker counts
                yield from broker.read_rows()
                broker = None
            yield row
        elif depth == 2 and event.kind == documents.JsonEventKind.START:
            broker = _Broker(event.line)
        elif depth == 2 and event.kind == documents.JsonEventKind.VALUE:
            yield event.line, _BROKER, json.dumps(event.value)
        elif depth >= 2 and broker is not None:
            broker.add(event)
            if depth == 2 and event.kind == documents.JsonEventKind.END:
                yield from broker.read_rows()
                broker = None
        elif depth == 0 and _is_odd(event):
            yield _build_odd_row(event)


def _parse_element(context: str, raw: str) -> list[Fact]:
    if context == _BROKER:
        broker = check.parse_object(raw, "the broker")
        broker_id = broker.read("broker", check.as_int)
        log_dirs = (_parse_log_dir(broker_id, check.JsonObject(one)) for one in broker.get("logDirs", ()))
        facts = list(filter(None, log_dirs))
        flags = [values.get("cordoned") for _, values in facts if "log_dir_error" not in values]
        cordoned = {"cordoned": are_all_cordoned(flags)} if flags and None not in flags else {}
        return [(FactKind.BROKER, {"broker_id": broker_id, "registered": True} | cordoned), *facts]
    if context == _FAILED_DIR:
        failed = check.parse_object(raw, "the log dir")
        if isinstance(failed.get("logDir"), str):  # silver.log_dirs has its error
            return ignore("failed log dir, whose replicas are not shown")
        where = f"log dir {check.quote(failed.get('logDir'))} of broker {check.quote(failed.get('broker'))}"
        raise check.BadValueError(f"{where} failed: {check.quote(failed.get('error'))}; its replicas are not shown")
    place, replica = check.JsonObject(json.loads(context)), check.parse_object(raw, "the replica")
    name = replica.read("partition", check.as_text)
    if _TO_BE_DELETED.fullmatch(name):
        return ignore("log that the broker deletes")
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic:
        raise check.unparsable(f"partition is {check.quote(name)}, expected topic-number")
    lag = replica.get("offsetLag", -1)
    values: dict[str, Any] = {
        "topic": check.as_topic(topic, "topic"),
        "partition": check.as_partition(partition, f"the number in partition {check.quote(name)}"),
        "broker_id": check.as_int(place.get("broker"), "broker"),
        "size_bytes": replica.read("size", check.as_int, 0, check.INT64),
        # Kafka writes -1 for an unknown lag.
        "offset_lag": None if lag in (-1, None) else check.as_int(lag, "offsetLag", 0, check.INT64),
        "log_dir": place.find("logDir", check.as_text),
        "is_future": replica.find("isFuture", check.as_bool),
    }
    return [(FactKind.REPLICA, values)]


def _parse_log_dir(broker_id: int, log_dir: check.JsonObject) -> Fact | None:
    """Return the fact about a log dir; None without a path, which the records of its replicas report."""
    try:
        path, error = log_dir.find("logDir", check.as_text), log_dir.get("error")
    except check.BadValueError:
        return None
    if not path:
        return None
    values: dict[str, Any] = {"broker_id": broker_id, "log_dir": path}
    for key, name in (("totalBytes", "total_bytes"), ("usableBytes", "usable_bytes")):
        if log_dir.get(key) not in (None, -1):  # DescribeLogDirs has -1 for unknown
            values[name] = check.as_int(log_dir[key], key, 0, check.INT64)
    if log_dir.get("isCordoned") is not None:
        values["cordoned"] = check.as_bool(log_dir["isCordoned"], "isCordoned")
    if error is not None:
        values["log_dir_error"] = check.quote(error).strip('"')
    return FactKind.LOG_DIR, values


def _parse_plain_replicas(records: pa.Table) -> PlainFacts:
    contexts = to_array(records["context"]).dictionary_encode()
    places = pa.array(map(_parse_place, contexts.dictionary.to_pylist()), _PLACE).take(contexts.indices)
    is_short = pc.less_equal(pc.binary_length(to_array(records["raw"])), _MAX_PLAIN)
    columns = dict(zip(_PLACE.names, places.flatten(), strict=True))
    return parse_plain(records, _REPLICA, FactKind.REPLICA, pc.and_(pc.is_valid(places), is_short), columns)


def _parse_place(context: str) -> tuple[int, str | None] | None:
    """Return (broker, log dir) of a replica's context; None for another context, or one with bad values."""
    if not context.startswith("{"):
        return None
    place = json.loads(context)
    broker, log_dir = place.get("broker"), place.get("logDir")
    if type(broker) is not int or not 0 <= broker <= check.INT32 or not (log_dir is None or isinstance(log_dir, str)):
        return None
    return None if "\\u" in context else (broker, log_dir)


FORMAT = Format(
    "log-dirs",
    "kafka-log-dirs --describe",
    Signature(_is_line, lambda text: '"brokers"' in text and bool(_KEYS.search(text))),
    *(documents.parse_elements(_parse_element, _is_line), _read_rows, (_parse_plain_replicas,)),
)


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
