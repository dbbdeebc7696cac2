"""Data that a reader ignores because it belongs to another format is quarantined."""

from __future__ import annotations

import json

import pytest

from pipelines.ingest.snapshot_reader import FORMATS, parse_records
from pipelines.ingest.source_format import FactKind, Records

from .facts import check_facts, shorten

ZNODE = json.dumps({"path": "/brokers/topics/t/partitions/0/state", "data": '{"leader":1,"isr":[1],"version":1}'})
DESCRIBE = "\tTopic: orders\tPartition: 0\tLeader: 3\tReplicas: 3,2\tIsr: 3,2"
KCAT = "  partition 0, leader 1, replicas: 1,2, isrs: 1,2"


@pytest.mark.parametrize(
    ("format_name", "context", "raw", "owner"),
    [
        ("metadata-shell", "value of /features", ZNODE, "zookeeper-json"),
        ("metadata-shell", "value of /features", DESCRIBE, "describe"),
        ("kraft-log", None, DESCRIBE, "describe"),
        ("cruise-control", None, ZNODE, "zookeeper-json"),
        ("strimzi-topics", None, KCAT, "kcat"),
    ],
)
def test_data_of_another_format_is_rejected(format_name: str, context: str | None, raw: str, owner: str) -> None:
    form = FORMATS[format_name]
    records = Records.from_rows([(7, context, raw), (8, None, "thanks"), (9, None, "")])
    assert shorten(form.parse_facts(records.slice(0, 1)))[0]["kind"] == FactKind.IGNORED, "else there is nothing to see"
    rows = check_facts(records, parse_records(form.name, records)).to_pylist()
    assert [row["kind"] for row in rows] == [FactKind.REJECTED, FactKind.IGNORED, FactKind.IGNORED]
    assert FORMATS[owner].title in rows[0]["reasons"][0]
    assert (rows[0]["record_number"], rows[0]["line_number"]) == (0, 7)


def test_what_is_not_used_may_be_ignored() -> None:
    form = FORMATS["tool-input"]
    records = form.read_records('{"topics":[{"topic":"orders"}],"version":1}', "x")
    assert parse_records(form.name, records).equals(form.parse_facts(records))
    assert shorten(parse_records(form.name, records))[0]["reasons"] == ["topic to move"]
