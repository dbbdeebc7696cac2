"""The entities that merging gives. Their columns are declared here once; the silver tables consist of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa

from udfs.arrow.columns import DOUBLE, FLAG, INT, INTS, LONG, TEXT, TEXTS, column, schema_of

SOURCE = column("source", TEXT, "name of the file", required=True)
RECORD_NUMBER = column("record_number", LONG, "ordinal of the record in its file, from 0", required=True)
LINE_NUMBER = column("line_number", LONG, "line of the file where the record begins, from 1", required=True)
TOPIC = column("topic", TEXT, "topic name", required=True)
PARTITION = column("partition", INT, "partition id", required=True)
BROKER_ID = column("broker_id", INT, "broker id", required=True)

LOADS = (
    column("size_bytes", LONG, "size of the leader's log, bytes; null = unknown"),
    column("bytes_in_per_s", DOUBLE, "bytes per second that producers write; null = unknown"),
    column("bytes_out_per_s", DOUBLE, "bytes per second that consumers fetch; null = unknown"),
)
LOAD_SOURCE = column(
    "load_source",
    TEXT,
    "how its bytes per second are known: partition = a source shows them; offsets, even = its share of what its leader "
    "transfers of the topic, by the records appended or the same for all; topic = the same share of the topic's; "
    "null = unknown",
)
LOG_COLUMNS = (
    column("size_bytes", LONG, "size of its log, bytes; null = unknown"),
    column("offset_lag", LONG, "messages behind the high watermark or log end, as kafka-log-dirs shows it"),
    column("log_end_offset", LONG, "offset of the next message to be written"),
    column("high_watermark", LONG, "offset below which consumers read, as checkpointed"),
    column("log_dir", TEXT, "log directory"),
)


def to_struct(columns: Iterable[pa.Field]) -> pa.StructType:
    """Return a struct type of the columns' names and types, without comments; every field is nullable."""
    return pa.struct(list(schema_of(columns)))


LOG = to_struct(LOG_COLUMNS)

PARTITIONS = pa.schema(
    [
        TOPIC,
        PARTITION,
        column("leader", INT, "broker that leads; -1 = none; null = unknown, and so are the replicas"),
        column("leader_epoch", INT, "leader epoch"),
        column("replicas", INTS, "assigned replicas (AR), preferred leader first; null = unknown"),
        column("isr", INTS, "in-sync replicas; null = unknown, and so are the replicas"),
        column("elr", INTS, "eligible leader replicas (Kafka 4)"),
        column("last_known_elr", INTS, "last known ELR (Kafka 4)"),
        column("adding_replicas", INTS, "replicas being added by a reassignment"),
        column("removing_replicas", INTS, "replicas being removed by a reassignment"),
        column("observers", INTS, "Confluent: replicas that join the ISR only if promoted; null = not shown"),
        column("offline_replicas", INTS, "replicas on offline brokers or log directories; null = not shown"),
        *LOADS,
        LOAD_SOURCE,
        column("logs", pa.list_(LOG), "log of each replica, in the order of `replicas`; null = no log is known"),
        column("source", TEXT, "file that shows it"),
        column("line_number", LONG, "line in that file"),
    ]
)
STATE_INFERRED = column(
    "state_inferred",
    FLAG,
    "no source shows its leader or its ISR: what is missing is inferred as healthy",
    required=True,
)
INFERRED_PARTITIONS = PARTITIONS.append(STATE_INFERRED)

TOPIC_LOADS = pa.schema(
    [
        column("topic", TEXT, "topic name; null = all topics of the broker, as the broker itself counts them"),
        BROKER_ID,
        *(
            column(f"bytes_{way}_{name}per_s", DOUBLE, f"bytes per second that {what}{text}; null = unknown")
            for way, what in (("in", "producers write"), ("out", "consumers fetch"))
            for name, text in (
                ("", ": the one of the others that metrics.statistic chooses"),
                ("mean_", ", mean over the window"),
                ("p95_", ", which they do not exceed in 95 % of the window"),
                ("peak_", ", the highest within the window"),
            )
        ),
    ]
)

