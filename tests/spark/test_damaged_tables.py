"""Damaged tables, full disks and odd folders: every command names the table and what to do, and none reads 0 rows."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.cli.query_command import run_query
from pipelines.config.settings import load_settings
from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.report.html_page import write_report
from pipelines.runner import Progress, Run, make_context
from pipelines.spark.arrow_frames import make_rows
from pipelines.spark.store import Store
from pipelines.spark.table_upgrades import CHECKPOINT_INTERVAL
from pipelines.tables import TABLES
from pipelines.tables.ops_tables import RUNS

AT = datetime(2026, 11, 23, tzinfo=UTC)
KEY = SnapshotKey("prod", "1")
ROW = ("prod", "1", "run", "gold.scheme_comparison", 1, 1.0, AT, AT, "1", "{}")
COMPARISON = TABLES["gold.scheme_comparison"]
_COMMITS = CHECKPOINT_INTERVAL + 2  # of ops.runs, after the one that creates it


def fill(spark: SparkSession, warehouse: Path, commits: int = 1, *, is_small: bool = True) -> Store:
    """Write the two tables that a report needs; `commits` is how often rows are added to ops.runs.

    is_small: without Spark.
    """
    store = Store(spark, str(warehouse))
    if not is_small:
        store._is_small = store._has_delta_rs = False
    store.create(COMPARISON)
    for _ in range(commits):
        store.append(RUNS, make_rows([ROW], RUNS.schema))
    return store


@pytest.fixture(scope="module")
def filled(spark_application: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of which one has commits after a checkpoint; copy them."""
    warehouse = tmp_path_factory.mktemp("filled") / "warehouse"
    fill(spark_application, warehouse, _COMMITS, is_small=False)
    return warehouse


def find_data(table: Path) -> Path:
    return next(file for file in sorted(table.glob("*.parquet")))


def overwrite(file: Path) -> None:
    file.write_bytes(os.urandom(file.stat().st_size))


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "middle commit": lambda table: (table / "_delta_log" / f"{_COMMITS - 1:020}.json").unlink(),
    "last commit": lambda table: (table / "_delta_log" / f"{_COMMITS:020}.json").unlink(),
    "garbage": lambda table: overwrite(table / "_delta_log" / f"{_COMMITS:020}.json"),
    "checkpoint": lambda table: overwrite(table / "_delta_log" / f"{CHECKPOINT_INTERVAL:020}.checkpoint.parquet"),
    "data": lambda table: overwrite(find_data(table)),
    "missing data": lambda table: find_data(table).unlink(),
    "no log": lambda table: shutil.rmtree(table / "_delta_log"),
}


