"""What the controller does to one partition: at a step of the brokers' timeline, at an event of the partition.

Sources: KafkaController of 2.8 (ZooKeeper), ReplicationControlManager of 4.1 (KRaft); see docs/replay.md.
"""

from __future__ import annotations

from udfs.kernel_compiler import copying_part, part
from udfs.simulation.kernels.codes import (
    ABSENT,
    CREATED,
    DELETION_INELIGIBLE,
    EXPANDED,
    NEW,
    NOBODY,
    OFFLINE,
    OFFLINE_LEADER,
    ONLINE,
    REBALANCED,
    REMOVED,
    SHRUNK,
    SHUTTING_DOWN,
    TOLD,
)
from udfs.simulation.kernels.controller_elections import (
    active,
    elect,
    elect_preferred,
    fence,
    first_live_in_sync,
    keep_eligible,
    lead,
    leave_isr,
    no_longer_eligible,
    only_live,
)
from udfs.simulation.kernels.metadata_records import seen
from udfs.simulation.kernels.reassignment_steps import finish, resume
from udfs.simulation.kernels.simulation_state import (
    AR,
    CHECK,
    CLUSTER,
    DELETED,
    DOWN,
    DOWN_CONTROLLER,
    ELR,
    EPOCH,
    FAIL_OVER,
    ISR,
    KRAFT,
    LEADER,
    LEAVING,
    SEEN_DOWN,
    SEEN_UP,
    SLOT_BEGIN,
    STARTED,
    STATE,
    TARGET,
    UP,
    UP_CONTROLLER,
    UP_UNCLEAN,
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
    write_leader,
)
from udfs.simulation.kernels.topic_deletion import delete_replicas, read_anew


@part
def step(s: State, w: World, j: Journal, p: int, kind: int, slot: int) -> None:
    """Nothing; p after a step of the brokers and the controller. slot: the broker's in p, or -1."""
    if s.now[p, DELETED]:
        _step_of_deleted(s, w, j, p, kind, slot)
    elif s.now[p, STATE] == ABSENT:
        return
    elif kind == DOWN:
        _down(s, w, j, p, slot)
    elif kind in (DOWN_CONTROLLER, FAIL_OVER):
        _fail_over(s, w, j, p)
    elif kind in (UP, UP_CONTROLLER, UP_UNCLEAN):
        if kind == UP_CONTROLLER:
            _fail_over(s, w, j, p)
        elif kind == UP_UNCLEAN and w.cluster[s.now[p, CLUSTER], WITH_ELR] and slot != NOBODY:
            no_longer_eligible(s, j, p, slot)
        _up(s, w, j, p, slot)
        if kind == UP and slot != NOBODY and within(s, TARGET, p, slot):
            _go_on(s, w, j, p)
    elif kind == LEAVING:
        _shut_down(s, w, j, p, slot)
    elif kind == CHECK:
        moves = s.now[p, TARGET] > 0 and not w.cluster[s.now[p, CLUSTER], KRAFT]  # with ZooKeeper such wait
        if may_be_rebalanced(s, p) and not moves and s.slot[s.now[p, SLOT_BEGIN], AR] == slot:
            elect_preferred(s, w, j, p, REBALANCED)
    elif kind in (SEEN_DOWN, SEEN_UP) and slot != NOBODY:
        seen(s, j, p, slot, kind == SEEN_UP)


@part
def _step_of_deleted(s: State, w: World, j: Journal, p: int, kind: int, slot: int) -> None:
    """Nothing; the same of a partition whose topic is to be deleted: nobody is elected, only a reassignment goes on."""
    if kind in (DOWN_CONTROLLER, FAIL_OVER, UP_CONTROLLER):
        read_anew(s, w, j, p)
        _go_on(s, w, j, p)
    if slot == NOBODY or not within(s, AR, p, slot):
        return
    if kind == DOWN:
        set_replica(s, j, p, slot, DELETION_INELIGIBLE, REMOVED)
    elif kind in (UP, UP_CONTROLLER):
        set_replica(s, j, p, slot, ONLINE, TOLD)
        if kind == UP and within(s, TARGET, p, slot):
            _go_on(s, w, j, p)
        if s.now[p, DELETED] == STARTED:
            delete_replicas(s, w, j, p)


