"""The bottleneck of a plan: which broker it is, why, and alternatives that are as fast as promised."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.seed_sampler import count_cases
from tests.unit.planning.plan_commands import CommandResult
from tests.unit.planning.plan_models import model_with, models_and_proposals, proposal_with
from udfs.planning.alternative_plans import find_faster_plans
from udfs.planning.bottleneck import count_forced_copies, find_bottleneck, measure_copy_loads
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.constraints import InfeasibleRequest, build_rules, find_rack_violations
from udfs.planning.plan_making import freeze_partitions, make_plan
from udfs.planning.plan_request import MIN_BYTES, PlanRequest
from udfs.planning.planned_waves import plan_waves
from udfs.planning.waves import WaveLimits

RACKS = {1: "a", 2: "b", 3: "a", 4: "b", 5: "a", 6: "b"}
GIGABYTES = 2  # of each partition
RATES = {"in_kbps": 1, "out_kbps": 1}
LIMITS = WaveLimits(50e9, 200, 50e6)


def write_cluster(folder: Path, new: dict[int, str], factor: int = 2, partitions: int = 60) -> Path:
    """Write a model of partitions over racks a and b, and of brokers without replicas."""
    old = sorted(RACKS)
    lists = [[old[(row + place) % len(old)] for place in range(factor)] for row in range(partitions)]
    brokers = [{"id": id_, "rack": rack} for id_, rack in (RACKS | new).items()]
    rows = [
        {"topic": "t", "partition": row, "replicas": replicas, "size_mb": 1000 * GIGABYTES, **RATES}
        for row, replicas in enumerate(lists)
    ]
    path = folder / "model.json"
    path.write_text(json.dumps({"name": "prod", "brokers": brokers, "partitions": rows}))
    return path


def plan(
    capsys: pytest.CaptureFixture[str], source: Path, *options: str
) -> tuple[CommandResult, dict[str, Any], dict[str, Any]]:
    """Return the result of `plan`, its JSON, and plan.json."""
    answer, out = source.parent / "answer.json", source.parent / "plan"
    result = CommandResult(capsys, "plan", source, *options, "--out", out, "--json", answer)
    assert result.code == 0, result.err
    return result, json.loads(answer.read_text()), json.loads((out / "plan.json").read_text())


def spread_of(found: dict[str, Any]) -> tuple[int, float, str | None, bool]:
    spread = found["even_spread"]
    return spread["even_brokers"], spread["even_seconds"], spread["even_rack"], spread["fills_brokers"]


def test_only_broker_of_a_rack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_cluster(tmp_path, {13: "c"})
    result, answer, stored = plan(capsys, source, "--goal", "rf", "--rf", "3")
    found = answer["bottleneck"]
    assert found == stored["bottleneck"]
    assert (found["broker"], found["direction"]) == (13, "in")
    assert (found["bytes_to_copy"], found["total_bytes"], found["share"]) == (120 * 10**9, 120 * 10**9, 1)
    assert found["seconds"] == 2400
    assert spread_of(found) == (1, 2400, "c", False)  # each of the other racks has its replica already
    assert "may hold replicas in rack c, and 60 partitions must have one there: " in found["reason"]
    assert "bottleneck: broker 13 receives 120 GB of 120 GB (100%): 40 min at 50 MB/s" in result.out
    assert "spread evenly over 1 broker in rack c, what cannot leave the rack would take at least 40 min" in result.out
    assert f"why: {found['reason']}" in result.out
    throttle, broker = sorted(answer["faster_plans"], key=lambda one: one["throttle"] is None)
    assert throttle["throttle"]["config"] == "follower.replication.throttled.rate"
    rate = throttle["throttle"]["bytes_per_s"]
    assert f"--entity-name $id --add-config follower.replication.throttled.rate={rate}" in result.out
    assert broker["options"] == {"--add-brokers": ["14:c"]}
    assert (
        "one more broker in rack c, to start first, here with the id 14: about 20 min of copying instead of 40 min"
        in result.out
    )


def test_copies_that_cannot_leave_a_rack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result, answer, _ = plan(capsys, write_cluster(tmp_path, {13: "c", 14: "c"}), "--goal", "rf", "--rf", "3")
    assert spread_of(answer["bottleneck"]) == (2, 1200, "c", False)
    assert (
        "spread evenly over 2 brokers in rack c, what cannot leave the rack would take at least 20 min"
    ) in result.out


@given(models_and_proposals())
@settings(max_examples=count_cases(60))
def test_no_bound_exceeds_the_plan(case: tuple[ClusterModel, ProposedAssignment]) -> None:
    execution = plan_waves(*case, WaveLimits(throttle_bytes_per_s=0.01))
    model = case[0]
    live = model.ids(np.flatnonzero(model.live & ~model.draining))
    expand = [PlanRequest("expand", brokers=tuple(live[-2:]))] if live else []
    for request in (PlanRequest("repair"), *expand):
        found = find_bottleneck(execution, request)
        if found is not None:
            least = found.total_bytes / model.brokers / 0.01
            assert least - 0.1 <= found.even_spread.even_seconds <= found.seconds + 0.1


@pytest.mark.parametrize(
    ("new", "spread", "text"),
    [
        ({13: "a", 14: "b", 15: "b"}, (1, 600, "a", True), "spread evenly over 1 broker to fill in rack a"),
        ({13: "a", 14: "a"}, (2, 480, None, True), "spread evenly over 2 brokers to fill, these bytes"),
        ({13: "a"}, (1, 600, None, True), "spread evenly over 1 broker to fill, these bytes"),
    ],
)
def test_only_brokers_to_fill_share_the_copies_of_expand(
    new: dict[int, str],
    spread: tuple[int, float, str | None, bool],
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = write_cluster(tmp_path, new)
    result, answer, _ = plan(capsys, source, "--goal", "expand", "--objective", "min-moves")
    assert spread_of(answer["bottleneck"]) == spread
    assert text in result.out


@pytest.mark.parametrize(
    ("new", "options"),
    [
        ({13: "c"}, ["--goal", "rf", "--rf", "3"]),
        ({13: "c"}, ["--goal", "expand", "--brokers", "13"]),
        ({13: "a"}, ["--goal", "expand"]),
        ({13: "a"}, ["--goal", "replace", "--replace", "1=13"]),
        ({}, ["--goal", "replace", "--replace", "1=3"]),
    ],
)
def test_alternatives_are_as_fast_as_promised(
    new: dict[int, str], options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The printed command of each other plan gives a plan of the promised duration."""
    source = write_cluster(tmp_path, new, partitions=400)
    result, answer, _ = plan(capsys, source, *options)
    assert answer["bottleneck"]["broker"] == (13 if new else 3)
    before = sum(wave["seconds"] for wave in answer["waves"])
    commands = [line.strip() for line in result.out.splitlines() if "/plan-faster" in line]
    folders = [words[words.index("--out") + 1] for words in map(shlex.split, commands)]
    assert len({*folders, str(tmp_path / "plan")}) == len(commands) + 1  # no command overwrites another plan
    others = [one for one in answer["faster_plans"] if one["throttle"] is None]
    assert len(commands) == len(others)
    if not new:  # broker 3 alone takes over, or 3 and 5 together
        assert [one["options"]["--goal"] for one in others] == [["drain"]]
        assert others[0]["seconds"] == pytest.approx(before / 2, rel=0.1)
    for other, command in zip(others, commands, strict=True):
        again = tmp_path / "again.json"
        assert CommandResult(capsys, *shlex.split(command)[1:], "--json", again).code == 0
        made = json.loads(again.read_text())
        assert sum(wave["seconds"] for wave in made["waves"]) == pytest.approx(other["seconds"], abs=0.1)
        assert other["seconds"] <= 0.9 * before
        assert made["metrics"]["bytes_to_copy"] == other["bytes_to_copy"]
        assert made["metrics"]["after"]["balance"]["size_bytes"]["max_over_mean"] == pytest.approx(
            other["disk_max_over_mean"], abs=1e-3
        )


