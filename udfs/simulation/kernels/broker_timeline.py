"""The timeline of a cluster's brokers and its controller: which step each event is, who controls, in which epoch.

Sources: KafkaController.elect, onControllerFailover, onBrokerStartup and onBrokerFailure of 2.8.
"""

from __future__ import annotations

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.simulation.kernels.codes import (
    BROKER_DOWN,
    BROKER_UP,
    CONTROLLER_LOST,
    FENCED,
    LED_BY,
    NOBODY,
    SHUTDOWN,
    UNFENCED,
)
from udfs.simulation.kernels.simulation_state import (
    DOWN,
    DOWN_CONTROLLER,
    DOWN_LAST,
    FAIL_OVER,
    LEAVES,
    LEAVING,
    LIVE,
    QUORUM,
    SEEN_DOWN,
    SEEN_UP,
    T_AT,
    T_BROKER,
    T_EPOCH,
    T_EVENT,
    T_KIND,
    T_ORDER,
    TIMELINE,
    UP,
    UP_CONTROLLER,
    UP_UNCLEAN,
    Ints,
)

# Columns of an event of a cluster. C_ID: the broker's id, as a controller may be no broker.
C_EVENT, C_AT, C_KIND, C_BROKER, C_VALUE, C_ID, CLUSTER_EVENT = range(7)


@compiled
def steps_of(events: Ints, state: Ints, first: int, kraft: bool, controller: int, epoch: int) -> tuple[Ints, Ints]:
    """(steps: int64 (t, TIMELINE); int64 (t), the place of who controls after each, or NOBODY).

    events: int64 (e, CLUSTER_EVENT) of one cluster, by order.   state: int64 (n), LIVE and LEAVES of its brokers,
    whose places begin at `first`; it is changed to how it is at the end.   Events that change nothing are no steps.
    """
    steps, controllers = np.empty((len(events), TIMELINE), np.int64), np.empty(len(events), np.int64)
    rows = 0
    for i in range(len(events)):
        kind, place = events[i, C_KIND], events[i, C_BROKER]
        own = place - first
        step = NOBODY
        if kind == BROKER_DOWN and state[own] & LIVE:
            state[own] &= LEAVES
            step = DOWN
            if not kraft and controller == place:
                controller = _next(state, first)
                step = DOWN_LAST if controller == NOBODY else DOWN_CONTROLLER
                epoch += controller != NOBODY
        elif kind == BROKER_UP and not state[own] & LIVE:
            # Of a quorum's broker: unless it was only fenced (value 1), or went in order, it may have lost messages.
            step = UP_UNCLEAN if kraft and not state[own] & LEAVES and events[i, C_VALUE] == 0 else UP
            state[own] = LIVE
            if not kraft and controller == NOBODY:
                controller, epoch, step = place, epoch + 1, UP_CONTROLLER
        elif kind == SHUTDOWN and state[own] & LIVE:
            state[own] |= LEAVES
            step = LEAVING
        elif kind == CONTROLLER_LOST:
            named = place != NOBODY and state[own] & LIVE
            controller = place if named else _next(state, first)
            if controller != NOBODY:
                epoch, step = epoch + 1, FAIL_OVER
        elif kind in (FENCED, UNFENCED) and (state[own] & LIVE != 0) != (kind == UNFENCED):
            state[own] = LIVE if kind == UNFENCED else 0
            step = SEEN_UP if kind == UNFENCED else SEEN_DOWN
        elif kind == LED_BY:
            controller, epoch, step = place, events[i, C_VALUE], QUORUM
        if step != NOBODY:
            steps[rows, T_ORDER], steps[rows, T_AT] = 2 * events[i, C_EVENT] + 1, events[i, C_AT]
            steps[rows, T_KIND], steps[rows, T_BROKER] = step, place
            steps[rows, T_EPOCH], steps[rows, T_EVENT] = epoch, events[i, C_EVENT]
            controllers[rows] = controller
            rows += 1
    return steps[:rows], controllers[:rows]


@part
def _next(state: Ints, first: int) -> int:
    """Who creates /controller first: nobody can know; of those live, the one with the lowest id."""
    for own in range(len(state)):
        if state[own] & LIVE:
            return first + own
    return NOBODY


@compiled
def checks_of(
    times: Ints, steps: Ints, controllers: Ints, controlled: bool, first: int, every: int, after: int
) -> Ints:
    """int64 (k, 2): when leaders' imbalance is looked at (ms), and the event before which.

    times: int64 (e, 2), ms, and the number, of all events of a cluster, by order.   steps, controllers: of `steps_of`.
    controlled: whether there is a controller at first (KRaft: there always is).   first: when the first check is due.
    every, after: ms, between checks; from a controller's start to its first.
    Of checks between the same two events only the first counts: the second would find nothing new.
    """
    found = np.empty((len(times), 2), np.int64)
    rows, due, t = 0, first, 0
    for i in range(len(times)):
        at, event = times[i, 0], times[i, 1]
        if due <= at:
            if controlled:
                found[rows, 0], found[rows, 1] = due, event
                rows += 1
            due += ((at - due) // every + 1) * every
        if t < len(steps) and steps[t, T_EVENT] == event:
            if steps[t, T_KIND] in (DOWN_CONTROLLER, UP_CONTROLLER, FAIL_OVER):
                due = at + after
            controlled = controlled if steps[t, T_KIND] == QUORUM else controllers[t] != NOBODY
            t += 1
    return found[:rows]
