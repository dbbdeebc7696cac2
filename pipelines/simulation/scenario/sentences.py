"""The sentences of scenarios: their patterns, and the events that they make."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pipelines.simulation.scenario.scenario_cluster import (
    ACKS,
    BROKER,
    IDS,
    LISTS,
    NAME,
    NUMBER,
    OPTIONS,
    PARTITION,
    PARTITIONS,
    TIME,
    WHOLE_NUMBER,
    EventMaker,
    ScenarioCluster,
    parse_ids,
    parse_number,
)
from pipelines.simulation.scenario.scenario_file import LARGEST_ID
from udfs.simulation.cluster_events import Event, TopicPartition
from udfs.simulation.group_events import GroupEvent, GroupEventKind
from udfs.simulation.kernels.codes import EventKind

SKIPPED_IF_REJECTED = 1  # value of a fetch that no sentence names
FETCH_DEFAULTS: dict[str, Any] = {"wait_ms": 500, "min_bytes": 1}
_BROKER_KINDS = {
    "down": EventKind.BROKER_DOWN,
    "fenced": EventKind.BROKER_DOWN,
    "up": EventKind.BROKER_UP,
    "unfenced": EventKind.BROKER_UP,
    "shutting down": EventKind.CONTROLLED_SHUTDOWN,
}
_CONFIGS = {
    "unclean.leader.election.enable": EventKind.SET_UNCLEAN_ELECTION,
    "min.insync.replicas": EventKind.SET_MIN_ISR,
}
_CONFIG_DEFAULTS: dict[int, int] = {EventKind.SET_UNCLEAN_ELECTION: 0, EventKind.SET_MIN_ISR: 1}
_GROUP_KINDS = {
    "syncs": GroupEventKind.SYNC,
    "heartbeats": GroupEventKind.HEARTBEAT,
    "leaves": GroupEventKind.LEAVE,
    "lost": GroupEventKind.COORDINATOR_LOST,
    "loaded": GroupEventKind.COORDINATOR_LOADED,
}
_PRODUCE_DEFAULTS: dict[str, Any] = {"acks": -1, "wait_ms": 30_000}
_PRODUCE_OPTIONS = {"acks": ("acks", ACKS), "timeout": ("wait_ms", TIME)}
_FETCH_OPTIONS = {"wait": ("wait_ms", TIME), "min": ("min_bytes", WHOLE_NUMBER)}
_OFFSET_OPTIONS = {"leo": ("leo", WHOLE_NUMBER), "hw": ("hw", WHOLE_NUMBER)}
_JOIN_OPTIONS = {"session": ("session_ms", TIME), "rebalance": ("rebalance_ms", TIME)}
_GENERATION_OPTIONS = {"generation": ("generation", WHOLE_NUMBER)}


# ---- brokers, the controller and topics


def _change_brokers(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    brokers, kind = parse_ids(match[1]), _BROKER_KINDS[match[2]]
    cluster.change_brokers(brokers, kind)
    is_same_process = int(match[2] in ("fenced", "unfenced"))  # it did not end, or start anew
    for broker in brokers:
        yield cluster.make_event(kind, cluster.read_broker(str(broker)), value=is_same_process)


def _change_voters(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    """Change nodes of the controller quorum that are no brokers."""
    for node in parse_ids(match[1]):
        if node not in cluster.controllers:
            nodes = ", ".join(map(str, sorted(cluster.controllers))) or "none that is no broker"
            cluster.fail(f"there is no controller {node}", f"Voters of the controller quorum: {nodes}.")
        yield cluster.make_event(_BROKER_KINDS[match[2]], node)


def _lose_controller(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    successor = cluster.read_broker(match[1]) if match[1] else None
    if successor is not None and successor not in cluster.live:
        live = ", ".join(map(str, sorted(cluster.live)))
        remedy = f"Name a broker that is up then: {live}." if live else "Start a broker earlier."
        at = f"t={cluster.time.at_ms / 1000:g}s"
        cluster.fail(f"broker {successor} is down at {at}: it cannot be the controller", remedy)
    yield cluster.make_event(EventKind.CONTROLLER_LOST, successor)


def _write_as_old_controller(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    broker, (key,) = cluster.read_broker(match[1]), cluster.read_partitions(match[3])
    yield cluster.make_event(EventKind.STALE_CONTROLLER, broker, key, int(match[2]))


def _create_topic(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    cluster.check_any_live()
    topic, is_grown = match[1], match[2] == "grown"
    if is_grown and topic not in cluster.replicas:
        cluster.fail(f"topic {topic} does not exist", "Change its name.")
    if not is_grown and topic in cluster.replicas and not cluster.is_deleted(topic):
        cluster.fail(f"topic {topic} already exists", "Change its name.")
    cluster.file.check_topic_name(topic, cluster.time.line)
    first = max(cluster.replicas.get(topic, {}), default=-1) + 1 if is_grown else 0
    lists = [cluster.read_brokers(text.replace(":", ",")) for text in match[3].split(",")]
    if len({len(ids) for ids in lists}) > 1:
        cluster.fail(f"{match[3]} has lists of different lengths", "Give each partition the same number of replicas.")
    # With KRaft, one partition without an active replica makes the request fail: createTopic, createPartitions.
    is_rejected = cluster.settings.kraft and not all(cluster.list_active() & set(ids) for ids in lists)
    for number, ids in enumerate(lists, first):
        key = (topic, number)
        yield cluster.make_event(EventKind.CREATE_PARTITION, None, key, int(is_rejected), replicas=ids)
        if is_rejected:
            continue
        cluster.replicas.setdefault(topic, {})[number] = ids
        for kind, value in cluster.configs.get(topic, {}).items():
            if value != _CONFIG_DEFAULTS[kind]:
                yield cluster.make_event(kind, None, key, value)


def _delete_topic(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    cluster.check_any_live()
    for key in cluster.read_topic(match[1]):
        yield cluster.make_event(EventKind.DELETE_PARTITION, None, key)
    cluster.delete_topic(match[1])


def _set_config(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    cluster.check_any_live()
    topic, name, text = match.groups()
    if name not in _CONFIGS:
        cluster.fail(f"config {name} has no effect in a replay", f"Configs: {', '.join(_CONFIGS)}.")
    kind = _CONFIGS[name]
    value = {"true": 1, "false": 0}.get(text) if kind == EventKind.SET_UNCLEAN_ELECTION else parse_number(text)
    if value is None:
        cluster.fail(f"{name}={text} is not valid", "Write true or false, or a number.")
    if kind == EventKind.SET_MIN_ISR and not 1 <= value <= LARGEST_ID:
        cluster.fail(f"{name}={value} is not valid", f"Write a number from 1 to {LARGEST_ID:,}.")
    keys, configs = cluster.read_topic(topic), cluster.configs.setdefault(topic, {})
    is_changed = configs.get(kind) != value
    configs[kind] = value
    yield from (cluster.make_event(kind, None, key, value) for key in keys)
    if kind == EventKind.SET_MIN_ISR and cluster.settings.elr and is_changed:  # ELRs depend on the old minimum: 4.1
        yield from (cluster.make_event(EventKind.CLEAR_ELR, None, key) for key in keys)


def _reassign(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    cluster.check_any_live()
    ((topic, number),) = cluster.read_partitions(match[1])
    if match[2] is None:
        yield cluster.make_event(EventKind.REASSIGN_PARTITION, None, (topic, number), 1)
        return
    ids, before = cluster.read_brokers(match[2]), cluster.replicas[topic][number]
    cluster.replicas[topic][number] = ids + tuple(broker for broker in before if broker not in ids)
    yield cluster.make_event(EventKind.REASSIGN_PARTITION, None, (topic, number), replicas=ids)


def _elect_preferred(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    cluster.check_any_live()
    for key in cluster.read_partitions(match[1]) if match[1] else cluster.list_partitions():
        yield cluster.make_event(EventKind.ELECT_PREFERRED_LEADER, None, key)


def _set_isr(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    # A deletion may wait for a reassignment, which waits for its ISR.
    ((topic, number),) = cluster.read_partitions(match[1], or_deleted=True)
    ids, replicas = cluster.read_brokers(match[2]), cluster.replicas.get(topic, {}).get(number)
    if replicas is not None and not set(ids) <= set(replicas):
        others = ", ".join(str(broker) for broker in ids if broker not in replicas)
        problem = f"broker {others} has no replica of {topic}-{number} and cannot be in its ISR"
        cluster.fail(problem, f"Its replicas: {', '.join(map(str, replicas))}.")
    yield cluster.make_event(EventKind.ALTER_ISR, None, (topic, number), replicas=ids)


# ---- data


def produce(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    """Make one produce request for all partitions named."""
    keys = cluster.read_partitions(match[2], or_deleted=True)
    fields = _PRODUCE_DEFAULTS | cluster.read_options(match[3], _PRODUCE_OPTIONS)
    fields |= {"request": cluster.next_request(), "parts": len(keys), "messages": int(match[1])}
    yield from (cluster.make_event(EventKind.APPEND, None, key, **fields) for key in keys)


def fetch_as_replica(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    """Make a fetch of one broker for each partition named."""
    broker, keys = cluster.read_broker(match[1]), cluster.read_partitions(match[2], or_deleted=True)
    fields = FETCH_DEFAULTS | cluster.read_options(match[4], _FETCH_OPTIONS)
    if match[3]:
        fields["fetch_offset"] = int(match[3])
    for key in keys:
        yield cluster.make_event(EventKind.FETCH, broker, key, request=cluster.next_request(), **fields)


def fetch_as_followers(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    """Make a fetch of each replica of the partitions named, or of all."""
    keys = cluster.read_partitions(match[1]) if match[1] else cluster.list_partitions()
    return fetch_partitions(cluster, keys, FETCH_DEFAULTS | cluster.read_options(match[2], _FETCH_OPTIONS))


def fetch_partitions(
    cluster: ScenarioCluster, keys: Iterable[TopicPartition], fields: dict[str, Any]
) -> Iterator[Event]:
    """Make a fetch of each replica of the partitions that exist; the leader's own is rejected, and then omitted."""
    for topic, number in keys:
        for broker in cluster.replicas.get(topic, {}).get(number, ()):
            where = (EventKind.FETCH, broker, (topic, number), SKIPPED_IF_REJECTED)
            yield cluster.make_event(*where, request=cluster.next_request(), **fields)


