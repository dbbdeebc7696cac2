"""Deletion of a topic by a ZooKeeper controller, for one of its partitions.

joint_actions.py decides when the deletion of the whole topic starts and ends.
Sources: TopicDeletionManager, ReplicaStateMachine of Kafka 2.8.
"""

from udfs.kernel_compiler import part
from udfs.simulation.kernels.broker_liveness import is_live
from udfs.simulation.kernels.codes import ChangeCause, PartitionState, ReplicaState
from udfs.simulation.kernels.controller_elections import remove_from_isr
from udfs.simulation.kernels.simulation_arrays import Deletion, Partition, Replica, SimulationArrays
from udfs.simulation.kernels.state_machines import reset_partition, set_partition_state, set_replica_state


@part
def start_topic_deletion(sim: SimulationArrays, p: int) -> None:
    """Take p away and delete its replicas. Replicas on down brokers wait."""
    partition = sim.partitions[p]
    partition[Partition.DELETION] = Deletion.STARTED
    if partition[Partition.AR_SIZE] == 0:
        return  # its creation was rejected
    if partition[Partition.STATE] == PartitionState.NON_EXISTENT:
        # An earlier controller deleted a part of it; the present one has read its znode.
        partition[Partition.STATE] = PartitionState.OFFLINE
    set_partition_state(sim, p, PartitionState.OFFLINE, ChangeCause.TOPIC_DELETION)
    set_partition_state(sim, p, PartitionState.NON_EXISTENT, ChangeCause.TOPIC_DELETION)
    for i in range(partition[Partition.AR_SIZE]):
        slot = sim.replicas[partition[Partition.REPLICA_BEGIN] + i, Replica.AR]
        if not is_live(sim, p, slot):
            set_replica_state(sim, p, slot, ReplicaState.DELETION_INELIGIBLE, ChangeCause.TOPIC_DELETION)
    delete_replicas(sim, p)


@part
def delete_replicas(sim: SimulationArrays, p: int) -> None:
    """Stop and delete all replicas on live brokers that are not deleted yet. They leave the ISR first."""
    partition = sim.partitions[p]
    begin = partition[Partition.REPLICA_BEGIN]
    for i in range(partition[Partition.AR_SIZE]):
        slot = sim.replicas[begin + i, Replica.AR]
        is_deleted = sim.replicas[begin + slot, Replica.STATE] == ReplicaState.DELETION_SUCCESSFUL
        if is_live(sim, p, slot) and not is_deleted:
            remove_from_isr(sim, p, slot, ChangeCause.TOPIC_DELETION)
            set_replica_state(sim, p, slot, ReplicaState.OFFLINE, ChangeCause.TOPIC_DELETION)
            set_replica_state(sim, p, slot, ReplicaState.DELETION_STARTED, ChangeCause.TOPIC_DELETION)
            set_replica_state(sim, p, slot, ReplicaState.DELETION_SUCCESSFUL, ChangeCause.TOPIC_DELETION)


@part
def all_replicas_deleted(sim: SimulationArrays, p: int) -> bool:
    """Return whether every replica of p is deleted."""
    partition = sim.partitions[p]
    begin = partition[Partition.REPLICA_BEGIN]
    for i in range(partition[Partition.AR_SIZE]):
        slot = sim.replicas[begin + i, Replica.AR]
        if sim.replicas[begin + slot, Replica.STATE] != ReplicaState.DELETION_SUCCESSFUL:
            return False
    return True


@part
def complete_topic_deletion(sim: SimulationArrays, p: int) -> None:
    """Remove p with its topic."""
    partition = sim.partitions[p]
    for i in range(partition[Partition.AR_SIZE]):
        slot = sim.replicas[partition[Partition.REPLICA_BEGIN] + i, Replica.AR]
        set_replica_state(sim, p, slot, ReplicaState.NON_EXISTENT, ChangeCause.TOPIC_DELETION)
    reset_partition(sim, p)


@part
def requeue_deletion(sim: SimulationArrays, p: int) -> None:
    """Queue the deletion of p again: a new controller does not know which replicas are already deleted."""
    partition = sim.partitions[p]
    begin = partition[Partition.REPLICA_BEGIN]
    for i in range(partition[Partition.AR_SIZE]):
        slot = sim.replicas[begin + i, Replica.AR]
        live = is_live(sim, p, slot)
        if sim.replicas[begin + slot, Replica.STATE] == ReplicaState.DELETION_SUCCESSFUL:
            unknown_state = ReplicaState.ONLINE if live else ReplicaState.DELETION_INELIGIBLE
            sim.replicas[begin + slot, Replica.STATE] = unknown_state
        if not live:  # it does this for every partition before it looks at deletions
            remove_from_isr(sim, p, slot, ChangeCause.ISR_SHRINK)
            set_replica_state(sim, p, slot, ReplicaState.OFFLINE, ChangeCause.ISR_SHRINK)
    partition[Partition.DELETION] = Deletion.QUEUED
