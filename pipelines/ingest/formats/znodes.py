"""What a znode says: one place for all formats that show ZooKeeper's data."""

from __future__ import annotations

import re
from typing import Any

from pipelines.ingest.formats.checked_values import (
    Fact,
    as_int,
    as_ints,
    as_list,
    as_object,
    as_text,
    ignored,
    loads,
    need,
    shown,
    unparsable,
)
from pipelines.ingest.records import BROKER, CONFIG, IGNORED, PARTITION, TOPIC

WITHOUT_PLACEMENT = "znode without placement"
NO_BROKER = "listing of no broker"

# A cluster may live under a path of its own (a chroot); none of its parts is one of Kafka's own top nodes.
_CHROOT = r"(?:/(?!(?:brokers|config|admin|consumers|controller|zookeeper|cluster)(?:/|$))[^/]+)*"
_BROKER = re.compile(_CHROOT + r"/brokers/ids/([^/]+)")
_TOPIC = re.compile(_CHROOT + r"/brokers/topics/([^/]+)")
_STATE = re.compile(_CHROOT + r"/brokers/topics/([^/]+)/partitions/([^/]+)/state")
_CONFIG = re.compile(_CHROOT + r"/config/topics/([^/]+)")
_CONTROLLER = re.compile(_CHROOT + r"/controller")
_EPOCH = re.compile(_CHROOT + r"/controller_epoch")
_DELETED = re.compile(_CHROOT + r"/admin/delete_topics/([^/]+)")
_BROKERS = re.compile(_CHROOT + r"/brokers/ids/?")
_PARTITIONS = re.compile(_CHROOT + r"/brokers/topics/([^/]+)/partitions/?")
_KAFKA = re.compile("(" + _CHROOT + r")/(?:brokers|config|admin|controller)(?:/.*)?")
_ENDPOINT = re.compile(r"[A-Za-z0-9_.-]*://(\[[^\]]*\]|[^:/]*):([0-9]+)")


def znode_facts(path: str, data: object) -> list[Fact]:
    """Facts of a znode; data: its JSON as text or decoded, or None."""
    path = path.rstrip("/") or "/"
    if match := _STATE.fullmatch(path):
        return [_state(match[1], match[2], _json(data, path))]
    if match := _TOPIC.fullmatch(path):
        return _topic(match[1], _json(data, path))
    if match := _BROKER.fullmatch(path):
        return [_broker(match[1], data, path)]
    if match := _CONFIG.fullmatch(path):
        return [_config(match[1], _json(data, path))]
    if _CONTROLLER.fullmatch(path):
        found = _json(data, path)
        return [(BROKER, {"broker_id": as_int(need(found, "brokerid"), "brokerid"), "controller": True})]
    if _EPOCH.fullmatch(path) and data is not None:
        epoch = as_int(loads(data, path) if isinstance(data, str) else data, "controller_epoch")
        return [(IGNORED, {"reasons": [WITHOUT_PLACEMENT], "controller_epoch": epoch})]
    if match := _DELETED.fullmatch(path):
        return [(TOPIC, {"topic": as_text(match[1], "path"), "marked_for_deletion": True})]
    return ignored(WITHOUT_PLACEMENT)


def listing_facts(path: str, children: list[str]) -> list[Fact]:
    """Facts of the children's names of a znode."""
    path = path.rstrip("/") or "/"
    if _BROKERS.fullmatch(path):
        ids = [as_int(child, "broker id") for child in children]
        return [(BROKER, {"broker_id": i, "registered": True}) for i in ids] or ignored(NO_BROKER)
    if match := _PARTITIONS.fullmatch(path):
        for child in children:
            as_int(child, "partition")
        return [(TOPIC, {"topic": match[1], "partition_count": len(children)})]
    return ignored("listing")


def chroot_of(path: str) -> str | None:
    """The path under which the cluster of a znode lives, empty for the root; None if the znode is not Kafka's."""
    match = _KAFKA.fullmatch(path.rstrip("/"))
    return match[1] if match else None


def is_broker_listing(path: str) -> bool:
    """Whether the children of the znode are all the brokers that are registered."""
    return _BROKERS.fullmatch(path) is not None


