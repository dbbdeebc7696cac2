"""Topics that one broker leads are named, largest first, by `hotspots` and by plans that leave them as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines import cli
from udfs.hotspots.single_leader_topics import SingleLeaderTopic, describe_single_leaders, find_single_leader_topics


def test_topics_with_several_led_partitions_and_one_leader() -> None:
    names = ["even", "one", "hot", "hotter", "offline", "empty"]
    topic = np.array([0, 0, 1, 2, 2, 2, 3, 3, 3, 4, 4])
    leader = np.array([1, 2, 5, 7, -1, 7, 2**31 - 1, 2**31 - 1, 2**31 - 1, -1, -1])
    assert find_single_leader_topics(topic, leader, names) == (
        SingleLeaderTopic("hotter", 2**31 - 1, 3),
        SingleLeaderTopic("hot", 7, 2),
    )
    assert find_single_leader_topics(topic[:0], leader[:0], []) == ()


def test_at_most_three_are_named() -> None:
    topics = [SingleLeaderTopic(name, 1, 9) for name in "abcde"]
    assert describe_single_leaders(topics[:1]) == "1 topic is led by one broker: a (9 partitions, broker 1)"
    assert describe_single_leaders(topics) == (
        "5 topics are led by one broker each: a (9 partitions, broker 1), b (9, broker 1), c (9, broker 1) and 2 more"
    )


def write_cluster(file: Path, brokers: int) -> Path:
    """Topic `pinned` is on the same brokers with all its partitions, and `spread` on all of them in turn."""
    lists = [("pinned", p, 1, 2 if brokers > 1 else 1) for p in range(6)]
    lists += [("spread", p, 1 + p % brokers, 1 + (p + 1) % brokers) for p in range(12)]
    lines = (
        f"\tTopic: {topic}\tPartition: {p}\tLeader: {a}\tReplicas: {ids}\tIsr: {ids}\n"
        for topic, p, a, b in lists
        for ids in [f"{a},{b}" if a != b else str(a)]
    )
    file.write_text("".join(lines))
    return file


def test_commands_name_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(write_cluster(tmp_path / "d.txt", 4))
    assert cli.main(["hotspots", source]) == 0
    pinned = "1 topic is led by one broker: pinned (6 partitions, broker 1)"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Not chance: broker 1 leads")
    assert lines[1:5] == [
        "An election changes nothing: each preferred leader that is in sync leads already.",
        f"next: even out leaders: kafka-placement plan {source} --goal leaders --out plan-leaders",
        f"{pinned}.",
        f"next: spread them: kafka-placement plan {source} --goal leaders --per-topic --out plan-topics",
    ]
    assert cli.main(["plan", source, "--goal", "failover", "--keep-leaders"]) == 0
    again = f"kafka-placement plan {source} --goal leaders --per-topic"
    assert f"  not addressed: {pinned}; to spread them:\n      {again}\n" in capsys.readouterr().out
    assert cli.main(["plan", source, "--goal", "leaders", "--per-topic"]) == 0
    assert "not addressed" not in capsys.readouterr().out


def test_one_broker_leads_everything_without_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["hotspots", str(write_cluster(tmp_path / "d.txt", 1))]) == 0
    assert "led by one broker" not in capsys.readouterr().out


def test_a_plan_names_brokers_that_will_lead_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Broker 3 is down and is the preferred leader of no partition; broker 4 takes its positions.
    lines = (
        f"\tTopic: a\tPartition: {p}\tLeader: {1 + p % 2}\tReplicas: {1 + p % 2},3\tIsr: {1 + p % 2}\n"
        for p in range(9)
    )
    source = tmp_path / "d.txt"
    head = "Topic: a\tPartitionCount: 9\tReplicationFactor: 2\tConfigs: \n"
    source.write_text(head + "".join(lines))
    command = ["plan", str(source), "--goal", "replace", "--replace", "3=4", "--add-brokers", "4"]
    assert cli.main(command) == 0
    again = f"kafka-placement plan {source} --goal leaders"
    when = "once the plan is carried out, with new sources"
    expected = f"  not addressed: broker 4 will lead no partition; {when}:\n      {again}\n"
    assert expected in capsys.readouterr().out


def test_no_plan_for_leaders_where_none_can_help(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broker 4 is being added to the only partition that it could lead."""
    source = tmp_path / "d.txt"
    source.write_text(
        "Topic: a\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: \n"
        "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 4,1,2\tIsr: 1,2,4\tAdding Replicas: 4\tRemoving Replicas: 2\n"
        "\tTopic: a\tPartition: 1\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
        "\tTopic: a\tPartition: 2\tLeader: 2\tReplicas: 2,1\tIsr: 1,2\n"
    )
    for goal in ("leaders", "repair"):
        assert cli.main(["plan", str(source), "--goal", goal]) == 0
        assert "  not addressed: broker 4 will lead no partition" in capsys.readouterr().out.splitlines()
