"""The fold: each partition through the steps of its cluster and its own events, in their order.

Partitions know nothing of each other, so they can be spread over workers; what some decide together comes in as steps
and events: replay_together.py finds it out.
"""

from __future__ import annotations

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.simulation.kernels.codes import (
    ABSENT,
    APPEND,
    CLEAR_ELR,
    CREATE,
    DELETE,
    DELETION_ENDS,
    DELETION_STARTS,
    ELECT_PREFERRED,
    FETCH,
    FORGET,
    NEW,
    NOBODY,
    OFFLINE,
    OFFSETS,
    PREFERRED,
    REASSIGN,
    RECORD,
    SET_ISR,
    SET_MIN_ISR,
    SET_UNCLEAN,
    TOPIC_HELD,
)
from udfs.simulation.kernels.controller_elections import elect_preferred
from udfs.simulation.kernels.health_intervals import NOT_THERE, begin_health, mark, note, write_health
from udfs.simulation.kernels.metadata_records import forget, record
from udfs.simulation.kernels.partition_control import create, set_isr, step, try_again
from udfs.simulation.kernels.reassignment_steps import reassign
from udfs.simulation.kernels.replica_logs import serving, try_hw
from udfs.simulation.kernels.replication import append, broker_back, broker_gone, fetch, offsets, settle, until
from udfs.simulation.kernels.simulation_state import (
    AT,
    CLUSTER,
    DELETED,
    DOWN,
    DOWN_CONTROLLER,
    DOWN_LAST,
    E_AT,
    E_EVENT,
    E_KIND,
    E_LIST,
    E_VALUE,
    ELR,
    END_AT,
    END_EVENT,
    EPOCH,
    EPOCH_AT_FIRST,
    FAIL_OVER,
    HAS_DATA,
    KRAFT,
    LAST_EVENT,
    LAST_KNOWN,
    LEADER,
    MEMBER,
    MIN_ISR,
    OF_ALL_BEGIN,
    OF_ALL_END,
    OWN,
    OWN_END,
    QUEUED,
    QUORUM,
    SEEN_DATA,
    SEEN_LEADER,
    SLOT_BEGIN,
    SLOTS,
    START_AT,
    STATE,
    STEP,
    STEP_BEGIN,
    STEP_END,
    T_AT,
    T_BROKER,
    T_EPOCH,
    T_EVENT,
    T_KIND,
    T_ORDER,
    TARGET,
    U_AT,
    U_EPOCH,
    U_EVENT,
    U_STEP,
    UNCLEAN_ALLOWED,
    UP,
    UP_CONTROLLER,
    UP_UNCLEAN,
    Ints,
    Journal,
    Own,
    State,
    World,
    has_room,
    slot_of,
)
from udfs.simulation.kernels.topic_deletion import end_deletion, start_deletion

ALL = np.iinfo(np.int64).max
CLOSED = -3  # of SEEN_LEADER: the replay's end is written down


@compiled
def begin(s: State, w: World, j: Journal, o: Own) -> None:
    """Nothing; the health of partitions that are there at first begins; what is known of logs gives high watermarks."""
    for p in range(len(s.now)):
        j.used[U_AT] = w.cluster[s.now[p, CLUSTER], START_AT]
        j.used[U_STEP] = -1
        if s.now[p, SEEN_DATA]:
            try_hw(s, w, j, o, p)
        begin_health(s, w, j, p)


@compiled
def fold(s: State, w: World, j: Journal, o: Own, first: int, last: int, order: int) -> int:
    """The first partition that is not done: `last`, or one for which the journal has no room, to go on from there.

    Partitions first to last - 1 go through what comes before `order` (ALL = everything, and time until the end).
    """
    for p in range(first, last):
        if not _through(s, w, j, o, p, order):
            return p
    return last


@part
def _through(s: State, w: World, j: Journal, o: Own, p: int, order: int) -> bool:
    """Whether p is through: what comes before `order` is done."""
    c = s.now[p, CLUSTER]
    last = w.cluster[c, STEP_END]
    t = _next_step(s, w, p)
    while True:
        i = s.now[p, OWN]
        step_order = w.steps[t, T_ORDER] if t < last else ALL
        own_order = _own_order(o, i) if i < s.now[p, OWN_END] else ALL
        if min(step_order, own_order) >= order:
            break
        if step_order < own_order:
            done = _take_step(s, w, j, o, p, t)
            t = _next_step(s, w, p) if done else t
        else:
            s.now[p, STEP] = max(s.now[p, STEP], _steps_until(w, c, own_order))
            done = _take_event(s, w, j, o, p, i)
            if o.events[i, E_KIND] < APPEND:  # who waits for a leader is tried at every step, who has one is not
                t = _next_step(s, w, p)
        if not done:
            return False
    s.now[p, STEP] = max(s.now[p, STEP], _steps_until(w, c, order))
    if order != ALL:
        return True
    return _close(s, w, j, o, p, w.cluster[c, END_AT], w.cluster[c, END_EVENT])


