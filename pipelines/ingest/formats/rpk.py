"""What rpk (Redpanda) prints: of topics, of all partitions, of the cluster and its health, of brokers.

Redpanda itself has no ISRs; only the table of rpk up to v21 has a column for them.
"""

import json
import re
from collections.abc import Iterator, Sequence

from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.formats import rpk_health
from pipelines.ingest.formats.json_documents import DOCUMENT_BEGIN
from pipelines.ingest.formats.partition_filters import describe_topics, read_rpk
from pipelines.ingest.formats.shell_words import parse_commands
from pipelines.ingest.sections import find_document_end
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, decide_ignored, ignore
from pipelines.ingest.table_rows import looks_like_cells
from pipelines.ingest.text import BLANK, MAX_LOOK, PROSE, classify_noise, split_lines

_PARTITIONS = re.compile(r"[\s>|#]*+PARTITION\s++LEADER\s++(?:EPOCH\s++)?REPLICAS\b[A-Z -]*+\s*+", re.I)
_OF_CLUSTER = re.compile(
    r"[\s>|#]*+NAMESPACE\s++TOPIC\s++PARTITION\s++LEADER-ID\s++REPLICA-CORE(?:\s++DISABLED)?\s*+", re.I
)
_BROKERS = re.compile(r"[\s>|#]*+ID\s++HOST\s++PORT(?:\s++RACK)?\s*+")
_BROKER_STATES = re.compile(r"[\s>|#]*+(?:NODE-)?ID\s[A-Z \t-]*?\bMEMBERSHIP\b[A-Z \t-]*+", re.I)
_TOPICS = re.compile(r"[\s>|#]*+NAME\s++PARTITIONS\s++REPLICAS\s*+")
_CONFIGS = re.compile(r"[\s>|#]*+(?:KEY\s++VALUE\s++SOURCE|Name\s++Value\s++Read-only\s++Sensitive)\s*+")
_TITLE = re.compile(r"[\s>|#]*+(SUMMARY|CONFIGS|PARTITIONS|BROKERS|TOPICS|CLUSTER|LIST OF PARTITIONS|Config:)\s*+")
_DETAILED_TOPIC = re.compile(
    r"[\s>|#]*+([a-zA-Z0-9._-]++)(?: \(internal\))?, ([0-9]{1,9}) partitions(?:, ([0-9]{1,9}) replicas)?\s*+"
)
_NAME = re.compile(r"[\s>|#]*+(?:NAME|Name) {2,}([a-zA-Z0-9._-]++)\s*+")
# rpk up to v21 prints pages: Partitions  1 - 2 out of 2.
_COUNT = re.compile(r"[\s>|#]*+(PARTITIONS|REPLICAS|Partitions) {2,}(?:[0-9]++ - [0-9]++ out of )?([0-9]{1,9})\s*+")
_ROW = re.compile(r"[\s>|#]*+([0-9]++)\s++(-?[0-9]++)\s++(?:(-?[0-9]++)\s++)?\[([0-9 ]*+)\](?:\s++\[([0-9 ]*+)\])?(.*)")
_CLUSTER_ROW = re.compile(
    r"[\s>|#]*+([a-z_]++)\s++([a-zA-Z0-9._-]++)\s++([0-9]++)\s++(-|[0-9]++)\s++"
    r"\[?([0-9]++-[0-9]++(?:[,\s]++[0-9]++-[0-9]++)*+)\]?(?:\s++(-|true|false))?\s*+"
)
_BROKER_ROW = re.compile(
    r"[\s>|#]*+(?P<broker_id>[0-9]++)\*?\s++(?P<host>\S++)\s++(?P<port>[0-9]++)(?:\s++(?P<rack>\S++))?\s*+"
)
_CELL = re.compile(r"[^\s|]++(?: [^\s|]++)*+")
_TOPIC_ROW = re.compile(r"[\s>|#]*+([a-zA-Z0-9._-]++)\s++([0-9]++)\s++([0-9]++)\s*+")
_CONFIG_ROW = re.compile(
    r"[\s>|#]*+([a-z][a-z0-9._-]*+)\s++(?:(.*?)\s++)?(?:[A-Z]++(?:_[A-Z]++)+|(?:true|false)\s++(?:true|false))\s*+"
)
_COUNTS = frozenset({"partition_count", "replication_factor"})  # configs of rpk up to v21
_HEADERS = (
    *((_PARTITIONS, "partition"), (_BROKERS, "broker"), (_TOPICS, "topic"), (_CONFIGS, "config")),
    *((_OF_CLUSTER, "cluster"), (_BROKER_STATES, "states")),
)
# What the second list of brokers of a row is, by the name of its column.
_LISTS = {"OFFLINE-REPLICAS": "offline_replicas", "IN-SYNC": "isr"}
_PREFIX = re.compile(r"[\s>|#]*+")
_KAFKA = "kafka"  # the namespace of topics; the others are Redpanda's own
_OWN_NAMESPACE = "partition of Redpanda's own namespaces"
_ERROR = re.compile(r"\b[A-Z]++(?:_[A-Z]++)+\b")  # in the column LOAD-ERROR
_SUMMARY = "summary"  # rows outside of a table, of a topic's summary
_HEALTH, _DOCUMENT = "health", "document"
_REMEDY = "run rpk topic describe --print-all TOPIC, which also prints the name"
_RULE = re.compile(r"[\s>|#]*+={3,}+\s*+")
# rpk sorts replica lists, so this has to be said wherever they are read.
_UNORDERED = "header of partitions, whose replicas rpk sorts by id: the first is not the preferred leader"


