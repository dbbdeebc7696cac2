"""Plans within a budget: most relief of the first load, no load worse than now, and bounds that are true."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.unit.planning.models import make_model
from tests.unit.planning.plan_commands import CommandResult, write_model
from udfs.arrow.ragged import row_of
from udfs.planning.bounds.lower_bounds import Budget, bound_fullest_broker
from udfs.planning.certificates import BalanceCertificate, Relief
from udfs.planning.cluster_model import ClusterModel, Floats, ReplicaLists
from udfs.planning.constraints import build_rules
from udfs.planning.later_lists import find_later_slots, list_later
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import BYTES_IN, DISK, PRIORITIES, PlanRequest, Targets


def measure_loads(model: ClusterModel, lists: ReplicaLists) -> dict[str, Floats]:
    """Sum the loads of each broker over their mean; of survivors, of the worst one after each failure."""
    n, row, first = model.brokers, row_of(lists.offsets), lists.replicas[lists.offsets[:-1]]
    placed = model.with_lists(lists.offsets, lists.replicas)
    loads = {
        "replicas": np.bincount(lists.replicas, minlength=n),
        "leaders": np.bincount(first, minlength=n),
        "disk": np.bincount(lists.replicas, model.size[row], n),
        "bytes_in": np.bincount(lists.replicas, model.rate_in[row], n),
        "bytes_out": np.bincount(first, model.rate_out, n),
    }
    over_mean = {name: load / load.mean() for name, load in loads.items()}
    for name, weight in (("failover", None), ("failover_out", model.rate_out)):
        after = placed.compute_leader_loads(weight)
        over_mean[name] = after.max(axis=1) * (n - 1) / after.sum(axis=1)
    return over_mean


def measure_copies(model: ClusterModel, lists: ReplicaLists) -> tuple[Floats, int]:
    """Return the sizes of all copies, float64, and the most bytes that a broker receives, or sends as a leader."""
    copied = model.find_copied(lists)
    row = row_of(lists.offsets)[copied]
    ends = (lists.replicas[copied], model.replicas[model.offsets[:-1]][row])
    traffic = [np.bincount(one, model.size[row], model.brokers).max(initial=0.0) for one in ends]
    return model.size[row], int(max(traffic))


def compute_budget(model: ClusterModel, share: float) -> int:
    """Return a share of the bytes that all brokers have above the mean."""
    load = np.bincount(model.replicas, model.size[model.row], model.brokers)
    return int(share * np.maximum(load - load.mean(), 0.0).sum())


def move_greedily(model: ClusterModel, budget: float) -> float:
    """Return the fullest disk over the mean after moves of large replicas from the fullest brokers to the emptiest."""
    lists = [model.replicas[model.offsets[p] : model.offsets[p + 1]].tolist() for p in range(model.partitions)]
    load = np.bincount(model.replicas, model.size[model.row], model.brokers)
    racks = len(model.rack_names)

    def may_move(p: int, b: int, t: int) -> bool:
        others = [model.rack[other] for other in lists[p] if other != b]
        return t not in lists[p] and others.count(model.rack[t]) < -(-len(lists[p]) // racks)

    while True:
        b = int(np.argmax(load))
        rows = [p for p in range(model.partitions) if b in lists[p] and 0 < model.size[p] <= budget]
        moves = (
            (p, t)
            for p in sorted(rows, key=lambda p: -model.size[p])
            for t in np.argsort(load).tolist()
            if load[t] + model.size[p] < load[b] and may_move(p, b, t)
        )
        move = next(moves, None)
        if move is None:
            return float(load.max() / load.mean())
        p, t = move
        lists[p][lists[p].index(b)] = t
        load[[b, t]] += -model.size[p], model.size[p]
        budget -= model.size[p]


def read_relief(certificate: object, load: str) -> Relief:
    assert isinstance(certificate, BalanceCertificate)
    return next(relief for relief in certificate.relief if relief.load == load)


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("share", [0.15, 0.4])
def test_first_load_gets_more_relief_than_from_a_greedy_plan(seed: int, share: float) -> None:
    model = make_model(30, 5, 200, seed)
    budget = compute_budget(model, share)
    proposal = make_plan(model, PlanRequest("balance", max_bytes=budget, priorities=(DISK,)))
    relief = read_relief(proposal.certificate, "disk")
    before, after = (measure_loads(model, lists)["disk"].max() for lists in (model, proposal))
    assert (relief.before, relief.value) == (pytest.approx(before, abs=1e-5), pytest.approx(after, abs=1e-5))
    assert relief.lower_bound <= after <= relief.lower_bound + 0.1 * (before - relief.lower_bound)
    assert after <= move_greedily(model, budget)
    assert measure_copies(model, proposal)[0].sum() <= budget


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("budget", ["bytes", "moves", "time"])
def test_no_load_gets_worse_than_now_and_no_budget_is_exceeded(seed: int, budget: str) -> None:
    model = make_model(18, 3, 150, seed)
    most = compute_budget(model, 0.3)
    limits = {"bytes": {"max_bytes": most}, "moves": {"max_moves": 40}, "time": {"max_broker_bytes": most // 9}}
    proposal = make_plan(model, PlanRequest("balance", **limits[budget]))
    targets = Targets()
    before, after = (measure_loads(model, lists) for lists in (model, proposal))
    sizes, busiest = measure_copies(model, proposal)
    assert 0 < len(sizes) <= (40 if budget == "moves" else np.inf)
    assert sizes.sum() <= (most if budget == "bytes" else np.inf)
    assert busiest <= (most // 9 if budget == "time" else np.inf)
    for name, load in after.items():
        rounding = 0.0 if name.startswith(("disk", "bytes", "failover_out")) else model.brokers / model.partitions
        assert load.max() <= max(before[name].max(), getattr(targets, name) + rounding) + 3e-4, name
    for relief in proposal.certificate.relief:
        assert relief.lower_bound <= relief.value <= relief.before + 1e-4


def test_a_budget_is_spent_where_fewer_copysets_are_preferred_too() -> None:
    model = make_model(12, 3, 60, 2)
    proposal = make_plan(model, PlanRequest("balance", max_moves=9, priorities=PRIORITIES))
    assert 0 < len(measure_copies(model, proposal)[0]) <= 9


def test_priorities_decide_what_a_budget_is_spent_on() -> None:
    model = make_model(30, 5, 200, 3)
    budget = compute_budget(model, 0.2)
    orders = {first: (first, DISK if first == BYTES_IN else BYTES_IN) for first in (DISK, BYTES_IN)}
    disk, bytes_in = (
        measure_loads(model, make_plan(model, PlanRequest("balance", max_bytes=budget, priorities=order)))
        for order in orders.values()
    )
    assert disk["disk"].max() < bytes_in["disk"].max() - 0.02
    assert bytes_in["bytes_in"].max() < disk["bytes_in"].max() - 0.02


@pytest.mark.parametrize(
    ("brokers", "seed", "request_of_all"),
    [(30, 1, PlanRequest("balance", priorities=(DISK,))), (20, 3, PlanRequest("balance"))],
)
def test_plans_of_several_nights_copy_little_more_than_one_plan(
    brokers: int, seed: int, request_of_all: PlanRequest
) -> None:
    model = make_model(brokers, 5, 200, seed)
    whole_plan = make_plan(model, request_of_all)
    whole, disk = (measure_copies(model, whole_plan)[0].sum(), measure_loads(model, whole_plan)["disk"].max())
    nightly, total = replace(request_of_all, max_bytes=int(whole / 4)), 0.0
    for _ in range(6):
        proposal = make_plan(model, nightly)
        total += measure_copies(model, proposal)[0].sum()
        nightly = replace(nightly, later=list_later(model, proposal))
        model = model.with_lists(proposal.offsets, proposal.replicas)
    assert total <= 1.03 * whole
    assert measure_loads(model, model)["disk"].max() <= disk + 5e-4


def test_nights_of_an_expansion_make_the_moves_of_one_plan() -> None:
    """Each night is a part of the plan without a budget, so that none runs out of moves before disks are even."""
    model = make_model(12, 3, 60, 5, empty=2)
    request = PlanRequest("expand", brokers=(10, 11))
    whole = make_plan(model, request)
    sizes, disk = measure_copies(model, whole)[0], measure_loads(model, whole)["disk"].max()
    nightly, total, moves = replace(request, max_bytes=int(sizes.sum() / 3)), 0.0, 0
    for night in range(4):
        proposal = make_plan(model, nightly)
        if not night:
            assert read_relief(proposal.certificate, "replicas").value < 1.1
        copied = measure_copies(model, proposal)[0]
        total, moves = total + copied.sum(), moves + len(copied)
        nightly = replace(nightly, later=list_later(model, proposal))
        model = model.with_lists(proposal.offsets, proposal.replicas)
        assert proposal.certificate.continues == bool(night)
    assert (total, moves) == (sizes.sum(), len(sizes))
    assert measure_loads(model, model)["disk"].max() <= disk + 5e-4
    (text,) = [text for text in make_plan(model, nightly).certificate.relaxed if "at most" in text]
    assert text.endswith("; --goal balance evens out disks further")


_PRINTING_SOLVER = """
import ctypes
from tests.unit.planning.models import make_model
from udfs.planning import integer_programs
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import PlanRequest

