"""`kafka-dump-log --cluster-metadata-decoder`: a KRaft log or snapshot as text, or its payloads alone."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.formats.kafka_configs import CORDONED, parse_defaults
from pipelines.ingest.formats.kafka_versions import METADATA_VERSION, name_fields, read_level
from pipelines.ingest.formats.metadata_quorum import make_node
from pipelines.ingest.formats.partition_objects import PARTITION_LISTS
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, ignore
from pipelines.ingest.text import PROSE, TOOL_MESSAGE, classify_noise, find_marked, split_lines

_SNAPSHOT = "dump the snapshot before it too, as in --files N.checkpoint,N.log"
_ABORTED, _UNFINISHED = "aborted transaction", "unfinished transaction"

_PAYLOAD = re.compile(r"\bpayload:\s?")
_ENTRY = re.compile(r"\s*+\|?+\s*+offset: ")
_BATCH = re.compile(r"\s*baseOffset: ")
_CONTROL = re.compile(
    r"\s*+\|? ?offset: .*?(?:LeaderChange|SnapshotHeader|SnapshotFooter|KRaftVersion|KRaftVoters|endTxnMarker|"
    r"controlType|controlRecord)",
    re.I,
)
_CUT_LEADER_CHANGE = re.compile(r"\bLeaderChange:?\s*\Z")
_LEADER_CHANGE = re.compile(r"\bLeaderChange: (\{.*)")
_VOTERS = re.compile(r"\b(?:LeaderChange|KRaftVoters):? (\{.*)")
_DUMP_HEADER = re.compile(r"\s*(?:Dumping |Log starting offset: |Snapshot end offset: |Starting offset: )")
# Where a log or a snapshot begins: a dumped file says so; else the first batch or record shows it.
_BEGIN = re.compile(r"\s*+Log starting offset: (?P<log>[0-9]{1,18})|\s*+Snapshot end offset: (?P<snapshot>[0-9]+)")
_FIRST = re.compile(r"\s*+(?:baseOffset|\|?+\s*+offset): (?P<offset>[0-9]{1,18})\b")
_TYPE = re.compile(r'\{\s*"type"\s*:\s*"(\w+)"')
_TOPIC_ID = re.compile(r'"topicId"\s*:\s*"([^"\\]+)"')
_RECORD = re.compile(r'"type"\s*+:\s*+"[A-Z_]*_RECORD"')
_TIME = re.compile(r"\bCreateTime: (\d{1,14})(?!\d)")  # ms: a later one is in no calendar
_WITH_TOPIC_ID = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "REMOVE_TOPIC_RECORD")
# Types up to Kafka 4.4 (MetadataRecordType) that say nothing about placement.
_IGNORED_TYPES = frozenset(
    f"{name}_RECORD"
    for name in (
        *("DELEGATION_TOKEN", "REMOVE_DELEGATION_TOKEN", "USER_SCRAM_CREDENTIAL", "REMOVE_USER_SCRAM_CREDENTIAL"),
        *("ACCESS_CONTROL_ENTRY", "REMOVE_ACCESS_CONTROL_ENTRY", "CLIENT_QUOTA", "PRODUCER_IDS", "FEATURE_LEVEL"),
        *("BEGIN_TRANSACTION", "END_TRANSACTION", "ABORT_TRANSACTION", "REGISTER_CONTROLLER", "ZK_MIGRATION_STATE"),
        "UNREGISTER_CONTROLLER",
    )
)
# Keys in the data of records that may concern partitions or brokers, in lower case.
_CONCERNED = re.compile(r"topic|partition|broker|replica|isr|elr|leader|assignment|director|logdir|^id$|nodeid")
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_NO_LEADER_CHANGE = -2
_LISTS = {**PARTITION_LISTS, "eligibleLeaderReplicas": "elr"}  # the record's key -> our column


def _is_line(line: str) -> bool:
    is_entry = _ENTRY.match(line) is not None and ("payload:" in line or _CONTROL.match(line) is not None)
    return is_entry or _BATCH.match(line) is not None or _DUMP_HEADER.match(line) is not None


class _LogReader:
    """Resolves topic ids and marks records of transactions that were not committed; both need the log in order."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._rows: list[Row] = []
        self._begin: int | None = None  # index of the row that began the open transaction
        self._names_before: dict[str, str] = {}
        self._has_begin = False  # whether what the log or snapshot begins with is known

    def read_rows(self, text: str) -> list[Row]:
        """Return a row for each line."""
        for number, line in enumerate(split_lines(text), 1):
            payload = find_payload(line)
            context = self._build_context(payload) if payload is not None else None
            if not self._has_begin and (offset := self._find_late_begin(line)) is not None:
                context = json.dumps(json.loads(context or "{}") | {"begins_at": offset})
            self._rows.append((number, context, line))
        if self._begin is not None:
            self._discard_transaction(_UNFINISHED)
        return self._rows

    def _find_late_begin(self, line: str) -> int | None:
        """Return the offset that the log begins at, if what is before is missing."""
        begin, first = _BEGIN.match(line), _FIRST.match(line)
        self._has_begin = begin is not None or first is not None
        if begin is not None:
            return int(begin["log"] or 0) or None
        offset = int(first["offset"]) if first is not None else 0
        return offset if offset > 20 else None  # few are before the first topic or broker, if only records are shown

    def _build_context(self, payload: str) -> str | None:
        match = _TYPE.match(payload)
        kind = match[1] if match else None
        with suppress(check.BadValueError):  # the record is rejected when it is parsed, and its id stays unknown
            kind = kind or check.parse_object(payload, "the payload").read("type", check.as_text)
            if kind == "TOPIC_RECORD":
                data = check.parse_object(payload, "the payload").read("data", check.as_object)
                self._names[data.read("topicId", check.as_text)] = data.read("name", check.as_text)
        if kind in _WITH_TOPIC_ID:
            result = _TOPIC_ID.search(payload)
            topic = self._names.get(result[1]) if result else None
            if topic is not None and kind == "REMOVE_TOPIC_RECORD":
                del self._names[result[1]]  # type: ignore[index]
            return None if topic is None else json.dumps({"topic": topic})
        if kind == "BEGIN_TRANSACTION_RECORD":
            if self._begin is not None:
                self._discard_transaction(_UNFINISHED)
            self._begin = len(self._rows)
            self._names_before = dict(self._names)
        elif kind == "END_TRANSACTION_RECORD":
            self._begin = None
        elif kind == "ABORT_TRANSACTION_RECORD" and self._begin is not None:
            self._discard_transaction(_ABORTED)
            return json.dumps({"ignored": _ABORTED})
        return None

    def _discard_transaction(self, reason: str) -> None:
        """Mark the records since the transaction began, and undo what they said about topic ids."""
        context = json.dumps({"ignored": reason})
        for i in range(self._begin or 0, len(self._rows)):
            number, _, line = self._rows[i]
            if find_payload(line) is not None:
                self._rows[i] = (number, context, line)
        self._names = self._names_before
        self._begin = None


