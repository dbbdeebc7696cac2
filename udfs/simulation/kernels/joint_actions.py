"""What partitions do together: automatic rebalances of a cluster's leaders, and deletions of topics.

Their partitions are folded in lock step, from stop to stop, to find out what happens there; it becomes steps and
events of a fold in which partitions know nothing of each other. Nothing is written down here.
"""

from __future__ import annotations

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.simulation.kernels.codes import ABSENT, DELETION_ENDS, DELETION_STARTS, NOBODY, REBALANCED_LEADERS, TOPIC_HELD
from udfs.simulation.kernels.health_intervals import mark, note
from udfs.simulation.kernels.partition_control import may_be_rebalanced, step
from udfs.simulation.kernels.partition_timeline import context, delete, fold, reach
from udfs.simulation.kernels.replica_logs import serving
from udfs.simulation.kernels.replication import settle
from udfs.simulation.kernels.simulation_state import (
    AR,
    CHECK,
    CLUSTER,
    DELETED,
    DOWN_CONTROLLER,
    DOWN_LAST,
    EPOCH,
    FAIL_OVER,
    IMBALANCE_PERCENT,
    LEADER,
    MEMBER,
    QUEUED,
    SLOT_BEGIN,
    STARTED,
    STATE,
    STEP,
    STEP_BEGIN,
    T_BROKER,
    T_KIND,
    TARGET,
    UP,
    UP_CONTROLLER,
    Ints,
    Journal,
    Own,
    State,
    World,
    live,
    slot_of,
    within,
)
from udfs.simulation.kernels.topic_deletion import all_deleted

# Columns of a stop: what for, when, the event, and of a topic its rows and the step that the event is (or -1).
X_FOR, X_AT, X_EVENT, X_FIRST, X_LAST, X_STEP, STOP = range(7)
# What for: leaders are looked at before the event; a topic's partitions are created at it; then, after the event: it is
# asked to delete them all; it may end a reassignment; it is a step.
CHECKED, CREATED_AGAIN, ASKED, OWN_EVENT, STEPPED = range(5)
# What is found: time, event, kind, and a broker's place or a partition's row.
F_AT, F_EVENT, F_KIND, F_OF, FOUND = range(5)
# How a topic's deletion stands, by its first row.
NOT_ASKED, WAITS_FOR_REASSIGNMENT, WAITS_FOR_BROKERS, GOES_ON = range(4)


@compiled
def together(s: State, w: World, j: Journal, o: Own, rows: Ints, places: Ints, stops: Ints) -> Ints:
    """int64 (f, FOUND), in order: brokers whose leaders are rebalanced; of partitions, what becomes of their deletion.

    rows, places: int64 (2), first and last + 1 of the partitions and brokers of one cluster, whose steps and events
    hold nothing of what is found here.   stops: int64 (k, STOP), in order.
    """
    found, size = np.empty((64, FOUND), np.int64), 0
    deletion = np.full(rows[1] - rows[0], NOT_ASKED)
    for k in range(len(stops)):
        whole = stops[k, X_FOR] == CHECKED
        most = places[1] - places[0] if whole else 3 * (stops[k, X_LAST] - stops[k, X_FIRST])
        if size + most > len(found):
            more = np.empty((2 * len(found) + most, FOUND), np.int64)
            more[:size] = found[:size]
            found = more
        if whole:
            size = _rebalances(s, w, j, o, rows, places, stops[k], found, size)
        else:
            first = stops[k, X_FIRST] - rows[0]
            deletion[first], size = _deletes(s, w, j, o, stops[k], deletion[first], found, size)
    return found[:size]


@part
def _stands(s: State, first: int, last: int) -> int:
    """How the deletion of a topic stands."""
    queued, started, targets = 0, 0, 0
    for p in range(first, last):
        queued += s.now[p, DELETED] == QUEUED
        started += s.now[p, DELETED] == STARTED
        targets += s.now[p, TARGET] > 0
    if queued + started == 0:
        return NOT_ASKED
    if targets:
        return WAITS_FOR_REASSIGNMENT
    return WAITS_FOR_BROKERS if queued else GOES_ON


