"""Facts of JSON objects about topics, partitions and brokers, under the names that tools and client libraries use."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.source_format import Fact, FactKind, ignore

Object = Mapping[str, Any]

TOPIC_NAMES = ("topic", "topic_name", "topicName", "name")
PARTITION_IDS = (
    *("partition", "partition_id", "partitionId", "partition_index", "partitionIndex", "partitionNumber"),
    *("id", "index"),
)
REPLICA_LISTS = ("replicas", "replica_nodes", "replicaNodes", "nodes")
BROKER_IDS = ("broker_id", "brokerId", "broker", "Broker", "node_id", "nodeId", "id", "ID")
IN_SYNC_FLAGS = ("inSync", "in_sync", "is_in_sync", "inSyncReplicas", "inSyncReplica", "isInSync")
LEADER_FLAGS = ("leader", "is_leader", "isLeader")
_LEADERS = ("leader", "leader_id", "leaderId", "leader_broker_id")
# Our column -> the keys of its list of brokers.
_LISTS = {
    "isr": ("isr", "isrs", "inSyncReplicas", "in_sync_replicas", "in-sync", "isr_nodes", "isrNodes"),
    "offline_replicas": ("offlineReplicas", "offline_replicas", "offline"),
    "adding_replicas": ("addingReplicas", "adding_replicas"),
    "removing_replicas": ("removingReplicas", "removing_replicas"),
    "elr": ("elr", "eligibleLeaderReplicas", "eligible_leader_replicas"),
    "last_known_elr": ("lastKnownElr", "last_known_elr"),
}
# The keys that Kafka itself has, in a registration of a partition.
PARTITION_LISTS = {
    **{"replicas": "replicas", "isr": "isr", "removingReplicas": "removing_replicas"},
    **{"addingReplicas": "adding_replicas", "elr": "elr", "lastKnownElr": "last_known_elr"},
}
_EPOCHS = ("leaderEpoch", "leader_epoch")
_OFFSETS = ("offsetMax", "waterMarkHigh", "lastOffset", "endOffset", "log_end_offset")
_COUNTS = ("partitionCount", "partition_count", "partitions_count", "partitions")
_FACTORS = ("replicationFactor", "replication_factor")
# Of Redpanda: the namespace of topics, and what partitions of the others are.
KAFKA_NAMESPACE, OWN_NAMESPACE = "kafka", "partition of Redpanda's own namespaces"
_LAST_NUMBER = re.compile(r"/([0-9]++)$")  # the broker in a link of Confluent's REST API


def find_key(item: Object, names: Sequence[str]) -> str | None:
    """Return the first of these keys that an object has with a value other than null."""
    return next((name for name in names if item.get(name) is not None), None)


def describe_disabled(topic: str, partition: int) -> str:
    """Return the warning of a partition that is disabled in Redpanda."""
    return f"{topic}-{partition} is disabled: its clients are rejected"


def find_topic(item: Object) -> str | None:
    """Return the topic name that an object has, or None."""
    key = find_key(item, TOPIC_NAMES)
    return None if key is None or not isinstance(item[key], str) else item[key]


def parse_partition(item: check.JsonObject, outer_topic: str) -> list[Fact]:
    """Return the facts of a partition. outer_topic: name of the topic around it; empty = none is known."""
    if item.get("ns", KAFKA_NAMESPACE) != KAFKA_NAMESPACE:
        return ignore(OWN_NAMESPACE)
    name = find_key(item, ("topic", "topic_name", "topicName"))
    topic = (
        check.as_topic(item[name], name)
        if name is not None
        else check.as_topic(outer_topic, "topic")
        if outer_topic
        else None
    )
    if topic is None:
        raise check.unparsable("a partition without topic name: keep the object around it, which names the topic")
    if name is not None and outer_topic and topic != outer_topic:
        raise check.unparsable(f"{name} is {check.quote(topic)} inside of topic {check.quote(outer_topic)}")
    key = find_key(item, PARTITION_IDS)
    if key is None:
        raise check.unparsable("partition is missing")
    partition = check.as_partition(item[key], key)
    place = {"topic": topic, "partition": partition}
    replicas, isr, leader = _read_replicas(item)
    lists = {column: _find_ids(item, names) for column, names in _LISTS.items()}
    if replicas is not None and not replicas:
        raise check.unparsable("replicas is empty")
    values: dict[str, Any] = {
        **place,
        "replicas": replicas,
        **lists,
        "isr": isr if lists["isr"] is None else lists["isr"],
        "leader": _read_leader(item, leader),
        "leader_epoch": _find_count(item, _EPOCHS),
    }
    if all(values[name] is None for name in ("replicas", "isr", "leader")):
        raise check.unparsable("a partition without leader, replicas and ISR")
    facts: list[Fact] = [(FactKind.PARTITION, values)]
    if (offset := _find_count(item, _OFFSETS, check.INT64)) is not None:
        facts.append((FactKind.OFFSET, {**place, "log_end_offset": offset}))
    for log in item["partitionLogDirs"] if isinstance(item.get("partitionLogDirs"), list) else ():  # Redpanda Console
        entry = check.as_object(log, "partitionLogDirs")
        if not entry.get("error"):
            size = {
                "broker_id": entry.read("brokerId", check.as_int),
                "size_bytes": entry.read("size", check.as_int, 0, check.INT64),
            }
            facts.append((FactKind.REPLICA_SIZE, place | size))
    if item.get("disabled") is True:
        facts += ignore("disabled partition", describe_disabled(topic, partition))
    if "min-isr" in item:  # Cruise Control shows it with each partition
        configs = {"min.insync.replicas": str(check.as_int(item["min-isr"], "min-isr"))}
        facts.append((FactKind.CONFIG, {"topic": topic, "configs": configs}))
    return facts


def _read_replicas(item: Object) -> tuple[list[int] | None, list[int] | None, int | None]:
    """Return (replicas, ISR, leader) as the list of replicas shows them; None = it does not. No leader is -1."""
    key = find_key(item, REPLICA_LISTS)
    if key is None or isinstance(item[key], dict):  # a link
        return None, None, None
    entries = check.as_list(item[key], key)
    replicas = [_read_id(entry, f"{key}[{i}]") for i, entry in enumerate(entries)]
    in_sync = [_find_flag(entry, IN_SYNC_FLAGS) for entry in entries]
    leads = [_find_flag(entry, LEADER_FLAGS) for entry in entries]
    isr = [broker for broker, flag in zip(replicas, in_sync, strict=True) if flag]
    leaders = [broker for broker, flag in zip(replicas, leads, strict=True) if flag]
    if len(leaders) > 1:
        raise check.unparsable(f"{key} has {len(leaders)} leaders")
    is_complete = [bool(flags) and None not in flags for flags in (in_sync, leads)]
    leader = leaders[0] if leaders else -1 if is_complete[1] else None
    return replicas, isr if is_complete[0] else None, leader


def _find_flag(entry: object, names: Sequence[str]) -> bool | None:
    key = find_key(entry, names) if isinstance(entry, dict) else None
    return entry[key] if isinstance(entry, dict) and key is not None and isinstance(entry[key], bool) else None


def _read_id(value: object, what: str) -> int:
    """Return a broker's id: a number, or an object that has it."""
    if not isinstance(value, dict):
        return check.as_int(value, what)
    key = find_key(value, BROKER_IDS)
    if key is None:
        link = _LAST_NUMBER.search(str(value.get("related", ""))[-200:])
        if link is None:
            raise check.unparsable(f"{what} is {check.quote(value)}, expected a broker")
        return check.as_int(link[1], what)
    return check.as_int(value[key], f"{key} of {what}")


