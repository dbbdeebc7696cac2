"""What has become of forecasts: leaders and offline partitions after failures, and next values of series."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipelines.forecast_outcomes import record_outcomes
from pipelines.retention import SeenSnapshot
from pipelines.spark.arrow_frames import make_rows
from pipelines.spark.store import Store
from pipelines.tables import TABLES
from pipelines.tables.growth_tables import FORECAST_OUTCOMES
from tests.stores import open_without_spark

DAY = timedelta(days=1)
FIRST = datetime(2026, 11, 1, tzinfo=UTC)
ANY = {"string": "?", "boolean": False, "array": [], "timestamp": FIRST}  # where a value is needed
LEADERS = ("broker_id", "forecasts", "as_forecast", "forecast_value", "actual_value")
GROWTH = ("subject_kind", "quantity", "forecasts", "as_forecast")


def write(store: Store, name: str, rows: list[dict[str, Any]]) -> None:
    table = TABLES[name]
    unknown = {f.name: None if f.nullable else ANY.get(f.dataType.typeName(), 0) for f in table.schema}
    values = [tuple((unknown | {"cluster_id": "prod"} | row)[column] for column in table.column_names) for row in rows]
    store.append(table, make_rows(values, table.schema))


def see(*numbers: int) -> list[SeenSnapshot]:
    return [SeenSnapshot("prod", f"s{n}", FIRST + DAY * n, FIRST + DAY * n) for n in numbers]


def read_outcomes(store: Store, kind: str, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    rows = store.read_columns(FORECAST_OUTCOMES.name, FORECAST_OUTCOMES.column_names).to_pylist()
    return sorted(tuple(row[name] for name in names) for row in rows if row["forecast_kind"] == kind)


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["delta-rs", "Spark"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    if not request.param:
        return open_without_spark(tmp_path)
    with_spark = Store(request.getfixturevalue("spark"), str(tmp_path))
    monkeypatch.setattr(with_spark, "_has_delta_rs", False)
    return with_spark


def test_leaders_after_the_failure_of_one_broker(store: Store) -> None:
    """Broker 2 fails alone before the second snapshot; 1 and 3 together before the third: that was not forecast."""
    down = {1: set[int](), 2: {2}, 3: {1, 2, 3}}
    write(
        store,
        "silver.brokers",
        [
            {"snapshot_id": f"s{n}", "broker_id": broker, "live": broker not in ids}
            for n, ids in down.items()
            for broker in (1, 2, 3)
        ],
    )
    # partition: replicas, its leader and the forecast one before the failure, and the leader after it
    states: dict[int, tuple[list[int], int, int | None, int | None]] = {
        0: ([1, 2, 3], 1, 2, 1),  # not led by 2
        1: ([2, 3, 1], 2, 3, 3),
        2: ([2, 1, 3], 2, 1, 3),  # not as forecast
        3: ([2], 2, None, None),
        4: ([2, 1], 2, None, 1),  # not offline
    }
    partitions = [
        {"snapshot_id": f"s{n}", "topic": "t", "partition": p, "replicas": replicas, "leader": leader, "successor": to}
        for p, (replicas, was, to, then) in states.items()
        for n, leader in ((1, was), (2, then), (3, None))
    ]
    moved = {"topic": "u", "partition": 0, "successor": 1}  # reassigned between
    partitions += [
        {**moved, "snapshot_id": "s1", "replicas": [2, 1], "leader": 2},
        {**moved, "snapshot_id": "s2", "replicas": [3, 1], "leader": 3},
    ]
    write(store, "silver.partitions", partitions)
    write(store, "gold.growth", [])
    write(store, "gold.load_history", [])
    record_outcomes(store, see(1))
    assert read_outcomes(store, "leaders", LEADERS) == []
    for _ in range(2):  # a run that is repeated
        record_outcomes(store, see(1, 2))
    record_outcomes(store, see(1, 2, 3))
    assert read_outcomes(store, "leaders", LEADERS) == [(2, 4, 2, None, None)]
    assert read_outcomes(store, "offline_partitions", LEADERS) == [(2, 2, 1, 2.0, 1.0)]
    (times,) = read_outcomes(store, "leaders", ("forecast_at", "outcome_at"))
    assert [at.replace(tzinfo=UTC) for at in times] == [FIRST + DAY, FIRST + DAY * 2]


def test_next_values_are_compared_with_their_intervals(store: Store) -> None:
    trend = {"snapshot_id": "s1", "quantity": "size_bytes", "level": 100.0, "level_margin": 8.0, "last_at": FIRST + DAY}
    trend |= {"slope_per_day": 10.0, "slope_per_day_low": 7.0, "slope_per_day_high": 13.0, "samples": 9}
    known = {"partitions": 2, "replicas": 2, "partitions_with_size": 2, "size_bytes": 100}
    cluster, topic, broker = {"subject_kind": "cluster"}, {"subject_kind": "topic"}, {"subject_kind": "broker"}
    # subject, what is another before, and after; after two days, 120 is forecast, more or less 10
    cases: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
        ({**cluster, "all_partitions": 2}, {}, {"size_bytes": 130}),
        ({**topic, "topic": "a"}, {}, {"size_bytes": 131}),  # missed
        ({**topic, "topic": "b"}, {}, {"size_bytes": 110}),
        ({**topic, "topic": "c", "topic_id": "x"}, {}, {"topic_id": "y"}),  # created again
        ({**topic, "topic": "d"}, {}, {"partitions_with_size": 1}),  # of another part
        ({**topic, "topic": "e"}, {}, {"partitions": 1, "partitions_with_size": 1}),  # created again
        ({**broker, "broker_id": 1}, {}, {"size_bytes": 115}),
        ({**broker, "broker_id": 2}, {}, {"size_bytes": 300, "replicas": 3}),  # a plan has moved replicas
    ]
    write(store, "gold.load_history", [subject | known | {"snapshot_id": "s1"} | was for subject, was, _ in cases])
    write(store, "gold.load_history", [subject | known | {"snapshot_id": "s3"} | now for subject, _, now in cases])
    names = ("subject_kind", "topic", "broker_id")
    write(store, "gold.growth", [{n: s.get(n) for n in names} | trend for s, *_ in cases])
    write(store, "silver.brokers", [])
    write(store, "silver.partitions", [])
    record_outcomes(store, see(1, 3))
    assert read_outcomes(store, "growth", GROWTH) == [
        ("broker", "size_bytes", 1, 1),
        ("cluster", "size_bytes", 1, 1),
        ("topic", "size_bytes", 2, 1),
    ]


def test_listings_that_were_cut_show_no_outcomes_of_growth(store: Store) -> None:
    known = {"subject_kind": "cluster", "partitions": 2, "replicas": 2, "partitions_with_size": 2, "size_bytes": 100}
    write(store, "gold.load_history", [known | {"snapshot_id": f"s{n}", "all_partitions": 1 + n} for n in (1, 2)])
    trend = {"quantity": "size_bytes", "level": 100.0, "level_margin": 8.0, "slope_per_day": 0.0}
    trend |= {"slope_per_day_low": 0.0, "slope_per_day_high": 0.0, "snapshot_id": "s1", "subject_kind": "cluster"}
    trend["last_at"] = FIRST + DAY
    write(store, "gold.growth", [trend])
    write(store, "silver.brokers", [])
    write(store, "silver.partitions", [])
    record_outcomes(store, see(1, 2))
    assert read_outcomes(store, "growth", GROWTH) == []


def test_a_cluster_that_did_not_change_is_compared_at_each_time(store: Store) -> None:
    """Of 100 bytes that grow by 10 a day, 110 are forecast, more or less 8."""
    known = {"subject_kind": "cluster", "partitions": 2, "replicas": 2, "partitions_with_size": 2, "size_bytes": 100}
    write(store, "gold.load_history", [known | {"snapshot_id": "s1", "all_partitions": 2}])
    trend = {
        "quantity": "size_bytes",
        "level": 100.0,
        "level_margin": 8.0,
        "slope_per_day": 10.0,
        "last_at": FIRST + DAY,
    }
    trend |= {"slope_per_day_low": 10.0, "slope_per_day_high": 10.0, "snapshot_id": "s1", "subject_kind": "cluster"}
    write(store, "gold.growth", [trend])
    write(store, "silver.brokers", [])
    write(store, "silver.partitions", [])
    seen = [SeenSnapshot("prod", "s1", FIRST + DAY * n, FIRST + DAY * n) for n in (1, 2, 3)]
    for _ in range(2):  # a run that is repeated
        record_outcomes(store, seen[:2])
    assert read_outcomes(store, "growth", GROWTH) == [("cluster", "size_bytes", 1, 0)]
    record_outcomes(store, seen)  # growth was not measured the second time
    assert read_outcomes(store, "growth", GROWTH) == [("cluster", "size_bytes", 1, 0)]


def test_repeated_and_replaced_runs(store: Store) -> None:
    """A run that is repeated leaves its outcomes; those of a snapshot that another one of its time replaces go."""
    partitions = {"subject_kind": "cluster", "partitions": 2, "all_partitions": 2, "partitions_with_size": 2}
    sizes = {"s1": 100, "s2": 110, "s3": 500}
    write(store, "gold.load_history", [partitions | {"snapshot_id": s, "size_bytes": n} for s, n in sizes.items()])
    forecast = {"subject_kind": "cluster", "quantity": "size_bytes", "level": 100.0, "slope_per_day": 10.0}
    forecast |= {"slope_per_day_low": 9.0, "slope_per_day_high": 11.0, "level_margin": 5.0, "last_at": FIRST + DAY}
    for name in ("silver.brokers", "silver.partitions"):
        write(store, name, [])
    write(store, "gold.growth", [forecast | {"snapshot_id": "s1"}])
    record_outcomes(store, see(1, 2))
    expected = [("s2", "size_bytes", 1, 1)]
    names = ("snapshot_id", "quantity", "forecasts", "as_forecast")
    assert read_outcomes(store, "growth", names) == expected
    store.replace(TABLES["gold.growth"], make_rows([], TABLES["gold.growth"].schema), [see(1)[0].key])
    record_outcomes(store, see(1, 2))
    assert read_outcomes(store, "growth", names) == expected
    other = SeenSnapshot("prod", "s3", FIRST + DAY * 2, FIRST + DAY * 3)
    record_outcomes(store, [*see(1, 2), other])
    assert read_outcomes(store, "growth", names) == []
