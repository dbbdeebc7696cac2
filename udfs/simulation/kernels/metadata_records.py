"""What a controller's own log says it did: applied as it stands, with the states that follow.

Source: PartitionRegistration.merge of Kafka 4.1 - a change record holds only what it changes, and a leader that it
names adds one to the leader epoch, even if it is the same.
"""

from __future__ import annotations

from udfs.kernel_compiler import part
from udfs.simulation.kernels.codes import (
    ABSENT,
    CREATED,
    DELETION_DONE,
    DELETION_STARTED,
    EXPANDED,
    LEADERLESS,
    NEW,
    NOBODY,
    OFFLINE,
    OFFLINE_LEADER,
    ONLINE,
    PREFERRED,
    REASSIGNED,
    REMOVED,
    SHRUNK,
    TOLD,
)
from udfs.simulation.kernels.simulation_state import (
    AR,
    ELR,
    EPOCH,
    ISR,
    LAST_KNOWN,
    LEADER,
    REPLICA_STATE,
    SLOT_BEGIN,
    SLOTS,
    STATE,
    Ints,
    Journal,
    State,
    World,
    live,
    put,
    set_partition,
    set_replica,
    vanish_partition,
    within,
    write_leader,
)

SAME_LEADER, ABSENT_LIST = -2, -1
# What stands where in a record's part of `lists`: leader, epoch, then six lists, each after its length.
REPLICAS, IN_SYNC, ELIGIBLE, KNOWN_LAST, ADDING, REMOVING, LISTS = range(7)


@part
def record(s: State, w: World, j: Journal, p: int, lists: Ints, place: int, whole: int) -> None:
    """Nothing; p is as the record says. whole: 1 for a PARTITION_RECORD, 0 for a change."""
    before, isr = s.now[p, LEADER], s.now[p, ISR]
    leader, epoch, read = lists[place], lists[place + 1], place + 2
    moved = False
    if whole:
        s.now[p, LAST_KNOWN] = NOBODY
    for which in range(LISTS):
        size = lists[read]
        if size == ABSENT_LIST:
            read += 1
            continue
        if which == REPLICAS:
            put(s, AR, p, lists, read)
        elif which == IN_SYNC:
            put(s, ISR, p, lists, read)
        elif which == ELIGIBLE:
            put(s, ELR, p, lists, read)
        elif which == KNOWN_LAST:
            s.now[p, LAST_KNOWN] = lists[read + 1] if size else NOBODY
        moved = moved or which in (REPLICAS, ADDING, REMOVING)
        read += 1 + size
    if leader != SAME_LEADER:
        s.now[p, LEADER] = leader
        s.now[p, EPOCH] = epoch if epoch >= 0 else s.now[p, EPOCH] + 1
    if whole:
        _begin(s, w, j, p)
        return
    cause = _cause(s, w, j, p, before, leader, isr, moved)
    write_leader(s, j, p, cause, before)
    state = OFFLINE if s.now[p, LEADER] == NOBODY else ONLINE
    if state != s.now[p, STATE] or (leader != SAME_LEADER and leader != before):
        set_partition(s, j, p, state, cause)
    if moved:
        _follow(s, w, j, p)


@part
def _begin(s: State, w: World, j: Journal, p: int) -> None:
    begin = s.now[p, SLOT_BEGIN]
    set_partition(s, j, p, NEW, CREATED)
    for i in range(s.now[p, AR]):
        set_replica(s, j, p, s.slot[begin + i, AR], NEW, CREATED)
    write_leader(s, j, p, CREATED, NOBODY)
    set_partition(s, j, p, ONLINE if s.now[p, LEADER] != NOBODY else OFFLINE, CREATED)
    for i in range(s.now[p, AR]):
        slot = s.slot[begin + i, AR]
        set_replica(s, j, p, slot, ONLINE if live(s, w, j, p, slot) else OFFLINE, CREATED)


@part
def _cause(s: State, w: World, j: Journal, p: int, before: int, leader: int, isr: int, moved: bool) -> int:
    """Why, as far as the record shows it."""
    if moved:
        return REASSIGNED
    if leader in (SAME_LEADER, before):
        return EXPANDED if s.now[p, ISR] > isr else SHRUNK if s.now[p, ISR] < isr else TOLD
    if leader == NOBODY:
        return LEADERLESS
    if before != NOBODY and live(s, w, j, p, before) and s.slot[s.now[p, SLOT_BEGIN], AR] == leader:
        return PREFERRED
    return OFFLINE_LEADER


@part
def _follow(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; replicas that are new, or no longer of the AR, are so in their states too."""
    begin = s.now[p, SLOT_BEGIN]
    for i in range(s.now[p, AR]):
        slot = s.slot[begin + i, AR]
        if s.slot[begin + slot, REPLICA_STATE] == ABSENT:
            set_replica(s, j, p, slot, NEW, REASSIGNED)
            set_replica(s, j, p, slot, ONLINE if live(s, w, j, p, slot) else OFFLINE, REASSIGNED)
    for slot in range(s.now[p, SLOTS]):
        if s.slot[begin + slot, REPLICA_STATE] != ABSENT and not within(s, AR, p, slot):
            _vanish(s, j, p, slot, REASSIGNED)


@part
def _vanish(s: State, j: Journal, p: int, slot: int, cause: int) -> None:
    for state in (OFFLINE, DELETION_STARTED, DELETION_DONE, ABSENT):
        set_replica(s, j, p, slot, state, cause)


@part
def forget(s: State, j: Journal, p: int) -> None:
    """Nothing; p's topic is removed."""
    for slot in range(s.now[p, SLOTS]):
        if s.slot[s.now[p, SLOT_BEGIN] + slot, REPLICA_STATE] != ABSENT:
            _vanish(s, j, p, slot, REMOVED)
    vanish_partition(s, j, p, REMOVED)


@part
def seen(s: State, j: Journal, p: int, slot: int, is_live: bool) -> None:
    """Nothing; the slot's broker is fenced, or no longer: its replica is offline, or online. Records tell the rest."""
    if s.now[p, STATE] != ABSENT and within(s, AR, p, slot):
        set_replica(s, j, p, slot, ONLINE if is_live else OFFLINE, TOLD if is_live else OFFLINE_LEADER)
