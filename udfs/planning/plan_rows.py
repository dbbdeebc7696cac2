"""A plan as rows: one of gold.plans, and one for each metric and for each partition that changes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from udfs.arrow.columns import DOUBLE, FLAG, INT, INTS, LONG, TEXT, TEXTS, column, schema_of
from udfs.arrow.ragged import count_true, is_in_segment, offsets_of, take_segments
from udfs.json_answers import to_json
from udfs.network.traffic_rows import CrossZoneTraffic
from udfs.planning import certificates
from udfs.planning.cluster_model import ClusterModel, Flags, Int32s, Ints
from udfs.planning.plan_judge import build_judge_options, judge_steps
from udfs.planning.plan_metrics import PlanSummary, count_frozen_partitions
from udfs.planning.plan_request import PlanRequest
from udfs.planning.planned_waves import measure_wave_health
from udfs.planning.waves import find_reassigned_partitions

_LOADS = {
    "replicas": "replicas",
    "leaders": "leaders",
    "preferred_leaders": "preferred_leaders",
    "disk": "size_bytes",
    "bytes_in": "bytes_in_per_s",
    "bytes_out": "bytes_out_per_s",
}
# Metrics of a ClusterState before and after the plan: the keys to each in the state as JSON, see docs/figures.md.
METRICS: dict[str, tuple[str, ...]] = {
    **{
        f"{name}_{side}": ("balance", load, side)
        for name, load in _LOADS.items()
        for side in ("max_over_mean", "min_over_mean")
    },
    "worst_survivor_ratio": ("balance", "worst_survivor_ratio"),
    "worst_survivor_bytes_out_ratio": ("balance", "worst_survivor_bytes_out_ratio"),
    "worst_survivor_ratio_of_pairs": ("failures", "pair", "worst_survivor_ratio"),
    "worst_survivor_ratio_of_racks": ("failures", "rack", "worst_survivor_ratio"),
    "newly_offline_partitions": ("failures", "broker", "newly_offline_partitions"),
    "under_min_isr_partitions": ("failures", "broker", "under_min_isr_partitions"),
    "rack_violations": ("balance", "rack_violations"),
    "newly_offline_partitions_of_racks": ("failures", "rack", "newly_offline_partitions"),
    "under_min_isr_partitions_of_racks": ("failures", "rack", "under_min_isr_partitions"),
    "copysets": ("durability", "copysets"),
    "scatter_width_mean": ("durability", "scatter_width_mean"),
    **{f"loss_probability_of_{k}_brokers": ("durability", "loss_probability", str(k)) for k in range(1, 6)},
    "required_headroom_leaders": ("headroom", "broker", "leaders"),
    "required_headroom_bytes_out_per_s": ("headroom", "broker", "bytes_out_per_s"),
    **{f"cross_zone_{field.name}": ("cross_zone", field.name) for field in fields(CrossZoneTraffic)},
}
# Quantities of proofs that are metrics.
_PROVEN = {
    certificates.BYTES_COPIED: "copied_bytes",
    certificates.REPLICAS_COPIED: "moves",
    certificates.LEADERS_CHANGED: "leader_changes",
    certificates.WORST_SURVIVOR: "worst_survivor_ratio",
}

_GOAL = column("goal", TEXT, "goal of the plan, as in plans.goals: leaders, failover, balance, ...", required=True)
PLAN_COLUMNS = (
    _GOAL,
    column("feasible", FLAG, "whether a plan meets all constraints", required=True),
    column("reasons", TEXTS, "why no plan meets them; else empty", required=True),
    column("objective", TEXT, "quantity that the plan minimizes"),
    column("objective_value", DOUBLE, "value of the objective"),
    column("lower_bound", DOUBLE, "proven lower bound of the objective"),
    column("gap", DOUBLE, "objective_value minus lower_bound; 0 = the plan is proven to be optimal"),
    column("moves", LONG, "replicas to copy"),
    column("copied_bytes", LONG, "bytes to copy; null = no size is known"),
    column("changed_partitions", LONG, "partitions whose replica list changes, even if only in its order"),
    column("leader_changes", LONG, "partitions whose preferred leader changes, but for replaced brokers"),
    column("safety", TEXT, "SAFE, RISKY, HARMFUL or REJECTED BY KAFKA, as check says; null = no plan"),
    column("safety_reasons", TEXTS, "what is wrong with its steps, the worst first, as in disk_full; null = no plan"),
    column("frozen_partitions", LONG, "partitions that the plan must not change: being reassigned, deleted, offline"),
    column("frozen_reasons", TEXTS, "how many of these and why, as in `2 because of an ongoing reassignment`"),
    column("unsized_partitions", LONG, "partitions of unknown size, which count as 0 bytes"),
    column("waves", LONG, "waves of the plan"),
    column("copy_duration_s", DOUBLE, "estimated duration of copying, at throttle_bytes_per_s"),
    column("throttle_bytes_per_s", DOUBLE, "bytes per second that a broker copies, each way, in the estimate"),
    column("fullest_broker", INT, "live broker with the most bytes after the plan; null = no size is known"),
    column("relaxed_targets", TEXTS, "targets that this cluster makes impossible, and why; null = no plan"),
    column("missed_targets", TEXTS, "targets that the plan does not reach; null = no plan"),
    column("plan_request", TEXT, "the complete plan request, as JSON", required=True),
    column("certificate", TEXT, "everything that is proven, as JSON; null = no plan"),
)
METRIC_COLUMNS = (
    _GOAL,
    column("metric", TEXT, "name of the metric; docs/figures.md says what it is", required=True),
    column("before", DOUBLE, "value now; 0 for what the plan copies and changes; null = unknown"),
    column("after", DOUBLE, "value after the plan; null = unknown"),
    column("lower_bound", DOUBLE, "proven lower bound, which no plan can beat; null = none is proven"),
)
MOVE_COLUMNS = (
    _GOAL,
    column("topic", TEXT, "topic name", required=True),
    column("partition", INT, "partition id", required=True),
    column("replicas_before", INTS, "replicas in the source's order", required=True),
    column("replicas_after", INTS, "planned replicas, preferred leader first", required=True),
    column("adding_replicas", INTS, "brokers that copy the partition", required=True),
    column("removing_replicas", INTS, "brokers that drop the partition", required=True),
    column("copied_bytes", LONG, "bytes to copy for the partition; null = no size is known"),
    column("first_wave", INT, "wave of its first step, from 1", required=True),
    column("last_wave", INT, "wave of its last step", required=True),
    column("reason", TEXT, "why the partition changes", required=True),
)
PLAN, PLAN_METRICS, MOVES = (schema_of(columns) for columns in (PLAN_COLUMNS, METRIC_COLUMNS, MOVE_COLUMNS))


def build_plan_row(request: PlanRequest, summary: PlanSummary) -> pa.Table:
    """Build the row of a plan (schema PLAN)."""
    certificate, frozen = summary.proposal.certificate, count_frozen_partitions(summary.model)
    options = build_judge_options(summary.model, request, summary.waves.limits.throttle_bytes_per_s)
    judgement = judge_steps(summary.model, summary.waves, options)
    proof, fullest = next(iter(certificate.proofs), None), _find_fullest_broker(summary)
    row: dict[str, Any] = {
        "goal": request.goal,
        "feasible": True,
        "reasons": [],
        "objective": proof and proof.quantity,
        "objective_value": proof and proof.value,
        "lower_bound": proof and proof.lower_bound,
        "gap": proof and proof.gap,
        "moves": summary.metrics.moves,
        "copied_bytes": summary.metrics.bytes_to_copy,
        "changed_partitions": int(find_reassigned_partitions(summary.model, summary.proposal).sum()),
        "leader_changes": summary.metrics.leader_changes,
        "safety": str(judgement.level),
        "safety_reasons": [rows.fault.value for rows in judgement.faults],
        "frozen_partitions": sum(frozen.values()),
        "frozen_reasons": [f"{count:,} because of {reason}" for reason, count in frozen.items()],
        "unsized_partitions": summary.model.unsized_partitions,
        "waves": summary.waves.waves,
        "copy_duration_s": summary.seconds,
        "throttle_bytes_per_s": float(summary.waves.limits.throttle_bytes_per_s),
        "fullest_broker": None if fullest is None else int(summary.model.broker_ids[fullest]),
        "relaxed_targets": certificate.relaxed,
        "missed_targets": certificate.missed,
        "plan_request": _to_text(request),
        "certificate": _to_text(certificate),
    }
    return pa.Table.from_pylist([row], schema=PLAN)


def build_metric_rows(request: PlanRequest, summary: PlanSummary) -> pa.Table:
    """Build a row for every metric of a plan (schema PLAN_METRICS)."""
    model, proposal, metrics, fullest = summary.model, summary.proposal, summary.metrics, _find_fullest_broker(summary)
    before, after = to_json(metrics.before), to_json(metrics.after)
    under_replicated = measure_wave_health(summary).under_replicated
    values: dict[str, tuple[Any, Any]] = {
        "copied_bytes": (0, metrics.bytes_to_copy),
        "moves": (0, metrics.moves),
        "leader_changes": (0, metrics.leader_changes),
        **{name: (read_metric(before, name), read_metric(after, name)) for name in METRICS},
        "under_replicated_partitions": (int(under_replicated[0]), int(under_replicated[-1])),
        "fullest_broker_bytes": (None, None)
        if fullest is None
        else (round(model.sum_bytes(model)[fullest]), round(model.sum_bytes(proposal)[fullest])),
    }
    # Beside the bound of the objective only that of the moves: others may hold for more targets than a budget paid for.
    bounds = {
        _PROVEN.get(proof.quantity): proof.lower_bound
        for place, proof in enumerate(proposal.certificate.proofs)
        if place == 0 or proof.quantity == certificates.REPLICAS_COPIED
    }
    columns = [
        pa.repeat(request.goal, len(values)),
        pa.array(list(values), pa.string()),
        *(pa.array([pair[when] for pair in values.values()], pa.float64()) for when in (0, 1)),
        pa.array([bounds.get(name) for name in values], pa.float64()),
    ]
    return pa.Table.from_arrays(columns, schema=PLAN_METRICS)


def _find_fullest_broker(summary: PlanSummary) -> int | None:
    """Find the place of the live broker with the most bytes after the plan; None if no size is known."""
    model = summary.model
    if not model.known[0] or not model.live.any():
        return None
    return int(np.where(model.live, model.sum_bytes(summary.proposal), -1).argmax())


def build_infeasible_row(request: PlanRequest, reasons: Sequence[str]) -> pa.Table:
    """Build the row of a request that no plan meets (schema PLAN)."""
    row = {"goal": request.goal, "feasible": False, "reasons": reasons, "plan_request": _to_text(request)}
    return pa.Table.from_pylist([row], schema=PLAN)


def read_metric(state: Mapping[str, Any], name: str) -> Any:
    """Read one of METRICS of a state (as JSON); None where it, or what it is part of, is not known."""
    value: Any = state
    for key in METRICS[name]:
        value = None if value is None else value.get(key)
    return value


def build_move_rows(request: PlanRequest, summary: PlanSummary) -> pa.Table:
    """Build a row for every partition that changes (schema MOVES), by topic and id."""
    model, proposal, waves = summary.model, summary.proposal, summary.waves
    rows = np.flatnonzero(find_reassigned_partitions(model, proposal))
    before, after = (model.source_order, model.offsets), (proposal.replicas, proposal.offsets)
    added = model.find_copied(proposal)
    removed, copied = ~is_in_segment(*before, *after), count_true(added, proposal.offsets)[rows] * model.size[rows]
    first, last = np.full(model.partitions, waves.waves, dtype=np.int64), np.full(model.partitions, -1)
    np.minimum.at(first, waves.row, waves.wave)
    np.maximum.at(last, waves.row, waves.wave)
    reasons = pa.array([*proposal.reasons, ""], pa.string())
    reason = np.where(proposal.reason[rows] < 0, len(proposal.reasons), proposal.reason[rows])
    columns = [
        pa.repeat(request.goal, len(rows)),
        pa.array(model.topic_names, pa.string()).take(pa.array(model.topic[rows])),
        pa.array(model.partition[rows], pa.int32()),
        _broker_lists(model, *before, rows),
        _broker_lists(model, *after, rows),
        _broker_lists(model, *after, rows, added),
        _broker_lists(model, *before, rows, removed),
        pa.array(np.round(copied).astype(np.int64)) if model.known[0] else pa.nulls(len(rows), pa.int64()),
        pa.array(first[rows] + 1, pa.int32()),
        pa.array(last[rows] + 1, pa.int32()),
        reasons.take(pa.array(reason)),
    ]
    return pa.Table.from_arrays(columns, schema=MOVES)


def _broker_lists(
    model: ClusterModel, replicas: Int32s, offsets: Ints, rows: Ints, keep: Flags | None = None
) -> pa.ListArray:
    """Return the broker ids of the lists `rows`, of the replicas to keep."""
    if keep is not None:
        replicas, offsets = replicas[keep], offsets_of(count_true(keep, offsets))
    values, ends = take_segments(replicas, offsets, rows)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(model.broker_ids[values], pa.int32()))


def _to_text(value: Any) -> str:
    return json.dumps(to_json(value), separators=(",", ":"), allow_nan=False)
