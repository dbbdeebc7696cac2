"""What rpk (Redpanda) prints: of topics, of all partitions, of the cluster and its health, of brokers.

Redpanda itself has no ISRs; only the table of rpk up to v21 has a column for them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.formats import rpk_health
from pipelines.ingest.formats.json_documents import DOCUMENT_BEGIN
from pipelines.ingest.formats.partition_filters import describe_topics, read_rpk
from pipelines.ingest.formats.partition_objects import KAFKA_NAMESPACE, OWN_NAMESPACE, describe_disabled
from pipelines.ingest.formats.shell_words import parse_commands
from pipelines.ingest.sections import find_document_end
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, decide_ignored, ignore
from pipelines.ingest.table_rows import looks_like_cells
from pipelines.ingest.text import BLANK, MAX_LOOK, PROSE, begins_with, classify_noise, find_marked, split_lines

# Names of columns have blanks where a tool did not put dashes; cells end with two blanks, or with a bar.
_COLUMN = re.compile(r"(?:IN-SYNC|HIGH|NODE|NUM|MEMBERSHIP|IS|BROKER) [A-Z]++|[^\s|]++", re.I)
_LIST = r"\[[^\[\]\n]*+\]|[0-9]++-[0-9]++(?:[,\s]++[0-9]++-[0-9]++)++"
_BROKERS = re.compile(r"\[[0-9, ]*+\]")
_CELL = re.compile(rf"{_LIST}|[^\s|\[]++(?: [^\s|\[]++)*+|[^\s|]++")
_NARROW_CELL = re.compile(rf"{_LIST}|[^\s|]++")  # where one blank is between cells
_CAPITALS = re.compile(r"[A-Z -]++")
# Columns of each table; rpk up to v21 does not write them in capitals.
_TABLES = {
    "partition": {"PARTITION", "LEADER", "REPLICAS"},
    "cluster": {"TOPIC", "PARTITION", "LEADER-ID", "REPLICA-CORE"},
    "states": {"ID", "MEMBERSHIP"},
    "broker": {"ID", "HOST", "PORT"},
}
_SAME = {"NODE-ID": "ID", "MEMBERSHIP-STATUS": "MEMBERSHIP", "IN-SYNC-REPLICAS": "IN-SYNC"}
_KNOWN = set[str]().union(
    *_TABLES.values(), ("EPOCH", "IN-SYNC", "HIGH-WATERMARK", "NAMESPACE", "DISABLED", "IS-ALIVE")
)
_OF_OTHERS = {"ISR", "MIN-ISR"}  # columns of tables of other tools
_LOOKS = re.compile(r"\b(?:LEADER(?:-ID)?|MEMBERSHIP|HOST)\b", re.I)
# Every line of them has one of these.
_MARKS = (
    r"(?i:(?:^|[\s>|#])(?:LEADER(?:-ID)?|MEMBERSHIP(?:-STATUS)?|HOST)(?:[\s|]|$))"
    r"|PARTITIONS|VALUE|Value|, [0-9]+ partitions|\[|[0-9]-[0-9]|HEALTH|Healthy:|Controller ID:"
)
_TOPICS = re.compile(r"[\s>|#]*+NAME\s++PARTITIONS\s++REPLICAS\s*+")
_CONFIGS = re.compile(r"[\s>|#]*+(?:KEY\s++VALUE\s++SOURCE|Name\s++Value\s++Read-only\s++Sensitive)\s*+")
_TITLE = re.compile(r"[\s>|#]*+(SUMMARY|CONFIGS|PARTITIONS|BROKERS|TOPICS|CLUSTER|LIST OF PARTITIONS|Config:)\s*+")
_DETAILED_TOPIC = re.compile(
    r"[\s>|#]*+([a-zA-Z0-9._-]++)(?: \(internal\))?, ([0-9]{1,9}) partitions(?:, ([0-9]{1,9}) replicas)?\s*+"
)
_NAME = re.compile(r"[\s>|#]*+(?:NAME|Name) {2,}([a-zA-Z0-9._-]++)\s*+")
# rpk up to v21 prints pages: Partitions  1 - 2 out of 2.
_COUNT = re.compile(r"[\s>|#]*+(PARTITIONS|REPLICAS|Partitions) {2,}(?:[0-9]++ - [0-9]++ out of )?([0-9]{1,9})\s*+")
# Rows that are recognised without their header, and the columns that they have.
_ROWS = {
    "partition": re.compile(r"[\s>|#]*+[0-9]++\s++-?[0-9]++\s++(?P<EPOCH>-?[0-9]++\s++)?\[[0-9 ]*+\].*"),
    "cluster": re.compile(
        r"[\s>|#]*+[a-z_]++\s++[a-zA-Z0-9._-]++\s++[0-9]++\s++(?:-|[0-9]++)\s++"
        r"\[?[0-9]++-[0-9]++(?:[,\s]++[0-9]++-[0-9]++)*+\]?(?:\s++(?:-|true|false))?\s*+"
    ),
}
_TOPIC_ROW = re.compile(r"[\s>|#]*+([a-zA-Z0-9._-]++)\s++([0-9]++)\s++([0-9]++)\s*+")
_CONFIG_ROW = re.compile(
    r"[\s>|#]*+([a-z][a-z0-9._-]*+)\s++(?:(.*?)\s++)?(?:[A-Z]++(?:_[A-Z]++)+|(?:true|false)\s++(?:true|false))\s*+"
)
_COUNTS = frozenset({"partition_count", "replication_factor"})  # configs of rpk up to v21
_COLUMNS, _COLUMNS_WITH_EPOCH = ("PARTITION", "LEADER", "REPLICAS"), ("PARTITION", "LEADER", "EPOCH", "REPLICAS")
_CLUSTER_COLUMNS = ("NAMESPACE", "TOPIC", "PARTITION", "LEADER-ID", "REPLICA-CORE", "DISABLED")
# The column with a number that each row has.
_NUMBERS = {"partition": "PARTITION", "cluster": "PARTITION", "states": "ID", "broker": "ID"}
# What other lists of brokers of a row are, by the name of their column.
_LISTS = {"OFFLINE-REPLICAS": "offline_replicas", "IN-SYNC": "isr"}
_PREFIX = re.compile(r"[\s>|#]*+")
_ERROR = re.compile(r"\b[A-Z]++(?:_[A-Z]++)+\b")  # in the column LOAD-ERROR
_SUMMARY = "summary"  # rows outside of a table, of a topic's summary
_HEALTH, _DOCUMENT = "health", "document"
_REMEDY = "run rpk topic describe --print-all TOPIC, which also prints the name"
_CUT_OFF = "is no row of the table above (cut off?)"
_RULE = re.compile(r"[\s>|#]*+={3,}+\s*+")
# rpk sorts replica lists, so this has to be said wherever they are read.
_UNORDERED = "header of partitions, whose replicas rpk sorts by id: the first is not the preferred leader"


def _is_line(line: str) -> bool:
    line = line[:MAX_LOOK]
    patterns = (_TOPICS, _CONFIGS, _DETAILED_TOPIC, *_ROWS.values())
    if any(pattern.fullmatch(line) for pattern in patterns):
        return True
    return _find_header(line) is not None or rpk_health.HEALTH_LINE.match(line) is not None


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
        if rpk_health.HEALTH_LINE.match(look):
            yield number, f"{_HEALTH}  {down}", line
            continue
        if "rpk " in look and (listing := _find_listing(look)) is not None:
            table, topic, has_command = _SUMMARY, listing[0] if len(listing) == 1 else "", True
        elif title := _TITLE.fullmatch(look):
            table, topic = _SUMMARY, "" if title[1] == "SUMMARY" else topic
        elif named := _DETAILED_TOPIC.fullmatch(look):
            table, topic = "detailed", named[1]
        elif header := _find_header(look):
            if header[0] == table == "partition":  # a second table of partitions: of another topic, which is not named
                topic = ""
            table, options = header[0], json.dumps(header[1])
        elif _TOPICS.fullmatch(look) or _CONFIGS.fullmatch(look):
            table, options = "topic" if _TOPICS.fullmatch(look) else "config", ""
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


def _find_header(line: str) -> tuple[str, list[tuple[int, str]]] | None:
    """Return which table a line is the header of, and where its columns begin; None for other lines."""
    if not _LOOKS.search(line):
        return None
    columns = []
    for cell in _COLUMN.finditer(line, _PREFIX.match(line).end()):  # type: ignore[union-attr]
        name = cell[0].upper().replace(" ", "-")
        name = _SAME.get(name, name)
        if name in _OF_OTHERS or not (name in _KNOWN or _CAPITALS.fullmatch(cell[0])):
            return None
        columns.append((cell.start(), name))
    table = next((table for table, needed in _TABLES.items() if needed <= {name for _, name in columns}), None)
    return None if table is None else (table, columns)


def _read_row(table: str, columns: str, raw: str) -> tuple[str, dict[str, str]] | None:
    """Return the table and the cells of a row by their columns, also without its header; None for other lines.

    columns: of the header above, as JSON. Cells may be empty: then their positions count.
    """
    begin = _PREFIX.match(raw).end()  # type: ignore[union-attr]
    narrow = list(_NARROW_CELL.finditer(raw, begin))
    if columns and table in _NUMBERS:
        named = json.loads(columns)
        cells = narrow if len(narrow) == len(named) else list(_CELL.finditer(raw, begin))
        row = dict.fromkeys((name for _, name in named), "")
        for at, cell in enumerate(cells):
            above = [name for start, name in named if start <= cell.start()]
            name = named[at][1] if len(cells) == len(named) else above[-1] if above else named[0][1]
            if row[name] and any(other[0].isdecimal() for other in cells):
                problem = f"has {len(cells)} cells below {len(named)} columns (cut off?)"
                raise check.unparsable(f"{check.quote(raw.strip())} {problem}: paste the whole table with its header")
            row[name] = cell[0]
        if row.get(_NUMBERS[table], "").rstrip("*").isdecimal():
            return table, row
    for name, pattern in _ROWS.items():
        if match := pattern.fullmatch(raw):
            names = _CLUSTER_COLUMNS if name == "cluster" else _COLUMNS_WITH_EPOCH if match["EPOCH"] else _COLUMNS
            return name, {column: cell[0] for column, cell in zip(names, narrow, strict=False)}
    return None


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    table, topic, options = (context or f"{_SUMMARY}  ").split(" ", 2)
    if table == _HEALTH:
        return rpk_health.parse_health_line(raw, json.loads(options))
    if table == _DOCUMENT:
        return rpk_health.parse_health_document(raw)
    if not raw.strip():
        return ignore(BLANK)
    if header := _find_header(raw):
        return ignore(_UNORDERED if header[0] == "partition" else "header")
    if any(pattern.fullmatch(raw) for pattern in (_TITLE, _RULE, _TOPICS, _CONFIGS)):
        return ignore("header")
    if read := _read_row(table, options, raw):
        return _PARSERS[read[0]](topic, read[1], raw)
    if match := _DETAILED_TOPIC.fullmatch(raw):
        return [_describe_topic(match[1], match[2], match[3])]
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
        raise check.unparsable(f"{check.quote(raw.strip())} {_CUT_OFF}")
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


def _parse_partition(topic: str, row: Mapping[str, str], raw: str) -> list[Fact]:
    listed = [name for name in ("REPLICAS", *_LISTS) if name in row]
    count = sum(_BROKERS.fullmatch(cell[0]) is not None for cell in _NARROW_CELL.finditer(raw))
    if not count:
        raise check.unparsable(f"{check.quote(raw.strip())} {_CUT_OFF}")
    if len(listed) != count or not all(_BROKERS.fullmatch(row[name]) for name in listed):
        problem = "has two lists of brokers" if count > len(listed) else "lacks a list of brokers"
        raise check.unparsable(f"{check.quote(raw.strip())} {problem}: paste the whole table with its header")
    if not topic:
        raise check.unparsable(f"partition {row['PARTITION']} of which topic? {_REMEDY}")
    lists = {name: check.split_ids(row[name].strip("[]").replace(",", " "), name, None) for name in listed}
    if not lists["REPLICAS"]:
        raise check.unparsable("REPLICAS is empty")
    place = {"topic": check.as_topic(topic, "NAME"), "partition": check.as_partition(row["PARTITION"], "PARTITION")}
    epoch, leader = check.as_int(row.get("EPOCH") or "-1", "EPOCH", -1), check.as_int(row.get("LEADER"), "LEADER", -1)
    values = {
        **place,
        "leader": leader,
        "leader_epoch": epoch if epoch >= 0 else None,
        "replicas": lists.pop("REPLICAS"),
    }
    facts: list[Fact] = [(FactKind.PARTITION, values | {_LISTS[name]: ids for name, ids in lists.items()})]
    if leader >= 0 and (error := _ERROR.search(row.get("LOAD-ERROR", ""))) is not None:
        facts += ignore("error of a partition", f"rpk reports an error of {topic}-{row['PARTITION']}: {error[0]}")
    if (text := row.get("HIGH-WATERMARK", "-")).isdecimal():
        offset = check.as_int(text, "HIGH-WATERMARK", 0, check.INT64)
        facts.append((FactKind.OFFSET, {**place, "log_end_offset": offset}))
    return facts


def _parse_cluster_row(_topic: str, row: Mapping[str, str], raw: str) -> list[Fact]:
    """Return the facts of a row of `rpk cluster partitions list`, whose replicas are broker-core."""
    if row.get("NAMESPACE", KAFKA_NAMESPACE) != KAFKA_NAMESPACE:
        return ignore(OWN_NAMESPACE)
    topic, partition = check.as_topic(row.get("TOPIC"), "TOPIC"), check.as_partition(row["PARTITION"], "PARTITION")
    replicas = [item.partition("-")[0] for item in row.get("REPLICA-CORE", "").strip("[]").replace(",", " ").split()]
    if not replicas or raw.count("[") > raw.count("]"):
        raise check.unparsable(f"{check.quote(raw.strip())} {_CUT_OFF}")
    leader = row.get("LEADER-ID")
    values = {
        "topic": topic,
        "partition": partition,
        "leader": -1 if leader == "-" else check.as_int(leader, "LEADER-ID", -1),
        "replicas": [check.as_int(item, "REPLICA-CORE") for item in replicas],
    }
    facts: list[Fact] = [(FactKind.PARTITION, values)]
    if row.get("DISABLED") == "true":
        facts += ignore("disabled partition", describe_disabled(topic, partition))
    return facts


def _parse_broker(_topic: str, row: Mapping[str, str], _raw: str) -> list[Fact]:
    """Return the fact of a row of `rpk cluster info`."""
    values = {
        "broker_id": check.as_int(row["ID"].rstrip("*"), "ID"),
        "host": check.as_text(row["HOST"], "HOST"),
        "port": check.as_int(row["PORT"], "PORT", 0, 65535),
        "rack": _read_text(row, "RACK"),
    }
    return [(FactKind.BROKER, values | {"registered": True})]


def _read_text(row: Mapping[str, str], column: str) -> str | None:
    text = row.get(column, "")
    return None if text in ("", "-") else check.as_text(text, column)


def _parse_broker_state(_topic: str, row: Mapping[str, str], _raw: str) -> list[Fact]:
    """Return the fact of a row of `rpk redpanda admin brokers list` or `rpk cluster info --detailed`.

    Its host and port may be those of the brokers among themselves.
    """
    membership = row.get("MEMBERSHIP") or "-"
    is_alive = {"true": True, "false": False}.get(row.get("IS-ALIVE", "").lower())
    if membership == "-" and is_alive is None:
        return ignore("decommissioned broker")
    values = {
        "broker_id": check.as_int(row["ID"].rstrip("*"), "ID"),
        "rack": _read_text(row, "RACK"),
        "reported_live": is_alive,
        "draining": True if membership.lower() == "draining" else None,
    }
    return [(FactKind.BROKER, values)]


_PARSERS: dict[str, Callable[[str, Mapping[str, str], str], list[Fact]]] = {
    **{"partition": _parse_partition, "cluster": _parse_cluster_row},
    **{"broker": _parse_broker, "states": _parse_broker_state},
}


FORMAT = Format(
    "rpk",
    "rpk topic describe, rpk cluster info, health and partitions list, rpk redpanda admin brokers list (Redpanda)",
    Signature(
        line=find_marked(_MARKS, _is_line),
        document=rpk_health.is_health_document,
        beginning=begins_with(_TITLE, _NAME, lines=20),
        has_rows=True,
        row=looks_like_cells,
    ),
    _parse_record,
    _read_rows,
)
