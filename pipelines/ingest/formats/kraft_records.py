"""What a record of the KRaft metadata log says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.ingest.formats.checked_values import (
    Fact,
    as_bool,
    as_int,
    as_ints,
    as_list,
    as_object,
    as_text,
    ignored,
    need,
    shown,
    unparsable,
)
from pipelines.ingest.records import (
    BROKER,
    BROKER_CHANGE,
    BROKER_REMOVED,
    CLEAR_ELR,
    CONFIG,
    PARTITION,
    PARTITION_CHANGE,
    TOPIC,
    TOPIC_REMOVED,
)

_TOPIC_RESOURCE = 2
_NO_LEADER_CHANGE = -2
_LISTS = {  # the record's key -> our column
    "replicas": "replicas",
    "isr": "isr",
    "removingReplicas": "removing_replicas",
    "addingReplicas": "adding_replicas",
    "eligibleLeaderReplicas": "elr",
    "lastKnownElr": "last_known_elr",
}

Data = dict[str, Any]


def record_facts(payload: Data, topic: str | None) -> list[Fact]:
    """Facts of a decoded payload; topic: the name that its topicId stands for, if it has one."""
    kind = as_text(need(payload, "type"), "type")
    if kind == "NO_OP_RECORD":
        return ignored("NO_OP record")
    reader = _READERS.get(kind)
    if reader is None:
        if kind not in _OTHERS:
            raise unparsable(f"records of type {shown(kind)} are not known: Kafka 4.1 writes none")
        return ignored(f"{kind} carries no placement")
    data = as_object(need(payload, "data"), "data")
    if kind in _BY_TOPIC_ID and topic is None:
        topic_id = as_text(need(data, "topicId"), "topicId")
        raise unparsable(f"topicId {shown(topic_id)} is of no topic that the log has created")
    if kind == "CONFIG_RECORD" and as_int(need(data, "resourceType"), "resourceType", -128) != _TOPIC_RESOURCE:
        return ignored("CONFIG_RECORD of no topic")
    version = payload.get("version", 0)
    return [reader(data, topic, version if type(version) is int else 0)]


def _topic(data: Data, _topic_name: str | None, _version: int) -> Fact:
    return TOPIC, {"topic": as_text(need(data, "name"), "name"), "topic_id": _topic_id(data)}


def _removed_topic(data: Data, topic: str | None, _version: int) -> Fact:
    return TOPIC_REMOVED, {"topic": topic, "topic_id": _topic_id(data)}


def _partition(data: Data, topic: str | None, version: int) -> Fact:
    fact = _placement(data, topic)
    for key in ("replicas", "isr", "leader"):
        need(data, key)
    fact["leader"] = as_int(data["leader"], "leader", -1)
    if version >= 2:  # the versions that have an ELR leave it out when it is empty
        fact.setdefault("elr", [])
        fact.setdefault("last_known_elr", [])
    return PARTITION, fact


def _partition_change(data: Data, topic: str | None, _version: int) -> Fact:
    fact = _placement(data, topic)
    leader = data.get("leader", _NO_LEADER_CHANGE)
    if leader != _NO_LEADER_CHANGE:
        fact["leader"] = as_int(leader, "leader", -1)
    return PARTITION_CHANGE, fact


def _placement(data: Data, topic: str | None) -> Data:
    fact: Data = {
        "topic": topic,
        "topic_id": _topic_id(data),
        "partition": as_int(need(data, "partitionId"), "partitionId"),
    }
    for key, column in _LISTS.items():
        value = data.get(key)
        if value is not None:
            fact[column] = as_ints(value, key)
    if "leaderEpoch" in data:
        fact["leader_epoch"] = as_int(data["leaderEpoch"], "leaderEpoch", -1)
    return fact


def _config(data: Data, _topic_name: str | None, _version: int) -> Fact:
    value = need(data, "value")
    return CONFIG, {
        "topic": as_text(need(data, "resourceName"), "resourceName"),
        "configs": [(as_text(need(data, "name"), "name"), None if value is None else as_text(value, "value"))],
    }


def _broker(data: Data, _topic_name: str | None, _version: int) -> Fact:
    fact: Data = {"broker_id": as_int(need(data, "brokerId"), "brokerId"), "registered": True}
    if data.get("rack") is not None:
        fact["rack"] = as_text(data["rack"], "rack")
    if data.get("fenced") is not None:
        fact["fenced"] = as_bool(data["fenced"], "fenced")
    endpoints = as_list(data.get("endPoints") or [], "endPoints")
    if endpoints:
        first = as_object(endpoints[0], "endPoints[0]")
        fact["host"] = as_text(need(first, "host"), "host")
        fact["port"] = as_int(need(first, "port"), "port", 0, 65535)
    return BROKER, fact


def _removed_broker(data: Data, _topic_name: str | None, _version: int) -> Fact:
    return BROKER_REMOVED, {"broker_id": as_int(need(data, "brokerId"), "brokerId")}


def _broker_change(data: Data, _topic_name: str | None, _version: int) -> Fact:
    fenced = as_int(data.get("fenced", 0), "fenced", -1, 1)
    return BROKER_CHANGE, {
        "broker_id": as_int(need(data, "brokerId"), "brokerId"),
        "fenced": None if fenced == 0 else fenced == 1,
    }


def _fence(fenced: bool) -> Callable[[Data, str | None, int], Fact]:
    def read(data: Data, _topic_name: str | None, _version: int) -> Fact:
        return BROKER_CHANGE, {"broker_id": as_int(need(data, "id"), "id"), "fenced": fenced}

    return read


def _clear_elr(data: Data, _topic_name: str | None, _version: int) -> Fact:
    name = as_text(data.get("topicName") or "", "topicName")
    return CLEAR_ELR, {"topic": name or None}


def _topic_id(data: Data) -> str:
    return as_text(need(data, "topicId"), "topicId")


_READERS: dict[str, Callable[[Data, str | None, int], Fact]] = {
    "TOPIC_RECORD": _topic,
    "REMOVE_TOPIC_RECORD": _removed_topic,
    "PARTITION_RECORD": _partition,
    "PARTITION_CHANGE_RECORD": _partition_change,
    "CONFIG_RECORD": _config,
    "REGISTER_BROKER_RECORD": _broker,
    "UNREGISTER_BROKER_RECORD": _removed_broker,
    "BROKER_REGISTRATION_CHANGE_RECORD": _broker_change,
    "FENCE_BROKER_RECORD": _fence(True),
    "UNFENCE_BROKER_RECORD": _fence(False),
    "CLEAR_ELR_RECORD": _clear_elr,
}
# The other types of Kafka 4.1: MetadataRecordType.
_OTHERS = frozenset(
    f"{name}_RECORD"
    for name in (
        "DELEGATION_TOKEN",
        "REMOVE_DELEGATION_TOKEN",
        "USER_SCRAM_CREDENTIAL",
        "REMOVE_USER_SCRAM_CREDENTIAL",
        "FEATURE_LEVEL",
        "CLIENT_QUOTA",
        "PRODUCER_IDS",
        "ACCESS_CONTROL_ENTRY",
        "REMOVE_ACCESS_CONTROL_ENTRY",
        "ZK_MIGRATION_STATE",
        "BEGIN_TRANSACTION",
        "END_TRANSACTION",
        "ABORT_TRANSACTION",
        "REGISTER_CONTROLLER",
    )
)
_BY_TOPIC_ID = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "REMOVE_TOPIC_RECORD")
