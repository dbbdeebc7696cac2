"""Records of a controller's metadata log, applied as they are, with the state transitions that follow.

Source: PartitionRegistration.merge of Kafka 4.1: a change record has only what changes, and naming a leader adds one to
the leader epoch, even if the leader stays the same.
"""

import enum

from udfs.kernel_compiler import part
from udfs.simulation.kernels.codes import NONE, ChangeCause, PartitionState, ReplicaState
from udfs.simulation.kernels.controller_elections import write_leadership
from udfs.simulation.kernels.partition_state import (
    clear_reassignment,
    contains,
    delete_replica,
    is_live,
    replace_list,
    reset_partition,
    set_partition_state,
    set_replica_state,
    set_target,
)
from udfs.simulation.kernels.simulation_arrays import Ints, Partition, ReassignmentFlag, Replica, SimulationArrays

UNCHANGED_LEADER, UNCHANGED_LIST = -2, -1
RECORD_LISTS = 6


class RecordList(enum.IntEnum):
    """Lists of a record, which follow its leader and epoch in `lists`, each after its length."""

    REPLICAS, ISR, ELR, LAST_KNOWN_ELR, ADDING, REMOVING = range(RECORD_LISTS)


@part
def apply_record(sim: SimulationArrays, p: int, lists: Ints, place: int, is_full: int) -> None:
    """Set p as the record at this place of `lists` says: a PARTITION_RECORD (is_full = 1) or a change."""
    partition = sim.partitions[p]
    from_leader, old_isr_size = partition[Partition.LEADER], partition[Partition.ISR_SIZE]
    leader, epoch, read = lists[place], lists[place + 1], place + 2
    is_reassignment = False
    if is_full:
        partition[Partition.LAST_KNOWN_LEADER] = NONE
        clear_reassignment(sim, p)
    for which in range(RECORD_LISTS):
        size = lists[read]
        if size == UNCHANGED_LIST:
            read += 1
            continue
        if which <= RecordList.ELR:  # the first three are the columns AR, ISR and ELR
            replace_list(sim, which, p, lists, read)
        elif which == RecordList.LAST_KNOWN_ELR:
            # One member is the last known leader; of several, none is elected: PartitionChangeBuilder of 4.1.
            partition[Partition.LAST_KNOWN_LEADER] = lists[read + 1] if size == 1 else NONE
        else:
            flag = ReassignmentFlag.ADDED if which == RecordList.ADDING else ReassignmentFlag.REMOVED
            _set_flag(sim, p, flag, lists[read + 1 : read + 1 + size])
        is_reassignment = is_reassignment or which in (RecordList.REPLICAS, RecordList.ADDING, RecordList.REMOVING)
        read += 1 + size
    if is_full or is_reassignment:
        set_target(sim, p, ReassignmentFlag.REMOVED)
    if leader != UNCHANGED_LEADER:
        partition[Partition.LEADER] = leader
        partition[Partition.LEADER_EPOCH] = epoch if epoch >= 0 else partition[Partition.LEADER_EPOCH] + 1
    if is_full:
        _create_from_record(sim, p)
        return
    isr_growth = partition[Partition.ISR_SIZE] - old_isr_size
    cause = ChangeCause.REASSIGNMENT if is_reassignment else _find_cause(sim, p, from_leader, leader, isr_growth)
    write_leadership(sim, p, cause, from_leader)
    to_state = PartitionState.OFFLINE if partition[Partition.LEADER] == NONE else PartitionState.ONLINE
    if to_state != partition[Partition.STATE] or leader not in (UNCHANGED_LEADER, from_leader):
        set_partition_state(sim, p, to_state, cause)
    if is_reassignment:
        _update_replicas(sim, p)


