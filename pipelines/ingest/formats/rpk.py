"""`rpk topic describe`, `rpk cluster info` and `rpk cluster health` (Redpanda): all but the ISRs."""

import json
import re
from collections.abc import Iterator, Sequence

from pipelines.ingest.formats.checked_values import INT64, as_int, as_partition, as_topic, quote, unparsable
from pipelines.ingest.formats.rpk_health import find_down_nodes, is_health_line, parse_health_line
from pipelines.ingest.source_format import Fact, FactKind, Format, Records, Row, Signature, ignore
from pipelines.ingest.table_rows import looks_like_cells
from pipelines.ingest.text import BLANK, PROSE, classify_noise, split_lines

_PARTITIONS = re.compile(r"[\s>|#]*+PARTITION\s++LEADER\s++(?:EPOCH\s++)?REPLICAS\b[A-Z -]*+\s*+")
_BROKERS = re.compile(r"[\s>|#]*+ID\s++HOST\s++PORT(?:\s++RACK)?\s*+")
_TOPICS = re.compile(r"[\s>|#]*+NAME\s++PARTITIONS\s++REPLICAS\s*+")
_CONFIGS = re.compile(r"[\s>|#]*+KEY\s++VALUE\s++SOURCE\s*+")
_TITLE = re.compile(r"[\s>|#]*+(SUMMARY|CONFIGS|PARTITIONS|BROKERS|TOPICS|CLUSTER)\s*+")
_DETAILED_TOPIC = re.compile(
    r"[\s>|#]*+([a-zA-Z0-9._-]++)(?: \(internal\))?, ([0-9]{1,9}) partitions(?:, ([0-9]{1,9}) replicas)?\s*+"
)
_COMMAND = re.compile(r"\brpk topic (?:describe|info)\b([^|>;&\n]*+)")
_NAME = re.compile(r"[\s>|#]*+NAME {2,}([a-zA-Z0-9._-]++)\s*+")
_COUNT = re.compile(r"[\s>|#]*+(PARTITIONS|REPLICAS) {2,}([0-9]{1,9})\s*+")
_ROW = re.compile(r"[\s>|#]*+([0-9]++)\s++(-?[0-9]++)\s++(?:(-?[0-9]++)\s++)?\[([0-9 ]*+)\](?:\s++\[([0-9 ]*+)\])?(.*)")
_BROKER_ROW = re.compile(r"[\s>|#]*+([0-9]++)\*?\s++(\S++)\s++([0-9]++)(?:\s++(\S++))?\s*+")
_TOPIC_ROW = re.compile(r"[\s>|#]*+([a-zA-Z0-9._-]++)\s++([0-9]++)\s++([0-9]++)\s*+")
_CONFIG_ROW = re.compile(r"[\s>|#]*+([a-z][a-z0-9._-]*+)\s++(?:(.*?)\s++)?([A-Z]++(?:_[A-Z]++)+)\s*+")
_HEADERS = ((_PARTITIONS, "partition"), (_BROKERS, "broker"), (_TOPICS, "topic"), (_CONFIGS, "config"))
_SUMMARY = "summary"  # rows outside of a table, of a topic's summary
_HEALTH = "health"
_REMEDY = "run rpk topic describe --print-all TOPIC, which also prints the name"
_RULE = re.compile(r"[\s>|#]*+={3,}+\s*+")
# rpk sorts replica lists, so this has to be said wherever they are read.
_UNORDERED = "header of partitions, whose replicas rpk sorts by id: the first is not the preferred leader"


def _is_line(line: str) -> bool:
    line = line[:2000]
    patterns = (_PARTITIONS, _BROKERS, _TOPICS, _CONFIGS, _DETAILED_TOPIC)
    is_row = any(pattern.fullmatch(line) for pattern in patterns) or _ROW.fullmatch(line) is not None
    return is_row or is_health_line(line)


def _is_summary(lines: Sequence[str]) -> bool:
    """Return whether a file begins with the summary of a topic."""
    return any(_TITLE.fullmatch(line) for line in lines[:20]) and any(_NAME.fullmatch(line) for line in lines[:20])


def _read_records(text: str, _path: str) -> Records:
    return Records.from_rows(_read_rows(split_lines(text)))


