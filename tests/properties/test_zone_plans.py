"""Plans of the goal zones on random clusters, judged by slow code that shares nothing with the planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product
from math import ceil
from typing import Any

import numpy as np
import pytest

from tests.unit.planning.rated_models import make_rated_model
from udfs.network.traffic_rows import NetworkAssumptions
from udfs.planning.broker_sets import BrokerSetsCertificate
from udfs.planning.certificates import ZoneCertificate
from udfs.planning.cluster_model import ClusterModel, FreezeReason
from udfs.planning.constraints import InfeasibleRequest
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_metrics import MetricOptions, measure_state
from udfs.planning.plan_request import BrokerSet, PlanRequest, Targets

Lists = Sequence[Sequence[int]]
_FREE = 1e9  # a target that is none


def _make_model(lists: Lists, zones: Sequence[int], seed: int, **changes: Any) -> ClusterModel:
    """Make a model of brokers in zones, whose ids have gaps."""
    names = [f"z{zone}" for zone in range(max(zones) + 1)]
    ids = np.arange(len(zones), dtype=np.int32) * 2
    return make_rated_model(lists, zones, names, seed, **{"broker_ids": ids, **changes})


def _draw_lists(rng: np.random.Generator, zones: Sequence[int], partitions: int, factor: int) -> list[list[int]]:
    """Draw lists with at most one replica more in a rack than in another."""
    lists = []
    for _ in range(partitions):
        order = rng.permutation(sorted(set(zones)))
        chosen: list[int] = []
        for i in range(factor):
            candidates = [b for b, zone in enumerate(zones) if zone == order[i % len(order)] and b not in chosen]
            chosen.append(int(rng.choice(candidates)))
        lists.append(chosen)
    return lists


def _cross(model: ClusterModel, lists: Lists, assumptions: NetworkAssumptions) -> float:
    """Return the bytes per second that cross zones."""
    zone = [model.rack_names[rack] for rack in model.rack]

    def shares(own: Any) -> dict[str, float]:
        weights = dict(own) or dict.fromkeys(set(zone), 1.0)
        return {name: weight / sum(weights.values()) for name, weight in weights.items()}

    consumers, producers = shares(assumptions.consumer_zones), shares(assumptions.producer_zones)
    total = 0.0
    for p, (leader, *followers) in enumerate(lists):
        home, rate_in, rate_out = zone[leader], float(model.rate_in[p]), float(model.rate_out[p])
        total += rate_in * sum(zone[follower] != home for follower in followers)
        total += rate_in * sum(share for name, share in producers.items() if name != home)
        for name, share in consumers.items():
            is_near = name == home or (assumptions.follower_fetching and any(zone[f] == name for f in followers))
            total += 0.0 if is_near else rate_out * share
    return total


def _measure(model: ClusterModel, lists: Lists) -> dict[str, list[float]]:
    """Return the loads of brokers, and what the worst survivor of each broker's failure leads and sends."""
    n = len(model.broker_ids)
    out = {name: [0.0] * n for name in ("replicas", "leaders", "disk", "bytes_in", "bytes_out")}
    takeovers, takeovers_out = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for p, brokers in enumerate(lists):
        for b in brokers:
            out["replicas"][b] += 1
            out["disk"][b] += float(model.size[p])
            out["bytes_in"][b] += float(model.rate_in[p])
        out["leaders"][brokers[0]] += 1
        out["bytes_out"][brokers[0]] += float(model.rate_out[p])
        if len(brokers) > 1:
            takeovers[brokers[1], brokers[0]] += 1
            takeovers_out[brokers[1], brokers[0]] += float(model.rate_out[p])  # type: ignore[assignment]
    pairs = [(s, f) for s in range(n) for f in range(n) if s != f]
    out["failover"] = [out["leaders"][s] + takeovers[s, f] for s, f in pairs]
    out["failover_out"] = [out["bytes_out"][s] + takeovers_out[s, f] for s, f in pairs]
    return out


