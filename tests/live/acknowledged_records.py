"""Producers with acks=all that note what is acknowledged, and what a consumer reads of it afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Self

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from pipelines.live.kafka_connection import Key

_THREADS = 2
_PENDING = 3  # records of a partition that wait for an answer at most
_PAUSE_S = 0.2  # between two records of a partition
_PATIENCE_MS = 300_000  # after which a producer gives a record up
_FAST = {"reconnect_backoff_max_ms": 500, "retry_backoff_ms": 100}  # brokers come back within seconds


class RecordWriters:
    """Threads that write numbered records to every partition, each with a producer of its own; a context manager."""

    def __init__(self, bootstrap: str, partitions: Sequence[Key]) -> None:
        self._bootstrap, self._partitions = bootstrap, partitions
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(partitions[number::_THREADS],)) for number in range(_THREADS)
        ]
        self._sent = dict.fromkeys(partitions, 0)
        self._accepted = dict.fromkeys(partitions, 0.0)  # when the last record that was acknowledged had been sent
        self.acknowledged: dict[Key, dict[bytes, int]] = {key: {} for key in partitions}  # offsets by value
        self.given_up: dict[Key, list[str]] = {key: [] for key in partitions}  # errors

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    @property
    def count(self) -> int:
        """Return how many records were acknowledged."""
        return sum(map(len, self.acknowledged.values()))

    def list_blocked(self, since: float) -> set[Key]:
        """List the partitions that have acknowledged no record which was sent after a time (monotonic)."""
        return {key for key, sent in self._accepted.items() if sent <= since}

    def wait_until_accepted(self, partitions: Collection[Key], seconds: float) -> set[Key]:
        """Wait until each of these partitions accepts a record that is sent from now on. Returns: those that do not."""
        since = time.monotonic()
        while (blocked := self.list_blocked(since) & set(partitions)) and time.monotonic() < since + seconds:
            time.sleep(0.1)
        return blocked

    def _write(self, partitions: Sequence[Key]) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap.split(","),
            acks="all",
            enable_idempotence=False,
            max_in_flight_requests_per_connection=1,
            # Else kafka-python 3.0.12 may wait for minutes for a leader that failed, in a busy loop.
            metadata_max_age_ms=2000,
            delivery_timeout_ms=_PATIENCE_MS,
            max_block_ms=_PATIENCE_MS,
            **_FAST,
        )
        number = 0
        while not self._ended.is_set():
            for key in partitions:
                if self._sent[key] - len(self.acknowledged[key]) - len(self.given_up[key]) < _PENDING:
                    self._send(producer, key, b"%s-%d %d" % (key[0].encode(), key[1], number))
                    number += 1
            self._ended.wait(_PAUSE_S)
        producer.close(timeout=60)

    def _send(self, producer: Any, key: Key, value: bytes) -> None:
        sent = time.monotonic()
        self._sent[key] += 1

        def accept(metadata: Any) -> None:
            self.acknowledged[key][value] = metadata.offset
            self._accepted[key] = max(sent, self._accepted[key])

        future = producer.send(key[0], value, partition=key[1])
        future.add_callback(accept).add_errback(lambda error: self.given_up[key].append(repr(error)))


def find_lost(bootstrap: str, acknowledged: Mapping[Key, Mapping[bytes, int]]) -> Iterator[str]:
    """Read partitions from their start, and yield each record that was acknowledged and is not at its offset."""
    expected = {key: dict(values) for key, values in acknowledged.items()}  # as writers go on
    found = _read_values(bootstrap, expected)
    for (topic, partition), values in expected.items():
        by_offset = found[topic, partition]
        for value, offset in values.items():
            if by_offset.get(offset) != value:
                yield f"{topic}-{partition}, offset {offset}: {value!r}"


def _read_values(bootstrap: str, partitions: Collection[Key]) -> dict[Key, dict[int, bytes]]:
    """Read partitions from their start to their present end: values by offset."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","), check_crcs=False, **_FAST)
    assigned = [TopicPartition(*key) for key in partitions]
    consumer.assign(assigned)
    consumer.seek_to_beginning(*assigned)
    ends = consumer.end_offsets(assigned)
    values: dict[Key, dict[int, bytes]] = {key: {} for key in partitions}
    while any(consumer.position(one) < ends[one] for one in assigned):
        for one, records in consumer.poll(timeout_ms=1000).items():
            values[one.topic, one.partition].update((record.offset, record.value) for record in records)
    consumer.close()
    return values
