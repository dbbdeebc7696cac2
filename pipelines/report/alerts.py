"""Parse the thresholds of --alert, and check which of them are crossed."""

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipelines.errors import SettingsError
from pipelines.quoted_values import quote_value, shorten_text

_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


_FORM = re.compile(r"\s*(?:(.*\S)\s*:)?\s*([a-z0-9_]+)\s*(>=|<=|>|<)\s*([-+.0-9eE]+)\s*")


class Alert(NamedTuple):
    """A threshold."""

    text: str  # As it was written
    cluster: str | None  # Cluster that it applies to; None = every cluster
    metric: str  # Metric of gold.scheme_comparison
    comparison: str  # >, >=, < or <=
    limit: float  # Value to compare with


def parse_alerts(texts: Iterable[str], metrics: Iterable[str], clusters: Iterable[str]) -> list[Alert]:
    """Parse --alert, as in "CLUSTER: METRIC > NUMBER"; raise SettingsError for another form or an unknown name."""
    names, clusters = sorted(metrics), set(clusters)
    alerts = []
    for text in texts:
        match = _FORM.fullmatch(text)
        try:
            limit = float(match[4]) if match else None
        except ValueError:
            limit = None
        if match is None or limit is None or not math.isfinite(limit):
            example = '"worst_survivor_ratio > 1.3"'
            raise SettingsError(f"--alert {quote_value(text)}: write a metric, > or <, and a number, as in {example}")
        if match[2] not in names:
            raise SettingsError(
                f"--alert {quote_value(text)}: there is no metric {shorten_text(match[2])}. Metrics: {', '.join(names)}"
            )
        if match[1] is not None and match[1] not in clusters:
            known = ", ".join(sorted(clusters))
            raise SettingsError(
                f"--alert {quote_value(text)}: the run has no cluster {shorten_text(match[1])}. Clusters: {known}"
            )
        alerts.append(Alert(text.strip(), match[1], match[2], match[3], limit))
    return alerts


def check_alerts(
    alerts: Sequence[Alert], clusters: Iterable[str], values: Mapping[tuple[str, str], float | None]
) -> tuple[list[str], list[str]]:
    """Return a line for each alert and cluster that crossed it, and one for each alert whose metric has no value."""
    crossed, unknown = [], []
    for alert in alerts:
        candidates = [cluster for cluster in sorted(clusters) if alert.cluster in (None, cluster)]
        known = {c: value for c in candidates if (value := values.get((c, alert.metric))) is not None}
        for cluster, value in known.items():
            if _OPERATORS[alert.comparison](value, alert.limit):
                crossed.append(f"{cluster}: {alert.metric} is {value:.6g}: {alert.text}")
        if not known:
            where = alert.cluster or "any cluster of the run"
            unknown.append(f"{alert.text}: {alert.metric} has no value for {where}, so it cannot be crossed")
    return crossed, unknown
