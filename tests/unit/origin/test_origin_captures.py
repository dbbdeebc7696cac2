"""The origin of the topics of two captured clusters."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.origin.origin_topics import find_origins_of

_LINE = re.compile(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: \S+\s+Replicas: (\S+)")
# Placed by hand when the cluster was set up: a partition has two replicas in one rack, or racks are out of turn.
BY_HAND = {
    *("orders.v2-113", "users.raw-041", "fraud.v2-114", "inventory.raw-053", "ship.v1-068", "inventory.dlq-081"),
    *("ship.v2-048", "audit.dlq-006", "payments.v2-099", "clicks.v2-080", "search.agg-008"),
}


def topics_of(describe: Path) -> dict[str, dict[int, list[int]]]:
    topics: dict[str, dict[int, list[int]]] = {}
    for name, partition, replicas in _LINE.findall(describe.read_text()):
        topics.setdefault(name, {})[int(partition)] = [int(b) for b in replicas.split(",")]
    return topics


def test_2_8_2_placed_over_an_order_that_is_not_by_id(samples: Path) -> None:
    topics = topics_of(samples / "kafka-2.8.2-zookeeper" / "topics-describe.txt")
    found = dict(zip(topics, find_origins_of(list(topics.values()), range(1000, 1005)), strict=True))
    assert {name for name, f in found.items() if f["origin"] != "kafka"} == {"topicB"}
    assert (
        found["topicB"]["origin"],
        found["topicB"]["matching_schemes"],
        found["topicB"]["first_mismatch_partition"],
    ) == ("none", [], 1)
    del found["topicB"]
    orders = {tuple(f["broker_order"]) for f in found.values()}
    assert orders == {(1000, 1001, 1003, 1004, 1002)}  # up to rotation 1003, 1004, 1002, 1000, 1001
    assert all(f["matching_schemes"] == ["kafka"] and f["evidence"] > 0 for f in found.values())
    assert (found["wide"]["start_index"], found["wide"]["shift"], found["wide"]["evidence"]) == (2, 1, 73)


def test_4_1_1_is_striped_except_for_manually_placed_topics(samples: Path) -> None:
    topics = topics_of(samples / "kafka-4.1.1-kraft" / "topics-describe.txt")
    found = dict(zip(topics, find_origins_of(list(topics.values()), range(6), ["r0", "r1", "r2"] * 2), strict=True))
    assert {name for name, f in found.items() if f["origin"] == "none"} == BY_HAND
    assert {f["origin"] for name, f in found.items() if name not in BY_HAND} == {"kraft"}
    assert all("kraft" not in found[name]["matching_schemes"] for name in BY_HAND)