def _is_line(line: str) -> bool:
    line = line[:MAX_LOOK]
    patterns = (*(pattern for pattern, _ in _HEADERS), _DETAILED_TOPIC, _ROW, _CLUSTER_ROW)
    return any(pattern.fullmatch(line) for pattern in patterns) or rpk_health.is_health_line(line)


def _is_summary(lines: Sequence[str]) -> bool:
    """Return whether a file begins with the summary of a topic."""
    return any(_TITLE.fullmatch(line) for line in lines[:20]) and any(_NAME.fullmatch(line) for line in lines[:20])


def _read_rows(text: str, _path: str) -> Iterator[Row]:
    """Give each line its table, the topic that it belongs to, and the columns of the table."""
    lines = split_lines(text)
    table, topic, options = _SUMMARY, "", ""
    down = json.dumps(rpk_health.find_down_nodes(lines))
    has_command = False
    selection = _describe_summaries(lines)
    begin = document_end = 0  # positions in the text
    for number, line in enumerate(lines, 1):
        look, position = line[:MAX_LOOK], begin
        begin += len(line) + 1
        if position < document_end:
            continue
        if DOCUMENT_BEGIN.match(line):
            document_end = find_document_end(text, position)
            yield number, f"{_DOCUMENT}  ", text[position:document_end]
            continue
        if rpk_health.is_health_line(look):
            yield number, f"{_HEALTH}  {down}", line
            continue
        if "rpk " in look and (listing := _find_listing(look)) is not None:
            table, topic, has_command = _SUMMARY, listing[0] if len(listing) == 1 else "", True
        elif title := _TITLE.fullmatch(look):
            table, topic = _SUMMARY, "" if title[1] == "SUMMARY" else topic
        elif named := _DETAILED_TOPIC.fullmatch(look):
            table, topic = "detailed", named[1]
        elif header := next((name for pattern, name in _HEADERS if pattern.fullmatch(look)), None):
            if header == table == "partition":  # a second table of partitions: of another topic, which is not named
                topic = ""
            table, options = header, _name_columns(header, look.upper())
        elif table == _SUMMARY and (name := _NAME.fullmatch(look)):
            topic = name[1]
            if not has_command and selection:
                yield number, decide_ignored("summary of a topic", warning=selection, is_selection=True), ""
                selection = ""
        yield number, f"{table} {topic} {options}", line


def _find_listing(line: str) -> Sequence[str] | None:
    """Return the topics that a command of rpk in a line names, or None without a command that lists partitions."""
    listings = (read_rpk(command.words) for command in parse_commands(line) if command.tool == "rpk")
    return next((listing.topics for listing in listings if listing is not None), None)


