"""Every table that a run leaves, opened by delta-rs and asked by DuckDB, holds what Spark reads there.

DuckDB's own reader of Delta is an extension that it downloads when asked for, as is that of time zones: here it gets
delta-rs's Arrow, and times as they count from 1970 in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipelines.spark.store import Store
from pipelines.tables import OF_RUNS
from tests.shared import Finished

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

# Asked of Spark and of DuckDB in the same words: joins, groups, elements of lists.
QUERIES = {
    "leaders of live brokers": """
        SELECT b.broker_id, b.rack, count(p.topic) AS leaders, sum(p.partition) AS numbers, min(p.topic) AS first
        FROM silver.brokers b LEFT JOIN silver.partitions p
          ON b.cluster_id = p.cluster_id AND b.snapshot_id = p.snapshot_id AND b.broker_id = p.leader
        WHERE b.live GROUP BY b.broker_id, b.rack ORDER BY b.broker_id""",
    "who follows whom": """
        SELECT p.leader, r.broker_id, count(*) AS partitions, max(r.position) AS last
        FROM silver.partitions p JOIN silver.replicas r
          ON p.cluster_id = r.cluster_id AND p.snapshot_id = r.snapshot_id AND p.topic = r.topic
         AND p.partition = r.partition
        WHERE r.broker_id <> p.leader GROUP BY p.leader, r.broker_id ORDER BY p.leader, r.broker_id""",
    "the worst failure of each scheme": """
        SELECT scheme, max(worst_survivor_ratio) AS worst, max(newly_offline_partitions) AS offline,
               count(*) AS failures
        FROM gold.failure_summary WHERE scenario_kind = 'broker' GROUP BY scheme ORDER BY scheme""",
    "rows of stages": """
        SELECT r.stage, sum(r.rows) AS written, count(*) AS of FROM ops.runs r
        JOIN silver.topics t ON r.cluster_id = t.cluster_id AND r.snapshot_id = t.snapshot_id
        GROUP BY r.stage ORDER BY r.stage""",
}


def tables_in(warehouse: Path) -> list[str]:
    return sorted(".".join(log.parent.relative_to(warehouse).parts) for log in warehouse.glob("*/*/_delta_log"))


def rows(table: pa.Table) -> list[str]:
    """All rows as text, in an order of their own."""
    return sorted(repr(row) for row in table.to_pylist())


@pytest.fixture(scope="module")
def arrow(finished: Finished) -> Callable[[str], pa.Table]:
    """Of a table's name: its Arrow by delta-rs."""

    @cache
    def of(name: str) -> pa.Table:
        return DeltaTable(finished.warehouse / name.replace(".", "/")).to_pyarrow_table()

    return of


@pytest.fixture(scope="module")
def duck(finished: Finished, arrow: Callable[[str], pa.Table]) -> duckdb.DuckDBPyConnection:
    """DuckDB with every table by its name."""
    connection = duckdb.connect()
    for number, name in enumerate(tables_in(finished.warehouse)):
        connection.register(f"arrow_{number}", arrow(name))
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name.split('.')[0]}")
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow_{number}")
    return connection


@pytest.fixture(scope="module")
def store(spark_application: SparkSession, finished: Finished) -> Store:
    made = Store(spark_application, str(finished.warehouse))
    assert sorted(made.register(list(OF_RUNS))) == tables_in(finished.warehouse) == sorted(OF_RUNS)
    return made


@pytest.mark.parametrize("name", OF_RUNS)
def test_three_readers_see_the_same_rows(
    store: Store, arrow: Callable[[str], pa.Table], duck: duckdb.DuckDBPyConnection, name: str
) -> None:
    """Lists, structs and times too, to the last microsecond and bit."""
    by_spark = store.read(name).toArrow()
    assert arrow(name).column_names == by_spark.column_names
    expected = rows(by_spark)
    assert rows(arrow(name)) == expected
    found = duck.sql(f"SELECT * FROM {name}").to_arrow_table()
    assert found.num_rows == len(expected)
    assert rows(found.cast(arrow(name).schema)) == expected  # DuckDB names its zone Etc/UTC


@pytest.mark.parametrize("what", QUERIES)
def test_the_same_question_has_the_same_answer(store: Store, duck: duckdb.DuckDBPyConnection, what: str) -> None:
    asked: list[Any] = [tuple(row) for row in store.spark.sql(QUERIES[what]).collect()]
    assert asked
    assert duck.execute(QUERIES[what]).fetchall() == asked


def test_times_are_of_utc(arrow: Callable[[str], pa.Table], duck: duckdb.DuckDBPyConnection) -> None:
    kinds = {str(field.type) for name in OF_RUNS for field in arrow(name).schema if pa.types.is_timestamp(field.type)}
    assert kinds == {"timestamp[us, tz=UTC]"}
    (last,) = duck.execute("SELECT max(epoch_us(finished_at)) FROM ops.runs").fetchall()
    assert 0 <= datetime.now(UTC).timestamp() - last[0] / 1e6 < 3600


def test_lists_are_read_element_by_element(store: Store, duck: duckdb.DuckDBPyConnection) -> None:
    spark = "SELECT id, count(*) FROM (SELECT explode(replicas) AS id FROM silver.partitions) GROUP BY id ORDER BY id"
    of_duck = "SELECT id, count(*) FROM (SELECT unnest(replicas) AS id FROM silver.partitions) GROUP BY id ORDER BY id"
    asked = [tuple(row) for row in store.spark.sql(spark).collect()]
    assert len(asked) == 6 + 5
    assert duck.execute(of_duck).fetchall() == asked


def test_a_table_as_it_was(store: Store, finished: Finished) -> None:
    """Version 0 is the table as it was made; the run's rows are the next one's."""
    table = DeltaTable(finished.warehouse / "gold" / "placements")
    newest = table.version()
    assert newest >= 1
    for version in (0, newest):
        past = DeltaTable(finished.warehouse / "gold" / "placements", version=version).to_pyarrow_table()
        by_spark = store.spark.sql(f"SELECT * FROM gold.placements VERSION AS OF {version}").toArrow()
        assert rows(past) == rows(by_spark)
        assert (past.num_rows > 0) == (version == newest)
    assert DeltaTable(finished.warehouse / "gold" / "placements").protocol().min_reader_version == 1
