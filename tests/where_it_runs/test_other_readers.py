"""delta-rs and DuckDB read the same rows as Spark from every table of a run.

DuckDB would download its extensions for Delta and for time zones, so here it reads Arrow tables from delta-rs, and
compares times as microseconds since 1970.
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
from pipelines.spark.views import BY_NAME
from pipelines.tables import GROWTH_TABLES, RUN_TABLES
from tests.shared_runs import SampleRun

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

# Run by Spark and by DuckDB: joins, groups, elements of lists.
QUERIES = {
    "leaders of live brokers": """
        SELECT b.broker_id, b.rack, count(p.topic) AS leaders, sum(p.partition) AS numbers, min(p.topic) AS first
        FROM silver.brokers b LEFT JOIN silver.partitions p
          ON b.cluster_id = p.cluster_id AND b.snapshot_id = p.snapshot_id AND b.broker_id = p.leader
        WHERE b.live GROUP BY b.broker_id, b.rack ORDER BY b.broker_id""",
    "followers of each leader": """
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


def list_tables(warehouse: Path) -> list[str]:
    return sorted(".".join(log.parent.relative_to(warehouse).parts) for log in warehouse.glob("*/*/_delta_log"))


def sort_rows(table: pa.Table) -> list[str]:
    """All rows as text, sorted."""
    return sorted(repr(row) for row in table.to_pylist())


@pytest.fixture(scope="module")
def arrow(sample_run: SampleRun) -> Callable[[str], pa.Table]:
    """Reads a table with delta-rs."""

    @cache
    def read(name: str) -> pa.Table:
        return DeltaTable(sample_run.warehouse / name.replace(".", "/")).to_pyarrow_table()

    return read


@pytest.fixture(scope="module")
def duck(sample_run: SampleRun, arrow: Callable[[str], pa.Table]) -> duckdb.DuckDBPyConnection:
    """DuckDB with every table under its name."""
    connection = duckdb.connect()
    for number, name in enumerate(list_tables(sample_run.warehouse)):
        connection.register(f"arrow_{number}", arrow(name))
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name.split('.')[0]}")
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow_{number}")
    return connection


@pytest.fixture(scope="module")
def store(spark_application: SparkSession, sample_run: SampleRun) -> Store:
    store = Store(spark_application, str(sample_run.warehouse))
    tables = sorted((*RUN_TABLES, *GROWTH_TABLES))
    assert sorted(store.register(tables)) == tables
    assert list_tables(sample_run.warehouse) == sorted((*tables, *BY_NAME))
    return store


@pytest.mark.parametrize("name", [*RUN_TABLES, *GROWTH_TABLES])
def test_three_readers_see_the_same_rows(
    store: Store, arrow: Callable[[str], pa.Table], duck: duckdb.DuckDBPyConnection, name: str
) -> None:
    """Lists, structs and times too, to the last bit and microsecond."""
    by_spark = store.read(name).toArrow()
    assert arrow(name).column_names == by_spark.column_names
    expected = sort_rows(by_spark)
    assert sort_rows(arrow(name)) == expected
    from_duck = duck.sql(f"SELECT * FROM {name}").to_arrow_table()
    assert from_duck.num_rows == len(expected)
    assert sort_rows(from_duck.cast(arrow(name).schema)) == expected  # DuckDB names its zone Etc/UTC


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_has_the_same_result_in_both(store: Store, duck: duckdb.DuckDBPyConnection, query: str) -> None:
    expected: list[Any] = [tuple(row) for row in store.spark.sql(QUERIES[query]).collect()]
    assert expected
    assert duck.execute(QUERIES[query]).fetchall() == expected


def test_times_are_in_utc(arrow: Callable[[str], pa.Table], duck: duckdb.DuckDBPyConnection) -> None:
    types = {
        str(field.type) for name in RUN_TABLES for field in arrow(name).schema if pa.types.is_timestamp(field.type)
    }
    assert types == {"timestamp[us, tz=UTC]"}
    (last,) = duck.execute("SELECT max(epoch_us(finished_at)) FROM ops.runs").fetchall()
    assert 0 <= datetime.now(UTC).timestamp() - last[0] / 1e6 < 3600


def test_lists_are_read_element_by_element(store: Store, duck: duckdb.DuckDBPyConnection) -> None:
    spark_sql = (
        "SELECT id, count(*) FROM (SELECT explode(replicas) AS id FROM silver.partitions) GROUP BY id ORDER BY id"
    )
    duck_sql = "SELECT id, count(*) FROM (SELECT unnest(replicas) AS id FROM silver.partitions) GROUP BY id ORDER BY id"
    expected = [tuple(row) for row in store.spark.sql(spark_sql).collect()]
    assert len(expected) == 6 + 5
    assert duck.execute(duck_sql).fetchall() == expected


def test_an_older_version_of_a_table(store: Store, sample_run: SampleRun) -> None:
    """Version 0 is the empty table; the next one has the rows of the run."""
    table = DeltaTable(sample_run.warehouse / "gold" / "placements")
    newest = table.version()
    assert newest >= 1
    for version in (0, newest):
        past = DeltaTable(sample_run.warehouse / "gold" / "placements", version=version).to_pyarrow_table()
        by_spark = store.spark.sql(f"SELECT * FROM gold.placements VERSION AS OF {version}").toArrow()
        assert sort_rows(past) == sort_rows(by_spark)
        assert (past.num_rows > 0) == (version == newest)
    assert DeltaTable(sample_run.warehouse / "gold" / "placements").protocol().min_reader_version == 1
