"""State of a partition and its replicas: lists, live brokers, logs, high watermarks, and states in the controller.

The rules are those of docs/replay-rules.md. Sources: Partition, ReplicaManager, PartitionStateMachine and
ReplicaStateMachine of Kafka 2.8.
"""

from udfs.kernel_compiler import part
from udfs.simulation.kernels.codes import NONE, ReplicaState
from udfs.simulation.kernels.simulation_arrays import (
    LONG_AGO,
    NEVER,
    BrokerFlag,
    ClusterSetup,
    Cursor,
    Ints,
    Partition,
    ReassignmentFlag,
    Replica,
    SimulationArrays,
    TransitionRow,
)


@part
def cluster_setting(sim: SimulationArrays, p: int, setting: int) -> int:
    """Return a column (ClusterSetup) of p's cluster."""
    return int(sim.clusters[sim.partitions[p, Partition.CLUSTER], setting])


@part
def uses_kraft(sim: SimulationArrays, p: int) -> bool:
    """Return whether p's cluster runs with KRaft."""
    return cluster_setting(sim, p, ClusterSetup.KRAFT) != 0


@part
def uses_elr(sim: SimulationArrays, p: int) -> bool:
    """Return whether p's cluster keeps eligible leader replicas."""
    return cluster_setting(sim, p, ClusterSetup.ELR_ENABLED) != 0


@part
def effective_min_isr(sim: SimulationArrays, p: int) -> int:
    """Return the ISR size that acks=all needs: with KRaft never more than there are replicas (since 3.7)."""
    min_isr, ar_size = sim.partitions[p, Partition.MIN_ISR], sim.partitions[p, Partition.AR_SIZE]
    return int(min(min_isr, ar_size) if uses_kraft(sim, p) else min_isr)


@part
def find_slot(sim: SimulationArrays, p: int, broker: int) -> int:
    """Return the slot of p for the broker at this place, or -1."""
    begin = sim.partitions[p, Partition.REPLICA_BEGIN]
    for slot in range(sim.partitions[p, Partition.SLOTS]):
        if sim.replicas[begin + slot, Replica.BROKER] == broker:
            return slot
    return -1


@part
def contains(sim: SimulationArrays, which: int, p: int, slot: int) -> bool:
    """Return whether a list of p (Replica.AR, ISR, ELR or TARGET) contains the slot."""
    begin, is_member = sim.partitions[p, Partition.REPLICA_BEGIN], False
    for row in range(begin, begin + sim.partitions[p, which]):
        is_member = is_member or sim.replicas[row, which] == slot
    return is_member


@part
def append_to_list(sim: SimulationArrays, which: int, p: int, slot: int) -> None:
    """Append the slot to a list of p."""
    partition = sim.partitions[p]
    sim.replicas[partition[Partition.REPLICA_BEGIN] + partition[which], which] = slot
    partition[which] += 1


@part
def remove_from_list(sim: SimulationArrays, which: int, p: int, slot: int) -> None:
    """Remove the slot from a list of p. The other slots keep their order."""
    begin, size = sim.partitions[p, Partition.REPLICA_BEGIN], 0
    for i in range(sim.partitions[p, which]):
        entry = sim.replicas[begin + i, which]
        if entry != slot:
            sim.replicas[begin + size, which] = entry
            size += 1
    sim.partitions[p, which] = size


@part
def replace_list(sim: SimulationArrays, which: int, p: int, lists: Ints, place: int) -> None:
    """Replace a list of p by the one at this place of `lists`, which starts with its length."""
    begin, size = sim.partitions[p, Partition.REPLICA_BEGIN], lists[place]
    for i in range(size):
        sim.replicas[begin + i, which] = lists[place + 1 + i]
    sim.partitions[p, which] = size


@part
def set_single_isr(sim: SimulationArrays, p: int, slot: int) -> None:
    """Make the slot the whole ISR."""
    sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN], Replica.ISR] = slot
    sim.partitions[p, Partition.ISR_SIZE] = 1