# ---- automatic rebalances


@part
def _rebalances(
    s: State, w: World, j: Journal, o: Own, rows: Ints, places: Ints, stop: Ints, found: Ints, size: int
) -> int:
    """How much is found now: brokers too many of whose preferred partitions are led elsewhere; they are rebalanced.

    Source: KafkaController.checkAndTriggerAutoLeaderRebalance.
    """
    fold(s, w, j, o, rows[0], rows[1], 2 * stop[X_EVENT])
    begun, n = size, places[1] - places[0]
    for place in range(places[0], places[1]):  # counted in what is found: a place's numbers, then whether it is one
        found[begun + place - places[0], F_AT] = found[begun + place - places[0], F_EVENT] = 0
    for p in range(rows[0], rows[1]):
        if may_be_rebalanced(s, p):
            row = begun + _preferred(s, p) - places[0]
            found[row, F_AT] += 1
            found[row, F_EVENT] += s.now[p, LEADER] != s.slot[s.now[p, SLOT_BEGIN], AR]
    percent = w.cluster[s.now[rows[0], CLUSTER], IMBALANCE_PERCENT]
    for place in range(n):
        preferred, elsewhere = found[begun + place, F_AT], found[begun + place, F_EVENT]
        if preferred and 100 * elsewhere > percent * preferred:
            _find(found, size, stop, REBALANCED_LEADERS, places[0] + place)
            size += 1
    if size > begun:
        for p in range(rows[0], rows[1]):
            if may_be_rebalanced(s, p) and _is_among(found, begun, size, _preferred(s, p)):
                _rebalance(s, w, j, o, p, stop)
    return size


@part
def _preferred(s: State, p: int) -> int:
    """The place of the broker that p prefers."""
    begin = s.now[p, SLOT_BEGIN]
    return int(s.slot[begin + s.slot[begin, AR], MEMBER])


@part
def _is_among(found: Ints, low: int, high: int, place: int) -> bool:
    """Whether the place is among these rows, which rise."""
    while low < high:
        middle = (low + high) // 2
        if found[middle, F_OF] == place:
            return True
        if found[middle, F_OF] < place:
            low = middle + 1
        else:
            high = middle
    return False


@part
def _rebalance(s: State, w: World, j: Journal, o: Own, p: int, stop: Ints) -> None:
    """Nothing; p is led by the one that it prefers, if that may be."""
    reach(s, w, j, o, p, stop[X_AT], stop[X_EVENT])
    before, epoch = serving(s, w, j, p), s.now[p, EPOCH]
    step(s, w, j, p, CHECK, s.slot[s.now[p, SLOT_BEGIN], AR])
    settle(s, w, j, o, p, before, epoch)


@part
def _find(found: Ints, row: int, stop: Ints, kind: int, of: int) -> None:
    found[row, F_AT], found[row, F_EVENT], found[row, F_KIND], found[row, F_OF] = stop[X_AT], stop[X_EVENT], kind, of


# ---- topics' deletions


