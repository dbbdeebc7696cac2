"""Typing errors and shortened names are found; unrelated names are not suggested."""

from __future__ import annotations

import pytest

from pipelines.cli.name_suggestions import find_nearest, find_tables
from pipelines.spark.views import BY_NAME
from pipelines.tables import TABLES

_KNOWN = (*TABLES, *BY_NAME)
_COLUMNS = sorted({column for table in TABLES.values() for column in table.column_names})


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("gold.hotest_brokers", "insights.hottest_brokers"),
        ("hottest_broker", "insights.hottest_brokers"),
        ("gold.failure_summry", "gold.failure_summary"),
        ("insights.partiton_issues", "insights.partition_issues"),
        ("topcis", "silver.topics"),
        ("brokrs", "silver.brokers"),
        ("gold.durabilty", "gold.durability"),
        ("GOLD.PLAN", "gold.plans"),
        ("plans", "gold.plans"),
        ("silver.plans", "gold.plans"),
        ("partition", "silver.partitions"),
        ("issues", "insights.partition_issues"),
        ("history", "insights.metric_history"),
        ("hotspots", "gold.leader_hotspots"),
        ("broker_risk", "insights.broker_failure_risk"),
        ("kafka_topics", "silver.topics"),
        ("run", "ops.runs"),
    ],
)
def test_the_nearest_tables_are_suggested(name: str, table: str) -> None:
    assert table in find_tables(name, _KNOWN)


@pytest.mark.parametrize(
    "name",
    [
        "users",
        "orders",
        "silver.orders",
        "customers",
        "gold.foo",
        "test",
        "my_table",
        "information_schema",
        "employees",
        "dual",
        "t",
        "sales",
        "data",
        "gold.dates",
        "payments",
        "pg_catalog",
    ],
)
def test_an_unrelated_table_is_not_suggested(name: str) -> None:
    assert find_tables(name, _KNOWN) == []


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("borker_id", "broker_id"),
        ("brokerid", "broker_id"),
        ("partion", "partition"),
        ("partition_id", "partition"),
        ("topic_name", "topic"),
        ("cluster", "cluster_id"),
        ("isrs", "isr"),
        ("leaders_mx", "leaders_max"),
        ("live_reasn", "live_reason"),
        ("size", "size_bytes"),
        ("rack_id", "rack"),
        ("min_insync", "min_insync_replicas"),
        ("Leader", "leader"),
    ],
)
def test_the_nearest_columns_are_suggested(name: str, column: str) -> None:
    assert column in find_nearest(name, _COLUMNS)


@pytest.mark.parametrize(
    "name",
    ["price", "user_id", "foo", "customer", "date", "timestamp", "created_at", "x", "amount", "country", "email"],
)
def test_an_unrelated_column_is_not_suggested(name: str) -> None:
    assert find_nearest(name, _COLUMNS) == []


def test_at_most_three_names_are_suggested_and_the_nearest_first() -> None:
    assert find_nearest("broker_ids", ["broker", "broker_id", "id", "brokers", "broker_id_hash"])[0] == "broker_id"
    assert len(find_tables("brokers", _KNOWN)) <= 3
