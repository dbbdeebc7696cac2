"""Placing batches of topics from Spark: Arrow batches of topics in, partitions out. Thin: the kernels do the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from udfs.kernels.ragged import offsets_of, row_of
from udfs.kernels.round_robin import Assignment, TopicBatch
from udfs.kernels.topic_seed import topic_seeds
from udfs.schemes import SCHEMES, Draw, Scheme

Ints = npt.NDArray[np.int64]

_LOADS = (("size_bytes", pa.int64()), ("bytes_in_per_s", pa.float64()), ("bytes_out_per_s", pa.float64()))

# One row per topic: its request. The brokers come apart from it: a list of hundreds of ids beside every topic would
# cost more than the placing.
REQUESTS = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("snapshot_id", pa.string()),
        ("topic", pa.string()),
        ("partitions", pa.int32()),
        ("replication_factor", pa.int32()),
        ("partition_loads", pa.list_(pa.struct([("partition", pa.int32()), *_LOADS]))),
    ]
)

# What goes back to Spark is the row's size in bytes times millions: leader and ISR follow from the replicas there, and
# loads are one list - size_bytes, bytes_in_per_s, bytes_out_per_s, NaN where unknown - null where none is known.
PLACEMENTS = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("snapshot_id", pa.string()),
        ("scheme", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("replicas", pa.list_(pa.int32())),
        ("start_index", pa.int32()),
        ("shift", pa.int32()),
        ("seed", pa.int64()),
        ("loads", pa.list_(pa.float64())),
        ("error", pa.string()),
    ]
)

# {(cluster_id, snapshot_id): ids of the living brokers, in the order to place over}
LivingBrokers = Mapping[tuple[str, str], Sequence[int]]


@dataclass(frozen=True)
class BrokerLists:
    """Broker lists shared by topics: topic i is placed over ids[offsets[k]:offsets[k + 1]] with k = of_topic[i].

    ids: int32 (flat).   offsets: int64.   of_topic: int64 (n).
    """

    ids: npt.NDArray[np.int32]
    offsets: Ints
    of_topic: Ints


# Placed partitions per Arrow batch: large enough for numpy, small enough for the JVM's memory.
_BATCH_PARTITIONS = 100_000


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))


def _int64(array: pa.Array, missing: int = 0) -> Ints:
    filled = pc.fill_null(array, pa.scalar(missing, array.type))
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)


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


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in slices of whole topics with about _BATCH_PARTITIONS partitions each."""
    ends = np.cumsum(_int64(_column(batch, "partitions")))
    begin = 0
    while begin < batch.num_rows:
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + _BATCH_PARTITIONS, side="right")))
        yield batch.slice(begin, end - begin)
        begin = end


def _loads(requests: pa.RecordBatch, count: Ints) -> tuple[pa.Array, pa.Array]:
    """(partition ids, loads) of all partitions: from `partition_loads`, or 0..count-1 where that is empty."""
    lists = _column(requests, "partition_loads")
    known = _int64(pc.list_value_length(lists)) > 0
    offsets = offsets_of(count)
    topic = row_of(offsets)
    plain = np.arange(int(offsets[-1])) - offsets[:-1][topic]
    if not known.any():
        return pa.array(plain, pa.int32()), pa.nulls(len(plain), pa.list_(pa.float64()))
    listed = known[topic]
    at = np.cumsum(listed) - 1
    values = lists.flatten()
    index = pa.array(at, mask=~listed)
    said = pc.struct_field(values, "partition").take(index)
    columns = [pc.struct_field(values, name).take(index).cast(pa.float64()) for name, _ in _LOADS]
    table = np.stack([np.asarray(pc.fill_null(column, float("nan"))) for column in columns], axis=1)
    some = ~np.isnan(table).all(axis=1)
    lists = pa.ListArray.from_arrays(
        pa.array(offsets_of(3 * some.astype(np.int64)), pa.int32()), pa.array(table[some].ravel()), mask=pa.array(~some)
    )
    return pc.coalesce(said, pa.array(plain, pa.int32())), lists


def _assign(scheme: Scheme, requests: TopicBatch, seeds: Ints, top: Ints) -> tuple[Assignment, Draw]:
    assert scheme.place is not None
    whole = TopicBatch(top, requests.first_partition, requests.replication_factor, requests.brokers)
    return scheme.place(whole, seeds)


