"""The figures of the report as SQL over the tables; the report shows each query, so that anyone can run it again."""

from collections.abc import Iterable
from functools import reduce
from textwrap import indent

from pipelines.ingest.merge.live_brokers import UNFIT_HOST_REGEX
from pipelines.ingest.sources import ANSWER_REGEX, SnapshotKey
from pipelines.report.broker_groups import MAX_ROWS
from pipelines.report.load_queries import LOAD_QUERIES
from pipelines.spark.sql_text import match_snapshots
from pipelines.spark.views import View, parse_queries
from pipelines.verdict.cluster_evidence import (
    COUNTED_SQL,
    EXPECTED_SQL,
    ISSUE_SQL,
    ISSUES_SQL,
    MAX_CANCELLED,
    MAX_COMMAND_TOPICS,
    MAX_TOPICS,
    UNLISTED_REGEX,
    PartitionIssue,
)
from udfs.failures.disk_limits import FULL_RATIO


class Figure(View):
    """A query for any number of snapshots; its name is that in the report's data and in docs/figures.md."""

    def query(self, snapshots: Iterable[SnapshotKey]) -> str:
        """Return the query for these snapshots."""
        keys = list(snapshots)
        most = min(_TOPICS_PER_CLUSTER, max(_LEAST_TOPICS, _TOPICS // max(len(keys), 1)))
        return self.sql.format(condition=match_snapshots(keys), most_topics=most)


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

-- findings: What is wrong already, and what the sources lack
SELECT cluster_id, issues, placed_partitions AS partitions, counted_partitions, live_brokers, racks, replication_factor,
       down_brokers, down_critical_brokers, failed_log_dirs, failed_dir_brokers, failed_dir_replicas, full_log_dirs,
       lagging_partitions, lagging_brokers, lagging_broker_partitions,
       bootstrap_server,
       electable_partitions,
       CASE WHEN electable_partitions > 0 THEN elected_max * live_brokers / online_partitions END AS elected_ratio,
       deleted_topics_offline_partitions, ignored_topics, ignored_offline_partitions, reassigned_partitions,
       stuck_partitions, stuck_brokers, stuck_reassignments, extra_replica_partitions, extra_replica_topics,
       extra_replica_first_topics,
       quarantined_records, unlisted_brokers, unused_files,
       incomplete_topics, incomplete_topic_names, missing_partitions, unplaced_partitions, inferred_partitions,
       unknown_version, unknown_brokers, identity_conflicts, config_conflicts, warnings
FROM (
  SELECT cluster_id, snapshot_id, sum(quarantined_records) AS quarantined_records,
         array_sort(collect_list(CASE WHEN forall(split(format, '[+]'), f -> f IN (
           'shell', 'unrecognised', 'unsupported')) THEN source END)) AS unused_files
  FROM silver.source_summary GROUP BY cluster_id, snapshot_id
)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, count_if(live IS NOT FALSE) AS live_brokers,
         count(DISTINCT CASE WHEN live IS NOT FALSE THEN rack END) AS racks,
         array_sort(collect_list(CASE WHEN live IS FALSE THEN broker_id END)) AS down_brokers,
         min_by(concat(host, ':', port), broker_id) FILTER (WHERE live AND NOT host RLIKE '{unfit_host}' AND port > 0)
           AS bootstrap_server,
         array_sort(collect_list(CASE WHEN live IS NULL THEN broker_id END)) AS unknown_brokers
  FROM silver.brokers GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, sum(partitions - listed_partitions) AS missing_partitions,
         count_if(incomplete) AS incomplete_topics, count_if(ignored AND NOT marked_for_deletion) AS ignored_topics,
         slice(array_sort(collect_list(CASE WHEN incomplete THEN topic END)), 1, 6) AS incomplete_topic_names
  FROM silver.topics GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, count(replicas) AS placed_partitions,
         count(CASE WHEN NOT (ignored OR marked_for_deletion) THEN replicas END) AS counted_partitions,
         percentile(CASE WHEN size(replicas) > 1 THEN size(replicas) END, 0.5) AS replication_factor,
         count_if(replicas IS NULL) AS unplaced_partitions, count_if(state_inferred) AS inferred_partitions,
         count_if(size(coalesce(adding_replicas, array())) + size(coalesce(removing_replicas, array())) > 0)
           AS reassigned_partitions,
         count_if(NOT online AND marked_for_deletion) AS deleted_topics_offline_partitions,
         count_if(NOT online AND ignored AND NOT marked_for_deletion) AS ignored_offline_partitions
  FROM silver.partitions
  LEFT JOIN (SELECT cluster_id, snapshot_id, topic, marked_for_deletion, ignored FROM silver.topics)
  USING (cluster_id, snapshot_id, topic)
  GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, count(*) AS stuck_partitions,
         array_sort(array_distinct(flatten(collect_list(array_intersect(adding_replicas, down_brokers)))))
           AS stuck_brokers,
         slice(array_sort(collect_list(struct(topic, partition, array_except(replicas, adding_replicas) AS replicas))),
               1, {max_cancelled}) AS stuck_reassignments
  FROM (
    SELECT * FROM silver.partitions
      {counted}
  )
      {with_down_brokers}
  WHERE arrays_overlap(adding_replicas, down_brokers)
  GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, sum(n) AS extra_replica_partitions, count(*) AS extra_replica_topics,
         transform(slice(array_sort(collect_list(struct(-n AS n, topic, factor))), 1, {max_command_topics}),
                   t -> struct(t.topic, t.factor, -t.n AS partitions)) AS extra_replica_first_topics
  FROM (
    SELECT cluster_id, snapshot_id, topic, max(replication_factor) AS factor, count(*) AS n
    FROM silver.partitions JOIN silver.topics USING (cluster_id, snapshot_id, topic)
    WHERE NOT (ignored OR marked_for_deletion) AND size(replicas) > replication_factor
      AND size(coalesce(adding_replicas, array())) + size(coalesce(removing_replicas, array())) = 0
    GROUP BY cluster_id, snapshot_id, topic
  )
  GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, max(leaders) AS elected_max, sum(leaders) AS online_partitions,
         sum(elected) AS electable_partitions
  FROM (
    SELECT cluster_id, snapshot_id, count(*) AS leaders, count_if(leader <> replicas[0] AND is_in_sync) AS elected
    FROM (
      SELECT cluster_id, snapshot_id, leader, replicas, array_contains(isr, replicas[0]) AS is_in_sync
      FROM silver.partitions WHERE online
    )
    GROUP BY cluster_id, snapshot_id, CASE WHEN is_in_sync THEN replicas[0] ELSE leader END
  )
  GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, collect_list(struct(issue, partitions, topics, topic_names, topic_partitions,
           single_replica_partitions, single_replica_topics, single_replica_topic_names, on_down_brokers,
           min_factor, min_factor_topics, min_factor_topic_names, on_failed_dirs,
           few_replicas, few_replica_topics, few_replica_topic_names, few_min_isr, few_factor)) AS issues
  FROM (
    SELECT cluster_id, snapshot_id, issue, sum(n) AS partitions, count(*) AS topics,
           transform(slice(array_sort(collect_list(struct(-n, topic))), 1, {max_topics}), t -> t.topic) AS topic_names,
           transform(slice(array_sort(collect_list(struct(-n AS n, topic))), 1, {max_topics}), t -> -t.n)
             AS topic_partitions,
           sum(single) AS single_replica_partitions, count_if(single > 0) AS single_replica_topics,
           transform(slice(array_sort(collect_list(CASE WHEN single > 0 THEN struct(-single, topic) END)),
             1, {max_command_topics}), t -> t.topic) AS single_replica_topic_names,
           sum(on_down) AS on_down_brokers, min(factor) AS min_factor,
           count_if(factor = least_factor) AS min_factor_topics,
           transform(slice(array_sort(collect_list(CASE WHEN factor = least_factor THEN struct(-n, topic) END)),
             1, {max_command_topics}), t -> t.topic) AS min_factor_topic_names,
           sum(few) AS few_replicas, count_if(few > 0) AS few_replica_topics,
           transform(slice(array_sort(collect_list(CASE WHEN few > 0 THEN struct(-few, topic) END)),
             1, {max_command_topics}), t -> t.topic) AS few_replica_topic_names,
           coalesce(max(few_min_isr), 0) AS few_min_isr, coalesce(min(few_factor), 0) AS few_factor,
           sum(on_failed) AS on_failed_dirs
    FROM (
      SELECT cluster_id, snapshot_id, topic, issue, count(*) AS n, count_if(size(replicas) = 1) AS single,
             count_if(arrays_overlap({expected}, down_brokers)) AS on_down,
             count_if(size(failed_dir_replicas) > 0) AS on_failed, max(size(replicas)) AS factor,
             min(max(size(replicas))) OVER (PARTITION BY cluster_id, snapshot_id, issue) AS least_factor,
             count_if({few}) AS few, max(CASE WHEN {few} THEN {min_isr} END) AS few_min_isr,
             min(CASE WHEN {few} THEN size(replicas) END) AS few_factor
      FROM (
        {issues}
      )
      {with_down_brokers}
      {with_min_isr}
      GROUP BY cluster_id, snapshot_id, topic, issue
    )
    GROUP BY cluster_id, snapshot_id, issue
  )
  GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, array(struct(
           sum(n) AS partitions, count(*) AS topics,
           transform(slice(array_sort(collect_list(struct(-n, topic))), 1, {max_topics}), t -> t.topic) AS topic_names,
           transform(slice(array_sort(collect_list(struct(-n AS n, topic))), 1, {max_topics}), t -> -t.n)
             AS topic_partitions,
           sum(single) AS single_replica_partitions)) AS unknown_version
  FROM (
    SELECT cluster_id, snapshot_id, topic, count(*) AS n, count_if(size(replicas) = 1) AS single
    FROM silver.partitions
      {counted}
      {with_min_isr}
    JOIN (
      SELECT cluster_id, snapshot_id FROM silver.brokers WHERE live IS NOT FALSE
      GROUP BY cluster_id, snapshot_id HAVING count(caps_min_isr) = 0
    ) USING (cluster_id, snapshot_id)
    WHERE online AND {few}
    GROUP BY cluster_id, snapshot_id, topic
  )
  GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, sum(first_replicas) AS lagging_partitions,
         transform(array_sort(collect_list(struct(-n, broker_id))), b -> b.broker_id) AS lagging_brokers,
         transform(array_sort(collect_list(struct(-n AS n, broker_id))), b -> -b.n) AS lagging_broker_partitions
  FROM (
    SELECT cluster_id, snapshot_id, broker_id, count(*) AS n, count_if(position = 0) AS first_replicas
    FROM (
      SELECT cluster_id, snapshot_id,
             posexplode(array_except({expected}, concat(
               coalesce(isr, array()), coalesce(down_brokers, array()), coalesce(failed_dir_replicas, array()))))
               AS (position, broker_id)
      FROM silver.partitions
      {counted}
      {with_down_brokers}
      WHERE online AND under_replicated
    )
    GROUP BY cluster_id, snapshot_id, broker_id
  )
  GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id,
         transform(array_sort(collect_list(struct(-n, broker_id))), b -> b.broker_id) AS failed_dir_brokers,
         transform(array_sort(collect_list(struct(-n AS n, broker_id))), b -> -b.n) AS failed_dir_replicas
  FROM (
    SELECT cluster_id, snapshot_id, broker_id, count(*) AS n
    FROM (
      SELECT cluster_id, snapshot_id, explode(failed_dir_replicas) AS broker_id FROM silver.partitions
      {counted}
    )
    GROUP BY cluster_id, snapshot_id, broker_id
  )
  GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id,
         transform(array_sort(collect_list(CASE WHEN log_dir_error IS NOT NULL THEN struct(broker_id, log_dir) END)),
           d -> concat(d.log_dir, ' of broker ', d.broker_id)) AS failed_log_dirs,
         transform(array_sort(collect_list(
             CASE WHEN log_dir_error IS NULL AND total_bytes - usable_bytes > {full_ratio} * total_bytes
             THEN struct(broker_id, log_dir, 100 * (total_bytes - usable_bytes) div total_bytes AS used) END)),
           d -> concat(d.log_dir, ' of broker ', d.broker_id, ' (', d.used, ' %)')) AS full_log_dirs
  FROM silver.log_dirs
  LEFT ANTI JOIN (SELECT cluster_id, snapshot_id, broker_id FROM silver.brokers WHERE live IS FALSE)
  USING (cluster_id, snapshot_id, broker_id)
  GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, array_sort(collect_set(broker_id)) AS down_critical_brokers
  FROM (
    SELECT cluster_id, snapshot_id, explode(min_isr_critical_brokers) AS broker_id
    FROM silver.partitions
      {counted}
      {with_down_brokers}
    WHERE arrays_overlap({expected}, down_brokers)
  )
  GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, count_if(field IN ('topic_id', 'host')) AS identity_conflicts,
         count_if(field IN ('config min.insync.replicas', 'config unclean.leader.election.enable')) AS config_conflicts
  FROM silver.conflicts GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, array_sort(collect_set(int(broker_id))) AS unlisted_brokers
  FROM (
    SELECT cluster_id, snapshot_id, regexp_extract(reason, '{unlisted}', 1) AS broker_id
    FROM (SELECT cluster_id, snapshot_id, explode(reasons) AS reason FROM silver.quarantine)
  ) WHERE broker_id <> '' GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
LEFT JOIN (
  SELECT cluster_id, snapshot_id, transform(
           array_sort(collect_list(struct(source, line_number, warning))),
           w -> concat(w.source, if(w.source RLIKE '{answer}', '', concat(' line ', w.line_number)), ': ', w.warning)
         ) AS warnings
  FROM silver.warnings GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)
WHERE {condition}

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
FROM gold.broker_load WHERE {condition} AND scheme = 'observed' ORDER BY broker_id

-- takeovers: Takeovers
SELECT cluster_id, scheme, failed_brokers[0] AS failed, broker_id AS survivor, takeovers
FROM gold.failure_load WHERE {condition} AND scenario_kind = 'broker' AND takeovers > 0

-- failures: Failures of single brokers
SELECT cluster_id, scheme, scenario, failed_brokers[0] AS failed, leaders_lost, takeover_brokers, worst_survivor,
       hot_survivor, leaders_after_max, leaders_after_mean, worst_survivor_ratio, offline_partitions,
       newly_offline_partitions, newly_under_min_isr_partitions, under_min_isr_partitions, single_isr_partitions,
       unclean_elections
FROM gold.failure_summary WHERE {condition} AND scenario_kind = 'broker' ORDER BY failed

-- custom_failures: Custom failures
SELECT cluster_id, scenario, failed_brokers, leaders_lost, takeover_brokers, worst_survivor, hot_survivor,
       worst_survivor_ratio, newly_offline_partitions, newly_under_min_isr_partitions, under_min_isr_partitions,
       unclean_elections
FROM gold.failure_summary WHERE {condition} AND scenario_kind = 'custom' AND scheme = 'observed'
ORDER BY failed_brokers

-- pairs: Failures of two brokers
SELECT cluster_id, failed_brokers[0] AS one, failed_brokers[1] AS other, worst_survivor_ratio,
       newly_offline_partitions, under_min_isr_partitions
FROM gold.failure_summary WHERE {condition} AND scenario_kind = 'pair' AND scheme = 'observed'

-- racks: Failures of racks
SELECT cluster_id, scheme, scenario, substring(scenario, 6) AS failed, size(failed_brokers) AS brokers, leaders_lost,
       takeover_brokers, worst_survivor, hot_survivor, worst_survivor_ratio, newly_offline_partitions,
       newly_under_min_isr_partitions, under_min_isr_partitions, single_isr_partitions, unclean_elections
FROM gold.failure_summary WHERE {condition} AND scenario_kind = 'rack' ORDER BY scenario

-- durability: Copysets, and the probability that failures lose a partition
SELECT cluster_id, scheme, failures, copysets, scatter_width_mean, loss_probability, loss_probability_low,
       loss_probability_high, method
FROM gold.durability WHERE {condition} AND failure_unit = 'broker'

-- headroom: Headroom needed to survive any single failure
SELECT cluster_id, scenario_kind, resource, capacity_source, required_headroom_ratio, worst_scenario, worst_broker,
       worst_load
FROM gold.headroom WHERE {condition} AND scheme = 'observed' ORDER BY resource = 'leaders', scenario_kind, resource

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

-- plan: The plan: before and after
SELECT * FROM gold.plans WHERE {condition}

-- moves: Replica changes of the plan
SELECT cluster_id, goal, topic, partition, replicas_before, replicas_after, copied_bytes, first_wave, reason
FROM (
  SELECT *, row_number() OVER (PARTITION BY cluster_id, goal ORDER BY first_wave, topic, partition) AS place
  FROM gold.plan_moves WHERE {condition}
) WHERE place <= 50 ORDER BY cluster_id, goal, place

-- trend: History
SELECT s.cluster_id, s.snapshot_id, r.as_of, s.metric, s.value
FROM gold.scheme_comparison s
JOIN ops.runs r ON s.cluster_id = r.cluster_id AND s.snapshot_id = r.snapshot_id AND r.stage = 'gold.scheme_comparison'
WHERE s.scheme = 'observed' AND s.cluster_id IN ({clusters})
  AND s.metric IN ('leaders_max_over_mean_ratio', 'worst_survivor_ratio', 'most_newly_offline_partitions')
ORDER BY s.cluster_id, r.as_of, r.finished_at
"""
_WITH_DOWN_BROKERS = """LEFT JOIN (
  SELECT cluster_id, snapshot_id, collect_list(CASE WHEN live IS FALSE THEN broker_id END) AS down_brokers
  FROM silver.brokers GROUP BY cluster_id, snapshot_id
) USING (cluster_id, snapshot_id)"""
_WITH_MIN_ISR = """LEFT JOIN (SELECT cluster_id, snapshot_id, topic, min_insync_replicas FROM silver.topics)
USING (cluster_id, snapshot_id, topic)"""
_MIN_ISR = "greatest(coalesce(min_insync_replicas, 0), effective_min_isr)"
_CONSTANTS = {
    "{unlisted}": UNLISTED_REGEX,
    "{answer}": ANSWER_REGEX,
    "{expected}": EXPECTED_SQL,
    "{issues}": indent(ISSUES_SQL.format(partitions="silver.partitions"), " " * 8).strip(),
    "{ranked_issues}": ", ".join(f"'{issue}'" for issue in RANKED_ISSUES),
    "{worst_issue}": " ".join(f"WHEN {condition} THEN '{issue}'" for issue, condition in _WORST_ISSUES.items()),
    "{counted}": indent(COUNTED_SQL, " " * 6).strip(),
    "{with_down_brokers}": indent(_WITH_DOWN_BROKERS, " " * 6).strip(),
    "{with_min_isr}": indent(_WITH_MIN_ISR, " " * 6).strip(),
    "{few}": f"size(replicas) < {_MIN_ISR}",
    "{min_isr}": _MIN_ISR,
    "{max_topics}": str(MAX_TOPICS),
    "{max_command_topics}": str(MAX_COMMAND_TOPICS),
    "{max_cancelled}": str(MAX_CANCELLED),
    "{max_brokers}": str(MAX_ROWS),
    "{unfit_host}": UNFIT_HOST_REGEX,
    "{full_ratio}": f"{FULL_RATIO}D",
}
# TREND is over all runs of the clusters in {clusters}.
*FIGURES, TREND = (
    Figure(*parts)
    for parts in parse_queries(LOAD_QUERIES + reduce(lambda q, p: q.replace(*p), _CONSTANTS.items(), _QUERIES))
)
TOPICS_AT_RISK = next(figure for figure in FIGURES if figure.name == "topics_at_risk")
