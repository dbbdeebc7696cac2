"""Loads of a real cluster from a real Prometheus, beside what producers wrote and consumers read."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.producer.future import RecordMetadata

from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from tests.commands import call
from tests.live.kafka_cluster import KafkaCluster, find_free_ports
from tests.live.metrics_exporter import export_metrics, find_prometheus, run_prometheus

pytestmark = [pytest.mark.slow, pytest.mark.live]

_TOPICS = {
    "orders": ({p: [p % 3 + 1, (p + 1) % 3 + 1] for p in range(6)}, {}),
    "hot.x": ({0: [2, 3], 1: [2, 1]}, {}),
    "quiet": ({0: [1, 3]}, {}),
}
_Key = tuple[str, int]
FloatArray = npt.NDArray[np.float64]
Ends = FloatArray  # of windows, in seconds since 1970
# Records per second: each broker leads partitions of `orders` with different rates.
_RATES: dict[_Key, int] = {("orders", 0): 24, ("orders", 3): 8, ("orders", 1): 12, ("orders", 2): 18, ("hot.x", 0): 15}
_READERS = {"orders": 2, "hot.x": 1}  # consumers of every record
_VALUE = 1_000  # bytes
_WINDOW_S = 20
_WARM_UP_S = 12  # until a whole window has steady rates
_STEP_S = 10  # of Prometheus: windows may end at a multiple of it


@dataclass
class Traffic:
    """Producers and consumers of known rates; times at which each record was written and read."""

    cluster: KafkaCluster
    written: dict[_Key, list[float]] = field(default_factory=lambda: defaultdict(list))
    read: dict[_Key, list[float]] = field(default_factory=lambda: defaultdict(list))
    is_over: threading.Event = field(default_factory=threading.Event)

    def produce(self) -> None:
        """Write records at the rates until it is over, each as a batch of its own."""
        producer = KafkaProducer(bootstrap_servers=self.cluster.bootstrap.split(","), acks="all", batch_size=0)
        began, count = time.time(), dict.fromkeys(_RATES, 0)
        while not self.is_over.is_set():
            for (topic, partition), rate in _RATES.items():
                while count[topic, partition] < (time.time() - began) * rate:
                    sent = producer.send(topic, bytes(_VALUE), partition=partition)
                    sent.add_callback(self._note_written)
                    count[topic, partition] += 1
            time.sleep(0.02)
        producer.close()

    def _note_written(self, record: RecordMetadata) -> None:
        # When the brokers have it: on a busy machine, records wait in the producer.
        self.written[record.topic, record.partition].append(time.time())

    def consume(self, topic: str) -> None:
        """Read all records of a topic until it is over."""
        consumer = KafkaConsumer(bootstrap_servers=self.cluster.bootstrap.split(","))
        consumer.assign([TopicPartition(topic, p) for p in _TOPICS[topic][0]])
        consumer.seek_to_beginning()
        while not self.is_over.is_set():
            for partition, records in consumer.poll(timeout_ms=200).items():
                self.read[topic, partition.partition] += [time.time()] * len(records)
        consumer.close()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Snapshot, Traffic, Ends]]:
    """A snapshot of three brokers with loads from Prometheus, the traffic, and when the window may have ended."""
    executable = find_prometheus()
    folder = tmp_path_factory.mktemp("loads")
    ports = find_free_ports(3)
    cluster = KafkaCluster(folder / "cluster", brokers=3, own_options=export_metrics(ports))
    traffic = Traffic(cluster)
    threads = [threading.Thread(target=traffic.produce)]
    threads += [
        threading.Thread(target=traffic.consume, args=[topic]) for topic, n in _READERS.items() for _ in range(n)
    ]
    try:
        cluster.start()
        cluster.create_topics(_TOPICS)
        cluster.wait_until_settled(sum(len(assignments) for assignments, _ in _TOPICS.values()))
        with run_prometheus(executable, folder, ports) as url:
            for thread in threads:
                thread.start()
            time.sleep(_WARM_UP_S + _WINDOW_S)
            began = time.time()
            _save(cluster, url, folder / "prod")
            ends = np.arange(began - _STEP_S, time.time(), 0.1)
            yield load_snapshot(find_source(str(folder / "prod"))), traffic, ends
    finally:
        traffic.is_over.set()
        for thread in threads:
            if thread.is_alive():
                thread.join(30)
        cluster.stop()


def _save(cluster: KafkaCluster, url: str, folder: Path) -> None:
    settings = ("metrics.cluster_label=kafka_cluster", f"metrics.step={_STEP_S}s", "metrics.statistic=mean")
    arguments = ("--metrics", f"prometheus={url}", "--window", f"{_WINDOW_S}s", "--offsets", "--out", str(folder))
    words = [word for setting in settings for word in ("--set", setting)]
    call("snapshot", f"prod=kafka://{cluster.bootstrap}", *arguments, *words)


def _count_bytes(times: dict[_Key, list[float]], snapshot: Snapshot, ends: Ends) -> dict[_Key, FloatArray]:
    """Return the bytes per second of each partition in the windows with these ends."""
    sizes = {(row["topic"], row["partition"]): row["logs"][0] for row in snapshot.partitions.to_pylist() if row["logs"]}
    rates = {}
    for key, moments in times.items():
        log = sizes[key]
        record_bytes = log["size_bytes"] / log["log_end_offset"]
        counts = np.searchsorted(sorted(moments), ends) - np.searchsorted(sorted(moments), ends - _WINDOW_S)
        rates[key] = record_bytes * counts / _WINDOW_S
    return rates


@pytest.mark.parametrize("way", ["in", "out"])
def test_rates_are_those_of_producers_and_consumers(measured: tuple[Snapshot, Traffic, Ends], way: str) -> None:
    """Rates are those of one of the windows that the command may have measured: a busy machine's vary."""
    snapshot, traffic, ends = measured
    actual = _count_bytes(traffic.written if way == "in" else traffic.read, snapshot, ends)
    rows = snapshot.partitions.to_pylist()
    rates = {(row["topic"], row["partition"]): row[f"bytes_{way}_per_s"] for row in rows}
    print({key: (rates[key], rate.min(), rate.max()) for key, rate in actual.items()})
    assert {key for key, rate in rates.items() if rate} == actual.keys()
    for key, rate in actual.items():
        assert 0.95 * rate.min() < rates[key] < 1.05 * rate.max(), key
    total = sum(actual.values(), np.zeros(len(ends)))
    assert 0.98 * total.min() < sum(rate or 0 for rate in rates.values()) < 1.02 * total.max()


def test_shares_are_by_offsets_and_silence_is_not_zero(measured: tuple[Snapshot, Traffic, Ends]) -> None:
    rows = {(row["topic"], row["partition"]): row for row in measured[0].partitions.to_pylist()}
    assert {rows[key]["load_source"] for key in _RATES} == {"offsets"}
    # No record was ever written to this topic, and brokers count topics from their first record on.
    assert rows["quiet", 0]["bytes_in_per_s"] is None
    assert rows["quiet", 0]["load_source"] is None
