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
from tests.unit.planning.plan_models import model_with, proposal_with
from tests.unit.planning.small_clusters import cluster, clusters, lists_of
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment, model_of
from udfs.planning.plan_maker import make_plan
from udfs.planning.plan_metrics import Effort, balance, metrics, state_of
from udfs.planning.plan_request import PlanRequest

pytestmark = pytest.mark.slow

EFFORT = Effort()


def unchanged(cluster_model: ClusterModel) -> ProposedAssignment:
    return ProposedAssignment(
        cluster_model.offsets, cluster_model.replicas, np.full(cluster_model.partitions, -1, dtype=np.int16), ()
    )


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
    """leads: (leader, successor or -1, weight) of each partition."""
    most = []
    for down in brokers:
        loads: Counter[int] = Counter()
        for leader, successor, weight in leads:
            loads[successor if leader == down else leader] += weight  # type: ignore[assignment]
        values = [loads[broker] for broker in brokers if broker != down]
        if values and sum(values):
            most.append(max(values) * len(values) / sum(values))
    return max(most, default=None)


@given(clusters(topics=2))
@settings(max_examples=60)
def test_balance_as_counted_anew(cluster_model: ClusterModel) -> None:
    counted = np.flatnonzero(cluster_model.live & ~cluster_model.draining).tolist()
    held: dict[str, Counter[int]] = defaultdict(Counter)
    leads = []
    for row, replicas in enumerate(lists_of(cluster_model)):
        lives = [bool(cluster_model.live[broker]) for broker in replicas]
        for broker in replicas:
            held["replicas"][broker] += 1
            held["size_bytes"][broker] += cluster_model.size[row]
        if lives[0]:
            held["leaders"][replicas[0]] += 1
            held["bytes_out_per_s"][replicas[0]] += cluster_model.rate_out[row]
            successor = replicas[1] if len(replicas) > 1 and lives[1] else -1
            leads.append((replicas[0], successor, float(cluster_model.rate_out[row])))
    found = balance(cluster_model)
    assert found["brokers"] == len(counted)
    for name, per in held.items():
        assert close(found[name], spread(per, counted)), name
    for name, weighted in (("leaders", False), ("bytes_out", True)):
        weights = [(leader, successor, weight if weighted else 1.0) for leader, successor, weight in leads]
        wanted = worst(weights, counted)
        assert found[f"worst_survivor_{name}"] == (None if wanted is None else pytest.approx(wanted, abs=1e-6))


@given(clusters())
@settings(max_examples=30)
def test_losses_as_enumerated(cluster_model: ClusterModel) -> None:
    found = state_of(cluster_model, EFFORT)["durability"]
    draining_and_empty = cluster_model.draining & (
        np.bincount(cluster_model.replicas, minlength=cluster_model.brokers) == 0
    )
    live = np.flatnonzero(cluster_model.live & ~draining_and_empty).tolist()
    sets = {frozenset(b for b in replicas if cluster_model.live[b]) for replicas in lists_of(cluster_model)} - {
        frozenset()
    }
    if not live:
        return
    assert found["copysets"] == len(sets)
    for k, chance in found["loss_probability"].items():
        failures = list(combinations(live, int(k)))
        lost = sum(any(copyset <= set(down) for copyset in sets) for down in failures)
        assert chance == pytest.approx(lost / len(failures), abs=1e-6)


def test_what_a_plan_moves() -> None:
    lists = {("a", 0): [1, 2], ("a", 1): [2, 1], ("b", 0): [1, 2]}
    cluster_model = model_with(lists, [1, 2, 3], sizes=[100, 10, 1])
    found = metrics(cluster_model, proposal_with(cluster_model, {("a", 0): [3, 1], ("b", 0): [2, 1]}), EFFORT)
    assert list(found) == ["moves", "bytes_to_copy", "lists_changed", "leader_changes", "before", "after"]
    assert (found["moves"], found["bytes_to_copy"], found["lists_changed"], found["leader_changes"]) == (1, 100, 2, 2)
    assert found["before"]["balance"]["replicas"]["min_over_mean"] == 0
    assert found["after"]["balance"]["replicas"] == {"max_over_mean": 1.5, "min_over_mean": 0.5, "cv": 0.408248}
    nothing = metrics(cluster_model, unchanged(cluster_model), EFFORT)
    assert nothing["before"] == nothing["after"]
    json.dumps(found, allow_nan=False)


def test_loads_that_nobody_knows_are_null() -> None:
    cluster_model = model_with({("a", 0): [1, 2]}, [1, 2])
    found = state_of(cluster_model, EFFORT)
    assert found["balance"]["size_bytes"] == dict.fromkeys(("max_over_mean", "min_over_mean", "cv"))
    assert found["balance"]["worst_survivor_bytes_out"] is None
    assert found["failures"]["broker"]["worst_survivor_bytes_out_ratio"] is None
    assert found["headroom"]["broker"]["bytes_out_per_s"] is None
    assert metrics(cluster_model, unchanged(cluster_model), EFFORT)["bytes_to_copy"] is None


def test_a_drained_broker_is_switched_off() -> None:
    cluster_model = replace(
        cluster([[0, 1], [1, 2], [2, 0]], 4, draining=[0]), draining=np.array([True, False, False, False])
    )
    after = cluster_model.placed(cluster_model.offsets, np.array([3, 1, 1, 2, 2, 3], dtype=np.int32))
    before, then = state_of(cluster_model, EFFORT), state_of(after, EFFORT)
    assert (before["balance"]["brokers"], then["balance"]["brokers"]) == (3, 3)
    assert (before["failures"]["live_brokers"], then["failures"]["live_brokers"]) == (4, 3)
    assert then["durability"]["loss_probability"] == {"1": 0.0, "2": 1.0}


def test_pairs_are_left_out_where_they_are_too_many() -> None:
    cluster_model = cluster([[0, 1], [1, 2]], 3)
    assert state_of(cluster_model, EFFORT)["failures"]["pair"] is not None
    assert state_of(cluster_model, Effort(max_pairs=2))["failures"]["pair"] is None


@pytest.mark.parametrize("model", [cluster([], 0), cluster([], 2), cluster([[0]], 1), cluster([[0]], 1, down=[0])])
def test_odd_clusters(cluster_model: ClusterModel) -> None:
    found = state_of(cluster_model, EFFORT)
    assert found["balance"]["worst_survivor_leaders"] is None
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(("goal", "removed"), [("failover", ()), ("drain", (3, 7)), ("expand", ())])
def test_as_the_judge_has_it(tmp_path: Path, goal: str, removed: tuple[int, ...]) -> None:
    made = judge.model(5, removed=removed)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(made))
    snapshot = load_snapshot(find_source(str(path)))
    cluster_model = model_of(snapshot.cluster_id, snapshot.brokers, snapshot.partitions, snapshot.topics)
    proposal = make_plan(cluster_model, PlanRequest(goal))
    after = cluster_model.placed(proposal.offsets, proposal.replicas)
    entries = [
        {"topic": cluster_model.topic_names[cluster_model.topic[row]], "partition": int(cluster_model.partition[row])}
        | {"replicas": cluster_model.ids(replicas)}
        for row, replicas in enumerate(lists_of(after))
    ]
    found = metrics(cluster_model, proposal, EFFORT)
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
