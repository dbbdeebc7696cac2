"""A plan with its waves and metrics: all that the command line, plan.json and the tables show of it."""

from dataclasses import dataclass, replace

import numpy as np

from udfs.planning.cluster_model import ClusterModel, FreezeReason, ProposedAssignment
from udfs.planning.plan_metrics import MetricOptions, PlanMetrics, measure_plan
from udfs.planning.plan_request import PlanRequest
from udfs.planning.waves import WaveLimits, Waves, split_into_waves


@dataclass(frozen=True)
class PlanSummary:
    """A proposed assignment for a cluster model, its waves and its metrics."""

    model: ClusterModel
    proposal: ProposedAssignment
    waves: Waves
    metrics: PlanMetrics


def summarize_plan(
    model: ClusterModel, request: PlanRequest, proposal: ProposedAssignment, limits: WaveLimits, options: MetricOptions
) -> PlanSummary:
    """Split a proposal into waves and compute its metrics."""
    waves = split_into_waves(model, proposal, limits)
    return PlanSummary(model, proposal, waves, measure_plan(mark_drained_brokers(model, request), proposal, options))


def mark_drained_brokers(model: ClusterModel, request: PlanRequest) -> ClusterModel:
    """Mark the brokers that the request empties as draining, so that means are over the brokers that stay."""
    ids = request.brokers if request.goal == "drain" else [old for old, _ in request.replacements]
    drained = np.isin(model.broker_ids, np.asarray(ids, dtype=np.int64))
    return replace(model, draining=model.draining | drained) if drained.any() else model


def count_frozen_partitions(model: ClusterModel) -> dict[str, int]:
    """Count the partitions that must stay as they are, by the reason for it."""
    counts = np.bincount(model.frozen, minlength=len(FreezeReason)).tolist()
    return {reason.explanation: counts[reason] for reason in FreezeReason if counts[reason] and reason.explanation}


def count_unpreferred_leaders(model: ClusterModel) -> int:
    """Count the partitions that another replica than the preferred one leads now, as far as known."""
    return int((model.current_leaders != model.replicas[model.offsets[:-1]]).sum())
