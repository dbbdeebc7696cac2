"""What the controller does to a partition at a step of the cluster timeline or an event of the partition.

Sources: KafkaController of 2.8 (ZooKeeper), ReplicationControlManager of 4.1 (KRaft); see docs/replay.md.
"""

from udfs.kernel_compiler import copying_part, part
from udfs.simulation.kernels import controller_elections as elections
from udfs.simulation.kernels import partition_reassignment
from udfs.simulation.kernels.codes import NONE, ChangeCause, EventKind, PartitionState, ReplicaState
from udfs.simulation.kernels.metadata_records import apply_record, forget_partition
from udfs.simulation.kernels.partition_state import (
    contains,
    is_active,
    is_live,
    replace_list,
    reset_partition,
    serving_leader,
    set_partition_state,
    set_replica_state,
    stop_replica_for_deletion,
    uses_elr,
    uses_kraft,
)
from udfs.simulation.kernels.simulation_arrays import (
    Deletion,
    Ints,
    Partition,
    PartitionEvent,
    Replica,
    SimulationArrays,
    StepKind,
)


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
            elections.revoke_eligibility(sim, p, slot)
        if contains(sim, Replica.AR, p, slot):
            set_replica_state(sim, p, slot, ReplicaState.ONLINE, ChangeCause.METADATA_UPDATE)
        _retry_election(sim, p)  # a broker that is back may lead partitions that have no leader
        if kind == StepKind.BROKER_UP and contains(sim, Replica.TARGET, p, slot):
            partition_reassignment.resume_reassignment(sim, p)
    elif kind == StepKind.CONTROLLED_SHUTDOWN:
        _on_controlled_shutdown(sim, p, slot)
    elif kind == StepKind.LEADER_REBALANCE:
        # With ZooKeeper a partition under reassignment waits.
        waits = sim.partitions[p, Partition.TARGET_SIZE] > 0 and not uses_kraft(sim, p)
        is_preferred = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN], Replica.AR] == slot
        if counts_for_rebalance(sim, p) and is_preferred and not waits:
            elections.elect_preferred_leader(sim, p, ChangeCause.AUTO_REBALANCE)
    elif kind == StepKind.BROKER_FENCED and contains(sim, Replica.AR, p, slot):
        set_replica_state(sim, p, slot, ReplicaState.OFFLINE, ChangeCause.LEADER_FAILED)  # records have the rest
    elif kind == StepKind.BROKER_UNFENCED and contains(sim, Replica.AR, p, slot):
        set_replica_state(sim, p, slot, ReplicaState.ONLINE, ChangeCause.METADATA_UPDATE)


@part
def _apply_step_during_deletion(sim: SimulationArrays, p: int, kind: int, slot: int) -> None:
    """Apply a step to a partition whose topic is being deleted: no elections, only reassignments continue."""
    if kind in (StepKind.CONTROLLER_DOWN, StepKind.CONTROLLER_FAILOVER, StepKind.CONTROLLER_UP):
        _requeue_deletion(sim, p)
        partition_reassignment.resume_reassignment(sim, p)
    if not contains(sim, Replica.AR, p, slot):
        return
    if kind == StepKind.BROKER_DOWN:
        set_replica_state(sim, p, slot, ReplicaState.DELETION_INELIGIBLE, ChangeCause.TOPIC_DELETION)
    elif kind in (StepKind.BROKER_UP, StepKind.CONTROLLER_UP):
        set_replica_state(sim, p, slot, ReplicaState.ONLINE, ChangeCause.METADATA_UPDATE)
        if kind == StepKind.BROKER_UP and contains(sim, Replica.TARGET, p, slot):
            partition_reassignment.resume_reassignment(sim, p)
        if sim.partitions[p, Partition.DELETION] == Deletion.STARTED:
            _delete_replicas(sim, p)


@part
def counts_for_rebalance(sim: SimulationArrays, p: int) -> bool:
    """Return whether p counts when the controller looks for imbalanced leaders."""
    partition = sim.partitions[p]
    exists = partition[Partition.STATE] != PartitionState.NON_EXISTENT and partition[Partition.AR_SIZE] > 0
    return bool(exists and partition[Partition.DELETION] == Deletion.NONE)


