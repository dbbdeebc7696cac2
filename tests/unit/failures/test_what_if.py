"""`what-if`: every broker's failure equals that of the broker alone, and the verdict covers all of them."""

from __future__ import annotations

import json
from itertools import takewhile
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.cli.text_format import Limits
from pipelines.cli.what_if_rendering import format_cluster, format_failure
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.what_if.what_if_answers import evaluate_brokers, evaluate_failure, model_snapshot
from udfs.failures.kernels.election import UNKNOWN
from udfs.failures.topic_defaults import TopicDefaults
from udfs.json_answers import to_json

SAMPLES = Path(__file__).parents[3] / "data_samples"
DEFAULTS = TopicDefaults()
QUORUM_NOTE = (
    "  note: no source shows the controller quorum (KRaft) or the ZooKeeper ensemble: a controller is assumed after "
    "any failure; to see its voters: kafka-metadata-quorum --bootstrap-server localhost:9092 describe --status; check "
    "the ensemble by itself"
)


def load(path: Path) -> Snapshot:
    return load_snapshot(find_source(str(path)))


@pytest.mark.parametrize(
    "source",
    [
        SAMPLES / "kafka-4.1.1-kraft",
        SAMPLES / "kafka-2.8.2-zookeeper",
        SAMPLES / "captures" / "kafka-4.1.1-two-dead" / "topics-describe.brokers-1-4-down.txt",
    ],
    ids=lambda path: path.name,
)
def test_each_failure_is_that_of_the_broker_alone(source: Path) -> None:
    snapshot = load(source)
    answer = evaluate_brokers(snapshot, DEFAULTS)
    live = [row["broker_id"] for row in snapshot.brokers.to_pylist() if row["live"]]
    assert [row.failed for row in answer.brokers] == sorted(live)
    for row in answer.brokers:
        alone = evaluate_failure(snapshot, [row.failed], DEFAULTS).summary
        assert row.newly_offline_partitions == alone.offline_after - alone.offline_before
        assert row.under_min_isr_partitions == alone.under_min_isr_after
        assert row.worst_survivor_ratio == alone.worst_survivor_ratio
        assert row.takeover_brokers == len(alone.takeovers)
        assert row.newly_offline_partitions == alone.effects.offline.partitions
        assert row.newly_under_min_isr_partitions == alone.effects.blocked.partitions
        assert bool(alone.causes) == (alone.effects.offline.partitions + alone.effects.blocked.partitions > 0)
        assert row.answer.startswith("No") == (row.newly_offline_partitions > 0)


def test_json_keys_are_field_names() -> None:
    snapshot = load(SAMPLES / "kafka-4.1.1-kraft")
    cluster = to_json(evaluate_brokers(snapshot, DEFAULTS))
    assert list(cluster) == [
        "cluster",
        "partitions",
        "verdict",
        "brokers",
        "racks",
        "left_out",
        "survivor_loads",
        "outage",
        "quorum",
        "exposure",
        "topics",
        "disks",
        "hypothesis",
        "wait_or_move",
    ]
    assert list(cluster["outage"]) == ["down_brokers", "offline", "start_order"]
    assert list(cluster["verdict"]) == ["level", "sentence", "points"]
    point = cluster["verdict"]["points"][0]
    assert list(point) == ["level", "text", "step", "kind", "plan", "affected", "topics", "subject"]
    assert {"takeover_brokers", "single_isr_partitions", "worst_survivor_ratio", "answer"} <= set(cluster["brokers"][0])
    failure = to_json(evaluate_failure(snapshot, [2], DEFAULTS))
    names = ["cluster", "failed", "partitions", "summary", "survivor_loads", "topics", "check", "hypothesis"]
    assert list(failure) == names
    assert set(failure["partitions"][0]) == {"topic", "partition", "leader_before", "leader_after", "elected_from"}
    assert {"single_isr_partitions", "worst_survivor_ratio", "gaps"} <= set(failure["summary"])
    gaps = {"failed_already_down", "state_inferred_partitions", "conflicts", "skipped_entries"}
    assert gaps <= set(failure["summary"]["gaps"])
    assert gaps <= set(cluster["left_out"])