@part
def first_at_least(rows: Ints, low: int, high: int, column: int, value: int) -> int:
    """Return the first row from `low` to `high` with at least this value in a rising column; `high` = none."""
    while low < high:
        middle = (low + high) // 2
        if rows[middle, column] < value:
            low = middle + 1
        else:
            high = middle
    return low


@part
def slot_flags(sim: SimulationArrays, p: int, slot: int) -> int:
    """Return the flags (BrokerFlag) of the broker of p's slot, at the present step."""
    broker = sim.brokers[broker_of(sim, p, slot)]
    change = first_at_least(sim.broker_changes, broker[0], broker[1], 0, sim.cursor[Cursor.STEP] + 1) - 1
    return int(sim.broker_changes[change, 1])


@part
def is_live(sim: SimulationArrays, p: int, slot: int) -> bool:
    """Return whether the broker of p's slot is live."""
    return slot_flags(sim, p, slot) & BrokerFlag.LIVE != 0


@part
def is_shutting_down(sim: SimulationArrays, p: int, slot: int) -> bool:
    """Return whether the broker of p's slot is in a controlled shutdown."""
    return slot_flags(sim, p, slot) & BrokerFlag.SHUTTING_DOWN != 0


@part
def is_active(sim: SimulationArrays, p: int, slot: int) -> bool:
    """Return whether the broker of p's slot may lead: it is live and not shutting down."""
    # Sources: ControllerContext.isReplicaOnline of 2.8, ClusterControlManager.isActive of 4.1.
    return slot_flags(sim, p, slot) == BrokerFlag.LIVE


@part
def broker_of(sim: SimulationArrays, p: int, slot: int) -> int:
    """Return the place of the broker of p's slot; NONE for no slot."""
    if slot == NONE:
        return NONE
    return int(sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot, Replica.BROKER])


@part
def serving_leader(sim: SimulationArrays, p: int) -> int:
    """Return the slot that leads p if its broker is live, else NONE."""
    leader = sim.partitions[p, Partition.LEADER]
    return int(leader) if leader != NONE and is_live(sim, p, leader) else NONE


@part
def common_prefix(sim: SimulationArrays, p: int, slot: int, other: int) -> int:
    """Return how many messages the logs of two slots share."""
    partition = sim.partitions[p]
    return int(sim.common_prefixes[partition[Partition.PREFIX_BEGIN] + slot * partition[Partition.SLOTS] + other])


@part
def set_common_prefix(sim: SimulationArrays, p: int, slot: int, other: int, messages: int) -> None:
    """Set how many messages the logs of two slots share."""
    begin, slots = sim.partitions[p, Partition.PREFIX_BEGIN], sim.partitions[p, Partition.SLOTS]
    sim.common_prefixes[begin + slot * slots + other] = messages
    sim.common_prefixes[begin + other * slots + slot] = messages


@part
def truncate_log(sim: SimulationArrays, p: int, slot: int, leo: int) -> None:
    """Truncate the log of the slot to this end if it is longer."""
    replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
    if leo >= replica[Replica.LEO]:
        return
    replica[Replica.LEO] = leo
    for other in range(sim.partitions[p, Partition.SLOTS]):
        set_common_prefix(sim, p, slot, other, min(common_prefix(sim, p, slot, other), leo))
    if replica[Replica.HW] > leo:
        set_high_watermark(sim, p, slot, leo)


@part
def copy_log(sim: SimulationArrays, p: int, slot: int, leader: int, leo: int) -> None:
    """Give the slot what the leader's log has up to `leo`."""
    partition = sim.partitions[p]
    row = partition[Partition.REPLICA_BEGIN] + slot
    if common_prefix(sim, p, slot, leader) == sim.replicas[row, Replica.LEO]:
        for other in range(partition[Partition.SLOTS]):
            if other == leader:
                set_common_prefix(sim, p, slot, other, leo)
            elif other != slot:
                set_common_prefix(sim, p, slot, other, min(common_prefix(sim, p, leader, other), leo))
    sim.replicas[row, Replica.LEO] = leo
    set_common_prefix(sim, p, slot, slot, leo)


