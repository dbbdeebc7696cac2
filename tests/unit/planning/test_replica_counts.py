"""Plans by counts against an exact integer program on small clusters, and what they promise on any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import Bounds as Box
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import lil_array

from tests.unit.planning.plan_models import problem_with
from udfs.arrow.ragged import count_true, has_repeat, row_of
from udfs.planning.cluster_model import (
    EXCLUDED,
    OFFLINE,
    Draft,
    Flags,
    Floats,
    Ints,
    Problem,
    changed,
    moved,
)
from udfs.planning.constraints import (
    GOALS,
    Asked,
    Infeasible,
    Rules,
    over_cap,
    rules_for,
)
from udfs.planning.replicas.count_targets import Bounds, even_bounds
from udfs.planning.replicas.replica_counts import move_by_counts


def random_problem(seed: int) -> Problem:
    """Uneven racks or none, factors from 1 to 5, dead, empty and draining brokers, frozen partitions."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    partitions = int(rng.integers(1, 13))
    racks = [f"r{rack}" for rack in rng.choice(rng.integers(1, 5), size=n, p=None)] if rng.random() < 0.7 else None
    used = rng.permutation(n)[: max(1, n - int(rng.integers(0, 3)))]
    lists = {}
    for p in range(partitions):
        factor = int(rng.integers(1, min(5, len(used)) + 1))
        lists[(f"t{p % 3}", p)] = (10 + rng.permutation(used)[:factor]).tolist()
    dead = (10 + rng.permutation(n)[: int(rng.integers(0, 2))]).tolist() if n > 2 and rng.random() < 0.4 else []
    sizes = rng.integers(0, 50, partitions).astype(float).tolist()
    problem = problem_with(lists, range(10, 10 + n), racks, sizes, dead)
    draining = np.zeros(n, dtype=np.bool_)
    draining[rng.permutation(n)[:1]] = rng.random() < 0.5
    frozen = np.where(rng.random(partitions) < 0.1, EXCLUDED, 0).astype(np.int8)
    frozen[count_true(problem.living[problem.replicas], problem.offsets) == 0] = OFFLINE
    return replace(problem, draining=draining, frozen=frozen)


def random_rules(problem: Problem, seed: int) -> Rules | None:
    """Rules of a random goal, or None if it makes no sense here."""
    rng = np.random.default_rng(seed + 1_000_000)
    goal = str(rng.choice(GOALS))
    brokers = problem.broker_ids.tolist()
    wishes = Asked(allow_fewer_racks=True)
    if goal == "replace":
        old, new = (rng.permutation(brokers)[:2]).tolist() if len(brokers) > 1 else (10, 10)
        wishes = replace(wishes, instead={old: new})
    if goal == "rf":
        wishes = replace(
            wishes, replication_factor=int(rng.integers(1, 6)), topics=("t0",) if rng.random() < 0.5 else ()
        )
    if rng.random() < 0.2:
        wishes = replace(wishes, excluded=(int(rng.choice(brokers)),))
    if rng.random() < 0.2:
        wishes = replace(wishes, max_replicas=rng.integers(2, 20, len(brokers)).astype(np.int64))
    try:
        rules = rules_for(problem, goal, wishes)
    except ValueError:
        return None
    return rules


def cells(problem: Problem) -> Flags:
    """bool (p, n): who holds what now."""
    held = np.zeros((problem.partitions, problem.brokers), dtype=np.bool_)
    held[problem.row, problem.replicas] = True
    return held


def limits(problem: Problem, rules: Rules) -> Ints:
    """int64 (n): capacity, or what a broker holds already and need not give away."""
    stays = rules.fixed[problem.row] | (not rules.even)
    return np.maximum(rules.max_replicas, np.bincount(problem.replicas[stays], minlength=problem.brokers))


def least(
    problem: Problem, rules: Rules, price: Floats, bounds: Bounds | None = None, convex: bool = False
) -> float | None:
    """The optimum by integer programming: bytes or moves at `price` (p), or the sum of squares of counts."""
    p, n = problem.partitions, problem.brokers
    held = cells(problem)
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
        for rack in np.unique(problem.rack):
            mine = np.flatnonzero(problem.rack == rack)
            rows.append(([row * n + b for b in mine], [1.0] * len(mine), 0, rules.cap[row]))
    for b in range(n):
        mine = [row * n + b for row in range(p)]
        if rules.receives[b]:
            top = limits(problem, rules)[b]
            rows.append((mine, [1.0] * p, bounds.lo[b] if bounds else 0, min(bounds.hi[b], top) if bounds else top))
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


def assert_legal(problem: Problem, rules: Rules, draft: Draft) -> None:
    row = row_of(draft.offsets)
    assert (np.diff(draft.offsets) == rules.factor).all()
    assert not has_repeat(draft.replicas, draft.offsets).any()
    new = moved(problem, draft.offsets, draft.replicas)
    assert rules.receives[draft.replicas[new]].all()
    assert not (rules.must_leave[draft.replicas] & ~rules.fixed[row]).any()
    differs = changed(problem, draft.offsets, draft.replicas)
    assert not (differs & rules.fixed).any()
    assert not (over_cap(problem.placed(draft.offsets, draft.replicas), rules.cap) & ~rules.fixed).any()
    assert ((draft.reason >= 0) == differs).all()
    counts = np.bincount(draft.replicas, minlength=problem.brokers)
    assert (counts <= limits(problem, rules))[rules.receives].all()


