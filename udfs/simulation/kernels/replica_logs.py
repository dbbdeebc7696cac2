"""Logs of a partition's replicas: how long they are, what they share, high watermarks, requests that end.

The rules are those of docs/replay-rules.md. Sources: Partition, ReplicaManager, DelayedProduce, DelayedFetch of 2.8.
"""

from __future__ import annotations

from udfs.kernel_compiler import part
from udfs.simulation.kernels.codes import (
    BY_HIGH_WATERMARK,
    DISCONNECTED,
    NO_ERROR,
    NOBODY,
    NOT_ENOUGH_AFTER_APPEND,
    WAITING,
)
from udfs.simulation.kernels.simulation_state import (
    AR,
    CHECKPOINT,
    CHECKPOINT_MS,
    CLUSTER,
    COMMITTED,
    COMMON_BEGIN,
    DEADLINE,
    E_MIN_BYTES,
    E_PARTS,
    HW,
    HW_AT,
    ISR,
    KRAFT,
    LEADER,
    LEO,
    MESSAGE_BYTES,
    OWN_BEGIN,
    P_AT,
    P_BYTES,
    P_REQUEST,
    Q_AT,
    Q_BASE,
    Q_BY,
    Q_COUNT,
    Q_DEADLINE,
    Q_ERROR,
    Q_HW,
    Q_LOST,
    Q_LOST_AT,
    Q_NEEDED,
    QUEUE,
    QUEUE_HEAD,
    QUEUE_TAIL,
    REMOTE,
    SLOT_BEGIN,
    SLOTS,
    STACK,
    STACKED,
    START_AT,
    U_AT,
    U_PROGRESS,
    U_WRITES,
    WAIT,
    WAITERS,
    WAITS,
    Journal,
    Own,
    State,
    World,
    in_sync_needed,
    live,
    within,
)


@part
def serving(s: State, w: World, j: Journal, p: int) -> int:
    """The slot that leads p and lives, or NOBODY."""
    leader = s.now[p, LEADER]
    return int(leader) if leader != NOBODY and live(s, w, j, p, leader) else NOBODY


@part
def common(s: State, p: int, a: int, b: int) -> int:
    """How many messages the logs of two slots share."""
    return int(s.common[s.now[p, COMMON_BEGIN] + a * s.now[p, SLOTS] + b])


@part
def share(s: State, p: int, a: int, b: int, messages: int) -> None:
    """Nothing; the logs of two slots share so many messages."""
    begin, slots = s.now[p, COMMON_BEGIN], s.now[p, SLOTS]
    s.common[begin + a * slots + b] = s.common[begin + b * slots + a] = messages


@part
def cut(s: State, w: World, j: Journal, p: int, slot: int, leo: int) -> None:
    """Nothing; the slot's log ends at `leo`, if it was longer."""
    row = s.now[p, SLOT_BEGIN] + slot
    if leo >= s.slot[row, LEO]:
        return
    s.slot[row, LEO] = leo
    for other in range(s.now[p, SLOTS]):
        share(s, p, slot, other, min(common(s, p, slot, other), leo))
    if s.slot[row, HW] > leo:
        set_hw(s, w, j, p, slot, leo)


@part
def forget_logs(s: State, p: int) -> None:
    """Nothing; logs of replicas that are no longer assigned are gone: should one come again, it begins with none."""
    for slot in range(s.now[p, SLOTS]):
        row = s.now[p, SLOT_BEGIN] + slot
        if s.slot[row, LEO] == 0 or within(s, AR, p, slot):
            continue
        s.slot[row, LEO] = s.slot[row, HW] = s.slot[row, CHECKPOINT] = 0
        s.slot[row, REMOTE] = -1
        for other in range(s.now[p, SLOTS]):
            share(s, p, slot, other, 0)


@part
def copy(s: State, p: int, slot: int, leader: int, leo: int) -> None:
    """Nothing; the slot's log has what the leader's has, up to `leo`."""
    begin = s.now[p, SLOT_BEGIN]
    if common(s, p, slot, leader) == s.slot[begin + slot, LEO]:
        for other in range(s.now[p, SLOTS]):
            if other != slot:
                both = leo if other == leader else min(common(s, p, leader, other), leo)
                share(s, p, slot, other, both)
    s.slot[begin + slot, LEO] = leo
    share(s, p, slot, slot, leo)


@part
def set_hw(s: State, w: World, j: Journal, p: int, slot: int, hw: int) -> None:
    """Nothing; the slot's high watermark; what the last checkpoint wrote is kept."""
    row = s.now[p, SLOT_BEGIN] + slot
    if _checkpointed(s, w, j, p, slot):
        s.slot[row, CHECKPOINT] = s.slot[row, HW]
    s.slot[row, HW], s.slot[row, HW_AT] = hw, j.used[U_AT]


