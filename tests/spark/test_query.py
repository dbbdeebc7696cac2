"""Questions in SQL: what data holds is shown as it stands, and what goes wrong is one line."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pipelines.cli.json_rows import json_line
from pipelines.cli.run_output import asked, show_rows
from pipelines.errors import StoreError
from pipelines.spark.store import Store


@pytest.fixture(scope="module")
def store(spark_application: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(spark_application, str(tmp_path_factory.mktemp("asked")))


@pytest.fixture(scope="module")
def kept(store: Store) -> Iterator[None]:
    """A table of one row that no query may change."""
    store.spark.sql(f"CREATE OR REPLACE TABLE kept (a INT) USING delta LOCATION '{store.warehouse}/kept'")
    store.spark.sql("INSERT INTO kept VALUES (1)")
    yield
    store.spark.sql("DROP TABLE kept")


def test_brackets_and_colons_are_data(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(*asked(store, "SELECT '[red]x[/red]' AS a, '[/foo]' AS `[/b]`, ':smile:' AS c", as_json=False))
    said = capsys.readouterr().out
    for text in ("[red]x[/red]", "[/foo]", "[/b]", ":smile:"):
        assert text in said


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT 1/0", "Division by zero"),
        ("SELECT CAST('x' AS INT)", "'x' of the type"),
        ("SELECT raise_error('boom')", "boom"),
        ("SELECT raise_error('boom') FROM range(3)", "boom"),
        ("SELECT interval 1 month", "YearMonthInterval"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_an_error_while_it_runs_is_one_line(
    store: Store, capfd: pytest.CaptureFixture[str], sql: str, says: str, as_json: bool
) -> None:
    with pytest.raises(StoreError) as raised:
        asked(store, sql, as_json)
    message = str(raised.value)
    assert message.startswith("the query failed: ")
    assert says in message
    assert "\n" not in message
    assert raised.value.exit_code == 1
    assert tuple(capfd.readouterr()) == ("", "")  # nor does Spark's log add to it


def test_json_of_what_json_lacks(store: Store) -> None:
    sql = """SELECT map(date'2026-01-02', double('nan')) AS by_date, map(struct(1 AS i), x'00ff') AS by_struct,
    array(double('-infinity')) AS a, parse_json('{"x": [1]}') AS v"""
    _, (row,) = asked(store, sql, as_json=True)
    assert json.loads(json_line(row)) == {
        "by_date": {"2026-01-02": "NaN"},
        "by_struct": {'{"i": 1}': "AP8="},
        "a": ["-Infinity"],
        "v": {"x": [1]},
    }


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM kept",
        "INSERT INTO kept VALUES (2)",
        "WITH x AS (SELECT 3 AS a) INSERT INTO kept SELECT * FROM x",
        "FROM kept INSERT INTO kept SELECT a",
        "-- SELECT\nDROP TABLE kept",
        "/* DESCRIBE */ UPDATE kept SET a = 7",
        "CREATE OR REPLACE TEMPORARY VIEW kept AS SELECT 8 AS a",
        "SET spark.sql.ansi.enabled=false",
        "SELECT 1) UNION ALL (SELECT 2); DROP TABLE kept",
        "EXECUTE IMMEDIATE 'DELETE FROM kept'",
        "EXPLAIN EXECUTE IMMEDIATE 'DELETE FROM kept'",
        "EXPLAIN DELETE FROM kept",
        "/* a /* b */ SHOW */ DELETE FROM kept",
        "-- a\\\nSHOW\nDELETE FROM kept",
        "VACUUM kept",
        "TRUNCATE TABLE kept",
        "EXPLAIN EXPLAIN DELETE FROM kept",
    ],
)
@pytest.mark.usefixtures("kept")
def test_what_writes_is_rejected(store: Store, sql: str) -> None:
    with pytest.raises(StoreError, match=r"not understood[^|]*query only reads"):
        asked(store, sql, as_json=False)
    assert [row.a for row in store.spark.sql("SELECT a FROM kept").collect()] == [1]


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
def test_what_reads_is_answered(store: Store, sql: str) -> None:
    _, rows = asked(store, sql, as_json=False)
    assert rows


def test_two_columns_of_one_name(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StoreError, match=r"2 columns are named 'a'.*AS"):
        asked(store, "SELECT 1 AS a, 2 AS a", as_json=True)
    show_rows(*asked(store, "SELECT 17 AS a, 18 AS a", as_json=False))
    said = capsys.readouterr().out
    assert "17" in said
    assert "18" in said
