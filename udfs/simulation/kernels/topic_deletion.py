"""A topic's deletion, as a controller with ZooKeeper does it to one of its partitions.

When it starts and ends is decided for the topic as a whole: replay_together.py.
Source: TopicDeletionManager, ReplicaStateMachine of Kafka 2.8.
"""

from __future__ import annotations

from udfs.kernel_compiler import part
from udfs.simulation.kernels.codes import (
    ABSENT,
    DELETION_DONE,
    DELETION_INELIGIBLE,
    DELETION_STARTED,
    OFFLINE,
    ONLINE,
    REMOVED,
    SHRUNK,
)
from udfs.simulation.kernels.controller_elections import leave_isr
from udfs.simulation.kernels.simulation_state import (
    AR,
    DELETED,
    QUEUED,
    REPLICA_STATE,
    SLOT_BEGIN,
    STARTED,
    STATE,
    Journal,
    State,
    World,
    clear,
    live,
    set_partition,
    set_replica,
)


@part
def start_deletion(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; p is no more for anybody, and its replicas are deleted; those of down brokers wait."""
    s.now[p, DELETED] = STARTED
    if s.now[p, AR] == 0:
        return  # it never was: its creation was rejected
    if s.now[p, STATE] == ABSENT:  # deleted in part by a controller before; the present one has read its znode
        s.now[p, STATE] = OFFLINE
    set_partition(s, j, p, OFFLINE, REMOVED)
    set_partition(s, j, p, ABSENT, REMOVED)
    for i in range(s.now[p, AR]):
        slot = s.slot[s.now[p, SLOT_BEGIN] + i, AR]
        if not live(s, w, j, p, slot):
            set_replica(s, j, p, slot, DELETION_INELIGIBLE, REMOVED)
    delete_replicas(s, w, j, p)


@part
def delete_replicas(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; replicas that live, and are not deleted yet, leave the ISR, are stopped and deleted."""
    begin = s.now[p, SLOT_BEGIN]
    for i in range(s.now[p, AR]):
        slot = s.slot[begin + i, AR]
        if live(s, w, j, p, slot) and s.slot[begin + slot, REPLICA_STATE] != DELETION_DONE:
            leave_isr(s, j, p, slot, REMOVED)
            set_replica(s, j, p, slot, OFFLINE, REMOVED)
            set_replica(s, j, p, slot, DELETION_STARTED, REMOVED)
            set_replica(s, j, p, slot, DELETION_DONE, REMOVED)


@part
def all_deleted(s: State, p: int) -> bool:
    """Whether every replica of p is deleted."""
    begin, done = s.now[p, SLOT_BEGIN], True
    for i in range(s.now[p, AR]):
        done = done and s.slot[begin + s.slot[begin + i, AR], REPLICA_STATE] == DELETION_DONE
    return done


@part
def end_deletion(s: State, j: Journal, p: int) -> None:
    """Nothing; the topic is gone, and p with it."""
    for i in range(s.now[p, AR]):
        set_replica(s, j, p, s.slot[s.now[p, SLOT_BEGIN] + i, AR], ABSENT, REMOVED)
    clear(s, p)


@part
def read_anew(s: State, w: World, j: Journal, p: int) -> None:
    """Nothing; another controller: what it finds is queued again, and which replicas are deleted it does not know."""
    begin = s.now[p, SLOT_BEGIN]
    for i in range(s.now[p, AR]):
        slot = s.slot[begin + i, AR]
        lives = live(s, w, j, p, slot)
        if s.slot[begin + slot, REPLICA_STATE] == DELETION_DONE:
            s.slot[begin + slot, REPLICA_STATE] = ONLINE if lives else DELETION_INELIGIBLE
        if not lives:
            leave_isr(s, j, p, slot, SHRUNK)  # as it does for every partition, before it looks at deletions
            set_replica(s, j, p, slot, OFFLINE, SHRUNK)
    s.now[p, DELETED] = QUEUED