@part
def delete_unassigned_logs(sim: SimulationArrays, p: int) -> None:
    """Delete logs of replicas that are no longer assigned. If one is assigned again, it starts with an empty log."""
    for slot in range(sim.partitions[p, Partition.SLOTS]):
        replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
        if replica[Replica.LEO] == 0 or contains(sim, Replica.AR, p, slot):
            continue
        replica[Replica.LEO] = replica[Replica.HW] = replica[Replica.CHECKPOINTED_HW] = 0
        replica[Replica.REMOTE_LEO] = -1
        for other in range(sim.partitions[p, Partition.SLOTS]):
            set_common_prefix(sim, p, slot, other, 0)


@part
def set_high_watermark(sim: SimulationArrays, p: int, slot: int, high_watermark: int) -> None:
    """Set the high watermark of the slot. The last checkpoint keeps what it has written."""
    update_checkpoint(sim, p, slot)
    replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
    replica[Replica.HW], replica[Replica.HW_CHANGED_AT] = high_watermark, sim.cursor[Cursor.TIME]


@part
def update_checkpoint(sim: SimulationArrays, p: int, slot: int) -> None:
    """Store the high watermark if a checkpoint was due since it changed. A change at the same time is later."""
    replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
    interval = cluster_setting(sim, p, ClusterSetup.CHECKPOINT_MS)
    checkpoint_at = sim.cursor[Cursor.TIME] // interval * interval
    start = cluster_setting(sim, p, ClusterSetup.START_TIME)
    if checkpoint_at > start and replica[Replica.HW_CHANGED_AT] < checkpoint_at:
        replica[Replica.CHECKPOINTED_HW] = replica[Replica.HW]


# By state, those that may come before it, as the bits of their codes.
# Sources: validPreviousStates of PartitionState and ReplicaState of Kafka 2.8.
_BEFORE_PARTITION_STATE = (0b1000, 0b0001, 0b1110, 0b1110)
_BEFORE_REPLICA_STATE = (0b0100000, 0b0000001, 0b1001110, 0b1001110, 0b0001000, 0b0010000, 0b0011000)


@part
def set_partition_state(sim: SimulationArrays, p: int, to_state: int, cause: int) -> bool:
    """Change the state of p, and return whether that is legal. An illegal transition is only logged."""
    from_state = sim.partitions[p, Partition.STATE]
    legal = bool(_BEFORE_PARTITION_STATE[to_state] >> from_state & 1)
    _write_transition(sim, p, NONE, from_state, to_state, cause, legal)
    if legal:
        sim.partitions[p, Partition.STATE] = to_state
    return legal


@part
def set_replica_state(sim: SimulationArrays, p: int, slot: int, to_state: int, cause: int) -> None:
    """Change the state of p's replica on this slot. An illegal transition is only logged."""
    replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
    from_state = replica[Replica.STATE]
    legal = _BEFORE_REPLICA_STATE[to_state] >> from_state & 1 != 0
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
    row, cursor = sim.transitions[sim.cursor[Cursor.TRANSITIONS]], sim.cursor
    row[TransitionRow.EVENT], row[TransitionRow.TIME] = cursor[Cursor.EVENT], cursor[Cursor.TIME]
    row[TransitionRow.PARTITION], row[TransitionRow.BROKER] = p, broker_of(sim, p, slot)
    row[TransitionRow.FROM_STATE], row[TransitionRow.TO_STATE] = from_state, to_state
    row[TransitionRow.CAUSE], row[TransitionRow.LEGAL] = cause, legal
    row[TransitionRow.LEADER_EPOCH] = sim.partitions[p, Partition.LEADER_EPOCH]
    row[TransitionRow.CONTROLLER_EPOCH] = cursor[Cursor.CONTROLLER_EPOCH]
    sim.cursor[Cursor.TRANSITIONS] += 1


@part
def stop_replica_for_deletion(sim: SimulationArrays, p: int, slot: int, cause: int) -> None:
    """Take p's replica on this slot offline and delete it. It exists until its partition or assignment is removed."""
    set_replica_state(sim, p, slot, ReplicaState.OFFLINE, cause)
    set_replica_state(sim, p, slot, ReplicaState.DELETION_STARTED, cause)
    set_replica_state(sim, p, slot, ReplicaState.DELETION_SUCCESSFUL, cause)


