"""Consumers that fetch from replicas in their rack: what the network carries, as predicted and as brokers count it."""

from __future__ import annotations

import re
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import numpy as np
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from pipelines.ingest.formats.topic_loads import LoadStatistic, print_loads
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from tests.commands import call
from tests.live.kafka_cluster import KafkaCluster, find_class_path, find_free_ports, wait_until
from tests.loads import plain_load
from udfs.failures.partition_arrays import TopicShard, fill_topics, group_observed, select_partitions
from udfs.failures.scenarios import Cluster
from udfs.failures.topic_defaults import KAFKA_DEFAULTS
from udfs.network.kernels.network_sums import CONSUMERS, REPLICATION, NetworkSums
from udfs.network.traffic_rows import (
    NetworkAssumptions,
    aggregate_network,
    locate_clients,
    name_zones,
    read_network,
    share_clients,
    sum_producers,
)

pytestmark = [pytest.mark.slow, pytest.mark.live]

# The common rules for Kafka, of what the test reads.
RULES = """\
lowercaseOutputName: true
rules:
- pattern: kafka.server<type=BrokerTopicMetrics, name=(.+)PerSec, topic=(.+)><>Count
  name: kafka_server_brokertopicmetrics_$1_total
  type: COUNTER
  labels: {"topic": "$2"}
- pattern: kafka.server<type=BrokerTopicMetrics, name=(.+)PerSec><>Count
  name: kafka_server_brokertopicmetrics_$1_total
  type: COUNTER
"""
SERIES = re.compile(r'^kafka_server_brokertopicmetrics_(\w+)_total(?:\{topic="([^"]+)",?\})? (\S+)$', re.MULTILINE)
# Broker i is rack ri. Two racks of three have a replica of orders: consumers in the third one read from leaders.
TOPICS = {"orders": {p: [p % 3 + 1, (p + 1) % 3 + 1] for p in range(6)}, "clicks": {p: [1, 2, 3] for p in range(3)}}
KEYS = [(topic, p) for topic, partitions in TOPICS.items() for p in partitions]
RECORD_BYTES = 10_000
RECORDS = {"orders": 60, "clicks": 30}  # to each partition
SECONDS = 10  # of the window; how long the producer really takes does not matter, as counters are read before and after
CONSUMERS_IN = {"r1": 1, "r2": 1, "r3": 2}
PRODUCER_ZONE = "r1"
DIRECTIONS = ("bytesin", "replicationbytesin", "replicationbytesout", "bytesout")  # in the order of the kernel
TOLERANCE = 0.1
_LONG_S = 600  # of a sample of metrics: more than the test takes

Broker = tuple[int, str, str]  # id, metric and topic; "" = all topics


class RackConsumer:
    """A consumer in a rack that reads all partitions, in a thread of its own."""

    def __init__(self, servers: list[str], zone: str) -> None:
        self.zone = zone
        self.records = 0
        self.consumer = KafkaConsumer(
            bootstrap_servers=servers,
            client_rack=zone,
            auto_offset_reset="earliest",
            check_crcs=False,  # in Python, they take more time than all the rest
            metrics_sample_window_ms=_LONG_S * 1000,
            metrics_num_samples=2,
        )
        self.consumer.assign([TopicPartition(topic, partition) for topic, partition in KEYS])
        self.begin, self.stop = time.monotonic(), Event()
        self.thread = Thread(target=self.consume)
        self.thread.start()

    def consume(self) -> None:
        while not self.stop.is_set():
            self.records += sum(map(len, self.consumer.poll(100).values()))

    def count_bytes(self) -> dict[tuple[int, str], float]:
        """Return the bytes that each broker has sent to it: its rates are over one long sample, and the time so far."""
        seconds = _LONG_S + time.monotonic() - self.begin
        groups = self.consumer.metrics()
        return {
            (id_, self.zone): groups.get(f"consumer-node-metrics.node-{id_}", {}).get("incoming-byte-rate", 0) * seconds
            for id_ in (1, 2, 3)
        }

    def close(self) -> None:
        self.stop.set()
        self.thread.join()
        self.consumer.close()


