"""Spark reads clusters without a run, with the rows that a run writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipelines.ingest.silver_rows import TABLES
from pipelines.spark.cluster_source import register_source


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    filters = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(filters)
    register_source(spark)
    yield spark
    spark.conf.set(filters, before or "false")


def write_cluster(folder: Path, name: str, brokers: list[int]) -> str:
    folder = folder / name
    folder.mkdir()
    lines = [
        f"\tTopic: t{p}\tPartition: 0\tLeader: {b}\tReplicas: {b},{brokers[0]}\tIsr: {b}\n"
        for p, b in enumerate(brokers[1:])
    ]
    (folder / "topics.txt").write_text("".join(lines))
    return str(folder)


def test_every_table_has_its_columns_and_rows(session: SparkSession, tmp_path: Path) -> None:
    sources = [write_cluster(tmp_path, "prod", [1, 2, 3]), f"eu={write_cluster(tmp_path, 'any', [7, 8])}"]
    reader = session.read.format("kafka_placement")
    frames = {name: reader.option("table", name).load(sources) for name in TABLES}
    rows = frames["partitions"].collect()
    assert sorted((row.cluster_id, row.topic, row.leader, row.replicas, row.under_replicated) for row in rows) == [
        ("eu", "t0", 8, [8, 7], True),
        ("prod", "t0", 2, [2, 1], True),
        ("prod", "t1", 3, [3, 1], True),
    ]
    assert {len(row.snapshot_id) for row in rows} == {16}
    assert sorted((row.cluster_id, row.broker_id) for row in frames["brokers"].collect()) == [
        *(("eu", broker) for broker in (7, 8)),
        *(("prod", broker) for broker in (1, 2, 3)),
    ]
    assert frames["conflicts"].count() == 0
    frames["topics"].createOrReplaceTempView("read_topics")
    found = session.sql("SELECT topic FROM read_topics WHERE cluster_id = 'prod' AND topic IN ('t1', 't9')").collect()
    session.catalog.dropTempView("read_topics")
    assert [row.topic for row in found] == ["t1"]
    above = frames["partitions"].where("leader > 2 AND partition = 0 AND cluster_id = 'prod'").collect()
    assert [row.leader for row in above] == [3]


def test_wrong_options_and_sources(session: SparkSession, tmp_path: Path) -> None:
    reader = session.read.format("kafka_placement")
    with pytest.raises(PySparkException, match="Name one of brokers, topics, partitions, conflicts"):
        reader.option("table", "replicas").load(str(tmp_path)).collect()
    with pytest.raises(PySparkException, match="has no source"):
        session.read.format("kafka_placement").load().collect()
    with pytest.raises(PySparkException, match="there is no such file or folder"):
        session.read.format("kafka_placement").load(str(tmp_path / "nothing")).collect()
