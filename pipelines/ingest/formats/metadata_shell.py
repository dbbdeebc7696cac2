"""A session of `kafka-metadata-shell`: what `cat`, `tree` and `ls` print of a KRaft snapshot.

Source: InteractiveShell and ShellNodePrinter of Kafka 4.1, BrokerRegistration.toString of 4.4, MetadataNodeManager of
3.4. Up to 3.4 a partition is JSON at `/topics/T/P/data`; later it is `PartitionRegistration(...)` at
`/image/topics/byName/T/P`.
"""

import re
from collections.abc import Iterator
from posixpath import join, normpath

from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.formats.json_documents import JsonEventKind, find_keys, walk_documents
from pipelines.ingest.formats.kafka_configs import CORDONED, parse_cordoned, parse_defaults
from pipelines.ingest.formats.kafka_versions import METADATA_VERSION, name_fields, read_level
from pipelines.ingest.formats.partition_objects import PARTITION_LISTS
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, ignore
from pipelines.ingest.text import PROMPT, classify_noise, find_marked
from udfs.failures.disk_limits import are_all_cordoned

_COMMANDS = ("cat", "tree", "ls", "cd")
_PROMPT = re.compile(r">>\s++(?P<command>[a-z]++)(?:\s++(?P<targets>\S.*))?\s*+$")
_TITLE = re.compile(r"\[ Kafka Metadata Shell \]\s*+$")
_REGISTRATION = re.compile(r"\s*+(?P<kind>PartitionRegistration|BrokerRegistration)\((?P<fields>.*)\)\s*+$")
_FIELD = re.compile(r"([a-zA-Z]++)=(\[[^\]]*+\]|Optional\[[^\]]*+\]|[^,\s\[\]]++)")
_METADATA_VERSION = re.compile(rf"\b{re.escape(METADATA_VERSION)}: (?:[0-9]+-)?([0-9]{{1,9}})\b")
_HOST = re.compile(r"host='([^']*)', port=([0-9]{1,5})\b")
_NODE = re.compile(r"(?P<indent>(?: {2})*)(?P<name>\S.*):$")  # of `tree`
_NO_FILE = re.compile(r"(?:cat|ls|tree): ")
_WITHOUT_PLACEMENT = "node without placement"
# Beginnings of contexts: a node's path, or that of a listing, is behind.
_VALUE, _LISTING = "value of ", "children of "
_BY_ID = re.compile(_VALUE + r"(?:(?:/image)?/topics/byId|/topicIds)/(?P<id>[^/\n]++)(?:/name)?")


def _is_line(line: str) -> bool:
    prompt = _PROMPT.match(line)
    if prompt is not None:
        return prompt["command"] in _COMMANDS
    return _TITLE.match(line) is not None or _REGISTRATION.match(line) is not None


def _is_request(line: str) -> bool:
    prompt = _PROMPT.match(line)
    return prompt is not None and prompt["command"] == "cat"


class _Shell:
    """Follows a session, and says which node each line is about."""

    def __init__(self) -> None:
        self._folder = "/"
        self._command = ""
        self._targets: list[str] = []
        self._tree: list[str] = []  # names of the nodes that the last line of `tree` is below

    def enter(self, prompt: re.Match[str]) -> None:
        """Take a command."""
        paths = [normpath(join(self._folder, word)) for word in (prompt["targets"] or ".").split()]
        self._command, self._targets, self._tree = prompt["command"], paths, []
        if self._command == "cd":
            self._folder = paths[0]

    def find_context(self, line: str) -> str | None:
        """Return the context of a line that a command has printed, or None."""
        if not line.strip() or _NO_FILE.match(line) or not self._targets:
            return None
        if self._command == "cat":
            return _VALUE + self._targets.pop(0)
        if self._command == "ls" and len(self._targets) == 1:
            return _LISTING + self._targets[0]
        if self._command == "tree" and len(self._targets) == 1:
            return self._follow_tree(line)
        return None

    def _follow_tree(self, line: str) -> str | None:
        node = _NODE.match(line)
        depth = (len(line) - len(line.lstrip())) // 2
        if node is not None:
            self._tree[depth:] = [node["name"]]
            return _LISTING
        return _VALUE + join(self._targets[0], *self._tree[:depth])


def _read_rows(text: str, _path: str) -> Iterator[Row]:
    rows = list(_follow_session(text))
    names = {match["id"]: raw.strip() for _, context, raw in rows if (match := _BY_ID.fullmatch(context or ""))}
    return ((line, _name_topic(context, names), raw) for line, context, raw in rows)


def _name_topic(context: str | None, names: dict[str, str]) -> str | None:
    """Return a context with the name of a topic instead of its id, if the session shows both."""
    match = _BY_ID.match(context or "")
    if match is None or match["id"] not in names:
        return context
    return f"{_VALUE}/topics/{names[match['id']]}{match.string[match.end('id') :]}"


def _follow_session(text: str) -> Iterator[Row]:
    shell = _Shell()
    for event in walk_documents(text, ()):
        if event.kind == JsonEventKind.LINE and (prompt := _PROMPT.match(event.raw)):
            shell.enter(prompt)
            yield event.line, None, event.raw
        else:
            yield event.line, shell.find_context(event.raw), event.raw


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    if _PROMPT.match(raw) or _TITLE.match(raw):
        return ignore(PROMPT)
    if context is not None and context.startswith(_VALUE):
        return _parse_value(_split_path(context.removeprefix(_VALUE)), raw.strip())
    if context is not None and context.startswith(_LISTING):
        return _parse_listing(_split_path(context.removeprefix(_LISTING)), raw.split())
    if _REGISTRATION.match(raw) or raw.lstrip().startswith("{"):
        raise check.unparsable("data without the cat or tree command above it that names its node")
    return ignore(classify_noise(raw))