class Counters(NamedTuple):
    """Bytes so far."""

    brokers: dict[Broker, float]
    consumed: dict[tuple[int, str], float]  # by broker, and zone of the consumer

    def since(self, earlier: Counters) -> Counters:
        """Return bytes per second since then."""
        pairs = zip(self, earlier, strict=True)
        return Counters(*({key: (new[key] - old.get(key, 0)) / SECONDS for key in new} for new, old in pairs))


def read_counters(ports: dict[int, int], consumers: list[RackConsumer]) -> Counters:
    """Read all counters now. ports: of the brokers' metrics."""
    brokers: dict[Broker, float] = {}
    for broker, port in ports.items():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
        brokers |= {(broker, name, topic): float(value) for name, topic, value in SERIES.findall(text)}
    consumed: Counter[tuple[int, str]] = Counter()
    for consumer in consumers:
        consumed.update(consumer.count_bytes())  # type: ignore[arg-type]
    return Counters(brokers, dict(consumed))


def produce(servers: list[str], consumers: list[RackConsumer], records: dict[str, int]) -> None:
    """Write so many records to each partition of the topics, and wait until all consumers have read them."""
    before = [consumer.records for consumer in consumers]
    producer = KafkaProducer(bootstrap_servers=servers, acks="all", linger_ms=20)
    for i in range(max(records.values())):
        for topic, partition in KEYS:
            if i < records[topic]:
                producer.send(topic, bytes(RECORD_BYTES), partition=partition)
    producer.flush()
    producer.close()
    total = sum(records[topic] for topic, _ in KEYS)
    wait_until(
        lambda: all(one.records - old == total for one, old in zip(consumers, before, strict=True)),
        f"not all of the {total} records were read",
    )


class Observation(NamedTuple):
    """What was counted in the window, and the cluster's sources."""

    rates: Counters
    sources: Path


