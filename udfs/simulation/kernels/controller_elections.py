"""Elections by the controller: the next leader of a partition, its ISR and its epochs.

Sources: Election and ReplicaStateMachine of Kafka 2.8 (ZooKeeper), PartitionChangeBuilder of 4.1 (KRaft).
"""

from udfs.kernel_compiler import part
from udfs.simulation.kernels.codes import NONE, ChangeCause, PartitionState
from udfs.simulation.kernels.partition_state import (
    append_to_list,
    broker_of,
    can_complete_reassignment,
    contains,
    is_active,
    remove_from_list,
    set_partition_state,
    set_single_isr,
    uses_elr,
    uses_kraft,
)
from udfs.simulation.kernels.simulation_arrays import Cursor, Ints, LeadershipRow, Partition, Replica, SimulationArrays


@part
def first_active_in_sync(sim: SimulationArrays, p: int, which: int) -> int:
    """Return the first slot of a list (Replica.AR or TARGET) that is active and in the ISR, or NONE."""
    begin = sim.partitions[p, Partition.REPLICA_BEGIN]
    for slot in sim.replicas[begin : begin + sim.partitions[p, which], which]:
        if is_active(sim, p, slot) and contains(sim, Replica.ISR, p, slot):
            return int(slot)
    return NONE


@part
def first_active(sim: SimulationArrays, p: int) -> int:
    """Return the first slot of the AR that is active, or NONE."""
    begin = sim.partitions[p, Partition.REPLICA_BEGIN]
    for slot in sim.replicas[begin : begin + sim.partitions[p, Partition.AR_SIZE], Replica.AR]:
        if is_active(sim, p, slot):
            return int(slot)
    return NONE


@part
def set_leader(sim: SimulationArrays, p: int, leader: int, cause: int) -> None:
    """Write a leader, and the ISR as it is now, with the next leader epoch."""
    partition = sim.partitions[p]
    from_leader = partition[Partition.LEADER]
    partition[Partition.LEADER] = leader
    partition[Partition.LEADER_EPOCH] += 1
    write_leadership(sim, p, cause, from_leader)


@part
def write_leadership(sim: SimulationArrays, p: int, cause: int, from_leader: int) -> None:
    """Log the leader, epoch and ISR of p as they are now. `from_leader` is the slot that led before."""
    partition, cursor = sim.partitions[p], sim.cursor
    begin, size = partition[Partition.REPLICA_BEGIN], partition[Partition.ISR_SIZE]
    partition[Partition.CONTROLLER_EPOCH] = cursor[Cursor.CONTROLLER_EPOCH]
    if not cursor[Cursor.ENABLED]:
        return
    place = cursor[Cursor.LISTS]
    sim.written_lists[place] = size
    for i in range(size):
        sim.written_lists[place + 1 + i] = sim.replicas[begin + sim.replicas[begin + i, Replica.ISR], Replica.BROKER]
    row = sim.leaderships[cursor[Cursor.LEADERSHIPS]]
    row[LeadershipRow.EVENT], row[LeadershipRow.TIME] = cursor[Cursor.EVENT], cursor[Cursor.TIME]
    row[LeadershipRow.PARTITION], row[LeadershipRow.CAUSE], row[LeadershipRow.ISR] = p, cause, place
    row[LeadershipRow.FROM_BROKER] = broker_of(sim, p, from_leader)
    row[LeadershipRow.TO_BROKER] = broker_of(sim, p, partition[Partition.LEADER])
    row[LeadershipRow.LEADER_EPOCH] = partition[Partition.LEADER_EPOCH]
    row[LeadershipRow.CONTROLLER_EPOCH] = cursor[Cursor.CONTROLLER_EPOCH]
    cursor[Cursor.LEADERSHIPS] += 1
    cursor[Cursor.LISTS] = place + 1 + size


@part
def elect_leader(sim: SimulationArrays, p: int) -> bool:
    """Elect a leader for p, whose leader is down or missing, and return whether there is one now."""
    if uses_kraft(sim, p):
        return elect_kraft_leader(sim, p, ChangeCause.LEADER_FAILED)
    leader, cause = first_active_in_sync(sim, p, Replica.AR), ChangeCause.LEADER_FAILED
    if leader != NONE:
        set_isr_to_active(sim, p, Replica.ISR)
    elif sim.partitions[p, Partition.UNCLEAN_ELECTION]:
        leader, cause = first_active(sim, p), ChangeCause.UNCLEAN_ELECTION
        if leader != NONE:
            set_single_isr(sim, p, leader)
    if leader == NONE:
        return False
    set_leader(sim, p, leader, cause)
    set_partition_state(sim, p, PartitionState.ONLINE, cause)
    return True


