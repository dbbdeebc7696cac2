"""What the report says of loads: where they are from, bytes between zones, and when growth reaches limits."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from pipelines.verdict.risk_findings import QUANTITIES
from udfs.wording import count_of, format_bytes

_SOURCES = {
    "partition": "as sources show them",
    "offsets": "by the records appended, of what leaders transfer of the topic",
    "even": "as even shares of what leaders transfer of the topic",
    "topic": "as shares of what is transferred of the topic",
}
_METRICS_WARNING = " metrics: "  # in warnings, as in `loads-from-metrics.txt line 2: metrics: broker 3 has no series`


class LoadSummary(NamedTuple):
    """Where loads are from, and what they lack."""

    header: str  # which metrics over which time; empty = they are not from --metrics
    sources: list[str]  # how rates are known, as in `60 % of the partitions as sources show them`
    gaps: list[str]


def summarize_loads(
    rows: Sequence[Mapping[str, Any]], network: Sequence[Mapping[str, Any]], warnings: Sequence[str]
) -> LoadSummary | None:
    """Summarize the loads of a cluster by rows of the figures `loads` and `network`; None if no load is known."""
    if not rows:
        return None
    (row,) = rows
    known = sum(one["n"] for one in row["load_sources"])
    sources = [
        f"{100 * one['n'] / row['partitions']:.3g} % of the partitions {_SOURCES[one['load_source']]}"
        for one in row["load_sources"]
    ]
    gaps = [text.partition(_METRICS_WARNING)[2] for text in warnings if _METRICS_WARNING in text]
    if unknown := row["partitions"] - known:
        gaps.insert(0, f"The loads of {count_of(unknown, 'partition')} are unknown.")
    for way in ("in", "out"):
        if network and all(one[f"network_bytes_{way}_per_s"] is None for one in network):
            gaps.insert(0, f"Bytes {way} of brokers are unknown.")
    return LoadSummary((row["header"] or "").removeprefix("loads from "), sources, gaps)


def find_capacity_source(headroom: Sequence[Mapping[str, Any]]) -> str | None:
    """Return where capacities for bytes are from, by rows of gold.headroom: file, uniform, or None without loads."""
    sources = {row["capacity_source"] for row in headroom if row["quantity"] != "leaders"}
    return "file" if "file" in sources else next(iter(sources), None)


KINDS = ("replication", "producers", "consumers")
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
        *([worst._replace(state=f"after the worst failure ({worst.state.replace(':', ' ')})")] if worst else []),
        *(_sum_kinds(f"placed by {name}", schemes[name]) for name in sorted(schemes)),
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


_TITLES = {
    "disk_full": "disk full",
    "survivor_over_capacity": "N+1 lost: a survivor over its capacity",
    "broker_partitions": "too many partitions on a broker",
    "cluster_partitions": "too many partitions in the cluster",
}
_TOO_LITTLE, _UNKNOWN_LIMIT = "too little history", "the limit is unknown"
_FAR = 3650  # days; later dates are not shown


_VALUES = ("level", "slope_per_day", "limit_value")
THIS_WEEK, TO_FUND = "this week", "to fund"


class GrowthDate(NamedTuple):
    """When a limit is reached."""

    title: str
    subject: str  # `broker 2`, `/data1 of broker 2` or `cluster`
    when: str  # the date, or `reached`
    days: float  # from the last sample
    days_text: str
    interval: str  # 95 % interval in days
    level: str
    growth: str
    limit: str
    due: str | None  # as in the figure: THIS_WEEK, TO_FUND, or later
    number: int  # of dates of this limit that are due then


class GrowthSummary(NamedTuple):
    """The dates, the soonest first; how many later ones are not listed; and why others are unknown."""

    dates: list[GrowthDate]
    more: int
    gaps: list[str]


def summarize_growth(rows: Sequence[Mapping[str, Any]]) -> GrowthSummary:
    """Summarize rows of the figure `growth`, the soonest first."""
    known = [row for row in rows if row["days"] is not None]
    totals = {(row["limit_name"], row["quantity"], row["due"]): row["rows"] for row in known}
    dates = [_describe_date(row) for row in known if row["days"] <= _FAR]
    return GrowthSummary(dates, sum(totals.values()) - len(dates), list(_explain(rows)))


def _describe_date(row: Mapping[str, Any]) -> GrowthDate:
    days, low, high = row["days"], row["days_low"], row["days_high"]
    if days == 0:
        when, days_text, interval = "reached", "-", "-"
    else:
        when = (row["last_at"] + timedelta(days=days)).date().isoformat()
        days_text = _format_days(days)
        interval = f"{_format_days(low)} {'or more' if high is None else f'to {_format_days(high)}'}"
    broker = "cluster" if row["broker_id"] is None else f"broker {row['broker_id']}"
    subject = broker if row["log_dir"] is None else f"{row['log_dir']} of {broker}"
    level, growth, limit = (_format_value(row[name], row["quantity"]) for name in _VALUES)
    due = row["due"], row["rows"]
    return GrowthDate(_title(row), subject, when, days, days_text, interval, level, growth, limit, *due)


def _title(row: Mapping[str, Any]) -> str:
    return ", ".join(filter(None, [_TITLES[row["limit_name"]], QUANTITIES.get(row["quantity"])]))


def _format_days(days: float) -> str:
    """Format a number of days, with a decimal below 10."""
    return f"{days:.1f}" if days < 10 else f"{days:,.0f}"


def _format_value(value: float | None, quantity: str) -> str:
    if value is None:
        return "-"
    if quantity == "replicas":
        return f"{value:,.3g}" if abs(value) < 10 else f"{value:,.0f}"  # a slope may be below 1
    sign, size = "-" if value < 0 else "", format_bytes(abs(value))
    return f"{sign}{size}/s" if quantity.endswith("per_s") else f"{sign}{size}"


def _explain(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield why dates are unknown: too little history once, then unknown limits."""
    reasons = [(row, row["reason"]) for row in rows if row["reason"]]
    short = [reason for _, reason in reasons if reason.startswith(_TOO_LITTLE)]
    if short:
        yield f"{short[0].partition(';')[0].capitalize()}."
        return
    for row, reason in reasons:
        if reason.startswith(_UNKNOWN_LIMIT):
            noun = "broker" if row["log_dir"] is None else "log dir"
            subjects = "" if row["broker_id"] is None else f" of {count_of(row['rows'], noun)}"
            title = _title(row)
            yield f"{title.capitalize() if title[0] != 'N' else title}{subjects}: {reason}."
