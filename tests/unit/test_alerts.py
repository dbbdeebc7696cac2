"""Thresholds on a run's metrics."""

from __future__ import annotations

import pytest

from pipelines.alerts.findings import check_thresholds, parse_thresholds
from pipelines.errors import SettingsError
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
        ("worst_survivor_ratio > 1.3", ["prod"]),
        ("worst_survivor_ratio>=1.3", ["eu", "prod"]),
        (" eu : worst_survivor_ratio >= 1.3 ", ["eu"]),
        ("most_newly_offline_partitions < 1e0", ["prod"]),
        ("most_newly_offline_partitions <= 2", ["eu", "prod"]),
        ("most_newly_offline_partitions > 1", ["blue: a", "eu"]),
        ("blue: a: most_newly_offline_partitions > 1", ["blue: a"]),
        ("copysets > 0", []),
    ],
)
def test_clusters_that_cross_a_threshold(text: str, clusters: list[str]) -> None:
    results, _ = check_thresholds(parse_thresholds([text], METRICS, CLUSTERS), CLUSTERS, VALUES)
    lines = [one.describe() for one in results if one.is_crossed]
    assert len(lines) == len(clusters)
    assert all(line.startswith(f"{cluster}: ") for line, cluster in zip(lines, clusters, strict=True))


def test_the_text_of_an_alert() -> None:
    thresholds = parse_thresholds(["worst_survivor_ratio > 1.3"], METRICS, CLUSTERS)
    results, unknown = check_thresholds(thresholds, CLUSTERS, VALUES)
    assert [(one.describe(), one.is_crossed) for one in results] == [
        ("eu: worst_survivor_ratio is 1.3: worst_survivor_ratio > 1.3", False),
        ("prod: worst_survivor_ratio is 1.4: worst_survivor_ratio > 1.3", True),
    ]
    assert unknown == []


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("copysets > 1", "any cluster of the run"),
        ("blue: a: worst_survivor_ratio > 1", "blue: a"),
        ("prod: most_newly_offline_partitions > 1", ""),
    ],
)
def test_a_metric_without_a_value_is_reported(text: str, of: str) -> None:
    results, blind = check_thresholds(parse_thresholds([text], METRICS, CLUSTERS), CLUSTERS, VALUES)
    assert not any(one.is_crossed for one in results)
    assert len(blind) == bool(of)
    assert all(f"has no value for {of}, so it cannot be crossed" in line for line in blind)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worst_survivor_ratio", "write new, or a metric, > or <, and a number"),
        ("worst_survivor_ratio = 1", "write new, or a metric, > or <, and a number"),
        ("worst_survivor_ratio > much", "write new, or a metric, > or <, and a number"),
        ("worst_survivor_ratio > 1e", "write new, or a metric, > or <, and a number"),
        ("hottest > 1", "there is no metric hottest. Metrics: bytes_out_max_over_mean_ratio, copysets"),
    ],
)
def test_invalid_texts(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse_thresholds([text], METRICS, CLUSTERS)


@pytest.mark.parametrize("limit", ["1e999", "-1e999", "1e", "--1", "9" * 5_000])
def test_a_limit_is_a_finite_number(limit: str) -> None:
    with pytest.raises(SettingsError, match="write new, or a metric, > or <, and a number") as error:
        parse_thresholds([f"offline_partitions > {limit}"], ["offline_partitions"], [])
    assert len(str(error.value)) < 300


def test_an_unknown_cluster() -> None:
    with pytest.raises(SettingsError, match=r"the run has no cluster us\. Clusters: blue: a, eu, prod"):
        parse_thresholds(["us: copysets > 1"], METRICS, CLUSTERS)
