"""KRaft's striped placement: a broker list per rack, racks in turn, unfenced brokers first.

Source: org.apache.kafka.metadata.placement.StripedReplicaPlacer of Kafka 4.1 (earlier ones never shuffle).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, copying_part, part
from udfs.placement.kernels import kafka_errors
from udfs.placement.kernels.java_hash import hash_map_order
from udfs.placement.kernels.java_random import next_int, shuffle
from udfs.placement.kernels.topic_arrays import NO_RACK, BrokerLists, Ids, Ints, Placed, Topics, rows_of

# A list of brokers is one of 2 * racks: rack r's unfenced ones at 2r, its fenced ones at 2r + 1; racks in the order of
# their names, brokers without rack first.


@copying_part
def lay_out(
    ids: Ids, rack_rank: Ids, fenced: npt.NDArray[np.bool_], rack_hash: Ids, brokers: Ids, bounds: Ids, keys: Ids
) -> int:
    """The brokers by rack and fence, ids in order.

    ids, rack_rank (-1 = no rack), rack_hash, fenced: (n), as Kafka is given them.
    brokers: int32 (n), out.   bounds: int32 (2 * racks + 1), out: list k is brokers[bounds[k]:bounds[k + 1]].
    keys: int32 (racks), out: racks in the order in which Kafka's HashMap of them is walked.   Returns the racks.
    """
    n = len(ids)
    by_id = np.argsort(ids)
    by_fence = by_id[np.argsort(fenced[by_id], kind="mergesort")]
    order = by_fence[np.argsort(rack_rank[by_fence], kind="mergesort")]
    racks = 0
    number = np.empty(n, dtype=np.int32)
    for i in range(n):
        here = order[i]
        if i == 0 or rack_rank[here] != rack_rank[order[i - 1]]:
            racks += 1
        number[here] = racks - 1
        brokers[i] = ids[here]
    bounds[: 2 * racks + 1] = 0
    for i in range(n):
        bounds[2 * number[i] + fenced[i] + 1] += 1
    for k in range(2 * racks):
        bounds[k + 1] += bounds[k]

    met = np.empty(racks, dtype=np.int32)
    hashes = np.empty(racks, dtype=np.int32)
    known = np.zeros(racks, dtype=np.bool_)
    count = 0
    for i in range(n):
        if not known[number[i]]:
            known[number[i]] = True
            met[count], hashes[count] = number[i], rack_hash[i]
            count += 1
    hash_map_order(hashes, keys)
    for k in range(racks):
        keys[k] = met[keys[k]]
    return racks


# What a list's cursor holds: how many of its brokers this round has had, where the round began, which round it is.
_INDEX, _OFFSET, _EPOCH = 0, 1, 2


@part
def _next(brokers: Ids, bounds: Ids, cursors: Ids, which: int, epoch: int) -> int:
    """The next broker of list `which` in this round, -1 if there is no more."""
    begin = bounds[which]
    size = bounds[which + 1] - begin
    if size == 0:
        return -1
    index, offset = cursors[which, _INDEX], cursors[which, _OFFSET]
    if cursors[which, _EPOCH] != epoch:
        cursors[which, _EPOCH] = epoch
        index = 0
        offset += 1
        if offset == size:
            offset = 0
        cursors[which, _OFFSET] = offset
    if index >= size:
        return -1
    cursors[which, _INDEX] = index + 1
    at = index + offset
    if at >= size:
        at -= size
    return int(brokers[begin + at])


@copying_part
def place_topic(
    states: Ints,
    stream: int,
    given: Ids,
    bounds: Ids,
    keys: Ids,
    racks: int,
    scratch: Ids,
    names: Ids,
    cursors: Ids,
    wanted: Ints,
    order: Ints,
    count: int,
    width: int,
    out: Ids,
) -> None:
    """One topic's `count` partitions; with `wanted` (ids, rising by `order`), only those are kept.

    given, bounds, keys, racks: of lay_out.   scratch (n), names (racks), cursors (2 * racks, 3): room to work in.
    width 0: only the draws are made, as for a topic that is rejected.
    """
    cursors[: 2 * racks] = 0
    unfenced = 0
    for k in range(racks):
        for which in (2 * keys[k] + 1, 2 * keys[k]):
            size = bounds[which + 1] - bounds[which]
            if size > 0:
                cursors[which, _OFFSET] = next_int(states, stream, size)
        unfenced += bounds[2 * k + 1] - bounds[2 * k]
        names[k] = k
    if racks == 0:
        return
    stripe = next_int(states, stream, racks)
    if width == 0:
        return
    brokers = given
    epoch = 0
    kept = 0
    at = 0
    for partition in range(count):
        if epoch == unfenced and unfenced > 1:
            if partition == epoch:  # the first time: from here on this topic has lists of its own
                brokers = scratch
                brokers[:] = given
            shuffle(states, stream, names[:racks])
            for k in range(racks):
                for which in (2 * keys[k] + 1, 2 * keys[k]):
                    shuffle(states, stream, brokers[bounds[which] : bounds[which + 1]])
            epoch = 0
        if stripe == racks:
            stripe = 0
        if len(wanted) > 0:
            at = order[kept] * width
        first = stripe
        while True:
            broker = _next(brokers, bounds, cursors, 2 * names[first], epoch)
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
                    broker = _next(brokers, bounds, cursors, 2 * names[rack], epoch)
                    if broker < 0:
                        broker = _next(brokers, bounds, cursors, 2 * names[rack] + 1, epoch)
                rack += 1
                if rack == racks:
                    rack = 0
            out[at] = broker
            at += 1
        epoch += 1
        stripe += 1
        if len(wanted) > 0 and partition == wanted[order[kept]]:
            kept += 1
            if kept == len(wanted):
                return


@compiled
def _place(
    states: Ints,
    stream: Ints,
    ids: Ids,
    offsets: Ints,
    rack_rank: Ids,
    rack_hash: Ids,
    fenced: npt.NDArray[np.bool_],
    of_list: Ints,
    rows: Ints,
    partitions: Ints,
    factor: Ints,
    listed: Ints,
    listed_offsets: Ints,
    begins: Ints,
    refusal: npt.NDArray[np.int8],
    out: Ids,
) -> None:
    lists = len(offsets) - 1
    # Worked out when a topic first needs it.
    brokers = np.empty(len(ids), dtype=np.int32)
    bounds = np.empty(2 * len(ids) + lists, dtype=np.int32)
    keys = np.empty(len(ids), dtype=np.int32)
    racks = np.full(lists, -1, dtype=np.int64)
    longest = 0
    for k in range(lists):
        longest = max(longest, offsets[k + 1] - offsets[k])
    scratch, names = np.empty(longest, dtype=np.int32), np.empty(longest, dtype=np.int32)
    cursors = np.empty((2 * longest, 3), dtype=np.int32)
    for i in range(len(of_list)):
        k = of_list[i]
        lo, hi = offsets[k], offsets[k + 1]
        mine, my_bounds, my_keys = brokers[lo:hi], bounds[2 * lo + k : 2 * hi + k + 1], keys[lo:hi]
        if racks[k] < 0:
            racks[k] = lay_out(ids[lo:hi], rack_rank[lo:hi], fenced[lo:hi], rack_hash[lo:hi], mine, my_bounds, my_keys)
        wanted = listed[listed_offsets[i] : listed_offsets[i + 1]]
        order = np.argsort(wanted)
        count = wanted[order[-1]] + 1 if len(wanted) > 0 else max(0, partitions[i])
        width = factor[i] if refusal[i] == 0 else 0
        place_topic(
            *(states, stream[i], mine, my_bounds, my_keys, racks[k], scratch[: hi - lo], names, cursors),
            *(wanted, order, count, width, out[begins[i] : begins[i + 1]]),
        )


def striped(topics: Topics, lists: BrokerLists, states: Ints) -> Placed:
    """The placement of a KRaft controller. states: int64 (generators), advanced by what the topics draw.

    A rejected topic draws too: Kafka lays the racks out before it looks at the request. first_partition counts for
    nothing: a topic that grows is placed like a new one.
    """
    refusal = kafka_errors.of_striped(topics, lists)
    row_offsets, replica_offsets, begins = rows_of(topics, refusal)
    out = np.empty(int(begins[-1]), dtype=np.int32)
    rank = np.append(lists.rack_rank, NO_RACK).astype(np.int32)[lists.rack]
    hashes = np.append(lists.rack_hash, 0).astype(np.int32)[lists.rack]  # of Optional.empty()
    request = (topics.of_list, np.diff(row_offsets), topics.partitions, topics.replication_factor)
    wanted = (topics.listed, topics.listed_bounds())
    given = (lists.ids, lists.offsets, rank, hashes, lists.fenced)
    _place(states, topics.stream, *given, *request, *wanted, begins, refusal, out)
    return Placed(row_offsets, replica_offsets, out, None, None, refusal, np.zeros(len(refusal), dtype=np.int64))
