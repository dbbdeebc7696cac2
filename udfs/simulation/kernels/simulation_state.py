"""What a replay knows of its partitions, brokers and events, as flat arrays; what is written down; the basic steps.

All arrays are int64. A partition is a row p; a broker that it ever has a replica on is one of its slots, numbered from
0 in each partition: AR, ISR, ELR and TARGET hold slots. Places of brokers run over all clusters of a call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import part
from udfs.simulation.kernels.codes import (
    ABSENT,
    DELETION_DONE,
    DELETION_INELIGIBLE,
    DELETION_STARTED,
    NEW,
    NOBODY,
    OFFLINE,
    ONLINE,
)

Ints = npt.NDArray[np.int64]
NEVER = np.iinfo(np.int64).max
LONG_AGO = np.iinfo(np.int64).min // 2

# Columns of a partition. The first four: how long each of its lists is (TARGET: the AR after a
# reassignment). AT: until when all has happened. HAS_DATA:
# whether it will ever have events of data; SEEN_DATA, HAS_FETCHES: whether one, or a replica's fetch, has been.
# LAST_EVENT: its own last one, or -1.
(
    AR,
    ISR,
    ELR,
    TARGET,
    SLOT_BEGIN,
    SLOTS,
    COMMON_BEGIN,
    CLUSTER,
    LEADER,
    EPOCH,
    WRITTEN,
    LAST_KNOWN,
    STATE,
    UNCLEAN_ALLOWED,
    DELETED,
    MIN_ISR,
    AT,
    STEP,
    OWN,
    OWN_BEGIN,
    OWN_END,
    HAS_DATA,
    SEEN_DATA,
    HAS_FETCHES,
    LAST_LEADER,
    EPOCH_START,
    COMMITTED,
    DEADLINE,
    QUEUE_HEAD,
    QUEUE_TAIL,
    STACKED,
    WAITERS,
    LAST_EVENT,
    NOW,
) = range(34)
# The health of a partition: since when it is so, what makes it differ, and what was so before the event at hand.
(
    SINCE,
    SEEN_LEADER,
    SEEN_EPOCH,
    SEEN_ISR,
    SEEN_AR,
    SEEN_MIN,
    OLD_LEO,
    OLD_VISIBLE,
    OLD_COMMITTED,
    OLD_EXPOSED_0,
    OLD_EXPOSED_1,
    OLD_EXPOSED_ALL,
    SEEN,
) = range(13)
# Columns of a slot: where a list's i-th entry stands (AR to TARGET, as above), then the replica. WAITS: the request
# (its own event) of its fetch that waits, or -1.
(MEMBER, REPLICA_STATE, LEO, HW, REMOTE, CAUGHT_UP_AT, FETCHED_AT, FETCHED_LEO, HW_AT, CHECKPOINT, WAITS, SLOT) = range(
    4, 16
)


class State(NamedTuple):
    """now: (p, NOW).   slot: (s, SLOT).   common: (sum of slots squared), messages that two logs share.
    seen: (p, SEEN), of their health."""

    now: Ints
    slot: Ints
    common: Ints
    seen: Ints


# Columns of a step of the brokers' and the controller's timeline. ORDER: 2 x event + 1, of a check 2 x event.
T_ORDER, T_AT, T_KIND, T_BROKER, T_EPOCH, T_EVENT, TIMELINE = range(7)
# Kinds of steps.
(
    DOWN,
    DOWN_CONTROLLER,
    DOWN_LAST,
    UP,
    UP_CONTROLLER,
    LEAVING,
    FAIL_OVER,
    QUORUM,
    CHECK,
    SEEN_DOWN,
    SEEN_UP,
    UP_UNCLEAN,
) = range(12)
# Values of DELETED: what is asked for waits for its topic, or has begun.
QUEUED, STARTED = 1, 2
# How a cluster is run: columns of `rules`.
(
    KRAFT,
    WITH_ELR,
    REBALANCES,
    CHECK_EVERY_MS,
    FIRST_CHECK_MS,
    IMBALANCE_PERCENT,
    LAG_MS,
    LAG_MESSAGES,
    MESSAGE_BYTES,
    TRUNCATE_TO_HW,
    CHECKPOINT_MS,
    JOIN_AT_EPOCH_START,
    RULES,
) = range(13)
# More columns of a cluster, after its rules: when it begins and ends (ms), the number of the event that would be next,
# the controller's epoch before it begins, its steps.
(START_AT, END_AT, END_EVENT, EPOCH_AT_FIRST, STEP_BEGIN, STEP_END, OF_ALL_BEGIN, OF_ALL_END, CLUSTERS) = range(
    RULES, RULES + 9
)
LIVE, LEAVES = 1, 2


class World(NamedTuple):
    """The same for all partitions. steps: (t, TIMELINE), by cluster and order.   cluster: (c, CLUSTERS).

    broker: (n, 4), where its changes begin and end, and its steps in `of`.   change: (k, 2), step from which on, LIVE
    and LEAVES; of each broker the first is how it begins, at step -1.   of: steps, rising, of each broker; then, of
    each cluster (OF_ALL_BEGIN), those that concern every partition.
    """

    steps: Ints
    cluster: Ints
    broker: Ints
    change: Ints
    of: Ints


# Columns of an event of a partition. E_BROKER: a slot. E_LIST: where a list begins in `lists`, its length first.
(
    E_EVENT,
    E_AT,
    E_KIND,
    E_BROKER,
    E_LIST,
    E_VALUE,
    E_ACKS,
    E_MESSAGES,
    E_WAIT_MS,
    E_MIN_BYTES,
    E_OFFSET,
    E_PARTS,
    E_EPOCH,
    EVENT,
) = range(14)
# Columns of a request. Q_NEEDED: what a produce waits for, where a fetch begins. Q_COUNT: messages written, or read.
(Q_ERROR, Q_BY, Q_AT, Q_BASE, Q_COUNT, Q_NEEDED, Q_DEADLINE, Q_DELAYED, Q_LOST, Q_LOST_AT, Q_HW, REQUEST) = range(12)
# What `work` holds of a partition: produces that wait, in order; appends that the leader's log holds; fetches of
# consumers that wait. Values are places of own events.
QUEUE, STACK, WAIT, WORK = range(4)


class Own(NamedTuple):
    """events: (e, EVENT), by partition and order.   lists: numbers.   requests: (e, REQUEST), used where an event is
    one.   work: (WORK, e)."""

    events: Ints
    lists: Ints
    requests: Ints
    work: Ints


# Columns of what is written down: of a leadership, of a state, of a time in which a partition's health is the same,
# and of what a fetch that waits could read.
L_EVENT, L_PARTITION, L_CAUSE, L_FROM, L_TO, L_EPOCH, L_CONTROLLER_EPOCH, L_ISR, L_AT, LEADERSHIP = range(10)
S_EVENT, S_PARTITION, S_BROKER, S_FROM, S_TO, S_CAUSE, S_EPOCH, S_CONTROLLER_EPOCH, S_LEGAL, S_AT, STATES = range(11)
(
    H_FROM,
    H_TO,
    H_PARTITION,
    H_LEADER,
    H_EPOCH,
    H_ISR,
    H_AR,
    H_MIN_ISR,
    H_LEO,
    H_VISIBLE,
    H_COMMITTED,
    H_EXPOSED_0,
    H_EXPOSED_1,
    H_EXPOSED_ALL,
    H_LIST,
    HEALTH,
) = range(16)
P_REQUEST, P_AT, P_BYTES, PROGRESS = range(4)
U_LEADERSHIP, U_STATES, U_HEALTH, U_PROGRESS, U_LISTS, U_WRITES, U_AT, U_EVENT, U_EPOCH, U_STEP, USED = range(11)


class Journal(NamedTuple):
    """What is written down. used: rows of each; U_WRITES: 0 = nothing is kept; then the context of what is written:
    time, event, controller epoch, step. L_ISR, H_LIST: where a list begins in `lists`, its length first."""

    leadership: Ints
    states: Ints
    health: Ints
    progress: Ints
    lists: Ints
    used: Ints


def new_journal(rows: int, slots: int, writes: bool = True) -> Journal:
    """With room for `rows` of each, and one step of a partition of so many slots."""
    least = 4 * (slots + 4) + 64
    rows += least
    used = np.zeros(USED, np.int64)
    used[U_WRITES] = writes
    return Journal(
        np.empty((rows, LEADERSHIP), np.int64),
        np.empty((2 * rows, STATES), np.int64),
        np.empty((rows, HEALTH), np.int64),
        np.empty((rows, PROGRESS), np.int64),
        np.empty(8 * rows + 16 * least, np.int64),
        used,
    )


@part
def has_room(s: State, o: Own, j: Journal, p: int) -> bool:
    """Whether what any one step of p writes fits."""
    slots, waiters = s.now[p, SLOTS], s.now[p, WAITERS]
    least = 4 * (slots + 4)
    room: bool = j.used[U_WRITES] == 0 or (
        j.used[U_LEADERSHIP] + least < len(j.leadership)
        and j.used[U_STATES] + 2 * least < len(j.states)
        and j.used[U_HEALTH] + least < len(j.health)
        and j.used[U_PROGRESS] + least + 2 * waiters < len(j.progress)
        and j.used[U_LISTS] + 8 * least < len(j.lists)
    )
    return room


@part
def flags(w: World, j: Journal, broker: int) -> int:
    """LIVE and LEAVES of the broker at this place, now."""
    low, high = w.broker[broker, 0], w.broker[broker, 1]
    while high - low > 1:
        middle = (low + high) // 2
        if w.change[middle, 0] <= j.used[U_STEP]:
            low = middle
        else:
            high = middle
    return int(w.change[low, 1])


@part
def live(s: State, w: World, j: Journal, p: int, slot: int) -> bool:
    """Whether the broker of p's slot lives."""
    return flags(w, j, s.slot[s.now[p, SLOT_BEGIN] + slot, MEMBER]) & LIVE != 0


