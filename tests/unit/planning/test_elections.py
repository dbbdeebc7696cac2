"""The leaders that a plan promises, against a simulation of Kafka: reassign, then elect what election.json names."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.unit.planning.plan_commands import CommandResult, describe_line, write_describe
from tests.unit.planning.small_clusters import cluster, lists_of
from udfs.planning.elections import lead_lists

BROKERS, FAILED = 7, 6


class Kafka:
    """Partitions as [leader, replicas, in-sync replicas], under the rules of the controller."""

    def __init__(self, out_of_sync: int, failed: bool, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.partitions: dict[int, tuple[int, list[int], list[int]]] = {}
        for partition in range(120):
            width = 3 if partition % 3 else 4
            replicas = rng.choice(width + (BROKERS - 4) if partition % 2 else BROKERS, 3, replace=False).tolist()
            isr = [broker for broker in replicas if not (failed and broker == FAILED)]
            if partition < out_of_sync and len(isr) == 3:
                isr = isr[1:]
            leader = isr[-1] if partition % 5 == 0 else isr[0]
            self.partitions[partition] = (leader, replicas, isr)

    @property
    def lines(self) -> list[str]:
        """The cluster as kafka-topics --describe prints it."""
        header = "Topic: t\tPartitionCount: 120\tReplicationFactor: 3\tConfigs: "
        return [header] + [
            f"\tTopic: t\tPartition: {partition}\tLeader: {leader}\t"
            f"Replicas: {','.join(map(str, replicas))}\tIsr: {','.join(map(str, isr))}"
            for partition, (leader, replicas, isr) in self.partitions.items()
        ]

    def reassign(self, path: Path) -> None:
        for entry in json.loads(path.read_text())["partitions"]:
            leader, old, isr = self.partitions[entry["partition"]]
            new = entry["replicas"]
            isr = [broker for broker in new if broker in isr or broker not in old]
            self.partitions[entry["partition"]] = (leader if leader in isr else isr[0], new, isr)

    def elect(self, path: Path, *, may_lead: bool = False) -> None:
        """Elect the preferred leaders; none of the elections fails or, unless they `may_lead`, is needless."""
        for entry in json.loads(path.read_text())["partitions"]:
            leader, replicas, isr = self.partitions[entry["partition"]]
            assert replicas[0] in isr
            assert may_lead or replicas[0] != leader
            self.partitions[entry["partition"]] = (replicas[0], replicas, isr)

    def measure_leaders(self, brokers: set[int]) -> tuple[float, float]:
        """Return the leaders of the fullest and of the emptiest broker over the mean."""
        leads = Counter(leader for leader, _, _ in self.partitions.values())
        counts = [leads[broker] for broker in brokers]
        mean = sum(counts) / len(counts)
        return max(counts) / mean, min(counts) / mean


LEADERS = ("leaders", "failover")
GOALS = (
    *(["leaders"], ["failover"], ["drain", "--brokers", "6"], ["drain", "--brokers", "2,6"], ["repair"], ["balance"]),
    *(["leaders", "--per-topic"], ["failover", "--keep-leaders"], ["rf", "--rf", "2"], ["rf", "--rf", "4"]),
    ["drain", "--brokers", "6", "--objective", "min-bytes"],
)


@pytest.mark.parametrize(("failed", "out_of_sync"), [(True, 0), (False, 30), (True, 30)])
@pytest.mark.parametrize("goal", GOALS, ids=" ".join)
def test_plan_keeps_its_promise(
    goal: list[str], failed: bool, out_of_sync: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka = Kafka(out_of_sync, failed, seed=3)
    brokers = set(range(BROKERS)) - ({FAILED} if failed else set())
    if goal[0] == "drain":
        brokers -= {int(broker) for broker in goal[2].split(",")}
    source, out, answer = write_describe(tmp_path, *kafka.lines), tmp_path / "plan", tmp_path / "answer.json"
    result = CommandResult(capsys, "plan", source, "--goal", *goal, "--out", out, "--json", answer)
    assert result.code == 0, result.err
    found = json.loads(answer.read_text())
    first = {partition: replicas[0] for partition, (_, replicas, _) in kafka.partitions.items()}
    for when in ("before", "after"):
        if when == "after":
            kafka.reassign(out / "reassignment.json")
            kafka.elect(out / "election.json")
        leaders = found["metrics"][when]["balance"]["leaders"]
        if when == "before" and goal[0] == "drain":
            continue  # broker 2 leads still, and is in no mean
        promised = (leaders["max_over_mean"], leaders["min_over_mean"])
        assert promised == pytest.approx(kafka.measure_leaders(brokers), abs=1e-6), when
    elects = {entry["partition"] for entry in json.loads((out / "election.json").read_text())["partitions"]}
    # Plans for leaders elect all that do not lead where they should; others elect where they change that.
    meant = {p for p, (_, replicas, _) in kafka.partitions.items() if goal[0] in LEADERS or replicas[0] != first[p]}
    assert elects <= meant
    waiting = {
        partition
        for partition, (leader, replicas, _) in kafka.partitions.items()
        if leader != replicas[0] and replicas[0] in range(BROKERS - failed)
    }
    optional = out / "other-elections.json"
    others = json.loads(optional.read_text())["partitions"] if optional.exists() else []
    in_sync = {
        partition for partition in waiting if kafka.partitions[partition][1][0] in kafka.partitions[partition][2]
    }
    assert {entry["partition"] for entry in others} == in_sync - meant
    late = waiting & meant
    not_elected = json.loads((out / "plan.json").read_text())["not_elected"]
    assert found["not_elected"] == not_elected
    assert not_elected["partitions"] == len(late)
    assert not elects & late
    if late:
        assert "which is out of sync: t-" in result.err
        assert not_elected["reason"] == "the preferred leader is out of sync, so its election would fail"
    if goal == ["leaders"] and failed and not out_of_sync:
        assert any(FAILED in kafka.partitions[partition][1] for partition in elects)
    restored = {entry["partition"] for entry in json.loads((out / "rollback.json").read_text())["partitions"]}
    kafka.reassign(out / "rollback.json")
    if (returning := out / "rollback-election.json").exists():
        kafka.elect(returning, may_lead=True)
    led = {p: one.partitions[p][0] for one in (Kafka(out_of_sync, failed, seed=3),) for p in one.partitions}
    for partition in restored:  # those that were led by their preferred leader are again
        leader, replicas, _ = kafka.partitions[partition]
        assert leader == led[partition] or replicas[0] != led[partition]


@pytest.mark.parametrize(("some", "others"), [("1,2", "1,3"), ("1,3", "1,2")])
def test_leaders_in_sync_are_preferred_among_equally_good_ones(
    some: str, others: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All six are led by 1. Brokers 2 and 3 can take two each, and each is out of sync in two."""
    isr = {0: some, 1: some, 2: others, 3: others, 4: "1,2,3", 5: "1,2,3"}
    lines = [describe_line(partition, "1,2,3").replace("Isr: 1,2,3", f"Isr: {ids}") for partition, ids in isr.items()]
    out, answer = tmp_path / "plan", tmp_path / "answer.json"
    source = write_describe(tmp_path, *lines)
    result = CommandResult(capsys, "plan", source, "--goal", "leaders", "--out", out, "--json", answer)
    found = json.loads(answer.read_text())
    assert (found["certificate"]["changes"], found["not_elected"]["partitions"]) == (4, 0), result.err
    assert found["metrics"]["after"]["balance"]["leaders"]["max_over_mean"] == 1
    planned = json.loads((out / "reassignment.json").read_text())["partitions"]
    assert all(str(entry["replicas"][0]) in isr[entry["partition"]] for entry in planned)


def test_only_possible_leader_out_of_sync_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [describe_line(partition, "1,2").replace("Isr: 1,2", "Isr: 1") for partition in (0, 1)]
    out, answer = tmp_path / "plan", tmp_path / "answer.json"
    source = write_describe(tmp_path, *lines)
    result = CommandResult(capsys, "plan", source, "--goal", "leaders", "--out", out, "--json", answer)
    found = json.loads(answer.read_text())
    balance = found["metrics"]["after"]["balance"]
    assert found["not_elected"]["partitions"] == 1
    assert balance["preferred_leaders"]["max_over_mean"] == 1
    assert balance["leaders"]["max_over_mean"] == 2
    assert "1 partition cannot be led by its preferred leader now, which is out of sync: t-" in result.err


def test_leader_comes_first() -> None:
    model = cluster([[0, 1, 2], [0, 1, 2], [0, 2]], 3, down=[2])
    assert lists_of(lead_lists(model, np.array([1, 0, -1]))) == [[1, 0, 2], [0, 1, 2], [2, 0]]
