"""The command as a person runs it: whole runs, runs again, runs that are killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from pipelines.stage_list import STEPS
from pipelines.tables import OF_RUNS, TABLES
from tests.report.seen import counted, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data_samples"
COMMAND = [sys.executable, "-m", "pipelines.cli"]
SOURCES = [f"kraft={SAMPLES / 'kafka-4.1.1-kraft'}", f"zk={SAMPLES / 'kafka-2.8.2-zookeeper'}"]
# What is different in two runs that find the same: when they ran, and how long it took.
CLOCKS = {"ingested_at"}
SAME = [name for name in OF_RUNS if name != "ops.runs"]

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def call(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def rows(warehouse: Path, name: str) -> list[str]:
    """All rows of a table as another reader (delta-rs) sees them, in a fixed order, without clocks."""
    table = DeltaTable(str(warehouse / name.replace(".", "/"))).to_pyarrow_table()
    table = table.select([c for c in table.column_names if c not in CLOCKS])
    return sorted(repr(row) for row in table.to_pylist())


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over both sample clusters, never killed."""
    folder = tmp_path_factory.mktemp("e2e") / "warehouse"
    done = call("run", *SOURCES, "--warehouse", str(folder))
    (folder / "stdout.txt").write_text(done.stdout)
    (folder / "stderr.txt").write_text(done.stderr)
    return folder


