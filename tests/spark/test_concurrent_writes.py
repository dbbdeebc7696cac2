"""Several writers in one warehouse at once: all get through, and every snapshot's rows are there once."""

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
from pipelines.spark import store as module
from pipelines.spark.store import Store
from pipelines.tables.silver_tables import TEXT
from pipelines.tables.table_contract import Table, columns
from udfs.arrow.table_columns import column

THINGS = Table("silver.things", "things", columns(column("name", TEXT, "name", required=True)), ("name",))


@pytest.fixture(params=["true", "false"], ids=["on-this-machine", "elsewhere"])
def anywhere(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """On this machine one writer waits for the other; elsewhere one finds itself outrun, and tries again."""
    before = spark.conf.get(module._EMBEDDED, "false")
    spark.conf.set(module._EMBEDDED, request.param)
    yield spark
    spark.conf.set(module._EMBEDDED, before)


def _slowly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(1)  # longer than the others take to begin: all of them read the table before any has written
    yield from batches


def _write(spark: SparkSession, warehouse: Path, cluster: str, table: Table = THINGS) -> None:
    schema = THINGS.schema
    rows = spark.createDataFrame([(cluster, "s", f"{cluster}-{i}") for i in range(3)], schema)
    # A store each, as runs have.
    Store(spark, str(warehouse)).replace(table, rows.mapInArrow(_slowly, schema), [SnapshotKey(cluster, "s")])


@pytest.mark.parametrize("clusters", ["ab", "aa"], ids=["clusters", "the-same-cluster"])
def test_tables_are_made_and_written_at_once(anywhere: SparkSession, tmp_path: Path, clusters: str) -> None:
    spark = anywhere
    with ThreadPoolExecutor(len(clusters)) as pool:
        list(pool.map(lambda cluster: _write(spark, tmp_path, cluster), clusters))
    names = sorted(row.name for row in spark.read.format("delta").load(str(tmp_path / "silver" / "things")).collect())
    assert names == sorted(f"{cluster}-{i}" for cluster in set(clusters) for i in range(3))


def test_a_write_that_never_gets_through_ends_in_a_line_of_our_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST_WAIT_SECONDS", 0)
    tried = []

    def outrun() -> Any:
        tried.append(1)
        raise RuntimeError("io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] files were added")

    with pytest.raises(StoreError, match=r"other runs kept writing to \S+/silver/things: 12 attempts.*Run again"):
        Store(spark, str(tmp_path))._insist(THINGS, outrun)
    assert len(tried) == 12


def test_a_fault_of_another_kind_is_not_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    tried = []

    def broken() -> Any:
        tried.append(1)
        raise RuntimeError("no space left")

    with pytest.raises(RuntimeError, match="no space left"):
        Store(spark, str(tmp_path))._insist(THINGS, broken)
    assert len(tried) == 1


def test_another_clusters_write_is_not_in_the_way_of_a_partitioned_table(
    anywhere: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = anywhere
    monkeypatch.setattr(module, "_TRIES", 1)
    table = replace(THINGS, partition_by=("cluster_id",))
    Store(spark, str(tmp_path)).create(table)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda cluster: _write(spark, tmp_path, cluster, table), "ab"))
    assert spark.read.format("delta").load(str(tmp_path / "silver" / "things")).count() == 6
