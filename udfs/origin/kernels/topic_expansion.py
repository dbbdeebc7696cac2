"""Remove later expansions of topics, as far as Kafka's rules explain them, to find the broker order of the rest."""

import numpy as np

from udfs.arrow.ragged import offsets_of, take_segments
from udfs.kernel_compiler import compiled
from udfs.origin.kernels.rack_aware_fit import BrokerOrder, create_order, find_expansion_start, matches_placement
from udfs.origin.kernels.round_robin_fit import ObservedTopics, get_width
from udfs.placement.kernels.topic_arrays import Ids, Ints


@compiled
def _find_expansions(observed: ObservedTopics, order: BrokerOrder, out: Ints) -> None:
    """Find the first row (out: int64, n) of the longest expansion with which each topic can end; its end = none.

    See `rack_aware_fit.fit_expansions`. A topic without its partition 0 has none; at least its first row stays.
    """
    n, partition = len(order.order), observed.partition
    for i in range(len(observed.row_offsets) - 1):
        lo, hi = observed.row_offsets[i], observed.row_offsets[i + 1]
        out[i] = hi
        if hi - lo < 2 or partition[lo] != 0 or n < 2:
            continue
        width = get_width(observed, lo)
        if width == 0 or width > n:
            continue
        start = find_expansion_start(order.order, observed.broker[observed.replica_offsets[lo]])
        # The round in which it began determines the shift, modulo n - 1.
        for first_round in range(n - 1 if width > 1 else 1):
            row = hi
            while row - 1 > lo and get_width(observed, row - 1) == width:
                leader = (partition[row - 1] + start) % n
                turn = start + (partition[row - 1] // n - first_round) % (n - 1)
                first = observed.replica_offsets[row - 1]
                if not matches_placement(observed, first, width, order, leader, turn):
                    break
                row -= 1
            if row == hi:
                continue
            begin = partition[row]
            later = (first_round - (begin - 1) // n) % (n - 1) if width > 1 else 0
            if later > 0:
                begin = ((begin - 1) // n + later) * n + 1
            while row < hi and partition[row] < begin:
                row += 1
            out[i] = min(out[i], row)


def remove_expansions(observed: ObservedTopics, topics: Ints, members: Ids) -> ObservedTopics:
    """Return topics (int64) without the longest expansion over members (int32, by id) with which each can end."""
    begin = np.empty(len(observed.row_offsets) - 1, dtype=np.int64)
    _find_expansions(observed, create_order(members), begin)
    counts = begin[topics] - observed.row_offsets[topics]
    row_offsets = offsets_of(counts)
    rows = np.repeat(observed.row_offsets[topics] - row_offsets[:-1], counts) + np.arange(int(row_offsets[-1]))
    broker, replica_offsets = take_segments(observed.broker, observed.replica_offsets, rows)
    return ObservedTopics(row_offsets, observed.partition[rows], replica_offsets, broker.astype(np.int32))
