"""Consumer groups: requests to their coordinator, in order -> how each is answered, and every state of the groups.

Sources: GroupCoordinator, GroupMetadata, DelayedJoin, DelayedSync, DelayedHeartbeat of Kafka 2.8; see
docs/replay-groups.md.
A group is folded alone, over its own events, with the same working arrays as the one before it. Inside a fold a member
is its place in its group; outside, its place in the call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, copying_part, part

Ints = npt.NDArray[np.int64]

NOBODY = -1

# Kinds of events; the first four are requests of a member.
JOIN, SYNC, HEARTBEAT, LEAVE, COORDINATOR_LOST, COORDINATOR_LOADED, KINDS = range(7)
# Columns of events. E_SESSION, E_REBALANCE: timeouts, of a join.   E_GENERATION: of a sync or heartbeat, -1 = present.
E_AT, E_KIND, E_MEMBER, E_SESSION, E_REBALANCE, E_GENERATION, E_FLAGS, E_REQUEST, EVENT = range(9)
# Flags of a join: its request carries the member's id; what it says of itself is not what it said before.
KNOWN, CHANGED = 1, 2

# States of a group.
EMPTY, PREPARING, COMPLETING, STABLE, DEAD = range(5)

# Errors of answers.
(
    NO_ERROR,
    UNKNOWN_MEMBER_ID,
    ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS,
    MEMBER_ID_REQUIRED,
    INVALID_SESSION_TIMEOUT,
    NOT_COORDINATOR,
    ERRORS,
) = range(8)

# What made something happen: an answer, the end of a delayed heartbeat, a transition.
(
    WAITING,
    AT_ONCE,
    ALL_JOINED,
    REBALANCE_TIMEOUT,
    INITIAL_DELAY,
    LEADER_SYNC,
    REBALANCE_BEGAN,
    NEXT_HEARTBEAT,
    SESSION_TIMEOUT,
    SYNC_TIMEOUT,
    MEMBER_LEFT,
    NEWER_REQUEST,
    MEMBER_JOINED,
    LEADER_REJOINED,
    METADATA_CHANGED,
    LOST,
    LOADED,
    MEMBER_WAITS,
    REQUEST_ANSWERED,
    NONE_MADE,
    CAUSES,
) = range(21)

# Columns of answers, and of transitions.
A_AT, A_BY, A_ERROR, A_GENERATION, A_LEADER, A_DELAYED, A_BEAT_AT, A_BEAT_BY, ANSWER = range(9)
T_AT, T_EVENT, T_GROUP, T_FROM, T_TO, T_CAUSE, T_GENERATION, T_LEADER, TRANSITION = range(9)

# How coordinators are run: columns of `rules`.
(
    INITIAL_DELAY_MS,
    ASKS_FOR_MEMBER_ID,
    SYNCS_TIME_OUT,
    REJOIN_SETS_TIMEOUTS,
    NEW_MEMBER_MS,
    MIN_SESSION_MS,
    MAX_SESSION_MS,
    RULES,
) = range(8)

# What `who` holds of the group that is folded, and of the moment.
(
    NOW,
    REQUEST,
    GROUP,
    FIRST,
    MEMBERS,
    STATE,
    GENERATION,
    LEADER,
    HEAD,
    TAIL,
    SIZE,
    AWAITING,
    PENDING,
    UNSYNCED,
    INITIAL,
    NEWCOMER,
    DELAY,
    REMAINING,
    TIMERS,
    STORED_GENERATION,
    STORED_LEADER,
    TOLD,
    WHO,
) = range(23)

# Columns of members. M_JOIN, M_SYNC: the request that waits.   M_BEAT: the request that made the delayed heartbeat.
(
    M_STATUS,
    M_SESSION,
    M_REBALANCE,
    M_NEW,
    M_JOIN,
    M_SYNC,
    M_BEAT,
    M_UNSYNCED,
    M_BEFORE,
    M_AFTER,
    M_STORED,
    M_STORED_SESSION,
    M_STORED_REBALANCE,
    MEMBER,
) = range(14)
OUT, ID_GIVEN, IN = range(3)
DUE, PLACE, TIMER = range(3)


class Group(NamedTuple):
    """The group that is folded, and what is told of all groups.

    who: int64 (WHO).   members: int64 (m, MEMBER); those in the group are linked in the order of their joining.
    timers: int64 (m + 2, TIMER), one a member (its session), then that of syncs, then that of joins; PLACE: where it
    stands in `heap`, int64 (m + 2), -1 = not set.   rules: int64 (RULES).
    answers: int64 (e, ANSWER).   transitions: int64 (t, TRANSITION).
    """

    who: Ints
    members: Ints
    timers: Ints
    heap: Ints
    rules: Ints
    answers: Ints
    transitions: Ints


def fold_groups(events: Ints, group_offsets: Ints, member_offsets: Ints, rules: Ints, end_at: int) -> tuple[Ints, Ints]:
    """How every request is answered (e, ANSWER), and the states that the groups went through (t, TRANSITION).

    events: int64 (e, EVENT), group by group, by time within each; E_REQUEST: the row of answers, 0 to e - 1, each once.
    group_offsets: int64 (g + 1), events of each group.   member_offsets: int64 (g + 1), members of each group, which
    E_MEMBER names; the coordinator's own events have -1.   rules: int64 (RULES).   end_at: ms, until when timers run; a
    group's last event, if that is later.
    Timers due at an event's time run before it: by time, then sessions in the order of members, then syncs, then joins.
    A_AT: ms, -1 = not answered (yet, if A_BY is WAITING).   A_GENERATION, A_LEADER: of the group, when it was answered.
    A_DELAYED: 1 if the request had to wait.   A_BEAT_AT, A_BEAT_BY: how the delayed heartbeat ended that a heartbeat,
    or the answer of a join or a sync, has made; NONE_MADE: it made none.   T_EVENT: the request, -1 for a timer.
    """
    answers = np.zeros((len(events), ANSWER), np.int64)
    answers[:, [A_AT, A_GENERATION, A_LEADER, A_BEAT_AT]] = -1
    answers[:, A_BEAT_BY] = NONE_MADE
    most = int(np.diff(member_offsets).max(initial=0))
    group = Group(
        who=np.zeros(WHO, np.int64),
        members=np.zeros((most, MEMBER), np.int64),
        timers=np.zeros((most + 2, TIMER), np.int64),
        heap=np.zeros(most + 2, np.int64),
        rules=rules,
        answers=answers,
        transitions=np.empty((_most_transitions(events), TRANSITION), np.int64),
    )
    _fold(group, events, group_offsets, member_offsets, end_at)
    return answers, group.transitions[: group.who[TOLD]].copy()


def _most_transitions(events: Ints) -> int:
    """A rebalance begins from Empty (by a join), from CompletingRebalance (which takes a join each) or from Stable
    (which takes a sync, or a loading), and ends once: heartbeats and leaves add no state of their own."""
    kinds = np.bincount(events[:, E_KIND], minlength=KINDS)
    return int(4 * kinds[JOIN] + 3 * kinds[SYNC] + 3 * kinds[COORDINATOR_LOADED] + kinds[COORDINATOR_LOST])


@compiled
def _fold(g: Group, events: Ints, group_offsets: Ints, member_offsets: Ints, end_at: int) -> None:
    for group in range(len(group_offsets) - 1):
        _begin(g, group, member_offsets[group], member_offsets[group + 1])
        at = end_at
        for i in range(group_offsets[group], group_offsets[group + 1]):
            at = events[i, E_AT]
            _run_timers(g, at)
            g.who[NOW], g.who[REQUEST] = at, events[i, E_REQUEST]
            _handle(g, events[i])
        _run_timers(g, max(at, end_at))


@compiled
def _begin(g: Group, group: int, first: int, end: int) -> None:
    """Nothing; a group that nobody has joined yet."""
    told = g.who[TOLD]
    g.who[:] = 0
    g.who[TOLD], g.who[GROUP], g.who[FIRST], g.who[MEMBERS] = told, group, first, end - first
    g.who[STORED_LEADER] = NOBODY
    g.members[: end - first] = 0
    _clear(g)


@part
def _clear(g: Group) -> None:
    """Nothing; nobody is in the group, and no timer is set; what is stored stays."""
    for m in range(g.who[MEMBERS]):
        g.members[m, M_STATUS] = OUT
        g.members[m, M_UNSYNCED] = 0
        g.members[m, M_JOIN] = g.members[m, M_SYNC] = g.members[m, M_BEAT] = -1
    for slot in range(g.who[MEMBERS] + 2):
        g.timers[slot, PLACE] = -1
    g.who[LEADER] = g.who[HEAD] = g.who[TAIL] = NOBODY
    for what in (SIZE, AWAITING, PENDING, UNSYNCED, INITIAL, NEWCOMER, TIMERS):
        g.who[what] = 0


# ---- Timers: a heap of those that are set, by time and place.


@part
def _sooner(g: Group, a: int, b: int) -> bool:
    sooner: bool = g.timers[a, DUE] < g.timers[b, DUE] or (g.timers[a, DUE] == g.timers[b, DUE] and a < b)
    return sooner


@compiled
def _put(g: Group, place: int, slot: int) -> None:
    g.heap[place] = slot
    g.timers[slot, PLACE] = place


@part
def _settle(g: Group, place: int) -> None:
    """Nothing; the timer at this place of the heap goes up or down to where it belongs."""
    slot, size = g.heap[place], g.who[TIMERS]
    while place > 0 and _sooner(g, slot, g.heap[(place - 1) // 2]):
        _put(g, place, g.heap[(place - 1) // 2])
        place = (place - 1) // 2
    while True:
        child = 2 * place + 1
        if child + 1 < size and _sooner(g, g.heap[child + 1], g.heap[child]):
            child += 1
        if child >= size or not _sooner(g, g.heap[child], slot):
            break
        _put(g, place, g.heap[child])
        place = child
    _put(g, place, slot)


@part
def _set_timer(g: Group, slot: int, after_ms: int) -> None:
    g.timers[slot, DUE] = g.who[NOW] + after_ms
    if g.timers[slot, PLACE] < 0:
        _put(g, g.who[TIMERS], slot)
        g.who[TIMERS] += 1
    _settle(g, g.timers[slot, PLACE])


@part
def _stop_timer(g: Group, slot: int) -> None:
    place = g.timers[slot, PLACE]
    if place < 0:
        return
    g.who[TIMERS] -= 1
    g.timers[slot, PLACE] = -1
    last = g.heap[g.who[TIMERS]]
    if last != slot:
        _put(g, place, last)
        _settle(g, place)


@part
def _sync_timer(g: Group) -> int:
    slot: int = g.who[MEMBERS]
    return slot


@part
def _join_timer(g: Group) -> int:
    slot: int = g.who[MEMBERS] + 1
    return slot


@part
def _run_timers(g: Group, until: int) -> None:
    g.who[REQUEST] = -1
    while g.who[TIMERS] and g.timers[g.heap[0], DUE] <= until:
        slot = g.heap[0]
        g.who[NOW] = g.timers[slot, DUE]
        _stop_timer(g, slot)
        if slot == _join_timer(g):
            _joins_due(g)
        elif slot == _sync_timer(g):
            _syncs_due(g)
        else:
            _session_due(g, slot)


# ---- What is told.


@compiled
def _answer(g: Group, row: int, by: int, error: int) -> None:
    g.answers[row, A_AT] = g.who[NOW]
    g.answers[row, A_BY] = by
    g.answers[row, A_ERROR] = error
    g.answers[row, A_GENERATION] = g.who[GENERATION]
    g.answers[row, A_LEADER] = NOBODY if g.who[LEADER] == NOBODY else g.who[FIRST] + g.who[LEADER]


@part
def _go(g: Group, to: int, cause: int) -> None:
    """Nothing; the group is in state `to` now."""
    row = g.transitions[g.who[TOLD]]
    row[T_AT], row[T_EVENT], row[T_GROUP] = g.who[NOW], g.who[REQUEST], g.who[GROUP]
    row[T_FROM], row[T_TO], row[T_CAUSE] = g.who[STATE], to, cause
    row[T_GENERATION] = g.who[GENERATION]
    row[T_LEADER] = NOBODY if g.who[LEADER] == NOBODY else g.who[FIRST] + g.who[LEADER]
    g.who[TOLD] += 1
    g.who[STATE] = to


# ---- Delayed heartbeats.


@part
def _end_beat(g: Group, m: int, by: int) -> None:
    """Nothing; the member's delayed heartbeat, if there is one, has ended."""
    _stop_timer(g, m)
    row = g.members[m, M_BEAT]
    if row >= 0:
        g.answers[row, A_BEAT_AT], g.answers[row, A_BEAT_BY] = g.who[NOW], by
        g.members[m, M_BEAT] = -1


