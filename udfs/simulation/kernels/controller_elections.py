"""The controller's elections: who leads next, with which ISR, and the epochs.

Sources: Election and ReplicaStateMachine of Kafka 2.8 (ZooKeeper), PartitionChangeBuilder of 4.1 (KRaft).
"""

from __future__ import annotations

from udfs.kernel_compiler import part
from udfs.simulation.kernels.codes import (
    FROM_ELR,
    FROM_LAST_KNOWN,
    LEADERLESS,
    NOBODY,
    OFFLINE,
    OFFLINE_LEADER,
    ONLINE,
    SHRUNK,
    UNCLEAN,
)
from udfs.simulation.kernels.simulation_state import (
    AR,
    CLUSTER,
    DELETED,
    ELR,
    EPOCH,
    ISR,
    KRAFT,
    LAST_KNOWN,
    LEADER,
    MIN_ISR,
    SLOT_BEGIN,
    UNCLEAN_ALLOWED,
    WITH_ELR,
    Journal,
    State,
    World,
    add,
    drop,
    leaving,
    live,
    set_partition,
    within,
    write_leader,
)


@part
def active(s: State, w: World, j: Journal, p: int, slot: int) -> bool:
    """Whether the broker of p's slot lives and does not shut down: who does leads nothing any more.

    Sources: ControllerContext.isReplicaOnline of 2.8, ClusterControlManager.isActive of 4.1.
    """
    stays: bool = live(s, w, j, p, slot) and not leaving(s, w, j, p, slot)
    return stays


@part
def first_live_in_sync(s: State, w: World, j: Journal, p: int, which: int) -> int:
    """The first of the AR (or the target) that is active and in the ISR, or NOBODY."""
    for i in range(s.now[p, which]):
        slot = s.slot[s.now[p, SLOT_BEGIN] + i, which]
        if active(s, w, j, p, slot) and within(s, ISR, p, slot):
            return int(slot)
    return NOBODY


@part
def first_live(s: State, w: World, j: Journal, p: int) -> int:
    """The first of the AR that is active, or NOBODY."""
    for i in range(s.now[p, AR]):
        slot = s.slot[s.now[p, SLOT_BEGIN] + i, AR]
        if active(s, w, j, p, slot):
            return int(slot)
    return NOBODY


@part
def lead(s: State, j: Journal, p: int, leader: int, cause: int) -> None:
    """Nothing; the leader and an epoch more are written. The ISR is as it should be."""
    before = s.now[p, LEADER]
    s.now[p, LEADER] = leader
    s.now[p, EPOCH] += 1
    write_leader(s, j, p, cause, before)