def _describe_summaries(lines: Sequence[str]) -> str:
    """Return the warning that summaries are only of the topics that somebody asked for; empty without any."""
    names = [name[1] for line in lines if (name := _NAME.fullmatch(line))]
    option = "a summary of rpk topic describe"
    return describe_topics(dict.fromkeys(names, option), "summaries of rpk topic describe") if names else ""


def _name_columns(table: str, header: str) -> str:
    """Return what the rows of a table need of its header: the name of their second list, or the columns as JSON."""
    if table == "partition":
        return next((column for name, column in _LISTS.items() if name in header), "")
    return json.dumps([(cell.start(), cell[0]) for cell in _find_cells(header)]) if table == "states" else ""


def _find_cells(line: str) -> list[re.Match[str]]:
    return list(_CELL.finditer(line, _PREFIX.match(line).end()))  # type: ignore[union-attr]


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    table, topic, options = (context or f"{_SUMMARY}  ").split(" ", 2)
    if table == _HEALTH:
        return rpk_health.parse_health_line(raw, json.loads(options))
    if table == _DOCUMENT:
        return rpk_health.parse_health_document(raw)
    if not raw.strip():
        return ignore(BLANK)
    if _PARTITIONS.fullmatch(raw):
        return ignore(_UNORDERED)
    if _TITLE.fullmatch(raw) or _RULE.fullmatch(raw) or any(pattern.fullmatch(raw) for pattern, _ in _HEADERS):
        return ignore("header")
    if match := _ROW.fullmatch(raw):
        return _parse_partition(topic, match, options)
    if match := _CLUSTER_ROW.fullmatch(raw):
        return _parse_cluster_row(match)
    if match := _DETAILED_TOPIC.fullmatch(raw):
        return [_describe_topic(match[1], match[2], match[3])]
    if table == "broker" and (match := _BROKER_ROW.fullmatch(raw)):
        values = check.read_columns(match.groupdict(), broker_id="ID", port="PORT")
        return [(FactKind.BROKER, values | {"registered": True})]
    if table == "states" and (cells := _find_cells(raw)) and cells[0][0].rstrip("*").isdecimal():
        return _parse_broker_state(cells, json.loads(options))
    if table == "topic" and (match := _TOPIC_ROW.fullmatch(raw)):
        return [_describe_topic(match[1], match[2], match[3])]
    if table == "config" and (match := _CONFIG_ROW.fullmatch(raw)):
        return _parse_config(topic, match)
    if table == _SUMMARY and (_NAME.fullmatch(raw) or _COUNT.fullmatch(raw)):
        return _parse_summary(topic, raw)
    reason = classify_noise(raw)
    if (
        reason == PROSE
        and table in ("broker", "partition", "topic", "cluster", "states")
        and any(c.isdigit() for c in raw)
    ):
        raise check.unparsable(f"{check.quote(raw.strip())} is no row of the table above (cut off?)")
    return ignore(reason)


def _parse_summary(topic: str, raw: str) -> list[Fact]:
    match = _COUNT.fullmatch(raw)
    if match is None:
        return [(FactKind.TOPIC, {"topic": check.as_topic(topic, "NAME")})]
    if not topic:
        raise check.unparsable(f"{match[1]} of which topic? {_REMEDY}")
    column = "partition_count" if match[1].upper() == "PARTITIONS" else "replication_factor"
    return [(FactKind.TOPIC, {"topic": check.as_topic(topic, "NAME"), column: check.as_int(match[2], match[1])})]


def _describe_topic(name: str, partitions: str, replicas: str | None) -> Fact:
    factor = None if replicas is None else check.as_int(replicas, "REPLICAS")
    values = {"topic": check.as_topic(name, "NAME"), "partition_count": check.as_int(partitions, "PARTITIONS", 1)}
    return FactKind.TOPIC, values | {"replication_factor": factor}


def _parse_config(topic: str, match: re.Match[str]) -> list[Fact]:
    if not topic:
        raise check.unparsable(f"a config of which topic? {_REMEDY}")
    name = check.as_topic(topic, "NAME")
    if match[1] in _COUNTS:
        return [(FactKind.TOPIC, {"topic": name, match[1]: check.as_int(match[2], match[1], 1)})]
    return [(FactKind.CONFIG, {"topic": name, "configs": {match[1]: match[2] or ""}})]


