"""Finished stages are recognised as long as nothing has changed that they depend on."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.cli.run_summary import print_summary
from pipelines.config.settings import load_settings
from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey, find_sources
from pipelines.runner import make_context
from pipelines.spark.store import Store
from pipelines.stages import finished_steps
from pipelines.stages.finished_steps import find_finished_steps
from pipelines.stages.stage_registry import NEEDS, STEPS
from pipelines.tables import TABLES
from pipelines.tables.ops_tables import SUMMARY_STAGE
from pipelines.verdict.verdict_points import Level
from tests.commands import call
from tests.shared_runs import SMALL_RUN_OPTIONS, SmallRun

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPTIONS = SMALL_RUN_OPTIONS[1::2]


class FinishedRun:
    """A copy of the small run, to find which of its steps are finished."""

    def __init__(self, spark: SparkSession, small_run: SmallRun, folder: Path) -> None:
        shutil.copytree(small_run.warehouse, folder / "w")
        self.folder = folder / "w"
        self.store = Store(spark, str(self.folder))
        sources = find_sources([argument for argument in small_run.arguments if argument.endswith(".txt")])
        context = make_context(sources, load_settings(OPTIONS, environ={}), NOW)
        self.sources, self.snapshots = context.sources, context.snapshots

    def find_finished(self, *options: str, snapshots: list[SnapshotKey] | None = None) -> list[str]:
        settings = load_settings([*OPTIONS, *options], environ={})
        return list(find_finished_steps(self.store, STEPS, NEEDS, settings, snapshots or self.snapshots))


@pytest.fixture
def done(spark: SparkSession, small_run: SmallRun, tmp_path: Path) -> FinishedRun:
    return FinishedRun(spark, small_run, tmp_path)


def test_all_steps_are_finished_whatever_the_warehouse_and_the_parallelism(done: FinishedRun) -> None:
    assert done.find_finished() == list(STEPS)
    assert done.find_finished("run.parallel_stages=1", "store.warehouse=elsewhere") == list(STEPS)
    assert done.find_finished(snapshots=done.snapshots[:1]) == list(STEPS)


def test_the_summary_of_the_last_stage_alone_has_the_verdicts(
    done: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are those that an earlier run has made; without their table, nothing is known."""
    settings = load_settings(OPTIONS, environ={})
    verdicts = print_summary(done.store, done.sources, [SUMMARY_STAGE], None, settings)
    assert verdicts["prod.eu"].level is Level.AT_RISK
    assert f"prod.eu: {verdicts['prod.eu'].headline}" in capsys.readouterr().out
    shutil.rmtree(done.folder / "gold" / "findings")
    verdicts = print_summary(done.store, done.sources, [SUMMARY_STAGE], None, settings)
    assert {verdict.level for verdict in verdicts.values()} == {Level.UNKNOWN}


