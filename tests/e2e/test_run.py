"""The command as a person runs it: whole runs, runs again, and what commands say of the tables."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipelines.tables import OF_RUNS
from tests.commands import call
from tests.e2e.tables import SAME, rows
from tests.report.seen import counted, opened
from tests.shared import COMMAND, Finished, Small

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data_samples"

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def warehouse(finished: Finished) -> Path:
    """A run over both sample clusters, never killed."""
    return finished.warehouse


@pytest.fixture(scope="module")
def twice(
    finished: Finished, warehouse: Path, spark_application: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The same, and a later run over one of the clusters, whose broker 2 is down by then."""
    folder = tmp_path_factory.mktemp("twice")
    shutil.copytree(warehouse, folder / "warehouse")
    later = SAMPLES / "captures" / "kafka-4.1.1-kraft" / "topics-describe.broker-2-down.txt"
    done = call("run", f"kraft={later}", "--warehouse", str(folder / "warehouse"))
    assert done.stderr == ""
    return folder / "warehouse"


def test_closing_table_and_paths(finished: Finished) -> None:
    """As the process printed them. All that is said of a run's closing output stands here."""
    said, warehouse = finished.stdout, finished.warehouse
    for text in ("kraft", "zk", "observed", "kafka", "naive", "worst survivor", "offline", "to naive"):
        assert text in said
    for name in OF_RUNS:
        assert str(warehouse / name.replace(".", "/")) in said
    assert (warehouse / "data_docs" / "index.html").is_file()
    assert finished.stderr == ""
    assert re.search(r"Seconds .*: bronze.raw_metadata \d+\.\d, .*report \d+\.\d", said)


def test_it_leaves_nothing_but_its_warehouse(finished: Finished) -> None:
    """And its report: no spark-warehouse, metastore_db, derby.log or artifacts where the command was run."""
    assert sorted(path.name for path in finished.folder.iterdir()) == ["warehouse", "warehouse-report.html"]
    stray = [path.name for path in finished.warehouse.iterdir() if path.suffix == ".db"]
    assert stray == []


def test_its_report_is_read_in_a_browser(warehouse: Path, chromium: Browser) -> None:
    """Of both real clusters: every chart has something to show but one trend, of one run, each."""
    file = warehouse.with_name("warehouse-report.html")
    with opened(chromium, file) as seen:
        assert seen.faults == []
        assert seen.asked == [file.as_uri()]
        found = counted(seen.page)
        assert (found["charts"], found["drawn"], found["beyond"]) == (16, 16, 0)
        empty = [one.split(":")[0] for one in seen.page.locator(".nothing").all_inner_texts()]
        assert sorted(empty) == [
            "No racks are known.",
            "The tables hold one run over this cluster",
            "The tables hold one run over this cluster",
        ]
        assert seen.page.locator("h2").all_inner_texts() == ["The fleet at a glance", "kraft", "zk"]


def test_a_later_run_shows_how_it_went(twice: Path, chromium: Browser) -> None:
    """And how it went: two runs over a cluster are a line for each metric."""
    file = twice.with_name("warehouse-report.html")
    with opened(chromium, file) as seen:
        assert seen.faults == []
        found = counted(seen.page)
        assert (found["charts"], found["drawn"], found["broken"], found["lines"]) == (16, 16, 0, 2)
        assert seen.page.locator("h2").all_inner_texts() == ["The fleet at a glance", "kraft", "zk"]
        live = seen.page.locator("main > section.card tbody td:nth-child(3)").all_inner_texts()
        assert live == ["5", "5"]
        assert "and no plan does with less" in seen.page.locator("#c0 [data-chart=plan]").inner_text()


def test_a_threshold_that_is_crossed(small: Small) -> None:
    """Its exit code, 4, is looked at as it is made."""
    said = "kafka-placement: alert: {}: most_newly_offline_partitions is 1: newly_offline > 0\n"
    assert small.stderr == said.format("mine") + said.format("prod.eu")
    assert not list(small.folder.glob("*-report.html"))
    wrong = call("run", *small.arguments, "--alert", "hotness > 1", code=64)
    assert "there is no metric hotness" in wrong.stderr


