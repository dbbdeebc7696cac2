"""Thresholds on a run's metrics."""

from __future__ import annotations

import pytest

from pipelines.errors import SettingsError
from pipelines.report.alerts import SHORT, alerts_of, crossed
from pipelines.stages.scheme_comparison_stage import METRICS

CLUSTERS = ("prod", "eu", "blue: a")
VALUES = {
    ("prod", "worst_survivor_ratio"): 1.4,
    ("prod", "most_newly_offline_partitions"): 0.0,
    ("prod", "copysets"): None,
    ("eu", "worst_survivor_ratio"): 1.3,
    ("eu", "most_newly_offline_partitions"): 2.0,
    ("blue: a", "most_newly_offline_partitions"): 3.0,
}


@pytest.mark.parametrize(
    ("text", "clusters"),
    [
        ("worst_survivor > 1.3", ["prod"]),
        ("worst_survivor>=1.3", ["eu", "prod"]),
        (" eu : worst_survivor >= 1.3 ", ["eu"]),
        ("most_newly_offline_partitions < 1e0", ["prod"]),
        ("newly_offline <= 2", ["eu", "prod"]),
        ("newly_offline > 1", ["blue: a", "eu"]),
        ("blue: a: newly_offline > 1", ["blue: a"]),
        ("copysets > 0", []),
    ],
)
def test_who_has_crossed_it(text: str, clusters: list[str]) -> None:
    lines, _ = crossed(alerts_of([text], METRICS, CLUSTERS), CLUSTERS, VALUES)
    assert len(lines) == len(clusters)
    assert all(line.startswith(f"{cluster}: ") for line, cluster in zip(lines, clusters, strict=True))


def test_what_is_said() -> None:
    assert crossed(alerts_of(["worst_survivor > 1.3"], METRICS, CLUSTERS), CLUSTERS, VALUES) == (
        ["prod: worst_survivor_ratio is 1.4: worst_survivor > 1.3"],
        [],
    )


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("copysets > 1", "any cluster of the run"),
        ("blue: a: worst_survivor > 1", "blue: a"),
        ("prod: newly_offline > 1", ""),
    ],
)
def test_a_threshold_with_nothing_to_look_at_is_told(text: str, of: str) -> None:
    lines, blind = crossed(alerts_of([text], METRICS, CLUSTERS), CLUSTERS, VALUES)
    assert lines == []
    assert len(blind) == bool(of)
    assert all(f"is not known of {of}, so it cannot be crossed" in line for line in blind)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worst_survivor", "write a metric, > or <, and a number"),
        ("worst_survivor = 1", "write a metric, > or <, and a number"),
        ("worst_survivor > much", "write a metric, > or <, and a number"),
        ("worst_survivor > 1e", "write a metric, > or <, and a number"),
        ("hottest > 1", "there is no metric hottest. Metrics: leaders, offline"),
    ],
)
def test_what_cannot_be_understood(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        alerts_of([text], METRICS, CLUSTERS)


def test_a_cluster_that_is_not_there() -> None:
    with pytest.raises(SettingsError, match=r"the run has no cluster us\. Clusters: blue: a, eu, prod"):
        alerts_of(["us: copysets > 1"], METRICS, CLUSTERS)


def test_short_names_are_of_metrics() -> None:
    assert set(SHORT.values()) <= set(METRICS)
