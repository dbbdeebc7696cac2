"""The tables that resolving gives, as Arrow schemas. `pipelines/tables.py` documents their columns."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pyarrow as pa

_INTS = pa.list_(pa.int32())

LOG = pa.struct(
    [
        ("size_bytes", pa.int64()),
        ("offset_lag", pa.int64()),
        ("log_end_offset", pa.int64()),
        ("high_watermark", pa.int64()),
        ("log_dir", pa.string()),
    ]
)

PARTITIONS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("leader", pa.int32()),  # -1 = none; null = no source says
        ("leader_epoch", pa.int32()),
        ("replicas", _INTS),  # null = no source says: only the topic's partition count is known
        ("isr", _INTS),
        ("elr", _INTS),
        ("last_known_elr", _INTS),
        ("adding_replicas", _INTS),
        ("removing_replicas", _INTS),
        ("size_bytes", pa.int64()),
        ("bytes_in_per_s", pa.float64()),
        ("bytes_out_per_s", pa.float64()),
        ("logs", pa.list_(LOG)),  # beside `replicas`, element by element; null = no log of it is known
        ("source", pa.string()),
        ("line_number", pa.int64()),
    ]
)

TOPICS = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partitions", pa.int32()),
        ("listed_partitions", pa.int32()),
        ("replication_factor", pa.int32()),
        ("min_insync_replicas", pa.int32()),
        ("unclean_leader_election", pa.bool_()),
        ("configs", pa.map_(pa.string(), pa.string())),
        ("marked_for_deletion", pa.bool_()),
        ("incomplete", pa.bool_()),
        ("warnings", pa.list_(pa.string())),
        (
            "partition_loads",
            pa.list_(
                pa.struct(
                    [
                        ("partition", pa.int32()),
                        ("size_bytes", pa.int64()),
                        ("bytes_in_per_s", pa.float64()),
                        ("bytes_out_per_s", pa.float64()),
                    ]
                )
            ),
        ),
    ]
)

REGISTRATIONS = pa.schema(
    [
        ("broker_id", pa.int32()),
        ("rack", pa.string()),
        ("host", pa.string()),
        ("port", pa.int32()),
        ("registered", pa.bool_()),
        ("answers", pa.bool_()),
        ("listed", pa.bool_()),  # false = a complete list does not name it
        ("fenced", pa.bool_()),
        ("controller", pa.bool_()),
        ("draining", pa.bool_()),
    ]
)

STRAY_LOGS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("broker_id", pa.int32()),
        ("is_future", pa.bool_()),
        ("log", LOG),
    ]
)

QUARANTINE = pa.schema(
    [
        ("source", pa.string()),
        ("record_number", pa.int64()),
        ("line_number", pa.int64()),
        ("reasons", pa.list_(pa.string())),
    ]
)

# Outcomes of a conflict.
USED = "value is used, other_value is not"
QUARANTINED = "both are quarantined"

CONFLICTS = pa.schema(
    [
        ("entity", pa.string()),  # "partition orders-3", "topic orders", "broker 7"
        ("field", pa.string()),
        ("source", pa.string()),
        ("line_number", pa.int64()),
        ("value", pa.string()),
        ("other_source", pa.string()),
        ("other_line_number", pa.int64()),
        ("other_value", pa.string()),
        ("outcome", pa.string()),  # USED or QUARANTINED
    ]
)

# How many records of a source were kept, quarantined or ignored, and ignored why.
ACCOUNTS = pa.schema(
    [("source", pa.string()), ("verdict", pa.string()), ("reason", pa.string()), ("records", pa.int64())]
)


# What brokers do in the partitions of a shard; summed over all shards, it tells who lives.
USAGE = pa.schema(
    [
        ("broker_id", pa.int32()),
        ("replicas", pa.int64()),
        ("leaders", pa.int64()),
        ("in_sync", pa.int64()),  # ISR memberships in partitions that have a leader
        ("unknown", pa.int64()),  # replicas of partitions of which no source says leader or ISR
    ]
)


@dataclass(frozen=True)
class Resolution:
    """What a shard of one cluster's facts says, merged. Each attribute is a table of the schema of its name."""

    partitions: pa.Table
    topics: pa.Table
    registrations: pa.Table
    stray_logs: pa.Table
    quarantine: pa.Table
    conflicts: pa.Table
    accounts: pa.Table
    usage: pa.Table


SCHEMAS: dict[str, pa.Schema] = {
    "partitions": PARTITIONS,
    "topics": TOPICS,
    "registrations": REGISTRATIONS,
    "stray_logs": STRAY_LOGS,
    "quarantine": QUARANTINE,
    "conflicts": CONFLICTS,
    "accounts": ACCOUNTS,
    "usage": USAGE,
}
assert list(SCHEMAS) == [f.name for f in fields(Resolution)]
