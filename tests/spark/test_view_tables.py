"""The tables of views have the rows of the views, are written only after changes, and lose their old files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.cli import query_command
from pipelines.report.figure_queries import FIGURES
from pipelines.runner import Run
from pipelines.spark import delta_rs, view_tables
from pipelines.spark.arrow_frames import copy_table
from pipelines.spark.local_sql import LocalSql
from pipelines.spark.sql_session import SparkSql
from pipelines.spark.store import Store
from pipelines.spark.view_tables import publish_views
from pipelines.spark.views import SNAPSHOTS, VIEWS
from pipelines.tables import TABLES
from tests.shared_runs import SharedFolder
from tests.spark.two_days import BEFORE, DayRun, create_warehouse, make_run, run_day
from tests.steps import list_steps_to

AGAIN, LAST = datetime(2026, 11, 30, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
_NAMES = [view.name for view in VIEWS]
_DOWN = BEFORE.replace("Leader: 2\tReplicas: 2,3\tIsr: 2,3", "Leader: 3\tReplicas: 2,3\tIsr: 3")
_LAST_DAY = 3
_WRITTEN_BY_SPARK = (SNAPSHOTS, "insights.hottest_brokers", "insights.metric_history", "insights.growth")


def see_again(run: Run, at: datetime) -> None:
    """Record that a cluster is as it was when these steps were finished."""
    run.unfinished(list_steps_to(["gold.scheme_comparison"]))
    run.go([], clock=lambda: at)


@pytest.fixture(scope="module")
def last_run(
    tmp_path_factory: pytest.TempPathFactory, shared_folder: SharedFolder, spark_application: SparkSession
) -> tuple[Store, DayRun]:
    """A cluster seen three times, without tables of views; and its last run."""
    folder = tmp_path_factory.mktemp("view_tables") / "days"
    shutil.copytree(create_warehouse(shared_folder), folder)
    shutil.rmtree(folder / "tables" / "insights", ignore_errors=True)
    store = Store(spark_application, f"{folder}/tables")
    return store, run_day(store.warehouse, _LAST_DAY, _DOWN.replace("Isr: 1,2", "Isr: 1"))  # broker 2 fails


@pytest.fixture(scope="module")
def expected(last_run: tuple[Store, DayRun]) -> dict[str, pa.Table]:
    """The rows of each view, by Spark."""
    session = open_spark_sql(last_run[0], _NAMES)
    return {name: session.run(f"SELECT * FROM {name}") for name in _NAMES}


def open_spark_sql(store: Store, names: Sequence[str]) -> SparkSql:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_has_delta_rs", False)
        session = store.open_sql(names)
    assert isinstance(session, SparkSql)
    return session


@pytest.fixture
def store(last_run: tuple[Store, DayRun]) -> Store:
    return last_run[0]


def open_table(store: Store, name: str) -> DeltaTable:
    return DeltaTable(store.location(name))


def list_versions(store: Store) -> dict[str, int]:
    return {name: store.last_version(name) for name in _NAMES}


def list_written(store: Store, before: dict[str, int]) -> set[str]:
    """Publish the views; return those whose tables have new commits."""
    publish_views(store)
    return {name for name, version in list_versions(store).items() if version > before[name]}


@pytest.mark.parametrize("is_plain", [True, False], ids=["DuckDB", "Spark"])
def test_a_table_has_the_rows_of_its_view(
    store: Store, expected: dict[str, pa.Table], monkeypatch: pytest.MonkeyPatch, is_plain: bool
) -> None:
    monkeypatch.setattr(store, "_has_delta_rs", is_plain)
    monkeypatch.setattr(view_tables, "_describe_inputs", lambda *_: f"read by DuckDB: {is_plain}")
    # Spark takes a second for each; it runs the queries of all for the expected rows.
    views = [view for view in VIEWS if is_plain or view.name in _WRITTEN_BY_SPARK]
    view_tables.write_view_tables(store, views)
    for name in (view.name for view in views):
        table = open_table(store, name)
        rows = table.to_pyarrow_table()
        assert rows.schema.names == expected[name].schema.names
        assert sorted(map(str, rows.to_pylist())) == sorted(map(str, expected[name].to_pylist())), name
        engine = str(table.history(1)[0]["engineInfo"])
        assert engine.startswith("delta-rs" if is_plain else "Apache-Spark"), name


def test_queries_read_views_from_their_tables(
    store: Store, expected: dict[str, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view whose table is up to date is read from it, one whose table is not is evaluated: the rows are the same."""
    shutil.rmtree(f"{store.warehouse}/insights", ignore_errors=True)
    publish_views(store)
    current = view_tables.find_current(store, VIEWS)
    assert current == _NAMES
    for rest in ([], ["insights.metric_history", "insights.growth"]):
        monkeypatch.setattr(view_tables, "find_current", lambda *_, rest=rest: rest or current)
        for name in ("insights.metric_history", "insights.growth", "insights.hottest_brokers"):
            columns, rows = query_command.run_query(store, f"SELECT * FROM {name}", as_json=False)
            assert columns == expected[name].schema.names
            plain = pa.Table.from_pylist([row.asDict(recursive=True) for row in rows], expected[name].schema)
            assert sorted(map(str, plain.to_pylist())) == sorted(map(str, expected[name].to_pylist())), name