def broker_in(path: str) -> int | None:
    """The broker whose registration the znode is."""
    match = _BROKER.fullmatch(path.rstrip("/"))
    return as_int(match[1], "broker id") if match else None


def _json(data: object, path: str) -> dict[str, Any]:
    if data is None:
        raise unparsable(f"{path} has no data")
    return as_object(loads(data, f"the data of {path}") if isinstance(data, str) else data, f"the data of {path}")


def _broker(name: str, data: object, path: str) -> Fact:
    fact: dict[str, Any] = {"broker_id": as_int(name, "broker id"), "registered": True}
    if data is None:  # that the znode is there says that the broker is
        return BROKER, fact
    found = _json(data, path)
    rack, host, port = found.get("rack"), found.get("host"), found.get("port")
    if rack is not None:
        fact["rack"] = as_text(rack, "rack")
    if host is None or port in (None, -1, "-1"):  # versions 4 and 5 without a PLAINTEXT listener
        host, port = _first_endpoint(found.get("endpoints"))
    if host is not None:
        fact["host"] = as_text(host, "host")
    if port is not None:
        fact["port"] = as_int(port, "port", 0, 65535)
    return BROKER, fact


def _first_endpoint(endpoints: object) -> tuple[str | None, str | None]:
    if not endpoints:
        return None, None
    first = as_text(as_list(endpoints, "endpoints")[0], "endpoints[0]")
    match = _ENDPOINT.fullmatch(first)
    if match is None:
        raise unparsable(f"endpoints[0] is {shown(first)}, expected PROTOCOL://host:port")
    return match[1].strip("[]") or None, match[2]


def _topic(topic: str, found: dict[str, Any]) -> list[Fact]:
    topic = as_text(topic, "topic")
    topic_id = found.get("topic_id")
    assigned = as_object(need(found, "partitions"), "partitions")
    adding = _per_partition(found, "adding_replicas")
    removing = _per_partition(found, "removing_replicas")
    facts: list[Fact] = [
        (
            TOPIC,
            {
                "topic": topic,
                "topic_id": None if topic_id is None else as_text(topic_id, "topic_id"),
                "partition_count": len(assigned),
            },
        )
    ]
    for key, replicas in assigned.items():
        fact: dict[str, Any] = {
            "topic": topic,
            "topic_id": facts[0][1]["topic_id"],
            "partition": as_int(key, "partition"),
            "replicas": as_ints(replicas, f"partitions.{shown(key)}"),
        }
        if key in adding:
            fact["adding_replicas"] = as_ints(adding[key], f"adding_replicas.{shown(key)}")
        if key in removing:
            fact["removing_replicas"] = as_ints(removing[key], f"removing_replicas.{shown(key)}")
        facts.append((PARTITION, fact))
    return facts


def _per_partition(found: dict[str, Any], key: str) -> dict[str, Any]:
    value = found.get(key)
    return {} if value is None else as_object(value, key)


def _state(topic: str, partition: str, found: dict[str, Any]) -> Fact:
    return PARTITION, {
        "topic": as_text(topic, "topic"),
        "partition": as_int(partition, "partition"),
        "leader": as_int(need(found, "leader"), "leader", -1),
        "leader_epoch": as_int(found["leader_epoch"], "leader_epoch", -1) if "leader_epoch" in found else None,
        "controller_epoch": _controller_epoch(found),
        "isr": as_ints(need(found, "isr"), "isr"),
    }


def _controller_epoch(found: dict[str, Any]) -> int | None:
    return as_int(found["controller_epoch"], "controller_epoch") if "controller_epoch" in found else None


def _config(topic: str, found: dict[str, Any]) -> Fact:
    configs = []
    for key, value in as_object(need(found, "config"), "config").items():
        if isinstance(value, (dict, list)) or value is None:
            raise unparsable(f"config {shown(key)} is {shown(value)}, expected text")
        text = value if isinstance(value, str) else shown(value)
        configs.append((as_text(key, "config key"), as_text(text, f"config {shown(key)}")))
    return CONFIG, {"topic": as_text(topic, "topic"), "configs": configs}
