"""Sources that show that brokers run Kafka 3.7 or later decide whether min.insync.replicas is capped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.ingest.formats.kafka_versions import read_level
from pipelines.ingest.merge.live_brokers import get_releases
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.plan_files.plan_creation import build_snapshot_model
from pipelines.verdict.verdict_points import VerdictPoint
from pipelines.what_if.what_if_answers import evaluate_brokers
from udfs.failures.topic_defaults import ReleaseRange, TopicDefaults, parse_release

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


def write_configs(protocol: str) -> str:
    return f"All configs for broker 1 are:\n  inter.broker.protocol.version={protocol} sensitive=false synonyms={{}}\n"


def write_listing(topic: str, elr: str = "") -> str:
    return f"{topic}\n\tTopic: z\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1{elr}\n"


def write_features(supported: str, finalized: str) -> str:
    versions = f"SupportedMaxVersion: {supported}\tFinalizedVersionLevel: {finalized}"
    return f"Feature: metadata.version\tSupportedMinVersion: 1\t{versions}\tEpoch: 5\n"


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
        # What tools show of the cluster as a whole.
        (write_configs("2.8-IV1"), False),
        (write_configs("3.9-IV0"), True),
        (write_features("3.6-IV2", "3.5-IV2"), False),
        (write_features("4.0-IV3", "3.7-IV4"), True),
        (write_features("14", "14"), False),
        (
            '{"path":"/brokers/ids/1","data":{"version":4,"host":"b1","port":1,"endpoints":["PLAINTEXT://b1:1"]}}\n',
            False,
        ),
        ('{"path":"/brokers/topics/z","data":{"version":2,"partitions":{"0":[1]}}}\n', False),
        ("ID  HOST  PORT  RACK  STATE     ENDPOINT_TYPE\n1   b1    1     null  unfenced  broker\n", True),
        (write_listing("Topic:z\tPartitionCount:1\tReplicationFactor:1\tConfigs:"), False),
        (
            write_listing("Topic: z\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: ", "\tElr: \tLastKnownElr: "),
            True,
        ),
        # What brokers say of themselves is stronger than an old tool.
        (write_api_versions(10) + "Topic:z\tPartitionCount:1\tReplicationFactor:1\tConfigs:\n", True),
    ],
)
def test_the_version_of_a_source_decides(tmp_path: Path, text: str, caps: bool) -> None:
    snapshot = load(tmp_path, DESCRIBE, text)
    assert not snapshot.quarantined
    assert not snapshot.conflicts.num_rows
    for setting in (False, True):
        verdict = evaluate_brokers(snapshot, TopicDefaults(cap_min_insync_replicas=setting)).verdict
        assert (UNDER_MIN_ISR in [point.text for point in verdict.points]) is not caps
        assert not any(point.kind == "unknown_version" for point in verdict.points)


@pytest.mark.parametrize("text", [write_shell(9).replace("metadata.version: 1-9", ""), "  Produce(0): 0 to 9,\n"])
def test_without_a_version_the_setting_decides(tmp_path: Path, text: str) -> None:
    snapshot = load(tmp_path, DESCRIBE, text)
    for setting in (False, True):
        verdict = evaluate_brokers(snapshot, TopicDefaults(cap_min_insync_replicas=setting)).verdict
        assert (UNDER_MIN_ISR in [point.text for point in verdict.points]) is not setting
        (point,) = (point for point in verdict.points if point.kind == "unknown_version")
        assert point.text == (
            "1 partition has fewer replicas than min.insync.replicas, and no source shows the version of Kafka: before "
            "3.7, it blocks acks=all producers now; from 3.7 on, it does not: a (1), with replication factor 1."
        )


def test_partitions_with_too_few_replicas_need_replicas_and_no_patience(tmp_path: Path) -> None:
    lines = (
        "Topic:t\tPartitionCount:1\tReplicationFactor:2\tConfigs:min.insync.replicas=3\n"
        "\tTopic: t\tPartition: 0\tLeader: 5\tReplicas: 5,6\tIsr: 5,6\n"
    )
    (point,) = find_blocked(load(tmp_path, lines))
    assert point.step == (
        "add brokers and then replicas, as waiting does not help, or lower min.insync.replicas: kafka-configs "
        "--zookeeper localhost:2181 --alter --entity-type topics --entity-name t "
        "--add-config min.insync.replicas=2"
    )
    lines += (
        "Topic:u\tPartitionCount:1\tReplicationFactor:3\tConfigs:min.insync.replicas=2\n"
        "\tTopic: u\tPartition: 0\tLeader: 7\tReplicas: 7,8,9\tIsr: 7\n"
    )
    (point,) = find_blocked(load(tmp_path, lines))
    assert point.step == (
        "where replicas are fewer than min.insync.replicas (1 partition), add replicas, as waiting does not help: "
        "kafka-placement plan SOURCE --goal rf --rf 4 --topics t --out plan-CLUSTER-rf; or lower min.insync.replicas "
        "to the number of replicas; then watch the replicas catch up: kafka-topics --zookeeper localhost:2181 "
        "--describe --under-replicated-partitions"
    )


def find_blocked(snapshot: Snapshot) -> list[VerdictPoint]:
    points = evaluate_brokers(snapshot, TopicDefaults()).verdict.points
    return [point for point in points if point.kind == "under_min_isr"]


def test_more_replicas_than_min_insync_replicas_are_named_also_where_it_is_capped(tmp_path: Path) -> None:
    lines = (
        "Topic: t\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: min.insync.replicas=3\n"
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    )
    points = evaluate_brokers(load(tmp_path, lines, write_api_versions(10, 10, 10, 10)), TopicDefaults()).verdict.points
    assert any("--goal rf --rf 4 --topics t" in point.step for point in points)


def list_apis(**versions: int) -> str:
    """Write what kafka-broker-api-versions prints of broker 1. versions: by name of a request."""
    keys = {"Produce": 0, "ListOffsets": 2, "ApiVersions": 18, "DescribeLogDirs": 35}
    lines = [f"\t{name}({keys[name]}): 0 to {highest} [usable: {highest}]" for name, highest in versions.items()]
    return "b1:9092 (id: 1 rack: null isFenced: false) -> (\n" + ",\n".join(lines) + "\n)\n"


@pytest.mark.parametrize(
    ("text", "releases"),
    [
        (list_apis(Produce=11, ListOffsets=10, ApiVersions=4, DescribeLogDirs=4), (307, 402)),
        (list_apis(Produce=13, ListOffsets=11, ApiVersions=4, DescribeLogDirs=4), (402, 403)),
        (list_apis(Produce=13, ListOffsets=11, ApiVersions=4, DescribeLogDirs=5), (403, 404)),
        (list_apis(Produce=13, ListOffsets=11, ApiVersions=5, DescribeLogDirs=5), (404, None)),
        (list_apis(Produce=13), (307, None)),  # the rest was cut off
        (write_log(27), (401, 402)),
        (write_log(29), (402, 403)),
        (write_log(30), (403, 404)),
        (write_shell(33), (404, None)),
        (write_shell(99), (404, None)),
        (write_features("4.3-IV0", "4.1-IV1"), (401, 404)),
        (write_features("33", "30"), (403, None)),
        (write_configs("3.8-IV0"), (308, None)),
        ("", (None, None)),
    ],
)
def test_releases_that_a_source_shows(tmp_path: Path, text: str, releases: tuple[int | None, int | None]) -> None:
    snapshot = load(tmp_path, DESCRIBE, text)
    assert get_releases(snapshot.brokers) == [releases]
    model = build_snapshot_model(snapshot, TopicDefaults())
    first, before = releases
    known = None if first is None else first >= 403 or (None if before is None or before > 403 else False)
    for assumed in (402, 403):
        model = build_snapshot_model(snapshot, TopicDefaults().assume(assumed))
        assert model.completes_with_added is (assumed == 403 if known is None else known)
        assert not model.drops_at_once or (first is not None and first < 308)


def test_levels_of_metadata_version_are_those_of_kafka() -> None:
    """The first level of each release, from org.apache.kafka.server.common.MetadataVersion of Kafka 3.9 and 4.4."""
    names = "1=3.0 2=3.1 3=3.2 4=3.3 7=3.3 8=3.4 9=3.5 11=3.5 12=3.6 14=3.6 15=3.7 19=3.7 20=3.8 21=3.9 22=4.0 25=4.0"
    for pair in f"{names} 26=4.1 27=4.1 28=4.2 29=4.2 30=4.3 31=4.4 33=4.4".split():
        level, name = pair.split("=")
        assert read_level(int(level)).first == parse_release(name)
    assert read_level(0) == (None, 300)


def test_during_an_upgrade_the_worse_rule_holds() -> None:
    rules = TopicDefaults().adapt_to([ReleaseRange(403, 404), ReleaseRange(404, 405)])
    assert (rules.completes_with_added, rules.rejects_cordoned) == (True, True)
    rules = TopicDefaults().adapt_to([ReleaseRange(402, 403), ReleaseRange(403, 404)])
    assert (rules.completes_with_added, rules.rejects_cordoned) == (False, False)
