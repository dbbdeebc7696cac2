"""Appends, fetches, known offsets, the ISR's lag, deadlines: what happens to one partition's data.

The rules are those of docs/replay-rules.md. Sources: Partition, ReplicaManager, DelayedProduce, DelayedFetch of 2.8.
"""

from __future__ import annotations

from udfs.kernel_compiler import copying_part, part
from udfs.simulation.kernels.codes import (
    ABSENT,
    AT_ONCE,
    BROKER_IS_DOWN,
    BY_APPEND,
    BY_BROKER_DOWN,
    BY_DELETION,
    BY_LEADER,
    BY_NEWER_FETCH,
    BY_TIMEOUT,
    DISCONNECTED,
    EXPANDED,
    FENCED_EPOCH,
    LEADER_NOT_AVAILABLE,
    NO_ERROR,
    NOBODY,
    NOT_A_REPLICA,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER,
    NOTHING_AWAITED,
    OUT_OF_RANGE,
    SHRUNK,
    TIMED_OUT,
    UNKNOWN_EPOCH,
    UNKNOWN_TOPIC,
    WAITING,
)
from udfs.simulation.kernels.health_intervals import mark
from udfs.simulation.kernels.partition_control import leader_changed_isr
from udfs.simulation.kernels.reassignment_steps import finish
from udfs.simulation.kernels.replica_logs import (
    common,
    copy,
    could_read,
    cut,
    deliver,
    end,
    end_all,
    end_fetch,
    forget_logs,
    give,
    lose,
    readable,
    restart_hw,
    serving,
    set_hw,
    share,
    try_hw,
    wait,
)
from udfs.simulation.kernels.simulation_state import (
    AR,
    AT,
    CAUGHT_UP_AT,
    CHECKPOINT,
    CLUSTER,
    COMMITTED,
    DEADLINE,
    E_ACKS,
    E_AT,
    E_BROKER,
    E_EPOCH,
    E_LIST,
    E_MESSAGES,
    E_MIN_BYTES,
    E_OFFSET,
    E_PARTS,
    E_VALUE,
    E_WAIT_MS,
    EPOCH,
    EPOCH_AT_FIRST,
    EPOCH_START,
    FETCHED_AT,
    FETCHED_LEO,
    HAS_DATA,
    HAS_FETCHES,
    HW,
    ISR,
    JOIN_AT_EPOCH_START,
    LAG_MESSAGES,
    LAG_MS,
    LAST_EVENT,
    LAST_LEADER,
    LEADER,
    LEO,
    LONG_AGO,
    MESSAGE_BYTES,
    NEVER,
    OWN_BEGIN,
    Q_BASE,
    Q_BY,
    Q_COUNT,
    Q_DEADLINE,
    Q_DELAYED,
    Q_NEEDED,
    QUEUE,
    QUEUE_HEAD,
    QUEUE_TAIL,
    REMOTE,
    SLOT_BEGIN,
    SLOTS,
    STACK,
    STACKED,
    STATE,
    STEP_BEGIN,
    STEP_END,
    T_AT,
    T_EPOCH,
    T_EVENT,
    TARGET,
    TRUNCATE_TO_HW,
    U_AT,
    U_EPOCH,
    U_EVENT,
    WAIT,
    WAITERS,
    WAITS,
    Journal,
    Own,
    State,
    World,
    add,
    in_sync_needed,
    leaving,
    live,
    within,
)

# ---- produce


