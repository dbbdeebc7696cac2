"""Placing batches of topics from Spark: Arrow arrays of topics in, one of placements out. The kernels do the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import offsets_of
from udfs.placement.kernels import kafka_errors
from udfs.placement.kernels.java_random import scrambled
from udfs.placement.kernels.topic_arrays import BrokerLists, Ints, Placed, Topics
from udfs.placement.kernels.topic_seeds import topic_seeds
from udfs.placement.schemes import SCHEMES, Scheme

# A row per topic, not per partition: what passes between Spark and Python is small, and Spark makes the rows of it.
PLACED = pa.struct(
    [
        ("replicas", pa.list_(pa.list_(pa.int32()))),  # of each partition asked for; null = cannot be placed
        ("start_index", pa.int32()),
        ("shift", pa.int32()),
        ("seed", pa.int64()),
        ("error", pa.string()),
    ]
)


@dataclass(frozen=True)
class LiveBrokers:
    """The brokers of a snapshot to place over, in Kafka's order. racks: of each, None = not known; empty = of none."""

    ids: Sequence[int]
    racks: Sequence[str | None] = ()


# {(cluster_id, snapshot_id): its live brokers}
LiveBrokersBySnapshot = Mapping[tuple[str, str], LiveBrokers]


@dataclass(frozen=True)
class Requests:
    """n topics to place. All arrays have length n; no topic and no cluster is null.

    cluster, topic: string.   partitions, replication_factor: int32.
    listed: list<int32>, the partitions to place; an empty list (or no array) = all, 0 to partitions - 1.
    """

    cluster: pa.Array
    topic: pa.Array
    partitions: pa.Array
    replication_factor: pa.Array
    listed: pa.Array | None = None


def _int64(array: pa.Array) -> Ints:
    """The array's values, 0 for null."""
    return np.asarray(pc.fill_null(array, pa.scalar(0, array.type)).to_numpy(zero_copy_only=False), dtype=np.int64)


def text_of(array: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """(UTF-8 bytes, offsets) of a string array without nulls."""
    packed = pa.concat_arrays([array.cast(pa.large_string())])
    _, offsets, data = packed.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[: len(packed) + 1] if len(packed) else np.zeros(1, dtype=np.int64)
    return np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8), ends


def _asked(requests: Requests, of_list: Ints) -> Topics:
    partitions, factor = _int64(requests.partitions), _int64(requests.replication_factor)
    if requests.listed is None:
        return Topics.of(partitions, factor, of_list)
    offsets = offsets_of(_int64(pc.list_value_length(requests.listed)))
    return Topics.of(partitions, factor, of_list, listed=_int64(requests.listed.flatten()), listed_offsets=offsets)


def _errors(topics: Topics, names: pa.Array, brokers: Ints, placed: Placed) -> pa.Array:
    """Why each topic cannot be placed, in Kafka's words, with the topic and its values; null = it is."""
    out: list[str | None] = [None] * len(names)
    for row in np.flatnonzero(placed.refusal).tolist():
        asked, factor, n = int(topics.partitions[row]), int(topics.replication_factor[row]), int(brokers[row])
        name, words = kafka_errors.in_words(int(placed.refusal[row]), asked, factor, n, int(placed.detail[row]))
        values = f"{asked} partitions, replication factor {factor}, {n} brokers"
        out[row] = f"{name}: {words} (topic {names[row]}: {values})"
    return pa.array(out, pa.string())


def place_topics(
    requests: Requests, lists: BrokerLists, of_list: Ints, scheme: Scheme, run_seed: int
) -> pa.StructArray:
    """The placements (type PLACED, n) of these topics by one scheme; topic i is placed over list of_list[i].

    A request that cannot be placed has its error, and a null for each of its partitions.
    """
    assert scheme.place is not None
    topics = _asked(requests, of_list)
    seeds = topic_seeds(run_seed, text_of(requests.cluster), text_of(requests.topic))
    placed = scheme.place(topics, lists, scrambled(seeds))
    good = placed.refusal == 0
    shown = np.diff(topics.listed_bounds())
    offsets = offsets_of(np.where(shown > 0, shown, np.maximum(topics.partitions, 0)))
    usable = None if good.all() else np.repeat(good, np.diff(offsets))
    kinds = {field.name: field.type for field in PLACED}

    def drawn(name: str, values: Ints | None) -> pa.Array:
        return pa.nulls(len(good), kinds[name]) if values is None else pa.array(values, kinds[name], mask=~good)

    return pa.StructArray.from_arrays(
        [
            pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), _replica_lists(placed, usable)),
            drawn("start_index", placed.start_index),
            drawn("shift", placed.shift),
            drawn("seed", seeds if scheme.draws else None),
            _errors(topics, requests.topic, np.diff(lists.offsets)[of_list], placed),
        ],
        fields=list(PLACED),
    )


