"""What a replay reads and writes: the event log, and what follows from it."""

from __future__ import annotations

import pyarrow as pa

from pipelines.tables.table_contract import Between, OneOf, Table, columns
from udfs.arrow.table_columns import BINARY, TEXT, column
from udfs.simulation import simulation_schemas
from udfs.simulation.event_names import ANSWERS, CAUSES, ERRORS, KINDS, PARTITION_STATES
from udfs.simulation.groups import group_names


def _columns(of: pa.Schema, required: tuple[str, ...], **comments: str) -> tuple[pa.Field, ...]:
    """Columns as the Arrow schema has them, in the order of `comments`."""
    return columns(*(column(name, of.field(name).type, says, name in required) for name, says in comments.items()))


_EVENT = "place in the cluster's order of events, from 0"
_AT = "time of the event, ms: of the log's clock (since 1970), or since the begin of a scenario"
_PLACE = {"topic": "topic name", "partition": "partition number"}
_ROW_KEYS = ("cluster_id", "snapshot_id", "event", "topic", "partition", "step")

CLUSTER_EVENTS = Table(
    "silver.cluster_events",
    "One row per event of a cluster's replay, and per broker and partition as they are at first (event -1).",
    _columns(
        simulation_schemas.EVENTS,
        ("event", "at_ms", "kind"),
        event=_EVENT + "; -1 = how it is at first",
        at_ms=_AT,
        offset="where it stands: a log's offset, a snapshot's or a sentence's number",
        kind="what happens, see docs/replay.md",
        broker_id="broker that it is about; of a fetch null = a consumer's",
        topic="topic; null = an event of brokers or the controller",
        partition="partition number",
        value="what the kind says: a flag, a number, an epoch",
        replicas="new assignment; of an ISR event, who is in sync",
        isr="in-sync replicas; null = unchanged",
        elr="eligible leader replicas; null = unchanged",
        last_known_elr="last known leaders; null = unchanged",
        adding_replicas="replicas that a reassignment adds; null = unchanged",
        removing_replicas="replicas that a reassignment removes; null = unchanged",
        leader="leader, -1 = none; null = unchanged",
        leader_epoch="leader epoch; -1 = one more where a leader is named",
        request="number of the request that it belongs to",
        parts="partitions of that request",
        acks="0, 1, or -1 for all",
        messages="messages appended",
        wait_ms="timeout of a produce, longest wait of a fetch, ms",
        min_bytes="bytes that a fetch waits for",
        fetch_offset="offset that a fetch begins at; null = the replica's log end",
        log_end_offset="log end offset that is known of the broker's replica",
        high_watermark="high watermark that is known of the broker's replica",
        numbers="of rows at first: rules and times, or offsets; see udfs/simulation/simulation_schemas.py",
    ),
    keys=(),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "event", "at_ms", "kind"),
    expectations=(OneOf("kind", KINDS), Between("event", -1), Between("messages", 0)),
)

REPLAYED = Table(
    "internal.simulation_results",
    "All that a replay finds, packed: the gold tables of replays are its parts; nothing else should read it.",
    columns(
        column("part", TEXT, "what the rows are of, see udfs/simulation/spark_functions.py", required=True),
        column("rows", BINARY, "the rows, as an Arrow stream", required=True),
    ),
    keys=(),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "part"),
)

LEADERSHIP_EVENTS = Table(
    "gold.leadership_events",
    "One row per leader, ISR or leader epoch that a controller, or a leader, wrote in a replay.",
    _columns(
        simulation_schemas.LEADERSHIPS,
        ("event", "at_ms", "topic", "partition", "step", "cause", "leader_epoch", "controller_epoch", "isr"),
        event=_EVENT + ": the one that caused it, or before which it happened by time",
        at_ms=_AT,
        **_PLACE,
        step="place among what the event wrote of this partition, from 0",
        cause="why it was written",
        leader_before="leader until then; null = none",
        leader="leader from then on; null = none",
        leader_epoch="leader epoch from then on",
        controller_epoch="epoch of the controller",
        isr="in-sync replicas from then on, in their order",
    ),
    keys=_ROW_KEYS,
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "event", "at_ms", "topic"),
    expectations=(OneOf("cause", CAUSES), Between("leader_epoch", 0)),
)