@part
def append(s: State, w: World, j: Journal, o: Own, p: int, i: int) -> None:
    """Nothing; own event i is a produce."""
    leader, acks, count = serving(s, w, j, p), o.events[i, E_ACKS], o.events[i, E_MESSAGES]
    at_once = NOTHING_AWAITED if acks == 0 else AT_ONCE
    if leader == NOBODY:
        end(j, o, i, UNKNOWN_TOPIC if s.now[p, STATE] == ABSENT else LEADER_NOT_AVAILABLE, at_once)
        return
    if acks == -1 and s.now[p, ISR] < in_sync_needed(s, w, p):
        end(j, o, i, NOT_ENOUGH_REPLICAS, at_once)
        return
    row, begin = s.now[p, SLOT_BEGIN] + leader, s.now[p, OWN_BEGIN]
    o.requests[i, Q_BASE], o.requests[i, Q_COUNT] = s.slot[row, LEO], count
    if count == 0:
        end(j, o, i, NO_ERROR, BY_APPEND if acks == 1 else at_once)
        return
    s.slot[row, LEO] += count
    o.work[STACK, begin + s.now[p, STACKED]] = i
    s.now[p, STACKED] += 1
    o.requests[i, Q_NEEDED] = s.slot[row, LEO]
    if acks == -1:
        o.requests[i, Q_BY], o.requests[i, Q_DELAYED] = WAITING, 1
        o.requests[i, Q_DEADLINE] = o.events[i, E_AT] + o.events[i, E_WAIT_MS]
        o.work[QUEUE, begin + s.now[p, QUEUE_TAIL]] = i
        s.now[p, QUEUE_TAIL] += 1
        wait(s, o, p, i)
    else:
        end(j, o, i, NO_ERROR, BY_APPEND if acks == 1 else at_once)
    try_hw(s, w, j, o, p)
    if acks == -1 and o.requests[i, Q_BY] != WAITING:
        o.requests[i, Q_BY] = AT_ONCE
    _feed(s, w, j, o, p, leader)


@part
def _feed(s: State, w: World, j: Journal, o: Own, p: int, leader: int) -> None:
    """Nothing; fetches of replicas that wait are tried: there is more to read."""
    begin = s.now[p, SLOT_BEGIN]
    message = w.cluster[s.now[p, CLUSTER], MESSAGE_BYTES]
    for slot in range(s.now[p, SLOTS]):
        request = s.slot[begin + slot, WAITS]
        if request < 0:
            continue
        size = readable(s, p, leader, o.requests[request, Q_NEEDED], False) * message
        if size >= o.events[request, E_MIN_BYTES]:
            deliver(s, w, j, o, p, slot, request, BY_APPEND)


# ---- fetch


@part
def fetch(s: State, w: World, j: Journal, o: Own, p: int, i: int) -> None:
    """Nothing; own event i is a fetch, of a replica or (no slot) of a consumer."""
    slot, leader = o.events[i, E_BROKER], serving(s, w, j, p)
    begin = s.now[p, SLOT_BEGIN]
    consumer = slot == NOBODY
    offset = o.events[i, E_OFFSET]
    if offset < 0 and leader != NOBODY:
        if not consumer and live(
            s, w, j, p, slot
        ):  # longer than the leader's, a log is cut: what it would be told is out of range
            cut(s, w, j, p, slot, s.slot[begin + leader, LEO])
        offset = s.slot[begin + leader, HW] if consumer else s.slot[begin + slot, LEO]
    error = _refusal(s, w, j, p, o, i, slot, leader, offset)
    if error != NO_ERROR:
        if not o.events[i, E_VALUE]:  # one of many that were not meant one by one
            end(j, o, i, error, AT_ONCE)
        return
    o.requests[i, Q_NEEDED] = offset
    o.requests[i, Q_DEADLINE] = o.events[i, E_AT] + o.events[i, E_WAIT_MS]
    message = w.cluster[s.now[p, CLUSTER], MESSAGE_BYTES]
    if not consumer:
        if s.now[p, TARGET]:
            mark(s, o, p)  # the reassignment may end below
        _arrive(s, w, j, o, p, slot, leader, offset)
    size = readable(s, p, leader, offset, consumer) * message
    several = consumer and o.events[i, E_PARTS] > 1  # whether the others have enough is seen where they meet
    if o.events[i, E_WAIT_MS] > 0 and (several or size < o.events[i, E_MIN_BYTES]):
        o.requests[i, Q_BY], o.requests[i, Q_DELAYED] = WAITING, 1
        wait(s, o, p, i)
        if several:
            give(s, p, leader, o, i, True)
            could_read(j, i, size)
        if consumer:
            o.work[WAIT, s.now[p, OWN_BEGIN] + s.now[p, WAITERS]] = i
            s.now[p, WAITERS] += 1
        else:
            s.slot[begin + slot, WAITS] = i
    elif consumer:
        give(s, p, leader, o, i, True)
        end(j, o, i, NO_ERROR, AT_ONCE)
    else:
        deliver(s, w, j, o, p, slot, i, AT_ONCE)
    if not consumer and s.now[p, TARGET]:
        finish(s, w, j, p)


