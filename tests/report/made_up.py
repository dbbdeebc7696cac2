"""ReportData of clusters that nobody has, as the page takes them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.report.figure_queries import FIGURES
from pipelines.report.load_sections import GrowthSummary
from pipelines.report.report_data import ReportData, add_risks, describe_broker_pairs, find_worst_failures, select_plans
from pipelines.verdict.cluster_evidence import AffectedPartitions, ClusterEvidence, ClusterFindings, PartitionIssue
from pipelines.verdict.judgement import judge_cluster

SCHEMES = ("observed", "kafka", "kraft", "naive")


def cluster_of(brokers: int, name: str = "made-up", topic: str = "orders", seed: int = 7) -> dict[str, Any]:
    """A cluster of so many brokers, every figure filled."""
    draw = np.random.default_rng(seed)
    ids = list(range(1, brokers + 1))
    leaders = draw.poisson(100, brokers)
    now = {
        "brokers": brokers,
        "partitions": int(leaders.sum()) + 1,
        "leaders": int(leaders.sum()),
        "leaders_max": int(leaders.max()),
        "leaders_mean": float(leaders.mean()),
        "hottest_broker": ids[int(leaders.argmax())],
        "hot_brokers": [],
        "max_over_mean_ratio": float(leaders.max() / leaders.mean()),
        "preferred_leader_percent": 90.0,
        "under_replicated_percent": 1.5,
    }
    failures = [
        {
            "scheme": "observed",
            "failed": one,
            "leaders_lost": int(leaders[i]),
            "takeover_brokers": min(brokers - 1, 40),
            "worst_survivor": ids[(i + 1) % brokers],
            "leaders_after_max": int(leaders.max()) + 3,
            "leaders_after_mean": float(leaders.sum() / max(brokers - 1, 1)),
            "worst_survivor_ratio": float(1 + draw.random() / 2),
            "offline_partitions": 0,
            "newly_offline_partitions": int(draw.integers(0, 3)),
            "newly_under_min_isr_partitions": 1,
            "under_min_isr_partitions": 1,
            "single_isr_partitions": 2,
            "unclean_elections": 0,
            "hot_survivor": None,
            "leaves_majority": True,
            "scenario": f"broker:{one}",
        }
        for i, one in enumerate(ids)
    ]
    rows_of_brokers = [
        {
            "broker_id": one,
            "rack": f"r{i % 3}",
            "leaders": int(leaders[i]),
            "preferred_leaders": int(leaders[i]),
            "replicas": 3 * int(leaders[i]),
            "size_bytes": int(leaders[i]) * 10**9,
            "bytes_in_per_s": None,
            "bytes_out_per_s": None,
        }
        for i, one in enumerate(ids)
    ]
    one, other = np.triu_indices(brokers, 1)
    pairs = pa.table(
        {
            "one": one.astype(np.int32) + 1,
            "other": other.astype(np.int32) + 1,
            "worst_survivor_ratio": 1 + draw.random(len(one)),
            "newly_offline_partitions": draw.integers(0, 2, len(one)),
            "newly_under_min_isr_partitions": np.zeros(len(one), np.int64),
        }
    )
    failed, survivor = (side.ravel().astype(np.int32) for side in np.meshgrid(ids, ids, indexing="ij"))
    takeovers = pa.table(
        {
            "scheme": np.repeat(SCHEMES, brokers * brokers),
            "failed": np.tile(failed, len(SCHEMES)),
            "survivor": np.tile(survivor, len(SCHEMES)),
            "takeovers": draw.integers(0, 5, len(SCHEMES) * brokers * brokers),
        }
    )
    known = ("replicas_max_over_mean", "leaders_max_over_mean", "worst_survivor_ratio", "worst_survivor_ratio_of_pairs")
    unknown = (
        *("disk_max_over_mean", "bytes_in_max_over_mean", "bytes_out_max_over_mean"),
        *("worst_survivor_bytes_out_ratio", "worst_survivor_ratio_of_racks"),
    )
    metrics: dict[str, list[float | None]] = {name: [1.5, 1.5] for name in known}
    metrics |= {name: [None, None] for name in unknown}
    plan: dict[str, Any] = {"goal": "rf", "feasible": True, "reasons": [], "gap": 0.0, "moves": 8}
    plan |= {"changed_partitions": 4, "leader_changes": 4, "copied_bytes": 12 * 10**9, "copy_duration_s": 240.0}
    unchanged = ("under_replicated_partitions", "rack_violations", "under_min_isr_partitions")
    unchanged += ("newly_offline_partitions_of_racks", "under_min_isr_partitions_of_racks")
    metrics |= {name: [0.0, 0.0] for name in unchanged}
    metrics |= {"newly_offline_partitions": [4.0, 0.0], "fullest_broker_bytes": [80e9, 84e9]}
    plan |= {"frozen_partitions": 0, "frozen_reasons": [], "missed_targets": [], "unsized_partitions": 0}
    plan |= {"throttle_bytes_per_s": 50e6, "fullest_broker": 3, "metrics": metrics}
    moves = [
        {
            "goal": "rf",
            "topic": topic,
            "partition": 0,
            "replicas_before": [1],
            "replicas_after": [1, 2, 3],
            "copied_bytes": 0,
            "first_wave": 1,
            "reason": "replication factor",
        }
    ]
    single = AffectedPartitions(4, 1, [topic], [4], 4, 1, [topic])
    findings = ClusterFindings(
        issues={PartitionIssue.OFFLINE_IF_BROKER_FAILS: single},
        partitions=now["partitions"],
        counted_partitions=now["partitions"],
    )
    verdict = judge_cluster(ClusterEvidence(now, failures, [], findings))
    return {
        "cluster_id": name,
        "snapshot_id": "s1",
        "as_of": "2026-11-21T00:00:00+00:00",
        "currency": "EUR",
        "verdict": verdict,
        "findings": findings,
        "hotspots": {"observed": now},
        "metrics": {"worst_survivor_ratio": {"observed": 1.4}},
        "brokers": rows_of_brokers,
        "racks_known": True,
        "failures": add_risks(failures),
        "worst_failures": find_worst_failures(failures, []),
        "rack_failures": add_risks([{**failures[0], "failed": f"r{i}"} for i in range(3)]) if failures else [],
        "custom_failures": add_risks([{**failures[0], "failed_brokers": [1, 2]}]) if failures else [],
        "worst": {scheme: [[one, float(1 + draw.random())] for one in ids] for scheme in SCHEMES},
        **describe_broker_pairs(rows_of_brokers, {"takeovers": takeovers, "pairs": pairs}),
        "racks": [
            {
                "scheme": scheme,
                "scenario": f"rack:r{i}",
                "brokers": brokers // 3,
                "leaders_lost": 100,
                "worst_survivor": 1,
                "worst_survivor_ratio": 1.3,
                "newly_offline_partitions": 0,
                "newly_under_min_isr_partitions": 0,
                "under_min_isr_partitions": 0,
            }
            for i in range(3)
            for scheme in SCHEMES
        ],
        "durability": [
            {
                "scheme": scheme,
                "failures": k,
                "copysets": 100 * (i + 1),
                "scatter_width_mean": 4.0,
                "loss_probability": 0.1 * k * (i + 1) / 4,
                "loss_probability_low": None,
                "loss_probability_high": None,
                "method": "exact",
            }
            for i, scheme in enumerate(SCHEMES)
            for k in (1, 2, 3)
        ],
        "network": [],
        "loads": None,
        "capacity_source": None,
        "over_capacity": [],
        "zone_traffic": [],
        "growth": GrowthSummary([], 0, []),
        "since": None,
        "headroom": [
            {
                "scenario_kind": "broker",
                "quantity": "leaders",
                "capacity_source": "uniform",
                "worst_load": 125.0,
                "required_headroom_ratio": 0.25,
                "worst_scenario": "broker:1",
                "worst_broker": 2,
            }
        ],
        "topics": [
            {
                "topic": f"{topic}-{i}" if i else topic,
                "topics": 12,
                "replication_factor": 3,
                "offline_partitions": i % 2,
                "under_min_isr_partitions": 0,
                "under_replicated_partitions": 2,
                "replica_brokers": min(brokers, 40),
                "broker_list": [[one, 9, 20] for one in ids[:40]],
                "brokers_skew_percent": 10.0,
                "brokers_leader_skew_percent": 20.0,
                "partitions": 100 - i,
                "leaders_max": 9 + i,
                "hottest_broker": 1,
                "max_over_mean_ratio": 2.5,
                "brokers_spread_percent": 40.0,
            }
            for i in range(12)
        ],
        "sources": [
            {
                "source": f"{topic}.txt",
                "format": "describe",
                "records": 9,
                "accepted_records": 8,
                "quarantined_records": 0,
                "ignored_records": 1,
            }
        ],
        "topics_at_risk": [topic_at_risk(f"{topic}-{i}", 12) for i in range(12)],
        "origin": {"kafka_placed_percent": 95.0, "none_topics": 2},
        "manual_topics": [{"topic": topic, "partitions_checked": 12}, {"topic": "b", "partitions_checked": 1}],
        **select_plans(verdict, [plan], moves),
        "trend": [
            {
                "snapshot_id": f"s{i}",
                "as_of": f"2026-11-{20 + i}T00:00:00+00:00",
                "metric": metric,
                "value": 1.1 + i / 10,
            }
            for i in range(3)
            for metric in ("leaders_max_over_mean_ratio", "worst_survivor_ratio")
        ],
        "sql": {figure.name: f"SELECT '{topic}' -- {figure.name}" for figure in FIGURES} | {"trend": "SELECT 1"},
    }


def topic_at_risk(topic: str, rows: int, issue: str = "offline_if_broker_fails", **more: Any) -> dict[str, Any]:
    """A row of the figure topics_at_risk: two partitions with replication factor 1. more: other columns."""
    row = {
        "issue": issue,
        "topic": topic,
        "partitions": 2,
        "replicas_min": 1,
        "replicas_max": 1,
        "single_replica_partitions": 2,
        "under_replicated_partitions": 0,
        "size_bytes": 3 * 10**9,
        "sized_partitions": 2,
        "leader_racks": ["r1"],
        "failed_brokers": [],
        "effective_min_isr": 1,
        "rows": rows,
        "issue_topics": rows,
        "issue_partitions": 2 * rows,
        "issue_bytes": 3 * 10**9 * rows,
        "issue_sized_partitions": 2 * rows,
    }
    return row | more


def facts_of_clusters(*clusters: dict[str, Any]) -> ReportData:
    """The facts of a page of these."""
    return ReportData(list(clusters), datetime(2026, 11, 22, 12, 0, tzinfo=UTC))