@part
def elect_preferred_leader(sim: SimulationArrays, p: int, cause: int) -> None:
    """Elect the first replica of the AR if it is active and in the ISR."""
    partition = sim.partitions[p]
    if partition[Partition.AR_SIZE] == 0 or partition[Partition.DELETION]:
        return
    preferred = sim.replicas[partition[Partition.REPLICA_BEGIN], Replica.AR]
    electable = is_active(sim, p, preferred) and contains(sim, Replica.ISR, p, preferred)
    if electable and partition[Partition.LEADER] != preferred:
        set_leader(sim, p, preferred, cause)
        set_partition_state(sim, p, PartitionState.ONLINE, cause)


@part
def elect_kraft_leader(sim: SimulationArrays, p: int, cause: int) -> bool:
    """Elect a leader as KRaft does, and return whether there is one now; `cause`: of an election within the ISR."""
    # The first active replica of the ISR leads, else of the ELR, else the last known leader, else, if unclean elections
    # are allowed, any active one. Sources: PartitionChangeBuilder.electLeader, ClusterControlManager.isActive of 4.1.
    partition = sim.partitions[p]
    leader, clean_cause = first_active_in_sync(sim, p, Replica.AR), cause
    if leader == NONE and uses_elr(sim, p):
        for i in range(partition[Partition.AR_SIZE]):
            slot = sim.replicas[partition[Partition.REPLICA_BEGIN] + i, Replica.AR]
            if is_active(sim, p, slot) and contains(sim, Replica.ELR, p, slot):
                leader, cause = int(slot), ChangeCause.ELIGIBLE_LEADER_REPLICA
                break
        last = partition[Partition.LAST_KNOWN_LEADER]
        no_candidate = leader == NONE and partition[Partition.ELR_SIZE] == 0
        if no_candidate and last != NONE and is_active(sim, p, last):
            leader, cause = int(last), ChangeCause.LAST_KNOWN_LEADER
    if leader == NONE and partition[Partition.UNCLEAN_ELECTION]:
        leader, cause = first_active(sim, p), ChangeCause.UNCLEAN_ELECTION
    if leader == NONE:
        return False
    if cause != clean_cause:
        set_single_isr(sim, p, leader)
        remove_from_list(sim, Replica.ELR, p, leader)
        clear_unneeded_elr(sim, p)
    if cause in (ChangeCause.UNCLEAN_ELECTION, ChangeCause.LAST_KNOWN_LEADER):  # the ELR may miss committed messages
        partition[Partition.ELR_SIZE] = 0
    partition[Partition.LAST_KNOWN_LEADER] = NONE
    set_leader(sim, p, leader, cause)
    set_partition_state(sim, p, PartitionState.ONLINE, cause)
    return True


@part
def set_no_leader(sim: SimulationArrays, p: int) -> None:
    """Write that p has no leader, and take it offline."""
    set_leader(sim, p, NONE, ChangeCause.NO_LEADER)
    set_partition_state(sim, p, PartitionState.OFFLINE, ChangeCause.NO_LEADER)


@part
def fence_replica(sim: SimulationArrays, p: int, slot: int, cause: int) -> None:
    """Remove a replica from the ISR (KRaft), and elect another leader if it led."""
    # Source: ReplicationControlManager.generateLeaderAndIsrUpdates of 4.1.
    partition = sim.partitions[p]
    in_isr, leader = contains(sim, Replica.ISR, p, slot), partition[Partition.LEADER]
    if not in_isr and leader != slot:
        return
    with_elr = uses_elr(sim, p)
    is_last = in_isr and partition[Partition.ISR_SIZE] == 1
    leaves_isr = in_isr and (with_elr or not is_last)
    if leaves_isr:
        remove_from_list(sim, Replica.ISR, p, slot)
        if with_elr:
            append_to_list(sim, Replica.ELR, p, slot)
            clear_unneeded_elr(sim, p)
    if leader != slot:
        if leaves_isr:
            write_leadership(sim, p, ChangeCause.ISR_SHRINK, leader)
        return
    if with_elr and is_last:
        partition[Partition.LAST_KNOWN_LEADER] = slot
    if not elect_kraft_leader(sim, p, cause):
        set_no_leader(sim, p)