def _read_leader(item: Object, flagged: int | None) -> int | None:
    """Return the leader, -1 for none, or None if it is not shown. flagged: by the list of replicas."""
    present = next((name for name in _LEADERS if name in item), None)
    if present is None:
        return flagged
    value = item[present]
    is_unset = isinstance(value, dict) and value.get("host") == "" and value.get("port") == 0  # kafka-go: no leader
    if value is None or is_unset or value in (-1, "-1", "none", "None"):
        return -1 if flagged is None else flagged
    leader = _read_id(value, present)
    if flagged is not None and flagged not in (-1, leader):
        raise check.unparsable(f"{present} is {leader}, but replica {flagged} is marked as the leader")
    return leader


def _find_ids(item: Object, names: Sequence[str]) -> list[int] | None:
    key = find_key(item, names)
    if key is None or isinstance(item[key], bool | dict):
        return None
    return [_read_id(entry, f"{key}[{i}]") for i, entry in enumerate(check.as_list(item[key], key))]


def _find_count(item: Object, names: Sequence[str], high: int = 2**31 - 1) -> int | None:
    key = find_key(item, names)
    if key is None or (isinstance(item[key], int) and item[key] < 0):
        return None
    return check.as_int(item[key], key, 0, high)


def parse_topic(item: check.JsonObject, listed: int) -> list[Fact]:
    """Return the facts of a topic with this many listed partitions."""
    name = find_topic(item)
    if name is None:
        raise check.unparsable("a topic without name")
    topic = check.as_topic(name, "topic")
    count = _find_count({**item, "partitions": None}, _COUNTS)
    if not listed and not count:
        error = item.get("error")
        because = f": {check.quote(error)}" if error else ""
        raise check.unparsable(f"topic {check.quote(topic)} is shown without partitions{because}")
    values = {
        "topic": topic,
        "topic_id": item.find("topicId", check.as_text),
        "partition_count": listed if count is None else count,
        "replication_factor": _find_count(item, _FACTORS),
    }
    facts: list[Fact] = [(FactKind.TOPIC, values)]
    configs = item.get("configs")
    if isinstance(configs, dict):
        texts = {
            check.as_text(key, "a key of configs"): check.as_text(value, key)
            for key, value in configs.items()
            if isinstance(value, str)
        }
        facts.append((FactKind.CONFIG, {"topic": topic, "configs": texts}))
    return facts


