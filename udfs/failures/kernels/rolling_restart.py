"""A rolling restart: one broker after another is shut down, controlled, and comes back before the next goes.

A broker that comes back leads nothing: leaders stay where they went, so that each step begins with what the steps
before it left behind. No preferred election runs in between, and who comes back is in sync again before the next step.
A partition changes only at the steps of its own brokers: each is walked through these, and the rest is running sums.
"""

from __future__ import annotations

import numpy as np

from udfs.failures.kernels.failure_sums import (
    EVENTS,
    MOST_REPLICAS,
    NOBODY,
    Bools,
    Floats,
    Ids,
    Ints,
    _event,
    _masks,
    outcome,
)
from udfs.kernel_compiler import compiled


@compiled
def sum_restart(
    offsets: Ints,
    broker: Ids,
    in_isr: Bools,
    in_elr: Bools,
    lag: Ints,
    leader: Ids,
    min_isr: Ids,
    unclean: Bools,
    size: Ints,
    rate: Floats,
    during: Ints,
    from_then: Ints,
    moved: Floats,
    returned: Floats,
) -> None:
    """Adds up the partitions of a Group over the steps 0..n - 1; step s restarts broker s.

    during: int64 (n, EVENTS), what step s changes in the cluster as it was before it, while its broker is down;
    from_then: int64 (n, EVENTS), what it has changed for all later steps.
    moved: float64 (n, n, 3), leaders and rates that others take over at a step.
    returned: float64 (n, 3), what has no leader while its broker is down, and is led by it again after.
    """
    places = np.empty(MOST_REPLICAS, dtype=np.int32)
    base, then = np.empty(EVENTS, np.int64), np.empty(EVENTS, np.int64)
    for i in range(len(leader)):
        live, isr, elr, leads, live_count = _masks(offsets, broker, in_isr, in_elr, leader, i, places)
        begin = offsets[i]
        for k in range(1, live_count):  # by step: few, so by insertion
            place, at = places[k], k
            while at > 0 and broker[begin + places[at - 1]] > broker[begin + place]:
                places[at] = places[at - 1]
                at -= 1
            places[at] = place
        after, in_sync, rough = outcome(live, isr, elr, leads, unclean[i], 0)
        _event(leads, after, in_sync, min_isr[i], rough, size[i], lag, begin, base)
        for k in range(live_count):
            step = broker[begin + places[k]]
            bit = 1 << places[k]
            after, in_sync, rough = outcome(live, isr, elr, leads, unclean[i], bit)
            _event(leads, after, in_sync, min_isr[i], rough, size[i], lag, begin, then)
            for e in range(EVENTS):
                during[step, e] += then[e] - base[e]
            if leads != places[k]:
                continue
            if after == NOBODY:
                returned[step, 0] += 1
                returned[step, 1] += rate[i, 0]
                returned[step, 2] += rate[i, 1]
                continue
            successor = broker[begin + after]
            moved[step, successor, 0] += 1
            moved[step, successor, 1] += rate[i, 0]
            moved[step, successor, 2] += rate[i, 1]
            leads = after
            if not (isr >> after) & 1:  # it began as the whole ISR, and the old leader has come back to it
                isr = (1 << after) | bit
                _, in_sync, _ = outcome(live, isr, elr, leads, unclean[i], 0)
                _event(leads, leads, in_sync, min_isr[i], False, size[i], lag, begin, then)
                for e in range(EVENTS):
                    from_then[step, e] += then[e] - base[e]
                base[:] = then
