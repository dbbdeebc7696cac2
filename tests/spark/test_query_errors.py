"""Errors about a query say what is wrong with it, and where; SHOW lists the whole warehouse."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.cli.query_command import run_query
from pipelines.cli.sql_statements import remove_setting_advice
from pipelines.errors import StoreError
from pipelines.spark.store import Store
from pipelines.spark.views import VIEWS
from pipelines.tables import TABLES
from tests.shared_runs import SmallRun


@pytest.fixture(scope="module")
def store(spark_application: SparkSession, small_run: SmallRun) -> Store:
    return Store(spark_application, str(small_run.warehouse))


def explain(store: Store, sql: str) -> list[str]:
    """Return the lines of the error about a query."""
    with pytest.raises(StoreError) as raised:
        run_query(store, sql, as_json=False)
    return [str(line) for line in raised.value.args]


@pytest.mark.parametrize(
    ("sql", "wrong"),
    [
        ("DELETE FROM gold.plans", "gold.plans"),
        ("update gold.plans SET moves = 0", ".plans SET"),
        ("DROP TABLE gold.plans", "gold.plans"),
        ("INSERT INTO gold.plans VALUES (1)", "gold.plans"),
        ("CREATE TABLE copy AS SELECT 1", "copy"),
        ("/* first */ EXPLAIN FORMATTED DELETE FROM gold.plans", "DELETE"),
        ("WITH x AS (SELECT 'a' AS a) INSERT INTO gold.plans SELECT * FROM x", "INSERT"),
        ("SELECT 1; DROP TABLE gold.plans", "; DROP"),
        ("SELECT 1; SELECT 2", "; SELECT"),
        ("SELECT * FORM gold.plans", "gold.plans"),
        ("SLECT * FROM gold.plans", "* FROM"),
        ("\nEXPLAIN SELECT a\tFROM t GRUOP BY a", "BY"),
        ("SELECT moves FROM gold.plans x y", "y"),
        ("SELECT * FROM gold.plans WHERE goal =", None),
        ("SELECT (1", None),
        ("SELECT 1)", None),
        ("SELECT 'a\n", "'a"),
    ],
)
def test_a_caret_points_at_what_is_wrong(store: Store, sql: str, wrong: str | None) -> None:
    first, *shown, remedy = explain(store, sql)
    assert first.startswith("invalid SQL: syntax error at")
    assert remedy.startswith(
        "query takes one statement that only reads: SELECT, WITH, VALUES, SHOW, DESCRIBE or EXPLAIN"
    )
    if wrong is None:
        assert first.endswith("the end of the statement")
        assert not shown
        return
    line, caret = shown
    assert line[caret.index("^") :].startswith(wrong)
    assert caret.strip() == "^"
    number = sql[: sql.index(wrong)].count("\n") + 1
    character = sql.index(wrong) - sql.rfind("\n", 0, sql.index(wrong))
    assert first.endswith(f" (line {number}, character {character})")


def test_the_caret_stays_below_its_place_in_a_long_line(store: Store) -> None:
    sql = f"SELECT '{'x' * 500}\t', 1 FORM gold.plans WHERE goal IN ({', '.join(['1'] * 300)})"
    _, line, caret, _ = explain(store, sql)
    assert line[caret.index("^") :].startswith("gold.plans")
    assert len(line) < 150


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("SELECT 1/0", ["try_divide"]),
        ("SELECT 1 % 0", ["try_mod"]),
        ("SELECT CAST('x' AS INT)", ["try_cast"]),
        ("SELECT 2147483647 + 1", ["try_add"]),
        ("SELECT make_date(2020, 13, 1)", ["valid values 1 - 12"]),
        ("SELECT no_function(1)", ["no_function"]),
        ("SELECT interval 1 month", ["CAST(... AS STRING)"]),
    ],
)
def test_errors_name_functions_but_neither_settings_nor_tables(store: Store, sql: str, parts: list[str]) -> None:
    text = "\n".join(explain(store, sql))
    assert all(part in text for part in parts)
    assert "ansi" not in text
    assert not any(name in text for name in (*TABLES, *(view.name for view in VIEWS)))


def test_only_the_advice_is_removed() -> None:
    advice = 'If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error.'
    message = "[X] A value of 1.5 is bad. Use `try_x` instead."
    assert remove_setting_advice(f"{message} {advice} SQLSTATE: 22012") == f"{message} SQLSTATE: 22012"
    assert remove_setting_advice(message) == message


def test_near_names_of_tables_and_columns(store: Store) -> None:
    assert "Did you mean insights.worst_pair?" in explain(store, "DESCRIBE insights.worst_par")[0]
    assert "`feasible`" in explain(store, "SELECT feasable FROM gold.plans")[0]
    assert "List all: kafka-placement tables" in explain(store, "SELECT * FROM sales")[0]


def test_show_lists_all_tables_and_views(store: Store) -> None:
    columns, rows = run_query(store, "SHOW TABLES", as_json=True)
    assert columns == ["namespace", "tableName", "isTemporary"]
    existing = {name for name in TABLES if store.exists(name)}
    assert {f"{row.namespace}.{row.tableName}" for row in rows} == existing | {view.name for view in VIEWS}
    assert len(existing) > 20
    _, rows = run_query(store, "show tables in `insights`;", as_json=False)
    assert [row.tableName for row in rows] == [view.name.removeprefix("insights.") for view in VIEWS]
    _, rows = run_query(store, "SHOW VIEWS FROM insights LIKE 'worst*|SNAPSHOTS'", as_json=False)
    assert [row.viewName for row in rows] == ["snapshots", "worst_pair"]
    _, rows = run_query(store, "SHOW VIEWS IN gold", as_json=False)
    assert rows == []
    _, rows = run_query(store, "SHOW SCHEMAS -- all", as_json=False)
    assert [row.namespace for row in rows] == ["bronze", "gold", "insights", "internal", "ops", "silver"]
    assert "no_schema" in explain(store, "SHOW TABLES IN no_schema")[0]


def test_show_lists_only_views_whose_tables_exist(spark: SparkSession, small_run: SmallRun, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(small_run.warehouse, tmp_path / "warehouse"))
    shutil.rmtree(copy / "gold" / "zone_traffic")
    _, rows = run_query(Store(spark, str(copy)), "SHOW TABLES", as_json=False)
    names = {row.tableName for row in rows}
    assert names.isdisjoint({"zone_traffic", "cross_zone_traffic"})
    assert {"plan_moves", "worst_pair"} <= names


def test_describe_a_view(store: Store) -> None:
    _, rows = run_query(store, "DESCRIBE insights.worst_pair", as_json=False)
    assert [row.col_name for row in rows][:2] == ["cluster_id", "broker_id"]
