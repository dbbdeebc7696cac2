"""Snapshots that are of two clusters, or the wrong way round: rejected where their sources tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.simulation.cluster_replay import ReplayRequest, run_replay
from udfs.simulation.result_tables import get_final_state

SAMPLES = Path(__file__).parents[3] / "data_samples"
ZOOKEEPER = SAMPLES / "kafka-2.8.2-zookeeper" / "zookeeper-dump.jsonl"
CAPTURES = SAMPLES / "captures" / "kafka-2.8.2-zookeeper"
LATER = CAPTURES / "zookeeper-dump.broker-1001-down.jsonl"
DESCRIBED = CAPTURES / "topics-describe.broker-1001-down.txt"
KRAFT = SAMPLES / "kafka-4.1.1-kraft" / "topics-describe.txt"
LOG = SAMPLES / "captures" / "kafka-4.1.1-kraft" / "cluster-metadata-dump.until-broker-2-down.txt"
CLUSTER = "mPE-9PAvT8eNU5i1jtxltA"


def warnings(*sources: Path) -> tuple[str, ...]:
    return run_replay(ReplayRequest([str(source) for source in sources])).warnings


def rejected(*sources: Path) -> str:
    with pytest.raises(SourceError) as caught:
        run_replay(ReplayRequest([str(source) for source in sources]))
    assert str(caught.value).startswith(str(sources[-1]))
    return str(caught.value)


def write_changed(source: Path, file: Path, before: str, after: str) -> Path:
    """The file, which is as `of` but for this."""
    text = source.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    return file


def describe(file: Path, topic: str, replicas: str, topic_id: str = "") -> Path:
    named = f"\tTopicId: {topic_id}" if topic_id else ""
    file.write_text(
        f"Topic: {topic}{named}\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: \n"
        f"\tTopic: {topic}\tPartition: 0\tLeader: {replicas[0]}\tReplicas: {replicas}\tIsr: {replicas}\n"
    )
    return file


def test_snapshots_in_their_order_give_no_warning() -> None:
    assert warnings(ZOOKEEPER, LATER) == warnings(ZOOKEEPER, ZOOKEEPER) == warnings(ZOOKEEPER, DESCRIBED) == ()


def test_leader_epochs_that_go_back_are_rejected(tmp_path: Path) -> None:
    message = rejected(LATER, ZOOKEEPER)
    assert (
        f"the epoch of the leader of pairs-1 is 0, but 1 in {LATER}. Epochs never go back: give the snapsh" in message
    )
    text = LOG.read_text()
    part = tmp_path / "part.txt"
    part.write_text(text[: text.index("baseOffset: 1604 ")])
    assert warnings(part, LOG) == ()
    assert "the epoch of the leader of" in rejected(LOG, part)


def test_a_log_with_gaps_may_show_an_older_state(tmp_path: Path) -> None:
    lines = LOG.read_text().splitlines(keepends=True)
    cut = tmp_path / "log.txt"
    cut.write_text("".join(line for line in lines if '"leader":' not in line or "PARTITION_CHANGE" not in line))
    assert any("lacks" in one for one in warnings(LOG, cut))


def test_a_topic_that_was_created_again_starts_new_epochs(tmp_path: Path) -> None:
    """Its id is another then, and its epochs may be less than they were."""
    (node,) = [line for line in ZOOKEEPER.read_text().splitlines() if '"path": "/brokers/topics/pairs",' in line]
    topic_id = node.partition("topic_id")[2][5:27]
    again = write_changed(LATER, tmp_path / "before.jsonl", topic_id, "A" * 22)
    assert "the leader of pairs-1 is" not in rejected(again, ZOOKEEPER)
    assert "the leader of single-1-0 is" in rejected(again, ZOOKEEPER)


def test_controller_epochs_that_go_back_are_rejected(tmp_path: Path) -> None:
    epoch = '"path": "/controller_epoch", "data": "{}"'
    later = write_changed(ZOOKEEPER, tmp_path / "third.jsonl", epoch.format(1), epoch.format(3))
    assert warnings(ZOOKEEPER, later) == ()
    assert f"the epoch of the controller is 1, but 3 in {later}" in rejected(later, ZOOKEEPER)
    written = 'controller_epoch\\":{}'
    later = write_changed(ZOOKEEPER, tmp_path / "third.jsonl", written.format(1), written.format(3))
    nodes = [line for line in LATER.read_text().splitlines(keepends=True) if '"/controller_epoch"' not in line]
    part = tmp_path / "part.jsonl"
    part.write_text("".join(nodes))  # what the epoch is then, it does not say
    assert "the epoch of the controller that wrote pairs-0 is 1, but 3 in" in rejected(later, part)


def test_two_clusters_are_rejected(tmp_path: Path) -> None:
    other = write_changed(LATER, tmp_path / "other.jsonl", CLUSTER, "AAAAAAAAAAAAAAAAAAAAAA")
    assert f"belongs to cluster AAAAAAAAAAAAAAAAAAAAAA, but {ZOOKEEPER} to cluster {CLUSTER}. Give" in rejected(
        ZOOKEEPER, other
    )
    shell = SAMPLES / "formats" / "zookeeper-cli.txt"
    query = 'get /cluster/id\n{{"version":"1","id":"{}"}}\n'
    one, two = (tmp_path / f"{name}.txt" for name in "ab")
    for file in (one, two):
        file.write_text(shell.read_text() + query.format(file.stem * 22))
    assert f"belongs to cluster {'b' * 22}, but {one} to cluster {'a' * 22}" in rejected(one, two)
    assert warnings(one, one) == warnings(shell, shell)
    assert f"shows no broker and no topic that {ZOOKEEPER} shows. Give snapshots of one" in rejected(ZOOKEEPER, KRAFT)


def test_describes_of_two_clusters_are_rejected(tmp_path: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    describe(one, "orders", "1,2", "A" * 22)
    assert warnings(one, describe(two, "orders", "3,4", "A" * 22)) == ()
    assert warnings(one, describe(two, "orders", "3,4")) == ()
    assert "no broker and no topic" in rejected(one, describe(two, "orders", "3,4", "B" * 22))
    assert "no broker and no topic" in rejected(one, describe(two, "audit", "3,4"))
    warning = f"{two}: shows no topic that {one} shows. Do they belong to one cluster?"
    assert warnings(one, describe(two, "audit", "2,3")) == (warning,)
    assert warnings(one, describe(two, "orders", "1,2", "B" * 22)) == (warning,)


def test_a_describe_after_a_dump_keeps_its_epochs() -> None:
    """A describe shows none; nothing happened between these two."""
    states = [
        get_final_state(run_replay(ReplayRequest([str(one) for one in sources])).simulation)
        for sources in ((LATER, DESCRIBED),)
    ]
    dump = {
        (row["topic"], row["partition"]): row
        for row in get_final_state(run_replay(ReplayRequest([str(ZOOKEEPER), str(LATER)])).simulation).partitions
    }
    for row in states[0].partitions:
        known = dump[row["topic"], row["partition"]]
        assert (row["leader"], row["leader_epoch"]) == (known["leader"], known["leader_epoch"])
    assert states[0].controller_epoch > 0
