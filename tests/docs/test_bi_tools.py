"""The Python steps of docs/bi-tools.md run over the tables of a run."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from tests.docs.pages import ROOT, blocks
from tests.shared_runs import SmallRun

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.mark.usefixtures("spark_application")
def test_steps_in_python(small_run: SmallRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "warehouse").symlink_to(small_run.warehouse)
    steps = blocks(ROOT / "docs" / "bi-tools.md", "python")
    assert len(steps) == 2
    with chdir(tmp_path):
        for step in steps:
            exec(compile(step.text, step.name, "exec"), {})
            assert "prod.eu" in capsys.readouterr().out


@pytest.mark.usefixtures("spark_application")
def test_the_queries_run_in_duckdb_with_the_exceptions_that_the_page_names(small_run: SmallRun) -> None:
    connection = duckdb.connect()
    for schema in ("ops", "silver", "gold", "insights"):
        connection.execute(f"CREATE SCHEMA {schema}")
        for folder in (Path(small_run.warehouse) / schema).iterdir():
            connection.register("table_rows", DeltaTable(folder).to_pyarrow_table())
            connection.execute(f"CREATE TABLE {schema}.{folder.name} AS SELECT * FROM table_rows")
    queries = [block.text for block in blocks(ROOT / "docs" / "queries.md", "sql") if "VERSION AS OF" not in block.text]
    assert len(queries) > 30
    for query in queries:
        connection.execute(query.replace("explode(sequence(", "unnest(generate_series("))
    connection.close()
