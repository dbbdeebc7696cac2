"""The placement origin of topics, one cluster at a time: Arrow tables in, one table out."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import (
    FLAG,
    INT,
    INTS,
    LONG,
    TEXT,
    TEXTS,
    column,
    schema_of,
    to_array,
    to_flags,
    to_lists,
    to_numpy,
)
from udfs.arrow.ragged import offsets_of, row_of, take_segments
from udfs.origin.kernels.origin_search import TopicOrigins, find_origins
from udfs.origin.kernels.round_robin_fit import UNKNOWN, ObservedTopics
from udfs.origin.kernels.scheme_patterns import CandidateBrokers, Mask, Origin, Pattern
from udfs.placement import schemes
from udfs.placement.kernels.java_util import index_rack_names
from udfs.placement.kernels.topic_arrays import NO_RACK, Ids, Ints

ORIGIN_NAMES = {
    Origin.KAFKA: schemes.KAFKA,
    Origin.KAFKA_RACK_AWARE: "kafka_rack_aware",
    Origin.KRAFT: schemes.KRAFT,
    Origin.NAIVE: schemes.NAIVE,
    Origin.MANUAL: "none",
    Origin.UNKNOWN: "unknown",
}
_TITLES = {
    Origin.KAFKA: "Kafka's round robin",
    Origin.KAFKA_RACK_AWARE: "Kafka's rack-aware round robin",
    Origin.KRAFT: "KRaft's striped placement",
    Origin.NAIVE: "the naive scheme",
}

# Input: a row per topic with its partitions in any order, and a row per broker.
PARTITIONS = pa.list_(pa.struct([("partition", INT), ("replicas", INTS)]))
TOPICS = pa.schema([("cluster_id", TEXT), ("snapshot_id", TEXT), ("topic", TEXT), ("partitions", PARTITIONS)])
BROKERS = pa.schema([("broker_id", INT), ("rack", TEXT), ("live", FLAG), ("cordoned", FLAG)])

# Columns of gold.topic_origin after cluster_id and snapshot_id.
ORIGIN_COLUMNS: tuple[pa.Field, ...] = (
    column("topic", TEXT, "topic name", required=True),
    column(
        "origin",
        TEXT,
        "scheme that could have placed the topic; of several, the one that explains most of the cluster: kafka (no "
        "racks), kafka_rack_aware, kraft, naive; none = placed manually or changed since; unknown = no known replicas",
        required=True,
    ),
    column(
        "matching_schemes",
        TEXTS,
        "every scheme that could have placed the topic, also over a broker order that no other topic shares",
        required=True,
    ),
    column("evidence", LONG, "replicas that could have broken the pattern; 0 = inconclusive", required=True),
    column(
        "broker_order",
        INTS,
        "order of the brokers in the placement: for kafka, known up to rotation, from the smallest id; for "
        "kafka_rack_aware, alternating between racks; null for kraft and none",
    ),
    column("start_index", INT, "position in broker_order of partition 0's leader"),
    column("shift", INT, "shift of the followers, modulo brokers - 1; null = unknown, as with one replica"),
    column("expanded_from_partition", INT, "first partition that was added later; null = none"),
    column("partitions_checked", LONG, "partitions with known replicas", required=True),
    column(
        "first_mismatch_partition",
        INT,
        "for origin none: first partition that deviates from the scheme that explains most of the cluster",
    ),
    column(
        "note",
        TEXT,
        "explanation; `without 4, cordoned now`: the topic fits exactly only if broker 4 got nothing already",
    ),
)
TOPIC_ORIGINS = pa.schema([("cluster_id", TEXT), ("snapshot_id", TEXT), *schema_of(ORIGIN_COLUMNS)])


def read_topics(partitions: pa.Array) -> tuple[ObservedTopics, Ids]:
    """Read lists of type PARTITIONS: those with known replicas, with ids for indices; and these ids, sorted."""
    lengths = to_numpy(pc.list_value_length(partitions)).astype(np.int64)
    flat = partitions.flatten()
    partition = to_numpy(pc.struct_field(flat, "partition")).astype(np.int64)
    replicas = to_lists(pc.struct_field(flat, "replicas"))
    topic = row_of(offsets_of(lengths))
    known = np.flatnonzero(np.diff(replicas.offsets) > 0)
    order = known[np.lexsort((partition[known], topic[known]))]
    broker, replica_offsets = take_segments(replicas.values, replicas.offsets, order)
    row_offsets = offsets_of(np.bincount(topic[order], minlength=len(lengths)))
    return ObservedTopics(row_offsets, partition[order], replica_offsets, broker.astype(np.int32)), np.unique(broker)


def read_brokers(brokers: pa.Table, with_replicas: npt.NDArray[np.integer]) -> CandidateBrokers:
    """Read brokers (schema BROKERS), and add those with replicas, which are not live unless the table says so."""
    known = to_numpy(brokers["broker_id"]).astype(np.int32)
    ids = np.union1d(known, with_replicas).astype(np.int32)
    at = np.searchsorted(ids, known)
    codes, rank, _ = index_rack_names(brokers["rack"].to_pylist())
    (live, cordoned), rack = np.zeros((2, len(ids)), dtype=np.bool_), np.full(len(ids), NO_RACK, dtype=np.int32)
    live[at] = to_numpy(brokers["live"], True)  # null = unknown, which counts as live
    cordoned[at] = to_flags(brokers["cordoned"])
    rack[at] = np.append(rank, NO_RACK)[codes]
    return CandidateBrokers(ids, live, rack, cordoned)


def _describe_order(pattern: Pattern, brokers: CandidateBrokers) -> str:
    members = np.zeros(len(brokers.ids), dtype=np.bool_)
    members[pattern.order] = True
    missing, down = brokers.ids[brokers.live & ~members], brokers.ids[members & ~brokers.live]
    parts = [f"without {', '.join(map(str, missing[:5]))}"] if len(missing) else []
    if len(missing) and brokers.cordoned[brokers.live & ~members].all():
        parts[0] += ", cordoned now"
    if len(down):
        parts.append(f"with {', '.join(map(str, down[:5]))}, not live")
    return f"over {len(pattern.order)} brokers: {'; '.join(parts)}" if parts else ""


def _describe_mismatch(origins: TopicOrigins, topic: int, observed: ObservedTopics) -> str:
    title = _TITLES[origins.patterns[origins.pattern[topic]].scheme]
    begin, row = int(observed.row_offsets[topic]), int(origins.fits.until[topic])
    if row == observed.row_offsets[topic + 1]:
        return f"fits {title} only with an expansion too short to be conclusive"
    note = f"deviates from {title} at partition {observed.partition[row]}"
    width, expected = (int(np.diff(observed.replica_offsets[r : r + 2])[0]) for r in (row, begin))
    return note if width == expected else f"{note}, which has replication factor {width} instead of {expected}"


def _write_notes(
    origins: TopicOrigins, observed: ObservedTopics, brokers: CandidateBrokers, unchecked: Ints
) -> list[str | None]:
    orders = [_describe_order(pattern, brokers) for pattern in origins.patterns]
    notes: list[str | None] = []
    for i, origin in enumerate(origins.origin.tolist()):
        if origin == Origin.UNKNOWN:
            notes.append("no replicas are known")
            continue
        number = int(origins.pattern[i])
        pattern = origins.patterns[number]
        parts = []
        if origin == Origin.MANUAL:
            parts.append(_describe_mismatch(origins, i, observed))
            if size := origins.own_order_size[i]:
                parts.append(f"could be Kafka's round robin over an order of {size} brokers that no other topic shares")
        else:
            if origins.fits.evidence[i] == 0:
                parts.append("too small to be conclusive")
            if pattern.scheme == Origin.KRAFT and not pattern.shuffles:
                parts.append("as KRaft placed before Kafka 4.1")
            parts += filter(None, [orders[number]])
        if origins.fits.expanded_from_partition[i] != UNKNOWN:
            parts.append(f"expanded from partition {origins.fits.expanded_from_partition[i]}")
        if count := unchecked[i]:
            parts.append(f"{count} {'partition has' if count == 1 else 'partitions have'} no known replicas")
        notes.append("; ".join(parts) or None)
    return notes


def find_topic_origins(topics: pa.Table, brokers: pa.Table) -> pa.Table:
    """Find the origin of each of one cluster's topics: TOPICS and BROKERS in, a row of TOPIC_ORIGINS per topic out."""
    topics = topics.select(TOPICS.names).cast(TOPICS)
    if topics.num_rows == 0:
        return TOPIC_ORIGINS.empty_table()
    partitions = to_array(topics["partitions"])
    observed, ids = read_topics(partitions)
    candidates = read_brokers(brokers.select(BROKERS.names).cast(BROKERS), ids)
    observed = observed._replace(broker=np.searchsorted(candidates.ids, observed.broker).astype(np.int32))
    origins = find_origins(observed, candidates)
    fits, pattern = origins.fits, origins.pattern

    checked = np.diff(observed.row_offsets)
    is_explained = origins.origin >= 0
    schemes_of_patterns = np.array([int(p.scheme) for p in origins.patterns] or [0])[pattern]
    has_order = is_explained & (schemes_of_patterns != Origin.KRAFT)
    orders = pa.array([candidates.ids[p.order] for p in origins.patterns], INTS)
    deviates = (origins.origin == Origin.MANUAL) & (fits.until < observed.row_offsets[1:])
    mismatch = np.append(observed.partition, 0)[np.minimum(fits.until, len(observed.partition))]
    unchecked = to_numpy(pc.list_value_length(partitions)) - checked

    matching = origins.matching_schemes
    names = pa.array([ORIGIN_NAMES[Origin(i)] for i in np.nonzero(matching)[1].tolist()], TEXT)

    def nullable(values: Ints, where: Mask) -> pa.Array:
        return pa.array(values, INT, mask=~(where & (values != UNKNOWN)))

    columns = {
        **{name: topics[name] for name in ("cluster_id", "snapshot_id", "topic")},
        "origin": [ORIGIN_NAMES[Origin(code)] for code in origins.origin.tolist()],
        "matching_schemes": pa.ListArray.from_arrays(pa.array(offsets_of(matching.sum(axis=1)), INT), names),
        "evidence": fits.evidence,
        "broker_order": orders.take(pa.array(pattern, mask=~has_order)),
        "start_index": nullable(fits.start, has_order),
        "shift": nullable(fits.shift, has_order),
        "expanded_from_partition": nullable(fits.expanded_from_partition, is_explained),
        "partitions_checked": checked,
        "first_mismatch_partition": nullable(mismatch, deviates),
        "note": _write_notes(origins, observed, candidates, unchecked),
    }
    return pa.table(columns, schema=TOPIC_ORIGINS)