@pytest.mark.parametrize("block", range(6))
def test_no_integer_program_does_better(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        problem = random_problem(seed)
        rules = random_rules(problem, seed)
        if rules is None:
            continue
        objective = "min-bytes" if seed % 2 and problem.size.any() else "min-moves"
        price = problem.size if objective == "min-bytes" else np.ones(problem.partitions)
        at_all = least(problem, rules, price)
        stuck = (rules.must_leave[problem.replicas] & (problem.frozen != 0)[problem.row]).any()
        try:
            draft = move_by_counts(problem, rules, objective=objective)
        except Infeasible:
            assert at_all is None or stuck, seed
            continue
        assert_legal(problem, rules, draft)
        new = count_true(moved(problem, draft.offsets, draft.replicas), draft.offsets)
        bounds = even_bounds(problem, rules)
        best = least(problem, rules, price, bounds) if rules.even else at_all
        told = draft.certificate
        assert told["value"] == float(new @ price), seed
        assert told["moves_lower_bound"] <= told["moves"]
        others = ~rules.receives & ~rules.must_leave & (np.bincount(problem.replicas, minlength=problem.brokers) > 0)
        if best is not None or not others.any():
            assert told["value"] == told["lower_bound"] == best, seed
        if rules.even and not others.any():  # and nobody has more even counts
            counts = np.bincount(draft.replicas, minlength=problem.brokers)
            assert float((counts**2).sum()) == least(problem, rules, price, convex=True), seed


def cluster(partitions: int, brokers: int, racks: int, factor: int, seed: int = 7) -> Problem:
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
    return problem_with(lists, range(brokers), names, (rng.lognormal(3, 1, partitions) * 1e6).round().tolist())


def test_balanced_clusters_stay_as_they_are() -> None:
    problem = cluster(400, 12, 3, 3)
    draft = move_by_counts(problem, rules_for(problem, "balance"))
    again = problem.placed(draft.offsets, draft.replicas)
    same = move_by_counts(again, rules_for(again, "balance"))
    assert not changed(again, same.offsets, same.replicas).any()
    assert (same.certificate["value"], same.certificate["moves"]) == (0, 0)
    assert (same.reason == -1).all()


def test_new_brokers_are_filled_with_no_more_moves_than_the_bound() -> None:
    problem = cluster(600, 12, 3, 3)
    ids = np.arange(15, dtype=np.int32)
    wider = replace(
        problem,
        broker_ids=ids,
        rack=(ids % 3).astype(np.int32),
        living=np.ones(15, dtype=np.bool_),
        draining=np.zeros(15, dtype=np.bool_),
    )
    draft = move_by_counts(wider, rules_for(wider, "expand"), objective="min-moves")
    counts = np.bincount(draft.replicas, minlength=15)
    assert counts.max() - counts.min() <= 1
    assert draft.certificate["moves"] == draft.certificate["moves_lower_bound"]
    assert draft.reasons[draft.reason[draft.reason >= 0][0]] == "a broker that holds nothing is filled"


def test_drained_brokers_hold_nothing_and_the_rest_is_even() -> None:
    problem = cluster(600, 12, 3, 3)
    draft = move_by_counts(problem, rules_for(problem, "drain", Asked(brokers=(0, 2, 7))))
    counts = np.bincount(draft.replicas, minlength=12)
    assert (counts[[0, 2, 7]] == 0).all()
    rest = np.delete(counts, [0, 2, 7])
    assert rest.max() - rest.min() <= 1


@pytest.mark.parametrize("racks", [0, 2])
def test_hubs_without_a_rack_for_each_replica_are_settled(racks: int) -> None:
    problem = cluster(2000, 12, racks, 2 if racks else 4)
    grown = rules_for(problem, "rf", Asked(replication_factor=7))
    draft = move_by_counts(problem, grown)
    assert_legal(problem, grown, draft)
    assert draft.certificate["attained"]
    counts = np.bincount(draft.replicas, minlength=12)
    assert counts.max() - counts.min() <= 1


def test_what_stays_keeps_its_order_and_leads() -> None:
    lists = {("t", 0): [1, 2, 3], ("t", 1): [2, 1, 3], ("t", 2): [3, 2, 1], ("t", 3): [1]}
    problem = problem_with(lists, [1, 2, 3, 4])
    draft = move_by_counts(problem, rules_for(problem, "replace", Asked(instead={1: 4})))
    assert as_lists(problem, draft) == [[4, 2, 3], [2, 4, 3], [3, 2, 4], [4]]
    draft = move_by_counts(problem, rules_for(problem, "drain", Asked(brokers=(1,))))
    assert as_lists(problem, draft)[:3] == [[2, 3, 4], [2, 4, 3], [3, 2, 4]]


def as_lists(problem: Problem, draft: Draft) -> list[list[int]]:
    return [
        problem.ids(draft.replicas[begin:end]) for begin, end in zip(draft.offsets[:-1], draft.offsets[1:], strict=True)
    ]


def test_a_small_rack_that_must_hold_more_is_named() -> None:
    lists = {("t", p): [p % 4, 4] for p in range(40)}
    problem = problem_with(lists, range(5), ["a", "a", "a", "a", "b"])
    draft = move_by_counts(problem, rules_for(problem, "balance"))
    assert draft.certificate["relaxed"] == [
        "rack a: 4 of 5 brokers can only hold 40 of 80 replicas, 10 each where the mean is 16",
        "rack b: 1 of 5 brokers must hold 40 of 80 replicas, 40 each where the mean is 16",
    ]
    assert draft.certificate["moves"] == 0


def test_fewer_replicas_leave_full_brokers_and_keep_leaders() -> None:
    problem = cluster(600, 12, 3, 3)
    draft = move_by_counts(problem, rules_for(problem, "rf", Asked(replication_factor=2)))
    assert draft.certificate["moves"] == 0
    assert (draft.replicas[draft.offsets[:-1]] == problem.replicas[problem.offsets[:-1]]).all()
    counts = np.bincount(draft.replicas, minlength=12)
    assert counts.max() - counts.min() <= 1


def test_repair_touches_only_what_is_broken() -> None:
    lists = {("t", p): [p % 4, 4 + p % 4] for p in range(16)}
    lists[("t", 3)] = [0, 1]  # both in one rack
    lists[("t", 5)] = [6]  # one too few
    problem = problem_with(lists, range(8), ["a"] * 4 + ["b"] * 4, dead=[7])
    rules = rules_for(problem, "repair")
    draft = move_by_counts(problem, rules)
    assert_legal(problem, rules, draft)
    named = {row: draft.reasons[code] for row, code in enumerate(draft.reason.tolist()) if code >= 0}
    assert named == {
        3: "a rack holds more of its replicas than it may",
        5: "its replication factor changes",
        7: "a replica is on a dead broker",
        11: "a replica is on a dead broker",
        15: "a replica is on a dead broker",
    }


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["bytes", "moves"])
def test_budgets_are_kept_and_what_they_leave_is_bounded(share: float, kind: str) -> None:
    problem = cluster(600, 12, 3, 2)
    free = move_by_counts(problem, rules_for(problem, "balance"))
    budget = share * free.certificate[kind]
    wishes = Asked(byte_budget=budget) if kind == "bytes" else Asked(move_budget=int(budget))
    draft = move_by_counts(problem, rules_for(problem, "balance", wishes))
    told = draft.certificate
    assert told[kind] <= budget
    assert told["lower_bound"] <= told["value"] <= told["lower_bound"] + 3
    assert any("the budget" in words for words in told["missed"])


