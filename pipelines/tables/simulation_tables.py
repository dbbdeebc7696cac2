"""Tables of a simulation: the event log that `replay` writes, and what follows from it."""

import pyarrow as pa

from pipelines.tables.table_contract import Between, OneOf, Table, columns
from udfs.arrow.table_columns import BINARY, DOUBLE, INT, LONG, TEXT, column
from udfs.simulation import simulation_schemas as schemas
from udfs.simulation.kernels.codes import AnsweredBy, ChangeCause, EventKind, PartitionState, RequestError
from udfs.simulation.kernels.group_codes import GroupCause, GroupError, GroupEventKind, GroupState

# Columns of requests that only the join of their parts needs.
_ONLY_FOR_JOINS = ("min_bytes", "deadline_ms", "progress_ms", "progress_bytes", "message_bytes")
_ROW_KEYS = (*schemas.KEY_NAMES, "event", "topic", "partition", "step")
_PARTITION_KEYS = (*schemas.KEY_NAMES, "topic", "partition")


def _columns_of(schema: pa.Schema, without: tuple[str, ...] = ()) -> tuple[pa.Field, ...]:
    return columns(*(field for field in schema if field.name not in (*schemas.KEY_NAMES, *without)))


CLUSTER_EVENTS = Table(
    "silver.cluster_events",
    "One row per event of a replayed cluster, and per broker and partition of its initial state (event -1).",
    _columns_of(schemas.EVENTS),
    keys=(),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "event", "at_ms", "kind"),
    expectations=(OneOf("kind", EventKind.labels()), Between("event", -1), Between("messages", 0)),
)

SIMULATION_RESULTS = Table(
    "internal.simulation_results",
    "All rows that a simulation returns, as Arrow IPC batches; the gold tables of a replay are unpacked from it. "
    "Nothing else should read it.",
    columns(
        column("part", TEXT, "which rows these are, see RESULT_SCHEMAS in udfs/simulation/spark_functions.py", True),
        column("rows", BINARY, "the rows, as an Arrow IPC batch", required=True),
    ),
    keys=(),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "part"),
)

LEADERSHIP_EVENTS = Table(
    "gold.leadership_events",
    "One row per leader, ISR or leader epoch that a controller or a leader wrote in a replay.",
    _columns_of(schemas.LEADERSHIPS),
    keys=_ROW_KEYS,
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "event", "at_ms", "topic"),
    expectations=(OneOf("cause", ChangeCause.labels()), Between("leader_epoch", 0)),
)

STATE_TRANSITIONS = Table(
    "gold.state_transitions",
    "One row per attempted transition of a partition's or a replica's state in a replay, legal or not.",
    _columns_of(schemas.TRANSITIONS),
    keys=_ROW_KEYS,
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "event", "at_ms", "topic"),
    expectations=(OneOf("cause", ChangeCause.labels()),),
)

REPLICATION_HEALTH = Table(
    "gold.replication_health",
    "One row per partition and period in which its leader, epoch, ISR and minimum ISR stayed the same; offsets and "
    "exposure are those at its end, null = no event shows data.",
    _columns_of(schemas.HEALTH),
    keys=(*_PARTITION_KEYS, "from_ms"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "topic", "from_ms", "to_ms"),
)

REQUESTS = Table(
    "gold.requests",
    "One row per partition of a produce or fetch request in a replay: how, when and why the request was answered.",
    _columns_of(schemas.JOINED_REQUESTS, without=_ONLY_FOR_JOINS),
    keys=(*schemas.KEY_NAMES, "event", "topic", "partition"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "event", "at_ms", "topic"),
    expectations=(
        OneOf("error", RequestError.labels()),
        OneOf("answered_by", AnsweredBy.labels()),
        Between("lost_messages", 0),
    ),
)

FINAL_PARTITIONS = Table(
    "gold.final_partitions",
    "One row per partition that exists at the end of a replay: leader, replicas, ISR, state.",
    _columns_of(schemas.STATES_AT_END),
    keys=_PARTITION_KEYS,
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "topic"),
    expectations=(OneOf("state", PartitionState.labels()),),
)

AVAILABILITY = Table(
    "gold.availability",
    "One row per partition, and per topic as a whole (partition -1): how long it had no leader in a replay.",
    columns(
        column("topic", TEXT, "topic name", required=True),
        column("partition", INT, "partition number; -1 = the whole topic, times summed over its partitions", True),
        column("observed_ms", LONG, "time that the replay covers, ms", required=True),
        column("without_leader_ms", LONG, "time without a leader, ms", required=True),
        column("under_replicated_ms", LONG, "time with fewer in-sync replicas than assigned ones, ms"),
        column("at_min_isr_ms", LONG, "time with exactly as many in-sync replicas as acks=all needs, ms"),
        column("under_min_isr_ms", LONG, "time with fewer in-sync replicas than acks=all needs, ms"),
        column("outages", LONG, "periods without a leader"),
        column("longest_outage_ms", LONG, "longest period without a leader, ms"),
        column("led_ratio", DOUBLE, "fraction of the time with a leader"),
    ),
    keys=_PARTITION_KEYS,
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "topic"),
    expectations=(Between("led_ratio", 0, 1),),
)

GROUP_REQUESTS = Table(
    "gold.group_requests",
    "One row per join, sync, heartbeat or leave of a consumer group member in a replay: how, when and why the group's "
    "coordinator answered.",
    _columns_of(schemas.GROUP_REQUESTS),
    keys=(*schemas.KEY_NAMES, "event"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "event", "at_ms", "group_id"),
    expectations=(
        OneOf("kind", GroupEventKind.labels()),
        OneOf("error", GroupError.labels()),
        OneOf("answered_by", GroupCause.labels()),
        Between("generation", 0),
    ),
)

GROUP_TRANSITIONS = Table(
    "gold.group_transitions",
    "One row per state change of a consumer group in a replay.",
    _columns_of(schemas.GROUP_TRANSITIONS),
    keys=(*schemas.KEY_NAMES, "group_id", "step"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "group_id", "at_ms"),
    expectations=(
        OneOf("from_state", GroupState.labels()),
        OneOf("to_state", GroupState.labels()),
        OneOf("cause", GroupCause.labels()),
        Between("generation", 0),
    ),
)
