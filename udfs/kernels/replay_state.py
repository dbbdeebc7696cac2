"""What a controller knows of a cluster, as flat arrays, and what is written down while it acts.

A partition has as many slots as it ever has replicas at once: lists (AR, ISR, ELR) fill them from the front.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernels.compiled import compiled

Ids = npt.NDArray[np.int32]
Codes = npt.NDArray[np.int8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NOBODY = -1

# States of partitions, and of replicas: Kafka's names are in udfs/replay/words.py.
ABSENT, NEW, ONLINE, OFFLINE = 0, 1, 2, 3
DELETION_STARTED, DELETION_DONE, DELETION_INELIGIBLE = 4, 5, 6

# What `who` holds of the controller.
CONTROLLER, CONTROLLER_EPOCH, NEXT_CHECK, WHO = range(4)


class Cluster(NamedTuple):
    """State of n brokers and p partitions with s slots in all; a broker is its place 0..n - 1.

    alive, leaving: bool (n), seen by the controller; shutting down.   who: int64 (WHO).
    offsets: int64 (p + 1), slots of each partition.   ar, isr, elr, target: int32 (s), the lists; target: where a
    reassignment under way leads.   sizes: int8 (p, 4), how long each of these is.   replica: int32 (s), brokers that
    have had a replica, replica_state: int8 (s); replicas: int8 (p), how many.
    leader, leader_epoch, written: int32 (p), the leader, its epoch, that of the controller who wrote it.
    last_known: int32 (p).   state: int8 (p).   unclean, deleted: bool (p).   min_isr: int32 (p).
    """

    alive: Bools
    leaving: Bools
    who: Ints
    offsets: Ints
    ar: Ids
    isr: Ids
    elr: Ids
    target: Ids
    sizes: Codes
    replica: Ids
    replica_state: Codes
    replicas: Codes
    leader: Ids
    leader_epoch: Ids
    written: Ids
    last_known: Ids
    state: Codes
    unclean: Bools
    deleted: Bools
    min_isr: Ids


AR, ISR, ELR, TARGET = range(4)

# Columns of what is written down: of a leadership, and of a state.
L_EVENT, L_PARTITION, L_CAUSE, L_FROM, L_TO, L_EPOCH, L_CONTROLLER_EPOCH, L_ISR, L_AT, LEADERSHIP = range(10)
S_EVENT, S_PARTITION, S_BROKER, S_FROM, S_TO, S_CAUSE, S_EPOCH, S_CONTROLLER_EPOCH, S_LEGAL, S_AT, STATES = range(11)


class Journal(NamedTuple):
    """What is written down, in order.

    leadership: int64 (l, LEADERSHIP); L_ISR: where the ISR begins in `lists`, which holds its length first.
    states: int64 (m, STATES); S_BROKER: -1 for a partition's own state.   lists: int32.   used: int64 (3), of each.
    """

    leadership: Ints
    states: Ints
    lists: Ids
    used: Ints


def new_journal(partitions: int, slots: int, events: int) -> Journal:
    """With room for one event of everything, and a little more."""
    return Journal(
        np.empty((4 * partitions + events + 64, LEADERSHIP), np.int64),
        np.empty((4 * (partitions + slots) + events + 64, STATES), np.int64),
        np.empty(4 * (slots + partitions) + events + 64, np.int32),
        np.zeros(3, np.int64),
    )


@compiled
def has_room(cluster: Cluster, journal: Journal) -> bool:
    """Whether what any one event writes fits."""
    partitions, slots = len(cluster.leader), len(cluster.ar)
    room: bool = (
        journal.used[0] + 4 * partitions < len(journal.leadership)
        and journal.used[1] + 4 * (partitions + slots) < len(journal.states)
        and journal.used[2] + 4 * (slots + partitions) < len(journal.lists)
    )
    return room


@compiled
def find(of: Ids, begin: int, size: int, broker: int) -> int:
    """Where the broker stands in a list, or -1."""
    for i in range(size):
        if of[begin + i] == broker:
            return i
    return -1


@compiled
def within(cluster: Cluster, which: int, p: int, broker: int) -> bool:
    """Whether the broker is in that list (AR, ISR, ELR or TARGET) of p."""
    begin, size = cluster.offsets[p], cluster.sizes[p, which]
    if which == AR:
        return find(cluster.ar, begin, size, broker) >= 0
    if which == ISR:
        return find(cluster.isr, begin, size, broker) >= 0
    if which == ELR:
        return find(cluster.elr, begin, size, broker) >= 0
    return find(cluster.target, begin, size, broker) >= 0


@compiled
def drop(of: Ids, begin: int, size: int, broker: int) -> int:
    """How long the list is without the broker; the others keep their order."""
    kept = 0
    for i in range(size):
        if of[begin + i] != broker:
            of[begin + kept] = of[begin + i]
            kept += 1
    return kept


@compiled
def write_leader(cluster: Cluster, journal: Journal, at: int, event: int, p: int, cause: int, before: int) -> None:
    """Nothing; p's leader, epoch and ISR as they are now are written down. before: who led."""
    row = journal.used[0]
    begin, size, place = cluster.offsets[p], cluster.sizes[p, ISR], journal.used[2]
    cluster.written[p] = cluster.who[CONTROLLER_EPOCH]
    journal.lists[place] = size
    for i in range(size):
        journal.lists[place + 1 + i] = cluster.isr[begin + i]
    journal.used[2] = place + 1 + size
    journal.leadership[row, L_EVENT] = event
    journal.leadership[row, L_PARTITION] = p
    journal.leadership[row, L_CAUSE] = cause
    journal.leadership[row, L_FROM] = before
    journal.leadership[row, L_TO] = cluster.leader[p]
    journal.leadership[row, L_EPOCH] = cluster.leader_epoch[p]
    journal.leadership[row, L_CONTROLLER_EPOCH] = cluster.who[CONTROLLER_EPOCH]
    journal.leadership[row, L_ISR] = place
    journal.leadership[row, L_AT] = at
    journal.used[0] = row + 1


