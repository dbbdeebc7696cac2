"""Drains wave by wave, the night after another one, and next steps that change something: as a person sees them."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from tests.unit.planning.plan_commands import CommandResult

BROKERS = 12
MIN_ISR = 2


def write_cluster(folder: Path, racks: Sequence[str], factor: int = 3, lagging: float = 0.0) -> dict[int, list[int]]:
    """Write brokers 0 to 11 in racks in turn, with 60 partitions over these; return the ISR of each."""
    rng, isrs = Random(4), {}
    lines = [f"Topic: t\tPartitionCount: 60\tReplicationFactor: {factor}\tConfigs: min.insync.replicas={MIN_ISR}"]
    rack = {broker: racks[broker % len(racks)] for broker in range(BROKERS)}
    for p in range(60):
        replicas: list[int] = []
        for i in range(factor):
            name = racks[(p + i) % len(racks)]
            replicas.append(rng.choice([b for b in rack if rack[b] == name and b not in replicas]))
        isr = [b for b in replicas if rng.random() >= lagging] or replicas[:1]
        isrs[p] = isr
        ids, synced = (",".join(map(str, one)) for one in (replicas, isr))
        lines.append(f"\tTopic: t\tPartition: {p}\tLeader: {isr[0]}\tReplicas: {ids}\tIsr: {synced}")
    folder.mkdir()
    (folder / "topics.txt").write_text("\n".join(lines) + "\n")
    rows = [f"{broker}  h{broker}  9092  {name}  unfenced  broker" for broker, name in rack.items()]
    (folder / "brokers.txt").write_text("\n".join(["ID  HOST  PORT  RACK  STATE  ENDPOINT_TYPE", *rows]) + "\n")
    return isrs


def test_the_table_of_waves_counts_what_the_cluster_will_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Partitions that wait for a later wave are as they were."""
    isrs = write_cluster(tmp_path / "source", "abc", lagging=0.1)
    out = tmp_path / "plan"
    arguments = ("--goal", "drain", "--brokers", "7", "--set", "plans.wave_moves_per_broker=1", "--out", out)
    result = CommandResult(capsys, "plan", tmp_path / "source", *arguments)
    assert result.code == 0, result.err
    plan = json.loads((out / "plan.json").read_text())
    lists = {
        change["partition"]: (change["before"], {step["wave"]: step["replicas"] for step in change["steps"]})
        for change in plan["changes"]
    }
    factor = dict.fromkeys(isrs, 3)
    assert len(plan["waves"]) > 2
    for wave in plan["waves"]:
        counts = Counter[str]()
        for partition, isr in isrs.items():
            before, steps = lists.get(partition, ([], {}))
            replicas, in_sync = before, set(isr)
            for number in sorted(n for n in steps if n <= wave["wave"]):
                in_sync = {b for b in steps[number] if b in in_sync or b not in replicas}
                replicas = steps[number]
            counts["under_replicated_partitions"] += len(in_sync) < factor[partition]
            counts["under_min_isr_partitions"] += len(in_sync) < MIN_ISR
            counts["at_min_isr_partitions"] += len(in_sync) == MIN_ISR
        assert {name: wave[name] for name in counts} == dict(counts)
    table = [line.split() for line in result.out.splitlines() if line.startswith("       ")]
    printed = {int(row[0]): int(row[3]) for row in table if len(row) >= 5 and row[0].isdigit()}
    assert printed == {wave["wave"]: wave["under_replicated_partitions"] for wave in plan["waves"]}


def test_brokers_that_the_night_before_has_filled_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the first plan leaves is what the second one starts from, with brokers 13 and 14."""
    source, night1 = tmp_path / "source", tmp_path / "night1"
    write_cluster(source, "abc")
    first = ("--goal", "expand", "--add-brokers", "13:a,14:b", "--max-moves", "20", "--out", night1)
    assert CommandResult(capsys, "plan", source, *first).code == 0
    result = CommandResult(capsys, "plan", source, "--goal", "balance", "--after", night1, "--json", "-")
    left = json.loads((night1 / "plan.json").read_text())["metrics"]["after"]["balance"]
    before = json.loads(result.out)["metrics"]["before"]["balance"]
    assert left["brokers"] == BROKERS + 2
    assert before == left
    text = CommandResult(capsys, "plan", source, "--goal", "balance", "--after", night1).out
    assert "without those that --add-brokers adds" not in text


def test_nights_continue_one_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second night makes the rest of the moves of the first one's whole plan; another goal does not."""
    source, night1 = tmp_path / "source", tmp_path / "night1"
    write_cluster(source, "abc")
    goal = ("--goal", "expand", "--add-brokers", "13:a,14:b")
    moves = json.loads(CommandResult(capsys, "plan", source, *goal, "--json", "-").out)["metrics"]["moves"]
    first = CommandResult(capsys, "plan", source, *goal, "--max-moves", "20", "--out", night1)
    assert first.code == 0
    assert moves > 20
    rest = ("plan", source, "--after", night1, "--goal")
    command = shlex.split(re.search(r"next night:\n *kafka-placement (plan .*)", first.out)[1])
    options = ("--after", str(night1), "--brokers", "13,14")
    assert command[1:] == [str(source), "--goal", "expand", "--max-moves", "20", "--out", f"{night1}-next", *options]
    text = CommandResult(capsys, *command).out
    assert "next night" not in text
    assert f"copied: {moves - 20} replicas" in text
    assert re.search(rf"note: continues the plan in {night1}, which left \d+ partitions to copy: copies all of", text)
    for other in (("expand", "--brokers", "13"), ("balance",)):
        assert "note: continues" not in CommandResult(capsys, *rest, *other).out