TOPICS = pa.schema(
    [
        TOPIC,
        column("topic_id", TEXT, "topic id (Kafka 2.8 and later)"),
        column("partitions", INT, "declared partitions, or the highest shown id + 1 if that is more", required=True),
        column("listed_partitions", INT, "partitions that the sources show", required=True),
        column("replication_factor", INT, "declared, else that of partition 0, as it will be once reassigned"),
        column(
            "min_insync_replicas",
            INT,
            "min.insync.replicas of the topic or of all topics, or the least that ISRs show; null = not shown",
        ),
        column("unclean_leader_election", FLAG, "unclean.leader.election.enable, in the same way"),
        column("configs", pa.map_(TEXT, TEXT), "topic configs as shown"),
        column("marked_for_deletion", FLAG, "deletion is under way", required=True),
        column("incomplete", FLAG, "the sources lack, or may lack, some of its partitions or replicas", required=True),
        column("warnings", TEXTS, "unusual values that are not errors"),
        column(
            "partition_loads",
            pa.list_(to_struct((PARTITION, *LOADS))),
            "ids and loads of the partitions shown; null where these are all of 0..n-1 and no load is known",
        ),
    ]
)

IGNORED = column(
    "ignored", FLAG, "topics.ignored names it: its problems, like those of a deleted topic, do not count", required=True
)

_BROKER_COLUMNS = (
    BROKER_ID,
    column("rack", TEXT, "rack (availability zone); null = unknown"),
    column("host", TEXT, "host of its first endpoint"),
    column("port", INT, "port of its first endpoint"),
)
_REGISTERED = column("registered", FLAG, "registered in ZooKeeper or KRaft; null = no source shows registrations")
_FENCED = column("fenced", FLAG, "fenced in KRaft")
_CORDONED = column("cordoned", FLAG, "all of its log dirs are cordoned: it gets no new replicas; null = not shown")
_RELEASES = (
    column(
        "release_from", INT, "a release of Kafka, as 307 for 3.7: it runs this one or a later one; null = not shown"
    ),
    column("release_before", INT, "it runs an earlier release than this one; null = not shown"),
)
_FOLLOWER_FETCHING = column(
    "follower_fetching",
    FLAG,
    "consumers with a client.rack fetch from an in-sync replica in their rack: its replica.selector.class is "
    "Kafka's RackAwareReplicaSelector; null = no source shows it",
)
_THROTTLE = column("follower_throttle_bytes_per_s", DOUBLE, "of its copies of throttled replicas; null = none")

