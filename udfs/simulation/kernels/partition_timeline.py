"""Simulation of partitions: each goes through the steps of its cluster and its own events, in their order.

Partitions are independent of each other, so workers can share them. What several decide together comes in as steps and
events, which joint_actions.py finds beforehand.
"""

from udfs.kernel_compiler import compiled, part
from udfs.simulation.kernels.broker_liveness import serving_leader
from udfs.simulation.kernels.change_log import Cursor, has_room
from udfs.simulation.kernels.codes import NONE, ChangeCause, EventKind, PartitionState
from udfs.simulation.kernels.controller_elections import elect_preferred_leader
from udfs.simulation.kernels.health_intervals import (
    NO_PARTITION,
    remember_offsets,
    start_health_interval,
    update_health,
    write_health_interval,
)
from udfs.simulation.kernels.isr_maintenance import advance_high_watermark, next_isr_check, shrink_isr
from udfs.simulation.kernels.kafka_controller import alter_isr, apply_step, create_partition, retry_election
from udfs.simulation.kernels.leader_changes import apply_leader_change, restart_replica, stop_replica
from udfs.simulation.kernels.metadata_records import apply_record, forget_partition
from udfs.simulation.kernels.partition_reassignment import reassign_partition
from udfs.simulation.kernels.purgatory import expire_requests
from udfs.simulation.kernels.replica_lists import cluster_setting, find_slot, uses_kraft
from udfs.simulation.kernels.replica_manager import append_messages, fetch_messages, set_known_offsets
from udfs.simulation.kernels.simulation_arrays import (
    NEVER,
    ClusterSetup,
    Deletion,
    Partition,
    PartitionEvent,
    PartitionHealth,
    Replica,
    SimulationArrays,
    StepKind,
    TimelineStep,
)
from udfs.simulation.kernels.topic_deletion import complete_topic_deletion, start_topic_deletion

CLOSED = -3  # value of PartitionHealth.LEADER: the last interval is logged


@compiled
def simulate_partitions(sim: SimulationArrays, begin: int, end: int, order: int) -> int:
    """Simulate partitions `begin` to `end` - 1 up to the step or event of this order.

    Args:
        sim: changed to the state after these.
        begin: first row of partitions.
        end: last row + 1.
        order: as TimelineStep.ORDER, not included; NEVER = everything, and time until the end.

    Returns:
        The first partition that is not done: `end`, or one for which the log has no room, to continue from there.
    """
    for p in range(begin, end):
        if not _simulate_partition(sim, p, order):
            return p
    return end


@part
def _simulate_partition(sim: SimulationArrays, p: int, order: int) -> bool:
    """Simulate p up to this order, and return whether the log had room."""
    partition = sim.partitions[p]
    cluster = sim.clusters[partition[Partition.CLUSTER]]
    step_end = cluster[ClusterSetup.STEP_END]
    if partition[Partition.NEXT_STEP] == NONE:  # log ends that are known initially give a high watermark
        partition[Partition.NEXT_STEP] = cluster[ClusterSetup.STEP_BEGIN]
        sim.cursor[Cursor.TIME], sim.cursor[Cursor.STEP] = cluster[ClusterSetup.START_TIME], NONE
        if partition[Partition.DATA_STARTED]:
            advance_high_watermark(sim, p)
        start_health_interval(sim, p)
    step = _find_next_step(sim, p)
    while True:
        event = partition[Partition.NEXT_EVENT]
        step_order = sim.steps[step, TimelineStep.ORDER] if step < step_end else NEVER
        event_order = _event_order(sim, event) if event < partition[Partition.EVENT_END] else NEVER
        if min(step_order, event_order) >= order:
            break
        if step_order < event_order:
            done = _take_step(sim, p, step)
            if done:
                step = _find_next_step(sim, p)
        else:
            _skip_steps(sim, p, event_order)
            done = _take_event(sim, p, event)
            if sim.events[event, PartitionEvent.KIND] < EventKind.APPEND:
                # Every step concerns a partition that waits for a leader, but few concern others.
                step = _find_next_step(sim, p)
        if not done:
            return False
    _skip_steps(sim, p, order)
    return order != NEVER or _close_partition(sim, p)


