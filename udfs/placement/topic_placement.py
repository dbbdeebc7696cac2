"""Placing batches of topics: Arrow arrays of topics in, one placement per topic out. The kernels do the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import offsets_of
from udfs.placement.kernels.java_util import scramble_seeds
from udfs.placement.kernels.topic_arrays import BrokerLists, Ints, TopicPlacements, Topics, describe_error
from udfs.placement.kernels.topic_seeds import compute_topic_seeds
from udfs.placement.schemes import SCHEMES, find_place_function, find_usable
from udfs.wording import count_of

Mask = npt.NDArray[np.bool_]

# One row per topic, not per partition: little passes between Spark and Python, and Spark cuts the list.
TOPIC_PLACEMENT = pa.struct(
    [
        ("replicas", pa.list_(pa.int32())),  # of all its partitions, one after another; empty = error
        ("start_index", pa.int32()),
        ("shift", pa.int32()),
        ("seed", pa.int64()),
        ("error", pa.string()),
    ]
)


@dataclass(frozen=True)
class LiveBrokers:
    """The live brokers of a snapshot, in the order in which Kafka places over them."""

    ids: Sequence[int]  # Broker ids
    racks: Sequence[str | None] = ()  # The rack of each broker, None = unknown; empty = no broker has one
    cordoned: Sequence[bool | None] = ()  # Whether all log dirs of each are, None = unknown; empty = all

    def select_usable(self, scheme: str) -> LiveBrokers:
        """Select those that a scheme places over."""
        return self._select(find_usable(scheme, self.cordoned or [None] * len(self.ids)))

    def select_counted(self, has_replicas: Mask) -> LiveBrokers:
        """Select those that means count, see find_counted_brokers."""
        counted = find_counted_brokers(has_replicas, mark_cordoned(self.cordoned, len(self.ids)))
        return self._select(np.flatnonzero(counted).tolist())

    def _select(self, at: Sequence[int]) -> LiveBrokers:
        return LiveBrokers(*([values[i] for i in at] if values else () for values in vars(self).values()))


def mark_cordoned(cordoned: Sequence[bool | None], brokers: int) -> Mask:
    """Return whether each broker is cordoned: bool (n). cordoned: None = not known, which counts as no; empty = all."""
    return np.array([*map(bool, cordoned or [None] * brokers)], dtype=np.bool_)


def find_counted_brokers(has_replicas: Mask, cordoned: Mask) -> Mask:
    """Find the brokers that means count: bool (n), all but those that are empty and cordoned, and so stay empty."""
    return has_replicas | ~cordoned


# {(cluster_id, snapshot_id): live brokers}
LiveBrokersBySnapshot = Mapping[tuple[str, str], LiveBrokers]


@dataclass(frozen=True)
class TopicBatch:
    """n topics to place. No topic and no cluster is null."""

    cluster: pa.Array  # string (n)
    topic: pa.Array  # string (n)
    partitions: pa.Array  # int32 (n)
    replication_factor: pa.Array  # int32 (n)
    # list<int32> (n), the partitions to place; an empty list (or None) = all of them
    partition_ids: pa.Array | None = None


def _to_int64(array: pa.Array) -> Ints:
    """Return the values of an Arrow array, 0 for null."""
    return np.asarray(pc.fill_null(array, pa.scalar(0, array.type)).to_numpy(zero_copy_only=False), dtype=np.int64)


def get_utf8_buffers(array: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the UTF-8 bytes and the offsets (n + 1) of a string array without nulls."""
    packed = pa.concat_arrays([array.cast(pa.large_string())])
    _, offsets, data = packed.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[: len(packed) + 1] if len(packed) else np.zeros(1, dtype=np.int64)
    return np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8), ends


def _describe_errors(
    topics: Topics, lists: BrokerLists, names: pa.Array, placements: TopicPlacements, cordons: Mask | None
) -> pa.Array:
    """Return Kafka's exception and message for each topic that cannot be placed, with its values; null = placed."""
    out: list[str | None] = [None] * len(names)
    for row in np.flatnonzero(placements.error_code).tolist():
        code, detail = int(placements.error_code[row]), int(placements.error_detail[row])
        list_ = topics.broker_list[row]
        knows_cordons = cordons is not None and bool(cordons[list_])
        error, brokers = describe_error(topics, lists, row, code, detail, cordons=knows_cordons), lists.sizes[list_]
        values = f"{count_of(topics.partitions[row], 'partition')}, replication factor {topics.replication_factor[row]}"
        values += f", {count_of(brokers, 'broker')}"
        out[row] = f"{error.exception}: {error.message} (topic {names[row]}: {values})"
    return pa.array(out, pa.string())


