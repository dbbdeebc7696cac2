"""Every stage has a test that compares frames with chispa: `@pytest.mark.stage("gold.placements")` names its table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from pipelines.stages.stage_registry import RAW, STAGES, STEPS
from pipelines.tables import REPLAY_TABLES
from pipelines.tables.ops_tables import SUMMARY_STAGE

FOLDER = Path(__file__).parents[1] / "spark"
# The tables of a run, and those of a replay.
TABLES = {RAW, *(stage.table for stage in STAGES), *REPLAY_TABLES}
COMPARISONS = {"assert_df_equality", "assert_approx_df_equality"}


def list_marked_tests(folder: Path) -> Iterator[tuple[str, ast.FunctionDef, tuple[str, ...]]]:
    """Place, definition and tables of every test with the mark `stage`."""
    for file in sorted(folder.rglob("test_*.py")):
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and (tables := list_tables(function)):
                yield f"{file.relative_to(folder)}: {function.name}", function, tables


def list_tables(function: ast.FunctionDef) -> tuple[str, ...]:
    """Arguments of a function's mark `stage`."""
    marks = (mark for mark in function.decorator_list if isinstance(mark, ast.Call))
    arguments = (mark.args for mark in marks if ast.unparse(mark.func) == "pytest.mark.stage")
    return tuple(ast.literal_eval(argument) for group in arguments for argument in group)


def compares_frames(function: ast.FunctionDef) -> bool:
    """Whether a test calls chispa."""
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(isinstance(name, ast.Name) and name.id in COMPARISONS for name in calls)


def test_every_stage_has_a_test() -> None:
    assert {table for _, _, tables in list_marked_tests(FOLDER) for table in tables} == TABLES


def test_marked_tests_compare_frames() -> None:
    assert [place for place, function, _ in list_marked_tests(FOLDER) if not compares_frames(function)] == []


def test_a_mark_without_a_comparison_is_noticed(tmp_path: Path) -> None:
    source = '@pytest.mark.stage("gold.plans", "gold.plan_moves")\ndef test_plans(spark):\n    assert spark\n'
    (tmp_path / "test_plans.py").write_text(f"{source}def test_others(spark):\n    assert_df_equality(spark, spark)\n")
    ((place, function, tables),) = list_marked_tests(tmp_path)
    assert (place, tables) == ("test_plans.py: test_plans", ("gold.plans", "gold.plan_moves"))
    assert not compares_frames(function)


def test_a_run_up_to_the_summary_has_its_verdict() -> None:
    assert STEPS.index("gold.findings") < STEPS.index(SUMMARY_STAGE)
