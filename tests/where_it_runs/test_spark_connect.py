"""The same command over Spark Connect: a client that has no JVM, as notebooks on shared clusters have none."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.where_it_runs.cluster import clean_environment
from tests.where_it_runs.conftest import CLUSTER, ROOT
from tests.where_it_runs.tables import contents

NOT_IN_CONNECT = frozenset({"sparkContext", "SparkContext", "rdd", "_jvm", "_jsc", "_jdf", "_sc", "_jsparkSession"})

# The command, then the proof that it ran over Connect.
OVER_CONNECT = """
import sys
from pipelines.cli import main
code = main(sys.argv[1:])
from pyspark.sql import SparkSession
print("session:", type(SparkSession.getActiveSession()).__module__)
sys.exit(code)
"""


def modules() -> list[Path]:
    """Every module of the program but the one that may."""
    found = [file for folder in ("pipelines", "udfs", "jobs") for file in (ROOT / folder).rglob("*.py")]
    return [file for file in found if file != ROOT / "pipelines" / "session.py"]


@pytest.mark.slow
@pytest.mark.e2e
def test_the_command_runs_over_connect(embedded_run: Path, samples: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", OVER_CONNECT, "run", str(samples / CLUSTER), "--warehouse", str(tmp_path / "warehouse")],
        env=clean_environment(tmp_path, SPARK_REMOTE="local[2]"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-5000:]
    assert "session: pyspark.sql.connect.session" in ran.stdout
    assert contents(tmp_path / "warehouse") == contents(embedded_run / "warehouse")


@pytest.mark.parametrize("name", sorted(str(file.relative_to(ROOT)) for file in modules()))
def test_only_the_session_module_reaches_into_the_jvm(name: str) -> None:
    code = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    assert sorted(set(names(code)) & NOT_IN_CONNECT) == []


def names(tree: ast.AST) -> Iterator[str]:
    """Every name, attribute and imported name in the code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
