"""Sentences about brokers, the controller and topics."""

import re
from collections.abc import Iterator

from pipelines.simulation.scenario.scenario_cluster import ScenarioCluster, SentenceTime
from pipelines.simulation.scenario.sentence_syntax import (
    BROKER,
    IDS,
    LARGEST_ID,
    LISTS,
    NAME,
    NUMBER,
    PARTITION,
    parse_ids,
    parse_number,
)
from udfs.simulation.cluster_events import Event
from udfs.simulation.kernels.codes import EventKind

_BROKER_KINDS = {
    "down": EventKind.BROKER_DOWN,
    "fenced": EventKind.BROKER_DOWN,
    "up": EventKind.BROKER_UP,
    "unfenced": EventKind.BROKER_UP,
    "shutting down": EventKind.CONTROLLED_SHUTDOWN,
}
_CONFIG_DEFAULTS: dict[int, int] = {EventKind.SET_UNCLEAN_ELECTION: 0, EventKind.SET_MIN_ISR: 1}
_CONFIGS = {
    "unclean.leader.election.enable": EventKind.SET_UNCLEAN_ELECTION,
    "min.insync.replicas": EventKind.SET_MIN_ISR,
}


def _change_brokers(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    brokers, kind = parse_ids(match[1]), _BROKER_KINDS[match[2]]
    cluster.change_brokers(brokers, kind)
    is_same_process = int(match[2] == "unfenced")  # it did not start anew
    for broker in brokers:
        yield Event(time.at_ms, kind, cluster.read_broker(str(broker)), value=is_same_process, offset=time.place)


def _lose_controller(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    successor = cluster.read_broker(match[1]) if match[1] else None
    if successor is not None and successor not in cluster.live:
        live = ", ".join(map(str, sorted(cluster.live)))
        remedy = f"Name a broker that is up then: {live}." if live else "Start a broker before."
        cluster.fail(f"broker {successor} is down at t={time.at_ms / 1000:g}s: it cannot be the controller", remedy)
    yield Event(time.at_ms, EventKind.CONTROLLER_LOST, successor, offset=time.place)


def _write_as_old_controller(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    broker, (key,) = cluster.read_broker(match[1]), cluster.read_partitions(match[3])
    yield Event(time.at_ms, EventKind.STALE_CONTROLLER, broker, key, int(match[2]), offset=time.place)


def _create_topic(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    cluster.check_any_live()
    topic, is_grown = match[1], match[2] == "grown"
    if is_grown and topic not in cluster.replicas:
        cluster.fail(f"topic {topic} does not exist", "Change its name.")
    if not is_grown and topic in cluster.replicas and not cluster.is_deleted(topic):
        cluster.fail(f"topic {topic} already exists", "Change its name.")
    cluster.file.check_topic_name(topic, time.line)
    first = max(cluster.replicas.get(topic, {}), default=-1) + 1 if is_grown else 0
    lists = [cluster.read_brokers(text.replace(":", ",")) for text in match[3].split(",")]
    if len({len(ids) for ids in lists}) > 1:
        cluster.fail(f"{match[3]} has lists of different lengths", "Give each partition the same number of replicas.")
    # With KRaft, one partition without an active replica makes the request fail: createTopic, createPartitions.
    is_rejected = cluster.settings.kraft and not all(cluster.list_active() & set(ids) for ids in lists)
    for number, ids in enumerate(lists, first):
        key = (topic, number)
        yield Event(
            time.at_ms, EventKind.CREATE_PARTITION, None, key, int(is_rejected), replicas=ids, offset=time.place
        )
        if is_rejected:
            continue
        cluster.replicas.setdefault(topic, {})[number] = ids
        for kind, value in cluster.configs.get(topic, {}).items():
            if value != _CONFIG_DEFAULTS[kind]:
                yield Event(time.at_ms, kind, partition=key, value=value, offset=time.place)


def _delete_topic(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    cluster.check_any_live()
    for key in cluster.read_topic(match[1]):
        yield Event(time.at_ms, EventKind.DELETE_PARTITION, partition=key, offset=time.place)
    cluster.delete_topic(match[1])


def _set_config(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    cluster.check_any_live()
    topic, name, text = match[1], match[2], match[3]
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
    for key in keys:
        yield Event(time.at_ms, kind, partition=key, value=value, offset=time.place)
    if kind == EventKind.SET_MIN_ISR and cluster.settings.elr and is_changed:  # ELRs depend on the old minimum: 4.1
        for key in keys:
            yield Event(time.at_ms, EventKind.CLEAR_ELR, partition=key, offset=time.place)


def _reassign(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    cluster.check_any_live()
    ((topic, number),) = cluster.read_partitions(match[1])
    ids, before = cluster.read_brokers(match[2]), cluster.replicas[topic][number]
    cluster.replicas[topic][number] = ids + tuple(broker for broker in before if broker not in ids)
    yield Event(time.at_ms, EventKind.REASSIGN_PARTITION, partition=(topic, number), replicas=ids, offset=time.place)


def _elect_preferred(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    cluster.check_any_live()
    for key in cluster.read_partitions(match[1]) if match[1] else cluster.list_partitions():
        yield Event(time.at_ms, EventKind.ELECT_PREFERRED_LEADER, partition=key, offset=time.place)


def _set_isr(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    # A deletion may wait for a reassignment, which waits for its ISR.
    ((topic, number),) = cluster.read_partitions(match[1], or_deleted=True)
    ids, replicas = cluster.read_brokers(match[2]), cluster.replicas.get(topic, {}).get(number)
    if replicas is not None and not set(ids) <= set(replicas):
        others = ", ".join(str(broker) for broker in ids if broker not in replicas)
        problem = f"broker {others} has no replica of {topic}-{number} and cannot be in its ISR"
        cluster.fail(problem, f"Its replicas: {', '.join(map(str, replicas))}.")
    yield Event(time.at_ms, EventKind.ALTER_ISR, partition=(topic, number), replicas=ids, offset=time.place)


SENTENCES = (
    (rf"brokers? {IDS} (down|up|fenced|unfenced|shutting down)", _change_brokers),
    (rf"controller lost(?: to {BROKER})?", _lose_controller),
    (rf"old controller {BROKER} of epoch {NUMBER} writes {PARTITION}", _write_as_old_controller),
    (rf"topic {NAME} (created|grown) {LISTS}", _create_topic),
    (rf"topic {NAME} deleted", _delete_topic),
    (rf"topic {NAME} config ([a-z.]+)=(\S+)", _set_config),
    (rf"reassign {PARTITION} to {IDS}", _reassign),
    (rf"preferred election(?: {PARTITION})?", _elect_preferred),
    (rf"isr {PARTITION} {IDS}", _set_isr),
)
