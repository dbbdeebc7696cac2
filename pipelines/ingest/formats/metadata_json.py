"""JSON of topics and partitions with leaders: kcat -J, web interfaces, REST APIs, Cruise Control, client libraries.

Client libraries of Python print dictionaries, and those of Go and .NET keys with capitals; these become JSON first.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.ingest.formats import partition_objects as objects
from pipelines.ingest.formats.checked_values import JsonObject, parse_json, parse_object, quote, unparsable
from pipelines.ingest.formats.cruise_control_table import parse_broker_state
from pipelines.ingest.formats.json_documents import JsonEvent, JsonEventKind, parse_elements, to_row, walk_documents
from pipelines.ingest.formats.partition_filters import warn_of_topics
from pipelines.ingest.source_format import Fact, Format, Row, Signature, decide_ignored
from pipelines.ingest.text import MAX_LOOK, find_marked, split_lines

_STATES = ("offline", "with-offline-replicas", "urp", "under-min-isr", "other")  # of Cruise Control
_ARRAYS = (
    *((), ("topics",), ("partitions",), ("results",), ("data",), ("brokers",), ("clusterInfo", "brokers")),
    *(("KafkaPartitionState", state) for state in _STATES),
)
_IDS = re.compile(r'"(?:partition|partition_?id|partition_?index|partitionNumber|id|index)"\s*+:\s*+"?[0-9]', re.I)
_REPLICAS = re.compile(r'"(?:replicas|replica_nodes|replicaNodes)"\s*+:\s*+\[')
_STATE = re.compile(
    r'"(?:leader|leader_id|leaderId|isrs?|inSyncReplicas|in_sync_replicas|in-sync|isr_nodes|isrNodes|inSync|in_sync)"\s*+:'
)
_NODES = re.compile(r'"nodes"\s*+:\s*+\[\s*+\{')  # of AKHQ
_NODE_FLAG = re.compile(r'"inSyncReplicas?"\s*+:\s*+(?:true|false)')
_KINDS = re.compile(
    r'"kind"\s*+:\s*+"Kafka(?:Partition|Replica|Broker)(?:List)?"'  # Confluent's REST API
    r'|"clusterInfo"\s*+:\s*+\{'  # of Redpanda Console
    r'|"originating_broker"\s*+:|"controllerid"\s*+:|"Kafka(?:Partition|Broker)State"\s*+:|"BrokerState"\s*+:'
)
# What Python prints: keys in single quotes.
_PYTHON = re.compile(
    r"[ \t]*+[\[{( \t]*+'(?:error_code|topic|topics|partition|partitions|leader|leader_epoch|replicas|isrs?"
    r"|offline_replicas|is_internal|id|brokers|node_id|cluster_id|controller_id|host|port|rack)'\s*+:"
)
_ONE_LINE = re.compile(r"[\]})]\s*+$")
_PYTHON_TOKEN = re.compile(r"'((?:[^'\\\n]|\\[^\n])*+)'|\"(?:[^\"\\\n]|\\[^\n])*+\"|\b(None|True|False)\b")
_CONSTANTS = {"None": "null", "True": "true", "False": "false"}

# What Go and .NET print: {"Topics": [{"Name": "t", "Partitions": [{"ID": 0, "Leader": 1, "Replicas": [1]}]}]}
_CAPITALS = re.compile(r'"Partitions"\s*+:\s*+[\[{]')
_CAPITAL_KEY = re.compile(r'"([A-Z][A-Za-z]++)"(?=\s*+:)')

_PARTITION, _TOPIC, _REPLICA = "partition ", "topic ", "replicas"  # contexts, with what is around the record
_BROKER, _LIVE_BROKER, _OTHER = "broker", "live broker", "entry"
_BROKER_STATE = "broker state "  # of Cruise Control, with the number of partitions that have a leader and are selected
_WITH_LIVE_BROKERS = ("originating_broker", "originatingBrokerId", "controllerid", "controller_id")
_OF_REST = ("KafkaPartitionList", "KafkaReplicaList")
_SELECTION = "selection "  # of a document of one topic, with its name
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_OF_TOPIC = re.compile(r"/topics/([a-zA-Z0-9._-]*[a-zA-Z0-9._])/partitions")  # in a link of Confluent's REST API
_NAMES = "topics or partitions"


def _is_document(text: str) -> bool:
    if _PYTHON.match(text):
        return _is_python_line(text)
    text = _lower_keys(text)
    if _REPLICAS.search(text) and _STATE.search(text) and _IDS.search(text):
        return True
    return _KINDS.search(text) is not None or (_NODES.search(text) is not None and _NODE_FLAG.search(text) is not None)


def _is_python_line(line: str) -> bool:
    if not _PYTHON.match(line[:MAX_LOOK]):
        return False
    is_whole = line.lstrip()[:1] in ("[", "{") and _ONE_LINE.search(line[-20:]) is not None
    return not is_whole or "'replicas'" in line or "'brokers'" in line or "'node_id'" in line


def _lower_keys(text: str) -> str:
    """Return JSON of Go and .NET with keys as other tools write them: InSyncReplicas -> inSyncReplicas, ID -> id."""

    def lower(match: re.Match[str]) -> str:
        name = match[1]
        return f'"{name.lower() if name.isupper() else name[0].lower() + name[1:]}"'

    return _CAPITAL_KEY.sub(lower, text) if _CAPITALS.search(text) else text


def _to_json(text: str) -> str:
    """Return the text with Python's dictionaries as JSON, line by line."""

    def replace(match: re.Match[str]) -> str:
        if match[2]:
            return _CONSTANTS[match[2]]
        return match[0] if match[1] is None else json.dumps(match[1].replace("\\'", "'"))

    return _PYTHON_TOKEN.sub(replace, text)