@part
def _retry_election(sim: SimulationArrays, p: int) -> None:
    is_offline = sim.partitions[p, Partition.STATE] == PartitionState.OFFLINE
    if sim.partitions[p, Partition.STATE] == PartitionState.NEW:
        _initialize_leader(sim, p)
    elif is_offline and elections.elect_leader(sim, p) and not uses_kraft(sim, p):
        # Any new ISR may complete a reassignment: processPartitionReassignmentIsrChange.
        partition_reassignment.complete_reassignment(sim, p)


@part
def _on_broker_failure(sim: SimulationArrays, p: int, slot: int) -> None:
    """Handle the end of a broker's session, or a broker that is fenced."""
    is_leader = slot != NONE and sim.partitions[p, Partition.LEADER] == slot
    if uses_kraft(sim, p):
        if slot != NONE:
            elections.fence_replica(sim, p, slot, ChangeCause.LEADER_FAILED)
        if contains(sim, Replica.AR, p, slot):
            cause = ChangeCause.LEADER_FAILED if is_leader else ChangeCause.ISR_SHRINK
            set_replica_state(sim, p, slot, ReplicaState.OFFLINE, cause)
        return
    if is_leader:
        set_partition_state(sim, p, PartitionState.OFFLINE, ChangeCause.LEADER_FAILED)
    _retry_election(sim, p)
    if contains(sim, Replica.AR, p, slot):
        elections.remove_from_isr(sim, p, slot)
        set_replica_state(sim, p, slot, ReplicaState.OFFLINE, ChangeCause.ISR_SHRINK)


@part
def _on_controller_failover(sim: SimulationArrays, p: int) -> None:
    """Start a new controller (ZooKeeper): it shrinks the ISR to live brokers, elects, and resumes what waits."""
    # With KRaft the metadata log has everything, so nothing is read or written again.
    partition = sim.partitions[p]
    if uses_kraft(sim, p):
        return
    begin = partition[Partition.REPLICA_BEGIN]
    for slot in sim.replicas[begin : begin + partition[Partition.AR_SIZE], Replica.AR]:
        if not is_live(sim, p, slot):
            elections.remove_from_isr(sim, p, slot)
            set_replica_state(sim, p, slot, ReplicaState.OFFLINE, ChangeCause.ISR_SHRINK)
    if partition[Partition.STATE] == PartitionState.ONLINE and serving_leader(sim, p) == NONE:
        set_partition_state(sim, p, PartitionState.OFFLINE, ChangeCause.LEADER_FAILED)
    _retry_election(sim, p)
    partition_reassignment.resume_reassignment(sim, p)


@part
def _on_controlled_shutdown(sim: SimulationArrays, p: int, slot: int) -> None:
    """Move leadership away from a broker that is about to stop, and remove it from the ISR."""
    partition = sim.partitions[p]
    kraft = uses_kraft(sim, p)
    if not contains(sim, Replica.AR, p, slot) or (not kraft and partition[Partition.AR_SIZE] < 2):
        return
    if kraft:
        elections.fence_replica(sim, p, slot, ChangeCause.CONTROLLED_SHUTDOWN)
    elif partition[Partition.LEADER] == slot:
        leader = elections.first_active_in_sync(sim, p, Replica.AR)
        if leader != NONE:
            elections.set_isr_to_active(sim, p, Replica.ISR)
            elections.set_leader(sim, p, leader, ChangeCause.CONTROLLED_SHUTDOWN)
            set_partition_state(sim, p, PartitionState.ONLINE, ChangeCause.CONTROLLED_SHUTDOWN)
    else:
        elections.remove_from_isr(sim, p, slot)
        set_replica_state(sim, p, slot, ReplicaState.OFFLINE, ChangeCause.CONTROLLED_SHUTDOWN)


@part
def _create_partition(sim: SimulationArrays, p: int, lists: Ints, place: int) -> None:
    """Create p with the AR at this place of `lists`, unless it still exists."""
    # With ZooKeeper replicas on down brokers go online too: KafkaController.onNewPartitionCreation.
    partition = sim.partitions[p]
    if partition[Partition.DELETION] or not set_partition_state(sim, p, PartitionState.NEW, ChangeCause.CREATED):
        return
    slots = lists[place + 1 : place + 1 + lists[place]]
    replace_list(sim, Replica.AR, p, lists, place)
    for slot in slots:
        set_replica_state(sim, p, slot, ReplicaState.NEW, ChangeCause.CREATED)
    _initialize_leader(sim, p)
    for slot in slots:
        is_online = is_live(sim, p, slot) or not uses_kraft(sim, p)
        set_replica_state(sim, p, slot, ReplicaState.ONLINE if is_online else ReplicaState.OFFLINE, ChangeCause.CREATED)


