"""Questions that people ask, as views: `SELECT * FROM insights.hottest_brokers`. Each looks at the newest snapshots."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipelines.report.verdict import HOT

SCHEMA = "insights"


@dataclass(frozen=True)
class View:
    """A view of schema `insights`. sql: over tables (schema.table) and views before it."""

    name: str
    comment: str
    sql: str

    @property
    def reads(self) -> list[str]:
        """Tables and views that it reads, as `schema.name`."""
        return list(dict.fromkeys(re.findall(r"\b(?:FROM|JOIN)\s+(\w+\.\w+)", self.sql)))


VIEWS: tuple[View, ...] = (
    View(
        "insights.snapshots",
        "Every snapshot of each cluster, in the order in which they were last seen; number counts from 1.",
        # Who is as they were the week before, a broker being back, is newest again: the last time counts.
        """
SELECT cluster_id, snapshot_id, seen_at,
       row_number() OVER (PARTITION BY cluster_id ORDER BY seen_at, finished_at, snapshot_id) AS number,
       row_number() OVER (PARTITION BY cluster_id ORDER BY seen_at DESC, finished_at DESC, snapshot_id DESC) = 1
         AS newest
FROM (
  SELECT cluster_id, snapshot_id, max(as_of) AS seen_at, max(finished_at) AS finished_at
  FROM ops.runs WHERE stage = 'gold.scheme_comparison' GROUP BY cluster_id, snapshot_id
)""",
    ),
    View(
        "insights.hottest_brokers",
        "Brokers by how much they lead, the hottest first; leaders_over_mean 1 = their share.",
        """
SELECT l.cluster_id, l.broker_id, l.rack, l.leaders,
       round(try_divide(l.leaders, avg(l.leaders) OVER (PARTITION BY l.cluster_id)), 3) AS leaders_over_mean,
       l.preferred_leaders, l.replicas, l.bytes_out_per_s,
       rank() OVER (PARTITION BY l.cluster_id ORDER BY l.leaders DESC) AS place
FROM gold.broker_load l JOIN insights.snapshots s ON l.cluster_id = s.cluster_id AND l.snapshot_id = s.snapshot_id
WHERE s.newest AND l.scheme = 'observed'""",
    ),
    View(
        "insights.broker_failure_risk",
        "What the failure of each broker would do now: yes, or why not.",
        f"""
SELECT f.cluster_id, f.failed_brokers[0] AS broker_id,
       CASE WHEN f.newly_offline_partitions > 0 THEN 'no: partitions would be offline'
            WHEN f.unclean_elections > 0 THEN 'hardly: messages may be lost, by unclean elections'
            WHEN f.under_min_isr_partitions > f.under_min_isr_before_partitions
              THEN 'hardly: more partitions would reject acks=all'
            WHEN f.worst_survivor_ratio > {HOT} THEN 'yes, but a survivor would be hot'
            ELSE 'yes' END AS answer,
       f.newly_offline_partitions, f.unclean_elections, f.under_min_isr_before_partitions,
       f.under_min_isr_partitions, f.single_isr_partitions, f.leaders_lost,
       f.worst_survivor, round(f.worst_survivor_ratio, 3) AS worst_survivor_ratio
FROM gold.failure_summary f JOIN insights.snapshots s ON f.cluster_id = s.cluster_id AND f.snapshot_id = s.snapshot_id
WHERE s.newest AND f.scheme = 'observed' AND f.scenario_kind = 'broker'""",
    ),
    View(
        "insights.single_leader_topics",
        "Topics of several led partitions, all of them led by one broker.",
        """
SELECT h.cluster_id, h.topic, h.partitions, h.leaders, h.hottest_broker AS broker_id, h.spread_percent
FROM gold.leader_hotspots h JOIN insights.snapshots s ON h.cluster_id = s.cluster_id AND h.snapshot_id = s.snapshot_id
WHERE s.newest AND h.scheme = 'observed' AND h.topic IS NOT NULL AND h.leaders > 1 AND h.leaders_max = h.leaders""",
    ),
    View(
        "insights.single_failure_offline_partitions",
        "Led partitions that the failure of one broker takes offline: of this one.",
        """
SELECT p.cluster_id, p.topic, p.partition, p.leader AS broker_id, p.replicas, p.isr, p.size_bytes
FROM silver.partitions p JOIN insights.snapshots s ON p.cluster_id = s.cluster_id AND p.snapshot_id = s.snapshot_id
JOIN silver.topics t ON p.cluster_id = t.cluster_id AND p.snapshot_id = t.snapshot_id AND p.topic = t.topic
JOIN (
  SELECT cluster_id, snapshot_id, collect_list(broker_id) AS live
  FROM silver.brokers WHERE live GROUP BY cluster_id, snapshot_id
) b ON p.cluster_id = b.cluster_id AND p.snapshot_id = b.snapshot_id
WHERE s.newest AND p.leader >= 0
  AND size(array_except(array_intersect(concat(p.isr, coalesce(p.elr, array())), b.live), array(p.leader))) = 0
  AND NOT (coalesce(t.unclean_leader_election, false)
           AND size(array_except(array_intersect(p.replicas, b.live), array(p.leader))) > 0)""",
    ),
    View(
        "insights.changed",
        "What is different from the snapshot before: partitions that came, went, moved, or are led by another.",
        """
