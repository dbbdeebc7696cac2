"""What the controller does to a partition at a step of the cluster timeline or an event of the partition.

Sources: KafkaController of 2.8 (ZooKeeper), ReplicationControlManager of 4.1 (KRaft); see docs/replay.md.
"""

from udfs.kernel_compiler import copying_part, part
from udfs.simulation.kernels.broker_liveness import is_active, is_live, serving_leader
from udfs.simulation.kernels.codes import NONE, ChangeCause, PartitionState, ReplicaState
from udfs.simulation.kernels.controller_elections import (
    clear_unneeded_elr,
    elect_leader,
    elect_preferred_leader,
    fence_replica,
    first_active_in_sync,
    keep_active_in_isr,
    remove_from_isr,
    revoke_eligibility,
    set_isr_to_active,
    set_leader,
    write_isr_change,
    write_leadership,
)
from udfs.simulation.kernels.metadata_records import set_replica_fenced
from udfs.simulation.kernels.partition_reassignment import complete_reassignment, resume_reassignment
from udfs.simulation.kernels.replica_lists import contains, replace_list, uses_elr, uses_kraft
from udfs.simulation.kernels.simulation_arrays import Deletion, Ints, Partition, Replica, SimulationArrays, StepKind
from udfs.simulation.kernels.state_machines import set_partition_state, set_replica_state
from udfs.simulation.kernels.topic_deletion import delete_replicas, requeue_deletion


@part
def apply_step(sim: SimulationArrays, p: int, kind: int, slot: int) -> None:
    """Apply a step of the timeline (StepKind) to p. The slot is that of the step's broker, or NONE."""
    if sim.partitions[p, Partition.DELETION]:
        _apply_step_during_deletion(sim, p, kind, slot)
    elif sim.partitions[p, Partition.STATE] == PartitionState.NON_EXISTENT:
        return
    elif kind == StepKind.BROKER_DOWN:
        _on_broker_failure(sim, p, slot)
    elif kind in (StepKind.CONTROLLER_DOWN, StepKind.CONTROLLER_FAILOVER):
        _on_controller_failover(sim, p)
    elif kind in (StepKind.BROKER_UP, StepKind.CONTROLLER_UP, StepKind.UNCLEAN_BROKER_UP):
        if kind == StepKind.CONTROLLER_UP:
            _on_controller_failover(sim, p)
        elif kind == StepKind.UNCLEAN_BROKER_UP and slot != NONE and uses_elr(sim, p):
            revoke_eligibility(sim, p, slot)
        _on_broker_startup(sim, p, slot)
        if kind == StepKind.BROKER_UP and slot != NONE and contains(sim, Replica.TARGET, p, slot):
            resume_reassignment(sim, p)
    elif kind == StepKind.CONTROLLED_SHUTDOWN:
        _on_controlled_shutdown(sim, p, slot)
    elif kind == StepKind.LEADER_REBALANCE:
        _rebalance_leader(sim, p, slot)
    elif kind in (StepKind.BROKER_FENCED, StepKind.BROKER_UNFENCED) and slot != NONE:
        set_replica_fenced(sim, p, slot, kind == StepKind.BROKER_FENCED)


@part
def _apply_step_during_deletion(sim: SimulationArrays, p: int, kind: int, slot: int) -> None:
    """Apply a step to a partition whose topic is being deleted: no elections, only reassignments continue."""
    if kind in (StepKind.CONTROLLER_DOWN, StepKind.CONTROLLER_FAILOVER, StepKind.CONTROLLER_UP):
        requeue_deletion(sim, p)
        resume_reassignment(sim, p)
    if slot == NONE or not contains(sim, Replica.AR, p, slot):
        return
    if kind == StepKind.BROKER_DOWN:
        set_replica_state(sim, p, slot, ReplicaState.DELETION_INELIGIBLE, ChangeCause.TOPIC_DELETION)
    elif kind in (StepKind.BROKER_UP, StepKind.CONTROLLER_UP):
        set_replica_state(sim, p, slot, ReplicaState.ONLINE, ChangeCause.METADATA_UPDATE)
        if kind == StepKind.BROKER_UP and contains(sim, Replica.TARGET, p, slot):
            resume_reassignment(sim, p)
        if sim.partitions[p, Partition.DELETION] == Deletion.STARTED:
            delete_replicas(sim, p)