def parse_replicas(entries: Sequence[check.JsonObject]) -> list[Fact]:
    """Return the fact of a partition whose replicas are entries of their own (Confluent's REST API)."""
    first = entries[0]
    place = {"topic_name": first.require("topic_name"), "partition_id": first.require("partition_id")}
    return parse_partition(check.JsonObject({**place, "replicas": entries}), "")


def parse_broker(item: check.JsonObject, is_whole_list: bool) -> list[Fact]:
    """Return the fact of a broker. is_whole_list: it is in a list of all live brokers, as clusters give them."""
    key = find_key(item, BROKER_IDS)
    if key is None:
        raise check.unparsable("a broker without id")
    host, port = (find_key(item, names) for names in (("host", "Host", "address"), ("port", "Port")))
    rack = find_key(item, ("rack", "Rack"))
    address = check.as_text(str(item.get("name") or ""), "name") if host is None else ""
    values = {
        "broker_id": check.as_int(item[key], key),
        "host": check.as_text(item[host], "host") if host else address.rpartition(":")[0] or None,
        "port": check.as_int(item[port], "port", 0, 65535) if port else None,
        "rack": None if rack is None else check.as_text(str(item[rack]), rack) or None,
        "registered": True if is_whole_list else None,
        # By Cruise Control, which also shows live brokers as NEW, DEMOTED and BAD_DISKS.
        "reported_live": item["BrokerState"] != "DEAD" if isinstance(item.get("BrokerState"), str) else None,
    }
    if address and (number := address.rpartition(":")[2]).isdecimal():
        values["port"] = check.as_int(number, "port", 0, 65535)
    return [(FactKind.BROKER, values)]
