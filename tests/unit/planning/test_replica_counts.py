"""Plans by counts, compared with an exact integer program on small clusters; their guarantees on any cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import Bounds as Box
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import lil_array

from tests.unit.planning.plan_models import model_with
from udfs.arrow.ragged import count_true, has_repeat, row_of
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, FreezeReason, Ints, ProposedAssignment
from udfs.planning.constraints import COPYING_GOALS, InfeasibleRequest, Rules, build_rules, find_rack_violations
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import ALL, MIN_BYTES, PlanRequest
from udfs.planning.replicas.count_limits import CountTargets, compute_count_targets
from udfs.planning.replicas.replica_counts import plan_replica_counts


def random_model(seed: int) -> ClusterModel:
    """Uneven racks or none, factors from 1 to 5, down, empty and draining brokers, frozen partitions."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    partitions = int(rng.integers(1, 13))
    racks = [f"r{rack}" for rack in rng.choice(rng.integers(1, 5), size=n, p=None)] if rng.random() < 0.7 else None
    used = rng.permutation(n)[: max(1, n - int(rng.integers(0, 3)))]
    lists = {}
    for p in range(partitions):
        factor = int(rng.integers(1, min(5, len(used)) + 1))
        lists[(f"t{p % 3}", p)] = (10 + rng.permutation(used)[:factor]).tolist()
    down = (10 + rng.permutation(n)[: int(rng.integers(0, 2))]).tolist() if n > 2 and rng.random() < 0.4 else []
    sizes = rng.integers(0, 50, partitions).astype(float).tolist()
    model = model_with(lists, range(10, 10 + n), racks, sizes, down)
    draining = np.zeros(n, dtype=np.bool_)
    draining[rng.permutation(n)[:1]] = rng.random() < 0.5
    frozen = np.where(rng.random(partitions) < 0.1, FreezeReason.EXCLUDED, 0).astype(np.int8)
    frozen[count_true(model.live[model.replicas], model.offsets) == 0] = FreezeReason.OFFLINE
    return replace(model, draining=draining, frozen=frozen)


def random_rules(model: ClusterModel, seed: int) -> Rules | None:
    """Rules of a random goal, or None if it makes no sense here."""
    rng = np.random.default_rng(seed + 1_000_000)
    goal = str(rng.choice(COPYING_GOALS))
    brokers = model.broker_ids.tolist()
    request = PlanRequest(goal, allow_empty_racks=True)
    if goal == "replace":
        old, new = (rng.permutation(brokers)[:2]).tolist() if len(brokers) > 1 else (10, 10)
        request = replace(request, replacements=((old, new),))
    if goal == "rf":
        request = replace(request, factor=int(rng.integers(1, 6)), topics=("t0",) if rng.random() < 0.5 else ())
    if rng.random() < 0.2:
        request = replace(request, exclude_brokers=(int(rng.choice(brokers)),))
    capacity = rng.integers(2, 20, len(brokers)).astype(np.int64) if rng.random() < 0.2 else None
    try:
        rules = build_rules(model, request)
    except ValueError:
        return None
    return rules if capacity is None else replace(rules, broker_replicas=np.minimum(capacity, rules.broker_replicas))


def cells(model: ClusterModel) -> Flags:
    """Return which brokers have replicas of which partitions now: bool (p, n)."""
    held = np.zeros((model.partitions, model.brokers), dtype=np.bool_)
    held[model.row, model.replicas] = True
    return held


def limits(model: ClusterModel, rules: Rules) -> Ints:
    """int64 (n): capacity, or what a broker holds already and need not give away."""
    stays = rules.fixed[model.row] | (not rules.even)
    return np.maximum(rules.broker_replicas, np.bincount(model.replicas[stays], minlength=model.brokers))


