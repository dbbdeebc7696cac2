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


class Threshold(NamedTuple):
    """A limit for a metric."""

    text: str  # As it was written
    cluster: str | None  # Cluster that it applies to; None = every cluster
    metric: str  # Metric of gold.scheme_comparison
    comparison: str  # >, >=, < or <=
    limit: float  # Value to compare with


class ThresholdResult(NamedTuple):
    """A threshold, compared with the value of one cluster."""

    cluster_id: str
    threshold: Threshold
    value: float
    is_crossed: bool

    def describe(self) -> str:
        """Return a line such as `prod: worst_survivor_ratio is 1.4: worst_survivor_ratio > 1.3`."""
        return f"{self.cluster_id}: {self.threshold.metric} is {self.value:.6g}: {self.threshold.text}"


def parse_thresholds(texts: Iterable[str], metrics: Iterable[str], clusters: Iterable[str]) -> list[Threshold]:
    """Parse thresholds, as in "CLUSTER: METRIC > NUMBER"; raise SettingsError for another form or an unknown name."""
    names, clusters = sorted(metrics), set(clusters)
    thresholds = []
    for text in texts:
        match, problem = _FORM.fullmatch(text), ""
        if match is None or not _is_number(match[4]):
            problem = 'write new, or a metric, > or <, and a number, as in "worst_survivor_ratio > 1.3"'
        elif match[2] not in names:
            problem = f"there is no metric {shorten_text(match[2])}. Metrics: {', '.join(names)}"
        elif match[1] is not None and match[1] not in clusters:
            known = ", ".join(sorted(clusters))
            problem = f"the run has no cluster {shorten_text(match[1])}. Clusters: {known}"
        if match is None or problem:
            raise SettingsError(f"--alert {quote_value(text)}: {problem}")
        thresholds.append(Threshold(text.strip(), match[1], match[2], match[3], float(match[4])))
    return thresholds


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def check_thresholds(
    thresholds: Sequence[Threshold], clusters: Iterable[str], values: Mapping[tuple[str, str], float | None]
) -> tuple[list[ThresholdResult], list[str]]:
    """Return the result of each threshold and cluster, and a line for each threshold whose metric has no value."""
    results, unknown = [], []
    for one in thresholds:
        candidates = [cluster for cluster in sorted(clusters) if one.cluster in (None, cluster)]
        known = {c: value for c in candidates if (value := values.get((c, one.metric))) is not None}
        for cluster, value in known.items():
            results.append(ThresholdResult(cluster, one, value, _OPERATORS[one.comparison](value, one.limit)))
        if not known:
            where = one.cluster or "any cluster of the run"
            unknown.append(f"{one.text}: {one.metric} has no value for {where}, so it cannot be crossed")
    return results, unknown