@part
def _checkpointed(s: State, w: World, j: Journal, p: int, slot: int) -> bool:
    """Whether a checkpoint was written since the slot's high watermark last changed: a change at its time is later."""
    c = s.now[p, CLUSTER]
    last = j.used[U_AT] // w.cluster[c, CHECKPOINT_MS] * w.cluster[c, CHECKPOINT_MS]
    written: bool = last > w.cluster[c, START_AT] and s.slot[s.now[p, SLOT_BEGIN] + slot, HW_AT] < last
    return written


@part
def restart_hw(s: State, w: World, j: Journal, p: int, slot: int) -> None:
    """Nothing; the slot's broker failed: what it will know is the last checkpoint."""
    row = s.now[p, SLOT_BEGIN] + slot
    if _checkpointed(s, w, j, p, slot):
        s.slot[row, CHECKPOINT] = s.slot[row, HW]
    s.slot[row, HW] = min(s.slot[row, CHECKPOINT], s.slot[row, LEO])
    s.slot[row, HW_AT] = j.used[U_AT]


@part
def try_hw(s: State, w: World, j: Journal, o: Own, p: int) -> None:
    """Nothing; the leader's high watermark is the smallest LEO of the ISR that it knows; what waited for it goes on."""
    leader = serving(s, w, j, p)
    if leader == NOBODY:
        return
    begin = s.now[p, SLOT_BEGIN]
    least = s.slot[begin + leader, LEO]
    for i in range(s.now[p, ISR]):
        slot = s.slot[begin + i, ISR]
        if slot != leader:
            least = min(least, s.slot[begin + slot, REMOTE])
    # Below the minimum nothing is committed, as who is eligible has to have all that is (KRaft: since 3.7).
    held_back = w.cluster[s.now[p, CLUSTER], KRAFT] != 0 and s.now[p, ISR] < in_sync_needed(s, w, p)
    if least > s.slot[begin + leader, HW] and not held_back:
        set_hw(s, w, j, p, leader, least)
        s.now[p, COMMITTED] = max(s.now[p, COMMITTED], least)
        _progress(s, w, j, o, p)
    _acknowledge(s, w, j, o, p, s.slot[begin + leader, HW])


@part
def _acknowledge(s: State, w: World, j: Journal, o: Own, p: int, hw: int) -> None:
    """Nothing; produces that waited for this high watermark are answered."""
    error = NO_ERROR if s.now[p, ISR] >= in_sync_needed(s, w, p) else NOT_ENOUGH_AFTER_APPEND
    begin = s.now[p, OWN_BEGIN]
    while s.now[p, QUEUE_HEAD] < s.now[p, QUEUE_TAIL]:
        request = o.work[QUEUE, begin + s.now[p, QUEUE_HEAD]]
        if o.requests[request, Q_BY] == WAITING:
            if o.requests[request, Q_NEEDED] > hw:
                return
            end(j, o, request, error, BY_HIGH_WATERMARK)
        s.now[p, QUEUE_HEAD] += 1


@part
def end(j: Journal, o: Own, request: int, error: int, by: int) -> None:
    """Nothing; the request is answered now, or never where its connection is gone."""
    o.requests[request, Q_ERROR], o.requests[request, Q_BY] = error, by
    o.requests[request, Q_AT] = -1 if error == DISCONNECTED else j.used[U_AT]


@part
def wait(s: State, o: Own, p: int, request: int) -> None:
    """Nothing; the next deadline of p counts this request."""
    s.now[p, DEADLINE] = min(s.now[p, DEADLINE], o.requests[request, Q_DEADLINE])


@part
def readable(s: State, p: int, leader: int, offset: int, consumer: bool) -> int:
    """Messages from `offset` on that a replica, or a consumer, may read of the leader."""
    row = s.now[p, SLOT_BEGIN] + leader
    return int(max(0, s.slot[row, HW if consumer else LEO] - offset))


@part
def give(s: State, p: int, leader: int, o: Own, request: int, consumer: bool) -> None:
    """Nothing; what a fetch reads now is noted."""
    offset = o.requests[request, Q_NEEDED]
    o.requests[request, Q_COUNT] = readable(s, p, leader, offset, consumer)
    o.requests[request, Q_HW] = s.slot[s.now[p, SLOT_BEGIN] + leader, HW]