@part
def leaving(s: State, w: World, j: Journal, p: int, slot: int) -> bool:
    """Whether the broker of p's slot shuts down."""
    return flags(w, j, s.slot[s.now[p, SLOT_BEGIN] + slot, MEMBER]) & LEAVES != 0


@part
def in_sync_needed(s: State, w: World, p: int) -> int:
    """How many of p have to be in sync for acks=all: with KRaft never more than there are replicas (since 3.7)."""
    needed = s.now[p, MIN_ISR]
    return int(min(needed, s.now[p, AR]) if w.cluster[s.now[p, CLUSTER], KRAFT] else needed)


@part
def slot_of(s: State, p: int, broker: int) -> int:
    """The slot of p for the broker at this place, or -1."""
    begin = s.now[p, SLOT_BEGIN]
    for i in range(s.now[p, SLOTS]):
        if s.slot[begin + i, MEMBER] == broker:
            return i
    return -1


@part
def within(s: State, which: int, p: int, slot: int) -> bool:
    """Whether the slot is in that list (AR, ISR, ELR or TARGET) of p."""
    begin, found = s.now[p, SLOT_BEGIN], False
    for i in range(s.now[p, which]):
        found = found or s.slot[begin + i, which] == slot
    return found


@part
def add(s: State, which: int, p: int, slot: int) -> None:
    """Nothing; the slot stands at the end of that list."""
    s.slot[s.now[p, SLOT_BEGIN] + s.now[p, which], which] = slot
    s.now[p, which] += 1


