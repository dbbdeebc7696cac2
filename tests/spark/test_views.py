"""Views agree with the tables, and show what changed between two snapshots of one cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type

from pipelines.cli.run_summary import describe_older_snapshots
from pipelines.config.settings import load_settings
from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey, compute_snapshot_id, find_source
from pipelines.report.html_page import write_report
from pipelines.spark.store import Store
from pipelines.spark.views import BY_NAME, VIEWS, find_dependencies, use_temporary_names
from pipelines.verdict.cluster_evidence import PartitionIssue
from pipelines.verdict.verdict_points import assess_failure
from tests.shared_runs import SharedFolder
from tests.spark.two_days import create_warehouse
from udfs.arrow.columns import get_comment


@pytest.fixture(scope="module")
def warehouse(shared_folder: SharedFolder) -> Path:
    """A cluster seen twice."""
    return create_warehouse(shared_folder) / "tables"


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
    ("runs", "periods"),
    [
        # A broker came back: the cluster is as it was before.
        ([("a", 1, 1), ("b", 2, 2), ("a", 3, 3)], [("a", 1, 1), ("b", 2, 2), ("a", 3, 3)]),
        # An older source, read later with --as-of.
        ([("b", 2, 2), ("a", 1, 3)], [("a", 1, 1), ("b", 2, 2)]),
        ([("a", 1, 1), ("b", 1, 2)], [("a", 1, 1), ("b", 1, 1)]),
        ([("a", 1, 1), ("b", 1, 2), ("a", 1, 3)], [("b", 1, 1), ("a", 1, 1)]),
        # Nothing changed for some days.
        ([("a", 1, 1), ("a", 2, 2), ("b", 3, 3), ("b", 4, 4), ("b", 6, 6)], [("a", 1, 2), ("b", 3, 6)]),
        ([("a", 1, 1), ("b", 2, 2), ("a", 3, 3), ("a", 4, 4)], [("a", 1, 1), ("b", 2, 2), ("a", 3, 4)]),
    ],
)
def test_snapshots_are_the_states_over_time(
    spark: SparkSession, runs: list[tuple[str, int, int]], periods: list[tuple[str, int, int]]
) -> None:
    """runs: (snapshot, day that it shows, day of the run); periods: (snapshot, first day, last day)."""
    values = ", ".join(
        f"('c', '{snapshot}', 'gold.scheme_comparison', timestamp'2026-11-0{of}', timestamp'2026-11-0{at}')"
        for snapshot, of, at in runs
    )
    log = f"(SELECT * FROM VALUES {values} AS r(cluster_id, snapshot_id, stage, as_of, finished_at))"
    found = spark.sql(BY_NAME["insights.snapshots"].sql.replace("ops.runs", log)).collect()
    found.sort(key=lambda row: row.number)
    assert [(row.snapshot_id, row.first_seen_at.day, row.seen_at.day) for row in found] == periods
    assert [(row.number, row.newest) for row in found] == [(n, n == len(periods)) for n in range(1, len(periods) + 1)]


def test_changes_between_snapshots(store: Store) -> None:
    """Another order of the ISR is not a change; nor does a replica that is no more have to leave the ISR."""
    flags = ("leader_changed", "replicas_changed", "isr_shrunk", "isr_expanded")
    found = rows(
        store, f"SELECT topic, partition, change, {', '.join(flags)} FROM insights.snapshot_changes ORDER BY 1, 2"
    )
    assert [(*row[:3], *(flag for flag, is_set in zip(flags, row[3:], strict=True) if is_set)) for row in found] == [
        ("alone", 0, "created"),
        ("alone", 1, "created"),
        ("eligible", 0, "created"),
        ("lonely", 0, "removed"),
        ("lonely", 1, "removed"),
        ("orders", 1, "changed", "leader_changed", "isr_shrunk"),
        ("orders", 2, "changed", "replicas_changed"),
        ("rough", 0, "created"),
    ]
    assert {flag for row in found for flag in row[3:]} == {True, False}


def test_an_isr_that_shrinks_while_another_replica_joins_it(spark: SparkSession) -> None:
    states = {"s1": [(1, [1, 2, 3], [1, 2]), (1, [1, 2], [1])], "s2": [(1, [1, 2, 3], [1, 3]), (1, [1, 2], [2, 1])]}
    partitions = [("prod", s, "t", n, *state) for s, some in states.items() for n, state in enumerate(some)]
    key = "cluster_id string, snapshot_id string"
    columns = f"{key}, topic string, partition int, leader int, replicas array<int>, isr array<int>"
    spark.createDataFrame(partitions, columns).createOrReplaceTempView("silver__partitions")
    topics = [("prod", s, "t", 2, 2) for s in states]
    columns = f"{key}, topic string, partitions int, listed_partitions int"
    spark.createDataFrame(topics, columns).createOrReplaceTempView("silver__topics")
    snapshots = [("prod", "s1", 1, False), ("prod", "s2", 2, True)]
    spark.createDataFrame(snapshots, f"{key}, number int, newest boolean").createOrReplaceTempView(
        "insights__snapshots"
    )
    found = spark.sql(use_temporary_names(BY_NAME["insights.snapshot_changes"].sql)).collect()
    for view in ("silver__partitions", "silver__topics", "insights__snapshots"):
        spark.catalog.dropTempView(view)
    assert {row.partition: (row.isr_shrunk, row.isr_expanded) for row in found} == {0: (True, True), 1: (False, True)}
    assert not any(row.leader_changed or row.replicas_changed for row in found)


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


def test_partitions_below_min_isr_are_those_of_the_failures(store: Store) -> None:
    sql = """SELECT broker_id, topic, live_isr_count, live_isr_count_after, effective_min_isr
    FROM insights.single_failure_under_min_isr_partitions ORDER BY ALL"""
    assert rows(store, sql) == []  # `eligible` is below it now, and all others need one replica
    sql = (
        "SELECT topic, effective_min_isr FROM silver.partitions WHERE partition = 0 AND topic IN ('eligible', 'rough')"
    )
    assert sorted(rows(store, sql)) == [("eligible", 2), ("rough", 1)]


def test_cross_zone_traffic_of_states_failures_and_plans(spark: SparkSession) -> None:
    """Two failures, of which the second carries more between zones; a scheme of unknown rates; a plan."""
    key = "cluster_id string, snapshot_id string"
    names = f"{key}, newest boolean"
    spark.createDataFrame([("c", "s", True), ("c", "old", False)], names).createOrReplaceTempView("insights__snapshots")
    traffic = [
        ("observed", "none", "replication", True, 5.0, 10.0),
        ("observed", "none", "replication", False, 50.0, 0.0),
        ("observed", "none", "consumers", True, 2.0, 4.0),
        ("observed", "broker:1", "producers", True, 3.0, 6.0),
        ("observed", "rack:a", "producers", True, 4.0, 8.0),
        ("kraft", "none", "replication", None, None, None),
        ("kraft", "none", "producers", None, None, None),
        ("kraft", "none", "consumers", True, 1.0, 2.0),
        ("kraft", "broker:1", "consumers", True, 100.0, 200.0),
    ]
    names = f"{key}, scheme string, scenario string, traffic_kind string, crosses_zones boolean"
    spark.createDataFrame(
        [("c", "s", *row) for row in traffic] + [("c", "old", *traffic[0])],
        f"{names}, bytes_per_s double, cost_per_month double",
    ).createOrReplaceTempView("gold__zone_traffic")
    after = {"replication_bytes_per_s": 1.0, "producers_bytes_per_s": 2.0, "consumers_bytes_per_s": 4.0}
    metrics = [("c", "s", "balance", f"cross_zone_{name}", value) for name, value in after.items()]
    metrics += [("c", "s", "balance", "moves", 5.0), ("c", "old", "drain", metrics[0][3], 9.0)]
    names = f"{key}, goal string, metric string, after double"
    spark.createDataFrame(metrics, names).createOrReplaceTempView("gold__plan_metrics")
    found = spark.sql(use_temporary_names(BY_NAME["insights.cross_zone_traffic"].sql)).collect()
    assert sorted((tuple(row)[1:] for row in found), key=str) == [
        ("now", None, 5.0, 0.0, 2.0, 7.0, 14.0),
        ("plan", "balance", 1.0, 2.0, 4.0, 7.0, None),
        ("scheme", "kraft", None, None, 1.0, None, None),
        ("worst failure", "rack:a", 0.0, 4.0, 0.0, 4.0, 8.0),
    ]


def test_the_declared_columns_are_those_of_the_queries(store: Store) -> None:
    """Described by Spark, with their comments."""
    for view in VIEWS:
        described = rows(store, f"DESCRIBE {view.name}")
        declared = [(c.name, from_arrow_type(c.type).simpleString(), get_comment(c)) for c in view.columns]
        assert described == declared, view.name


def test_the_hottest_broker_of_each_snapshot(store: Store) -> None:
    sql = "SELECT number, broker_id, leaders, leaders_over_mean FROM insights.hottest_broker_history ORDER BY number"
    assert rows(store, sql) == [(1, 1, 3, 1.8), (2, 1, 3, 1.286)]
    sql = """SELECT number, hottest_broker, leaders_max, round(max_over_mean_ratio, 3) FROM gold.leader_hotspots
    JOIN insights.snapshots USING (cluster_id, snapshot_id) WHERE scheme = 'observed' AND topic IS NULL
    ORDER BY number"""
    assert rows(store, sql) == [(1, 1, 3, 1.8), (2, 1, 3, 1.286)]


def test_the_health_of_topics_in_each_snapshot(store: Store) -> None:
    """In the newest one, as many partitions have each issue as in insights.partition_issues."""
    sql = """SELECT number, topic, partitions, under_min_isr_partitions, under_replicated_partitions,
    offline_if_broker_fails_partitions FROM insights.topic_health_history ORDER BY 1, 2"""
    assert rows(store, sql) == [
        (1, "lonely", 2, 0, 0, 2),
        (1, "orders", 3, 0, 0, 0),
        (2, "alone", 2, 0, 0, 2),
        (2, "eligible", 1, 1, 1, 0),
        (2, "orders", 3, 0, 1, 1),
        (2, "rough", 1, 0, 1, 0),
    ]
    counts = Counter(rows(store, "SELECT topic, issue FROM insights.partition_issues"))
    health = store.spark.sql("SELECT * FROM insights.topic_health_history WHERE number = 2").collect()
    assert {(row.topic, i): row[f"{i}_partitions"] for row in health for i in PartitionIssue} == {
        (row.topic, issue): counts[row.topic, issue] for row in health for issue in PartitionIssue
    }


_KEY = "cluster_id string, snapshot_id string"


def show_snapshots(spark: SparkSession, numbers: Iterable[int]) -> None:
    """Show snapshots s1, s2 and so on, each of its day, as insights.snapshots."""
    snapshots = [("prod", f"s{n}", datetime(2026, 11, n, tzinfo=UTC), n, n == max(numbers)) for n in numbers]
    columns = f"{_KEY}, first_seen_at timestamp, number int, newest boolean"
    spark.createDataFrame(snapshots, columns).createOrReplaceTempView("insights__snapshots")


def show_topics(spark: SparkSession, topics: Iterable[tuple[Any, ...]]) -> None:
    """Show these rows as silver.topics."""
    columns = f"{_KEY}, topic string, partitions int, replication_factor int, topic_id string, listed_partitions int"
    spark.createDataFrame(topics, columns).createOrReplaceTempView("silver__topics")


def test_topics_that_are_created_changed_or_deleted(spark: SparkSession) -> None:
    """a: changes twice; b: comes, goes and comes again; c: is deleted and made again between two snapshots."""
    states = {
        1: {"a": (1, 2, "A"), "c": (1, 1, "C"), "d": (4, 1, None)},
        2: {"a": (3, 2, "A"), "b": (1, 1, "B"), "c": (1, 1, "X"), "d": (4, 1, "D")},
        3: {"a": (4, 3, "A"), "d": (4, 2, "D")},
        4: {"a": (4, 3, "A"), "b": (1, 1, "B"), "d": (4, None, "D")},
    }
    topics = [("prod", f"s{n}", t, *values, values[0]) for n, topics in states.items() for t, values in topics.items()]
    show_topics(spark, topics)
    show_snapshots(spark, states)
    found = spark.sql(use_temporary_names(BY_NAME["insights.topic_changes"].sql)).collect()
    assert {row.first_seen_at.day == row.number for row in found} == {True}
    assert sorted((row.number, row.topic, row.change, *row[5:]) for row in found if row.topic != "d") == [
        (2, "a", "partitions changed", 1, 3, 2, 2),
        (2, "b", "created", None, 1, None, 1),
        (2, "c", "recreated", 1, 1, 1, 1),
        (3, "a", "partitions and replication factor changed", 3, 4, 2, 3),
        (3, "b", "deleted", 1, None, 1, None),
        (3, "c", "deleted", 1, None, 1, None),
        (4, "b", "created", None, 1, None, 1),
    ]
    changes = [
        (row.number, row.replication_factor_before, row.replication_factor_now) for row in found if row[3] == "d"
    ]
    assert sorted(changes) == [(3, 1, 2), (4, 2, None)]


def test_a_listing_that_was_cut_creates_and_deletes_nothing(spark: SparkSession) -> None:
    """State 2 lacks c and d, as b breaks off; state 4 lacks everything after a. d is gone since 3, e is new in 5."""
    states = {
        1: {"a": (1, 0), "b": (4, 0), "c": (2, 0), "d": (1, 0)},
        2: {"a": (1, 0), "b": (4, 1)},
        3: {"a": (1, 0), "b": (4, 0), "c": (3, 0)},
        4: {"a": (2, 1)},
        5: {"a": (2, 0), "b": (4, 0), "c": (3, 0), "e": (1, 0)},
    }
    topics = [
        ("prod", f"s{n}", t, count, 2, t, count - cut) for n, some in states.items() for t, (count, cut) in some.items()
    ]
    show_topics(spark, topics)
    show_snapshots(spark, states)
    found = spark.sql(use_temporary_names(BY_NAME["insights.topic_changes"].sql)).collect()
    assert {row.first_seen_at.day == row.number for row in found} == {True}
    assert sorted((row.number, row.topic, row.change, *row[5:7]) for row in found) == [
        (3, "c", "partitions changed", 2, 3),
        (3, "d", "deleted", 1, None),
        (5, "a", "partitions changed", 1, 2),
        (5, "e", "created", None, 1),
    ]
    partitions = [("prod", s, topic, 0, 1, [1], [1]) for _, s, topic, *_ in topics if s in ("s3", "s4")]
    columns = f"{_KEY}, topic string, partition int, leader int, replicas array<int>, isr array<int>"
    spark.createDataFrame(partitions, columns).createOrReplaceTempView("silver__partitions")
    for newest in (3, 4):  # the listing that was cut is the older one, then the newer one
        numbered = [("prod", "s3", 3 if newest == 4 else 4, newest == 3), ("prod", "s4", newest, newest == 4)]
        spark.createDataFrame(numbered, f"{_KEY}, number int, newest boolean").createOrReplaceTempView(
            "insights__snapshots"
        )
        assert spark.sql(use_temporary_names(BY_NAME["insights.snapshot_changes"].sql)).collect() == []
    for view in ("silver__partitions", "silver__topics", "insights__snapshots"):
        spark.catalog.dropTempView(view)


def test_findings_that_come_and_go(spark: SparkSession) -> None:
    """Of two findings of one kind, the worst has the text; in the first state, nothing changes."""
    states = {
        1: [("down", "at_risk", 1, "Broker 4 is down."), ("hot_broker", "warning", 40, "hot")],
        2: [
            ("offline", "at_risk", 2, "2 are offline."),
            ("offline", "at_risk", 3, "3 too."),
            ("hot_broker", "warning", 41, "hotter"),
        ],
        3: [("offline", "at_risk", 5, "5 are offline."), ("hot_broker", "warning", 39, "less hot")],
    }
    findings = [("prod", f"s{n}", place, *one) for n, some in states.items() for place, one in enumerate(some)]
    columns = f"{_KEY}, place int, kind string, level string, affected long, text string"
    spark.createDataFrame(findings, columns).createOrReplaceTempView("gold__findings")
    show_snapshots(spark, states)
    found = spark.sql(use_temporary_names(BY_NAME["insights.finding_changes"].sql)).collect()
    for view in ("gold__findings", "insights__snapshots"):
        spark.catalog.dropTempView(view)
    assert {row.first_seen_at.day == row.number for row in found} == {True}
    assert sorted((row.number, *row[3:]) for row in found if row.kind != "offline" or row.change != "new") == [
        (2, "down", "at_risk", "gone", 1, None, "Broker 4 is down."),
        (2, "hot_broker", "warning", "more", 40, 41, "hotter"),
        (3, "hot_broker", "warning", "fewer", 41, 39, "less hot"),
    ]
    (new,) = [row for row in found if row.change == "new"]
    assert (new.number, new.kind, new.affected_before, new.affected_now, new.text) == (
        2,
        "offline",
        None,
        5,
        "2 are offline.",
    )


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
    expected = [tuple(assess_failure(row.asDict())) for row in store.spark.sql(sql).collect()]
    assert len(expected) == (3 if kind == "broker" else 1)
    assert sorted(expected) == sorted(rows(store, f"SELECT level, answer FROM insights.{view}"))


def test_disks_that_no_source_shows_are_unknown(store: Store) -> None:
    sql = "SELECT scenario, split(answer, ':')[0], bytes_to_copy, free_bytes FROM insights.disk_failure_risk"
    assert sorted(rows(store, sql)) == [(f"broker:{broker}", "Unknown", None, None) for broker in (1, 2, 3)]


def test_answers_do_not_blame_a_failure_for_the_present(store: Store) -> None:
    """`eligible` is below min.insync.replicas already."""
    found = rows(
        store, "SELECT broker_id, answer, newly_under_min_isr_partitions FROM insights.broker_failure_risk ORDER BY 1"
    )
    assert found == [
        (1, "No: 2 partitions would go offline", 0),
        (2, "Risky: unclean elections could lose messages in 1 partition", 0),
        (3, "No: 1 partition would go offline", 0),
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


def test_history_of_the_state(store: Store) -> None:
    """The state of brokers and replicas is a metric too; sums of the topics' health."""
    metrics = ("live_brokers", "under_min_isr_partitions", "under_replicated_partitions")
    sql = f"SELECT metric, value, change FROM insights.metric_history WHERE metric IN {metrics} ORDER BY metric, number"
    assert rows(store, sql) == [
        ("live_brokers", 3.0, None),
        ("live_brokers", 3.0, 0.0),
        ("under_min_isr_partitions", 0.0, None),
        ("under_min_isr_partitions", 1.0, 1.0),
        ("under_replicated_partitions", 0.0, None),
        ("under_replicated_partitions", 3.0, 3.0),
    ]


