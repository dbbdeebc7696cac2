"""Steps of a run that fills only some tables."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.stages.stage_registry import NEEDS, STEPS


def list_steps_to(tables: Iterable[str]) -> list[str]:
    """List the steps that these tables need, and no other."""
    needed, queue = set(), list(tables)
    while queue:
        step = queue.pop()
        if step not in needed:
            needed.add(step)
            queue += NEEDS.get(step, ())
    return [step for step in STEPS if step in needed]