@part
def drop(s: State, which: int, p: int, slot: int) -> None:
    """Nothing; the list is without the slot; the others keep their order."""
    begin, kept = s.now[p, SLOT_BEGIN], 0
    for i in range(s.now[p, which]):
        one = s.slot[begin + i, which]
        if one != slot:
            s.slot[begin + kept, which] = one
            kept += 1
    s.now[p, which] = kept


@part
def put(s: State, which: int, p: int, lists: Ints, place: int) -> None:
    """Nothing; the list is what `lists` has at this place, its length first."""
    begin, size = s.now[p, SLOT_BEGIN], lists[place]
    for i in range(size):
        s.slot[begin + i, which] = lists[place + 1 + i]
    s.now[p, which] = size


@part
def write_leader(s: State, j: Journal, p: int, cause: int, before: int) -> None:
    """Nothing; p's leader, epoch and ISR as they are now are written down. before: who led."""
    begin, size = s.now[p, SLOT_BEGIN], s.now[p, ISR]
    s.now[p, WRITTEN] = j.used[U_EPOCH]
    if not j.used[U_WRITES]:
        return
    row, place = j.used[U_LEADERSHIP], j.used[U_LISTS]
    j.lists[place] = size
    for i in range(size):
        j.lists[place + 1 + i] = s.slot[begin + s.slot[begin + i, ISR], MEMBER]
    j.used[U_LISTS] = place + 1 + size
    j.leadership[row, L_EVENT] = j.used[U_EVENT]
    j.leadership[row, L_PARTITION] = p
    j.leadership[row, L_CAUSE] = cause
    j.leadership[row, L_FROM] = NOBODY if before == NOBODY else s.slot[begin + before, MEMBER]
    j.leadership[row, L_TO] = leader_place(s, p)
    j.leadership[row, L_EPOCH] = s.now[p, EPOCH]
    j.leadership[row, L_CONTROLLER_EPOCH] = j.used[U_EPOCH]
    j.leadership[row, L_ISR] = place
    j.leadership[row, L_AT] = j.used[U_AT]
    j.used[U_LEADERSHIP] = row + 1


