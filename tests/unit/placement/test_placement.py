"""The placement kernels against the worked examples and the answers of Kafka's own classes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.placement.placement_requests import (
    ADMIN_UTILS,
    EXAMPLES,
    STRIPED,
    ask_admin_utils,
    ask_striped,
    broker_list,
    lists,
    one,
)
from udfs.placement.kernels import admin_utils, kafka_errors
from udfs.placement.kernels.java_hash import hash_map_order, java_hash
from udfs.placement.kernels.java_random import scrambled
from udfs.placement.kernels.rack_aware_round_robin import alternate
from udfs.placement.kernels.striped import striped
from udfs.placement.kernels.topic_arrays import BrokerLists, Placed, Topics


def words(placed: Placed, asked: dict, brokers: int, topic: int = 0) -> dict[str, str]:
    code, detail = int(placed.refusal[topic]), int(placed.detail[topic])
    assert code != kafka_errors.NONE
    name, message = kafka_errors.in_words(code, asked["partitions"], asked["replication_factor"], brokers, detail)
    return {"class": name, "message": message}


@pytest.mark.parametrize("case", [e for e in EXAMPLES if e["scheme"] != "manual"], ids=lambda e: e["name"])
def test_worked_examples(case: dict) -> None:
    racks = case.get("racks", [None] * len(case["brokers"]))
    brokers = broker_list([{"id": b, "rack": r} for b, r in zip(case["brokers"], racks, strict=True)])
    topics = Topics.of(one(case["partitions"]), one(case["replication_factor"]), one(0))
    if case["scheme"] == "naive":
        placed = admin_utils.naive(topics, brokers)
    else:
        good = np.zeros(1, dtype=np.int8)
        placed = admin_utils.place_drawn(topics, brokers, good, one(case["start_index"]), one(case["shift"]))
    assert lists(placed) == [case["replicas"]]


def test_all_of_admin_utils_answers() -> None:
    assert len(ADMIN_UTILS) == 400
    for case in ADMIN_UTILS:
        placed = ask_admin_utils(case)
        if "error" in case:
            assert words(placed, case, len(case["brokers"])) == case["error"]
            assert lists(placed) == [[]]
        else:
            assert placed.refusal.tolist() == [0]
            assert lists(placed) == [case["replicas"]]


def test_all_of_the_striped_placers_answers() -> None:
    assert len(STRIPED) == 400
    for case in STRIPED:
        placed = ask_striped(case)
        found = lists(placed)
        for i, topic in enumerate(case["topics"]):
            if "error" in topic:
                assert words(placed, topic, len(case["brokers"]), i) == topic["error"]
            else:
                assert found[i] == topic["replicas"]


def test_listed_partitions_are_where_they_are_in_the_whole_topic() -> None:
    wanted = [7, 2, 30, 2]
    for case in [c for c in ADMIN_UTILS if "replicas" in c and c["partitions"] > 30 and c["start_partition_id"] < 1][
        :40
    ]:
        placed = admin_utils.kafka(
            Topics.of(
                *(one(case["partitions"]), one(case["replication_factor"]), one(0)),
                fixed_start=one(case["fixed_start_index"]),
                listed=one(*wanted),
                listed_offsets=one(0, 4),
            ),
            broker_list(case["brokers"]),
            scrambled(one(case["seed"])),
        )
        assert lists(placed) == [[case["replicas"][p] for p in wanted]]
    wanted = [70, 2, 30]
    for case in [c for c in STRIPED if c["topics"][0]["partitions"] > 70 and "replicas" in c["topics"][0]][:40]:
        topic = case["topics"][0]
        asked = (one(topic["partitions"]), one(topic["replication_factor"]), one(0))
        topics = Topics.of(*asked, listed=one(*wanted), listed_offsets=one(0, 3))
        placed = striped(topics, broker_list(case["brokers"]), scrambled(one(case["seed"])))
        assert lists(placed) == [[topic["replicas"][p] for p in wanted]]


@pytest.mark.parametrize("scheme", ["kafka", "striped"])
def test_topics_of_a_batch_do_not_touch_each_other(scheme: str) -> None:
    rng = np.random.default_rng(5)
    n, m = 300, 12
    sizes = rng.integers(0, 20, m)
    racks = [
        None if k % 3 == 0 or (k % 3 == 1 and i % 4 == 0) else f"rack {rng.integers(0, 5)}"
        for k, size in enumerate(sizes)
        for i in range(size)
    ]
    ids = np.concatenate([rng.permutation(1000)[:size] for size in sizes])
    offsets = np.append(0, np.cumsum(sizes))
    fenced = rng.random(len(ids)) < 0.2
    brokers = BrokerLists.of(ids, offsets, racks, fenced)
    topics = Topics.of(
        *(rng.integers(0, 70, n), rng.integers(0, 8, n), rng.integers(0, m, n)),
        first_partition=rng.integers(-1, 90, n),
        fixed_start=rng.integers(-1, 3, n),
    )
    place = admin_utils.kafka if scheme == "kafka" else striped
    seeds = rng.integers(-(2**62), 2**62, n)
    together = place(topics, brokers, scrambled(seeds))
    assert 20 < (together.refusal != 0).sum() < n - 20
    found = lists(together)
    for i in range(n):
        k = int(topics.of_list[i])
        mine = slice(offsets[k], offsets[k + 1])
        alone = place(
            Topics.of(
                *(topics.partitions[i : i + 1], topics.replication_factor[i : i + 1], one(0)),
                first_partition=topics.first_partition[i : i + 1],
                fixed_start=topics.fixed_start[i : i + 1],
            ),
            BrokerLists.of(ids[mine], one(0, len(ids[mine])), racks[mine], fenced[mine]),
            scrambled(seeds[i : i + 1]),
        )
        assert alone.refusal[0] == together.refusal[i]
        assert lists(alone)[0] == found[i]


def test_a_start_index_that_overflows_is_rejected_as_java_does() -> None:
    topics = Topics.of(one(4), one(2), one(0), fixed_start=one(2**31 - 3))
    placed = admin_utils.kafka(topics, BrokerLists.of(one(1, 2, 3, 4, 5), one(0, 5)), scrambled(one(1)))
    assert words(placed, {"partitions": 4, "replication_factor": 2}, 5) == {
        "class": "IndexOutOfBoundsException",
        "message": "Index -3 out of bounds for length 5",
    }
    assert placed.row_offsets.tolist() == [0, 0]


def test_partition_ids_beyond_javas_turn_negative() -> None:
    ask = {"first_partition": one(2**31 - 1), "fixed_start": one(0)}
    topics = Topics.of(one(2), one(3), one(0), **ask)
    placed = admin_utils.kafka(topics, BrokerLists.of(one(1, 2, 3, 4), one(0, 4)), scrambled(one(1)))
    assert lists(placed) == [[[4, 1, 2], [1, 2, 3]]]  # AdminUtils of 4.0.0


def test_a_topic_of_100000_partitions_on_one_broker() -> None:
    one_broker = BrokerLists.of(one(7), one(0, 1))
    for place in (admin_utils.kafka, striped):
        placed = place(Topics.of(one(100_000), one(1), one(0)), one_broker, scrambled(one(1)))
        assert placed.broker.tolist() == [7] * 100_000


def test_racks_in_turn() -> None:
    ids, rack = np.array([5, 2, 1, 0, 4, 3], np.int32), np.array([0, 2, 2, 0, 1, 1], np.int32)
    out, out_rack = np.empty(6, np.int32), np.empty(6, np.int32)
    assert alternate(ids, rack, out, out_rack) == 3
    assert out.tolist() == [0, 3, 1, 5, 4, 2]
    assert out_rack.tolist() == [0, 1, 2, 0, 1, 2]


def test_hash_codes_of_java() -> None:
    # "Aa" and "BB" are the pair that every Java programmer knows; the rest as JDK 17 prints them.
    values = {"Aa": 2112, "BB": 2112, "": 0, "rack-1": -938608965, "\U0001f600": 1772899}
    assert {text: java_hash(text) for text in values} == values


def test_a_hash_map_of_colliding_keys_grows_before_its_chains_are_nine_long() -> None:
    # Ten keys of one bucket of 16: at the ninth Java doubles the table, where they fall apart.
    hashes = np.array([i * 16 for i in range(10)], dtype=np.int32)
    out = np.empty(10, dtype=np.int32)
    hash_map_order(hashes, out)
    assert out.tolist() == [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]  # OpenJDK 17