# What the sources declare of brokers.
REGISTRATIONS = pa.schema(
    [
        *_BROKER_COLUMNS,
        _REGISTERED,
        column("from_full_listing", FLAG, "a source that lists all registered brokers shows it; null = none does"),
        column("missing_from", TEXT, "lines of another such list, which lacks it; null = none does"),
        column("answers", FLAG, "answers kafka-log-dirs or kafka-broker-api-versions; null = not asked"),
        column("has_api_versions", FLAG, "kafka-broker-api-versions lists it; null = it does not, or is not shown"),
        column("listed", FLAG, "an entry of a list of all brokers; false = such a list does not name it"),
        column("listed_state", TEXT, "its state in a broker list, as written; null = the list has none"),
        column("in_model", FLAG, "a broker of a cluster model; null = not in one"),
        column("reported_live", FLAG, "live, or down, as a tool says of the broker itself; null = none does"),
        column("redpanda_live", FLAG, "live, or down, as Redpanda's own tools say; null = none does"),
        _FENCED,
        _CORDONED,
        column("shown_fenced", FLAG, "fenced in a list of the brokers as they are now; null = no such list shows it"),
        column("controller", FLAG, "the active controller; null = not shown"),
        column("draining", FLAG, "to be drained; null = not shown"),
        *_RELEASES,
        _FOLLOWER_FETCHING,
        _THROTTLE,
    ]
)
# What brokers do in the partitions of a shard; summed over all shards, it shows which brokers are live. Of the replicas
# of a broker, those counted as adding, observer, deleted, unknown and filtered are distinct: they need not be in any
# ISR.
USAGE = pa.schema(
    [
        BROKER_ID,
        column("replicas", LONG, "replicas assigned to it"),
        column("leaders", LONG, "partitions it leads"),
        column("in_sync", LONG, "ISR memberships in partitions that have a leader"),
        column("leaderless_isr", LONG, "ISR memberships in partitions that have no leader"),
        column("leaderless_elr", LONG, "ELR memberships in partitions that have no leader"),
        column("leaderless_empty", LONG, "replicas of partitions that have neither leader nor ISR nor ELR"),
        column("online_replicas", LONG, "replicas that a source with a column of offline replicas shows online"),
        column("offline_replicas", LONG, "replicas that such a source shows offline"),
        column("offline_in_use", LONG, "of these, those that lead, or are in the ISR of a partition that has a leader"),
        column("adding_replicas", LONG, "replicas that a reassignment is adding"),
        column("observer_replicas", LONG, "replicas that are observers"),
        column("deleted_replicas", LONG, "replicas of topics that are marked for deletion, which empties their ISRs"),
        column("waiting_replicas", LONG, "replicas of leaderless partitions that are not in their ISR"),
        column("unknown_replicas", LONG, "replicas of partitions of which no source shows leader and ISR"),
        column("filtered_replicas", LONG, "replicas of topics of which the sources may not show every partition"),
        column("disputed_replicas", LONG, "replicas in partitions that are quarantined because two sources differ"),
        column("shown_from", INT, "the highest release that its partitions show as the least; null = none does"),
        column("shown_before", INT, "the lowest one that its partitions show as too late; null = none does"),
    ]
)
BROKERS = pa.schema(
    [
        *_BROKER_COLUMNS,
        column(
            "live",
            FLAG,
            "true = live; false = down: neither a survivor nor in any mean; null = unknown, and counted as live",
        ),
        column("live_reason", TEXT, "the evidence for `live`, or why it is unknown", required=True),
        _REGISTERED,
        _FENCED,
        _CORDONED,
        column("controller", FLAG, "the active controller, as far as known", required=True),
        column("draining", FLAG, "to be emptied", required=True),
        column("replicas", LONG, "replicas assigned to it", required=True),
        column("leaders", LONG, "partitions it leads", required=True),
        *_RELEASES,
        _FOLLOWER_FETCHING,
        _THROTTLE,
    ]
)

_REPLICA = (
    TOPIC,
    PARTITION,
    column("broker_id", INT, "broker that has it", required=True),
    column("is_future", FLAG, "a log being moved between directories of one broker", required=True),
)
STRAY_LOGS = pa.schema([*_REPLICA, column("log", LOG, "size, offsets and directory of the log")])
REPLICAS = pa.schema(
    [
        *_REPLICA,
        column("position", INT, "position in the replica list, 0 = preferred leader; null = not assigned"),
        column("in_sync", FLAG, "in the ISR"),
        *LOG_COLUMNS,
    ]
)

LOG_DIR = column("log_dir", TEXT, "path of the log directory", required=True)
LOG_DIRS = pa.schema(
    [
        BROKER_ID,
        LOG_DIR,
        column("total_bytes", LONG, "bytes of its volume (Kafka 3.3 and later); null = unknown"),
        column("usable_bytes", LONG, "bytes of its volume that are free for the broker; null = unknown"),
        column("log_dir_error", TEXT, "why it is offline, as Kafka shows it; null = it is online"),
        column("cordoned", FLAG, "it gets no new replicas (KIP-1066, Kafka 4.3 and later); null = not shown"),
    ]
)

LOG_DIR_USAGE = pa.schema(
    [
        *LOG_DIRS,
        column("used_bytes", LONG, "bytes of its logs, also of those that no assignment accounts for; null = unknown"),
        column("replicas", LONG, "assigned replicas in it, not those that are being moved to it", required=True),
    ]
)