@pytest.fixture(scope="module")
def observation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observation]:
    folder = tmp_path_factory.mktemp("network")
    (folder / "rules.yml").write_text(RULES)
    ports = dict(zip((1, 2, 3), find_free_ports(3), strict=True))
    agent = find_class_path("jmx_prometheus_javaagent")
    running = KafkaCluster(
        folder / "cluster",
        settings={"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
        own_options=lambda id_: [f"-javaagent:{agent}={ports[id_]}:{folder / 'rules.yml'}"] if id_ in ports else [],
    )
    consumers = list[RackConsumer]()
    try:
        running.start()
        running.create_topics({name: (partitions, {}) for name, partitions in TOPICS.items()})
        running.wait_until_settled(len(KEYS))
        call("snapshot", f"prod=kafka://{running.bootstrap}", "--out", str(folder / "prod"))
        servers = running.bootstrap.split(",")
        consumers += [RackConsumer(servers, zone) for zone, count in CONSUMERS_IN.items() for _ in range(count)]
        produce(servers, consumers, dict.fromkeys(TOPICS, 1))  # consumers learn where to fetch from
        first = read_counters(ports, consumers)
        produce(servers, consumers, RECORDS)
        yield Observation(read_counters(ports, consumers).since(first), folder / "prod")
    finally:
        for consumer in consumers:
            consumer.close()
        running.stop()


def predict(snapshot: Snapshot) -> tuple[NetworkSums, np.ndarray]:
    """Return what the network carries, and what producers send between zones, by the snapshot's rates."""
    rows = snapshot.brokers.to_pylist()
    racks = tuple(row["rack"] for row in rows)
    fetching = tuple(row["follower_fetching"] for row in rows)
    cluster = Cluster(tuple(row["broker_id"] for row in rows), racks, follower_fetching=fetching)
    topics = fill_topics(snapshot.topics, KAFKA_DEFAULTS)
    shard = TopicShard("prod", cluster, topics, select_partitions(snapshot.partitions))
    assumptions = NetworkAssumptions(consumer_zones=CONSUMERS_IN, producer_zones={PRODUCER_ZONE: 1})
    clients = locate_clients(cluster, assumptions)
    traffic = read_network(aggregate_network(group_observed(shard).group, clients, None))
    shares = share_clients(racks, name_zones(racks, assumptions), assumptions.producer_zones)
    return traffic, sum_producers(traffic.brokers, clients.zone, shares)[0]


def test_predictions_are_what_brokers_count(observation: Observation) -> None:
    rates = observation.rates
    lines = ["topic,partitions,rf,bytes_in_per_s,bytes_out_per_s"]
    for topic, partitions in TOPICS.items():
        rate = RECORD_BYTES * RECORDS[topic] / SECONDS * len(partitions)
        lines.append(f"{topic},{len(partitions)},{len(partitions[0])},{rate},{rate * sum(CONSUMERS_IN.values())}")
    (observation.sources / "rates.csv").write_text("\n".join(lines) + "\n")
    snapshot = load_snapshot(find_source(f"prod={observation.sources}"))
    (observation.sources / "rates.csv").unlink()
    assert snapshot.brokers["follower_fetching"].to_pylist() == [True] * 3
    traffic, producers = predict(snapshot)

    counted = [[rates.brokers.get((broker, name, ""), 0.0) for name in DIRECTIONS] for broker in (1, 2, 3)]
    assert traffic.brokers[0] == pytest.approx(np.array(counted), rel=TOLERANCE)
    # One broker per zone: a zone's traffic is that of its broker. Client libraries count what each broker sent.
    zones = traffic.zones[0, :, :3, :3]
    consumed = [[rates.consumed[broker, zone] for zone in CONSUMERS_IN] for broker in (1, 2, 3)]
    crosses = ~np.eye(3, dtype=bool)
    assert zones[CONSUMERS][crosses].sum() == pytest.approx(np.array(consumed)[crosses].sum(), rel=TOLERANCE)
    assert np.diag(zones[CONSUMERS]) == pytest.approx(np.diag(consumed), rel=TOLERANCE)
    total_replicated = sum(rates.brokers[broker, "replicationbytesin", ""] for broker in (1, 2, 3))
    assert zones[REPLICATION][crosses].sum() == pytest.approx(total_replicated, rel=TOLERANCE)
    elsewhere = sum(rates.brokers[broker, "bytesin", ""] for broker in (2, 3))
    assert producers[:3, :3][crosses].sum() == pytest.approx(elsewhere, rel=TOLERANCE)


def test_bytes_out_of_followers_are_those_of_the_partitions_that_they_follow(observation: Observation) -> None:
    """Each partition gets about what its consumers read, though brokers count topics, and followers send most of it.

    A broker's bytes are even over what it serves, though rack 3 has two consumers: up to an eighth of a partition's.
    """
    rates = observation.rates.brokers
    loads = [
        plain_load(topic, broker, None, *(rates.get((broker, way, topic), 0.0) for way in ("bytesin", "bytesout")))
        for topic in TOPICS
        for broker in (1, 2, 3)
    ]
    file = observation.sources / "loads.txt"
    file.write_text("".join(f"{line}\n" for line in print_loads("the test", loads, [], LoadStatistic.MEAN)))
    snapshot = load_snapshot(find_source(f"prod={observation.sources}"))
    file.unlink()
    found = {(row["topic"], row["partition"]): row for row in snapshot.partitions.to_pylist()}
    for key in KEYS:
        rate = RECORD_BYTES * RECORDS[key[0]] / SECONDS
        assert found[key]["bytes_in_per_s"] == pytest.approx(rate, rel=TOLERANCE)
        assert found[key]["bytes_out_per_s"] == pytest.approx(rate * sum(CONSUMERS_IN.values()), rel=0.15)
    for topic, partitions in TOPICS.items():
        sent = sum(found[topic, partition]["bytes_out_per_s"] for partition in partitions)
        assert sent == pytest.approx(sum(rates[broker, "bytesout", topic] for broker in (1, 2, 3)))
