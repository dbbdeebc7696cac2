"""Runs of some stages, for tests that look at some tables."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.stages.stage_registry import NEEDS, STEPS


def steps_to(tables: Iterable[str]) -> list[str]:
    """The steps that these tables need, and no other."""
    wanted, ahead = set(), list(tables)
    while ahead:
        step = ahead.pop()
        if step not in wanted:
            wanted.add(step)
            ahead += NEEDS.get(step, ())
    return [step for step in STEPS if step in wanted]
