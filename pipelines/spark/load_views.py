"""The queries of views about bytes: between zones, over time, and on disks."""


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
       CASE WHEN d.fits IS NULL THEN 'Unknown: no source shows the disks, or the sizes, of all brokers'
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
