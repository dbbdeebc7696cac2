"""Which snapshots stay, and what maintenance leaves of a warehouse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipelines.config.settings import load_settings
from pipelines.errors import SettingsError
from pipelines.ingest.sources import SnapshotKey
from pipelines.retention import SeenSnapshot, choose_expired

LAST = datetime(2026, 11, 1, 2, tzinfo=UTC)


def make_nights(days: list[float], cluster: str = "prod", name: str = "night-{}") -> list[SeenSnapshot]:
    times = [LAST - timedelta(days=day) for day in days]
    return [
        SeenSnapshot(cluster, name.format(f"{day:g}"), at, at + timedelta(minutes=1))
        for day, at in zip(days, times, strict=True)
    ]


def list_staying(seen: list[SeenSnapshot], *options: str) -> list[SeenSnapshot]:
    settings = load_settings([f"retention.{option}" for option in options], environ={}).retention
    expired = choose_expired(seen, settings, LAST)
    return [one for one in seen if one.key not in expired]


def test_a_year_of_nights_leaves_all_recent_ones_then_weeks_then_months() -> None:
    staying = list_staying(make_nights([float(day) for day in range(800)]))
    ages = [(LAST - one.as_of).days for one in staying]
    assert ages[:36] == [*range(36)]
    weeks = [age for age in ages if 35 < age <= 365]
    months = [age for age in ages if age > 365]
    assert len(weeks) in (47, 48)
    assert {one.as_of.isocalendar().weekday for one in staying if 42 < (LAST - one.as_of).days <= 360} == {7}
    assert len(months) in (14, 15, 16)
    last_of_months = [one.as_of for one in staying if (LAST - one.as_of).days > 400]
    assert all((at + timedelta(days=1)).day == 1 for at in last_of_months)


def test_a_snapshot_seen_again_stays_and_the_newest_two_always_do() -> None:
    """However far apart the runs were."""
    same = make_nights([300.0, 299.0, 3.0], name="same")
    assert list_staying(same + make_nights([200.5, 1.0])) == same + make_nights([200.5, 1.0])
    assert list_staying(make_nights([900.0, 0.0]), "weekly_days=60", "monthly_days=90") == make_nights([900.0, 0.0])
    rare = make_nights([900.0, 899.0, 0.0])
    assert list_staying(rare, "weekly_days=60", "monthly_days=90") == rare[1:]


def test_clusters_and_the_order_of_runs_do_not_matter() -> None:
    one, other = (
        make_nights([float(d) for d in range(60)], "one"),
        make_nights([float(d) + 500 for d in range(60)], "two"),
    )
    mixed = [*reversed(one), *other]
    expired = {row.key for row in mixed} - {row.key for row in list_staying(mixed)}
    by_cluster = [[key for key in expired if key.cluster_id == name] for name in ("one", "two")]
    assert len(by_cluster[0]) in range(19, 23)
    assert len(by_cluster[1]) in range(19, 23)


def test_several_snapshots_of_a_day_all_stay_while_they_are_recent() -> None:
    nights = make_nights([0.0, 0.1, 0.2, 34.0, 34.1, 40.0, 40.1])
    assert [one.snapshot_id for one in list_staying(nights)] == [one.snapshot_id for one in nights[:6]]


def test_nothing_expires_without_retention() -> None:
    nights = make_nights([float(day) for day in range(3000)])
    assert list_staying(nights, "all_days=0") == nights
    assert choose_expired([], load_settings([], environ={}).retention, LAST) == set()
    assert SnapshotKey("prod", "night-36") == nights[36].key


@pytest.mark.parametrize("options", [("all_days=40", "weekly_days=20"), ("weekly_days=500", "monthly_days=400")])
def test_spans_must_rise(options: tuple[str, str]) -> None:
    with pytest.raises(SettingsError, match="must rise"):
        list_staying([], *options)