@part
def _set_flag(sim: SimulationArrays, p: int, flag: int, slots: Ints) -> None:
    """Set a flag (ReassignmentFlag) for these slots of p alone."""
    begin = sim.partitions[p, Partition.REPLICA_BEGIN]
    for slot in range(sim.partitions[p, Partition.SLOTS]):
        replica = sim.replicas[begin + slot]
        replica[Replica.REASSIGNMENT] &= ~flag
        if slot in slots:
            replica[Replica.REASSIGNMENT] |= flag


@part
def _create_from_record(sim: SimulationArrays, p: int) -> None:
    partition = sim.partitions[p]
    begin = partition[Partition.REPLICA_BEGIN]
    set_partition_state(sim, p, PartitionState.NEW, ChangeCause.CREATED)
    for slot in sim.replicas[begin : begin + partition[Partition.AR_SIZE], Replica.AR]:
        set_replica_state(sim, p, slot, ReplicaState.NEW, ChangeCause.CREATED)
    write_leadership(sim, p, ChangeCause.CREATED, NONE)
    is_led = partition[Partition.LEADER] != NONE
    set_partition_state(sim, p, PartitionState.ONLINE if is_led else PartitionState.OFFLINE, ChangeCause.CREATED)
    for slot in sim.replicas[begin : begin + partition[Partition.AR_SIZE], Replica.AR]:
        _start_replica(sim, p, slot, ChangeCause.CREATED)


@part
def _start_replica(sim: SimulationArrays, p: int, slot: int, cause: int) -> None:
    to_state = ReplicaState.ONLINE if is_live(sim, p, slot) else ReplicaState.OFFLINE
    set_replica_state(sim, p, slot, to_state, cause)


@part
def _find_cause(sim: SimulationArrays, p: int, from_leader: int, leader: int, isr_growth: int) -> int:
    """Return the cause of a change that is no reassignment, as far as the record shows it."""
    if leader in (UNCHANGED_LEADER, from_leader):
        if isr_growth == 0:
            return ChangeCause.METADATA_UPDATE
        return ChangeCause.ISR_EXPAND if isr_growth > 0 else ChangeCause.ISR_SHRINK
    if leader == NONE:
        return ChangeCause.NO_LEADER
    is_preferred = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN], Replica.AR] == leader
    if is_preferred and from_leader != NONE and is_live(sim, p, from_leader):
        return ChangeCause.PREFERRED_ELECTION
    return ChangeCause.LEADER_FAILED


@part
def _update_replicas(sim: SimulationArrays, p: int) -> None:
    partition = sim.partitions[p]
    begin = partition[Partition.REPLICA_BEGIN]
    for slot in sim.replicas[begin : begin + partition[Partition.AR_SIZE], Replica.AR]:
        if sim.replicas[begin + slot, Replica.STATE] == ReplicaState.NON_EXISTENT:
            set_replica_state(sim, p, slot, ReplicaState.NEW, ChangeCause.REASSIGNMENT)
            _start_replica(sim, p, slot, ChangeCause.REASSIGNMENT)
    for slot in range(partition[Partition.SLOTS]):
        exists = sim.replicas[begin + slot, Replica.STATE] != ReplicaState.NON_EXISTENT
        if exists and not contains(sim, Replica.AR, p, slot):
            delete_replica(sim, p, slot, ChangeCause.REASSIGNMENT)


@part
def forget_partition(sim: SimulationArrays, p: int) -> None:
    """Remove p at once, as its topic is removed."""
    partition = sim.partitions[p]
    for slot in range(partition[Partition.SLOTS]):
        if sim.replicas[partition[Partition.REPLICA_BEGIN] + slot, Replica.STATE] != ReplicaState.NON_EXISTENT:
            delete_replica(sim, p, slot, ChangeCause.TOPIC_DELETION)
    if partition[Partition.STATE] != PartitionState.OFFLINE:
        set_partition_state(sim, p, PartitionState.OFFLINE, ChangeCause.TOPIC_DELETION)
    set_partition_state(sim, p, PartitionState.NON_EXISTENT, ChangeCause.TOPIC_DELETION)
    reset_partition(sim, p)