@part
def _is_kept(g: Group, m: int) -> bool:
    """Whether the member needs no heartbeat: it waits for an answer itself, and is not new."""
    member = g.members[m]
    kept: bool = not member[M_NEW] and (member[M_JOIN] >= 0 or member[M_SYNC] >= 0)
    return kept


@part
def _beat(g: Group, m: int, row: int, after_ms: int, by: int) -> None:
    """Nothing; the delayed heartbeat has ended, and request `row` (-1 = none) makes the next one."""
    _end_beat(g, m, by)
    g.members[m, M_BEAT] = row
    if row >= 0:
        g.answers[row, A_BEAT_BY] = WAITING
    if _is_kept(g, m):
        _end_beat(g, m, MEMBER_WAITS)
    else:
        _set_timer(g, m, after_ms)


@part
def _session_due(g: Group, m: int) -> None:
    if g.members[m, M_STATUS] == ID_GIVEN:
        _forget_id(g, m, SESSION_TIMEOUT)
    elif _is_kept(g, m):
        _end_beat(g, m, MEMBER_WAITS)
    else:
        _depart(g, m, SESSION_TIMEOUT)


# ---- Who is in the group.


@part
def _longest_rebalance(g: Group) -> int:
    longest, m = 0, g.who[HEAD]
    while m != NOBODY:
        longest = max(longest, g.members[m, M_REBALANCE])
        m = g.members[m, M_AFTER]
    return longest


