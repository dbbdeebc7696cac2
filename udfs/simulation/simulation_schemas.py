"""Arrow schemas of a simulation: the event log that it reads, and the rows that it returns.

Each column is declared once, here; the tables in pipelines/tables/simulation_tables.py take their columns from these
schemas. Kinds, causes, states and errors are labels of the codes in udfs/simulation/kernels/codes.py.
"""

import pyarrow as pa

from udfs.arrow.columns import FLAG, INT, INTS, LONG, TEXT, column

LONGS = pa.list_(LONG)
KEY = [pa.field("cluster_id", TEXT), pa.field("snapshot_id", TEXT)]
KEY_NAMES = tuple(field.name for field in KEY)

_TOPIC = column("topic", TEXT, "topic name", required=True)
_PARTITION = column("partition", INT, "partition number", required=True)
_EVENT = column("event", LONG, "position in the cluster's order of events, from 0", required=True)
_AT = column(
    "at_ms", LONG, "time of the event, ms: since 1970 in a metadata log, else since the start of the scenario", True
)

EVENTS = pa.schema(
    [
        *KEY,
        column("event", LONG, "position in the cluster's order of events, from 0; -1 = initial state", required=True),
        _AT,
        column("offset", LONG, "offset in the log, or number of the snapshot or scenario sentence"),
        column("kind", TEXT, "what happens, see docs/replay.md", required=True),
        column("broker_id", INT, "broker that the event is about; null = none, or a consumer's fetch"),
        column("topic", TEXT, "topic; null = an event of brokers or the controller"),
        column("partition", INT, "partition number"),
        column(
            "value",
            LONG,
            "a flag, number or epoch, depending on the kind; of an initial broker: 1 = live, 2 = stopped cleanly",
        ),
        column("replicas", INTS, "new assignment; of an ISR event: the new ISR"),
        column("isr", INTS, "in-sync replicas; null = unchanged"),
        column("elr", INTS, "eligible leader replicas; null = unchanged"),
        column("last_known_elr", INTS, "last known leaders; null = unchanged"),
        column("adding_replicas", INTS, "replicas that a reassignment adds; null = unchanged"),
        column("removing_replicas", INTS, "replicas that a reassignment removes; null = unchanged"),
        column("leader", INT, "leader, -1 = none; null = unchanged"),
        column("leader_epoch", INT, "leader epoch; -1 = incremented if the event names a leader"),
        column("request", LONG, "number of the request that the event belongs to"),
        column("parts", INT, "partitions in that request"),
        column("acks", INT, "0, 1, or -1 for all"),
        column("messages", LONG, "messages appended"),
        column("wait_ms", LONG, "timeout of a produce request, maximum wait of a fetch, ms"),
        column("min_bytes", LONG, "bytes that a fetch waits for"),
        column("fetch_offset", LONG, "offset that a fetch starts at; null = the replica's log end"),
        column("log_end_offset", LONG, "log end offset that a source shows of the broker's replica"),
        column("high_watermark", LONG, "high watermark that a source shows of the broker's replica"),
        # Of a cluster: its settings, start and end (ms), the number of the event after the last one, the controller
        # (-1 = unknown), its epoch. Of a partition: whether unclean elections are allowed, its min.insync.replicas,
        # the epoch of the controller that wrote it, then the LEOs and high watermarks of its replicas, if known.
        column("numbers", LONGS, "of the initial state: settings and times, or offsets"),
    ]
)
LISTS = ("replicas", "isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas")
# Events on their way to Spark workers: `lists` holds LISTS and `numbers` one after another, each after its length
# (-1 = null), and is empty if all are null. Spark is slow at handing columns of null lists to Python.
WIRE = pa.schema([*(field for field in EVENTS if not pa.types.is_list(field.type)), pa.field("lists", LONGS)])