STATE_TRANSITIONS = Table(
    "gold.state_transitions",
    "One row per transition of a partition's or a replica's state that was tried in a replay, legal or not.",
    _columns(
        simulation_schemas.TRANSITIONS,
        ("event", "at_ms", "topic", "partition", "step", "from_state", "to_state", "cause", "legal"),
        event=_EVENT,
        at_ms=_AT,
        **_PLACE,
        step="place among this partition's transitions at the event, from 0",
        broker_id="the replica's broker; null = the partition's own state",
        from_state="state until then, as Kafka names it",
        to_state="state that was wanted",
        cause="why",
        leader_epoch="leader epoch at the time",
        controller_epoch="epoch of the controller",
        legal="whether it may be: else it is only logged, and the state kept",
    ),
    keys=_ROW_KEYS,
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "event", "at_ms", "topic"),
    expectations=(OneOf("cause", CAUSES),),
)

REPLICATION_HEALTH = Table(
    "gold.replication_health",
    "One row per partition and time in which its leader, epoch, ISR and minimum stayed the same; offsets and exposure "
    "as they were at its end, null = no event told of data.",
    _columns(
        simulation_schemas.HEALTH,
        ("topic", "partition", "from_ms", "to_ms", "replication_factor", "in_sync", "at_the_end"),
        **_PLACE,
        from_ms="begin of the time, ms",
        to_ms="its end, ms",
        leader="leader that lives; null = none: nobody can write or read",
        leader_epoch="leader epoch",
        replication_factor="assigned replicas",
        in_sync="in-sync replicas",
        min_insync_replicas="min.insync.replicas",
        under_replicated="fewer in sync than assigned",
        at_min_isr="just as many in sync as acks=all needs",
        under_min_isr="fewer in sync than acks=all needs",
        log_end_offset="log end offset of the leader (the last one, where none is)",
        high_watermark="offset below which every in-sync replica has all; it falls only by an unclean election",
        visible_offset="the leader's own high watermark, below which consumers read",
        exposed_acks_0_messages="messages with acks=0 above the high watermark: lost if only the leader has them",
        exposed_acks_1_messages="messages with acks=1 above the high watermark, though acknowledged",
        exposed_acks_all_messages="messages with acks=all above the high watermark, not acknowledged yet",
        at_the_end="whether it lasts until the end of the replay",
        replicas="assigned replicas, at the end of the replay",
        log_end_offsets="log end offsets of these",
        high_watermarks="high watermarks that these know",
        lag_messages="messages that the replica farthest behind has yet to fetch",
    ),
    keys=("cluster_id", "snapshot_id", "topic", "partition", "from_ms"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "topic", "from_ms", "to_ms"),
)

REQUESTS = Table(
    "gold.requests",
    "One row per partition of a produce or fetch request in a replay: what the request was answered, when, by what.",
    _columns(
        simulation_schemas.JOINED_REQUESTS,
        ("topic", "partition", "event", "at_ms", "kind", "parts", "delayed", "error", "answered_by", "messages"),
        request="number of the request; several partitions share one",
        **_PLACE,
        event=_EVENT,
        at_ms=_AT,
        kind="produce, fetch of a replica, fetch of a consumer",
        broker_id="the replica's broker, of its fetch",
        parts="partitions of the request",
        acks="of a produce: 0, 1, or -1 for all",
        delayed="whether it had to wait (in the purgatory)",
        error="of the whole request: that of the part that failed first; each part is answered its part_error",
        answered_by="what let it be answered",
        answered_at_ms="when, ms; null = never, or not yet",
        waited_ms="after how long, ms",
        base_offset="offset of the first message; of a produce -1 with acks=0; null = nothing was written, or a fetch "
        "was rejected",
        messages="messages written, or read",
        high_watermark="of a fetch: the high watermark that its answer carries",
        lost_messages="messages of a produce that were lost later, acknowledged or not",
        lost_at_ms="when the first of them were, ms",
        part_error="the error of this partition alone",
        part_answered_at_ms="when this partition alone was ready to be answered, ms; null = never",
    ),
    keys=("cluster_id", "snapshot_id", "event", "topic", "partition"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "event", "at_ms", "topic"),
    expectations=(OneOf("error", ERRORS), OneOf("answered_by", ANSWERS), Between("lost_messages", 0)),
)

