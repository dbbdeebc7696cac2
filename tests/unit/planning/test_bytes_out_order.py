"""Leaders and heirs by bytes out: nothing is copied, counts stay even, and bounds are true and close."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.planning.models import model
from tests.unit.planning.test_balance_plan import (
    assert_legal,
    loads,
    over_mean,
    worst_survivor,
)
from udfs.planning.cluster_model import moved
from udfs.planning.plan_maker import make_plan
from udfs.planning.plan_request import Wishes

EVERYONE = np.ones(18, dtype=np.bool_)


@pytest.mark.parametrize("seed", [1, 2])
def test_leaders_by_bytes_come_close_to_what_splitting_would_give(seed: int) -> None:
    problem = model(18, 3, 300, seed, giants=False)
    draft = make_plan(problem, Wishes("leaders", by_bytes=True))
    assert_legal(problem, draft, EVERYONE)
    assert not moved(problem, draft.offsets, draft.replicas).any()
    after, told = loads(problem, draft), draft.certificate["leaders"]
    assert told["value"] == pytest.approx(after["bytes_out"].max(), rel=1e-6)
    assert told["lower_bound"] <= told["value"] <= 1.01 * told["lower_bound"]
    mean = problem.partitions / 18
    assert after["leaders"].max() <= max(np.ceil(mean), 1.01 * mean)
    assert after["leaders"].min() >= np.floor(mean / 1.01)


def test_failover_by_bytes() -> None:
    problem = model(18, 3, 300, 3, giants=False)
    by_count = make_plan(problem, Wishes("failover"))
    draft = make_plan(problem, Wishes("failover", by_bytes=True))
    assert not moved(problem, draft.offsets, draft.replicas).any()
    rate = problem.rate_out
    worst = worst_survivor(problem, draft, rate, EVERYONE)
    assert worst < worst_survivor(problem, by_count, rate, EVERYONE)
    told = draft.certificate["failover"]
    assert told["value"] == pytest.approx(worst * rate.sum() / 17, rel=1e-6)
    assert told["lower_bound"] <= told["value"] <= 1.1 * told["lower_bound"]


def test_leaders_that_are_kept() -> None:
    problem = model(18, 3, 300, 4, giants=False)
    draft = make_plan(problem, Wishes("failover", by_bytes=True, keep_leaders=True))
    assert np.array_equal(draft.replicas[draft.offsets[:-1]], problem.replicas[problem.offsets[:-1]])
    rate = problem.rate_out
    before = replace(draft, replicas=problem.replicas)
    assert worst_survivor(problem, draft, rate, EVERYONE) < worst_survivor(problem, before, rate, EVERYONE)
    assert over_mean(loads(problem, draft)["bytes_out"], EVERYONE) == over_mean(
        loads(problem, before)["bytes_out"], EVERYONE
    )


def test_bytes_that_nobody_knows() -> None:
    problem = replace(model(18, 3, 30, 5), known=(True, True, False))
    with pytest.raises(ValueError, match="bytes out"):
        make_plan(problem, Wishes("leaders", by_bytes=True))
