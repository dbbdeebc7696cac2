"""The rack-aware kernel against the worked example and Kafka's own answers."""

from __future__ import annotations

import numpy as np

from tests.unit.kernels.test_round_robin import ADMIN_UTILS, EXAMPLES, batch, lists, one
from udfs.kernels.java_random import JavaRandom
from udfs.kernels.rack_aware import alternate_by_rack, kafka_rack_aware


def place(racks: dict[int, str], case: dict, start: np.ndarray, shift: np.ndarray) -> list[list[int]]:
    order = alternate_by_rack(racks)
    names = sorted(set(racks.values()))
    rack = np.array([names.index(racks[b]) for b in order], dtype=np.int64)
    first = max(0, case.get("start_partition_id", 0))
    request = batch(case["partitions"], case["replication_factor"], len(order), first)
    return lists(kafka_rack_aware(request, start, shift, rack, one(0, len(order))), order)


def test_worked_example() -> None:
    (case,) = [e for e in EXAMPLES if e["scheme"] == "kafka_rack_aware"]
    racks = dict(zip(case["brokers"], case["racks"], strict=True))
    assert alternate_by_rack(racks) == [0, 3, 1, 4, 2, 5]
    assert place(racks, case, one(case["start_index"]), one(case["shift"])) == case["replicas"]


def test_as_kafka_would_with_the_same_seed() -> None:
    cases = [c for c in ADMIN_UTILS if "replicas" in c and all(b["rack"] for b in c["brokers"])]
    assert len(cases) > 50
    for case in cases:
        racks = {b["id"]: b["rack"] for b in case["brokers"]}
        if case["fixed_start_index"] >= 0:
            start = shift = one(case["fixed_start_index"])
        else:
            random = JavaRandom(one(case["seed"]))
            start, shift = random.next_int(one(len(racks))), random.next_int(one(len(racks)))
        assert place(racks, case, start, shift) == case["replicas"]
