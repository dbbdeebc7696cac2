"""Rows of silver tables, from a snapshot of one cluster: without Spark, and without a run."""

import pyarrow as pa

from pipelines.ingest.merge.entities import IGNORED
from pipelines.ingest.merge.topic_merge import add_health
from pipelines.ingest.snapshot_reader import Snapshot
from udfs.failures.replica_logs import list_replica_bytes
from udfs.failures.topic_defaults import TopicDefaults

TABLES = ("brokers", "topics", "partitions", "conflicts")


def make_silver_rows(snapshot: Snapshot, table: str, defaults: TopicDefaults) -> pa.Table:
    """Make the rows of a silver table (one of TABLES), without cluster_id and snapshot_id."""
    if table == "brokers":
        return snapshot.brokers
    if table == "topics":
        return snapshot.topics.append_column(IGNORED, defaults.find_ignored(snapshot.topics["topic"]))
    if table == "conflicts":
        return snapshot.conflicts
    partitions = add_health(snapshot.partitions, snapshot.topics, snapshot.brokers, defaults)
    for name, values in list_replica_bytes(partitions).items():
        partitions = partitions.append_column(name, values)
    return partitions