def least(
    model: ClusterModel, rules: Rules, price: Floats, bounds: CountTargets | None = None, convex: bool = False
) -> float | None:
    """The optimum by integer programming: bytes or moves at `price` (p), or the sum of squares of counts."""
    p, n = model.partitions, model.brokers
    held = cells(model)
    may = np.where(rules.receives, True, held & ~rules.must_leave)
    low, high = np.zeros((p, n)), may.astype(float)
    low[rules.fixed] = high[rules.fixed] = held[rules.fixed]
    most = int(rules.factor.sum()) if convex else 0
    steps = np.zeros((n, most))  # step k of a broker's count costs 2k + 1
    cost = np.where(held, 0.0, price[:, None]).reshape(-1) * (0 if convex else 1)
    cost = np.concatenate([cost, np.tile(2.0 * np.arange(most) + 1, (n, 1)).reshape(-1)])
    rows: list[tuple[list[int], list[float], float, float]] = []
    for row in range(p):
        rows.append(([row * n + b for b in range(n)], [1.0] * n, rules.factor[row], rules.factor[row]))
        if rules.fixed[row]:
            continue
        for rack in np.unique(model.rack):
            mine = np.flatnonzero(model.rack == rack)
            rows.append(([row * n + b for b in mine], [1.0] * len(mine), 0, rules.rack_cap[row]))
    for b in range(n):
        mine = [row * n + b for row in range(p)]
        if rules.receives[b]:
            top = limits(model, rules)[b]
            rows.append((mine, [1.0] * p, bounds.low[b] if bounds else 0, min(bounds.high[b], top) if bounds else top))
        if convex:
            columns = mine + [p * n + b * most + k for k in range(most)]
            rows.append((columns, [1.0] * p + [-1.0] * most, 0, 0))
    for name, total in enumerate(bounds.totals[:-1] if bounds and bounds.part is not None else ()):
        mine = [row * n + b for row in range(p) for b in range(n) if rules.receives[b] and bounds.part[b] == name]
        rows.append((mine, [1.0] * len(mine), total, total))
    matrix = lil_array((len(rows), p * n + steps.size))
    for i, (columns, values, _, _) in enumerate(rows):
        for column, value in zip(columns, values, strict=True):
            matrix[i, column] = value
    found = milp(
        cost,
        constraints=LinearConstraint(matrix.tocsr(), [r[2] for r in rows], [r[3] for r in rows]),
        bounds=Box(
            np.concatenate([low.reshape(-1), np.zeros(steps.size)]),
            np.concatenate([high.reshape(-1), np.ones(steps.size)]),
        ),
        integrality=np.ones(len(cost)),
    )
    return None if found.x is None else float(round(found.fun))