@part
def deliver(s: State, w: World, j: Journal, o: Own, p: int, slot: int, request: int, by: int) -> None:
    """Nothing; a replica's fetch is answered: it appends, and takes the leader's high watermark up to its log's end."""
    leader = s.now[p, LEADER]
    give(s, p, leader, o, request, False)
    begin = s.now[p, SLOT_BEGIN]
    s.slot[begin + slot, WAITS] = -1
    copy(s, p, slot, leader, s.slot[begin + leader, LEO])
    set_hw(s, w, j, p, slot, min(s.slot[begin + slot, LEO], s.slot[begin + leader, HW]))
    end(j, o, request, NO_ERROR, by)


@part
def _progress(s: State, w: World, j: Journal, o: Own, p: int) -> None:
    """Nothing; fetches of consumers that wait have more to read: those of one partition end, others are noted."""
    begin, kept, leader = s.now[p, OWN_BEGIN], 0, s.now[p, LEADER]
    message = w.cluster[s.now[p, CLUSTER], MESSAGE_BYTES]
    for i in range(s.now[p, WAITERS]):
        request = o.work[WAIT, begin + i]
        size = readable(s, p, leader, o.requests[request, Q_NEEDED], True) * message
        several = o.events[request, E_PARTS] > 1
        if not several and size >= o.events[request, E_MIN_BYTES]:
            give(s, p, leader, o, request, True)
            end(j, o, request, NO_ERROR, BY_HIGH_WATERMARK)
            continue
        o.work[WAIT, begin + kept] = request
        kept += 1
        if several:
            could_read(j, request, size)
    s.now[p, WAITERS] = kept


@part
def could_read(j: Journal, request: int, size: int) -> None:
    """Nothing; how many bytes this part of a fetch could read from now on is written down; -1 = its leader failed."""
    if not j.used[U_WRITES]:
        return
    row = j.used[U_PROGRESS]
    j.progress[row, P_REQUEST], j.progress[row, P_AT], j.progress[row, P_BYTES] = request, j.used[U_AT], size
    j.used[U_PROGRESS] = row + 1


@part
def end_all(s: State, j: Journal, o: Own, p: int, error: int, fetch_error: int, by: int) -> None:
    """Nothing; all that waits at p is answered so: produces, and fetches."""
    end_produces(s, j, o, p, error, by)
    begin = s.now[p, OWN_BEGIN]
    for i in range(s.now[p, WAITERS]):
        request = o.work[WAIT, begin + i]
        if fetch_error == DISCONNECTED and o.events[request, E_PARTS] > 1:
            could_read(j, request, -1)  # never answered: nothing else would tell when
        end(j, o, request, fetch_error, by)
    s.now[p, WAITERS] = 0
    for slot in range(s.now[p, SLOTS]):
        end_fetch(s, j, o, p, slot, fetch_error, by)


@part
def end_produces(s: State, j: Journal, o: Own, p: int, error: int, by: int) -> None:
    """Nothing; all produces that wait at p are answered so."""
    begin = s.now[p, OWN_BEGIN]
    for i in range(s.now[p, QUEUE_HEAD], s.now[p, QUEUE_TAIL]):
        request = o.work[QUEUE, begin + i]
        if o.requests[request, Q_BY] == WAITING:
            end(j, o, request, error, by)
    s.now[p, QUEUE_HEAD] = s.now[p, QUEUE_TAIL] = 0


@part
def end_fetch(s: State, j: Journal, o: Own, p: int, slot: int, error: int, by: int) -> None:
    """Nothing; the fetch of the slot's replica that waits, if one does, ends without messages."""
    row = s.now[p, SLOT_BEGIN] + slot
    if s.slot[row, WAITS] >= 0:
        end(j, o, s.slot[row, WAITS], error, by)
        s.slot[row, WAITS] = -1


@part
def lose(s: State, j: Journal, o: Own, p: int, kept: int) -> None:
    """Nothing; of the last leader's log only the first `kept` messages are left: appends beyond have lost theirs."""
    begin = s.now[p, OWN_BEGIN]
    while s.now[p, STACKED] > 0:
        request = o.work[STACK, begin + s.now[p, STACKED] - 1]
        base, count = o.requests[request, Q_BASE], o.requests[request, Q_COUNT] - o.requests[request, Q_LOST]
        if base + count <= kept:
            return
        lost = base + count - max(base, kept)
        o.requests[request, Q_LOST] += lost
        if o.requests[request, Q_LOST_AT] < 0:
            o.requests[request, Q_LOST_AT] = j.used[U_AT]
        if base < kept:
            return
        s.now[p, STACKED] -= 1