def place_topics(
    batch: TopicBatch,
    lists: BrokerLists,
    broker_list: Ints,
    scheme_name: str,
    run_seed: int,
    cordons: Mask | None = None,
) -> pa.StructArray:
    """Place n topics by a scheme, over the list of each topic (broker_list: int64, n), with one kernel call.

    `run_seed` is the seed from which each topic's own seed is derived. cordons: bool (lists), those of Kafka 4.3 and
    later, whose errors differ. Returns TOPIC_PLACEMENT (n): a topic that cannot
    be placed has no replicas and an error. Raises: ValueError if the scheme does not compute placements.
    """
    place = find_place_function(scheme_name)
    selected = {}
    if batch.partition_ids is not None:
        offsets = offsets_of(_to_int64(pc.list_value_length(batch.partition_ids)))
        selected = {"partition_ids": _to_int64(batch.partition_ids.flatten()), "partition_id_offsets": offsets}
    topics = Topics.create(_to_int64(batch.partitions), _to_int64(batch.replication_factor), broker_list, **selected)
    seeds = compute_topic_seeds(run_seed, get_utf8_buffers(batch.cluster), get_utf8_buffers(batch.topic))
    placements = place(topics, lists, scramble_seeds(seeds))
    rejected = placements.error_code != 0
    replicas = np.where(rejected, 0, topics.count_rows() * topics.replication_factor)
    types = {field.name: field.type for field in TOPIC_PLACEMENT}

    def nullable(name: str, values: Ints | None) -> pa.Array:
        return pa.nulls(len(rejected), types[name]) if values is None else pa.array(values, types[name], mask=rejected)

    offsets, brokers = pa.array(offsets_of(replicas), pa.int32()), pa.array(placements.broker, pa.int32())
    return pa.StructArray.from_arrays(
        [
            pa.ListArray.from_arrays(offsets, brokers),
            nullable("start_index", placements.start_index),
            nullable("shift", placements.shift),
            nullable("seed", seeds if SCHEMES[scheme_name].is_random else None),
            _describe_errors(topics, lists, batch.topic, placements, cordons),
        ],
        fields=list(TOPIC_PLACEMENT),
    )


def create_broker_lists(brokers: LiveBrokers) -> BrokerLists:
    """Return the brokers as a single broker list."""
    return BrokerLists.create(np.asarray(brokers.ids, dtype=np.int32), np.array([0, len(brokers.ids)]), brokers.racks)


def find_broker_lists(
    cluster: pa.Array, snapshot: pa.Array, live_brokers: LiveBrokersBySnapshot, scheme: str
) -> tuple[BrokerLists, Ints, Mask]:
    """Return (broker lists that a scheme places n topics over, the list of each topic, `cordons` of place_topics).

    A snapshot that is missing in `live_brokers` has none.
    """
    columns = [pc.dictionary_encode(column) for column in (cluster, snapshot)]
    codes = [np.asarray(column.indices) for column in columns]
    names = [column.dictionary.to_pylist() for column in columns]
    pairs, broker_list = np.unique(codes[0].astype(np.int64) * len(names[1]) + codes[1], return_inverse=True)
    keys = [(names[0][pair // len(names[1])], names[1][pair % len(names[1])]) for pair in pairs.tolist()]
    known = [live_brokers.get(key, LiveBrokers(())) for key in keys]
    cordons = np.array([any(one is not None for one in brokers.cordoned) for brokers in known], dtype=np.bool_)
    result = [brokers.select_usable(scheme) for brokers in known]
    offsets = offsets_of(np.array([len(brokers.ids) for brokers in result], dtype=np.int64))
    racks = [rack for brokers in result for rack in brokers.racks or [None] * len(brokers.ids)]
    ids = np.array([broker for brokers in result for broker in brokers.ids], dtype=np.int32)
    return BrokerLists.create(ids, offsets, racks), broker_list, cordons
