"""The columns of the views and their meaning, which a test compares with Spark's, and the views about bytes."""

from collections.abc import Iterator

import pyarrow as pa

from pipelines.tables import TABLES
from pipelines.verdict.cluster_evidence import PartitionIssue
from udfs.arrow.columns import DOUBLE, FLAG, INT, LONG, TEXT, TIME, column, get_comment


def _copy(table: str, *names: str) -> Iterator[pa.Field]:
    """Copy columns of a table that a view shows unchanged."""
    fields = {field.name: field for field in TABLES[table].columns}
    return (fields[name] for name in names)


def _compare(table: str, *names: str) -> Iterator[pa.Field]:
    """Copy columns of a table twice: as they were before and as they are now."""
    for field in _copy(table, *names):
        for suffix, time in (("before", "in the earlier snapshot"), ("now", "in the later snapshot")):
            yield column(f"{field.name}_{suffix}", field.type, f"{time}: {get_comment(field)}")


_CLUSTER = tuple(_copy("gold.plans", "cluster_id"))
_PARTITION = tuple(_copy("silver.partitions", "cluster_id", "topic", "partition"))
_STATE = tuple(_copy("silver.partitions", "replicas", "isr", "size_bytes"))
_FAILURE = (
    column("level", TEXT, "level of the answer, as in verdicts: at_risk (No), warning (Risky, or a hot survivor), ok"),
    column("answer", TEXT, "Yes, or the reason why not"),
    *_copy(
        "gold.failure_summary",
        *("newly_offline_partitions", "unclean_elections", "newly_under_min_isr_partitions"),
        *("under_min_isr_partitions", "single_isr_partitions", "leaders_lost", "takeover_brokers"),
        *("worst_survivor", "worst_survivor_ratio"),
    ),
)
_NUMBER = column("number", INT, "number of the snapshot, from 1 for each cluster, in the order in which they were seen")
_FIRST_SEEN_AT = column("first_seen_at", TIME, "when the cluster was first seen in this state, after another one (UTC)")
_SEEN_AT = column("seen_at", TIME, "when the cluster was last seen in this state, before another one (UTC)")
_HISTORY = (*_CLUSTER, _NUMBER, _FIRST_SEEN_AT, _SEEN_AT)
_OVER_MEAN = column("leaders_over_mean", DOUBLE, "leaders over the mean of the live brokers; 1 = the mean")

_BETWEEN = "in another zone; null = racks or rates are unknown"

