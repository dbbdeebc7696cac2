"""`what-if --fail` says who is blocked, why, and what to do first."""

import json
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cli.what_if_rendering import format_failure
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.what_if.failure_effects import count_in_sync
from pipelines.what_if.what_if_answers import evaluate_failure
from tests.commands import call
from udfs.failures.kernels.election import NO_BROKER, UNKNOWN, PartitionGroup
from udfs.failures.partition_arrays import elect_after
from udfs.failures.topic_defaults import TopicDefaults

# Broker 3 is down.
TOPICS = {
    "blocked": (2, ["1 | 1,2,3 | 1,2", "2 | 2,1,3 | 2,1"]),
    "lagging": (2, ["1 | 1,2,4 | 1,2"]),
    "full": (2, ["1 | 1,2 | 1,2"]),
    "single": (1, ["1 | 1 | 1"]),
    "safe": (1, ["4 | 4,1 | 4,1"]),
}


def write_cluster(folder: Path, topics: dict[str, tuple[int, list[str]]]) -> Path:
    lines = []
    for topic, (min_isr, rows) in topics.items():
        factor = len(rows[0].split(" | ")[1].split(","))
        config = f"Configs: min.insync.replicas={min_isr}"
        lines.append(f"Topic: {topic}\tPartitionCount: {len(rows)}\tReplicationFactor: {factor}\t{config}")
        for i, row in enumerate(rows):
            leader, replicas, isr = row.split(" | ")
            lines.append(f"\tTopic: {topic}\tPartition: {i}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {isr}")
    file = folder / "prod.txt"
    file.write_text("\n".join(lines) + "\n")
    return file


def read_cluster(folder: Path, topics: dict[str, tuple[int, list[str]]]) -> Snapshot:
    return load_snapshot(find_source(str(write_cluster(folder, topics))))


def test_causes_have_counts_and_next_steps(tmp_path: Path) -> None:
    answer = evaluate_failure(read_cluster(tmp_path, TOPICS), [1], TopicDefaults())
    lines = format_failure(answer.name_source("prod.txt"), "kafka-placement what-if prod.txt --fail 1")
    assert lines[: lines.index("cluster prod, 6 partitions: broker 1 fails")] == [
        "NO: 1 partition would go offline: single-0",
        "  4 more partitions would block acks=all producers: blocked (2), full (1), lagging (1)",
        "  - Broker 3 is down. 2 of these 5 partitions have a replica there.",
        "    next: restart it; if broker 3 stays down, repair the partitions that need broker 1 first: kafka-placement "
        "plan prod.txt --goal repair --at-min-isr-partitions --under-min-isr-partitions --brokers 1 "
        "--out plan-prod-repair-for-1",
        "  - 1 of these 5 partitions has replication factor 1.",
        "    next: add replicas (a failed disk would lose the only copy): kafka-placement plan prod.txt --goal rf "
        "--rf 3 --topics single --out plan-prod-rf; then raise min.insync.replicas to 2 where it is 1 "
        "(acks=all waits for two replicas): kafka-configs --bootstrap-server localhost:9092 --alter --entity-type "
        "topics --entity-name single --add-config min.insync.replicas=2",
        "  - 1 of these 5 partitions has a replica that is out of sync on broker 4: lagging-0.",
        "    next: look at broker 4 (log of the replica fetchers, disk, network)",
        "  - 1 of these 5 partitions has too few replicas for min.insync.replicas after this failure.",
        "    next: raise the replication factor above min.insync.replicas: kafka-placement plan prod.txt --goal rf "
        "--rf 3 --topics full --out plan-prod-rf-spare",
        "  then list the topics again, and ask again: kafka-placement what-if prod.txt --fail 1",
    ]
    assert "  partitions with one in-sync replica left: 5" in lines


def test_partitions_whose_replicas_lag_are_named(tmp_path: Path) -> None:
    topics = {"a": (2, ["1 | 1,2,3 | 1,2"] * 7 + ["1 | 1,2,4 | 1,2", "3 | 3,4 | 3,4"])}
    lines = format_failure(evaluate_failure(read_cluster(tmp_path, topics), [1], TopicDefaults()))
    names = "a-0, a-1, a-2, a-3, a-4, a-5 and 2 more"
    assert lines[1:3] == [
        f"  - All 8 partitions have a replica that is out of sync on brokers 3, 4: {names}.",
        "    next: look at brokers 3, 4 (log of the replica fetchers, disk, network)",
    ]


def test_observers_and_replicas_that_are_added_are_not_out_of_sync(tmp_path: Path) -> None:
    (tmp_path / "prod.txt").write_text(
        "Topic: a\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: min.insync.replicas=2\n"
        "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2\tObservers: 3\n"
        "\tTopic: a\tPartition: 1\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2\tAdding Replicas: 3\tRemoving Replicas: \n"
        "Topic: b\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n"
        "\tTopic: b\tPartition: 0\tLeader: 3\tReplicas: 3\tIsr: 3\n"
    )
    answer = evaluate_failure(load_snapshot(find_source(str(tmp_path / "prod.txt"))), [1], TopicDefaults())
    assert [cause.text for cause in answer.summary.causes] == [
        "All 2 partitions have too few replicas for min.insync.replicas after this failure."
    ]


