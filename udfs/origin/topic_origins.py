"""Where each topic's placement comes from, one cluster at a time: Arrow tables in, one out. The kernels judge."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import offsets_of, take_segments
from udfs.origin.kernels import scheme_patterns
from udfs.origin.kernels.origin_search import NONE, NOT_JUDGED, Origins, find_origins
from udfs.origin.kernels.round_robin_fit import UNKNOWN, Observed
from udfs.origin.kernels.scheme_patterns import Brokers, Pattern
from udfs.placement import schemes
from udfs.placement.kernels.java_hash import rack_names
from udfs.placement.kernels.topic_arrays import NO_RACK

KAFKA_RACK_AWARE = "kafka_rack_aware"
BY_HAND, NOT_KNOWN = "none", "unknown"
NAMES = (schemes.KAFKA, KAFKA_RACK_AWARE, schemes.KRAFT, schemes.NAIVE)  # by the numbers of origin_patterns
_TITLES = ("Kafka's round robin", "Kafka's rack-aware round robin", "KRaft's striped placement", "the naive pattern")

# What is given: a row per topic, with the partitions that are shown in any order, and a row per broker.
SHOWN = pa.list_(pa.struct([("partition", pa.int32()), ("replicas", pa.list_(pa.int32()))]))
TOPICS = pa.schema(
    [("cluster_id", pa.string()), ("snapshot_id", pa.string()), ("topic", pa.string()), ("shown", SHOWN)]
)
BROKERS = pa.schema([("broker_id", pa.int32()), ("rack", pa.string()), ("live", pa.bool_())])
ORIGINS = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("snapshot_id", pa.string()),
        ("topic", pa.string()),
        ("origin", pa.string()),
        ("matching_schemes", pa.list_(pa.string())),
        ("evidence", pa.int64()),
        ("broker_order", pa.list_(pa.int32())),
        ("start_index", pa.int32()),
        ("shift", pa.int32()),
        ("expanded_from_partition", pa.int32()),
        ("partitions_checked", pa.int64()),
        ("first_mismatch_partition", pa.int32()),
        ("note", pa.string()),
    ]
)


def observed_of(shown: pa.Array) -> tuple[Observed, npt.NDArray[np.int32]]:
    """(partitions with known replicas, broker ids that `Observed.broker` still holds) of topics (type SHOWN)."""
    lengths = pc.fill_null(pc.list_value_length(shown), 0).to_numpy(zero_copy_only=False)
    flat = shown.flatten()
    partition = pc.struct_field(flat, "partition").to_numpy(zero_copy_only=False).astype(np.int64)
    replicas = pc.struct_field(flat, "replicas")
    topic = np.repeat(np.arange(len(lengths)), lengths)
    widths = pc.fill_null(pc.list_value_length(replicas), 0).to_numpy(zero_copy_only=False)
    ids = replicas.flatten().to_numpy(zero_copy_only=False).astype(np.int32)
    known = np.flatnonzero(widths > 0)
    order = known[np.lexsort((partition[known], topic[known]))]
    broker, replica_offsets = take_segments(ids, offsets_of(widths), order)
    row_offsets = offsets_of(np.bincount(topic[order], minlength=len(lengths)))
    return Observed(row_offsets, partition[order], replica_offsets, broker.astype(np.int32)), np.unique(broker)


def brokers_of(brokers: pa.Table, seen: npt.NDArray[np.integer]) -> Brokers:
    """These brokers (schema BROKERS) and all that are seen in replicas; these are not live unless given so."""
    given = brokers["broker_id"].to_numpy().astype(np.int32)
    ids = np.union1d(given, seen).astype(np.int32)
    place = np.searchsorted(ids, given)
    codes, rank, _ = rack_names(brokers["rack"].to_pylist())
    live, rack = np.zeros(len(ids), dtype=np.bool_), np.full(len(ids), NO_RACK, dtype=np.int32)
    live[place] = brokers["live"].to_numpy()
    rack[place] = np.append(rank, NO_RACK)[codes]
    return Brokers(ids, live, rack)


def _over(pattern: Pattern, brokers: Brokers) -> str:
    """What is to be said of the brokers that a pattern is over; empty if these are just the live ones."""
    members = np.zeros(len(brokers.ids), dtype=np.bool_)
    members[pattern.order] = True
    said = []
    if (brokers.live & ~members).any():
        said.append(f"without {', '.join(map(str, brokers.ids[brokers.live & ~members][:5]))}")
    if (members & ~brokers.live).any():
        said.append(f"with {', '.join(map(str, brokers.ids[members & ~brokers.live][:5]))}, not live")
    return f"over {len(pattern.order)} brokers: {'; '.join(said)}" if said else ""


def _notes(found: Origins, observed: Observed, brokers: Brokers, left_out: npt.NDArray[np.int64]) -> list[str | None]:
    over = [_over(pattern, brokers) for pattern in found.patterns]
    width = np.diff(observed.replica_offsets)
    notes: list[str | None] = []
    for i, scheme in enumerate(found.scheme.tolist()):
        number = int(found.pattern[i])
        if scheme == NOT_JUDGED:
            notes.append("no replicas are known")
            continue
        pattern = found.patterns[number]
        said = []
        if scheme == NONE:
            until, begin = found.until[i], observed.row_offsets[i]
            if until == observed.row_offsets[i + 1]:
                said.append(f"{_TITLES[pattern.scheme]} only with a growth too small to tell")
            else:
                said.append(f"breaks {_TITLES[pattern.scheme]} at partition {observed.partition[until]}")
                if width[until] != width[begin]:
                    said.append(f"whose replication factor is {width[until]} instead of {width[begin]}")
            if found.own_size[i]:
                said.append(f"could be Kafka's over an order of {found.own_size[i]} brokers that no other topic tells")
        else:
            if found.evidence[i] == 0:
                said.append("too small to tell")
            if pattern.scheme == scheme_patterns.KRAFT and not pattern.shuffles:
                said.append("as KRaft placed before 4.1")
            if over[number]:
                said.append(over[number])
        if found.expanded_from_partition[i] != UNKNOWN:
            said.append(f"grown from partition {found.expanded_from_partition[i]}")
        if left_out[i]:
            said.append(f"{left_out[i]} partitions without known replicas are left out")
        notes.append("; ".join(said) or None)
    return notes


def _lists_of_names(matching_schemes: npt.NDArray[np.bool_]) -> pa.Array:
    which = np.nonzero(matching_schemes)[1]
    offsets = pa.array(offsets_of(matching_schemes.sum(axis=1)), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(NAMES).take(pa.array(which)))


def topic_origins(topics: pa.Table, brokers: pa.Table) -> pa.Table:
    """The origin (schema ORIGINS) of each of one cluster's topics (schema TOPICS), among these brokers (BROKERS)."""
    topics = topics.select(TOPICS.names).cast(TOPICS)
    if topics.num_rows == 0:
        return ORIGINS.empty_table()
    shown = pa.concat_arrays(topics["shown"].chunks)
    raw, seen = observed_of(shown)
    judged_over = brokers_of(brokers.select(BROKERS.names).cast(BROKERS), seen)
    place = np.searchsorted(judged_over.ids, raw.broker).astype(np.int32)
    observed = Observed(raw.row_offsets, raw.partition, raw.replica_offsets, place)
    found = find_origins(observed, judged_over)

    rows = np.diff(observed.row_offsets)
    left_out = pc.fill_null(pc.list_value_length(shown), 0).to_numpy(zero_copy_only=False) - rows
    explained = found.scheme >= 0
    names = np.array([*NAMES, NOT_KNOWN, BY_HAND], dtype=object)[found.scheme]  # -1 and -2 count from the end
    kinds = np.array([pattern.scheme for pattern in found.patterns] or [0])[found.pattern]
    ordered = explained & (kinds != scheme_patterns.KRAFT)
    orders = pa.array([judged_over.ids[pattern.order] for pattern in found.patterns], pa.list_(pa.int32()))
    breaks = ~explained & (found.scheme == NONE) & (found.until < observed.row_offsets[1:])
    broken = np.append(observed.partition, 0)[np.minimum(found.until, len(observed.partition))]

    def ints(values: npt.NDArray[np.int64], where: npt.NDArray[np.bool_]) -> pa.Array:
        return pa.array(values, pa.int32(), mask=~where)

    grown = found.scheme >= 0
    return pa.Table.from_arrays(
        [
            *(topics[name] for name in ("cluster_id", "snapshot_id", "topic")),
            pa.array(names, pa.string()),
            _lists_of_names(found.matching_schemes),
            pa.array(found.evidence),
            orders.take(pa.array(found.pattern, mask=~ordered)),
            ints(found.start, ordered & (found.start != UNKNOWN)),
            ints(found.shift, ordered & (found.shift != UNKNOWN)),
            ints(found.expanded_from_partition, grown & (found.expanded_from_partition != UNKNOWN)),
            pa.array(rows),
            ints(broken, breaks),
            pa.array(_notes(found, observed, judged_over, left_out), pa.string()),
        ],
        schema=ORIGINS,
    )
