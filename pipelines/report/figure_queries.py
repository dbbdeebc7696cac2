"""The figures of the report as SQL over the tables; the report shows each query, so that anyone can run it again."""

from collections.abc import Iterable
from functools import reduce
from textwrap import indent

from pipelines.ingest.sources import SnapshotKey
from pipelines.report.broker_groups import MAX_ROWS
from pipelines.spark.views import View, parse_queries
from pipelines.sql_text import match_snapshots, quote_text
from pipelines.verdict.cluster_evidence import COUNTED_SQL, ISSUE_SQL, PartitionIssue

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
       days_high, last_at, reason, due, rows
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY cluster_id, limit_name, quantity, reason, due ORDER BY days, broker_id, log_dir) AS place,
         count(*) OVER (PARTITION BY cluster_id, limit_name, quantity, reason, due) AS rows
  FROM (
    SELECT *, CASE WHEN days <= 30 THEN 'this week' WHEN days <= 730 THEN 'to fund' END AS due
    FROM gold.growth_forecasts WHERE {condition}
  )
) WHERE place <= CASE WHEN reason IS NULL THEN 5 ELSE 1 END ORDER BY cluster_id, days NULLS LAST, limit_name, place
"""


class Figure(View):
    """A query for any number of snapshots; its name is that in the report's data and in docs/figures.md."""

    def query(self, snapshots: Iterable[SnapshotKey]) -> str:
        """Return the query for these snapshots."""
        keys = list(snapshots)
        most = min(_TOPICS_PER_CLUSTER, max(_LEAST_TOPICS, _TOPICS // max(len(keys), 1)))
        clusters = ", ".join(map(quote_text, dict.fromkeys(key.cluster_id for key in keys)))
        return self.sql.format(condition=match_snapshots(keys), most_topics=most, clusters=clusters)


# The worst issue of a partition: the first that applies. Only with several racks does the failure of one matter.
BLOCKED_IF_BROKER_FAILS = "blocked_if_broker_fails"
_WORST_ISSUES = {
    PartitionIssue.OFFLINE: ISSUE_SQL[PartitionIssue.OFFLINE],
    PartitionIssue.UNDER_MIN_ISR: ISSUE_SQL[PartitionIssue.UNDER_MIN_ISR],
    PartitionIssue.OFFLINE_IF_BROKER_FAILS: ISSUE_SQL[PartitionIssue.OFFLINE_IF_BROKER_FAILS],
    PartitionIssue.OFFLINE_IF_RACK_FAILS: f"{ISSUE_SQL[PartitionIssue.OFFLINE_IF_RACK_FAILS]} AND racks > 1",
    BLOCKED_IF_BROKER_FAILS: "size(min_isr_critical_brokers) > 0",
    PartitionIssue.UNDER_REPLICATED: ISSUE_SQL[PartitionIssue.UNDER_REPLICATED],
}
RANKED_ISSUES = tuple(map(str, _WORST_ISSUES))
# Topics of a page: of each cluster those with the most uneven leaders.
_TOPICS, _TOPICS_PER_CLUSTER, _LEAST_TOPICS = 20_000, 1_000, 50
# `{condition}` stands for the condition on cluster_id and snapshot_id.
_QUERIES = """
-- sources: Sources, and rejected records
SELECT cluster_id, source, format, records, accepted_records, quarantined_records, ignored_records
FROM silver.source_summary WHERE {condition} ORDER BY cluster_id, source

-- verdict: The verdict: all findings, the most serious first
SELECT cluster_id, place, level, text, step, kind, plan, affected, topics, subject
FROM gold.findings WHERE {condition} ORDER BY cluster_id, place

-- findings: What is wrong already, and what the sources lack
SELECT * EXCEPT (snapshot_id) FROM gold.cluster_findings WHERE {condition}

-- topics_at_risk: Topics at risk
SELECT cluster_id, issue, topic, partitions, replicas_min, replicas_max, single_replica_partitions,
       under_replicated_partitions, size_bytes, sized_partitions, leader_racks, failed_brokers, effective_min_isr, rows,
       issue_topics, issue_partitions, issue_bytes, issue_sized_partitions
FROM (
  SELECT *, count(*) OVER (PARTITION BY cluster_id) AS rows, row_number() OVER (
    PARTITION BY cluster_id ORDER BY array_position(array({ranked_issues}), issue), partitions DESC, topic) AS place,
         count(*) OVER same_issue AS issue_topics, sum(partitions) OVER same_issue AS issue_partitions,
         sum(size_bytes) OVER same_issue AS issue_bytes, sum(sized_partitions) OVER same_issue AS issue_sized_partitions
  FROM (
    SELECT cluster_id, issue, topic, count(*) AS partitions, min(size(replicas)) AS replicas_min,
           max(size(replicas)) AS replicas_max, count_if(size(replicas) = 1) AS single_replica_partitions,
           count_if(under_replicated) AS under_replicated_partitions, sum(size_bytes) AS size_bytes,
           count(size_bytes) AS sized_partitions, array_sort(collect_set(broker_racks[leader])) AS leader_racks,
           array_sort(array_distinct(flatten(collect_list(array_intersect(replicas, down_brokers))))) AS failed_brokers,
           max(effective_min_isr) AS effective_min_isr
    FROM (
      SELECT *, CASE {worst_issue} END AS issue
      FROM (SELECT * FROM silver.partitions WHERE {condition})
      {counted}
      LEFT JOIN (
        SELECT cluster_id, snapshot_id, count(DISTINCT CASE WHEN live IS NOT FALSE THEN rack END) AS racks,
               map_from_entries(collect_list(struct(broker_id, rack))) AS broker_racks,
               collect_list(CASE WHEN live IS FALSE THEN broker_id END) AS down_brokers
        FROM silver.brokers WHERE {condition} GROUP BY cluster_id, snapshot_id
      ) USING (cluster_id, snapshot_id)
    ) WHERE issue IS NOT NULL GROUP BY cluster_id, issue, topic
  )
  WINDOW same_issue AS (PARTITION BY cluster_id, issue)
) WHERE place <= {most_topics} ORDER BY cluster_id, place

-- hotspots: Leaders by scheme
SELECT cluster_id, scheme, brokers, partitions, leaders, leaders_max, leaders_mean, hottest_broker, hot_brokers,
       max_over_mean_ratio, preferred_leader_percent, under_replicated_percent
FROM gold.leader_hotspots WHERE {condition} AND topic IS NULL

-- schemes: The observed placement and Kafka's schemes
SELECT cluster_id, scheme, metric, value, naive_value, ratio_to_naive, seeds, value_p05, value_p95
FROM gold.scheme_comparison WHERE {condition}

-- brokers: Leaders and replicas per broker
SELECT cluster_id, broker_id, rack, leaders, preferred_leaders, replicas, size_bytes, bytes_in_per_s, bytes_out_per_s
FROM gold.current_loads WHERE {condition} AND scheme = 'observed' ORDER BY broker_id

-- takeovers: Takeovers
SELECT cluster_id, scheme, failed_brokers[0] AS failed, broker_id AS survivor, takeovers
FROM gold.loads_after_failure WHERE {condition} AND scenario_kind = 'broker' AND takeovers > 0

-- failures: Failures of single brokers
SELECT cluster_id, scheme, scenario, failed_brokers[0] AS failed, leaders_lost, takeover_brokers, worst_survivor,
       hot_survivor, leaders_after_max, leaders_after_mean, worst_survivor_ratio, offline_partitions,
       newly_offline_partitions, newly_under_min_isr_partitions, single_isr_partitions, unclean_elections,
       leaves_majority
FROM gold.failure_summary WHERE {condition} AND scenario_kind = 'broker' ORDER BY failed

-- custom_failures: Custom failures
SELECT cluster_id, scenario, failed_brokers, leaders_lost, takeover_brokers, worst_survivor, hot_survivor,
       worst_survivor_ratio, newly_offline_partitions, newly_under_min_isr_partitions, unclean_elections,
       leaves_majority
FROM gold.failure_summary WHERE {condition} AND scenario_kind = 'custom' AND scheme = 'observed'
ORDER BY failed_brokers

-- pairs: Failures of two brokers
SELECT cluster_id, failed_brokers[0] AS one, failed_brokers[1] AS other, worst_survivor_ratio,
       newly_offline_partitions, newly_under_min_isr_partitions
FROM gold.failure_summary WHERE {condition} AND scenario_kind = 'pair' AND scheme = 'observed'

-- racks: Failures of racks
SELECT cluster_id, scheme, scenario, substring(scenario, 6) AS failed, size(failed_brokers) AS brokers, leaders_lost,
       takeover_brokers, worst_survivor, hot_survivor, worst_survivor_ratio, newly_offline_partitions,
       newly_under_min_isr_partitions, single_isr_partitions, unclean_elections, leaves_majority
FROM gold.failure_summary WHERE {condition} AND scenario_kind = 'rack' ORDER BY scenario

-- durability: Copysets, and the probability that failures lose a partition
SELECT cluster_id, scheme, failures, copysets, scatter_width_mean, loss_probability, loss_probability_low,
       loss_probability_high, method
FROM gold.durability WHERE {condition} AND failure_unit = 'broker'

-- headroom: Headroom needed to survive any single failure
SELECT cluster_id, scenario_kind, quantity, capacity_source, required_headroom_ratio, worst_scenario, worst_broker,
       worst_load
FROM gold.headroom WHERE {condition} AND scheme = 'observed' ORDER BY quantity = 'leaders', scenario_kind, quantity

-- topics: Topics: leaders, replicas and issues
SELECT cluster_id, topic, place, topics, partitions, replication_factor, leaders_max, hottest_broker,
       max_over_mean_ratio, brokers_spread_percent, brokers_skew_percent, brokers_leader_skew_percent,
       offline_partitions, under_min_isr_partitions, under_replicated_partitions, replica_brokers, broker_list
FROM (
  SELECT *, count(*) OVER (PARTITION BY cluster_id) AS topics, row_number() OVER (
    PARTITION BY cluster_id ORDER BY leaders_max - leaders_mean DESC, leaders_max DESC, topic) AS place
  FROM gold.leader_hotspots WHERE {condition} AND scheme = 'observed' AND topic IS NOT NULL
)
JOIN (
  SELECT cluster_id, topic, max(size(replicas)) AS replication_factor, count_if(NOT online) AS offline_partitions,
         count_if(under_min_isr) AS under_min_isr_partitions, count_if(under_replicated) AS under_replicated_partitions
  FROM silver.partitions WHERE {condition} GROUP BY cluster_id, topic
) USING (cluster_id, topic)
JOIN (
  SELECT cluster_id, topic, count(*) AS replica_brokers,
         slice(array_sort(collect_list(struct(-leaders AS order, broker_id, leaders, replicas))), 1, {max_brokers})
           AS broker_list
  FROM (
    SELECT cluster_id, topic, broker_id, count_if(leader = broker_id) AS leaders, count(*) AS replicas
    FROM (SELECT cluster_id, topic, leader, explode(replicas) AS broker_id FROM silver.partitions WHERE {condition})
    GROUP BY cluster_id, topic, broker_id
  ) GROUP BY cluster_id, topic
) USING (cluster_id, topic)
WHERE place <= {most_topics} ORDER BY cluster_id, place

-- manual_topics: Manually placed topics
SELECT cluster_id, topic, partitions_checked
FROM (
  SELECT cluster_id, topic, partitions_checked, row_number() OVER (
    PARTITION BY cluster_id ORDER BY leaders_max - leaders_mean DESC NULLS LAST, partitions_checked DESC, topic
  ) AS place
  FROM gold.topic_origin
  LEFT JOIN (
    SELECT cluster_id, snapshot_id, topic, leaders_max, leaders_mean FROM gold.leader_hotspots
    WHERE {condition} AND scheme = 'observed'
  ) USING (cluster_id, snapshot_id, topic)
  WHERE {condition} AND origin = 'none'
) WHERE place <= 100 ORDER BY cluster_id, place

-- origin: Placement origin of the topics
SELECT cluster_id, topics, inconclusive_topics, kafka_topics, kafka_rack_aware_topics, kraft_topics, naive_topics,
       none_topics, unknown_topics, kafka_placed_percent
FROM gold.cluster_origin WHERE {condition}

-- plan: The plans that the verdict recommends
SELECT * FROM gold.plans WHERE {condition}

-- plan_metrics: The plan: before and after
SELECT cluster_id, goal, metric, before, after FROM gold.plan_metrics WHERE {condition}

-- moves: Replica changes of the plan
SELECT cluster_id, goal, topic, partition, replicas_before, replicas_after, copied_bytes, first_wave, reason
FROM (
  SELECT *, row_number() OVER (PARTITION BY cluster_id, goal ORDER BY first_wave, topic, partition) AS place
  FROM gold.plan_moves WHERE {condition}
) WHERE place <= 50 ORDER BY cluster_id, goal, place

-- trend: History
SELECT s.cluster_id, s.snapshot_id, r.as_of, s.metric, s.value,
       get_json_object(r.settings, '$.prices.currency') AS currency
FROM gold.scheme_comparison s
JOIN ops.runs r ON s.cluster_id = r.cluster_id AND s.snapshot_id = r.snapshot_id AND r.stage = 'gold.scheme_comparison'
WHERE s.scheme = 'observed' AND s.cluster_id IN ({clusters})
  AND s.metric IN ('leaders_max_over_mean_ratio', 'worst_survivor_ratio', 'most_newly_offline_partitions')
ORDER BY s.cluster_id, r.as_of, r.finished_at

-- since_totals: Since an earlier snapshot: sizes, rates and costs
SELECT cluster_id, snapshot_id, partitions, replicas,
       CASE WHEN partitions_with_size = partitions THEN size_bytes END AS size_bytes, partitions_with_size,
       CASE WHEN partitions_with_bytes_in = partitions THEN bytes_in_per_s END AS bytes_in_per_s,
       CASE WHEN partitions_with_bytes_out = partitions THEN bytes_out_per_s END AS bytes_out_per_s, cost_per_month
FROM gold.load_history
LEFT JOIN (
  SELECT cluster_id, snapshot_id,
         CASE WHEN count(*) = count(cost_per_month) THEN sum(cost_per_month) END AS cost_per_month
  FROM gold.zone_traffic WHERE {condition} AND scheme = 'observed' AND scenario = 'none'
  GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
WHERE {condition} AND subject_kind = 'cluster'

-- since_members: Brokers and topics of one of two snapshots only
SELECT cluster_id, subject_kind, snapshot_id, broker_id, topic, rows
FROM (
  SELECT *, count(*) OVER (PARTITION BY cluster_id, subject_kind, snapshot_id) AS rows, row_number() OVER (
    PARTITION BY cluster_id, subject_kind, snapshot_id ORDER BY broker_id, partitions DESC, topic) AS place
  FROM (
    SELECT cluster_id, subject_kind, broker_id, topic, max(snapshot_id) AS snapshot_id, max(partitions) AS partitions
    FROM gold.load_history WHERE {condition} AND subject_kind IN ('broker', 'topic')
    GROUP BY cluster_id, subject_kind, broker_id, topic HAVING min(snapshot_id) = max(snapshot_id)
  )
) WHERE place <= 8 ORDER BY cluster_id, place

-- since_plans: Plans that were carried out
SELECT cluster_id, plan_id, execution, direction, min(started_at) AS started_at, count(*) AS waves,
       sum(copied_bytes) AS copied_bytes, sum(CASE WHEN actual_s IS NOT NULL THEN estimated_s END) AS estimated_s,
       sum(actual_s) AS actual_s, count_if(outcome = 'interrupted') AS interrupted
FROM gold.plan_executions WHERE cluster_id IN ({clusters})
GROUP BY cluster_id, plan_id, execution, direction ORDER BY cluster_id, started_at

-- since_forecasts: Forecasts that came true, of all runs and plans
SELECT cluster_id, forecast_kind, sum(forecasts) AS forecasts, sum(as_forecast) AS as_forecast,
       min(actual_value / forecast_value) AS lowest_ratio, max(actual_value / forecast_value) AS highest_ratio
FROM gold.forecast_outcomes WHERE cluster_id IN ({clusters})
GROUP BY cluster_id, forecast_kind ORDER BY cluster_id, forecast_kind
"""
_CONSTANTS = {
    "{ranked_issues}": ", ".join(f"'{issue}'" for issue in RANKED_ISSUES),
    "{worst_issue}": " ".join(f"WHEN {condition} THEN '{issue}'" for issue, condition in _WORST_ISSUES.items()),
    "{counted}": indent(COUNTED_SQL, " " * 6).strip(),
    "{max_brokers}": str(MAX_ROWS),
}
# TREND and OF_ALL_RUNS are of the clusters in {clusters}; other SINCE of the newest and an earlier snapshot of each.
*FIGURES, TREND, _TOTALS, _MEMBERS, _CARRIED_OUT, _FORECASTS = (
    Figure(*parts)
    for parts in parse_queries(LOAD_QUERIES + reduce(lambda q, p: q.replace(*p), _CONSTANTS.items(), _QUERIES))
)
OF_ALL_RUNS = (_CARRIED_OUT, _FORECASTS)
SINCE = (_TOTALS, _MEMBERS, *OF_ALL_RUNS)
VERDICT, TOPICS_AT_RISK = (figure for figure in FIGURES if figure.name in ("verdict", "topics_at_risk"))
