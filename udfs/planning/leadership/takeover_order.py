"""Who leads after a failure: followers in the order that burdens the worst survivor least. No replica moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from udfs.arrow.ragged import offsets_of
from udfs.planning.bounds.min_cost_flow import Network, cheapest
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, Floats, Ints, ProposedAssignment
from udfs.planning.leadership.kernels.takeover_limits import least_limits
from udfs.planning.replica_order import brought, leaders_of, may_lead_of, some, successors_of, told

Limits = Literal["each", "worst", "target"]

# So many failures are told in a certificate, the worst first.
_TOLD = 10


@dataclass(frozen=True)
class Successors:
    """Which partitions may choose who leads next (q, by leader), among which followers (m). n brokers.

    items: int64 (n + 1), those that each broker leads.   partition: int64 (q), rows of the model.
    offsets: int64 (q + 1), at: int64 (m), replicas, broker: int64 (m), their places, current: bool (m), next now.
    counted: bool (n), brokers that may lead.   base: int64 (n, n), per down broker what each survivor leads then,
    whatever is chosen.
    """

    items: Ints
    partition: Ints
    offsets: Ints
    at: Ints
    broker: Ints
    current: Flags
    counted: Flags
    base: Ints


@dataclass(frozen=True)
class LeastLimits:
    """limit: int64 (n), the least that the worst survivor of each failure can lead, of those that may lead.

    bound: int64 (n), what it leads at least: the same = proven.   tight: bool (n, n), the brokers that force it, none
    where the limit is what one of them leads anyway.
    """

    limit: Ints
    bound: Ints
    tight: Flags


def successor_choices(model: ClusterModel, may_lead: Flags | None = None) -> Successors:
    """The choices of successors: live followers of partitions that are free, on brokers that may lead.

    A partition without such a follower keeps its order.
    """
    n = model.brokers
    counted, leader, successor = may_lead_of(model, may_lead), leaders_of(model), successors_of(model)
    row = model.row
    follows = np.arange(len(row)) > model.offsets[:-1][row]
    flat = np.flatnonzero(follows & (model.frozen == FREE)[row] & counted[model.replicas] & (leader >= 0)[row])
    at = flat[np.argsort(leader[row[flat]], kind="stable")]
    begins = np.flatnonzero(np.diff(row[at], prepend=-1))
    partition = row[at][begins]
    stays = (leader >= 0) & (successor >= 0)
    stays[partition] = False
    base = np.bincount(leader[stays] * n + successor[stays], minlength=n * n).reshape(n, n)
    base += np.bincount(leader[leader >= 0], minlength=n)
    np.fill_diagonal(base, 0)
    return Successors(
        offsets_of(np.bincount(leader[partition], minlength=n)),
        partition,
        np.append(begins, len(at)),
        at,
        model.replicas[at].astype(np.int64),
        at == model.offsets[:-1][row[at]] + 1,
        counted,
        base,
    )


def limits_of(successors: Successors) -> LeastLimits:
    """The least limit after each failure, with the sets of brokers that prove it."""
    n = len(successors.counted)
    base = np.where(successors.counted, successors.base, 0)
    limit = base.max(axis=1, initial=0)
    bound, tight = limit.copy(), np.zeros((n, n), dtype=np.bool_)
    down, survivor = (np.ascontiguousarray(at) for at in np.nonzero(base))
    least_limits(
        successors.items,
        successors.offsets,
        successors.broker,
        offsets_of(np.bincount(down, minlength=n)),
        survivor,
        base[down, survivor],
        n,
        limit,
        np.zeros(len(successors.partition), dtype=np.int64),
        tight,
    )
    # The proof, counted anew: what lies on the set already, and what has no choice outside of it.
    forced = np.flatnonzero(tight.any(axis=1))
    carried = (np.where(tight, base, 0).sum(axis=1) + _inside(successors, tight))[forced]
    bound[forced] = np.maximum(bound[forced], -(-carried // tight[forced].sum(axis=1)))
    return LeastLimits(limit, bound, tight)


def _inside(successors: Successors, tight: Flags) -> Ints:
    # Per down broker, how many of its partitions have no choice outside of its set.
    if not len(successors.partition):
        return np.zeros(len(successors.counted), dtype=np.int64)
    leader = np.repeat(np.arange(len(successors.counted)), np.diff(successors.items))
    within = tight[np.repeat(leader, np.diff(successors.offsets)), successors.broker]
    held = np.logical_and.reduceat(within, successors.offsets[:-1])
    return np.bincount(leader[held], minlength=len(successors.counted))


def failover(
    model: ClusterModel,
    may_lead: Flags | None = None,
    target: float = 1.03,
    limits: Limits = "each",
    settled: Flags | None = None,
) -> ProposedAssignment:
    """The lists in which, leaders being as they are, the worst survivor of any single failure leads the least.

    may_lead: bool (n), live and not draining where not given: others become successor only where no other can.
    limits: "each" = every failure as good as can be; "worst" = none worse than the worst must be; "target" = none above
    `target` times the survivors' mean unless it must be. The fewest lists change under these limits; those of `settled`
    (bool, p), which differ from the cluster's anyway, count only among themselves.
    """
    successors = successor_choices(model, may_lead)
    least = limits_of(successors)
    survives = model.live & ~model.draining
    mean = _means(successors, survives)
    least_ratio = _ratios(least.limit, mean, survives)
    allowed = {
        "each": least.limit,
        "worst": _allowed(least.limit, mean, float(least_ratio.max(initial=0))),
        "target": _allowed(least.limit, mean, target),
    }[limits]
    chosen, cost, bound = _fewest_changes(successors, allowed, settled)
    change = chosen[~successors.current[chosen]]
    replicas = brought(model.offsets, model.replicas, successors.at[change], 1)
    before, before_mean = after_failures(model)
    after, _ = after_failures(model.placed(model.offsets, replicas))
    row = model.row[successors.at[change]]
    codes = np.full(model.partitions, -1, dtype=np.int64)
    codes[row] = leaders_of(model)[row]

    def text(down: int) -> str:
        return (
            f"next leader after {model.broker_ids[down]}: its failure would leave a survivor with "
            f"{before[down]} leaders, with this order {after[down]}, mean {mean[down]:.1f}"
        )

    # Brokers that should not lead may lead more than the limits of the others.
    forced_anyway = np.maximum(least.bound, np.where(survives, successors.base, 0).max(axis=1, initial=0))
    missed = np.flatnonzero(least_ratio > target)
    told_of = _forced(model, successors, least, mean, missed[np.argsort(-least_ratio[missed], kind="stable")][:_TOLD])
    certificate = {
        "goal": "failover",
        "objective": len(change),
        "cost": cost,
        "bound": bound,
        "gap": cost - bound,
        "limits": limits,
        "target": target,
        "worst_ratio": _largest(_ratios(after, mean, survives)),
        "worst_ratio_before": _largest(_ratios(before, before_mean, survives)),
        "worst_ratio_bound": _largest(_ratios(forced_anyway, mean, survives)),
        "failures": {
            str(model.broker_ids[down]): {
                "limit": int(least.limit[down]),
                "bound": int(least.bound[down]),
                "worst": int(after[down]),
                "mean": round(float(mean[down]), 6),
            }
            for down in np.flatnonzero(survives | (np.diff(successors.items) > 0)).tolist()
        },
        "failures_above_target": len(missed),
        "forced": told_of,
        "relaxed": [entry["text"] for entry in told_of],
    }
    return ProposedAssignment(
        model.offsets, replicas, *told(codes, text, "next leader: a smaller worst survivor"), certificate
    )


def crowded_failures(model: ClusterModel, may_lead: Flags | None, target: float) -> tuple[float, Ints, Ints, Flags]:
    """(the least worst ratio, failures that must miss the target, what more their sets could bear, those sets).

    Failures and what can be borne: int64 (d), sets: bool (d, n). Left out is what one broker's own leaders force.
    """
    successors = successor_choices(model, may_lead)
    least, survives = limits_of(successors), model.live & ~model.draining
    mean = _means(successors, survives)
    ratio = _ratios(least.limit, mean, survives)
    down = np.flatnonzero((ratio > target) & least.tight.any(axis=1))
    tight = least.tight[down]
    bear = np.floor(target * mean[down] + 1e-9).astype(np.int64) * tight.sum(axis=1)
    return _largest(ratio), down, bear - np.where(tight, successors.base[down], 0).sum(axis=1), tight


def after_failures(model: ClusterModel) -> tuple[Ints, Floats]:
    """Per down broker, (leaders of the worst survivor, their mean per survivor): int64 and float64 (n).

    Survivors live and are not draining; a partition that nobody takes over is lost.
    """
    n = model.brokers
    leader, successor = leaders_of(model), successors_of(model)
    both = (leader >= 0) & (successor >= 0)
    loads = np.bincount(leader[both] * n + successor[both], minlength=n * n).reshape(n, n)
    loads += np.bincount(leader[leader >= 0], minlength=n)
    np.fill_diagonal(loads, 0)
    survives = model.live & ~model.draining
    loads = np.where(survives, loads, 0)
    return loads.max(axis=1, initial=0), loads.sum(axis=1) / np.maximum(survives.sum() - survives, 1)


def _means(successors: Successors, survives: Flags) -> Floats:
    # As after_failures, whatever is chosen: all that choose go to survivors.
    total = np.where(survives, successors.base, 0).sum(axis=1) + np.diff(successors.items)
    return np.asarray(total / np.maximum(survives.sum() - survives, 1))


def _ratios(worst: Ints, mean: Floats, fails: Flags) -> Floats:
    out: Floats = np.divide(worst, mean, out=np.zeros(len(mean)), where=fails & (mean > 0))
    return out


def _largest(ratios: Floats) -> float:
    return round(float(ratios.max(initial=0)), 6)


def _allowed(limit: Ints, mean: Floats, ratio: float) -> Ints:
    # A hair of room, so that a ratio that comes of a limit allows that limit again.
    return np.maximum(limit, np.floor(ratio * mean + 1e-9).astype(np.int64))


def _fewest_changes(successors: Successors, allowed: Ints, settled: Flags | None) -> tuple[Ints, int, int]:
    """(choices, int64 (q), into the m; their cost; the least that any choices under these limits cost)."""
    n, items = len(successors.counted), len(successors.partition)
    if not items:
        return np.zeros(0, dtype=np.int64), 0, 0
    item = np.repeat(np.arange(items), np.diff(successors.offsets))
    leader = np.repeat(np.arange(n), np.diff(successors.items))
    pair, gate = np.unique(leader[item] * n + successors.broker, return_inverse=True)
    room = np.minimum(allowed[pair // n] - successors.base.ravel()[pair], np.bincount(gate))
    # A list that changes anyway is worth less than any that does not, however many there are.
    free = np.zeros(items, dtype=np.bool_) if settled is None else settled[successors.partition]
    price = np.where(free, 1, 1 + int(free.sum()))[item] * ~successors.current
    ends = items + gate
    through = items + np.arange(len(pair))
    supply = np.concatenate((np.ones(items, dtype=np.int64), np.zeros(len(pair), dtype=np.int64), [-items]))
    arcs = [
        (item, ends, np.ones_like(item), price),
        (through, np.full(len(pair), items + len(pair)), room, 0 * through),
    ]
    flow = cheapest(Network.of(arcs, supply))
    assert flow is not None, "limits that were reached are out of reach"
    return np.flatnonzero(flow.flow[: len(item)]), flow.cost, flow.bound


def _forced(
    model: ClusterModel, successors: Successors, least: LeastLimits, mean: Floats, failures: Ints
) -> list[dict[str, Any]]:
    """For each of these failures, the brokers that keep its worst survivor from leading less, with their counts."""
    inside, out = _inside(successors, least.tight), []
    base = np.where(successors.counted, successors.base, 0)
    for down in failures.tolist():
        members, more = np.flatnonzero(least.tight[down]), int(inside[down])
        if not len(members):  # one leads that many anyway
            members, more = np.array([base[down].argmax()]), 0
        ids, carried = model.ids(members), int(base[down, members].sum())
        said = f"{some(ids)} lead {carried} and alone can take {more} more, so one leads at least {least.bound[down]}"
        if not more:
            said = f"{some(ids)} lead {carried} anyway"
        out.append(
            {
                "text": f"broker {model.broker_ids[down]} fails: {said}, mean {mean[down]:.1f}",
                "fails": int(model.broker_ids[down]),
                "brokers": ids,
                "lead_anyway": carried,
                "only_these_can_take": more,
                "max_at_least": int(least.bound[down]),
            }
        )
    return out
