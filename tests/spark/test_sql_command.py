"""`sql` answers several queries in one session, and reports each error in one line without ending it."""

from __future__ import annotations

import errno
import json
import os
import shutil
from io import StringIO
from pathlib import Path

import pytest

from pipelines.cli import query_command
from tests.commands import Output, call
from tests.shared_runs import SmallRun
from udfs.planning.plan_rows import METRICS, read_metric

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("spark")]


class Terminal(StringIO):
    """A terminal to type at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def warehouse(small_run: SmallRun, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(small_run.warehouse, tmp_path / "warehouse"))


def type_sql(
    monkeypatch: pytest.MonkeyPatch, warehouse: Path, text: str, *options: str, code: int = 0, terminal: bool = False
) -> Output:
    """Run the command with this text as its stdin."""
    monkeypatch.setattr("sys.stdin", Terminal(text) if terminal else StringIO(text))
    return call("sql", "--warehouse", str(warehouse), *options, code=code)


def test_queries_of_a_pipe_are_answered_in_order(monkeypatch: pytest.MonkeyPatch, small_run: SmallRun) -> None:
    text = """
SELECT cluster_id AS name FROM insights.snapshots ORDER BY 1; SELECT ';' AS `;` -- a comment; not an end
; /* nothing; */ ;
SELECT
  1 + 1 AS two"""
    output = type_sql(monkeypatch, small_run.warehouse, text, "--json")
    assert [json.loads(line) for line in output.stdout.splitlines()] == [
        {"name": "mine"},
        {"name": "other"},
        {"name": "prod.eu"},
        {";": ";"},
        {"two": 2},
    ]
    assert output.stderr == ""


def test_an_error_does_not_end_the_session(monkeypatch: pytest.MonkeyPatch, small_run: SmallRun) -> None:
    text = "SELECT 1 AS one; SELECT nothing; SELECT 2 AS two; SELEC 3; SELECT 4 AS four"
    output = type_sql(monkeypatch, small_run.warehouse, text, "--json", code=1)
    assert output.stdout.split("\n") == ['{"one": 1}', '{"two": 2}', '{"four": 4}', ""]
    errors = [line for line in output.stderr.splitlines() if line.startswith("kafka-placement: ")]
    assert [line.partition(": invalid SQL: ")[0] for line in errors] == [
        "kafka-placement: query 2",
        "kafka-placement: query 4",
    ]


def test_the_number_and_text_of_a_query_come_before_its_rows(
    monkeypatch: pytest.MonkeyPatch, small_run: SmallRun
) -> None:
    output = type_sql(monkeypatch, small_run.warehouse, "SELECT 1\n  AS one; SELECT nothing; SELECT 2 AS two;", code=1)
    lines = [line.strip() for line in output.stdout.splitlines()]
    assert lines == [
        *("query 1: SELECT 1 AS one", "one", "1"),
        "query 2: SELECT nothing",
        *("query 3: SELECT 2 AS two", "two", "2"),
    ]
    assert output.stderr.startswith("kafka-placement: query 2: invalid SQL: ")


def test_quit_ends_the_session(monkeypatch: pytest.MonkeyPatch, small_run: SmallRun) -> None:
    output = type_sql(monkeypatch, small_run.warehouse, "SELECT 1 AS one;\nQUIT;\nSELECT 2 AS two;\n", "--json")
    assert output.stdout == '{"one": 1}\n'


def test_a_terminal_has_a_prompt_and_ends_without_an_error(
    monkeypatch: pytest.MonkeyPatch, small_run: SmallRun
) -> None:
    lines = iter(["SELECT", "nothing;", "SELECT 1 AS one;", "exit"])
    prompts = []

    def read(prompt: str) -> str:
        prompts.append(prompt)
        return next(lines)

    monkeypatch.setattr("builtins.input", read)
    output = type_sql(monkeypatch, small_run.warehouse, "", "--json", terminal=True)
    assert prompts == [query_command._PROMPT, query_command._NEXT_PROMPT, query_command._PROMPT, query_command._PROMPT]
    assert output.stdout == '{"one": 1}\n'
    assert "`nothing` cannot be resolved" in output.stderr


def corrupt(log: Path) -> None:
    next(iter(sorted(log.glob("*.json")))).write_text("{\n")


def empty(log: Path) -> None:
    for file in log.parent.rglob("*.parquet"):
        file.write_bytes(b"")


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("SELEC 1", ("invalid SQL", "SELEC")),
        ("SELECT * FROM gold.plan", ("there is no table or view gold.plan", "Did you mean gold.plans")),
        ("SELECT * FROM gold.durabilty", ("Did you mean gold.durability?",)),
        ("SELECT * FROM sales", ("there is no table or view sales", "kafka-placement tables")),
        ("SELECT broker FROM silver.brokers", ("`broker` cannot be resolved", "broker_id")),
        ("SELECT CAST(cluster_id AS INT) FROM silver.brokers", ("the query failed", "'prod.eu'|'other'|'mine'")),
        ("SELECT 1 / (broker_id - broker_id) FROM silver.brokers", ("the query failed", "Division by zero")),
        ("SELECT * FROM gold.durability", ("gold.durability", "is damaged")),
        ("SELECT * FROM gold.headroom", ("gold.headroom", "is damaged")),
    ],
)
def test_an_error_of_spark_is_one_line(
    monkeypatch: pytest.MonkeyPatch, warehouse: Path, sql: str, parts: tuple[str, ...]
) -> None:
    corrupt(warehouse / "gold" / "durability" / "_delta_log")
    empty(warehouse / "gold" / "headroom" / "_delta_log")
    output = type_sql(monkeypatch, warehouse, f"{sql}; SELECT 1 AS one", "--json", code=1)
    assert output.stdout == '{"one": 1}\n'
    first = output.stderr.splitlines()[0]
    for part in parts:
        assert any(text in output.stderr for text in part.split("|")), output.stderr
    assert first.startswith("kafka-placement: ")
    for word in ("Py4J", "Traceback", "\tat ", "org.apache", "java.", "SQLSTATE: XX"):
        assert word not in output.stderr
    assert len(output.stderr.splitlines()) <= 6


def test_a_warehouse_that_is_a_file_is_an_error_of_each_query(monkeypatch: pytest.MonkeyPatch, warehouse: Path) -> None:
    shutil.rmtree(warehouse)
    warehouse.write_text("x")
    output = type_sql(monkeypatch, warehouse, "SELECT * FROM gold.plans; SELECT 1 AS one", "--json", code=1)
    assert output.stdout == '{"one": 1}\n'
    assert output.stderr.startswith(f"kafka-placement: query 1: there is no table gold.plans at {warehouse}")
    assert len(output.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "unreadable", ["gold/plans/_delta_log", "gold/plans/*.parquet", "gold/plans/_delta_log/*0.json"]
)
def test_a_file_that_may_not_be_read_is_not_damage(
    monkeypatch: pytest.MonkeyPatch, warehouse: Path, unreadable: str
) -> None:
    """Root may read all files, so the system's calls are replaced."""
    denied = {str(path) for path in warehouse.rglob("*") if path.match(unreadable) or "plans/cluster_id" in str(path)}
    if not unreadable.endswith(".parquet"):
        denied = {path for path in denied if "_delta_log" in path}
    access, listing, reading = os.access, Path.iterdir, Path.read_bytes

    def check(path: Path) -> Path:
        if str(path) in denied:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return path

    monkeypatch.setattr(os, "access", lambda path, mode: str(path) not in denied and access(path, mode))
    monkeypatch.setattr(Path, "iterdir", lambda path: listing(check(path)))
    monkeypatch.setattr(Path, "read_bytes", lambda path: reading(check(path)))
    output = type_sql(monkeypatch, warehouse, "SELECT goal FROM gold.plans; SELECT 1 AS one", "--json", code=1)
    assert output.stdout == '{"one": 1}\n'
    (line,) = output.stderr.splitlines()
    assert line.startswith(f"kafka-placement: query 1: table at {warehouse}/gold/plans: no permission to read ")
    assert "damaged" not in line


