"""Assignments by hand: the worked examples, and what is rejected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.assignment.topic_assigner import parse_manual_assignment

EXAMPLES = json.loads((Path(__file__).parents[2] / "golden" / "worked_examples.json").read_text())


@pytest.mark.parametrize("case", [e for e in EXAMPLES if e["scheme"] == "manual"], ids=lambda e: e["name"])
def test_worked_examples(case: dict) -> None:
    assert parse_manual_assignment("t", case["replica_assignment"], case["brokers"]) == case["replicas"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0:1,1:1", "topic orders, partition 1, replicas '1:1': broker 1 is repeated"),
        ("0:1,2", "partition 1, replicas '2': 1 replica, but partition 0 has 2"),
        ("0:9", "there is no broker 9"),
        ("0:x", "broker ids are numbers"),
        ("", "broker ids are numbers"),
    ],
)
def test_what_is_rejected(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_manual_assignment("orders", text, [0, 1, 2])