@compiled
def _note(
    cluster: Cluster, journal: Journal, at: int, event: int, p: int, broker: int, before: int, to: int, cause: int
) -> bool:
    """Whether the transition is legal; it is written down either way."""
    legal = legal_partition(before, to) if broker == NOBODY else legal_replica(before, to)
    row = journal.used[1]
    journal.states[row, S_EVENT] = event
    journal.states[row, S_PARTITION] = p
    journal.states[row, S_BROKER] = broker
    journal.states[row, S_FROM] = before
    journal.states[row, S_TO] = to
    journal.states[row, S_CAUSE] = cause
    journal.states[row, S_EPOCH] = cluster.leader_epoch[p]
    journal.states[row, S_CONTROLLER_EPOCH] = cluster.who[CONTROLLER_EPOCH]
    journal.states[row, S_LEGAL] = legal
    journal.states[row, S_AT] = at
    journal.used[1] = row + 1
    return legal


@compiled
def legal_partition(before: int, to: int) -> bool:
    """Whether a partition may go from this state to that. Source: PartitionState.validPreviousStates of Kafka 2.8."""
    if to == NEW:
        return before == ABSENT
    if to in (ONLINE, OFFLINE):
        return before in (NEW, ONLINE, OFFLINE)
    return before == OFFLINE


@compiled
def legal_replica(before: int, to: int) -> bool:
    """Whether a replica may go from this state to that. Source: ReplicaState.validPreviousStates of Kafka 2.8."""
    if to == NEW:
        return before == ABSENT
    if to in (ONLINE, OFFLINE):
        return before in (NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE)
    if to == DELETION_STARTED:
        return before == OFFLINE
    if to == DELETION_DONE:
        return before == DELETION_STARTED
    if to == DELETION_INELIGIBLE:
        return before in (OFFLINE, DELETION_STARTED)
    return before == DELETION_DONE


@compiled
def set_partition(cluster: Cluster, journal: Journal, at: int, event: int, p: int, to: int, cause: int) -> bool:
    """Whether p is in state `to` now: an illegal transition is written down, and the state kept."""
    if not _note(cluster, journal, at, event, p, NOBODY, cluster.state[p], to, cause):
        return False
    cluster.state[p] = to
    return True


@compiled
def set_replica(cluster: Cluster, journal: Journal, at: int, event: int, p: int, b: int, to: int, cause: int) -> bool:
    """Whether p's replica on b is in state `to` now."""
    begin, size = cluster.offsets[p], cluster.replicas[p]
    place = find(cluster.replica, begin, size, b)
    before = ABSENT if place < 0 else cluster.replica_state[begin + place]
    if not _note(cluster, journal, at, event, p, b, before, to, cause):
        return False
    if place < 0:
        place = size
        cluster.replica[begin + place] = b
        cluster.replicas[p] += 1
    cluster.replica_state[begin + place] = to
    if to == ABSENT:  # its slot is free again
        last = cluster.replicas[p] - 1
        cluster.replica[begin + place] = cluster.replica[begin + last]
        cluster.replica_state[begin + place] = cluster.replica_state[begin + last]
        cluster.replicas[p] -= 1
    return True
