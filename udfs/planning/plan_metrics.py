"""Before and after a plan: how even brokers are, what failures do, what failures lose. Leaders are the preferred
ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import offsets_of, row_of
from udfs.durability.durability_rows import BROKERS, DurabilityPlan, durability
from udfs.failures.aggregates import Want, added, sum_placement, with_pairs
from udfs.failures.failure_rows import Outcome, summary
from udfs.failures.headroom import RESOURCES, capacity
from udfs.failures.kernels.failure_sums import NOBODY, UNKNOWN, Group
from udfs.failures.partition_groups import Placement
from udfs.failures.scenarios import BROKER, PAIR, RACK, Cluster, RandomPlan, scenarios_of
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, ProposedAssignment, changed, moved
from udfs.planning.constraints import over_cap
from udfs.planning.replica_order import leaders_of, successors_of

MOST_FAILURES = 5  # at once, of the chance of loss
_DIGITS = 6  # of a ratio: sums of rates may differ in the last bits from one machine to the next
_ANY_LOAD = 1e18  # headroom that nothing exceeds: what is over capacity is not asked here
_WORST = (
    "worst_survivor_ratio",
    "worst_survivor_bytes_in_ratio",
    "worst_survivor_bytes_out_ratio",
    "worst_survivor_fetch_ratio",
)
_MOST = ("offline_partitions", "newly_offline_partitions", "under_min_isr_partitions", "single_isr_partitions")


@dataclass(frozen=True)
class Effort:
    """max_pairs: with more pairs of brokers than that, pairs are left out. steps, trials, seed: see DurabilityPlan."""

    max_pairs: int = 1_000_000
    steps: int = 1_000_000
    trials: int = 20_000
    seed: int = 0


def metrics(model: ClusterModel, proposal: ProposedAssignment, effort: Effort) -> dict[str, Any]:
    """What the proposal moves, and the cluster before and after it: plain values, always in the same order.

    moves, bytes_to_copy: replicas that are copied, and their bytes (None = no size is known).   lists_changed:
    partitions, be it only in order.   leader_changes: partitions with another preferred leader.   before, after: see
    state_of.
    """
    new = moved(model, proposal.offsets, proposal.replicas)
    after = model.placed(proposal.offsets, proposal.replicas)
    copied = float(model.size[row_of(proposal.offsets)[new]].sum())
    return {
        "moves": int(new.sum()),
        "bytes_to_copy": round(copied) if model.known[0] else None,
        "lists_changed": int(changed(model, proposal.offsets, proposal.replicas).sum()),
        "leader_changes": int((leaders_of(model) != leaders_of(after)).sum()),
        "before": state_of(model, effort),
        "after": state_of(after, effort),
    }


def state_of(model: ClusterModel, effort: Effort) -> dict[str, Any]:
    """One state of a cluster in numbers; None = not known, or there is nothing that it could be of.

    balance: over live brokers that are not to be emptied.   failures, durability, headroom: as in the gold tables,
    with all live replicas in sync; brokers that are to be emptied and hold nothing are taken as switched off.
    """
    return {"balance": balance(model), **_outcomes(model, effort)}


def balance(model: ClusterModel) -> dict[str, Any]:
    """How even the brokers are, and the worst survivor of any single failure, by leaders and by bytes out."""
    counted = model.live & ~model.draining
    n, row, leader = model.brokers, model.row, leaders_of(model)
    led = leader >= 0

    def held(weight: Floats) -> Floats:
        return np.asarray(np.bincount(model.replicas, weight[row], n), dtype=np.float64)

    sized, into, out = model.known
    loads = {
        "replicas": np.bincount(model.replicas, minlength=n),
        "leaders": np.bincount(leader[led], minlength=n),
        "size_bytes": held(model.size) if sized else None,
        "bytes_in_per_s": held(model.rate_in) if into else None,
        "bytes_out_per_s": np.bincount(leader[led], model.rate_out[led], n) if out else None,
    }
    racks = max(1, len(np.unique(model.rack[counted])))
    return {
        "brokers": int(counted.sum()),
        **{name: _spread(None if load is None else load[counted]) for name, load in loads.items()},
        "rack_violations": int(over_cap(model, -(-model.factor // racks)).sum()),
        "worst_survivor_leaders": _worst_survivor(model, None, counted),
        "worst_survivor_bytes_out": _worst_survivor(model, model.rate_out, counted) if out else None,
    }


def _spread(load: npt.NDArray[Any] | None) -> dict[str, float | None]:
    names = ("max_over_mean", "min_over_mean", "cv")
    if load is None or not len(load) or not load.any():
        return dict.fromkeys(names)
    mean = load.mean()
    return dict(zip(names, map(_rounded, (load.max() / mean, load.min() / mean, load.std() / mean)), strict=True))


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(float(value), _DIGITS)


def _worst_survivor(model: ClusterModel, weight: Floats | None, counted: Flags) -> float | None:
    """The most that a survivor leads after any single failure, over the survivors' mean. What nobody takes over is
    lost.

    weight: float64 (p); None = each partition counts as one.
    """
    n, leader, successor = model.brokers, leaders_of(model), successors_of(model)
    led, both = leader >= 0, (leader >= 0) & (successor >= 0)
    loads = np.bincount(leader[both] * n + successor[both], None if weight is None else weight[both], n * n).reshape(
        n, n
    )
    loads = loads + np.bincount(leader[led], None if weight is None else weight[led], n)
    np.fill_diagonal(loads, 0)
    loads = loads[np.ix_(counted, counted)]
    total, survivors = loads.sum(axis=1), len(loads) - 1
    if survivors < 1 or not total.any():
        return None
    worst = loads.max(axis=1)[total > 0] * survivors / total[total > 0]
    return _rounded(worst.max())


def _outcomes(model: ClusterModel, effort: Effort) -> dict[str, Any]:
    holds = np.bincount(model.replicas, minlength=model.brokers) > 0
    places = np.flatnonzero(model.live & (holds | ~model.draining))
    names = model.rack_names
    racks = tuple(names[rack] if names else None for rack in model.rack[places].tolist())
    cluster = Cluster(tuple(model.ids(places)), racks, (), model.partitions)
    n = len(places)
    scenarios = scenarios_of(model.cluster_id, cluster, RandomPlan((), 0, effort.seed))
    want = Want(scenarios, n * (n - 1) // 2 <= effort.max_pairs)
    sums = with_pairs(added([sum_placement(_placement(model, places), n, want)], n))
    outcome = Outcome(model.broker_ids[places], scenarios, sums)
    failure_counts = tuple(range(1, min(int(model.factor.max(initial=1)), MOST_FAILURES, n) + 1))
    lost = durability(
        outcome, racks, DurabilityPlan(failure_counts, effort.steps, effort.trials, effort.seed)
    ).to_pylist()
    of_brokers = [row for row in lost if row["failure_unit"] == BROKERS]
    every, needed = summary(outcome), capacity(outcome, None, _ANY_LOAD)[0].to_pylist()
    kinds = (BROKER, PAIR, RACK)
    return {
        "failures": {"live_brokers": n, **{kind: _worst_of(every, kind) for kind in kinds}},
        "durability": _losses(of_brokers),
        "headroom": {
            kind: {
                resource: next(
                    (_rounded(row["required_headroom_ratio"]) for row in needed if _is(row, kind, resource)), None
                )
                for resource in RESOURCES
            }
            for kind in (BROKER, RACK)
        },
    }


def _is(row: dict[str, Any], kind: str, resource: str) -> bool:
    return bool(row["scenario_kind"] == kind and row["resource"] == resource)


def _worst_of(every: pa.Table, kind: str) -> dict[str, Any] | None:
    """The worst of all failures of a kind, each column by itself; None if there are none."""
    mine = every.filter(pc.field("scenario_kind") == kind)
    if not mine.num_rows:
        return None
    ratios = mine["worst_survivor_ratio"]
    found: dict[str, Any] = {"worst": None}
    if ratios.null_count < len(ratios):
        at = np.nanargmax(np.round(ratios.to_numpy(), _DIGITS))
        found["worst"] = mine["scenario"][int(at)].as_py()
    columns = {name: mine[name] for name in _WORST}
    found |= {name: _rounded(pc.max(column).as_py()) for name, column in columns.items()}
    return found | {name: pc.max(mine[name]).as_py() for name in _MOST}


def _losses(rows: list[dict[str, Any]]) -> dict[str, Any]:
    first = rows[0] if rows else dict.fromkeys(("copysets", "scatter_width_mean", "already_lost_partitions"))
    return {
        "copysets": first["copysets"],
        "scatter_width_mean": _rounded(first["scatter_width_mean"]),
        "already_lost_partitions": first["already_lost_partitions"],
        "loss_probability": {str(row["failures"]): _rounded(row["loss_probability"]) for row in rows},
        "lost_partitions_mean": {str(row["failures"]): _rounded(row["lost_partitions_mean"]) for row in rows},
    }


def _placement(model: ClusterModel, places: npt.NDArray[np.int64]) -> Placement:
    """The model's lists over the brokers at `places`, live replicas in sync, led by the first if it lives."""
    index = np.full(model.brokers + 1, NOBODY, dtype=np.int32)
    index[places] = np.arange(len(places))
    broker = index[model.replicas]
    r, p = len(broker), model.partitions
    sized, into, out = model.known
    rate = np.ascontiguousarray(np.column_stack([model.rate_in, model.rate_out]))
    group = Group(
        model.offsets,
        broker,
        broker != NOBODY,
        np.zeros(r, dtype=np.bool_),
        np.full(r, UNKNOWN, dtype=np.int64),
        index[leaders_of(model)],  # nobody is at the last place
        model.min_isr.astype(np.int32),
        np.zeros(p, dtype=np.bool_),
        np.round(model.size).astype(np.int64) if sized else np.full(p, UNKNOWN, dtype=np.int64),
        rate,
    )
    rows = offsets_of(np.bincount(model.topic, minlength=len(model.topic_names)))
    known = np.array([p * sized, p * into, p * out], dtype=np.int64)
    return Placement(group, rows, np.full(p, np.nan), known)