@part
def counts_for_rebalance(sim: SimulationArrays, p: int) -> bool:
    """Return whether p counts when the controller looks for imbalanced leaders."""
    partition = sim.partitions[p]
    exists = partition[Partition.STATE] != PartitionState.NON_EXISTENT and partition[Partition.AR_SIZE] > 0
    counts: bool = exists and partition[Partition.DELETION] == Deletion.NONE
    return counts


@part
def _rebalance_leader(sim: SimulationArrays, p: int, slot: int) -> None:
    """Elect the preferred leader if it is this slot. With ZooKeeper a partition under reassignment waits."""
    partition = sim.partitions[p]
    waits = partition[Partition.TARGET_SIZE] > 0 and not uses_kraft(sim, p)
    is_preferred = sim.replicas[partition[Partition.REPLICA_BEGIN], Replica.AR] == slot
    if counts_for_rebalance(sim, p) and is_preferred and not waits:
        elect_preferred_leader(sim, p, ChangeCause.AUTO_REBALANCE)


@part
def retry_election(sim: SimulationArrays, p: int) -> None:
    """Try to elect a leader if p is new or offline."""
    is_offline = sim.partitions[p, Partition.STATE] == PartitionState.OFFLINE
    if sim.partitions[p, Partition.STATE] == PartitionState.NEW:
        _initialize_leader(sim, p)
    elif is_offline and elect_leader(sim, p) and not uses_kraft(sim, p):
        # Any new ISR may complete a reassignment: processPartitionReassignmentIsrChange.
        complete_reassignment(sim, p)


@part
def _on_broker_failure(sim: SimulationArrays, p: int, slot: int) -> None:
    """Handle the end of a broker's session, or a broker that is fenced."""
    is_leader = slot != NONE and sim.partitions[p, Partition.LEADER] == slot
    if uses_kraft(sim, p):
        if slot != NONE:
            fence_replica(sim, p, slot, ChangeCause.LEADER_FAILED)
        if contains(sim, Replica.AR, p, slot):
            cause = ChangeCause.LEADER_FAILED if is_leader else ChangeCause.ISR_SHRINK
            set_replica_state(sim, p, slot, ReplicaState.OFFLINE, cause)
        return
    if is_leader:
        set_partition_state(sim, p, PartitionState.OFFLINE, ChangeCause.LEADER_FAILED)
    retry_election(sim, p)
    if contains(sim, Replica.AR, p, slot):
        remove_from_isr(sim, p, slot)
        set_replica_state(sim, p, slot, ReplicaState.OFFLINE, ChangeCause.ISR_SHRINK)


@part
def _on_controller_failover(sim: SimulationArrays, p: int) -> None:
    """Start a new controller (ZooKeeper): it shrinks the ISR to live brokers, elects, and resumes what waits.

    With KRaft the metadata log has everything, so nothing is read or written again.
    """
    partition = sim.partitions[p]
    if uses_kraft(sim, p):
        return
    for i in range(partition[Partition.AR_SIZE]):
        slot = sim.replicas[partition[Partition.REPLICA_BEGIN] + i, Replica.AR]
        if not is_live(sim, p, slot):
            remove_from_isr(sim, p, slot)
            set_replica_state(sim, p, slot, ReplicaState.OFFLINE, ChangeCause.ISR_SHRINK)
    if partition[Partition.STATE] == PartitionState.ONLINE and serving_leader(sim, p) == NONE:
        set_partition_state(sim, p, PartitionState.OFFLINE, ChangeCause.LEADER_FAILED)
    retry_election(sim, p)
    resume_reassignment(sim, p)


@part
def _on_broker_startup(sim: SimulationArrays, p: int, slot: int) -> None:
    """Handle a broker that has registered or is unfenced: it may lead partitions that have no leader."""
    if slot != NONE and contains(sim, Replica.AR, p, slot):
        set_replica_state(sim, p, slot, ReplicaState.ONLINE, ChangeCause.METADATA_UPDATE)
    retry_election(sim, p)


