"""The command as a person runs it: whole runs, later runs, and commands over the tables."""

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

from pipelines.tables import RUN_TABLES
from tests.commands import FEW_SEEDS, call, call_run
from tests.e2e.tables import REPEATABLE_TABLES, read_sorted
from tests.report.seen import counted, opened, unfold
from tests.shared_runs import COMMAND, SampleRun, SmallRun

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data_samples"

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def warehouse(sample_run: SampleRun) -> Path:
    """Tables of a run over both sample clusters."""
    return sample_run.warehouse


@pytest.fixture(scope="module")
def twice(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of the same run, and of a later one over a cluster with broker 2 down."""
    folder = tmp_path_factory.mktemp("twice")
    shutil.copytree(warehouse, folder / "warehouse")
    later = SAMPLES / "captures" / "kafka-4.1.1-kraft" / "topics-describe.broker-2-down.txt"
    output = call_run(f"kraft={later}", "--warehouse", str(folder / "warehouse"), *FEW_SEEDS)
    assert output.stderr == ""
    return folder / "warehouse"


def test_summary_and_paths(sample_run: SampleRun) -> None:
    """The output of `run --verbose` as a process printed it."""
    output, warehouse = sample_run.stdout, sample_run.warehouse
    for text in ("kraft", "zk", "observed", "kafka", "naive", "worst survivor", "offline", "to naive"):
        assert text in output
    for name in RUN_TABLES:
        assert str(warehouse / name.replace(".", "/")) in output
    assert (warehouse / "data_docs" / "index.html").is_file()
    assert sample_run.stderr == ""
    assert re.search(r"Seconds .*: bronze.raw_metadata \d+\.\d, .*report \d+\.\d", output)


def test_a_run_leaves_only_warehouse_and_report(sample_run: SampleRun) -> None:
    """It leaves no spark-warehouse, metastore_db, derby.log or artifacts in the current folder."""
    assert sorted(path.name for path in sample_run.folder.iterdir()) == ["warehouse", "warehouse-report.html"]
    stray = [path.name for path in sample_run.warehouse.iterdir() if path.suffix == ".db"]
    assert stray == []


def test_the_report_in_a_browser(warehouse: Path, chromium: Browser) -> None:
    """Every chart of both clusters shows data, except for racks and for trends, which need two runs."""
    file = warehouse.with_name("warehouse-report.html")
    with opened(chromium, file) as seen:
        assert seen.faults == []
        assert seen.asked == [file.as_uri()]
        unfold(seen.page)
        found = counted(seen.page)
        assert (found["charts"], found["drawn"], found["beyond"]) == (17, 17, 0)
        empty = [one.split(":")[0] for one in seen.page.locator(".nothing").all_inner_texts()]
        one_run = "There is one run for this cluster. Later runs appear here."
        assert sorted(empty) == ["Racks are unknown.", one_run, one_run]
        assert seen.page.locator("h2").all_inner_texts() == ["Overview", "Topics at risk", "kraft", "zk"]


def test_the_report_after_two_runs(twice: Path, chromium: Browser) -> None:
    """Two runs over a cluster make a line for each metric."""
    file = twice.with_name("warehouse-report.html")
    with opened(chromium, file) as seen:
        unfold(seen.page)
        assert seen.faults == []
        found = counted(seen.page)
        assert (found["charts"], found["drawn"], found["broken"], found["lines"]) == (16, 16, 0, 2)
        assert seen.page.locator("h2").all_inner_texts() == ["Overview", "Topics at risk", "kraft", "zk"]
        live = seen.page.locator("#clusters tbody td:nth-child(3)").all_inner_texts()
        assert live == ["5", "5"]
        assert "Not computed" not in seen.page.locator("main").inner_text()
        assert seen.page.locator("#c0 .plans tbody tr").count() > 0


def test_a_crossed_threshold(small_run: SmallRun) -> None:
    """The fixture checks its exit code, 4."""
    metric = "most_newly_offline_partitions"
    line = f"kafka-placement: alert: {{}}: {metric} is 1: {metric} > 0\n"
    assert small_run.stderr == line.format("mine") + line.format("prod.eu")
    assert not list(small_run.folder.glob("*-report.html"))
    wrong = call("run", *small_run.arguments, "--alert", "hotness > 1", code=64)
    assert "there is no metric hotness" in wrong.stderr


def test_tables_have_the_rows_of_the_captures(warehouse: Path) -> None:
    counts = {name: len(read_sorted(warehouse, name)) for name in RUN_TABLES}
    assert counts["silver.partitions"] == 743 + 61
    assert counts["gold.placements"] == 4 * (743 + 61)
    assert counts["silver.brokers"] == 6 + 5
    # Singles, pairs, racks, random sets of three, four (and five of the six), steps of a restart.
    assert counts["gold.failure_summary"] == 4 * (6 + 15 + 3 + (20 + 15 + 6) + 6) + 4 * (5 + 10 + (10 + 5) + 5)
    assert counts["gold.loads_after_failure"] == 4 * (6 * 5 + 3 * 4 + 5 * 4)
    assert counts["gold.durability"] == 4 * (5 + 3) + 4 * 5
    assert counts["silver.quarantine"] == 0
    assert counts["silver.conflicts"] == 0


def test_failures_agree_with_what_if(sample_run: SampleRun, warehouse: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answer.json"
    summary = DeltaTable(str(warehouse / "gold" / "failure_summary")).to_pyarrow_table().to_pylist()
    load = DeltaTable(str(warehouse / "gold" / "loads_after_failure")).to_pyarrow_table().to_pylist()
    for source, cluster in zip(sample_run.sources, ("kraft", "zk"), strict=True):
        observed = [r for r in summary if r["cluster_id"] == cluster and r["scheme"] == "observed"]
        pairs = [r for r in observed if r["scenario_kind"] == "pair"]
        singles = [r for r in observed if r["scenario_kind"] == "broker"]
        for row in [*singles, pairs[3], *(r for r in observed if r["scenario_kind"] == "rack")]:
            failed = ",".join(map(str, row["failed_brokers"]))
            call("what-if", source, "--fail", failed, "--json", str(answers))
            answer = json.loads(answers.read_text())["summary"]
            assert row["offline_partitions"] == answer["offline_after"]
            assert row["under_min_isr_partitions"] == answer["under_min_isr_after"]
            assert row["single_isr_partitions"] == answer["single_isr_partitions"]
            assert row["unclean_elections"] == answer["unclean_elections"]
            assert row["worst_survivor_ratio"] == pytest.approx(answer["worst_survivor_ratio"], abs=1e-4)
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
    rows = [json.loads(line) for line in lines]
    assert [(r["cluster_id"], r["scheme"], r["leaders"]) for r in rows] == [
        ("kraft", "kafka", 743),
        ("kraft", "kraft", 743),
        ("kraft", "naive", 743),
        ("kraft", "observed", 743),
        ("zk", "kafka", 61),
        ("zk", "kraft", 61),
        ("zk", "naive", 61),
        ("zk", "observed", 61),
    ]
    assert all(r["topic"] is None for r in rows)
    listing = call("tables", "--warehouse", str(warehouse)).stdout
    for name in RUN_TABLES:
        assert name in listing
    assert (
        "there is no table gold.placements"
        in call("query", "SELECT 1 FROM gold.placements", "--warehouse", "/nowhere", code=1).stderr
    )
    assert "invalid SQL" in call("query", "SELEC 1", "--warehouse", str(warehouse), code=1).stderr


def run_process(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, with a Spark of its own."""
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.usefixtures("spark")
def test_a_process_prints_only_its_answer(sample_run: SampleRun, warehouse: Path) -> None:
    """A query and a what-if print the same answers as within this process, and nothing else."""
    for command in (
        ("query", LEADERS, "--json", "-", "--warehouse", str(warehouse)),
        ("what-if", sample_run.sources[1], "--fail", "1000", "--json", "-"),
    ):
        done = run_process(*COMMAND, *command)
        assert (done.returncode, done.stdout, done.stderr) == (0, call(*command).stdout, ""), done.stderr


# Tables without rows for the captures.
EMPTY_TABLES = (
    "silver.measured_loads",
    "silver.quarantine",
    "silver.warnings",
    "silver.conflicts",
    "gold.over_capacity",
    "gold.quorum",
)

# Texts that each notebook prints, among others.
NOTEBOOKS = {
    "explore_a_cluster": ("max_over_mean_ratio", "partitions would go offline", "|kraft     |broker:"),
    "compare_schemes": ("ratio_to_naive", "|zk        |observed|", "kafka_placed_percent"),
    "what_if": ("|zk        |1000", "takes_over", "topicB"),
    "review_a_plan": ("lower_bound", "replicas_after", "leaders_more"),
    "metric_history": ("|kraft     |", "rows_then", "CREATE TABLE", "leader_changed"),
}
# Lines that a notebook prints once per cluster (and scheme), not once per snapshot.
PRINTED_ONCE = {
    "explore_a_cluster": r"^\|kraft +\|observed\|(\d)",
    "compare_schemes": r"^\|kraft +\|worst_survivor_ratio\|(observed)",
    "review_a_plan": r"^ cluster_id +\| kraft *\n goal +\| (repair) *$",
}


# This one runs as a process, as a person runs it; the others run in the Spark of the tests.
OWN_PROCESS = "compare_schemes"


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_run_as_scripts(
    twice: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    environment = {"KAFKA_PLACEMENT_STORE__WAREHOUSE": str(twice), "NOTEBOOK_FAILED": "1000,3"}
    file = ROOT / "notebooks" / f"{name}.py"
    if name == OWN_PROCESS:
        done = run_process(sys.executable, file, PYTHONPATH=str(ROOT), **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        output = done.stdout
    else:
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        runpy.run_path(str(file), run_name="__main__")
        output = capsys.readouterr().out
    for text in NOTEBOOKS[name]:
        assert text in output
    if name in PRINTED_ONCE:
        assert len(re.findall(PRINTED_ONCE[name], output, flags=re.M)) == 1, output


def test_every_notebook_is_run() -> None:
    assert {file.stem for file in (ROOT / "notebooks").glob("*.py")} == set(NOTEBOOKS)


def test_a_second_run_changes_no_existing_row(warehouse: Path, twice: Path) -> None:
    """Neither rows of the other cluster, nor of the earlier snapshot; not even the time of ingestion."""
    for name in REPEATABLE_TABLES:
        before = DeltaTable(str(warehouse / name.replace(".", "/"))).to_pyarrow_table()
        after = DeltaTable(str(twice / name.replace(".", "/"))).to_pyarrow_table()
        earlier = pc.is_in(after["snapshot_id"], value_set=before["snapshot_id"].unique())
        assert sort_rows(after.filter(earlier)) == sort_rows(before), name
        is_empty = name in (*EMPTY_TABLES, "silver.log_dirs")  # the later capture is a describe alone
        assert is_empty or after.num_rows > before.num_rows, name
    assert DeltaTable(str(twice / "gold" / "placements")).protocol().min_reader_version == 1


def sort_rows(table: pa.Table) -> list[str]:
    """All rows as text, sorted."""
    return sorted(repr(row) for row in table.to_pylist())


def test_a_table_fault_stops_the_run_before_gold(sample_run: SampleRun, warehouse: Path, tmp_path: Path) -> None:
    broken = tmp_path / "warehouse"
    shutil.copytree(warehouse, broken)
    shutil.rmtree(broken / "gold")
    folder = broken / "silver" / "partitions"
    table = DeltaTable(str(folder))
    repeated = table.to_pyarrow_table().slice(0, 1)
    from deltalake import write_deltalake

    write_deltalake(table, repeated, mode="append")
    done = call_run(*sample_run.sources, "--from", "quality", "--warehouse", str(broken), code=2)
    for text in ("silver.partitions", "2 of 805", repeated["topic"][0].as_py()):
        assert text in done.stderr
    assert not (broken / "gold").exists()
    results = DeltaTable(str(broken / "ops" / "quality_results")).to_pyarrow_table().to_pylist()
    failed = [r for r in results if not r["success"]]
    assert {r["unexpected_rows"] for r in failed} == {2}
