"""Whether a request makes sense in a cluster, before any plan is sought."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from udfs.planning import constraints
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.plan_request import PlanRequest

_SHOWN = 20  # ids of brokers


def nonsense(model: ClusterModel, request: PlanRequest) -> list[str]:
    """What is wrong with a request in this cluster, in words; empty = a plan can be sought."""
    return list(_unknown(model, request)) or list(_senseless(model, request))


def _unknown(model: ClusterModel, request: PlanRequest) -> Iterator[str]:
    named = [*request.brokers, *(id_ for pair in request.replacements for id_ in pair), *request.exclude_brokers]
    missing = sorted(set(named) - set(model.broker_ids.tolist()))
    if missing:
        yield f"there is no broker {ids_text(missing)}; there are {ids_text(model.broker_ids.tolist()) or 'none'}"
    absent = sorted(set(request.topics) - set(model.topic_names))
    if absent:
        yield f"there is no topic {', '.join(absent[:_SHOWN])} whose replicas are known"


def _senseless(model: ClusterModel, request: PlanRequest) -> Iterator[str]:
    live, draining = (set(model.broker_ids[where].tolist()) for where in (model.live, model.draining))
    chosen = chosen_brokers(model, request)
    if request.goal == "drain" and not chosen:
        yield "there is no broker to drain: the source wants none empty, so name some with --brokers"
    if request.goal == "expand":
        if not chosen:
            yield "there is no live broker that holds nothing: name those to fill with --brokers"
        unfit = sorted(set(request.brokers) - (live - draining))
        if unfit:
            yield f"broker {ids_text(unfit)} cannot be filled: it is down, or to be emptied"
    if request.goal == "replace":
        if not request.replacements:
            yield "there is no broker to replace: name some, and who takes over, with --replace, as in 7=66"
        olds = {old for old, _ in request.replacements}
        fit = live - draining - olds - set(request.exclude_brokers)
        for old, new in request.replacements:
            if new not in fit:
                yield f"broker {new} cannot take over from {old}: it is down, excluded, or to be emptied itself"
    if request.goal == "rf" and request.factor is None:
        yield "there is no replication factor: name it with --rf"


def chosen_brokers(model: ClusterModel, request: PlanRequest) -> list[int]:
    """The brokers that expand fills, or drain empties: those named, else those that the cluster itself tells."""
    if request.brokers or request.goal not in ("expand", "drain"):
        return list(request.brokers)
    empty = np.bincount(model.replicas, minlength=model.brokers) == 0
    fills = model.live & ~model.draining & empty
    return model.ids(np.flatnonzero(fills if request.goal == "expand" else model.draining))


def hard_request(model: ClusterModel, request: PlanRequest) -> constraints.Asked:
    """The request as planners by counts take it."""
    n = model.brokers
    return constraints.Asked(
        brokers=request.brokers,
        instead=dict(request.replacements),
        topics=request.topics,
        replication_factor=request.factor,
        excluded=request.exclude_brokers,
        max_replicas=None if request.broker_replicas is None else np.full(n, request.broker_replicas, dtype=np.int64),
        max_bytes=None if request.broker_bytes is None else np.full(n, float(request.broker_bytes)),
        byte_budget=request.max_bytes,
        move_budget=request.max_moves,
        allow_fewer_racks=request.allow_fewer_racks,
    )


def ids_text(ids: Sequence[int]) -> str:
    """The first of them, with commas, and how many more there are."""
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(map(str, ids[:_SHOWN])) + more
