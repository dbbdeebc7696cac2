"""The controller's elections: who leads next, with which ISR, and the epochs.

Sources: Election and ReplicaStateMachine of Kafka 2.8 (ZooKeeper), PartitionChangeBuilder of 4.1 (KRaft).
"""

from __future__ import annotations

from udfs.kernels.compiled import compiled
from udfs.kernels.replay_state import (
    AR,
    ELR,
    ISR,
    NOBODY,
    OFFLINE,
    ONLINE,
    TARGET,
    Cluster,
    Journal,
    drop,
    set_partition,
    within,
    write_leader,
)

# What an election is for. SHRUNK, EXPANDED and TOLD change no leader: the ISR, or the epoch alone.
(
    CREATED,
    OFFLINE_LEADER,
    UNCLEAN,
    FROM_ELR,
    FROM_LAST_KNOWN,
    LEADERLESS,
    PREFERRED,
    REBALANCED,
    REASSIGNED,
    SHUTTING_DOWN,
    SHRUNK,
    EXPANDED,
    TOLD,
    REMOVED,
    CAUSES,
) = range(15)


@compiled
def first_alive_in_sync(cluster: Cluster, p: int, staying: bool) -> int:
    """The first of the AR that is alive and in the ISR, and does not shut down if it has to be `staying`; or NOBODY."""
    for i in range(cluster.sizes[p, AR]):
        b = cluster.ar[cluster.offsets[p] + i]
        if cluster.alive[b] and within(cluster, ISR, p, b) and not (staying and cluster.leaving[b]):
            return int(b)
    return NOBODY


@compiled
def first_alive(cluster: Cluster, p: int) -> int:
    """The first of the AR that is alive, or NOBODY."""
    for i in range(cluster.sizes[p, AR]):
        b = cluster.ar[cluster.offsets[p] + i]
        if cluster.alive[b]:
            return int(b)
    return NOBODY


@compiled
def lead(cluster: Cluster, journal: Journal, at: int, event: int, p: int, leader: int, cause: int) -> None:
    """Nothing; the leader and an epoch more are written. The ISR is as it should be."""
    before = cluster.leader[p]
    cluster.leader[p] = leader
    cluster.leader_epoch[p] += 1
    write_leader(cluster, journal, at, event, p, cause, before)


@compiled
def only_alive(cluster: Cluster, p: int, staying: bool) -> None:
    """Nothing; who is dead (or shuts down, if they have to be `staying`) leaves the ISR."""
    begin, kept = cluster.offsets[p], 0
    for i in range(cluster.sizes[p, ISR]):
        b = cluster.isr[begin + i]
        if cluster.alive[b] and not (staying and cluster.leaving[b]):
            cluster.isr[begin + kept] = b
            kept += 1
    cluster.sizes[p, ISR] = kept


@compiled
def alone(cluster: Cluster, p: int, b: int) -> None:
    """Nothing; b is the whole ISR."""
    cluster.isr[cluster.offsets[p]] = b
    cluster.sizes[p, ISR] = 1


@compiled
def elect_offline(cluster: Cluster, journal: Journal, at: int, event: int, p: int) -> bool:
    """Whether partition p, whose leader is dead or which is new, has a leader now (ZooKeeper)."""
    leader, cause = first_alive_in_sync(cluster, p, False), OFFLINE_LEADER
    if leader != NOBODY:
        only_alive(cluster, p, False)
    elif cluster.unclean[p]:
        leader, cause = first_alive(cluster, p), UNCLEAN
        if leader != NOBODY:
            alone(cluster, p, leader)
    if leader == NOBODY:
        return False
    lead(cluster, journal, at, event, p, leader, cause)
    set_partition(cluster, journal, at, event, p, ONLINE, cause)
    return True


@compiled
def leave_isr(cluster: Cluster, journal: Journal, at: int, event: int, p: int, b: int) -> None:
    """Nothing; the replica on b is offline and leaves the ISR, unless it is the last; an epoch more (ZooKeeper)."""
    if not within(cluster, ISR, p, b):
        return
    if cluster.sizes[p, ISR] > 1:
        cluster.sizes[p, ISR] = drop(cluster.isr, cluster.offsets[p], cluster.sizes[p, ISR], b)
    if cluster.leader[p] == b or cluster.leader[p] == NOBODY:
        lead(cluster, journal, at, event, p, NOBODY, LEADERLESS)
    else:
        lead(cluster, journal, at, event, p, cluster.leader[p], SHRUNK)


