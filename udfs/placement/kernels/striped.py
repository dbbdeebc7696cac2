"""KRaft's striped placement: a broker list for each rack, racks in turn, unfenced brokers first.

Source: org.apache.kafka.metadata.placement.StripedReplicaPlacer of Kafka 4.1 (earlier versions never shuffle). List 2k
has the unfenced brokers of rack k, list 2k + 1 its fenced ones; racks are in the order of their names, none first.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, copying_part, part
from udfs.placement.kernels.java_util import find_hash_map_order, next_int, shuffle
from udfs.placement.kernels.topic_arrays import (
    BrokerLists,
    Codes,
    Ids,
    Ints,
    TopicPlacements,
    Topics,
    check_striped,
    compute_offsets,
)


class RackLayout(NamedTuple):
    """n brokers by rack and fence."""

    brokers: Ids  # int32 (n), ids; list k is brokers[bounds[k]:bounds[k + 1]]
    bounds: Ids  # int32 (2 * racks + 1)
    draw_order: Ids  # int32 (racks), racks in the order in which Kafka iterates over its HashMap of them
    racks: int  # Number of racks


class StripeScratch(NamedTuple):
    """Working memory for one topic over up to n brokers."""

    brokers: Ids  # int32 (n), shuffled copy of the layout's brokers
    rack_order: Ids  # int32 (n), shuffled racks
    cursors: (
        Ids  # int32 (2 * n, 3), for each list: its brokers used in the current epoch, that epoch's offset, the epoch
    )


class StripedTopic(NamedTuple):
    """One topic to place."""

    partitions: int  # Number of partitions to draw for
    width: int  # Replicas of each partition; 0 = make the draws only, as for a topic with an error
    partition_ids: Ints  # int64 (k), the partitions to keep; none = all
    order: Ints  # int64 (k), indices that sort partition_ids


_INDEX, _OFFSET, _EPOCH = 0, 1, 2


@copying_part
def lay_out_racks(
    ids: Ids, rank: Ids, fenced: npt.NDArray[np.bool_], rack_hash: Ids, brokers: Ids, bounds: Ids, draw_order: Ids
) -> int:
    """Sort n brokers by rack, fence and id into `brokers`, `bounds` and `draw_order`, see RackLayout.

    ids: in the order that Kafka uses; rank (-1 = none), rack_hash: of each broker's rack. Return the number of racks.
    """
    n = len(ids)
    by_id = np.argsort(ids)
    by_fence = by_id[np.argsort(fenced[by_id], kind="mergesort")]
    order = by_fence[np.argsort(rank[by_fence], kind="mergesort")]
    racks = 0
    number = np.empty(n, dtype=np.int32)
    for i in range(n):
        broker = order[i]
        if i == 0 or rank[broker] != rank[order[i - 1]]:
            racks += 1
        number[broker] = racks - 1
        brokers[i] = ids[broker]
    bounds[: 2 * racks + 1] = 0
    for i in range(n):
        bounds[2 * number[i] + fenced[i] + 1] += 1
    for k in range(2 * racks):
        bounds[k + 1] += bounds[k]

    first_seen = np.empty(racks, dtype=np.int32)
    hashes = np.empty(racks, dtype=np.int32)
    known = np.zeros(racks, dtype=np.bool_)
    count = 0
    for i in range(n):
        if not known[number[i]]:
            known[number[i]] = True
            first_seen[count], hashes[count] = number[i], rack_hash[i]
            count += 1
    find_hash_map_order(hashes, draw_order)
    for k in range(racks):
        draw_order[k] = first_seen[draw_order[k]]
    return racks


@part
def _next_broker(brokers: Ids, bounds: Ids, cursors: Ids, list_: int, epoch: int) -> int:
    """Return the next broker of a list in this epoch, -1 if all are used."""
    begin = bounds[list_]
    size = bounds[list_ + 1] - begin
    if size == 0:
        return -1
    index, offset = cursors[list_, _INDEX], cursors[list_, _OFFSET]
    if cursors[list_, _EPOCH] != epoch:
        cursors[list_, _EPOCH] = epoch
        index = 0
        offset += 1
        if offset == size:
            offset = 0
        cursors[list_, _OFFSET] = offset
    if index >= size:
        return -1
    cursors[list_, _INDEX] = index + 1
    at = index + offset
    if at >= size:
        at -= size
    return int(brokers[begin + at])


@copying_part
def place_topic(
    states: Ints, generator: int, layout: RackLayout, scratch: StripeScratch, topic: StripedTopic, out: Ids
) -> None:
    """Place one topic into `out`, int32 (partitions * width); the layout and `scratch.brokers` are of equal length."""
    bounds, draw_order, racks = layout.bounds, layout.draw_order, layout.racks
    rack_order, cursors = scratch.rack_order, scratch.cursors
    partition_ids, order, width = topic.partition_ids, topic.order, topic.width
    cursors[: 2 * racks] = 0
    unfenced = 0
    for k in range(racks):
        for list_ in (2 * draw_order[k] + 1, 2 * draw_order[k]):
            size = bounds[list_ + 1] - bounds[list_]
            if size > 0:
                cursors[list_, _OFFSET] = next_int(states, generator, size)
        unfenced += bounds[2 * k + 1] - bounds[2 * k]
        rack_order[k] = k
    if racks == 0:
        return
    stripe = next_int(states, generator, racks)
    if width == 0:
        return
    brokers = layout.brokers
    epoch = 0
    written = 0
    at = 0
    for partition in range(topic.partitions):
        if epoch == unfenced and unfenced > 1:
            if partition == epoch:  # the first shuffle: from here on the topic needs its own lists
                brokers = scratch.brokers
                brokers[:] = layout.brokers
            shuffle(states, generator, rack_order[:racks])
            for k in range(racks):
                for list_ in (2 * draw_order[k] + 1, 2 * draw_order[k]):
                    shuffle(states, generator, brokers[bounds[list_] : bounds[list_ + 1]])
            epoch = 0
        if stripe == racks:
            stripe = 0
        if len(partition_ids) > 0:
            at = order[written] * width
        first = stripe
        while True:
            broker = _next_broker(brokers, bounds, cursors, 2 * rack_order[first], epoch)
            if broker >= 0:
                break
            first += 1
            if first == racks:
                first = 0
        out[at] = broker
        at += 1
        rack = stripe
        for _rank in range(1, width):
            broker = -1
            while broker < 0:
                if rack == first:
                    first = -1  # the leader's rack has had its turn
                else:
                    broker = _next_broker(brokers, bounds, cursors, 2 * rack_order[rack], epoch)
                    if broker < 0:
                        broker = _next_broker(brokers, bounds, cursors, 2 * rack_order[rack] + 1, epoch)
                rack += 1
                if rack == racks:
                    rack = 0
            out[at] = broker
            at += 1
        epoch += 1
        stripe += 1
        if len(partition_ids) > 0 and partition == partition_ids[order[written]]:
            written += 1
            if written == len(partition_ids):
                return


@compiled
def _place_topics(
    states: Ints, topics: Topics, lists: BrokerLists, rank: Ids, rack_hash: Ids, begin: Ints, errors: Codes, out: Ids
) -> None:
    ids, offsets = lists.ids, lists.offsets
    # A list is laid out when a topic first needs it.
    brokers, draw_order = np.empty_like(ids), np.empty_like(ids)
    bounds = np.empty(2 * len(ids) + len(offsets) - 1, dtype=np.int32)
    racks = np.full(len(offsets) - 1, -1, dtype=np.int64)
    longest = 0
    for k in range(len(racks)):
        longest = max(longest, offsets[k + 1] - offsets[k])
    copy, rack_order = np.empty(longest, dtype=np.int32), np.empty(longest, dtype=np.int32)
    cursors = np.empty((2 * longest, 3), dtype=np.int32)
    for i in range(len(topics.partitions)):
        k = topics.broker_list[i]
        lo, hi = offsets[k], offsets[k + 1]
        laid_out, its_bounds, its_order = brokers[lo:hi], bounds[2 * lo + k : 2 * hi + k + 1], draw_order[lo:hi]
        if racks[k] < 0:
            racks[k] = lay_out_racks(
                ids[lo:hi], rank[lo:hi], lists.fenced[lo:hi], rack_hash[lo:hi], laid_out, its_bounds, its_order
            )
        partition_ids = topics.partition_ids[topics.partition_id_offsets[i] : topics.partition_id_offsets[i + 1]]
        order = np.argsort(partition_ids)
        count = partition_ids[order[-1]] + 1 if len(partition_ids) > 0 else max(0, topics.partitions[i])
        width = topics.replication_factor[i] if errors[i] == 0 else 0
        layout = RackLayout(laid_out, its_bounds, its_order, racks[k])
        scratch = StripeScratch(copy[: hi - lo], rack_order, cursors)
        request = StripedTopic(count, width, partition_ids, order)
        place_topic(states, topics.generator[i], layout, scratch, request, out[begin[i] : begin[i + 1]])


def place_striped(topics: Topics, lists: BrokerLists, states: Ints) -> TopicPlacements:
    """Place topics as a KRaft controller does; states: int64 (generators), advanced by what the topics draw.

    Topics with an error draw too, because Kafka lays out the racks before it checks the request. `start_partition` and
    `fixed_start_index` have no effect: new partitions of an existing topic are placed like a new topic.
    """
    error_code = check_striped(topics, lists)
    row_offsets, replica_offsets, begin = compute_offsets(topics, error_code)
    out = np.empty(int(begin[-1]), dtype=np.int32)
    _place_topics(states, topics, lists, lists.broker_rank(), lists.broker_hash(), begin, error_code, out)
    detail = np.zeros(len(error_code), dtype=np.int64)
    return TopicPlacements(row_offsets, replica_offsets, out, None, None, error_code, detail)
