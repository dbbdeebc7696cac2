"""gold.placements: the stage, the pandas UDF and the kernel agree; loads and gaps are kept; refusals are rows."""

from __future__ import annotations

import re

from pyspark.sql import Row, SparkSession
from pyspark.util import PythonEvalType

from pipelines.stages.placement_stages import PlacementParameters, computed_placements
from pipelines.tables import TABLES
from udfs.placement.pandas_udf import partition_replicas, placement_udf
from udfs.placement.topic_placement import LiveBrokers

BROKERS = [1, 2, 5, 9]
RACKS = ["b", "a", "b", "a"]
IN_RACKS = {("c", "s"): LiveBrokers(BROKERS, RACKS)}
TOPICS = TABLES["silver.topics"].schema


def topic(name: str, partitions: int, factor: int | None, loads: list[Row] | None = None) -> dict:
    fixed = {"cluster_id": "c", "snapshot_id": "s", "listed_partitions": partitions, "warnings": [], "configs": {}}
    marks = {"marked_for_deletion": False, "incomplete": False, "ignored": False}
    row = {"topic": name, "partitions": partitions, "replication_factor": factor, "partition_loads": loads}
    return {**dict.fromkeys(TOPICS.names), **fixed, **marks, **row}


def frame(spark: SparkSession, *rows: dict):
    return spark.createDataFrame([tuple(row[name] for name in TOPICS.names) for row in rows], TOPICS)


def place(
    spark: SparkSession, *rows: dict, live: dict | None = None, schemes: tuple[str, ...] = ("kafka", "naive")
) -> list[Row]:
    parameters = PlacementParameters(schemes, 7, {("c", "s"): LiveBrokers(BROKERS)} if live is None else live)
    return computed_placements(frame(spark, *rows), parameters).orderBy("scheme", "topic", "partition").collect()


def test_sql_and_columns_give_what_the_stage_gives(spark: SparkSession) -> None:
    rows = [topic(f"t{i}", i % 13 + 1, i % 4 + 1) for i in range(60)]
    found: dict[tuple[str, str], list[list[int]]] = {}
    schemes = ("kafka", "kraft", "naive", "kafka_rack_unaware")
    for row in place(spark, *rows, live=IN_RACKS, schemes=schemes):
        found.setdefault((row.scheme, row.topic), []).append(row.replicas)
        assert row.leader == row.replicas[0]
    frame(spark, *rows).createOrReplaceTempView("topics_to_place")
    for scheme in schemes:
        spark.udf.register("place_topic", placement_udf(scheme, 7, IN_RACKS))
        placed = spark.sql(
            """
            SELECT topic, replication_factor, explode(sequence(0, partitions - 1)) AS position, placement
            FROM (
              SELECT *, place_topic(cluster_id, snapshot_id, topic, partitions, replication_factor) AS placement
              FROM topics_to_place
            )"""
        )
        lists: dict[str, list[list[int]]] = {}
        replicas = partition_replicas("placement", "position", "replication_factor").alias("replicas")
        for row in placed.select("topic", "position", replicas).orderBy("topic", "position").collect():
            lists.setdefault(row.topic, []).append(row.replicas)
        assert lists == {topic: replicas for (name, topic), replicas in found.items() if name == scheme}


def test_the_stage_is_a_scalar_pandas_udf(spark: SparkSession) -> None:
    parameters = PlacementParameters(("kafka", "kraft"), 0, IN_RACKS)
    plan = computed_placements(frame(spark, topic("orders", 1, 3)), parameters)._jdf  # type: ignore[attr-defined]
    nodes = re.findall(r"ArrowEvalPython \[place\(.*\], (\d+)$", plan.queryExecution().executedPlan().toString(), re.M)
    assert nodes == [str(PythonEvalType.SQL_SCALAR_PANDAS_UDF)] * 4


def test_only_shown_partitions_are_placed_and_each_where_it_would_be_in_the_whole_topic(spark: SparkSession) -> None:
    whole = {r.partition: r for r in place(spark, topic("orders", 9, 3)) if r.scheme == "kafka"}
    loads = [Row(2, 10, 1.5, None), Row(8, None, None, None)]
    some = [r for r in place(spark, topic("orders", 9, 3, loads)) if r.scheme == "kafka"]
    assert [r.partition for r in some] == [2, 8]
    assert all(r.replicas == whole[r.partition].replicas and r.seed == whole[r.partition].seed for r in some)
    assert [(r.size_bytes, r.bytes_in_per_s, r.bytes_out_per_s) for r in some] == [(10, 1.5, None), (None, None, None)]