@part
def _refusal(s: State, w: World, j: Journal, p: int, o: Own, i: int, slot: int, leader: int, offset: int) -> int:
    """The error of a fetch that is not even tried, or NO_ERROR."""
    epoch = o.events[i, E_EPOCH]
    if slot != NOBODY and not live(s, w, j, p, slot):
        return BROKER_IS_DOWN
    if s.now[p, STATE] == ABSENT:
        return UNKNOWN_TOPIC
    if leader == NOBODY:
        return LEADER_NOT_AVAILABLE
    if slot != NOBODY and (slot == leader or not within(s, AR, p, slot)):
        return NOT_A_REPLICA
    if 0 <= epoch < s.now[p, EPOCH]:
        return FENCED_EPOCH
    if epoch > s.now[p, EPOCH]:
        return UNKNOWN_EPOCH
    return OUT_OF_RANGE if offset > s.slot[s.now[p, SLOT_BEGIN] + leader, LEO] else NO_ERROR


@part
def _arrive(s: State, w: World, j: Journal, o: Own, p: int, slot: int, leader: int, offset: int) -> None:
    """Nothing; a replica's fetch tells the leader how far its log is: the ISR and the high watermark may follow."""
    row, end_of_log = s.now[p, SLOT_BEGIN] + slot, s.slot[s.now[p, SLOT_BEGIN] + leader, LEO]
    end_fetch(s, j, o, p, slot, NO_ERROR, BY_NEWER_FETCH)
    if not s.now[p, HAS_FETCHES]:  # until now nobody knew who fetches
        s.now[p, HAS_FETCHES] = 1
        for i in range(s.now[p, AR]):
            at = s.now[p, SLOT_BEGIN] + s.slot[s.now[p, SLOT_BEGIN] + i, AR]
            s.slot[at, CAUGHT_UP_AT] = max(s.slot[at, CAUGHT_UP_AT], j.used[U_AT])
    if offset < s.slot[row, LEO]:
        cut(s, w, j, p, slot, offset)
    elif offset > s.slot[row, LEO]:
        copy(s, p, slot, leader, offset)
    s.slot[row, REMOTE] = offset
    if offset >= end_of_log:
        s.slot[row, CAUGHT_UP_AT] = j.used[U_AT]
    elif offset >= s.slot[row, FETCHED_LEO]:
        s.slot[row, CAUGHT_UP_AT] = max(s.slot[row, CAUGHT_UP_AT], s.slot[row, FETCHED_AT])
    s.slot[row, FETCHED_LEO], s.slot[row, FETCHED_AT] = end_of_log, j.used[U_AT]
    if may_join(s, w, j, p, slot, leader):
        mark(s, o, p)
        _join(s, w, j, p, slot)
    try_hw(s, w, j, o, p)


@copying_part
def _join(s: State, w: World, j: Journal, p: int, slot: int) -> None:
    begin, held = s.now[p, SLOT_BEGIN], s.now[p, ISR]
    old = s.slot[begin : begin + held, ISR].copy()
    add(s, ISR, p, slot)
    leader_changed_isr(s, w, j, p, old, EXPANDED)


