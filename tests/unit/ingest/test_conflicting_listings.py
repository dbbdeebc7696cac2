"""A source that shows the same partitions at two moments, or beside another assignment: one sentence on each pair."""

from __future__ import annotations

import json
from pathlib import Path

from pipelines.cli.inspect_command import build_answer, render_snapshot
from pipelines.cli.what_if_rendering import format_cluster, format_failure
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import Source, find_source
from pipelines.what_if.what_if_answers import evaluate_brokers, evaluate_failure
from udfs.failures.topic_defaults import TopicDefaults
from udfs.json_answers import to_json

from .facts import SAMPLES


def describe(*leaders: int, topic: str = "t") -> str:
    """A describe with a leader for each partition; broker 3 is in sync where it leads."""
    head = f"Topic: {topic}\tPartitionCount: {len(leaders)}\tReplicationFactor: 3\tConfigs: \n"
    return head + "".join(
        f"\tTopic: {topic}\tPartition: {i}\tLeader: {leader}\tReplicas: 1,2,3\tIsr: 1,2{',3' * (leader == 3)}\n"
        for i, leader in enumerate(leaders)
    )


def reassign(*replicas: list[int]) -> str:
    parts = [{"topic": "t", "partition": i, "replicas": ids} for i, ids in enumerate(replicas)]
    return json.dumps({"version": 1, "partitions": parts})


def load(folder: Path, **texts: str) -> Snapshot:
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return load_snapshot(find_source(str(folder)))


def test_two_describes_in_one_file(tmp_path: Path) -> None:
    snapshot = load(tmp_path, paste=describe(1, 2, 3) + "\nafter the restart:\n\n" + describe(1, 1, 1))
    assert snapshot.conflicting_listings == [
        "paste.txt lines 2-4 and paste.txt lines 9-11 show partitions differently "
        "(2 of 3 partitions, as partition t-1): keep one of them"
    ]
    assert snapshot.partitions["partition"].to_pylist() == [0]


def test_two_describes_in_two_files_of_which_one_shows_more(tmp_path: Path) -> None:
    snapshot = load(tmp_path, after=describe(1, 2, topic="u") + describe(2, 2), before=describe(1, 2))
    assert snapshot.conflicting_listings == [
        "after.txt lines 5-6 and before.txt lines 2-3 show partitions differently "
        "(1 of 2 partitions, as partition t-0): keep one of them"
    ]


def test_three_describes_are_two_pairs(tmp_path: Path) -> None:
    snapshot = load(tmp_path, paste=describe(1) + describe(2) + describe(1) + describe(3))
    assert [text.partition(" show")[0] for text in snapshot.conflicting_listings] == [
        "paste.txt line 2 and paste.txt line 4",
        "paste.txt line 2 and paste.txt line 8",
    ]


def test_two_lines(tmp_path: Path) -> None:
    line = describe(1).splitlines(keepends=True)[1]
    (text,) = load(tmp_path, paste=line + line.replace("Leader: 1", "Leader: 2")).conflicting_listings
    assert text.startswith("paste.txt line 1 and paste.txt line 2 show partitions differently (1 of 1 partition, ")


def test_a_row_that_is_repeated_in_a_listing(tmp_path: Path) -> None:
    text = describe(1, 2, 2)
    (sentence,) = load(
        tmp_path, paste=text + text.splitlines()[-1].replace("Leader: 2", "Leader: 1")
    ).conflicting_listings
    assert sentence == (
        "paste.txt line 4 and paste.txt line 5 show partitions differently "
        "(1 of 1 partition, as partition t-2): keep one of them"
    )


def test_the_listing_that_would_be_used_is_quarantined_too(tmp_path: Path) -> None:
    plan = "\n" + reassign([4, 2, 3]) + "\n"
    (text,) = load(tmp_path, after=describe(2), before=describe(1), plan=plan).conflicting_listings
    assert text.startswith("after.txt line 2 and before.txt line 2 show partitions differently")


def with_id(text: str, topic_id: str) -> str:
    return text.replace("\tPartitionCount", f"\tTopicId: {topic_id}\tPartitionCount", 1)


def test_topic_ids_that_differ_are_two_clusters(tmp_path: Path) -> None:
    first, second = with_id(describe(1, 2), "A" * 22), with_id(describe(2, 2), "B" * 22)
    remedy = "give each cluster its own folder, or keep one if it was created anew"
    (text,) = load(tmp_path, paste=first + second).conflicting_listings
    assert text == (
        f"paste.txt line 1 and paste.txt line 4 seem to be of two clusters: topic t has topic_id {'A' * 22} "
        f"and {'B' * 22} (1 topic with two): {remedy}"
    )
    (tmp_path / "paste.txt").unlink()
    (text,) = load(tmp_path, prod=first, stage=second).conflicting_listings
    assert text == (
        f"prod.txt line 1 and stage.txt line 1 seem to be of two clusters: topic t has topic_id {'A' * 22} "
        f"and {'B' * 22} (1 topic with two): {remedy}"
    )


def test_a_topic_that_was_created_anew_is_no_second_cluster(tmp_path: Path) -> None:
    same = with_id(describe(1, topic="u"), "U" * 22)
    first, second = with_id(describe(1, 2), "A" * 22), with_id(describe(2, 2), "B" * 22)
    (text,) = load(tmp_path, after=same + second, before=same + first).conflicting_listings
    assert "show partitions differently" in text


