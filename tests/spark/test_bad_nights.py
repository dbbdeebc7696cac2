"""Nights that go wrong: loaded in another order or twice, under another cluster's name, killed, or on a full disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipelines.config.settings import load_settings
from pipelines.errors import StoreError
from pipelines.maintenance import maintain_tables
from pipelines.spark.replaced_clusters import find_replaced_clusters
from pipelines.spark.store import Store
from pipelines.spark.view_tables import publish_views
from pipelines.spark.views import VIEWS
from pipelines.tables import TABLES
from tests.bench.year import add_nights, copy_nights
from tests.shared_runs import SharedFolder, SmallRun
from tests.spark.two_days import AFTER, BEFORE, create_warehouse, run_day
from tests.stores import open_without_spark

NOW = datetime(2027, 3, 1, tzinfo=UTC)
NIGHTS = 8
TABLES_OF_NIGHTS = ("silver.partitions", "silver.source_summary", "gold.current_loads", "gold.load_history", "ops.runs")


def read_tables(store: Store, names: Iterator[str] | list[str]) -> dict[str, list[str]]:
    return {
        name: sorted(map(str, DeltaTable(store.location(name)).to_pyarrow_table().to_pylist()))
        for name in names
        if store.exists(name)
    }


@pytest.fixture(scope="module")
def nights(small_run: SmallRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some tables of a warehouse after several nights; copy it."""
    return copy_nights(small_run.warehouse, TABLES_OF_NIGHTS, NIGHTS, tmp_path_factory.mktemp("bad_nights"))


@pytest.mark.slow
def test_nights_loaded_in_the_wrong_order(
    shared_folder: SharedFolder, spark_application: SparkSession, tmp_path: Path
) -> None:
    """All views, growth and forecasts are as if each night had been loaded in its turn."""
    in_order = Store(
        spark_application, str(shutil.copytree(create_warehouse(shared_folder), tmp_path / "a") / "tables")
    )
    store = Store(spark_application, str(tmp_path / "tables"))
    for day, text in ((2, AFTER), (1, BEFORE)):
        run_day(store.warehouse, day, text)
        publish_views(store)
    publish_views(in_order)
    names = [*(view.name for view in VIEWS), *(name for name, table in TABLES.items() if table.only_newest)]
    expected = read_tables(in_order, names)
    assert expected["insights.topic_changes"]
    assert read_tables(store, names) == expected
    before = read_tables(store, names)
    run_day(store.warehouse, 2, AFTER)  # the same night twice
    publish_views(store)
    assert read_tables(store, names) == before


def test_another_cluster_under_the_same_name(
    shared_folder: SharedFolder, spark_application: SparkSession, tmp_path: Path
) -> None:
    folder = shutil.copytree(create_warehouse(shared_folder), tmp_path / "days")
    store = Store(spark_application, str(folder / "tables"))
    assert list(find_replaced_clusters(store, run_day(store.warehouse, 2, AFTER).snapshots)) == []
    other = AFTER
    for letter in "ABCD":
        other = other.replace(letter * 22, chr(ord(letter) + 4) * 22)
    run = run_day(store.warehouse, 3, other)
    (warning,) = find_replaced_clusters(store, run.snapshots)
    assert warning.startswith("prod: none of its 4 topics is one of the 4 in the snapshot before, as of 2026-11-22")


@pytest.mark.parametrize("calls", [1, 4, 7], ids=lambda calls: f"after {calls} commits")
def test_maintenance_that_is_killed_loses_nothing(nights: Path, tmp_path: Path, calls: int) -> None:
    """It is killed right after a commit; the next one leaves the rows that it would have left."""
    options = ["retention.all_days=3", "retention.max_files=3", "retention.unused_file_days=0"]
    expected = open_without_spark(shutil.copytree(nights, tmp_path / "expected"))
    maintain_tables(expected, load_settings(options, environ={}), NOW)
    warehouse = shutil.copytree(nights, tmp_path / "warehouse")
    code = f"""
import os, signal
from datetime import UTC, datetime
from pipelines.spark import delta_rs, table_files
from pipelines.maintenance import maintain_tables
from pipelines.config.settings import load_settings
from tests.stores import open_without_spark
calls = iter(range(1, 1000))
def kill_after(function):
    def call(*arguments, **options):
        result = function(*arguments, **options)
        if next(calls) == {calls}:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call
delta_rs.write_rows, delta_rs.delete_snapshots = kill_after(delta_rs.write_rows), kill_after(delta_rs.delete_snapshots)
table_files.compact_table = kill_after(table_files.compact_table)
store = open_without_spark({str(warehouse)!r})
maintain_tables(store, load_settings({options!r}, environ={{}}), datetime(2027, 3, 1, tzinfo=UTC))
"""
    process = subprocess.run([sys.executable, "-c", code], check=False, env=os.environ)
    assert process.returncode == -signal.SIGKILL
    store = open_without_spark(warehouse)
    maintain_tables(store, load_settings(options, environ={}), NOW + timedelta(days=1))
    for name in TABLES_OF_NIGHTS[:-1]:
        assert read_tables(store, [name]) == read_tables(expected, [name]), name


def test_readers_during_maintenance(nights: Path, tmp_path: Path) -> None:
    """They read the rows of the version that they have opened, or say that its files are gone."""
    store = open_without_spark(shutil.copytree(nights, tmp_path / "warehouse"))
    sql = "SELECT cluster_id, count(*) AS n FROM gold.current_loads GROUP BY ALL ORDER BY ALL"
    expected = store.open_sql(["gold.current_loads"]).run(sql)
    for days, is_readable in ((7, True), (0, False)):
        session = store.open_sql(["gold.current_loads"])
        options = [f"retention.unused_file_days={days}", "retention.max_files=2", "retention.all_days=0"]
        assert maintain_tables(store, load_settings(options, environ={}), NOW)
        if is_readable:
            assert session.run(sql) == expected
            add_nights(Path(store.warehouse), 3, first=NIGHTS)
        else:
            with pytest.raises(StoreError, match=r"table gold.current_loads at .* is damaged: .*Failed to open"):
                session.run(sql)
    assert store.open_sql(["gold.current_loads"]).run(sql).num_rows


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with little room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], check=False).returncode:
        pytest.skip("this user cannot mount a small disk")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.parametrize("free_bytes", [5_000, 30_000])
def test_a_disk_that_fills_during_maintenance(nights: Path, full_disk: Path, free_bytes: int) -> None:
    store = open_without_spark(shutil.copytree(nights, full_disk / "warehouse"))
    settings = load_settings(["retention.all_days=0", "retention.max_files=3"], environ={})
    before = read_tables(store, list(TABLES_OF_NIGHTS))
    ballast = full_disk / "ballast"
    room: Any = os.statvfs(full_disk)
    ballast.write_bytes(bytes(room.f_bavail * room.f_bsize - free_bytes))
    with pytest.raises(StoreError, match="the disk is full, while writing table"):
        maintain_tables(store, settings, NOW)
    assert read_tables(store, list(TABLES_OF_NIGHTS)) == before
    ballast.unlink()
    assert maintain_tables(store, settings, NOW).compacted
    assert read_tables(store, list(TABLES_OF_NIGHTS)) == before
