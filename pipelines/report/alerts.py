"""Thresholds that a person sets on a run's metrics: `--alert "worst_survivor > 1.3"`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipelines.errors import SettingsError

# Short names of metrics that people watch; the others go by their names in gold.scheme_comparison.
SHORT = {
    "leaders": "leaders_max_over_mean_ratio",
    "offline": "offline_partitions",
    "worst_survivor": "worst_survivor_ratio",
    "worst_survivor_of_pairs": "worst_survivor_ratio_of_pairs",
    "worst_survivor_of_racks": "worst_survivor_ratio_of_racks",
    "newly_offline": "most_newly_offline_partitions",
    "under_min_isr": "most_under_min_isr_partitions",
    "loss": "loss_probability_of_3_brokers",
}
_COMPARES: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_FORM = re.compile(r"\s*(?:(.*\S)\s*:)?\s*([a-z0-9_]+)\s*(>=|<=|>|<)\s*([-+.0-9eE]+)\s*")


@dataclass(frozen=True)
class Alert:
    """cluster: None = every one.   metric: as gold.scheme_comparison names it."""

    text: str
    cluster: str | None
    metric: str
    compares: str
    limit: float


def alerts_of(texts: Iterable[str], known: Iterable[str], clusters: Iterable[str]) -> list[Alert]:
    """What is asked; SettingsError where it cannot be understood. known: metrics.   clusters: of the run."""
    names, clusters = sorted(known), set(clusters)
    found = []
    for text in texts:
        match = _FORM.fullmatch(text)
        try:
            limit = float(match[4]) if match else None
        except ValueError:
            limit = None
        if match is None or limit is None:
            raise SettingsError(f'--alert {text!r}: write a metric, > or <, and a number, as in "worst_survivor > 1.3"')
        metric = SHORT.get(match[2], match[2])
        if metric not in names:
            raise SettingsError(
                f"--alert {text!r}: there is no metric {match[2]}. Metrics: {', '.join([*SHORT, *names])}"
            )
        if match[1] is not None and match[1] not in clusters:
            held = ", ".join(sorted(clusters))
            raise SettingsError(f"--alert {text!r}: the run has no cluster {match[1]}. Clusters: {held}")
        found.append(Alert(text.strip(), match[1], metric, match[3], limit))
    return found


def crossed(
    alerts: Sequence[Alert], clusters: Iterable[str], values: Mapping[tuple[str, str], float | None]
) -> tuple[list[str], list[str]]:
    """(a line for each alert and cluster that has crossed it, one for each alert that has nothing to look at).

    values: by cluster and metric; one that is not there, or None, crosses nothing.
    """
    lines, blind = [], []
    for alert in alerts:
        mine = [cluster for cluster in sorted(clusters) if alert.cluster in (None, cluster)]
        known = {cluster: value for cluster in mine if (value := values.get((cluster, alert.metric))) is not None}
        for cluster, value in known.items():
            if _COMPARES[alert.compares](value, alert.limit):
                lines.append(f"{cluster}: {alert.metric} is {value:.6g}: {alert.text}")
        if not known:
            of = alert.cluster or "any cluster of the run"
            blind.append(f"{alert.text}: {alert.metric} is not known of {of}, so it cannot be crossed")
    return lines, blind