@pytest.mark.parametrize(
    "request_", [PlanRequest("repair"), PlanRequest("replace", replacements=((1, 13),))], ids=["repair", "replace"]
)
def test_a_repair_without_the_new_broker_is_offered(request_: PlanRequest) -> None:
    """Broker 1 is down: the new broker alone takes its replicas, or brokers 3 and 5 of its rack do."""
    lists = {("t", row): [1 + 2 * (row % 3), 2 + 2 * (row // 3 % 3)] for row in range(300)}
    model = model_with(lists, [*RACKS, 13], [*RACKS.values(), "a"], [2e9] * 300, down=[1])
    execution = plan_waves(model, make_plan(model, request_), LIMITS)
    bottleneck = find_bottleneck(execution, request_)
    assert bottleneck is not None
    found = find_faster_plans(execution, request_, bottleneck)
    (repair,) = (one for one in found if one.options.get("--goal") == ("repair",))
    assert repair.options["--exclude-brokers"] == ("13",)
    assert repair.options["--replace"] == ()
    again = PlanRequest("repair", exclude_brokers=(13,))
    expected = plan_waves(model, make_plan(model, again), LIMITS)
    assert repair.seconds == expected.seconds == pytest.approx(execution.seconds / 2, rel=0.1)


def test_replacement_takes_over_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, answer, _ = plan(capsys, write_cluster(tmp_path, {13: "a"}), "--goal", "replace", "--replace", "1=13")
    assert answer["bottleneck"]["reason"] == "it takes over the replicas of broker 1, and no other broker does"


def test_broker_that_is_filled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_cluster(tmp_path, {13: "a", 14: "b"})
    _, answer, _ = plan(capsys, source, "--goal", "expand", "--objective", "min-moves")
    found = answer["bottleneck"]
    other = {13: 14, 14: 13}[found["broker"]]
    assert found["reason"] == f"it has no replicas yet, and will hold 15 of 120 after the plan, as {other} will"
    assert sorted(found["busy_brokers"]) == [13, 14]


def test_leader_sends_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_cluster(tmp_path, {}, factor=1)
    result, answer, _ = plan(capsys, source, "--goal", "drain", "--brokers", "6", "--objective", "min-bytes")
    found = answer["bottleneck"]
    assert (found["broker"], found["direction"], found["bytes_to_copy"]) == (6, "out", 20 * 10**9)
    assert (
        found["reason"]
        == "it is to be emptied, and it leads 10 of 10 partitions to copy, and Kafka copies from leaders"
    )
    assert "bottleneck: broker 6 sends 20 GB of 20 GB (100%): 7 min" in result.out
    assert spread_of(found)[2:] == (None, False)
    assert "spread evenly over 6 brokers, these bytes would take at least 67 s" in result.out
    assert answer["faster_plans"][0]["throttle"]["config"] == "leader.replication.throttled.rate"


def test_spread_copies_have_no_bottleneck(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_cluster(tmp_path, {})
    result, answer, _ = plan(capsys, source, "--goal", "rf", "--rf", "3")
    assert answer["metrics"]["bytes_to_copy"] == 120 * 10**9
    assert (answer["bottleneck"], answer["faster_plans"]) == (None, [])
    assert "bottleneck" not in result.out


LISTS = {("t", row): [1, 2] for row in range(4)}


@pytest.mark.parametrize(
    ("sizes", "is_found"), [([1e9] * 4, True), ([1e8] * 4, False), (None, False)], ids=["long", "short", "unknown size"]
)
def test_only_long_copies_of_known_size_are_explained(sizes: list[float] | None, is_found: bool) -> None:
    model = model_with(LISTS, [1, 2, 3, 4], sizes=sizes)
    proposal = proposal_with(model, {key: [1, 3] for key in LISTS})
    assert (find_bottleneck(plan_waves(model, proposal, LIMITS), PlanRequest("balance")) is not None) == is_found


def test_waves_that_wait_for_each_other() -> None:
    """Broker 3 receives four times 10 GB; only then may broker 4 receive the last four of its eight times 5 GB."""
    targets = {("t", row): 3 if row < 4 else 4 for row in range(12)}
    sizes = [10e9 if target == 3 else 5e9 for target in targets.values()]
    lists = {("t", row): [1 + row % 2, 5 + row % 4] for row in range(12)}
    model = model_with(lists, range(1, 13), sizes=sizes)
    proposal = proposal_with(model, {key: [*one, targets[key]] for key, one in lists.items()})
    request = PlanRequest("balance", max_moves=12)  # a budget: no other plans

    def list_alternatives(moves_per_broker: int) -> list[tuple[str, float]]:
        execution = plan_waves(model, proposal, WaveLimits(moves_per_broker=moves_per_broker))
        bottleneck = find_bottleneck(execution, request)
        assert bottleneck is not None
        found = find_faster_plans(execution, request, bottleneck)
        return [(one.description, one.seconds) for one in found if one.throttle is None]

    expected = ("1 wave instead of 8, in which brokers do not wait for each other", 800.0)
    assert list_alternatives(1) == [expected]
    assert list_alternatives(12) == []


@given(models_and_proposals())
@settings(max_examples=count_cases(60))
def test_loads_equal_an_independent_count(case: tuple[ClusterModel, ProposedAssignment]) -> None:
    model, proposal = case
    execution = plan_waves(model, proposal, WaveLimits(100, 2, 10.0))
    waves, loads = execution.waves, measure_copy_loads(model, execution.waves)
    received, sent = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    steps = (values.tolist() for values in (waves.wave, waves.row, waves.added, waves.source))
    for wave, row, to, source in zip(*steps, strict=True):
        if to >= 0:
            received[wave, to] += int(model.size[row])
            sent[wave, source] += int(model.size[row])
    for load, expected in ((loads.received, received), (loads.sent, sent)):
        assert {key: value for key, value in np.ndenumerate(load) if value} == {k: v for k, v in expected.items() if v}
    rate, rounding = np.full(model.brokers, 10.0), 0.06 * waves.waves
    assert loads.estimate_seconds(rate, rate) == pytest.approx(execution.seconds, abs=rounding)
    assert loads.estimate_seconds(2 * rate, 2 * rate) == pytest.approx(execution.seconds / 2, abs=rounding)


@given(models_and_proposals())
@settings(max_examples=count_cases(60))
def test_no_legal_plan_copies_less_into_a_rack(case: tuple[ClusterModel, ProposedAssignment]) -> None:
    model = freeze_partitions(case[0], PlanRequest("repair"))
    rules = build_rules(model, PlanRequest("repair"))
    try:
        proposal = make_plan(model, PlanRequest("repair", objective=MIN_BYTES))
    except InfeasibleRequest:
        return
    row = np.repeat(np.arange(model.partitions), np.diff(proposal.offsets))
    new = model.find_copied(proposal)
    violates = find_rack_violations(model.with_lists(proposal.offsets, proposal.replicas), rules.rack_cap)
    for rack in set(model.rack.tolist()):
        copied = np.bincount(row[new & (model.rack[proposal.replicas] == rack)], minlength=model.partitions)
        forced = count_forced_copies(model, rules, rack)
        assert (forced <= copied)[~violates & ~rules.fixed].all()
