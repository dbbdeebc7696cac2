"""The figures on sources, on what is wrong with clusters already, and on what sources lack; see figure_queries.py."""

# Names in braces stand for what figure_queries.py fills in.
FINDING_QUERIES = """
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
           few_replicas, few_replica_topics, few_replica_topic_names, few_min_isr, few_factor,
           unreachable_min_isr)) AS issues
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
           sum(on_failed) AS on_failed_dirs, sum(unreachable) AS unreachable_min_isr
    FROM (
      SELECT cluster_id, snapshot_id, topic, issue, count(*) AS n, count_if(size(replicas) = 1) AS single,
             count_if(arrays_overlap({expected}, down_brokers)) AS on_down,
             count_if(size(failed_dir_replicas) > 0) AS on_failed, max(size(replicas)) AS factor,
             min(max(size(replicas))) OVER (PARTITION BY cluster_id, snapshot_id, issue) AS least_factor,
             count_if({few}) AS few, max(CASE WHEN {few} THEN {min_isr} END) AS few_min_isr,
             min(CASE WHEN {few} THEN size(replicas) END) AS few_factor,
             count_if(size(replicas) < effective_min_isr) AS unreachable
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
"""
