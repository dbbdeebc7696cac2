"""Find clusters whose name another cluster has taken, from their topics in the newest two snapshots."""

from collections.abc import Iterator, Sequence
from datetime import UTC

from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.store import Store
from pipelines.spark.views import SNAPSHOTS

_TIME = "%Y-%m-%d %H:%M UTC"
_LEAST_TOPICS = 3  # of a cluster that may have been replaced: people do delete a topic or two
_NEWEST_TWO = f"""
SELECT cluster_id, snapshot_id, newest, seen_at FROM (
  SELECT *, max(number) OVER (PARTITION BY cluster_id) AS last_number FROM {SNAPSHOTS}
) WHERE number >= last_number - 1
"""
# Clusters whose newest snapshot shares no topic with the one before: none with the same id, and none with the same name
# where an id is unknown, but for names that many clusters have.
_REPLACED = f"""
WITH t AS (
  SELECT t.cluster_id, t.topic, t.topic_id, s.newest, s.seen_at
  FROM silver.topics t JOIN ({_NEWEST_TWO}) s ON t.cluster_id = s.cluster_id AND t.snapshot_id = s.snapshot_id
)
SELECT cluster_id, count_if(newest) AS topics, count_if(NOT newest) AS topics_before,
       max(CASE WHEN NOT newest THEN seen_at END) AS seen_at
FROM t WHERE cluster_id NOT IN (
  SELECT n.cluster_id FROM t n JOIN t o ON n.cluster_id = o.cluster_id AND n.topic = o.topic
  WHERE n.newest AND NOT o.newest AND (n.topic_id = o.topic_id
    OR ((n.topic_id IS NULL OR o.topic_id IS NULL) AND NOT startswith(n.topic, '__')))
)
GROUP BY cluster_id HAVING count_if(newest) >= {_LEAST_TOPICS} AND count_if(NOT newest) >= {_LEAST_TOPICS}
"""


def find_replaced_clusters(store: Store, snapshots: Sequence[SnapshotKey]) -> Iterator[str]:
    """Warn of clusters whose topics are all others than in the snapshot before: another cluster may have their name."""
    clusters = {key.cluster_id for key in snapshots}
    rows = store.open_sql([SNAPSHOTS]).run(_NEWEST_TWO).to_pylist()
    if all(row["newest"] for row in rows if row["cluster_id"] in clusters):
        return
    keys = [SnapshotKey(row["cluster_id"], row["snapshot_id"]) for row in rows]
    for row in store.open_sql([SNAPSHOTS, "silver.topics"], keys).run(_REPLACED).to_pylist():
        if row["cluster_id"] in clusters:
            yield (
                f"{row['cluster_id']}: none of its {row['topics']} topics is one of the {row['topics_before']} in the "
                f"snapshot before, as of {row['seen_at'].astimezone(UTC):{_TIME}}. If two clusters have this name, "
                "give each its own: NAME=PATH"
            )