def test_versions_of_a_table(store: Store) -> None:
    """Delta keeps earlier versions of a table, and a query can compare them."""
    now = "SELECT snapshot_id FROM gold.current_loads"
    assert len(set(rows(store, now))) == 2
    assert len(set(rows(store, f"{now} VERSION AS OF 1"))) == 1


def test_comments_of_views(store: Store) -> None:
    for view in VIEWS:
        described = {row[0]: row[1] for row in store.spark.sql(f"DESCRIBE TABLE EXTENDED {view.name}").collect()}
        assert described["Comment"] == view.comment


def test_a_run_with_an_older_snapshot_says_that_views_do_not_show_it(store: Store) -> None:
    sql = "SELECT cluster_id, snapshot_id FROM insights.snapshots ORDER BY number"
    older, newest = (SnapshotKey(*row) for row in rows(store, sql))
    at = datetime(2026, 11, 21, tzinfo=UTC)
    retention = load_settings([], environ={}).retention
    (note,) = describe_older_snapshots(store, [older], at, retention)
    times = "as of 2026-11-21 00:00 UTC, is older than the newest one, as of 2026-11-22 00:00 UTC"
    assert note.startswith(f"note: prod: this snapshot, {times}, which the views show.")
    assert f"WHERE snapshot_id = '{older.snapshot_id}'" in note
    assert list(describe_older_snapshots(store, [newest], at, retention)) == []


def test_report_on_the_newest_snapshot(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    source = find_source(f"prod={Path(store.warehouse).parent / 'day-2.txt'}")
    sources = {SnapshotKey("prod", compute_snapshot_id(source, None)): source}
    assert len(write_report(store, file, sources=sources).clusters) == 1
    page = file.read_text()
    assert f"kafka-placement plan {source.argument} --goal" in page  # can be copied
    assert "SOURCE" not in page
    assert "--out plan-prod-" in page
    assert "plan-CLUSTER" not in page
    assert "prod" in page
    assert "Losing broker 1 or 3 takes partitions offline (worst case: broker 1, 2 partitions); " in page
    assert '"trend":[{' in page
    assert page.count("2026-11-2") >= 2
    with pytest.raises(StoreError, match="there is no cluster 'eu'"):
        write_report(store, file, ["eu"])
    with pytest.raises(StoreError, match="there is nothing to report"):
        write_report(Store(store.spark, str(tmp_path)), file)
