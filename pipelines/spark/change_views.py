"""The views of what changed from snapshot to snapshot."""

from pipelines.verdict.cluster_evidence import IS_CUT_SQL

# Snapshots that lack a part of a topic: of other topics that they lack, none is known to be gone.
_CUT = f"(SELECT DISTINCT cluster_id, snapshot_id FROM silver.topics WHERE {IS_CUT_SQL})"
_LAST_TWO = """(
    SELECT * FROM (
      SELECT cluster_id, snapshot_id, newest,
             lead(newest) OVER (PARTITION BY cluster_id ORDER BY number) AS next_is_newest,
             count(*) OVER (PARTITION BY cluster_id) AS snapshots
      FROM insights.snapshots
    ) WHERE snapshots > 1 AND (newest OR next_is_newest)
  )"""
CHANGE_VIEWS = f"""
-- insights.snapshot_changes: Partitions that differ between the newest snapshot and the previous one; a partition may
-- have several changes at once. Those of topics that one of them does not show as a whole are not created or removed.
SELECT c.cluster_id, c.topic, c.partition,
       CASE WHEN old IS NULL THEN 'created' WHEN new IS NULL THEN 'removed' ELSE 'changed' END AS change,
       is_in_both AND NOT (new.leader <=> old.leader) AS leader_changed,
       is_in_both AND NOT (new.replicas <=> old.replicas) AS replicas_changed,
       is_in_both AND size(array_except(array_intersect(old.isr, new.replicas), new.isr)) > 0 AS isr_shrunk,
       is_in_both AND size(array_except(array_intersect(new.isr, old.replicas), old.isr)) > 0 AS isr_expanded,
       old.leader AS leader_before, new.leader AS leader_now,
       old.replicas AS replicas_before, new.replicas AS replicas_now, old.isr AS isr_before, new.isr AS isr_now
FROM (
  SELECT p.cluster_id, p.topic, p.partition,
         any_value(struct(p.leader, p.replicas, p.isr)) FILTER (WHERE s.newest) AS new,
         any_value(struct(p.leader, p.replicas, p.isr)) FILTER (WHERE NOT s.newest) AS old
  FROM silver.partitions p
  JOIN {_LAST_TWO} s ON p.cluster_id = s.cluster_id AND p.snapshot_id = s.snapshot_id
  GROUP BY p.cluster_id, p.topic, p.partition
) c
LEFT JOIN (
  SELECT s.cluster_id, bool_or(s.newest) AS new_is_cut, bool_or(NOT s.newest) AS old_is_cut
  FROM {_CUT} t JOIN {_LAST_TWO} s ON t.cluster_id = s.cluster_id AND t.snapshot_id = s.snapshot_id
  GROUP BY s.cluster_id
) cut ON c.cluster_id = cut.cluster_id
LEFT JOIN (
  SELECT t.cluster_id, t.topic, bool_or(s.newest AND NOT t.is_cut) AS new_is_whole,
         bool_or(NOT s.newest AND NOT t.is_cut) AS old_is_whole
  FROM (SELECT cluster_id, snapshot_id, topic, {IS_CUT_SQL} AS is_cut FROM silver.topics) t
  JOIN {_LAST_TWO} s ON t.cluster_id = s.cluster_id AND t.snapshot_id = s.snapshot_id
  GROUP BY t.cluster_id, t.topic
) own ON c.cluster_id = own.cluster_id AND c.topic = own.topic,
LATERAL (SELECT new IS NOT NULL AND old IS NOT NULL AS is_in_both)
WHERE (new IS NULL AND (new_is_cut IS NOT TRUE OR new_is_whole))
   OR (old IS NULL AND (old_is_cut IS NOT TRUE OR old_is_whole))
   OR (is_in_both AND (NOT (new.replicas <=> old.replicas) OR NOT (new.leader <=> old.leader)
       OR NOT (array_sort(new.isr) <=> array_sort(old.isr))))

-- insights.broker_changes: Brokers that differ between the newest snapshot and the previous one.
SELECT cluster_id, broker_id,
       CASE WHEN old IS NULL THEN 'added' WHEN new IS NULL THEN 'removed'
            WHEN NOT (new.live <=> old.live)
              THEN CASE WHEN new.live IS NULL THEN 'state unknown' WHEN new.live THEN 'returned' ELSE 'failed' END
            WHEN NOT (new.rack <=> old.rack) THEN 'rack changed' ELSE 'host changed' END AS change,
       old.live AS live_before, new.live AS live_now, old.rack AS rack_before, new.rack AS rack_now,
       old.host AS host_before, new.host AS host_now, old.leaders AS leaders_before, new.leaders AS leaders_now
FROM (
  SELECT b.cluster_id, b.broker_id,
         any_value(struct(b.live, b.rack, b.host, b.leaders)) FILTER (WHERE s.newest) AS new,
         any_value(struct(b.live, b.rack, b.host, b.leaders)) FILTER (WHERE NOT s.newest) AS old
  FROM silver.brokers b
  JOIN {_LAST_TWO} s ON b.cluster_id = s.cluster_id AND b.snapshot_id = s.snapshot_id
  GROUP BY b.cluster_id, b.broker_id
)
WHERE new IS NULL OR old IS NULL OR NOT (new.live <=> old.live) OR NOT (new.rack <=> old.rack)
   OR NOT (new.host <=> old.host)

-- insights.topic_changes: Topics created, deleted or changed between consecutive snapshots, in every snapshot but the
-- first of each cluster: number and first_seen_at are those of the later snapshot. A snapshot that does not show all
-- of a topic is passed over, for it and for the topics that the snapshot lacks: the next one that does has the changes.
SELECT cluster_id, c.number, c.first_seen_at, topic, c.change, c.partitions_before, c.partitions_now,
       c.replication_factor_before, c.replication_factor_now
FROM (
  SELECT cluster_id, topic, explode(filter(array(
    named_struct(
      'change', CASE
        WHEN whole_before IS NULL AND old.number IS NULL THEN NULL
        WHEN old.number IS NULL OR old.number < whole_before THEN 'created'
        WHEN topic_id <> old.topic_id THEN 'recreated'
        WHEN partitions <> old.partitions AND NOT (replication_factor <=> old.replication_factor)
          THEN 'partitions and replication factor changed'
        WHEN partitions <> old.partitions THEN 'partitions changed'
        WHEN NOT (replication_factor <=> old.replication_factor) THEN 'replication factor changed' END,
      'number', number, 'first_seen_at', first_seen_at,
      'partitions_before', if(old.number < whole_before, NULL, old.partitions), 'partitions_now', partitions,
      'replication_factor_before', if(old.number < whole_before, NULL, old.replication_factor),
      'replication_factor_now', replication_factor),
    named_struct(
      'change', if(whole_after IS NOT NULL AND (next_number IS NULL OR next_number > whole_after), 'deleted', NULL),
      'number', whole_after, 'first_seen_at', whole_after_at,
      'partitions_before', partitions, 'partitions_now', NULL,
      'replication_factor_before', replication_factor, 'replication_factor_now', NULL)
  ), c -> c.change IS NOT NULL)) AS c
  FROM (
    SELECT t.cluster_id, t.topic, t.topic_id, t.partitions, t.replication_factor, s.number,
           s.first_seen_at, s.whole_before, s.whole_after, s.whole_after_at,
           lag(struct(s.number, t.topic_id, t.partitions, t.replication_factor))
             OVER (PARTITION BY t.cluster_id, t.topic ORDER BY s.number) AS old,
           lead(s.number) OVER (PARTITION BY t.cluster_id, t.topic ORDER BY s.number) AS next_number
    FROM (SELECT * FROM silver.topics WHERE NOT ({IS_CUT_SQL})) t
    JOIN (
      SELECT s.cluster_id, s.snapshot_id, s.number, s.first_seen_at,
             max(if(cut.snapshot_id IS NULL, s.number, NULL)) OVER (PARTITION BY s.cluster_id ORDER BY s.number
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS whole_before,
             min(if(cut.snapshot_id IS NULL, s.number, NULL)) OVER (PARTITION BY s.cluster_id ORDER BY s.number
               ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS whole_after,
             min(if(cut.snapshot_id IS NULL, s.first_seen_at, NULL)) OVER (PARTITION BY s.cluster_id ORDER BY s.number
               ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS whole_after_at
      FROM insights.snapshots s
      LEFT JOIN {_CUT} cut ON s.cluster_id = cut.cluster_id AND s.snapshot_id = cut.snapshot_id
    ) s ON t.cluster_id = s.cluster_id AND t.snapshot_id = s.snapshot_id
  )
)

-- insights.finding_changes: Findings of the verdict that are new or gone, or count more or fewer than in the snapshot
-- before, in every snapshot but the first of each cluster; those of one kind together, with the text of the worst.
SELECT cluster_id, number, first_seen_at, kind, coalesce(now.level, old.level) AS level,
       CASE WHEN old IS NULL THEN 'new' WHEN now IS NULL THEN 'gone'
            WHEN now.affected > old.affected THEN 'more' ELSE 'fewer' END AS change,
       old.affected AS affected_before, now.affected AS affected_now, coalesce(now.text, old.text) AS text
FROM (
  SELECT later.cluster_id, later.number, later.first_seen_at, f.kind,
         any_value(f.finding) FILTER (WHERE s.number = later.number) AS now,
         any_value(f.finding) FILTER (WHERE s.number < later.number) AS old
  FROM (
    SELECT cluster_id, snapshot_id, kind,
           struct(min_by(level, place) AS level, min_by(text, place) AS text, sum(affected) AS affected) AS finding
    FROM gold.findings GROUP BY cluster_id, snapshot_id, kind
  ) f
  JOIN insights.snapshots s ON f.cluster_id = s.cluster_id AND f.snapshot_id = s.snapshot_id
  JOIN insights.snapshots later ON later.cluster_id = s.cluster_id AND later.number > 1
    AND (later.number = s.number OR later.number = s.number + 1)
  GROUP BY later.cluster_id, later.number, later.first_seen_at, f.kind
)
WHERE now IS NULL OR old IS NULL OR now.affected <> old.affected
"""
