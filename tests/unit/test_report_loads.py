"""What the report says about bytes per second, bytes between zones, and growth: numbers where known, else why not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pipelines.report.load_sections import compare_zone_traffic, find_capacity_source, summarize_growth, summarize_loads
from pipelines.report.report_data import add_risks

MB = 10**6
LAST = datetime(2026, 11, 24, 10, tzinfo=UTC)


def load_sources(partitions: int, **counts: int) -> list[dict[str, Any]]:
    """The row of the figure loads."""
    return [
        {
            "partitions": partitions,
            "load_sources": [{"load_source": name, "n": n} for name, n in counts.items()],
            "header": "loads from prometheus http://p:9090, 7d until 2026-11-24T10:00:00Z, p95",
        }
    ]


def test_loads_say_where_they_are_from_and_what_they_lack() -> None:
    network = [{"network_bytes_in_per_s": 5.0, "network_bytes_out_per_s": None}]
    warnings = ("loads.txt line 2: metrics: broker 3 has no series", "t.txt line 1: something else")
    summary = summarize_loads(load_sources(200, offsets=150, even=1), network, warnings)
    assert summary is not None
    assert summary.header == "prometheus http://p:9090, 7d until 2026-11-24T10:00:00Z, p95"
    assert summary.sources == [
        "75 % of the partitions by the records appended, of what leaders transfer of the topic",
        "0.5 % of the partitions as even shares of what leaders transfer of the topic",
    ]
    assert summary.gaps == [
        "Bytes out of brokers are unknown.",
        "The loads of 49 partitions are unknown.",
        "broker 3 has no series",
    ]
    assert summarize_loads([], [], ()) is None
    almost = summarize_loads(load_sources(1000, partition=999), [], ())
    assert almost is not None
    assert almost.sources[0].startswith("99.9 % ")  # never 100 % while some are unknown


def test_failures_get_the_worst_survivor_by_bytes() -> None:
    survivor = {"scenario": "broker:2", "broker_id": 5, "bytes_out_per_s": 9.0 * MB, "over_mean_ratio": 1.5}
    safe = {
        "newly_offline_partitions": 0,
        "unclean_elections": 0,
        "newly_under_min_isr_partitions": 0,
        "leaves_majority": True,
    }
    failures = [{"scenario": f"broker:{broker}", "hot_survivor": None, **safe} for broker in (2, 3)]
    with_bytes, without = add_risks(failures, [survivor])
    assert (with_bytes["survivor_bytes"], with_bytes["risk"].answer) == (survivor, "Yes")
    assert without["survivor_bytes"] is None


def test_capacities_of_leaders_say_nothing_about_bytes() -> None:
    leaders = {"quantity": "leaders", "capacity_source": "file"}
    rates = {"quantity": "bytes_out_per_s", "capacity_source": "uniform"}
    assert find_capacity_source([leaders]) is None
    assert find_capacity_source([leaders, rates]) == "uniform"
    assert find_capacity_source([rates, rates | {"capacity_source": "file"}]) == "file"


def zone_row(kind: str, rate: float | None, scheme: str = "observed", scenario: str = "none") -> dict[str, Any]:
    """A row of the figure zone_traffic; 10 of the currency per byte."""
    cost = None if rate is None else 10 * rate
    state = {"scheme": scheme, "scenario": scenario}
    return {**state, "traffic_kind": kind, "bytes_per_s": rate, "cost_per_month": cost}


def plan_row(goal: str, rate: float | None, feasible: bool = True) -> dict[str, Any]:
    rates = {f"cross_zone_{kind}_bytes_per_s": [None, rate] for kind in ("replication", "producers", "consumers")}
    metrics = {"cross_zone_cost_per_month": [None, None], **rates} if feasible else {}
    return {"goal": goal, "feasible": feasible, "metrics": metrics}


def test_zone_traffic_compares_now_the_worst_failure_schemes_and_plans() -> None:
    rows = [
        *(zone_row("replication", 3.0), zone_row("producers", 2.0), zone_row("consumers", 4.0)),
        *(zone_row("replication", 3.0, scheme=scheme) for scheme in ("own", "naive", "kafka")),
        *(zone_row("replication", 5.0, scenario="broker:1"), zone_row("replication", 8.0, scenario="custom:1,2")),
    ]
    plans = [plan_row("balance", 1.0), plan_row("zones", 0.5), plan_row("drain", 9.0, feasible=False)]
    states = compare_zone_traffic(rows, plans, ["zones"])
    assert [(one.state, one.total, one.cost_per_month) for one in states] == [
        ("now", 9, 90),
        ("after the worst failure (custom 1,2)", 8, 80),
        ("placed by kafka", 3, 30),
        ("placed by naive", 3, 30),
        ("placed by own", 3, 30),
        ("after the plan zones", 1.5, None),
        ("after the plan balance", 3, None),
    ]


def test_unknown_zone_traffic_is_not_0() -> None:
    rows = [zone_row("replication", 3.0), zone_row("producers", 2.0), zone_row("consumers", None)]
    (now,) = compare_zone_traffic(rows, [], [])
    assert (now.consumers, now.total, now.cost_per_month) == (None, None, None)
    assert compare_zone_traffic([zone_row("replication", None), zone_row("consumers", None)], [], []) == []
    assert compare_zone_traffic([zone_row("replication", 0.0)], [], []) == []  # one zone
    assert compare_zone_traffic([], [], []) == []


def growth_row(**values: Any) -> dict[str, Any]:
    """A row of the figure growth: the disk of broker 2."""
    row = {"limit_name": "disk_full", "broker_id": 2, "log_dir": None, "quantity": "size_bytes"}
    row |= {"limit_value": 4e12, "level": 3e12}
    row |= {"slope_per_day": 1e11, "days": 10.0, "days_low": 8.6, "days_high": 12.0, "last_at": LAST, "rows": 1}
    row |= {"due": "this week"}
    return row | {"reason": None} | values


def test_growth_has_dates_with_intervals() -> None:
    limit = {"limit_name": "cluster_partitions", "broker_id": None, "quantity": "replicas", "limit_value": 200_000.0}
    rows = [
        growth_row(days=0.0, days_low=0.0, days_high=None, rows=7),
        growth_row(broker_id=3, rows=7),
        growth_row(**limit, level=150_000.0, slope_per_day=0.25, days=962.0, days_low=900.0, days_high=None, due=None),
    ]
    summary = summarize_growth(rows)
    assert [one[:6] for one in summary.dates] == [
        ("disk full", "broker 2", "reached", 0.0, "-", "-"),
        ("disk full", "broker 3", "2026-12-04", 10.0, "10", "8.6 to 12"),
        ("too many partitions in the cluster", "cluster", "2029-07-13", 962.0, "962", "900 or more"),
    ]
    assert summary.dates[1][6:] == ("3 TB", "100 GB", "4 TB", "this week", 7)
    assert summary.dates[2][6:] == ("150,000", "0.25", "200,000", None, 1)
    assert summary.more == 5
    assert summary.gaps == []


@pytest.mark.parametrize("days", [3651.0, 1e9])
def test_far_dates_are_only_counted(days: float) -> None:
    assert summarize_growth([growth_row(days=days, rows=3)]) == ([], 3, [])


def test_growth_says_once_what_is_missing() -> None:
    unknown = {"days": None, "days_low": None, "days_high": None}
    short = "too little history: 1 sample, and a slope needs 10"
    limit = "the limit is unknown: add disk_bytes to capacity.file, or set plans.broker_bytes"
    both = growth_row(**unknown, reason=f"{short}; {limit}", rows=6)
    partitions = growth_row(**unknown, limit_name="broker_partitions", quantity="replicas", reason=short)
    assert summarize_growth([both, partitions]).gaps == [f"{short.capitalize()}."]
    no_limit, constant = growth_row(**unknown, reason=limit, rows=6), partitions | {"reason": "it does not grow"}
    assert summarize_growth([no_limit, constant]).gaps == [f"Disk full of 6 brokers: {limit}."]
    of_dir = growth_row(broker_id=3, log_dir="/data1")
    assert summarize_growth([of_dir]).dates[0].subject == "/data1 of broker 3"
    dirs = of_dir | unknown | {"reason": "the limit is unknown: add it", "rows": 2}
    assert summarize_growth([dirs]).gaps == ["Disk full of 2 log dirs: the limit is unknown: add it."]
    assert summarize_growth([]) == ([], 0, [])
