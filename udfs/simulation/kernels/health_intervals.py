"""The health of a partition over time: a row for each time in which leader, ISR, AR and minimum stay the same."""

from __future__ import annotations

from udfs.kernel_compiler import part
from udfs.simulation.kernels.codes import ABSENT, NOBODY
from udfs.simulation.kernels.replica_logs import serving
from udfs.simulation.kernels.simulation_state import (
    AR,
    COMMITTED,
    E_ACKS,
    EPOCH,
    H_AR,
    H_COMMITTED,
    H_EPOCH,
    H_EXPOSED_0,
    H_EXPOSED_1,
    H_EXPOSED_ALL,
    H_FROM,
    H_ISR,
    H_LEADER,
    H_LEO,
    H_LIST,
    H_MIN_ISR,
    H_PARTITION,
    H_TO,
    H_VISIBLE,
    HW,
    ISR,
    LAST_LEADER,
    LEO,
    MEMBER,
    MIN_ISR,
    OLD_COMMITTED,
    OLD_EXPOSED_0,
    OLD_EXPOSED_1,
    OLD_EXPOSED_ALL,
    OLD_LEO,
    OLD_VISIBLE,
    OWN_BEGIN,
    Q_BASE,
    Q_COUNT,
    Q_LOST,
    SEEN_AR,
    SEEN_DATA,
    SEEN_EPOCH,
    SEEN_ISR,
    SEEN_LEADER,
    SEEN_MIN,
    SINCE,
    SLOT_BEGIN,
    STACK,
    STACKED,
    STATE,
    U_AT,
    U_HEALTH,
    U_LISTS,
    U_WRITES,
    Journal,
    Own,
    State,
    World,
)

NOT_THERE = -2  # of SEEN_LEADER: the partition does not exist


@part
def mark(s: State, o: Own, p: int) -> None:
    """Nothing; offsets and exposure as they are before something may change p's health: a time ends with these."""
    if not s.now[p, SEEN_DATA] or s.seen[p, SEEN_LEADER] == NOT_THERE:
        return
    begin, leader, committed = s.now[p, SLOT_BEGIN], s.now[p, LAST_LEADER], s.now[p, COMMITTED]
    if leader == NOBODY:
        return
    s.seen[p, OLD_LEO], s.seen[p, OLD_VISIBLE] = s.slot[begin + leader, LEO], s.slot[begin + leader, HW]
    s.seen[p, OLD_COMMITTED] = committed
    s.seen[p, OLD_EXPOSED_0 : OLD_EXPOSED_ALL + 1] = 0
    for i in range(s.now[p, STACKED] - 1, -1, -1):
        request = o.work[STACK, s.now[p, OWN_BEGIN] + i]
        base = o.requests[request, Q_BASE]
        last = base + o.requests[request, Q_COUNT] - o.requests[request, Q_LOST]
        if last <= committed:
            return
        acks = o.events[request, E_ACKS]
        which = OLD_EXPOSED_0 if acks == 0 else OLD_EXPOSED_1 if acks == 1 else OLD_EXPOSED_ALL
        s.seen[p, which] += last - max(base, committed)


@part
def note(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; if p's health is another now, the time in which it was as before is written down."""
    leader = _leader(s, w, j, p)
    same = (
        leader == s.seen[p, SEEN_LEADER]
        and s.now[p, EPOCH] == s.seen[p, SEEN_EPOCH]
        and s.now[p, ISR] == s.seen[p, SEEN_ISR]
        and s.now[p, AR] == s.seen[p, SEEN_AR]
        and s.now[p, MIN_ISR] == s.seen[p, SEEN_MIN]
    )
    if same:
        return
    if s.seen[p, SEEN_LEADER] != NOT_THERE and s.seen[p, SINCE] < j.used[U_AT]:
        write_health(s, j, p, False)
    begin_health(s, w, j, p)


@part
def begin_health(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; from now on p's health is as it is."""
    s.seen[p, SINCE], s.seen[p, SEEN_LEADER] = j.used[U_AT], _leader(s, w, j, p)
    s.seen[p, SEEN_EPOCH], s.seen[p, SEEN_ISR] = s.now[p, EPOCH], s.now[p, ISR]
    s.seen[p, SEEN_AR], s.seen[p, SEEN_MIN] = s.now[p, AR], s.now[p, MIN_ISR]


@part
def _leader(s: State, w: World, j: Journal, p: int) -> int:
    if s.now[p, STATE] == ABSENT:
        return NOT_THERE
    leader = serving(s, w, j, p)
    return NOBODY if leader == NOBODY else int(s.slot[s.now[p, SLOT_BEGIN] + leader, MEMBER])


@part
def write_health(s: State, j: Journal, p: int, last: bool) -> None:
    """Nothing; the time until now is written down. last: with every replica's offsets, as the replay ends."""
    if not j.used[U_WRITES]:
        return
    row = j.used[U_HEALTH]
    j.health[row, H_FROM], j.health[row, H_TO] = s.seen[p, SINCE], j.used[U_AT]
    j.health[row, H_PARTITION], j.health[row, H_LEADER] = p, s.seen[p, SEEN_LEADER]
    j.health[row, H_EPOCH], j.health[row, H_ISR] = s.seen[p, SEEN_EPOCH], s.seen[p, SEEN_ISR]
    j.health[row, H_AR], j.health[row, H_MIN_ISR] = s.seen[p, SEEN_AR], s.seen[p, SEEN_MIN]
    j.health[row, H_LEO], j.health[row, H_VISIBLE] = s.seen[p, OLD_LEO], s.seen[p, OLD_VISIBLE]
    j.health[row, H_COMMITTED] = s.seen[p, OLD_COMMITTED]
    j.health[row, H_EXPOSED_0], j.health[row, H_EXPOSED_1] = s.seen[p, OLD_EXPOSED_0], s.seen[p, OLD_EXPOSED_1]
    j.health[row, H_EXPOSED_ALL] = s.seen[p, OLD_EXPOSED_ALL]
    j.health[row, H_LIST] = -1
    if last:
        _write_replicas(s, j, p, row)
    j.used[U_HEALTH] = row + 1


@part
def _write_replicas(s: State, j: Journal, p: int, row: int) -> None:
    begin, size, place = s.now[p, SLOT_BEGIN], s.now[p, AR], j.used[U_LISTS]
    j.lists[place] = size
    for i in range(size):
        replica = begin + s.slot[begin + i, AR]
        j.lists[place + 1 + i] = s.slot[replica, MEMBER]
        j.lists[place + 1 + size + i] = s.slot[replica, LEO]
        j.lists[place + 1 + 2 * size + i] = s.slot[replica, HW]
    j.health[row, H_LIST] = place
    j.used[U_LISTS] = place + 1 + 3 * size