def _replica_lists(placed: Placed, usable: npt.NDArray[np.bool_] | None) -> pa.ListArray:
    """list<int32> of all partitions: the placed ones in order where `usable` (None = everywhere), null elsewhere."""
    flat = pa.array(placed.broker, pa.int32())
    if usable is None:
        return pa.ListArray.from_arrays(pa.array(placed.replica_offsets, pa.int32()), flat)
    lengths = np.zeros(len(usable), dtype=np.int64)
    lengths[usable] = np.diff(placed.replica_offsets)
    return pa.ListArray.from_arrays(pa.array(offsets_of(lengths), pa.int32()), flat, mask=pa.array(~usable))


def _lists_for(cluster: pa.Array, snapshot: pa.Array, live: LiveBrokersBySnapshot) -> tuple[BrokerLists, Ints]:
    """(the broker lists of the topics of a batch, the list of each), by their cluster and snapshot."""
    columns = [pc.dictionary_encode(column) for column in (cluster, snapshot)]
    codes = [np.asarray(column.indices) for column in columns]
    names = [column.dictionary.to_pylist() for column in columns]
    pairs, of_list = np.unique(codes[0].astype(np.int64) * len(names[1]) + codes[1], return_inverse=True)
    keys = [(names[0][pair // len(names[1])], names[1][pair % len(names[1])]) for pair in pairs.tolist()]
    found = [live.get(key, LiveBrokers(())) for key in keys]
    offsets = offsets_of(np.array([len(brokers.ids) for brokers in found], dtype=np.int64))
    racks = [rack for brokers in found for rack in brokers.racks or [None] * len(brokers.ids)]
    ids = np.array([broker for brokers in found for broker in brokers.ids], dtype=np.int32)
    return BrokerLists.of(ids, offsets, racks), of_list


def placer(scheme: str, run_seed: int, live: LiveBrokersBySnapshot) -> Callable[..., pa.Array]:
    """Body of a scalar Arrow UDF that gives PLACED.

    Its arguments: cluster_id, snapshot_id, topic, partitions, replication_factor and, if wanted, the listed partitions.
    The broker lists come apart from the rows: hundreds of ids beside every topic would cost more than the placing.
    """
    chosen = SCHEMES[scheme]

    def place(cluster: pa.Array, snapshot: pa.Array, *request: pa.Array) -> pa.Array:
        return place_topics(Requests(cluster, *request), *_lists_for(cluster, snapshot, live), chosen, run_seed)

    return place


def _given_lists(ids: pa.Array, racks: pa.Array | None) -> BrokerLists:
    """A list per row, from list<int32> and list<string>. racks null = of no broker of the row.

    A row without a usable list has an empty one: null, an id that is null, below 0 or repeated, or other than one rack
    (null = none) per broker.
    """
    sizes = _int64(pc.list_value_length(ids))
    row = np.repeat(np.arange(len(sizes)), sizes)
    flat = ids.flatten()
    values = np.asarray(pc.fill_null(flat, -1).to_numpy(zero_copy_only=False), dtype=np.int64)
    order = np.lexsort((values, row))
    again = np.zeros(len(values), dtype=np.bool_)
    again[1:] = (row[order][1:] == row[order][:-1]) & (values[order][1:] == values[order][:-1])
    bad = np.zeros(len(sizes), dtype=np.bool_)
    bad[row[values < 0]] = True
    bad[row[order][again]] = True
    names: list[str | None] | None = None
    if racks is not None:
        given = _int64(pc.list_value_length(racks))
        known = np.asarray(racks.is_valid())
        bad |= known & (given != sizes)
        position = np.arange(len(values)) - np.repeat(offsets_of(sizes)[:-1], sizes)
        at = np.repeat(offsets_of(given)[:-1], sizes) + position
        usable = (known & ~bad)[row]
        names = racks.flatten().take(pa.array(np.where(usable, at, 0), mask=~usable)).to_pylist()
    keep = ~bad[row]
    kept = [name for name, k in zip(names, keep.tolist(), strict=True) if k] if names is not None else None
    return BrokerLists.of(values[keep], offsets_of(np.where(bad, 0, sizes)), kept)


def assign_replicas(
    scheme: str,
    run_seed: int,
    cluster: pd.Series,
    topic: pd.Series,
    partitions: pd.Series,
    factor: pd.Series,
    brokers: pd.Series,
    racks: pd.Series | None = None,
) -> pd.Series:
    """Series body of a scalar pandas UDF: for each topic the list of its partitions' replica lists, None if rejected.

    A row with a broker list that cannot be (see _given_lists) is rejected.
    """
    if SCHEMES[scheme].place is None:
        raise ValueError(f"scheme {scheme} places nothing by itself")
    requests = Requests(
        pa.array(cluster, pa.string()),
        pa.array(topic, pa.string()),
        pa.array(partitions, pa.int32(), from_pandas=True),
        pa.array(factor, pa.int32(), from_pandas=True),
    )
    lists = _given_lists(
        pa.array(brokers, pa.list_(pa.int32()), from_pandas=True),
        None if racks is None else pa.array(racks, pa.list_(pa.string()), from_pandas=True),
    )
    placed = place_topics(requests, lists, np.arange(len(topic)), SCHEMES[scheme], run_seed)
    replicas = placed.field("replicas")
    values = pc.if_else(pc.is_valid(placed.field("error")), pa.scalar(None, replicas.type), replicas)
    return pd.Series(values.to_pandas())