@part
def _deletes(
    s: State, w: World, j: Journal, o: Own, stop: Ints, stands: int, found: Ints, size: int
) -> tuple[int, int]:
    """(how the deletion stands, how much is found now). Source: TopicDeletionManager.resumeDeletions.

    It starts where all of the topic's partitions are to be deleted, no reassignment goes on, and there is a controller;
    after that, once a broker of its replicas returns. It ends when every replica is deleted.
    """
    first, last, what = stop[X_FIRST], stop[X_LAST], stop[X_FOR]
    if stands == NOT_ASKED and what != ASKED:
        return stands, size
    if what == OWN_EVENT and stands != WAITS_FOR_REASSIGNMENT:
        return stands, size
    asked = 0
    for p in range(first, last):
        asked -= s.now[p, DELETED] != 0
    fold(s, w, j, o, first, last, 2 * stop[X_EVENT] + 2 * (what != CREATED_AGAIN))
    for p in range(first, last):
        asked += s.now[p, DELETED] != 0
    if what == CREATED_AGAIN:
        return stands, _hold(s, first, last, stop, found, size)
    left, targets, down, returned = _counted(s, w, j, stop)
    kind = w.steps[stop[X_STEP], T_KIND] if what == STEPPED else NOBODY
    may_start = asked > 0 or stands == WAITS_FOR_REASSIGNMENT or returned
    may_start = may_start or (kind in (DOWN_CONTROLLER, UP_CONTROLLER, FAIL_OVER) and down == 0)
    if may_start and left == 0 and targets == 0 and _controlled(s, w, first):
        size = _all(s, w, j, o, stop, QUEUED, DELETION_STARTS, found, size)
    done = left == 0
    for p in range(first, last):
        done = done and (s.now[p, DELETED] == 0 or (s.now[p, DELETED] == STARTED and all_deleted(s, p)))
    if done:
        size = _all(s, w, j, o, stop, STARTED, DELETION_ENDS, found, size)
    return _stands(s, first, last), size


@part
def _controlled(s: State, w: World, p: int) -> bool:
    """Whether there is a controller after p's last step: there is none from the last broker's failure on."""
    t = s.now[p, STEP] - 1
    controlled: bool = t < w.cluster[s.now[p, CLUSTER], STEP_BEGIN] or w.steps[t, T_KIND] != DOWN_LAST
    return controlled


@part
def _counted(s: State, w: World, j: Journal, stop: Ints) -> tuple[int, int, int, bool]:
    """(partitions that are not to be deleted, that are reassigned; replicas on down brokers; whether one returns)."""
    left, targets, down, returned = 0, 0, 0, False
    up = stop[X_FOR] == STEPPED and w.steps[stop[X_STEP], T_KIND] == UP
    for p in range(stop[X_FIRST], stop[X_LAST]):
        if s.now[p, DELETED] == 0:
            left += s.now[p, STATE] != ABSENT
            continue
        context(s, w, j, p, stop[X_AT], stop[X_EVENT])
        targets += s.now[p, TARGET] > 0
        for i in range(s.now[p, AR]):
            down += not live(s, w, j, p, s.slot[s.now[p, SLOT_BEGIN] + i, AR])
        if up:
            slot = slot_of(s, p, w.steps[stop[X_STEP], T_BROKER])
            returned = returned or (slot != NOBODY and within(s, AR, p, slot))
    return left, targets, down, returned


@part
def _all(s: State, w: World, j: Journal, o: Own, stop: Ints, stand: int, kind: int, found: Ints, size: int) -> int:
    """How much is found now: the same becomes of all partitions of which DELETED is so."""
    for p in range(stop[X_FIRST], stop[X_LAST]):
        if s.now[p, DELETED] != stand:
            continue
        reach(s, w, j, o, p, stop[X_AT], stop[X_EVENT])
        before, epoch = serving(s, w, j, p), s.now[p, EPOCH]
        mark(s, o, p)
        delete(s, w, j, p, kind)
        settle(s, w, j, o, p, before, epoch)
        note(s, w, j, p)
        _find(found, size, stop, kind, p)
        size += 1
    return size


@part
def _hold(s: State, first: int, last: int, stop: Ints, found: Ints, size: int) -> int:
    """How much is found now: partitions that may not be created, as the topic is still there."""
    for p in range(first, last):
        if s.now[p, STATE] == ABSENT and s.now[p, DELETED] == 0:
            s.now[p, DELETED] = QUEUED
            _find(found, size, stop, TOPIC_HELD, p)
            found[size, F_EVENT] -= 1  # before the event
            size += 1
    return size
