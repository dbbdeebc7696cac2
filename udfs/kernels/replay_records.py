"""What a controller's own log says it did: applied as it stands, with the states that follow.

Source: PartitionRegistration.merge of Kafka 4.1 - a change record holds only what it changes, and a leader that it
names adds one to the leader epoch, even if it is the same.
"""

from __future__ import annotations

from udfs.kernels.compiled import compiled
from udfs.kernels.replay_elections import (
    CREATED,
    EXPANDED,
    LEADERLESS,
    OFFLINE_LEADER,
    PREFERRED,
    REASSIGNED,
    REMOVED,
    SHRUNK,
    TOLD,
)
from udfs.kernels.replay_state import (
    ABSENT,
    AR,
    DELETION_DONE,
    DELETION_STARTED,
    ELR,
    ISR,
    NEW,
    NOBODY,
    OFFLINE,
    ONLINE,
    Cluster,
    Ids,
    Journal,
    find,
    set_partition,
    set_replica,
    within,
    write_leader,
)

SAME_LEADER, ABSENT_LIST = -2, -1
# What stands where in a record's part of `lists`: leader, epoch, then six lists, each after its length.
REPLICAS, IN_SYNC, ELIGIBLE, KNOWN_LAST, ADDING, REMOVING, LISTS = range(7)


@compiled
def record(cluster: Cluster, journal: Journal, at: int, event: int, p: int, lists: Ids, place: int, whole: int) -> None:
    """Nothing; p is as the record says. whole: 1 for a PARTITION_RECORD, 0 for a change."""
    begin, before, isr = cluster.offsets[p], cluster.leader[p], cluster.sizes[p, ISR]
    leader, epoch, read = lists[place], lists[place + 1], place + 2
    moved = False
    if whole:
        cluster.last_known[p] = NOBODY
    for which in range(LISTS):
        size = lists[read]
        read += 1
        if size == ABSENT_LIST:
            continue
        for i in range(size):
            if which == REPLICAS:
                cluster.ar[begin + i] = lists[read + i]
            elif which == IN_SYNC:
                cluster.isr[begin + i] = lists[read + i]
            elif which == ELIGIBLE:
                cluster.elr[begin + i] = lists[read + i]
        if which == REPLICAS:
            cluster.sizes[p, AR] = size
        elif which == IN_SYNC:
            cluster.sizes[p, ISR] = size
        elif which == ELIGIBLE:
            cluster.sizes[p, ELR] = size
        elif which == KNOWN_LAST:
            cluster.last_known[p] = lists[read] if size else NOBODY
        moved = moved or which in (REPLICAS, ADDING, REMOVING)
        read += size
    if leader != SAME_LEADER:
        cluster.leader[p] = leader
        cluster.leader_epoch[p] = epoch if epoch >= 0 else cluster.leader_epoch[p] + 1
    if whole:
        set_partition(cluster, journal, at, event, p, NEW, CREATED)
        for i in range(cluster.sizes[p, AR]):
            set_replica(cluster, journal, at, event, p, cluster.ar[begin + i], NEW, CREATED)
        write_leader(cluster, journal, at, event, p, CREATED, NOBODY)
        set_partition(cluster, journal, at, event, p, ONLINE if cluster.leader[p] != NOBODY else OFFLINE, CREATED)
        for i in range(cluster.sizes[p, AR]):
            b = cluster.ar[begin + i]
            set_replica(cluster, journal, at, event, p, b, ONLINE if cluster.alive[b] else OFFLINE, CREATED)
        return
    cause = _cause(cluster, p, before, leader, isr, moved)
    write_leader(cluster, journal, at, event, p, cause, before)
    state = OFFLINE if cluster.leader[p] == NOBODY else ONLINE
    if state != cluster.state[p] or (leader != SAME_LEADER and leader != before):
        set_partition(cluster, journal, at, event, p, state, cause)
    if moved:
        _follow(cluster, journal, at, event, p)


@compiled
def _cause(cluster: Cluster, p: int, before: int, leader: int, isr: int, moved: bool) -> int:
    """Why, as far as the record shows it."""
    if moved:
        return REASSIGNED
    same = leader == SAME_LEADER
    if same or leader == before:
        return EXPANDED if cluster.sizes[p, ISR] > isr else SHRUNK if cluster.sizes[p, ISR] < isr else TOLD
    if leader == NOBODY:
        return LEADERLESS
    if before != NOBODY and cluster.alive[before] and cluster.ar[cluster.offsets[p]] == leader:
        return PREFERRED
    return OFFLINE_LEADER


@compiled
def _follow(cluster: Cluster, journal: Journal, at: int, event: int, p: int) -> None:
    """Nothing; replicas that are new, or no longer of the AR, are so in their states too."""
    begin = cluster.offsets[p]
    for i in range(cluster.sizes[p, AR]):
        b = cluster.ar[begin + i]
        if find(cluster.replica, begin, cluster.replicas[p], b) < 0:
            set_replica(cluster, journal, at, event, p, b, NEW, REASSIGNED)
            set_replica(cluster, journal, at, event, p, b, ONLINE if cluster.alive[b] else OFFLINE, REASSIGNED)
    for i in range(cluster.replicas[p] - 1, -1, -1):
        b = cluster.replica[begin + i]
        if not within(cluster, AR, p, b):
            _vanish(cluster, journal, at, event, p, b, REASSIGNED)


@compiled
def _vanish(cluster: Cluster, journal: Journal, at: int, event: int, p: int, b: int, cause: int) -> None:
    for state in (OFFLINE, DELETION_STARTED, DELETION_DONE, ABSENT):
        set_replica(cluster, journal, at, event, p, b, state, cause)


@compiled
def forget(cluster: Cluster, journal: Journal, at: int, event: int, p: int) -> None:
    """Nothing; p's topic is removed."""
    begin = cluster.offsets[p]
    for i in range(cluster.replicas[p] - 1, -1, -1):
        _vanish(cluster, journal, at, event, p, cluster.replica[begin + i], REMOVED)
    if cluster.state[p] != OFFLINE:
        set_partition(cluster, journal, at, event, p, OFFLINE, REMOVED)
    set_partition(cluster, journal, at, event, p, ABSENT, REMOVED)
    cluster.leader[p] = NOBODY
    for which in range(4):
        cluster.sizes[p, which] = 0


@compiled
def seen(cluster: Cluster, journal: Journal, at: int, event: int, b: int, alive: bool) -> None:
    """Nothing; broker b is fenced, or no longer: its replicas are offline, or online. Records tell the rest."""
    if cluster.alive[b] == alive:
        return
    cluster.alive[b] = alive
    for p in range(len(cluster.leader)):
        if cluster.state[p] != ABSENT and within(cluster, AR, p, b):
            to = ONLINE if alive else OFFLINE
            set_replica(cluster, journal, at, event, p, b, to, TOLD if alive else OFFLINE_LEADER)