def _list_excesses(model: ClusterModel, before: Lists, after: Lists, targets: Targets, more: int = 1) -> list[str]:
    """List the loads that are above what they were, and above their target too. more: counts above whole numbers.

    One rack may have to hold more than its share.
    """
    old, new, n = _measure(model, before), _measure(model, after), len(model.broker_ids)
    ratios = {"replicas": targets.replicas, "leaders": targets.leaders, "disk": targets.disk}
    ratios |= {"bytes_in": targets.bytes_in, "bytes_out": targets.bytes_out}
    excesses = []
    for name, ratio in ratios.items():
        mean = sum(new[name]) / n
        heaviest = float(model.rate_out.max()) if name == "bytes_out" else 0.0
        is_count = name in ("replicas", "leaders")
        limit = max(ratio * mean, heaviest, *old[name], ceil(mean) + more if is_count else 0)
        if max(new[name]) > limit * (1 + 1e-9):
            excesses.append(f"{name}: {max(new[name])} > {limit}")
    for name, total, ratio in (("failover", len(after), targets.failover), ("failover_out", 0, targets.failover_out)):
        total = total or float(model.rate_out.sum())
        limit = max(ratio * total / (n - 1), *old[name], ceil(total / (n - 1)) + more if name == "failover" else 0)
        if max(new[name]) > limit * (1 + 1e-9):
            excesses.append(f"{name}: {max(new[name])} > {limit}")
    return excesses


def _plan(model: ClusterModel, request: PlanRequest) -> tuple[list[list[int]], ZoneCertificate]:
    proposal = make_plan(model, request)
    assert isinstance(proposal.certificate, ZoneCertificate)
    pairs = zip(proposal.offsets[:-1], proposal.offsets[1:], strict=True)
    return [proposal.replicas[begin:end].tolist() for begin, end in pairs], proposal.certificate


_CASES = [
    (9, 3, 120, 3, NetworkAssumptions(None, {}, {"z0": 2, "z1": 1})),
    (9, 3, 120, 2, NetworkAssumptions(True, {"z0": 3, "z1": 1}, {})),
    (8, 2, 90, 3, NetworkAssumptions(False, {"z1": 1}, {"z1": 1})),
    (7, 3, 60, 2, NetworkAssumptions(True, {"z0": 1, "office": 2}, {"z2": 5, "z0": 1})),  # a zone without brokers
    (5, 5, 40, 1, NetworkAssumptions(None, {"z0": 1}, {"z0": 1})),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("brokers", "zones", "partitions", "factor", "assumptions"), _CASES)