@part
def _initialize_leader(sim: SimulationArrays, p: int) -> None:
    """Bring a new partition online with its active replicas as ISR, the first as leader. Without any it stays new."""
    partition = sim.partitions[p]
    elections.set_isr_to_active(sim, p, Replica.AR)
    if partition[Partition.ISR_SIZE] == 0:
        return
    partition[Partition.LEADER] = sim.replicas[partition[Partition.REPLICA_BEGIN], Replica.ISR]
    partition[Partition.LEADER_EPOCH] = 0
    elections.write_leadership(sim, p, ChangeCause.CREATED, NONE)
    set_partition_state(sim, p, PartitionState.ONLINE, ChangeCause.CREATED)


@copying_part
def _alter_isr(sim: SimulationArrays, p: int, lists: Ints, place: int) -> None:
    """Set the ISR as the leader asks; the epoch stays. Nothing changes without a leader or if it leaves itself out."""
    # With KRaft every member must be active. Source: ReplicationControlManager.ineligibleReplicasForIsr of 4.1.
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
        elections.clear_unneeded_elr(sim, p)
    else:
        old_isr = sim.replicas[begin : begin + old_size, Replica.ISR].copy()
        replace_list(sim, Replica.ISR, p, lists, place)
        cause = ChangeCause.ISR_EXPAND if size > old_size else ChangeCause.ISR_SHRINK
        elections.write_isr_change(sim, p, old_isr, cause)
    partition_reassignment.complete_reassignment(sim, p)


@part
def apply_event(sim: SimulationArrays, p: int, event: int) -> None:
    """Apply the event at this row of `events`, which concerns the controller."""
    partition, lists = sim.partitions[p], sim.lists
    kind, place = sim.events[event, PartitionEvent.KIND], sim.events[event, PartitionEvent.LIST]
    value = sim.events[event, PartitionEvent.VALUE]
    if kind == EventKind.CREATE_PARTITION:
        if value == 0:  # the request is not rejected
            _create_partition(sim, p, lists, place)
    elif EventKind.TOPIC_DELETION_STARTED <= kind <= EventKind.CREATION_BLOCKED:
        apply_deletion(sim, p, kind)
    elif kind == EventKind.PARTITION_RECORD:
        apply_record(sim, p, lists, place, value)
    elif partition[Partition.STATE] == PartitionState.NON_EXISTENT:
        return
    elif kind == EventKind.DELETE_PARTITION and not uses_kraft(sim, p):
        if partition[Partition.DELETION] == Deletion.NONE:
            partition[Partition.DELETION] = Deletion.QUEUED
    elif kind in (EventKind.REMOVE_PARTITION, EventKind.DELETE_PARTITION):
        forget_partition(sim, p)  # with KRaft the topic is removed with its record: nothing waits
    elif kind == EventKind.REASSIGN_PARTITION:
        partition_reassignment.reassign_partition(sim, p, lists, place, value)
    elif kind == EventKind.ELECT_PREFERRED_LEADER:
        elections.elect_preferred_leader(sim, p, ChangeCause.PREFERRED_ELECTION)
    elif kind == EventKind.SET_UNCLEAN_ELECTION:
        partition[Partition.UNCLEAN_ELECTION] = value != 0
        is_leaderless = partition[Partition.STATE] == PartitionState.OFFLINE and partition[Partition.LEADER] == NONE
        if value and is_leaderless and partition[Partition.DELETION] == Deletion.NONE:
            _retry_election(sim, p)
    elif kind == EventKind.SET_MIN_ISR:
        partition[Partition.MIN_ISR] = value
    elif kind == EventKind.ALTER_ISR:
        _alter_isr(sim, p, lists, place)
    elif kind == EventKind.CLEAR_ELR:
        partition[Partition.ELR_SIZE], partition[Partition.LAST_KNOWN_LEADER] = 0, NONE


# ---- deletions of topics (ZooKeeper); joint_actions.py decides when that of a whole topic starts and ends


