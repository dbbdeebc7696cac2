"""What several partitions decide together: automatic rebalances of a cluster's leaders, and deletions of topics.

These partitions are simulated in lock step, from stop to stop, to find what happens there. It becomes steps and events
of a simulation in which partitions are independent. Nothing is logged here.
"""

import enum
from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import compiled, copying_part, part
from udfs.simulation.kernels.codes import EventKind, PartitionState
from udfs.simulation.kernels.health_intervals import remember_offsets, update_health
from udfs.simulation.kernels.kafka_controller import (
    all_replicas_deleted,
    apply_deletion,
    apply_step,
    counts_for_rebalance,
)
from udfs.simulation.kernels.partition_state import broker_of, cluster_setting, is_live, serving_leader
from udfs.simulation.kernels.partition_timeline import advance_to, set_context, simulate_partitions
from udfs.simulation.kernels.replica_manager import apply_leader_change
from udfs.simulation.kernels.simulation_arrays import (
    ClusterSetup,
    Deletion,
    Ints,
    Partition,
    Replica,
    SimulationArrays,
    StepKind,
    TimelineStep,
    columns,
)


class StopReason(enum.IntEnum):
    """Why a stop is made. REBALANCE_CHECK and TOPIC_CREATION come before the stop's event, the others after it.

    DELETION_REQUEST: all partitions of a topic are to be deleted. PARTITION_EVENT: may complete a reassignment.
    """

    REBALANCE_CHECK, TOPIC_CREATION, DELETION_REQUEST, PARTITION_EVENT, TIMELINE_STEP = range(5)


@columns
class JointStop(enum.IntEnum):
    """Columns of a stop. ROW_BEGIN, ROW_END: partitions of a topic. STEP: the step that the event is, or -1."""

    REASON, TIME, EVENT, ROW_BEGIN, ROW_END, STEP = range(6)


@columns
class JointAction(enum.IntEnum):
    """Columns of what happens at a stop. SUBJECT: place of the broker to rebalance, or row of the partition."""

    TIME, EVENT, KIND, SUBJECT = range(4)


class DeletionStatus(enum.IntEnum):
    """How far the deletion of a topic is."""

    NOT_REQUESTED, WAITS_FOR_REASSIGNMENT, WAITS_FOR_BROKERS, IN_PROGRESS = range(4)


class JointActions(NamedTuple):
    """Actions found so far. rows: (f, JointAction); used: (1), how many rows count."""

    rows: Ints
    used: Ints


@compiled
def find_joint_actions(sim: SimulationArrays, rows: Ints, places: Ints, stops: Ints) -> Ints:
    """Find (f, JointAction) when leaders of brokers are rebalanced and deletions of topics start and end, in order."""
    # sim lacks what is found here and logs nothing; it becomes the state at the last stop. rows, places: (2), first and
    # last + 1 of the cluster's partitions and brokers; stops: (k, JointStop), in order.
    actions = JointActions(np.empty((64, 4), np.int64), np.zeros(1, np.int64))
    status = np.zeros(rows[1] - rows[0], np.int64)  # DeletionStatus of topics, by their first row
    for i in range(len(stops)):
        stop = stops[i]
        is_check = stop[JointStop.REASON] == StopReason.REBALANCE_CHECK
        topic_rows = stop[JointStop.ROW_END] - stop[JointStop.ROW_BEGIN]
        size = actions.used[0] + (places[1] - places[0] if is_check else 3 * topic_rows)
        if size > len(actions.rows):
            larger = np.empty((2 * len(actions.rows) + size, 4), np.int64)
            for row in range(actions.used[0]):  # slices would cost a second of compile time
                for column in range(4):
                    larger[row, column] = actions.rows[row, column]
            actions = JointActions(larger, actions.used)
        if is_check:
            simulate_partitions(sim, rows[0], rows[1], 2 * stop[JointStop.EVENT])
            _rebalance_leaders(sim, rows, places, stop, actions)
        else:
            topic = stop[JointStop.ROW_BEGIN] - rows[0]
            status[topic] = _advance_deletion(sim, stop, status[topic], actions)
    return actions.rows[: actions.used[0]]


