"""Tables of a replay: as the command tells it without Spark, whole, and the same again."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.cli.replay_output import Asked, Timeline, snapshot_of_log, timeline
from pipelines.simulation.simulation_run import rows_of_groups, write_events, write_replay
from pipelines.spark.store import Store
from pipelines.stages.simulation_stage import availability
from pipelines.tables import TABLES
from udfs.simulation.groups import group_simulation
from udfs.simulation.plain_results import health, leaderships, requests, state_of, transitions

SAMPLES = Path(__file__).parents[2] / "data_samples"
OF_GROUPS = ("gold.group_requests", "gold.group_transitions")
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
def told(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    file = tmp_path_factory.mktemp("scenario") / "night.yaml"
    file.write_text(SCENARIO)
    return timeline(Asked([str(file)]))


@pytest.fixture(scope="module")
def store(spark_application: SparkSession, told: Timeline, tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(spark_application, str(tmp_path_factory.mktemp("replay")))
    key = snapshot_of_log(told)
    write_events(spark_application, made, told.log, [key])
    of_groups = rows_of_groups(told.groups, key)
    write_replay(made, [key], buckets=3, of_groups=of_groups)
    write_replay(made, [key], buckets=2, of_groups=of_groups)  # again: the rows replace themselves
    return made


def rows(store: Store, name: str) -> list[dict]:
    key = ("cluster_id", "snapshot_id")
    return [{k: v for k, v in row.asDict().items() if k not in key} for row in store.read(name).collect()]


def in_order(rows: list[dict]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("gold.leadership_events", leaderships),
        ("gold.state_transitions", transitions),
        ("gold.replication_health", health),
        ("gold.requests", requests),
    ],
)
def test_tables_are_what_the_command_tells(store: Store, told: Timeline, name: str, answer) -> None:
    columns = TABLES[name].column_names[2:]
    want = [{column: row[column] for column in columns} for row in answer(told.replayed)]
    got = rows(store, name)
    assert in_order(got) == in_order(want)
    assert got


def test_the_partitions_at_the_end(store: Store, told: Timeline) -> None:
    want = state_of(told.replayed)["partitions"]
    assert in_order(rows(store, "gold.final_partitions")) == in_order(want)
    assert {row["topic"] for row in want} == {"orders", "new"}


@pytest.mark.parametrize(
    ("name", "answer"),
    [("gold.group_requests", group_simulation.answers), ("gold.group_transitions", group_simulation.transitions)],
)
def test_consumer_groups_are_what_the_command_tells(store: Store, told: Timeline, name: str, answer) -> None:
    want = answer(told.groups)
    got = [{"group": row.pop("group_id"), **row} for row in rows(store, name)]
    steps = [row.pop("step") for row in got if "step" in row]
    assert in_order(got) == in_order(want)
    assert {row["group"] for row in want} == ({"g", "h"} if name == "gold.group_requests" else {"g"})
    assert sorted(steps) == list(range(len(steps)))  # of one group


def test_changes_of_a_group_are_in_their_order(store: Store) -> None:
    found = sorted(rows(store, "gold.group_transitions"), key=lambda row: row["step"])
    assert [row["at_ms"] for row in found] == sorted(row["at_ms"] for row in found)
    for before, after in pairwise(found):
        assert before["to_state"] == after["from_state"]
    assert None in {row["event"] for row in found}  # a timer's


def test_keys_are_unique(store: Store) -> None:
    for name in (name for name in TABLES if name.startswith("gold.")):
        if store.exists(name):
            keys = list(TABLES[name].keys)
            frame = store.read(name)
            assert frame.select(*keys).distinct().count() == frame.count(), name


def test_the_time_without_a_leader(store: Store) -> None:
    """solo's broker is down from 4 s to 20 s; orders had 3 alone meanwhile; all ends at 60 s."""
    found = {(row["topic"], row["partition"]): row for row in rows(store, "gold.availability")}
    assert found["solo", 0]["without_leader_ms"] == found["solo", -1]["without_leader_ms"] == 16_000
    assert found["orders", 0]["without_leader_ms"] == 0
    assert found["orders", -1]["observed_ms"] == 2 * 59_000
    assert found["solo", 0]["outages"] == 1


def test_an_outage_is_one_though_its_epoch_changes(spark: SparkSession) -> None:
    """t-0: none from 10 to 40 and on to 60, led, none again from 70 to 75; t-1: always led."""
    periods = [(0, 0, 10, 1), (0, 10, 40, None), (0, 40, 60, None), (0, 60, 70, 2), (0, 70, 75, None), (1, 0, 75, 3)]
    data = [("c", "s", "t", p, begin, end, leader, False, False, False) for p, begin, end, leader in periods]
    flags = "under_replicated boolean, at_min_isr boolean, under_min_isr boolean"
    columns = "cluster_id string, snapshot_id string, topic string, partition int, from_ms bigint, to_ms bigint"
    found = availability(spark.createDataFrame(data, f"{columns}, leader int, {flags}")).collect()
    told = {row.partition: (row.outages, row.longest_outage_ms, row.without_leader_ms) for row in found}
    assert told == {0: (2, 50, 55), 1: (0, 0, 0), -1: (2, 50, 55)}


@pytest.mark.slow
def test_a_log_and_a_dump_as_tables(spark: SparkSession, tmp_path: Path) -> None:
    """The KRaft log's fold, spread over workers, is the one that the captures hold. It tells of no consumer group."""
    log = SAMPLES / "captures" / "kafka-4.1.1-kraft" / "cluster-metadata-dump.until-broker-2-down.txt"
    told = timeline(Asked([str(log)]))
    store, key = Store(spark, str(tmp_path)), snapshot_of_log(told)
    write_events(spark, store, told.log, [key])
    write_replay(store, [key], of_groups=rows_of_groups(told.groups, key))
    assert in_order(rows(store, "gold.final_partitions")) == in_order(state_of(told.replayed)["partitions"])
    assert store.read("gold.final_partitions").count() == 743
    for table in OF_GROUPS:
        assert store.read(table).count() == 0
