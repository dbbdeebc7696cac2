"""Reassignment of a partition: it gets new replicas and keeps the old ones until the new ones are in sync.

Sources: KafkaController.onPartitionReassignment of 2.8; PartitionReassignmentReplicas, PartitionChangeBuilder of 4.1.
"""

from udfs.kernel_compiler import copying_part, part
from udfs.simulation.kernels.codes import NONE, ChangeCause, PartitionState, ReplicaState
from udfs.simulation.kernels.controller_elections import (
    add_to_elr,
    clear_elr_beyond,
    elect_kraft_leader,
    first_active_in_sync,
    remove_from_isr,
    remove_isr_from_elr,
    set_leader,
    set_no_leader,
)
from udfs.simulation.kernels.partition_state import (
    append_to_list,
    can_complete_reassignment,
    clear_reassignment,
    contains,
    delete_replica,
    is_active,
    is_live,
    is_reassigned,
    remove_from_list,
    replace_list,
    serving_leader,
    set_replica_state,
    set_target,
    uses_elr,
    uses_kraft,
)
from udfs.simulation.kernels.simulation_arrays import Ints, Partition, ReassignmentFlag, Replica, SimulationArrays


@copying_part
def reassign_partition(sim: SimulationArrays, p: int, lists: Ints, place: int, is_cancelled: int) -> None:
    """Start the reassignment of p to the list at this place of `lists`, or cancel the one that runs.

    The AR keeps replicas that will be removed.
    """
    # With ZooKeeper all new replicas must be live, and the epoch grows if they are not all in sync yet. There, a
    # cancelled reassignment becomes one to the former replicas.
    partition = sim.partitions[p]
    if partition[Partition.DELETION] or partition[Partition.STATE] <= PartitionState.NEW:
        return  # a partition that never had a leader has no state to write
    if is_cancelled and not is_reassigned(sim, p):
        return
    begin, kraft = partition[Partition.REPLICA_BEGIN], uses_kraft(sim, p)
    old_ar = sim.replicas[begin : begin + partition[Partition.AR_SIZE], Replica.AR].copy()
    if kraft and is_cancelled:
        _revert_reassignment(sim, p)
        return
    if kraft:
        _set_kraft_assignment(sim, p, lists, place, old_ar)
        if can_complete_reassignment(sim, p) and uses_elr(sim, p):
            add_to_elr(sim, p, sim.replicas[begin : begin + partition[Partition.ISR_SIZE], Replica.ISR])
        else:
            clear_elr_beyond(sim, p, len(old_ar))
    else:
        if is_cancelled:
            set_target(sim, p, ReassignmentFlag.ADDED)
        else:
            for slot in lists[place + 1 : place + 1 + lists[place]]:
                if not is_live(sim, p, slot):
                    return
            replace_list(sim, Replica.TARGET, p, lists, place)
        _set_zookeeper_assignment(sim, p, old_ar)
        if not can_complete_reassignment(sim, p):
            set_leader(sim, p, partition[Partition.LEADER], ChangeCause.REASSIGNMENT)
    for slot in sim.replicas[begin : begin + partition[Partition.AR_SIZE], Replica.AR]:
        if slot in old_ar:
            continue
        if sim.replicas[begin + slot, Replica.STATE] == ReplicaState.NON_EXISTENT:
            set_replica_state(sim, p, slot, ReplicaState.NEW, ChangeCause.REASSIGNMENT)
        if is_live(sim, p, slot):
            set_replica_state(sim, p, slot, ReplicaState.ONLINE, ChangeCause.REASSIGNMENT)
    complete_reassignment(sim, p)


@part
def resume_reassignment(sim: SimulationArrays, p: int) -> None:
    """Resume a reassignment that waits (ZooKeeper): complete it, or tell its replicas of it with the next epoch."""
    # With KRaft it completes when the ISR changes. Sources: KafkaController.maybeResumeReassignments,
    # updateLeaderEpochAndSendRequest of 2.8.
    partition = sim.partitions[p]
    if not partition[Partition.TARGET_SIZE] or uses_kraft(sim, p):
        return
    if can_complete_reassignment(sim, p):
        complete_reassignment(sim, p)
    else:
        set_leader(sim, p, partition[Partition.LEADER], ChangeCause.REASSIGNMENT)


@part
def _set_zookeeper_assignment(sim: SimulationArrays, p: int, old_ar: Ints) -> None:
    """Make the AR the target, then the replicas that leave, and flag what is added and removed."""
    partition = sim.partitions[p]
    begin = partition[Partition.REPLICA_BEGIN]
    partition[Partition.AR_SIZE] = 0
    for slot in sim.replicas[begin : begin + partition[Partition.TARGET_SIZE], Replica.TARGET]:
        append_to_list(sim, Replica.AR, p, slot)
        sim.replicas[begin + slot, Replica.REASSIGNMENT] &= ReassignmentFlag.ADDED
        if slot not in old_ar:
            sim.replicas[begin + slot, Replica.REASSIGNMENT] = ReassignmentFlag.ADDED
    for slot in old_ar:
        if not contains(sim, Replica.TARGET, p, slot):
            append_to_list(sim, Replica.AR, p, slot)
            sim.replicas[begin + slot, Replica.REASSIGNMENT] |= ReassignmentFlag.REMOVED


