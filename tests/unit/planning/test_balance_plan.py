"""Balance, expand and drain: legal lists within every limit, true bounds, and reproducible plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.planning.models import make_model
from tests.unit.planning.plan_models import model_with
from udfs.arrow.ragged import has_repeat, row_of
from udfs.planning.broker_log_dirs import BrokerLogDirs
from udfs.planning.cluster_model import ClusterModel, FreezeReason, ProposedAssignment
from udfs.planning.constraints import InfeasibleRequest
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import PlanRequest, Targets


def loads(cluster_model: ClusterModel, proposal: ProposedAssignment) -> dict[str, np.ndarray]:
    """What each broker has of everything, as the lists say."""
    row, n = row_of(proposal.offsets), cluster_model.brokers
    first = proposal.replicas[proposal.offsets[:-1]]
    return {
        "replicas": np.bincount(proposal.replicas, minlength=n),
        "leaders": np.bincount(first, minlength=n),
        "disk": np.bincount(proposal.replicas, cluster_model.size[row], n),
        "bytes_in": np.bincount(proposal.replicas, cluster_model.rate_in[row], n),
        "bytes_out": np.bincount(first, cluster_model.rate_out, n),
    }


def over_mean(load: np.ndarray, counted: np.ndarray) -> float:
    return float(load[counted].max() / load[counted].mean())


def worst_survivor(
    cluster_model: ClusterModel, proposal: ProposedAssignment, load: np.ndarray, counted: np.ndarray
) -> float:
    """The most that any survivor of any one failure leads of `load` (p), over the mean of survivors."""
    first, n = proposal.replicas[proposal.offsets[:-1]], cluster_model.brokers
    two = np.diff(proposal.offsets) > 1
    successor = proposal.replicas[np.minimum(proposal.offsets[:-1] + 1, len(proposal.replicas) - 1)]
    base = np.bincount(first, load, n)
    taken = np.bincount(first[two] * n + successor[two], load[two], n * n).reshape(n, n)
    worst = 0.0
    for down in np.flatnonzero(counted).tolist():
        after = (base + taken[down])[counted & (np.arange(n) != down)]
        worst = max(worst, float(after.max() / after.mean()))
    return worst


def copied_bytes(cluster_model: ClusterModel, proposal: ProposedAssignment) -> int:
    copies = cluster_model.find_copied(proposal)
    return int(cluster_model.size[row_of(proposal.offsets)[copies]].sum())


def assert_legal(cluster_model: ClusterModel, proposal: ProposedAssignment, stays: np.ndarray) -> None:
    """Distinct brokers that stay, as many as before, no more of a rack than it may hold, frozen ones untouched."""
    assert not has_repeat(proposal.replicas, proposal.offsets).any()
    assert np.array_equal(np.diff(proposal.offsets), cluster_model.factor)
    racks = len(np.unique(cluster_model.rack[stays]))
    cap = -(-cluster_model.factor // racks)
    cells = row_of(proposal.offsets) * (cluster_model.rack.max() + 1) + cluster_model.rack[proposal.replicas]
    per = np.bincount(cells, minlength=cluster_model.partitions * (cluster_model.rack.max() + 1)).reshape(
        cluster_model.partitions, -1
    )
    free = cluster_model.frozen == 0
    assert (per.max(axis=1) <= cap)[free].all()
    assert stays[proposal.replicas[free[row_of(proposal.offsets)]]].all()
    assert not cluster_model.find_changed(proposal)[~free].any()
    assert ((proposal.reason >= 0) == cluster_model.find_changed(proposal)).all()


@pytest.mark.parametrize("seed", [1, 2])
def test_balance_meets_every_limit_close_to_the_copy_bound(seed: int) -> None:
    cluster_model = make_model(24, 4, 400, seed, oversized=False)
    proposal = make_plan(cluster_model, PlanRequest("balance", seed=seed))
    everyone = np.ones(24, dtype=np.bool_)
    assert_legal(cluster_model, proposal, everyone)
    after, of = loads(cluster_model, proposal), Targets()
    assert over_mean(after["replicas"], everyone) <= of.replicas
    assert over_mean(after["leaders"], everyone) <= np.ceil(cluster_model.partitions / 24) / (
        cluster_model.partitions / 24
    )
    for name in ("disk", "bytes_in", "bytes_out"):
        assert over_mean(after[name], everyone) <= 1.0092
    assert after["replicas"].min() >= 0.95 * after["replicas"].mean()
    assert after["leaders"].min() >= 0.95 * after["leaders"].mean()
    assert worst_survivor(cluster_model, proposal, np.ones(cluster_model.partitions), everyone) <= 1.06
    assert worst_survivor(cluster_model, proposal, cluster_model.rate_out, everyone) <= 1.1501
    certificate = proposal.certificate
    assert certificate.missed == []
    assert certificate.relaxed == []
    assert certificate.bytes == copied_bytes(cluster_model, proposal)
    assert certificate.bytes_lower_bound <= certificate.bytes <= 1.15 * certificate.bytes_lower_bound
    assert certificate.moves == cluster_model.find_copied(proposal).sum() >= certificate.moves_lower_bound


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "most"), [(1, 1.04), (5, 1.03)])
def test_oversized_partitions_cost_few_bytes_beyond_the_bound(seed: int, most: float) -> None:
    """Where they go decides what else must move: where disk and bytes in differ, the rest hardly fits.

    With seed 1, a little more bytes out is what keeps to the target after failures.
    """
    cluster_model, everyone = make_model(60, 6, 2000, seed), np.ones(60, dtype=np.bool_)
    proposal = make_plan(cluster_model, PlanRequest("balance"))
    certificate = proposal.certificate
    assert certificate.bytes <= most * certificate.bytes_lower_bound
    assert worst_survivor(cluster_model, proposal, cluster_model.rate_out, everyone) <= 1.1501
    assert over_mean(loads(cluster_model, proposal)["bytes_out"], everyone) <= (1.0502 if seed == 1 else 1.0092)
    assert ["brokers may have up to" in text for text in certificate.relaxed] == [True] * (seed == 1)


@pytest.mark.slow
def test_an_oversized_leader_loosens_only_the_limits_of_its_brokers() -> None:
    cluster_model = make_model(24, 4, 400, 1, oversized=False)
    rate_out = cluster_model.rate_out.copy()
    rate_out[7] = 1.3 * rate_out.sum() / 24
    cluster_model = replace(cluster_model, rate_out=rate_out)
    proposal = make_plan(cluster_model, PlanRequest("balance"))
    out = loads(cluster_model, proposal)["bytes_out"] / rate_out.sum() * 24
    assert (out > 1.0502).sum() == 1
    successor = proposal.replicas[proposal.offsets[7] + 1]
    others = np.arange(24) != successor
    took = np.zeros((24, 24))
    first = proposal.offsets[:-1]
    np.add.at(took, (proposal.replicas[first + 1], proposal.replicas[first]), rate_out)
    after = out[:, None] + took / rate_out.sum() * 24
    np.fill_diagonal(after, 0.0)
    assert (after.max(axis=1)[others] > 1.21).sum() == 1  # of its leader
    assert any(text.startswith("bytes out: a single leader exceeds") for text in proposal.certificate.relaxed)


def test_balanced_cluster_stays_and_plans_are_reproducible() -> None:
    cluster_model = make_model(12, 3, 150, 3, oversized=False)
    proposal = make_plan(cluster_model, PlanRequest("balance"))
    again = make_plan(cluster_model, PlanRequest("balance"))
    assert np.array_equal(proposal.replicas, again.replicas)
    assert proposal.certificate == again.certificate
    second = make_plan(cluster_model.with_lists(proposal.offsets, proposal.replicas), PlanRequest("balance"))
    assert (second.reason == -1).all()
    assert second.certificate.bytes == second.certificate.bytes_lower_bound == 0


@pytest.mark.parametrize("oversized", [False, True])
def test_expand_fills_empty_brokers_with_few_bytes(oversized: bool) -> None:
    cluster_model = make_model(18, 3, 300, 4, empty=3, oversized=oversized)
    proposal = make_plan(cluster_model, PlanRequest("expand"))
    everyone = np.ones(18, dtype=np.bool_)
    assert_legal(cluster_model, proposal, everyone)
    after = loads(cluster_model, proposal)
    mean = after["replicas"].mean()
    assert after["replicas"].max() <= max(np.ceil(mean), 1.01 * mean)
    assert after["replicas"].min() >= 0.955 * mean
    certificate = proposal.certificate
    assert certificate.moves == cluster_model.find_copied(proposal).sum() <= 1.06 * certificate.moves_lower_bound
    if not oversized:
        assert certificate.bytes <= 1.03 * certificate.bytes_lower_bound
        assert max(over_mean(after[name], everyone) for name in ("disk", "bytes_in", "bytes_out")) <= 1.0302
        assert certificate.missed == []


def test_nights_of_an_expansion_spend_their_budgets_on_disks_once_counts_are_even() -> None:
    """The first night copies small partitions, the next ones large ones: together what one plan copies, 92 bytes."""
    lists = {("t", row): [row % 4 + 1] for row in range(100)}
    model = model_with(lists, range(1, 6), racks=["a"] * 5, sizes=[10.0 if row < 40 else 1.0 for row in range(100)])
    fullest, texts, low_disks = [], [], list[str]()
    for budget in (20, 60, 60):
        proposal = make_plan(model, PlanRequest("expand", brokers=(5,), max_bytes=budget))
        assert copied_bytes(model, proposal) <= budget
        model = model.with_lists(proposal.offsets, proposal.replicas)
        fullest.append(float(model.sum_bytes(model).max()))
        texts.append(" ".join(proposal.certificate.relaxed))
        low_disks += [text for text in proposal.certificate.missed if "gets only" in text]
    assert low_disks[0].endswith("; another plan with this goal continues")
    assert not any("--goal balance" in text for text in low_disks)
    assert "12 B of at most 20 B, and what is left may be too little for the next copy: another plan with" in texts[0]
    assert "50 B of at most 60 B; another plan with this goal continues" in texts[1]
    assert texts[2] == "the plan copies 30 B of at most 60 B; no target of this goal needs more"
    assert fullest == [112.0, 102.0, 92.0]


def test_lists_are_reordered_only_where_that_improves_a_load() -> None:
    """Another night of an expansion that is complete changes nothing, and copies need few other leaders."""
    model = replace(make_model(12, 3, 150, 2, empty=2, oversized=False), known=(True, False, False))
    first = make_plan(model, PlanRequest("expand"))
    after = model.with_lists(first.offsets, first.replicas)
    again = make_plan(after, PlanRequest("expand", brokers=(10, 11)))
    assert not after.find_changed(again).any()
    balance = make_plan(after, PlanRequest("balance"))
    assert balance.certificate.missed == []
    assert after.find_changed(balance).sum() < 0.25 * model.partitions


def test_broker_to_fill_that_stays_far_emptier_than_its_rack_is_missed() -> None:
    lists = {("t", row): [row % 4 + 1] for row in range(100)}

    def find_missed(largest: float, **more: Any) -> list[str]:
        sizes = [largest if row < 4 else 1.0 for row in range(100)]
        model = model_with(lists, range(1, 6), racks=["a", "b", "a", "b", "a"], sizes=sizes)
        missed = make_plan(model, PlanRequest("expand", **more)).certificate.missed
        return [text for text in missed if "gets only" in text]

    # Each of the others keeps a large partition and 19 small ones.
    (text,) = find_missed(100.0)
    assert text.startswith("disk: broker 5 gets only 0.2016 of the mean, 17% of the average of the others in rack a;")
    assert find_missed(1.0) == find_missed(100.0, priorities=("replicas",)) == []
    # Replica counts alone take small partitions, so that the fewest bytes are copied.
    (text,) = find_missed(100.0, objective="min-bytes")
    assert text.startswith("disk: broker 5 gets only 0.2016 of the mean, 17% of the average of the others in rack a;")
    assert find_missed(1.0, objective="min-bytes") == []


def test_drain_empties_brokers_and_evens_out_the_others() -> None:
    cluster_model = replace(make_model(18, 3, 300, 5, oversized=False), draining=np.arange(18) < 3)
    proposal = make_plan(cluster_model, PlanRequest("drain"))
    stays = ~cluster_model.draining
    assert_legal(cluster_model, proposal, stays)
    after = loads(cluster_model, proposal)
    assert after["replicas"][~stays].sum() == 0
    mean, leaving = after["replicas"][stays].mean(), (~stays)[cluster_model.replicas]
    assert after["replicas"][stays].max() <= max(np.ceil(mean), 1.01 * mean)
    certificate = proposal.certificate
    assert leaving.sum() <= certificate.moves <= 1.2 * leaving.sum()
    assert cluster_model.size[cluster_model.row[leaving]].sum() <= certificate.bytes_lower_bound
    assert certificate.bytes <= 1.03 * certificate.bytes_lower_bound
    for name in ("disk", "bytes_in", "bytes_out"):
        assert over_mean(after[name], stays) <= 1.0302


def test_budgets_are_kept_and_missed_targets_are_named() -> None:
    cluster_model = make_model(18, 3, 300, 6)
    free = make_plan(cluster_model, PlanRequest("balance"))
    budget = free.certificate.bytes // 4
    proposal = make_plan(cluster_model, PlanRequest("balance", max_bytes=budget))
    assert 0 < copied_bytes(cluster_model, proposal) <= budget
    assert proposal.certificate.missed
    everyone = np.ones(18, dtype=np.bool_)
    before, after = (
        over_mean(loads(cluster_model, lists)["disk"], everyone) for lists in (_as_is(cluster_model), proposal)
    )
    assert after <= before
    few = make_plan(cluster_model, PlanRequest("balance", max_moves=5))
    assert cluster_model.find_copied(few).sum() <= 5


def _as_is(cluster_model: ClusterModel) -> ProposedAssignment:
    return ProposedAssignment(
        cluster_model.offsets, cluster_model.replicas, np.full(cluster_model.partitions, -1, dtype=np.int16), ()
    )


def test_oversized_partition_that_raises_a_limit_is_named() -> None:
    cluster_model = make_model(12, 3, 240, 7)
    size, into = cluster_model.size.copy(), cluster_model.rate_in.copy()
    size[17] = 1.5 * (size * cluster_model.factor).sum() / 12
    into[17] = 1.5 * (into * cluster_model.factor).sum() / 12
    cluster_model = replace(cluster_model, size=size, rate_in=into)
    proposal = make_plan(cluster_model, PlanRequest("balance"))
    assert_legal(cluster_model, proposal, np.ones(12, dtype=np.bool_))
    assert any(cluster_model.name(17) in text for text in proposal.certificate.relaxed)
    # Those that hold it hold hardly anything else.
    holds = np.isin(np.arange(12), proposal.replicas[proposal.offsets[17] : proposal.offsets[18]])
    after = loads(cluster_model, proposal)
    assert after["disk"][holds].max() <= 1.15 * size[17]
    assert after["replicas"].min() >= 0.9 * after["replicas"].mean()


def test_excluded_topics_and_brokers() -> None:
    cluster_model = make_model(12, 3, 120, 8, oversized=False)
    frozen = np.where(cluster_model.topic < 40, FreezeReason.EXCLUDED, 0).astype(np.int8)
    cluster_model = replace(cluster_model, frozen=frozen)
    proposal = make_plan(cluster_model, PlanRequest("balance", exclude_brokers=(3,)))
    assert_legal(cluster_model, proposal, np.ones(12, dtype=np.bool_))
    arrived = proposal.replicas[cluster_model.find_copied(proposal)]
    assert len(arrived)
    assert not (arrived == 3).any()


def test_capacity_is_never_exceeded() -> None:
    cluster_model = make_model(12, 3, 120, 9, oversized=False)
    mean = (cluster_model.size * cluster_model.factor).sum() / 12
    proposal = make_plan(cluster_model, PlanRequest("balance", broker_bytes=int(1.005 * mean)))
    assert loads(cluster_model, proposal)["disk"].max() <= 1.005 * mean
    with pytest.raises(InfeasibleRequest, match="must hold"):
        make_plan(cluster_model, PlanRequest("balance", broker_bytes=int(0.9 * mean)))


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_disks_hold_what_they_can(share: float) -> None:
    """Two brokers have disks that can take a share of what they miss; the others have room, or unknown disks."""
    model = make_model(12, 3, 120, 9, oversized=False)
    n, sizes = model.brokers, model.size[model.row]
    held = np.bincount(model.replicas, sizes, n)
    mean = held.mean()
    small = np.argsort(held)[:2]
    total = np.full(n, 10 * mean)
    total[small] = (held + share * (mean - held))[small] / 0.95
    total[small[0] - 1] = np.nan
    yes, dirs = np.ones(n, dtype=np.bool_), np.arange(n)
    log_dirs = BrokerLogDirs(
        offsets=np.arange(n + 1),
        paths=("/d",) * n,
        online=yes,
        receives=yes,
        total=total,
        usable=total - held,
        of_replica=model.replicas,
        size=sizes,
        moving=np.zeros(len(sizes), dtype=np.bool_),
        unassigned=np.zeros(n),
        volume=dirs,
    )
    assert np.isinf(log_dirs.sum_room(0.95)[small[0] - 1])
    proposal = make_plan(replace(model, log_dirs=log_dirs), PlanRequest("balance"))
    after = loads(model, proposal)["disk"]
    assert (after[small] <= 0.95 * total[small] * (1 + 1e-9)).all()
    others = np.delete(after, small)
    assert others.max() < 1.1 * others.mean()
    assert loads(model, make_plan(model, PlanRequest("balance")))["disk"][small].min() > 0.95 * total[small].max()


def test_unknown_loads_are_ignored() -> None:
    cluster_model = make_model(12, 3, 120, 10)
    none = np.zeros(cluster_model.partitions)
    cluster_model = replace(cluster_model, size=none, rate_in=none, rate_out=none, known=(False, False, False))
    proposal = make_plan(cluster_model, PlanRequest("balance"))
    assert_legal(cluster_model, proposal, np.ones(12, dtype=np.bool_))
    after = loads(cluster_model, proposal)
    assert np.ptp(after["leaders"]) <= max(2, 0.06 * after["leaders"].mean())
    assert proposal.certificate.bytes == 0


@pytest.mark.parametrize("brokers", [1, 2, 3])
def test_one_to_three_brokers(brokers: int) -> None:
    lists = [[b % brokers] for b in range(7)]
    cluster_model = replace(
        make_model(3, 1, 3, 1),
        broker_ids=np.arange(brokers, dtype=np.int32),
        rack=np.zeros(brokers, dtype=np.int32),
        live=np.ones(brokers, dtype=np.bool_),
        draining=np.zeros(brokers, dtype=np.bool_),
        topic_names=("a",),
        topic=np.zeros(7, dtype=np.int32),
        partition=np.arange(7, dtype=np.int32),
        offsets=np.arange(8),
        replicas=np.array([b for one in lists for b in one], dtype=np.int32),
        size=np.ones(7),
        rate_in=np.ones(7),
        rate_out=np.ones(7),
        frozen=np.zeros(7, dtype=np.int8),
        topic_min_isr=np.ones(7, dtype=np.int32),
    )
    proposal = make_plan(cluster_model, PlanRequest("balance"))
    assert_legal(cluster_model, proposal, np.ones(brokers, dtype=np.bool_))


def test_cluster_without_partitions() -> None:
    cluster_model = make_model(3, 1, 2, 1)
    nothing = replace(
        cluster_model,
        topic_names=(),
        topic=np.empty(0, np.int32),
        partition=np.empty(0, np.int32),
        offsets=np.zeros(1, np.int64),
        replicas=np.empty(0, np.int32),
        size=np.empty(0),
        rate_in=np.empty(0),
        rate_out=np.empty(0),
        frozen=np.empty(0, np.int8),
        topic_min_isr=np.empty(0, np.int32),
    )
    for goal in ("balance", "expand"):
        assert len(make_plan(nothing, PlanRequest(goal)).replicas) == 0
