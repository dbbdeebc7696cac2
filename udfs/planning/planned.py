"""A plan with all that is told of it: its waves, what it was before and is after, and what its certificate proves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from udfs.planning.metrics import Effort, metrics
from udfs.planning.plan import make_plan
from udfs.planning.problem import FREE, FROZEN_WORDS, IN_FLIGHT, Draft, Problem
from udfs.planning.waves import Limits, Waves, leader_of, split
from udfs.planning.wishes import GOALS, Wishes

_OBJECTIVES = {"min-bytes": "bytes copied", "min-moves": "replicas copied", "all": "bytes copied"}
_CHANGES = {"leaders": "preferred leaders changed", "failover": "followers' orders changed"}


@dataclass(frozen=True)
class Planned:
    """A plan for a problem, its waves, and its metrics (see udfs.planning.metrics)."""

    problem: Problem
    draft: Draft
    waves: Waves
    metrics: dict[str, Any]


@dataclass(frozen=True)
class Proof:
    """What a plan was to make small, how small it is, and what no plan can be below."""

    what: str
    value: float
    bound: float
    gap: float


def planned(problem: Problem, wishes: Wishes, limits: Limits, effort: Effort) -> Planned:
    """The plan for a wish that makes sense (see nonsense). hard.Infeasible with the reasons if there is none."""
    draft = make_plan(problem, wishes)
    return Planned(problem, draft, split(problem, draft, limits), metrics(leaving(problem, wishes), draft, effort))


def leaving(problem: Problem, wishes: Wishes) -> Problem:
    """The problem in which the brokers that the wish empties are named as such: means are over those that stay."""
    names = wishes.brokers if wishes.goal == "drain" else [old for old, _ in wishes.replacements]
    goes = np.isin(problem.broker_ids, np.asarray(names, dtype=np.int64))
    return replace(problem, draining=problem.draining | goes) if goes.any() else problem


def proofs(certificate: Mapping[str, Any], goal: str = "") -> Iterator[Proof]:
    """Every bound of a certificate, that of the whole plan first. goal: of the plan."""
    goal = certificate["goal"] if certificate.get("goal") in GOALS else goal
    value = next((certificate[name] for name in ("value", "cost", "objective") if name in certificate), None)
    bound = certificate.get("lower_bound", certificate.get("bound"))
    if isinstance(value, int | float) and isinstance(bound, int | float):
        named, gap = certificate.get("objective"), certificate.get("gap", value - bound)
        what = _OBJECTIVES.get(named, named) if isinstance(named, str) else _CHANGES.get(goal, "changes")
        yield Proof(what, float(value), float(bound), float(gap))
    for name, part in certificate.items():
        if isinstance(part, Mapping):
            yield from proofs(part, name if name in GOALS else goal)


def texts(certificate: Mapping[str, Any], name: str) -> list[str]:
    """All texts that a certificate, or a part of it, lists under this name: relaxed, missed."""
    found = list(certificate.get(name) or ())
    for part in certificate.values():
        if isinstance(part, Mapping):
            found += texts(part, name)
    return list(dict.fromkeys(found))


def frozen_counts(problem: Problem) -> dict[str, int]:
    """{why: how many partitions must stay as they are for that}, of the reasons that there are."""
    counts = np.bincount(problem.frozen, minlength=len(FROZEN_WORDS)).tolist()
    return {word: n for code, (word, n) in enumerate(zip(FROZEN_WORDS, counts, strict=True)) if n and code != FREE}


def in_flight(problem: Problem) -> int:
    """How many partitions are being reassigned."""
    return int((problem.frozen == IN_FLIGHT).sum())


def not_led_by_first(problem: Problem) -> int:
    """How many partitions another replica than the preferred one leads now, as far as known."""
    return int((leader_of(problem) != problem.replicas[problem.offsets[:-1]]).sum())
