"""Decides which lines surely are data, from the formats that Kafka's tools print, without the readers' own patterns.

A pattern describes a whole line without damage. What it matches must never be ignored, whatever stands around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

_NAME, _ID, _IDS = r"[a-zA-Z0-9._-]{1,80}", "[0-9]{1,9}", r"[0-9]{1,9}(?:,[0-9]{1,9})*"
_GAP = r"[ \t]+"
_PATTERNS = {
    "partition of describe": (
        rf"[ \t]*(?:Topic|topic): ?{_NAME}{_GAP}[Pp]artition: ?{_ID}{_GAP}[Ll]eader: ?(?:{_ID}|none|-1){_GAP}"
        rf"[Rr]eplicas: ?{_IDS}{_GAP}[Ii]sr: ?(?:{_IDS})?"
        rf"(?:{_GAP}(?:Elr|LastKnownElr|Adding Replicas|Removing Replicas|Offline|Observers): ?(?:{_IDS})?)*[ \t]*"
    ),
    "partition of describe below its topic": (
        rf"[ \t]+Partition: ?{_ID}{_GAP}Leader: ?(?:{_ID}|none|-1){_GAP}Replicas: ?{_IDS}{_GAP}Isr: ?{_IDS}[ \t]*"
    ),
    "topic of describe": (
        rf"[ \t]*Topic: ?{_NAME}{_GAP}(?:TopicId: ?[a-zA-Z0-9_-]{{22}}{_GAP})?PartitionCount: ?[0-9]{{1,9}}{_GAP}"
        rf"ReplicationFactor: ?[0-9]{{1,9}}{_GAP}Configs:[ \t]*(?:[a-z.]+=[a-z0-9.]+)?[ \t]*"
    ),
    "partition of kcat": rf" +partition [0-9]{{1,9}}, leader (?:-1|[0-9]{{1,9}}), replicas: {_IDS}, isrs: {_IDS}",
    "topic of kcat": rf' +topic "{_NAME}" with [0-9]{{1,9}} partitions:',
    "broker of kcat": r" +broker [0-9]{1,9} at (?=[0-9-]*[a-z.])[a-z0-9.-]+:[0-9]{2,5}(?: \(controller\))?",
    "partition of rpk": r"[0-9]{1,9} +(?:-1|[0-9]{1,9}) +[0-9]{1,9} +\[[0-9]{1,9}(?: [0-9]{1,9})*\] +[0-9]+ +[0-9]+",
    "topic of a Java client": (
        rf"(?:[\w:]+ )*\{{{_NAME}=\(name={_NAME}, internal=(?:true|false), partitions=\(partition={_ID}, leader=[^=]+, "
        r"replicas=[^=]+, isr=.*\)\}"
    ),
    "reassignment of --list": rf"{_NAME}-{_ID}: replicas: {_IDS}\.(?: (?:adding|removing): {_IDS}\.)*",
    "broker of kafka-broker-api-versions": r"[a-z0-9.-]+:[0-9]{1,5} \(id: [0-9]{1,9} rack: [a-z0-9-]+\) -> \(",
    "partition of Cruise Control": (rf" +{_NAME} +{_ID} +(?:-1|{_ID})(?: +\[(?:[0-9]+(?:, [0-9]+)*)?\]){{4}} +[0-9]+"),
}
_COMPILED = {name: re.compile(pattern, re.ASCII) for name, pattern in _PATTERNS.items()}
_LOG_RECORD = re.compile(r"\| offset: [0-9]+ CreateTime: -?[0-9]+ keySize: .{1,200}? payload: (\{.*\})", re.ASCII)
_LOG_TYPES = ("TOPIC_RECORD", "PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "REGISTER_BROKER_RECORD")
_ZNODE = re.compile(r"/brokers/(?:ids/[0-9]{1,9}|topics/[a-zA-Z0-9._-]{1,80}(?:/partitions/[0-9]{1,9}/state)?)")
_MAX_LINE = 50_000


def _is_assignment(value: object) -> bool:
    partitions = value.get("partitions") if isinstance(value, dict) else None
    return (
        isinstance(partitions, list)
        and bool(partitions)
        and all(isinstance(item, dict) and {"topic", "partition", "replicas"} <= item.keys() for item in partitions)
    )


def _is_log_dirs(value: object) -> bool:
    brokers = value.get("brokers") if isinstance(value, dict) else None
    return (
        isinstance(brokers, list)
        and bool(brokers)
        and all(isinstance(item, dict) and {"broker", "logDirs"} <= item.keys() for item in brokers)
    )


def _is_znode(value: object) -> bool:
    path, data = (value.get("path"), value.get("data")) if isinstance(value, dict) else (None, None)
    return isinstance(path, str) and _ZNODE.fullmatch(path) is not None and isinstance(data, str) and "version" in data


_DOCUMENTS: dict[str, Callable[[object], bool]] = {
    "reassignment": _is_assignment,
    "kafka-log-dirs": _is_log_dirs,
    "znode": _is_znode,
}


def name_data(line: str) -> str | None:
    """Return what a line surely is, or None."""
    if not line.isprintable() and not line.replace("\t", "").isprintable():
        return None  # what a terminal obeys may have removed text
    if len(line) > _MAX_LINE:
        return None
    if line.startswith("{"):
        return _name_document(line)
    if line.startswith("| offset: "):
        return _name_log_record(line)
    if not any(c.isdigit() for c in line):
        return None
    return next((name for name, pattern in _COMPILED.items() if pattern.fullmatch(line)), None)


def _name_document(line: str) -> str | None:
    value = _parse(line)
    return next((name for name, is_data in _DOCUMENTS.items() if is_data(value)), None)


def _name_log_record(line: str) -> str | None:
    match = _LOG_RECORD.fullmatch(line)
    payload = _parse(match[1]) if match else None
    is_data = isinstance(payload, dict) and payload.get("type") in _LOG_TYPES and isinstance(payload.get("data"), dict)
    return "record of a metadata log" if is_data else None


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