@part
def _link(g: Group, m: int) -> None:
    """Nothing; the member is the last of the group; without a leader, it leads."""
    tail = g.who[TAIL]
    g.members[m, M_STATUS] = IN
    g.members[m, M_BEFORE], g.members[m, M_AFTER] = tail, NOBODY
    if tail == NOBODY:
        g.who[HEAD] = m
    else:
        g.members[tail, M_AFTER] = m
    g.who[TAIL] = m
    g.who[SIZE] += 1
    if g.who[LEADER] == NOBODY:
        g.who[LEADER] = m


@part
def _unlink(g: Group, m: int, by: int) -> None:
    """Nothing; the member is out; if it led, who has been in for longest leads (Kafka takes any).

    A sync of it that waits is never answered.
    """
    member = g.members[m]
    before, after = member[M_BEFORE], member[M_AFTER]
    if before == NOBODY:
        g.who[HEAD] = after
    else:
        g.members[before, M_AFTER] = after
    if after == NOBODY:
        g.who[TAIL] = before
    else:
        g.members[after, M_BEFORE] = before
    g.who[SIZE] -= 1
    g.who[AWAITING] -= member[M_JOIN] >= 0
    if member[M_SYNC] >= 0:
        g.answers[member[M_SYNC], A_BY] = by
    _has_synced(g, m)
    member[M_STATUS], member[M_JOIN], member[M_SYNC] = OUT, -1, -1
    if g.who[LEADER] == m:
        g.who[LEADER] = g.who[HEAD]
    _end_beat(g, m, by)


