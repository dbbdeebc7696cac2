"""Warehouses that earlier versions have written are continued with all their rows, or refused with a remedy."""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.table import TableAlterer
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from pipelines.cli.query_command import run_query
from pipelines.config.settings import load_settings
from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.maintenance import maintain_tables, read_seen
from pipelines.report.report_data import read_report
from pipelines.spark import delta_rs
from pipelines.spark.store import Store
from pipelines.spark.table_migrations import check_migrated, migrate_tables
from pipelines.spark.table_upgrades import TABLE_VERSION, VERSION_PROPERTY, TableState, find_upgrade
from pipelines.spark.view_tables import publish_views
from pipelines.tables import TABLES
from pipelines.tables.earlier_tables import COLUMNS, METRICS, REMOVED_ROWS, TABLE_NAMES
from pipelines.verdict.verdict_points import Level
from tests.commands import call
from tests.spark.two_days import AFTER, BEFORE, make_run, run_day
from tests.stores import open_without_spark

# Each is a run of two_days.BEFORE by the version of a day, named by its commit. The tables of the last one have version
# TABLE_VERSION, those of the others are older than versions.
REFUSED_ARCHIVE, *EARLIER_ARCHIVES, ARCHIVE = sorted((Path(__file__).parent / "earlier_warehouses").glob("*.tar.gz"))
FIRST = datetime(2026, 11, 21, tzinfo=UTC)
KEY = SnapshotKey("prod", "s")

Rows = dict[str, list[dict[str, Any]]]  # by table


