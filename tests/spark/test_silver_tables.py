"""The silver tables and the commands without Spark read a source of any format alike."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipelines.cli.inspect_command import count_records
from pipelines.ingest.silver_rows import TABLES, make_silver_rows
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import Source, find_source, get_name
from pipelines.stages import silver_stages
from pipelines.stages.finding_stage import cluster_findings
from pipelines.stages.ingest_stages import FILES, entities, raw_metadata
from pipelines.verdict.snapshot_findings import find_findings, make_row
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, TopicDefaults

IGNORING = TopicDefaults(ignored=("o*", "money"))
SHARDS = (1, 3)
ROOT = Path(__file__).parents[2] / "data_samples"


DESCRIBE = "\n".join(
    f"\tTopic: {topic}\tPartition: {p}\tLeader: 1\tReplicas: 1,{p + 2}\tIsr: 1,{p + 2}"
    for topic in "abcdef"
    for p in range(3)
)
MODEL = {
    "brokers": [{"id": 1}, {"id": 2}],
    "removed": [9],
    "partitions": [
        {"topic": topic, "partition": 0, "replicas": [9, 1], "size_mb": 1, "in_kbps": 1, "out_kbps": 1}
        for topic in "abcdef"
    ],
}
STATES = "\n".join(
    json.dumps({"path": f"/brokers/topics/{topic}/partitions/0/state", "data": {"leader": leader, "isr": isr}})
    for topic, leader, isr in (("a", 1, [1, 2]), ("b", -1, [9]), ("c", 2, [2]), ("d", -1, []))
)
# It is unknown whether brokers 7, 8 and 9 are live: no header, no known ISR, and only being added.
UNKNOWN = "".join(
    f"Topic: {topic}\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: \n"
    f"\tTopic: {topic}\tPartition: 0\tLeader: 1\tReplicas: 1,2,9\tIsr: 1\tAdding Replicas: 9\tRemoving Replicas: \n"
    for topic in "abcde"
)
# Observers, additions, topics that are being deleted, a topic and a broker with two identities, one topic half shown.
FINDINGS = (
    "Topic: a\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 3\tReplicationFactor: 3\tConfigs: \n"
    "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2\n"
    "\tTopic: a\tPartition: 1\tLeader: 2\tReplicas: 2,1,4\tIsr: 2,1\tAdding Replicas: 4\tRemoving Replicas: \n"
    "Topic: gone\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: \tMarkedForDeletion: true\n"
    "\tTopic: gone\tPartition: 0\tLeader: none\tReplicas: 3\tIsr: \n"
    "\tTopic: gone\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    "\tTopic: b\tPartition: 0\tLeader: 1\tReplicas: 1,2,5\tIsr: 1,2\tOffline: \tObservers: 5\n"
    "Topic: a\tTopicId: BAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 3\tReplicationFactor: 3\tConfigs: \n"
    "Error while executing topic command : org.apache.kafka.common.errors.TimeoutException: timed out\n"
)
# Broker 2 has lost what is not in /d2, and lags with topic c, of which no log is shown; /d1 of broker 1 is full.
_LOGS = [
    {"partition": f"{topic}-{p}", "size": 5, "offsetLag": 0, "isFuture": False} for topic in "abdef" for p in (0, 1)
]
LOG_DIRS = {
    "version": 1,
    "brokers": [
        {"broker": 1, "logDirs": [{"logDir": "/d1", "totalBytes": 900, "usableBytes": 9, "partitions": _LOGS}]},
        {
            "broker": 2,
            "logDirs": [
                {"logDir": "/d2", "error": None, "partitions": [one for one in _LOGS if one["partition"][-1] == "1"]},
                {"logDir": "/d3", "error": "org.apache.kafka.common.errors.KafkaStorageException", "partitions": []},
            ],
        },
    ],
}
FAILED_DISK = "".join(
    f"Topic: {topic}\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: \n"
    f"\tTopic: {topic}\tPartition: 0\tLeader: 1\tReplicas: 2,1\tIsr: 1\n"
    f"\tTopic: {topic}\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2,1\n"
    for topic in "abcdef"
)
# Whole clusters as {file: text}, with enough topics for every shard to have some.
ODD_CLUSTERS = {
    "list-with-a-gap": {"brokers.csv": "id,port\n1,1\n2,2\nthree,3\n", "describe.txt": DESCRIBE},
    "complete-list": {"brokers.csv": "id,port\n1,1\n2,2\n", "describe.txt": DESCRIBE},
    "findings": {
        "notes.txt": "Dear all\n",
        "acls.txt": "Current ACLs for resource `Topic:LITERAL:t`:\n",
        "describe.txt": FINDINGS,
        "brokers.csv": "id,host\n1,k1\n2,k2\n2,k3\n",
    },
    "failed-disk": {"describe.txt": FAILED_DISK, "log-dirs.json": json.dumps(LOG_DIRS)},
    "removed-not-listed": {"model.json": json.dumps(MODEL)},
    "state-without-assignment": {"dump.jsonl": STATES},
    "unknown-state": {
        "describe.txt": UNKNOWN + "\tTopic: h\tPartition: 0\tLeader: 1\tReplicas: 1,7\tIsr: 1\n",
        "plan.json": json.dumps({"version": 1, "partitions": [{"topic": "g", "partition": 0, "replicas": [9, 8]}]}),
    },
    "several-formats-in-one-file": {
        "paste.txt": f"Before:\n{STATES}\n\nand now:\n```\n{DESCRIBE}\n```\nbroker_id,rack\n1,r1\n2,r2\n{STATES}\n"
        '{"unknown": 1}\n'
    },
}


def write_sources(folder: Path) -> list[Source]:
    """Sources of every format: each sample alone, and folders whose files complete or conflict each other."""
    for name, texts in ODD_CLUSTERS.items():
        (folder / name).mkdir()
        for file, text in texts.items():
            (folder / name / file).write_text(text)
    out = [find_source(str(ROOT / "kafka-4.1.1-kraft")), find_source(str(ROOT / "kafka-2.8.2-zookeeper"))]
    out += [Source(f"formats-{file.name}", (file,)) for file in sorted((ROOT / "formats").iterdir())]
    bad = ("describe-duplicates.txt", "describe-bad-lines.txt", "describe-incomplete.txt", "kraft-bad.txt")
    out += [Source(f"bad-{name}", (ROOT / "bad" / name,)) for name in bad]
    captures = sorted((ROOT / "captures" / "kafka-4.1.1-kraft").iterdir())
    out.append(Source("conflicting", tuple(captures)))
    out += [find_source(str(folder / name)) for name in ODD_CLUSTERS]
    return out


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Source]:
    return write_sources(tmp_path_factory.mktemp("odd"))


def test_silver_equals_the_local_snapshot(spark: SparkSession, sources: list[Source]) -> None:
    """Each source is there twice: as a cluster in one shard, and as one in three."""
    now = datetime(2026, 1, 2, tzinfo=UTC)
    clusters = {(source.cluster_id, count): f"{source.cluster_id} in {count}" for source in sources for count in SHARDS}
    rows = [
        (clusters[source.cluster_id, count], "s", get_name(file), None, os.fsencode(file), now, 0, 1)
        for source in sources
        for count in SHARDS
        for file in source.files
    ]
    raw = raw_metadata(spark.createDataFrame(rows, FILES)).localCheckpoint()
    merged = entities(raw, {name: count for (_, count), name in clusters.items()}).localCheckpoint()
    brokers = silver_stages.brokers(merged).localCheckpoint()
    tables = {
        "brokers": brokers,
        "topics": silver_stages.topics(merged, IGNORING),
        "partitions": silver_stages.partitions(merged, brokers, KAFKA_DEFAULTS),
        "log_dirs": silver_stages.log_dirs(merged, brokers),
        "quarantine": silver_stages.quarantine(merged, raw),
        "warnings": silver_stages.warnings(merged),
        "conflicts": silver_stages.conflicts(merged, brokers),
        "source_summary": silver_stages.source_summary(merged, raw),
    }
    found = {name: by_cluster(frame) for name, frame in tables.items() if name != "source_summary"}
    found |= {"summary": by_cluster(tables["source_summary"], by="source")}
    findings = by_cluster(cluster_findings(merged, tables["source_summary"], IGNORING))
    for source in sources:
        local = load_snapshot(source)
        for count in SHARDS:
            cluster = clusters[source.cluster_id, count]
            check_cluster(found, cluster, local)
            expected = json.loads(json.dumps(make_row(find_findings(local, IGNORING))))
            assert findings[cluster] == [expected], cluster


def check_cluster(found: dict[str, dict[str, list[dict]]], cluster: str, local: Snapshot) -> None:
    """Check that the rows of a cluster are those of a snapshot."""
    for name in TABLES:
        defaults = IGNORING if name == "topics" else KAFKA_DEFAULTS
        assert_same(found[name], cluster, make_silver_rows(local, name, defaults).to_pylist())
    assert_same(found["quarantine"], cluster, local.quarantined)
    assert_same(found["warnings"], cluster, local.warnings.drop_columns(["record_number"]).to_pylist())
    counted = sorted(count_records(local), key=lambda counts: counts["source"])
    for summary, counts in zip(found["summary"].get(cluster, []), counted, strict=True):
        assert summary == {
            "source": counts["source"],
            "format": counts["format"],
            "records": counts["records"],
            "accepted_records": counts["accepted"],
            "quarantined_records": counts["quarantined"],
            "ignored_records": counts["ignored"],
            "ignored_reasons": counts["ignored_reasons"],
        }
        assert counts["accepted"] + counts["quarantined"] + counts["ignored"] == counts["records"]


def assert_same(found: dict[str, list[dict]], cluster: str, local: list[dict]) -> None:
    """Assert that rows are equal; a failure shows the first row and column that differ."""
    for left, right in zip(found.get(cluster, []), sort_rows(local), strict=True):
        assert left.keys() == right.keys()
        for name in left:
            assert left[name] == right[name], (cluster, name, left, right)


def by_cluster(frame: DataFrame, by: str | None = None) -> dict[str, list[dict]]:
    out: dict[str, list[dict]] = {}
    for row in frame.collect():
        values = row.asDict(recursive=True)
        out.setdefault(values.pop("cluster_id"), []).append(
            {k: v for k, v in values.items() if k not in ("snapshot_id", "record_number")}
        )
    if by is not None:
        return {cluster: sorted(rows, key=lambda row: row[by]) for cluster, rows in out.items()}
    return {cluster: sort_rows(rows) for cluster, rows in out.items()}


def sort_rows(rows: list[dict]) -> list[dict]:
    plain = [
        {k: dict(sorted(dict(v).items())) if k == "configs" and v is not None else v for k, v in row.items()}
        for row in rows
    ]
    return sorted(plain, key=lambda row: repr(sorted((k, repr(v)) for k, v in row.items())))