@part
def _event_order(sim: SimulationArrays, event: int) -> int:
    """Return the order of an event among steps. Topic deletions go on after the event that allows it."""
    row = sim.events[event]
    kind = row[PartitionEvent.KIND]
    follows = EventKind.TOPIC_DELETION_STARTED <= kind <= EventKind.CREATION_BLOCKED
    return int(2 * row[PartitionEvent.NUMBER] + 1 + follows)


@part
def _skip_steps(sim: SimulationArrays, p: int, order: int) -> None:
    """Mark all steps before this order as done."""
    low = cluster_setting(sim, p, ClusterSetup.STEP_BEGIN)
    high = cluster_setting(sim, p, ClusterSetup.STEP_END)
    step = _first_step_at_least(sim, low, high, TimelineStep.ORDER, order)
    sim.partitions[p, Partition.NEXT_STEP] = max(sim.partitions[p, Partition.NEXT_STEP], step)


@part
def _first_step_at_least(sim: SimulationArrays, low: int, high: int, column: int, value: int) -> int:
    """Return the first step from `low` to `high` with at least this value in a rising column."""
    while low < high:
        middle = (low + high) // 2
        if sim.steps[middle, column] < value:
            low = middle + 1
        else:
            high = middle
    return low


@part
def _find_next_step(sim: SimulationArrays, p: int) -> int:
    """Return the next step that concerns p: any while it waits, else one of its brokers or one that concerns all."""
    partition = sim.partitions[p]
    step = partition[Partition.NEXT_STEP]
    if is_waiting(sim, p):
        return int(step)
    cluster = sim.clusters[partition[Partition.CLUSTER]]
    begin, end = cluster[ClusterSetup.COMMON_STEP_BEGIN], cluster[ClusterSetup.COMMON_STEP_END]
    next_step = _first_broker_step(sim, begin, end, step)
    for slot in range(partition[Partition.SLOTS]):
        broker = sim.brokers[sim.replicas[partition[Partition.REPLICA_BEGIN] + slot, Replica.BROKER]]
        next_step = min(next_step, _first_broker_step(sim, broker[2], broker[3], step))
    return int(next_step)


@part
def is_waiting(sim: SimulationArrays, p: int) -> bool:
    """Return whether p waits for a leader, the end of a reassignment or its deletion."""
    partition = sim.partitions[p]
    waiting: bool = (
        partition[Partition.STATE] in (PartitionState.NEW, PartitionState.OFFLINE)
        or partition[Partition.TARGET_SIZE] > 0
        or partition[Partition.DELETION] != Deletion.NONE
    )
    return waiting


@part
def _first_broker_step(sim: SimulationArrays, low: int, high: int, step: int) -> int:
    """Return the first entry of a rising part of `broker_steps` that is at least `step`, or NEVER."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if sim.broker_steps[middle] < step:
            low = middle + 1
        else:
            high = middle
    return sim.broker_steps[low] if low < end else NEVER


# ---- time


@part
def set_context(sim: SimulationArrays, p: int, at: int, event: int) -> None:
    """Let what is logged next refer to this time and event, and to the controller of p's last step."""
    cluster = sim.clusters[sim.partitions[p, Partition.CLUSTER]]
    step = sim.partitions[p, Partition.NEXT_STEP] - 1
    sim.cursor[Cursor.TIME], sim.cursor[Cursor.EVENT], sim.cursor[Cursor.STEP] = at, event, step
    epoch = cluster[ClusterSetup.INITIAL_CONTROLLER_EPOCH]
    if step >= cluster[ClusterSetup.STEP_BEGIN]:
        epoch = sim.steps[step, TimelineStep.CONTROLLER_EPOCH]
    sim.cursor[Cursor.CONTROLLER_EPOCH] = epoch


@part
def _set_context_of_timer(sim: SimulationArrays, p: int, at: int) -> None:
    """Let what a timer logs refer to the last event before it, of p or a step, and to that step's controller.

    It never refers to a later event: what is logged must not depend on what comes later.
    """
    cluster = sim.clusters[sim.partitions[p, Partition.CLUSTER]]
    begin, end = cluster[ClusterSetup.STEP_BEGIN], cluster[ClusterSetup.STEP_END]
    step = _first_step_at_least(sim, begin, end, TimelineStep.TIME, at) - 1
    sim.cursor[Cursor.TIME], sim.cursor[Cursor.EVENT] = at, sim.partitions[p, Partition.LAST_EVENT]
    sim.cursor[Cursor.CONTROLLER_EPOCH] = cluster[ClusterSetup.INITIAL_CONTROLLER_EPOCH]
    if step >= begin:
        sim.cursor[Cursor.CONTROLLER_EPOCH] = sim.steps[step, TimelineStep.CONTROLLER_EPOCH]
        sim.cursor[Cursor.EVENT] = max(sim.cursor[Cursor.EVENT], sim.steps[step, TimelineStep.EVENT])