@compiled
def elect_preferred(cluster: Cluster, journal: Journal, at: int, event: int, p: int, cause: int) -> bool:
    """Whether p is led by the first of its AR now: that must be alive and in the ISR."""
    if cluster.sizes[p, AR] == 0 or cluster.deleted[p]:
        return False
    first = cluster.ar[cluster.offsets[p]]
    if cluster.leader[p] == first or not cluster.alive[first] or not within(cluster, ISR, p, first):
        return False
    lead(cluster, journal, at, event, p, first, cause)
    set_partition(cluster, journal, at, event, p, ONLINE, cause)
    return True


@compiled
def first_of_target(cluster: Cluster, p: int) -> int:
    """The first of where a reassignment leads that is alive and in the ISR, or NOBODY."""
    for i in range(cluster.sizes[p, TARGET]):
        b = cluster.target[cluster.offsets[p] + i]
        if cluster.alive[b] and within(cluster, ISR, p, b):
            return int(b)
    return NOBODY


@compiled
def fence(cluster: Cluster, journal: Journal, at: int, event: int, p: int, b: int, elr: bool) -> None:
    """Nothing; b leaves the ISR, and somebody else leads if it led (KRaft). elr: whether eligible replicas are kept."""
    held = within(cluster, ISR, p, b)
    if not held and cluster.leader[p] != b:
        return
    begin, before = cluster.offsets[p], cluster.leader[p]
    last = held and cluster.sizes[p, ISR] == 1
    if held and (elr or not last):
        cluster.sizes[p, ISR] = drop(cluster.isr, begin, cluster.sizes[p, ISR], b)
        if elr:
            _keep_eligible(cluster, p, b)
    if before != b:
        write_leader(cluster, journal, at, event, p, SHRUNK, before)
        return
    if elr and last:
        cluster.last_known[p] = b
    if not elect_kraft(cluster, journal, at, event, p, elr):
        lead(cluster, journal, at, event, p, NOBODY, LEADERLESS)
        set_partition(cluster, journal, at, event, p, OFFLINE, LEADERLESS)


@compiled
def _keep_eligible(cluster: Cluster, p: int, b: int) -> None:
    """Nothing; b has left an ISR: below the minimum it stays eligible, else nobody has to be."""
    if cluster.sizes[p, ISR] >= min(cluster.min_isr[p], cluster.sizes[p, AR]):
        cluster.sizes[p, ELR] = 0
    elif not within(cluster, ELR, p, b):
        cluster.elr[cluster.offsets[p] + cluster.sizes[p, ELR]] = b
        cluster.sizes[p, ELR] += 1


@compiled
def elect_kraft(cluster: Cluster, journal: Journal, at: int, event: int, p: int, elr: bool) -> bool:
    """Whether somebody leads p now: of the ISR, of those eligible, who led last, or anybody where that is allowed."""
    leader, cause = first_alive_in_sync(cluster, p, False), OFFLINE_LEADER
    begin = cluster.offsets[p]
    if leader == NOBODY and elr:
        for i in range(cluster.sizes[p, AR]):
            b = cluster.ar[begin + i]
            if cluster.alive[b] and within(cluster, ELR, p, b):
                leader, cause = int(b), FROM_ELR
                break
        b = cluster.last_known[p]
        if leader == NOBODY and cluster.sizes[p, ELR] == 0 and b != NOBODY and cluster.alive[b]:
            leader, cause = int(b), FROM_LAST_KNOWN
    if leader == NOBODY and cluster.unclean[p]:
        leader, cause = first_alive(cluster, p), UNCLEAN
    if leader == NOBODY:
        return False
    if cause != OFFLINE_LEADER:
        alone(cluster, p, leader)
        cluster.sizes[p, ELR] = drop(cluster.elr, begin, cluster.sizes[p, ELR], leader)
        if cluster.sizes[p, ISR] >= min(cluster.min_isr[p], cluster.sizes[p, AR]):
            cluster.sizes[p, ELR] = 0
    cluster.last_known[p] = NOBODY
    lead(cluster, journal, at, event, p, leader, cause)
    set_partition(cluster, journal, at, event, p, ONLINE, cause)
    return True
