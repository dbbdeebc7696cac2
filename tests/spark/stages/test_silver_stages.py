"""internal.entities and the silver tables, from the records of five small files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.ingest.merge.entities import BOTH_QUARANTINED, ENTITY_SCHEMAS, FIRST_USED, TOPIC_LOADS, WARNINGS
from tests.spark.stages.frames import (
    KEYS,
    SAME_ROWS,
    Frames,
    Rows,
    expected_frame,
    input_frame,
    run_stage,
    select_columns,
)
from udfs.arrow.ipc import pack_table, unpack_tables

TOPIC_ID = "9bQ0lnZbTuWkQ2DrCBJyzw"
CONFIGS = "min.insync.replicas=2,unclean.leader.election.enable=true"
BAD_LEADER = "\tTopic: orders\tPartition: 3\tLeader: 7\tReplicas: 1,2\tIsr: 1"
LEADER_1, LEADER_2 = (f"\tTopic: clicks\tPartition: 0\tLeader: {i}\tReplicas: 1,2\tIsr: 1,2" for i in (1, 2))
DESCRIBE = [
    f"Topic: orders\tTopicId: {TOPIC_ID}\tPartitionCount: 4\tReplicationFactor: 2\tConfigs: {CONFIGS}",
    "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2",
    "\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,4\tIsr: 2",  # broker 4 is in no ISR
    "\tTopic: orders\tPartition: 2\tLeader: 3\tReplicas: 3,2\tIsr: 3",
    BAD_LEADER,
    "\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,4\tIsr: 2",  # as line 3
    "",
    "\tTopic: solo\tPartition: 0\tLeader: 3\tReplicas: 3,1\tIsr: 3\tAdding Replicas: 1\tRemoving Replicas: "
    "\tElr: 1\tLastKnownElr: 1",
    LEADER_1,
]
AFTER = [LEADER_2]  # another describe of clicks-0
WITHOUT_LINE = (
    "its line with PartitionCount is not shown, as with --under-replicated-partitions, grep or Kafka 0.8.0: others may "
    "be missing"
)
REASONS = [
    "partition clicks-0: leader 2 in after.txt line 1, but 1 in describe.txt line 9",
    "two listings or assignments of the same topics: keep one of them",
]
HEADER = '{"delimiter": ",", "columns": ["broker_id", "rack", "host", "port", "state"]}'
BROKERS_CSV = ["1,a,h1,9092,", "2,b,h2,9093,", "3,b,,,", "4,,,,down", "1,c,h1,9092,"]  # after the header in line 1
QUORUM = ["LeaderId: 7", "CurrentVoters: [1,4,7]"]
REASSIGNMENT = '{"topic": "new", "partition": 0, "replicas": [4, 1]}'  # no source shows its leader
LOGS = {
    1: ['{"partition":"orders-0","size":100,"offsetLag":0,"isFuture":false}'],
    2: [
        '{"partition":"orders-0","size":90,"offsetLag":5,"isFuture":false}',
        '{"partition":"gone-0","size":7,"offsetLag":-1,"isFuture":true}',
    ],
}


def list_records() -> Rows:
    """List (source, format, record_number, line_number, context, raw)."""
    rows: list[tuple[Any, ...]] = [
        ("describe.txt", "describe", i, i + 1, None, line) for i, line in enumerate(DESCRIBE)
    ]
    rows += [("after.txt", "describe", i, i + 1, None, line) for i, line in enumerate(AFTER)]
    rows += [("brokers.csv", "broker-list", i, i + 2, HEADER, line) for i, line in enumerate(BROKERS_CSV)]
    rows += [("quorum.txt", "metadata-quorum", i, i + 1, None, line) for i, line in enumerate(QUORUM)]
    rows += [("plan.json", "reassignment", 0, 1, "current", REASSIGNMENT)]
    for broker, replicas in LOGS.items():
        place = f'{{"broker": {broker}, "logDir": "/d", "error": null}}'
        volume = '"totalBytes": 1000, "usableBytes": 400' if broker == 1 else '"error": null'
        dirs = f'[{{"logDir": "/d", {volume}}}, {{"logDir": "/e", "error": "KAFKA_STORAGE_ERROR"}}]'
        described = ("broker", f'{{"broker": {broker}, "logDirs": {dirs}}}')
        records = [described, *((place, replica) for replica in replicas)]
        rows += [("log-dirs.json", "log-dirs", 10 * broker + i, 1, *record) for i, record in enumerate(records)]
    return rows


@pytest.fixture(scope="module")
def silver(spark_application: SparkSession) -> Frames:
    """Every table, by name."""
    columns = "source format record_number line_number context raw"
    raw = input_frame(spark_application, "bronze.raw_metadata", columns, list_records())
    frames = {"bronze.raw_metadata": raw}
    for table in ("internal.entities", "silver.brokers", "silver.topics", "silver.partitions", "silver.replicas"):
        frames[table] = run_stage(table, frames).localCheckpoint()
    return frames


def unpack(spark: SparkSession, frames: Frames, entity: str) -> DataFrame:
    """The rows of an entity, with the key of their snapshot."""
    (shard,) = frames["internal.entities"].select(entity).collect()
    rows = unpack_tables([shard[entity]] if shard[entity] else [], ENTITY_SCHEMAS[entity])
    return spark.createDataFrame(rows).select(*(F.lit(value).alias(name) for name, value in KEYS.items()), "*")


@pytest.mark.stage("internal.entities")
def test_entities_of_each_kind(spark: SparkSession, silver: Frames) -> None:
    """The silver tables below show what is in them."""
    expected = {
        "partitions": 5,  # new-0, orders-0, orders-1, orders-2, solo-0
        "topics": 4,  # gone, new, orders, solo
        "registrations": 4,
        "stray_logs": 1,  # gone-0
        "quarantine": 3,  # both of clicks-0, and orders-3
        "conflicts": 2,  # leader of clicks-0, rack of broker 1
        # Of after.txt: quarantined. Of describe.txt: accepted, quarantined, ignored for two reasons. Others: accepted.
        "outcomes": 1 + 4 + 4,
        "usage": 4,  # of each broker
        "warnings": 0,
        "topic_loads": 0,
        "log_dirs": 4,  # two on each of two brokers
        "quorum": 3,
    }
    assert expected.keys() == ENTITY_SCHEMAS.keys()
    actual = {entity: unpack(spark, silver, entity).count() for entity in expected}
    schema = "entity string, rows bigint"
    assert_df_equality(
        spark.createDataFrame([*actual.items()], schema), spark.createDataFrame([*expected.items()], schema)
    )


@pytest.mark.stage("internal.entities")
def test_what_brokers_do_in_the_partitions(spark: SparkSession, silver: Frames) -> None:
    """Partitions that are quarantined do not count."""
    columns = "broker_id replicas leaders in_sync adding_replicas unknown_replicas filtered_replicas"
    expected = [
        (1, 3, 1, 1, 1, 1, 0),  # orders-0, solo-0 (adding), and new-0, of which no source shows a leader
        (2, 3, 1, 2, 0, 0, 0),  # orders-0, orders-1, orders-2
        (3, 2, 2, 2, 0, 0, 1),  # orders-2, solo-0 without a line of its topic
        (4, 2, 0, 0, 0, 1, 0),  # orders-1, new-0
    ]
    schema = "cluster_id string, snapshot_id string, broker_id int, " + ", ".join(
        f"{name} bigint" for name in columns.split()[1:]
    )
    assert_df_equality(
        select_columns(unpack(spark, silver, "usage"), columns),
        spark.createDataFrame([(*KEYS.values(), *row) for row in expected], schema),
        **SAME_ROWS,
    )


# Broker 4 is in no ISR, which shows only that it lags or is down: its state decides.
@pytest.mark.stage("silver.brokers")
def test_brokers(spark: SparkSession, silver: Frames) -> None:
    columns = (
        "broker_id rack host port live live_reason registered fenced cordoned controller draining replicas leaders"
    )
    expected = [
        # Brokers of new-0, orders-0, solo-0; of orders-0, orders-1, orders-2; of orders-2, solo-0; of new-0, orders-1.
        (1, "a", "h1", 9092, True, "leads 1 partition", None, None, None, False, False, 3, 1),
        (2, "b", "h2", 9093, True, "leads 1 partition", None, None, None, False, False, 3, 1),
        (3, "b", None, None, True, "leads 2 partitions", None, None, None, False, False, 2, 2),
        (4, None, None, None, False, 'listed as "down"', None, None, None, False, False, 2, 0),
    ]
    assert_df_equality(
        select_columns(silver["silver.brokers"], columns),
        expected_frame(spark, "silver.brokers", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("silver.topics")
def test_topics(spark: SparkSession, silver: Frames) -> None:
    """Of orders, partition 3 is quarantined. No log of gone makes it a topic."""
    columns = (
        "topic topic_id partitions listed_partitions replication_factor min_insync_replicas unclean_leader_election "
        "marked_for_deletion incomplete warnings partition_loads"
    )
    sizes = {0: 100, 1: None, 2: None}
    loads = [
        {"partition": partition, "size_bytes": size, "bytes_in_per_s": None, "bytes_out_per_s": None}
        for partition, size in sizes.items()
    ]
    warning = "1 of 4 partitions is not shown: 3"
    expected = [
        ("gone", None, 1, 0, None, None, None, False, True, ["no partition is shown"], None),  # only in log-dirs
        ("new", None, 1, 1, 2, None, None, False, False, [], None),
        ("orders", TOPIC_ID, 4, 3, 2, 2, True, False, True, [warning], loads),
        ("solo", None, 1, 1, 2, None, None, False, True, [WITHOUT_LINE], None),
    ]
    actual = silver["silver.topics"]
    assert_df_equality(
        select_columns(actual, columns), expected_frame(spark, "silver.topics", columns, expected), **SAME_ROWS
    )
    configs = [({"min.insync.replicas": "2", "unclean.leader.election.enable": "true"},)]
    assert_df_equality(
        select_columns(actual.where("topic = 'orders'"), "configs"),
        expected_frame(spark, "silver.topics", "configs", configs),
        ignore_nullable=True,
    )


@pytest.mark.stage("silver.partitions")
def test_a_broker_of_unknown_state_counts_as_live(spark: SparkSession, silver: Frames) -> None:
    """Broker 4 is in the inferred ISR of new-0, and leads it; no other state changes."""
    unknown = F.when(F.col("broker_id") != 4, F.col("live"))
    brokers = silver["silver.brokers"].withColumn("live", unknown)
    actual = run_stage("silver.partitions", {**silver, "silver.brokers": brokers})
    columns = "topic partition leader isr successor"
    expected = [
        ("new", 0, 4, [4, 1], 1),
        ("orders", 0, 1, [1, 2], 2),
        ("orders", 1, 2, [2], 4),  # uncleanly
        ("orders", 2, 3, [3], 2),
        ("solo", 0, 3, [3], 1),
    ]
    assert_df_equality(
        select_columns(actual, columns), expected_frame(spark, "silver.partitions", columns, expected), **SAME_ROWS
    )


# Successors: of orders-0 from the ISR; of orders-1 none, as broker 4 is down; of orders-2 uncleanly, as the topic
# allows; of solo-0 from the ELR. For new-0, no source shows leader and ISR: its live replica is both.
@pytest.mark.stage("silver.partitions")
def test_partitions(spark: SparkSession, silver: Frames) -> None:
    state = "topic partition leader leader_epoch replicas isr state_inferred successor source line_number"
    expected = [
        ("new", 0, 1, None, [4, 1], [1], True, -1, "plan.json", 1),
        ("orders", 0, 1, None, [1, 2], [1, 2], False, 2, "describe.txt", 2),
        ("orders", 1, 2, None, [2, 4], [2], False, -1, "describe.txt", 3),
        ("orders", 2, 3, None, [3, 2], [3], False, 2, "describe.txt", 4),
        ("solo", 0, 3, None, [3, 1], [3], False, 1, "describe.txt", 8),
    ]
    actual = silver["silver.partitions"]
    assert_df_equality(
        select_columns(actual, state), expected_frame(spark, "silver.partitions", state, expected), **SAME_ROWS
    )
    others = (
        "topic partition elr last_known_elr adding_replicas removing_replicas observers offline_replicas size_bytes "
        "bytes_in_per_s bytes_out_per_s logs"
    )
    unknown = {"log_end_offset": None, "high_watermark": None, "log_dir": "/d"}
    logs = [{"size_bytes": 100, "offset_lag": 0, **unknown}, {"size_bytes": 90, "offset_lag": 5, **unknown}]
    no_lists = (None, None, None, None, None, None)
    expected_others: Rows = [
        ("new", 0, *no_lists, None, None, None, None),
        ("orders", 0, *no_lists, 100, None, None, logs),  # as large as the leader's log
        ("orders", 1, *no_lists, None, None, None, None),
        ("orders", 2, *no_lists, None, None, None, None),
        ("solo", 0, [1], [1], [1], [], None, None, None, None, None, None),
    ]
    assert_df_equality(
        select_columns(actual, others), expected_frame(spark, "silver.partitions", others, expected_others), **SAME_ROWS
    )


@pytest.mark.stage("silver.replicas")
def test_replicas(spark: SparkSession, silver: Frames) -> None:
    columns = (
        "topic partition broker_id is_future position in_sync size_bytes offset_lag log_end_offset high_watermark "
        "log_dir"
    )
    no_log = (None, None, None, None, None)
    expected = [
        ("new", 0, 4, False, 0, False, *no_log),
        ("new", 0, 1, False, 1, True, *no_log),
        ("orders", 0, 1, False, 0, True, 100, 0, None, None, "/d"),
        ("orders", 0, 2, False, 1, True, 90, 5, None, None, "/d"),
        ("orders", 1, 2, False, 0, True, *no_log),
        ("orders", 1, 4, False, 1, False, *no_log),
        ("orders", 2, 3, False, 0, True, *no_log),
        ("orders", 2, 2, False, 1, False, *no_log),
        ("solo", 0, 3, False, 0, True, *no_log),
        ("solo", 0, 1, False, 1, False, *no_log),
        ("gone", 0, 2, True, None, None, 7, None, None, None, "/d"),  # assigned to none; kafka-log-dirs: lag unknown
    ]
    assert_df_equality(
        select_columns(run_stage("silver.replicas", silver), columns),
        expected_frame(spark, "silver.replicas", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("silver.log_dirs")
def test_log_dirs(spark: SparkSession, silver: Frames) -> None:
    """The log of gone-0, which no assignment accounts for, uses bytes. An offline log dir shows nothing."""
    columns = "broker_id log_dir total_bytes usable_bytes log_dir_error used_bytes replicas"
    offline = (None, None, "KAFKA_STORAGE_ERROR", None, 0)
    expected = [
        (1, "/d", 1000, 400, None, 100, 1),
        (1, "/e", *offline),
        (2, "/d", None, None, None, 97, 1),
        (2, "/e", *offline),
    ]
    assert_df_equality(
        select_columns(run_stage("silver.log_dirs", silver), columns),
        expected_frame(spark, "silver.log_dirs", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("gold.quorum")
def test_quorum(spark: SparkSession, silver: Frames) -> None:
    """Broker 4 is down, so that no other voter may fail."""
    columns = "node_id voter leader broker rack can_fail"
    expected = [
        (1, True, False, True, "a", False),
        (4, True, False, True, None, True),
        (7, True, True, False, None, False),
    ]
    assert_df_equality(
        select_columns(run_stage("gold.quorum", silver), columns),
        expected_frame(spark, "gold.quorum", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("silver.quarantine")
def test_quarantine(spark: SparkSession, silver: Frames) -> None:
    columns = "source record_number line_number raw reasons"
    expected = [
        ("describe.txt", 4, 5, BAD_LEADER, ["partition orders-3: leader 7 is not among its replicas"]),
        ("describe.txt", 8, 9, LEADER_1, REASONS),
        ("after.txt", 0, 1, LEADER_2, REASONS),
    ]
    assert_df_equality(
        select_columns(run_stage("silver.quarantine", silver), columns),
        expected_frame(spark, "silver.quarantine", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("silver.warnings")
def test_warnings(spark: SparkSession, silver: Frames) -> None:
    warning = "the command failed: the listing may be cut"
    row = {"source": "describe.txt", "record_number": 9, "line_number": 10, "warning": warning}
    packed = pack_table(pa.Table.from_pylist([row], WARNINGS))
    found = input_frame(spark, "internal.entities", "shard warnings", [(1, packed)])
    frames = {**silver, "internal.entities": silver["internal.entities"].unionByName(found)}
    columns = "source record_number line_number warning"
    assert_df_equality(
        select_columns(run_stage("silver.warnings", frames), columns),
        expected_frame(spark, "silver.warnings", columns, [("describe.txt", 9, 10, warning)]),
        **SAME_ROWS,
    )


@pytest.mark.stage("silver.measured_loads")
def test_topic_loads(spark: SparkSession, silver: Frames) -> None:
    rates = {"bytes_in_per_s": 4.0, "bytes_in_mean_per_s": 3.0, "bytes_in_p95_per_s": 4.0, "bytes_in_peak_per_s": 5.0}
    rows = [{"topic": "orders", "broker_id": 1, **rates}, {"topic": None, "broker_id": 1, "bytes_out_per_s": 9.0}]
    packed = pack_table(pa.Table.from_pylist(rows, TOPIC_LOADS))
    shards = input_frame(spark, "internal.entities", "shard topic_loads", [(1, packed)])
    frames = {**silver, "internal.entities": silver["internal.entities"].unionByName(shards)}
    columns = "topic broker_id bytes_in_per_s bytes_in_mean_per_s bytes_in_peak_per_s bytes_out_per_s"
    expected = [("orders", 1, 4.0, 3.0, 5.0, None), (None, 1, None, None, None, 9.0)]
    assert_df_equality(
        select_columns(run_stage("silver.measured_loads", frames), columns),
        expected_frame(spark, "silver.measured_loads", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("silver.conflicts")
def test_conflicts(spark: SparkSession, silver: Frames) -> None:
    """The file whose name comes first is the first source. Broker 9, which is down and leads, is added by hand."""
    down = ("broker_id live live_reason leaders", [(9, False, "fenced", 1)])
    brokers = silver["silver.brokers"].unionByName(input_frame(spark, "silver.brokers", *down))
    actual = run_stage("silver.conflicts", {**silver, "silver.brokers": brokers})
    columns = "entity field source line_number value other_source other_line_number other_value outcome"
    expected = [
        ("partition clicks-0", "leader", "after.txt", 1, "2", "describe.txt", 9, "1", BOTH_QUARANTINED),
        ("broker 1", "rack", "brokers.csv", 2, "a", "brokers.csv", 6, "c", FIRST_USED),
        ("broker 9", "live", None, None, "down: fenced", None, None, "leads 1 partition", FIRST_USED),
    ]
    assert_df_equality(
        select_columns(actual, columns), expected_frame(spark, "silver.conflicts", columns, expected), **SAME_ROWS
    )


@pytest.mark.stage("silver.source_summary")
def test_source_summary(spark: SparkSession, silver: Frames) -> None:
    """Of describe.txt: line 6 repeats line 3, line 7 is blank, lines 5 and 9 are quarantined."""
    columns = "source format records accepted_records quarantined_records ignored_records"
    expected = [
        ("after.txt", "describe", 1, 0, 1, 0),
        ("brokers.csv", "broker-list", 5, 5, 0, 0),
        ("describe.txt", "describe", 9, 5, 2, 2),
        ("log-dirs.json", "log-dirs", 5, 5, 0, 0),
        ("plan.json", "reassignment", 1, 1, 0, 0),
        ("quorum.txt", "metadata-quorum", 2, 2, 0, 0),
    ]
    actual = run_stage("silver.source_summary", silver)
    assert_df_equality(
        select_columns(actual, columns), expected_frame(spark, "silver.source_summary", columns, expected), **SAME_ROWS
    )
    reasons = [({"blank line": 1, "duplicate of an equal record": 1},)]
    assert_df_equality(
        select_columns(actual.where("source = 'describe.txt'"), "ignored_reasons"),
        expected_frame(spark, "silver.source_summary", "ignored_reasons", reasons),
        ignore_nullable=True,
    )


@pytest.mark.stage("gold.cluster_findings")
def test_findings(spark: SparkSession, silver: Frames) -> None:
    """Broker 4 is down. Of the config min.insync.replicas=2 of orders, orders-1 and orders-2 fall short."""
    summary = {"silver.source_summary": run_stage("silver.source_summary", silver)}
    issues = F.expr("transform(issues, i -> concat_ws(' ', i.issue, i.partitions, i.topic_names))")
    actual = run_stage("gold.cluster_findings", silver | summary).withColumn("unused_files", issues)
    counts = "partitions live_brokers racks lagging_partitions quarantined_records missing_partitions"
    columns = f"{counts} replication_factor down_brokers failed_log_dirs incomplete_topic_names unused_files"
    expected_issues = [
        "under_min_isr 2 orders",
        "under_replicated 3 orders new",  # orders-1, orders-2, new-0
        "offline_if_rack_fails 1 orders",  # orders-2
        "offline_if_broker_fails 2 new orders",  # new-0 without broker 1, orders-1 without broker 2
        "under_min_isr_if_broker_fails 1 orders",  # orders-0
    ]
    log_dirs, incomplete = ["/e of broker 1", "/e of broker 2"], ["gone", "orders", "solo"]
    # Broker 2 lags with orders-2. Nothing shows orders-3, nor gone-0 beside its log.
    expected = [(5, 3, 2, 1, 3, 2, 2.0, [4], log_dirs, incomplete, expected_issues)]
    assert_df_equality(
        select_columns(actual, columns), expected_frame(spark, "gold.cluster_findings", columns, expected), **SAME_ROWS
    )