def test_a_query_reads_the_last_version_of_each_table(store: Store) -> None:
    for name in filter(store.exists, TABLES):
        (row,) = query_command.run_query(store, f"SELECT count(*) AS rows FROM {name}", as_json=True)[1]
        by_delta = store.spark.sql(f"SELECT count(*) AS rows FROM delta.`{store.location(name)}`").first()
        assert row == by_delta, name
    described = query_command.run_query(store, "DESCRIBE EXTENDED ops.runs", as_json=False)[1]
    assert ("Provider", "delta") in [(row[0], row[1]) for row in described]
    (first,) = query_command.run_query(store, "SELECT count(*) FROM ops.runs VERSION AS OF 0", as_json=False)[1]
    assert first[0] == 0


def test_the_report_has_the_same_rows_from_both_engines(last_run: tuple[Store, DayRun]) -> None:
    store, run = last_run
    figures = [figure for figure in FIGURES if all(map(store.exists, figure.dependencies))]
    names = list(dict.fromkeys(name for figure in figures for name in figure.dependencies))
    by_duckdb, by_spark = store.open_sql(names), open_spark_sql(store, names)
    assert isinstance(by_duckdb, LocalSql)
    for figure in figures:
        tables = [session.run(figure.query(run.snapshots)) for session in (by_duckdb, by_spark)]
        assert tables[0].schema.names == tables[1].schema.names, figure.name
        rows = [[{name: row[name] for name in sorted(row)} for row in table.to_pylist()] for table in tables]
        assert sorted(map(str, rows[0])) == sorted(map(str, rows[1])), figure.name


def test_views_read_only_tables_and_the_snapshots() -> None:
    """Each is evaluated by itself, and the snapshots before all others."""
    assert VIEWS[0].name == SNAPSHOTS
    for view in VIEWS:
        assert {*view.dependencies} <= {*TABLES, SNAPSHOTS}, view.name


def test_only_views_that_read_something_new_are_written(last_run: tuple[Store, DayRun]) -> None:
    store, run = last_run
    publish_views(store)
    before = list_versions(store)
    assert list_written(store, before) == set()
    table = TABLES["gold.plan_metrics"]
    metrics = store.read_columns(table.name, table.column_names, run.snapshots)
    store.replace(table, metrics, run.snapshots)
    assert list_written(store, before) == set()  # the same rows
    one_plan = pc.equal(metrics["goal"], metrics["goal"][0])
    store.replace(table, metrics.filter(pc.invert(one_plan)), run.snapshots)
    assert list_written(store, before) == {"insights.cross_zone_traffic"}
    before = list_versions(store)
    see_again(make_run(store, _LAST_DAY, AGAIN), AGAIN)  # only times change
    # The rows of these stay the same: they are written only where a state is recorded with them.
    assert list_written(store, before) - {"insights.topic_changes", "insights.finding_changes"} == {
        SNAPSHOTS,
        *(f"insights.{name}_history" for name in ("metric", "topic_health", "hottest_broker")),
        "insights.growth",  # one sample more
    }
    newest = open_table(store, SNAPSHOTS).to_pyarrow_table()
    assert sum(newest["newest"].to_pylist()) == 1


@pytest.mark.parametrize("is_plain", [True, False], ids=["delta-rs", "Spark"])
def test_old_files_of_a_table_are_removed(
    last_run: tuple[Store, DayRun], monkeypatch: pytest.MonkeyPatch, is_plain: bool
) -> None:
    store = last_run[0]
    publish_views(store)
    monkeypatch.setattr(store, "_has_delta_rs", is_plain)
    monkeypatch.setattr(delta_rs, "_MAX_COMPARED_ROWS", -1)  # so that the same rows are written again
    name = "insights.hottest_brokers" if is_plain else "insights.worst_pair"
    folder = Path(store.location(name))
    store.spark.sql(
        f"ALTER TABLE delta.`{folder}` SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 seconds')"
    )
    numbers: Iterator[int] = count()
    monkeypatch.setattr(view_tables, "_describe_inputs", lambda *_: json.dumps(next(numbers)))
    monkeypatch.setattr(view_tables, "_VACUUM_INTERVAL", 4)
    views = [view for view in VIEWS if view.name in (SNAPSHOTS, name)]
    kept = 0
    for _ in range(view_tables._VACUUM_INTERVAL):
        view_tables.write_view_tables(store, views)
        files = len([*folder.glob("*.parquet")])
        assert files <= view_tables._VACUUM_INTERVAL + 2
        table = open_table(store, name)
        is_vacuumed = "VACUUM END" in str(table.history(1))  # delta-rs's own would need room for commits on a full disk
        if is_vacuumed or (is_plain and table.version() % view_tables._VACUUM_INTERVAL == 0):
            assert files == len(table.file_uris())
            kept = files
    assert kept, "no file was removed"
    assert open_table(store, name).to_pyarrow_table().num_rows


def test_brokers_that_fail_and_return(store: Store) -> None:
    def list_changes() -> dict[int, str]:
        publish_views(store)
        rows = open_table(store, "insights.broker_changes").to_pyarrow_table().to_pylist()
        return {row["broker_id"]: row["change"] for row in rows}

    assert list_changes() == {2: "failed"}
    see_again(make_run(store, 1, LAST), LAST)
    assert list_changes() == {2: "returned"}


def test_a_table_without_rows_is_copied_with_its_lists(spark: SparkSession) -> None:
    """A warehouse without plans has such tables."""
    schema = TABLES["gold.plans"].schema
    nothing = pa.Table.from_batches([], schema=to_arrow_schema(schema))
    assert copy_table(spark, nothing, schema).collect() == []