@part
def _own_order(o: Own, i: int) -> int:
    """Where own event i stands among steps: what becomes of a topic's deletion follows the event that lets it go on."""
    kind = o.events[i, E_KIND]
    return int(2 * o.events[i, E_EVENT] + 1 + (DELETION_STARTS <= kind <= TOPIC_HELD))


@part
def _steps_until(w: World, c: int, order: int) -> int:
    """The first step of a cluster that does not come before `order`."""
    low, high = w.cluster[c, STEP_BEGIN], w.cluster[c, STEP_END]
    while low < high:
        middle = (low + high) // 2
        if w.steps[middle, T_ORDER] < order:
            low = middle + 1
        else:
            high = middle
    return int(low)


@part
def _next_step(s: State, w: World, p: int) -> int:
    """The next step that concerns p: one of its brokers', one that concerns all; any, while it waits."""
    t, c = s.now[p, STEP], s.now[p, CLUSTER]
    if _waits(s, p):
        return int(t)
    found = _first_from(w.of, w.cluster[c, OF_ALL_BEGIN], w.cluster[c, OF_ALL_END], t)
    begin = s.now[p, SLOT_BEGIN]
    for slot in range(s.now[p, SLOTS]):
        broker = s.slot[begin + slot, MEMBER]
        found = min(found, _first_from(w.of, w.broker[broker, 2], w.broker[broker, 3], t))
    return int(found)


@part
def _waits(s: State, p: int) -> bool:
    """Whether p waits for a leader, a reassignment's end or its deletion."""
    waits: bool = s.now[p, STATE] in (NEW, OFFLINE) or s.now[p, TARGET] > 0 or s.now[p, DELETED] != 0
    return waits