def test_fewer_bytes_cross_zones_and_nothing_else_is_worse(
    brokers: int, zones: int, partitions: int, factor: int, assumptions: NetworkAssumptions, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    places = [b % zones for b in range(brokers)]
    before = _draw_lists(rng, places, partitions, factor)
    frozen = np.where(rng.random(partitions) < 0.1, FreezeReason.IN_FLIGHT, FreezeReason.FREE).astype(np.int8)
    model = _make_model(before, places, seed, frozen=frozen)
    request = PlanRequest("zones", network=assumptions, seed=seed)
    after, certificate = _plan(model, request)
    for old, new in zip(before, after, strict=True):
        assert len(new) == len(set(new)) == len(old)
        most = Counter(places[b] for b in new).most_common(1)[0][1]
        assert most <= -(-factor // zones)
    assert all(before[p] == after[p] for p in np.flatnonzero(frozen))
    assert _list_excesses(model, before, after, request.targets) == []
    assert certificate.before == pytest.approx(_cross(model, before, assumptions), abs=0.01)
    assert certificate.value == pytest.approx(_cross(model, after, assumptions), abs=0.01)
    assert certificate.lower_bound <= certificate.value <= certificate.before
    if factor > 1:  # else brokers in the zone of all clients may have all that their limits allow
        assert certificate.value < certificate.before
    copied = [(p, b) for p, new in enumerate(after) for b in new if b not in before[p]]
    assert certificate.moves == len(copied)
    assert certificate.bytes == pytest.approx(sum(model.size[p] for p, _ in copied))
    assert after == _plan(model, request)[0]


@pytest.mark.parametrize("seed", range(10))
def test_small_clusters_get_the_best_of_all_plans(seed: int) -> None:
    """All plans of four partitions on four brokers that keep to the limits; bytes that are copied count for 30 days."""
    rng, places = np.random.default_rng(seed), [0, 1, 0, 1]
    assumptions = NetworkAssumptions(None, {}, {"z0": 3, "z1": 1})
    before = _draw_lists(rng, places, 4, 2)
    model = _make_model(before, places, seed)
    targets, old = Targets(), _measure(model, before)
    planned, certificate = _plan(model, PlanRequest("zones", network=assumptions, targets=targets))

    def price(lists: Lists) -> float:
        copied = sum(model.size[p] for p, new in enumerate(lists) for b in new if b not in before[p])
        return _cross(model, lists, assumptions) + float(copied) / (30 * 24 * 3600)

    def has_too_few(lists: Lists) -> bool:
        new = _measure(model, lists)
        return any(min(new[name]) < min(*old[name], sum(new[name]) // 4) for name in ("replicas", "leaders"))

    options = [pair for pair in permutations(range(4), 2) if places[pair[0]] != places[pair[1]]]
    allowed = [
        after
        for after in product(options, repeat=4)
        if not _list_excesses(model, before, after, targets, more=0) and not has_too_few(after)
    ]
    assert price(planned) <= min(map(price, allowed)) * (1 + 1e-9)
    assert certificate.lower_bound <= min(_cross(model, one, assumptions) for one in allowed) * (1 + 1e-6)


def test_budget_and_excluded_brokers_are_kept_to() -> None:
    places = [b % 3 for b in range(9)]
    before = _draw_lists(np.random.default_rng(1), places, 120, 2)
    model = _make_model(before, places, 1)
    assumptions = NetworkAssumptions(True, {"z0": 1}, {"z0": 1})
    request = PlanRequest("zones", network=assumptions, max_moves=5, exclude_brokers=(0,))
    after, certificate = _plan(model, request)
    assert 0 < certificate.moves <= 5
    assert not any(0 in new and 0 not in old for old, new in zip(before, after, strict=True))
    unlimited = _plan(model, PlanRequest("zones", network=assumptions))[1]
    assert certificate.value > unlimited.value


def test_partitions_of_unknown_rates_stay() -> None:
    rng, places = np.random.default_rng(2), [b % 3 for b in range(9)]
    before = _draw_lists(rng, places, 90, 2)
    unrated = rng.random(90) < 0.3
    model = _make_model(before, places, 2)
    rates = {name: np.where(unrated, 0.0, getattr(model, name)) for name in ("rate_in", "rate_out")}
    model = replace(model, unrated=unrated, **rates)
    after, certificate = _plan(model, PlanRequest("zones", network=NetworkAssumptions(True, {"z0": 1}, {"z0": 1})))
    assert after != before
    assert all(after[p] == before[p] for p in np.flatnonzero(unrated))
    assert certificate.missed == [f"{unrated.sum()} partitions of unknown bytes per second stay as they are"]


@pytest.mark.parametrize(("fetching", "is_registered"), [(True, True), (False, True), (True, False)])
def test_down_brokers_carry_nothing(fetching: bool, is_registered: bool) -> None:
    """The lists of partitions with a down replica stay; offline partitions carry nothing."""
    rng, places = np.random.default_rng(3), [b % 3 for b in range(9)]
    live = np.array([b not in (4, 8) for b in range(9)])
    drawn = _draw_lists(rng, places, 120, 2)
    before = [sorted(one, key=lambda b: not live[b]) for one in drawn]  # as the model has them: live ones first
    model = _make_model(before, places, 3, live=live)
    shown = model.rack if is_registered else np.where(live, model.rack, len(model.rack_names)).astype(np.int32)
    assumptions = NetworkAssumptions(fetching, {"z0": 3, "z1": 1}, {"z0": 1})
    after, certificate = _plan(replace(model, rack=shown), PlanRequest("zones", network=assumptions))

    def cross(lists: Lists) -> float:
        rated = [p for p, one in enumerate(lists) if live[one[0]]]
        part = replace(model, rate_in=model.rate_in[rated], rate_out=model.rate_out[rated])
        return _cross(part, [[b for b in lists[p] if live[b]] for p in rated], assumptions)

    assert certificate.before == pytest.approx(cross(before), abs=0.01)
    assert certificate.value == pytest.approx(cross(after), abs=0.01)
    assert certificate.value < certificate.before
    assert all(old == new for old, new in zip(before, after, strict=True) if not live[old].all())


def test_zones_are_the_first_part_of_racks_where_a_separator_says_so() -> None:
    rng, places = np.random.default_rng(4), [b % 3 for b in range(9)]
    before = _draw_lists(rng, places, 90, 2)
    zones = _make_model(before, places, 4)
    names = tuple(f"z{zone}/r{rack}" for zone in range(3) for rack in range(3))
    racks = replace(zones, rack=np.array([3 * (b % 3) + b // 3 for b in range(9)], dtype=np.int32), rack_names=names)
    assumptions = NetworkAssumptions(True, {"z0": 2, "z1": 1}, {"z0": 1}, "/")
    after, _ = _plan(racks, PlanRequest("zones", network=assumptions, rack_separator="/"))
    placed = racks.with_lists(racks.offsets, np.array([b for one in after for b in one], dtype=np.int32))
    for model, lists in ((racks, before), (placed, after)):
        traffic = measure_state(model, MetricOptions(network=assumptions)).cross_zone
        total = sum(
            rate or 0.0
            for rate in (traffic.replication_bytes_per_s, traffic.producers_bytes_per_s, traffic.consumers_bytes_per_s)
        )
        assert total == pytest.approx(_cross(zones, lists, assumptions), abs=0.01)


def test_certificates_of_broker_sets_add_up_to_the_whole() -> None:
    """Also with replicas outside of their set, and a set that is not in every zone."""
    rng, places = np.random.default_rng(5), [b % 3 for b in range(9)]
    before = _draw_lists(rng, places, 90, 2)
    topic = (np.arange(90) % 2).astype(np.int32)
    model = replace(_make_model(before, places, 5), topic_names=("a", "b"), topic=topic)
    assumptions = NetworkAssumptions(True, {}, {"z0": 3, "z2": 1})
    sets = (BrokerSet("two zones", (0, 2, 6, 8), ("a",)),)
    proposal = make_plan(model, PlanRequest("zones", network=assumptions, broker_sets=sets))
    assert isinstance(proposal.certificate, BrokerSetsCertificate)
    parts = [one.certificate for one in proposal.certificate.sets]
    pairs = zip(proposal.offsets[:-1], proposal.offsets[1:], strict=True)
    after = [proposal.replicas[begin:end].tolist() for begin, end in pairs]
    for name, lists in (("before", before), ("value", after)):
        assert sum(getattr(part, name) for part in parts) == pytest.approx(_cross(model, lists, assumptions), abs=0.01)


def test_what_is_not_known_is_said() -> None:
    before = [[0, 1], [1, 0]]
    with pytest.raises(InfeasibleRequest, match="all live brokers are in one rack"):
        make_plan(_make_model(before, [0, 0], 1), PlanRequest("zones"))
    with pytest.raises(InfeasibleRequest, match="needs the rack of each live broker"):
        make_plan(_make_model(before, [0, 0], 1, rack_names=()), PlanRequest("zones"))
    with pytest.raises(InfeasibleRequest, match="no bytes per second"):
        make_plan(_make_model(before, [0, 1], 1, known=(True, False, False)), PlanRequest("zones"))
