"""The placement kernels, compared with worked examples and with the answers of Kafka's own classes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.placement.placement_requests import (
    ADMIN_UTILS,
    EXAMPLES,
    STRIPED,
    ints,
    make_broker_lists,
    place_admin_utils_case,
    place_striped_case,
    to_lists,
)
from udfs.placement.kernels import admin_utils
from udfs.placement.kernels.java_util import compute_hash_code, find_hash_map_order, scramble_seeds
from udfs.placement.kernels.round_robin import alternate_racks
from udfs.placement.kernels.striped import place_striped
from udfs.placement.kernels.topic_arrays import BrokerLists, ErrorCode, TopicPlacements, Topics, describe_error


def read_error(placed: TopicPlacements, request: dict, brokers: int, topic: int = 0) -> dict[str, str]:
    code, detail = int(placed.error_code[topic]), int(placed.error_detail[topic])
    assert code != ErrorCode.NONE
    topics = Topics.create(ints(request["partitions"]), ints(request["replication_factor"]), ints(0))
    error = describe_error(topics, BrokerLists.create(np.arange(brokers), ints(0, brokers)), 0, code, detail)
    return {"class": error.exception, "message": error.message}


@pytest.mark.parametrize("case", [e for e in EXAMPLES if e["scheme"] != "manual"], ids=lambda e: e["name"])
def test_worked_examples(case: dict) -> None:
    racks = case.get("racks", [None] * len(case["brokers"]))
    brokers = make_broker_lists([{"id": b, "rack": r} for b, r in zip(case["brokers"], racks, strict=True)])
    topics = Topics.create(ints(case["partitions"]), ints(case["replication_factor"]), ints(0))
    if case["scheme"] == "naive":
        placed = admin_utils.place_naive(topics, brokers)
    else:
        no_error = np.zeros(1, dtype=np.int8)
        placed = admin_utils.place_from(topics, brokers, no_error, ints(case["start_index"]), ints(case["shift"]))
    assert to_lists(placed) == [case["replicas"]]


def test_admin_utils_answers() -> None:
    assert len(ADMIN_UTILS) == 400
    for case in ADMIN_UTILS:
        placed = place_admin_utils_case(case)
        if "error" in case:
            assert read_error(placed, case, len(case["brokers"])) == case["error"]
            assert to_lists(placed) == [[]]
        else:
            assert placed.error_code.tolist() == [0]
            assert to_lists(placed) == [case["replicas"]]


def test_striped_placer_answers() -> None:
    assert len(STRIPED) == 400
    for case in STRIPED:
        placed = place_striped_case(case)
        found = to_lists(placed)
        for i, topic in enumerate(case["topics"]):
            if "error" in topic:
                assert read_error(placed, topic, len(case["brokers"]), i) == topic["error"]
            else:
                assert found[i] == topic["replicas"]


def test_selected_partitions_are_placed_as_in_the_whole_topic() -> None:
    ids = [7, 2, 30, 2]
    for case in [c for c in ADMIN_UTILS if "replicas" in c and c["partitions"] > 30 and c["start_partition_id"] < 1][
        :40
    ]:
        placed = admin_utils.place_kafka(
            Topics.create(
                *(ints(case["partitions"]), ints(case["replication_factor"]), ints(0)),
                fixed_start_index=ints(case["fixed_start_index"]),
                partition_ids=ints(*ids),
                partition_id_offsets=ints(0, 4),
            ),
            make_broker_lists(case["brokers"]),
            scramble_seeds(ints(case["seed"])),
        )
        assert to_lists(placed) == [[case["replicas"][p] for p in ids]]
    ids = [70, 2, 30]
    for case in [c for c in STRIPED if c["topics"][0]["partitions"] > 70 and "replicas" in c["topics"][0]][:40]:
        topic = case["topics"][0]
        request = (ints(topic["partitions"]), ints(topic["replication_factor"]), ints(0))
        topics = Topics.create(*request, partition_ids=ints(*ids), partition_id_offsets=ints(0, 3))
        placed = place_striped(topics, make_broker_lists(case["brokers"]), scramble_seeds(ints(case["seed"])))
        assert to_lists(placed) == [[topic["replicas"][p] for p in ids]]


@pytest.mark.parametrize("scheme", ["kafka", "striped"])
def test_topics_of_a_batch_do_not_affect_each_other(scheme: str) -> None:
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
    brokers = BrokerLists.create(ids, offsets, racks, fenced)
    topics = Topics.create(
        *(rng.integers(0, 70, n), rng.integers(0, 8, n), rng.integers(0, m, n)),
        start_partition=rng.integers(-1, 90, n),
        fixed_start_index=rng.integers(-1, 3, n),
    )
    place = admin_utils.place_kafka if scheme == "kafka" else place_striped
    seeds = rng.integers(-(2**62), 2**62, n)
    together = place(topics, brokers, scramble_seeds(seeds))
    assert 20 < (together.error_code != 0).sum() < n - 20
    found = to_lists(together)
    for i in range(n):
        k = int(topics.broker_list[i])
        own = slice(offsets[k], offsets[k + 1])
        alone = place(
            Topics.create(
                *(topics.partitions[i : i + 1], topics.replication_factor[i : i + 1], ints(0)),
                start_partition=topics.start_partition[i : i + 1],
                fixed_start_index=topics.fixed_start_index[i : i + 1],
            ),
            BrokerLists.create(ids[own], ints(0, len(ids[own])), racks[own], fenced[own]),
            scramble_seeds(seeds[i : i + 1]),
        )
        assert alone.error_code[0] == together.error_code[i]
        assert to_lists(alone)[0] == found[i]


def test_a_start_index_that_overflows_is_rejected_as_java_does() -> None:
    topics = Topics.create(ints(4), ints(2), ints(0), fixed_start_index=ints(2**31 - 3))
    placed = admin_utils.place_kafka(
        topics, BrokerLists.create(ints(1, 2, 3, 4, 5), ints(0, 5)), scramble_seeds(ints(1))
    )
    assert read_error(placed, {"partitions": 4, "replication_factor": 2}, 5) == {
        "class": "IndexOutOfBoundsException",
        "message": "Index -3 out of bounds for length 5",
    }
    assert placed.row_offsets.tolist() == [0, 0]


def test_partition_ids_overflow_as_in_java() -> None:
    options = {"start_partition": ints(2**31 - 1), "fixed_start_index": ints(0)}
    topics = Topics.create(ints(2), ints(3), ints(0), **options)
    placed = admin_utils.place_kafka(topics, BrokerLists.create(ints(1, 2, 3, 4), ints(0, 4)), scramble_seeds(ints(1)))
    assert to_lists(placed) == [[[4, 1, 2], [1, 2, 3]]]  # AdminUtils of 4.0.0


def test_a_topic_of_100000_partitions_on_one_broker() -> None:
    one_broker = BrokerLists.create(ints(7), ints(0, 1))
    for place in (admin_utils.place_kafka, place_striped):
        placed = place(Topics.create(ints(100_000), ints(1), ints(0)), one_broker, scramble_seeds(ints(1)))
        assert placed.broker.tolist() == [7] * 100_000


def test_rack_alternation() -> None:
    ids, rack = np.array([5, 2, 1, 0, 4, 3], np.int32), np.array([0, 2, 2, 0, 1, 1], np.int32)
    out, out_rack = np.empty(6, np.int32), np.empty(6, np.int32)
    assert alternate_racks(ids, rack, out, out_rack) == 3
    assert out.tolist() == [0, 3, 1, 5, 4, 2]
    assert out_rack.tolist() == [0, 1, 2, 0, 1, 2]


def test_java_hash_codes() -> None:
    # "Aa" and "BB" are the pair that every Java programmer knows; the rest as JDK 17 prints them.
    values = {"Aa": 2112, "BB": 2112, "": 0, "rack-1": -938608965, "\U0001f600": 1772899}
    assert {text: compute_hash_code(text) for text in values} == values


def test_a_hash_map_grows_before_a_chain_has_nine_keys() -> None:
    # Ten keys of one bucket of 16: at the ninth Java doubles the table, where they fall apart.
    hashes = np.array([i * 16 for i in range(10)], dtype=np.int32)
    out = np.empty(10, dtype=np.int32)
    find_hash_map_order(hashes, out)
    assert out.tolist() == [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]  # OpenJDK 17
