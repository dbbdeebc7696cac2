"""Queries show data unchanged, and report every error in one line."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pipelines.cli.query_command import format_json_line, print_rows, run_query
from pipelines.errors import StoreError
from pipelines.spark.store import Store


@pytest.fixture(scope="module")
def store(spark_application: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(spark_application, str(tmp_path_factory.mktemp("queried")))


@pytest.fixture(scope="module")
def protected(store: Store) -> Iterator[None]:
    """A table of one row that no query may change."""
    store.spark.sql(f"CREATE OR REPLACE TABLE protected (a INT) USING delta LOCATION '{store.warehouse}/protected'")
    store.spark.sql("INSERT INTO protected VALUES (1)")
    yield
    store.spark.sql("DROP TABLE protected")


def test_brackets_and_colons_are_data(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(*run_query(store, "SELECT '[red]x[/red]' AS a, '[/foo]' AS `[/b]`, ':smile:' AS c", as_json=False))
    output = capsys.readouterr().out
    for text in ("[red]x[/red]", "[/foo]", "[/b]", ":smile:"):
        assert text in output


@pytest.mark.parametrize(
    ("sql", "message_part"),
    [
        ("SELECT 1/0", "Division by zero"),
        ("SELECT CAST('x' AS INT)", "'x' of the type"),
        ("SELECT raise_error('boom')", "boom"),
        ("SELECT raise_error('boom') FROM range(3)", "boom"),
        ("SELECT interval 1 month", "YearMonthInterval"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_an_error_at_run_time_is_one_line(
    store: Store, capfd: pytest.CaptureFixture[str], sql: str, message_part: str, as_json: bool
) -> None:
    with pytest.raises(StoreError) as raised:
        run_query(store, sql, as_json)
    message = str(raised.value)
    assert message.startswith("the query failed: ")
    assert message_part in message
    assert "\n" not in message
    assert raised.value.exit_code == 1
    assert tuple(capfd.readouterr()) == ("", "")  # and Spark's log adds nothing


def test_values_that_json_lacks(store: Store) -> None:
    sql = """SELECT map(date'2026-01-02', double('nan')) AS by_date, map(struct(1 AS i), x'00ff') AS by_struct,
    array(double('-infinity')) AS a, parse_json('{"x": [1]}') AS v"""
    _, (row,) = run_query(store, sql, as_json=True)
    assert json.loads(format_json_line(row)) == {
        "by_date": {"2026-01-02": "NaN"},
        "by_struct": {'{"i": 1}': "AP8="},
        "a": ["-Infinity"],
        "v": {"x": [1]},
    }


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM protected",
        "INSERT INTO protected VALUES (2)",
        "WITH x AS (SELECT 3 AS a) INSERT INTO protected SELECT * FROM x",
        "FROM protected INSERT INTO protected SELECT a",
        "-- SELECT\nDROP TABLE protected",
        "/* DESCRIBE */ UPDATE protected SET a = 7",
        "CREATE OR REPLACE TEMPORARY VIEW protected AS SELECT 8 AS a",
        "SET spark.sql.ansi.enabled=false",
        "SELECT 1) UNION ALL (SELECT 2); DROP TABLE protected",
        "EXECUTE IMMEDIATE 'DELETE FROM protected'",
        "EXPLAIN EXECUTE IMMEDIATE 'DELETE FROM protected'",
        "EXPLAIN DELETE FROM protected",
        "/* a /* b */ SHOW */ DELETE FROM protected",
        "-- a\\\nSHOW\nDELETE FROM protected",
        "VACUUM protected",
        "TRUNCATE TABLE protected",
        "EXPLAIN EXPLAIN DELETE FROM protected",
    ],
)
@pytest.mark.usefixtures("protected")
def test_a_statement_that_writes_is_rejected(store: Store, sql: str) -> None:
    with pytest.raises(StoreError, match=r"invalid SQL[^|]*query only reads"):
        run_query(store, sql, as_json=False)
    assert [row.a for row in store.spark.sql("SELECT a FROM protected").collect()] == [1]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS a;",
        "WITH x AS (SELECT 1 AS a) SELECT * FROM x -- the end",
        "(SELECT 1 AS a) UNION ALL (SELECT 2)",
        "VALUES (1)",
        "SELECT '--' AS a; -- the end",
        "SELECT 1;;",
        "SELECT 1 ; ; ",
        "SELECT ';--x' AS a",
        "SELECT 1; /* end */",
        "SELECT 1;\n/* bye */ -- and so on",
        "SELECT 1 AS `a;--b`",
        "EXPLAIN FORMATTED SELECT 1;",
        "DESCRIBE QUERY SELECT 1 AS a",
        "/* a /* b */ c */ SELECT 1",
        "SHOW SCHEMAS",
        "explain SELECT 1",
        "SELECT 1 AS a ORDER BY a",
    ],
)
def test_a_statement_that_reads_is_answered(store: Store, sql: str) -> None:
    _, rows = run_query(store, sql, as_json=False)
    assert rows


def test_two_columns_with_one_name(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StoreError, match=r"2 columns are named 'a'.*AS"):
        run_query(store, "SELECT 1 AS a, 2 AS a", as_json=True)
    print_rows(*run_query(store, "SELECT 17 AS a, 18 AS a", as_json=False))
    output = capsys.readouterr().out
    assert "17" in output
    assert "18" in output
