"""Views agree with the tables, and show what changed between two snapshots of one cluster."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.config.settings import load_settings
from pipelines.errors import StoreError
from pipelines.ingest.sources import Source, find_source
from pipelines.report.html_page import write_report
from pipelines.runner import Progress, Run, make_context
from pipelines.spark.store import Store
from pipelines.spark.views import BY_NAME, VIEWS, find_dependencies, use_temporary_names
from pipelines.verdict.failure_answers import assess_failure
from tests.steps import list_steps_to

BEFORE = """\
Topic: orders\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: min.insync.replicas=1
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2
\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2,3
\tTopic: orders\tPartition: 2\tLeader: 3\tReplicas: 3,1\tIsr: 3,1
Topic: lonely\tTopicId: BBBBBBBBBBBBBBBBBBBBBB\tPartitionCount: 2\tReplicationFactor: 1\tConfigs:
\tTopic: lonely\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1
\tTopic: lonely\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1
"""
_NEW = (
    ("eligible", "C", "min.insync.replicas=2", "Replicas: 2,1\tIsr: 2\tElr: 1\tLastKnownElr:"),
    ("rough", "D", "unclean.leader.election.enable=true", "Replicas: 2,3\tIsr: 2"),
)
AFTER = (
    BEFORE.replace("Partition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2,3", "Partition: 1\tLeader: 3\tReplicas: 2,3\tIsr: 3")
    .replace("Replicas: 3,1\tIsr: 3,1", "Replicas: 3,2\tIsr: 3,2")
    .replace("Partition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2", "Partition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 2,1")
    .replace("lonely", "alone")
) + "".join(
    f"Topic: {name}\tTopicId: {letter * 22}\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: {config}\n"
    f"\tTopic: {name}\tPartition: 0\tLeader: 2\t{rest}\n"
    for name, letter, config, rest in _NEW
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory, spark_application: SparkSession) -> Path:
    """A cluster seen twice."""
    folder = tmp_path_factory.mktemp("views")
    custom = 'failures.custom=[{"brokers": [1, 2]}]'
    options = [f"store.warehouse={folder}/tables", "failures.seeds=1", "hotspots.seeds=20", custom]
    settings = load_settings(options, environ={})
    for day, text in enumerate((BEFORE, AFTER), 1):
        file = folder / f"day-{day}.txt"
        file.write_text(text)
        source: Source = find_source(f"prod={file}")
        at = datetime(2026, 11, 20 + day, tzinfo=UTC)
        run = Run(
            spark_application,
            Store(spark_application, settings.store.warehouse),
            make_context([source], settings, at),
            Progress(),
        )
        run.go(list_steps_to(find_dependencies([view.name for view in VIEWS])[0]), clock=lambda at=at: at)
    return folder / "tables"


@pytest.fixture(scope="module")
def store(spark_application: SparkSession, warehouse: Path) -> Store:
    """The warehouse, every view registered."""
    made = Store(spark_application, str(warehouse))
    tables, views = find_dependencies([view.name for view in VIEWS])
    assert set(made.register(tables)) == set(tables)
    made.register_views(views)
    return made


def rows(store: Store, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in store.spark.sql(sql).collect()]


def test_snapshots_are_numbered_in_order(store: Store) -> None:
    assert rows(store, "SELECT cluster_id, number, newest FROM insights.snapshots ORDER BY number") == [
        ("prod", 1, False),
        ("prod", 2, True),
    ]


@pytest.mark.parametrize(
    ("runs", "numbers"),
    [
        ([("a", 1, 1), ("b", 2, 2), ("a", 3, 3)], {"b": 1, "a": 2}),  # a broker came back: as it was before
        ([("b", 2, 2), ("a", 1, 3)], {"a": 1, "b": 2}),  # an older source, read later with --as-of
        ([("a", 1, 1), ("b", 1, 2)], {"a": 1, "b": 2}),
    ],
)
def test_the_newest_snapshot_is_the_last_seen(
    spark: SparkSession, runs: list[tuple[str, int, int]], numbers: dict[str, int]
) -> None:
    """runs: (snapshot, day that it shows, day of the run)."""
    values = ", ".join(
        f"('c', '{snapshot}', 'gold.scheme_comparison', timestamp'2026-11-0{of}', timestamp'2026-11-0{at}')"
        for snapshot, of, at in runs
    )
    log = f"(SELECT * FROM VALUES {values} AS r(cluster_id, snapshot_id, stage, as_of, finished_at))"
    found = spark.sql(BY_NAME["insights.snapshots"].sql.replace("ops.runs", log)).collect()
    assert {row.snapshot_id: row.number for row in found} == numbers
    assert [row.snapshot_id for row in found if row.newest] == [max(numbers, key=numbers.__getitem__)]


def test_changes_between_snapshots(store: Store) -> None:
    """Another order of the ISR is not a change."""
    found = rows(store, "SELECT topic, partition, change FROM insights.snapshot_changes ORDER BY topic, partition")
    assert found == [
        ("alone", 0, "created"),
        ("alone", 1, "created"),
        ("eligible", 0, "created"),
        ("lonely", 0, "removed"),
        ("lonely", 1, "removed"),
        ("orders", 1, "leader changed"),
        ("orders", 2, "replicas changed"),
        ("rough", 0, "created"),
    ]


def test_brokers_that_fail_or_return(spark: SparkSession) -> None:
    before = {1: (True, "a"), 2: (True, "a"), 3: (False, "a"), 4: (True, "a"), 5: (True, "a"), 6: (True, None)}
    now = {1: (True, "a"), 2: (False, "a"), 3: (True, "a"), 4: (True, "b"), 5: (None, "a"), 7: (True, "a")}
    brokers = [
        ("prod", snapshot, broker, live, rack, "h", 0)
        for snapshot, states in (("s0", now), ("s1", before), ("s2", now))
        for broker, (live, rack) in states.items()
    ]
    key = "cluster_id string, snapshot_id string"
    columns = f"{key}, broker_id int, live boolean, rack string, host string, leaders int"
    spark.createDataFrame(brokers, columns).createOrReplaceTempView("silver__brokers")
    snapshots = [("prod", f"s{i}", i + 1, i == 2) for i in range(3)]
    columns = f"{key}, number int, newest boolean"
    spark.createDataFrame(snapshots, columns).createOrReplaceTempView("insights__snapshots")
    changes = spark.sql(use_temporary_names(BY_NAME["insights.broker_changes"].sql)).collect()
    for view in ("silver__brokers", "insights__snapshots"):
        spark.catalog.dropTempView(view)
    assert {row.broker_id: row.change for row in changes} == {
        2: "failed",
        3: "returned",
        4: "rack changed",
        5: "state unknown",
        6: "removed",
        7: "added",
    }


def test_offline_partitions_are_those_of_the_failures(store: Store) -> None:
    """Replicas in the ELR take over too, and where unclean elections are allowed, any live replica does."""
    partitions = rows(store, "SELECT broker_id FROM insights.single_failure_offline_partitions")
    counts = Counter(broker for (broker,) in partitions)
    failures = rows(store, "SELECT broker_id, newly_offline_partitions FROM insights.broker_failure_risk")
    assert counts == Counter({broker: n for broker, n in failures if n}) == Counter({1: 2, 3: 1})


def test_issues_are_those_of_the_verdict(store: Store) -> None:
    counts = Counter(issue for (issue,) in rows(store, "SELECT issue FROM insights.partition_issues"))
    assert counts == {"offline_if_broker_fails": 3, "under_replicated": 3, "under_min_isr": 1}
    assert rows(store, "SELECT * FROM insights.rack_failure_risk") == []


def test_successors(store: Store) -> None:
    sql = """
    SELECT topic, partition, leader, successor FROM silver.partitions
    JOIN insights.snapshots USING (cluster_id, snapshot_id) WHERE newest ORDER BY topic, partition"""
    assert rows(store, sql) == [
        ("alone", 0, 1, -1),
        ("alone", 1, 1, -1),
        ("eligible", 0, 2, 1),
        ("orders", 0, 1, 2),
        ("orders", 1, 3, -1),
        ("orders", 2, 3, 2),
        ("rough", 0, 2, 3),
    ]


@pytest.mark.parametrize(("view", "kind"), [("broker_failure_risk", "broker"), ("custom_failure_risk", "custom")])
def test_views_and_commands_give_one_answer(store: Store, view: str, kind: str) -> None:
    sql = f"""
    SELECT f.* FROM gold.failure_summary f JOIN insights.snapshots USING (cluster_id, snapshot_id)
    WHERE newest AND scheme = 'observed' AND scenario_kind = '{kind}'"""
    expected = [assess_failure(row.asDict()).answer for row in store.spark.sql(sql).collect()]
    assert len(expected) == (3 if kind == "broker" else 1)
    assert sorted(expected) == sorted(answer for (answer,) in rows(store, f"SELECT answer FROM insights.{view}"))


def test_answers_do_not_blame_a_failure_for_the_present(store: Store) -> None:
    """`eligible` is below min.insync.replicas already."""
    found = rows(
        store, "SELECT broker_id, answer, under_min_isr_before_partitions FROM insights.broker_failure_risk ORDER BY 1"
    )
    assert found == [
        (1, "No: 2 partitions would go offline", 1),
        (2, "Risky: unclean elections could lose messages in 1 partition", 1),
        (3, "No: 1 partition would go offline", 1),
    ]


def test_manually_placed_topics_where_no_racks_are_known(store: Store) -> None:
    found = rows(store, "SELECT DISTINCT racks_known FROM insights.manually_placed_topics")
    assert found == [(False,)]


def test_hot_brokers_lonely_topics_and_the_worst_pair(store: Store) -> None:
    hot = rows(
        store, "SELECT broker_id, leaders, leaders_over_mean FROM insights.hottest_brokers ORDER BY place LIMIT 1"
    )
    assert hot == [(1, 3, 1.286)]
    assert rows(store, "SELECT topic, broker_id FROM insights.single_leader_topics") == [("alone", 1)]
    pair = "SELECT broker_id, other_broker_id, newly_offline_partitions FROM insights.worst_pair"
    assert rows(store, pair) == [(1, 2, 4)]


def test_history_of_a_metric(store: Store) -> None:
    found = rows(
        store,
        "SELECT number, value, change FROM insights.metric_history WHERE metric = 'offline_partitions' ORDER BY number",
    )
    assert found == [(1, 0.0, None), (2, 0.0, 0.0)]


def test_versions_of_a_table(store: Store) -> None:
    """Delta keeps earlier versions of a table, and a query can compare them."""
    now = "SELECT snapshot_id FROM gold.broker_load"
    assert len(set(rows(store, now))) == 2
    assert len(set(rows(store, f"{now} VERSION AS OF 1"))) == 1


def test_comments_of_views(store: Store) -> None:
    for view in VIEWS:
        described = {row[0]: row[1] for row in store.spark.sql(f"DESCRIBE TABLE EXTENDED {view.name}").collect()}
        assert described["Comment"] == view.comment


def test_report_on_the_newest_snapshot(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert len(write_report(store, file).clusters) == 1
    page = file.read_text()
    assert "prod" in page
    assert "Losing broker 1 or 3 takes partitions offline (worst case: broker 1, 2 partitions)." in page
    assert '"trend":[{' in page
    assert page.count("2026-11-2") >= 2
    with pytest.raises(StoreError, match="there is no cluster 'eu'"):
        write_report(store, file, ["eu"])
    with pytest.raises(StoreError, match="there is nothing to report"):
        write_report(Store(store.spark, str(tmp_path)), file)
