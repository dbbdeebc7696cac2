"""Plans that copy much for the target after failures name one that copies less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.planning.models import make_model
from udfs.planning.alternative_plans import find_cheaper_plan
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import PlanRequest, Targets
from udfs.planning.planned_waves import plan_waves
from udfs.planning.waves import WaveLimits


@pytest.mark.slow
def test_a_plan_that_copies_much_for_failures_names_a_cheaper_one() -> None:
    model, request = make_model(60, 6, 2000, 9), PlanRequest("balance")
    execution = plan_waves(model, make_plan(model, request), WaveLimits())
    cheaper = find_cheaper_plan(execution, request)
    assert cheaper is not None
    assert cheaper.bytes_to_copy <= 0.95 * execution.bytes_to_copy
    assert cheaper.options == {"--set": ("plans.target_failover_out=1.3",)}
    again = make_plan(model, replace(request, targets=Targets(failover_out=1.3)))
    assert plan_waves(model, again, WaveLimits()).bytes_to_copy == cheaper.bytes_to_copy
    assert find_cheaper_plan(execution, replace(request, max_bytes=10**12)) is None


def test_a_plan_near_its_bound_names_none() -> None:
    model, request = make_model(24, 4, 400, 1, oversized=False), PlanRequest("balance")
    assert find_cheaper_plan(plan_waves(model, make_plan(model, request), WaveLimits()), request) is None