def find_payload(line: str) -> str | None:
    """Return the JSON of a record's line, or None for a line without a record."""
    match = _PAYLOAD.search(line)
    if match is not None and (_ENTRY.match(line) or line.lstrip().startswith("payload:")):
        return line[match.end() :].strip()
    stripped = line.strip()
    return stripped if stripped.startswith("{") else None


def find_create_time(line: str) -> int | None:
    """Return when a record was written, ms since 1970; None for a line that does not show it."""
    match = _TIME.search(line)
    return int(match[1]) if match is not None else None


def find_new_controller(raw: str) -> int | None:
    """Return the broker that the LeaderChange of a line names as controller; None for a line without one.

    Raises: BadValueError if the line was cut.
    """
    match = _LEADER_CHANGE.search(raw)
    if match is not None:
        return check.parse_object(match[1], "LeaderChange", "LeaderChange").read("leaderId", check.as_int)
    if _CUT_LEADER_CHANGE.search(raw):
        raise check.unparsable("cut off in LeaderChange")
    return None


def _parse_voters(raw: str) -> Iterator[Fact]:
    """Yield a fact about each voter of the quorum in a LeaderChange or KRaftVoters record."""
    match = _VOTERS.search(raw)
    if match is None:
        return
    record = check.parse_object(match[1], "the control record", "the control record")
    leader = record.find("leaderId", check.as_int)
    for one in check.as_list(record.get("voters") or [], "voters"):
        voter = check.as_object(one, "voter")
        node = voter.read("voterId", check.as_int)
        directory = voter.find("voterDirectoryId", check.as_text)
        yield make_node(node, voter=True, controller=node == leader or None, directory_id=directory)


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    surroundings: dict[str, Any] = {} if context is None else json.loads(context)
    payload = find_payload(raw)
    if payload is None:
        reason = _classify_line(raw)
        facts = list(_parse_voters(raw)) or ignore(reason)
    elif "ignored" in surroundings:
        facts = ignore(surroundings["ignored"])
    else:
        decoded = check.parse_object(payload, "the payload", "the payload")
        facts = _parse_payload(decoded, surroundings.get("topic"))
    if "begins_at" in surroundings:
        kind, values = facts[0]
        begin = f"the log begins at offset {surroundings['begins_at']}"
        warning = f"{begin}, so older topics and brokers are missing: {_SNAPSHOT}"
        facts[0] = kind, values | {"warning": warning, "is_selection": True}
    return facts