@part
def _set_kraft_assignment(sim: SimulationArrays, p: int, lists: Ints, place: int, old_ar: Ints) -> None:
    """Set AR, flags and target as the quorum's controller does. The target has the replicas of the AR that stay."""
    # During another reassignment, a request that adds (removes) no replica leaves the list of those that are added
    # (removed) as it is: ReplicationControlManager.changePartitionReassignment writes no empty list.
    size, begin, adds = lists[place], sim.partitions[p, Partition.REPLICA_BEGIN], False
    listed = lists[place + 1 : place + 1 + size]
    for slot in listed:
        adds = adds or slot not in old_ar
    replace_list(sim, Replica.AR, p, lists, place)
    for slot in range(sim.partitions[p, Partition.SLOTS]):  # by broker id
        if slot in old_ar and slot not in listed:
            append_to_list(sim, Replica.AR, p, slot)
    removes = sim.partitions[p, Partition.AR_SIZE] > size
    for slot in range(sim.partitions[p, Partition.SLOTS]):
        replica = sim.replicas[begin + slot]
        if adds:
            replica[Replica.REASSIGNMENT] &= ~ReassignmentFlag.ADDED
            if slot in listed and slot not in old_ar:
                replica[Replica.REASSIGNMENT] |= ReassignmentFlag.ADDED
        if removes:
            replica[Replica.REASSIGNMENT] &= ~ReassignmentFlag.REMOVED
            if slot in old_ar and slot not in listed:
                replica[Replica.REASSIGNMENT] |= ReassignmentFlag.REMOVED
    set_target(sim, p, ReassignmentFlag.REMOVED)


@part
def _revert_reassignment(sim: SimulationArrays, p: int) -> None:
    """Cancel a reassignment (KRaft): the replicas that it added leave, unless the ISR has no others."""
    # Sources: cancelPartitionReassignment of ReplicationControlManager, PartitionReassignmentRevert of 4.1.
    partition = sim.partitions[p]
    begin, first = partition[Partition.REPLICA_BEGIN], NONE
    set_target(sim, p, ReassignmentFlag.ADDED)
    remains = False
    for slot in sim.replicas[begin : begin + partition[Partition.TARGET_SIZE], Replica.TARGET]:
        first = slot if first == NONE else first
        remains = remains or contains(sim, Replica.ISR, p, slot)
    if not remains and (first == NONE or not partition[Partition.UNCLEAN_ELECTION]):
        set_target(sim, p, ReassignmentFlag.REMOVED)
        return
    if uses_elr(sim, p):
        add_to_elr(sim, p, sim.replicas[begin : begin + partition[Partition.ISR_SIZE], Replica.ISR])
    if not remains:
        append_to_list(sim, Replica.ISR, p, first)
    _end_reassignment(sim, p)


@part
def complete_reassignment(sim: SimulationArrays, p: int) -> None:
    """Complete a reassignment that waits for nothing: a replica of the target leads, and the others are deleted."""
    if not can_complete_reassignment(sim, p):
        return
    if not uses_kraft(sim, p):
        leader = serving_leader(sim, p)
        if leader == NONE or not contains(sim, Replica.TARGET, p, leader):
            leader = first_active_in_sync(sim, p, Replica.TARGET)
            if leader == NONE:
                return
        set_leader(sim, p, leader, ChangeCause.REASSIGNMENT)
    _end_reassignment(sim, p)


@part
def _end_reassignment(sim: SimulationArrays, p: int) -> None:
    """Make the target the AR, and delete the other replicas."""
    partition = sim.partitions[p]
    begin, size, kraft = partition[Partition.REPLICA_BEGIN], partition[Partition.TARGET_SIZE], uses_kraft(sim, p)
    if kraft:
        _remove_leaving_from_isr(sim, p)
    for slot in sim.replicas[begin : begin + partition[Partition.AR_SIZE], Replica.AR]:
        if contains(sim, Replica.TARGET, p, slot):
            continue
        if not kraft:
            remove_from_isr(sim, p, slot)
        delete_replica(sim, p, slot, ChangeCause.REASSIGNMENT)
    for i in range(size):
        sim.replicas[begin + i, Replica.AR] = sim.replicas[begin + i, Replica.TARGET]
    partition[Partition.AR_SIZE] = size
    clear_reassignment(sim, p)


@part
def _remove_leaving_from_isr(sim: SimulationArrays, p: int) -> None:
    """Remove all replicas outside the target from the ISR, in one record. The ELR has the ISR from before already."""
    # The epoch grows if a replica leaves or leads. Source: completeReassignmentIfNeeded of PartitionChangeBuilder, 4.1.
    partition = sim.partitions[p]
    removes_replicas = partition[Partition.TARGET_SIZE] < partition[Partition.AR_SIZE]
    old_isr_size = partition[Partition.ISR_SIZE]
    for i in range(partition[Partition.AR_SIZE]):
        slot = sim.replicas[partition[Partition.REPLICA_BEGIN] + i, Replica.AR]
        if contains(sim, Replica.ISR, p, slot) and not contains(sim, Replica.TARGET, p, slot):
            remove_from_list(sim, Replica.ISR, p, slot)
    if uses_elr(sim, p):
        remove_isr_from_elr(sim, p)
    leader = partition[Partition.LEADER]
    if leader != NONE and contains(sim, Replica.ISR, p, leader) and is_active(sim, p, leader):
        if removes_replicas:
            set_leader(sim, p, leader, ChangeCause.REASSIGNMENT)
    elif not elect_kraft_leader(sim, p, ChangeCause.REASSIGNMENT):
        if leader != NONE:
            set_no_leader(sim, p)
        elif removes_replicas or partition[Partition.ISR_SIZE] < old_isr_size:
            set_leader(sim, p, NONE, ChangeCause.REASSIGNMENT)