@part
def _on_controlled_shutdown(sim: SimulationArrays, p: int, slot: int) -> None:
    """Move leadership away from a broker that is about to stop, and remove it from the ISR."""
    partition = sim.partitions[p]
    kraft = uses_kraft(sim, p)
    if not contains(sim, Replica.AR, p, slot) or (not kraft and partition[Partition.AR_SIZE] < 2):
        return
    if kraft:
        fence_replica(sim, p, slot, ChangeCause.CONTROLLED_SHUTDOWN)
    elif partition[Partition.LEADER] == slot:
        leader = first_active_in_sync(sim, p, Replica.AR)
        if leader != NONE:
            keep_active_in_isr(sim, p)
            set_leader(sim, p, leader, ChangeCause.CONTROLLED_SHUTDOWN)
            set_partition_state(sim, p, PartitionState.ONLINE, ChangeCause.CONTROLLED_SHUTDOWN)
    else:
        remove_from_isr(sim, p, slot)
        set_replica_state(sim, p, slot, ReplicaState.OFFLINE, ChangeCause.CONTROLLED_SHUTDOWN)


@part
def create_partition(sim: SimulationArrays, p: int, lists: Ints, place: int) -> None:
    """Create p with the AR at this place of `lists`, unless it still exists.

    With ZooKeeper replicas on down brokers go online too: KafkaController.onNewPartitionCreation.
    """
    partition = sim.partitions[p]
    if partition[Partition.DELETION] or not set_partition_state(sim, p, PartitionState.NEW, ChangeCause.CREATED):
        return
    replace_list(sim, Replica.AR, p, lists, place)
    for i in range(lists[place]):
        set_replica_state(sim, p, lists[place + 1 + i], ReplicaState.NEW, ChangeCause.CREATED)
    _initialize_leader(sim, p)
    kraft = uses_kraft(sim, p)
    for i in range(lists[place]):
        slot = lists[place + 1 + i]
        is_online = not kraft or is_live(sim, p, slot)
        replica_state = ReplicaState.ONLINE if is_online else ReplicaState.OFFLINE
        set_replica_state(sim, p, slot, replica_state, ChangeCause.CREATED)


@part
def _initialize_leader(sim: SimulationArrays, p: int) -> None:
    """Bring a new partition online with its active replicas as ISR, the first as leader. Without any it stays new."""
    partition = sim.partitions[p]
    set_isr_to_active(sim, p, Replica.AR, partition[Partition.AR_SIZE])
    if partition[Partition.ISR_SIZE] == 0:
        return
    partition[Partition.LEADER] = sim.replicas[partition[Partition.REPLICA_BEGIN], Replica.ISR]
    partition[Partition.LEADER_EPOCH] = 0
    write_leadership(sim, p, ChangeCause.CREATED, NONE)
    set_partition_state(sim, p, PartitionState.ONLINE, ChangeCause.CREATED)


@copying_part
def alter_isr(sim: SimulationArrays, p: int, lists: Ints, place: int) -> None:
    """Set the ISR as the leader asks; the epoch stays. Nothing changes without a leader or if it leaves itself out.

    With KRaft every member must be active. Source: ReplicationControlManager.ineligibleReplicasForIsr of 4.1.
    """
    partition = sim.partitions[p]
    begin, size, old_size = partition[Partition.REPLICA_BEGIN], lists[place], partition[Partition.ISR_SIZE]
    kraft, has_leader, is_same = uses_kraft(sim, p), False, size == old_size
    for i in range(size):
        slot = lists[place + 1 + i]
        has_leader = has_leader or slot == partition[Partition.LEADER]
        is_same = is_same and slot == sim.replicas[begin + i, Replica.ISR]
        if kraft and not is_active(sim, p, slot):
            return
    if partition[Partition.LEADER] == NONE or not has_leader or (is_same and not kraft):
        return
    if is_same:
        clear_unneeded_elr(sim, p)
    else:
        old_isr = sim.replicas[begin : begin + old_size, Replica.ISR].copy()
        replace_list(sim, Replica.ISR, p, lists, place)
        cause = ChangeCause.ISR_EXPAND if size > old_size else ChangeCause.ISR_SHRINK
        write_isr_change(sim, p, old_isr, cause)
    complete_reassignment(sim, p)