def small_cluster(folder: Path) -> Snapshot:
    file = folder / "small.txt"
    file.write_text(
        "Topic: a\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: min.insync.replicas=1\n"
        "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
        "\tTopic: a\tPartition: 1\tLeader: 20\tReplicas: 20\tIsr: 20\n"
        "\tTopic: a\tPartition: x\tLeader: 2\tReplicas: 2,1\tIsr: 2,1\n"
    )
    return load(file)


def test_text_of_a_cluster(tmp_path: Path) -> None:
    assert format_cluster(evaluate_brokers(small_cluster(tmp_path), DEFAULTS)) == [
        "cluster small, 3 live brokers, 2 partitions",
        "  AT RISK: losing broker 20 takes 1 partition offline: a (1), with replication factor 1.",
        "    next: add replicas (a failed disk would lose the only copy): "
        "kafka-placement plan SOURCE --goal rf --rf 3 --topics a --out plan-CLUSTER-rf; then raise "
        "min.insync.replicas to 2 where it is 1 (acks=all waits for two replicas): kafka-configs --bootstrap-server "
        "localhost:9092 --alter --entity-type topics --entity-name a --add-config min.insync.replicas=2",
        "  - 1 record of the sources is quarantined and left out of every answer: run inspect to see why.",
        QUORUM_NOTE,
        "Safe to restart now, in this order (as far as the sources show): 2, 1, 20",
        "  before each, wait until all replicas are in sync; partitions with replication factor 1 are offline while "
        "their broker restarts",
        "Can this broker fail now? (as far as the sources show) What its failure would do, in partitions:",
        "  broker  answer  offline  leads  to brokers  worst survivor",
        "      20  No            1      1                   1: 2.00 x",
        "       1  Yes                  1           1",
        "       2  Yes",
    ]


def test_order_of_restarts(tmp_path: Path) -> None:
    """Brokers of which every restart is safe come first, then the others, by what would happen; at most 12 ids."""
    wait = "  before each, wait until all replicas are in sync"

    def find_order(*partitions: tuple[str, str, str]) -> list[str]:
        lines = [
            f"Topic: t{i}\tPartitionCount: 1\tReplicationFactor: {ids.count(',') + 1}\t"
            f"Configs: min.insync.replicas={min_isr}\n"
            f"\tTopic: t{i}\tPartition: 0\tLeader: {ids.split(',')[0]}\tReplicas: {ids}\tIsr: {isr}"
            for i, (ids, isr, min_isr) in enumerate(partitions)
        ]
        file = tmp_path / "order.txt"
        file.write_text("\n".join(lines) + "\n")
        printed = format_cluster(evaluate_brokers(load(file), DEFAULTS), Limits(rows=1_000))
        first = next((i for i, line in enumerate(printed) if "safe to restart" in line.lower()), len(printed))
        return list(takewhile(lambda line: not line.startswith("Can this"), printed[first:]))

    safe = ("1,2", "1,2", "1"), ("2,3", "2,3", "1"), ("3,1", "3,1", "1")
    assert find_order(*safe) == ["Safe to restart now, in this order: 1, 2, 3", wait]
    assert find_order(*safe, ("3,2", "3,2", "2"), ("3,2", "3", "1")) == [
        "Safe to restart now, in this order: 1",
        "  2: acks=all blocked on 1 partition meanwhile",
        "  3: 1 partition offline meanwhile",
        wait,
    ]
    assert find_order(("1,2", "1", "1"), ("2,1", "2", "1"), ("2,1", "2", "1")) == [
        "No broker is safe to restart now; the least harmful first:",
        "  1, 2: 1 to 2 partitions offline meanwhile",
        wait,
    ]
    blocked = "  3, 2: acks=all blocked on 1 partition meanwhile"
    waiting = "  waiting does not make these restarts safer: see the next steps above"
    assert find_order(*safe, ("3,2", "3,2", "2")) == ["Safe to restart now, in this order: 1", blocked, waiting, wait]
    # A partition without other replicas is offline whenever its broker restarts: nothing is gained by waiting.
    alone = "; partitions with replication factor 1 are offline while their broker restarts"
    assert find_order(*safe, ("1", "1", "1")) == ["Safe to restart now, in this order: 2, 3, 1", wait + alone]
    assert find_order(("1", "1", "1")) == [], "there is no order of one broker"
    many = [(f"{i},{i % 20 + 1}", f"{i},{i % 20 + 1}", "1") for i in range(1, 21)]
    ids = ", ".join(map(str, (*range(1, 6), *range(8, 15))))  # 7 would lead what 6 leads, and its own two
    assert find_order(*many, ("7,1", "7", "1")) == [
        f"Safe to restart now, in this order: {ids} and 7 more",  # without --all
        "  1 broker: 1 partition offline meanwhile",
        wait,
    ]


