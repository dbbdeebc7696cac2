"""Bytes between zones now, under schemes, after the worst failure and after plans, as rows to compare."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

KINDS = ("replication", "producers", "consumers")
_SCHEMES = ("kafka", "kraft", "naive")  # the first ones; others follow
_NO_FAILURE = "none"


class ZoneComparisonRow(NamedTuple):
    """What crosses zones in one state, in bytes per second; None = unknown."""

    state: str
    replication: float | None
    producers: float | None
    consumers: float | None
    cost_per_month: float | None  # in prices.currency

    @property
    def total(self) -> float | None:
        """The sum of all kinds."""
        rates = (self.replication, self.producers, self.consumers)
        known = [rate for rate in rates if rate is not None]
        return sum(known) if len(known) == len(rates) else None


def compare_zone_traffic(
    rows: Sequence[Mapping[str, Any]], plans: Sequence[Mapping[str, Any]], goals: Sequence[str]
) -> list[ZoneComparisonRow]:
    """Compare states by rows of the figure `zone_traffic` and of plans; empty if nothing is known or crosses.

    goals: those that the verdict recommends; their plans are first.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["scheme"], row["scenario"]), []).append(row)
    now = groups.get(("observed", _NO_FAILURE))
    if now is None or all(row["bytes_per_s"] is None for row in now):
        return []
    failures = [_sum_kinds(scenario, some) for (_, scenario), some in groups.items() if scenario != _NO_FAILURE]
    worst = max(failures, key=lambda one: one.total or 0, default=None)
    schemes = {scheme: some for (scheme, scenario), some in groups.items() if scenario == _NO_FAILURE}
    del schemes["observed"]
    states = [
        _sum_kinds("now", now),
        *([worst._replace(state=f"after the worst failure ({_name_failure(worst.state)})")] if worst else []),
        *(_sum_kinds(f"placed by {name}", schemes[name]) for name in sorted(schemes, key=_rank_scheme)),
        *_list_plans(plans, goals),
    ]
    return states if any(state.total != 0 for state in states) else []  # there is one zone


def _sum_kinds(state: str, rows: Sequence[Mapping[str, Any]]) -> ZoneComparisonRow:
    """Return the traffic of one state. A kind without a row is known to be 0."""
    rates = {row["traffic_kind"]: row["bytes_per_s"] for row in rows}
    costs = [row["cost_per_month"] for row in rows]
    cost = None if None in costs else sum(costs)
    replication, producers, consumers = (rates.get(kind, 0.0) for kind in KINDS)
    return ZoneComparisonRow(state, replication, producers, consumers, cost)


def _list_plans(plans: Sequence[Mapping[str, Any]], goals: Sequence[str]) -> Iterator[ZoneComparisonRow]:
    rank = {goal: place for place, goal in enumerate(goals)}
    for plan in sorted(plans, key=lambda plan: (rank.get(plan["goal"], len(rank)), plan["goal"])):
        if plan["feasible"]:
            names = (*(f"{kind}_bytes_per_s" for kind in KINDS), "cost_per_month")
            after = (plan["metrics"][f"cross_zone_{name}"][1] for name in names)
            yield ZoneComparisonRow(f"after the plan {plan['goal']}", *after)


def _name_failure(scenario: str) -> str:
    """Name what fails: `broker 2` for broker:2, `brokers 1, 2` for custom:1,2."""
    kind, _, names = scenario.partition(":")
    return f"brokers {names.replace(',', ', ')}" if kind == "custom" else f"{kind} {names}"


def _rank_scheme(name: str) -> tuple[int, str]:
    return (_SCHEMES.index(name) if name in _SCHEMES else len(_SCHEMES), name)