@part
def advance_to(sim: SimulationArrays, p: int, at: int, event: int) -> bool:
    """Let everything happen to p that is due until this time, and return whether the log had room for it."""
    set_context(sim, p, at, event)
    if not sim.partitions[p, Partition.HAS_DATA]:
        sim.partitions[p, Partition.TIME] = at
        return has_room(sim, p)
    while has_room(sim, p):
        if _run_timers(sim, p, at):
            set_context(sim, p, at, event)
            return has_room(sim, p)
        update_health(sim, p)
    return False


@part
def _run_timers(sim: SimulationArrays, p: int, at: int) -> bool:
    """Run p's timers until this time, in their order: deadlines, then checks of the ISR.

    Returns:
        False after an ISR has shrunk: its health is to be logged before the next timer.
    """
    partition = sim.partitions[p]
    while True:
        check_at = next_isr_check(sim, p)
        due_at = min(partition[Partition.NEXT_DEADLINE], check_at)
        if due_at > at:
            break
        sim.cursor[Cursor.TIME] = due_at
        if partition[Partition.NEXT_DEADLINE] <= due_at:
            expire_requests(sim, p, due_at)
        if check_at <= due_at:
            _set_context_of_timer(sim, p, due_at)
            remember_offsets(sim, p)
            shrink_isr(sim, p, due_at)
            return False
        partition[Partition.TIME] = due_at
    partition[Partition.TIME] = max(partition[Partition.TIME], at)
    return True


# ---- steps and events


@part
def _take_step(sim: SimulationArrays, p: int, step: int) -> bool:
    """Apply a step of the timeline to p, and return whether the log had room."""
    kind, at = sim.steps[step, TimelineStep.KIND], sim.steps[step, TimelineStep.TIME]
    slot = find_slot(sim, p, sim.steps[step, TimelineStep.BROKER])
    concerns_all = kind in (StepKind.CONTROLLER_FAILOVER, StepKind.CONTROLLER_DOWN, StepKind.CONTROLLER_UP)
    retries = kind in (StepKind.BROKER_UP, StepKind.UNCLEAN_BROKER_UP, StepKind.BROKER_DOWN)
    concerns_p = slot != NONE or concerns_all or (retries and is_waiting(sim, p))
    if kind == StepKind.QUORUM_CHANGE or not concerns_p:
        sim.partitions[p, Partition.NEXT_STEP] = step + 1
        return True
    event = sim.steps[step, TimelineStep.EVENT]
    if not advance_to(sim, p, at, event):
        return False
    leader, epoch = serving_leader(sim, p), sim.partitions[p, Partition.LEADER_EPOCH]
    remember_offsets(sim, p)
    sim.partitions[p, Partition.NEXT_STEP] = step + 1
    set_context(sim, p, at, event)
    has_replica = slot != NONE and sim.partitions[p, Partition.HAS_DATA] != 0
    if has_replica and kind in (StepKind.BROKER_DOWN, StepKind.CONTROLLER_DOWN, StepKind.LAST_BROKER_DOWN):
        stop_replica(sim, p, slot)
    if kind != StepKind.LAST_BROKER_DOWN:
        apply_step(sim, p, kind, slot)
    apply_leader_change(sim, p, leader, epoch)
    exists = sim.partitions[p, Partition.STATE] != PartitionState.NON_EXISTENT
    is_up = kind in (StepKind.BROKER_UP, StepKind.CONTROLLER_UP, StepKind.UNCLEAN_BROKER_UP)
    if has_replica and exists and is_up:
        restart_replica(sim, p, slot)
    update_health(sim, p)
    return True


