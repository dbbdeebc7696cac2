"""Sentences about data: produce and fetch requests, offsets of logs, consumer groups."""

import re
from collections.abc import Iterable, Iterator

from pipelines.simulation.scenario.scenario_cluster import ScenarioCluster, SentenceTime
from pipelines.simulation.scenario.sentence_syntax import (
    ACKS_OPTION,
    BROKER,
    NUMBER,
    NUMBER_OPTION,
    OPTIONS,
    PARTITION,
    PARTITIONS,
    TIME_OPTION,
)
from udfs.simulation.cluster_events import Event, TopicPartition
from udfs.simulation.group_simulation import GroupEvent
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.kernels.group_codes import GroupEventKind

SKIPPED_IF_REJECTED = 1  # value of a fetch that no sentence names
FETCH_WAIT_MS = 500
_PRODUCE_TIMEOUT_MS, _MIN_BYTES = 30_000, 1
_PRODUCE_OPTIONS = {"acks": ACKS_OPTION, "timeout": TIME_OPTION}
_FETCH_OPTIONS = {"wait": TIME_OPTION, "min": NUMBER_OPTION}
_OFFSET_OPTIONS = {"leo": NUMBER_OPTION, "hw": NUMBER_OPTION}
_JOIN_OPTIONS = {"session": TIME_OPTION, "rebalance": TIME_OPTION}
_GENERATION_OPTIONS = {"generation": NUMBER_OPTION}
_GROUP_KINDS = {
    "syncs": GroupEventKind.SYNC,
    "heartbeats": GroupEventKind.HEARTBEAT,
    "lost": GroupEventKind.COORDINATOR_LOST,
    "loaded": GroupEventKind.COORDINATOR_LOADED,
}