def test_no_plan_for_leaders_follows_a_drain_that_is_not_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan for leaders would make the broker lead again that later nights go on to empty."""
    source = tmp_path / "source"
    write_cluster(source, "abc")
    drain = ("plan", source, "--goal", "drain", "--brokers", "7")
    out = ("--out", tmp_path / "plan", "--ticket", tmp_path / "ticket.md")
    part = CommandResult(capsys, *drain, "--max-moves", "2", *out).out
    then = "within its budget the plan does not empty broker 7, which apply does not cordon yet: another plan with this"
    assert f"  then: {then} goal continues:\n      kafka-placement plan" in part
    assert part.count("another plan") == 1
    assert "missed targets may need more" not in part
    missed = json.loads((tmp_path / "plan" / "plan.json").read_text())["certificate"]["missed"]
    assert any("broker 7 is not empty" in text for text in missed)
    ticket = (tmp_path / "ticket.md").read_text()
    lines = ["- budget: at most 2 replicas copied", *(f"- missed: {text}" for text in missed[:6])]
    lines += [f"- then: {then} goal continues"]
    assert {*lines} <= {*ticket.splitlines()}
    assert f"  then: {then} goal continues\n" in CommandResult(capsys, "check", tmp_path / "plan", source).out
    assert "copied: 2 replicas" in part
    assert "--goal leaders" not in part
    assert "--goal failover" not in part


@pytest.mark.parametrize(("racks", "factor"), [("ab", 3), ("abc", 4), ("ab", 5)])
def test_no_next_step_does_nothing(racks: str, factor: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rack holds two replicas of three, and its failure blocks acks=all: a repair cannot spread them further."""
    source = tmp_path / "source"
    write_cluster(source, racks, factor)
    if factor > 3:  # so that the failure of a rack blocks
        text = (source / "topics.txt").read_text()
        (source / "topics.txt").write_text(text.replace("min.insync.replicas=2", f"min.insync.replicas={factor - 1}"))
    assert "nothing is copied" in CommandResult(capsys, "plan", source, "--goal", "repair").out
    verdict = CommandResult(capsys, "what-if", source).out
    assert "osing any single rack blocks acks=all producers" in verdict
    assert "--goal repair" not in verdict
    assert "replicas are spread over racks already" in verdict


def test_a_repair_is_recommended_where_it_spreads_replicas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Some partitions have all replicas in one of two racks."""
    source = tmp_path / "source"
    write_cluster(source, "ab")
    text = (source / "topics.txt").read_text()
    lines = [line for line in text.splitlines() if "Partition: 0\t" in line]
    (source / "topics.txt").write_text(
        text.replace(lines[0], lines[0].split("\tLeader")[0] + "\tLeader: 0\tReplicas: 0,2,4\tIsr: 0,2,4")
    )
    assert "--goal repair" in CommandResult(capsys, "what-if", source).out
    assert "copied: 1 replica" in CommandResult(capsys, "plan", source, "--goal", "repair").out


def test_a_drained_broker_leaves_no_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broker 4 is live without replicas: the others lead 1.33 times the mean after a failure, which no plan changes."""
    lists = [list(one) for one in permutations((1, 2, 3, 5), 3)]
    lines = [f"Topic: t\tPartitionCount: {len(lists)}\tReplicationFactor: 3\tConfigs: min.insync.replicas=2"]
    for p, replicas in enumerate(lists):
        ids = ",".join(map(str, replicas))
        lines.append(f"\tTopic: t\tPartition: {p}\tLeader: {replicas[0]}\tReplicas: {ids}\tIsr: {ids}")
    (tmp_path / "topics.txt").write_text("\n".join(lines) + "\n")
    rows = [f"{broker}  h{broker}  9092  null  unfenced  broker" for broker in range(1, 6)]
    (tmp_path / "brokers.txt").write_text("\n".join(["ID  HOST  PORT  RACK  STATE  ENDPOINT_TYPE", *rows]) + "\n")
    text = CommandResult(capsys, "what-if", tmp_path).out
    assert text.splitlines()[1].startswith("  OK: any single broker can fail")
    assert "hot" not in text
    plan = CommandResult(capsys, "plan", tmp_path, "--goal", "failover").out
    assert "changed: 0 replica lists" in plan
