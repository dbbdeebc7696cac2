"""Simulation of partitions: each goes through the steps of its cluster and its own events, in their order.

Partitions are independent of each other, so workers can share them. What several decide together comes in as steps and
events, which joint_actions.py finds beforehand.
"""

from udfs.kernel_compiler import compiled, part
from udfs.simulation.kernels import health_intervals, kafka_controller, purgatory, replica_manager
from udfs.simulation.kernels.codes import NONE, EventKind, PartitionState
from udfs.simulation.kernels.partition_state import cluster_setting, find_slot, first_at_least, serving_leader
from udfs.simulation.kernels.simulation_arrays import (
    NEVER,
    ClusterSetup,
    Cursor,
    Partition,
    PartitionEvent,
    PartitionHealth,
    Replica,
    SimulationArrays,
    StepKind,
    TimelineStep,
    has_room,
)

CLOSED = -3  # value of PartitionHealth.LEADER: the last interval is logged


@compiled
def simulate_partitions(sim: SimulationArrays, begin: int, end: int, order: int) -> int:
    """Simulate partitions `begin` to `end` - 1 up to the step or event of this TimelineStep.ORDER, not included."""
    # NEVER = everything, and time until the end. Returns the first partition that is not done: `end`, or one for which
    # the log has no room, to continue from there.
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
            replica_manager.advance_high_watermark(sim, p)
        health_intervals.start_health_interval(sim, p)
    step = _find_next_step(sim, p)
    while True:
        event = partition[Partition.NEXT_EVENT]
        step_order = sim.steps[step, TimelineStep.ORDER] if step < step_end else NEVER
        event_order = NEVER
        if event < partition[Partition.EVENT_END]:
            kind = sim.events[event, PartitionEvent.KIND]
            # Deletions of topics go on after the event that allows it.
            follows = EventKind.TOPIC_DELETION_STARTED <= kind <= EventKind.CREATION_BLOCKED
            event_order = 2 * sim.events[event, PartitionEvent.NUMBER] + 1 + follows
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
def _skip_steps(sim: SimulationArrays, p: int, order: int) -> None:
    """Mark all steps before this order as done."""
    cluster = sim.clusters[sim.partitions[p, Partition.CLUSTER]]
    low, high = cluster[ClusterSetup.STEP_BEGIN], cluster[ClusterSetup.STEP_END]
    step = first_at_least(sim.steps, low, high, TimelineStep.ORDER, order)
    sim.partitions[p, Partition.NEXT_STEP] = max(sim.partitions[p, Partition.NEXT_STEP], step)


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
    has_no_leader = partition[Partition.STATE] in (PartitionState.NEW, PartitionState.OFFLINE)
    return bool(has_no_leader or partition[Partition.TARGET_SIZE] or partition[Partition.DELETION])


@part
def _first_broker_step(sim: SimulationArrays, low: int, high: int, step: int) -> int:
    """Return the first entry of a rising part of `broker_steps` that is at least `step`, or NEVER."""
    row = first_at_least(sim.broker_steps, low, high, 0, step)
    return sim.broker_steps[row, 0] if row < high else NEVER


@part
def set_context(sim: SimulationArrays, p: int, at: int, event: int) -> None:
    """Let what is logged next refer to this time and event, and to the controller of p's last step."""
    step = sim.partitions[p, Partition.NEXT_STEP] - 1
    sim.cursor[Cursor.TIME], sim.cursor[Cursor.EVENT], sim.cursor[Cursor.STEP] = at, event, step
    _set_controller_epoch(sim, p, step)


@part
def _set_controller_epoch(sim: SimulationArrays, p: int, step: int) -> bool:
    """Let what is logged next refer to the controller after a step, and return whether it is one of p's cluster."""
    is_after_step = step >= cluster_setting(sim, p, ClusterSetup.STEP_BEGIN)
    epoch = cluster_setting(sim, p, ClusterSetup.INITIAL_CONTROLLER_EPOCH)
    sim.cursor[Cursor.CONTROLLER_EPOCH] = sim.steps[step, TimelineStep.CONTROLLER_EPOCH] if is_after_step else epoch
    return is_after_step


