"""Reassignments: a partition is to have other replicas, and has those of before too until the new ones are in sync.

Sources: KafkaController.onPartitionReassignment of 2.8; PartitionReassignmentReplicas, PartitionChangeBuilder of 4.1.
"""

from __future__ import annotations

from udfs.kernel_compiler import copying_part, part
from udfs.simulation.kernels.codes import (
    ABSENT,
    DELETION_DONE,
    DELETION_STARTED,
    LEADERLESS,
    NEW,
    NOBODY,
    OFFLINE,
    ONLINE,
    REASSIGNED,
)
from udfs.simulation.kernels.controller_elections import (
    active,
    elect_kraft,
    first_live_in_sync,
    keep_eligible,
    lead,
    leave_isr,
)
from udfs.simulation.kernels.simulation_state import (
    AR,
    CLUSTER,
    DELETED,
    ELR,
    ISR,
    KRAFT,
    LEADER,
    REPLICA_STATE,
    SLOT_BEGIN,
    SLOTS,
    STATE,
    TARGET,
    WITH_ELR,
    Ints,
    Journal,
    State,
    World,
    add,
    drop,
    live,
    put,
    set_partition,
    set_replica,
    within,
)


@copying_part
def reassign(s: State, w: World, j: Journal, p: int, lists: Ints, place: int) -> None:
    """Nothing; p is to have these replicas: the AR is the new list and then what will be removed.

    With ZooKeeper all of them have to live, and where they are not all in sync yet, that is an epoch more.
    """
    if s.now[p, DELETED] or s.now[p, STATE] == ABSENT or s.now[p, STATE] == NEW:
        return  # what has had no leader yet has no state to be written
    kraft = w.cluster[s.now[p, CLUSTER], KRAFT] != 0
    for i in range(lists[place]):
        if not kraft and not live(s, w, j, p, lists[place + 1 + i]):
            return
    begin, held = s.now[p, SLOT_BEGIN], s.now[p, AR]
    old = s.slot[begin : begin + held, AR].copy()
    if kraft:
        keep_eligible(s, p)
        _assign(s, p, lists, place, old, s.slot[begin : begin + s.now[p, TARGET], TARGET].copy())
    else:
        put(s, TARGET, p, lists, place)
        put(s, AR, p, lists, place)
        for slot in old:
            if not within(s, TARGET, p, slot):
                add(s, AR, p, slot)
        if not _all_in_sync(s, p):
            lead(s, j, p, s.now[p, LEADER], REASSIGNED)
    for i in range(lists[place]):
        slot = lists[place + 1 + i]
        if slot in old:
            continue
        if s.slot[begin + slot, REPLICA_STATE] == ABSENT:
            set_replica(s, j, p, slot, NEW, REASSIGNED)
        if live(s, w, j, p, slot):
            set_replica(s, j, p, slot, ONLINE, REASSIGNED)
    finish(s, w, j, p)


@part
def resume(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; with ZooKeeper: the reassignment ends, or, as it cannot yet, its replicas hear of it: an epoch more.

    Source: KafkaController.onPartitionReassignment, updateLeaderEpochAndSendRequest of 2.8.
    """
    if _all_in_sync(s, p):
        finish(s, w, j, p)
    else:
        lead(s, j, p, s.now[p, LEADER], REASSIGNED)


@copying_part
def _assign(s: State, p: int, lists: Ints, place: int, old: Ints, staying: Ints) -> None:
    """Nothing; the AR, and who of it stays (TARGET), as the quorum's controller has it. old, staying: both before.

    A request during a reassignment that removes nobody leaves as it is who is being removed: an empty list is not
    written by ReplicationControlManager.changePartitionReassignment.
    """
    size, adds, goes_on = lists[place], False, len(staying) > 0
    put(s, AR, p, lists, place)
    for slot in range(s.now[p, SLOTS]):  # by id
        if slot in old and not within(s, AR, p, slot):
            add(s, AR, p, slot)
    removes = s.now[p, AR] > size
    s.now[p, TARGET] = 0
    for i in range(size):
        slot = lists[place + 1 + i]
        adds = adds or slot not in old
        if removes or not goes_on or slot in staying or slot not in old:
            add(s, TARGET, p, slot)
    if not (removes or adds or goes_on):
        s.now[p, TARGET] = 0  # only their order is another


@part
def _all_in_sync(s: State, p: int) -> bool:
    """Whether the ISR has all of the target."""
    there = 0
    for i in range(s.now[p, TARGET]):
        there += within(s, ISR, p, s.slot[s.now[p, SLOT_BEGIN] + i, TARGET])
    every: bool = there == s.now[p, TARGET]
    return every


@part
def finish(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; where all of the target are in sync, the reassignment ends: a leader of them, and the others go."""
    begin, size = s.now[p, SLOT_BEGIN], s.now[p, TARGET]
    if size == 0 or not _all_in_sync(s, p):
        return
    kraft = w.cluster[s.now[p, CLUSTER], KRAFT] != 0
    if kraft:
        _leave_at_once(s, w, j, p)
    else:
        leader = s.now[p, LEADER]
        if leader == NOBODY or not live(s, w, j, p, leader) or not within(s, TARGET, p, leader):
            leader = first_live_in_sync(s, w, j, p, TARGET)
            if leader == NOBODY:
                return
        lead(s, j, p, leader, REASSIGNED)
    for i in range(s.now[p, AR]):
        slot = s.slot[begin + i, AR]
        if within(s, TARGET, p, slot):
            continue
        if not kraft:
            leave_isr(s, j, p, slot)
        set_replica(s, j, p, slot, OFFLINE, REASSIGNED)
        set_replica(s, j, p, slot, DELETION_STARTED, REASSIGNED)
        set_replica(s, j, p, slot, DELETION_DONE, REASSIGNED)
        set_replica(s, j, p, slot, ABSENT, REASSIGNED)
    for i in range(size):
        s.slot[begin + i, AR] = s.slot[begin + i, TARGET]
    s.now[p, AR], s.now[p, TARGET] = size, 0


@part
def _leave_at_once(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; who is not of the target leaves the ISR, all in one record; an epoch more if somebody goes or leads.

    Source: PartitionChangeBuilder.completeReassignmentIfNeeded and what follows it, of 4.1.
    """
    begin, size = s.now[p, SLOT_BEGIN], s.now[p, TARGET]
    with_elr, goes = w.cluster[s.now[p, CLUSTER], WITH_ELR] != 0, size < s.now[p, AR]
    held = s.now[p, ISR]
    for i in range(s.now[p, AR]):
        slot = s.slot[begin + i, AR]
        if within(s, ISR, p, slot) and not within(s, TARGET, p, slot):
            drop(s, ISR, p, slot)
            if with_elr:
                add(s, ELR, p, slot)
    if with_elr:
        keep_eligible(s, p)
    before = s.now[p, LEADER]
    if before != NOBODY and within(s, ISR, p, before) and active(s, w, j, p, before):
        if goes:
            lead(s, j, p, before, REASSIGNED)
    elif not elect_kraft(s, w, j, p, REASSIGNED):
        if before != NOBODY:
            lead(s, j, p, NOBODY, LEADERLESS)
            set_partition(s, j, p, OFFLINE, LEADERLESS)
        elif goes or s.now[p, ISR] < held:
            lead(s, j, p, NOBODY, REASSIGNED)