@pytest.mark.parametrize("cluster", ["other", "prod.eu"])
def test_metrics_of_a_plan_agree_with_its_json(
    monkeypatch: pytest.MonkeyPatch, small_run: SmallRun, cluster: str
) -> None:
    """Each is a row: before, after, and the lower bound of what the plan minimizes."""
    source = next(argument for argument in small_run.arguments if argument.startswith(f"{cluster}="))
    plan = json.loads(call("plan", source, "--goal", "leaders", "--json", "-").stdout)
    condition = f"cluster_id = '{cluster}' AND goal = 'leaders'"
    sql = f"SELECT metric, before, after, lower_bound FROM gold.plan_metrics WHERE {condition}"
    lines = type_sql(monkeypatch, small_run.warehouse, sql, "--json").stdout.splitlines()
    rows = {row.pop("metric"): row for row in map(json.loads, lines)}
    assert len(rows) == len(lines)
    costs = {"copied_bytes": "bytes_to_copy", "moves": "moves", "leader_changes": "leader_changes"}
    assert {*rows} == {*costs, *METRICS, "under_replicated_partitions", "fullest_broker_bytes"}
    for name, key in costs.items():
        assert (rows[name]["before"], rows[name]["after"]) == (0, plan["metrics"][key]), name
    for metric in METRICS:
        expected = [read_metric(plan["metrics"][when], metric) for when in ("before", "after")]
        found = [rows[metric][when] for when in ("before", "after")]
        assert found == [None if one is None else pytest.approx(one, abs=1e-5) for one in expected], metric
    assert rows["leader_changes"]["lower_bound"] == plan["certificate"]["changes_lower_bound"]
    assert rows["copysets"]["lower_bound"] is None
