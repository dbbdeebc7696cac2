"""Silver: what the sources say, merged, typed and checked."""

from __future__ import annotations

import pyarrow as pa

from pipelines.ingest.merge import merged_schemas
from pipelines.tables.table_contract import Between, Matches, NoRowWhere, Table, columns
from udfs.arrow.table_columns import DOUBLE, FLAG, INT, INTS, LONG, TEXT, TEXTS, column

# Columns of internal.entities by the kind of entity: each row fills one of them.
ENTITY_OF = {
    "partitions": "partition",
    "topics": "topic",
    "registrations": "registration",
    "stray_logs": "stray_log",
    "quarantine": "quarantined",
    "conflicts": "conflict",
    "accounts": "account",
    "usage": "usage",
}

ENTITIES = Table(
    "internal.entities",
    "All that a cluster's sources say, merged in one pass: each row fills the one struct that `entity` names. "
    "The other silver tables are its parts.",
    columns(
        column("entity", TEXT, "which of the structs this row fills", required=True),
        *(
            column(ENTITY_OF[name], pa.struct(schema), f"merged {name.replace('_', ' ')}")
            for name, schema in merged_schemas.SCHEMAS.items()
        ),
    ),
    keys=(),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "entity"),
)

BROKERS = Table(
    "silver.brokers",
    "One row per broker: registered, listed, or named by a replica list.",
    columns(
        column("broker_id", INT, "broker id", required=True),
        column("rack", TEXT, "rack (availability zone); null = none known"),
        column("host", TEXT, "host of its first endpoint"),
        column("port", INT, "port of its first endpoint"),
        column("live", FLAG, "whether it lives: down brokers are neither survivors nor in any mean", required=True),
        column("live_reason", TEXT, "the evidence for `live`", required=True),
        column("registered", FLAG, "registered in ZooKeeper or KRaft; null = no source shows registrations"),
        column("fenced", FLAG, "fenced in KRaft"),
        column("controller", FLAG, "the active controller, as far as known", required=True),
        column("draining", FLAG, "to be emptied", required=True),
        column("replicas", LONG, "replicas assigned to it", required=True),
        column("leaders", LONG, "partitions it leads", required=True),
    ),
    keys=("cluster_id", "snapshot_id", "broker_id"),
    expectations=(Between("broker_id", 0), Between("replicas", 0), Between("leaders", 0)),
    gated=True,
)

LOADS = (
    column("size_bytes", LONG, "size of the leader's log, bytes; null = unknown"),
    column("bytes_in_per_s", DOUBLE, "bytes per second that producers write; null = unknown"),
    column("bytes_out_per_s", DOUBLE, "bytes per second that consumers fetch; null = unknown"),
)

TOPICS = Table(
    "silver.topics",
    "One row per topic.",
    columns(
        column("topic", TEXT, "topic name", required=True),
        column("topic_id", TEXT, "topic id (Kafka 2.8 and later)"),
        column("partitions", INT, "partitions it declares, or at least shows", required=True),
        column("listed_partitions", INT, "partitions that the sources show", required=True),
        column("replication_factor", INT, "declared, else the longest replica list"),
        column("min_insync_replicas", INT, "min.insync.replicas of the topic; null = not shown"),
        column("unclean_leader_election", FLAG, "unclean.leader.election.enable of the topic; null = not shown"),
        column("configs", pa.map_(TEXT, TEXT), "topic configs as shown"),
        column("marked_for_deletion", FLAG, "deletion is under way", required=True),
        column("incomplete", FLAG, "fewer partitions are shown than declared", required=True),
        column("warnings", TEXTS, "what is odd about it, but no fault"),
        column(
            "partition_loads",
            pa.list_(pa.struct([("partition", INT), *((c.name, c.type) for c in LOADS)])),
            "ids and loads of the partitions shown; null where these are all of 0..n-1 and no load is known",
        ),
    ),
    keys=("cluster_id", "snapshot_id", "topic"),
    partition_by=("cluster_id",),
    expectations=(
        Matches("topic", "[a-zA-Z0-9._-]{1,249}"),
        Between("partitions", 0),
        Between("replication_factor", 1),
        NoRowWhere("shown_within_declared", "listed_partitions > partitions", "shows more partitions than it has"),
    ),
    gated=True,
)