@part
def _add_action(actions: JointActions, stop: Ints, kind: int, subject: int) -> None:
    row = actions.rows[actions.used[0]]
    row[JointAction.TIME], row[JointAction.EVENT] = stop[JointStop.TIME], stop[JointStop.EVENT]
    row[JointAction.KIND], row[JointAction.SUBJECT] = kind, subject
    actions.used[0] += 1


@copying_part
def _rebalance_leaders(sim: SimulationArrays, rows: Ints, places: Ints, stop: Ints, actions: JointActions) -> None:
    """Rebalance brokers if too many partitions that prefer them are led elsewhere."""
    # Source: KafkaController.checkAndTriggerAutoLeaderRebalance.
    preferring, elsewhere = np.zeros(places[1] - places[0], np.int64), np.zeros(places[1] - places[0], np.int64)
    for p in range(rows[0], rows[1]):
        if counts_for_rebalance(sim, p):
            broker = _preferred_broker(sim, p) - places[0]
            preferring[broker] += 1
            elsewhere[broker] += broker_of(sim, p, sim.partitions[p, Partition.LEADER]) != broker + places[0]
    percent = cluster_setting(sim, rows[0], ClusterSetup.IMBALANCE_PERCENT)
    imbalanced = np.zeros(len(preferring), np.int64)
    for broker in range(len(imbalanced)):
        if preferring[broker] and 100 * elsewhere[broker] > percent * preferring[broker]:
            imbalanced[broker] = 1
            _add_action(actions, stop, EventKind.LEADERS_REBALANCED, places[0] + broker)
    for p in range(rows[0], rows[1]):
        if counts_for_rebalance(sim, p) and imbalanced[_preferred_broker(sim, p) - places[0]]:
            advance_to(sim, p, stop[JointStop.TIME], stop[JointStop.EVENT])
            leader, epoch = serving_leader(sim, p), sim.partitions[p, Partition.LEADER_EPOCH]
            preferred = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN], Replica.AR]
            apply_step(sim, p, StepKind.LEADER_REBALANCE, preferred)
            apply_leader_change(sim, p, leader, epoch)


@part
def _preferred_broker(sim: SimulationArrays, p: int) -> int:
    return broker_of(sim, p, sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN], Replica.AR])


@part
def _advance_deletion(sim: SimulationArrays, stop: Ints, status: int, actions: JointActions) -> int:
    """Advance the deletion of a topic at a stop, and return its status."""
    # It starts when all partitions of the topic are to be deleted, none is being reassigned, and there is a controller;
    # later, when a broker of its replicas returns. It ends when every replica is deleted.
    # Source: TopicDeletionManager.resumeDeletions.
    begin, end, reason = stop[JointStop.ROW_BEGIN], stop[JointStop.ROW_END], stop[JointStop.REASON]
    if status == DeletionStatus.NOT_REQUESTED and reason != StopReason.DELETION_REQUEST:
        return status
    if reason == StopReason.PARTITION_EVENT and status != DeletionStatus.WAITS_FOR_REASSIGNMENT:
        return status
    before = _count_deletions(sim, begin, end)
    simulate_partitions(sim, begin, end, 2 * stop[JointStop.EVENT] + 2 * (reason != StopReason.TOPIC_CREATION))
    if reason == StopReason.TOPIC_CREATION:
        _block_creation(sim, stop, actions)
        return status
    queued, started, reassigned, remaining = _count_deletions(sim, begin, end)
    may_start = queued + started > before[0] + before[1] or status == DeletionStatus.WAITS_FOR_REASSIGNMENT
    may_start = may_start or _is_resumed_by_step(sim, stop)
    if may_start and remaining == 0 and reassigned == 0 and _has_controller(sim, begin):
        _apply_to_topic(sim, stop, Deletion.QUEUED, EventKind.TOPIC_DELETION_STARTED, actions)
    is_done = remaining == 0
    for p in range(begin, end):
        deletion = sim.partitions[p, Partition.DELETION]
        is_deleted = deletion == Deletion.STARTED and all_replicas_deleted(sim, p)
        is_done = is_done and (deletion == Deletion.NONE or is_deleted)
    if is_done:
        _apply_to_topic(sim, stop, Deletion.STARTED, EventKind.TOPIC_DELETION_COMPLETED, actions)
    queued, started, reassigned, remaining = _count_deletions(sim, begin, end)
    if queued + started == 0:
        return DeletionStatus.NOT_REQUESTED
    if reassigned:
        return DeletionStatus.WAITS_FOR_REASSIGNMENT
    return DeletionStatus.WAITS_FOR_BROKERS if queued else DeletionStatus.IN_PROGRESS