@part
def _set_context_of_timer(sim: SimulationArrays, p: int, at: int) -> None:
    """Let what a timer logs refer to the last event before it, of p or a step, and to that step's controller."""
    # It never refers to a later event: what is logged must not depend on what comes later.
    cluster = sim.clusters[sim.partitions[p, Partition.CLUSTER]]
    begin, end = cluster[ClusterSetup.STEP_BEGIN], cluster[ClusterSetup.STEP_END]
    step = first_at_least(sim.steps, begin, end, TimelineStep.TIME, at) - 1
    sim.cursor[Cursor.TIME], sim.cursor[Cursor.EVENT] = at, sim.partitions[p, Partition.LAST_EVENT]
    if _set_controller_epoch(sim, p, step):
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
        health_intervals.update_health(sim, p)
    return False


@part
def _run_timers(sim: SimulationArrays, p: int, at: int) -> bool:
    """Run p's timers until this time, in their order: deadlines, then checks of the ISR."""
    # Returns False after an ISR has shrunk: its health is to be logged before the next timer.
    partition = sim.partitions[p]
    while True:
        check_at = replica_manager.next_isr_check(sim, p)
        due_at = min(partition[Partition.NEXT_DEADLINE], check_at)
        if due_at > at:
            break
        sim.cursor[Cursor.TIME] = due_at
        if partition[Partition.NEXT_DEADLINE] <= due_at:
            purgatory.expire_requests(sim, p, due_at)
        if check_at <= due_at:
            _set_context_of_timer(sim, p, due_at)
            health_intervals.remember_offsets(sim, p)
            replica_manager.shrink_isr(sim, p, due_at)
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
    health_intervals.remember_offsets(sim, p)
    sim.partitions[p, Partition.NEXT_STEP] = step + 1
    set_context(sim, p, at, event)
    has_replica = slot != NONE and sim.partitions[p, Partition.HAS_DATA] != 0
    if has_replica and kind in (StepKind.BROKER_DOWN, StepKind.CONTROLLER_DOWN, StepKind.UNNOTICED_DOWN):
        replica_manager.stop_replica(sim, p, slot)
    if kind != StepKind.UNNOTICED_DOWN:
        kafka_controller.apply_step(sim, p, kind, slot)
    replica_manager.apply_leader_change(sim, p, leader, epoch)
    exists = sim.partitions[p, Partition.STATE] != PartitionState.NON_EXISTENT
    is_up = kind in (StepKind.BROKER_UP, StepKind.CONTROLLER_UP, StepKind.UNCLEAN_BROKER_UP)
    if has_replica and exists and is_up:
        replica_manager.restart_replica(sim, p, slot)
    health_intervals.update_health(sim, p)
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
        replica_manager.append_messages(sim, p, event)
    elif kind == EventKind.REPLICA_OFFSETS:
        replica_manager.set_known_offsets(sim, p, event)
    if kind in (EventKind.APPEND, EventKind.REPLICA_OFFSETS):
        return True
    if kind == EventKind.FETCH:
        replica_manager.fetch_messages(sim, p, event)
    else:
        health_intervals.remember_offsets(sim, p)
        kafka_controller.apply_event(sim, p, event)
    is_same = leader == serving_leader(sim, p) and epoch == partition[Partition.LEADER_EPOCH]
    if kind != EventKind.FETCH or not is_same:
        replica_manager.apply_leader_change(sim, p, leader, epoch)
    health_intervals.update_health(sim, p)
    return True


@part
def _close_partition(sim: SimulationArrays, p: int) -> bool:
    """Let time pass until the end, log the last health interval, and return whether the log had room."""
    health = sim.health[p]
    if health[PartitionHealth.LEADER] == CLOSED:
        return True
    cluster = sim.clusters[sim.partitions[p, Partition.CLUSTER]]
    if not advance_to(sim, p, cluster[ClusterSetup.END_TIME], cluster[ClusterSetup.END_EVENT]):
        return False
    if health[PartitionHealth.LEADER] != health_intervals.NO_PARTITION:
        health_intervals.remember_offsets(sim, p)
        health_intervals.write_health_interval(sim, p, True)
    health[PartitionHealth.LEADER] = CLOSED
    return True