@part
def _take_event(sim: SimulationArrays, p: int, event: int) -> bool:
    """Apply an event of p, and return whether the log had room."""
    partition, row = sim.partitions[p], sim.events[event]
    kind, number = row[PartitionEvent.KIND], row[PartitionEvent.NUMBER]
    if not advance_to(sim, p, row[PartitionEvent.TIME], number):
        return False
    partition[Partition.NEXT_EVENT], partition[Partition.LAST_EVENT] = event + 1, number
    leader, epoch = serving_leader(sim, p), partition[Partition.LEADER_EPOCH]
    if kind in (EventKind.APPEND, EventKind.FETCH, EventKind.REPLICA_OFFSETS):
        partition[Partition.DATA_STARTED] = 1
    if kind == EventKind.APPEND:
        append_messages(sim, p, event)
        return True
    if kind == EventKind.REPLICA_OFFSETS:
        set_known_offsets(sim, p, event)
        return True
    if kind == EventKind.FETCH:
        fetch_messages(sim, p, event)
    else:
        remember_offsets(sim, p)
        _apply_control_event(sim, p, event)
    is_same = leader == serving_leader(sim, p) and epoch == partition[Partition.LEADER_EPOCH]
    if kind != EventKind.FETCH or not is_same:
        apply_leader_change(sim, p, leader, epoch)
    update_health(sim, p)
    return True


@part
def _apply_control_event(sim: SimulationArrays, p: int, event: int) -> None:
    """Apply an event that concerns the controller."""
    partition, lists = sim.partitions[p], sim.lists
    kind, place = sim.events[event, PartitionEvent.KIND], sim.events[event, PartitionEvent.LIST]
    value = sim.events[event, PartitionEvent.VALUE]
    if kind == EventKind.CREATE_PARTITION:
        if value == 0:
            create_partition(sim, p, lists, place)
    elif EventKind.TOPIC_DELETION_STARTED <= kind <= EventKind.CREATION_BLOCKED:
        apply_deletion(sim, p, kind)
    elif kind == EventKind.PARTITION_RECORD:
        apply_record(sim, p, lists, place, value)
    elif partition[Partition.STATE] == PartitionState.NON_EXISTENT:
        return
    elif kind == EventKind.REMOVE_PARTITION:
        forget_partition(sim, p)
    elif kind == EventKind.DELETE_PARTITION:
        if uses_kraft(sim, p):  # the topic is removed with its record: nothing waits
            forget_partition(sim, p)
        elif partition[Partition.DELETION] == Deletion.NONE:
            partition[Partition.DELETION] = Deletion.QUEUED
    elif kind == EventKind.REASSIGN_PARTITION:
        reassign_partition(sim, p, lists, place)
    elif kind == EventKind.ELECT_PREFERRED_LEADER:
        elect_preferred_leader(sim, p, ChangeCause.PREFERRED_ELECTION)
    elif kind == EventKind.SET_UNCLEAN_ELECTION:
        partition[Partition.UNCLEAN_ELECTION] = value != 0
        is_leaderless = partition[Partition.STATE] == PartitionState.OFFLINE and partition[Partition.LEADER] == NONE
        if value and is_leaderless and partition[Partition.DELETION] == Deletion.NONE:
            retry_election(sim, p)
    elif kind == EventKind.SET_MIN_ISR:
        partition[Partition.MIN_ISR] = value
    elif kind == EventKind.ALTER_ISR:
        alter_isr(sim, p, lists, place)
    elif kind == EventKind.CLEAR_ELR:
        partition[Partition.ELR_SIZE] = 0
        partition[Partition.LAST_KNOWN_LEADER] = NONE


@part
def apply_deletion(sim: SimulationArrays, p: int, kind: int) -> None:
    """Start or complete the deletion of p's topic, or block p's creation as its topic is still being deleted."""
    if kind == EventKind.CREATION_BLOCKED:
        sim.partitions[p, Partition.DELETION] = Deletion.QUEUED
    elif kind == EventKind.TOPIC_DELETION_STARTED:
        start_topic_deletion(sim, p)
    else:
        complete_topic_deletion(sim, p)


@part
def _close_partition(sim: SimulationArrays, p: int) -> bool:
    """Let time pass until the end, log the last health interval, and return whether the log had room."""
    health = sim.health[p]
    if health[PartitionHealth.LEADER] == CLOSED:
        return True
    end_at = cluster_setting(sim, p, ClusterSetup.END_TIME)
    end_event = cluster_setting(sim, p, ClusterSetup.END_EVENT)
    if not advance_to(sim, p, end_at, end_event):
        return False
    if health[PartitionHealth.LEADER] != NO_PARTITION:
        remember_offsets(sim, p)
        write_health_interval(sim, p, True)
    health[PartitionHealth.LEADER] = CLOSED
    return True