@part
def leader_place(s: State, p: int) -> int:
    """The place of the broker that leads p, or NOBODY."""
    leader = s.now[p, LEADER]
    return NOBODY if leader == NOBODY else int(s.slot[s.now[p, SLOT_BEGIN] + leader, MEMBER])


@part
def _note(s: State, j: Journal, p: int, slot: int, before: int, to: int, cause: int) -> bool:
    """Whether the transition is legal; it is written down either way."""
    legal = legal_partition(before, to) if slot == NOBODY else legal_replica(before, to)
    if not j.used[U_WRITES]:
        return legal
    row = j.used[U_STATES]
    j.states[row, S_EVENT] = j.used[U_EVENT]
    j.states[row, S_PARTITION] = p
    j.states[row, S_BROKER] = NOBODY if slot == NOBODY else s.slot[s.now[p, SLOT_BEGIN] + slot, MEMBER]
    j.states[row, S_FROM] = before
    j.states[row, S_TO] = to
    j.states[row, S_CAUSE] = cause
    j.states[row, S_EPOCH] = s.now[p, EPOCH]
    j.states[row, S_CONTROLLER_EPOCH] = j.used[U_EPOCH]
    j.states[row, S_LEGAL] = legal
    j.states[row, S_AT] = j.used[U_AT]
    j.used[U_STATES] = row + 1
    return legal


@part
def legal_partition(before: int, to: int) -> bool:
    """Whether a partition may go from this state to that. Source: PartitionState.validPreviousStates of Kafka 2.8."""
    if to == NEW:
        return before == ABSENT
    if to in (ONLINE, OFFLINE):
        return before in (NEW, ONLINE, OFFLINE)
    return before == OFFLINE


@part
def legal_replica(before: int, to: int) -> bool:
    """Whether a replica may go from this state to that. Source: ReplicaState.validPreviousStates of Kafka 2.8."""
    if to == NEW:
        return before == ABSENT
    if to in (ONLINE, OFFLINE):
        return before in (NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE)
    if to == DELETION_STARTED:
        return before == OFFLINE
    if to == DELETION_DONE:
        return before == DELETION_STARTED
    if to == DELETION_INELIGIBLE:
        return before in (OFFLINE, DELETION_STARTED)
    return before == DELETION_DONE


@part
def set_partition(s: State, j: Journal, p: int, to: int, cause: int) -> bool:
    """Whether p is in state `to` now: an illegal transition is written down, and the state kept."""
    if not _note(s, j, p, NOBODY, s.now[p, STATE], to, cause):
        return False
    s.now[p, STATE] = to
    return True


@part
def set_replica(s: State, j: Journal, p: int, slot: int, to: int, cause: int) -> bool:
    """Whether p's replica on that slot is in state `to` now."""
    row = s.now[p, SLOT_BEGIN] + slot
    if not _note(s, j, p, slot, s.slot[row, REPLICA_STATE], to, cause):
        return False
    s.slot[row, REPLICA_STATE] = to
    if to == NEW:  # nobody has heard of it
        s.slot[row, REMOTE], s.slot[row, CAUGHT_UP_AT] = -1, LONG_AGO
        s.slot[row, FETCHED_AT], s.slot[row, FETCHED_LEO] = LONG_AGO, NEVER
    return True


@part
def vanish_partition(s: State, j: Journal, p: int, cause: int) -> None:
    """Nothing; p is no more: its replicas are gone already."""
    if s.now[p, STATE] != OFFLINE:
        set_partition(s, j, p, OFFLINE, cause)
    set_partition(s, j, p, ABSENT, cause)
    clear(s, p)


@part
def clear(s: State, p: int) -> None:
    """Nothing; of p, which is no more, nothing is kept."""
    s.now[p, LEADER] = s.now[p, LAST_LEADER] = s.now[p, LAST_KNOWN] = NOBODY
    s.now[p, DELETED] = s.now[p, EPOCH] = s.now[p, COMMITTED] = s.now[p, HAS_FETCHES] = 0
    s.now[p, MIN_ISR], s.now[p, UNCLEAN_ALLOWED] = 1, 0  # its topic's configs are gone too
    for which in range(4):
        s.now[p, which] = 0