VIEW_COLUMNS: dict[str, tuple[pa.Field, ...]] = {
    "snapshots": (
        *_copy("gold.plans", "cluster_id", "snapshot_id"),
        *(_FIRST_SEEN_AT, _SEEN_AT, _NUMBER),
        column("newest", FLAG, "it is the newest snapshot of its cluster"),
    ),
    "hottest_brokers": (
        *_copy("gold.current_loads", "cluster_id", "broker_id", "rack", "leaders"),
        _OVER_MEAN,
        *_copy("gold.current_loads", "preferred_leaders", "replicas", "bytes_out_per_s"),
        column("place", INT, "place by leaders within the cluster: 1 = the hottest; equal brokers share a place"),
    ),
    "broker_failure_risk": (*_CLUSTER, column("broker_id", INT, "broker that fails"), *_FAILURE),
    "custom_failure_risk": (*_CLUSTER, *_copy("gold.failure_summary", "failed_brokers"), *_FAILURE),
    "rack_failure_risk": (*_CLUSTER, column("rack", TEXT, "rack whose brokers all fail"), *_FAILURE),
    "disk_failure_risk": (
        *_CLUSTER,
        *_copy("gold.disk_after_failure", "scenario_kind", "scenario"),
        column("answer", TEXT, "Yes, or what is lacking, or why it is unknown"),
        *_copy("gold.disk_after_failure", "bytes_to_copy", "free_bytes", "fullest_broker", "fullest_disk_ratio"),
        *_copy("gold.disk_after_failure", "replicas", "leaders", "only_in_sync_partitions"),
    ),
    "quorum": (
        *_CLUSTER,
        *_copy("gold.quorum", "node_id", "voter", "leader", "broker", "rack"),
        column("answer", TEXT, "whether it can fail: Yes, or the reason why not"),
        *_copy("gold.quorum", "caught_up", "lag", "lag_ms"),
    ),
    "partition_issues": (
        *_PARTITION,
        column(
            "issue",
            TEXT,
            "offline, under_min_isr, under_replicated, offline_if_broker_fails, offline_if_rack_fails or "
            "under_min_isr_if_broker_fails; one row each",
        ),
        *_copy("silver.partitions", "leader"),
        *_STATE,
    ),
    "single_leader_topics": (
        *_CLUSTER,
        *_copy("silver.topics", "topic"),
        *_copy("gold.leader_hotspots", "partitions", "leaders"),
        column("broker_id", INT, "broker that leads all online partitions of the topic"),
        *_copy("gold.leader_hotspots", "brokers_spread_percent"),
    ),
    "single_failure_offline_partitions": (
        *_PARTITION,
        column("broker_id", INT, "the leader, whose failure takes the partition offline"),
        *_STATE,
    ),
    "single_failure_under_min_isr_partitions": (
        *_PARTITION,
        column("broker_id", INT, "in-sync replica whose failure takes the partition below effective_min_isr"),
        column("live_isr_count", INT, "live in-sync replicas now"),
        column("live_isr_count_after", INT, "live in-sync replicas after the failure"),
        *_copy("silver.partitions", "effective_min_isr", "leader"),
        *_STATE,
    ),
    "snapshot_changes": (
        *_PARTITION,
        column("change", TEXT, "created, removed or changed; the next four columns are false unless it is changed"),
        column("leader_changed", FLAG, "another broker leads it, or it went offline or online"),
        column("replicas_changed", FLAG, "its replicas, or their order, changed"),
        column("isr_shrunk", FLAG, "a replica that was in sync is out of sync now"),
        column("isr_expanded", FLAG, "a replica that was out of sync is in sync now"),
        *_compare("silver.partitions", "leader", "replicas", "isr"),
    ),
    "broker_changes": (
        *_copy("silver.brokers", "cluster_id", "broker_id"),
        column(
            "change",
            TEXT,
            "added, removed, failed, returned, state unknown, rack changed or host changed: the first that applies",
        ),
        *_compare("silver.brokers", "live", "rack", "host", "leaders"),
    ),
    "topic_changes": (
        *_CLUSTER,
        _NUMBER,
        _FIRST_SEEN_AT,
        *_copy("silver.topics", "topic"),
        column(
            "change",
            TEXT,
            "created, deleted, recreated (another topic id), partitions changed, replication factor changed, or "
            "partitions and replication factor changed",
        ),
        *_compare("silver.topics", "partitions", "replication_factor"),
    ),
    "finding_changes": (
        *_CLUSTER,
        _NUMBER,
        _FIRST_SEEN_AT,
        *_copy("gold.findings", "kind"),
        column("level", TEXT, "how serious it is, or was before it was gone: at_risk, warning, unknown or ok"),
        column("change", TEXT, "new, gone, more or fewer"),
        column("affected_before", LONG, "partitions, brokers, topics or records that it counted; null = it is new"),
        column("affected_now", LONG, "those that it counts; null = it is gone"),
        column("text", TEXT, "the finding in words, as it was before if it is gone"),
    ),
    "topic_health_history": (
        *_HISTORY,
        *_copy("silver.topics", "topic"),
        column("partitions", LONG, "partitions that the sources show"),
        *(
            column(f"{issue}_partitions", LONG, f"of these, partitions with the issue {issue} of partition_issues")
            for issue in PartitionIssue
        ),
    ),
    "forecast_accuracy": (
        *_copy("gold.forecast_outcomes", "cluster_id", "forecast_kind", "subject_kind", "quantity"),
        column("forecasts", LONG, "partitions, values of series, or waves that were forecast"),
        column("as_forecast", LONG, "of these, those that came true, as gold.forecast_outcomes defines it"),
        column("as_forecast_ratio", DOUBLE, "as_forecast over forecasts"),
        column("first_forecast_at", TIME, "time of the first forecast (UTC)"),
        column("last_outcome_at", TIME, "time of the last outcome (UTC)"),
        column("lowest_ratio", DOUBLE, "lowest actual over forecast value; null = forecasts of this kind have none"),
        column("median_ratio", DOUBLE, "median of these"),
        column("highest_ratio", DOUBLE, "highest of these"),
    ),
    "hottest_broker_history": (
        *_HISTORY,
        column("broker_id", INT, "live broker with the most leaders; the lowest id among equals"),
        column("leaders", LONG, "partitions it leads"),
        column("leaders_mean", DOUBLE, "leaders per live broker"),
        _OVER_MEAN,
    ),
    "worst_pair": (
        *_CLUSTER,
        column("broker_id", INT, "one of the two brokers"),
        column("other_broker_id", INT, "the other one"),
        *_copy(
            "gold.failure_summary",
            *("newly_offline_partitions", "under_min_isr_partitions", "worst_survivor", "worst_survivor_ratio"),
        ),
    ),
    "cross_zone_traffic": (
        *_CLUSTER,
        column("state", TEXT, "now, scheme (under a scheme), worst failure (from now), or plan (after it)"),
        column("name", TEXT, "the scheme, the failure (as broker:2) or the goal of the plan; null = now"),
        column("replication_bytes_per_s", DOUBLE, f"bytes per second from leaders to followers {_BETWEEN}"),
        column("producers_bytes_per_s", DOUBLE, f"bytes per second from producers {_BETWEEN}"),
        column("consumers_bytes_per_s", DOUBLE, f"bytes per second to consumers {_BETWEEN}"),
        column("cross_zone_bytes_per_s", DOUBLE, "their sum; null = one of them is unknown"),
        column("cost_per_month", DOUBLE, "their cost, in prices.currency; null = bytes or [prices] are unknown"),
    ),
    "growth": (
        *_copy("gold.growth_forecasts", "cluster_id", "limit_name", "broker_id", "log_dir", "quantity"),
        column("answer", TEXT, "when the limit is reached, with its 95 % interval; or why that is unknown"),
        *_copy("gold.growth_forecasts", "days", "days_low", "days_high", "level", "slope_per_day"),
        *_copy("gold.growth_forecasts", "limit_value", "limit_source", "last_at"),
    ),
    "manually_placed_topics": (
        *_copy(
            "gold.topic_origin",
            *("cluster_id", "topic", "first_mismatch_partition", "partitions_checked", "evidence", "note"),
        ),
        column("racks_known", FLAG, "the sources show a rack; else topics placed across racks are listed too"),
    ),
    "metric_history": (
        *_CLUSTER,
        column(
            "metric",
            TEXT,
            "as in gold.scheme_comparison; or live_brokers (with those of unknown state), under_replicated_partitions, "
            "under_min_isr_partitions (without topics that are ignored or marked for deletion)",
        ),
        *(_FIRST_SEEN_AT, _SEEN_AT, _NUMBER),
        column("value", DOUBLE, "value for the observed placement; null = unknown"),
        column("change", DOUBLE, "value less that in the snapshot before; null = unknown, or the first snapshot"),
    ),
}


