"""Queries show data unchanged, and report every error in one line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from pyspark.sql import SparkSession

from pipelines.cli.query_command import format_json_line, print_rows, run_query
from pipelines.errors import StoreError
from pipelines.spark.read_only_sql import remove_end
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
    with pytest.raises(StoreError, match=r"query only reads|syntax error"):  # the second for odd comments
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


REFLECTION = "reflect('java.lang.System', 'getProperty', 'user.home')"
RUNS_JAVA, RUNS_PROGRAM, READS_FILES = "which run Java code", "which run programs", "a path|paths|by_path"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (f"SELECT {REFLECTION}", RUNS_JAVA),
        (f"SELECT try_{REFLECTION} LIMIT 1;", RUNS_JAVA),
        (f"SELECT 1 WHERE 'a' IN (SELECT {REFLECTION.replace('reflect', 'java_method')})", RUNS_JAVA),
        (f"WITH c AS (SELECT {REFLECTION}) SELECT 1", RUNS_JAVA),
        (f"SELECT transform(array(1), x -> {REFLECTION}), 1 AS `class`", RUNS_JAVA),
        (f"SELECT * FROM VALUES (1) AS t(a), LATERAL (SELECT {REFLECTION})", RUNS_JAVA),
        (f"EXPLAIN EXTENDED SELECT CASE WHEN true THEN {REFLECTION} END", RUNS_JAVA),
        (f"SELECT * FROM protected TIMESTAMP AS OF (SELECT {REFLECTION})", RUNS_JAVA),
        (
            f"EXPLAIN SELECT * FROM protected FOR SYSTEM_TIME AS OF (SELECT `java_method`/**/{REFLECTION[7:]})",
            RUNS_JAVA,
        ),
        (f"DESCRIBE QUERY SELECT * FROM protected TIMESTAMP AS OF {REFLECTION}", RUNS_JAVA),
        ("SELECT TRANSFORM(a) USING 'touch {file}' AS (x) FROM VALUES (1) AS t(a)", RUNS_PROGRAM),
        ("FROM (VALUES (1) AS t(a)) MAP a USING 'touch {file}' AS x", RUNS_PROGRAM),
        ("SELECT * FROM (FROM (VALUES (1) AS t(a)) REDUCE a USING 'touch {file}' AS x)", RUNS_PROGRAM),
        ("EXPLAIN SELECT TRANSFORM(a) USING 'touch {file}' AS (x) FROM VALUES (1) AS t(a)", RUNS_PROGRAM),
        ("SELECT * FROM csv.`/etc/passwd`", READS_FILES),
        ("WITH c AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM c", READS_FILES),
        ("SELECT * FROM binaryFile.`/etc/passwd`", READS_FILES),
        ("SELECT * FROM delta.`{warehouse}/protected`", READS_FILES),
        ("DESCRIBE DETAIL '{warehouse}/protected'", READS_FILES),
        ("DESCRIBE HISTORY delta.`{warehouse}/protected`", READS_FILES),
        ("DESCRIBE TABLE csv.`/etc/passwd`", READS_FILES),
        ("SELECT * FROM table_changes_by_path('{warehouse}/protected', 0)", READS_FILES),
    ],
)
@pytest.mark.usefixtures("protected")
def test_what_runs_programs_or_reads_files_is_rejected(store: Store, tmp_path: Path, sql: str, message: str) -> None:
    file = tmp_path / "made"
    with pytest.raises(StoreError, match=message) as raised:
        run_query(store, sql.replace("{file}", str(file)).replace("{warehouse}", store.warehouse), as_json=False)
    assert "query only reads tables and views" in str(raised.value)
    assert not file.exists()
    assert store.spark.conf.get("spark.sql.runSQLOnFiles") == "true"  # for the program itself


@pytest.mark.parametrize(
    "text", ["reflect(1)", "${env:HOME}", "${spark.driver.memory}", '"class":"a.ScriptTransformation"']
)
def test_a_text_is_only_a_text(store: Store, text: str) -> None:
    _, rows = run_query(store, f"SELECT '{text}' AS text -- {text}", as_json=False)
    assert [row.text for row in rows] == [text]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "there is no statement"),
        (" ;; -- nothing\n /* at all */", "there is no statement"),
        ("/* open", "unclosed bracketed comment"),
        ("SELECT 1; SELECT 2", "takes one statement"),
        ("SELECT '\udc80'", "character 9 of the statement is half of a surrogate pair"),
        ("SELECT \x00", "invalid SQL"),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "nested too deeply"),
        ("SELECT " + "+".join(["1"] * 20_000), "too complex"),
        ("SELECT no_function(1)", "no_function"),
        ("SELECT * FROM no_table", "no_table"),
        ("SELECT DATE'2001-13-45'", "2001-13-45"),
        ("SELECT date'-0044-03-15'", r"CAST\(\.\.\. AS STRING\)"),
        ("SELECT make_interval(1, 2)", r"CAST\(\.\.\. AS STRING\)"),
        ("SHOW CREATE TABLE protected", "Use DESCRIBE EXTENDED"),
        ("SHOW PARTITIONS protected", "not partitioned"),
        ("SELECT * FROM table_changes('protected', 0)", "Compare versions"),
        ("SELECT * FROM protected VERSION AS OF 99", "version 99"),
        ("SELECT * FROM protected TIMESTAMP AS OF '1990-01-01'", "before the earliest version"),
        ("DESCRIBE HISTORY no_table", "no_table"),
    ],
    ids=lambda text: text[:20],
)
@pytest.mark.usefixtures("protected")
def test_every_error_is_explained(store: Store, sql: str, message: str) -> None:
    with pytest.raises(StoreError, match=f"(?i){message}") as raised:
        run_query(store, sql, as_json=False)
    assert not any(word in str(raised.value) for word in ("Py4J", "INTERNAL_ERROR", "\tat ", "DeltaTableV2"))


@pytest.mark.parametrize(
    "sql", ["DESCRIBE HISTORY protected", "DESCRIBE DETAIL protected", "SHOW TBLPROPERTIES protected"]
)
@pytest.mark.usefixtures("protected")
def test_delta_describes_a_table_by_name(store: Store, sql: str) -> None:
    assert run_query(store, sql, as_json=False)[1]


def test_names_and_cells_cannot_forge_lines(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(*run_query(store, "SELECT 'x\x1b[2J\nok\u202e' AS `a\x1b]0;t\nb`", as_json=False))
    assert capsys.readouterr().out.split() == [r"a\x1b]0;t\nb", r"x\x1b[2J\nok\u202e"]


@pytest.mark.parametrize(
    ("end", "is_removed"),
    [
        (";" * 60_000, True),
        ("; " * 30_000, True),
        ("/**/;" * 12_000, True),
        ("/*" * 30_000, False),
        ("'\\" * 20_000, False),
    ],
)
def test_the_end_of_a_statement_is_found_in_linear_time(end: str, is_removed: bool) -> None:
    began = monotonic()
    assert remove_end(f"SELECT 1{end}x") == f"SELECT 1{end}x"
    assert remove_end(f"SELECT 1{end}") == ("SELECT 1" if is_removed else f"SELECT 1{end}")
    assert monotonic() - began < 5


def test_times_are_in_utc_wherever_the_machine_is(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those within other values, and in the hour that clocks show twice."""
    sql = """SELECT t, array(t) AS several, CAST(t AS STRING) AS text
             FROM VALUES (TIMESTAMP '2026-11-01 05:30:00'), (TIMESTAMP '2026-11-01 06:30:00') AS v (t)"""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        _, rows = run_query(store, sql, as_json=False)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [(str(row.t), str(row.several[0])) for row in rows] == [(row.text, row.text) for row in rows]
    assert rows[0].t != rows[1].t
