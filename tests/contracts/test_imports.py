"""Which module may import which: stages must not import the store, nor kernels Spark."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.contracts.source_trees import parse_tree

ROOT = Path(__file__).parents[2]

# A part of the tree and what it must not import.
EDGE = ("pipelines.spark.store", "pipelines.spark.session", "pipelines.config.settings")
ABOVE_SPARK = tuple(f"pipelines.{name}" for name in ("quality", "stages", "runner", "report", "alerts", "cli"))
KERNELS = sorted(str(folder.relative_to(ROOT)) for folder in (ROOT / "udfs").rglob("kernels"))
FORBIDDEN = {
    **dict.fromkeys(KERNELS, ("pyspark", "pandas", "pyarrow", "pipelines")),
    "udfs/arrow/ragged.py": ("pyspark", "pandas", "pyarrow"),
    "udfs": ("pipelines",),
    "udfs/placement/topic_placement.py": ("pyspark",),
    "udfs/failures": ("pyspark", "pandas"),
    "udfs/durability": ("pyspark", "pandas"),
    "udfs/network": ("pyspark", "pandas"),
    "udfs/planning": ("pyspark", "pandas"),
    "udfs/hotspots": ("pyspark",),
    "pipelines/ingest": ("pyspark", "pipelines.stages", "pipelines.tables", *EDGE),
    "pipelines/plan_files": ("pyspark", "pipelines.stages", "pipelines.tables", *EDGE),
    "pipelines/assignment": ("pyspark", "pipelines.stages", "pipelines.tables", *EDGE),
    "pipelines/tables": ("pipelines.spark", *ABOVE_SPARK, "pipelines.config.settings"),
    "pipelines/quality": ("pipelines.spark", "pipelines.stages", "pipelines.config.settings"),
    "pipelines/spark": ABOVE_SPARK,
    "pipelines/stages": (
        "pipelines.quality",
        "pipelines.runner",
        "pipelines.report",
        "pipelines.alerts",
        "pipelines.cli",
    ),
    "pipelines/setup": ("pipelines.spark", *ABOVE_SPARK),
    **dict.fromkeys(
        ("pipelines/spark/store.py", "pipelines/spark/delta_tables.py", "pipelines/spark/views.py"),
        ("pipelines.stages", "pipelines.spark.session", "pipelines.config", "pipelines.runner"),
    ),
    "pipelines/spark/warehouse_folder.py": ("pyspark",),
    "pipelines/runner.py": ("pipelines.cli",),
}
# A stage is a pure function: only the registry imports several of them, and the settings.
STAGES = sorted(
    str(file.relative_to(ROOT))
    for pattern in ("*_stage.py", "*_stages.py")
    for file in (ROOT / "pipelines" / "stages").glob(pattern)
)
FORBIDDEN |= dict.fromkeys(STAGES, ("pipelines.stages", "pipelines.runner", *EDGE))
# Commands without Spark must not import it while they are loaded.
LIGHT = ("pipelines/cli", "pipelines/assignment", "pipelines/plan_files", "pipelines/config")


def list_modules(place: str) -> list[Path]:
    path = ROOT / place
    return [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))


@cache
def list_imports(file: Path, top_level_only: bool = False) -> set[str]:
    tree = parse_tree(file)
    nodes = tree.body if top_level_only else ast.walk(tree)
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize("place", FORBIDDEN)
def test_directions(place: str) -> None:
    files = list_modules(place)
    assert files
    for file in files:
        for name in list_imports(file):
            for forbidden in FORBIDDEN[place]:
                assert not f"{name}.".startswith(f"{forbidden}."), f"{file} imports {name}"


@pytest.mark.parametrize("place", LIGHT)
def test_commands_without_spark_do_not_load_it(place: str) -> None:
    for file in list_modules(place):
        assert not any(name.split(".")[0] == "pyspark" for name in list_imports(file, top_level_only=True))


# Attributes, names and imports that Spark Connect lacks: its client has no JVM.
NOT_IN_CONNECT = frozenset({"sparkContext", "SparkContext", "rdd", "_jvm", "_jsc", "_jdf", "_sc", "_jsparkSession"})


def test_only_the_session_module_reaches_into_the_jvm() -> None:
    files = [file for folder in ("pipelines", "udfs", "jobs") for file in list_modules(folder)]
    assert len(files) > 200
    hits = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in files
        if file != ROOT / "pipelines" / "spark" / "session.py"
        for name in sorted(set(list_names(parse_tree(file))) & NOT_IN_CONNECT)
    ]
    assert hits == []


def list_names(tree: ast.AST) -> Iterator[str]:
    """List every name, attribute and imported name of the code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def test_no_modules_import_each_other() -> None:
    """Not even within functions, or for types alone."""
    files = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for place in ("pipelines", "udfs")
        for file in list_modules(place)
    }
    imports = {}
    for name, file in files.items():
        known = list_imports(file) & files.keys()
        # `from package import module` names both: it needs the package only for what the package itself defines.
        packages = {one for one in known if any(other.startswith(f"{one}.") for other in known)}
        imports[name] = known - packages - {name}
    try:
        list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