SELECT cluster_id, topic, partition,
       CASE WHEN o IS NULL THEN 'new' WHEN n IS NULL THEN 'gone'
            WHEN NOT (n.replicas <=> o.replicas) THEN 'other replicas'
            WHEN NOT (n.leader <=> o.leader) THEN 'other leader' ELSE 'other ISR' END AS what,
       o.leader AS leader_before, n.leader AS leader_now, o.replicas AS replicas_before, n.replicas AS replicas_now,
       o.isr AS isr_before, n.isr AS isr_now
FROM (
  SELECT p.cluster_id, p.topic, p.partition,
         any_value(struct(p.leader, p.replicas, p.isr)) FILTER (WHERE s.newest) AS n,
         any_value(struct(p.leader, p.replicas, p.isr)) FILTER (WHERE NOT s.newest) AS o
  FROM silver.partitions p
  JOIN (
    SELECT cluster_id, snapshot_id, newest,
           lead(newest) OVER (PARTITION BY cluster_id ORDER BY number) AS next_is_newest,
           count(*) OVER (PARTITION BY cluster_id) AS snapshots
    FROM insights.snapshots
  ) s ON p.cluster_id = s.cluster_id AND p.snapshot_id = s.snapshot_id
  WHERE s.snapshots > 1 AND (s.newest OR s.next_is_newest)
  GROUP BY p.cluster_id, p.topic, p.partition
)
WHERE n IS NULL OR o IS NULL OR NOT (n.replicas <=> o.replicas) OR NOT (n.leader <=> o.leader)
   OR NOT (array_sort(n.isr) <=> array_sort(o.isr))""",
    ),
    View(
        "insights.worst_pair",
        "Of each cluster the two brokers whose failures together would be worst.",
        """
SELECT cluster_id, one, other, newly_offline_partitions, under_min_isr_partitions, worst_survivor,
       worst_survivor_ratio
FROM (
  SELECT f.cluster_id, f.failed_brokers[0] AS one, f.failed_brokers[1] AS other, f.newly_offline_partitions,
         f.under_min_isr_partitions, f.worst_survivor, round(f.worst_survivor_ratio, 3) AS worst_survivor_ratio,
         row_number() OVER (PARTITION BY f.cluster_id ORDER BY f.newly_offline_partitions DESC,
           f.unclean_elections DESC, f.under_min_isr_partitions DESC, f.worst_survivor_ratio DESC, f.scenario)
           AS place
  FROM gold.failure_summary f JOIN insights.snapshots s ON f.cluster_id = s.cluster_id AND f.snapshot_id = s.snapshot_id
  WHERE s.newest AND f.scheme = 'observed' AND f.scenario_kind = 'pair'
) WHERE place = 1""",
    ),
    View(
        "insights.manually_placed_topics",
        "Topics that no scheme of Kafka's explains any more: placed by hand, or changed since; and where they break. "
        "Where racks_known is false, those that Kafka placed across racks are among them.",
        """
SELECT o.cluster_id, o.topic, o.first_mismatch_partition, o.partitions_checked, o.evidence, o.note, b.racks_known
FROM gold.topic_origin o JOIN insights.snapshots s ON o.cluster_id = s.cluster_id AND o.snapshot_id = s.snapshot_id
JOIN (
  SELECT cluster_id, snapshot_id, bool_or(rack IS NOT NULL) AS racks_known
  FROM silver.brokers GROUP BY cluster_id, snapshot_id
) b ON o.cluster_id = b.cluster_id AND o.snapshot_id = b.snapshot_id
WHERE s.newest AND o.origin = 'none'""",
    ),
    View(
        "insights.metric_history",
        "Every metric of the clusters as they were, snapshot by snapshot, beside the snapshot before.",
        """
SELECT c.cluster_id, c.metric, s.seen_at, s.number, c.value,
       c.value - lag(c.value) OVER (PARTITION BY c.cluster_id, c.metric ORDER BY s.number) AS change
FROM gold.scheme_comparison c JOIN insights.snapshots s ON c.cluster_id = s.cluster_id AND c.snapshot_id = s.snapshot_id
WHERE c.scheme = 'observed'""",
    ),
)
BY_NAME = {view.name: view for view in VIEWS}


def needed(names: list[str]) -> tuple[list[str], list[View]]:
    """(tables, views in their order) that these tables and views need, all that they read included."""
    wanted, views = list(dict.fromkeys(names)), set()
    for name in wanted:  # it grows
        if name in BY_NAME:
            views.add(name)
            wanted += [one for one in BY_NAME[name].reads if one not in wanted]
    return [name for name in wanted if name not in BY_NAME], [view for view in VIEWS if view.name in views]
