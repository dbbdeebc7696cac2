"""The tables and the commands without Spark must understand a source alike, whatever its format."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.ingest.detect import read_files
from pipelines.ingest.snapshot import load_snapshot
from pipelines.ingest.sources import Source, find_source
from pipelines.stages import silver_stage
from pipelines.stages.entities_stage import EntityParameters, entities
from pipelines.stages.raw_metadata_stage import FILES, raw_metadata

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
# Whole clusters as (file, text), with topics enough for every share to have some.
ODD = {
    "list-with-a-gap": {"brokers.csv": "id,port\n1,1\n2,2\nthree,3\n", "describe.txt": DESCRIBE},
    "complete-list": {"brokers.csv": "id,port\n1,1\n2,2\n", "describe.txt": DESCRIBE},
    "removed-not-listed": {"model.json": json.dumps(MODEL)},
    "state-without-assignment": {"dump.jsonl": STATES},
}


def mixed(folder: Path) -> list[Source]:
    """Sources of every format: each sample alone, and folders whose files complete or conflict each other."""
    for name, texts in ODD.items():
        (folder / name).mkdir()
        for file, text in texts.items():
            (folder / name / file).write_text(text)
    out = [find_source(str(ROOT / "kafka-4.1.1-kraft")), find_source(str(ROOT / "kafka-2.8.2-zookeeper"))]
    out += [Source(f"formats-{file.name}", (file,)) for file in sorted((ROOT / "formats").iterdir())]
    bad = ("describe-duplicates.txt", "describe-bad-lines.txt", "describe-incomplete.txt", "kraft-bad.txt")
    out += [Source(f"bad-{name}", (ROOT / "bad" / name,)) for name in bad]
    captures = sorted((ROOT / "captures" / "kafka-4.1.1-kraft").iterdir())
    out.append(Source("contradicting", tuple(captures)))
    out += [find_source(str(folder / name)) for name in ODD]
    return out


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Source]:
    return mixed(tmp_path_factory.mktemp("odd"))


@pytest.mark.parametrize("shares", [1, 3])
def test_silver_equals_the_local_snapshot(spark: SparkSession, sources: list[Source], shares: int) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    rows = [
        (source.cluster_id, "s", file.name, chosen.name, str(file), now)
        for source in sources
        for file, chosen, _ in read_files(source, None)
    ]
    raw = raw_metadata(spark.createDataFrame(rows, FILES)).localCheckpoint()
    merged = entities(raw, EntityParameters({source.cluster_id: shares for source in sources})).localCheckpoint()
    brokers = silver_stage.brokers(merged).localCheckpoint()
    found = {
        "brokers": by_cluster(brokers),
        "topics": by_cluster(silver_stage.topics(merged)),
        "partitions": by_cluster(silver_stage.partitions(merged, brokers)),
        "quarantined": by_cluster(silver_stage.quarantine(merged, raw)),
        "conflicts": by_cluster(silver_stage.conflicts(merged, brokers)),
        "accounts": by_cluster(silver_stage.source_summary(merged, raw)),
    }
    for source in sources:
        cluster = source.cluster_id
        local = load_snapshot(source)
        same(found["brokers"], cluster, local.brokers.to_pylist())
        same(found["topics"], cluster, local.topics.to_pylist())
        same(found["partitions"], cluster, local.partitions.to_pylist())
        same(found["quarantined"], cluster, local.quarantined)
        same(found["conflicts"], cluster, local.conflicts.to_pylist())
        for account in found["accounts"].get(cluster, []):
            assert account["kept"] + account["quarantined"] + account["ignored"] == account["records"]
            assert local.records[account["source"]] == account["records"]


def same(found: dict[str, list[dict]], cluster: str, local: list[dict]) -> None:
    """Fail with the first row and column that differ, if any does."""
    for left, right in zip(found.get(cluster, []), ordered(local), strict=True):
        assert left.keys() == right.keys()
        for name in left:
            assert left[name] == right[name], (cluster, name, left, right)


def by_cluster(frame) -> dict[str, list[dict]]:
    out: dict[str, list[dict]] = {}
    for row in frame.collect():
        values = row.asDict(recursive=True)
        out.setdefault(values.pop("cluster_id"), []).append(
            {k: v for k, v in values.items() if k not in ("snapshot_id", "record_number")}
        )
    return {cluster: ordered(rows) for cluster, rows in out.items()}


def ordered(rows: list[dict]) -> list[dict]:
    plain = [
        {k: dict(sorted(dict(v).items())) if k == "configs" and v is not None else v for k, v in row.items()}
        for row in rows
    ]
    return sorted(plain, key=lambda row: repr(sorted((k, repr(v)) for k, v in row.items())))
