"""Requests as the golden files write them, for the kernels; and their answers back as lists."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from udfs.placement.kernels import admin_utils
from udfs.placement.kernels.java_random import scrambled
from udfs.placement.kernels.striped import striped
from udfs.placement.kernels.topic_arrays import BrokerLists, Placed, Topics

GOLDEN = Path(__file__).parents[2] / "golden"
EXAMPLES = json.loads((GOLDEN / "worked_examples.json").read_text())
ADMIN_UTILS = [json.loads(line) for line in (GOLDEN / "adminutils.jsonl").read_text().splitlines()]
STRIPED = [json.loads(line) for line in (GOLDEN / "striped.jsonl").read_text().splitlines()]


def one(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def broker_list(brokers: list[dict]) -> BrokerLists:
    fenced = np.array([b.get("fenced", False) for b in brokers], dtype=np.bool_)
    return BrokerLists.of(one(*(b["id"] for b in brokers)), one(0, len(brokers)), [b["rack"] for b in brokers], fenced)


def lists(placed: Placed) -> list[list[list[int]]]:
    """The replica lists of each topic."""
    rows = [part.tolist() for part in np.split(placed.broker, placed.replica_offsets[1:-1])]
    return [rows[a:b] for a, b in zip(placed.row_offsets[:-1], placed.row_offsets[1:], strict=True)]


def ask_admin_utils(case: dict) -> Placed:
    topics = Topics.of(
        *(one(case["partitions"]), one(case["replication_factor"]), one(0)),
        first_partition=one(case["start_partition_id"]),
        fixed_start=one(case["fixed_start_index"]),
    )
    return admin_utils.kafka(topics, broker_list(case["brokers"]), scrambled(one(case["seed"])))


def ask_striped(case: dict) -> Placed:
    asked = case["topics"]
    partitions, factor = one(*(t["partitions"] for t in asked)), one(*(t["replication_factor"] for t in asked))
    shared = np.zeros(len(asked), dtype=np.int64)
    topics = Topics.of(partitions, factor, shared, stream=shared)
    return striped(topics, broker_list(case["brokers"]), scrambled(one(case["seed"])))