@part
def _first_from(of: Ints, low: int, high: int, t: int) -> int:
    """The first value of a rising part of `of` that is at least t, or ALL."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if of[middle] < t:
            low = middle + 1
        else:
            high = middle
    return of[low] if low < end else ALL


@part
def reach(s: State, w: World, j: Journal, o: Own, p: int, at: int, event: int) -> bool:
    """Whether there was room for all that is due at p until `at`."""
    context(s, w, j, p, at, event)
    if not s.now[p, HAS_DATA]:
        s.now[p, AT] = at
        return has_room(s, o, j, p)
    while has_room(s, o, j, p):
        if until(s, w, j, o, p, at):
            context(s, w, j, p, at, event)
            return has_room(s, o, j, p)
        note(s, w, j, p)
    return False


@part
def context(s: State, w: World, j: Journal, p: int, at: int, event: int) -> None:
    """Nothing; what is written next is of this time and event, and of the controller's epoch at p's last step."""
    t, c = s.now[p, STEP] - 1, s.now[p, CLUSTER]
    j.used[U_AT], j.used[U_EVENT], j.used[U_STEP] = at, event, t
    j.used[U_EPOCH] = w.steps[t, T_EPOCH] if t >= w.cluster[c, STEP_BEGIN] else w.cluster[c, EPOCH_AT_FIRST]


@part
def _take_step(s: State, w: World, j: Journal, o: Own, p: int, t: int) -> bool:
    kind, at = w.steps[t, T_KIND], w.steps[t, T_AT]
    slot = slot_of(s, p, w.steps[t, T_BROKER])
    waits = kind in (UP, UP_UNCLEAN, DOWN) and _waits(s, p)  # each of these tries again what waits
    everyone = waits or kind in (FAIL_OVER, DOWN_CONTROLLER, UP_CONTROLLER)
    if kind == QUORUM or (slot == NOBODY and not everyone):
        s.now[p, STEP] = t + 1
        return True
    if not reach(s, w, j, o, p, at, w.steps[t, T_EVENT]):
        return False
    before, epoch = serving(s, w, j, p), s.now[p, EPOCH]
    mark(s, o, p)
    s.now[p, STEP] = t + 1
    context(s, w, j, p, at, w.steps[t, T_EVENT])
    down = kind in (DOWN, DOWN_CONTROLLER, DOWN_LAST)
    if slot != NOBODY and down and s.now[p, HAS_DATA]:
        broker_gone(s, w, j, o, p, slot)
    if kind != DOWN_LAST:
        step(s, w, j, p, kind, slot)
    settle(s, w, j, o, p, before, epoch)
    back = slot != NOBODY and kind in (UP, UP_CONTROLLER, UP_UNCLEAN)
    if back and s.now[p, HAS_DATA] and s.now[p, STATE] != ABSENT:
        broker_back(s, w, j, o, p, slot)
    note(s, w, j, p)
    return True


@part
def _take_event(s: State, w: World, j: Journal, o: Own, p: int, i: int) -> bool:
    kind, at = o.events[i, E_KIND], o.events[i, E_AT]
    if not reach(s, w, j, o, p, at, o.events[i, E_EVENT]):
        return False
    s.now[p, OWN], s.now[p, LAST_EVENT] = i + 1, o.events[i, E_EVENT]
    before, epoch = serving(s, w, j, p), s.now[p, EPOCH]
    if kind in (APPEND, FETCH, OFFSETS):
        s.now[p, SEEN_DATA] = 1
    if kind == APPEND:
        append(s, w, j, o, p, i)
        return True
    if kind == FETCH:
        fetch(s, w, j, o, p, i)
    elif kind == OFFSETS:
        offsets(s, w, j, o, p, i)
        return True
    else:
        mark(s, o, p)
        _control(s, w, j, o, p, i, kind)
    if kind != FETCH or serving(s, w, j, p) != before or s.now[p, EPOCH] != epoch:
        settle(s, w, j, o, p, before, epoch)
    note(s, w, j, p)
    return True


@part
def _control(s: State, w: World, j: Journal, o: Own, p: int, i: int, kind: int) -> None:
    place, value = o.events[i, E_LIST], o.events[i, E_VALUE]
    if kind == CREATE:
        if value == 0:
            create(s, w, j, p, o.lists, place)
    elif kind in (DELETION_STARTS, DELETION_ENDS, TOPIC_HELD):
        delete(s, w, j, p, kind)
    elif kind == RECORD:
        record(s, w, j, p, o.lists, place, value)
    elif s.now[p, STATE] == ABSENT:
        return
    elif kind == FORGET or (kind == DELETE and w.cluster[s.now[p, CLUSTER], KRAFT]):
        forget(s, j, p)  # with KRaft a topic goes with its record: nothing is waited for
    elif kind == DELETE:
        s.now[p, DELETED] = max(s.now[p, DELETED], QUEUED)
    elif kind == REASSIGN:
        reassign(s, w, j, p, o.lists, place)
    elif kind == ELECT_PREFERRED:
        elect_preferred(s, w, j, p, PREFERRED)
    elif kind == SET_UNCLEAN:
        s.now[p, UNCLEAN_ALLOWED] = value != 0
        if value and s.now[p, STATE] == OFFLINE and not s.now[p, DELETED] and s.now[p, LEADER] == NOBODY:
            try_again(s, w, j, p)
    elif kind == SET_MIN_ISR:
        s.now[p, MIN_ISR] = value
    elif kind == SET_ISR:
        set_isr(s, w, j, p, o.lists, place)
    elif kind == CLEAR_ELR:
        s.now[p, ELR] = 0
        s.now[p, LAST_KNOWN] = NOBODY


@part
def delete(s: State, w: World, j: Journal, p: int, kind: int) -> None:
    """Nothing; p's topic is deleted: its deletion starts, or ends; or it holds p, which was to be created."""
    if kind == TOPIC_HELD:
        s.now[p, DELETED] = QUEUED
    elif kind == DELETION_STARTS:
        start_deletion(s, w, j, p)
    else:
        end_deletion(s, j, p)


@part
def _close(s: State, w: World, j: Journal, o: Own, p: int, at: int, event: int) -> bool:
    """Whether there was room for the end: time until `at`, and p's health there."""
    if s.seen[p, SEEN_LEADER] == CLOSED:
        return True
    if not reach(s, w, j, o, p, at, event):
        return False
    if s.seen[p, SEEN_LEADER] != NOT_THERE:
        mark(s, o, p)
        write_health(s, j, p, True)
    s.seen[p, SEEN_LEADER] = CLOSED
    return True