def print_and_solve(*values, solve=integer_programs.milp, **options):
    ctypes.CDLL(None).puts(b"HighsMipSolverData")
    return solve(*values, **options)

integer_programs.milp = print_and_solve
make_plan(make_model(12, 3, 60, 5, empty=2), PlanRequest("expand", brokers=(10, 11), max_moves=20))
print("{}")
"""


def test_what_the_solver_prints_is_not_on_stdout() -> None:
    """HiGHS prints a line in some runs, which would be within the JSON of a plan."""
    command = [sys.executable, "-c", _PRINTING_SOLVER]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "{}\n"
    assert "HighsMipSolverData" in result.stderr


def test_what_no_longer_fits_is_not_continued() -> None:
    """A new plan is made if what is left names a replica elsewhere, a broker that gets none, or another topic."""
    model = make_model(12, 3, 60, 5, empty=2)
    request = PlanRequest("expand", brokers=(10, 11))
    night = make_plan(model, replace(request, max_moves=60))
    later, after = list_later(model, night), model.with_lists(night.offsets, night.replicas)
    assert later is not None
    assert make_plan(after, replace(request, later=later)).certificate.continues  # the rest, without a budget
    assert not make_plan(model, replace(request, later=later)).certificate.continues
    closed = replace(after, cordoned=np.arange(after.brokers) == 10)
    rules = build_rules(closed, replace(request, brokers=(11,)))
    assert find_later_slots(closed, rules, later) is None
    gone = replace(later, topics=("gone", *later.topics[1:]))
    assert find_later_slots(after, build_rules(after, request), gone) is None
    assert list_later(after, make_plan(after, request)) is None  # without a budget, nothing is left


@pytest.mark.parametrize("seed", range(40))
def test_bound_holds_for_every_plan_of_tiny_clusters(seed: int) -> None:
    rng = np.random.default_rng(seed)
    brokers, partitions = 3, 6
    replicas = rng.integers(0, brokers, partitions).astype(np.int32)
    load, size = rng.integers(1, 9, partitions).astype(float), rng.integers(0, 9, partitions).astype(float)
    free = rng.random(partitions) < 0.8
    most_bytes, most_moves = float(rng.integers(0, 20)), float(rng.integers(0, 4))
    budgets = [Budget(size, most_bytes, whole=False), Budget(np.ones(partitions), most_moves, whole=True)]
    bound = bound_fullest_broker(replicas, load, free, np.ones(brokers, np.bool_), budgets)
    lowest = np.inf
    for places in product(range(brokers), repeat=partitions):
        moved = np.array(places) != replicas
        if not (moved & ~free).any() and size[moved].sum() <= most_bytes and moved.sum() <= most_moves:
            lowest = min(lowest, np.bincount(places, load, brokers).max())
    assert bound <= lowest + 1e-6


def test_bound_is_reached_where_replicas_are_small() -> None:
    replicas = np.repeat(np.arange(2, dtype=np.int32), [80, 20])
    load = np.ones(100)
    budget = Budget(load, 12.0, whole=False)
    bound = bound_fullest_broker(replicas, load, np.ones(100, np.bool_), np.ones(2, np.bool_), [budget])
    assert bound == pytest.approx(68.0)


def test_repairs_of_racks_keep_to_the_budget() -> None:
    model = make_model(12, 3, 80, 4, oversized=False)
    model = replace(model, rack=np.where(np.arange(12) < 6, 0, 1 + np.arange(12) % 2).astype(np.int32))
    for limits in ({"max_bytes": 0}, {"max_moves": 3}, {"max_broker_bytes": 10**9}):
        proposal = make_plan(model, PlanRequest("balance", **limits))
        sizes, busiest = measure_copies(model, proposal)
        assert sizes.sum() <= limits.get("max_bytes", np.inf)
        assert len(sizes) <= limits.get("max_moves", np.inf)
        assert busiest <= limits.get("max_broker_bytes", np.inf)


def test_plan_prints_the_relief_and_its_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_model(tmp_path)
    options = ["--goal", "balance", "--set", 'plans.priorities=["disk"]']
    whole = CommandResult(capsys, "plan", source, *options)
    assert "within the budget" not in whole.out
    for budget in (["--max-moves", "2"], ["--max-time", "1s", "--throttle", "1GB"]):
        result = CommandResult(capsys, "plan", source, *options, *budget)
        assert result.code == 0, result.err
        assert " times the mean; within the budget no plan gets below " in result.out
        assert "optimal" not in result.out
    result = CommandResult(capsys, "plan", source, *options, "--max-time", "1h", "--objective", "min-bytes")
    assert (result.code, "--max-time: needs --objective all" in result.err) == (64, True)
    assert "--max-time soon: write a time" in CommandResult(capsys, "plan", source, *options, "--max-time", "soon").err
