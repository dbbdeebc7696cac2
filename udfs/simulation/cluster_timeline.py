"""The timeline of a cluster, through which each partition can go alone: steps of its brokers and controllers.

Steps and events that partitions cause together are found first: automatic leader rebalances, and deletions of topics.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from udfs.simulation.event_columns import Bools, fill_rows, name_codes
from udfs.simulation.event_packing import N_CONTROLLER, N_EPOCH, PackedLog
from udfs.simulation.kernels.broker_timeline import ClusterEvent, build_timeline_steps, find_rebalance_checks
from udfs.simulation.kernels.codes import NONE, EventKind
from udfs.simulation.kernels.joint_actions import JointAction, JointStop, StopReason, find_joint_actions
from udfs.simulation.kernels.simulation_arrays import (
    DOWN_STEPS,
    UP_STEPS,
    BrokerFlag,
    ClusterSetup,
    Ints,
    Partition,
    PartitionEvent,
    PartitionEvents,
    SimulationArrays,
    SimulationState,
    StepKind,
    Timeline,
    TimelineStep,
    new_change_log,
)

_STEPS_OF_ALL_PARTITIONS = (StepKind.CONTROLLER_DOWN, StepKind.CONTROLLER_UP, StepKind.CONTROLLER_FAILOVER)


@dataclass(frozen=True)
class ClusterTimeline:
    """Timelines of the clusters of a log."""

    arrays: Timeline  # Steps of all clusters, automatic rebalances included, and how to find those of a broker
    controllers: Ints  # After each step, the place of the controller's broker, or -1
    flags: Ints  # Flags of each broker at the end


def build_timeline(log: PackedLog, checks: Ints) -> ClusterTimeline:
    """Build the timelines of a log's clusters; checks: automatic rebalances, as `PackedLog.checks`."""
    clusters = np.arange(len(log.numbers) + 1)
    first_broker = np.searchsorted(log.broker_cluster, clusters)
    first_check = np.searchsorted(checks[:, 0], clusters)
    cluster = np.zeros((len(log.numbers), len(ClusterSetup)), np.int64)
    cluster[:, :N_CONTROLLER] = log.numbers[:, :N_CONTROLLER]
    cluster[:, ClusterSetup.INITIAL_CONTROLLER_EPOCH] = log.numbers[:, N_EPOCH]
    steps, controllers = [np.empty((0, len(TimelineStep)), np.int64)], [np.empty(0, np.int64)]
    flags, size = log.flags.copy(), 0
    for c, row in enumerate(log.numbers):
        events = log.cluster_events[log.cluster_events_begin[c] : log.cluster_events_begin[c + 1]]
        own_flags, first = flags[first_broker[c] : first_broker[c + 1]], int(first_broker[c])
        setup = bool(row[ClusterSetup.KRAFT]), int(row[N_CONTROLLER]), int(row[N_EPOCH])
        new_steps = build_timeline_steps(events, own_flags, first, *setup)
        own_steps, own_controllers = _insert_checks(*new_steps, checks[first_check[c] : first_check[c + 1]], row)
        cluster[c, ClusterSetup.STEP_BEGIN], cluster[c, ClusterSetup.STEP_END] = size, size + len(own_steps)
        size += len(own_steps)
        steps.append(own_steps)
        controllers.append(own_controllers)
    all_steps = np.concatenate(steps)
    broker, change = _list_changes(all_steps, log.flags)
    broker, step_index = _index_steps(all_steps, cluster, broker)
    return ClusterTimeline(Timeline(all_steps, cluster, broker, change, step_index), np.concatenate(controllers), flags)


