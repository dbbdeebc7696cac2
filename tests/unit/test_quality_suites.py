"""Rules from contracts, and messages about findings; without Spark and Great Expectations."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from pipelines.errors import EXIT_TABLE_FAULT, TableFault
from pipelines.ingest.sources import SnapshotKey
from pipelines.quality.quality_gate import make_result_rows, require_success
from pipelines.quality.table_rules import Finding, list_rules
from pipelines.tables import TABLES
from pipelines.tables.ops_tables import QUALITY_RESULTS
from pipelines.tables.table_contract import Between, Matches, NoRowWhere, OneOf, Table
from udfs.arrow.columns import INT, TEXT, column

GOOD = Finding("silver.topics", "keys_unique", "has the keys of another row", True, 12, 0)
BAD = Finding("silver.partitions", "replicas_distinct", "repeats a replica", False, 1200, 3, '{"topic":"a"}')


def make_table(*expectations: Between | Matches | OneOf | NoRowWhere, keys: tuple[str, ...] = ("id",)) -> Table:
    columns = (column("id", INT, "id"), column("name", TEXT, "name", required=True), column("rack", TEXT, "rack"))
    return Table("silver.things", "things", columns, keys, expectations=expectations)


def test_keys_and_required_columns_are_rules_without_being_listed() -> None:
    rules = {rule.name: rule for rule in list_rules(make_table())}
    assert list(rules) == ["id_not_null", "name_not_null", "keys_unique"]
    assert rules["name_not_null"].condition == "`name` IS NULL"
    assert rules["keys_unique"].example_columns == ("id",)


def test_a_table_without_keys_has_no_rule_on_them() -> None:
    assert [rule.name for rule in list_rules(make_table(keys=()))] == ["name_not_null"]


@pytest.mark.parametrize(
    ("expectation", "name", "condition", "fault"),
    [
        (Between("id", 0), "id_between", "NOT (`id` >= 0)", "has id that is not at least 0"),
        (
            Between("id", 0, 9),
            "id_between",
            "NOT (`id` >= 0 AND `id` <= 9)",
            "has id that is not at least 0 and at most 9",
        ),
        (Matches("name", r"a\.'b"), "name_matches", r"NOT `name` RLIKE '\\A(?:a\\.\'b)\\z'", None),
        (OneOf("rack", ("x", "y'")), "rack_one_of", r"`rack` NOT IN ('x', 'y\'')", None),
        (NoRowWhere("no_self", "name = rack", "is its own rack"), "no_self", "name = rack", "is its own rack"),
    ],
)
def test_the_condition_and_fault_of_each_kind(
    expectation: Between | Matches | OneOf | NoRowWhere, name: str, condition: str, fault: str | None
) -> None:
    rule = list_rules(make_table(expectation))[-1]
    assert (rule.name, rule.condition) == (name, condition)
    assert fault in (None, rule.fault)


def test_an_example_shows_the_keys_and_the_columns_at_fault() -> None:
    assert list_rules(make_table(NoRowWhere("no_self", "name = rack", "is its own rack")))[-1].example_columns == (
        "id",
        "name",
        "rack",
    )
    assert list_rules(make_table(Between("id", 0)))[-1].example_columns == ("id",)


def test_two_expectations_with_one_name_are_rejected() -> None:
    with pytest.raises(ValueError, match="two expectations named id_between"):
        list_rules(make_table(Between("id", 0), Between("id", None, 5)))


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_table_of_the_program_has_rules_with_different_names(table: Table) -> None:
    list_rules(table)


def test_the_gate_lets_good_tables_pass() -> None:
    require_success([GOOD])


def test_the_gate_names_expectation_rows_example_and_remedy() -> None:
    with pytest.raises(TableFault) as raised:
        require_success([GOOD, BAD])
    message = str(raised.value)
    assert raised.value.exit_code == EXIT_TABLE_FAULT
    assert (
        'silver.partitions: replicas_distinct: 3 of 1,200 rows: a row repeats a replica, for example {"topic":"a"}'
        in message
    )
    assert "silver.quarantine" in message
    assert "run again" in message
    assert "silver.topics" not in message


def test_the_gate_lists_every_failed_expectation() -> None:
    other = Finding("silver.topics", "topic_matches", "has a bad name", False, 5, 1, "{}")
    with pytest.raises(TableFault, match=r"(?s)2 expectations.*replicas_distinct.*topic_matches"):
        require_success([BAD, other])


def test_each_snapshot_gets_its_own_part_of_each_finding() -> None:
    a, b = SnapshotKey("a", "1"), SnapshotKey("b", "2")
    bad = replace(BAD, by_snapshot={b: (3, '{"topic":"a"}')})
    rows = make_result_rows([GOOD, bad], {("silver.partitions", b): 1200}, [a, b])
    names = [name for name in QUALITY_RESULTS.column_names if name not in ("table_name", "expectation")]
    results = {(row[0], row[3]): dict(zip(QUALITY_RESULTS.column_names, row, strict=True)) for row in rows}
    assert {key: [row[name] for name in names] for key, row in results.items()} == {
        ("a", "keys_unique"): ["a", "1", True, 0, 0, None],
        ("a", "replicas_distinct"): ["a", "1", True, 0, 0, None],
        ("b", "keys_unique"): ["b", "2", True, 0, 0, None],
        ("b", "replicas_distinct"): ["b", "2", False, 1200, 3, '{"topic":"a"}'],
    }


def test_great_expectations_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, pipelines.quality.quality_gate; sys.exit('great_expectations' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