@part
def delete_replica(sim: SimulationArrays, p: int, slot: int, cause: int) -> None:
    """Take p's replica on this slot through all states of its deletion."""
    stop_replica_for_deletion(sim, p, slot, cause)
    set_replica_state(sim, p, slot, ReplicaState.NON_EXISTENT, cause)


@part
def reset_partition(sim: SimulationArrays, p: int) -> None:
    """Forget all of p, which no longer exists, with the settings of its topic."""
    partition = sim.partitions[p]
    partition[Partition.LEADER] = partition[Partition.PREVIOUS_LEADER] = NONE
    partition[Partition.LAST_KNOWN_LEADER] = NONE
    partition[Partition.DELETION] = partition[Partition.LEADER_EPOCH] = 0
    partition[Partition.COMMITTED_OFFSET] = partition[Partition.FETCHES_STARTED] = 0
    partition[Partition.MIN_ISR], partition[Partition.UNCLEAN_ELECTION] = 1, 0
    clear_reassignment(sim, p)
    for which in range(Replica.TARGET):
        partition[which] = 0


@part
def clear_reassignment(sim: SimulationArrays, p: int) -> None:
    """Forget the running reassignment of p."""
    partition = sim.partitions[p]
    partition[Partition.TARGET_SIZE] = 0
    for slot in range(partition[Partition.SLOTS]):
        sim.replicas[partition[Partition.REPLICA_BEGIN] + slot, Replica.REASSIGNMENT] = 0


@part
def is_reassigned(sim: SimulationArrays, p: int) -> bool:
    """Return whether a running reassignment adds or removes replicas of p."""
    begin, has_flag = sim.partitions[p, Partition.REPLICA_BEGIN], False
    for slot in range(sim.partitions[p, Partition.SLOTS]):
        has_flag = has_flag or sim.replicas[begin + slot, Replica.REASSIGNMENT] != 0
    return has_flag


@part
def set_target(sim: SimulationArrays, p: int, without: int) -> None:
    """Make the AR the target of p's running reassignment, without replicas that have this flag (ReassignmentFlag)."""
    partition, has_flag = sim.partitions[p], is_reassigned(sim, p)
    begin = partition[Partition.REPLICA_BEGIN]
    partition[Partition.TARGET_SIZE] = 0
    for slot in sim.replicas[begin : begin + partition[Partition.AR_SIZE], Replica.AR]:
        if has_flag and sim.replicas[begin + slot, Replica.REASSIGNMENT] & without == 0:
            append_to_list(sim, Replica.TARGET, p, slot)


@part
def can_complete_reassignment(sim: SimulationArrays, p: int) -> bool:
    """Return whether p is being reassigned, and the replicas that Kafka waits for are in the ISR.

    These are all of the target; with KRaft since 4.3 those added, unless more are removed than added.
    """
    # A replica that is removed again counts as added, and is waited for in vain.
    # Source: PartitionReassignmentReplicas.maybeCompleteReassignment of 4.1 and 4.3.
    partition = sim.partitions[p]
    begin, is_ready, surplus = partition[Partition.REPLICA_BEGIN], partition[Partition.TARGET_SIZE] > 0, 1
    if uses_kraft(sim, p) and cluster_setting(sim, p, ClusterSetup.COMPLETES_WITH_ADDED):
        surplus = 0
        for slot in range(partition[Partition.SLOTS]):
            flags = sim.replicas[begin + slot, Replica.REASSIGNMENT]
            if flags & ReassignmentFlag.ADDED:
                surplus -= 1
                is_ready = is_ready and flags == ReassignmentFlag.ADDED and contains(sim, Replica.ISR, p, slot)
            if flags & ReassignmentFlag.REMOVED:
                surplus += 1
    if surplus > 0:
        for slot in sim.replicas[begin : begin + partition[Partition.TARGET_SIZE], Replica.TARGET]:
            is_ready = is_ready and contains(sim, Replica.ISR, p, slot)
    return bool(is_ready)