@part
def _depart(g: Group, m: int, by: int) -> None:
    """Nothing; a member leaves or is expelled: the others rebalance, or no longer wait for it."""
    row = g.members[m, M_JOIN]
    if row >= 0:
        _answer(g, row, by, UNKNOWN_MEMBER_ID)
    _unlink(g, m, by)
    if g.who[STATE] == PREPARING:
        _try_joins(g, by)
    else:
        _prepare(g, by)


@part
def _forget_id(g: Group, m: int, by: int) -> None:
    """Nothing; who was given an id and has not joined with it is no longer waited for."""
    g.members[m, M_STATUS] = OUT
    g.who[PENDING] -= 1
    _end_beat(g, m, by)
    _try_joins(g, by)


# ---- Joins.


@part
def _prepare(g: Group, cause: int) -> None:
    """Nothing; a rebalance begins: whose sync waits is told so, and all are to join again."""
    if g.who[STATE] == COMPLETING:
        _answer_syncs(g, REBALANCE_BEGAN, REBALANCE_IN_PROGRESS)
    m = g.who[HEAD]
    while m != NOBODY and g.who[UNSYNCED]:
        _has_synced(g, m)
        m = g.members[m, M_AFTER]
    longest = _longest_rebalance(g)
    g.who[INITIAL] = g.who[STATE] == EMPTY
    if g.who[INITIAL]:
        g.who[DELAY] = g.rules[INITIAL_DELAY_MS]
        g.who[REMAINING] = max(longest - g.who[DELAY], 0)
        _set_timer(g, _join_timer(g), g.who[DELAY])
    else:
        _set_timer(g, _join_timer(g), longest)
    _go(g, PREPARING, cause)
    _try_joins(g, ALL_JOINED if cause in (MEMBER_JOINED, LEADER_REJOINED, METADATA_CHANGED) else cause)