def kcat(*hosts: str, topic: str) -> str:
    brokers = "".join(f"  broker {i} at {host}:9092\n" for i, host in enumerate(hosts, 1))
    partition = f'  topic "{topic}" with 1 partitions:\n    partition 0, leader 1, replicas: 1, isrs: 1\n'
    return (
        f"Metadata for all topics (from broker 1: x:9092/1):\n {len(hosts)} brokers:\n{brokers} 1 topics:\n{partition}"
    )


def test_hosts_that_differ_are_two_clusters(tmp_path: Path) -> None:
    (text,) = load(tmp_path, a=kcat("p1", "p2", topic="t"), b=kcat("s1", "s2", topic="u")).conflicting_listings
    assert text == (
        "a.txt line 3 and b.txt line 3 seem to be of two clusters: broker 1 has host p1 and s1 "
        "(2 brokers with two): give each cluster its own folder, unless both hosts are one broker"
    )
    assert load(tmp_path, b=kcat("s1", "p2", topic="u")).conflicting_listings == []  # broker 2 is the same


def test_equal_listings_do_not_conflict(tmp_path: Path) -> None:
    snapshot = load(tmp_path, paste=describe(1, 2) + describe(1, 2), other=describe(1, 2))
    assert (snapshot.conflicting_listings, snapshot.quarantined) == ([], [])


def test_two_dumps_of_zookeeper_in_one_file(tmp_path: Path) -> None:
    """Each shows assignment and state of a partition in two records."""
    assignment = {"path": "/brokers/topics/t", "data": {"version": 1, "partitions": {"0": [1, 2]}}}
    state = {"path": "/brokers/topics/t/partitions/0/state", "data": {"leader": 1, "leader_epoch": 1, "isr": [1, 2]}}
    later = state | {"data": {"leader": 2, "leader_epoch": 2, "isr": [2]}}
    lines = [json.dumps(znode) for znode in (assignment, state, assignment, later)]
    snapshot = load(tmp_path, dump="\n".join(lines) + "\n")
    (text,) = snapshot.conflicting_listings
    assert text.startswith("dump.txt lines 1-2 and dump.txt lines 3-4 show partitions differently (1 of 1 ")


def test_a_declared_assignment_gives_way_to_a_listing(tmp_path: Path) -> None:
    plan = "\n" + reassign([1, 2, 3], [4, 2, 3], [4, 1, 3]) + "\n"
    snapshot = load(tmp_path, describe=describe(1, 2, 3), plan=plan)
    assert snapshot.conflicting_listings == [
        "describe.txt lines 2-4 and plan.txt line 2 show partitions differently "
        "(2 of 3 partitions, as partition t-1): the first is used, as it shows the cluster itself"
    ]
    assert snapshot.partitions["replicas"].to_pylist() == [[1, 2, 3]] * 3


def test_a_declared_assignment_in_the_same_file(tmp_path: Path) -> None:
    snapshot = load(tmp_path, paste=reassign([4, 2, 3]) + "\n\n" + describe(1))
    assert snapshot.conflicting_listings == [
        "paste.txt line 4 and paste.txt line 1 show partitions differently "
        "(1 of 1 partition, as partition t-0): the first is used, as it shows the cluster itself"
    ]


def test_two_declared_assignments(tmp_path: Path) -> None:
    snapshot = load(tmp_path, one=reassign([4, 2, 3]) + "\n", two=reassign([1, 2, 3]) + "\n")
    assert snapshot.conflicting_listings == [
        "one.txt line 1 and two.txt line 1 show partitions differently "
        "(1 of 1 partition, as partition t-0): keep one of them"
    ]
    assert snapshot.quarantined[0]["reasons"][-1] == "two listings or assignments of the same topics: keep one of them"


def test_an_assignment_that_repeats_a_partition_in_one_line(tmp_path: Path) -> None:
    parts = [{"topic": "t", "partition": 0, "replicas": ids} for ids in ([1, 2], [2, 1])]
    snapshot = load(tmp_path, plan=json.dumps({"version": 1, "partitions": parts}) + "\n")
    (text,) = snapshot.conflicting_listings
    assert text.startswith("plan.txt line 1 and plan.txt line 1 show partitions differently (1 of 1 partition, ")


def test_a_metadata_log_and_a_later_describe() -> None:
    folder = SAMPLES / "captures" / "kafka-4.1.1-kraft"
    log, later = (folder / f"{name}.txt" for name in ("cluster-metadata-dump.until-broker-2-down", "reassign-verify"))
    assert load_snapshot(Source("x", (log, later))).conflicting_listings == []
    before = SAMPLES / "kafka-4.1.1-kraft" / "topics-describe.txt"
    (text,) = load_snapshot(Source("x", (log, before))).conflicting_listings
    assert "topics-describe.txt lines 2-" in text
    assert "show partitions differently" in text


def test_commands_say_so(tmp_path: Path) -> None:
    snapshot = load(tmp_path, after=describe(2, 2), before=describe(1, 2))
    (text,) = snapshot.conflicting_listings
    assert f"  warning: {text}" in list(render_snapshot(snapshot))
    assert to_json(build_answer(snapshot))["conflicting_listings"] == [text]
    assert f"  warning: {text}" in format_cluster(evaluate_brokers(snapshot, TopicDefaults()))
    failure = evaluate_failure(snapshot, [1], TopicDefaults())
    assert f"  warning: {text}" in format_failure(failure)
    assert to_json(failure)["summary"]["gaps"]["conflicting_listings"] == [text]
