"""Great Expectations over frames: each kind of expectation holds for good rows, and finds faulty ones."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from pipelines.quality.quality_gate import check_tables, require_success
from pipelines.quality.table_rules import Finding
from pipelines.tables import TABLES
from pipelines.tables.silver_tables import PARTITIONS
from pipelines.tables.table_contract import Between, Matches, NoRowWhere, OneOf, Table
from udfs.arrow.columns import INT, INTS, TEXT, column

THINGS = Table(
    "silver.things",
    "things",
    (
        column("id", INT, "id", required=True),
        column("part", INT, "part", required=True),
        column("name", TEXT, "name", required=True),
        column("size", INT, "size"),
        column("kind", TEXT, "kind"),
        column("replicas", INTS, "replicas"),
    ),
    keys=("id", "part"),
    expectations=(
        Between("size", 0, 10),
        Matches("name", r"[a-z.]{1,5}|'\\"),
        OneOf("kind", ("x", "it's")),
        NoRowWhere("replicas_distinct", "size(array_distinct(replicas)) < size(replicas)", "repeats a replica"),
    ),
    gated=True,
)
GOOD = [(1, 0, "ab.", 0, "x", [1, 2]), (1, 1, "'\\", 10, "it's", []), (2, 0, "b", None, None, None)]


def check_things(spark: SparkSession, rows: Sequence[Any], docs_folder: str | None = None) -> dict[str, Finding]:
    nullable = StructType([StructField(f.name, f.dataType, True) for f in THINGS.schema.fields])
    frames = {THINGS.name: spark.createDataFrame(list(rows), nullable)}
    return {f.expectation: f for f in check_tables(frames, docs_folder, {THINGS.name: THINGS})}


def test_good_rows_pass_every_expectation(spark: SparkSession) -> None:
    findings = check_things(spark, GOOD)
    assert list(findings) == [
        "id_not_null",
        "part_not_null",
        "name_not_null",
        "keys_unique",
        "size_between",
        "name_matches",
        "kind_one_of",
        "replicas_distinct",
    ]
    assert {(f.success, f.checked_rows, f.unexpected_rows, f.example) for f in findings.values()} == {
        (True, 3, 0, None)
    }
    require_success(list(findings.values()))


@pytest.mark.parametrize(
    ("rows", "expectation", "unexpected", "example"),
    [
        ([(9, 9, None, 1, "x", [])], "name_not_null", 1, {"id": 9, "part": 9, "name": None}),
        ([(1, 0, "c", 1, "x", [])], "keys_unique", 2, {"id": 1, "part": 0, "rows_with_these_keys": 2}),
        ([(9, 9, "c", -1, "x", []), (9, 8, "c", 1, "x", [])], "size_between", 1, {"id": 9, "part": 9, "size": -1}),
        ([(9, 9, "c", 11, "x", [])], "size_between", 1, {"id": 9, "part": 9, "size": 11}),
        ([(9, 9, "b\n", 1, "x", [])], "name_matches", 1, {"id": 9, "part": 9, "name": "b\n"}),
        ([(9, 9, "abcdef", 1, "x", [])], "name_matches", 1, {"id": 9, "part": 9, "name": "abcdef"}),
        ([(9, 9, "c", 1, "its", [])], "kind_one_of", 1, {"id": 9, "part": 9, "kind": "its"}),
        ([(9, 9, "c", 1, "x", [3, 3])], "replicas_distinct", 1, {"id": 9, "part": 9, "replicas": [3, 3]}),
    ],
)
def test_a_bad_row_is_found_counted_and_shown(
    spark: SparkSession, rows: list[Any], expectation: str, unexpected: int, example: dict[str, Any]
) -> None:
    findings = check_things(spark, GOOD + rows)
    failed = {name: f for name, f in findings.items() if not f.success}
    assert list(failed) == [expectation]
    finding = failed[expectation]
    assert (finding.checked_rows, finding.unexpected_rows) == (len(GOOD + rows), unexpected)
    assert json.loads(finding.example or "") == example


def test_all_faults_of_a_table_are_found_at_once(spark: SparkSession) -> None:
    findings = check_things(spark, [*GOOD, (1, 0, None, 11, "z", [3, 3]), (1, 0, "c", -1, "z", [3, 3])])
    unexpected = {name: f.unexpected_rows for name, f in findings.items() if not f.success}
    assert unexpected == {
        "name_not_null": 1,
        "keys_unique": 3,
        "size_between": 2,
        "kind_one_of": 2,
        "replicas_distinct": 2,
    }


def test_empty_tables_pass(spark: SparkSession) -> None:
    gated = {name: spark.createDataFrame([], table.schema) for name, table in TABLES.items() if table.gated}
    findings = check_tables(gated, None)
    assert {f.table_name for f in findings} == set(gated)
    assert {(f.success, f.checked_rows, f.unexpected_rows) for f in findings} == {(True, 0, 0)}


def test_the_contract_of_partitions_finds_each_kind_of_fault(spark: SparkSession) -> None:
    rows = spark.sql(
        """SELECT 'c' AS cluster_id, 's' AS snapshot_id, 't' AS topic, p AS partition, leader, replicas, isr
        FROM VALUES (0, 1, array(1, 2), array(1)), (1, 3, array(1, 2), array(1)), (2, -1, array(1, 2), array(3)),
        (3, 1, array(1, 1), array(1)), (4, -1, array(), array()) AS v(p, leader, replicas, isr)"""
    )
    others = [
        f"CAST(NULL AS {f.dataType.simpleString()}) AS {f.name}"
        for f in PARTITIONS.schema
        if f.name not in rows.columns
    ]
    frame = rows.selectExpr("*", *(o for o in others if "state_inferred" not in o), "false AS state_inferred")
    findings = {f.expectation: f for f in check_tables({PARTITIONS.name: frame}, None)}
    failed = {name: json.loads(f.example or "{}")["partition"] for name, f in findings.items() if not f.success}
    assert failed == {"leader_in_replicas": 1, "isr_in_replicas": 2, "replicas_distinct": 3, "has_replicas": 4}
    assert {findings[name].unexpected_rows for name in failed} == {1}


def test_a_condition_that_spark_cannot_run_is_an_error(spark: SparkSession) -> None:
    table = Table(
        "silver.broken", "broken", THINGS.columns[:2], (), expectations=(NoRowWhere("no", "nonsense = 1", "is"),)
    )
    frame = spark.createDataFrame([(1, 2)], "id INT, part INT")
    with pytest.raises(RuntimeError, match=r"(?s)silver.broken: .* could not be checked.*nonsense"):
        check_tables({table.name: frame}, None, {table.name: table})


def test_data_docs_show_suite_and_example_and_replace_older_ones(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "warehouse ${HOME} %41" / "data_docs"
    folder.mkdir(parents=True)
    (folder / "old.html").write_text("old", encoding="utf-8")
    check_things(spark, [*GOOD, (9, 9, "c", 1, "x", [31, 31])], str(folder))
    assert "silver.things" in (folder / "index.html").read_text(encoding="utf-8")
    (page,) = folder.glob("validations/**/*.html")
    text = page.read_text(encoding="utf-8")
    assert "repeats a replica" in text
    assert "[31,31]" in text
    assert not (folder / "old.html").exists()
    assert not list(folder.rglob("*.js"))
    for site_page in folder.rglob("*.html"):
        html = site_page.read_text(encoding="utf-8")
        assert "default-src 'none'" in html  # a browser loads nothing, and runs no script
        assert not re.search(r"<script|<link|(?:src|href|url)\s*[=(]\s*[\"']?\s*(?:https?:)?//", html)
    links = re.findall(r'href="([^"]+)"', (folder / "index.html").read_text(encoding="utf-8"))
    assert len(links) == 2
    assert all((folder / unquote(link)).is_file() for link in links)
    assert os.listdir(folder.parent) == ["data_docs"]  # noqa: PTH208 - hidden ones too


def test_nothing_is_printed(spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    check_things(spark, [*GOOD, (1, 0, None, 11, "z", [3, 3])], str(tmp_path / "docs"))
    assert tuple(capfd.readouterr()) == ("", "")


def test_a_table_costs_two_queries(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    queries: list[list[str]] = []
    frame_class = type(spark.range(1))
    collect = frame_class.collect

    def counted(frame: Any) -> Any:
        queries.append(frame.columns)
        return collect(frame)

    monkeypatch.setattr(frame_class, "collect", counted)
    check_things(spark, GOOD)
    assert len(queries) == 2
