"""What the page shows, as SQL over the tables: the page names each figure's query, so that anybody can ask it again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.store import of_snapshots


@dataclass(frozen=True)
class Figure:
    """One query, for any number of snapshots. sql: `{of}` stands for the condition on cluster_id and snapshot_id."""

    name: str
    title: str
    sql: str

    def of(self, snapshots: Iterable[SnapshotKey]) -> str:
        """The query of these snapshots."""
        return self.sql.strip().format(of=of_snapshots(list(snapshots)))

    @property
    def tables(self) -> list[str]:
        """The tables that it reads."""
        return list(dict.fromkeys(re.findall(r"\b(?:FROM|JOIN)\s+(\w+\.\w+)", self.sql)))


FIGURES = (
    Figure(
        "sources",
        "What the sources told, and what of it was rejected",
        """
SELECT cluster_id, source, format, records, kept, quarantined, ignored
FROM silver.source_summary WHERE {of} ORDER BY cluster_id, source""",
    ),
    Figure(
        "hotspots",
        "Leaders, cluster by cluster and scheme by scheme",
        """
SELECT cluster_id, scheme, brokers, partitions, leaders, leaders_max, leaders_mean, hottest_broker, hot_brokers,
       max_over_mean_ratio, preferred_leader_percent, under_replicated_percent
FROM gold.leader_hotspots WHERE {of} AND topic IS NULL""",
    ),
    Figure(
        "schemes",
        "The cluster as it is beside Kafka's schemes",
        """
SELECT cluster_id, scheme, metric, value, naive_value, ratio_to_naive, seeds, value_p05, value_p95
FROM gold.scheme_comparison WHERE {of}""",
    ),
    Figure(
        "brokers",
        "Leaders and replicas of each broker",
        """
SELECT cluster_id, broker_id, rack, leaders, preferred_leaders, replicas, size_bytes, bytes_in_per_s, bytes_out_per_s
FROM gold.broker_load WHERE {of} AND scheme = 'observed' ORDER BY broker_id""",
    ),
    Figure(
        "takeovers",
        "Who takes over from whom",
        """
SELECT cluster_id, scheme, failed_brokers[0] AS failed, broker_id AS survivor, takeovers
FROM gold.failure_load WHERE {of} AND scenario_kind = 'broker' AND takeovers > 0""",
    ),
    Figure(
        "failures",
        "The failure of each broker",
        """
SELECT cluster_id, scheme, failed_brokers[0] AS failed, leaders_lost, takeover_brokers, worst_survivor,
       leaders_after_max, leaders_after_mean, worst_survivor_ratio, offline_partitions, newly_offline_partitions,
       under_min_isr_before_partitions, under_min_isr_partitions, single_isr_partitions, unclean_elections
FROM gold.failure_summary WHERE {of} AND scenario_kind = 'broker' ORDER BY failed""",
    ),
    Figure(
        "pairs",
        "The failures of any two brokers",
        """
SELECT cluster_id, failed_brokers[0] AS one, failed_brokers[1] AS other, worst_survivor_ratio,
       newly_offline_partitions, under_min_isr_partitions
FROM gold.failure_summary WHERE {of} AND scenario_kind = 'pair' AND scheme = 'observed'""",
    ),
    Figure(
        "racks",
        "The failure of each rack",
        """
SELECT cluster_id, scheme, scenario, size(failed_brokers) AS brokers, leaders_lost, worst_survivor,
       worst_survivor_ratio, newly_offline_partitions, under_min_isr_partitions
FROM gold.failure_summary WHERE {of} AND scenario_kind = 'rack' ORDER BY scenario""",
    ),
    Figure(
        "durability",
        "Replica sets, and the chance that failures at once lose a partition",
        """
SELECT cluster_id, scheme, failures, copysets, scatter_width_mean, loss_probability, loss_probability_low,
       loss_probability_high, method
FROM gold.durability WHERE {of} AND failure_unit = 'broker'""",
    ),
    Figure(
        "headroom",
        "The headroom that every single failure takes",
        """
SELECT cluster_id, scenario_kind, resource, required_headroom_ratio, worst_scenario, worst_broker
FROM gold.headroom WHERE {of} AND scheme = 'observed'""",
    ),
    Figure(
        "topics",
        "Topics whose leaders sit on the fewest brokers",
        """
SELECT cluster_id, topic, partitions, leaders_max, hottest_broker, max_over_mean_ratio, spread_percent
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY cluster_id ORDER BY leaders_max - leaders_mean DESC, leaders_max DESC, topic) AS place
  FROM gold.leader_hotspots WHERE {of} AND scheme = 'observed' AND topic IS NOT NULL AND partitions > 1
) WHERE place <= 20 ORDER BY cluster_id, place""",
    ),
    Figure(
        "origin",
        "What placed the topics",
        """
SELECT cluster_id, topics, inconclusive_topics, kafka_topics, kafka_rack_aware_topics, kraft_topics, naive_topics,
       none_topics, unknown_topics, kafka_placed_percent
FROM gold.cluster_origin WHERE {of}""",
    ),
    Figure(
        "plan",
        "What the plan changes",
        """
SELECT * FROM gold.plans WHERE {of}""",
    ),
    Figure(
        "moves",
        "Partitions that the plan changes",
        """
SELECT cluster_id, goal, topic, partition, replicas_before, replicas_after, copied_bytes, first_wave, reason
FROM (
  SELECT *, row_number() OVER (PARTITION BY cluster_id, goal ORDER BY first_wave, topic, partition) AS place
  FROM gold.plan_moves WHERE {of}
) WHERE place <= 50 ORDER BY cluster_id, goal, place""",
    ),
)

# Of all runs that the tables hold of a cluster, the condition left open: {clusters} names these.
TREND = Figure(
    "trend",
    "How it went over time",
    """
SELECT s.cluster_id, s.snapshot_id, r.as_of, s.metric, s.value
FROM gold.scheme_comparison s
JOIN ops.runs r ON s.cluster_id = r.cluster_id AND s.snapshot_id = r.snapshot_id AND r.stage = 'gold.scheme_comparison'
WHERE s.scheme = 'observed' AND s.cluster_id IN ({clusters})
  AND s.metric IN ('leaders_max_over_mean_ratio', 'worst_survivor_ratio', 'most_newly_offline_partitions')
ORDER BY s.cluster_id, r.as_of, r.finished_at""",
)
