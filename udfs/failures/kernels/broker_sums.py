"""What brokers hold and lead under a placement: sums over its partitions, for whole clusters and topic by topic."""

from __future__ import annotations

import numpy as np

from udfs.failures.kernels.failure_sums import NOBODY, Bools, Floats, Ids, Ints
from udfs.kernel_compiler import compiled

# Counts of a broker, and its loads.
LED, PREFERRED, HELD, IN_SYNC, COUNTS = range(5)
HELD_SIZE, HELD_IN, LED_OUT, LED_IN, WEIGHTS = range(5)
# Counts of a whole group: partitions, their replicas, those led by their first replica, those not all in sync.
PARTITIONS, REPLICAS, BY_FIRST, UNDER_REPLICATED, TOTALS = range(5)


@compiled
def sum_held(
    offsets: Ints,
    broker: Ids,
    in_isr: Bools,
    leader: Ids,
    size: Ints,
    rate: Floats,
    counts: Ints,
    loads: Floats,
    totals: Ints,
) -> None:
    """Adds up the partitions of a Group. counts: int64 (n, COUNTS); loads: float64 (n, WEIGHTS); totals (TOTALS)."""
    for i in range(len(leader)):
        begin, end = offsets[i], offsets[i + 1]
        totals[PARTITIONS] += 1
        totals[REPLICAS] += end - begin
        lags = 0
        for at in range(begin, end):
            b = broker[at]
            lags += not in_isr[at]
            if b == NOBODY:
                continue
            counts[b, HELD] += 1
            counts[b, PREFERRED] += at == begin
            counts[b, IN_SYNC] += in_isr[at]
            loads[b, HELD_SIZE] += max(size[i], 0)
            loads[b, HELD_IN] += rate[i, 0]
            if b == leader[i]:
                counts[b, LED] += 1
                totals[BY_FIRST] += at == begin
                loads[b, LED_OUT] += rate[i, 1]
                loads[b, LED_IN] += rate[i, 0]
        totals[UNDER_REPLICATED] += lags > 0


@compiled
def topic_parts(
    rows: Ints,
    offsets: Ints,
    broker: Ids,
    in_isr: Bools,
    leader: Ids,
    out_rate: Floats,
    brokers: int,
    totals: Ints,
    ends: Ints,
    part_broker: Ids,
    part_leaders: Ints,
    part_in_sync: Ints,
    part_out: Floats,
) -> int:
    """Each topic's in-sync replicas and leaders by broker; how many such parts there are.

    rows: int64 (topics + 1), the partitions of each topic.   out_rate: float64 (p), NaN = unknown.
    totals: int64 (topics, TOTALS).   ends: int64 (topics), where the parts of each topic end; part_*: room for r.
    """
    at_part = np.full(brokers, -1, dtype=np.int64)
    made = 0
    for t in range(len(rows) - 1):
        first = made
        for i in range(rows[t], rows[t + 1]):
            begin, end = offsets[i], offsets[i + 1]
            totals[t, PARTITIONS] += 1
            totals[t, REPLICAS] += end - begin
            lags = 0
            for at in range(begin, end):
                b = broker[at]
                lags += not in_isr[at]
                if b == NOBODY:
                    continue
                leads = b == leader[i]
                totals[t, BY_FIRST] += leads and at == begin
                if not in_isr[at]:
                    continue
                part = at_part[b]
                if part < 0:
                    part = at_part[b] = made
                    part_broker[part] = b
                    part_leaders[part] = part_in_sync[part] = 0
                    part_out[part] = 0.0
                    made += 1
                part_in_sync[part] += 1
                if leads:
                    part_leaders[part] += 1
                    part_out[part] += out_rate[i]
            totals[t, UNDER_REPLICATED] += lags > 0
        for part in range(first, made):
            at_part[part_broker[part]] = -1
        ends[t] = made
    return made


@compiled
def sum_successors(offsets: Ints, broker: Ids, led: Ints, taken: Ids) -> None:
    """Adds up partitions that are all in sync: the first replica leads, the second takes over.

    offsets: int64 (p + 1), broker: int32 (r), indices.   led: int64 (n).   taken: int32 (n, n), from the first on.
    """
    for i in range(len(offsets) - 1):
        begin = offsets[i]
        led[broker[begin]] += 1
        if offsets[i + 1] - begin > 1:
            taken[broker[begin], broker[begin + 1]] += 1
