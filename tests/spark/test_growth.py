"""Growth over runs of several days: slopes, forecasts and the view, and what they are where history is too short."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipelines.config.capacity_file import read_disk_capacities
from pipelines.config.settings import load_settings
from pipelines.growth_measurement import GROWTH_INPUTS, measure_growth
from pipelines.ingest.sources import SnapshotKey, find_source
from pipelines.maintenance import read_seen
from pipelines.runner import Progress, Run, make_context
from pipelines.spark.arrow_frames import make_rows
from pipelines.spark.local_sql import LocalSql
from pipelines.spark.store import Store
from pipelines.spark.view_tables import publish_views
from pipelines.stages.growth_stage import DISKS, PartitionLimits, disk_limits, growth_forecasts
from pipelines.tables.gold_tables import HEADROOM
from pipelines.tables.growth_tables import GROWTH, GROWTH_FORECASTS
from pipelines.tables.silver_tables import LOG_DIRS
from tests.steps import list_steps_to

MB, KB = 10**6, 10**3
START = datetime(2026, 11, 1, tzinfo=UTC)
CAPACITIES = "broker_id,bytes_in_per_s,disk_bytes\n0,600000,20000000000\n1,600000,3000000000\n2,600000,\n"
STEPS = list_steps_to((*GROWTH_INPUTS, "gold.scheme_comparison"))


def write_model(path: Path, day: int) -> None:
    """Write a model of three brokers, each of which leads two partitions of orders, and has four replicas of it."""
    growing = {"size_mb": 1000 + 100 * day, "in_kbps": 100 + 2 * day, "out_kbps": 200}
    fixed = {"size_mb": 500, "in_kbps": 0, "out_kbps": 0}
    partitions: list[dict[str, Any]] = [
        {"topic": "orders", "partition": p, "replicas": [p % 3, (p + 1) % 3], **growing} for p in range(6)
    ]
    partitions.append({"topic": "fixed", "partition": 0, "replicas": [0, 1, 2], **fixed})
    brokers = [{"id": broker, "rack": f"r{broker}"} for broker in range(3)]
    path.write_text(json.dumps({"name": "prod", "brokers": brokers, "partitions": partitions}))


def make_run(store: Store, day: int, at: datetime, *options: str) -> Run:
    common = (f"store.warehouse={store.warehouse}", "failures.seeds=1", "growth.min_samples=4", *options)
    source = find_source(f"prod={Path(store.warehouse).parent}/day-{day}.json")
    context = make_context([source], load_settings(common, environ={}), at)
    return Run(store, context, Progress())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, spark_application: SparkSession) -> Store:
    """A cluster seen on days 0, 2, 3 (as on day 2) and 4, with capacities at last."""
    folder = tmp_path_factory.mktemp("growth")
    store = Store(spark_application, f"{folder}/tables")
    capacities = folder / "capacities.csv"
    capacities.write_text(CAPACITIES)
    for day, options in ((0, ()), (2, ()), (4, (f"capacity.file={capacities}",))):
        write_model(folder / f"day-{day}.json", day)
        at = START + timedelta(days=day)
        make_run(store, day, at, *options).go(STEPS, clock=lambda at=at: at)
        if day == 2:
            again = make_run(store, day, START + timedelta(days=3))
            assert again.unfinished(STEPS) == []
            again.go([], clock=lambda: START + timedelta(days=3))
    return store


def read_newest(store: Store, name: str) -> list[dict[str, Any]]:
    rows = [row.asDict() for row in store.read(name).collect()]
    last = max(row["last_at"] for row in rows)
    return [row for row in rows if row["last_at"] == last]


@pytest.mark.slow
def test_slopes_of_the_cluster_brokers_and_topics(store: Store) -> None:
    found = {
        (row["subject_kind"], row["broker_id"], row["topic"], row["quantity"]): row
        for row in read_newest(store, GROWTH.name)
    }
    assert len(found) == (1 + 3 + 2) * 4
    assert found["cluster", None, None, "size_bytes"]["slope_per_day"] == pytest.approx(1200 * MB)
    assert found["broker", 2, None, "size_bytes"]["slope_per_day"] == pytest.approx(400 * MB)
    assert found["topic", None, "orders", "bytes_in_per_s"]["slope_per_day"] == pytest.approx(12 * KB)
    fixed = found["topic", None, "fixed", "size_bytes"]
    assert (fixed["slope_per_day"], fixed["slope_per_day_low"], fixed["reason"]) == (0, 0, None)
    assert {row["samples"] for row in found.values()} == {4}  # the state of day 2 was seen twice
    assert {row["first_at"].astimezone(UTC) for row in found.values()} == {START}
    assert {row["last_at"].astimezone(UTC) for row in found.values()} == {START + timedelta(days=4)}


@pytest.mark.slow
def test_limits_that_growth_reaches(store: Store) -> None:
    found = {
        (row["limit_name"], row["broker_id"], row["quantity"]): row for row in read_newest(store, GROWTH_FORECASTS.name)
    }
    # Broker 0 has 6.1 of 20 GB, and 0.4 GB more a day; broker 1 has 3 GB.
    disk = [found["disk_full", broker, "size_bytes"] for broker in range(3)]
    assert [row["days"] for row in disk] == pytest.approx([13.9 / 0.4, 0, None])
    assert disk[2]["reason"] == "the limit is unknown: add disk_bytes to capacity.file, or set plans.broker_bytes"
    # If broker 0 fails, broker 1 leads four of the six partitions, which get 108 kB a second each, and 2 more a day.
    survivor = found["survivor_over_capacity", None, "bytes_in_per_s"]
    assert survivor["days"] == pytest.approx((600 / 4 - 108) / 2)
    assert survivor["limit_value"] == pytest.approx(900 * KB)
    assert "bytes_out_per_s to capacity.file" in found["survivor_over_capacity", None, "bytes_out_per_s"]["reason"]
    assert found["broker_partitions", 1, "replicas"]["reason"] == "it does not grow"
    assert found["cluster_partitions", None, "replicas"]["limit_value"] == 200_000


@pytest.mark.slow
def test_the_view_begins_with_what_is_soonest(store: Store) -> None:
    publish_views(store)
    rows = store.open_sql(["insights.growth"]).run("SELECT * FROM insights.growth").to_pylist()
    assert [(row["limit_name"], row["broker_id"], row["answer"].partition(" (")[0]) for row in rows[:3]] == [
        ("disk_full", 1, "reached"),
        ("survivor_over_capacity", None, "in 21 days"),
        ("disk_full", 0, "in 35 days"),
    ]
    assert len(rows) == len(read_newest(store, GROWTH_FORECASTS.name))


@pytest.mark.slow
def test_too_little_history_is_reported_as_such(store: Store) -> None:
    measure_growth(store, read_seen(store, ["prod", "unknown"]), load_settings(["growth.min_samples=5"], environ={}))
    expected = "too little history: 4 samples, and a slope needs 5"
    assert {(row["slope_per_day"], row["reason"]) for row in read_newest(store, GROWTH.name)} == {(None, expected)}
    forecasts = read_newest(store, GROWTH_FORECASTS.name)
    (survivor,) = (row for row in forecasts if row["limit_name"] == "survivor_over_capacity" and row["limit_value"])
    assert (survivor["limit_value"], survivor["reason"]) == (pytest.approx(900 * KB), expected)
    found = {(row["limit_name"], row["broker_id"]): row for row in forecasts}
    assert found["broker_partitions", 1]["reason"] == expected
    disk = "the limit is unknown: add disk_bytes to capacity.file, or set plans.broker_bytes"
    assert found["disk_full", 1]["reason"] == f"{expected}; {disk}"


@pytest.mark.slow
def test_days_until_the_disk_of_a_log_dir_is_full(tmp_path: Path) -> None:
    """Logs fill a volume when they have grown by what is usable; a file of capacities replaces volumes."""
    key = ("prod", "s")
    trend = ("size_bytes", 4, 0, START, START)
    subjects = [("broker", 1, None), ("log_dir", 1, "/a"), ("log_dir", 1, "/b"), ("broker", 2, None)]
    subjects += [("log_dir", 2, "/a"), ("log_dir", 2, "/b"), ("broker", 3, None), ("log_dir", 3, "/a")]
    rows = [(*key, *subject[:3], None, *trend, 100.0, 100.0, 5.0, 10.0, 9.0, 11.0, None) for subject in subjects]
    growth_of = make_rows(rows, GROWTH.schema)
    # Both volumes of broker 1 are known; one of broker 2's log dirs has a volume only in the file; broker 3 has one.
    volumes = [(1, "/a", 400, 200), (1, "/b", 400, 250), (2, "/a", 400, 200), (2, "/b", None, None), (3, "/a", 90, 50)]
    log_dirs = [(*key, *volume, None, None, 100, 1) for volume in volumes]
    brokers = pa.table({"cluster_id": ["prod"] * 3, "broker_id": pa.array([1, 2, 3], pa.int32())})
    file = tmp_path / "capacities.csv"
    file.write_text("broker_id,log_dir,disk_bytes\n2,/b,160\n")
    dirs = make_rows(log_dirs, LOG_DIRS.schema)
    disks = disk_limits(brokers, dirs, read_disk_capacities(str(file)), 0)
    tables = {"gold.growth": growth_of, "gold.headroom": make_rows([], HEADROOM.schema), DISKS: disks}
    forecasts = growth_forecasts(LocalSql(tables), [SnapshotKey(*key)], PartitionLimits(4000, 200_000))
    names = ("broker_id", "log_dir", "limit_value", "days", "limit_source")
    found = {values[:2]: values[2:] for values in zip(*(forecasts[name].to_pylist() for name in names), strict=True)}
    assert found == {
        (1, None): (550, 45, "silver.log_dirs"),
        (1, "/a"): (300, 20, "silver.log_dirs"),
        (1, "/b"): (350, 25, "silver.log_dirs"),
        (2, None): (360, 26, "capacity.file and silver.log_dirs"),
        (2, "/a"): (300, 20, "silver.log_dirs"),
        (2, "/b"): (160, 6, "capacity.file"),
        (3, None): (150, 5, "silver.log_dirs"),
    }