LEADERSHIPS = pa.schema(
    [
        *KEY,
        column("event", LONG, "event that caused it, or the next event if time caused it; counted from 0", True),
        _AT,
        _TOPIC,
        _PARTITION,
        column("step", INT, "position among the changes that the event made to this partition, from 0", True),
        column("cause", TEXT, "why it was written", required=True),
        column("leader_before", INT, "leader until then; null = none"),
        column("leader", INT, "leader from then on; null = none"),
        column("leader_epoch", INT, "leader epoch from then on", required=True),
        column("controller_epoch", INT, "epoch of the controller", required=True),
        column("isr", INTS, "in-sync replicas from then on, in their order", required=True),
    ]
)
TRANSITIONS = pa.schema(
    [
        *KEY,
        _EVENT,
        _AT,
        _TOPIC,
        _PARTITION,
        column("step", INT, "position among this partition's transitions at the event, from 0", required=True),
        column("broker_id", INT, "the replica's broker; null = the partition's own state"),
        column("from_state", TEXT, "state until then, as Kafka names it", required=True),
        column("to_state", TEXT, "state that the controller attempted to set", required=True),
        column("cause", TEXT, "why the transition was attempted", required=True),
        column("leader_epoch", INT, "leader epoch at the time"),
        column("controller_epoch", INT, "epoch of the controller"),
        column("legal", FLAG, "whether Kafka allows the transition; if not, the state stays as it was", required=True),
    ]
)
HEALTH = pa.schema(
    [
        *KEY,
        _TOPIC,
        _PARTITION,
        column("from_ms", LONG, "start of the period, ms", required=True),
        column("to_ms", LONG, "end of the period, ms", required=True),
        column("leader", INT, "live leader; null = none: no client can write or read"),
        column("leader_epoch", INT, "leader epoch"),
        column("replication_factor", INT, "assigned replicas", required=True),
        column("in_sync", INT, "in-sync replicas", required=True),
        column("min_insync_replicas", INT, "min.insync.replicas"),
        column("under_replicated", FLAG, "fewer in-sync replicas than assigned ones, of several"),
        column("at_min_isr", FLAG, "exactly as many in-sync replicas as acks=all needs"),
        column("under_min_isr", FLAG, "fewer in-sync replicas than acks=all needs"),
        column("log_end_offset", LONG, "log end offset of the leader, or of the last leader if there is none"),
        column("high_watermark", LONG, "offset below which all in-sync replicas have all messages"),
        column("visible_offset", LONG, "the leader's own high watermark, below which consumers read"),
        column("exposed_acks_0_messages", LONG, "messages with acks=0 above the high watermark"),
        column("exposed_acks_1_messages", LONG, "messages with acks=1 above the high watermark, though acknowledged"),
        column("exposed_acks_all_messages", LONG, "messages with acks=all above the high watermark, not acknowledged"),
        column("at_the_end", FLAG, "whether the period lasts until the end of the replay", required=True),
        column("replicas", INTS, "assigned replicas at the end of the replay"),
        column("log_end_offsets", LONGS, "log end offset of each of these replicas"),
        column("high_watermarks", LONGS, "high watermark that each of these replicas knows"),
        column("lag_messages", LONG, "messages that the replica furthest behind has yet to fetch"),
    ]
)
# One row per partition of a request, as the partition alone sees it.
REQUESTS = pa.schema(
    [
        *KEY,
        column("request", LONG, "number of the request; several partitions can share one"),
        _TOPIC,
        _PARTITION,
        _EVENT,
        _AT,
        column("kind", TEXT, "produce, fetch of a replica, fetch of a consumer", required=True),
        column("broker_id", INT, "broker of the replica that fetches"),
        column("parts", INT, "partitions in the request", required=True),
        column("acks", INT, "of a produce request: 0, 1, or -1 for all"),
        column("delayed", FLAG, "whether it had to wait (in the purgatory)", required=True),
        column("error", TEXT, "error of the whole request: that of the part that failed first", required=True),
        column("answered_by", TEXT, "what completed the request", required=True),
        column("answered_at_ms", LONG, "when it was answered, ms; null = never, or not yet"),
        column("waited_ms", LONG, "time until the answer, ms"),
        column(
            "base_offset", LONG, "offset of the first message; -1 = acks=0; null = nothing written, or fetch rejected"
        ),
        column("messages", LONG, "messages written or read", required=True),
        column("high_watermark", LONG, "of a fetch: the high watermark in its answer"),
        column("lost_messages", LONG, "messages of a produce request that were lost later, acknowledged or not"),
        column("lost_at_ms", LONG, "when the first of them were lost, ms"),
        column("min_bytes", LONG, "bytes that a fetch waits for"),
        column("deadline_ms", LONG, "when a delayed request times out, ms"),
        column("progress_ms", LONGS, "of a consumer's fetch that waits: when more bytes became readable, ms"),
        column("progress_bytes", LONGS, "how many were readable then; -1 = the leader had failed"),
        column("message_bytes", LONG, "bytes per message that a fetch assumes"),
    ]
)
# Columns that only the join of the parts of a request needs.
COLUMNS_FOR_JOINS = ("min_bytes", "deadline_ms", "progress_ms", "progress_bytes", "message_bytes")
# The same with error, answer and waiting time of the request as a whole.
JOINED_REQUESTS = pa.schema(
    [
        *REQUESTS,
        column("part_error", TEXT, "the error of this partition alone"),
        column("part_answered_at_ms", LONG, "when this partition alone could be answered, ms; null = never"),
    ]
)
STATES_AT_END = pa.schema(
    [
        *KEY,
        _TOPIC,
        _PARTITION,
        column("leader", INT, "live leader; null = none"),
        column("leader_epoch", INT, "leader epoch", required=True),
        column("controller_epoch", INT, "epoch of the controller that wrote it", required=True),
        column("replicas", INTS, "assigned replicas, preferred leader first", required=True),
        column("isr", INTS, "in-sync replicas", required=True),
        column("elr", INTS, "eligible leader replicas"),
        column("state", TEXT, "last state that a controller set, as Kafka names it", required=True),
    ]
)

