"""Arrow schemas of a replay: the event log that goes in, and the rows that come out. Kinds are names of words.py."""

from __future__ import annotations

import pyarrow as pa

IDS = pa.list_(pa.int32())
KEY = [pa.field("cluster_id", pa.string()), pa.field("snapshot_id", pa.string())]
PLACE = [pa.field("topic", pa.string()), pa.field("partition", pa.int32())]

# `event`: place in its cluster's order, from 0; -1 = how it is at first. `numbers`: of a cluster at first its rules,
# start and end (ms), the number of the event that would be next, the controller (-1 = not known), its epoch; of a
# partition at first whether unclean elections are allowed, its minimum ISR, the epoch of the controller that wrote it,
# then LEOs and high watermarks of its replicas (or none). `value` of a broker at first: 1 = live.
EVENTS = pa.schema(
    [
        *KEY,
        pa.field("event", pa.int64()),
        pa.field("at_ms", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("broker_id", pa.int32()),
        *PLACE,
        pa.field("value", pa.int64()),
        pa.field("replicas", IDS),
        pa.field("isr", IDS),
        pa.field("elr", IDS),
        pa.field("last_known_elr", IDS),
        pa.field("adding_replicas", IDS),
        pa.field("removing_replicas", IDS),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("request", pa.int64()),
        pa.field("parts", pa.int32()),
        pa.field("acks", pa.int32()),
        pa.field("messages", pa.int64()),
        pa.field("wait_ms", pa.int64()),
        pa.field("min_bytes", pa.int64()),
        pa.field("fetch_offset", pa.int64()),
        pa.field("log_end_offset", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        pa.field("numbers", pa.list_(pa.int64())),
    ]
)
LISTS = ("replicas", "isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas")
# As they travel to workers: `lists` holds the lists and `numbers` one behind another, each after its length (-1 =
# null); empty where all are null. Spark hands columns of null lists to Python slowly.
WIRE = pa.schema(
    [*(field for field in EVENTS if not pa.types.is_list(field.type)), pa.field("lists", pa.list_(pa.int64()))]
)

LEADERSHIPS = pa.schema(
    [
        *KEY,
        pa.field("event", pa.int64()),
        pa.field("at_ms", pa.int64()),
        *PLACE,
        pa.field("step", pa.int32()),
        pa.field("cause", pa.string()),
        pa.field("leader_before", pa.int32()),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("controller_epoch", pa.int32()),
        pa.field("isr", IDS),
    ]
)
TRANSITIONS = pa.schema(
    [
        *KEY,
        pa.field("event", pa.int64()),
        pa.field("at_ms", pa.int64()),
        *PLACE,
        pa.field("step", pa.int32()),
        pa.field("broker_id", pa.int32()),
        pa.field("from_state", pa.string()),
        pa.field("to_state", pa.string()),
        pa.field("cause", pa.string()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("controller_epoch", pa.int32()),
        pa.field("legal", pa.bool_()),
    ]
)
HEALTH = pa.schema(
    [
        *KEY,
        *PLACE,
        pa.field("from_ms", pa.int64()),
        pa.field("to_ms", pa.int64()),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("replication_factor", pa.int32()),
        pa.field("in_sync", pa.int32()),
        pa.field("min_insync_replicas", pa.int32()),
        pa.field("under_replicated", pa.bool_()),
        pa.field("at_min_isr", pa.bool_()),
        pa.field("under_min_isr", pa.bool_()),
        pa.field("log_end_offset", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        pa.field("visible_offset", pa.int64()),
        pa.field("exposed_acks_0_messages", pa.int64()),
        pa.field("exposed_acks_1_messages", pa.int64()),
        pa.field("exposed_acks_all_messages", pa.int64()),
        pa.field("at_the_end", pa.bool_()),
        pa.field("replicas", IDS),
        pa.field("log_end_offsets", pa.list_(pa.int64())),
        pa.field("high_watermarks", pa.list_(pa.int64())),
        pa.field("lag_messages", pa.int64()),
    ]
)
# progress: of a consumer's fetch of several partitions that waits, when this part could read so much; -1 = its leader
# has failed.
REQUESTS = pa.schema(
    [
        *KEY,
        pa.field("request", pa.int64()),
        *PLACE,
        pa.field("event", pa.int64()),
        pa.field("at_ms", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("broker_id", pa.int32()),
        pa.field("parts", pa.int32()),
        pa.field("acks", pa.int32()),
        pa.field("delayed", pa.bool_()),
        pa.field("error", pa.string()),
        pa.field("answered_by", pa.string()),
        pa.field("answered_at_ms", pa.int64()),
        pa.field("waited_ms", pa.int64()),
        pa.field("base_offset", pa.int64()),
        pa.field("messages", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        pa.field("lost_messages", pa.int64()),
        pa.field("lost_at_ms", pa.int64()),
        pa.field("min_bytes", pa.int64()),
        pa.field("deadline_ms", pa.int64()),
        pa.field("progress_ms", pa.list_(pa.int64())),
        pa.field("progress_bytes", pa.list_(pa.int64())),
        pa.field("message_bytes", pa.int64()),
    ]
)
# Requests of several parts as wholes (requests.py): each part's own error and time beside those of the request.
JOINED_REQUESTS = pa.schema(
    [*REQUESTS, pa.field("part_error", pa.string()), pa.field("part_answered_at_ms", pa.int64())]
)
STATES_AT_END = pa.schema(
    [
        *KEY,
        *PLACE,
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("controller_epoch", pa.int32()),
        pa.field("replicas", IDS),
        pa.field("isr", IDS),
        pa.field("elr", IDS),
        pa.field("state", pa.string()),
    ]
)
# Consumer groups. `event`: place among their events, which are no rows of EVENTS.
GROUP_REQUESTS = pa.schema(
    [
        *KEY,
        pa.field("event", pa.int64()),
        pa.field("at_ms", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("group_id", pa.string()),
        pa.field("member", pa.string()),
        pa.field("answered_at_ms", pa.int64()),
        pa.field("answered_by", pa.string()),
        pa.field("error", pa.string()),
        pa.field("generation", pa.int32()),
        pa.field("leader", pa.string()),
        pa.field("delayed", pa.bool_()),
        pa.field("heartbeat_ended_at_ms", pa.int64()),
        pa.field("heartbeat_ended_by", pa.string()),
    ]
)
GROUP_TRANSITIONS = pa.schema(
    [
        *KEY,
        pa.field("group_id", pa.string()),
        pa.field("step", pa.int32()),
        pa.field("at_ms", pa.int64()),
        pa.field("event", pa.int64()),
        pa.field("from_state", pa.string()),
        pa.field("to_state", pa.string()),
        pa.field("cause", pa.string()),
        pa.field("generation", pa.int32()),
        pa.field("leader", pa.string()),
    ]
)