def _parse_partition(topic: str, match: re.Match[str], column: str) -> list[Fact]:
    if not topic:
        raise check.unparsable(f"partition {match[1]} of which topic? {_REMEDY}")
    replicas = check.split_ids(match[4], "REPLICAS", None)
    if not replicas:
        raise check.unparsable("REPLICAS is empty")
    place = {"topic": check.as_topic(topic, "NAME"), "partition": check.as_partition(match[1], "PARTITION")}
    epoch = -1 if match[3] is None else check.as_int(match[3], "EPOCH", -1)
    leader = check.as_int(match[2], "LEADER", -1)
    values = {**place, "leader": leader, "leader_epoch": epoch if epoch >= 0 else None, "replicas": replicas}
    if bool(column) != (match[5] is not None):
        problem = "lacks a list of brokers that the header above has" if column else "has two lists of brokers"
        raise check.unparsable(f"{check.quote(match[0].strip())} {problem}: paste the whole table with its header")
    if column:
        values[column] = check.split_ids(match[5], column, None)
    facts: list[Fact] = [(FactKind.PARTITION, values)]
    if leader >= 0 and (error := _ERROR.search(match[6])) is not None:
        facts += ignore("error of a partition", f"rpk reports an error of {topic}-{match[1]}: {error[0]}")
    offsets = match[6].split()
    if len(offsets) >= 2 and offsets[-1].isdecimal() and offsets[-2].isdecimal():
        offset = check.as_int(offsets[-1], "HIGH-WATERMARK", 0, check.INT64)
        facts.append((FactKind.OFFSET, {**place, "log_end_offset": offset}))
    return facts


def _parse_cluster_row(match: re.Match[str]) -> list[Fact]:
    """Return the facts of a row of `rpk cluster partitions list`, whose replicas are broker-core."""
    if match[1] != _KAFKA:
        return ignore(_OWN_NAMESPACE)
    topic, partition = check.as_topic(match[2], "TOPIC"), check.as_partition(match[3], "PARTITION")
    values = {
        "topic": topic,
        "partition": partition,
        "leader": -1 if match[4] == "-" else check.as_int(match[4], "LEADER-ID"),
        "replicas": [
            check.as_int(item.partition("-")[0], "REPLICA-CORE") for item in match[5].replace(",", " ").split()
        ],
    }
    facts: list[Fact] = [(FactKind.PARTITION, values)]
    if match[6] == "true":
        facts += ignore("disabled partition", f"{topic}-{partition} is disabled: its clients are rejected")
    return facts


def _parse_broker_state(cells: Sequence[re.Match[str]], columns: Sequence[tuple[int, str]]) -> list[Fact]:
    """Return the fact of a row of `rpk redpanda admin brokers list` or `rpk cluster info --detailed`.

    Its host and port may be those of the brokers among themselves. Cells may be empty: then their positions count.
    """
    row: dict[str, str] = {}
    for at, cell in enumerate(cells):
        above = [name for begin, name in columns if begin <= cell.start()]
        name = columns[at][1] if len(cells) == len(columns) else above[-1] if above else columns[0][1]
        row[name] = cell[0]
    broker_id = check.as_int(cells[0][0].rstrip("*"), "ID")
    membership = row.get("MEMBERSHIP", row.get("MEMBERSHIP-STATUS", "-")).lower()
    is_alive = {"true": True, "false": False}.get(row.get("IS-ALIVE", "-").lower())
    if membership == "-" and is_alive is None:
        return ignore("decommissioned broker")
    rack = row.get("RACK", "-")
    values = {
        "broker_id": broker_id,
        "rack": None if rack == "-" else rack,
        "reported_live": is_alive,
        "draining": True if membership == "draining" else None,
    }
    return [(FactKind.BROKER, values)]


FORMAT = Format(
    "rpk",
    "rpk topic describe, rpk cluster info, health and partitions list, rpk redpanda admin brokers list (Redpanda)",
    Signature(
        line=_is_line,
        document=rpk_health.is_health_document,
        beginning=_is_summary,
        has_rows=True,
        row=looks_like_cells,
    ),
    _parse_record,
    _read_rows,
)
