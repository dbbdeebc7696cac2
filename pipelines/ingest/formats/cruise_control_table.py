"""Cruise Control's `kafka_cluster_state` as text, and what text and JSON say of brokers. metadata_json has its JSON."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.ingest.formats.checked_values import JsonObject, as_int, as_object, quote, read_columns, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, ignore
from pipelines.ingest.table_rows import looks_like_cells
from pipelines.ingest.text import MAX_LOOK, PROSE, classify_noise, find_marked, split_lines
from udfs.wording import count_of, join_names

_NO_DIRS = "broker_dead"  # instead of the log directories of a broker that is down
_VERBOSE = "get kafka_cluster_state?verbose=true"
_REASON = "summary of the cluster"
_NAMED = 6  # log directories that a warning names
_COUNTS = {
    "leaders": "LeaderCountByBrokerId",
    "replicas": "ReplicaCountByBrokerId",
    "out_of_sync": "OutOfSyncCountByBrokerId",
    "offline": "OfflineReplicaCountByBrokerId",
}


class ReplicaCounts(NamedTuple):
    """How many partitions a broker leads, and how many replicas it has; None = not shown."""

    leaders: int
    replicas: int
    out_of_sync: int
    offline: int | None


def describe_offline_dirs(offline_dirs: Iterable[tuple[int, object]]) -> str | None:
    """Return the warning of the offline log directories of live brokers; None without any. offline_dirs: by broker."""
    named = [
        f"{quote(str(name))} of broker {broker}"
        for broker, names in offline_dirs
        if isinstance(names, list) and names != [_NO_DIRS]
        for name in names
    ]
    if not named:
        return None
    subject = "a log directory is" if len(named) == 1 else "log directories are"
    return f"{subject} offline, with all replicas there: {join_names(named, _NAMED)}"


def build_broker(broker_id: int, online_dirs: object, counts: ReplicaCounts | None, is_controller: bool) -> Fact:
    """Return the fact of a broker: whether it is live by its online log directories, or else by what it does.

    Cruise Control counts the replicas of all brokers, and adds the live brokers that have none.
    """
    is_live: bool | None = None
    if isinstance(online_dirs, list) and online_dirs:
        is_live = online_dirs != [_NO_DIRS]
    elif counts is not None and (counts.leaders or not counts.replicas or counts.out_of_sync < counts.replicas):
        is_live = True
    elif counts is not None and counts.offline is not None:
        is_live = counts.offline < counts.replicas
    values = {"broker_id": broker_id, "reported_live": is_live, "controller": True if is_controller else None}
    return FactKind.BROKER, values


def describe_selection(visible: int, leaders: int) -> list[Fact]:
    """Return the facts of a record that counts the partitions with a leader, of which so many are shown."""
    if not leaders:
        return ignore(_REASON)
    is_selection = visible < leaders
    partitions = count_of(leaders, "partition")
    warning = f"kafka_cluster_state shows {visible} of {partitions} that have a leader: {_VERBOSE}"
    return ignore(_REASON, warning if is_selection else None, is_selection)


def describe_problems() -> list[Fact]:
    """Return the facts of a title that says that only partitions with problems follow."""
    return ignore("header", f"kafka_cluster_state shows only the partitions with problems: {_VERBOSE}", True)


def parse_broker_state(state: JsonObject, visible: int) -> list[Fact]:
    """Return the facts of a KafkaBrokerState. visible: how many partitions with a leader are beside it."""

    def read(key: str) -> Mapping[str, Any]:
        return state.find(key, as_object) or {}

    counts = {name: read(key) for name, key in _COUNTS.items()}
    dirs, controllers = read("OnlineLogDirsByBrokerId"), read("IsController")
    ids = dict.fromkeys(key for part in (*counts.values(), dirs, controllers) for key in part)
    facts = []
    for key in ids:
        own = ReplicaCounts(*(as_int(part.get(key, 0), f"{_COUNTS[name]} of {key}") for name, part in counts.items()))
        facts.append(build_broker(as_int(key, "broker id"), dirs.get(key), own, controllers.get(key) is True))
    offline_dirs = read("OfflineLogDirsByBrokerId").items()
    if warning := describe_offline_dirs((as_int(key, "broker id"), dirs) for key, dirs in offline_dirs):
        facts += ignore(_REASON, warning)
    led = sum(as_int(count, _COUNTS["leaders"]) for count in counts["leaders"].values())
    return facts + describe_selection(visible, led)


_PARTITIONS = re.compile(r"\s*+TOPIC\s++PARTITION\s++LEADER\s++REPLICAS\s++IN-SYNC\b.*")
_BROKERS = re.compile(r"\s*+BROKER\s++LEADER\(S\)\s++REPLICAS\s++OUT-OF-SYNC\b.*")
_DIRS = re.compile(r"\s*+BROKER\s++ONLINE-LOGDIRS\b.*")
_SUMMARY = re.compile(
    r"\s*+(?:Summary: )?The cluster has ([0-9]{1,9}) brokers?, ([0-9]{1,9}) replicas?, ([0-9]{1,9}) leaders?, and .*"
)
_PROBLEMS = re.compile(r"\s*+Under Replicated, Offline, and Under MinIsr Partitions:\s*+")
_TITLE = re.compile(
    r"\s*+(?:Brokers|LogDirs of brokers with replicas|Partitions with Offline Replicas"
    r"|(?:All|Offline|Other|Under \w++) Partitions(?: in the Cluster \(verbose\))?):\s*+"
)
_BROKER_ROW = re.compile(
    r"\s*+([0-9]++)\s++([0-9]++)\s++([0-9]++)\s++([0-9]++)(?:\s++([0-9]++))?\s++(true|false)(?:\s.*)?"
)
_DIRS_ROW = re.compile(r"\s*+([0-9]++)\s++\[([^\]\n]*+)\]\s++\[([^\]\n]*+)\]\s*+")
_IDS = r"(?:[0-9]++(?:, ?[0-9]++)*+)?+"
_ROW = re.compile(  # groups are named as columns of FACTS
    r"\s*+(?P<topic>[a-zA-Z0-9._-]++)\s++(?P<partition>[0-9]++)\s++(?P<leader>-?[0-9]++)"
    rf"\s++\[(?P<replicas>{_IDS})\]\s++\[(?P<isr>{_IDS})\](?:\s++\[{_IDS}\])?"
    rf"(?:\s++\[(?P<offline_replicas>{_IDS})\])?(?:\s++([0-9]++))?\s*+"
)
_NEARLY = re.compile(r"\s*+[a-zA-Z0-9._-]++\s++[0-9]++\s++-?[0-9]++\s++\[.*")
_NEARLY_BROKER = re.compile(r"\s*+[0-9]++\s++[0-9\[].*")
# The table of a line and, after a blank, what its reader must know, as JSON.
_NO_TABLE, _PARTITION_TABLE, _BROKER_TABLE, _DIRS_TABLE, _COUNTED = "none", "partitions", "brokers", "dirs", "summary"
_TABLES = ((_PARTITIONS, _PARTITION_TABLE), (_BROKERS, _BROKER_TABLE), (_DIRS, _DIRS_TABLE))


def _is_line(line: str) -> bool:
    line = line[:MAX_LOOK]
    if "[" in line:  # a table of another tool may have rows of numbers alone
        match = _ROW.fullmatch(line)
        return match is not None and not match[1].isdecimal()
    return _is_header(line) or _SUMMARY.fullmatch(line) is not None or _PROBLEMS.fullmatch(line) is not None


def _is_header(line: str) -> bool:
    return any(pattern.fullmatch(line[:MAX_LOOK]) for pattern, _ in _TABLES)


def _read_rows(text: str, _path: str) -> Iterator[Row]:
    """Give each line its table.

    A broker's counts also get its log directories, these whether it has counts, and a summary how many partitions it
    shows.
    """
    lines = split_lines(text)
    dirs = {row[1]: _read_dirs(row[2]) for line in lines if (row := _DIRS_ROW.fullmatch(line))}
    counted = {row[1] for line in lines if (row := _BROKER_ROW.fullmatch(line))}
    visible = _count_visible(lines)
    table, has_summary = _NO_TABLE, False
    for number, line in enumerate(lines, 1):
        table = next((name for pattern, name in _TABLES if pattern.fullmatch(line)), table)
        if _SUMMARY.fullmatch(line):
            has_summary = True
            yield number, f"{_COUNTED} {visible[number]}", line
        elif _PROBLEMS.fullmatch(line) and has_summary:
            yield number, f"{_COUNTED} null", line
        elif table == _BROKER_TABLE and (row := _BROKER_ROW.fullmatch(line)):
            yield number, f"{table} {json.dumps(dirs.get(row[1]))}", line
        elif table == _DIRS_TABLE and (row := _DIRS_ROW.fullmatch(line)):
            yield number, f"{table} {json.dumps(row[1] in counted)}", line
        else:
            yield number, f"{table} null", line


def _read_dirs(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _count_visible(lines: Sequence[str]) -> dict[int, int]:
    """Return {line number of a summary: number of partitions with a leader below it, to the next one}."""
    visible: dict[int, set[tuple[str, str]]] = {}
    current: set[tuple[str, str]] = set()
    for number, line in enumerate(lines, 1):
        if _SUMMARY.fullmatch(line):
            current = visible[number] = set()
        elif (row := _ROW.fullmatch(line)) and not row[3].startswith("-"):
            current.add((row[1], row[2]))
    return {number: len(partitions) for number, partitions in visible.items()}


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    table, _, known = (context or f"{_NO_TABLE} null").partition(" ")
    if summary := _SUMMARY.fullmatch(raw):
        return describe_selection(json.loads(known) or 0, int(summary[3]))
    if _PROBLEMS.fullmatch(raw):
        return ignore("header") if table == _COUNTED else describe_problems()
    if _is_header(raw) or _TITLE.fullmatch(raw):
        return ignore("header")
    if row := _ROW.fullmatch(raw):
        return _parse_partition(table, row)
    if table == _BROKER_TABLE and (row := _BROKER_ROW.fullmatch(raw)):
        return [_parse_broker(row, json.loads(known))]
    if table == _DIRS_TABLE and (row := _DIRS_ROW.fullmatch(raw)):
        return _parse_dirs(row, has_counts=json.loads(known))
    reason = classify_noise(raw)
    nearly = _NEARLY_BROKER if table in (_BROKER_TABLE, _DIRS_TABLE) else _NEARLY
    if reason == PROSE and nearly.fullmatch(raw):
        raise unparsable(f"{quote(raw.strip())} is no whole row of the table above (cut off?)")
    return ignore(reason)


def _parse_broker(row: re.Match[str], dirs: object) -> Fact:
    names = ("LEADER(S)", "REPLICAS", "OUT-OF-SYNC")
    leaders, replicas, out_of_sync = (as_int(row[i], name) for i, name in enumerate(names, 2))
    offline = None if row[5] is None else as_int(row[5], "OFFLINE")
    counts = ReplicaCounts(leaders, replicas, out_of_sync, offline)
    return build_broker(as_int(row[1], "BROKER"), dirs, counts, row[6] == "true")


def _parse_dirs(row: re.Match[str], has_counts: bool) -> list[Fact]:
    broker = as_int(row[1], "BROKER")
    warning = describe_offline_dirs([(broker, _read_dirs(row[3]))])
    if has_counts:
        return ignore("log directories of a broker, used with its counts", warning)
    fact = build_broker(broker, _read_dirs(row[2]), None, is_controller=False)
    return [fact, *(ignore("log directories of a broker", warning) if warning else ())]


def _parse_partition(table: str, row: re.Match[str]) -> list[Fact]:
    if row[1].isdecimal() and table != _PARTITION_TABLE:
        raise unparsable(f"{quote(row[0].strip())} has no header as in TOPIC PARTITION LEADER above: of which topic?")
    columns = read_columns(row.groupdict(), topic="TOPIC", partition="PARTITION", leader="LEADER")
    facts: list[Fact] = [(FactKind.PARTITION, columns)]
    if row[7] is not None:
        configs = {"min.insync.replicas": row[7]}
        facts.append((FactKind.CONFIG, {"topic": columns["topic"], "configs": configs}))
    return facts


FORMAT = Format(
    "cruise-control",
    "kafka_cluster_state of Cruise Control, as text",
    Signature(
        line=find_marked(r"\[|(?:TOPIC|BROKER)\s|The cluster has |Under Replicated, ", _is_line),
        table=_is_header,
        has_rows=True,
        row=looks_like_cells,
    ),
    _parse_record,
    _read_rows,
)
