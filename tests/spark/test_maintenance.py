"""Maintained tables: snapshots that stay have all their rows, others none; interrupted work is finished later."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipelines.config.setting_sections import Settings
from pipelines.config.settings import load_settings
from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.maintenance import RETENTION, maintain_tables, read_seen
from pipelines.retention import SeenSnapshot, choose_expired
from pipelines.spark import delta_rs
from pipelines.spark.store import Store
from pipelines.spark.view_tables import publish_views
from pipelines.spark.views import HISTORY_VIEWS
from tests.bench.year import add_nights, copy_nights
from tests.shared_runs import SmallRun

NIGHTS = 46  # ten of them are old enough for one a week
TABLES_OF_NIGHTS = (
    *("silver.topics", "silver.brokers", "silver.partitions", "silver.source_summary", "internal.entities"),
    *("gold.current_loads", "gold.load_history", "gold.scheme_comparison", "ops.quality_results", "ops.runs"),
)
NOW = datetime(2027, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def nights(spark_application: SparkSession, small_run: SmallRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of a warehouse whose clusters were seen on many nights, those that histories read, and views; copy it."""
    folder = copy_nights(small_run.warehouse, TABLES_OF_NIGHTS, NIGHTS, tmp_path_factory.mktemp("nights"))
    publish_views(Store(spark_application, str(folder)))
    return folder


@pytest.fixture
def store(spark: SparkSession, nights: Path, tmp_path: Path) -> Store:
    return Store(spark, str(shutil.copytree(nights, tmp_path / "warehouse")))


def make_settings(*options: str) -> Settings:
    return load_settings(["retention.unused_file_days=0", *options], environ={})


def read_all(store: Store) -> dict[str, list[str]]:
    """Read the rows of all tables, as texts."""
    folder = Path(store.warehouse)
    names = sorted(f"{log.parent.parent.name}.{log.parent.name}" for log in folder.glob("*/*/_delta_log"))
    return {n: sorted(map(str, DeltaTable(store.location(n)).to_pyarrow_table().to_pylist())) for n in names}


def list_keys(store: Store, name: str) -> set[SnapshotKey]:
    rows = DeltaTable(store.location(name)).to_pyarrow_table().to_pylist()
    return {SnapshotKey(row["cluster_id"], row["snapshot_id"]) for row in rows if row.get("stage") != RETENTION}


def test_old_snapshots_go_and_others_stay_as_they_were(store: Store) -> None:
    seen, before = read_seen(store), read_all(store)
    expired = choose_expired(seen, make_settings().retention, NOW)
    assert 0 < len(expired) < len({one.key for one in seen})
    names = ("silver.partitions", "gold.current_loads", "internal.entities", "ops.quality_results")
    keys = {name: list_keys(store, name) for name in names}
    result = maintain_tables(store, make_settings(), NOW)
    assert {SnapshotKey(one.cluster_id, one.snapshot_id) for one in result.deleted} == expired
    assert all(one.rows > 0 for one in result.deleted)
    assert {one.name for one in result.compacted} >= {"silver.partitions", "ops.runs", "gold.load_history"}
    after = read_all(store)
    for name in names:
        assert list_keys(store, name) == keys[name] - expired, name
        assert set(after[name]) <= set(before[name]), name
    assert after["gold.load_history"] == before["gold.load_history"]  # growth needs it
    files = [file for file in Path(store.warehouse).rglob("*.parquet") if "_delta_log" not in file.parts]
    assert len(files) == sum(
        len(DeltaTable(str(log.parent)).file_uris()) for log in Path(store.warehouse).glob("*/*/_delta_log")
    )
    assert {(one.cluster_id, one.as_of) for one in read_seen(store, stages=("gold.scheme_comparison", RETENTION))} == {
        (one.cluster_id, one.as_of) for one in seen
    }
    again = maintain_tables(store, make_settings(), NOW)
    assert (again.deleted, again.compacted, again.removed_files) == ([], [], 0)


def test_views_show_the_snapshots_that_stay(store: Store) -> None:
    maintain_tables(store, make_settings(), NOW)
    left = {one.key for one in read_seen(store)}
    for is_published in (False, True, True):  # maintenance does it, as it has deleted rows
        if is_published:
            publish_views(store)
        rows = DeltaTable(store.location("insights.snapshots")).to_pyarrow_table()
        assert {SnapshotKey(row["cluster_id"], row["snapshot_id"]) for row in rows.to_pylist()} == left
    history = DeltaTable(store.location("insights.metric_history")).to_pyarrow_table()
    numbers = {row["number"] for row in history.to_pylist()}
    assert numbers == set(range(1, max(rows["number"].to_pylist()) + 1))


def test_a_time_in_the_future_makes_no_snapshot_old(store: Store) -> None:
    seen, retention = read_seen(store), make_settings().retention
    last = max(one.as_of for one in seen)
    wrong = seen[-1]._replace(snapshot_id="wrong", as_of=last.replace(year=last.year + 9))
    assert choose_expired([*seen, wrong], retention, NOW) == choose_expired(seen, retention, NOW)
    assert choose_expired([wrong], retention, NOW) == set()


