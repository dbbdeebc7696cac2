"""Tables of a replay: the same rows as the command's answer without Spark, also when they are written again."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from chispa import assert_approx_df_equality
from pyspark.sql import SparkSession

from pipelines.simulation.cluster_replay import Replay, ReplayRequest, run_replay
from pipelines.simulation.simulation_writer import build_tables_of_groups, write_events, write_simulation
from pipelines.spark.store import Store
from pipelines.stages.simulation_stages import build_availability
from pipelines.tables import TABLES
from udfs.simulation import group_simulation
from udfs.simulation.result_tables import (
    get_final_state,
    list_health,
    list_leaderships,
    list_requests,
    list_transitions,
)

SAMPLES = Path(__file__).parents[2] / "data_samples"
GROUP_TABLES = ("gold.group_requests", "gold.group_transitions")
SCENARIO = """
brokers: [1, 2, 3]
topics:
  orders: [[1, 2, 3], [2, 3, 1]]
  solo: [[2]]
settings: {leader_imbalance_check_ms: 7000}
events:
  - t=1 produce 25 to orders-0 acks=all
  - t=2 consumer fetches orders-0,orders-1 from 0 wait=500ms
  - t=3 produce 5 to orders-0,orders-1 acks=1
  - t=3.1 broker 1 down
  - t=4 broker 2 down
  - t=20 brokers 1,2 up
  - t=22 topic new created 1:2,2:3
  - t=40 produce 2 to new-1 acks=all timeout=1s
  - t=41 group g member a joins session=10s
  - t=42 group g member b joins
  - t=44 group h member a joins session=1s
  - t=48 group g member a syncs
  - t=49 group g member b syncs
  - t=50 group g member a heartbeats
  - t=51 group g member b leaves
  - t=60 topic solo deleted
  - t=60 group g member a heartbeats
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    file = tmp_path_factory.mktemp("scenario") / "night.yaml"
    file.write_text(SCENARIO)
    return run_replay(ReplayRequest([str(file)]))


@pytest.fixture(scope="module")
def store(spark_application: SparkSession, finished: Replay, tmp_path_factory: pytest.TempPathFactory) -> Store:
    new_store = Store(spark_application, str(tmp_path_factory.mktemp("replay")))
    key = finished.snapshot_key
    write_events(new_store, finished.log, [key])
    group_tables = build_tables_of_groups(finished.groups, key)
    write_simulation(new_store, [key], buckets=3, group_tables=group_tables)
    write_simulation(new_store, [key], buckets=2, group_tables=group_tables)  # again: the rows replace themselves
    return new_store


def rows(store: Store, name: str) -> list[dict]:
    key = ("cluster_id", "snapshot_id")
    return [{k: v for k, v in row.asDict().items() if k not in key} for row in store.read(name).collect()]


def in_order(rows: list[dict]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("gold.leadership_events", list_leaderships),
        ("gold.state_transitions", list_transitions),
        ("gold.replication_health", list_health),
        ("gold.requests", list_requests),
    ],
)
def test_tables_have_the_rows_of_the_answer(store: Store, finished: Replay, name: str, answer) -> None:
    columns = TABLES[name].column_names[2:]
    expected = [{column: row[column] for column in columns} for row in answer(finished.simulation)]
    actual = rows(store, name)
    assert in_order(actual) == in_order(expected)
    assert actual


def test_final_partitions(store: Store, finished: Replay) -> None:
    expected = get_final_state(finished.simulation).partitions
    assert in_order(rows(store, "gold.final_partitions")) == in_order(expected)
    assert {row["topic"] for row in expected} == {"orders", "new"}


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("gold.group_requests", group_simulation.list_group_requests),
        ("gold.group_transitions", group_simulation.list_group_transitions),
    ],
)
def test_consumer_groups_have_the_rows_of_the_answer(store: Store, finished: Replay, name: str, answer) -> None:
    expected = answer(finished.groups)
    actual = [{"group": row.pop("group_id"), **row} for row in rows(store, name)]
    steps = [row.pop("step") for row in actual if "step" in row]
    assert in_order(actual) == in_order(expected)
    assert {row["group"] for row in expected} == ({"g", "h"} if name == "gold.group_requests" else {"g"})
    assert sorted(steps) == list(range(len(steps)))  # of one group