def test_small_tables_are_read_and_listed_as_spark_does(done: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = ("cluster_id", "scheme", "metric", "value")
    local_rows = done.store.read_rows("gold.scheme_comparison", done.snapshots[:1], columns)
    listing = done.store.list_tables()
    monkeypatch.setattr(done.store, "_has_delta_rs", False)
    spark_rows = done.store.read_rows("gold.scheme_comparison", done.snapshots[:1], columns)
    assert sorted(map(str, local_rows)) == sorted(map(str, spark_rows)) != []
    assert done.store.list_tables() == listing != []


def test_a_file_that_was_removed_by_hand_is_named(done: FinishedRun, tmp_path: Path) -> None:
    """By a command that opens it with Spark, by one that reads it without, and by a list of tables."""
    folder = done.folder / "gold" / "scheme_comparison"
    file = next(folder.rglob("*.parquet"))
    file.unlink()
    message = call("report", str(tmp_path / "page.html"), "--warehouse", str(done.folder), code=1).stderr
    assert f"{file} is missing" in message
    assert f"move {folder} away" in message
    for read in (done.store.read, lambda name: done.store.read_rows(name, done.snapshots, ["metric"])):
        with pytest.raises(StoreError, match=f"{file} is missing"):
            read("gold.scheme_comparison")
    with pytest.raises(StoreError, match=f"{file} is missing"):
        done.store.list_tables()
    shutil.rmtree(folder)
    assert done.find_finished() == [step for step in STEPS if step != "gold.scheme_comparison"]


def test_rows_are_appended_if_there_are_none_to_replace(done: FinishedRun) -> None:
    table = TABLES["silver.brokers"]
    one, other = done.snapshots[:2]
    rows = done.store.read(table.name)
    cluster_rows = rows.where(F.col("cluster_id") == one.cluster_id)
    before = rows.count()
    done.store.replace(
        table, cluster_rows.withColumn("snapshot_id", F.lit("new")), [SnapshotKey(one.cluster_id, "new")]
    )
    done.store.replace(
        table, cluster_rows.limit(0), [SnapshotKey(one.cluster_id, "new"), SnapshotKey(other.cluster_id, "new")]
    )
    assert done.store.read(table.name).count() == before
    done.store.replace(table, cluster_rows, [one, SnapshotKey(one.cluster_id, "new")])
    assert done.store.read(table.name).count() == before
    log = sorted((done.folder / "silver" / "brokers" / "_delta_log").glob("*.json"))
    parameters = [json.loads(file.read_text().splitlines()[0])["commitInfo"]["operationParameters"] for file in log]
    assert [commit.get("mode") for commit in parameters[1:]] == ["Append", "Append", "Overwrite", "Overwrite"]


def test_no_step_is_finished_with_other_settings_sources_or_code(
    done: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert done.find_finished("run.seed=7") == []
    assert done.find_finished(snapshots=[*done.snapshots, SnapshotKey("new", "snapshot")]) == []
    assert done.find_finished("capacity.file=limits.csv") == []  # its content may have changed
    monkeypatch.setattr(finished_steps, "get_program_version", lambda: "other")
    assert done.find_finished() == []


def test_a_step_is_not_finished_if_its_input_was_written_again(done: FinishedRun) -> None:
    log = done.store.read("ops.runs").where("stage = 'silver.quarantine'")
    later = log.withColumn("finished_at", F.lit(datetime(2100, 1, 1, tzinfo=UTC)))
    done.store.append(TABLES["ops.runs"], later.toArrow())
    # Only the gate reads the table; it is older now, and gold waits for it.
    # The sums do not wait for the quality gate.
    assert done.find_finished() == [*STEPS[: STEPS.index("quality")], "internal.scheme_aggregates"]
    other = log.withColumn("settings", F.regexp_replace("settings", '"seed":0', '"seed":1'))
    latest = other.withColumn("finished_at", F.lit(datetime(2101, 1, 1, tzinfo=UTC)))
    done.store.append(TABLES["ops.runs"], latest.toArrow())
    assert "silver.quarantine" not in done.find_finished()


def test_a_second_run_only_records_that_it_has_seen_its_sources(
    done: FinishedRun, small_run: SmallRun, tmp_path: Path
) -> None:
    before = {row.name: (row.rows, row.version) for row in done.store.list_tables()}
    page = done.folder.with_name("w-report.html")
    page.write_text("old")
    with_report = [word for word in (*small_run.arguments, "--warehouse", str(done.folder)) if word != "--no-report"]
    again = call("run", *with_report)
    assert f"{len(STEPS)} of {len(STEPS)} stages were finished already" in again.stdout
    after = {row.name: (row.rows, row.version) for row in done.store.list_tables()}
    rows, version = before.pop("ops.runs")
    assert after.pop("ops.runs") == (2 * rows, version + 1)
    for name in ("gold.growth", "gold.growth_forecasts"):  # one sample more
        assert after.pop(name) == (before[name][0], before.pop(name)[1] + 1)
    assert after == before
    seen = done.store.read("ops.runs").groupBy("run_id").agg(F.sum("seconds").alias("seconds")).collect()
    assert sorted(row.seconds > 0 for row in seen) == [False, True]
    assert done.find_finished() == list(STEPS)
    assert page.read_text() == "old"
    # With enough samples for a slope, growth differs in every run, and the report shows it.
    call("run", *with_report, "--set", "growth.min_samples=3")
    assert page.read_text() != "old"
