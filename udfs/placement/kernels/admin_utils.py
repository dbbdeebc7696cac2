"""Kafka's AdminUtils for batches of topics, with racks or without, and the naive scheme.

Source: org.apache.kafka.admin.AdminUtils (3.6 to 4.0), previously kafka.admin.AdminUtils.
"""

from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import offsets_of, row_of
from udfs.kernel_compiler import compiled
from udfs.placement.kernels.java_util import next_int
from udfs.placement.kernels.round_robin import alternate_lists, create_scratch, place_rack_aware, place_round_robin
from udfs.placement.kernels.topic_arrays import (
    DRAW_START,
    NO_RACK,
    BrokerLists,
    Codes,
    Ints,
    PlacementBuffers,
    TopicPlacements,
    Topics,
    check_admin_utils,
    compute_offsets,
)


@compiled
def _draw_start_and_shift(
    states: Ints, topics: Topics, sizes: Ints, error_code: Codes, start_index: Ints, shift: Ints
) -> None:
    """Draw start index and shift of each topic, in this order; topics with an error draw nothing."""
    for i in range(len(start_index)):
        if error_code[i] != 0:
            start_index[i] = shift[i] = 0
        elif topics.fixed_start_index[i] > DRAW_START:
            start_index[i] = shift[i] = topics.fixed_start_index[i]
        else:
            brokers = sizes[topics.broker_list[i]]
            start_index[i] = next_int(states, topics.generator[i], brokers)
            shift[i] = next_int(states, topics.generator[i], brokers)


def _remove_racks(lists: BrokerLists) -> BrokerLists:
    return lists._replace(rack=np.full(len(lists.ids), NO_RACK, dtype=np.int32))


def place_kafka(topics: Topics, lists: BrokerLists, states: Ints, use_racks: bool = True) -> TopicPlacements:
    """Place topics as AdminUtils does; states: int64 (generators), advanced by what the topics draw.

    use_racks: fail if only some brokers have racks. False = ignore racks, as with `--disable-rack-aware`.
    """
    if not use_racks:
        lists = _remove_racks(lists)
    error_code = check_admin_utils(topics, lists, use_racks)
    start_index, shift = np.empty_like(topics.partitions), np.empty_like(topics.partitions)
    _draw_start_and_shift(states, topics, lists.sizes, error_code, start_index, shift)
    return place_from(topics, lists, error_code, start_index, shift)


def derive_start_index(lists: BrokerLists, broker_list: Ints, first_replica: Ints) -> Ints:
    """Return the start index (int64, n) from which Kafka adds partitions to topics, over lists sorted by id.

    It is the index of the first broker whose id is not below the first replica of partition 0 (first_replica: int64,
    n), or 0 if all are. Source: AdminZkClient.addPartitions of 2.8.
    """
    bounds = [lists.offsets[broker_list], lists.offsets[broker_list + 1]]
    below = [int((lists.ids[lo:hi] < id_).sum()) for lo, hi, id_ in zip(*bounds, first_replica, strict=True)]
    return np.asarray(np.array(below, dtype=np.int64) % np.maximum(bounds[1] - bounds[0], 1))


def place_from(
    topics: Topics, lists: BrokerLists, error_code: Codes, start_index: Ints, shift: Ints, growth: int = 1
) -> TopicPlacements:
    """Place the topics without an error from these start indices and shifts (int64, n, >= 0).

    growth: increment of the shift in each round over the brokers; 0 for the naive scheme.
    """
    ids, rack, racks = np.empty_like(lists.ids), np.empty_like(lists.rack), np.empty(len(lists.sizes), np.int64)
    alternate_lists(lists, lists.broker_rank(), ids, rack, racks)
    lists = lists._replace(ids=ids, rack=rack)

    row_offsets, replica_offsets, begin = compute_offsets(topics, error_code)
    brokers, detail = np.empty(int(begin[-1]), dtype=np.int32), np.zeros(len(error_code), dtype=np.int64)
    buffers = PlacementBuffers(start_index, shift, begin, brokers, error_code.copy(), detail)
    with_racks = racks[topics.broker_list] > 0 if len(racks) else np.zeros(len(error_code), dtype=np.bool_)
    rows = np.diff(row_offsets)
    place_round_robin(topics, lists, np.where(with_racks, 0, rows), growth, buffers)
    if with_racks.any():
        scratch = create_scratch(int(lists.sizes.max()))
        place_rack_aware(topics, lists, racks, np.where(with_racks, rows, 0), scratch, buffers)
    keep = buffers.error_code == error_code
    if not keep.all():  # remove the rows of topics that failed while they were placed
        keep_row, width = keep[row_of(row_offsets)], np.diff(replica_offsets)
        row_offsets, replica_offsets = offsets_of(np.where(keep, rows, 0)), offsets_of(width[keep_row])
        brokers = brokers[np.repeat(keep_row, width)]
    outcome = (start_index, shift, buffers.error_code, buffers.error_detail)
    return TopicPlacements(row_offsets, replica_offsets, brokers, *outcome)


def place_naive(topics: Topics, lists: BrokerLists, _states: Ints | None = None) -> TopicPlacements:
    """Place replica j of partition i on broker (i + j) % n of the sorted ids, as many texts describe Kafka."""
    order = np.lexsort((lists.ids, row_of(lists.offsets)))
    lists = _remove_racks(lists._replace(ids=lists.ids[order]))
    zeros = np.zeros_like(topics.partitions)
    placements = place_from(topics, lists, check_admin_utils(topics, lists, False), zeros, zeros, growth=0)
    return replace(placements, start_index=None, shift=None)