def _fetch_as_consumer(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    keys = cluster.read_partitions(match[1], or_deleted=True)
    fields = FETCH_DEFAULTS | cluster.read_options(match[3], _FETCH_OPTIONS)
    fields |= {"request": cluster.next_request(), "parts": len(keys), "fetch_offset": int(match[2])}
    yield from (cluster.make_event(EventKind.FETCH, None, key, **fields) for key in keys)


def _fetch_nothing(cluster: ScenarioCluster, _match: re.Match[str]) -> Iterator[Event]:
    cluster.fail("a fetch without partitions waits for nothing: it is answered at once", "Name a partition.")
    yield from ()


def _set_offsets(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[Event]:
    broker, ((topic, number),) = cluster.read_broker(match[1]), cluster.read_partitions(match[2])
    offsets, replicas = cluster.read_options(match[3], _OFFSET_OPTIONS), cluster.replicas[topic][number]
    if broker not in replicas:
        remedy = f"Its replicas: {', '.join(map(str, replicas))}."
        cluster.fail(f"broker {broker} has no replica of {topic}-{number}", remedy)
    if "leo" not in offsets:
        cluster.fail("the log end offset is missing", "Add it, as in leo=9.")
    if offsets.get("hw", 0) > offsets["leo"]:
        problem = f"hw={offsets['hw']} is beyond leo={offsets['leo']}"
        cluster.fail(problem, "Write a high watermark up to the log end offset.")
    yield cluster.make_event(EventKind.REPLICA_OFFSETS, broker, (topic, number), **offsets)


# ---- consumer groups


def _join_group(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[GroupEvent]:
    fields = {"known": bool(match[3]), "changed": bool(match[4])} | cluster.read_options(match[5], _JOIN_OPTIONS)
    yield GroupEvent(cluster.time.at_ms, GroupEventKind.JOIN, match[1], match[2], **fields)


def _change_group(cluster: ScenarioCluster, match: re.Match[str]) -> Iterator[GroupEvent]:
    generation = cluster.read_options(match[4], _GENERATION_OPTIONS)
    yield GroupEvent(cluster.time.at_ms, _GROUP_KINDS[match[3]], match[1], match[2], **generation)


SENTENCES: tuple[tuple[re.Pattern[str], EventMaker], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (rf"brokers? {IDS} (down|up|fenced|unfenced|shutting down)", _change_brokers),
        (rf"controllers? {IDS} (down|up)", _change_voters),
        (rf"controller lost(?: to {BROKER})?", _lose_controller),
        (rf"old controller {BROKER} of epoch {NUMBER} writes {PARTITION}", _write_as_old_controller),
        (rf"topic {NAME} (created|grown) {LISTS}", _create_topic),
        (rf"topic {NAME} deleted", _delete_topic),
        (rf"topic {NAME} config ([a-z.]+)=(\S+)", _set_config),
        (rf"reassign {PARTITION} (?:to {IDS}|cancelled)", _reassign),
        (rf"preferred election(?: {PARTITION})?", _elect_preferred),
        (rf"isr {PARTITION} {IDS}", _set_isr),
        (rf"produce {NUMBER} to {PARTITIONS}{OPTIONS}", produce),
        (rf"broker {BROKER} fetches {PARTITIONS}(?: from {NUMBER})?{OPTIONS}", fetch_as_replica),
        (rf"followers fetch(?: {PARTITIONS})?{OPTIONS}", fetch_as_followers),
        (rf"consumer fetches {PARTITIONS} from {NUMBER}{OPTIONS}", _fetch_as_consumer),
        (rf"consumer fetches(?: nothing)?{OPTIONS}", _fetch_nothing),
        (rf"offsets of broker {BROKER} {PARTITION}{OPTIONS}", _set_offsets),
        (rf"group (\S+) member (\S+) joins( again)?( changed)?{OPTIONS}", _join_group),
        # The empty groups of these patterns are what such a sentence does not name.
        (rf"group (\S+) member (\S+) (syncs|heartbeats){OPTIONS}", _change_group),
        (r"group (\S+) member (\S+) (leaves)()", _change_group),
        (r"group (\S+)() coordinator (lost|loaded)()", _change_group),
    )
)
