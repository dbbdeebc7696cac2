"""A plan with all that is told of it: its waves, what it was before and is after, and what its certificate proves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from udfs.planning.cluster_model import FREE, FROZEN_WORDS, ClusterModel, ProposedAssignment
from udfs.planning.goals import GOALS
from udfs.planning.plan_metrics import Effort, metrics
from udfs.planning.plan_request import PlanRequest
from udfs.planning.waves import Limits, Waves, leader_of, split

_OBJECTIVES = {"min-bytes": "bytes copied", "min-moves": "replicas copied", "all": "bytes copied"}
_CHANGES = {"leaders": "preferred leaders changed"}
_WORST = "leaders of the worst survivor of a failure, over the mean"


@dataclass(frozen=True)
class Planned:
    """A plan for a model, its waves, and its metrics (see udfs.planning.plan_metrics)."""

    model: ClusterModel
    proposal: ProposedAssignment
    waves: Waves
    metrics: dict[str, Any]


@dataclass(frozen=True)
class Proof:
    """What a plan was to make small, how small it is, and what no plan can be below."""

    what: str
    value: float
    bound: float
    gap: float


def told(
    model: ClusterModel, request: PlanRequest, proposal: ProposedAssignment, limits: Limits, effort: Effort
) -> Planned:
    """All that is told of a plan for a request."""
    return Planned(model, proposal, split(model, proposal, limits), metrics(leaving(model, request), proposal, effort))


def leaving(model: ClusterModel, request: PlanRequest) -> ClusterModel:
    """The model in which the brokers that the request empties are named as such: means are over those that stay."""
    names = request.brokers if request.goal == "drain" else [old for old, _ in request.replacements]
    goes = np.isin(model.broker_ids, np.asarray(names, dtype=np.int64))
    return replace(model, draining=model.draining | goes) if goes.any() else model


def proofs(certificate: Mapping[str, Any], goal: str) -> Iterator[Proof]:
    """Every bound of a certificate, that of the goal first."""
    if "worst_ratio_bound" in certificate:  # its objective is the price of the order, which tells nobody anything
        worst, least = certificate["worst_ratio"], certificate["worst_ratio_bound"]
        yield Proof(_WORST, worst, least, max(worst - least, 0.0))
    else:
        yield from _proof(certificate, goal)
    for name, part in sorted(certificate.items(), key=lambda item: item[0] != goal):
        if isinstance(part, Mapping):
            yield from proofs(part, name if name in GOALS else goal)


def _proof(certificate: Mapping[str, Any], goal: str) -> Iterator[Proof]:
    value = next((certificate[name] for name in ("value", "objective") if name in certificate), None)
    bound = certificate.get("lower_bound", certificate.get("bound"))
    if isinstance(value, int | float) and isinstance(bound, int | float):
        named, gap = certificate.get("objective"), certificate.get("gap", value - bound)
        what = _OBJECTIVES.get(named, named) if isinstance(named, str) else _CHANGES.get(goal, "changes")
        yield Proof(what, float(value), float(bound), float(gap))
        if {"moves", "moves_lower_bound"} <= certificate.keys() and what != _OBJECTIVES["min-moves"]:
            moves, least = float(certificate["moves"]), float(certificate["moves_lower_bound"])
            if moves >= least:  # else a budget was too small for the whole plan
                yield Proof(_OBJECTIVES["min-moves"], moves, least, moves - least)


def texts(certificate: Mapping[str, Any], name: str) -> list[str]:
    """All texts that a certificate, or a part of it, lists under this name: relaxed, missed."""
    found = list(certificate.get(name) or ())
    for part in certificate.values():
        if isinstance(part, Mapping):
            found += texts(part, name)
    return list(dict.fromkeys(found))


def frozen_counts(model: ClusterModel) -> dict[str, int]:
    """{why: how many partitions must stay as they are for that}, of the reasons that there are."""
    counts = np.bincount(model.frozen, minlength=len(FROZEN_WORDS)).tolist()
    return {word: n for code, (word, n) in enumerate(zip(FROZEN_WORDS, counts, strict=True)) if n and code != FREE}


def not_led_by_first(model: ClusterModel) -> int:
    """How many partitions another replica than the preferred one leads now, as far as known."""
    return int((leader_of(model) != model.replicas[model.offsets[:-1]]).sum())
