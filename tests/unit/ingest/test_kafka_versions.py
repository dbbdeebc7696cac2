"""Sources that show that brokers run Kafka 3.7 or later decide whether min.insync.replicas is capped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.cli.what_if_answers import evaluate_brokers
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from udfs.failures.topic_defaults import TopicDefaults

# One replica, min.insync.replicas=2: Kafka 3.6 accepts nothing with acks=all, Kafka 3.7 does.
DESCRIBE = (
    "Topic: a\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: min.insync.replicas=2\n"
    "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
)
UNDER_MIN_ISR = (
    "1 partition is below min.insync.replicas now and blocks acks=all producers: a (1), with replication factor 1."
)


def write_api_versions(*versions: int) -> str:
    return "".join(
        f"b{broker}:9092 (id: {broker} rack: null) -> (\n\tProduce(0): 0 to {version} [usable: {version}],\n"
        f"\tFetch(1): 0 to 15 [usable: 15]\n)\n"
        for broker, version in enumerate(versions, 1)
    )


def write_log(highest: int) -> str:
    feature = {"name": "metadata.version", "minSupportedVersion": 1, "maxSupportedVersion": highest}
    other = {"name": "kraft.version", "minSupportedVersion": 0, "maxSupportedVersion": 1}
    data = {"brokerId": 1, "features": [other, feature], "rack": None, "fenced": False}
    return json.dumps({"type": "REGISTER_BROKER_RECORD", "version": 1, "data": data}, separators=(",", ":")) + "\n"


def write_shell(highest: int) -> str:
    return (
        ">> tree /image/cluster/1\n"
        "BrokerRegistration(id=1, epoch=77, incarnationId=AAAAAAAAAAAAAAAAAAAAAA, listeners=[], "
        f"supportedFeatures={{metadata.version: 1-{highest}}}, rack=Optional.empty, fenced=false, "
        "inControlledShutdown=false, isMigratingZkBroker=false, directories=[])\n"
    )


def load(folder: Path, *texts: str) -> Snapshot:
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text)
    return load_snapshot(find_source(str(folder)))


@pytest.mark.parametrize(
    ("text", "caps"),
    [
        (write_api_versions(9), False),
        (write_api_versions(10), True),
        (write_api_versions(12, 9), False),  # an upgrade is under way
        (write_log(14), False),
        (write_log(15), True),
        (write_shell(14), False),
        (write_shell(20), True),
    ],
)
def test_the_version_of_a_source_decides(tmp_path: Path, text: str, caps: bool) -> None:
    snapshot = load(tmp_path, DESCRIBE, text)
    assert not snapshot.quarantined
    assert not snapshot.conflicts.num_rows
    for setting in (False, True):
        verdict = evaluate_brokers(snapshot, TopicDefaults(cap_min_insync_replicas=setting)).verdict
        assert (UNDER_MIN_ISR in [point.text for point in verdict.points]) is not caps


@pytest.mark.parametrize("text", [write_shell(9).replace("metadata.version: 1-9", ""), "  Produce(0): 0 to 9,\n"])
def test_without_a_version_the_setting_decides(tmp_path: Path, text: str) -> None:
    snapshot = load(tmp_path, DESCRIBE, text)
    for setting in (False, True):
        verdict = evaluate_brokers(snapshot, TopicDefaults(cap_min_insync_replicas=setting)).verdict
        assert (UNDER_MIN_ISR in [point.text for point in verdict.points]) is not setting