def test_a_failure_without_effect_has_no_cause(tmp_path: Path) -> None:
    lines = format_failure(evaluate_failure(read_cluster(tmp_path, TOPICS), [4], TopicDefaults()), "again")
    assert lines[0] == "YES: no partition would go offline, but broker 1 would be hot"
    assert not [line for line in lines if "next:" in line or "again" in line]
    assert "  partitions with one in-sync replica left: 2 (1 of them with replication factor 1)" in lines


def test_a_warning_names_the_topics_that_would_block(tmp_path: Path) -> None:
    topics = {"orders": (2, ["1 | 1,2 | 1,2", "2 | 2,1 | 2,1"])}
    lines = format_failure(evaluate_failure(read_cluster(tmp_path, topics), [1], TopicDefaults()))
    risky = "RISKY: 2 partitions would fall below min.insync.replicas (acks=all blocked): orders (2)"
    assert lines[:2] == [
        risky,
        "  - All 2 partitions have too few replicas for min.insync.replicas after this failure.",
    ]


def test_brokers_that_fail_together_may_fail_one_by_one(tmp_path: Path) -> None:
    topics = {"orders": (2, ["1 | 1,2,3 | 1,2,3", "2 | 2,3,1 | 2,3,1"])}
    lines = format_failure(evaluate_failure(read_cluster(tmp_path, topics), [1, 2], TopicDefaults()))
    assert lines[1] == "  - All 2 partitions have several replicas on these brokers."
    assert lines[2].startswith("    next: take them down one after the other, or spread replicas over racks: ")


def test_partitions_may_have_all_replicas_on_failing_brokers(tmp_path: Path) -> None:
    topics = {"orders": (1, ["1 | 1,2 | 1,2", "2 | 2,3 | 2,3"])}
    lines = format_failure(evaluate_failure(read_cluster(tmp_path, topics), [1, 2], TopicDefaults()))
    assert lines[:3] == [
        "NO: 1 partition would go offline: orders-0",
        "  - It has all replicas on these brokers.",
        "    next: take them down one after the other, or spread replicas over racks: "
        "kafka-placement plan SOURCE --goal repair --out plan-CLUSTER-repair",
    ]


def test_a_small_rack_needs_brokers_before_replicas_are_spread(tmp_path: Path) -> None:
    write_cluster(tmp_path, {"orders": (1, ["1 | 1,2 | 1,2", "3 | 3,4 | 3,4", "5 | 5,1 | 5,1"])})
    racks = ["1,a", "2,a", "3,a", "4,a", "5,b"]
    (tmp_path / "brokers.csv").write_text("\n".join(["broker_id,rack", *racks]) + "\n")
    lines = format_failure(evaluate_failure(load_snapshot(find_source(str(tmp_path))), [1, 2], TopicDefaults()))
    assert lines[2] == (
        "    next: take them down one after the other; rack b has 1 of 5 live brokers and would hold half of all "
        "replicas: add brokers there before spreading replicas over racks: kafka-placement plan SOURCE --goal expand "
        "--add-brokers 6:b,7:b,8:b --out plan-CLUSTER-expand"
    )


def test_a_broker_that_is_down_changes_nothing(tmp_path: Path) -> None:
    answer = evaluate_failure(read_cluster(tmp_path, TOPICS), [3], TopicDefaults())
    lines = format_failure(answer)
    assert lines[0] == "DOWN ALREADY: broker 3. Nothing more would go offline"
    assert lines[1].startswith("  - Broker 3 is down; ")
    assert "kafka-placement plan SOURCE --goal repair" in lines[2]


def test_the_printed_question_and_json_name_the_source(tmp_path: Path) -> None:
    write_cluster(tmp_path, TOPICS)
    printed = call("what-if", "prod.txt", "--fail", "1", "--json", "a.json", folder=tmp_path).stdout
    assert "ask again:\n      kafka-placement what-if prod.txt --fail 1\n" in printed
    summary = json.loads((tmp_path / "a.json").read_text())["summary"]
    assert summary["effects"]["blocked"]["partitions"] == 4
    assert "kafka-placement plan prod.txt" in summary["causes"][0]["step"]


@given(st.data())
def test_in_sync_replicas_are_those_of_kafkas_rule(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 5))
    flags = st.lists(st.booleans(), min_size=size, max_size=size)
    live, isr, elr, fails = (np.array(data.draw(flags)) for _ in range(4))
    leads = [NO_BROKER, *np.flatnonzero(live).tolist()]
    broker = np.where(live, np.arange(size), NO_BROKER).astype(np.int32)
    leader = np.array([data.draw(st.sampled_from(leads))], dtype=np.int32)
    unclean = np.array([data.draw(st.booleans())])
    loads = (np.array([UNKNOWN]), np.zeros((1, 2)), np.array([True]))
    offsets, lag = np.array([0, size]), np.full(size, UNKNOWN, dtype=np.int64)
    group = PartitionGroup(offsets, broker, isr, elr, lag, leader, np.ones(1, dtype=np.int32), unclean, *loads)
    _, elected_from = elect_after(group, fails)
    left = live & isr & ~fails
    loses = leader[0] != NO_BROKER and fails[leader[0]]
    survivors = live & ~fails
    from_outside = loses and not left.any() and ((survivors & elr).any() or (unclean[0] and survivors.any()))
    assert count_in_sync(group, fails, elected_from).tolist() == [1 if from_outside else left.sum()]
