"""Several writers in one warehouse at the same time: all succeed, and each snapshot's rows exist once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark import delta_tables, storage_faults
from pipelines.spark.store import Store
from pipelines.tables.silver_tables import TEXT
from pipelines.tables.table_contract import Table, columns
from udfs.arrow.columns import column

THINGS = Table("silver.things", "things", columns(column("name", TEXT, "name", required=True)), ("name",))


@pytest.fixture(params=["true", "false"], ids=["local", "elsewhere"])
def any_spark(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """A local Spark, where one writer waits for the other, or another one, where a conflict makes it try again."""
    before = spark.conf.get(delta_tables.EMBEDDED, "false")
    spark.conf.set(delta_tables.EMBEDDED, request.param)
    yield spark
    spark.conf.set(delta_tables.EMBEDDED, before)


def wait_a_second(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(1)  # so that all writers read the table before any of them writes
    yield from batches


def write_cluster(spark: SparkSession, warehouse: Path, cluster: str, table: Table = THINGS) -> None:
    schema = THINGS.schema
    rows = spark.createDataFrame([(cluster, "s", f"{cluster}-{i}") for i in range(3)], schema)
    # Each writer has its own store, as a run does.
    Store(spark, str(warehouse)).replace(table, rows.mapInArrow(wait_a_second, schema), [SnapshotKey(cluster, "s")])


@pytest.mark.parametrize("clusters", ["ab", "aa"], ids=["two-clusters", "one-cluster"])
def test_tables_are_created_and_written_at_the_same_time(
    any_spark: SparkSession, tmp_path: Path, clusters: str
) -> None:
    spark = any_spark
    with ThreadPoolExecutor(len(clusters)) as pool:
        list(pool.map(lambda cluster: write_cluster(spark, tmp_path, cluster), clusters))
    names = sorted(row.name for row in spark.read.format("delta").load(str(tmp_path / "silver" / "things")).collect())
    assert names == sorted(f"{cluster}-{i}" for cluster in set(clusters) for i in range(3))


def test_a_write_that_never_succeeds_is_explained(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_faults, "_MAX_WAIT_SECONDS", 0)
    attempts = []

    def write() -> Any:
        attempts.append(1)
        raise RuntimeError("io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] files were added")

    with pytest.raises(StoreError, match=r"other runs kept writing to \S+/silver/things: 12 attempts.*Run again"):
        Store(spark, str(tmp_path))._retry(THINGS, write)
    assert len(attempts) == 12


def test_another_error_is_not_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    attempts = []

    def write() -> Any:
        attempts.append(1)
        raise RuntimeError("no space left")

    with pytest.raises(RuntimeError, match="no space left"):
        Store(spark, str(tmp_path))._retry(THINGS, write)
    assert len(attempts) == 1


def test_writes_of_two_clusters_to_a_partitioned_table_do_not_conflict(
    any_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = any_spark
    monkeypatch.setattr(storage_faults, "_MAX_ATTEMPTS", 1)
    table = replace(THINGS, partition_by=("cluster_id",))
    Store(spark, str(tmp_path)).create(table)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda cluster: write_cluster(spark, tmp_path, cluster, table), "ab"))
    assert spark.read.format("delta").load(str(tmp_path / "silver" / "things")).count() == 6
