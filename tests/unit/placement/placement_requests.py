"""Requests of the golden files as input of the kernels, and the kernels' output as lists."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from udfs.placement.kernels import admin_utils
from udfs.placement.kernels.java_util import scramble_seeds
from udfs.placement.kernels.striped import place_striped
from udfs.placement.kernels.topic_arrays import BrokerLists, TopicPlacements, Topics

GOLDEN = Path(__file__).parents[2] / "golden"
EXAMPLES = json.loads((GOLDEN / "worked_examples.json").read_text())
ADMIN_UTILS = [json.loads(line) for line in (GOLDEN / "adminutils.jsonl").read_text().splitlines()]
STRIPED = [json.loads(line) for line in (GOLDEN / "striped.jsonl").read_text().splitlines()]


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def make_broker_lists(brokers: list[dict]) -> BrokerLists:
    fenced = np.array([b.get("fenced", False) for b in brokers], dtype=np.bool_)
    return BrokerLists.create(
        ints(*(b["id"] for b in brokers)), ints(0, len(brokers)), [b["rack"] for b in brokers], fenced
    )


def to_lists(placed: TopicPlacements) -> list[list[list[int]]]:
    """Return the replica lists of each topic."""
    rows = [part.tolist() for part in np.split(placed.broker, placed.replica_offsets[1:-1])]
    return [rows[a:b] for a, b in zip(placed.row_offsets[:-1], placed.row_offsets[1:], strict=True)]


def place_admin_utils_case(case: dict) -> TopicPlacements:
    topics = Topics.create(
        *(ints(case["partitions"]), ints(case["replication_factor"]), ints(0)),
        start_partition=ints(case["start_partition_id"]),
        fixed_start_index=ints(case["fixed_start_index"]),
    )
    return admin_utils.place_kafka(topics, make_broker_lists(case["brokers"]), scramble_seeds(ints(case["seed"])))


def place_striped_case(case: dict) -> TopicPlacements:
    partitions, factor = (ints(*(t[name] for t in case["topics"])) for name in ("partitions", "replication_factor"))
    shared = np.zeros(len(partitions), dtype=np.int64)
    topics = Topics.create(partitions, factor, shared, generator=shared)
    return place_striped(topics, make_broker_lists(case["brokers"]), scramble_seeds(ints(case["seed"])))