def _insert_checks(steps: Ints, controllers: Ints, checks: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Insert automatic rebalances into a cluster's steps; return (steps, controllers after them)."""
    if not len(checks):
        return steps, controllers
    before = np.searchsorted(steps[:, TimelineStep.ORDER], 2 * checks[:, 2])
    values = {
        TimelineStep.TIME: checks[:, 1],
        TimelineStep.EVENT: checks[:, 2],
        TimelineStep.ORDER: 2 * checks[:, 2],
        TimelineStep.KIND: StepKind.LEADER_REBALANCE,
        TimelineStep.BROKER: checks[:, 3],
        TimelineStep.CONTROLLER_EPOCH: np.append(numbers[N_EPOCH], steps[:, TimelineStep.CONTROLLER_EPOCH])[before],
    }
    more = fill_rows(len(checks), TimelineStep, values)
    controller = np.append(numbers[N_CONTROLLER], controllers)[before]
    merged = np.concatenate([steps, more])
    order = np.argsort(merged[:, TimelineStep.ORDER], kind="stable")
    return merged[order], np.concatenate([controllers, controller])[order]


def _list_changes(steps: Ints, flags: Ints) -> tuple[Ints, Ints]:
    """Return (broker: (n, 2), change: (k, 2)) of Timeline: which flags a broker has from which step on."""
    # A broker that fails while it shuts down keeps SHUTTING_DOWN: it had handed over its leaders.
    kinds = (*DOWN_STEPS, *UP_STEPS, StepKind.CONTROLLED_SHUTDOWN)
    step = np.flatnonzero(np.isin(steps[:, TimelineStep.KIND], kinds))
    step = step[np.argsort(steps[step, TimelineStep.BROKER], kind="stable")]
    place, kind = steps[step, TimelineStep.BROKER], steps[step, TimelineStep.KIND]
    is_leaving = kind == StepKind.CONTROLLED_SHUTDOWN
    value = BrokerFlag.LIVE * ~np.isin(kind, DOWN_STEPS) + BrokerFlag.SHUTTING_DOWN * is_leaving
    was_leaving = np.zeros(len(place), np.bool_)
    was_leaving[1:] = (place[1:] == place[:-1]) & is_leaving[:-1]
    value[(value == 0) & was_leaving] = BrokerFlag.SHUTTING_DOWN
    all_places = np.concatenate([np.arange(len(flags)), place])
    rows = np.stack([np.concatenate([np.full(len(flags), -1), step]), np.concatenate([flags, value])], axis=1)
    order = np.argsort(all_places, kind="stable")
    begins = np.searchsorted(all_places[order], np.arange(len(flags) + 1))
    return np.stack([begins[:-1], begins[1:]], axis=1).astype(np.int64), rows[order].astype(np.int64)


def _index_steps(steps: Ints, cluster: Ints, broker: Ints) -> tuple[Ints, Ints]:
    """Return (broker: (n, 4), of) of Timeline; write into `cluster` which steps concern all of its partitions."""
    place, kind = steps[:, TimelineStep.BROKER], steps[:, TimelineStep.KIND]
    of_brokers = np.flatnonzero((place >= 0) & (kind != StepKind.QUORUM_CHANGE))
    of_brokers = of_brokers[np.argsort(place[of_brokers], kind="stable")]
    begins = np.searchsorted(place[of_brokers], np.arange(len(broker) + 1))
    of_all = np.flatnonzero(np.isin(kind, _STEPS_OF_ALL_PARTITIONS))
    for column, bound in (
        (ClusterSetup.COMMON_STEP_BEGIN, ClusterSetup.STEP_BEGIN),
        (ClusterSetup.COMMON_STEP_END, ClusterSetup.STEP_END),
    ):
        cluster[:, column] = len(of_brokers) + np.searchsorted(of_all, cluster[:, bound])
    step_index = np.concatenate([of_brokers, of_all]).astype(np.int64)[:, None]
    return np.concatenate([broker, begins[:-1, None], begins[1:, None]], axis=1).astype(np.int64), step_index


_DELETION_STEPS = (StepKind.BROKER_UP, StepKind.CONTROLLER_UP, StepKind.CONTROLLER_DOWN, StepKind.CONTROLLER_FAILOVER)


def find_joint_events(log: PackedLog, schema: pa.Schema) -> pa.Table:
    """Find when brokers' leaders are rebalanced and deletions of topics start and end: events in this schema."""
    # log: all partitions of its clusters; of a cluster that is too short for a rebalance, all of each deleted topic.
    actions = _find(log)
    cluster, kind, target = actions[:, 0], actions[:, 1 + JointAction.KIND], actions[:, 1 + JointAction.SUBJECT]
    is_rebalance, size = kind == EventKind.LEADERS_REBALANCED, len(actions)
    columns: dict[str, pa.Array] = {
        "cluster_id": pa.array([log.clusters[c][0] for c in cluster.tolist()], pa.string()),
        "snapshot_id": pa.array([log.clusters[c][1] for c in cluster.tolist()], pa.string()),
        "at_ms": pa.array(actions[:, 1 + JointAction.TIME]),
        "event": pa.array(actions[:, 1 + JointAction.EVENT]),
        "kind": name_codes(EventKind.labels(), kind),
    }
    if is_rebalance.any():
        brokers = log.brokers[np.where(is_rebalance, target, 0)].astype(np.int32)
        columns["broker_id"] = pa.array(brokers, mask=~is_rebalance)
    if not is_rebalance.all():
        numbers = log.partitions[np.where(is_rebalance, 0, target)].astype(np.int32)
        columns["topic"] = log.topics.take(pa.array(target, mask=is_rebalance))
        columns["partition"] = pa.array(numbers, mask=is_rebalance)
    if "lists" in schema.names:
        columns["lists"] = pa.array([[]] * size, schema.field("lists").type)
    arrays = [columns.get(field.name, pa.nulls(size, field.type)) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _find(log: PackedLog) -> Ints:
    """Return int64 (f, 1 + JointAction): cluster, then what find_joint_actions returns."""
    timeline = build_timeline(log, np.empty((0, 4), np.int64))
    clusters = np.arange(len(log.clusters) + 1)
    rows = np.searchsorted(log.state.partitions[:, Partition.CLUSTER], clusters)
    places = np.searchsorted(log.broker_cluster, clusters)
    deletions = _Deletions(log)
    is_checked = (log.numbers[:, ClusterSetup.AUTO_LEADER_REBALANCE] != 0) & (np.diff(rows) > 0)
    times = _list_times(log) if is_checked.any() else []
    actions = [np.empty((0, 1 + len(JointAction)), np.int64)]
    state: SimulationState | None = None
    for c in clusters[:-1].tolist():
        steps = slice(*timeline.arrays.clusters[c, [ClusterSetup.STEP_BEGIN, ClusterSetup.STEP_END]].tolist())
        parts = deletions.list_stops(c, timeline.arrays.steps, steps)
        if is_checked[c]:
            parts.append(_list_checks(log, timeline, c, times[c], steps))
        stops = np.concatenate([np.empty((0, len(JointStop)), np.int64), *parts])
        if not len(stops):
            continue
        if state is None:  # the simulation itself needs the initial state unchanged
            state = SimulationState(*(array.copy() for array in log.state))
            own = PartitionEvents(log.own.events, log.own.lists, log.own.requests.copy(), log.own.request_lists.copy())
            journal = new_change_log(1, 0, enabled=False)
        is_check = stops[:, JointStop.REASON] == StopReason.REBALANCE_CHECK
        is_before = is_check | (stops[:, JointStop.REASON] == StopReason.TOPIC_CREATION)
        stops = stops[np.lexsort((is_check, stops[:, JointStop.EVENT] + ~is_before))]
        sim = SimulationArrays(*state, *timeline.arrays, *own, *journal)
        new = find_joint_actions(sim, rows[c : c + 2], places[c : c + 2], stops)
        actions.append(np.column_stack([np.full(len(new), c), new]))
    return np.concatenate(actions)


def _list_checks(log: PackedLog, timeline: ClusterTimeline, c: int, times: Ints, steps: slice) -> Ints:
    numbers, arrays = log.numbers[c], timeline.arrays
    due = find_rebalance_checks(
        np.concatenate([times, arrays.clusters[c : c + 1, [ClusterSetup.END_TIME, ClusterSetup.END_EVENT]]]),
        arrays.steps[steps],
        timeline.controllers[steps],
        bool(numbers[ClusterSetup.KRAFT]) or numbers[N_CONTROLLER] != NONE,
        int(numbers[ClusterSetup.START_TIME] + numbers[ClusterSetup.REBALANCE_CHECK_MS]),
        int(numbers[ClusterSetup.REBALANCE_CHECK_MS]),
        int(numbers[ClusterSetup.FIRST_REBALANCE_CHECK_MS]),
    )
    return _make_stops(StopReason.REBALANCE_CHECK, due, at=0, event=1)


def _list_times(log: PackedLog) -> list[Ints]:
    """List, for each cluster, (time, number) of all its events, in their order."""
    now, own, events = log.state.partitions, log.own.events, log.cluster_events
    sizes = now[:, Partition.EVENT_END] - now[:, Partition.EVENT_BEGIN]
    of_events = np.repeat(np.arange(len(log.clusters)), np.diff(log.cluster_events_begin))
    cluster = np.concatenate([np.repeat(now[:, Partition.CLUSTER], sizes), of_events])
    event = np.concatenate([own[:, PartitionEvent.NUMBER], events[:, ClusterEvent.NUMBER]])
    at = np.concatenate([own[:, PartitionEvent.TIME], events[:, ClusterEvent.TIME]])
    order = np.lexsort((event, cluster))
    begins = np.cumsum(np.bincount(cluster, minlength=len(log.clusters)))[:-1]
    return np.split(np.stack([at, event], axis=1)[order], begins)


class _Deletions:
    """Topics that are deleted in clusters with ZooKeeper, and the stops at which their deletion may continue."""

    def __init__(self, log: PackedLog) -> None:
        self._now, self._events = log.state.partitions, log.own.events
        now = self._now
        is_deleted = np.zeros(len(now), np.bool_)
        requests = np.flatnonzero(self._events[:, PartitionEvent.KIND] == EventKind.DELETE_PARTITION)
        is_deleted[np.searchsorted(now[:, Partition.EVENT_END], requests, side="right")] = True
        is_deleted &= log.numbers[now[:, Partition.CLUSTER], ClusterSetup.KRAFT] == 0
        self._topics: dict[int, list[tuple[int, int]]] = {}  # by cluster: first row and last + 1
        if not is_deleted.any():
            return
        codes = np.asarray(log.topics.dictionary_encode().indices)
        is_new = np.append(True, (codes[1:] != codes[:-1]) | (np.diff(now[:, Partition.CLUSTER]) != 0))
        begins = np.flatnonzero(is_new)
        for first, last in zip(begins, [*begins[1:], len(now)], strict=True):
            if is_deleted[first:last].any():
                self._topics.setdefault(int(now[first, Partition.CLUSTER]), []).append((int(first), int(last)))

    def list_stops(self, c: int, steps: Ints, chosen: slice) -> list[Ints]:
        """List the stops (JointStop) of a cluster, topic by topic. Its steps are steps[chosen]."""
        places = np.flatnonzero(np.isin(steps[chosen, TimelineStep.KIND], _DELETION_STEPS)) + chosen.start
        return [self._list_topic_stops(first, last, steps, places) for first, last in self._topics.get(c, [])]

    def _list_topic_stops(self, first: int, last: int, steps: Ints, places: Ints) -> Ints:
        now = self._now[first:last]
        own = self._events[now[0, Partition.EVENT_BEGIN] : now[-1, Partition.EVENT_END]]
        own = own[np.argsort(own[:, PartitionEvent.NUMBER], kind="stable")]
        kind, event = own[:, PartitionEvent.KIND], own[:, PartitionEvent.NUMBER]
        is_delete, is_create = kind == EventKind.DELETE_PARTITION, kind == EventKind.CREATE_PARTITION
        since, is_moved = int(event[is_delete].min()), (kind == EventKind.REASSIGN_PARTITION).any()
        deletes = own[is_delete & ~np.append(_continues_request(is_delete, own), False)]
        creates = own[is_create & ~np.append(False, _continues_request(is_create, own))]
        others = own[~is_delete & ~is_create & is_moved]
        parts = [
            _make_stops(StopReason.DELETION_REQUEST, deletes),
            _make_stops(StopReason.TOPIC_CREATION, creates),
            _make_stops(StopReason.PARTITION_EVENT, others),
            _make_stops(StopReason.TIMELINE_STEP, steps[places], TimelineStep.TIME, TimelineStep.EVENT, places),
        ]
        stops = np.concatenate(parts)
        stops[:, JointStop.ROW_BEGIN], stops[:, JointStop.ROW_END] = first, last
        return stops[stops[:, JointStop.EVENT] >= since]


def _make_stops(
    reason: int, rows: Ints, at: int = PartitionEvent.TIME, event: int = PartitionEvent.NUMBER, step: Ints | int = -1
) -> Ints:
    """Make stops (JointStop) from rows with their time and event in these columns."""
    stops = np.full((len(rows), len(JointStop)), -1)
    stops[:, JointStop.REASON] = reason
    stops[:, [JointStop.TIME, JointStop.EVENT]] = rows[:, [at, event]]
    stops[:, JointStop.STEP] = step
    return stops


def _continues_request(is_kind: Bools, own: Ints) -> Bools:
    """Return whether each row's successor is of the same request: a request for a topic has an event per partition."""
    is_next = (np.diff(own[:, PartitionEvent.NUMBER]) == 1) & (np.diff(own[:, PartitionEvent.TIME]) == 0)
    return np.asarray(is_kind[:-1] & is_kind[1:] & is_next)
