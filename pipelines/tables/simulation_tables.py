"""Tables of a simulation: the event log that `replay` writes, and what follows from it."""

from collections.abc import Iterable

import pyarrow as pa

from pipelines.tables.table_contract import Between, Expectation, OneOf, Table, columns
from udfs.arrow.columns import BINARY, DOUBLE, INT, LONG, TEXT, column
from udfs.simulation import simulation_schemas as schemas
from udfs.simulation.group_events import GroupCause, GroupError, GroupEventKind, GroupState
from udfs.simulation.kernels.codes import AnsweredBy, ChangeCause, EventKind, PartitionState, RequestError

_STEP_KEYS = ("event", "topic", "partition", "step")
_SKIP_EVENTS = ("event", "at_ms", "topic")


def _define_table(
    name: str,
    comment: str,
    fields: Iterable[pa.Field],
    keys: tuple[str, ...],
    skip_by: tuple[str, ...],
    expectations: tuple[Expectation, ...] = (),
) -> Table:
    """Define a table of replays. Its columns, keys and `skip_by` come after those that all tables share."""
    others = columns(*(field for field in fields if field.name not in schemas.KEY_NAMES))
    all_keys = (*schemas.KEY_NAMES, *keys) if keys else ()
    return Table(name, comment, others, all_keys, ("cluster_id",), ("snapshot_id", *skip_by), expectations)


CLUSTER_EVENTS = _define_table(
    "silver.cluster_events",
    "One row per event of a replayed cluster, and per broker and partition of its initial state (event -1).",
    schemas.EVENTS,
    (),
    ("event", "at_ms", "kind"),
    (OneOf("kind", EventKind.labels()), Between("event", -1), Between("messages", 0)),
)

SIMULATION_RESULTS = _define_table(
    "internal.simulation_results",
    "All rows that a simulation returns, as Arrow IPC batches; the gold tables of a replay are unpacked from it. "
    "Nothing else should read it.",
    (
        column("part", TEXT, "which rows these are, see RESULT_SCHEMAS in udfs/simulation/spark_functions.py", True),
        column("rows", BINARY, "the rows, as an Arrow IPC batch", required=True),
    ),
    (),
    ("part",),
)

LEADERSHIP_EVENTS = _define_table(
    "gold.leadership_events",
    "One row per leader, ISR or leader epoch that a controller or a leader wrote in a replay.",
    schemas.LEADERSHIPS,
    _STEP_KEYS,
    _SKIP_EVENTS,
    (OneOf("cause", ChangeCause.labels()), Between("leader_epoch", 0)),
)

STATE_TRANSITIONS = _define_table(
    "gold.state_transitions",
    "One row per attempted transition of a partition's or a replica's state in a replay, legal or not.",
    schemas.TRANSITIONS,
    _STEP_KEYS,
    _SKIP_EVENTS,
    (OneOf("cause", ChangeCause.labels()),),
)

REPLICATION_HEALTH = _define_table(
    "gold.replication_health",
    "One row per partition and period in which its leader, epoch, ISR and minimum ISR stayed the same; offsets and "
    "exposure are those at its end, null = no event shows data.",
    schemas.HEALTH,
    ("topic", "partition", "from_ms"),
    ("topic", "from_ms", "to_ms"),
)

REQUESTS = _define_table(
    "gold.requests",
    "One row per partition of a produce or fetch request in a replay: how, when and why the request was answered.",
    (field for field in schemas.JOINED_REQUESTS if field.name not in schemas.COLUMNS_FOR_JOINS),
    ("event", "topic", "partition"),
    _SKIP_EVENTS,
    (OneOf("error", RequestError.labels()), OneOf("answered_by", AnsweredBy.labels()), Between("lost_messages", 0)),
)

FINAL_PARTITIONS = _define_table(
    "gold.final_partitions",
    "One row per partition that exists at the end of a replay: leader, replicas, ISR, state.",
    schemas.STATES_AT_END,
    ("topic", "partition"),
    ("topic",),
    (OneOf("state", PartitionState.labels()),),
)

AVAILABILITY = _define_table(
    "gold.availability",
    "One row per partition, and per topic as a whole (partition -1): how long it had no leader in a replay.",
    (
        column("topic", TEXT, "topic name", required=True),
        column("partition", INT, "partition number; -1 = the whole topic, times summed over its partitions", True),
        column("observed_ms", LONG, "time that the replay covers, ms", required=True),
        column("without_leader_ms", LONG, "time without a leader, ms", required=True),
        column(
            "under_replicated_ms",
            LONG,
            "time with fewer in-sync replicas than assigned ones, of several, also without a leader, ms",
        ),
        column(
            "at_min_isr_ms",
            LONG,
            "time with exactly as many in-sync replicas as acks=all needs, ms; time without a leader counts too",
        ),
        column(
            "under_min_isr_ms", LONG, "time with fewer in-sync replicas than acks=all needs, also without a leader, ms"
        ),
        column("outages", LONG, "periods without a leader"),
        column("longest_outage_ms", LONG, "longest period without a leader, ms"),
        column("led_ratio", DOUBLE, "fraction of the time with a leader"),
    ),
    ("topic", "partition"),
    ("topic",),
    (Between("led_ratio", 0, 1),),
)

GROUP_REQUESTS = _define_table(
    "gold.group_requests",
    "One row per join, sync, heartbeat or leave of a consumer group member in a replay: how, when and why the group's "
    "coordinator answered.",
    schemas.GROUP_REQUESTS,
    ("event",),
    ("event", "at_ms", "group_id"),
    (
        OneOf("kind", GroupEventKind.labels()),
        OneOf("error", GroupError.labels()),
        OneOf("answered_by", GroupCause.labels()),
        Between("generation", 0),
    ),
)

GROUP_TRANSITIONS = _define_table(
    "gold.group_transitions",
    "One row per state change of a consumer group in a replay.",
    schemas.GROUP_TRANSITIONS,
    ("group_id", "step"),
    ("group_id", "at_ms"),
    (
        OneOf("from_state", GroupState.labels()),
        OneOf("to_state", GroupState.labels()),
        OneOf("cause", GroupCause.labels()),
        Between("generation", 0),
    ),
)
