"""The controller's timeline: events of a cluster, in order -> every leadership and every state that follow.

Sources: KafkaController of 2.8 (ZooKeeper), ReplicationControlManager of 4.1 (KRaft); see docs/replay.md.
"""

from __future__ import annotations

from udfs.kernels.compiled import compiled
from udfs.kernels.replay_elections import (
    CREATED,
    EXPANDED,
    OFFLINE_LEADER,
    PREFERRED,
    REASSIGNED,
    REBALANCED,
    REMOVED,
    SHRUNK,
    SHUTTING_DOWN,
    TOLD,
    elect_kraft,
    elect_offline,
    elect_preferred,
    fence,
    first_alive_in_sync,
    first_of_target,
    lead,
    leave_isr,
    only_alive,
)
from udfs.kernels.replay_records import forget, record, seen
from udfs.kernels.replay_state import (
    ABSENT,
    AR,
    CONTROLLER,
    CONTROLLER_EPOCH,
    DELETION_DONE,
    DELETION_INELIGIBLE,
    DELETION_STARTED,
    ELR,
    ISR,
    NEW,
    NEXT_CHECK,
    NOBODY,
    OFFLINE,
    ONLINE,
    TARGET,
    Cluster,
    Ids,
    Ints,
    Journal,
    drop,
    find,
    has_room,
    set_partition,
    set_replica,
    within,
    write_leader,
)

# Events of a cluster, and their columns. E_LIST: where a list begins in `lists`, its length first; -1 = none.
# From RECORD on, what a controller has done already, as its own log tells.
(
    BROKER_DOWN,
    BROKER_UP,
    SHUTDOWN,
    CONTROLLER_LOST,
    CREATE,
    DELETE,
    REASSIGN,
    ELECT_PREFERRED,
    SET_UNCLEAN,
    SET_MIN_ISR,
    SET_ISR,
    RECORD,
    CLEAR_ELR,
    FORGET,
    FENCED,
    UNFENCED,
    LED_BY,
    KINDS,
) = range(18)
E_AT, E_KIND, E_BROKER, E_PARTITION, E_LIST, E_VALUE, EVENT = range(7)

# How the cluster is run: columns of `rules`.
KRAFT, WITH_ELR, REBALANCES, CHECK_EVERY_MS, FIRST_CHECK_MS, IMBALANCE_PERCENT, RULES = range(7)


@compiled
def fold(cluster: Cluster, journal: Journal, rules: Ints, events: Ints, lists: Ids, begin: int) -> int:
    """How many events are done: all, or fewer where the journal is full, to go on from there with an empty one.

    events: int64 (e, EVENT), by time.   begin: the first that is not done yet.
    """
    for event in range(begin, len(events)):
        at = events[event, E_AT]
        while rules[REBALANCES] and cluster.who[NEXT_CHECK] <= at:
            if not has_room(cluster, journal):
                return event
            check = cluster.who[NEXT_CHECK]
            cluster.who[NEXT_CHECK] = check + rules[CHECK_EVERY_MS]
            _rebalance(cluster, journal, rules, check, event)
        if not has_room(cluster, journal):
            return event
        kind, b, p = events[event, E_KIND], events[event, E_BROKER], events[event, E_PARTITION]
        if kind == BROKER_DOWN:
            _down(cluster, journal, rules, at, event, b)
        elif kind == BROKER_UP:
            _up(cluster, journal, rules, at, event, b)
        elif kind == SHUTDOWN:
            _shut_down(cluster, journal, rules, at, event, b)
        elif kind == CONTROLLER_LOST:
            _fail_over(cluster, journal, rules, at, event, b)
        elif kind == CREATE:
            _create(cluster, journal, at, event, p, lists, events[event, E_LIST])
        elif kind == DELETE:
            cluster.deleted[p] = True
            _delete(cluster, journal, at, event, p)
        elif kind == REASSIGN:
            _reassign(cluster, journal, at, event, p, lists, events[event, E_LIST])
        elif kind == ELECT_PREFERRED:
            elect_preferred(cluster, journal, at, event, p, PREFERRED)
        elif kind == SET_UNCLEAN:
            cluster.unclean[p] = events[event, E_VALUE] != 0
            if (
                cluster.unclean[p]
                and cluster.state[p] == OFFLINE
                and not cluster.deleted[p]
                and cluster.leader[p] == NOBODY
            ):
                _try(cluster, journal, rules, at, event, p)
        elif kind == SET_MIN_ISR:
            cluster.min_isr[p] = events[event, E_VALUE]
        elif kind == SET_ISR:
            _set_isr(cluster, journal, at, event, p, lists, events[event, E_LIST])
        elif kind == RECORD:
            record(cluster, journal, at, event, p, lists, events[event, E_LIST], events[event, E_VALUE])
        elif kind == CLEAR_ELR:
            cluster.sizes[p, ELR] = 0
            cluster.last_known[p] = NOBODY
        elif kind == FORGET:
            forget(cluster, journal, at, event, p)
        elif kind in (FENCED, UNFENCED):
            seen(cluster, journal, at, event, b, kind == UNFENCED)
        elif kind == LED_BY:
            cluster.who[CONTROLLER] = b
            cluster.who[CONTROLLER_EPOCH] = events[event, E_VALUE]
    return len(events)


