"""A plan as rows: one of gold.plans, and one of gold.plan_moves for every partition that changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.ragged import contained, count_true, offsets_of, take_segments
from udfs.planning.cluster_model import ClusterModel, Flags, Ints, Places, moved
from udfs.planning.plan_request import PlanRequest
from udfs.planning.plan_summary import Planned, frozen_counts, proofs, texts
from udfs.planning.waves import reports, to_change


@dataclass(frozen=True)
class Metric:
    """A metric that has a column before and one after. path: where it is in a state of udfs.planning.plan_metrics."""

    name: str
    path: tuple[str, ...]
    says: str
    whole: bool = False


_BALANCED = (
    ("replicas", "replicas", "replicas"),
    ("leaders", "leaders", "preferred leaders"),
    ("disk", "size_bytes", "bytes held"),
    ("bytes_in", "bytes_in_per_s", "bytes per second in, to leaders and followers"),
    ("bytes_out", "bytes_out_per_s", "bytes per second out of leaders"),
)
_SPREADS = (
    ("max_over_mean", "of the broker with most, over the mean"),
    ("min_over_mean", "of the broker with least, over the mean"),
)
METRICS = (
    *(
        Metric(f"{name}_{spread}", ("balance", key, spread), f"{what} {of}")
        for name, key, what in _BALANCED
        for spread, of in _SPREADS
    ),
    Metric(
        "worst_survivor_ratio",
        ("balance", "worst_survivor_leaders"),
        "leaders of the worst survivor of any single failure, over the survivors' mean",
    ),
    Metric(
        "worst_survivor_bytes_out_ratio", ("balance", "worst_survivor_bytes_out"), "the same by bytes per second out"
    ),
    *(
        Metric(
            f"worst_survivor_ratio_of_{kind}s",
            ("failures", kind, "worst_survivor_ratio"),
            f"leaders of the worst survivor of any {kind}'s failure, over the survivors' mean",
        )
        for kind in ("pair", "rack")
    ),
    Metric(
        "newly_offline_partitions",
        ("failures", "broker", "newly_offline_partitions"),
        "partitions that the worst single failure takes offline",
        whole=True,
    ),
    Metric(
        "under_min_isr_partitions",
        ("failures", "broker", "under_min_isr_partitions"),
        "led partitions that reject acks=all after the worst single failure",
        whole=True,
    ),
    Metric(
        "rack_violations",
        ("balance", "rack_violations"),
        "partitions with more replicas in a rack than replicas over racks, rounded up",
        whole=True,
    ),
    Metric("copysets", ("durability", "copysets"), "distinct sets of live brokers that partitions lie on", whole=True),
    Metric(
        "scatter_width_mean",
        ("durability", "scatter_width_mean"),
        "other brokers that share a partition with a broker, mean",
    ),
    *(
        Metric(
            f"loss_probability_of_{k}_brokers",
            ("durability", "loss_probability", str(k)),
            f"chance that some partition is lost if {k} brokers fail for good; null where k is more than replicas",
        )
        for k in range(1, 6)
    ),
    *(
        Metric(
            f"required_headroom_{resource}",
            ("headroom", "broker", resource),
            f"headroom that every single failure takes, by {resource}, as in gold.headroom",
        )
        for resource in ("leaders", "bytes_out_per_s")
    ),
)

_IDS, _TEXTS = pa.list_(pa.int32()), pa.list_(pa.string())
PLAN = pa.schema(
    [
        ("goal", pa.string()),
        ("feasible", pa.bool_()),
        ("reasons", _TEXTS),
        ("objective", pa.string()),
        ("objective_value", pa.float64()),
        ("lower_bound", pa.float64()),
        ("gap", pa.float64()),
        ("moves", pa.int64()),
        ("copied_bytes", pa.int64()),
        ("changed_partitions", pa.int64()),
        ("leader_changes", pa.int64()),
        ("frozen_partitions", pa.int64()),
        ("waves", pa.int64()),
        ("copy_duration_s", pa.float64()),
        ("relaxed_targets", _TEXTS),
        ("missed_targets", _TEXTS),
        *(
            (f"{metric.name}_{when}", pa.int64() if metric.whole else pa.float64())
            for metric in METRICS
            for when in ("before", "after")
        ),
        ("plan_request", pa.string()),
        ("certificate", pa.string()),
        ("metrics", pa.string()),
    ]
)
MOVES = pa.schema(
    [
        ("goal", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("replicas_before", _IDS),
        ("replicas_after", _IDS),
        ("adding_replicas", _IDS),
        ("removing_replicas", _IDS),
        ("copied_bytes", pa.int64()),
        ("first_wave", pa.int32()),
        ("last_wave", pa.int32()),
        ("reason", pa.string()),
    ]
)


def plan_row(request: PlanRequest, found: Planned) -> pa.Table:
    """The row of a plan (schema PLAN)."""
    certificate, figures = found.proposal.certificate, found.metrics
    proof = next(proofs(certificate, request.goal), None)
    row: dict[str, Any] = {
        "goal": request.goal,
        "feasible": True,
        "reasons": [],
        "objective": proof and proof.what,
        "objective_value": proof and proof.value,
        "lower_bound": proof and proof.bound,
        "gap": proof and proof.gap,
        "moves": figures["moves"],
        "copied_bytes": figures["bytes_to_copy"],
        "changed_partitions": int(to_change(found.model, found.proposal).sum()),
        "leader_changes": figures["leader_changes"],
        "frozen_partitions": sum(frozen_counts(found.model).values()),
        "waves": found.waves.waves,
        "copy_duration_s": sum(report.seconds for report in reports(found.model, found.waves)),
        "relaxed_targets": texts(certificate, "relaxed"),
        "missed_targets": texts(certificate, "missed"),
        "plan_request": _json(asdict(request)),
        "certificate": _json(certificate),
        "metrics": _json(figures),
    }
    for metric in METRICS:
        for when in ("before", "after"):
            row[f"{metric.name}_{when}"] = value_at(figures[when], metric.path)
    return pa.Table.from_pylist([row], schema=PLAN)


def no_plan_row(request: PlanRequest, reasons: Sequence[str]) -> pa.Table:
    """The row of a request that no plan meets (schema PLAN)."""
    row = {"goal": request.goal, "feasible": False, "reasons": list(reasons), "plan_request": _json(asdict(request))}
    return pa.Table.from_pylist([row], schema=PLAN)


def value_at(state: Mapping[str, Any], path: Sequence[str]) -> Any:
    """A metric of a state; None where it, or what it is part of, is not known."""
    found: Any = state
    for name in path:
        found = None if found is None else found.get(name)
    return found


def move_rows(request: PlanRequest, found: Planned) -> pa.Table:
    """A row for every partition that changes (schema MOVES), by topic and id."""
    model, proposal, waves = found.model, found.proposal, found.waves
    rows = np.flatnonzero(to_change(model, proposal))
    as_is = model.replicas if model.as_is is None else model.as_is
    new = moved(model, proposal.offsets, proposal.replicas)
    gone = ~contained(as_is, model.offsets, proposal.replicas, proposal.offsets)
    copied = count_true(new, proposal.offsets)[rows] * model.size[rows]
    first, last = np.full(model.partitions, waves.waves, dtype=np.int64), np.full(model.partitions, -1)
    np.minimum.at(first, waves.row, waves.wave)
    np.maximum.at(last, waves.row, waves.wave)
    reasons = pa.array([*proposal.reasons, ""], pa.string())
    reason = np.where(proposal.reason[rows] < 0, len(proposal.reasons), proposal.reason[rows])
    names = pa.array(model.topic_names, pa.string())
    every, every_new = np.ones(len(as_is), dtype=np.bool_), np.ones(len(proposal.replicas), dtype=np.bool_)
    columns = [
        pa.repeat(request.goal, len(rows)),
        names.take(pa.array(model.topic[rows])),
        pa.array(model.partition[rows], pa.int32()),
        _ids(model, as_is, model.offsets, every, rows),
        _ids(model, proposal.replicas, proposal.offsets, every_new, rows),
        _ids(model, proposal.replicas, proposal.offsets, new, rows),
        _ids(model, as_is, model.offsets, gone, rows),
        pa.array(np.round(copied).astype(np.int64)) if model.known[0] else pa.nulls(len(rows), pa.int64()),
        pa.array(first[rows] + 1, pa.int32()),
        pa.array(last[rows] + 1, pa.int32()),
        reasons.take(pa.array(reason)),
    ]
    return pa.Table.from_arrays(columns, schema=MOVES)


def _ids(model: ClusterModel, flat: Places, offsets: Ints, keep: Flags, rows: npt.NDArray[np.int64]) -> pa.ListArray:
    """Of the segments `rows`, the broker ids of what is to be kept."""
    lengths = offsets_of(count_true(keep, offsets))
    values, ends = take_segments(flat[keep], lengths, rows)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(model.broker_ids[values], pa.int32()))


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} is a {type(value).__name__}, which JSON does not have")