def produce(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    """Make one produce request for all partitions named."""
    keys = cluster.read_partitions(match[2], or_deleted=True)
    options = cluster.read_options(match[3], _PRODUCE_OPTIONS)
    request = cluster.next_request()
    for key in keys:
        yield Event(
            time.at_ms,
            EventKind.APPEND,
            partition=key,
            offset=time.place,
            request=request,
            parts=len(keys),
            acks=options.get("acks", -1),
            messages=int(match[1]),
            wait_ms=options.get("timeout", _PRODUCE_TIMEOUT_MS),
        )


def fetch_as_replica(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    """Make a fetch of one broker for each partition named."""
    broker, keys = cluster.read_broker(match[1]), cluster.read_partitions(match[2], or_deleted=True)
    options, begin = cluster.read_options(match[4], _FETCH_OPTIONS), int(match[3]) if match[3] else None
    for key in keys:
        yield _fetch(cluster, time, broker, key, options, begin=begin)


def fetch_as_followers(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    """Make a fetch of each replica of the partitions named, or of all."""
    keys = cluster.read_partitions(match[1]) if match[1] else cluster.list_partitions()
    return fetch_partitions(cluster, time, keys, cluster.read_options(match[2], _FETCH_OPTIONS))


def fetch_partitions(
    cluster: ScenarioCluster, time: SentenceTime, keys: Iterable[TopicPartition], options: dict[str, int]
) -> Iterator[Event]:
    """Make a fetch of each replica of the partitions that exist; the leader's own is rejected, and then omitted."""
    for topic, number in keys:
        for broker in cluster.replicas.get(topic, {}).get(number, ()):
            yield _fetch(cluster, time, broker, (topic, number), options, SKIPPED_IF_REJECTED)


def _fetch(
    cluster: ScenarioCluster,
    time: SentenceTime,
    broker: int,
    key: TopicPartition,
    options: dict[str, int],
    value: int = 0,
    begin: int | None = None,
) -> Event:
    return Event(
        time.at_ms,
        EventKind.FETCH,
        broker,
        key,
        value,
        offset=time.place,
        request=cluster.next_request(),
        wait_ms=options.get("wait", FETCH_WAIT_MS),
        min_bytes=options.get("min", _MIN_BYTES),
        fetch_offset=begin,
    )


def _fetch_as_consumer(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    keys = cluster.read_partitions(match[1], or_deleted=True)
    options, request = cluster.read_options(match[3], _FETCH_OPTIONS), cluster.next_request()
    for key in keys:
        yield Event(
            time.at_ms,
            EventKind.FETCH,
            partition=key,
            offset=time.place,
            request=request,
            parts=len(keys),
            wait_ms=options.get("wait", FETCH_WAIT_MS),
            min_bytes=options.get("min", _MIN_BYTES),
            fetch_offset=int(match[2]),
        )


def _fetch_nothing(cluster: ScenarioCluster, _time: SentenceTime, _match: re.Match[str]) -> Iterator[Event]:
    cluster.fail("a fetch without partitions waits for nothing: it is answered at once", "Name a partition.")
    yield from ()


def _set_offsets(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[Event]:
    broker, ((topic, number),) = cluster.read_broker(match[1]), cluster.read_partitions(match[2])
    options, replicas = cluster.read_options(match[3], _OFFSET_OPTIONS), cluster.replicas[topic][number]
    leo, hw = options.get("leo"), options.get("hw")
    if broker not in replicas:
        remedy = f"Its replicas: {', '.join(map(str, replicas))}."
        cluster.fail(f"broker {broker} has no replica of {topic}-{number}", remedy)
    if leo is None:
        cluster.fail("the log end offset is missing", "Add it, as in leo=9.")
    if hw is not None and hw > leo:
        cluster.fail(f"hw={hw} is beyond leo={leo}", "Write a high watermark up to the log end offset.")
    yield Event(time.at_ms, EventKind.REPLICA_OFFSETS, broker, (topic, number), offset=time.place, leo=leo, hw=hw)


def _join_group(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[GroupEvent]:
    timeouts = {f"{name}_ms": value for name, value in cluster.read_options(match[5], _JOIN_OPTIONS).items()}
    known, changed = bool(match[3]), bool(match[4])
    yield GroupEvent(time.at_ms, GroupEventKind.JOIN, match[1], match[2], known=known, changed=changed, **timeouts)


def _send_to_group(cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[GroupEvent]:
    generation = cluster.read_options(match[4], _GENERATION_OPTIONS).get("generation")
    yield GroupEvent(time.at_ms, _GROUP_KINDS[match[3]], match[1], match[2], generation=generation)


def _leave_group(_cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[GroupEvent]:
    yield GroupEvent(time.at_ms, GroupEventKind.LEAVE, match[1], match[2])


def _change_coordinator(_cluster: ScenarioCluster, time: SentenceTime, match: re.Match[str]) -> Iterator[GroupEvent]:
    yield GroupEvent(time.at_ms, _GROUP_KINDS[match[2]], match[1])


SENTENCES = (
    (rf"produce {NUMBER} to {PARTITIONS}{OPTIONS}", produce),
    (rf"broker {BROKER} fetches {PARTITIONS}(?: from {NUMBER})?{OPTIONS}", fetch_as_replica),
    (rf"followers fetch(?: {PARTITIONS})?{OPTIONS}", fetch_as_followers),
    (rf"consumer fetches {PARTITIONS} from {NUMBER}{OPTIONS}", _fetch_as_consumer),
    (rf"consumer fetches(?: nothing)?{OPTIONS}", _fetch_nothing),
    (rf"offsets of broker {BROKER} {PARTITION}{OPTIONS}", _set_offsets),
    (rf"group (\S+) member (\S+) joins( again)?( changed)?{OPTIONS}", _join_group),
    (rf"group (\S+) member (\S+) (syncs|heartbeats){OPTIONS}", _send_to_group),
    (r"group (\S+) member (\S+) leaves", _leave_group),
    (r"group (\S+) coordinator (lost|loaded)", _change_coordinator),
)
