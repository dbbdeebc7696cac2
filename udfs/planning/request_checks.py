"""Whether a wish makes sense in a cluster, before any plan is sought."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from udfs.planning import constraints
from udfs.planning.cluster_model import Problem
from udfs.planning.plan_request import Wishes

_SHOWN = 20  # ids of brokers


def nonsense(problem: Problem, wishes: Wishes) -> list[str]:
    """What is wrong with a wish in this cluster, in words; empty = a plan can be sought."""
    return list(_unknown(problem, wishes)) or list(_senseless(problem, wishes))


def _unknown(problem: Problem, wishes: Wishes) -> Iterator[str]:
    named = [*wishes.brokers, *(id_ for pair in wishes.replacements for id_ in pair), *wishes.exclude_brokers]
    missing = sorted(set(named) - set(problem.broker_ids.tolist()))
    if missing:
        yield f"there is no broker {ids_text(missing)}; there are {ids_text(problem.broker_ids.tolist()) or 'none'}"
    absent = sorted(set(wishes.topics) - set(problem.topic_names))
    if absent:
        yield f"there is no topic {', '.join(absent[:_SHOWN])} whose replicas are known"


def _senseless(problem: Problem, wishes: Wishes) -> Iterator[str]:
    living, draining = (set(problem.broker_ids[where].tolist()) for where in (problem.living, problem.draining))
    chosen = chosen_brokers(problem, wishes)
    if wishes.goal == "drain" and not chosen:
        yield "there is no broker to drain: the source wants none empty, so name some with --brokers"
    if wishes.goal == "expand":
        if not chosen:
            yield "there is no living broker that holds nothing: name those to fill with --brokers"
        unfit = sorted(set(wishes.brokers) - (living - draining))
        if unfit:
            yield f"broker {ids_text(unfit)} cannot be filled: it is dead, or to be emptied"
    if wishes.goal == "replace":
        if not wishes.replacements:
            yield "there is no broker to replace: name some, and who takes over, with --replace, as in 7=66"
        olds = {old for old, _ in wishes.replacements}
        fit = living - draining - olds - set(wishes.exclude_brokers)
        for old, new in wishes.replacements:
            if new not in fit:
                yield f"broker {new} cannot take over from {old}: it is dead, excluded, or to be emptied itself"
    if wishes.goal == "rf" and wishes.factor is None:
        yield "there is no replication factor: name it with --rf"


def chosen_brokers(problem: Problem, wishes: Wishes) -> list[int]:
    """The brokers that expand fills, or drain empties: those named, else those that the cluster itself tells."""
    if wishes.brokers or wishes.goal not in ("expand", "drain"):
        return list(wishes.brokers)
    empty = np.bincount(problem.replicas, minlength=problem.brokers) == 0
    fills = problem.living & ~problem.draining & empty
    return problem.ids(np.flatnonzero(fills if wishes.goal == "expand" else problem.draining))


def hard_wishes(problem: Problem, wishes: Wishes) -> constraints.Asked:
    """The wish as planners by counts take it."""
    n = problem.brokers
    return constraints.Asked(
        brokers=wishes.brokers,
        instead=dict(wishes.replacements),
        topics=wishes.topics,
        replication_factor=wishes.factor,
        excluded=wishes.exclude_brokers,
        max_replicas=None if wishes.broker_replicas is None else np.full(n, wishes.broker_replicas, dtype=np.int64),
        max_bytes=None if wishes.broker_bytes is None else np.full(n, float(wishes.broker_bytes)),
        byte_budget=wishes.max_bytes,
        move_budget=wishes.max_moves,
        allow_fewer_racks=wishes.allow_fewer_racks,
    )


def ids_text(ids: Sequence[int]) -> str:
    """The first of them, with commas, and how many more there are."""
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(map(str, ids[:_SHOWN])) + more
