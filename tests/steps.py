"""Steps of a run that fills only some tables."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.growth_measurement import GROWTH_INPUTS
from pipelines.stages.stage_registry import NEEDS, STEPS
from pipelines.tables.growth_tables import GROWTH, GROWTH_FORECASTS

# Tables that a run writes after its steps, and what they need.
_AFTER_STEPS = dict.fromkeys((GROWTH.name, GROWTH_FORECASTS.name), (*GROWTH_INPUTS, "gold.scheme_comparison"))


def list_steps_to(tables: Iterable[str]) -> list[str]:
    """List the steps that these tables need, and no other."""
    needed, queue = set(), list(tables)
    while queue:
        step = queue.pop()
        if step not in needed:
            needed.add(step)
            queue += NEEDS.get(step, _AFTER_STEPS.get(step, ()))
    return [step for step in STEPS if step in needed]