def test_snapshots_of_runs_that_did_not_finish_stay_as_long_as_all_others(store: Store) -> None:
    seen, retention = read_seen(store), make_settings().retention
    cluster, last = seen[0].cluster_id, max(one.as_of for one in seen if one.cluster_id == seen[0].cluster_id)
    begun = [
        SeenSnapshot(cluster, f"{days}", last - timedelta(days=days), last) for days in (0, retention.all_days, 36, 400)
    ]
    expired = choose_expired(seen, retention, NOW, [*seen, *begun])
    assert expired - choose_expired(seen, retention, NOW) == {SnapshotKey(cluster, "36"), SnapshotKey(cluster, "400")}


def test_a_full_disk_is_freed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unused files go before anything is written."""

    def stop(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    maintain_tables(store, make_settings("retention.unused_file_days=9", "retention.max_files=2"), NOW)
    monkeypatch.setattr(store, "append", stop)
    monkeypatch.setattr(store, "delete", stop)
    count = sum(1 for _ in Path(store.warehouse).rglob("*.parquet"))
    with pytest.raises(OSError, match="No space left"):
        maintain_tables(store, make_settings("retention.all_days=5"), NOW)
    assert sum(1 for _ in Path(store.warehouse).rglob("*.parquet")) < count


@pytest.mark.parametrize("step", [0, 1, 5, 99])
def test_maintenance_that_stopped_halfway_is_finished_by_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    calls = iter(range(1000))
    delete: Callable[..., None] = store.delete

    def stop(*arguments: Any) -> None:
        if next(calls) == step:
            raise StoreError("the disk is full")
        delete(*arguments)

    expired = choose_expired(read_seen(store), make_settings().retention, NOW)
    with monkeypatch.context() as broken:
        broken.setattr(store, "delete", stop)
        if step < 99:
            with pytest.raises(StoreError, match="disk is full"):
                maintain_tables(store, make_settings(), NOW)
        else:
            maintain_tables(store, make_settings("retention.all_days=40"), NOW)
    maintain_tables(store, make_settings(), NOW + timedelta(days=1))
    for name in ("silver.partitions", "silver.source_summary", "gold.current_loads", "ops.runs"):
        assert not list_keys(store, name) & expired, name
    rows = store.read_rows("ops.runs", sorted(expired), ["cluster_id", "snapshot_id", "as_of", "stage"])
    recorded = [tuple(row.values()) for row in rows if row["stage"] == RETENTION]
    assert len(recorded) == len(set(recorded)), "a deletion is recorded once"


def test_a_history_gets_the_rows_of_new_snapshots_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """And all rows again if earlier snapshots changed."""
    conditions: dict[str, str] = {}
    overwrite = delta_rs.overwrite_table

    def note(folder: Path, *arguments: str) -> None:
        conditions[f"insights.{folder.name}"] = arguments[-1]
        overwrite(folder, *arguments)

    monkeypatch.setattr(delta_rs, "overwrite_table", note)
    alike = {"insights.finding_changes"}  # has no rows, as the nights are alike
    whole = {"insights.snapshots", "insights.forecast_accuracy"}  # without numbers
    histories = [name for name in HISTORY_VIEWS if name not in {*whole, *alike}]
    add_nights(Path(store.warehouse), 2, first=NIGHTS)
    publish_views(store)
    assert all(f"number >= {NIGHTS + 1}" in conditions[name] for name in histories)
    rows = {name: DeltaTable(store.location(name)).to_pyarrow_table() for name in histories}
    session = store.open_sql(histories)
    for name in histories:
        expected = session.run(f"SELECT * FROM {name}").to_pylist()
        assert sorted(map(str, rows[name].to_pylist())) == sorted(map(str, expected)), name
    conditions.clear()
    version = store.last_version("insights.topic_changes")
    store.delete("gold.current_loads", [read_seen(store)[0].key])
    publish_views(store)
    assert conditions["insights.hottest_broker_history"] == ""
    assert store.last_version("insights.topic_changes") == version


def test_histories_of_many_files_are_written_to_few(store: Store) -> None:
    """Views of the history have no snapshot id by which their rows could be sorted."""
    name = "insights.metric_history"
    for night in range(3):
        add_nights(Path(store.warehouse), 1, first=NIGHTS + night)
        publish_views(store)
    before = read_all(store)[name]
    assert store.count_files(name) > 3
    result = maintain_tables(store, make_settings("retention.max_files=3", "retention.all_days=0"), NOW)
    assert name in {one.name for one in result.compacted}
    assert store.count_files(name) == 1
    assert read_all(store)[name] == before


def test_spark_maintains_tables_that_delta_rs_cannot(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for log in [*Path(store.warehouse).glob("*/*/_delta_log")]:
        folder = log.parent
        if folder.name not in ("brokers", "runs"):
            shutil.rmtree(folder)
    expired = choose_expired(read_seen(store), make_settings().retention, NOW)
    rows = read_all(store)
    monkeypatch.setattr(store, "_has_delta_rs", False)
    monkeypatch.setattr(store, "_is_small", False)
    result = maintain_tables(store, make_settings("retention.unused_file_days=7"), NOW)
    assert {SnapshotKey(one.cluster_id, one.snapshot_id) for one in result.deleted} == expired
    left = read_all(store)["silver.brokers"]
    assert 0 < len(left) < len(rows["silver.brokers"])
    assert set(left) < set(rows["silver.brokers"])
    assert not list_keys(store, "silver.brokers") & expired