@part
def set_isr_to_active(sim: SimulationArrays, p: int, which: int) -> None:
    """Make the active replicas of a list (Replica.AR or ISR) the ISR, in their order."""
    begin, new_size = sim.partitions[p, Partition.REPLICA_BEGIN], 0
    for slot in sim.replicas[begin : begin + sim.partitions[p, which], which]:
        if is_active(sim, p, slot):
            sim.replicas[begin + new_size, Replica.ISR] = slot
            new_size += 1
    sim.partitions[p, Partition.ISR_SIZE] = new_size


@part
def remove_from_isr(sim: SimulationArrays, p: int, slot: int, cause: int = NONE) -> None:
    """Remove an offline replica from the ISR unless it is the last one, and write the next epoch (ZooKeeper)."""
    partition = sim.partitions[p]
    if not contains(sim, Replica.ISR, p, slot):
        return
    if partition[Partition.ISR_SIZE] > 1:
        remove_from_list(sim, Replica.ISR, p, slot)
    leader = NONE if partition[Partition.LEADER] == slot else partition[Partition.LEADER]
    if cause == NONE:
        cause = ChangeCause.NO_LEADER if leader == NONE else ChangeCause.ISR_SHRINK
    set_leader(sim, p, leader, cause)


@part
def write_isr_change(sim: SimulationArrays, p: int, old_isr: Ints, cause: int) -> None:
    """Log an ISR that its leader has changed. Replicas that left it become eligible leaders, members need not be."""
    # If the ISR completes a reassignment, only the ISR after that counts: Kafka writes both in one record.
    if uses_elr(sim, p):
        add_to_elr(sim, p, old_isr)
    if not can_complete_reassignment(sim, p):
        remove_isr_from_elr(sim, p)
    write_leadership(sim, p, cause, sim.partitions[p, Partition.LEADER])


@part
def add_to_elr(sim: SimulationArrays, p: int, slots: Ints) -> None:
    """Append the slots that the ELR lacks."""
    for slot in slots:
        if not contains(sim, Replica.ELR, p, slot):
            append_to_list(sim, Replica.ELR, p, slot)


@part
def remove_isr_from_elr(sim: SimulationArrays, p: int) -> None:
    """Remove the members of the ISR from the ELR, and all others if the ISR is large enough."""
    begin = sim.partitions[p, Partition.REPLICA_BEGIN]
    for slot in sim.replicas[begin : begin + sim.partitions[p, Partition.ISR_SIZE], Replica.ISR]:
        remove_from_list(sim, Replica.ELR, p, slot)
    clear_unneeded_elr(sim, p)


@part
def revoke_eligibility(sim: SimulationArrays, p: int, slot: int) -> None:
    """Remove a replica from ELR and ISR: its broker returns from an unclean stop and may have lost messages."""
    # Source: ReplicationControlManager.handleBrokerShutdown of 4.1.
    leader = sim.partitions[p, Partition.LEADER]
    leaves_isr = contains(sim, Replica.ISR, p, slot) and leader != slot
    if leaves_isr:
        remove_from_list(sim, Replica.ISR, p, slot)
    if leaves_isr or contains(sim, Replica.ELR, p, slot):
        remove_from_list(sim, Replica.ELR, p, slot)
        clear_unneeded_elr(sim, p)
    if leaves_isr:
        write_leadership(sim, p, ChangeCause.ISR_SHRINK, leader)


@part
def clear_unneeded_elr(sim: SimulationArrays, p: int) -> None:
    """Clear the ELR if the ISR has reached its minimum or contains all replicas."""
    clear_elr_beyond(sim, p, sim.partitions[p, Partition.AR_SIZE])


@part
def clear_elr_beyond(sim: SimulationArrays, p: int, replicas: int) -> None:
    """Clear the ELR if the ISR has reached its minimum or the size of a whole ISR of this many replicas."""
    # Replicas that left the ISR are in the ELR already. Source: PartitionChangeBuilder.maybePopulateTargetElr of 4.1.
    partition = sim.partitions[p]
    if partition[Partition.ISR_SIZE] >= min(partition[Partition.MIN_ISR], replicas):
        partition[Partition.ELR_SIZE] = 0
