"""When growth reaches limits: dates with their intervals, and what is unknown, in a few sentences."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from pipelines.quantities import format_bytes
from udfs.plurals import count_of

_TITLES = {
    "disk_full": "disk full",
    "survivor_over_capacity": "N+1 lost: a survivor over its capacity",
    "broker_partitions": "too many partitions on a broker",
    "cluster_partitions": "too many partitions in the cluster",
}
_QUANTITIES = {"bytes_in_per_s": ", bytes in", "bytes_out_per_s": ", bytes out"}
_TOO_LITTLE, _UNKNOWN_LIMIT = "too little history", "the limit is unknown"
_FAR = 3650  # days; later dates are not shown


class GrowthDate(NamedTuple):
    """When a limit is reached."""

    title: str
    subject: str  # `broker 2`, `/data1 of broker 2` or `cluster`
    when: str  # the date, `reached`, or `in more than 10 years`
    days: float  # from the last sample
    days_text: str
    interval: str  # 95 % interval in days
    level: str
    growth: str
    limit: str


class GrowthSummary(NamedTuple):
    """The dates, the soonest first; how many later ones are not listed; and why others are unknown."""

    dates: list[GrowthDate]
    more: int
    gaps: list[str]


def summarize_growth(rows: Sequence[Mapping[str, Any]]) -> GrowthSummary:
    """Summarize rows of the figure `growth`, the soonest first."""
    known = [row for row in rows if row["days"] is not None]
    totals = {(row["limit_name"], row["quantity"]): row["rows"] for row in known}
    return GrowthSummary(
        [_describe_date(row) for row in known], sum(totals.values()) - len(known), list(_explain(rows))
    )


def _describe_date(row: Mapping[str, Any]) -> GrowthDate:
    days, quantity = row["days"], row["quantity"]
    if days == 0:
        when, interval = "reached", "-"
    else:
        far = days > _FAR
        when = "in more than 10 years" if far else (row["last_at"] + timedelta(days=days)).date().isoformat()
        interval = _format_interval(row["days_low"], row["days_high"])
    return GrowthDate(
        _title(row),
        _name_subject(row),
        when,
        days,
        _format_days(days) if days else "-",
        interval,
        *(_format_value(row[name], quantity) for name in ("level", "slope_per_day", "limit_value")),
    )


def _name_subject(row: Mapping[str, Any]) -> str:
    if row["broker_id"] is None:
        return "cluster"
    broker = f"broker {row['broker_id']}"
    return broker if row["log_dir"] is None else f"{row['log_dir']} of {broker}"


def _title(row: Mapping[str, Any]) -> str:
    return f"{_TITLES[row['limit_name']]}{_QUANTITIES.get(row['quantity'], '')}"


def _format_interval(low: float, high: float | None) -> str:
    return f"{_format_days(low)} or more" if high is None else f"{_format_days(low)} to {_format_days(high)}"


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