@pytest.mark.parametrize("has_delta_rs", [True, False], ids=["delta-rs", "Spark"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_command_names_a_damaged_table(
    spark: SparkSession, filled: Path, tmp_path: Path, damage: str, has_delta_rs: bool
) -> None:
    warehouse = tmp_path / "warehouse"
    shutil.copytree(filled, warehouse)
    table = warehouse / "ops" / "runs"
    DAMAGES[damage](table)
    store = Store(spark, str(warehouse))
    if not has_delta_rs:
        store._has_delta_rs = store._is_small = False
    commands: dict[str, Callable[[], Any]] = {
        "query": lambda: run_query(store, "SELECT * FROM ops.runs", as_json=False),
        "finished stages": lambda: store.read_rows("ops.runs", [KEY], ["stage"]),
        "report": lambda: write_report(store, tmp_path / "report.html"),
    }
    for name, command in commands.items():
        with pytest.raises(StoreError) as raised:
            command()
        problem, remedy = raised.value.args
        assert problem.startswith(f"table ops.runs at {table} is damaged: "), name
        if damage != "checkpoint":
            assert f"move {table} away" in remedy
        assert "\n" not in problem + remedy
    if damage == "checkpoint":  # as the remedy says
        for name in ("_last_checkpoint", f"{CHECKPOINT_INTERVAL:020}.checkpoint.parquet"):
            file = table / "_delta_log" / name
            assert str(file) in remedy
            file.unlink()
        assert len(store.read_rows("ops.runs", [KEY], ["stage"])) == _COMMITS


def test_tables_and_notebooks_name_a_table_without_a_log(spark: SparkSession, filled: Path, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    shutil.copytree(filled, warehouse)
    shutil.rmtree(warehouse / "ops" / "runs" / "_delta_log")
    store = Store(spark, str(warehouse))
    row = make_rows([ROW], RUNS.schema)
    for command in (store.list_tables, store.register_all, lambda: store.append(RUNS, row)):
        with pytest.raises(StoreError, match=r"ops\.runs at .* is damaged: it has data"):
            command()
    shutil.rmtree(warehouse / "ops" / "runs")  # as the error says
    store.append(RUNS, row)
    assert run_query(store, "SELECT count(*) AS n FROM ops.runs", as_json=False)[1][0].n == 1


@pytest.mark.parametrize("name", ["a`b", "a'b\"", "a b%41%", "a#b?c", "ä😀", "a*{b}[c]", "a\nb", "${env:HOME}", "a\\b"])
def test_any_name_of_a_folder_works(spark: SparkSession, tmp_path: Path, name: str) -> None:
    store = fill(spark, tmp_path / name)
    assert store.last_version("ops.runs") == 1
    assert store.read("ops.runs").count() == 1
    assert run_query(store, "SELECT count(*) AS n FROM insights.snapshots", as_json=False)[1][0].n == 1
    assert spark.sql(f"DESCRIBE HISTORY {store._sql_name('ops.runs')}").count() == 2
    assert os.listdir(tmp_path) == [name]  # noqa: PTH208 - hidden ones too


def test_a_name_that_is_not_text_is_rejected(spark: SparkSession) -> None:
    with pytest.raises(StoreError, match="not UTF-8"):
        Store(spark, "warehouse\udcff")


def test_the_loss_of_a_last_commit_is_seen_without_the_checksums_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    store = fill(spark, tmp_path / "warehouse", 2)
    (tmp_path / "warehouse" / "ops" / "runs" / "_delta_log" / f"{2:020}.json").unlink()
    with pytest.raises(StoreError, match=r"ops\.runs at .* is damaged: a commit of its log is lost: .*2\.json"):
        store.read_rows("ops.runs", [KEY], ["stage"])


def test_a_full_disk_names_the_table(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = fill(spark, tmp_path / "warehouse")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pyspark.sql.readwriter.DataFrameWriter.save", fail)
    monkeypatch.setattr("deltalake.write_deltalake", fail)
    for is_small in (True, False):
        store._is_small = is_small
        with pytest.raises(StoreError, match=r"disk is full, while writing table ops\.runs at .*skips finished stages"):
            store.append(RUNS, make_rows([ROW], RUNS.schema))


def test_a_folder_that_disappears_is_named(spark: SparkSession, tmp_path: Path) -> None:
    store = fill(spark, tmp_path / "warehouse")
    store._is_small = False  # otherwise the rows are copied at once
    rows = store.read("ops.runs")
    shutil.rmtree(tmp_path / "warehouse")
    with (
        pytest.raises(StoreError, match=r"folder .*/warehouse of the warehouse has disappeared"),
        store.explain_faults(),
    ):
        rows.collect()


def test_a_run_records_no_secret_of_its_warehouse(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path / "warehouse"))
    settings = load_settings(["store.warehouse=s3a://key:secret@bucket/w?sig=secret"], environ={})
    work = Run(store, make_context([], settings, AT), Progress())
    work._finished_before = {"silver.topics": {KEY: 3}}
    work.go((), clock=lambda: AT)
    (row,) = store.read_rows("ops.runs", [KEY], ["settings"])
    assert "secret" not in row["settings"]
    assert "s3a://***@bucket/w?sig=***" in row["settings"]
    named = Store(spark, settings.store.warehouse)
    assert named.describe_location("gold.plans") == "s3a://***@bucket/w?sig=***"