FINAL_PARTITIONS = Table(
    "gold.final_partitions",
    "One row per partition that exists when a replay ends: leader, lists, state.",
    _columns(
        simulation_schemas.STATES_AT_END,
        ("topic", "partition", "leader_epoch", "controller_epoch", "replicas", "isr", "state"),
        **_PLACE,
        leader="leader that lives; null = none",
        leader_epoch="leader epoch",
        controller_epoch="epoch of the controller that wrote it",
        replicas="assigned replicas, preferred leader first",
        isr="in-sync replicas",
        elr="eligible leader replicas",
        state="state of the partition, as Kafka names it: the last that a controller gave it",
    ),
    keys=("cluster_id", "snapshot_id", "topic", "partition"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "topic"),
    expectations=(OneOf("state", PARTITION_STATES),),
)

_AVAILABLE = pa.schema(
    [
        *simulation_schemas.PLACE,
        *(
            pa.field(name, pa.int64())
            for name in (
                "observed_ms",
                "without_leader_ms",
                "under_replicated_ms",
                "at_min_isr_ms",
                "under_min_isr_ms",
                "outages",
                "longest_outage_ms",
            )
        ),
        pa.field("led_ratio", pa.float64()),
    ]
)
AVAILABILITY = Table(
    "gold.availability",
    "One row per partition, and per topic as a whole (partition -1): how long it had no leader in a replay.",
    _columns(
        _AVAILABLE,
        ("topic", "partition", "observed_ms", "without_leader_ms"),
        topic="topic name",
        partition="partition number; -1 = all of the topic, times added up over its partitions",
        observed_ms="time that the replay covers, ms",
        without_leader_ms="of it without a leader, ms",
        under_replicated_ms="with fewer in sync than assigned, ms",
        at_min_isr_ms="with just as many in sync as acks=all needs, ms",
        under_min_isr_ms="with fewer, ms",
        outages="times without a leader",
        longest_outage_ms="the longest of them, ms",
        led_ratio="share of the time with a leader",
    ),
    keys=("cluster_id", "snapshot_id", "topic", "partition"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "topic"),
    expectations=(Between("led_ratio", 0, 1),),
)

_GROUP_EVENT = "place among the events of groups, from 0: these are not in silver.cluster_events"
GROUP_REQUESTS = Table(
    "gold.group_requests",
    "One row per join, sync, heartbeat or leave of a consumer group's member in a replay: what its coordinator "
    "answered, when, by what.",
    _columns(
        simulation_schemas.GROUP_REQUESTS,
        ("event", "at_ms", "kind", "group_id", "member", "answered_by", "error", "delayed"),
        event=_GROUP_EVENT,
        at_ms=_AT,
        kind="join, sync, heartbeat, leave",
        group_id="name of the group",
        member="name of the member, unique in its group",
        answered_at_ms="when it was answered, ms; null = never, or not yet",
        answered_by="what let it be answered, or dropped it",
        error="error of the answer, as Kafka names it",
        generation="generation that the answer tells; null = none",
        leader="member that leads the group as the answer tells; null = none",
        delayed="whether it had to wait (in the purgatory)",
        heartbeat_ended_at_ms="when the delayed heartbeat ended that it made, ms; null = it made none, or not yet",
        heartbeat_ended_by="what ended that; null = it made none",
    ),
    keys=("cluster_id", "snapshot_id", "event"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "event", "at_ms", "group_id"),
    expectations=(
        OneOf("kind", group_names.KINDS),
        OneOf("error", group_names.ERRORS),
        OneOf("answered_by", group_names.CAUSES),
        Between("generation", 0),
    ),
)

GROUP_TRANSITIONS = Table(
    "gold.group_transitions",
    "One row per change of a consumer group's state in a replay.",
    _columns(
        simulation_schemas.GROUP_TRANSITIONS,
        ("group_id", "step", "at_ms", "from_state", "to_state", "cause", "generation"),
        group_id="name of the group",
        step="place among the group's changes, from 0",
        at_ms="time of the change, ms: as that of events",
        event=_GROUP_EVENT + "; null = a timer made the change",
        from_state="state until then, as Kafka names it",
        to_state="state from then on",
        cause="why",
        generation="generation from then on",
        leader="member that leads the group from then on; null = none",
    ),
    keys=("cluster_id", "snapshot_id", "group_id", "step"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "group_id", "at_ms"),
    expectations=(
        OneOf("from_state", group_names.STATES),
        OneOf("to_state", group_names.STATES),
        OneOf("cause", group_names.CAUSES),
        Between("generation", 0),
    ),
)