def _cross_zone(kind: str) -> str:
    """Sum what crosses zones of a kind of traffic; null where a zone or a rate is unknown."""
    rows = f"count_if(z.traffic_kind = '{kind}' AND z.crosses_zones IS NULL) = 0"
    crosses = f"z.traffic_kind = '{kind}' AND z.crosses_zones"
    return f"CASE WHEN {rows} THEN coalesce(sum(CASE WHEN {crosses} THEN z.bytes_per_s END), 0) END"


def _after_plan(name: str) -> str:
    return f"any_value(p.after) FILTER (WHERE p.metric = 'cross_zone_{name}')"


_CROSS_ZONE_TRAFFIC = f"""
-- insights.cross_zone_traffic: Bytes per second between zones (racks), and their cost per month: now, under each
-- scheme, after the failure with most of them, and after each plan. See docs/network.md.
SELECT t.cluster_id,
       CASE WHEN t.scenario <> 'none' THEN 'worst failure' WHEN t.scheme = 'observed' THEN 'now' ELSE 'scheme' END
         AS state,
       CASE WHEN t.scenario <> 'none' THEN t.scenario WHEN t.scheme <> 'observed' THEN t.scheme END AS name,
       round(t.replication_bytes_per_s, 3) AS replication_bytes_per_s,
       round(t.producers_bytes_per_s, 3) AS producers_bytes_per_s,
       round(t.consumers_bytes_per_s, 3) AS consumers_bytes_per_s,
       round(t.cross_zone_bytes_per_s, 3) AS cross_zone_bytes_per_s, round(t.cost_per_month, 2) AS cost_per_month
FROM (
  SELECT *, row_number() OVER (PARTITION BY cluster_id, scheme, scenario = 'none'
    ORDER BY cross_zone_bytes_per_s DESC NULLS LAST, scenario) AS place
  FROM (
    SELECT cluster_id, scheme, scenario, replication_bytes_per_s, producers_bytes_per_s, consumers_bytes_per_s,
           replication_bytes_per_s + producers_bytes_per_s + consumers_bytes_per_s AS cross_zone_bytes_per_s,
           cost_per_month
    FROM (
      SELECT z.cluster_id, z.scheme, z.scenario,
             {_cross_zone("replication")} AS replication_bytes_per_s,
             {_cross_zone("producers")} AS producers_bytes_per_s,
             {_cross_zone("consumers")} AS consumers_bytes_per_s,
             CASE WHEN count_if(z.cost_per_month IS NULL) = 0 THEN sum(z.cost_per_month) END AS cost_per_month
      FROM gold.zone_traffic z
      JOIN insights.snapshots s ON z.cluster_id = s.cluster_id AND z.snapshot_id = s.snapshot_id
      WHERE s.newest AND (z.scenario = 'none' OR z.scheme = 'observed')
      GROUP BY z.cluster_id, z.scheme, z.scenario
    )
  )
) t WHERE t.scenario = 'none' OR t.place = 1
UNION ALL
SELECT cluster_id, 'plan' AS state, goal AS name, replication, producers, consumers,
       replication + producers + consumers, cost_per_month
FROM (
  SELECT p.cluster_id, p.goal,
         {_after_plan("replication_bytes_per_s")} AS replication, {_after_plan("producers_bytes_per_s")} AS producers,
         {_after_plan("consumers_bytes_per_s")} AS consumers, {_after_plan("cost_per_month")} AS cost_per_month
  FROM gold.plan_metrics p
  JOIN insights.snapshots s ON p.cluster_id = s.cluster_id AND p.snapshot_id = s.snapshot_id
  WHERE s.newest GROUP BY p.cluster_id, p.goal
)
"""