def _read_rows(lines: Sequence[str]) -> Iterator[Row]:
    """Give each line its table, the topic that it belongs to, and whether the table has offline replicas."""
    table, topic, options = _SUMMARY, "", ""
    down = json.dumps(find_down_nodes(lines))
    for number, line in enumerate(lines, 1):
        look = line[:2000]
        if is_health_line(look):
            yield number, f"{_HEALTH}  {down}", line
            continue
        if command := _COMMAND.search(look):
            names = [word for word in command[1].split() if not word.startswith("-")]
            table, topic = _SUMMARY, names[0] if len(names) == 1 else ""
        elif title := _TITLE.fullmatch(look):
            table, topic = _SUMMARY, "" if title[1] == "SUMMARY" else topic
        elif named := _DETAILED_TOPIC.fullmatch(look):
            table, topic = "detailed", named[1]
        elif header := next((name for pattern, name in _HEADERS if pattern.fullmatch(look)), None):
            if header == table == "partition":  # a second table of partitions: of another topic, which is not named
                topic = ""
            table, options = header, "offline" if "OFFLINE-REPLICAS" in look else ""
        elif table == _SUMMARY and (name := _NAME.fullmatch(look)):
            topic = name[1]
        yield number, f"{table} {topic} {options}", line


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    table, topic, options = (context or f"{_SUMMARY}  ").split(" ", 2)
    if table == _HEALTH:
        return parse_health_line(raw, json.loads(options))
    if not raw.strip():
        return ignore(BLANK)
    if _PARTITIONS.fullmatch(raw):
        return ignore(_UNORDERED)
    if _TITLE.fullmatch(raw) or _RULE.fullmatch(raw) or any(pattern.fullmatch(raw) for pattern, _ in _HEADERS):
        return ignore("header")
    if match := _ROW.fullmatch(raw):
        return _parse_partition(topic, match, "offline" in options)
    if match := _DETAILED_TOPIC.fullmatch(raw):
        return [_describe_topic(match[1], match[2], match[3])]
    if table == "broker" and (match := _BROKER_ROW.fullmatch(raw)):
        values = {
            "broker_id": as_int(match[1], "ID"),
            "host": match[2],
            "port": as_int(match[3], "PORT", 0, 65535),
            "rack": match[4],
            "registered": True,
        }
        return [(FactKind.BROKER, values)]
    if table == "topic" and (match := _TOPIC_ROW.fullmatch(raw)):
        return [_describe_topic(match[1], match[2], match[3])]
    if table == "config" and (match := _CONFIG_ROW.fullmatch(raw)):
        return _parse_config(topic, match)
    if table == _SUMMARY and (_NAME.fullmatch(raw) or _COUNT.fullmatch(raw)):
        return _parse_summary(topic, raw)
    reason = classify_noise(raw)
    if reason == PROSE and table in ("broker", "partition", "topic") and any(c.isdigit() for c in raw):
        raise unparsable(f"{quote(raw.strip())} is no row of the table above (cut off?)")
    return ignore(reason)


def _parse_summary(topic: str, raw: str) -> list[Fact]:
    match = _COUNT.fullmatch(raw)
    if match is None:
        return [(FactKind.TOPIC, {"topic": as_topic(topic, "NAME")})]
    if not topic:
        raise unparsable(f"{match[1]} of which topic? {_REMEDY}")
    column = "partition_count" if match[1] == "PARTITIONS" else "replication_factor"
    return [(FactKind.TOPIC, {"topic": as_topic(topic, "NAME"), column: as_int(match[2], match[1])})]


def _describe_topic(name: str, partitions: str, replicas: str | None) -> Fact:
    factor = None if replicas is None else as_int(replicas, "REPLICAS")
    values = {"topic": as_topic(name, "NAME"), "partition_count": as_int(partitions, "PARTITIONS", 1)}
    return FactKind.TOPIC, values | {"replication_factor": factor}


def _parse_config(topic: str, match: re.Match[str]) -> list[Fact]:
    if not topic:
        raise unparsable(f"a config of which topic? {_REMEDY}")
    return [(FactKind.CONFIG, {"topic": as_topic(topic, "NAME"), "configs": {match[1]: match[2] or ""}})]


def _parse_partition(topic: str, match: re.Match[str], has_offline: bool) -> list[Fact]:
    if not topic:
        raise unparsable(f"partition {match[1]} of which topic? {_REMEDY}")
    replicas = [as_int(item, "REPLICAS") for item in match[4].split()]
    if not replicas:
        raise unparsable("REPLICAS is empty")
    place = {"topic": as_topic(topic, "NAME"), "partition": as_partition(match[1], "PARTITION")}
    epoch = -1 if match[3] is None else as_int(match[3], "EPOCH", -1)
    values = {
        **place,
        "leader": as_int(match[2], "LEADER", -1),
        "leader_epoch": epoch if epoch >= 0 else None,
        "replicas": replicas,
        "offline_replicas": [as_int(item, "OFFLINE-REPLICAS") for item in (match[5] or "").split()]
        if has_offline
        else None,
    }
    facts: list[Fact] = [(FactKind.PARTITION, values)]
    offsets = match[6].split()
    if len(offsets) >= 2 and offsets[-1].isdecimal() and offsets[-2].isdecimal():
        offset = as_int(offsets[-1], "HIGH-WATERMARK", 0, INT64)
        facts.append((FactKind.OFFSET, {**place, "log_end_offset": offset}))
    return facts


FORMAT = Format(
    "rpk",
    "rpk topic describe, rpk cluster info, rpk cluster health (Redpanda): brokers, topics, partitions without ISR",
    Signature(line=_is_line, beginning=_is_summary, has_rows=True, row=looks_like_cells),
    _parse_record,
    _read_records,
)
