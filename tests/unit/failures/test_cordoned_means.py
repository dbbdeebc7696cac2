"""Means leave out brokers that are empty and cordoned: with one, all measures are as without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.plan_files.plan_creation import build_snapshot_model
from pipelines.plan_files.planned_cluster import NewBroker, add_new_brokers
from pipelines.what_if.what_if_answers import model_snapshot
from udfs.arrow.columns import replace_columns
from udfs.failures.failure_outcomes import cluster_hotspot_rows, single_failures
from udfs.failures.failure_rows import headroom_rows, outcome_rows
from udfs.failures.scheme_distribution import measure_placement
from udfs.failures.topic_defaults import TopicDefaults
from udfs.hotspots.hotspot_distribution import TrialOptions
from udfs.hotspots.hotspots_by_scheme import find_hotspots
from udfs.placement.topic_placement import LiveBrokers
from udfs.planning.plan_metrics import MetricOptions, measure_state

DEFAULTS = TopicDefaults()


def measure(snapshot: Snapshot) -> dict[str, object]:
    """Measure all ratios over means, of brokers 1 to 3."""
    aggregates = model_snapshot(snapshot, DEFAULTS)[2]
    failures = outcome_rows(single_failures(aggregates).outcomes, aggregates).to_pylist()
    now = cluster_hotspot_rows(aggregates, 1.2).to_pylist()[0]
    live = LiveBrokers(*(snapshot.brokers[name].to_pylist() for name in ("broker_id", "rack", "cordoned")))
    options = TrialOptions(("kraft",), 1, 3, 1000, (1.5,))
    hotspots = find_hotspots("c", live, snapshot.topics, snapshot.partitions, options)
    leads, takeovers = (aggregates.sums[name][..., 0] for name in ("leader_loads", "takeovers"))
    state = measure_state(build_snapshot_model(snapshot, DEFAULTS), MetricOptions())
    return {
        "after": {
            row["scenario"]: (row["leaders_after_mean"], row["worst_survivor_ratio"])
            for row in failures
            if row["failed_brokers"] in ([1], [2], [3])
        },
        "now": {name: now[name] for name in ("brokers", "leaders_mean", "max_over_mean_ratio", "gini_ratio")},
        "headroom": [row["required_headroom_ratio"] for row in headroom_rows(aggregates)[0].to_pylist()],
        "hotspots": (hotspots.live_brokers, hotspots.observed, hotspots.schemes["kraft"].to_row()),
        "placement": measure_placement(leads, takeovers, aggregates.counted)[0],
        "plan": (state.balance, state.failures, state.headroom),
    }


def test_an_empty_cordoned_broker_is_in_no_mean(tmp_path: Path) -> None:
    lists = ("1,2,3", "1,3,2", "2,1,3", "3,2,1", "1,2,3")
    lines = [
        f"\tTopic: a\tPartition: {i}\tLeader: {one[0]}\tReplicas: {one}\tIsr: {one}" for i, one in enumerate(lists)
    ]
    header = "Topic: a\tPartitionCount: 5\tReplicationFactor: 3\tConfigs: \n"
    (tmp_path / "prod.txt").write_text(header + "\n".join(lines) + "\n")
    snapshot = load_snapshot(find_source(str(tmp_path / "prod.txt")))
    four = add_new_brokers(snapshot, [NewBroker(4)])
    ids = np.array(four.brokers["broker_id"])

    def cordon(*brokers: int) -> Snapshot:
        return replace(four, brokers=replace_columns(four.brokers, {"cordoned": pa.array(np.isin(ids, brokers))}))

    assert measure(cordon(4)) == measure(snapshot)
    assert measure(cordon())["after"] != measure(snapshot)["after"]