def assert_legal(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> None:
    row = row_of(proposal.offsets)
    assert (np.diff(proposal.offsets) == rules.factor).all()
    assert not has_repeat(proposal.replicas, proposal.offsets).any()
    new = model.find_copied(proposal)
    assert rules.receives[proposal.replicas[new]].all()
    assert not (rules.must_leave[proposal.replicas] & ~rules.fixed[row]).any()
    differs = model.find_changed(proposal)
    assert not (differs & rules.fixed).any()
    assert not (
        find_rack_violations(model.with_lists(proposal.offsets, proposal.replicas), rules.rack_cap) & ~rules.fixed
    ).any()
    assert ((proposal.reason >= 0) == differs).all()
    counts = np.bincount(proposal.replicas, minlength=model.brokers)
    assert (counts <= limits(model, rules))[rules.receives].all()


@pytest.mark.parametrize("block", range(6))
def test_no_integer_program_does_better(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        model = random_model(seed)
        rules = random_rules(model, seed)
        if rules is None:
            continue
        objective = "min-bytes" if seed % 2 and model.size.any() else "min-moves"
        price = model.size if objective == "min-bytes" else np.ones(model.partitions)
        at_all = least(model, rules, price)
        stuck = (rules.must_leave[model.replicas] & (model.frozen != 0)[model.row]).any()
        try:
            proposal = plan_replica_counts(model, rules, objective=objective)
        except InfeasibleRequest:
            assert at_all is None or stuck, seed
            continue
        assert_legal(model, rules, proposal)
        new = count_true(model.find_copied(proposal), proposal.offsets)
        bounds = compute_count_targets(model, rules)
        best = least(model, rules, price, bounds) if rules.even else at_all
        certificate = proposal.certificate
        assert certificate.value == float(new @ price), seed
        assert certificate.moves_lower_bound <= certificate.moves
        others = ~rules.receives & ~rules.must_leave & (np.bincount(model.replicas, minlength=model.brokers) > 0)
        if best is not None or not others.any():
            assert certificate.value == certificate.lower_bound == best, seed
        if rules.even and not others.any():  # and nobody has more even counts
            counts = np.bincount(proposal.replicas, minlength=model.brokers)
            assert float((counts**2).sum()) == least(model, rules, price, convex=True), seed


def cluster(partitions: int, brokers: int, racks: int, factor: int, seed: int = 7) -> ClusterModel:
    """Random lists, at most one replica a rack if there are racks enough."""
    rng = np.random.default_rng(seed)
    lists = {}
    for p in range(partitions):
        if racks:
            lists[(f"t{p % 50:02d}", p)] = [
                int(rack + racks * rng.integers(brokers // racks)) for rack in rng.permutation(racks)[:factor]
            ]
        else:
            lists[(f"t{p % 50:02d}", p)] = rng.permutation(brokers)[:factor].tolist()
    names = [f"r{broker % racks}" for broker in range(brokers)] if racks else None
    return model_with(lists, range(brokers), names, (rng.lognormal(3, 1, partitions) * 1e6).round().tolist())


def test_balanced_clusters_do_not_change() -> None:
    model = cluster(400, 12, 3, 3)
    proposal = plan_replica_counts(model, build_rules(model, PlanRequest("balance")))
    again = model.with_lists(proposal.offsets, proposal.replicas)
    same = plan_replica_counts(again, build_rules(again, PlanRequest("balance")))
    assert not again.find_changed(same).any()
    assert (same.certificate.value, same.certificate.moves) == (0, 0)
    assert (same.reason == -1).all()


def test_new_brokers_are_filled_with_no_more_moves_than_the_bound() -> None:
    model = cluster(600, 12, 3, 3)
    ids = np.arange(15, dtype=np.int32)
    wider = replace(
        model,
        broker_ids=ids,
        rack=(ids % 3).astype(np.int32),
        live=np.ones(15, dtype=np.bool_),
        draining=np.zeros(15, dtype=np.bool_),
    )
    proposal = plan_replica_counts(wider, build_rules(wider, PlanRequest("expand")), objective="min-moves")
    counts = np.bincount(proposal.replicas, minlength=15)
    assert counts.max() - counts.min() <= 1
    assert proposal.certificate.moves == proposal.certificate.moves_lower_bound
    assert proposal.reasons[proposal.reason[proposal.reason >= 0][0]] == "an empty broker is filled"


def test_drained_brokers_hold_nothing_and_the_rest_is_even() -> None:
    model = cluster(600, 12, 3, 3)
    proposal = plan_replica_counts(model, build_rules(model, PlanRequest("drain", brokers=(0, 2, 7))))
    counts = np.bincount(proposal.replicas, minlength=12)
    assert (counts[[0, 2, 7]] == 0).all()
    rest = np.delete(counts, [0, 2, 7])
    assert rest.max() - rest.min() <= 1


@pytest.mark.parametrize("racks", [0, 2])
def test_hubs_work_with_fewer_racks_than_replicas(racks: int) -> None:
    model = cluster(2000, 12, racks, 2 if racks else 4)
    grown = build_rules(model, PlanRequest("rf", factor=7))
    proposal = plan_replica_counts(model, grown)
    assert_legal(model, grown, proposal)
    assert proposal.certificate.attained
    counts = np.bincount(proposal.replicas, minlength=12)
    assert counts.max() - counts.min() <= 1


def test_staying_replicas_keep_their_order_and_lead() -> None:
    lists = {("t", 0): [1, 2, 3], ("t", 1): [2, 1, 3], ("t", 2): [3, 2, 1], ("t", 3): [1]}
    model = model_with(lists, [1, 2, 3, 4])
    proposal = plan_replica_counts(model, build_rules(model, PlanRequest("replace", replacements=((1, 4),))))
    assert as_lists(model, proposal) == [[4, 2, 3], [2, 4, 3], [3, 2, 4], [4]]
    proposal = plan_replica_counts(model, build_rules(model, PlanRequest("drain", brokers=(1,))))
    assert as_lists(model, proposal)[:3] == [[2, 3, 4], [2, 4, 3], [3, 2, 4]]


def as_lists(model: ClusterModel, proposal: ProposedAssignment) -> list[list[int]]:
    return [
        model.ids(proposal.replicas[begin:end])
        for begin, end in zip(proposal.offsets[:-1], proposal.offsets[1:], strict=True)
    ]


@pytest.mark.parametrize("objective", [ALL, MIN_BYTES])
def test_a_small_rack_that_must_hold_more_is_named(objective: str) -> None:
    lists = {("t", p): [p % 4, 4] for p in range(40)}
    model = model_with(lists, range(5), ["a", "a", "a", "a", "b"])
    proposal = make_plan(model, PlanRequest("balance", objective=objective))
    assert proposal.certificate.relaxed == [
        "rack a (4 of 5 brokers) can only hold 40 of 80 replicas: 10 each (mean: 16)",
        "rack b (1 of 5 brokers) must hold 40 of 80 replicas: 40 each (mean: 16)",
        "with one more broker in rack b, no broker must hold more than 1.500 times the mean of replicas, "
        "instead of 2.500",
    ]
    assert not model.find_copied(proposal).any()


def test_fewer_replicas_leave_full_brokers_and_keep_leaders() -> None:
    model = cluster(600, 12, 3, 3)
    proposal = plan_replica_counts(model, build_rules(model, PlanRequest("rf", factor=2)))
    assert proposal.certificate.moves == 0
    assert (proposal.replicas[proposal.offsets[:-1]] == model.replicas[model.offsets[:-1]]).all()
    counts = np.bincount(proposal.replicas, minlength=12)
    assert counts.max() - counts.min() <= 1


def test_repair_changes_only_broken_partitions() -> None:
    lists = {("t", p): [p % 4, 4 + p % 4] for p in range(16)}
    lists[("t", 3)] = [0, 1]  # both in one rack
    lists[("t", 5)] = [6]  # one too few
    model = model_with(lists, range(8), ["a"] * 4 + ["b"] * 4, down=[7], factors={"t": 2})
    rules = build_rules(model, PlanRequest("repair"))
    proposal = plan_replica_counts(model, rules)
    assert_legal(model, rules, proposal)
    named = {row: proposal.reasons[code] for row, code in enumerate(proposal.reason.tolist()) if code >= 0}
    assert named == {
        3: "it has too many replicas in one rack",
        5: "its replication factor changes",
        7: "a replica is on a down broker",
        11: "a replica is on a down broker",
        15: "a replica is on a down broker",
    }


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["bytes", "moves"])
def test_budgets_hold_and_the_rest_is_bounded(share: float, kind: str) -> None:
    model = cluster(600, 12, 3, 2)
    free = plan_replica_counts(model, build_rules(model, PlanRequest("balance")))
    budget = share * getattr(free.certificate, kind)
    limits = {"max_bytes": int(budget)} if kind == "bytes" else {"max_moves": int(budget)}
    proposal = plan_replica_counts(model, build_rules(model, PlanRequest("balance", **limits)))
    certificate = proposal.certificate
    assert getattr(certificate, kind) <= budget
    assert certificate.lower_bound <= certificate.value <= certificate.lower_bound + 3
    assert any("the budget" in words for words in certificate.missed)


def test_a_drain_beyond_its_budget_goes_as_far_as_it_can() -> None:
    model = cluster(600, 12, 3, 3)
    whole = plan_replica_counts(model, build_rules(model, PlanRequest("drain", brokers=(2,)))).certificate.bytes
    proposal = plan_replica_counts(
        model, build_rules(model, PlanRequest("drain", brokers=(2,), max_bytes=int(whole / 3)))
    )
    certificate = proposal.certificate
    assert certificate.bytes <= whole / 3
    assert certificate.value == certificate.lower_bound == int((proposal.replicas == 2).sum())
    assert "broker 2 still holds" in " ".join(certificate.missed)


def test_no_changes() -> None:
    empty = model_with({}, [1, 2])
    assert len(plan_replica_counts(empty, build_rules(empty, PlanRequest("balance"))).replicas) == 0
    alone = model_with({("t", 0): [1], ("t", 1): [1]}, [1])
    assert as_lists(alone, plan_replica_counts(alone, build_rules(alone, PlanRequest("balance")))) == [[1], [1]]
    frozen = replace(cluster(20, 4, 0, 2), frozen=np.full(20, FreezeReason.EXCLUDED, dtype=np.int8))
    assert plan_replica_counts(frozen, build_rules(frozen, PlanRequest("balance"))).certificate.moves == 0


def test_large_partitions_are_spread() -> None:
    model = replace(cluster(300, 6, 0, 2), size=np.where(np.arange(300) % 30 == 0, 1e9, 1.0))
    rules = build_rules(model, PlanRequest("drain", brokers=(5,)))
    proposal = plan_replica_counts(model, rules)
    before = np.bincount(model.replicas, model.size[model.row], 6)
    after = np.bincount(proposal.replicas, model.size[row_of(proposal.offsets)], 6)
    assert after.max() < before.max() + 1e6  # who had most got none of the large ones