@part
def may_join(s: State, w: World, j: Journal, p: int, slot: int, leader: int) -> bool:
    """Whether the replica joins the ISR: it is not in it, it is in the AR, its log has reached the high watermark -
    and, since 2.1, where the leader's epoch began. Source: Partition.maybeExpandIsr."""
    begin = s.now[p, SLOT_BEGIN]
    if within(s, ISR, p, slot) or not within(s, AR, p, slot) or leaving(s, w, j, p, slot):
        return False
    reached = s.slot[begin + slot, REMOTE]
    if w.cluster[s.now[p, CLUSTER], JOIN_AT_EPOCH_START] and reached < s.now[p, EPOCH_START]:
        return False
    joins: bool = reached >= s.slot[begin + leader, HW]
    return joins


@part
def offsets(s: State, w: World, j: Journal, o: Own, p: int, i: int) -> None:
    """Nothing; own event i says how long a replica's log is, and its high watermark: that is so."""
    slot, leo, hw = o.events[i, E_BROKER], o.events[i, E_OFFSET], o.events[i, E_LIST]
    row = s.now[p, SLOT_BEGIN] + slot
    if leo >= 0:
        s.slot[row, LEO] = s.slot[row, REMOTE] = leo
        for other in range(s.now[p, SLOTS]):
            share(s, p, slot, other, min(leo, s.slot[s.now[p, SLOT_BEGIN] + other, LEO]))
    if hw >= 0 or s.slot[row, HW] > s.slot[row, LEO]:
        hw = min(hw if hw >= 0 else s.slot[row, HW], s.slot[row, LEO])
        set_hw(s, w, j, p, slot, hw)
        if o.events[i, E_LIST] >= 0:
            s.slot[row, CHECKPOINT] = hw
        if slot == s.now[p, LEADER]:
            s.now[p, COMMITTED] = max(s.now[p, COMMITTED], hw)
    try_hw(s, w, j, o, p)


# ---- time


@part
def until(s: State, w: World, j: Journal, o: Own, p: int, at: int) -> bool:
    """Whether all that is due at p until then has happened: deadlines, then checks of the ISR's lag, by time.

    False after an ISR that shrank: that is to be written down before the rest.
    """
    while True:
        check = _next_shrink(s, w, j, p)
        due = min(s.now[p, DEADLINE], check)
        if due > at:
            break
        j.used[U_AT] = due
        if s.now[p, DEADLINE] <= due:
            _expire(s, w, j, o, p, due)
        if check <= due:
            _between_events(s, w, j, p, due)
            mark(s, o, p)
            _shrink(s, w, j, o, p, due)
            return False
        s.now[p, AT] = due
    s.now[p, AT] = max(s.now[p, AT], at)
    return True


@part
def _between_events(s: State, w: World, j: Journal, p: int, at: int) -> None:
    """Nothing; what is written next belongs to the last event before `at`, of p or a step, and to its controller.

    Not to the next one: what is written never depends on what comes later.
    """
    c = s.now[p, CLUSTER]
    low, high = w.cluster[c, STEP_BEGIN], w.cluster[c, STEP_END]
    while low < high:
        middle = (low + high) // 2
        if w.steps[middle, T_AT] < at:
            low = middle + 1
        else:
            high = middle
    event, j.used[U_EPOCH] = -1, w.cluster[c, EPOCH_AT_FIRST]
    if low > w.cluster[c, STEP_BEGIN]:
        event, j.used[U_EPOCH] = w.steps[low - 1, T_EVENT], w.steps[low - 1, T_EPOCH]
    j.used[U_EVENT] = max(event, s.now[p, LAST_EVENT])


