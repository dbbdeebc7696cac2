"""Rows of a query as JSON."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row

from pipelines.cli.query_command import format_cell, format_json_line
from pipelines.errors import StoreError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**62, 2**62),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        ([float("nan"), {"x": float("inf")}], ["NaN", {"x": "Infinity"}]),
        (Decimal("1.50"), "1.50"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3), "2026-01-02 03:00:00"),  # noqa: DTZ001 - as Spark returns it
        (bytearray(b"\x00\xff"), "AP8="),
        (Row(a=1, b=Row(c=None)), {"a": 1, "b": {"c": None}}),
        ({datetime.date(2026, 1, 2): 1}, {"2026-01-02": 1}),
        ({Row(a=1, b="x"): [1]}, {'{"a": 1, "b": "x"}': [1]}),
        ({1: "a", 2: "b"}, {"1": "a", "2": "b"}),
        ({True: 1.0}, {"true": 1.0}),
        ({b"\x00\xff": 1}, {"AP8=": 1}),
    ],
)
def test_a_value_becomes_json(value: Any, expected: Any) -> None:
    def reject_constant(text: str) -> None:
        pytest.fail(f"{text} is not JSON")

    assert json.loads(format_json_line(Row(v=value)), parse_constant=reject_constant) == {"v": expected}


def test_a_struct_with_a_repeated_name_is_rejected() -> None:
    with pytest.raises(StoreError, match="2 columns are named 'a'"):
        format_json_line(Row(v=Row("a", "a")(1, 2)))


def test_values_in_a_printed_table() -> None:
    assert [format_cell(v) for v in (None, 1, b"\x00\xff", "[red]")] == ["", "1", "AP8=", "[red]"]