def extract(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / "tables"


def name_archive(archive: Path) -> str:
    return archive.name.removesuffix(".tar.gz")


@pytest.fixture(params=EARLIER_ARCHIVES, ids=name_archive)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return extract(request.param, tmp_path)


@pytest.fixture
def latest_earlier(tmp_path: Path) -> Path:
    return extract(EARLIER_ARCHIVES[-1], tmp_path)


@pytest.fixture
def current(tmp_path: Path) -> Path:
    return extract(ARCHIVE, tmp_path)


@pytest.fixture(params=[*EARLIER_ARCHIVES, ARCHIVE], ids=name_archive)
def continued(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return extract(request.param, tmp_path)


def list_files(warehouse: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in warehouse.rglob("*") if file.is_file()}


def read_rows(warehouse: Path) -> Rows:
    """Read the rows of all tables, without regard to their contracts."""
    logs = sorted(warehouse.glob("*/*/_delta_log"))
    tables = {".".join(log.parent.relative_to(warehouse).parts): DeltaTable(log.parent) for log in logs}
    rows = {name: table.to_pyarrow_dataset().to_table().to_pylist() for name, table in tables.items()}
    return {name: sorted(values, key=str) for name, values in rows.items()}


def count_rows(store: Store, key: SnapshotKey) -> dict[str, int]:
    names = [name for name, table in TABLES.items() if store.exists(name) and not table.only_newest]
    return {name: store.read_columns(name, ["cluster_id"], [key]).num_rows for name in names}


def check_tables(warehouse: Path, names: Iterable[str]) -> None:
    for name in names:
        table, folder = TABLES[name], warehouse / name.replace(".", "/")
        written = DeltaTable(folder)
        assert {field.name for field in written.schema().fields} == {*table.column_names}, name
        assert written.metadata().configuration[VERSION_PROPERTY] == str(TABLE_VERSION), name
        state = delta_rs.read_state(folder)
        assert state is not None
        assert find_upgrade(table, state, name).is_empty, name


def check_rows(before: Rows, after: Rows) -> None:
    """Check that migrated tables have all rows that they had, in columns of the names that they have now."""
    for earlier_name, rows in before.items():
        if earlier_name.startswith("insights."):
            continue
        name = TABLE_NAMES.get(earlier_name, earlier_name)
        assert earlier_name in after or earlier_name in TABLE_NAMES
        if name in REMOVED_ROWS:
            assert after[name] == []
            continue
        columns = COLUMNS.get(name, {})
        kept = [{columns.get(key) or key: v for key, v in row.items() if columns.get(key, key)} for row in rows]
        if name == "ops.runs":
            kept = [{**row, "stage": TABLE_NAMES.get(row["stage"], row["stage"])} for row in kept]
        added = dict.fromkeys(TABLES[name].column_names)
        expected = [{key: {**added, **row}[key] for key in added} for row in kept]
        assert after[name] == sorted(expected, key=str), name
    check_metrics(before, after["gold.plan_metrics"])


def check_metrics(before: Rows, metrics: list[dict[str, Any]]) -> None:
    """Check gold.plan_metrics by the view that had most of them, and the columns that had the others."""
    keys = ("cluster_id", "goal", "metric", "before", "after", "lower_bound")
    others = ("under_replicated_partitions", "fullest_broker_bytes")
    of_view = [{key: row[key] for key in keys} for row in metrics if row["metric"] not in others]
    unknown = {f"{metric}_after" for metric in METRICS} - before["gold.plans"][0].keys()
    known = [row for row in of_view if f"{row['metric']}_after" not in unknown]
    assert sorted(known, key=str) == sorted(before["insights.plan_metrics"], key=str)
    assert all(row["before"] is row["after"] is None for row in of_view if row not in known)
    by_goal = {row["goal"]: row for row in before["gold.plans"]}
    assert len(metrics) == (len(METRICS) + 3) * len(by_goal)
    for row in metrics:
        if row["metric"] in others:
            plan = by_goal[row["goal"]]
            assert (row["before"], row["after"]) == (plan[f"{row['metric']}_before"], plan[f"{row['metric']}_after"])


def test_there_are_warehouses_of_five_versions() -> None:
    assert len(EARLIER_ARCHIVES) >= 3


def test_a_warehouse_of_this_version_is_read_as_it_is(current: Path) -> None:
    """Without a run by this version, and without a change to it."""
    before = list_files(current)
    store = open_without_spark(current)
    check_migrated(store)
    assert migrate_tables(store) == []
    (cluster,) = read_report(store).clusters
    assert cluster["cluster_id"] == "prod"
    assert len(cluster["brokers"]) == 3
    assert read_seen(store)[0].as_of == FIRST
    assert store.list_tables()
    assert list_files(current) == before


def test_readers_refuse_an_earlier_warehouse_and_do_not_change_it(earlier: Path) -> None:
    before = list_files(earlier)
    message = "was written by an earlier version of kafka-placement, .* kafka-placement maintain --warehouse DIR"
    with pytest.raises(StoreError, match=message):
        read_report(open_without_spark(earlier))
    commands = (("report", "-"), ("query", "SELECT * FROM ops.runs"), ("sql",), ("tables",))
    for command in commands:
        error = call(*command, "--warehouse", str(earlier), code=1).stderr
        assert re.search(message, " ".join(error.split())), error
    assert list_files(earlier) == before


def test_a_warehouse_is_migrated(earlier: Path) -> None:
    before = read_rows(earlier)
    store = open_without_spark(earlier)
    names = migrate_tables(store)
    assert {*names} == {*filter(store.exists, TABLES)}
    after = read_rows(earlier)
    assert not after.keys() & {*TABLE_NAMES, "insights.plan_metrics"}
    check_rows(before, after)
    check_tables(earlier, names)
    versions = list_files(earlier)
    assert migrate_tables(store) == migrate_tables(open_without_spark(earlier)) == []
    assert list_files(earlier) == versions


def test_maintain_upgrades_and_the_report_and_the_views_have_the_rows(earlier: Path, tmp_path: Path) -> None:
    before = read_rows(earlier)
    output = call("maintain", "--warehouse", str(earlier)).stdout
    assert re.search(r"^3\d tables of an earlier version upgraded, with all rows\.$", output, re.MULTILINE)
    check_rows(before, read_rows(earlier))
    store = open_without_spark(earlier)
    (cluster,) = read_report(store).clusters
    assert len(cluster["brokers"]) == 3
    assert cluster["headroom"]
    verdict = cluster["verdict"]
    assert verdict.level is Level.UNKNOWN  # gold.cluster_findings came later
    assert "run the cluster again" in str(verdict)
    for view in ("hottest_brokers", "broker_failure_risk", "metric_history"):
        rows = store.open_sql([f"insights.{view}"]).run(f"SELECT * FROM insights.{view}")
        assert rows.num_rows > 0
        assert DeltaTable(earlier / "insights" / view).to_pyarrow_dataset().count_rows() == rows.num_rows
    call("report", str(tmp_path / "page.html"), "--warehouse", str(earlier))
    assert "upgraded" not in call("maintain", "--warehouse", str(earlier)).stdout


@pytest.mark.slow
@pytest.mark.parametrize("place", ["folder", "URL"])
def test_spark_migrates_what_delta_rs_cannot(
    latest_earlier: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    changed = {*TABLE_NAMES.values(), *COLUMNS, *REMOVED_ROWS, "silver.topics"}
    if place == "URL":  # one table of each kind of change
        changed = {"gold.load_history", "gold.headroom", "gold.plans", "ops.runs", REMOVED_ROWS[0], "silver.topics"}
    for name in {*TABLES, *TABLE_NAMES} - changed - {e for e, name in TABLE_NAMES.items() if name in changed}:
        # which only take time
        shutil.rmtree(latest_earlier / name.replace(".", "/"), ignore_errors=True)
    before = read_rows(latest_earlier)
    store = Store(spark, latest_earlier.as_uri() if place == "URL" else str(latest_earlier))
    monkeypatch.setattr(store, "_has_delta_rs", False)
    with pytest.raises(StoreError, match="was written by an earlier version"):
        check_migrated(store)
    names = migrate_tables(store)
    check_rows(before, read_rows(latest_earlier))
    check_tables(latest_earlier, names)
    check_migrated(store)
    assert migrate_tables(store) == migrate_tables(Store(spark, store.warehouse)) == []


@pytest.mark.slow
def test_a_migration_is_finished_that_was_interrupted_after_each_step(
    latest_earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(latest_earlier, whole)
    migrate_tables(open_without_spark(whole))

    def interrupt_after(function: Callable[..., object]) -> Callable[..., None]:
        def run(*arguments: object, **options: object) -> None:
            function(*arguments, **options)
            raise KeyboardInterrupt

        return run

    steps = 0
    with monkeypatch.context() as patch:
        patch.setattr("deltalake.write_deltalake", interrupt_after(deltalake.write_deltalake))
        patch.setattr(Path, "rename", interrupt_after(Path.rename))
        for name in ("set_table_properties", "add_columns"):
            patch.setattr(TableAlterer, name, interrupt_after(getattr(TableAlterer, name)))
        while True:
            try:
                migrate_tables(open_without_spark(latest_earlier))
                break
            except KeyboardInterrupt:
                steps += 1
                assert steps < 100
            runs = DeltaTable(latest_earlier / "ops" / "runs")
            if steps % 10 == 1 and VERSION_PROPERTY not in runs.metadata().configuration:
                with pytest.raises(StoreError, match="earlier version"):
                    check_migrated(open_without_spark(latest_earlier))
    assert steps > len(TABLE_NAMES) + len(COLUMNS) + 35
    assert read_rows(latest_earlier) == read_rows(whole)
    check_tables(latest_earlier, filter(open_without_spark(whole).exists, TABLES))


@pytest.mark.slow
def test_a_warehouse_is_continued(continued: Path, spark_application: SparkSession) -> None:
    store = Store(spark_application, str(continued))
    first = read_seen(store)[0].key
    before = {name: len(rows) for name, rows in read_rows(continued).items()}
    run = run_day(store.warehouse, 2, AFTER)
    after = count_rows(store, first)
    for name, rows in before.items():
        table = TABLES.get(TABLE_NAMES.get(name, name))
        if table and not table.only_newest and name not in REMOVED_ROWS:
            assert after[table.name] == rows, name
    assert sum(after.values()) > 100
    assert {*count_rows(store, run.snapshots[0])} >= {*after}
    check_tables(continued, [name for name in run.steps if name in TABLES])
    publish_views(store)
    changes = run_query(store, "SELECT topic, change FROM insights.topic_changes ORDER BY topic", as_json=False)[1]
    assert ("alone", "created") in [tuple(row) for row in changes]
    assert maintain_tables(store, load_settings([], environ={}), datetime(2026, 11, 23, tzinfo=UTC)).deleted == []
    assert read_report(store).clusters[0]["as_of"].startswith("2026-11-22")


@pytest.mark.slow
def test_rows_are_not_unpacked_from_packed_rows_that_are_gone(latest_earlier: Path, spark: SparkSession) -> None:
    store = Store(spark, str(latest_earlier))
    latest_earlier.with_name("day-1.txt").write_text(BEFORE)
    run = make_run(store, 1, FIRST)
    assert run.snapshots == [read_seen(store)[0].key]
    migrate_tables(store)
    before = read_rows(latest_earlier)
    for stage, packed in (("gold.plans", "packed_plans"), ("gold.durability", "scheme_aggregates")):
        with pytest.raises(StoreError, match=f"internal.{packed} has no rows for these snapshots of prod"):
            run.go([stage], clock=lambda: FIRST)
    assert read_rows(latest_earlier) == before


def test_a_table_that_exists_by_both_names_is_refused(latest_earlier: Path) -> None:
    shutil.copytree(latest_earlier / "gold" / "load_totals", latest_earlier / "gold" / "load_history")
    with pytest.raises(StoreError, match=r"gold.load_totals at .* is called gold.load_history now, which exists"):
        migrate_tables(open_without_spark(latest_earlier))


def write_property(folder: Path) -> None:
    DeltaTable(folder).alter.set_table_properties({VERSION_PROPERTY: "99"}, raise_if_not_exists=False)


def add_column(folder: Path) -> None:
    DeltaTable(folder).alter.add_columns([Field("colour", "string")])


def test_a_warehouse_of_other_columns_is_refused_before_any_table_changes(tmp_path: Path) -> None:
    refused = extract(REFUSED_ARCHIVE, tmp_path)
    before = list_files(refused)
    message = "it has columns that no longer exist: .*Load its sources into another folder: kafka-placement run SOURCE"
    with pytest.raises(StoreError, match=message):
        run_day(refused, 2, AFTER)
    for command in (read_report, migrate_tables):
        with pytest.raises(StoreError, match=message):
            command(open_without_spark(refused))
    assert list_files(refused) == before


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "newer": (write_property, "was written by a newer version of kafka-placement: it has tables of version 99"),
    "other columns": (add_column, "has columns that no longer exist: colour. Load its sources into another folder"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_a_table_of_an_unknown_version_is_refused_before_it_changes(
    current: Path, change: Callable[[Path], None], message: str
) -> None:
    change(current / "silver" / "topics")
    store = open_without_spark(current)
    version = store.last_version("silver.topics")
    with pytest.raises(StoreError, match=message):
        run_day(store.warehouse, 2, AFTER)
    assert store.last_version("silver.topics") == version
    assert read_seen(store)[0].as_of == FIRST


@pytest.mark.parametrize("table", ["silver/topics", "gold/load_totals", "gold/plans"])
def test_an_earlier_warehouse_with_an_unknown_column_is_refused_before_any_table_changes(
    latest_earlier: Path, table: str
) -> None:
    add_column(latest_earlier / table)
    before = list_files(latest_earlier)
    with pytest.raises(StoreError, match="has columns that no longer exist: colour"):
        migrate_tables(open_without_spark(latest_earlier))
    assert list_files(latest_earlier) == before


def test_a_column_of_another_type_is_refused() -> None:
    table = TABLES["silver.topics"]
    fields = [StructField(f.name, StringType()) if f.name == "partitions" else f for f in table.schema]
    with pytest.raises(StoreError, match="has column partitions with type string, not int"):
        find_upgrade(table, TableState(StructType(fields), 0), "table silver.topics")


def write_shorter_structs(folder: Path) -> StructType:
    """Write gold.cluster_findings with one row, as a version whose structs lacked fields; return those structs."""
    table = TABLES["gold.cluster_findings"]
    fields = {field.name: field for field in table.schema}
    element = fields["issues"].dataType.elementType  # type: ignore[attr-defined]
    shorter = StructType(element.fields[:2])
    old = {"issues": ArrayType(shorter), "unknown_version": StructType(element.fields[1:3])}
    schema = StructType([StructField(f.name, old.get(f.name, f.dataType), True, f.metadata) for f in table.schema])
    row = {name: [None] for name in schema.names} | {"cluster_id": ["prod"], "snapshot_id": ["a"]}
    row |= {"issues": [[{"issue": "offline", "partitions": 3}]], "unknown_version": [{"partitions": 0, "topics": 0}]}
    deltalake.write_deltalake(folder, pa.table(row, to_arrow_schema(schema)), schema_mode="overwrite", mode="overwrite")
    return element


@pytest.mark.parametrize("uses_delta_rs", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_structs_get_the_fields_that_they_lack(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, uses_delta_rs: bool
) -> None:
    table = TABLES["gold.cluster_findings"]
    folder = tmp_path / "gold" / "cluster_findings"
    names = write_shorter_structs(folder).names
    store = open_without_spark(tmp_path) if uses_delta_rs else Store(request.getfixturevalue("spark"), str(tmp_path))
    monkeypatch.setattr(store, "_has_delta_rs", uses_delta_rs)
    store.create(table)
    (row,) = DeltaTable(folder).to_pyarrow_table().to_pylist()
    assert row["issues"] == [dict.fromkeys(names) | {"issue": "offline", "partitions": 3}]
    assert row["unknown_version"] == dict.fromkeys(names[1:]) | {"partitions": 0, "topics": 0}
    check_tables(tmp_path, [table.name])


def test_an_upgrade_that_stopped_halfway_is_finished(earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_without_spark(earlier)
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