@part
def _expire(s: State, w: World, j: Journal, o: Own, p: int, due: int) -> None:
    """Nothing; requests whose deadline has come are answered; the next deadline is found."""
    begin, following, kept, leader = s.now[p, OWN_BEGIN], NEVER, 0, serving(s, w, j, p)
    for k in range(s.now[p, QUEUE_HEAD], s.now[p, QUEUE_TAIL]):
        request = o.work[QUEUE, begin + k]
        if o.requests[request, Q_BY] != WAITING:
            continue
        if o.requests[request, Q_DEADLINE] <= due:
            end(j, o, request, TIMED_OUT, BY_TIMEOUT)
        else:
            following = min(following, o.requests[request, Q_DEADLINE])
    for k in range(s.now[p, WAITERS]):
        request = o.work[WAIT, begin + k]
        if o.requests[request, Q_DEADLINE] <= due:
            if o.events[request, E_PARTS] == 1:
                give(s, p, leader, o, request, True)
            end(j, o, request, NO_ERROR, BY_TIMEOUT)
        else:
            following = min(following, o.requests[request, Q_DEADLINE])
            o.work[WAIT, begin + kept] = request
            kept += 1
    s.now[p, WAITERS] = kept
    for slot in range(s.now[p, SLOTS]):
        request = s.slot[s.now[p, SLOT_BEGIN] + slot, WAITS]
        if request >= 0 and o.requests[request, Q_DEADLINE] <= due:
            deliver(s, w, j, o, p, slot, request, BY_TIMEOUT)
        elif request >= 0:
            following = min(following, o.requests[request, Q_DEADLINE])
    s.now[p, DEADLINE] = following


