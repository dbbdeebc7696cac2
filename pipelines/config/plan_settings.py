"""What a plan is asked for, from settings: targets, limits of waves, and what its metrics may take."""

from __future__ import annotations

from typing import Any

from pipelines.config.settings import PlanSettings, Settings
from udfs.planning.plan_metrics import Effort
from udfs.planning.plan_request import COPYSETS, PlanRequest, Targets
from udfs.planning.waves import Limits


def request_of(settings: Settings, goal: str, copysets: bool = False, **asked: Any) -> PlanRequest:
    """The request for a goal. asked: fields of PlanRequest that are not in settings.   copysets: fewer of them, last
    of all."""
    plans = settings.plans
    last = (COPYSETS,) if copysets and COPYSETS not in plans.priorities else ()
    fields: dict[str, Any] = {
        "broker_replicas": plans.broker_replicas or None,
        "broker_bytes": plans.broker_bytes or None,
        "priorities": (*plans.priorities, *last),
        "targets": _targets(plans),
        "seed": settings.run.seed,
    }
    return PlanRequest(goal, **{**fields, **asked})


def _targets(plans: PlanSettings) -> Targets:
    chosen = {name: getattr(plans, f"target_{name}", None) for name in Targets.__dataclass_fields__}
    return Targets(**{name: value for name, value in chosen.items() if value is not None})


def limits_of(settings: Settings) -> Limits:
    """What a wave may ask of a broker."""
    plans, none = settings.plans, Limits()
    return Limits(
        plans.wave_bytes_per_broker or none.bytes_in_flight,
        plans.wave_moves_per_broker or none.moves_per_broker,
        plans.throttle_bytes_per_s,
    )


def effort_of(settings: Settings) -> Effort:
    """What the metrics of a plan may take: as much as those of the failure stages."""
    chosen = settings.durability
    return Effort(settings.failures.max_pairs, chosen.steps, chosen.trials, settings.run.seed)