@part
def may_be_rebalanced(s: State, p: int) -> bool:
    """Whether p counts among those that prefer a broker."""
    there: bool = s.now[p, STATE] != ABSENT and s.now[p, DELETED] == 0 and s.now[p, AR] > 0
    return there


@part
def try_again(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; if p is offline, or new and without a leader, it is tried again."""
    if s.now[p, STATE] == NEW:
        _first_leader(s, w, j, p)
    elif s.now[p, STATE] == OFFLINE and elect(s, w, j, p) and not w.cluster[s.now[p, CLUSTER], KRAFT]:
        finish(s, w, j, p)  # any new ISR may end a reassignment: processPartitionReassignmentIsrChange


@part
def _down(s: State, w: World, j: Journal, p: int, slot: int) -> None:
    """Nothing; a broker's session has ended, or it is fenced."""
    if w.cluster[s.now[p, CLUSTER], KRAFT]:
        led = slot != NOBODY and s.now[p, LEADER] == slot
        if slot != NOBODY:
            fence(s, w, j, p, slot, OFFLINE_LEADER)
        if within(s, AR, p, slot):
            set_replica(s, j, p, slot, OFFLINE, OFFLINE_LEADER if led else SHRUNK)
        return
    if slot != NOBODY and s.now[p, LEADER] == slot:
        set_partition(s, j, p, OFFLINE, OFFLINE_LEADER)
    try_again(s, w, j, p)
    if within(s, AR, p, slot):
        leave_isr(s, j, p, slot)
        set_replica(s, j, p, slot, OFFLINE, SHRUNK)


@part
def _fail_over(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; another controller: who is down leaves the ISR, then an election, then all that waits."""
    if w.cluster[s.now[p, CLUSTER], KRAFT]:
        return  # the log is all there is to know: nothing is read or written anew
    for i in range(s.now[p, AR]):
        slot = s.slot[s.now[p, SLOT_BEGIN] + i, AR]
        if not live(s, w, j, p, slot):
            leave_isr(s, j, p, slot)
            set_replica(s, j, p, slot, OFFLINE, SHRUNK)
    leader = s.now[p, LEADER]
    if (leader == NOBODY or not live(s, w, j, p, leader)) and s.now[p, STATE] == ONLINE:
        set_partition(s, j, p, OFFLINE, OFFLINE_LEADER)
    try_again(s, w, j, p)
    _go_on(s, w, j, p)


@part
def _go_on(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; a reassignment that waits is resumed, with ZooKeeper: it ends, or its first step is done again.

    Source: KafkaController.maybeResumeReassignments of 2.8. With KRaft it ends when the ISR changes.
    """
    if s.now[p, TARGET] and not w.cluster[s.now[p, CLUSTER], KRAFT]:
        resume(s, w, j, p)


@part
def _up(s: State, w: World, j: Journal, p: int, slot: int) -> None:
    """Nothing; a broker has registered, or is no longer fenced: it leads where nobody else can, at first."""
    if slot != NOBODY and within(s, AR, p, slot):
        set_replica(s, j, p, slot, ONLINE, TOLD)
    try_again(s, w, j, p)


@part
def _shut_down(s: State, w: World, j: Journal, p: int, slot: int) -> None:
    """Nothing; a broker says that it goes: others lead first, and it leaves the ISR."""
    kraft = w.cluster[s.now[p, CLUSTER], KRAFT]
    if not within(s, AR, p, slot) or (not kraft and s.now[p, AR] < 2):
        return
    if kraft:
        fence(s, w, j, p, slot, SHUTTING_DOWN)
    elif s.now[p, LEADER] == slot:
        leader = first_live_in_sync(s, w, j, p, AR)
        if leader != NOBODY:
            only_live(s, w, j, p)
            lead(s, j, p, leader, SHUTTING_DOWN)
            set_partition(s, j, p, ONLINE, SHUTTING_DOWN)
    else:
        leave_isr(s, j, p, slot)
        set_replica(s, j, p, slot, OFFLINE, SHUTTING_DOWN)


@part
def create(s: State, w: World, j: Journal, p: int, lists: Ints, place: int) -> None:
    """Nothing; partition p with this AR: new, its replicas new, online with the first live, replicas online."""
    if s.now[p, DELETED] or not set_partition(s, j, p, NEW, CREATED):
        return  # it is there still
    put(s, AR, p, lists, place)
    for i in range(s.now[p, AR]):
        set_replica(s, j, p, s.slot[s.now[p, SLOT_BEGIN] + i, AR], NEW, CREATED)
    _first_leader(s, w, j, p)
    kraft = w.cluster[s.now[p, CLUSTER], KRAFT] != 0
    for i in range(s.now[p, AR]):  # with ZooKeeper the down too: KafkaController.onNewPartitionCreation
        slot = s.slot[s.now[p, SLOT_BEGIN] + i, AR]
        set_replica(s, j, p, slot, OFFLINE if kraft and not live(s, w, j, p, slot) else ONLINE, CREATED)


@part
def _first_leader(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; a new partition is online with its live replicas, led by the first; without any it stays new."""
    begin, isr = s.now[p, SLOT_BEGIN], 0
    for i in range(s.now[p, AR]):
        slot = s.slot[begin + i, AR]
        if active(s, w, j, p, slot):
            s.slot[begin + isr, ISR] = slot
            isr += 1
    s.now[p, ISR] = isr
    if isr == 0:
        return
    s.now[p, LEADER] = s.slot[begin, ISR]
    s.now[p, EPOCH] = 0
    write_leader(s, j, p, CREATED, NOBODY)
    set_partition(s, j, p, ONLINE, CREATED)


@copying_part
def set_isr(s: State, w: World, j: Journal, p: int, lists: Ints, place: int) -> None:
    """Nothing; the leader has changed the ISR: the epoch stays. Not where nobody leads, or it would leave itself out.

    With KRaft all of it have to be active. Source: ReplicationControlManager.ineligibleReplicasForIsr of 4.1.
    """
    size, held, led = lists[place], s.now[p, ISR], False
    kraft, same = w.cluster[s.now[p, CLUSTER], KRAFT] != 0, lists[place] == s.now[p, ISR]
    begin = s.now[p, SLOT_BEGIN]
    for i in range(size):
        slot = lists[place + 1 + i]
        led = led or slot == s.now[p, LEADER]
        same = same and slot == s.slot[begin + i, ISR]
        if kraft and not active(s, w, j, p, slot):
            return
    if s.now[p, LEADER] == NOBODY or not led or (same and not kraft):
        return
    cause = EXPANDED if size > s.now[p, ISR] else SHRUNK
    if same:
        keep_eligible(s, p)
    else:
        old = s.slot[begin : begin + held, ISR].copy()
        put(s, ISR, p, lists, place)
        leader_changed_isr(s, w, j, p, old, cause)
    finish(s, w, j, p)


@part
def leader_changed_isr(s: State, w: World, j: Journal, p: int, old: Ints, cause: int) -> None:
    """Nothing; the ISR, no longer `old`, is written; who left it may stay eligible, who is in it need not be."""
    begin = s.now[p, SLOT_BEGIN]
    if w.cluster[s.now[p, CLUSTER], WITH_ELR]:
        for slot in old:
            if not within(s, ISR, p, slot) and not within(s, ELR, p, slot):
                add(s, ELR, p, slot)
    for i in range(s.now[p, ISR]):
        drop(s, ELR, p, s.slot[begin + i, ISR])
    keep_eligible(s, p)
    write_leader(s, j, p, cause, s.now[p, LEADER])
