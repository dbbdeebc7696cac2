"""Before and after a plan: as counted anew from the lists, and as the tables of the failure stages have it."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from pipelines.ingest.snapshot import load_snapshot
from pipelines.ingest.sources import find_source
from tests.unit.planning import judge
from tests.unit.planning.plan_models import draft_with, problem_with
from tests.unit.planning.small_clusters import cluster, clusters, lists_of
from udfs.planning.cluster_model import Draft, Problem, problem_of
from udfs.planning.plan_maker import make_plan
from udfs.planning.plan_metrics import (
    Effort,
    balance,
    metrics,
    state_of,
)
from udfs.planning.plan_request import Wishes

pytestmark = pytest.mark.slow

EFFORT = Effort()


def unchanged(problem: Problem) -> Draft:
    return Draft(problem.offsets, problem.replicas, np.full(problem.partitions, -1, dtype=np.int16), ())


def spread(per: Counter[int], brokers: list[int]) -> dict[str, float] | None:
    values = [per.get(broker, 0) for broker in brokers]
    mean = sum(values) / len(values) if values else 0
    if not mean:
        return None
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return {"max_over_mean": max(values) / mean, "min_over_mean": min(values) / mean, "cv": deviation / mean}


def close(found: dict[str, Any], wanted: dict[str, float] | None) -> bool:
    if wanted is None:
        return set(found.values()) == {None}
    return all(found[name] == pytest.approx(value, abs=1e-6) for name, value in wanted.items())


def worst(leads: list[tuple[int, int, float]], brokers: list[int]) -> float | None:
    """leads: (leader, heir or -1, weight) of each partition."""
    most = []
    for dead in brokers:
        loads: Counter[int] = Counter()
        for leader, heir, weight in leads:
            loads[heir if leader == dead else leader] += weight  # type: ignore[assignment]
        values = [loads[broker] for broker in brokers if broker != dead]
        if values and sum(values):
            most.append(max(values) * len(values) / sum(values))
    return max(most, default=None)


@given(clusters(topics=2))
@settings(max_examples=60)
def test_balance_as_counted_anew(problem: Problem) -> None:
    counted = np.flatnonzero(problem.living & ~problem.draining).tolist()
    held: dict[str, Counter[int]] = defaultdict(Counter)
    leads = []
    for row, replicas in enumerate(lists_of(problem)):
        lives = [bool(problem.living[broker]) for broker in replicas]
        for broker in replicas:
            held["replicas"][broker] += 1
            held["size_bytes"][broker] += problem.size[row]
        if lives[0]:
            held["leaders"][replicas[0]] += 1
            held["bytes_out_per_s"][replicas[0]] += problem.rate_out[row]
            heir = replicas[1] if len(replicas) > 1 and lives[1] else -1
            leads.append((replicas[0], heir, float(problem.rate_out[row])))
    found = balance(problem)
    assert found["brokers"] == len(counted)
    for name, per in held.items():
        assert close(found[name], spread(per, counted)), name
    for name, weighted in (("leaders", False), ("bytes_out", True)):
        weights = [(leader, heir, weight if weighted else 1.0) for leader, heir, weight in leads]
        wanted = worst(weights, counted)
        assert found[f"worst_survivor_{name}"] == (None if wanted is None else pytest.approx(wanted, abs=1e-6))


@given(clusters())
@settings(max_examples=30)
def test_losses_as_enumerated(problem: Problem) -> None:
    found = state_of(problem, EFFORT)["durability"]
    draining_and_empty = problem.draining & (np.bincount(problem.replicas, minlength=problem.brokers) == 0)
    living = np.flatnonzero(problem.living & ~draining_and_empty).tolist()
    sets = {frozenset(b for b in replicas if problem.living[b]) for replicas in lists_of(problem)} - {frozenset()}
    if not living:
        return
    assert found["copysets"] == len(sets)
    for k, chance in found["loss_probability"].items():
        deaths = list(combinations(living, int(k)))
        lost = sum(any(copyset <= set(dead) for copyset in sets) for dead in deaths)
        assert chance == pytest.approx(lost / len(deaths), abs=1e-6)


def test_what_a_plan_moves() -> None:
    lists = {("a", 0): [1, 2], ("a", 1): [2, 1], ("b", 0): [1, 2]}
    problem = problem_with(lists, [1, 2, 3], sizes=[100, 10, 1])
    found = metrics(problem, draft_with(problem, {("a", 0): [3, 1], ("b", 0): [2, 1]}), EFFORT)
    assert list(found) == ["moves", "bytes_to_copy", "lists_changed", "leader_changes", "before", "after"]
    assert (found["moves"], found["bytes_to_copy"], found["lists_changed"], found["leader_changes"]) == (1, 100, 2, 2)
    assert found["before"]["balance"]["replicas"]["min_over_mean"] == 0
    assert found["after"]["balance"]["replicas"] == {"max_over_mean": 1.5, "min_over_mean": 0.5, "cv": 0.408248}
    nothing = metrics(problem, unchanged(problem), EFFORT)
    assert nothing["before"] == nothing["after"]
    json.dumps(found, allow_nan=False)


def test_loads_that_nobody_knows_are_null() -> None:
    problem = problem_with({("a", 0): [1, 2]}, [1, 2])
    found = state_of(problem, EFFORT)
    assert found["balance"]["size_bytes"] == dict.fromkeys(("max_over_mean", "min_over_mean", "cv"))
    assert found["balance"]["worst_survivor_bytes_out"] is None
    assert found["failures"]["broker"]["bytes_out_worst_over_mean"] is None
    assert found["headroom"]["broker"]["bytes_out_per_s"] is None
    assert metrics(problem, unchanged(problem), EFFORT)["bytes_to_copy"] is None


def test_a_drained_broker_is_switched_off() -> None:
    problem = replace(
        cluster([[0, 1], [1, 2], [2, 0]], 4, draining=[0]), draining=np.array([True, False, False, False])
    )
    after = problem.placed(problem.offsets, np.array([3, 1, 1, 2, 2, 3], dtype=np.int32))
    before, then = state_of(problem, EFFORT), state_of(after, EFFORT)
    assert (before["balance"]["brokers"], then["balance"]["brokers"]) == (3, 3)
    assert (before["failures"]["living_brokers"], then["failures"]["living_brokers"]) == (4, 3)
    assert then["durability"]["loss_probability"] == {"1": 0.0, "2": 1.0}


def test_pairs_are_left_out_where_they_are_too_many() -> None:
    problem = cluster([[0, 1], [1, 2]], 3)
    assert state_of(problem, EFFORT)["failures"]["pair"] is not None
    assert state_of(problem, Effort(most_pairs=2))["failures"]["pair"] is None


@pytest.mark.parametrize("problem", [cluster([], 0), cluster([], 2), cluster([[0]], 1), cluster([[0]], 1, dead=[0])])
def test_odd_clusters(problem: Problem) -> None:
    found = state_of(problem, EFFORT)
    assert found["balance"]["worst_survivor_leaders"] is None
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(("goal", "removed"), [("failover", ()), ("drain", (3, 7)), ("expand", ())])
def test_as_the_judge_has_it(tmp_path: Path, goal: str, removed: tuple[int, ...]) -> None:
    made = judge.model(5, removed=removed)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(made))
    snapshot = load_snapshot(find_source(str(path)))
    problem = problem_of(snapshot.cluster_id, snapshot.brokers, snapshot.partitions, snapshot.topics)
    draft = make_plan(problem, Wishes(goal))
    after = problem.placed(draft.offsets, draft.replicas)
    entries = [
        {"topic": problem.topic_names[problem.topic[row]], "partition": int(problem.partition[row])}
        | {"replicas": problem.ids(replicas)}
        for row, replicas in enumerate(lists_of(after))
    ]
    found = metrics(problem, draft, EFFORT)
    for when, wanted in (("before", judge.judge(made)), ("after", judge.judge(made, {"partitions": entries}))):
        state = found[when]["balance"]
        for name in ("replicas", "leaders", "size_bytes", "bytes_in_per_s", "bytes_out_per_s"):
            rounded = {part: round(value, 4) for part, value in state[name].items()}
            assert rounded == pytest.approx(wanted[name], abs=1.1e-4), (when, name)
        for name in ("worst_survivor_leaders", "worst_survivor_bytes_out", "rack_violations"):
            assert state[name] == pytest.approx(wanted[name], abs=6e-5), (when, name)
    assert (found["moves"], found["leader_changes"]) == (wanted["moves"], wanted["leader_changes"])
    assert found["bytes_to_copy"] == pytest.approx(wanted["megabytes"] * 1e6, abs=1e3 * max(1, found["moves"]))
    assert wanted["bad"] == 0
