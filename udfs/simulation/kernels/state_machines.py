"""State machines of partitions and replicas: every transition is checked and logged.

Sources: PartitionStateMachine, ReplicaStateMachine of Kafka 2.8.
"""

from udfs.kernel_compiler import part
from udfs.simulation.kernels.broker_liveness import broker_of
from udfs.simulation.kernels.change_log import Cursor, TransitionRow
from udfs.simulation.kernels.codes import NONE, PartitionState, ReplicaState
from udfs.simulation.kernels.simulation_arrays import LONG_AGO, NEVER, Partition, Replica, SimulationArrays


@part
def is_legal_partition_transition(from_state: int, to_state: int) -> bool:
    """Return whether a partition may change its state so. Source: PartitionState.validPreviousStates of Kafka 2.8."""
    if to_state == PartitionState.NEW:
        return from_state == PartitionState.NON_EXISTENT
    if to_state in (PartitionState.ONLINE, PartitionState.OFFLINE):
        return from_state in (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE)
    return from_state == PartitionState.OFFLINE


@part
def is_legal_replica_transition(from_state: int, to_state: int) -> bool:
    """Return whether a replica may change its state so. Source: ReplicaState.validPreviousStates of Kafka 2.8."""
    if to_state == ReplicaState.NEW:
        return from_state == ReplicaState.NON_EXISTENT
    if to_state in (ReplicaState.ONLINE, ReplicaState.OFFLINE):
        legal: bool = (
            ReplicaState.NEW <= from_state <= ReplicaState.OFFLINE or from_state == ReplicaState.DELETION_INELIGIBLE
        )
        return legal
    if to_state == ReplicaState.DELETION_STARTED:
        return from_state == ReplicaState.OFFLINE
    if to_state == ReplicaState.DELETION_SUCCESSFUL:
        return from_state == ReplicaState.DELETION_STARTED
    if to_state == ReplicaState.DELETION_INELIGIBLE:
        return from_state in (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED)
    return from_state == ReplicaState.DELETION_SUCCESSFUL


@part
def set_partition_state(sim: SimulationArrays, p: int, to_state: int, cause: int) -> bool:
    """Change the state of p, and return whether that is legal. An illegal transition is only logged."""
    from_state = sim.partitions[p, Partition.STATE]
    legal = is_legal_partition_transition(from_state, to_state)
    _write_transition(sim, p, NONE, from_state, to_state, cause, legal)
    if legal:
        sim.partitions[p, Partition.STATE] = to_state
    return legal


@part
def set_replica_state(sim: SimulationArrays, p: int, slot: int, to_state: int, cause: int) -> None:
    """Change the state of p's replica on this slot. An illegal transition is only logged."""
    replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
    from_state = replica[Replica.STATE]
    legal = is_legal_replica_transition(from_state, to_state)
    _write_transition(sim, p, slot, from_state, to_state, cause, legal)
    if not legal:
        return
    replica[Replica.STATE] = to_state
    if to_state == ReplicaState.NEW:  # no leader has heard of it yet
        replica[Replica.REMOTE_LEO], replica[Replica.LAST_CAUGHT_UP_AT] = -1, LONG_AGO
        replica[Replica.LAST_FETCH_AT], replica[Replica.LAST_FETCH_LEADER_LEO] = LONG_AGO, NEVER


@part
def _write_transition(
    sim: SimulationArrays, p: int, slot: int, from_state: int, to_state: int, cause: int, legal: bool
) -> None:
    if not sim.cursor[Cursor.ENABLED]:
        return
    row = sim.transitions[sim.cursor[Cursor.TRANSITIONS]]
    row[TransitionRow.EVENT] = sim.cursor[Cursor.EVENT]
    row[TransitionRow.PARTITION] = p
    row[TransitionRow.BROKER] = broker_of(sim, p, slot)
    row[TransitionRow.FROM_STATE], row[TransitionRow.TO_STATE] = from_state, to_state
    row[TransitionRow.CAUSE] = cause
    row[TransitionRow.LEADER_EPOCH] = sim.partitions[p, Partition.LEADER_EPOCH]
    row[TransitionRow.CONTROLLER_EPOCH] = sim.cursor[Cursor.CONTROLLER_EPOCH]
    row[TransitionRow.LEGAL] = legal
    row[TransitionRow.TIME] = sim.cursor[Cursor.TIME]
    sim.cursor[Cursor.TRANSITIONS] += 1


@part
def delete_replica(sim: SimulationArrays, p: int, slot: int, cause: int) -> None:
    """Take p's replica on this slot through all states of its deletion."""
    for to_state in (
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        set_replica_state(sim, p, slot, to_state, cause)


@part
def remove_partition(sim: SimulationArrays, p: int, cause: int) -> None:
    """Remove p, whose replicas are removed already."""
    if sim.partitions[p, Partition.STATE] != PartitionState.OFFLINE:
        set_partition_state(sim, p, PartitionState.OFFLINE, cause)
    set_partition_state(sim, p, PartitionState.NON_EXISTENT, cause)
    reset_partition(sim, p)


@part
def reset_partition(sim: SimulationArrays, p: int) -> None:
    """Forget all of p, which no longer exists, with the settings of its topic."""
    partition = sim.partitions[p]
    partition[Partition.LEADER] = partition[Partition.PREVIOUS_LEADER] = NONE
    partition[Partition.LAST_KNOWN_LEADER] = NONE
    partition[Partition.DELETION] = partition[Partition.LEADER_EPOCH] = 0
    partition[Partition.COMMITTED_OFFSET] = partition[Partition.FETCHES_STARTED] = 0
    partition[Partition.MIN_ISR], partition[Partition.UNCLEAN_ELECTION] = 1, 0
    for which in range(Replica.TARGET + 1):
        partition[which] = 0