def test_text_of_a_failure(tmp_path: Path) -> None:
    assert format_failure(evaluate_failure(small_cluster(tmp_path), [1, 20], DEFAULTS)) == [
        "NO: 1 partition would go offline: a-1",
        "  - It has replication factor 1.",
        "    next: add replicas (a failed disk would lose the only copy): kafka-placement plan SOURCE --goal rf --rf 3 "
        "--topics a --out plan-CLUSTER-rf; then raise min.insync.replicas to 2 where it is 1 (acks=all "
        "waits for two replicas): kafka-configs --bootstrap-server localhost:9092 --alter --entity-type topics "
        "--entity-name a --add-config min.insync.replicas=2",
        "cluster small, 2 partitions: brokers 1, 20 fail",
        "  warning: 1 record of the sources is quarantined and left out of every answer: run inspect to see why.",
        "  leaders that move: 1",
        "  offline partitions: 1",
        "  partitions below min.insync.replicas (acks=all blocked): 0",
        "  partitions with one in-sync replica left: 1",
        QUORUM_NOTE,
        "  broker 2 takes over 1 partition and then leads 1",
    ]


def test_a_cluster_without_live_brokers(tmp_path: Path) -> None:
    file = tmp_path / "down.txt"
    file.write_text(
        "Topic: a\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: min.insync.replicas=1\n"
        "\tTopic: a\tPartition: 0\tLeader: none\tReplicas: 1,2\tIsr: \n"
    )
    assert format_cluster(evaluate_brokers(load(file), DEFAULTS)) == [
        "cluster down, 0 live brokers, 1 partition",
        "  AT RISK: 1 partition is offline now: a (1).",
        "    next: restart brokers 1, 2 (kafka-placement what-if SOURCE shows in which order); list the offline "
        "partitions: "
        "kafka-topics --bootstrap-server localhost:9092 --describe --unavailable-partitions",
        "  - Brokers 1, 2 are down; 1 partition with a replica there is under-replicated.",
        "    next: restart them",
        "  - No live broker is known: failures cannot be evaluated.",
        QUORUM_NOTE,
        "No broker that is down is sure to bring an offline partition online:",
        "  1 partition has no in-sync replica and no ELR that a source shows: start all brokers that have a replica: "
        "a-0",
    ]


def test_unclean_elections_follow_the_default(tmp_path: Path) -> None:
    file = tmp_path / "unclean.txt"
    file.write_text(
        "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n"
        "\tTopic: a\tPartition: 1\tLeader: 2\tReplicas: 2\tIsr: 2\n"
    )
    snapshot = load(file)
    assert evaluate_failure(snapshot, [1], DEFAULTS).partitions[0].elected_from == "offline"
    unclean = evaluate_failure(snapshot, [1], TopicDefaults(unclean_leader_election=True))
    assert (unclean.partitions[0].elected_from, unclean.partitions[0].leader_after) == ("unclean", 2)
    assert unclean.summary.unclean_elections == 1


