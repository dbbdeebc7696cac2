"""A plan as a row of gold.plans: partitions on down brokers, frozen ones, and what the estimates assume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.cli.common_options import PlanOptions
from pipelines.cli.plan_command import parse_request
from pipelines.config.settings import load_settings
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.plan_files.plan_creation import build_snapshot_model
from udfs.failures.topic_defaults import KAFKA_DEFAULTS
from udfs.planning.plan_making import freeze_partitions, make_plan
from udfs.planning.plan_metrics import MetricOptions, summarize_plan
from udfs.planning.plan_rows import build_metric_rows, build_plan_row
from udfs.planning.waves import WaveLimits


def line(partition: int, leader: str, replicas: str, isr: str, more: str = "") -> str:
    return f"Topic: t\tPartition: {partition}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {isr}{more}\n"


def plan_row(file: Path, goal: str) -> dict[str, Any]:
    """A plan and its metrics for broker 9 down: two partitions can be repaired, one is offline, and one moves."""
    moving = line(3, "1", "1,2,3", "1,2", "\tAdding Replicas: 3\tRemoving Replicas: 2")
    lagging = line(1, "1", "1,9", "1") + line(2, "2", "9,2", "2")
    file.write_text(line(0, "1", "1,2", "1,2") + lagging + moving + line(4, "none", "9", "9"))
    request = parse_request(PlanOptions(goal), load_settings(environ={}))
    model = build_snapshot_model(load_snapshot(find_source(str(file))), KAFKA_DEFAULTS)
    model = freeze_partitions(model, request)
    limits = WaveLimits(throttle_bytes_per_s=25e6)
    summary = summarize_plan(model, request, make_plan(model, request), limits, MetricOptions())
    (row,) = build_plan_row(request, summary).to_pylist()
    metrics = build_metric_rows(request, summary).to_pylist()
    return row | {metric["metric"]: [metric["before"], metric["after"]] for metric in metrics}


def test_a_repair_leaves_no_replica_on_a_down_broker(tmp_path: Path) -> None:
    row = plan_row(tmp_path / "describe.txt", "repair")
    assert row["under_replicated_partitions"] == [2, 0]  # the offline partition does not count
    assert row["frozen_reasons"] == [
        "1 because of an ongoing reassignment",
        "1 because of the lack of an in-sync replica on a live broker",
    ]
    assert (row["unsized_partitions"], row["throttle_bytes_per_s"]) == (5, 25e6)


def test_leaders_leave_replicas_where_they_are(tmp_path: Path) -> None:
    row = plan_row(tmp_path / "describe.txt", "leaders")
    assert (row["under_replicated_partitions"], row["frozen_partitions"], row["moves"]) == ([2, 2], 4, [0, 0])
    assert row["frozen_reasons"][-1].startswith("2 because of a replica on a down broker")
