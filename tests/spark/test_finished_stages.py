"""Stages that are finished for the sources of a run: recognised while nothing has changed that they depend on."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.config.settings import load_settings
from pipelines.ingest.sources import SnapshotKey, find_sources
from pipelines.runner import make_context
from pipelines.spark.store import Store, listing_without_spark
from pipelines.stages import finished_stages
from pipelines.stages.finished_stages import finished_steps
from pipelines.stages.stage_registry import NEEDS, STEPS
from pipelines.tables import TABLES
from tests.commands import FEW, call
from tests.shared import Small

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPTIONS = FEW[1::2]


class Done:
    """A copy of the small run, to ask what of it is finished."""

    def __init__(self, spark: SparkSession, small: Small, folder: Path) -> None:
        shutil.copytree(small.warehouse, folder / "w")
        self.folder = folder / "w"
        self.store = Store(spark, str(self.folder))
        sources = find_sources([argument for argument in small.arguments if argument.endswith(".txt")])
        self.keys = make_context(sources, load_settings(OPTIONS, environ={}), NOW).snapshots

    def steps(self, *options: str, keys: list[SnapshotKey] | None = None) -> list[str]:
        settings = load_settings([*OPTIONS, *options], environ={})
        return list(finished_steps(self.store, STEPS, NEEDS, settings, keys or self.keys))


@pytest.fixture
def done(spark: SparkSession, small: Small, tmp_path: Path) -> Done:
    return Done(spark, small, tmp_path)


def test_all_are_finished_wherever_tables_are_and_however_many_run_at_once(done: Done) -> None:
    assert done.steps() == list(STEPS)
    assert done.steps("run.parallel_stages=1", "store.warehouse=elsewhere") == list(STEPS)
    assert done.steps(keys=done.keys[:1]) == list(STEPS)


def test_small_tables_are_read_and_listed_without_spark_as_with_it(done: Done, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = ("cluster_id", "scheme", "metric", "value")
    read = done.store.rows("gold.scheme_comparison", done.keys[:1], columns)
    assert listing_without_spark(str(done.folder)) == done.store.listing()
    monkeypatch.setattr(done.store, "_data_files", lambda *of: None)
    by_spark = done.store.rows("gold.scheme_comparison", done.keys[:1], columns)
    assert sorted(map(str, read)) == sorted(map(str, by_spark)) != []
    (done.folder / "gold" / "scheme_comparison" / "_delta_log" / f"{0:020}.json").unlink()
    assert listing_without_spark(str(done.folder)) is None


def test_a_file_that_was_removed_by_hand_is_named(done: Done, tmp_path: Path) -> None:
    place = done.folder / "gold" / "scheme_comparison"
    file = next(place.rglob("*.parquet"))
    file.unlink()
    said = call("report", str(tmp_path / "page.html"), "--warehouse", str(done.folder), code=1).stderr
    assert f"{file} is missing" in said
    assert f"Remove the whole folder {place}, and run again" in said
    shutil.rmtree(place)
    assert done.steps() == [step for step in STEPS if step != "gold.scheme_comparison"]


def test_rows_are_appended_where_there_are_none_to_replace(done: Done) -> None:
    table = TABLES["silver.brokers"]
    one, other = done.keys[:2]
    held = done.store.read(table.name)
    mine = held.where(F.col("cluster_id") == one.cluster_id)
    before = held.count()
    done.store.replace(table, mine.withColumn("snapshot_id", F.lit("new")), [SnapshotKey(one.cluster_id, "new")])
    done.store.replace(table, mine.limit(0), [SnapshotKey(one.cluster_id, "new"), SnapshotKey(other.cluster_id, "new")])
    assert done.store.read(table.name).count() == before
    done.store.replace(table, mine, [one, SnapshotKey(one.cluster_id, "new")])
    assert done.store.read(table.name).count() == before
    log = sorted((done.folder / "silver" / "brokers" / "_delta_log").glob("*.json"))
    modes = [json.loads(file.read_text().splitlines()[0])["commitInfo"]["operationParameters"] for file in log]
    assert [one.get("mode") for one in modes[1:]] == ["Append", "Append", "Overwrite", "Overwrite"]


def test_none_is_finished_with_other_settings_sources_or_code(done: Done, monkeypatch: pytest.MonkeyPatch) -> None:
    assert done.steps("run.seed=7") == []
    assert done.steps(keys=[*done.keys, SnapshotKey("new", "snapshot")]) == []
    assert done.steps("capacity.file=limits.csv") == []  # its content may be another one
    monkeypatch.setattr(finished_stages, "program_version", lambda: "other")
    assert done.steps() == []


def test_what_reads_a_table_that_was_made_again_is_not_finished(done: Done) -> None:
    log = done.store.read("ops.runs").where("stage = 'silver.quarantine'")
    later = log.withColumn("finished_at", F.lit(datetime(2100, 1, 1, tzinfo=UTC)))
    done.store.append(TABLES["ops.runs"], later)
    # Nothing reads the table but the gate, which is older now; and gold waits for the gate.
    assert done.steps() == list(STEPS[: STEPS.index("quality")])
    other = log.withColumn("settings", F.regexp_replace("settings", '"seed":0', '"seed":1'))
    done.store.append(TABLES["ops.runs"], other.withColumn("finished_at", F.lit(datetime(2101, 1, 1, tzinfo=UTC))))
    assert "silver.quarantine" not in done.steps()


def test_a_second_run_only_notes_that_it_has_seen_its_sources(done: Done, small: Small, tmp_path: Path) -> None:
    before = {row["table"]: (row["rows"], row["version"]) for row in done.store.listing()}
    again = call("run", *small.arguments, "--warehouse", str(done.folder))
    assert f"{len(STEPS)} of {len(STEPS)} stages were finished for these sources" in again.stdout
    after = {row["table"]: (row["rows"], row["version"]) for row in done.store.listing()}
    rows, version = before.pop("ops.runs")
    assert after.pop("ops.runs") == (2 * rows, version + 1)
    assert after == before
    seen = done.store.read("ops.runs").groupBy("run_id").agg(F.sum("seconds").alias("seconds")).collect()
    assert sorted(row.seconds > 0 for row in seen) == [False, True]
    assert done.steps() == list(STEPS)  # and so it goes on
