"""What kafka-reassign-partitions prints of reassignments: `--list`, and the lines of `--verify` that name replicas.

Unlike an assignment in a file, this is what the cluster shows now.
"""

import re
from collections.abc import Iterator

from pipelines.ingest.formats.checked_values import as_broker_ids, as_int, as_partition, as_topic, quote, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Records, Row, Signature, ignore
from pipelines.ingest.text import TOOL_MESSAGE, classify_noise, split_lines
from udfs.plurals import count_of

_START = r"[\s>|#`]*+"
_LISTED = re.compile(
    _START + r"([a-zA-Z0-9._-]++):\s++replicas: ([0-9,]*+)\."
    r"(?: adding: ([0-9,]*+)\.)?(?: removing: ([0-9,]*+)\.)?[\s`]*+"
)
_NEARLY_LISTED = re.compile(_START + r"[a-zA-Z0-9._-]++:\s++replicas: ?[0-9]")
_LIST_MESSAGE = re.compile(_START + r"(?:No partition reassignments found|Current partition reassignments:)", re.I)
# Of `--verify`: the partition's replicas are not those of the reassignment. The second is of Kafka before 2.6.
_VERIFIED = (
    re.compile(
        _START + r"There is no active reassignment of partition (?P<partition>[a-zA-Z0-9._-]++), "
        r"but replica set is (?P<replicas>[0-9,]++) rather than [0-9,]++\.[\s`]*+"
    ),
    re.compile(
        _START + r"ERROR: Assigned replicas \((?P<replicas>[0-9,]++)\) don't match the list of replicas for "
        r"reassignment \([0-9,]++\) for partition (?P<partition>[a-zA-Z0-9._-]++)[\s`]*+"
    ),
)
_NEARLY_VERIFIED = re.compile(
    _START + r"(?:There is no active reassignment of partition [^\s,]++, but|ERROR: Assigned replicas)"
)
_RUNNING = re.compile(
    _START + r"Reassignment of partition (?P<partition>[a-zA-Z0-9._-]++) is still in progress\.?[\s`]*+"
)
_MAX_LOOK = 2_000  # characters of a line that are compared


def _is_line(line: str) -> bool:
    line = line[:_MAX_LOOK]
    patterns = (_NEARLY_LISTED, _LIST_MESSAGE, _NEARLY_VERIFIED, _RUNNING)
    return any(pattern.match(line) is not None for pattern in patterns)


def _read_records(text: str, _path: str) -> Records:
    return Records.from_rows(_read_rows(text))


def _read_rows(text: str) -> Iterator[Row]:
    """Yield each line; the first that shows a running reassignment has the count of all as its context."""
    lines = split_lines(text)
    running = [i for i, line in enumerate(lines) if _RUNNING.match(line)]
    for i, line in enumerate(lines):
        yield i + 1, str(len(running)) if running and i == running[0] else None, line


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    if listed := _LISTED.fullmatch(raw):
        adding, removing = (_split_ids(listed[group] or "") for group in (3, 4))
        moves = {"adding_replicas": adding, "removing_replicas": removing}
        return [_build_partition(listed[1], _split_ids(listed[2]), moves)]
    if verified := next(filter(None, (pattern.fullmatch(raw) for pattern in _VERIFIED)), None):
        return [_build_partition(verified["partition"], _split_ids(verified["replicas"]), {})]
    if running := _RUNNING.fullmatch(raw):
        return ignore(TOOL_MESSAGE, _describe_running(running["partition"], int(context)) if context else None)
    if _NEARLY_LISTED.match(raw) or _NEARLY_VERIFIED.match(raw):
        raise unparsable(f"{quote(raw.strip())} is no whole line of kafka-reassign-partitions (cut off?)")
    return ignore(TOOL_MESSAGE if _LIST_MESSAGE.match(raw) or _RUNNING.match(raw) else classify_noise(raw))


def _describe_running(partition: str, count: int) -> str:
    if count == 1:
        return f"a reassignment of partition {partition} is running: its replicas change"
    return f"reassignments of {count_of(count, 'partition')} are running, as of {partition}: their replicas change"


def _split_ids(text: str) -> list[int]:
    return [as_int(item, "replicas") for item in text.split(",") if item]


def _build_partition(name: str, replicas: list[int], moves: dict[str, list[int]]) -> Fact:
    topic, dash, partition = name.rpartition("-")
    if not dash:
        raise unparsable(f"{quote(name)} is not TOPIC-PARTITION")
    if not replicas:
        raise unparsable("replicas is empty")
    number = as_partition(partition, f"the number in {quote(name)}")
    return FactKind.PARTITION, {
        "topic": as_topic(topic, "topic"),
        "partition": number,
        "replicas": as_broker_ids(replicas, "replicas"),
        **moves,
    }


FORMAT = Format(
    "reassignment-list",
    "kafka-reassign-partitions --list and --verify: what the cluster shows of reassignments",
    *(Signature(line=_is_line, is_exhaustive=True), _parse_record, _read_records),
)