def _read_rows(text: str, _path: str) -> list[Row]:
    is_python = "'" in text and any(_is_python_line(line) for line in split_lines(text))
    rows = list(_read_documents(_to_json(text) if is_python else _lower_keys(text)))
    contexts = ((i, context) for i, (_, context, _) in enumerate(rows) if (context or "").startswith(_SELECTION))
    topics = {i: (context or "").removeprefix(_SELECTION) for i, context in contexts}
    selected = {i: (topic, f"a document of topic {topic}") for i, topic in topics.items()}
    for i, warning in warn_of_topics(selected, "the documents").items():
        rows[i] = rows[i][0], decide_ignored("document of one topic", warning=warning, is_selection=True), ""
    return rows


def _read_documents(text: str) -> Iterator[Row]:
    document, has_rows = _Document(0), False
    for event in walk_documents(text, _ARRAYS):
        row = to_row(event, _NAMES)
        if event.kind == JsonEventKind.START and not event.path:
            document = _Document(event.line)
        elif event.kind == JsonEventKind.BROKEN:
            yield from document.build_rows()
            document = _Document(0)
        elif event.kind == JsonEventKind.END and not event.path:
            rows = document.build_rows()
            has_rows = bool(rows)
            yield from rows
        elif row is None:
            document.add(event)
        if row is not None and not (event.kind == JsonEventKind.FOREIGN and has_rows):
            yield row


class _Document:
    """Collects one document: keys come in any order, and what is around a partition may name its topic."""

    def __init__(self, line: int) -> None:
        self._line = line
        self._values: dict[str, Any] = {}
        self._lines: dict[str, int] = {}  # where these are
        self._partitions: list[tuple[int, str]] = []  # those of the document itself: line, raw
        self._brokers: list[tuple[int, str]] = []
        self._led: set[tuple[str, str]] = set()  # topics and partitions that Cruise Control shows with a leader
        self._replicas: dict[str, tuple[int, list[Any]]] = {}  # Confluent's REST API: one entry per replica
        self._partition_lines: dict[str, int] = {}  # of entries of an object of partitions
        self._rows: list[Row] = []

    def add(self, event: JsonEvent) -> None:
        """Add an element of a named array, or a value beside them."""
        if event.kind == JsonEventKind.VALUE and len(event.path) == 1:
            self._values[str(event.path[0])] = event.value
            self._lines[str(event.path[0])] = event.line
        elif event.kind == JsonEventKind.VALUE and event.path[:1] == ("partitions",):  # an object: number -> partition
            self._values.setdefault("partitions", {})[str(event.path[1])] = event.value
            self._partition_lines[str(event.path[1])] = event.line
        elif event.kind == JsonEventKind.VALUE and event.path[:1] == ("topics",):  # an object: name -> topic
            self._add_element(event._replace(raw=json.dumps(event.value)))
        elif event.kind == JsonEventKind.ELEMENT:
            self._add_element(event)

    def _add_element(self, event: JsonEvent) -> None:
        item = event.value
        if not isinstance(item, dict):
            self._rows.append((event.line, _OTHER, event.raw))
        elif (
            "brokers" in event.path[:2]
            or item.get("kind") == "KafkaBroker"
            or ("host" in item and "replicas" not in item and objects.find_key(item, objects.BROKER_IDS) is not None)
        ):
            self._brokers.append((event.line, event.raw))
        elif isinstance(item.get("partitions"), list | dict):
            self._rows.extend(_read_topic(event))
        elif ("is_leader" in item or "is_in_sync" in item) and "topic_name" in item:
            key = json.dumps([item["topic_name"], item.get("partition_id")])
            self._replicas.setdefault(key, (event.line, []))[1].append(item)
        elif _is_partition(item):
            self._partitions.append((event.line, event.raw))
            if event.path[0] == "KafkaPartitionState" and item.get("leader") != -1:
                self._led.add((str(item.get("topic")), str(item.get("partition"))))
        else:
            self._rows.append((event.line, _OTHER, event.raw))

    def build_rows(self) -> list[Row]:
        """Return the rows of all that was collected, by line."""
        rows, values = self._rows, self._values
        topic = objects.find_topic(values) or ""
        if (selected := self._find_selection(topic)) is not None:
            rows.append((self._line, _SELECTION + selected, ""))
        if self._partitions and topic and "partitions" not in values:
            rows.append((self._line, _TOPIC + str(len(self._partitions)), _dump_scalars(values)))
        elif isinstance(values.get("partitions"), dict):
            rows.extend(_list_partitions(self._line, topic, values["partitions"], self._partition_lines))
        elif not (self._partitions or self._brokers or rows or self._replicas) and _is_partition(values):
            rows.append((self._line, _PARTITION, json.dumps(values)))
        rows.extend((line, _PARTITION + topic, raw) for line, raw in self._partitions)
        rows.extend((line, _REPLICA, json.dumps(items)) for line, items in self._replicas.values())
        # A cluster's answer to a client names all live brokers; of other lists this is unknown.
        is_answer = values.get("kind") == "KafkaBrokerList" or any(key in values for key in _WITH_LIVE_BROKERS)
        rows.extend((line, _LIVE_BROKER if is_answer else _BROKER, raw) for line, raw in self._brokers)
        if "KafkaBrokerState" in values:
            state = json.dumps(values["KafkaBrokerState"])
            rows.append((self._lines["KafkaBrokerState"], f"{_BROKER_STATE}{len(self._led)}", state))
        return sorted(rows, key=lambda row: row[0])

    def _find_selection(self, topic: str) -> str | None:
        """Return the topic of which alone the document is, or None. topic: name of the document itself."""
        values = self._values
        query, metadata = (values.get(key) for key in ("query", "metadata"))
        has_partitions = bool(self._partitions) or isinstance(values.get("partitions"), dict)
        if isinstance(query, dict):  # kcat -L -J: * or what -t names
            topic = str(query.get("topic", ""))
        elif isinstance(metadata, dict) and values.get("kind") in _OF_REST:
            link = _OF_TOPIC.search(str(metadata.get("self", "")))
            topic = link[1] if link is not None else ""
        elif not has_partitions or self._rows:
            topic = ""
        return topic if _NAME.fullmatch(topic) else None