QUORUM = pa.schema(
    [
        column("node_id", INT, "id of a controller or broker; -1 = voters whose ids are not shown", required=True),
        column("voter", FLAG, "whether it is a voter; false = an observer", required=True),
        column("leader", FLAG, "whether it leads the quorum, and so is the active controller", required=True),
        column("directory_id", TEXT, "id of its metadata log dir; null = not shown"),
        column("host", TEXT, "host of its first endpoint; null = not shown"),
        column("port", INT, "port of its first endpoint; null = not shown"),
        column(
            "log_end_offset", LONG, "end of its metadata log; -1 = the leader has not heard of it; null = not shown"
        ),
        column("lag", LONG, "records that it is behind the leader; null = not shown"),
        column("lag_ms", LONG, "ms since it last had all records of the leader; null = never, or not shown"),
        column(
            "caught_up",
            FLAG,
            "whether it follows the leader within 10 s, so that it counts for a majority; null = not shown",
        ),
    ]
)

QUORUM_NODES = pa.schema(
    [
        *QUORUM,
        column("broker", FLAG, "whether it is a broker as well", required=True),
        column("rack", TEXT, "its rack, if it is a broker; null = not known"),
        column(
            "can_fail",
            FLAG,
            "whether enough voters that follow are left without it for a majority, which elects all leaders",
            required=True,
        ),
    ]
)

REASONS = column("reasons", TEXTS, "every reason, in words", required=True)
QUARANTINE = pa.schema([SOURCE, RECORD_NUMBER, LINE_NUMBER, REASONS])

# What no answer covers, as a record shows: a command that failed or lists only some partitions, a log that begins late.
WARNING = column("warning", TEXT, "what the sources may lack, and what to do", required=True)
WARNINGS = pa.schema([SOURCE, RECORD_NUMBER, LINE_NUMBER, WARNING])

# Outcomes of a conflict.
FIRST_USED = "the first value is used"
BOTH_QUARANTINED = "both are quarantined"

CONFLICTS = pa.schema(
    [
        column("entity", TEXT, "what the facts are about", required=True),  # partition orders-3, broker 7
        column("field", TEXT, "the field in which they differ", required=True),
        column("source", TEXT, "file of the one value"),
        column("line_number", LONG, "line of the one value"),
        column("value", TEXT, "the one value, of the stronger or first source"),
        column("other_source", TEXT, "file of the other value"),
        column("other_line_number", LONG, "line of the other value"),
        column("other_value", TEXT, "the other value"),
        column("outcome", TEXT, "whether the one value is used, or both records are quarantined", required=True),
    ]
)

# How many records of a source had which outcome (a RecordOutcome), why they were ignored, and the first lines of these.
OUTCOMES = pa.schema(
    [SOURCE, ("outcome", TEXT), ("reason", TEXT), ("records", LONG), ("first_lines", pa.list_(pa.int64()))]
)


@dataclass(frozen=True)
class Entities:
    """What a shard of one cluster's facts says, merged. Each attribute is a table of the schema beside it."""

    partitions: Annotated[pa.Table, PARTITIONS]
    topics: Annotated[pa.Table, TOPICS]
    registrations: Annotated[pa.Table, REGISTRATIONS]
    stray_logs: Annotated[pa.Table, STRAY_LOGS]
    quarantine: Annotated[pa.Table, QUARANTINE]
    conflicts: Annotated[pa.Table, CONFLICTS]
    outcomes: Annotated[pa.Table, OUTCOMES]
    usage: Annotated[pa.Table, USAGE]
    warnings: Annotated[pa.Table, WARNINGS]
    topic_loads: Annotated[pa.Table, TOPIC_LOADS]
    log_dirs: Annotated[pa.Table, LOG_DIRS]
    quorum: Annotated[pa.Table, QUORUM]


ENTITY_SCHEMAS: dict[str, pa.Schema] = {name: hint.__metadata__[0] for name, hint in Entities.__annotations__.items()}
