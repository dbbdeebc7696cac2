"""Views are stored in a catalog that can hold views, otherwise in the session. Each test is a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.spark.views import VIEWS
from tests.commands import LAST_STAGE
from tests.shared_runs import SmallRun
from tests.where_it_runs.cluster import clean_environment

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

# Hive's metastore, in Derby, as many clusters have: its catalog has the tables of a run, but for the last one. It need
# not survive a power failure. The commands use this process's session.
METASTORE = """
import contextlib, io, json, sys
from pathlib import Path
from pipelines.cli import main
from pipelines.spark.session import open_session

folder, whole = Path(sys.argv[1]), Path(sys.argv[2])
spark = open_session("a cluster with a metastore", warehouse=str(folder / "managed"), small=True, extra={
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.catalogImplementation": "hive",
    "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'metastore'};create=true",
    "spark.driver.extraJavaOptions":
        f"-Dderby.system.home={folder} -Dderby.system.durability=test "
        "-Xss4m -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
})
for schema in ("bronze", "internal", "silver", "gold", "ops"):
    spark.sql(f"CREATE SCHEMA {schema}")
for table in sorted(log.parent.relative_to(whole) for log in whole.glob("*/*/_delta_log")):
    spark.sql(f"CREATE TABLE {table.parent}.{table.name} USING delta LOCATION '{whole / table}'")
results = []
for arguments in json.loads(sys.argv[3]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = main(arguments)
    results.append([code, out.getvalue()])

# Another session, with plain SQL only.
other = spark.newSession()
kinds, comments = {}, {}
for row in other.sql("SHOW VIEWS IN insights").collect():
    name = f"insights.{row['viewName']}"
    about = {r[0]: r[1] for r in other.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}
    kinds[name], comments[name] = about["Type"], about["Comment"]
    other.table(name).schema  # Spark can resolve it
about_hot = "SELECT broker_id, leaders FROM insights.hottest_brokers WHERE cluster_id = 'prod.eu' ORDER BY place"
hot = [list(r) for r in other.sql(about_hot).collect()]
print(json.dumps([results, kinds, comments, hot]))
"""


def run_python(code: str, folder: Path, *arguments: str) -> Any:
    """Run code in a Python of its own; return the JSON that it printed last."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=clean_environment(folder, PYTHONPATH=str(ROOT)),
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_views_of_a_metastore(small_run: SmallRun, tmp_path: Path) -> None:
    """A run creates them, commands read them, and another session has them too."""
    page, whole = tmp_path / "fleet.html", tmp_path / "whole"
    shutil.copytree(small_run.warehouse, whole)
    shutil.rmtree(whole / "gold" / "scheme_comparison")
    shutil.rmtree(whole / "insights")  # a catalog has views instead
    catalog = ["--set", "store.catalog=spark_catalog"]
    sql = "SELECT broker_id, answer FROM insights.broker_failure_risk WHERE cluster_id = 'prod.eu' ORDER BY broker_id"
    commands = [
        ["run", *small_run.arguments, *catalog, *LAST_STAGE],
        ["query", sql, "--json", "-", *catalog],
        ["report", str(page), *catalog],
    ]
    arguments = (str(tmp_path), str(whole), json.dumps(commands))
    results, kinds, comments, hot = run_python(METASTORE, tmp_path, *arguments)
    assert [code for code, _ in results] == [0, 0, 0]
    answers = [json.loads(line) for line in results[1][1].splitlines()]
    assert answers[0] == {"broker_id": 1, "answer": "No: 1 partition would go offline"}
    assert "prod.eu" in page.read_text()
    assert kinds == {view.name: "VIEW" for view in VIEWS}
    assert comments == {view.name: view.comment for view in VIEWS}
    assert hot == [[1, 1], [2, 0]]  # whether broker 2 is live is unknown: it counts as live


# A catalog without views, as the open-source Unity Catalog: here Spark's JDBC catalog, over an in-memory Derby.
WITHOUT_VIEWS = """
import json
from pyspark.errors import AnalysisException
from pipelines.spark.session import open_session
from pipelines.spark.views import create_views, register_catalog_views
from pipelines.spark.views import View

spark = open_session("t", warehouse=None, small=True, extra={
    "spark.master": "local[1]",
    "spark.driver.memory": "1g",
    "spark.sql.catalog.shop": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
    "spark.sql.catalog.shop.url": "jdbc:derby:memory:shop;create=true",
    "spark.sql.catalog.shop.driver": "org.apache.derby.jdbc.EmbeddedDriver",
})
spark.catalog.setCurrentCatalog("shop")
spark.sql("CREATE SCHEMA gold")
spark.sql("CREATE TABLE gold.one (a INT)")
spark.sql("INSERT INTO gold.one VALUES (7)")
spark.sql("CREATE TABLE gold.other (b INT)")
views = [
    View("insights.plain", "of a table", "SELECT a FROM gold.one"),
    View("insights.upon", "of a view", "SELECT a + 1 AS a FROM insights.plain"),
]
created = create_views(spark, views)
register_catalog_views(spark, "shop", views, ["gold.other"])
register_catalog_views(spark, "shop", views, ["gold.other"])
names = ("insights.plain", "insights.upon", "gold.one", "gold.other")
rows = [spark.sql(f"SELECT * FROM {name}").collect() for name in names]
print(json.dumps([created, rows]))
"""


def test_a_catalog_that_cannot_hold_views(tmp_path: Path) -> None:
    assert run_python(WITHOUT_VIEWS, tmp_path) == [False, [[[7]], [[8]], [[7]], []]]