@part
def _next_shrink(s: State, w: World, j: Journal, p: int) -> int:
    """When the next check of the lag finds somebody: a multiple of half the lag's time, or NEVER."""
    leader, c = s.now[p, LEADER], s.now[p, CLUSTER]
    if not s.now[p, HAS_FETCHES] or s.now[p, ISR] < 2 or serving(s, w, j, p) == NOBODY:
        return int(NEVER)
    begin, every = s.now[p, SLOT_BEGIN], max(w.cluster[c, LAG_MS] // 2, 1)
    log_end, found = s.slot[begin + leader, LEO], NEVER
    for i in range(s.now[p, ISR]):
        slot = s.slot[begin + i, ISR]
        if slot == leader or s.slot[begin + slot, REMOTE] == log_end:
            continue
        behind = w.cluster[c, LAG_MESSAGES] > 0 and (
            log_end - max(s.slot[begin + slot, REMOTE], 0) > w.cluster[c, LAG_MESSAGES]
        )
        late = s.now[p, AT] if behind else max(s.now[p, AT], s.slot[begin + slot, CAUGHT_UP_AT] + w.cluster[c, LAG_MS])
        found = min(found, (late // every + 1) * every)
    return int(found)


@copying_part
def _shrink(s: State, w: World, j: Journal, o: Own, p: int, at: int) -> None:
    """Nothing; all who lag too far leave the ISR at once."""
    begin, held, c = s.now[p, SLOT_BEGIN], s.now[p, ISR], s.now[p, CLUSTER]
    leader, kept = s.now[p, LEADER], 0
    log_end = s.slot[begin + leader, LEO]
    old = s.slot[begin : begin + held, ISR].copy()
    for slot in old:
        row = begin + slot
        behind = w.cluster[c, LAG_MESSAGES] > 0 and log_end - max(s.slot[row, REMOTE], 0) > w.cluster[c, LAG_MESSAGES]
        late = behind or at - s.slot[row, CAUGHT_UP_AT] > w.cluster[c, LAG_MS]
        if slot == leader or s.slot[row, REMOTE] == log_end or not late:
            s.slot[begin + kept, ISR] = slot
            kept += 1
    s.now[p, ISR], s.now[p, AT] = kept, at
    if kept < held:
        leader_changed_isr(s, w, j, p, old, SHRUNK)
        try_hw(s, w, j, o, p)


# ---- what the controller's writes mean for the data


@part
def broker_gone(s: State, w: World, j: Journal, o: Own, p: int, slot: int) -> None:
    """Nothing; the slot's broker is down: its fetch is gone, its high watermark is what was checkpointed."""
    end_fetch(s, j, o, p, slot, DISCONNECTED, BY_BROKER_DOWN)
    if leaving(s, w, j, p, slot):  # who goes in order writes a last checkpoint
        row = s.now[p, SLOT_BEGIN] + slot
        s.slot[row, CHECKPOINT] = s.slot[row, HW]
    else:
        restart_hw(s, w, j, p, slot)


@part
def broker_back(s: State, w: World, j: Journal, o: Own, p: int, slot: int) -> None:
    """Nothing; the slot's broker is there again: it follows, and truncates."""
    leader = serving(s, w, j, p)
    if leader != NOBODY and leader != slot and within(s, AR, p, slot):
        _truncate(s, w, j, p, slot, leader)


@part
def _truncate(s: State, w: World, j: Journal, p: int, slot: int, leader: int) -> None:
    by_hw = w.cluster[s.now[p, CLUSTER], TRUNCATE_TO_HW]
    cut(s, w, j, p, slot, s.slot[s.now[p, SLOT_BEGIN] + slot, HW] if by_hw else common(s, p, slot, leader))


@part
def settle(s: State, w: World, j: Journal, o: Own, p: int, before: int, epoch: int) -> None:
    """Nothing; requests, logs and high watermarks after what the controller wrote. before: who served, in `epoch`.

    A partition without data has none of these.
    """
    if s.now[p, HAS_DATA]:
        _settle(s, w, j, o, p, before, epoch)
        forget_logs(s, p)


@part
def _settle(s: State, w: World, j: Journal, o: Own, p: int, before: int, epoch: int) -> None:
    leader, begin = serving(s, w, j, p), s.now[p, SLOT_BEGIN]
    if s.now[p, STATE] == ABSENT:
        end_all(s, j, o, p, UNKNOWN_TOPIC, UNKNOWN_TOPIC, BY_DELETION)
        s.now[p, STACKED] = 0
        return
    if leader == before and leader != NOBODY:
        if epoch != s.now[p, EPOCH]:
            begin_own = s.now[p, OWN_BEGIN]
            for i in range(s.now[p, WAITERS]):
                end(j, o, o.work[WAIT, begin_own + i], FENCED_EPOCH, BY_LEADER)
            s.now[p, WAITERS] = 0
            for slot in range(s.now[p, SLOTS]):
                end_fetch(s, j, o, p, slot, FENCED_EPOCH, BY_LEADER)
            s.now[p, EPOCH_START] = s.slot[begin + leader, LEO]
        try_hw(s, w, j, o, p)
        return
    if before != NOBODY:
        lives = live(s, w, j, p, before)
        error = NOT_LEADER if lives else DISCONNECTED
        end_all(s, j, o, p, error, error, BY_LEADER if lives else BY_BROKER_DOWN)
    if leader != NOBODY:
        _follow(s, w, j, o, p, leader)


@part
def _follow(s: State, w: World, j: Journal, o: Own, p: int, leader: int) -> None:
    """Nothing; another leader: what the last one had and it has not is lost, the others follow its log."""
    begin, last, at = s.now[p, SLOT_BEGIN], s.now[p, LAST_LEADER], j.used[U_AT]
    log_end = s.slot[begin + leader, LEO]
    if last not in (NOBODY, leader):
        lose(s, j, o, p, common(s, p, leader, last))
    s.now[p, COMMITTED] = max(min(s.now[p, COMMITTED], log_end), s.slot[begin + leader, HW])
    s.now[p, LAST_LEADER], s.now[p, EPOCH_START] = leader, log_end
    for slot in range(s.now[p, SLOTS]):
        if slot == leader:
            continue
        row = begin + slot
        s.slot[row, REMOTE] = -1
        s.slot[row, CAUGHT_UP_AT] = at if within(s, ISR, p, slot) else LONG_AGO
        s.slot[row, FETCHED_AT], s.slot[row, FETCHED_LEO] = LONG_AGO, NEVER
        if within(s, AR, p, slot) and live(s, w, j, p, slot):
            _truncate(s, w, j, p, slot, leader)
    try_hw(s, w, j, o, p)
