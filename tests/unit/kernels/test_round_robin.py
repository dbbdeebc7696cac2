"""The placement kernels against the worked examples and Kafka's own answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from udfs.kernels.java_random import JavaRandom
from udfs.kernels.round_robin import Assignment, TopicBatch, kafka_rack_unaware, naive

GOLDEN = Path(__file__).parents[2] / "golden"
EXAMPLES = json.loads((GOLDEN / "worked_examples.json").read_text())
ADMIN_UTILS = [json.loads(line) for line in (GOLDEN / "adminutils.jsonl").read_text().splitlines()]
RACK_UNAWARE = [c for c in ADMIN_UTILS if "replicas" in c and not any(b["rack"] for b in c["brokers"])]


def one(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def batch(partitions: int, factor: int, brokers: int, first: int = 0) -> TopicBatch:
    return TopicBatch(one(partitions), one(first), one(factor), one(brokers))


def lists(assignment: Assignment, ids: list[int]) -> list[list[int]]:
    flat = np.array(ids)[assignment.broker_index]
    return [part.tolist() for part in np.split(flat, assignment.offsets[1:-1])]


@pytest.mark.parametrize("case", [e for e in EXAMPLES if e["scheme"] == "kafka_rack_unaware"], ids=lambda e: e["name"])
def test_worked_examples_of_kafka(case: dict) -> None:
    request = batch(case["partitions"], case["replication_factor"], len(case["brokers"]))
    placed = kafka_rack_unaware(request, one(case["start_index"]), one(case["shift"]))
    assert lists(placed, case["brokers"]) == case["replicas"]


@pytest.mark.parametrize("case", [e for e in EXAMPLES if e["scheme"] == "naive"], ids=lambda e: e["name"])
def test_worked_examples_of_naive(case: dict) -> None:
    placed = naive(batch(case["partitions"], case["replication_factor"], len(case["brokers"])))
    assert lists(placed, case["brokers"]) == case["replicas"]


def test_as_kafka_would_with_the_same_seed() -> None:
    assert len(RACK_UNAWARE) == 202
    for case in RACK_UNAWARE:
        n = len(case["brokers"])
        if case["fixed_start_index"] >= 0:
            start = shift = one(case["fixed_start_index"])
        else:
            random = JavaRandom(one(case["seed"]))
            start, shift = random.next_int(one(n)), random.next_int(one(n))
        request = batch(case["partitions"], case["replication_factor"], n, max(0, case["start_partition_id"]))
        placed = kafka_rack_unaware(request, start, shift)
        assert lists(placed, [b["id"] for b in case["brokers"]]) == case["replicas"]
        assert placed.partition[0] == case["first_partition"]


def test_topics_of_a_batch_do_not_touch_each_other() -> None:
    rng = np.random.default_rng(5)
    n = 200
    brokers = rng.integers(1, 20, n)
    requests = TopicBatch(rng.integers(0, 70, n), rng.integers(0, 90, n), rng.integers(1, brokers + 1), brokers)
    start, shift = rng.integers(0, brokers), rng.integers(0, brokers)
    together = kafka_rack_unaware(requests, start, shift)
    at = 0
    for i in range(n):
        alone = batch(*(int(a[i]) for a in (requests.partitions, requests.replication_factor, brokers)))
        alone = TopicBatch(
            alone.partitions, requests.first_partition[i : i + 1], alone.replication_factor, alone.brokers
        )
        expected = kafka_rack_unaware(alone, start[i : i + 1], shift[i : i + 1])
        rows = together.topic == i
        assert together.partition[rows].tolist() == expected.partition.tolist()
        size = len(expected.broker_index)
        assert together.broker_index[at : at + size].tolist() == expected.broker_index.tolist()
        at += size


def test_a_topic_of_100000_partitions_on_one_broker() -> None:
    placed = kafka_rack_unaware(batch(100_000, 1, 1), one(0), one(0))
    assert placed.broker_index.tolist() == [0] * 100_000
