"""Who may import whom. A stage that reaches for the store, or a kernel for Spark, fails here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# part of the tree -> what it must not import
EDGE = ("pipelines.store", "pipelines.session", "pipelines.settings")
FORBIDDEN = {
    "udfs/kernels": ("pyspark", "pandas", "pyarrow", "pipelines", "udfs.placement", "udfs.schemes", "udfs.outcomes"),
    "udfs": ("pipelines",),
    "udfs/placement.py": ("pyspark",),
    "udfs/outcomes": ("pyspark", "pandas"),
    "udfs/planning": ("pyspark", "pandas"),
    "udfs/hotspots.py": ("pyspark",),
    "udfs/hotspot_odds.py": ("pyspark",),
    "udfs/hotspot_batches.py": ("pyspark",),
    "pipelines/ingest": ("pyspark", "pipelines.stages", "pipelines.tables", *EDGE),
    "pipelines/plans": ("pyspark", "pipelines.stages", "pipelines.tables", "pipelines.store", "pipelines.session"),
    "pipelines/assign": ("pyspark", "pipelines.stages", "pipelines.tables", *EDGE),
    "pipelines/stages": ("pipelines.stages", "pipelines.runner", *EDGE),
    "pipelines/tables": ("pipelines.stages", *EDGE),
    "pipelines/quality": ("pipelines.stages", *EDGE),
    "pipelines/store.py": ("pipelines.stages", "pipelines.session", "pipelines.settings", "pipelines.runner"),
    "pipelines/runner.py": ("pipelines.cli",),
}
# What begins without Spark must not import it while it is loaded.
LIGHT = (
    "pipelines/cli",
    "pipelines/commands/inspect.py",
    "pipelines/commands/what_if.py",
    "pipelines/commands/hotspots.py",
    "pipelines/commands/assign.py",
    "pipelines/commands/plan.py",
    "pipelines/commands/plan_lines.py",
    "pipelines/commands/plan_options.py",
    "pipelines/plans",
    "pipelines/settings.py",
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
        if file != ROOT / "pipelines" / "session.py"
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
