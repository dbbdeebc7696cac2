"""Kafka's rack-aware round robin.

Source: kafka.admin.AdminUtils.assignReplicasToBrokersRackAware and getRackAlternatedBrokerList. The broker list is
alternated by rack; a follower candidate is passed over while its rack is used and another is not, or while it is
used itself and another broker is not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part
from udfs.placement.kernels import kafka_errors
from udfs.placement.kernels.round_robin import crossings, follower_index, remainder, to_int
from udfs.placement.kernels.topic_arrays import NO_RACK, Ids, Ints

_INT_MAX = (1 << 31) - 1  # the shift grows at ids > 0 only, and Java's ids turn negative behind this one


@compiled
def alternate(ids: Ids, rack: Ids, out_ids: Ids, out_rack: Ids) -> int:
    """Brokers in Kafka's alternated order: racks in order, ids in order inside, one of each rack in turn.

    ids, rack: int32 (n), racks as ranks of their names.   out_ids, out_rack: int32 (n), racks numbered from 0.
    Returns the number of racks.
    """
    n = len(ids)
    by_id = np.argsort(ids)
    by_rack = by_id[np.argsort(rack[by_id], kind="mergesort")]
    turn = np.empty(n, dtype=np.int64)  # a broker's place within its rack
    number = np.empty(n, dtype=np.int64)
    racks = 0
    for i in range(n):
        here = by_rack[i]
        if i == 0 or rack[here] != rack[by_rack[i - 1]]:
            racks += 1
            turn[i] = 0
        else:
            turn[i] = turn[i - 1] + 1
        number[i] = racks - 1
    order = np.argsort(turn * racks + number)
    for i in range(n):
        out_ids[i] = ids[by_rack[order[i]]]
        out_rack[i] = number[order[i]]
    return racks


@compiled
def alternate_all(ids: Ids, offsets: Ints, rack: Ids, out_ids: Ids, out_rack: Ids, racks: Ints) -> None:
    """Every list alternated, and its number of racks (int64, m); one without racks stays as given, and has 0."""
    for k in range(len(racks)):
        lo, hi = offsets[k], offsets[k + 1]
        if lo == hi or rack[lo] == NO_RACK:
            out_ids[lo:hi] = ids[lo:hi]
            out_rack[lo:hi] = NO_RACK
            racks[k] = 0
        else:
            racks[k] = alternate(ids[lo:hi], rack[lo:hi], out_ids[lo:hi], out_rack[lo:hi])


@part
def place_partition(
    rack: Ids, racks: int, leader: int, turn: int, width: int, rack_used: Ints, used: Ints, stamp: int, chosen: Ints
) -> int:
    """Indices into the alternated list of one partition's replicas (chosen), the leader's given.

    turn: the shift at this partition.   rack_used, used: what bears `stamp` is taken; stamp is new for each partition.
    Returns 0, or the index below 0 that Java would reject.
    """
    n = len(rack)
    base = to_int(turn * racks)
    overflows = base < 0 or base > (1 << 30)  # a candidate may be asked for n times and more
    step = remainder(base, n - 1) if n > 1 else 0
    chosen[0] = leader
    used[leader] = stamp
    rack_used[rack[leader]] = stamp
    free_racks = racks - 1
    tried = 0
    for rank in range(1, width):
        while True:
            if overflows:
                candidate = follower_index(leader, base, tried, n)
                if candidate < 0:
                    return candidate
            else:
                candidate = leader + 1 + step
                if candidate >= n:
                    candidate -= n
                step += 1
                if step == n - 1:
                    step = 0
            tried += 1
            if (free_racks == 0 or rack_used[rack[candidate]] != stamp) and used[candidate] != stamp:
                break
        chosen[rank] = candidate
        used[candidate] = stamp
        if rack_used[rack[candidate]] != stamp:
            rack_used[rack[candidate]] = stamp
            free_racks -= 1
    return 0


@compiled
def place_rack_aware(
    ids: Ids,
    offsets: Ints,
    rack: Ids,
    racks: Ints,
    of_list: Ints,
    rows: Ints,
    factor: Ints,
    origin: Ints,
    start: Ints,
    shift: Ints,
    listed: Ints,
    listed_offsets: Ints,
    begins: Ints,
    out: Ids,
    refusal: npt.NDArray[np.int8],
    detail: Ints,
) -> None:
    """The replicas of all topics that have rows, into `out` from begins[i] on; see topics.py for the arguments.

    ids, rack, racks: of alternate_all.
    """
    longest = 0
    for k in range(len(racks)):
        longest = max(longest, offsets[k + 1] - offsets[k])
    used = np.zeros(longest, dtype=np.int64)
    rack_used = np.zeros(longest, dtype=np.int64)
    chosen = np.empty(longest, dtype=np.int64)
    stamp = 0
    for i in range(len(rows)):
        lo, hi = offsets[of_list[i]], offsets[of_list[i] + 1]
        mine, my_rack = ids[lo:hi], rack[lo:hi]
        n = hi - lo
        first = max(0, origin[i])
        at = begins[i]
        for row in range(rows[i]):
            partition = first + row
            if listed_offsets[i] < listed_offsets[i + 1]:
                partition = listed[listed_offsets[i] + row]
            leader = remainder(to_int(partition + start[i]), n)
            stamp += 1
            bad = leader
            if leader >= 0:
                turn = to_int(shift[i] + crossings(first, min(partition, _INT_MAX), n))
                bad = place_partition(
                    my_rack, racks[of_list[i]], leader, turn, factor[i], rack_used, used, stamp, chosen
                )
            if bad < 0:
                refusal[i], detail[i] = kafka_errors.BROKER_INDEX, bad
                break
            for rank in range(factor[i]):
                out[at] = mine[chosen[rank]]
                at += 1
