"""A plan as rows: one of gold.plans, and one of gold.plan_moves for every partition that changes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from udfs.arrow.column_declarations import DOUBLE, FLAG, INT, INTS, LONG, TEXT, TEXTS, column, schema_of
from udfs.arrow.ragged import count_true, is_in_segment, offsets_of, take_segments
from udfs.json_answers import to_json
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, FreezeReason, Int32s, Ints, ProposedAssignment
from udfs.planning.plan_metrics import PlanSummary, count_frozen_partitions
from udfs.planning.plan_request import PlanRequest
from udfs.planning.wave_health import measure_wave_health
from udfs.planning.waves import find_reassigned_partitions


@dataclass(frozen=True)
class Metric:
    """A metric with a column before and one after the plan."""

    name: str  # Name of the columns, without _before and _after
    path: tuple[str, ...]  # JSON keys to it in a state of udfs.planning.plan_metrics
    description: str  # Its meaning
    data_type: pa.DataType = DOUBLE  # Arrow type


_WORST_SURVIVOR = "of the worst survivor of any single broker failure / mean of the survivors"
METRICS = (
    *(
        Metric(f"{name}_{side}", ("balance", key, side), f"{load} of the {broker} broker / mean")
        for name, key, load in (
            ("replicas", "replicas", "replicas"),
            ("leaders", "leaders", "leaders"),
            ("preferred_leaders", "preferred_leaders", "preferred leaders"),
            ("disk", "size_bytes", "bytes on disk"),
            ("bytes_in", "bytes_in_per_s", "bytes per second in, to leaders and followers,"),
            ("bytes_out", "bytes_out_per_s", "bytes per second out of leaders"),
        )
        for side, broker in (("max_over_mean", "fullest"), ("min_over_mean", "emptiest"))
    ),
    *(
        Metric(name, ("balance", key), f"{load} {_WORST_SURVIVOR}")
        for name, key, load in (
            ("worst_survivor_ratio", "worst_survivor_leaders", "leaders"),
            ("worst_survivor_bytes_out_ratio", "worst_survivor_bytes_out", "bytes per second out"),
        )
    ),
    *(
        Metric(
            f"worst_survivor_ratio_of_{kind}s",
            ("failures", kind, "leaders_worst_over_mean"),
            f"leaders of the worst survivor of any failure of a {what} / mean of the survivors",
        )
        for kind, what in (("pair", "pair of brokers"), ("rack", "rack"))
    ),
    Metric(
        "newly_offline_partitions",
        ("failures", "broker", "newly_offline_partitions"),
        "partitions that the worst single broker failure takes offline",
        LONG,
    ),
    Metric(
        "under_min_isr_partitions",
        ("failures", "broker", "under_min_isr_partitions"),
        "online partitions below min.insync.replicas after the worst single broker failure: acks=all is blocked",
        LONG,
    ),
    Metric(
        "rack_violations",
        ("balance", "rack_violations"),
        "partitions with more replicas in a rack than replication factor / racks, rounded up",
        LONG,
    ),
    Metric(
        "newly_offline_partitions_of_racks",
        ("failures", "rack", "newly_offline_partitions"),
        "partitions that the worst failure of a rack takes offline; all of them if there is only one rack",
        LONG,
    ),
    Metric(
        "under_min_isr_partitions_of_racks",
        ("failures", "rack", "under_min_isr_partitions"),
        "online partitions below min.insync.replicas after the worst failure of a rack",
        LONG,
    ),
    Metric("copysets", ("durability", "copysets"), "distinct sets of live brokers that hold a partition", LONG),
    Metric(
        "scatter_width_mean",
        ("durability", "scatter_width_mean"),
        "mean number of other brokers that share a partition with a broker",
    ),
    *(
        Metric(
            f"loss_probability_of_{k}_brokers",
            ("durability", "loss_probability", str(k)),
            f"probability that a partition is lost if {k} broker{'s fail' if k > 1 else ' fails'} for good; "
            "null above the replication factor",
        )
        for k in range(1, 6)
    ),
    *(
        Metric(
            f"required_headroom_{resource}",
            ("headroom", "broker", resource),
            f"headroom ratio that the worst single broker failure requires, by {what}, as in gold.headroom",
        )
        for resource, what in (("leaders", "leaders"), ("bytes_out_per_s", "bytes per second out"))
    ),
    *(
        Metric(
            f"cross_zone_{kind}_bytes_per_s",
            ("cross_zone", f"{kind}_bytes_per_s"),
            f"bytes per second of {kind} between zones (racks); null = racks or rates are unknown",
        )
        for kind in ("replication", "producers", "consumers")
    ),
    Metric(
        "cross_zone_cost_per_month",
        ("cross_zone", "cost_per_month"),
        "price of these bytes, in prices.currency; null = any of them, or [prices], is unknown",
    ),
)

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
    column("frozen_partitions", LONG, "partitions that the plan must not change: being reassigned, deleted, offline"),
    column("frozen_reasons", TEXTS, "how many of these and why, as in `2 because they are being reassigned`"),
    column("unsized_partitions", LONG, "partitions of unknown size, which count as 0 bytes"),
    column("under_replicated_partitions_before", LONG, "online partitions with a replica that is not in sync; now"),
    column("under_replicated_partitions_after", LONG, "the same; after the plan"),
    column("waves", LONG, "waves of the plan"),
    column("copy_duration_s", DOUBLE, "estimated duration of copying, at throttle_bytes_per_s"),
    column("throttle_bytes_per_s", DOUBLE, "bytes per second that a broker copies, each way, in the estimate"),
    column("fullest_broker", INT, "live broker with the most bytes after the plan; null = no size is known"),
    column("fullest_broker_bytes_before", LONG, "bytes of that broker now"),
    column("fullest_broker_bytes_after", LONG, "bytes of that broker after the plan"),
    column("relaxed_targets", TEXTS, "targets that this cluster makes impossible, and why; null = no plan"),
    column("missed_targets", TEXTS, "targets that the plan does not reach; null = no plan"),
    *(
        column(f"{metric.name}_{when}", metric.data_type, f"{metric.description}; {state}")
        for metric in METRICS
        for when, state in (("before", "now"), ("after", "after the plan"))
    ),
    column("plan_request", TEXT, "the complete plan request, as JSON", required=True),
    column("certificate", TEXT, "everything that is proven, as JSON; null = no plan"),
    column("metrics", TEXT, "every metric before and after the plan, as JSON; null = no plan"),
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
PLAN, MOVES = schema_of(PLAN_COLUMNS), schema_of(MOVE_COLUMNS)


def build_plan_row(request: PlanRequest, summary: PlanSummary) -> pa.Table:
    """Build the row of a plan (schema PLAN)."""
    certificate, metrics = summary.proposal.certificate, to_json(summary.metrics)
    proof, under_replicated = next(iter(certificate.proofs), None), measure_wave_health(summary).under_replicated
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
        "frozen_partitions": sum(count_frozen_partitions(summary.model).values()),
        "frozen_reasons": _explain_frozen(summary.model),
        "unsized_partitions": summary.model.unsized_partitions,
        "under_replicated_partitions_before": int(under_replicated[0]),
        "under_replicated_partitions_after": int(under_replicated[-1]),
        "waves": summary.waves.waves,
        "copy_duration_s": summary.seconds,
        "throttle_bytes_per_s": float(summary.waves.limits.throttle_bytes_per_s),
        **_find_fullest_broker(summary.model, summary.proposal),
        "relaxed_targets": certificate.relaxed_targets,
        "missed_targets": certificate.missed_targets,
        "plan_request": _to_text(request),
        "certificate": _to_text(certificate),
        "metrics": _to_text(metrics),
    }
    for metric in METRICS:
        for when in ("before", "after"):
            row[f"{metric.name}_{when}"] = read_metric(metrics[when], metric)
    return pa.Table.from_pylist([row], schema=PLAN)


def _explain_frozen(model: ClusterModel) -> list[str]:
    """Say how many partitions must stay as they are, by the reason for it."""
    counts = np.bincount(model.frozen, minlength=len(FreezeReason)).tolist()
    frozen = ((reason, counts[reason]) for reason in FreezeReason if reason is not FREE and counts[reason])
    return [f"{count:,} because {reason.explain(count)}" for reason, count in frozen]


def _find_fullest_broker(model: ClusterModel, proposal: ProposedAssignment) -> dict[str, int | None]:
    """Find the live broker with the most bytes after the plan, as columns; all None if no size is known."""
    names = ("fullest_broker", "fullest_broker_bytes_before", "fullest_broker_bytes_after")
    if not model.known[0] or not model.live.any():
        return dict.fromkeys(names)
    before, after = model.sum_bytes(model), model.sum_bytes(proposal)
    fullest = int(np.where(model.live, after, -1).argmax())
    values = (int(model.broker_ids[fullest]), round(before[fullest]), round(after[fullest]))
    return dict(zip(names, values, strict=True))


def build_infeasible_row(request: PlanRequest, reasons: Sequence[str]) -> pa.Table:
    """Build the row of a request that no plan meets (schema PLAN)."""
    row = {"goal": request.goal, "feasible": False, "reasons": reasons, "plan_request": _to_text(request)}
    return pa.Table.from_pylist([row], schema=PLAN)


def read_metric(state: Mapping[str, Any], metric: Metric) -> Any:
    """Read a metric of a state (as JSON); None where it, or what it is part of, is not known."""
    value: Any = state
    for key in metric.path:
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