@compiled
def _try(cluster: Cluster, journal: Journal, rules: Ints, at: int, event: int, p: int) -> bool:
    if rules[KRAFT]:
        return elect_kraft(cluster, journal, at, event, p, rules[WITH_ELR] != 0)
    return elect_offline(cluster, journal, at, event, p)


@compiled
def _try_all(cluster: Cluster, journal: Journal, rules: Ints, at: int, event: int) -> None:
    """Nothing; every partition that is offline, or new and without a leader, is tried again."""
    for p in range(len(cluster.leader)):
        if cluster.deleted[p]:
            continue
        if cluster.state[p] == NEW:
            _first_leader(cluster, journal, at, event, p)
        elif cluster.state[p] == OFFLINE:
            _try(cluster, journal, rules, at, event, p)


@compiled
def _hosts(cluster: Cluster, p: int, b: int) -> bool:
    return cluster.state[p] != ABSENT and within(cluster, AR, p, b)


@compiled
def _next_controller(cluster: Cluster, wanted: int) -> int:
    """Who creates /controller first: who is named, or of those alive the one with the lowest id."""
    if wanted >= 0 and cluster.alive[wanted]:
        return wanted
    for b in range(len(cluster.alive)):
        if cluster.alive[b]:
            return b
    return NOBODY


@compiled
def _down(cluster: Cluster, journal: Journal, rules: Ints, at: int, event: int, b: int) -> None:
    """Nothing; a broker's session has ended, or it is fenced."""
    if not cluster.alive[b]:
        return
    cluster.alive[b] = False
    cluster.leaving[b] = False
    if rules[KRAFT]:
        for p in range(len(cluster.leader)):
            if cluster.state[p] != ABSENT:
                fence(cluster, journal, at, event, p, b, rules[WITH_ELR] != 0)
                if _hosts(cluster, p, b):
                    set_replica(cluster, journal, at, event, p, b, OFFLINE, OFFLINE_LEADER)
        return
    if cluster.who[CONTROLLER] == b:
        _fail_over(cluster, journal, rules, at, event, NOBODY)
        return
    for p in range(len(cluster.leader)):
        if cluster.leader[p] == b and cluster.state[p] != ABSENT and not cluster.deleted[p]:
            set_partition(cluster, journal, at, event, p, OFFLINE, OFFLINE_LEADER)
    _try_all(cluster, journal, rules, at, event)
    _replicas_offline(cluster, journal, at, event, b)


@compiled
def _replicas_offline(cluster: Cluster, journal: Journal, at: int, event: int, b: int) -> None:
    for p in range(len(cluster.leader)):
        if _hosts(cluster, p, b):
            leave_isr(cluster, journal, at, event, p, b)
            if not set_replica(cluster, journal, at, event, p, b, OFFLINE, SHRUNK):
                continue
            if cluster.deleted[p]:
                set_replica(cluster, journal, at, event, p, b, DELETION_INELIGIBLE, REMOVED)


