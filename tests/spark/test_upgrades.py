"""Warehouses that earlier versions have written are read, continued with all their rows, or refused with a remedy."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from pipelines.cli.query_command import run_query
from pipelines.config.settings import load_settings
from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.maintenance import maintain_tables, read_seen
from pipelines.report.report_data import read_report
from pipelines.spark import delta_rs
from pipelines.spark.store import Store
from pipelines.spark.table_upgrades import TABLE_VERSION, VERSION_PROPERTY, TableState, find_upgrade
from pipelines.spark.view_tables import publish_views
from pipelines.tables import TABLES
from pipelines.verdict.levels import Level
from tests.spark.two_days import AFTER, run_day
from tests.stores import open_without_spark

# Each is a run of two_days.BEFORE by the version of a day, named by its commit. Four are older than TABLE_VERSION.
*REFUSED_ARCHIVES, ARCHIVE = sorted((Path(__file__).parent / "earlier_warehouses").glob("*.tar.gz"))
FIRST = datetime(2026, 11, 21, tzinfo=UTC)
KEY = SnapshotKey("prod", "s")


def extract(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / "tables"


@pytest.fixture(params=REFUSED_ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.gz"))
def refused(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return extract(request.param, tmp_path)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    return extract(ARCHIVE, tmp_path)


def count_rows(store: Store, key: SnapshotKey) -> dict[str, int]:
    names = [name for name, table in TABLES.items() if store.exists(name) and not table.only_newest]
    return {name: store.read_columns(name, ["cluster_id"], [key]).num_rows for name in names}


def test_there_are_warehouses_of_five_versions() -> None:
    assert len(REFUSED_ARCHIVES) >= 4


def test_a_warehouse_is_read_as_it_is(earlier: Path) -> None:
    """Without a run by this version, and without a change to it."""
    before = {file: file.stat().st_mtime_ns for file in earlier.rglob("*") if file.is_file()}
    store = open_without_spark(earlier)
    (cluster,) = read_report(store).clusters
    assert cluster["cluster_id"] == "prod"
    assert len(cluster["brokers"]) == 3
    verdict = cluster["verdict"]
    if not store.exists("gold.cluster_findings"):
        assert verdict.level is Level.UNKNOWN
        assert "run the cluster again" in str(verdict)
    assert read_seen(store)[0].as_of == FIRST
    assert store.list_tables()
    assert {file: file.stat().st_mtime_ns for file in earlier.rglob("*") if file.is_file()} == before


def check_tables(store: Store, names: Iterable[str]) -> None:
    for name in names:
        table, written = TABLES[name], DeltaTable(store.location(name))
        assert {field.name for field in written.schema().fields} == {*table.column_names}, name
        assert written.metadata().configuration[VERSION_PROPERTY] == str(TABLE_VERSION), name
        state = delta_rs.read_state(Path(store.location(name)))
        assert state is not None
        assert find_upgrade(table, state, name).is_empty, name


@pytest.mark.slow
def test_a_warehouse_is_continued(earlier: Path, spark_application: SparkSession) -> None:
    store = Store(spark_application, str(earlier))
    first = read_seen(store)[0].key
    before = count_rows(store, first)
    assert sum(before.values()) > 100
    run = run_day(store.warehouse, 2, AFTER)
    assert count_rows(store, first).items() >= before.items()
    assert {*count_rows(store, run.snapshots[0])} >= {*before}
    check_tables(store, [name for name in run.steps if name in TABLES])
    publish_views(store)
    changes = run_query(store, "SELECT topic, change FROM insights.topic_changes ORDER BY topic", as_json=False)[1]
    assert ("alone", "created") in [tuple(row) for row in changes]
    assert maintain_tables(store, load_settings([], environ={}), datetime(2026, 11, 23, tzinfo=UTC)).deleted == []
    assert read_report(store).clusters[0]["as_of"].startswith("2026-11-22")


@pytest.mark.slow
@pytest.mark.parametrize("has_delta_rs", [True, False], ids=["delta-rs", "Spark"])
def test_tables_that_only_got_columns_are_upgraded(
    refused: Path, spark_application: SparkSession, monkeypatch: pytest.MonkeyPatch, has_delta_rs: bool
) -> None:
    store = Store(spark_application, str(refused))
    before = count_rows(store, read_seen(store)[0].key)
    names = ["silver.brokers", "silver.partitions", "silver.topics"]
    with monkeypatch.context() as patch:
        patch.setattr(store, "_has_delta_rs", has_delta_rs)
        for name in names:
            store.create(TABLES[name])
    check_tables(store, names)
    assert count_rows(store, read_seen(store)[0].key) == before


def write_property(folder: Path) -> None:
    DeltaTable(folder).alter.set_table_properties({VERSION_PROPERTY: "99"}, raise_if_not_exists=False)


def add_column(folder: Path) -> None:
    DeltaTable(folder).alter.add_columns([Field("colour", "string")])


def test_a_warehouse_of_other_columns_is_refused_before_any_table_changes(refused: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in refused.rglob("*") if file.is_file()}
    message = "it has columns that no longer exist: .*Load its sources into another folder: kafka-placement run SOURCE"
    with pytest.raises(StoreError, match=message):
        run_day(refused, 2, AFTER)
    assert {file: file.stat().st_mtime_ns for file in refused.rglob("*") if file.is_file()} == before
    with pytest.raises(StoreError, match=message):
        read_report(open_without_spark(refused))


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "newer": (write_property, "was written by a newer version of kafka-placement: it has tables of version 99"),
    "other columns": (add_column, "has columns that no longer exist: colour. Load its sources into another folder"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_a_table_of_an_unknown_version_is_refused_before_it_changes(
    earlier: Path, change: Callable[[Path], None], message: str
) -> None:
    change(earlier / "silver" / "topics")
    store = open_without_spark(earlier)
    version = store.last_version("silver.topics")
    with pytest.raises(StoreError, match=message):
        run_day(store.warehouse, 2, AFTER)
    assert store.last_version("silver.topics") == version
    assert read_seen(store)[0].as_of == FIRST


def test_a_column_of_another_type_is_refused() -> None:
    table = TABLES["silver.topics"]
    fields = [StructField(f.name, StringType()) if f.name == "partitions" else f for f in table.schema]
    with pytest.raises(StoreError, match="has column partitions with type string, not int"):
        find_upgrade(table, TableState(StructType(fields), 0), "table silver.topics")


def test_an_upgrade_that_stopped_halfway_is_finished(refused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_without_spark(refused)
    table = TABLES["silver.topics"]

    def stop(*_: object, **__: object) -> Iterator[None]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("deltalake.table.TableAlterer.set_table_properties", stop)
        with pytest.raises(KeyboardInterrupt):
            store.create(table)
    store.create(table)
    state = TableState.of_properties(table.schema, DeltaTable(store.location(table.name)).metadata().configuration)
    assert state.version == TABLE_VERSION
