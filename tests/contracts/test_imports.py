"""Who may import whom. A stage that reaches for the store, or a kernel for Spark, fails here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# part of the tree -> what it must not import
EDGE = ("pipelines.spark.store", "pipelines.spark.session", "pipelines.config.settings")
KERNELS = sorted(str(folder.relative_to(ROOT)) for folder in (ROOT / "udfs").rglob("kernels"))
FORBIDDEN = {
    **dict.fromkeys(KERNELS, ("pyspark", "pandas", "pyarrow", "pipelines")),
    "udfs/arrow/ragged.py": ("pyspark", "pandas", "pyarrow"),
    "udfs": ("pipelines",),
    "udfs/placement/topic_batches.py": ("pyspark",),
    "udfs/failures": ("pyspark", "pandas"),
    "udfs/durability": ("pyspark", "pandas"),
    "udfs/planning": ("pyspark", "pandas"),
    "udfs/hotspots": ("pyspark",),
    "pipelines/ingest": ("pyspark", "pipelines.stages", "pipelines.tables", *EDGE),
    "pipelines/plan_files": ("pyspark", "pipelines.stages", "pipelines.tables", *EDGE),
    "pipelines/assignment": ("pyspark", "pipelines.stages", "pipelines.tables", *EDGE),
    "pipelines/tables": ("pipelines.stages", *EDGE),
    "pipelines/quality": ("pipelines.stages", *EDGE),
    "pipelines/spark/store.py": ("pipelines.stages", "pipelines.spark.session", "pipelines.config", "pipelines.runner"),
    "pipelines/runner.py": ("pipelines.cli",),
}
# A stage is a pure function: the registry alone knows several of them, and the settings.
STAGES = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "pipelines" / "stages").glob("*_stage.py"))
FORBIDDEN |= dict.fromkeys(STAGES, ("pipelines.stages", "pipelines.runner", *EDGE))
# What begins without Spark must not import it while it is loaded.
LIGHT = (
    "pipelines/cli/__init__.py",
    "pipelines/cli/app.py",
    "pipelines/cli/common_options.py",
    "pipelines/cli/help_examples.py",
    "pipelines/cli/plan_command.py",
    "pipelines/cli/replay_command.py",
    "pipelines/cli/source_commands.py",
    "pipelines/cli/warehouse_commands.py",
    "pipelines/cli/inspect_output.py",
    "pipelines/cli/what_if_output.py",
    "pipelines/cli/hotspots_output.py",
    "pipelines/cli/assign_output.py",
    "pipelines/cli/plan_output.py",
    "pipelines/cli/plan_lines.py",
    "pipelines/cli/plan_options.py",
    "pipelines/plan_files",
    "pipelines/config",
)


def modules_at(place: str) -> list[Path]:
    path = ROOT / place
    return [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))


def imports(file: Path, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(file.read_text())
    nodes = tree.body if top_level_only else ast.walk(tree)
    out: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            out |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            out |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return out


@pytest.mark.parametrize("place", FORBIDDEN)
def test_directions(place: str) -> None:
    found = modules_at(place)
    assert found
    for file in found:
        for name in imports(file):
            for forbidden in FORBIDDEN[place]:
                assert not f"{name}.".startswith(f"{forbidden}."), f"{file} imports {name}"


@pytest.mark.parametrize("place", LIGHT)
def test_commands_without_spark_do_not_load_it(place: str) -> None:
    for file in modules_at(place):
        assert not any(name.split(".")[0] == "pyspark" for name in imports(file, top_level_only=True))


# What Spark Connect has not, as attributes, names and imports: a client there has no JVM.
NOT_IN_CONNECT = frozenset({"sparkContext", "SparkContext", "rdd", "_jvm", "_jsc", "_jdf", "_sc", "_jsparkSession"})


def test_only_the_session_module_reaches_into_the_jvm() -> None:
    files = [file for folder in ("pipelines", "udfs", "jobs") for file in modules_at(folder)]
    assert len(files) > 250
    faults = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in files
        if file != ROOT / "pipelines" / "spark" / "session.py"
        for name in sorted(set(names(ast.parse(file.read_text(encoding="utf-8")))) & NOT_IN_CONNECT)
    ]
    assert faults == []


def names(tree: ast.AST) -> Iterator[str]:
    """Every name, attribute and imported name in the code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