@pytest.fixture(scope="module")
def twice(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, and a later run over one of the clusters, whose broker 2 is down by then."""
    folder = tmp_path_factory.mktemp("twice")
    shutil.copytree(warehouse, folder / "warehouse")
    later = SAMPLES / "captures" / "kafka-4.1.1-kraft" / "topics-describe.broker-2-down.txt"
    few = ("--set", "failures.seeds=2", "--set", "hotspots.seeds=20")
    done = call("run", f"kraft={later}", "--warehouse", str(folder / "warehouse"), *few)
    assert done.stderr == ""
    return folder / "warehouse"


def test_closing_table_and_paths(warehouse: Path) -> None:
    said = (warehouse / "stdout.txt").read_text()
    for text in ("kraft", "zk", "observed", "kafka", "naive", "worst survivor", "offline", "to naive"):
        assert text in said
    for name in OF_RUNS:
        assert str(warehouse / name.replace(".", "/")) in said
    assert (warehouse / "data_docs" / "index.html").is_file()
    assert (warehouse / "stderr.txt").read_text() == ""
    assert re.search(r"Seconds .*: bronze.raw_metadata \d+\.\d, .*report \d+\.\d", said)


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


def test_a_run_over_one_cluster_shows_it_among_the_others(twice: Path, chromium: Browser) -> None:
    """And how it went: two runs over it are a line for each metric."""
    file = twice.with_name("warehouse-report.html")
    with opened(chromium, file) as seen:
        assert seen.faults == []
        found = counted(seen.page)
        assert (found["charts"], found["drawn"], found["broken"], found["lines"]) == (16, 16, 0, 2)
        assert seen.page.locator("h2").all_inner_texts() == ["The fleet at a glance", "kraft", "zk"]
        living = seen.page.locator("main > section.card tbody td:nth-child(3)").all_inner_texts()
        assert living == ["5", "5"]
        assert "and no plan does with less" in seen.page.locator("#c0 [data-chart=plan]").inner_text()


def test_a_threshold_that_is_crossed(tmp_path: Path) -> None:
    source = tmp_path / "one.txt"
    source.write_text("\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n")
    sizes = ("--set", "failures.seeds=1", "--set", "hotspots.seeds=10", "--no-report")
    done = call("run", str(source), "--warehouse", str(tmp_path / "w"), *sizes, "--alert", "newly_offline > 0", code=4)
    assert done.stderr == "kafka-placement: alert: one: most_newly_offline_partitions is 1: newly_offline > 0\n"
    assert not (tmp_path / "w-report.html").exists()
    wrong = call("run", str(source), "--alert", "hotness > 1", code=64)
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
    assert counts["silver.contradictions"] == 0


def test_failures_agree_with_what_if(warehouse: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answer.json"
    summary = DeltaTable(str(warehouse / "gold" / "failure_summary")).to_pyarrow_table().to_pylist()
    load = DeltaTable(str(warehouse / "gold" / "failure_load")).to_pyarrow_table().to_pylist()
    for source, cluster in zip(SOURCES, ("kraft", "zk"), strict=True):
        mine = [r for r in summary if r["cluster_id"] == cluster and r["scheme"] == "observed"]
        pairs = [r for r in mine if r["scenario_kind"] == "pair"]
        singles = [r for r in mine if r["scenario_kind"] == "broker"]
        for row in [*singles, pairs[3], *(r for r in mine if r["scenario_kind"] == "rack")]:
            failed = ",".join(map(str, row["failed_brokers"]))
            call("what-if", source, "--fail", failed, "--json", str(answers))
            answer = json.loads(answers.read_text())["summary"]
            assert row["offline_partitions"] == answer["offline_after"]
            assert row["under_min_isr_partitions"] == answer["under_min_isr_after"]
            assert row["at_one_replica_partitions"] == answer["at_one_replica_after"]
            assert row["unclean_elections"] == answer["unclean_elections"]
            assert row["leaders_worst_over_mean"] == pytest.approx(answer["worst_survivor_max_over_mean"], abs=1e-4)
            survivors = {
                str(r["broker_id"]): r["leaders_after"]
                for r in load
                if (r["cluster_id"], r["scheme"], r["scenario"]) == (cluster, "observed", row["scenario"])
            }
            assert survivors == ({} if row["scenario_kind"] == "pair" else answer["leaders_after"])
        assert len(singles) == {"kraft": 6, "zk": 5}[cluster]


def test_query_and_tables(warehouse: Path) -> None:
    sql = "SELECT cluster_id, scheme, leaders, topic FROM gold.leader_hotspots WHERE topic IS NULL ORDER BY 1, 2"
    lines = call("query", sql, "--json", "-", "--warehouse", str(warehouse)).stdout.splitlines()
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


# What each notebook shows of the run, among other things.
NOTEBOOKS = {
    "explore_a_cluster": ("max_over_mean_ratio", "no: partitions would be offline", "|kraft     |broker:"),
    "compare_schemes": ("ratio_to_naive", "|zk        |observed|", "follows_kafka_percent"),
    "what_if": ("|zk        |1000", "takes_over", "topicB"),
    "review_a_plan": ("lower_bound", "replicas_after", "leaders_more"),
    "over_time": ("|kraft     |", "rows_then", "CREATE TABLE", "other leader"),
}
# What a notebook shows of the newest snapshot has each of these once a cluster (and scheme), and not once a snapshot.
ONCE = {
    "explore_a_cluster": r"^\|kraft +\|observed\|(\d)",
    "compare_schemes": r"^\|kraft +\|worst_survivor_max_over_mean_ratio\|(observed)",
    "review_a_plan": r"^ cluster_id +\| (kraft) *$",
}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_run_as_scripts(twice: Path, name: str) -> None:
    where = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "KAFKA_PLACEMENT_STORE__WAREHOUSE": str(twice),
        "NOTEBOOK_FAILED": "1000,3",
    }
    file = ROOT / "notebooks" / f"{name}.py"
    done = subprocess.run([sys.executable, file], env=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for text in NOTEBOOKS[name]:
        assert text in done.stdout
    if name in ONCE:
        assert len(re.findall(ONCE[name], done.stdout, flags=re.M)) == 1, done.stdout


def test_every_notebook_is_run() -> None:
    assert {file.stem for file in (ROOT / "notebooks").glob("*.py")} == set(NOTEBOOKS)


def test_a_second_run_changes_no_row(warehouse: Path, tmp_path: Path) -> None:
    again = tmp_path / "warehouse"
    shutil.copytree(warehouse, again)
    before = {name: rows(again, name) for name in SAME}
    times = DeltaTable(str(again / "bronze" / "raw_metadata")).to_pyarrow_table()["ingested_at"].unique().to_pylist()
    call("run", *SOURCES, "--warehouse", str(again))
    for name in SAME:
        assert rows(again, name) == before[name], name
    new = DeltaTable(str(again / "bronze" / "raw_metadata")).to_pyarrow_table()["ingested_at"].unique().to_pylist()
    assert new == times
    assert DeltaTable(str(again / "gold" / "placements")).protocol().min_reader_version == 1


def test_a_table_fault_stops_the_run_before_gold(warehouse: Path, tmp_path: Path) -> None:
    broken = tmp_path / "warehouse"
    shutil.copytree(warehouse, broken)
    shutil.rmtree(broken / "gold")
    place = broken / "silver" / "partitions"
    table = DeltaTable(str(place))
    doubled = table.to_pyarrow_table().slice(0, 1)
    from deltalake import write_deltalake

    write_deltalake(table, doubled, mode="append")
    done = call("run", *SOURCES, "--from", "quality", "--warehouse", str(broken), code=2)
    for text in ("silver.partitions", "2 of 805", doubled["topic"][0].as_py()):
        assert text in done.stderr
    assert not (broken / "gold").exists()
    results = DeltaTable(str(broken / "ops" / "quality_results")).to_pyarrow_table().to_pylist()
    failed = [r for r in results if not r["success"]]
    assert {r["unexpected_rows"] for r in failed} == {2}


# Bronze, the merge, the gate, gold's middle and its end: a kill at each.
@pytest.mark.parametrize(
    "step", ["bronze.raw_metadata", "silver.entities", "quality", "gold.scheme_sums", "gold.failure_load"]
)
def test_a_killed_run_run_again_ends_like_one_never_killed(warehouse: Path, tmp_path: Path, step: str) -> None:
    killed = tmp_path / "warehouse"
    # Everything before the step is as the whole run left it: the kill falls into the step itself.
    for name in STEPS[: STEPS.index(step)]:
        if name in TABLES:
            shutil.copytree(warehouse / name.replace(".", "/"), killed / name.replace(".", "/"))
    expected = {name: rows(warehouse, name) for name in SAME}
    marker = killed / "ops" / "quality_results" if step == "quality" else killed / step.replace(".", "/")
    run = subprocess.Popen(
        [*COMMAND, "run", *SOURCES, "--from", step, "--warehouse", str(killed)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    # Kill once the step's table has begun to exist: between its creation and its commit, or right behind it.
    while not (marker / "_delta_log").exists() and run.poll() is None and time.monotonic() < deadline:
        for name in SAME:
            half_or_nothing(killed, name, expected)
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    for name in SAME:
        half_or_nothing(killed, name, expected)
    call("run", *SOURCES, "--warehouse", str(killed))
    for name in SAME:
        assert rows(killed, name) == expected[name], name


def half_or_nothing(warehouse: Path, name: str, expected: dict[str, list[str]]) -> None:
    """Fail if a reader sees anything but all rows of the table, or none."""
    log = warehouse / name.replace(".", "/") / "_delta_log"
    if any(log.glob("*.json")):
        assert rows(warehouse, name) in ([], expected[name]), name