@part
def _try_joins(g: Group, by: int) -> None:
    """Nothing; joins are answered if all members have joined, and all who were given an id. An initial delay stays."""
    who = g.who
    if who[STATE] == PREPARING and not who[INITIAL] and who[SIZE] == who[AWAITING] and not who[PENDING]:
        _complete_joins(g, by)


@part
def _joins_due(g: Group) -> None:
    """Nothing; the rebalance timeout, or the initial delay: this begins anew while others come, as long as it may."""
    who = g.who
    if not who[INITIAL]:
        _complete_joins(g, REBALANCE_TIMEOUT)
    elif who[NEWCOMER] and who[REMAINING]:
        delay = min(g.rules[INITIAL_DELAY_MS], who[REMAINING])
        who[NEWCOMER] = 0
        who[REMAINING] = max(who[REMAINING] - who[DELAY], 0)
        who[DELAY] = delay
        _set_timer(g, _join_timer(g), delay)
    else:
        _complete_joins(g, INITIAL_DELAY)


@part
def _complete_joins(g: Group, by: int) -> None:
    """Nothing; who has not joined is out, and the rest are a new generation; without a rest the group is empty."""
    who = g.who
    _stop_timer(g, _join_timer(g))
    who[INITIAL] = 0
    m = who[HEAD]
    while m != NOBODY:
        after = g.members[m, M_AFTER]
        if g.members[m, M_JOIN] < 0:
            _unlink(g, m, by)
        m = after
    who[GENERATION] += 1
    if who[SIZE] == 0:
        who[STORED_GENERATION], who[STORED_LEADER] = who[GENERATION], NOBODY
        _go(g, EMPTY, by)
        return
    _go(g, COMPLETING, by)
    m = who[HEAD]
    while m != NOBODY:
        member = g.members[m]
        row = member[M_JOIN]
        member[M_JOIN], member[M_NEW], member[M_UNSYNCED] = -1, 0, 1
        _answer(g, row, by, NO_ERROR)
        _beat(g, m, row, member[M_SESSION], REQUEST_ANSWERED)
        m = member[M_AFTER]
    who[AWAITING], who[UNSYNCED] = 0, who[SIZE]
    if g.rules[SYNCS_TIME_OUT]:
        _set_timer(g, _sync_timer(g), _longest_rebalance(g))


@part
def _join(g: Group, row: int, m: int, event: Ints) -> None:
    status = g.members[m, M_STATUS]
    if not g.rules[MIN_SESSION_MS] <= event[E_SESSION] <= g.rules[MAX_SESSION_MS]:
        _answer(g, row, AT_ONCE, INVALID_SESSION_TIMEOUT)
    elif status == IN:
        _join_again(g, row, m, event)
    elif status == OUT and event[E_FLAGS] & KNOWN:
        _answer(g, row, AT_ONCE, UNKNOWN_MEMBER_ID)
    elif status == OUT and g.rules[ASKS_FOR_MEMBER_ID]:
        g.members[m, M_STATUS] = ID_GIVEN
        g.who[PENDING] += 1
        _set_timer(g, m, event[E_SESSION])
        _answer(g, row, AT_ONCE, MEMBER_ID_REQUIRED)
    else:
        _join_first(g, row, m, event)