def test_a_rejected_topic_is_error_rows_and_the_others_go_through(spark: SparkSession) -> None:
    rows = place(spark, topic("good", 2, 4), topic("wide", 2, 5), topic("unknown", 1, None))
    by_topic = {r.topic: r for r in rows if r.scheme == "kafka"}
    assert by_topic["good"].error is None
    assert by_topic["wide"].error == (
        "InvalidReplicationFactorException: Replication factor: 5 larger than available brokers: 4. "
        "(topic wide: 2 partitions, replication factor 5, 4 brokers)"
    )
    assert by_topic["wide"].replicas is None
    assert by_topic["wide"].leader is None
    assert by_topic["unknown"].error.startswith(
        "InvalidReplicationFactorException: Replication factor must be larger than 0."
    )
    nobody = place(spark, topic("good", 2, 1), live={})
    assert {r.error for r in nobody} == {
        "InvalidReplicationFactorException: Replication factor: 1 larger than available brokers: 0. "
        "(topic good: 2 partitions, replication factor 1, 0 brokers)"
    }


def test_krafts_scheme_leaves_out_cordoned_brokers(spark: SparkSession) -> None:
    live = {("c", "s"): LiveBrokers(BROKERS, RACKS, [True, None, None, False])}
    rows = place(spark, topic("good", 9, 2), topic("wide", 2, 4), live=live, schemes=("kafka", "kraft"))
    placed = {name: {b for r in rows if r.scheme == name for b in r.replicas or ()} for name in ("kafka", "kraft")}
    assert placed == {"kafka": {1, 2, 5, 9}, "kraft": {2, 5, 9}}
    assert {r.error for r in rows if r.scheme == "kraft" and r.topic == "wide"} == {
        "InvalidReplicationFactorException: The target replication factor of 4 cannot be reached because only 3 "
        "broker(s) are registered or some brokers have all their log directories cordoned. "
        "(topic wide: 2 partitions, replication factor 4, 3 brokers)"
    }


def test_a_topic_of_100000_partitions(spark: SparkSession) -> None:
    parameters = PlacementParameters(("kafka",), 0, {("c", "s"): LiveBrokers(range(7))})
    placed = computed_placements(frame(spark, topic("huge", 100_000, 3), topic("next", 1, 1)), parameters)
    counts = {r.topic: r["count"] for r in placed.groupBy("topic").count().collect()}
    assert counts == {"huge": 100_000, "next": 1}
    per_leader = [r["count"] for r in placed.where("topic = 'huge'").groupBy("leader").count().collect()]
    assert max(per_leader) - min(per_leader) <= 1


def test_a_listed_partition_far_beyond_the_others_costs_no_more_than_they(spark: SparkSession) -> None:
    last = 2**31 - 1
    rows = place(spark, topic("odd", last, 3, [Row(0, None, None, None), Row(last - 1, 8, None, None)]))
    assert [(r.scheme, r.partition, r.size_bytes) for r in rows] == [
        (scheme, partition, size) for scheme in ("kafka", "naive") for partition, size in ((0, None), (last - 1, 8))
    ]
    assert [r.replicas[0] for r in rows if r.scheme == "naive"] == [BROKERS[0], BROKERS[(last - 1) % 4]]


def test_each_topic_is_handed_to_python_once(spark: SparkSession) -> None:
    parameters = PlacementParameters(("kafka",), 0, {("c", "s"): LiveBrokers(range(7))})
    for loads in (None, [Row(0, 5, None, None)]):
        plan = computed_placements(frame(spark, topic("orders", 1, 3, loads)), parameters)._jdf  # type: ignore[attr-defined]
        assert plan.queryExecution().executedPlan().toString().count("ArrowEvalPython") == 2  # one each kind of topic


def test_a_list_of_100000_partitions_is_not_copied_into_each_row(spark: SparkSession) -> None:
    loads = [Row(i, i, None, None) for i in range(100_000)]
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        rows = place(spark, topic("huge", 100_000, 3, loads))
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    assert [r.size_bytes for r in rows] == [*range(100_000), *range(100_000)]