_GROUP_EVENT = "position among the consumer group events, from 0; these are not in silver.cluster_events"
GROUP_REQUESTS = pa.schema(
    [
        *KEY,
        column("event", LONG, _GROUP_EVENT, required=True),
        _AT,
        column("kind", TEXT, "join, sync, heartbeat, leave", required=True),
        column("group_id", TEXT, "name of the group", required=True),
        column("member", TEXT, "name of the member, unique in its group", required=True),
        column("answered_at_ms", LONG, "when the request was answered, ms; null = never, or not yet"),
        column("answered_by", TEXT, "what completed or dropped the request", required=True),
        column("error", TEXT, "error in the answer, as Kafka names it", required=True),
        column("generation", INT, "generation in the answer; null = none"),
        column("leader", TEXT, "leader of the group in the answer; null = none"),
        column("delayed", FLAG, "whether the request had to wait (in the purgatory)", required=True),
        column(
            "heartbeat_ended_at_ms",
            LONG,
            "when the delayed heartbeat that it created ended, ms; null = none, or not yet",
        ),
        column("heartbeat_ended_by", TEXT, "what ended that heartbeat; null = the request created none"),
    ]
)
GROUP_TRANSITIONS = pa.schema(
    [
        *KEY,
        column("group_id", TEXT, "name of the group", required=True),
        column("step", INT, "position among the group's changes, from 0", required=True),
        _AT,
        column("event", LONG, f"{_GROUP_EVENT}; null = a timer made the change"),
        column("from_state", TEXT, "state until then, as Kafka names it", required=True),
        column("to_state", TEXT, "state from then on", required=True),
        column("cause", TEXT, "why the state changed", required=True),
        column("generation", INT, "generation from then on", required=True),
        column("leader", TEXT, "leader of the group from then on; null = none"),
    ]
)