@compiled
def _fail_over(cluster: Cluster, journal: Journal, rules: Ints, at: int, event: int, wanted: int) -> None:
    """Nothing; another controller: an epoch more, who is dead leaves every ISR, then elections, then all that waits."""
    cluster.who[CONTROLLER] = _next_controller(cluster, wanted)
    if cluster.who[CONTROLLER] == NOBODY:
        return
    cluster.who[CONTROLLER_EPOCH] += 1
    cluster.who[NEXT_CHECK] = at + rules[FIRST_CHECK_MS]
    if rules[KRAFT]:
        return  # the log is all there is to know: nothing is read or written anew
    # Replica state machine first: by broker and partition, each where its registration says.
    for p in range(len(cluster.leader)):
        if cluster.state[p] == ABSENT:
            continue
        for i in range(cluster.sizes[p, AR]):
            b = cluster.ar[cluster.offsets[p] + i]
            if not cluster.alive[b]:
                leave_isr(cluster, journal, at, event, p, b)
                set_replica(cluster, journal, at, event, p, b, OFFLINE, SHRUNK)
        leader = cluster.leader[p]
        if (leader == NOBODY or not cluster.alive[leader]) and cluster.state[p] == ONLINE:
            set_partition(cluster, journal, at, event, p, OFFLINE, OFFLINE_LEADER)
    _try_all(cluster, journal, rules, at, event)
    _go_on(cluster, journal, at, event)


@compiled
def _go_on(cluster: Cluster, journal: Journal, at: int, event: int) -> None:
    """Nothing; reassignments and deletions that wait are tried again."""
    for p in range(len(cluster.leader)):
        if cluster.sizes[p, TARGET] and not cluster.deleted[p]:
            _finish(cluster, journal, at, event, p)
        if cluster.deleted[p] and cluster.state[p] != ABSENT:
            _delete(cluster, journal, at, event, p)


@compiled
def _up(cluster: Cluster, journal: Journal, rules: Ints, at: int, event: int, b: int) -> None:
    """Nothing; a broker has registered, or is no longer fenced: it leads where nobody else can, at first."""
    if cluster.alive[b]:
        return
    cluster.alive[b] = True
    if not rules[KRAFT] and cluster.who[CONTROLLER] == NOBODY:
        _fail_over(cluster, journal, rules, at, event, b)
    for p in range(len(cluster.leader)):
        if _hosts(cluster, p, b):
            set_replica(cluster, journal, at, event, p, b, ONLINE, TOLD)
    _try_all(cluster, journal, rules, at, event)
    _go_on(cluster, journal, at, event)


@compiled
def _shut_down(cluster: Cluster, journal: Journal, rules: Ints, at: int, event: int, b: int) -> None:
    """Nothing; a broker says that it goes: others lead first, and it leaves the ISRs."""
    if not cluster.alive[b]:
        return
    cluster.leaving[b] = True
    for p in range(len(cluster.leader)):
        if cluster.state[p] == ABSENT or cluster.deleted[p] or not within(cluster, AR, p, b):
            continue
        if not rules[KRAFT] and cluster.sizes[p, AR] < 2:
            continue
        if cluster.leader[p] == b:
            leader = first_alive_in_sync(cluster, p, True)
            if leader != NOBODY:
                only_alive(cluster, p, True)
                lead(cluster, journal, at, event, p, leader, SHUTTING_DOWN)
                set_partition(cluster, journal, at, event, p, ONLINE, SHUTTING_DOWN)
        elif rules[KRAFT]:
            fence(cluster, journal, at, event, p, b, rules[WITH_ELR] != 0)
        else:
            leave_isr(cluster, journal, at, event, p, b)
            set_replica(cluster, journal, at, event, p, b, OFFLINE, SHUTTING_DOWN)


