"""Topics without what was added to them later, as far as Kafka's growth explains it: to find the order of the rest."""

from __future__ import annotations

import numpy as np

from udfs.arrow.ragged import offsets_of, take_segments
from udfs.kernel_compiler import compiled
from udfs.origin.kernels.rack_aware_fit import growth_start, placed_so
from udfs.origin.kernels.round_robin_fit import Observed
from udfs.placement.kernels.topic_arrays import Ids, Ints


@compiled
def growth_begins(
    row_offsets: Ints,
    partition: Ints,
    replica_offsets: Ints,
    broker: Ids,
    by_id: Ids,
    order: Ids,
    rack: Ids,
    racks: int,
    room: Ints,
    out: Ints,
) -> None:
    """For every topic, the first row of the longest growth that its last rows can be: out, int64 (n); its end = none.

    See origin_racks.fit_growth; a topic whose partition 0 is not shown has none, and at least its first row stays.
    """
    n = len(order)
    for i in range(len(row_offsets) - 1):
        lo, hi = row_offsets[i], row_offsets[i + 1]
        out[i] = hi
        if hi - lo < 2 or partition[lo] != 0 or n < 2:
            continue
        width = replica_offsets[lo + 1] - replica_offsets[lo]
        if width == 0 or width > n:
            continue
        start = growth_start(by_id, broker[replica_offsets[lo]])
        # The round that it began in tells the shift, modulo n - 1.
        for began in range(n - 1 if width > 1 else 1):
            row = hi
            while row - 1 > lo and replica_offsets[row] - replica_offsets[row - 1] == width:
                leader = (partition[row - 1] + start) % n
                turn = start + (partition[row - 1] // n - began) % (n - 1)
                if not placed_so(replica_offsets[row - 1], width, broker, order, rack, racks, leader, turn, room):
                    break
                row -= 1
            if row == hi:
                continue
            begin = partition[row]
            later = (began - (begin - 1) // n) % (n - 1) if width > 1 else 0
            if later > 0:
                begin = ((begin - 1) // n + later) * n + 1
            while row < hi and partition[row] < begin:
                row += 1
            out[i] = min(out[i], row)


def without_growth(observed: Observed, topics: Ints, members: Ids) -> Observed:
    """These topics (int64) without the longest growth, over members (int32, by rising id), that each can end with."""
    room, none = np.zeros(3 * len(members) + 1, dtype=np.int64), np.zeros_like(members)
    begins = np.empty(len(observed.row_offsets) - 1, dtype=np.int64)
    growth_begins(*observed.arrays, members, members, none, 0, room, begins)
    return first_rows(observed, topics, begins[topics])


def first_rows(observed: Observed, topics: Ints, until: Ints) -> Observed:
    """These topics (int64, m) up to, and without, a row each (int64, m)."""
    counts = until - observed.row_offsets[topics]
    row_offsets = offsets_of(counts)
    rows = np.repeat(observed.row_offsets[topics] - row_offsets[:-1], counts) + np.arange(int(row_offsets[-1]))
    broker, replica_offsets = take_segments(observed.broker, observed.replica_offsets, rows)
    return Observed(row_offsets, observed.partition[rows], replica_offsets, broker.astype(np.int32))
