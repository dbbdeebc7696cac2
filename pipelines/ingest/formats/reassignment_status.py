"""What kafka-reassign-partitions prints of the cluster as it is now: `--list`, and lines of `--verify` and `--execute`.

`--verify` names replicas that are not those of the reassignment, running reassignments and replicas without a live log.
Source: ReassignPartitionsCommand of Kafka 0.8 to 4.1.
"""

import re
from collections.abc import Iterator

from pipelines.ingest.formats.checked_values import as_partition, as_topic, quote, split_ids, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, ignore
from pipelines.ingest.text import MAX_LOOK, TOOL_MESSAGE, classify_noise, split_lines
from pipelines.ingest.unread_lines import CHANGE
from udfs.plurals import count_of

_START = r"[\s>|#`]*+"
_LISTED = re.compile(
    _START + r"([a-zA-Z0-9._-]++):\s++replicas: ([0-9,]*+)\."
    r"(?: adding: ([0-9,]*+)\.)?(?: removing: ([0-9,]*+)\.)?[\s`]*+"
)
_NEARLY_LISTED = re.compile(_START + r"[a-zA-Z0-9._-]++:\s++replicas: ?[0-9]")
_LIST_MESSAGE = re.compile(_START + r"(?:No partition reassignments found|Current partition reassignments:)", re.I)
_PARTITION = r"(?:[a-zA-Z0-9._-]++|\[[a-zA-Z0-9._-]++, ?[0-9]++\])"  # topic-0, or [topic,0] of old versions
# Of `--verify`: the partition's replicas are not those of the reassignment. The second is of Kafka before 2.6.
_VERIFIED = (
    re.compile(
        _START + r"There is no active reassignment of partition (?P<partition>[a-zA-Z0-9._-]++), "
        r"but replica set is (?P<replicas>[0-9,]++) rather than [0-9,]++\.[\s`]*+"
    ),
    re.compile(
        _START + r"ERROR: Assigned replicas \((?P<replicas>[0-9,]++)\) don't match the list of replicas for "
        rf"reassignment \([0-9,]++\) for partition (?P<partition>{_PARTITION})[\s`]*+"
    ),
)
_NEARLY_VERIFIED = re.compile(
    _START + r"(?:There is no active reassignment of partition [^\s,]++, but|ERROR: Assigned replicas)"
)
_RUNNING = re.compile(_START + rf"Reassignment of partition (?P<partition>{_PARTITION}) is still in progress\.?[\s`]*+")
_EXISTING = re.compile(
    _START + r"(?:There is an existing assignment running"
    r"|(?:Partitions reassignment failed due to |[a-z.]++AdminCommandFailedException: )?"
    r"Partition reassignment currently in progress for )"
)
_WITHOUT_LIVE_LOG = re.compile(
    _START + rf"Partition (?P<partition>{_PARTITION}) (?:is not|cannot be) found in any live log dir(?:ectory)? "
    r"on broker (?P<broker>[0-9]++)\b"
)
_WARNED = (_RUNNING, _EXISTING, _WITHOUT_LIVE_LOG)


def _is_line(line: str) -> bool:
    line = line[:MAX_LOOK]
    patterns = (_NEARLY_LISTED, _LIST_MESSAGE, _NEARLY_VERIFIED, *_WARNED)
    return any(pattern.match(line) is not None for pattern in patterns)


def _read_rows(text: str, _path: str) -> Iterator[Row]:
    """Yield each line; the first of several that show the same has the warning of all as its context."""
    lines = split_lines(text)
    listed = {i: match for i, line in enumerate(lines) if (match := _LISTED.fullmatch(line)) is not None}
    running, existing, without_log = (
        {i: match for i, line in enumerate(lines) if (match := pattern.match(line[:MAX_LOOK]))} for pattern in _WARNED
    )
    warnings = {}
    if listed:
        warnings[min(listed)] = _describe_running([match[1] for match in listed.values()])
    if running:
        warnings[min(running)] = _describe_running([match["partition"] for match in running.values()])
    elif existing:
        warnings[min(existing)] = "a reassignment of partitions is running: their replicas change"
    if without_log:
        warnings[min(without_log)] = _describe_without_log(list(without_log.values()))
    for i, line in enumerate(lines):
        yield i + 1, warnings.get(i), line


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    if listed := _LISTED.fullmatch(raw):
        adding, removing = (split_ids(listed[group] or "", "replicas") for group in (3, 4))
        moves = {"adding_replicas": adding, "removing_replicas": removing}
        kind, values = _build_partition(listed[1], split_ids(listed[2], "replicas"), moves)
        return [(kind, values | {"warning": context})]
    if verified := next(filter(None, (pattern.fullmatch(raw) for pattern in _VERIFIED)), None):
        kind, values = _build_partition(verified["partition"], split_ids(verified["replicas"], "replicas"), {})
        return [(kind, values | {"warning": CHANGE, "until_listing": True})]
    if any(pattern.match(raw[:MAX_LOOK]) for pattern in _WARNED):
        return ignore(TOOL_MESSAGE, context)
    if _NEARLY_LISTED.match(raw) or _NEARLY_VERIFIED.match(raw):
        raise unparsable(f"{quote(raw.strip())} is no whole line of kafka-reassign-partitions (cut off?)")
    return ignore(TOOL_MESSAGE if _LIST_MESSAGE.match(raw) else classify_noise(raw))


def _describe_running(partitions: list[str]) -> str:
    first = _join_name(partitions[0])
    if len(partitions) == 1:
        return f"a reassignment of partition {first} is running: its replicas change"
    count = count_of(len(partitions), "partition")
    return f"reassignments of {count} are running, as of {first}: their replicas change"


def _describe_without_log(matches: list[re.Match[str]]) -> str:
    place = f"partition {_join_name(matches[0]['partition'])} on broker {matches[0]['broker']}"
    if len(matches) == 1:
        return f"the replica of {place} is in no live log directory: it may be offline"
    return f"{len(matches)} replicas, as of {place}, are in no live log directory: they may be offline"


def _join_name(partition: str) -> str:
    """Return the name of a partition as Kafka prints it now: [topic,0] becomes topic-0."""
    return "-".join(re.split(", ?", partition.strip("[]")))


def _build_partition(name: str, replicas: list[int] | None, moves: dict[str, list[int] | None]) -> Fact:
    topic, dash, partition = _join_name(name).rpartition("-")
    if not dash:
        raise unparsable(f"{quote(name)} is not TOPIC-PARTITION")
    if not replicas:
        raise unparsable("replicas is empty")
    number = as_partition(partition, f"the number in {quote(name)}")
    return FactKind.PARTITION, {"topic": as_topic(topic, "topic"), "partition": number, "replicas": replicas, **moves}


FORMAT = Format(
    "reassignment-list",
    "kafka-reassign-partitions --list and --verify: what the cluster shows of reassignments",
    *(Signature(line=_is_line), _parse_record, _read_rows),
)