def _classify_line(raw: str) -> str:
    if _BATCH.match(raw):
        return "batch header"
    if _CONTROL.match(raw):
        find_new_controller(raw)  # raises BadValueError for a line that was cut
        return "control record"
    if _DUMP_HEADER.match(raw):
        return "dump header"
    if _ENTRY.match(raw):
        raise check.unparsable("an entry without a decoded payload (dump with --cluster-metadata-decoder)")
    reason = classify_noise(raw)
    return TOOL_MESSAGE if reason == PROSE and raw.startswith("Error at ") else reason


def _parse_payload(payload: check.JsonObject, topic: str | None) -> list[Fact]:
    """Return the facts of a decoded payload; topic: the name of its topicId, if it has one."""
    kind = payload.read("type", check.as_text)
    if kind == "NO_OP_RECORD":
        return ignore("NO_OP record")
    if kind in _IGNORED_TYPES:
        return ignore(f"{kind} carries no placement")
    data = payload.read("data", check.as_object)
    if kind not in _KINDS:
        if concerned := [key for key in data if _CONCERNED.search(key.lower())]:
            keys = ", ".join(map(check.quote, concerned[:3]))
            raise check.unparsable(f"record type {check.quote(kind)} is unknown up to Kafka 4.4, and names {keys}")
        return ignore(f"{kind[:60]} of a later version names no partition or broker")
    if kind in _WITH_TOPIC_ID and topic is None:
        topic_id = check.quote(data.read("topicId", check.as_text))
        raise check.unparsable(f"topicId {topic_id} belongs to no topic that the log has created: {_SNAPSHOT}")
    if kind == "CONFIG_RECORD" and (resource := data.read("resourceType", check.as_int, -128)) != _TOPIC_RESOURCE:
        of_broker, entity = resource == _BROKER_RESOURCE, data.get("resourceName")
        name, value = data.get("name"), data.get("value")
        if of_broker and entity == "" and isinstance(name, str) and isinstance(value, str | None):
            return parse_defaults([(name, value)])
        if of_broker and name == CORDONED:
            broker = data.read("resourceName", check.as_int)
            return [(FactKind.BROKER_CHANGE, {"broker_id": broker, "configs": [(name, value or "")]})]
        return ignore("CONFIG_RECORD of no topic")
    version, values = payload.get("version", 0), _parse_data(kind, data, topic)
    if kind == "PARTITION_RECORD" and type(version) is int and version >= 2:
        # The versions that have an ELR leave it out when it is empty.
        values = {"elr": [], "last_known_elr": []} | values
    return [(_KINDS[kind], values)]


_KINDS = {
    "TOPIC_RECORD": FactKind.TOPIC,
    "REMOVE_TOPIC_RECORD": FactKind.TOPIC_REMOVED,
    "PARTITION_RECORD": FactKind.PARTITION,
    "PARTITION_CHANGE_RECORD": FactKind.PARTITION_CHANGE,
    "CONFIG_RECORD": FactKind.CONFIG,
    "REGISTER_BROKER_RECORD": FactKind.BROKER,
    "UNREGISTER_BROKER_RECORD": FactKind.BROKER_REMOVED,
    "BROKER_REGISTRATION_CHANGE_RECORD": FactKind.BROKER_CHANGE,
    "FENCE_BROKER_RECORD": FactKind.BROKER_CHANGE,
    "UNFENCE_BROKER_RECORD": FactKind.BROKER_CHANGE,
    "CLEAR_ELR_RECORD": FactKind.CLEAR_ELR,
}