_GROWTH = """
-- insights.growth: When growth reaches the limits of clusters, brokers and log dirs, the soonest first: full disks, a
-- worst survivor over its capacity (N+1 is lost), too many partitions.
SELECT f.cluster_id, f.limit_name, f.broker_id, f.log_dir, f.quantity,
       CASE WHEN f.days = 0 THEN 'reached' WHEN f.days IS NULL THEN f.reason WHEN f.days < 1 THEN 'within a day'
            ELSE concat('in ', CAST(round(f.days) AS BIGINT), if(f.days < 1.5, ' day (', ' days ('),
                        CAST(round(f.days_low) AS BIGINT),
                        coalesce(concat(' to ', CAST(round(f.days_high) AS BIGINT)), ' or more'), ')') END AS answer,
       f.days, f.days_low, f.days_high, f.level, f.slope_per_day, f.limit_value, f.limit_source, f.last_at
FROM gold.growth_forecasts f JOIN insights.snapshots s ON f.cluster_id = s.cluster_id AND f.snapshot_id = s.snapshot_id
WHERE s.newest
ORDER BY f.days NULLS LAST, f.cluster_id, f.limit_name, f.broker_id, f.log_dir, f.quantity
"""

_DISKS = """
-- insights.disk_failure_risk: Whether the data of each broker, rack or log dir fits on the disks of the survivors if
-- it fails for good.
SELECT d.cluster_id, d.scenario_kind, d.scenario,
       CASE WHEN d.fits IS NULL THEN 'Unknown: the disks of all survivors, or all sizes of what is lost, are not known'
            WHEN NOT d.fits THEN concat('No: survivors lack ', round((d.bytes_to_copy - d.free_bytes) / 1e9, 3), ' GB')
            WHEN d.fits_in_rack = false THEN 'Only in other racks: the survivors in its rack lack room'
            ELSE 'Yes' END AS answer,
       d.bytes_to_copy, d.free_bytes, d.fullest_broker, round(d.fullest_disk_ratio, 3) AS fullest_disk_ratio,
       d.replicas, d.leaders, d.only_in_sync_partitions
FROM gold.disk_after_failure d JOIN insights.snapshots s
  ON d.cluster_id = s.cluster_id AND d.snapshot_id = s.snapshot_id
WHERE s.newest AND d.scenario_kind <> 'none'
"""

_QUORUM = """
-- insights.quorum: The nodes of the controller quorum of each cluster: which of them lag, and which may fail.
SELECT q.cluster_id, q.node_id, q.voter, q.leader, q.broker, q.rack,
       CASE WHEN NOT q.voter THEN 'Yes: it is an observer' WHEN q.can_fail THEN 'Yes'
            ELSE 'No: no majority of voters is left, so that no partition gets another leader' END AS answer,
       q.caught_up, q.lag, q.lag_ms
FROM gold.quorum q JOIN insights.snapshots s ON q.cluster_id = s.cluster_id AND q.snapshot_id = s.snapshot_id
WHERE s.newest
"""

LOAD_VIEWS = _CROSS_ZONE_TRAFFIC + _GROWTH + _DISKS + _QUORUM
