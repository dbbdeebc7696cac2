"""Placing batches of topics from Spark: Arrow arrays of topics in, one of placements out. The kernels do the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from udfs.kernels.ragged import offsets_of, position_of, row_of
from udfs.kernels.round_robin import TopicBatch
from udfs.kernels.topic_seed import topic_seeds
from udfs.schemes import SCHEMES, Scheme

Ints = npt.NDArray[np.int64]

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

# {(cluster_id, snapshot_id): ids of the living brokers, in the order to place over}
LivingBrokers = Mapping[tuple[str, str], Sequence[int]]


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


@dataclass(frozen=True)
class BrokerLists:
    """Broker lists shared by topics: topic i is placed over ids[offsets[k]:offsets[k + 1]] with k = of_topic[i].

    ids: int32 (flat).   offsets: int64.   of_topic: int64 (n).
    """

    ids: npt.NDArray[np.int32]
    offsets: Ints
    of_topic: Ints


def _int64(array: pa.Array) -> Ints:
    """The array's values, 0 for null."""
    return np.asarray(pc.fill_null(array, pa.scalar(0, array.type)).to_numpy(zero_copy_only=False), dtype=np.int64)


def _text(array: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """(UTF-8 bytes, offsets) of a string array without nulls."""
    packed = pa.concat_arrays([array.cast(pa.large_string())])
    _, offsets, data = packed.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[: len(packed) + 1] if len(packed) else np.zeros(1, dtype=np.int64)
    return np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8), ends


def request_error(partitions: Ints, factor: Ints, brokers: Ints) -> list[str | None]:
    """Why each request cannot be placed, or None (n). The words are Kafka's where Kafka has any."""
    out: list[str | None] = [None] * len(partitions)
    for row in np.flatnonzero((partitions <= 0) | (factor <= 0) | (factor > brokers)).tolist():
        if brokers[row] == 0:
            out[row] = "no living broker"
        elif partitions[row] <= 0:
            out[row] = f"Number of partitions must be larger than 0 (got {partitions[row]})."
        elif factor[row] <= 0:
            out[row] = f"Replication factor must be larger than 0 (got {factor[row]})."
        else:
            out[row] = f"Replication factor: {factor[row]} larger than available brokers: {brokers[row]}."
    return out


def place_topics(requests: Requests, brokers: BrokerLists, scheme: Scheme, run_seed: int) -> pa.StructArray:
    """The placements (type PLACED, n) of these topics by one scheme.

    A request that cannot be placed has its error, and a null for each of its partitions.
    """
    assert scheme.place is not None
    partitions, factor = _int64(requests.partitions), _int64(requests.replication_factor)
    broker_count = np.diff(brokers.offsets)[brokers.of_topic]
    errors = request_error(partitions, factor, broker_count)
    good = np.array([e is None for e in errors], dtype=np.bool_)

    listed = pa.array([], pa.int32()) if requests.listed is None else requests.listed.flatten()
    shown = np.zeros(len(good), dtype=np.int64)
    if requests.listed is not None:
        shown = _int64(pc.list_value_length(requests.listed))
    count = np.where(shown > 0, shown, np.maximum(partitions, 0))
    offsets = offsets_of(count)
    topic, partition = row_of(offsets), position_of(offsets)
    if len(listed):
        partition[(shown > 0)[topic]] = _int64(listed)

    usable = good[topic]
    if not usable.all():
        topic, partition = topic[usable], partition[usable]
    seeds = topic_seeds(run_seed, _text(requests.cluster), _text(requests.topic))
    # A bad request counts as harmless among the others; none of its partitions is asked for.
    harmless = (np.maximum(partitions, 0), np.zeros_like(partitions), np.where(good, factor, 1))
    placed, draw = scheme.place(TopicBatch(*harmless, np.maximum(broker_count, 1)), (topic, partition), seeds)

    begin = brokers.offsets[:-1][brokers.of_topic]
    flat = brokers.ids[placed.broker_index + (begin[topic[row_of(placed.offsets)]] if begin.any() else 0)]
    replicas = _replica_lists(flat, placed.offsets, usable)
    missing = ~good

    def drawn(values: Ints | None, kind: pa.DataType) -> pa.Array:
        return pa.nulls(len(good), kind) if values is None else pa.array(values, kind, mask=missing)

    return pa.StructArray.from_arrays(
        [
            pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), replicas),
            drawn(draw.start_index, pa.int32()),
            drawn(draw.shift, pa.int32()),
            drawn(draw.seed, pa.int64()),
            pa.array(errors, pa.string()),
        ],
        fields=list(PLACED),
    )


