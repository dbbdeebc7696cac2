"""What the report says has changed since an earlier snapshot."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipelines.ingest.sources import SnapshotKey
from pipelines.report.changes_since import ChangesSince, EarlierSnapshot, compare_snapshots, find_earlier
from pipelines.report.html_page import render_page
from pipelines.report.report_data import read_report
from pipelines.spark.arrow_frames import make_rows
from pipelines.tables.execution_tables import PLAN_EXECUTIONS
from pipelines.tables.growth_tables import FORECAST_OUTCOMES
from pipelines.verdict.finding_rows import read_finding_rows
from tests.shared_runs import SharedFolder
from tests.spark.two_days import create_warehouse
from tests.stores import open_without_spark

DAY = timedelta(days=1)
FIRST = datetime(2026, 11, 21, tzinfo=UTC)
NEWEST = SnapshotKey("prod", "s9")


@pytest.fixture
def warehouse(shared_folder: SharedFolder, tmp_path: Path) -> Path:
    """A cluster seen on two days, and a plan that was carried out on each of the two and the day before."""
    folder = tmp_path / "tables"
    shutil.copytree(create_warehouse(shared_folder) / "tables", folder)
    row = dict.fromkeys(PLAN_EXECUTIONS.column_names) | {
        "cluster_id": "prod",
        "snapshot_id": "s",
        "plan_id": "p",
        "wave": 1,
        "direction": "apply",
        "outcome": "complete",
        "partitions": 2,
        "pauses": 0,
        "copied_bytes": 3_000_000,
        "estimated_s": 60.0,
        "actual_s": 120.0,
    }
    rows = [row | {"execution": day, "started_at": FIRST + DAY * (day - 2) + DAY / 2} for day in (1, 2)]
    cut = {"wave": 2, "outcome": "interrupted", "actual_s": None, "copied_bytes": 1_000_000}
    rows.append(rows[-1] | cut)
    open_without_spark(folder).append(
        PLAN_EXECUTIONS, make_rows([tuple(one.values()) for one in rows], PLAN_EXECUTIONS.schema)
    )
    return folder


def test_two_days_are_compared(warehouse: Path) -> None:
    data = read_report(open_without_spark(warehouse))
    (cluster,) = data.clusters
    since: ChangesSince = cluster["since"]
    assert since.as_of == FIRST.isoformat(timespec="seconds")
    assert [point.kind for point in since.gone] == ["hot_survivor", "hot_broker"]
    assert "under_min_isr" in [point.kind for point in since.new]
    assert not {point.kind for point in since.new} & {then.kind for then, _ in since.changed}
    assert dict(since.facts) == {
        "partitions": "5 -> 7, +40.0%",
        "replicas": "8 -> 12, +50.0%",
        "new topics": "alone, eligible, rough",
        "gone topics": "lonely",
        "plan carried out on 2026-11-21": "2 waves, 4 MB copied, in 2 min, estimated 60 s, 1 interrupted",
    }
    page = render_page(data)
    assert "Since 2026-11-21" in page
    assert page.count("FROM gold.plan_executions") == 1


def test_a_time_before_all_snapshots_compares_with_the_first(warehouse: Path) -> None:
    store = open_without_spark(warehouse)
    of_times = [read_report(store, since=when).clusters[0]["since"] for when in (FIRST - DAY, FIRST, FIRST + DAY * 9)]
    assert [since.as_of for since in of_times] == [FIRST.isoformat(timespec="seconds")] * 3


def _trend(*days: int, names: str = "") -> list[dict[str, Any]]:
    return [
        {"as_of": (FIRST + DAY * day).isoformat(), "snapshot_id": f"s{name}"}
        for day, name in zip(days, names or map(str, days), strict=True)
    ]


def test_the_snapshot_of_a_week_before() -> None:
    def find(*days: int, names: str = "", since: datetime | None = None) -> str:
        found = find_earlier(_trend(*days, names=names), NEWEST, since)
        return found.key.snapshot_id if found else ""

    assert find(0, 1, 2, 3, 9) == "s2"  # the last by then
    assert find(5, 6, 9) == "s5"  # the first, as none is so old
    assert find(0, 9, since=FIRST + DAY / 2) == "s0"
    assert find(0, 1, 9, since=FIRST + DAY) == "s1"
    assert find(9) == find(0, 1) == ""  # nothing earlier, or the newest was not seen
    assert find(0, 1, 2, 9, names="0009") == "s0"
    assert find(0, 3, 5, 9, names="0999") == "s0"
    assert find(0, 2, 9, names="099") == find(0, 2, 5, 9, names="0949") == ""  # the same a week before


def test_what_is_unknown_is_not_compared() -> None:
    totals = {"partitions": 2, "replicas": 4, "size_bytes": None, "bytes_in_per_s": 0.0, "cost_per_month": 10.0}
    rows = [
        totals | {"snapshot_id": "s0"},
        totals | {"snapshot_id": "s9", "size_bytes": 5, "bytes_in_per_s": 1000.0, "cost_per_month": 12.5},
    ]
    tables: dict[str, list[dict[str, Any]]] = {
        "since_totals": rows,
        "since_members": [],
        "since_plans": [],
        "since_forecasts": [],
    }
    verdict = read_finding_rows([])
    earlier = EarlierSnapshot(SnapshotKey("prod", "s0"), FIRST.isoformat())
    since = compare_snapshots(NEWEST, earlier, (verdict, verdict), tables, "EUR")
    assert since.new == since.gone == since.changed == []
    assert since.facts == [("bytes in", "0 B/s -> 1 kB/s"), ("cost between zones, EUR a month", "10 -> 12, +25.0%")]
    tables["since_totals"] = []
    assert compare_snapshots(NEWEST, earlier, (verdict, verdict), tables, "EUR").facts == []


def test_forecasts_that_came_true(warehouse: Path) -> None:
    store = open_without_spark(warehouse)
    row = dict.fromkeys(FORECAST_OUTCOMES.column_names) | {
        "cluster_id": "prod",
        "forecast_at": FIRST,
        "outcome_at": FIRST,
    }
    rows = [
        {"snapshot_id": "a", "forecast_kind": "leaders", "forecasts": 1_000, "as_forecast": 999},
        {"snapshot_id": "a", "forecast_kind": "growth", "forecasts": 300, "as_forecast": 280},
        {"snapshot_id": "b", "forecast_kind": "growth", "forecasts": 100, "as_forecast": 100},
        *(
            {
                "snapshot_id": "p",
                "forecast_kind": "copy_time",
                "forecasts": 1,
                "as_forecast": 1,
                "actual_value": seconds,
            }
            | {"forecast_value": 100.0}
            for seconds in (93.0, 106.0)
        ),
    ]
    values = [tuple((row | one).values()) for one in rows]
    store.append(FORECAST_OUTCOMES, make_rows(values, FORECAST_OUTCOMES.schema))
    (cluster,) = read_report(store).clusters
    facts = dict(cluster["since"].facts)
    assert facts["leaders forecast for failures"] == "999 of 1,000 came true, over all nights"
    assert facts["next values forecast"] == "95.0% of 400 in their 95 % interval, over all nights"
    assert facts["copy times forecast"] == "2 waves took 0.93 to 1.06 times the forecast, over all nights"
