"""Who leads after a death: followers in the order that burdens the worst survivor least. No replica moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from udfs.arrow.ragged import offsets_of
from udfs.planning.bounds.min_cost_flow import Network, cheapest
from udfs.planning.cluster_model import (
    FREE,
    Draft,
    Flags,
    Floats,
    Ints,
    Problem,
)
from udfs.planning.leadership.kernels.takeover_limits import least_limits
from udfs.planning.replica_order import (
    brought,
    heirs_of,
    leaders_of,
    may_lead_of,
    some,
    told,
)

Limits = Literal["each", "worst", "target"]

# So many deaths are told in a certificate, the worst first.
_TOLD = 10


@dataclass(frozen=True)
class Heirs:
    """Which partitions may choose who leads next (q, by leader), among which followers (m). n brokers.

    items: int64 (n + 1), those that each broker leads.   partition: int64 (q), rows of the problem.
    offsets: int64 (q + 1), at: int64 (m), replicas, broker: int64 (m), their places, current: bool (m), next now.
    counted: bool (n), brokers that may lead.   base: int64 (n, n), per dead broker what each survivor leads then,
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
    """limit: int64 (n), the least that the worst survivor of each death can lead, of those that may lead.

    bound: int64 (n), what it leads at least: the same = proven.   tight: bool (n, n), the brokers that force it, none
    where the limit is what one of them leads anyway.
    """

    limit: Ints
    bound: Ints
    tight: Flags


def heir_choices(problem: Problem, may_lead: Flags | None = None) -> Heirs:
    """The choices of heirs: living followers of partitions that are free, on brokers that may lead.

    A partition without such a follower keeps its order.
    """
    n = problem.brokers
    counted, leader, heir = may_lead_of(problem, may_lead), leaders_of(problem), heirs_of(problem)
    row = problem.row
    follows = np.arange(len(row)) > problem.offsets[:-1][row]
    flat = np.flatnonzero(follows & (problem.frozen == FREE)[row] & counted[problem.replicas] & (leader >= 0)[row])
    at = flat[np.argsort(leader[row[flat]], kind="stable")]
    begins = np.flatnonzero(np.diff(row[at], prepend=-1))
    partition = row[at][begins]
    stays = (leader >= 0) & (heir >= 0)
    stays[partition] = False
    base = np.bincount(leader[stays] * n + heir[stays], minlength=n * n).reshape(n, n)
    base += np.bincount(leader[leader >= 0], minlength=n)
    np.fill_diagonal(base, 0)
    return Heirs(
        offsets_of(np.bincount(leader[partition], minlength=n)),
        partition,
        np.append(begins, len(at)),
        at,
        problem.replicas[at].astype(np.int64),
        at == problem.offsets[:-1][row[at]] + 1,
        counted,
        base,
    )


