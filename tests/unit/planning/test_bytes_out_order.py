"""Leaders and successors by bytes out: nothing is copied, counts stay even, bounds are valid and tight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.planning.models import make_model
from tests.unit.planning.test_balance_plan import assert_legal, loads, over_mean, worst_survivor
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import PlanRequest

EVERYONE = np.ones(18, dtype=np.bool_)


@pytest.mark.parametrize("seed", [1, 2])
def test_leaders_by_bytes_come_close_to_the_bound_of_split_partitions(seed: int) -> None:
    cluster_model = make_model(18, 3, 300, seed, oversized=False)
    proposal = make_plan(cluster_model, PlanRequest("leaders", by_bytes=True))
    assert_legal(cluster_model, proposal, EVERYONE)
    assert not cluster_model.find_copied(proposal).any()
    after, proof = loads(cluster_model, proposal), proposal.certificate.leaders
    assert proof.value == pytest.approx(after["bytes_out"].max(), rel=1e-6)
    assert proof.lower_bound <= proof.value <= 1.01 * proof.lower_bound
    mean = cluster_model.partitions / 18
    assert after["leaders"].max() <= max(np.ceil(mean), 1.01 * mean)
    assert after["leaders"].min() >= np.floor(mean / 1.01)


def test_failover_by_bytes() -> None:
    cluster_model = make_model(18, 3, 300, 3, oversized=False)
    by_count = make_plan(cluster_model, PlanRequest("failover"))
    proposal = make_plan(cluster_model, PlanRequest("failover", by_bytes=True))
    assert not cluster_model.find_copied(proposal).any()
    rate = cluster_model.rate_out
    worst = worst_survivor(cluster_model, proposal, rate, EVERYONE)
    assert worst < worst_survivor(cluster_model, by_count, rate, EVERYONE)
    proof = proposal.certificate.failover
    assert proof.value == pytest.approx(worst * rate.sum() / 17, rel=1e-6)
    assert proof.lower_bound <= proof.value <= 1.1 * proof.lower_bound


def test_leaders_can_stay() -> None:
    cluster_model = make_model(18, 3, 300, 4, oversized=False)
    proposal = make_plan(cluster_model, PlanRequest("failover", by_bytes=True, keep_leaders=True))
    assert np.array_equal(proposal.replicas[proposal.offsets[:-1]], cluster_model.replicas[cluster_model.offsets[:-1]])
    rate = cluster_model.rate_out
    before = replace(proposal, replicas=cluster_model.replicas)
    assert worst_survivor(cluster_model, proposal, rate, EVERYONE) < worst_survivor(
        cluster_model, before, rate, EVERYONE
    )
    assert over_mean(loads(cluster_model, proposal)["bytes_out"], EVERYONE) == over_mean(
        loads(cluster_model, before)["bytes_out"], EVERYONE
    )


def test_unknown_bytes_out_are_an_error() -> None:
    cluster_model = replace(make_model(18, 3, 30, 5), known=(True, True, False))
    with pytest.raises(ValueError, match="bytes out"):
        make_plan(cluster_model, PlanRequest("leaders", by_bytes=True))