def _replica_lists(flat: npt.NDArray[np.int32], offsets: Ints, usable: npt.NDArray[np.bool_]) -> pa.ListArray:
    """list<int32> of all partitions: the next of (flat, offsets) where `usable`, null elsewhere."""
    if usable.all():
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(flat, pa.int32()))
    lengths = np.zeros(len(usable), dtype=np.int64)
    lengths[usable] = np.diff(offsets)
    ends = pa.array(offsets_of(lengths), pa.int32())
    return pa.ListArray.from_arrays(ends, pa.array(flat, pa.int32()), mask=pa.array(~usable))


def _lists_for(cluster: pa.Array, snapshot: pa.Array, living: LivingBrokers) -> BrokerLists:
    """The broker lists of the topics of a batch, by their cluster and snapshot."""
    columns = [pc.dictionary_encode(column) for column in (cluster, snapshot)]
    codes = [np.asarray(column.indices) for column in columns]
    names = [column.dictionary.to_pylist() for column in columns]
    pairs, of_topic = np.unique(codes[0].astype(np.int64) * len(names[1]) + codes[1], return_inverse=True)
    keys = [(names[0][pair // len(names[1])], names[1][pair % len(names[1])]) for pair in pairs.tolist()]
    lists = [np.asarray(living.get(key, ()), dtype=np.int32) for key in keys]
    ids = np.concatenate(lists) if lists else np.empty(0, dtype=np.int32)
    return BrokerLists(ids, offsets_of(np.array([len(ids) for ids in lists], dtype=np.int64)), of_topic)


def placer(scheme: str, run_seed: int, living: LivingBrokers) -> Callable[..., pa.Array]:
    """Body of a scalar Arrow UDF that gives PLACED.

    Its arguments: cluster_id, snapshot_id, topic, partitions, replication_factor and, if wanted, the listed partitions.
    The broker lists come apart from the rows: hundreds of ids beside every topic would cost more than the placing.
    """
    chosen = SCHEMES[scheme]

    def place(cluster: pa.Array, snapshot: pa.Array, *request: pa.Array) -> pa.Array:
        return place_topics(Requests(cluster, *request), _lists_for(cluster, snapshot, living), chosen, run_seed)

    return place


def assign_replicas(
    scheme: str,
    run_seed: int,
    cluster: pd.Series,
    topic: pd.Series,
    partitions: pd.Series,
    factor: pd.Series,
    brokers: pd.Series,
) -> pd.Series:
    """Series body of a scalar pandas UDF: for each topic the list of its partitions' replica lists, None if refused."""
    requests = Requests(
        pa.array(cluster, pa.string()),
        pa.array(topic, pa.string()),
        pa.array(partitions, pa.int32(), from_pandas=True),
        pa.array(factor, pa.int32(), from_pandas=True),
    )
    given = pa.array(brokers, pa.list_(pa.int32()), from_pandas=True)
    offsets = offsets_of(np.asarray(pc.fill_null(pc.list_value_length(given), 0)))
    lists = BrokerLists(np.asarray(given.flatten()), offsets, np.arange(len(topic)))
    placed = place_topics(requests, lists, SCHEMES[scheme], run_seed)
    replicas = placed.field("replicas")
    values = pc.if_else(pc.is_valid(placed.field("error")), pa.scalar(None, replicas.type), replicas)
    return pd.Series(values.to_pandas())