def _is_partition(item: dict[str, Any]) -> bool:
    has_state = objects.find_key(item, (*objects.REPLICA_LISTS, "leader", "leader_id")) is not None
    return has_state and objects.find_key(item, objects.PARTITION_IDS) is not None


def _read_topic(event: JsonEvent) -> list[Row]:
    """Return the rows of an element that is a topic with its partitions."""
    item, topic = event.value, objects.find_topic(event.value) or ""
    if isinstance(item["partitions"], dict):
        if not all(isinstance(value, dict) for value in item["partitions"].values()):
            return [(event.line, _OTHER, event.raw)]
        return _list_partitions(event.line, topic, item["partitions"], {})
    parts = [
        (event.line + inner.line - 1, _PARTITION + topic, inner.raw)
        for inner in walk_documents(event.raw, [("partitions",)])
        if inner.kind == JsonEventKind.ELEMENT
    ]
    return [(event.line, _TOPIC + str(len(parts)), _dump_scalars(item)), *parts]


def _list_partitions(line: int, topic: str, partitions: dict[str, Any], lines: Mapping[str, int]) -> list[Row]:
    """Return the rows of partitions by their number. lines: of partitions, else `line`."""
    return [(lines.get(key, line), _PARTITION + topic, json.dumps(item)) for key, item in partitions.items()]


def _dump_scalars(item: dict[str, Any]) -> str:
    """Return an object without its arrays; configs stay."""
    return json.dumps({k: v for k, v in item.items() if k == "configs" or not isinstance(v, list | dict)})


def _parse_element(context: str, raw: str) -> list[Fact]:
    if context in (_BROKER, _LIVE_BROKER):
        return objects.parse_broker(parse_object(raw, "the broker"), context == _LIVE_BROKER)
    if context.startswith(_BROKER_STATE):
        return parse_broker_state(parse_object(raw, "KafkaBrokerState"), int(context.removeprefix(_BROKER_STATE)))
    if context.startswith(_TOPIC):
        return objects.parse_topic(parse_object(raw, "the topic"), int(context.removeprefix(_TOPIC)))
    if context == _REPLICA:
        return objects.parse_replicas([JsonObject(item) for item in parse_json(raw)])
    if context.startswith(_PARTITION):
        return objects.parse_partition(parse_object(raw, "the partition"), context.removeprefix(_PARTITION))
    raise unparsable(f"{quote(raw[:60])} is neither a topic nor a partition nor a broker")


FORMAT = Format(
    "metadata-json",
    "JSON of partitions with leaders: kcat -J, kafka-ui, Redpanda Console, AKHQ, REST APIs, Cruise Control, clients",
    Signature(line=find_marked(r"'\s*+:", _is_python_line), document=_is_document),
    parse_elements(_parse_element),
    _read_rows,
)