@part
def _join_first(g: Group, row: int, m: int, event: Ints) -> None:
    """Nothing; a new member: until its join is answered it is given five minutes, and not its session's time."""
    member, who = g.members[m], g.who
    who[PENDING] -= member[M_STATUS] == ID_GIVEN
    if who[STATE] == PREPARING and who[GENERATION] == 0:
        who[NEWCOMER] = 1
    member[M_SESSION], member[M_REBALANCE] = event[E_SESSION], event[E_REBALANCE]
    member[M_NEW], member[M_JOIN] = 1, row
    _link(g, m)
    who[AWAITING] += 1
    _beat(g, m, -1, g.rules[NEW_MEMBER_MS], REQUEST_ANSWERED)
    if who[STATE] == PREPARING:
        _try_joins(g, ALL_JOINED)
    else:
        _prepare(g, MEMBER_JOINED)


@part
def _join_again(g: Group, row: int, m: int, event: Ints) -> None:
    """Nothing; a member joins again: for the rebalance under way, to begin one, or to be told what it knows."""
    member, state = g.members[m], g.who[STATE]
    changed = event[E_FLAGS] & CHANGED
    if state != PREPARING and not changed and not (state == STABLE and g.who[LEADER] == m):
        _answer(g, row, AT_ONCE, NO_ERROR)
        return
    if member[M_JOIN] >= 0:
        g.answers[member[M_JOIN], A_BY] = NEWER_REQUEST
    else:
        g.who[AWAITING] += 1
    member[M_JOIN] = row
    if g.rules[REJOIN_SETS_TIMEOUTS]:
        member[M_SESSION], member[M_REBALANCE] = event[E_SESSION], event[E_REBALANCE]
    if state == PREPARING:
        _try_joins(g, ALL_JOINED)
    else:
        _prepare(g, METADATA_CHANGED if changed else LEADER_REJOINED)


# ---- Syncs.


@part
def _has_synced(g: Group, m: int) -> None:
    """Nothing; nobody waits any more for this member's sync."""
    if g.members[m, M_UNSYNCED]:
        g.members[m, M_UNSYNCED] = 0
        g.who[UNSYNCED] -= 1
    if g.who[UNSYNCED] == 0:
        _stop_timer(g, _sync_timer(g))


@part
def _answer_syncs(g: Group, by: int, error: int) -> None:
    """Nothing; all syncs that wait are answered, which makes these members' next delayed heartbeats."""
    m = g.who[HEAD]
    while m != NOBODY:
        member = g.members[m]
        row = member[M_SYNC]
        if row >= 0:
            member[M_SYNC] = -1
            _answer(g, row, by, error)
            _beat(g, m, row, member[M_SESSION], REQUEST_ANSWERED)
        m = member[M_AFTER]


@part
def _refusal(g: Group, m: int, generation: int) -> int:
    """The error of a heartbeat or a sync, before the state is looked at."""
    if g.members[m, M_STATUS] != IN:
        return UNKNOWN_MEMBER_ID
    if generation not in (-1, g.who[GENERATION]):
        return ILLEGAL_GENERATION
    return NO_ERROR


@part
def _sync(g: Group, row: int, m: int, event: Ints) -> None:
    member, state = g.members[m], g.who[STATE]
    error = _refusal(g, m, event[E_GENERATION])
    if error == NO_ERROR and state == PREPARING:
        error = REBALANCE_IN_PROGRESS
    if error != NO_ERROR:
        _answer(g, row, AT_ONCE, error)
        return
    _has_synced(g, m)
    if state == STABLE:
        _answer(g, row, AT_ONCE, NO_ERROR)
        _beat(g, m, row, member[M_SESSION], REQUEST_ANSWERED)
        return
    if member[M_SYNC] >= 0:
        g.answers[member[M_SYNC], A_BY] = NEWER_REQUEST
    member[M_SYNC] = row
    if g.who[LEADER] == m:
        _store(g)
        _go(g, STABLE, LEADER_SYNC)
        _answer_syncs(g, LEADER_SYNC, NO_ERROR)


