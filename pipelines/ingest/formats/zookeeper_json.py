"""ZooKeeper's znodes: what each says, and the format of a dump with one JSON object of path and data a line."""

import re
from typing import Any

import pyarrow as pa

from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.formats.kafka_configs import parse_defaults
from pipelines.ingest.formats.kafka_versions import date_cluster
from pipelines.ingest.plain_records import parse_plain
from pipelines.ingest.source_format import Fact, FactKind, Format, Signature, ignore
from pipelines.ingest.text import ELLIPSIS, classify_noise
from udfs.failures.topic_defaults import ReleaseRange

WITHOUT_PLACEMENT = "znode without placement"
LISTING = "listing"

# A cluster may live under a path of its own (a chroot); none of its parts is one of Kafka's own top nodes.
_TOP_NODES = ("brokers", "config", "admin", "consumers", "controller", "zookeeper", "cluster")
_CHROOT = rf"(?:/(?!(?:{'|'.join(_TOP_NODES)})(?:/|$))[^/]+)*"
# Paths that surely are znodes of Kafka. Without the second part, such a path may as well be a folder's.
_OWN_NODE = re.compile(
    _CHROOT + r"/(?:brokers/(?:ids|topics|seqid)|config/(?:topics|brokers|clients|users|ips|changes)|cluster/id"
    r"|admin/(?:delete_topics|reassign_partitions|preferred_replica_election)|controller(?:_epoch)?)(?:/.*)?"
    r"|/(?:brokers|config|admin|cluster|consumers|feature|isr_change_notification|latest_producer_id_block)/?"
)
_PATH_KEY, _DATA_KEY = re.compile(r'"path"\s*+:\s*+"/'), re.compile(r'"data"\s*+:')
_LISTS_PLACEMENT = re.compile(r'"(?:partitions|brokers|topics)"\s*+:\s*+[\[{]')
_PLAIN_LINES = re.compile(r'(?:\{"path": ?"/[^\n]*+\n)*+')
_ENDPOINT = re.compile(r"[A-Za-z0-9_.-]*://(\[[^\]]*\]|[^:/]*):([0-9]+)")

