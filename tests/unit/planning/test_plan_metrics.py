"""Metrics before and after a plan, compared with independent counts."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from tests.seed_sampler import count_cases
from tests.unit.planning import judge
from tests.unit.planning.plan_models import measure, model_with, proposal_with
from tests.unit.planning.small_clusters import cluster, clusters, lists_of
from udfs.json_answers import to_json
from udfs.network.traffic_rows import CrossZonePrices, CrossZoneTraffic, NetworkAssumptions
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment, build_model
from udfs.planning.elections import find_current_leaders, lead_lists
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_metrics import LoadSpread, MetricOptions, measure_balance, measure_state
from udfs.planning.plan_request import PlanRequest

pytestmark = pytest.mark.slow

OPTIONS = MetricOptions()


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


def close(found: LoadSpread, expected: dict[str, float] | None) -> bool:
    if expected is None:
        return found == LoadSpread()
    return all(getattr(found, name) == pytest.approx(value, abs=1e-6) for name, value in expected.items())


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
@settings(max_examples=count_cases(60))
def test_balance_equals_an_independent_count(cluster_model: ClusterModel) -> None:
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
    leader = find_current_leaders(cluster_model)
    found = measure_balance(cluster_model, lead_lists(cluster_model, leader), leader)
    assert found.brokers == len(counted)
    for name, per in held.items():
        assert close(getattr(found, name), spread(per, counted)), name
    for ratio, weighted in ((found.worst_survivor_ratio, False), (found.worst_survivor_bytes_out_ratio, True)):
        weights = [(leader, successor, weight if weighted else 1.0) for leader, successor, weight in leads]
        expected = worst(weights, counted)
        assert ratio == (None if expected is None else pytest.approx(expected, abs=1e-6))


@given(clusters())
@settings(max_examples=count_cases(30))
def test_losses_equal_an_enumeration(cluster_model: ClusterModel) -> None:
    found = measure_state(cluster_model, OPTIONS).durability
    draining_and_empty = cluster_model.draining & (
        np.bincount(cluster_model.replicas, minlength=cluster_model.brokers) == 0
    )
    live = np.flatnonzero(cluster_model.live & ~draining_and_empty).tolist()
    sets = {frozenset(b for b in replicas if cluster_model.live[b]) for replicas in lists_of(cluster_model)} - {
        frozenset()
    }
    if not live:
        return
    assert found.copysets == len(sets)
    for k, chance in found.loss_probability.items():
        failures = list(combinations(live, k))
        lost = sum(any(copyset <= set(down) for copyset in sets) for down in failures)
        assert chance == pytest.approx(lost / len(failures), abs=1e-6)


def test_what_a_plan_moves() -> None:
    lists = {("a", 0): [1, 2], ("a", 1): [2, 1], ("b", 0): [1, 2]}
    cluster_model = model_with(lists, [1, 2, 3], sizes=[100, 10, 1])
    found = measure(cluster_model, proposal_with(cluster_model, {("a", 0): [3, 1], ("b", 0): [2, 1]}))
    keys = ["moves", "bytes_to_copy", "lists_changed", "leader_changes", "leader_replacements", "before", "after"]
    assert list(to_json(found)) == keys
    assert (found.moves, found.bytes_to_copy, found.lists_changed, found.leader_changes) == (1, 100, 2, 2)
    assert found.before.balance.replicas.min_over_mean == 0
    assert found.after.balance.replicas == LoadSpread(max_over_mean=1.5, min_over_mean=0.5, cv=0.408248)
    assert found.leader_replacements == 0
    nothing = measure(cluster_model, unchanged(cluster_model))
    assert nothing.before == nothing.after
    json.dumps(to_json(found), allow_nan=False)


def test_traffic_between_zones_before_and_after_a_plan() -> None:
    """A third of the clients is in each rack: producers send 6 of 9 MB to others, consumers read 18 of 27."""
    racks, prices = ["a", "b", "c"], CrossZonePrices(0.25, 0.5)
    cluster_model = replace(
        model_with({("t", 0): [1, 2]}, [1, 2, 3], racks),
        rate_in=np.array([9e6]),
        rate_out=np.array([27e6]),
        known=(False, True, True),
    )
    proposal = proposal_with(cluster_model, {("t", 0): [1]})
    month = 0.75 * 30 * 86_400 / 1e9
    found = measure(cluster_model, proposal, MetricOptions(prices=prices))
    assert found.before.cross_zone == CrossZoneTraffic(9e6, 6e6, 18e6, round(33e6 * month, 2))
    assert found.after.cross_zone == CrossZoneTraffic(0, 6e6, 18e6, round(24e6 * month, 2))
    # With follower fetching, consumers in rack b read from broker 2 before the plan.
    nearby = MetricOptions(network=NetworkAssumptions(follower_fetching=True))
    assert measure(cluster_model, proposal, nearby).before.cross_zone == CrossZoneTraffic(9e6, 6e6, 9e6, None)
    by_brokers = replace(cluster_model, fetching=np.array([True, False, False]))
    assert measure(by_brokers, proposal).before.cross_zone == CrossZoneTraffic(9e6, 6e6, 9e6, None)
    out_unknown = replace(cluster_model, known=(False, True, False))
    assert measure(out_unknown, proposal, MetricOptions(prices=prices)).before.cross_zone == CrossZoneTraffic(9e6, 6e6)
    no_racks = replace(cluster_model, rack_names=())
    assert measure(no_racks, proposal).before.cross_zone == CrossZoneTraffic()


def test_unknown_loads_are_null() -> None:
    cluster_model = model_with({("a", 0): [1, 2]}, [1, 2])
    found = measure_state(cluster_model, OPTIONS)
    assert found.balance.size_bytes == LoadSpread(None, None, None)
    assert found.balance.worst_survivor_bytes_out_ratio is None
    assert found.failures.broker.worst_survivor_bytes_out_ratio is None
    assert found.headroom["broker"]["bytes_out_per_s"] is None
    assert measure(cluster_model, unchanged(cluster_model)).bytes_to_copy is None


def test_a_drained_broker_is_switched_off() -> None:
    cluster_model = replace(
        cluster([[0, 1], [1, 2], [2, 0]], 4, draining=[0]), draining=np.array([True, False, False, False])
    )
    after = cluster_model.with_lists(cluster_model.offsets, np.array([3, 1, 1, 2, 2, 3], dtype=np.int32))
    before, then = measure_state(cluster_model, OPTIONS), measure_state(after, OPTIONS)
    assert (before.balance.brokers, then.balance.brokers) == (3, 3)
    assert (before.failures.live_brokers, then.failures.live_brokers) == (4, 3)
    assert then.durability.loss_probability == {1: 0.0, 2: 1.0}


def test_too_many_pairs_are_left_out() -> None:
    cluster_model = cluster([[0, 1], [1, 2]], 3)
    assert measure_state(cluster_model, OPTIONS).failures.pair is not None
    assert measure_state(cluster_model, MetricOptions(max_pairs=2)).failures.pair is None


@pytest.mark.parametrize(
    "cluster_model", [cluster([], 0), cluster([], 2), cluster([[0]], 1), cluster([[0]], 1, down=[0])]
)
def test_degenerate_clusters(cluster_model: ClusterModel) -> None:
    found = measure_state(cluster_model, OPTIONS)
    assert found.balance.worst_survivor_ratio is None
    json.dumps(to_json(found), allow_nan=False)


@pytest.mark.parametrize(("goal", "removed"), [("failover", ()), ("drain", (3, 7)), ("expand", ())])
def test_metrics_equal_the_judge(tmp_path: Path, goal: str, removed: tuple[int, ...]) -> None:
    model_file = judge.model(5, removed=removed)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model_file))
    snapshot = load_snapshot(find_source(str(path)))
    cluster_model = build_model(snapshot.cluster_id, snapshot.brokers, snapshot.partitions, snapshot.topics)
    proposal = make_plan(cluster_model, PlanRequest(goal))
    after = cluster_model.with_lists(proposal.offsets, proposal.replicas)
    entries = [
        {"topic": cluster_model.topic_names[cluster_model.topic[row]], "partition": int(cluster_model.partition[row])}
        | {"replicas": cluster_model.ids(replicas)}
        for row, replicas in enumerate(lists_of(after))
    ]
    found = measure(cluster_model, proposal)
    for when, expected in (
        ("before", judge.judge(model_file)),
        ("after", judge.judge(model_file, {"partitions": entries})),
    ):
        state = to_json(getattr(found, when).balance)
        for name in ("replicas", "leaders", "size_bytes", "bytes_in_per_s", "bytes_out_per_s"):
            rounded = {part: round(value, 4) for part, value in state[name].items()}
            assert rounded == pytest.approx(expected[name], abs=1.1e-4), (when, name)
        for name in ("worst_survivor_ratio", "worst_survivor_bytes_out_ratio", "rack_violations"):
            assert state[name] == pytest.approx(expected[name], abs=6e-5), (when, name)
    assert (found.moves, found.leader_changes) == (expected["moves"], expected["leader_changes"])
    assert found.bytes_to_copy == pytest.approx(expected["megabytes"] * 1e6, abs=1e3 * max(1, found.moves))
    assert expected["bad"] == 0


def test_replicas_have_the_bytes_of_their_own_logs() -> None:
    """The follower of t-0 has 10 bytes, and the leader 2, as has a copy."""
    model = model_with({("t", 0): [2, 1], ("t", 1): [1]}, [1, 2, 3], sizes=[2.0, 2.0])
    model = replace(model, replica_size=np.array([2.0, 10.0, 2.0]))
    moved = model.with_lists(model.offsets, np.array([1, 2, 0], dtype=np.int32))
    assert model.sum_bytes(model).tolist() == [12, 2, 0]
    assert model.sum_bytes(moved).tolist() == [2, 2, 2]
    assert moved.sum_bytes(moved).tolist() == [2, 2, 2]
    assert measure_state(model, OPTIONS).balance.size_bytes.max_over_mean == pytest.approx(12 * 3 / 14)