@part
def _syncs_due(g: Group) -> None:
    """Nothing; who has not synced within the rebalance timeout is out, and the others rebalance."""
    m = g.who[HEAD]
    while m != NOBODY:
        after = g.members[m, M_AFTER]
        if g.members[m, M_UNSYNCED]:
            _unlink(g, m, SYNC_TIMEOUT)
        m = after
    _prepare(g, SYNC_TIMEOUT)


# ---- The other requests, and the coordinator itself.


@part
def _heartbeat(g: Group, row: int, m: int, event: Ints) -> None:
    error = _refusal(g, m, event[E_GENERATION])
    if error == NO_ERROR:
        _beat(g, m, row, g.members[m, M_SESSION], NEXT_HEARTBEAT)
        if g.who[STATE] == PREPARING:
            error = REBALANCE_IN_PROGRESS
    _answer(g, row, AT_ONCE, error)


@compiled
def _leave(g: Group, row: int, m: int) -> None:
    status = g.members[m, M_STATUS]
    if status == IN:
        _depart(g, m, MEMBER_LEFT)
    elif status == ID_GIVEN:
        _forget_id(g, m, MEMBER_LEFT)
    _answer(g, row, AT_ONCE, UNKNOWN_MEMBER_ID if status == OUT else NO_ERROR)


@compiled
def _store(g: Group) -> None:
    """Nothing; what the log of __consumer_offsets has of the group from now on."""
    g.who[STORED_GENERATION], g.who[STORED_LEADER] = g.who[GENERATION], g.who[LEADER]
    m = g.who[HEAD]
    while m != NOBODY:
        member = g.members[m]
        member[M_STORED] = g.who[GENERATION]
        member[M_STORED_SESSION], member[M_STORED_REBALANCE] = member[M_SESSION], member[M_REBALANCE]
        m = member[M_AFTER]


@part
def _lose(g: Group) -> None:
    """Nothing; the broker no longer coordinates the group: what waits is answered so, no heartbeat is expected."""
    m = g.who[HEAD]
    while m != NOBODY:
        for request in (M_JOIN, M_SYNC):
            if g.members[m, request] >= 0:
                _answer(g, g.members[m, request], LOST, NOT_COORDINATOR)
        _end_beat(g, m, LOST)
        m = g.members[m, M_AFTER]
    _clear(g)
    _go(g, DEAD, LOST)


@compiled
def _load(g: Group) -> None:
    """Nothing; a broker has read the group from the log: its last stable generation, or that it is empty."""
    g.who[GENERATION] = g.who[STORED_GENERATION]
    for m in range(g.who[MEMBERS]):
        member = g.members[m]
        if member[M_STORED] == g.who[STORED_GENERATION] > 0:
            member[M_SESSION], member[M_REBALANCE] = member[M_STORED_SESSION], member[M_STORED_REBALANCE]
            member[M_NEW] = 0
            _link(g, m)
            _beat(g, m, -1, member[M_SESSION], LOADED)
    g.who[LEADER] = g.who[STORED_LEADER]
    _go(g, STABLE if g.who[SIZE] else EMPTY, LOADED)


@copying_part
def _handle(g: Group, event: Ints) -> None:
    row, kind, m, state = event[E_REQUEST], event[E_KIND], event[E_MEMBER] - g.who[FIRST], g.who[STATE]
    if kind in (COORDINATOR_LOST, COORDINATOR_LOADED):
        if kind == COORDINATOR_LOST and state != DEAD:
            _lose(g)
        elif kind == COORDINATOR_LOADED and state == DEAD:
            _load(g)
        _answer(g, row, AT_ONCE, NO_ERROR)
    elif state == DEAD:
        _answer(g, row, AT_ONCE, NOT_COORDINATOR)
    elif kind == JOIN:
        _join(g, row, m, event)
    elif kind == SYNC:
        _sync(g, row, m, event)
    elif kind == HEARTBEAT:
        _heartbeat(g, row, m, event)
    else:
        _leave(g, row, m)
    g.answers[row, A_DELAYED] = g.answers[row, A_BY] == WAITING
