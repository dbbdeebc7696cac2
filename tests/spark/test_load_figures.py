"""The queries of the report's figures about bytes, zones and growth, over small tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from pipelines.ingest.sources import SnapshotKey
from pipelines.report.figure_queries import FIGURES
from pipelines.spark.views import use_temporary_names

LAST = datetime(2026, 11, 24, tzinfo=UTC)
SNAPSHOT = SnapshotKey("c", "s")


def run_figure(
    spark: SparkSession, name: str, tables: dict[str, tuple[str, list[tuple[Any, ...]]]]
) -> list[tuple[Any, ...]]:
    """Return the rows of a figure without cluster_id. tables: by name, columns and rows of the snapshot.

    Each row is also in another snapshot, which must not count.
    """
    for table, (columns, rows) in tables.items():
        both = [(*key, *row) for key in (("c", "s"), ("c", "old")) for row in rows]
        frame = spark.createDataFrame(both, f"cluster_id string, snapshot_id string, {columns}")
        frame.createOrReplaceTempView(use_temporary_names(table))
    (figure,) = (figure for figure in FIGURES if figure.name == name)
    return [tuple(row)[1:] for row in spark.sql(use_temporary_names(figure.query([SNAPSHOT]))).collect()]


def test_loads_count_partitions_by_source(spark: SparkSession) -> None:
    raw = ("format string, record_number long, raw string", [("topic-loads", 0, "loads from x"), ("describe", 0, "t")])
    partitions = [("even",), ("offsets",), ("offsets",), (None,)]
    tables = {"bronze.raw_metadata": raw, "silver.partitions": ("load_source string", partitions)}
    ((count, sources, header),) = run_figure(spark, "loads", tables)
    assert (count, [(one.load_source, one.n) for one in sources]) == (4, [("offsets", 2), ("even", 1)])
    assert header == "loads from x"
    assert run_figure(spark, "loads", tables | {"silver.partitions": ("load_source string", [(None,)])}) == []


def test_network_loads_of_brokers_and_worst_survivors(spark: SparkSession) -> None:
    kinds = ("producer_bytes_in", "replication_bytes_in", "replication_bytes_out", "consumer_bytes_out")
    rates = ", ".join(f"{kind}_per_s double" for kind in (*kinds, "network_bytes_in", "network_bytes_out"))
    rows = [
        ("observed", "none", 1, 1.0, 2.0, 3.0, 4.0, 3.0, 7.0),
        ("observed", "none", 2, 1.0, 2.0, None, None, 3.0, None),
        ("observed", "none", 3, *[None] * 6),
        ("kafka", "none", 1, *[9.0] * 6),
        ("observed", "broker:1", 2, 0.0, 0.0, 0.0, 0.0, 0.0, 6.0),
        ("observed", "broker:1", 3, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0),
        ("observed", "broker:2", 3, *[None] * 6),
        ("kafka", "broker:1", 3, *[90.0] * 6),
    ]
    tables = {"gold.network_load": (f"scheme string, scenario string, broker_id int, {rates}", rows)}
    assert run_figure(spark, "network", tables) == [rows[0][2:], rows[1][2:]]
    assert run_figure(spark, "survivor_bytes", tables) == [("broker:1", 2, 6.0, 1.5)]


def test_survivors_over_their_capacity_for_bytes(spark: SparkSession) -> None:
    columns = (
        "scheme string, scenario_kind string, scenario string, broker_id int, quantity string, load_after double, "
    )
    columns += "capacity double, excess_load double, load_over_capacity_ratio double"
    rows = [
        ("observed", "broker", "broker:1", 3, "fetch_per_s", 14.0, 10.0, 4.0, 1.4),
        ("observed", "rack", "rack:a", 3, "fetch_per_s", 16.0, 10.0, 6.0, 1.6),
        ("observed", "pair", "pair:1,2", 3, "fetch_per_s", 90.0, 10.0, 80.0, 9.0),
        ("observed", "broker", "broker:1", 3, "leaders", 14.0, 10.0, 4.0, 1.4),
        ("naive", "broker", "broker:1", 3, "fetch_per_s", 90.0, 10.0, 80.0, 9.0),
        ("observed", "broker", "broker:1", 2, "bytes_in_per_s", 5.0, 0.0, 5.0, None),
    ]
    assert run_figure(spark, "over_capacity", {"gold.over_capacity": (columns, rows)}) == [
        ("bytes_in_per_s", 2, 1, "broker:1", 5.0, 0.0),  # of capacity 0: the first
        ("fetch_per_s", 3, 2, "rack:a", 16.0, 10.0),
    ]


def test_bytes_between_zones_are_unknown_if_one_is(spark: SparkSession) -> None:
    columns = "scheme string, scenario string, traffic_kind string, crosses_zones boolean, bytes_per_s double, "
    rows = [
        ("observed", "none", "replication", True, 5.0, 10.0),
        ("observed", "none", "replication", False, 50.0, 0.0),
        ("observed", "none", "producers", False, 5.0, None),
        ("observed", "none", "consumers", True, 2.0, 4.0),
        ("observed", "none", "consumers", None, 2.0, None),
        ("observed", "broker:1", "producers", True, None, None),
        ("kraft", "none", "producers", True, 3.0, 6.0),
        ("kraft", "broker:1", "producers", True, 100.0, 200.0),
    ]
    tables = {"gold.zone_traffic": (f"{columns} cost_per_month double", rows)}
    assert sorted(run_figure(spark, "zone_traffic", tables)) == [
        ("kraft", "none", "producers", 3.0, 6.0),
        ("observed", "broker:1", "producers", None, None),
        ("observed", "none", "consumers", None, None),
        ("observed", "none", "producers", 0.0, None),
        ("observed", "none", "replication", 5.0, 10.0),
    ]


def test_growth_lists_the_soonest_of_each_limit_and_each_reason_once(spark: SparkSession) -> None:
    columns = "limit_name string, broker_id int, log_dir string, quantity string, limit_value double, level double, "
    columns += "slope_per_day double, days double, days_low double, days_high double, last_at timestamp, reason string"
    numbers, unknown = (4.0, 3.0, 0.1), (None, 3.0, None, None, None, None, LAST)
    rows = [("disk_full", i, None, "size_bytes", *numbers, 10.0 - i, 1.0, 20.0, LAST, None) for i in range(7)]
    rows += [("broker_partitions", i, None, "replicas", *unknown, "it does not grow") for i in range(3)]
    rows += [("cluster_partitions", None, None, "replicas", *numbers, 5.5, 1.0, None, LAST, None)]
    found = run_figure(spark, "growth", {"gold.growth_forecasts": (columns, rows)})
    assert [(row[0], row[1], row[7], row[-1]) for row in found] == [
        ("disk_full", 6, 4.0, 7),
        ("disk_full", 5, 5.0, 7),
        ("cluster_partitions", None, 5.5, 1),
        ("disk_full", 4, 6.0, 7),
        ("disk_full", 3, 7.0, 7),
        ("disk_full", 2, 8.0, 7),
        ("broker_partitions", 0, None, 3),
    ]
