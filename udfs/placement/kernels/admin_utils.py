"""Kafka's AdminUtils over batches of topics: with racks or without, as Kafka chooses; and the naive scheme.

Source: org.apache.kafka.admin.AdminUtils (3.6 to 4.0), before that kafka.admin.AdminUtils.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import row_of
from udfs.kernel_compiler import compiled
from udfs.placement.kernels import kafka_errors
from udfs.placement.kernels.java_random import next_int
from udfs.placement.kernels.rack_aware_round_robin import alternate_all, place_rack_aware
from udfs.placement.kernels.round_robin import place_round_robin
from udfs.placement.kernels.topic_arrays import DRAWN, NO_RACK, BrokerLists, Ids, Ints, Placed, Topics, rows_of


@compiled
def draw_start_and_shift(
    states: Ints, stream: Ints, brokers: Ints, fixed: Ints, refusal: npt.NDArray[np.int8], start: Ints, shift: Ints
) -> None:
    """Start index and shift of each topic, in this order, out of its generator; rejected topics draw nothing."""
    for i in range(len(stream)):
        if refusal[i] != 0:
            start[i] = shift[i] = 0
        elif fixed[i] > DRAWN:
            start[i] = shift[i] = fixed[i]
        else:
            start[i] = next_int(states, stream[i], brokers[i])
            shift[i] = next_int(states, stream[i], brokers[i])


def kafka(topics: Topics, lists: BrokerLists, states: Ints, use_racks: bool = True) -> Placed:
    """Kafka's assignment. states: int64 (generators), advanced by what the topics draw.

    use_racks: as Kafka chooses - over the rack-alternated list if brokers have racks, rejected where only some have
    one. False: as if none had any (`--disable-rack-aware`).
    """
    if not use_racks:
        lists = replace(lists, rack=np.full(len(lists.ids), NO_RACK, dtype=np.int32))
    known = np.empty(len(lists.offsets) - 1, dtype=np.int8)
    kafka_errors.racks_known(lists.offsets, lists.rack, known)
    refusal = kafka_errors.of_admin_utils(topics, lists, known == kafka_errors.SOME_KNOWN)
    start, shift = np.empty_like(topics.partitions), np.empty_like(topics.partitions)
    brokers = np.diff(lists.offsets)[topics.of_list]
    draw_start_and_shift(states, topics.stream, brokers, topics.fixed_start, refusal, start, shift)
    return place_drawn(topics, lists, refusal, start, shift)


@compiled
def _count_below(ids: Ids, offsets: Ints, of_list: Ints, limit: Ints, out: Ints) -> None:
    for i in range(len(of_list)):
        size = offsets[of_list[i] + 1] - offsets[of_list[i]]
        below = 0
        for at in range(offsets[of_list[i]], offsets[of_list[i] + 1]):
            below += ids[at] < limit[i]
        out[i] = 0 if below == size else below


def derived_start(lists: BrokerLists, of_list: Ints, first_replica: Ints) -> Ints:
    """The start index (int64, n) from which Kafka grows a topic, over brokers by id.

    It is that of the first broker whose id is not below partition 0's first replica (int64, n); 0 if all are.
    Source: AdminZkClient.addPartitions of 2.8.
    """
    out = np.empty(len(of_list), dtype=np.int64)
    _count_below(lists.ids, lists.offsets, of_list, first_replica, out)
    return out


def place_drawn(
    topics: Topics, lists: BrokerLists, refusal: npt.NDArray[np.int8], start: Ints, shift: Ints, growth: int = 1
) -> Placed:
    """The assignment from these start indices and shifts (int64, n), >= 0, of the topics that are not rejected (n)."""
    ids, rack, racks = np.empty_like(lists.ids), np.empty_like(lists.rack), np.empty(len(lists.offsets) - 1, np.int64)
    ranks = np.append(lists.rack_rank, NO_RACK).astype(np.int32)[lists.rack]
    alternate_all(lists.ids, lists.offsets, ranks, ids, rack, racks)

    row_offsets, replica_offsets, begins = rows_of(topics, refusal)
    out = np.empty(int(begins[-1]), dtype=np.int32)
    detail = np.zeros(len(refusal), dtype=np.int64)
    late = refusal.copy()
    with_racks = racks[topics.of_list] > 0 if len(racks) else np.zeros(len(refusal), dtype=np.bool_)
    rows = np.diff(row_offsets)
    # By name: the arguments that both kernels have.
    same: dict[str, Any] = {
        "offsets": lists.offsets,
        "of_list": topics.of_list,
        "factor": topics.replication_factor,
        "origin": topics.first_partition,
        "start": start,
        "shift": shift,
        "listed": topics.listed,
        "listed_offsets": topics.listed_bounds(),
        "begins": begins,
        "out": out,
        "refusal": late,
        "detail": detail,
    }
    place_round_robin(ids=ids, rows=np.where(with_racks, 0, rows), growth=growth, **same)
    if with_racks.any():
        place_rack_aware(ids=ids, rack=rack, racks=racks, rows=np.where(with_racks, rows, 0), **same)
    placed = Placed(row_offsets, replica_offsets, out, start, shift, late, detail)
    return placed if (late == refusal).all() else _without_late(placed, refusal)


def _without_late(placed: Placed, early: npt.NDArray[np.int8]) -> Placed:
    """The answer without the rows of topics that were rejected while they were placed, not before (`early`)."""
    good = placed.refusal == early
    keep = good[row_of(placed.row_offsets)]
    width = np.diff(placed.replica_offsets)
    rows = np.where(good, np.diff(placed.row_offsets), 0)
    return replace(
        placed,
        row_offsets=np.append(0, np.cumsum(rows)),
        replica_offsets=np.append(0, np.cumsum(width[keep])),
        broker=placed.broker[np.repeat(keep, width)],
    )


def naive(topics: Topics, lists: BrokerLists) -> Placed:
    """Replica j of partition i on broker (i + j) % n, brokers sorted: what many texts claim that Kafka does."""
    without_racks = np.full(len(lists.ids), NO_RACK, dtype=np.int32)
    ordered = replace(lists, ids=lists.ids[np.lexsort((lists.ids, row_of(lists.offsets)))], rack=without_racks)
    refusal = kafka_errors.of_admin_utils(topics, ordered, np.zeros(len(lists.offsets) - 1, dtype=np.bool_))
    zero = np.zeros_like(topics.partitions)
    return replace(place_drawn(topics, ordered, refusal, zero, zero, growth=0), start_index=None, shift=None)