@part
def _count_deletions(sim: SimulationArrays, begin: int, end: int) -> tuple[int, int, int, int]:
    """Return how many partitions are queued for deletion, being deleted, being reassigned, and not to be deleted."""
    queued, started, reassigned, remaining = 0, 0, 0, 0
    for p in range(begin, end):
        partition = sim.partitions[p]
        queued += partition[Partition.DELETION] == Deletion.QUEUED
        started += partition[Partition.DELETION] == Deletion.STARTED
        reassigned += partition[Partition.TARGET_SIZE] > 0
        exists = partition[Partition.STATE] != PartitionState.NON_EXISTENT
        remaining += exists and partition[Partition.DELETION] == Deletion.NONE
    return queued, started, reassigned, remaining


@part
def _has_controller(sim: SimulationArrays, p: int) -> bool:
    """Return whether there is a controller after p's last step: there is none once the last broker has failed."""
    step = sim.partitions[p, Partition.NEXT_STEP] - 1
    is_first = step < cluster_setting(sim, p, ClusterSetup.STEP_BEGIN)
    return bool(is_first or sim.steps[step, TimelineStep.KIND] != StepKind.UNNOTICED_DOWN)


@part
def _is_resumed_by_step(sim: SimulationArrays, stop: Ints) -> bool:
    """Return whether the stop is the return of a broker with replicas, or a new controller with all brokers live."""
    if stop[JointStop.REASON] != StopReason.TIMELINE_STEP:
        return False
    step = sim.steps[stop[JointStop.STEP]]
    kind, down, returned = step[TimelineStep.KIND], 0, False
    for p in range(stop[JointStop.ROW_BEGIN], stop[JointStop.ROW_END]):
        partition = sim.partitions[p]
        if partition[Partition.DELETION] == Deletion.NONE:
            continue
        set_context(sim, p, stop[JointStop.TIME], stop[JointStop.EVENT])
        begin = partition[Partition.REPLICA_BEGIN]
        for slot in sim.replicas[begin : begin + partition[Partition.AR_SIZE], Replica.AR]:
            down += not is_live(sim, p, slot)
            returned = returned or broker_of(sim, p, slot) == step[TimelineStep.BROKER]
    if kind == StepKind.BROKER_UP:
        return returned
    is_failover = kind in (StepKind.CONTROLLER_DOWN, StepKind.CONTROLLER_UP, StepKind.CONTROLLER_FAILOVER)
    return is_failover and down == 0


@part
def _apply_to_topic(sim: SimulationArrays, stop: Ints, deletion: int, kind: int, actions: JointActions) -> None:
    """Start or complete the deletion of all partitions of a topic that have this Deletion."""
    for p in range(stop[JointStop.ROW_BEGIN], stop[JointStop.ROW_END]):
        if sim.partitions[p, Partition.DELETION] != deletion:
            continue
        advance_to(sim, p, stop[JointStop.TIME], stop[JointStop.EVENT])
        leader, epoch = serving_leader(sim, p), sim.partitions[p, Partition.LEADER_EPOCH]
        remember_offsets(sim, p)
        apply_deletion(sim, p, kind)
        apply_leader_change(sim, p, leader, epoch)
        update_health(sim, p)
        _add_action(actions, stop, kind, p)


@part
def _block_creation(sim: SimulationArrays, stop: Ints, actions: JointActions) -> None:
    """Block the creation of partitions before the stop's event, as their topic still exists."""
    for p in range(stop[JointStop.ROW_BEGIN], stop[JointStop.ROW_END]):
        partition = sim.partitions[p]
        if partition[Partition.STATE] == PartitionState.NON_EXISTENT and partition[Partition.DELETION] == Deletion.NONE:
            partition[Partition.DELETION] = Deletion.QUEUED
            _add_action(actions, stop, EventKind.CREATION_BLOCKED, p)
            actions.rows[actions.used[0] - 1, JointAction.EVENT] -= 1