@part
def only_live(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; who is down or shuts down leaves the ISR."""
    begin, kept = s.now[p, SLOT_BEGIN], 0
    for i in range(s.now[p, ISR]):
        slot = s.slot[begin + i, ISR]
        if active(s, w, j, p, slot):
            s.slot[begin + kept, ISR] = slot
            kept += 1
    s.now[p, ISR] = kept


@part
def alone(s: State, p: int, slot: int) -> None:
    """Nothing; the slot is the whole ISR."""
    s.slot[s.now[p, SLOT_BEGIN], ISR] = slot
    s.now[p, ISR] = 1


@part
def elect(s: State, w: World, j: Journal, p: int) -> bool:
    """Whether partition p, whose leader is down or gone, has a leader now."""
    if w.cluster[s.now[p, CLUSTER], KRAFT]:
        return elect_kraft(s, w, j, p, OFFLINE_LEADER)
    leader, cause = first_live_in_sync(s, w, j, p, AR), OFFLINE_LEADER
    if leader != NOBODY:
        only_live(s, w, j, p)
    elif s.now[p, UNCLEAN_ALLOWED]:
        leader, cause = first_live(s, w, j, p), UNCLEAN
        if leader != NOBODY:
            alone(s, p, leader)
    if leader == NOBODY:
        return False
    lead(s, j, p, leader, cause)
    set_partition(s, j, p, ONLINE, cause)
    return True


@part
def leave_isr(s: State, j: Journal, p: int, slot: int, cause: int = NOBODY) -> None:
    """Nothing; the replica is offline and leaves the ISR, unless it is the last; an epoch more (ZooKeeper).

    cause: NOBODY = that it is offline.
    """
    if not within(s, ISR, p, slot):
        return
    if s.now[p, ISR] > 1:
        drop(s, ISR, p, slot)
    if s.now[p, LEADER] == slot or s.now[p, LEADER] == NOBODY:
        lead(s, j, p, NOBODY, LEADERLESS if cause == NOBODY else cause)
    else:
        lead(s, j, p, s.now[p, LEADER], SHRUNK if cause == NOBODY else cause)


@part
def elect_preferred(s: State, w: World, j: Journal, p: int, cause: int) -> bool:
    """Whether p is led by the first of its AR now: that must be live and in the ISR."""
    if s.now[p, AR] == 0 or s.now[p, DELETED]:
        return False
    first = s.slot[s.now[p, SLOT_BEGIN], AR]
    if s.now[p, LEADER] == first or not active(s, w, j, p, first) or not within(s, ISR, p, first):
        return False
    lead(s, j, p, first, cause)
    set_partition(s, j, p, ONLINE, cause)
    return True


@part
def fence(s: State, w: World, j: Journal, p: int, slot: int, cause: int) -> None:
    """Nothing; the replica leaves the ISR, and somebody else leads if it led (KRaft): for this cause.

    Source: ReplicationControlManager.generateLeaderAndIsrUpdates of 4.1.
    """
    held, before = within(s, ISR, p, slot), s.now[p, LEADER]
    if not held and before != slot:
        return
    elr = w.cluster[s.now[p, CLUSTER], WITH_ELR] != 0
    last = held and s.now[p, ISR] == 1
    goes = held and (elr or not last)
    if goes:
        drop(s, ISR, p, slot)
        if elr:
            add(s, ELR, p, slot)
            keep_eligible(s, p)
    if before != slot:
        if goes:
            write_leader(s, j, p, SHRUNK, before)
        return
    if elr and last:
        s.now[p, LAST_KNOWN] = slot
    if not elect_kraft(s, w, j, p, cause):
        lead(s, j, p, NOBODY, LEADERLESS)
        set_partition(s, j, p, OFFLINE, LEADERLESS)


@part
def no_longer_eligible(s: State, j: Journal, p: int, slot: int) -> None:
    """Nothing; the slot's broker comes back from a stop that was not in order: what it had promised may be lost.

    Source: ReplicationControlManager.handleBrokerShutdown of 4.1.
    """
    drop(s, ELR, p, slot)
    if within(s, ISR, p, slot) and s.now[p, LEADER] != slot:
        drop(s, ISR, p, slot)
        write_leader(s, j, p, SHRUNK, s.now[p, LEADER])


@part
def keep_eligible(s: State, p: int) -> None:
    """Nothing; after the ISR has changed: at its minimum, or with all replicas, nobody has to be eligible.

    Who left it is among the ELR already. Source: PartitionChangeBuilder.maybePopulateTargetElr of 4.1.
    """
    if s.now[p, ISR] >= min(s.now[p, MIN_ISR], s.now[p, AR]):
        s.now[p, ELR] = 0


@part
def elect_kraft(s: State, w: World, j: Journal, p: int, why: int) -> bool:
    """Whether somebody leads p now: of the ISR, of those eligible, who led last, or anybody where that is allowed.

    Nobody who shuts down. Source: PartitionChangeBuilder.electLeader; ClusterControlManager.isActive of 4.1.
    """
    leader, cause = first_live_in_sync(s, w, j, p, AR), why
    if leader == NOBODY and w.cluster[s.now[p, CLUSTER], WITH_ELR]:
        for i in range(s.now[p, AR]):
            slot = s.slot[s.now[p, SLOT_BEGIN] + i, AR]
            if active(s, w, j, p, slot) and within(s, ELR, p, slot):
                leader, cause = int(slot), FROM_ELR
                break
        last = s.now[p, LAST_KNOWN]
        if leader == NOBODY and s.now[p, ELR] == 0 and last != NOBODY and active(s, w, j, p, last):
            leader, cause = int(last), FROM_LAST_KNOWN
    if leader == NOBODY and s.now[p, UNCLEAN_ALLOWED]:
        leader, cause = first_live(s, w, j, p), UNCLEAN
    if leader == NOBODY:
        return False
    if cause != why:
        alone(s, p, leader)
        drop(s, ELR, p, leader)
        keep_eligible(s, p)
    if cause in (UNCLEAN, FROM_LAST_KNOWN):  # what the others promised may be lost
        s.now[p, ELR] = 0
    s.now[p, LAST_KNOWN] = NOBODY
    lead(s, j, p, leader, cause)
    set_partition(s, j, p, ONLINE, cause)
    return True