def _split_path(path: str) -> list[str]:
    """Return the parts of a node's path, without those that only newer versions have."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["image"]:
        parts = parts[1:]
        if parts[:2] in (["topics", "byName"], ["cluster", "brokers"]):
            parts = [parts[0], *parts[2:]]
    return parts


def _parse_value(parts: list[str], text: str) -> list[Fact]:
    match parts:
        case ["topics", "byId", *_] | ["topicIds", *_] if _REGISTRATION.match(text) or text.startswith("{"):
            raise check.unparsable("a partition by topic id: show it by name, with tree /image/topics/byName")
        case ["topics", topic, partition] if partition not in ("name", "id"):
            return [_parse_partition(topic, partition, _read_fields(text))]
        case ["topics", topic, partition, "data"]:
            return [_parse_partition(topic, partition, check.parse_object(text, "the partition"))]
        case ["topics", topic, "name"]:
            return [(FactKind.TOPIC, {"topic": check.as_topic(topic, "topic")})]
        case ["topics", topic, "id"]:
            return [(FactKind.TOPIC, {"topic": check.as_topic(topic, "topic"), "topic_id": text})]
        case ["cluster", broker]:
            return [_parse_broker(broker, text)]
        case ["brokers", broker, "isFenced"] if text in ("true", "false"):
            return [(FactKind.BROKER, {"broker_id": check.as_int(broker, "broker"), "fenced": text == "true"})]
        case ["configs", "topic", topic, key]:
            return _parse_config(topic, key, text)
        case ["configs", resource, key] if resource.startswith("TOPIC:"):
            return _parse_config(resource.removeprefix("TOPIC:"), key, text)
        case ["configs", resource, key] if resource.startswith("BROKER:") and key == CORDONED:
            return parse_cordoned(resource.removeprefix("BROKER:"), text)
        case ["configs", "BROKER", key]:
            return parse_defaults([(key, text)])
    is_json = text.startswith("{") and not find_keys(text).isdisjoint(("partitions", "replicas"))
    if is_json or text.startswith("PartitionRegistration("):
        raise check.unparsable(f"{check.quote(text[:60])} is no value of this node")
    return ignore(_WITHOUT_PLACEMENT)


def _parse_config(topic: str, key: str, value: str) -> list[Fact]:
    return [(FactKind.CONFIG, {"topic": check.as_topic(topic, "topic"), "configs": [(key, value)]})]


def _read_fields(text: str) -> check.JsonObject:
    """Return the fields of PartitionRegistration(...), or of the same as JSON."""
    registration = _REGISTRATION.match(text)
    if registration is None:
        return check.parse_object(text, "the partition")
    fields: check.JsonObject = check.JsonObject()
    for name, value in _FIELD.findall(registration["fields"]):
        if name in PARTITION_LISTS:
            fields[name] = check.parse_json(value)
        elif name in ("leader", "leaderEpoch"):
            fields[name] = check.as_int(value, name, -1)
    return fields


def _parse_partition(topic: str, partition: str, fields: check.JsonObject) -> Fact:
    values: dict[str, object] = {
        "topic": check.as_topic(topic, "topic"),
        "topic_id": fields.find("topicId", check.as_text),
        "partition": check.as_partition(partition, "partition"),
        "leader": fields.read("leader", check.as_int, -1),
        "leader_epoch": fields.find("leaderEpoch", check.as_int, -1),
    }
    for key, column in PARTITION_LISTS.items():
        if fields.get(key) is not None or key in ("replicas", "isr"):
            values[column] = fields.read(key, check.as_broker_ids)
    return FactKind.PARTITION, values


def _parse_broker(broker: str, text: str) -> Fact:
    registration = _REGISTRATION.match(text)
    if registration is None or registration["kind"] != "BrokerRegistration":
        raise check.unparsable(f"{check.quote(text[:60])} is no BrokerRegistration")
    fields = dict(_FIELD.findall(registration["fields"]))
    rack, fenced = fields.get("rack", ""), fields.get("fenced")
    values: dict[str, object] = {"broker_id": check.as_int(broker, "broker")}
    if rack.startswith("Optional["):
        values["rack"] = rack[len("Optional[") : -1]
    if fenced in ("true", "false"):
        values["fenced"] = fenced == "true"
    if feature := _METADATA_VERSION.search(registration["fields"]):
        values |= name_fields(read_level(int(feature[1])))
    if host := _HOST.search(registration["fields"]):
        values |= {"host": host[1], "port": check.as_int(host[2], "port", 0, 65535)}
    if "cordonedDirectories" in fields:  # Kafka 4.3 and later
        names = ("directories", "cordonedDirectories")
        directories, cordoned = (re.findall(r"[^\[\], ]+", fields.get(name, "")) for name in names)
        values |= {"directories": directories, "cordoned_directories": cordoned}
        values["cordoned"] = are_all_cordoned([name in cordoned for name in directories])
    return FactKind.BROKER, values


def _parse_listing(parts: list[str], names: list[str]) -> list[Fact]:
    match parts:
        case ["topics"] if not {"byId", "byName"} & set(names):
            return [(FactKind.TOPIC, {"topic": check.as_topic(name, "topic")}) for name in names]
        case ["topics", topic] if topic not in ("byId", "byName"):
            return [(FactKind.TOPIC, {"topic": check.as_topic(topic, "topic")})]
    return ignore("listing")


FORMAT = Format(
    "metadata-shell",
    "session of kafka-metadata-shell",
    Signature(line=find_marked(r">>|\[ Kafka Metadata|Registration\(", _is_line), request=_is_request),
    *(_parse_record, _read_rows),
)
