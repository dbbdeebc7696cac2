"""The figures about bytes per second, the network and growth; see figure_queries.py."""

# Queries of small tables and of aggregates. Where nothing is known of a cluster, it has no row.
LOAD_QUERIES = """
-- loads: Loads: where they are from
SELECT cluster_id, partitions, load_sources, header
FROM (
  SELECT cluster_id, snapshot_id, sum(n) AS partitions,
         array_sort(collect_list(CASE WHEN load_source IS NOT NULL THEN struct(-n AS order, load_source, n) END))
           AS load_sources
  FROM (
    SELECT cluster_id, snapshot_id, load_source, count(*) AS n
    FROM silver.partitions WHERE {condition} GROUP BY cluster_id, snapshot_id, load_source
  )
  GROUP BY cluster_id, snapshot_id
)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, min(raw) AS header
  FROM bronze.raw_metadata WHERE {condition} AND format = 'topic-loads' AND record_number = 0
  GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
WHERE size(load_sources) > 0

-- network: Bytes in and out per broker
SELECT cluster_id, broker_id, producer_bytes_in_per_s, replication_bytes_in_per_s, replication_bytes_out_per_s,
       consumer_bytes_out_per_s, network_bytes_in_per_s, network_bytes_out_per_s
FROM gold.network_load
WHERE {condition} AND scheme = 'observed' AND scenario = 'none'
  AND (network_bytes_in_per_s IS NOT NULL OR network_bytes_out_per_s IS NOT NULL)
ORDER BY broker_id

-- survivor_bytes: The worst survivor by bytes out
SELECT cluster_id, scenario, max_by(broker_id, network_bytes_out_per_s) AS broker_id,
       max(network_bytes_out_per_s) AS bytes_out_per_s,
       try_divide(max(network_bytes_out_per_s), avg(network_bytes_out_per_s)) AS over_mean_ratio
FROM gold.network_load
WHERE {condition} AND scheme = 'observed' AND scenario <> 'none' AND network_bytes_out_per_s IS NOT NULL
GROUP BY cluster_id, scenario

-- over_capacity: Survivors over their capacity for bytes
SELECT cluster_id, quantity, broker_id, failures, scenario, load_after, capacity
FROM (
  SELECT *, row_number() OVER (PARTITION BY cluster_id ORDER BY load_over_capacity_ratio DESC, quantity, broker_id)
    AS place
  FROM (
    SELECT cluster_id, quantity, broker_id, count(*) AS failures, max_by(scenario, excess_load) AS scenario,
           max_by(load_after, excess_load) AS load_after, max_by(capacity, excess_load) AS capacity,
           max(coalesce(load_over_capacity_ratio, double('infinity'))) AS load_over_capacity_ratio
    FROM gold.over_capacity
    WHERE {condition} AND scheme = 'observed' AND scenario_kind IN ('broker', 'rack', 'custom')
      AND quantity <> 'leaders'
    GROUP BY cluster_id, quantity, broker_id
  )
) WHERE place <= 20 ORDER BY cluster_id, place

-- zone_traffic: Bytes between zones, and what they cost
SELECT cluster_id, scheme, scenario, traffic_kind,
       CASE WHEN bool_and(crosses_zones IS NOT NULL AND bytes_per_s IS NOT NULL)
            THEN sum(CASE WHEN crosses_zones THEN bytes_per_s ELSE 0 END) END AS bytes_per_s,
       CASE WHEN count(*) = count(cost_per_month) THEN sum(cost_per_month) END AS cost_per_month
FROM gold.zone_traffic WHERE {condition} AND (scheme = 'observed' OR scenario = 'none')
GROUP BY cluster_id, scheme, scenario, traffic_kind

-- growth: Growth: when limits are reached
SELECT cluster_id, limit_name, broker_id, log_dir, quantity, limit_value, level, slope_per_day, days, days_low,
       days_high, last_at, reason, rows
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY cluster_id, limit_name, quantity, reason ORDER BY days, broker_id, log_dir) AS place,
         count(*) OVER (PARTITION BY cluster_id, limit_name, quantity, reason) AS rows
  FROM gold.growth_forecasts WHERE {condition}
) WHERE place <= CASE WHEN reason IS NULL THEN 5 ELSE 1 END ORDER BY cluster_id, days NULLS LAST, limit_name, place
"""