@pytest.mark.filterwarnings("error")
def test_the_largest_lag_stays_what_it_is(tmp_path: Path) -> None:
    """Beside an unknown lag, a column of lags has nulls; as floats, large lags would not fit."""
    (tmp_path / "describe.txt").write_text(
        "Topic: t\tPartitionCount: 1\tReplicationFactor: 3\tConfigs: unclean.leader.election.enable=true\n"
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1\n"
        "Topic: u\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: \n"
        "\tTopic: u\tPartition: 0\tLeader: 2\tReplicas: 2,3\tIsr: 2,3\n"
    )
    replicas = {1: 0, 2: 2**63 - 1, 3: -1}
    brokers = [
        {
            "broker": b,
            "logDirs": [
                {
                    "logDir": "/d",
                    "error": None,
                    "partitions": [{"partition": "t-0", "size": 1, "offsetLag": lag, "isFuture": False}],
                }
            ],
        }
        for b, lag in replicas.items()
    ]
    (tmp_path / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": brokers}))
    _, placement, _ = model_snapshot(load(tmp_path), DEFAULTS)
    assert placement.group.lag.tolist() == [0, 2**63 - 1, UNKNOWN, UNKNOWN, UNKNOWN]


@pytest.mark.parametrize("remedy", ["ignored", "deleted"])
def test_topics_that_do_not_count(tmp_path: Path, remedy: str) -> None:
    file = tmp_path / "ignored.txt"
    mark = " MarkedForDeletion: true" if remedy == "deleted" else ""
    file.write_text(
        f"Topic: tmp-a\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: {mark}\n"
        "\tTopic: tmp-a\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
        "\tTopic: tmp-a\tPartition: 1\tLeader: none\tReplicas: 3\tIsr: 3\n"
        "Topic: b\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: \n"
        "\tTopic: b\tPartition: 0\tLeader: 2\tReplicas: 2,1\tIsr: 2,1\n"
    )
    snapshot, ignoring = load(file), TopicDefaults(ignored=("tmp-[!b]*",) if remedy == "ignored" else ())
    answer = evaluate_brokers(snapshot, ignoring)
    assert [row.answer for row in answer.brokers if row.failed == 1] == ["Yes"]
    assert answer.brokers[0].leaders_lost == 1, "what they lead counts"
    failure = evaluate_failure(snapshot, [1], ignoring)
    lines = format_failure(failure)
    assert lines[0].startswith("YES")
    at = lines.index("  offline partitions: 0")
    assert lines[at : at + 2] == [
        "  offline partitions: 0",
        "  offline partitions of ignored or deleted topics, which do not count: 1 newly",
    ]
    assert failure.summary.uncounted_topics == ("tmp-a",)
    if remedy == "ignored":
        assert answer.verdict.headline == "WARNING: broker 3 is down."
        assert evaluate_failure(snapshot, [1], DEFAULTS).summary.offline_after == 2
        assert "The problems of 1 ignored topic do not count; 1 partition of it is offline." in [
            point.text for point in answer.verdict.points
        ]


def test_patterns_of_ignored_topics() -> None:
    names = pa.array(["a.b", "axb", "aab", "b", "a-b-c", "A.b"])

    def find(*patterns: str) -> list[str]:
        return names.filter(TopicDefaults(ignored=patterns).find_ignored(names)).to_pylist()

    assert find() == []
    assert find("a?b") == ["a.b", "axb", "aab"]
    assert find("a.b") == ["a.b"]
    assert find("*b*") == ["a.b", "axb", "aab", "b", "a-b-c", "A.b"]
    assert find("a*b*c", "[A-Z]*") == ["a-b-c", "A.b"]
    assert find("[b-a]*", "") == []


CAPTURES = SAMPLES / "captures"


@pytest.mark.parametrize(
    ("source", "unknown", "names"),
    [
        (SAMPLES / "formats" / "describe-2.8.txt", ["kraft", "zookeeper"], "quorum (KRaft) or the ZooKeeper ensemble"),
        (SAMPLES / "kafka-2.8.2-zookeeper", ["zookeeper"], "ZooKeeper ensemble"),
        (CAPTURES / "kafka-4.4.0-sick" / "topics-describe.txt", ["kraft"], "controller quorum (KRaft)"),
        (CAPTURES / "kafka-4.4.0-sick", [], None),
    ],
    ids=["either", "zookeeper", "kraft", "shown"],
)
def test_a_quorum_that_no_source_shows_is_assumed_in_one_note(
    source: Path, unknown: list[str], names: str | None
) -> None:
    snapshot = load(source)
    cluster, failure = (
        evaluate_brokers(snapshot, DEFAULTS),
        evaluate_failure(snapshot, snapshot.brokers["broker_id"][:1].to_pylist(), DEFAULTS),
    )
    assert to_json(cluster)["left_out"]["unknown_quorum"] == unknown
    assert to_json(failure)["summary"]["gaps"]["unknown_quorum"] == unknown
    for lines in (format_cluster(cluster), format_failure(failure)):
        notes = [line for line in lines if "a controller is assumed after any failure" in line]
        assert len(notes) == (names is not None)
        assert all(f"{names}:" in note for note in notes)
        assert ("kafka-metadata-quorum --bootstrap-server" in "".join(notes)) == ("kraft" in unknown)
        assert ("check the ensemble by itself" in "".join(notes)) == ("zookeeper" in unknown)


def describe_two(topic: str, configs: str, isr: str = "1,2") -> str:
    return (
        f"Topic: {topic}\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: min.insync.replicas=1,{configs}\n"
        f"\tTopic: {topic}\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: {isr}\n"
    )


def test_topics_that_are_uploaded_late_are_named(tmp_path: Path) -> None:
    tiered = "remote.storage.enable=true"
    texts = [describe_two("late", f"{tiered},remote.copy.lag.ms=60000"), describe_two("at-once", tiered)]
    texts += [describe_two("local", "remote.copy.lag.bytes=9"), describe_two("none", f"{tiered},remote.copy.lag.ms=0")]
    (tmp_path / "topics.txt").write_text("".join(texts))
    answer = evaluate_failure(load(tmp_path / "topics.txt"), [1], DEFAULTS)
    assert to_json(answer)["summary"]["gaps"]["topics_with_copy_lag"] == ["late"]
    note = "1 topic is uploaded to remote storage with a delay (remote.copy.lag): what is not uploaded yet ({}) is lost"
    assert note.format("no source shows how much") in "".join(format_failure(answer))
    logs = [{"partition": f"{topic}-0", "size": 500} for topic in ("late", "at-once")]
    brokers = [{"broker": broker, "logDirs": [{"logDir": "/d", "partitions": logs}]} for broker in (1, 2)]
    (tmp_path / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": brokers}))
    sized = evaluate_failure(load(tmp_path), [1], DEFAULTS)
    assert note.format("at most 500 B") + " with the replicas: late" in "".join(format_failure(sized))


@pytest.mark.parametrize("has_transactions", [True, False])
def test_unclean_elections_may_cut_transactions(tmp_path: Path, has_transactions: bool) -> None:
    text = describe_two("a", "unclean.leader.election.enable=true", isr="1")
    text += describe_two("__transaction_state", "cleanup.policy=compact") if has_transactions else ""
    (tmp_path / "topics.txt").write_text(text + describe_two("b", "retention.ms=1"))
    lines = format_failure(evaluate_failure(load(tmp_path / "topics.txt"), [1], DEFAULTS))
    assert any("1 of them unclean" in line for line in lines)
    assert any("find-hanging --broker-id" in line for line in lines) is has_transactions