def limits_of(heirs: Heirs) -> LeastLimits:
    """The least limit after each death, with the sets of brokers that prove it."""
    n = len(heirs.counted)
    base = np.where(heirs.counted, heirs.base, 0)
    limit = base.max(axis=1, initial=0)
    bound, tight = limit.copy(), np.zeros((n, n), dtype=np.bool_)
    dead, survivor = (np.ascontiguousarray(at) for at in np.nonzero(base))
    least_limits(
        heirs.items,
        heirs.offsets,
        heirs.broker,
        offsets_of(np.bincount(dead, minlength=n)),
        survivor,
        base[dead, survivor],
        n,
        limit,
        np.zeros(len(heirs.partition), dtype=np.int64),
        tight,
    )
    # The proof, counted anew: what lies on the set already, and what has no choice outside of it.
    forced = np.flatnonzero(tight.any(axis=1))
    carried = (np.where(tight, base, 0).sum(axis=1) + _inside(heirs, tight))[forced]
    bound[forced] = np.maximum(bound[forced], -(-carried // tight[forced].sum(axis=1)))
    return LeastLimits(limit, bound, tight)


def _inside(heirs: Heirs, tight: Flags) -> Ints:
    # Per dead broker, how many of its partitions have no choice outside of its set.
    if not len(heirs.partition):
        return np.zeros(len(heirs.counted), dtype=np.int64)
    leader = np.repeat(np.arange(len(heirs.counted)), np.diff(heirs.items))
    within = tight[np.repeat(leader, np.diff(heirs.offsets)), heirs.broker]
    held = np.logical_and.reduceat(within, heirs.offsets[:-1])
    return np.bincount(leader[held], minlength=len(heirs.counted))


def failover(
    problem: Problem,
    may_lead: Flags | None = None,
    target: float = 1.03,
    limits: Limits = "each",
    settled: Flags | None = None,
) -> Draft:
    """The lists in which, leaders being as they are, the worst survivor of any single death leads the least.

    may_lead: bool (n), living and not draining where not given: others become heir only where no other can.
    limits: "each" = every death as good as can be; "worst" = none worse than the worst must be; "target" = none above
    `target` times the survivors' mean unless it must be. The fewest lists change under these limits; those of `settled`
    (bool, p), which differ from the cluster's anyway, count only among themselves.
    """
    heirs = heir_choices(problem, may_lead)
    least = limits_of(heirs)
    survives = problem.living & ~problem.draining
    mean = _means(heirs, survives)
    least_ratio = _ratios(least.limit, mean, survives)
    allowed = {
        "each": least.limit,
        "worst": _allowed(least.limit, mean, float(least_ratio.max(initial=0))),
        "target": _allowed(least.limit, mean, target),
    }[limits]
    chosen, cost, bound = _fewest_changes(heirs, allowed, settled)
    change = chosen[~heirs.current[chosen]]
    replicas = brought(problem.offsets, problem.replicas, heirs.at[change], 1)
    before, before_mean = after_deaths(problem)
    after, _ = after_deaths(problem.placed(problem.offsets, replicas))
    row = problem.row[heirs.at[change]]
    codes = np.full(problem.partitions, -1, dtype=np.int64)
    codes[row] = leaders_of(problem)[row]

    def text(dead: int) -> str:
        return (
            f"next leader after {problem.broker_ids[dead]}: its death would leave a survivor with "
            f"{before[dead]} leaders, with this order {after[dead]}, mean {mean[dead]:.1f}"
        )

    # Brokers that should not lead may lead more than the limits of the others.
    forced_anyway = np.maximum(least.bound, np.where(survives, heirs.base, 0).max(axis=1, initial=0))
    missed = np.flatnonzero(least_ratio > target)
    told_of = _forced(problem, heirs, least, mean, missed[np.argsort(-least_ratio[missed], kind="stable")][:_TOLD])
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
        "deaths": {
            str(problem.broker_ids[dead]): {
                "limit": int(least.limit[dead]),
                "bound": int(least.bound[dead]),
                "worst": int(after[dead]),
                "mean": round(float(mean[dead]), 6),
            }
            for dead in np.flatnonzero(survives | (np.diff(heirs.items) > 0)).tolist()
        },
        "deaths_above_target": len(missed),
        "forced": told_of,
        "relaxed": [entry["text"] for entry in told_of],
    }
    return Draft(problem.offsets, replicas, *told(codes, text, "next leader: a smaller worst survivor"), certificate)


def crowded_deaths(problem: Problem, may_lead: Flags | None, target: float) -> tuple[float, Ints, Ints, Flags]:
    """(the least worst ratio, deaths that must miss the target, what more their sets could bear, those sets).

    Deaths and what can be borne: int64 (d), sets: bool (d, n). Left out is what one broker's own leaders force.
    """
    heirs = heir_choices(problem, may_lead)
    least, survives = limits_of(heirs), problem.living & ~problem.draining
    mean = _means(heirs, survives)
    ratio = _ratios(least.limit, mean, survives)
    dead = np.flatnonzero((ratio > target) & least.tight.any(axis=1))
    tight = least.tight[dead]
    bear = np.floor(target * mean[dead] + 1e-9).astype(np.int64) * tight.sum(axis=1)
    return _largest(ratio), dead, bear - np.where(tight, heirs.base[dead], 0).sum(axis=1), tight


def after_deaths(problem: Problem) -> tuple[Ints, Floats]:
    """Per dead broker, (leaders of the worst survivor, their mean per survivor): int64 and float64 (n).

    Survivors live and are not draining; a partition that nobody takes over is lost.
    """
    n = problem.brokers
    leader, heir = leaders_of(problem), heirs_of(problem)
    both = (leader >= 0) & (heir >= 0)
    loads = np.bincount(leader[both] * n + heir[both], minlength=n * n).reshape(n, n)
    loads += np.bincount(leader[leader >= 0], minlength=n)
    np.fill_diagonal(loads, 0)
    survives = problem.living & ~problem.draining
    loads = np.where(survives, loads, 0)
    return loads.max(axis=1, initial=0), loads.sum(axis=1) / np.maximum(survives.sum() - survives, 1)


def _means(heirs: Heirs, survives: Flags) -> Floats:
    # As after_deaths, whatever is chosen: all that choose go to survivors.
    total = np.where(survives, heirs.base, 0).sum(axis=1) + np.diff(heirs.items)
    return np.asarray(total / np.maximum(survives.sum() - survives, 1))


def _ratios(worst: Ints, mean: Floats, dies: Flags) -> Floats:
    out: Floats = np.divide(worst, mean, out=np.zeros(len(mean)), where=dies & (mean > 0))
    return out


def _largest(ratios: Floats) -> float:
    return round(float(ratios.max(initial=0)), 6)


def _allowed(limit: Ints, mean: Floats, ratio: float) -> Ints:
    # A hair of room, so that a ratio that comes of a limit allows that limit again.
    return np.maximum(limit, np.floor(ratio * mean + 1e-9).astype(np.int64))


def _fewest_changes(heirs: Heirs, allowed: Ints, settled: Flags | None) -> tuple[Ints, int, int]:
    """(choices, int64 (q), into the m; their cost; the least that any choices under these limits cost)."""
    n, items = len(heirs.counted), len(heirs.partition)
    if not items:
        return np.zeros(0, dtype=np.int64), 0, 0
    item = np.repeat(np.arange(items), np.diff(heirs.offsets))
    leader = np.repeat(np.arange(n), np.diff(heirs.items))
    pair, gate = np.unique(leader[item] * n + heirs.broker, return_inverse=True)
    room = np.minimum(allowed[pair // n] - heirs.base.ravel()[pair], np.bincount(gate))
    # A list that changes anyway is worth less than any that does not, however many there are.
    free = np.zeros(items, dtype=np.bool_) if settled is None else settled[heirs.partition]
    price = np.where(free, 1, 1 + int(free.sum()))[item] * ~heirs.current
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


def _forced(problem: Problem, heirs: Heirs, least: LeastLimits, mean: Floats, deaths: Ints) -> list[dict[str, Any]]:
    """For each of these deaths, the brokers that keep its worst survivor from leading less, with their counts."""
    inside, out = _inside(heirs, least.tight), []
    base = np.where(heirs.counted, heirs.base, 0)
    for dead in deaths.tolist():
        members, more = np.flatnonzero(least.tight[dead]), int(inside[dead])
        if not len(members):  # one leads that many anyway
            members, more = np.array([base[dead].argmax()]), 0
        ids, carried = problem.ids(members), int(base[dead, members].sum())
        said = f"{some(ids)} lead {carried} and alone can take {more} more, so one leads at least {least.bound[dead]}"
        if not more:
            said = f"{some(ids)} lead {carried} anyway"
        out.append(
            {
                "text": f"broker {problem.broker_ids[dead]} dies: {said}, mean {mean[dead]:.1f}",
                "dies": int(problem.broker_ids[dead]),
                "brokers": ids,
                "lead_anyway": carried,
                "only_these_can_take": more,
                "max_at_least": int(least.bound[dead]),
            }
        )
    return out