def test_changes_of_a_group_are_in_order(store: Store) -> None:
    rows_found = sorted(rows(store, "gold.group_transitions"), key=lambda row: row["step"])
    assert [row["at_ms"] for row in rows_found] == sorted(row["at_ms"] for row in rows_found)
    for before, after in pairwise(rows_found):
        assert before["to_state"] == after["from_state"]
    assert None in {row["event"] for row in rows_found}  # a timer's


def test_keys_are_unique(store: Store) -> None:
    for name in (name for name in TABLES if name.startswith("gold.")):
        if store.exists(name):
            keys = list(TABLES[name].keys)
            frame = store.read(name)
            assert frame.select(*keys).distinct().count() == frame.count(), name


def test_time_without_a_leader(store: Store) -> None:
    """The broker of solo is down from 4 s to 20 s; only broker 3 has orders meanwhile; the scenario ends at 60 s."""
    rows_found = {(row["topic"], row["partition"]): row for row in rows(store, "gold.availability")}
    assert rows_found["solo", 0]["without_leader_ms"] == rows_found["solo", -1]["without_leader_ms"] == 16_000
    assert rows_found["orders", 0]["without_leader_ms"] == 0
    assert rows_found["orders", -1]["observed_ms"] == 2 * 59_000
    assert rows_found["solo", 0]["outages"] == 1


def test_an_outage_goes_on_when_its_epoch_changes(spark: SparkSession) -> None:
    """t-0 has no leader from 10 to 60, in two epochs, and from 70 to 75; t-1 always has one."""
    periods = [(0, 0, 10, 1), (0, 10, 40, None), (0, 40, 60, None), (0, 60, 70, 2), (0, 70, 75, None), (1, 0, 75, 3)]
    key = "cluster_id string, snapshot_id string, topic string, partition int"
    flags = "under_replicated boolean, at_min_isr boolean, under_min_isr boolean"
    health = spark.createDataFrame(
        [("c", "s", "t", p, begin, end, leader, False, False, False) for p, begin, end, leader in periods],
        f"{key}, from_ms bigint, to_ms bigint, leader int, {flags}",
    )
    expected = spark.createDataFrame(
        [
            ("c", "s", "t", 0, 75, 55, 0, 0, 0, 2, 50, 20 / 75),
            ("c", "s", "t", 1, 75, 0, 0, 0, 0, 0, 0, 1.0),
            ("c", "s", "t", -1, 150, 55, 0, 0, 0, 2, 50, 95 / 150),
        ],
        f"{key}, observed_ms bigint, without_leader_ms bigint, under_replicated_ms bigint, at_min_isr_ms bigint, "
        "under_min_isr_ms bigint, outages bigint, longest_outage_ms bigint, led_ratio double",
    )
    assert_approx_df_equality(
        build_availability(health), expected, precision=1e-12, ignore_row_order=True, ignore_nullable=True
    )


@pytest.mark.slow
def test_a_metadata_log_as_tables(spark: SparkSession, tmp_path: Path) -> None:
    """The KRaft log's fold, spread over workers, is the one that the captures hold. It tells of no consumer group."""
    log = SAMPLES / "captures" / "kafka-4.1.1-kraft" / "cluster-metadata-dump.until-broker-2-down.txt"
    finished = run_replay(ReplayRequest([str(log)]))
    store, key = Store(spark, str(tmp_path)), finished.snapshot_key
    write_events(store, finished.log, [key])
    write_simulation(store, [key], group_tables=build_tables_of_groups(finished.groups, key))
    assert in_order(rows(store, "gold.final_partitions")) == in_order(get_final_state(finished.simulation).partitions)
    assert store.read("gold.final_partitions").count() == 743
    for table in GROUP_TABLES:
        assert store.read(table).count() == 0