def test_a_drain_beyond_its_budget_goes_as_far_as_it_can() -> None:
    problem = cluster(600, 12, 3, 3)
    whole = move_by_counts(problem, rules_for(problem, "drain", Asked(brokers=(2,)))).certificate["bytes"]
    draft = move_by_counts(problem, rules_for(problem, "drain", Asked(brokers=(2,), byte_budget=whole / 3)))
    told = draft.certificate
    assert told["bytes"] <= whole / 3
    assert told["value"] == told["lower_bound"] == int((draft.replicas == 2).sum())
    assert "broker 2 still holds" in " ".join(told["missed"])


def test_nothing_to_do() -> None:
    empty = problem_with({}, [1, 2])
    assert len(move_by_counts(empty, rules_for(empty, "balance")).replicas) == 0
    alone = problem_with({("t", 0): [1], ("t", 1): [1]}, [1])
    assert as_lists(alone, move_by_counts(alone, rules_for(alone, "balance"))) == [[1], [1]]
    frozen = replace(cluster(20, 4, 0, 2), frozen=np.full(20, EXCLUDED, dtype=np.int8))
    assert move_by_counts(frozen, rules_for(frozen, "balance")).certificate["moves"] == 0


def test_given_counts_are_kept() -> None:
    problem = cluster(400, 4, 0, 2)
    lo = np.array([100, 200, 200, 300], dtype=np.int64)
    draft = move_by_counts(problem, rules_for(problem, "balance"), lo, lo)
    assert np.bincount(draft.replicas, minlength=4).tolist() == lo.tolist()


def test_large_partitions_are_spread() -> None:
    problem = replace(cluster(300, 6, 0, 2), size=np.where(np.arange(300) % 30 == 0, 1e9, 1.0))
    rules = rules_for(problem, "drain", Asked(brokers=(5,)))
    draft = move_by_counts(problem, rules)
    before = np.bincount(problem.replicas, problem.size[problem.row], 6)
    after = np.bincount(draft.replicas, problem.size[row_of(draft.offsets)], 6)
    assert after.max() < before.max() + 1e6  # who had most got none of the large ones