def _parse_data(kind: str, data: check.JsonObject, topic: str | None) -> dict[str, Any]:
    match kind:
        case "TOPIC_RECORD":
            return {"topic": data.read("name", check.as_text), "topic_id": data.read("topicId", check.as_text)}
        case "REMOVE_TOPIC_RECORD":
            return {"topic": topic, "topic_id": data.read("topicId", check.as_text)}
        case "PARTITION_RECORD" | "PARTITION_CHANGE_RECORD":
            return _parse_partition(kind, data, topic)
        case "CONFIG_RECORD":
            data.require("value")
            configs = [(data.read("name", check.as_text), data.find("value", check.as_text))]
            return {"topic": data.read("resourceName", check.as_text), "configs": configs}
        case "REGISTER_BROKER_RECORD":
            return _parse_broker(data)
        case "UNREGISTER_BROKER_RECORD":
            return {"broker_id": data.read("brokerId", check.as_int)}
        case "BROKER_REGISTRATION_CHANGE_RECORD":
            fenced = data.read("fenced", check.as_int, -1, 1) if "fenced" in data else 0
            values = {"broker_id": data.read("brokerId", check.as_int), "fenced": None if fenced == 0 else fenced == 1}
            if data.get("inControlledShutdown") == 1:
                values["shutting_down"] = True
            return values | _read_directories(data, "logDirs") | _read_cordoned(data)
        case "FENCE_BROKER_RECORD" | "UNFENCE_BROKER_RECORD":
            return {"broker_id": data.read("id", check.as_int), "fenced": kind == "FENCE_BROKER_RECORD"}
    return {"topic": check.as_text(data.get("topicName") or "", "topicName") or None}  # CLEAR_ELR_RECORD


def _parse_partition(kind: str, data: check.JsonObject, topic: str | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "topic": topic,
        "topic_id": data.read("topicId", check.as_text),
        "partition": data.read("partitionId", check.as_partition),
    }
    for key, column in _LISTS.items():
        if data.get(key) is not None:
            values[column] = data.read(key, check.as_broker_ids)
    if "leaderEpoch" in data:
        values["leader_epoch"] = data.read("leaderEpoch", check.as_int, -1)
    values |= _read_directories(data, "directories")
    if kind == "PARTITION_RECORD":
        for key in ("replicas", "isr"):
            data.require(key)
        values["leader"] = data.read("leader", check.as_int, -1)
    elif data.get("leader", _NO_LEADER_CHANGE) != _NO_LEADER_CHANGE:
        values["leader"] = data.read("leader", check.as_int, -1)
    return values


def _read_directories(data: check.JsonObject, key: str) -> dict[str, Any]:
    """Return the ids of log dirs, if a record has them (Kafka 3.7 and later)."""
    if not data.get(key):
        return {}
    return {"directories": [check.as_text(one, key) for one in check.as_list(data[key], key)]}


def _read_cordoned(data: check.JsonObject) -> dict[str, Any]:
    """Return the ids of a broker's cordoned log dirs, if a record has them (Kafka 4.3 and later)."""
    key = "cordonedLogDirs"
    if data.get(key) is None:  # not changed
        return {}
    return {"cordoned_directories": [check.as_text(one, key) for one in check.as_list(data[key], key)]}


def _parse_broker(data: check.JsonObject) -> dict[str, Any]:
    values: dict[str, Any] = {
        "broker_id": data.read("brokerId", check.as_int),
        "registered": True,
        "rack": data.find("rack", check.as_text),
        "fenced": data.find("fenced", check.as_bool),
    }
    if data.get("inControlledShutdown") is True:
        values["shutting_down"] = True
    values |= _read_directories(data, "logDirs") | _read_cordoned(data)
    for one in check.as_list(data.get("features") or [], "features"):
        feature = check.as_object(one, "feature")
        if feature.get("name") == METADATA_VERSION:
            values |= name_fields(read_level(feature.read("maxSupportedVersion", check.as_int)))
    endpoints = check.as_list(data.get("endPoints") or [], "endPoints")
    if endpoints:
        first = check.as_object(endpoints[0], "endPoints[0]")
        values |= {"host": first.read("host", check.as_text), "port": first.read("port", check.as_int, 0, 65535)}
    return values


FORMAT = Format(
    "kraft-log",
    "KRaft metadata log or snapshot, as kafka-dump-log --cluster-metadata-decoder prints it",
    Signature(find_marked("ffset: |Dumping ", _is_line), _RECORD.search, row=_ENTRY.match),
    *(_parse_record, lambda text, _path: _LogReader().read_rows(text)),
)