# The state of a partition as Kafka writes it, in a line as dumps have them; other lines are parsed one by one.
_NUMBER, _OR_NONE = r"(?:0|[1-9][0-9]{0,8})", r"(?:-1|0|[1-9][0-9]{0,8})"
_STAT_KEYS = ("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "ephemeralOwner", "numChildren")
_STATE_LINE = (
    r'^\{"path": ?"/brokers/topics/(?P<topic>[a-zA-Z0-9._-]+)/partitions/(?P<partition>0|[1-9][0-9]{0,5})/state"'
    rf', ?"data": ?"\{{\\"controller_epoch\\": ?(?P<controller_epoch>{_NUMBER}), ?\\"leader\\": ?(?P<leader>{_OR_NONE})'
    rf', ?\\"version\\": ?{_NUMBER}, ?\\"leader_epoch\\": ?(?P<leader_epoch>{_OR_NONE})'
    rf', ?\\"isr\\": ?\[(?P<isr>(?:{_NUMBER}(?:, ?{_NUMBER})*)?)\]\}}"'
    + "".join(rf'(?:, ?"{key}": ?(?:0|[1-9][0-9]{{0,17}}))?' for key in _STAT_KEYS)
    + r"\}$"
)


def split_path(path: str) -> tuple[str, list[str]]:
    """Return (the path that a znode's cluster is under, empty for the root; the names below it, if it is Kafka's)."""
    above, *names = path.rstrip("/").split("/")
    begin = next((i for i, name in enumerate(names) if name in _TOP_NODES), len(names))
    if begin == len(names) and names[-1:] == ["controller_epoch"]:
        begin -= 1
    chroot = names[:begin]
    return "".join(f"/{name}" for name in chroot), names[begin:] if not above and all(chroot) else []


def parse_znode(path: str, data: object) -> list[Fact]:
    """Return the facts of a znode; data: its JSON as text or decoded, or None."""
    path = path.rstrip("/") or "/"
    names = split_path(path)[1]
    match names if all(names) else []:
        case ["brokers", "topics", topic, "partitions", partition, "state"]:
            return [_parse_state(topic, partition, _parse_data(data, path))]
        case ["brokers", "topics", topic]:
            return _parse_topic(topic, _parse_data(data, path))
        case ["brokers", "ids", broker]:
            return _parse_broker(broker, data, path)
        case ["config", "topics", topic]:
            return [_parse_configs(topic, _parse_data(data, path))]
        case ["controller"]:
            broker_id = _parse_data(data, path).read("brokerid", check.as_int)
            return [(FactKind.BROKER, {"broker_id": broker_id, "controller": True})]
        case ["controller_epoch"] if data is not None:
            epoch = check.as_int(check.parse_json(data, path) if isinstance(data, str) else data, "controller_epoch")
            return [(FactKind.IGNORED, {"reasons": [WITHOUT_PLACEMENT], "controller_epoch": epoch})]
        case ["config", "brokers", "<default>"] if data is not None:
            return _parse_broker_default(_parse_data(data, path))
        case ["admin", "delete_topics", topic]:
            return [(FactKind.TOPIC, {"topic": check.as_text(topic, "path"), "marked_for_deletion": True})]
        case ["admin", "reassign_partitions"] if data not in (None, "", "null"):
            return ignore("a reassignment", "a reassignment is running: replicas change")
    if isinstance(data, str) and _LISTS_PLACEMENT.search(data):
        raise check.unparsable(f"this JSON lists partitions or brokers, which the data of {path} does not")
    return ignore(WITHOUT_PLACEMENT)


def parse_listing(path: str, children: list[str]) -> list[Fact]:
    """Return the facts of a znode's listing: the names of its children."""
    names = split_path(path)[1]
    match names if all(names) else []:
        case ["brokers", "ids"]:
            ids = [check.as_int(child, "broker id") for child in children]
            facts = [(FactKind.BROKER, {"broker_id": i, "registered": True}) for i in ids]
            return facts or ignore("empty broker listing")
        case ["brokers", "topics", topic, "partitions"]:
            highest = max((check.as_partition(child, "partition") for child in children), default=-1)
            return [(FactKind.TOPIC, {"topic": topic, "partition_count": max(len(children), highest + 1)})]
        case ["brokers", "topics", topic]:
            return [(FactKind.TOPIC, {"topic": topic})]
        case ["brokers", "topics"] if children:
            return [(FactKind.TOPIC, {"topic": child}) for child in children]
        case ["admin", "delete_topics"] if children:
            return [(FactKind.TOPIC, {"topic": child, "marked_for_deletion": True}) for child in children]
    return ignore(LISTING)


def is_dump_line(line: str) -> bool:
    """Return whether a line is one of a dump: a znode's path and its data."""
    return line[:1] == "{" and _PATH_KEY.match(line, 1) is not None


def parse_dump_line(line: str) -> list[Fact]:
    """Return the facts of a line of a dump."""
    znode = check.parse_object(line.rstrip(","), "the line")
    return parse_znode(znode.read("path", check.as_text), znode.require("data"))


def find_chroot(path: str) -> str | None:
    """Return the path that a znode's cluster is under, empty for the root; None for a znode that is not Kafka's."""
    chroot, names = split_path(path)
    return chroot if names and names[0] in ("brokers", "config", "admin", "controller") else None


def is_kafka_path(path: str) -> bool:
    """Return whether a path surely is that of a znode of Kafka."""
    return _OWN_NODE.fullmatch(path) is not None


def is_topic_listing(path: str) -> bool:
    """Return whether the names of a znode's children are topics or partitions."""
    match split_path(path)[1]:
        case ["brokers", "topics"] | ["admin", "delete_topics"] | ["brokers", "topics", _, "partitions"]:
            return True
    return False


def is_broker_listing(path: str) -> bool:
    """Return whether the children of the znode are all the registered brokers."""
    return split_path(path)[1] == ["brokers", "ids"]


def find_broker(path: str) -> int | None:
    """Return the broker whose registration the znode is, or None for another znode."""
    match split_path(path)[1]:
        case ["brokers", "ids", broker] if broker:
            return check.as_int(broker, "broker id")
    return None


def _parse_data(data: object, path: str) -> check.JsonObject:
    what = f"the data of {path}"
    if data is None:
        raise check.unparsable(f"{path} has no data")
    return check.parse_object(data, what, what) if isinstance(data, str) else check.as_object(data, what)


def _parse_broker(name: str, data: object, path: str) -> list[Fact]:
    fact: dict[str, Any] = {"broker_id": check.as_int(name, "broker id"), "registered": True}
    if data is None:  # the znode exists, so the broker is registered
        return [(FactKind.BROKER, fact)]
    result = _parse_data(data, path)
    host, port = result.get("host"), result.get("port")
    if host is None or port in (None, -1, "-1"):  # versions 4 and 5 without a PLAINTEXT listener
        host, port = _parse_first_endpoint(result.get("endpoints"))
    fact |= check.read_columns({"rack": result.get("rack"), "host": host, "port": port})
    is_old = result.get("version") in (1, 2, 3, 4)  # up to Kafka 2.6
    return [(FactKind.BROKER, fact), *([date_cluster(ReleaseRange(before=207))] if is_old else ())]


def _parse_first_endpoint(endpoints: object) -> tuple[str | None, str | None]:
    if not endpoints:
        return None, None
    first = check.as_text(check.as_list(endpoints, "endpoints")[0], "endpoints[0]")
    match = _ENDPOINT.fullmatch(first)
    if match is None:
        raise check.unparsable(f"endpoints[0] is {check.quote(first)}, expected PROTOCOL://host:port")
    return match[1].strip("[]") or None, match[2]


def _parse_topic(topic: str, result: check.JsonObject) -> list[Fact]:
    topic = check.as_text(topic, "topic")
    assigned = result.read("partitions", check.as_object)
    columns = ("adding_replicas", "removing_replicas")
    is_old = result.get("version") in (1, 2)  # up to Kafka 2.7: the controller of later ones gives all topics ids
    moves = {key: result.find(key, check.as_object) or check.JsonObject() for key in columns}
    topic_id = result.find("topic_id", check.as_text)
    declared = {"topic": topic, "topic_id": topic_id, "partition_count": len(assigned)}
    facts = [(FactKind.TOPIC, declared | ({"release_before": 208} if is_old else {}))]
    for key, replicas in assigned.items():
        values: dict[str, Any] = {
            "topic": topic,
            "topic_id": topic_id,
            "partition": check.as_partition(key, "partition"),
            "replicas": check.as_broker_ids(replicas, f"partitions.{check.quote(key)}"),
        }
        for column, lists in moves.items():
            if key in lists:
                values[column] = check.as_broker_ids(lists[key], f"{column}.{check.quote(key)}")
        facts.append((FactKind.PARTITION, values))
    return facts


def _parse_state(topic: str, partition: str, result: check.JsonObject) -> Fact:
    return FactKind.PARTITION, {
        "topic": check.as_text(topic, "topic"),
        "partition": check.as_partition(partition, "partition"),
        "leader": result.read("leader", check.as_int, -1),
        "leader_epoch": result.read("leader_epoch", check.as_int, -1) if "leader_epoch" in result else None,
        "controller_epoch": result.read("controller_epoch", check.as_int) if "controller_epoch" in result else None,
        "isr": result.read("isr", check.as_broker_ids),
    }


def _parse_configs(topic: str, result: check.JsonObject) -> Fact:
    configs = []
    for key, value in result.read("config", check.as_object).items():
        if isinstance(value, (dict, list)) or value is None:
            raise check.unparsable(f"config {check.quote(key)} is {check.quote(value)}, expected text")
        text = value if isinstance(value, str) else check.quote(value)
        configs.append((check.as_text(key, "config key"), check.as_text(text, f"config {check.quote(key)}")))
    return FactKind.CONFIG, {"topic": check.as_text(topic, "topic"), "configs": configs}


def _parse_broker_default(result: check.JsonObject) -> list[Fact]:
    configs = result.find("config", check.as_object) or check.JsonObject()
    return parse_defaults((key, value) for key, value in configs.items() if isinstance(value, str))


def _parse_record(_context: str | None, raw: str) -> list[Fact]:
    line = raw.strip()
    if line[:1] not in ("{", "[", '"', "}", "]") or classify_noise(line) == ELLIPSIS:
        return ignore(classify_noise(raw))
    if line in ("[", "]"):  # the lines may be in a JSON array, separated by commas
        return ignore("array bracket")
    return parse_dump_line(line)


FORMAT = Format(
    "zookeeper-json",
    "ZooKeeper dump, JSON lines of path and data",
    # Others have paths, too: AKHQ of log directories, Redpanda of disks.
    Signature(
        document=lambda t: _DATA_KEY.search(t) is not None and bool(_PATH_KEY.search(t)), plain_lines=_PLAIN_LINES
    ),
    _parse_record,
    plain=(lambda records: parse_plain(records, _STATE_LINE, FactKind.PARTITION, pa.scalar(True)),),
)