@compiled
def _create(cluster: Cluster, journal: Journal, at: int, event: int, p: int, lists: Ids, place: int) -> None:
    """Nothing; partition p with this AR: new, its replicas new, online with the first alive, replicas online."""
    begin, size = cluster.offsets[p], lists[place]
    cluster.sizes[p, AR] = size
    for i in range(size):
        cluster.ar[begin + i] = lists[place + 1 + i]
    set_partition(cluster, journal, at, event, p, NEW, CREATED)
    for i in range(size):
        set_replica(cluster, journal, at, event, p, cluster.ar[begin + i], NEW, CREATED)
    _first_leader(cluster, journal, at, event, p)


@compiled
def _first_leader(cluster: Cluster, journal: Journal, at: int, event: int, p: int) -> None:
    """Nothing; a new partition is online with its living replicas, led by the first; without any it stays new."""
    begin, isr = cluster.offsets[p], 0
    for i in range(cluster.sizes[p, AR]):
        b = cluster.ar[begin + i]
        if cluster.alive[b]:
            cluster.isr[begin + isr] = b
            isr += 1
    cluster.sizes[p, ISR] = isr
    if isr == 0:
        return
    cluster.leader[p] = cluster.isr[begin]
    cluster.leader_epoch[p] = 0
    write_leader(cluster, journal, at, event, p, CREATED, NOBODY)
    set_partition(cluster, journal, at, event, p, ONLINE, CREATED)
    for i in range(cluster.sizes[p, AR]):
        b = cluster.ar[begin + i]
        set_replica(cluster, journal, at, event, p, b, ONLINE if cluster.alive[b] else OFFLINE, CREATED)


@compiled
def _delete(cluster: Cluster, journal: Journal, at: int, event: int, p: int) -> None:
    """Nothing; replicas are stopped and deleted; one on a dead broker keeps the topic until that broker returns."""
    if cluster.sizes[p, TARGET]:
        return  # it waits for the reassignment
    begin, size, done = cluster.offsets[p], cluster.sizes[p, AR], True
    for i in range(size):
        done = done and cluster.alive[cluster.ar[begin + i]]
    for i in range(size):
        b = cluster.ar[begin + i]
        state = cluster.replica_state[begin + find(cluster.replica, begin, cluster.replicas[p], b)]
        if not cluster.alive[b]:
            if state != DELETION_INELIGIBLE:
                set_replica(cluster, journal, at, event, p, b, DELETION_INELIGIBLE, REMOVED)
            continue
        if state == DELETION_DONE:
            continue
        if state != OFFLINE:
            set_replica(cluster, journal, at, event, p, b, OFFLINE, REMOVED)
        set_replica(cluster, journal, at, event, p, b, DELETION_STARTED, REMOVED)
        set_replica(cluster, journal, at, event, p, b, DELETION_DONE, REMOVED)
    if not done:
        return
    for i in range(size):
        set_replica(cluster, journal, at, event, p, cluster.ar[begin + i], ABSENT, REMOVED)
    if cluster.state[p] != OFFLINE:
        set_partition(cluster, journal, at, event, p, OFFLINE, REMOVED)
    set_partition(cluster, journal, at, event, p, ABSENT, REMOVED)
    cluster.leader[p] = NOBODY
    for which in range(4):
        cluster.sizes[p, which] = 0


@compiled
def _reassign(cluster: Cluster, journal: Journal, at: int, event: int, p: int, lists: Ids, place: int) -> None:
    """Nothing; p is to have these replicas: the AR is the new list and then what will be removed, an epoch more."""
    if cluster.deleted[p] or cluster.state[p] == ABSENT or cluster.state[p] == NEW:
        return  # what has had no leader yet has no state to be written
    begin, size = cluster.offsets[p], lists[place]
    held = cluster.sizes[p, AR]
    old = cluster.ar[begin : begin + held].copy()
    for i in range(size):
        cluster.target[begin + i] = cluster.ar[begin + i] = lists[place + 1 + i]
    cluster.sizes[p, TARGET] = size
    total = size
    for b in old:
        if find(cluster.target, begin, size, b) < 0:
            cluster.ar[begin + total] = b
            total += 1
    cluster.sizes[p, AR] = total
    lead(cluster, journal, at, event, p, cluster.leader[p], REASSIGNED)
    for i in range(size):
        b = cluster.target[begin + i]
        if find(old, 0, held, b) < 0:
            set_replica(cluster, journal, at, event, p, b, NEW, REASSIGNED)
            if cluster.alive[b]:
                set_replica(cluster, journal, at, event, p, b, ONLINE, REASSIGNED)
    _finish(cluster, journal, at, event, p)