def test_rows_are_those_of_the_captures(warehouse: Path) -> None:
    counts = {name: len(rows(warehouse, name)) for name in OF_RUNS}
    assert counts["silver.partitions"] == 743 + 61
    assert counts["gold.placements"] == 4 * (743 + 61)
    assert counts["silver.brokers"] == 6 + 5
    # Singles, pairs, racks, random sets of three, four (and five of the six), steps of a restart.
    assert counts["gold.failure_summary"] == 4 * (6 + 15 + 3 + (20 + 15 + 6) + 6) + 4 * (5 + 10 + (10 + 5) + 5)
    assert counts["gold.failure_load"] == 4 * (6 * 5 + 3 * 4 + 5 * 4)
    assert counts["gold.durability"] == 4 * (5 + 3) + 4 * 5
    assert counts["silver.quarantine"] == 0
    assert counts["silver.conflicts"] == 0


def test_failures_agree_with_what_if(finished: Finished, warehouse: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answer.json"
    summary = DeltaTable(str(warehouse / "gold" / "failure_summary")).to_pyarrow_table().to_pylist()
    load = DeltaTable(str(warehouse / "gold" / "failure_load")).to_pyarrow_table().to_pylist()
    for source, cluster in zip(finished.sources, ("kraft", "zk"), strict=True):
        mine = [r for r in summary if r["cluster_id"] == cluster and r["scheme"] == "observed"]
        pairs = [r for r in mine if r["scenario_kind"] == "pair"]
        singles = [r for r in mine if r["scenario_kind"] == "broker"]
        for row in [*singles, pairs[3], *(r for r in mine if r["scenario_kind"] == "rack")]:
            failed = ",".join(map(str, row["failed_brokers"]))
            call("what-if", source, "--fail", failed, "--json", str(answers))
            answer = json.loads(answers.read_text())["summary"]
            assert row["offline_partitions"] == answer["offline_after"]
            assert row["under_min_isr_partitions"] == answer["under_min_isr_after"]
            assert row["single_isr_partitions"] == answer["at_one_replica_after"]
            assert row["unclean_elections"] == answer["unclean_elections"]
            assert row["worst_survivor_ratio"] == pytest.approx(answer["worst_survivor_max_over_mean"], abs=1e-4)
            survivors = {
                str(r["broker_id"]): r["leaders_after"]
                for r in load
                if (r["cluster_id"], r["scheme"], r["scenario"]) == (cluster, "observed", row["scenario"])
            }
            assert survivors == ({} if row["scenario_kind"] == "pair" else answer["leaders_after"])
        assert len(singles) == {"kraft": 6, "zk": 5}[cluster]


LEADERS = "SELECT cluster_id, scheme, leaders, topic FROM gold.leader_hotspots WHERE topic IS NULL ORDER BY 1, 2"


@pytest.mark.usefixtures("spark")
def test_query_and_tables(warehouse: Path) -> None:
    lines = call("query", LEADERS, "--json", "-", "--warehouse", str(warehouse)).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert [(r["cluster_id"], r["scheme"], r["leaders"]) for r in found] == [
        ("kraft", "kafka", 743),
        ("kraft", "kraft", 743),
        ("kraft", "naive", 743),
        ("kraft", "observed", 743),
        ("zk", "kafka", 61),
        ("zk", "kraft", 61),
        ("zk", "naive", 61),
        ("zk", "observed", 61),
    ]
    assert all(r["topic"] is None for r in found)
    listed = call("tables", "--warehouse", str(warehouse)).stdout
    for name in OF_RUNS:
        assert name in listed
    assert (
        "there is no table gold.placements"
        in call("query", "SELECT 1 FROM gold.placements", "--warehouse", "/nowhere", code=1).stderr
    )
    assert "not understood" in call("query", "SELEC 1", "--warehouse", str(warehouse), code=1).stderr


def process(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a process of its own did, with a Spark of its own."""
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.usefixtures("spark")
def test_a_process_prints_its_answer_alone(finished: Finished, warehouse: Path) -> None:
    """A query and a what-if: the same answers as within this process, on stdout, and nothing beside them."""
    for command in (
        ("query", LEADERS, "--json", "-", "--warehouse", str(warehouse)),
        ("what-if", finished.sources[1], "--fail", "1000", "--json", "-"),
    ):
        done = process(*COMMAND, *command)
        assert (done.returncode, done.stdout, done.stderr) == (0, call(*command).stdout, ""), done.stderr


# Of the captures, these tables have no row.
EMPTY = ("silver.quarantine", "silver.conflicts", "gold.over_capacity")

# What each notebook shows of the run, among other things.
NOTEBOOKS = {
    "explore_a_cluster": ("max_over_mean_ratio", "no: partitions would be offline", "|kraft     |broker:"),
    "compare_schemes": ("ratio_to_naive", "|zk        |observed|", "kafka_placed_percent"),
    "what_if": ("|zk        |1000", "takes_over", "topicB"),
    "review_a_plan": ("lower_bound", "replicas_after", "leaders_more"),
    "metric_history": ("|kraft     |", "rows_then", "CREATE TABLE", "other leader"),
}
# What a notebook shows of the newest snapshot has each of these once a cluster (and scheme), and not once a snapshot.
ONCE = {
    "explore_a_cluster": r"^\|kraft +\|observed\|(\d)",
    "compare_schemes": r"^\|kraft +\|worst_survivor_ratio\|(observed)",
    "review_a_plan": r"^ cluster_id +\| (kraft) *$",
}


# The one that runs as a process, as a person runs it. The others run in the Spark of the tests.
PROCESS = "review_a_plan"


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_run_as_scripts(
    twice: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    where = {"KAFKA_PLACEMENT_STORE__WAREHOUSE": str(twice), "NOTEBOOK_FAILED": "1000,3"}
    file = ROOT / "notebooks" / f"{name}.py"
    if name == PROCESS:
        done = process(sys.executable, file, PYTHONPATH=str(ROOT), **where)
        assert done.returncode == 0, done.stdout + done.stderr
        said = done.stdout
    else:
        for key, value in where.items():
            monkeypatch.setenv(key, value)
        runpy.run_path(str(file), run_name="__main__")
        said = capsys.readouterr().out
    for text in NOTEBOOKS[name]:
        assert text in said
    if name in ONCE:
        assert len(re.findall(ONCE[name], said, flags=re.M)) == 1, said


def test_every_notebook_is_run() -> None:
    assert {file.stem for file in (ROOT / "notebooks").glob("*.py")} == set(NOTEBOOKS)


def test_a_second_run_changes_no_row(warehouse: Path, twice: Path) -> None:
    """Of the cluster that it is not over, nor of the other's earlier snapshot; not even when it was read."""
    for name in SAME:
        before = DeltaTable(str(warehouse / name.replace(".", "/"))).to_pyarrow_table()
        after = DeltaTable(str(twice / name.replace(".", "/"))).to_pyarrow_table()
        earlier = pc.is_in(after["snapshot_id"], value_set=before["snapshot_id"].unique())
        assert in_order(after.filter(earlier)) == in_order(before), name
        assert name in EMPTY or after.num_rows > before.num_rows, name
    assert DeltaTable(str(twice / "gold" / "placements")).protocol().min_reader_version == 1


def in_order(table: pa.Table) -> list[str]:
    """Its rows, whatever the order in which they were written."""
    return sorted(repr(row) for row in table.to_pylist())


@pytest.mark.usefixtures("spark")
def test_a_table_fault_stops_the_run_before_gold(finished: Finished, warehouse: Path, tmp_path: Path) -> None:
    broken = tmp_path / "warehouse"
    shutil.copytree(warehouse, broken)
    shutil.rmtree(broken / "gold")
    place = broken / "silver" / "partitions"
    table = DeltaTable(str(place))
    doubled = table.to_pyarrow_table().slice(0, 1)
    from deltalake import write_deltalake

    write_deltalake(table, doubled, mode="append")
    done = call("run", *finished.sources, "--from", "quality", "--warehouse", str(broken), code=2)
    for text in ("silver.partitions", "2 of 805", doubled["topic"][0].as_py()):
        assert text in done.stderr
    assert not (broken / "gold").exists()
    results = DeltaTable(str(broken / "ops" / "quality_results")).to_pyarrow_table().to_pylist()
    failed = [r for r in results if not r["success"]]
    assert {r["unexpected_rows"] for r in failed} == {2}