def place_batch(requests: pa.RecordBatch, brokers: BrokerLists, scheme: Scheme, run_seed: int) -> pa.RecordBatch:
    """The placements (schema PLACEMENTS) of these n topics (schema REQUESTS) by one scheme.

    A topic whose `partition_loads` is not empty gets just the partitions listed there; the pattern of a partition does
    not depend on how many there are. A request that cannot be placed gives its partitions without replicas.
    """
    broker_count = np.diff(brokers.offsets)[brokers.of_topic]
    broker_begin = brokers.offsets[:-1][brokers.of_topic]
    partitions = _int64(_column(requests, "partitions"))
    factor = _int64(_column(requests, "replication_factor"))
    seeds = topic_seeds(run_seed, _text(_column(requests, "cluster_id")), _text(_column(requests, "topic")))

    errors = request_error(partitions, factor, broker_count)
    good = np.array([e is None for e in errors], dtype=np.bool_)
    shown = _int64(pc.list_value_length(_column(requests, "partition_loads")))
    count = np.where(shown > 0, shown, partitions)
    numbers, loads = _loads(requests, count)

    # Bad requests are placed as if harmless, and their result is masked: every array keeps its length.
    safe = TopicBatch(
        np.where(good, partitions, 0),
        np.zeros(len(good), dtype=np.int64),
        np.where(good, factor, 1),
        np.maximum(broker_count, 1),
    )
    placed, draw = _assign(scheme, safe, seeds, safe.partitions)
    topic = np.repeat(np.arange(len(good)), count)
    listed = (shown > 0)[topic]
    begin = offsets_of(safe.partitions)[:-1]
    source = begin[topic] + _int64(numbers)
    usable = good[topic]

    flat = brokers.ids[placed.broker_index + broker_begin[placed.topic[row_of(placed.offsets)]]]
    if listed.any() or not usable.all():
        lengths = np.where(usable, factor[topic], 0)
        offsets = offsets_of(lengths)
        at = np.where(usable, source, 0)
        where = np.arange(int(offsets[-1])) - offsets[:-1][row_of(offsets)]
        flat = flat[placed.offsets[:-1][at][row_of(offsets)] + where] if len(where) else flat[:0]
    else:
        offsets = placed.offsets
    replicas = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(flat, pa.int32()))
    missing = pa.array(~usable)
    if not usable.all():
        replicas = pc.if_else(missing, pa.scalar(None, replicas.type), replicas)

    rows = pa.array(topic)

    def drawn(values: Ints | None, kind: pa.DataType) -> pa.Array:
        return pa.nulls(len(topic), kind) if values is None else pa.array(values[topic], kind, mask=~usable)

    return pa.RecordBatch.from_arrays(
        [
            _column(requests, "cluster_id").take(rows),
            _column(requests, "snapshot_id").take(rows),
            pa.array([scheme.name]).take(pa.array(np.zeros(len(topic), dtype=np.int32))),
            _column(requests, "topic").take(rows),
            numbers,
            replicas,
            drawn(draw.start_index, pa.int32()),
            drawn(draw.shift, pa.int32()),
            drawn(draw.seed, pa.int64()),
            loads,
            pa.array(errors, pa.string()).take(rows),
        ],
        schema=PLACEMENTS,
    )


def _lists_for(requests: pa.RecordBatch, living: LivingBrokers) -> BrokerLists:
    """The broker lists of the topics of a batch, by their cluster and snapshot."""
    columns = [pc.dictionary_encode(_column(requests, name)) for name in ("cluster_id", "snapshot_id")]
    codes = [np.asarray(column.indices) for column in columns]
    names = [column.dictionary.to_pylist() for column in columns]
    pairs, of_topic = np.unique(codes[0].astype(np.int64) * len(names[1]) + codes[1], return_inverse=True)
    keys = [(names[0][pair // len(names[1])], names[1][pair % len(names[1])]) for pair in pairs.tolist()]
    lists = [np.asarray(living.get(key, ()), dtype=np.int32) for key in keys]
    return BrokerLists(np.concatenate(lists), offsets_of(np.array([len(ids) for ids in lists])), of_topic)


def placer(
    schemes: Sequence[str], run_seed: int, living: LivingBrokers
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `DataFrame.mapInArrow`: batches of REQUESTS -> batches of PLACEMENTS by each computed scheme."""
    computed = [SCHEMES[name] for name in schemes if SCHEMES[name].place is not None]

    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for piece in _pieces(batch):
                brokers = _lists_for(piece, living)
                for scheme in computed:
                    yield place_batch(piece, brokers, scheme, run_seed)

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
    n = len(topic)
    requests = pa.RecordBatch.from_arrays(
        [
            pa.array(cluster, pa.string()),
            pa.array([""] * n, pa.string()),
            pa.array(topic, pa.string()),
            pa.array(partitions, pa.int32(), from_pandas=True),
            pa.array(factor, pa.int32(), from_pandas=True),
            pa.nulls(n, REQUESTS.field("partition_loads").type),
        ],
        schema=REQUESTS,
    )
    given = pa.array(brokers, pa.list_(pa.int32()), from_pandas=True)
    offsets = offsets_of(np.asarray(pc.fill_null(pc.list_value_length(given), 0)))
    lists = BrokerLists(np.asarray(given.flatten()), offsets, np.arange(n))
    placed = place_batch(requests, lists, SCHEMES[scheme], run_seed)
    refused = pc.is_valid(_column(placed, "error")).to_numpy(zero_copy_only=False)
    count = np.where(pd.isna(partitions), 0, partitions).astype(np.int64).clip(min=0)
    offsets = offsets_of(count)
    nested = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), _column(placed, "replicas"))
    bad = np.zeros(n, dtype=np.bool_)
    bad[row_of(offsets)[refused]] = True
    bad |= count == 0
    values = pc.if_else(pa.array(bad), pa.scalar(None, nested.type), nested)
    return pd.Series(values.to_pandas())