@compiled
def _finish(cluster: Cluster, journal: Journal, at: int, event: int, p: int) -> None:
    """Nothing; where all of the target are in sync, the reassignment ends: a leader of them, and the others go."""
    begin, size = cluster.offsets[p], cluster.sizes[p, TARGET]
    for i in range(size):
        if not within(cluster, ISR, p, cluster.target[begin + i]):
            return
    leader = cluster.leader[p]
    if leader == NOBODY or not cluster.alive[leader] or find(cluster.target, begin, size, leader) < 0:
        leader = first_of_target(cluster, p)
        if leader == NOBODY:
            return
    lead(cluster, journal, at, event, p, leader, REASSIGNED)
    for i in range(size, cluster.sizes[p, AR]):
        b = cluster.ar[begin + i]
        leave_isr(cluster, journal, at, event, p, b)
        set_replica(cluster, journal, at, event, p, b, OFFLINE, REASSIGNED)
        if cluster.alive[b]:
            set_replica(cluster, journal, at, event, p, b, DELETION_STARTED, REASSIGNED)
            set_replica(cluster, journal, at, event, p, b, DELETION_DONE, REASSIGNED)
            set_replica(cluster, journal, at, event, p, b, ABSENT, REASSIGNED)
    cluster.sizes[p, AR] = size
    cluster.sizes[p, TARGET] = 0


@compiled
def _set_isr(cluster: Cluster, journal: Journal, at: int, event: int, p: int, lists: Ids, place: int) -> None:
    """Nothing; the leader has changed the ISR: the epoch stays. Refused where nobody leads."""
    if cluster.leader[p] == NOBODY or cluster.deleted[p]:
        return
    begin, size = cluster.offsets[p], lists[place]
    if find(lists, place + 1, size, cluster.leader[p]) < 0:
        return  # no leader leaves itself out
    cause = EXPANDED if size > cluster.sizes[p, ISR] else SHRUNK
    for i in range(size):
        cluster.isr[begin + i] = lists[place + 1 + i]
        cluster.sizes[p, ELR] = drop(cluster.elr, begin, cluster.sizes[p, ELR], cluster.isr[begin + i])
    cluster.sizes[p, ISR] = size
    if size >= min(cluster.min_isr[p], cluster.sizes[p, AR]):
        cluster.sizes[p, ELR] = 0
    write_leader(cluster, journal, at, event, p, cause, cluster.leader[p])
    if cluster.sizes[p, TARGET]:
        _finish(cluster, journal, at, event, p)


@compiled
def _rebalance(cluster: Cluster, journal: Journal, rules: Ints, at: int, event: int) -> None:
    """Nothing; brokers of whose preferred partitions too many are led elsewhere get them back, where they can."""
    if not rules[KRAFT] and cluster.who[CONTROLLER] == NOBODY:
        return
    n = len(cluster.alive)
    preferred, elsewhere = [0] * n, [0] * n
    for p in range(len(cluster.leader)):
        if cluster.state[p] == ABSENT or cluster.deleted[p] or cluster.sizes[p, AR] == 0:
            continue
        first = cluster.ar[cluster.offsets[p]]
        preferred[first] += 1
        elsewhere[first] += cluster.leader[p] != first
    for p in range(len(cluster.leader)):
        if cluster.state[p] == ABSENT or cluster.deleted[p] or cluster.sizes[p, AR] == 0 or cluster.sizes[p, TARGET]:
            continue
        first = cluster.ar[cluster.offsets[p]]
        if cluster.alive[first] and 100 * elsewhere[first] > rules[IMBALANCE_PERCENT] * preferred[first]:
            elect_preferred(cluster, journal, at, event, p, REBALANCED)
