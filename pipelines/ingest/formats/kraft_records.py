"""Parses the payloads of records of the KRaft metadata log."""

from typing import Any

from pipelines.ingest.fact_tables import Fact, FactKind, ignore
from pipelines.ingest.formats.checked_values import JsonObject, as_bool, as_list, as_object, as_text, quote, unparsable

WITH_TOPIC_ID = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "REMOVE_TOPIC_RECORD")
# Types of Kafka 4.1 (MetadataRecordType) that say nothing about placement.
_IGNORED_TYPES = frozenset(
    f"{name}_RECORD"
    for name in (
        *("DELEGATION_TOKEN", "REMOVE_DELEGATION_TOKEN", "USER_SCRAM_CREDENTIAL", "REMOVE_USER_SCRAM_CREDENTIAL"),
        *("ACCESS_CONTROL_ENTRY", "REMOVE_ACCESS_CONTROL_ENTRY", "CLIENT_QUOTA", "PRODUCER_IDS", "FEATURE_LEVEL"),
        *("BEGIN_TRANSACTION", "END_TRANSACTION", "ABORT_TRANSACTION", "REGISTER_CONTROLLER", "ZK_MIGRATION_STATE"),
    )
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


def parse_payload(payload: JsonObject, topic: str | None) -> list[Fact]:
    """Return the facts of a decoded payload; topic: the name of its topicId, if it has one."""
    kind = payload.get_text("type")
    if kind == "NO_OP_RECORD":
        return ignore("NO_OP record")
    if kind in _IGNORED_TYPES:
        return ignore(f"{kind} carries no placement")
    if kind not in _KINDS:
        raise unparsable(f"records of type {quote(kind)} are not known: Kafka 4.1 writes none")
    data = payload.get_object("data")
    if kind in WITH_TOPIC_ID and topic is None:
        raise unparsable(f"topicId {quote(data.get_text('topicId'))} is of no topic that the log has created")
    if kind == "CONFIG_RECORD" and data.get_int("resourceType", -128) != _TOPIC_RESOURCE:
        return ignore("CONFIG_RECORD of no topic")
    version = payload.get("version", 0)
    values = _parse_data(kind, data, topic)
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


def _parse_data(kind: str, data: JsonObject, topic: str | None) -> dict[str, Any]:
    match kind:
        case "TOPIC_RECORD":
            return {"topic": data.get_text("name"), "topic_id": data.get_text("topicId")}
        case "REMOVE_TOPIC_RECORD":
            return {"topic": topic, "topic_id": data.get_text("topicId")}
        case "PARTITION_RECORD" | "PARTITION_CHANGE_RECORD":
            return _parse_partition(kind, data, topic)
        case "CONFIG_RECORD":
            data.require("value")
            configs = [(data.get_text("name"), data.find_text("value"))]
            return {"topic": data.get_text("resourceName"), "configs": configs}
        case "REGISTER_BROKER_RECORD":
            return _parse_broker(data)
        case "UNREGISTER_BROKER_RECORD":
            return {"broker_id": data.get_int("brokerId")}
        case "BROKER_REGISTRATION_CHANGE_RECORD":
            fenced = data.get_int("fenced", -1, 1) if "fenced" in data else 0
            return {"broker_id": data.get_int("brokerId"), "fenced": None if fenced == 0 else fenced == 1}
        case "FENCE_BROKER_RECORD" | "UNFENCE_BROKER_RECORD":
            return {"broker_id": data.get_int("id"), "fenced": kind == "FENCE_BROKER_RECORD"}
    return {"topic": as_text(data.get("topicName") or "", "topicName") or None}  # CLEAR_ELR_RECORD


def _parse_partition(kind: str, data: JsonObject, topic: str | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "topic": topic,
        "topic_id": data.get_text("topicId"),
        "partition": data.get_int("partitionId"),
    }
    for key, column in _LISTS.items():
        if data.get(key) is not None:
            values[column] = data.get_broker_ids(key)
    if "leaderEpoch" in data:
        values["leader_epoch"] = data.get_int("leaderEpoch", -1)
    if kind == "PARTITION_RECORD":
        for key in ("replicas", "isr"):
            data.require(key)
        values["leader"] = data.get_int("leader", -1)
    elif data.get("leader", _NO_LEADER_CHANGE) != _NO_LEADER_CHANGE:
        values["leader"] = data.get_int("leader", -1)
    return values


def _parse_broker(data: JsonObject) -> dict[str, Any]:
    values: dict[str, Any] = {
        "broker_id": data.get_int("brokerId"),
        "registered": True,
        "rack": data.find_text("rack"),
        "fenced": None if data.get("fenced") is None else as_bool(data["fenced"], "fenced"),
    }
    endpoints = as_list(data.get("endPoints") or [], "endPoints")
    if endpoints:
        first = as_object(endpoints[0], "endPoints[0]")
        values |= {"host": first.get_text("host"), "port": first.get_int("port", 0, 65535)}
    return values