PARTITIONS = Table(
    "silver.partitions",
    "One row per partition, without the quarantined.",
    columns(
        column("topic", TEXT, "topic name", required=True),
        column("partition", INT, "partition id", required=True),
        column("leader", INT, "broker that leads; -1 = none; null = unknown, and so are the replicas"),
        column("leader_epoch", INT, "leader epoch"),
        column("replicas", INTS, "assigned replicas (AR), preferred leader first; null = unknown"),
        column("isr", INTS, "in-sync replicas; null = unknown, and so are the replicas"),
        column("elr", INTS, "eligible leader replicas (Kafka 4)"),
        column("last_known_elr", INTS, "last known ELR (Kafka 4)"),
        column("adding_replicas", INTS, "replicas being added by a reassignment"),
        column("removing_replicas", INTS, "replicas being removed by a reassignment"),
        *LOADS,
        column("logs", pa.list_(pa.struct(merged_schemas.LOG)), "log of each replica, beside `replicas`"),
        column("source", TEXT, "file that shows it"),
        column("line_number", LONG, "line in that file"),
        column("state_inferred", FLAG, "no source tells leader and ISR: taken as healthy", required=True),
    ),
    keys=("cluster_id", "snapshot_id", "topic", "partition"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "topic"),
    expectations=(
        Between("partition", 0),
        Between("size_bytes", 0),
        NoRowWhere("has_replicas", "size(replicas) = 0", "has an empty replica list"),
        NoRowWhere("replicas_distinct", "size(array_distinct(replicas)) < size(replicas)", "repeats a replica"),
        NoRowWhere(
            "leader_in_replicas",
            "leader <> -1 AND NOT array_contains(replicas, leader)",
            "has a leader outside of its replicas",
        ),
        NoRowWhere(
            "isr_in_replicas", "size(array_except(isr, replicas)) > 0", "has an ISR member outside of its replicas"
        ),
    ),
    gated=True,
)

REPLICAS = Table(
    "silver.replicas",
    "One row per replica; logs on disk that no assignment accounts for have no position.",
    columns(
        column("topic", TEXT, "topic name", required=True),
        column("partition", INT, "partition id", required=True),
        column("broker_id", INT, "broker that holds it", required=True),
        column("is_future", FLAG, "a log being moved between directories of one broker", required=True),
        column("position", INT, "place in the replica list, 0 = preferred leader; null = not assigned"),
        column("in_sync", FLAG, "in the ISR"),
        column("size_bytes", LONG, "size of its log, bytes; null = unknown"),
        column("offset_lag", LONG, "messages behind the high watermark or log end, as kafka-log-dirs says"),
        column("log_end_offset", LONG, "offset of the next message to be written"),
        column("high_watermark", LONG, "offset below which consumers read, as checkpointed"),
        column("log_dir", TEXT, "log directory"),
    ),
    keys=("cluster_id", "snapshot_id", "topic", "partition", "broker_id", "is_future"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "topic", "broker_id"),
    expectations=(Between("position", 0), Between("size_bytes", 0)),
)

QUARANTINE = Table(
    "silver.quarantine",
    "One row per rejected record, with every reason. Where only a part of a record is rejected, the rest is used.",
    columns(
        column("source", TEXT, "name of the file", required=True),
        column("record_number", LONG, "ordinal of the record in its file, from 0", required=True),
        column("line_number", LONG, "line of the file where the record begins, from 1", required=True),
        column("raw", TEXT, "the record's text", required=True),
        column("reasons", TEXTS, "every reason, in words", required=True),
    ),
    keys=("cluster_id", "snapshot_id", "source", "record_number"),
)

CONFLICTS = Table(
    "silver.conflicts",
    "One row per disagreement between two facts of a cluster's sources: which value is used, and which not.",
    columns(
        column("entity", TEXT, "what the facts are about", required=True),
        column("field", TEXT, "where they differ", required=True),
        column("source", TEXT, "file of the one value"),
        column("line_number", LONG, "line of the one value"),
        column("value", TEXT, "the one value, of the stronger or first source"),
        column("other_source", TEXT, "file of the other value"),
        column("other_line_number", LONG, "line of the other value"),
        column("other_value", TEXT, "the other value"),
        column("outcome", TEXT, "whether the one value is used, or both records are quarantined", required=True),
    ),
    keys=(),
)

SOURCE_SUMMARY = Table(
    "silver.source_summary",
    "One row per source file: every record is kept, quarantined or ignored, and the three add up.",
    columns(
        column("source", TEXT, "name of the file", required=True),
        column("format", TEXT, "format it was read as", required=True),
        column("records", LONG, "input records", required=True),
        column("kept", LONG, "records that say something about the cluster", required=True),
        column("quarantined", LONG, "records rejected, see silver.quarantine", required=True),
        column("ignored", LONG, "records that carry nothing for us", required=True),
        column("ignored_reasons", pa.map_(TEXT, LONG), "ignored records by reason", required=True),
    ),
    keys=("cluster_id", "snapshot_id", "source"),
    expectations=(
        NoRowWhere(
            "records_add_up", "kept + quarantined + ignored <> records", "loses records: the parts do not add up"
        ),
        NoRowWhere(
            "something_kept",
            "records > 0 AND kept = 0 AND quarantined > 0",
            "is wholly quarantined: nothing of it is left",
        ),
    ),
    gated=True,
)
