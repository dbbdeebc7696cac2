"""Every query that a page shows, and every one behind a figure of the report, is answered by the tables of a run."""

from __future__ import annotations

import json
import shlex
from collections import Counter

import pytest

from pipelines.ingest.sources import SnapshotKey, compute_snapshot_id, find_source
from pipelines.report.figure_queries import FIGURES, TREND, Figure
from tests.docs.machine import OLDER, REAL, TWIN, Machine
from tests.docs.pages import PAGES, Block, Command, blocks

QUERIES = [block for page in PAGES for block in blocks(page, "sql")]
# What healthy clusters have no row of, and partitions of both snapshots of OLDER: it has other topics now.
EMPTY = ("silver.quarantine", "stage = 'retention'", "WITH states", "insights.forecast_accuracy", "forecast_kind IN")
# What is about more than the newest snapshots.
HISTORY = (
    "* FROM insights.snapshots",
    "gold.current_loads JOIN insights.snapshots",
    "gold.plan_moves JOIN insights.snapshots",
    "gold.failure_summary JOIN insights.snapshots",
    "silver.partitions JOIN insights.snapshots",
    "insights.metric_history",
    "insights.snapshot_changes",
    "insights.broker_changes",
    "insights.topic_changes",
    "insights.finding_changes",
    "insights.topic_health_history",
    "insights.hottest_broker_history",
    "insights.forecast_accuracy",
    "gold.forecast_outcomes",
    "ops.runs",
    "VERSION AS OF",
)
# Figures without rows: neither custom failures nor loads of the two captured clusters are known.
OF_OTHER_CLUSTERS = ("custom_failures", "loads", "network", "survivor_bytes", "over_capacity")

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def asked(machine: Machine, sql: str) -> list[dict[str, object]]:
    """The rows."""
    printed = machine.run(Command(f"kafka-placement query {shlex.quote(sql)} --json -"))
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.parametrize("block", QUERIES, ids=lambda block: block.name)
def test_a_query_of_a_page(machine: Machine, block: Block) -> None:
    rows = asked(machine, block.text)
    assert bool(rows) != any(name in block.text for name in EMPTY)
    if not any(name in block.text for name in HISTORY):
        counted = Counter(row["cluster_id"] for row in rows)
        assert counted[OLDER] == counted[TWIN]
        assert "gone" not in json.dumps(rows)


@pytest.fixture(scope="module")
def snapshots(first_run: str) -> list[SnapshotKey]:
    """Of the two captured clusters."""
    folders = [REAL, REAL.with_name("kafka-2.8.2-zookeeper")]
    return [SnapshotKey(one.name, compute_snapshot_id(find_source(str(one)), None)) for one in folders]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_the_query_behind_a_figure(machine: Machine, snapshots: list[SnapshotKey], figure: Figure) -> None:
    """As the page shows it, by the command that the page names."""
    rows = asked(machine, figure.query(snapshots))
    clusters = {key.cluster_id for key in snapshots if figure.name != "racks" or "zookeeper" not in key.cluster_id}
    if figure.name in OF_OTHER_CLUSTERS:
        clusters = set()
    assert {row["cluster_id"] for row in rows} == clusters


def test_the_query_behind_the_trend(machine: Machine, snapshots: list[SnapshotKey]) -> None:
    assert asked(machine, TREND.query(snapshots))