@part
def apply_deletion(sim: SimulationArrays, p: int, kind: int) -> None:
    """Start or complete the deletion of p's topic, or block p's creation as its topic is still being deleted."""
    partition = sim.partitions[p]
    begin = partition[Partition.REPLICA_BEGIN]
    if kind == EventKind.CREATION_BLOCKED:
        partition[Partition.DELETION] = Deletion.QUEUED
    elif kind == EventKind.TOPIC_DELETION_STARTED:
        _start_topic_deletion(sim, p)
    else:
        for slot in sim.replicas[begin : begin + partition[Partition.AR_SIZE], Replica.AR]:
            set_replica_state(sim, p, slot, ReplicaState.NON_EXISTENT, ChangeCause.TOPIC_DELETION)
        reset_partition(sim, p)


@part
def _start_topic_deletion(sim: SimulationArrays, p: int) -> None:
    """Take p away and delete its replicas. Replicas on down brokers wait."""
    partition = sim.partitions[p]
    begin = partition[Partition.REPLICA_BEGIN]
    partition[Partition.DELETION] = Deletion.STARTED
    if partition[Partition.AR_SIZE] == 0:
        return  # its creation was rejected
    if partition[Partition.STATE] == PartitionState.NON_EXISTENT:
        # An earlier controller deleted a part of it; the present one has read its znode.
        partition[Partition.STATE] = PartitionState.OFFLINE
    set_partition_state(sim, p, PartitionState.OFFLINE, ChangeCause.TOPIC_DELETION)
    set_partition_state(sim, p, PartitionState.NON_EXISTENT, ChangeCause.TOPIC_DELETION)
    for slot in sim.replicas[begin : begin + partition[Partition.AR_SIZE], Replica.AR]:
        if not is_live(sim, p, slot):
            set_replica_state(sim, p, slot, ReplicaState.DELETION_INELIGIBLE, ChangeCause.TOPIC_DELETION)
    _delete_replicas(sim, p)


@part
def _delete_replicas(sim: SimulationArrays, p: int) -> None:
    """Stop and delete all replicas on live brokers that are not deleted yet. They leave the ISR first."""
    begin = sim.partitions[p, Partition.REPLICA_BEGIN]
    for slot in sim.replicas[begin : begin + sim.partitions[p, Partition.AR_SIZE], Replica.AR]:
        is_deleted = sim.replicas[begin + slot, Replica.STATE] == ReplicaState.DELETION_SUCCESSFUL
        if is_live(sim, p, slot) and not is_deleted:
            elections.remove_from_isr(sim, p, slot, ChangeCause.TOPIC_DELETION)
            stop_replica_for_deletion(sim, p, slot, ChangeCause.TOPIC_DELETION)


@part
def all_replicas_deleted(sim: SimulationArrays, p: int) -> bool:
    """Return whether every replica of p is deleted."""
    begin, all_deleted = sim.partitions[p, Partition.REPLICA_BEGIN], True
    for slot in sim.replicas[begin : begin + sim.partitions[p, Partition.AR_SIZE], Replica.AR]:
        is_deleted = sim.replicas[begin + slot, Replica.STATE] == ReplicaState.DELETION_SUCCESSFUL
        all_deleted = all_deleted and is_deleted
    return all_deleted


@part
def _requeue_deletion(sim: SimulationArrays, p: int) -> None:
    """Queue the deletion of p again: a new controller does not know which replicas are already deleted."""
    begin = sim.partitions[p, Partition.REPLICA_BEGIN]
    for slot in sim.replicas[begin : begin + sim.partitions[p, Partition.AR_SIZE], Replica.AR]:
        live = is_live(sim, p, slot)
        if sim.replicas[begin + slot, Replica.STATE] == ReplicaState.DELETION_SUCCESSFUL:
            unknown_state = ReplicaState.ONLINE if live else ReplicaState.DELETION_INELIGIBLE
            sim.replicas[begin + slot, Replica.STATE] = unknown_state
        if not live:  # it does this for every partition before it looks at deletions
            elections.remove_from_isr(sim, p, slot, ChangeCause.ISR_SHRINK)
            set_replica_state(sim, p, slot, ReplicaState.OFFLINE, ChangeCause.ISR_SHRINK)
    sim.partitions[p, Partition.DELETION] = Deletion.QUEUED
