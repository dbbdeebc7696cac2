"""Events that partitions cause together: automatic leader rebalances, and deletions of topics.

They are found before each partition is simulated alone, and become events like the others.
"""

import numpy as np
import pyarrow as pa

from udfs.simulation.cluster_timeline import ClusterTimeline, build_timeline
from udfs.simulation.event_columns import Bools, name_codes
from udfs.simulation.event_packing import N_CONTROLLER, PackedLog
from udfs.simulation.kernels.broker_timeline import ClusterEvent, find_rebalance_checks
from udfs.simulation.kernels.change_log import new_change_log
from udfs.simulation.kernels.codes import NONE, EventKind
from udfs.simulation.kernels.joint_actions import JointAction, JointStop, StopReason, find_joint_actions
from udfs.simulation.kernels.simulation_arrays import (
    ClusterSetup,
    Ints,
    Partition,
    PartitionEvent,
    PartitionEvents,
    SimulationArrays,
    SimulationState,
    StepKind,
    TimelineStep,
)

_DELETION_STEPS = (StepKind.BROKER_UP, StepKind.CONTROLLER_UP, StepKind.CONTROLLER_DOWN, StepKind.CONTROLLER_FAILOVER)


def find_joint_events(log: PackedLog, schema: pa.Schema) -> pa.Table:
    """Find which brokers' leaders are rebalanced when, and when deletions of topics start and end.

    Args:
        log: All partitions of its clusters; of a cluster that is too short for a rebalance, all of each deleted topic.
        schema: EVENTS or WIRE.

    Returns:
        Events, in this schema.
    """
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
        steps = slice(
            timeline.arrays.clusters[c, ClusterSetup.STEP_BEGIN], timeline.arrays.clusters[c, ClusterSetup.STEP_END]
        )
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
        is_after = np.isin(
            stops[:, JointStop.REASON], (StopReason.REBALANCE_CHECK, StopReason.TOPIC_CREATION), invert=True
        )
        stops = stops[
            np.lexsort(
                (stops[:, JointStop.REASON] == StopReason.REBALANCE_CHECK, 2 * stops[:, JointStop.EVENT] + 2 * is_after)
            )
        ]
        new = find_joint_actions(
            SimulationArrays(*state, *timeline.arrays, *own, *journal), rows[c : c + 2], places[c : c + 2], stops
        )
        actions.append(np.column_stack([np.full(len(new), c), new]))
    return np.concatenate(actions)


def _list_checks(log: PackedLog, timeline: ClusterTimeline, c: int, times: Ints, steps: slice) -> Ints:
    """List the stops (JointStop) at which a controller checks the imbalance of leaders."""
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
        stops = np.concatenate(
            [
                _make_stops(
                    StopReason.DELETION_REQUEST, own[is_delete & ~np.append(_continues_request(is_delete, own), False)]
                ),
                _make_stops(
                    StopReason.TOPIC_CREATION, own[is_create & ~np.append(False, _continues_request(is_create, own))]
                ),
                _make_stops(StopReason.PARTITION_EVENT, own[~is_delete & ~is_create] if is_moved else own[:0]),
                _make_stops(StopReason.TIMELINE_STEP, steps[places], TimelineStep.TIME, TimelineStep.EVENT, places),
            ]
        )
        stops[:, JointStop.ROW_BEGIN], stops[:, JointStop.ROW_END] = first, last
        return stops[stops[:, JointStop.EVENT] >= since]


def _make_stops(
    reason: int, rows: Ints, at: int = PartitionEvent.TIME, event: int = PartitionEvent.NUMBER, step: Ints | int = -1
) -> Ints:
    """Make stops (JointStop) from rows with their time and event in these columns."""
    stops = np.full((len(rows), len(JointStop)), -1)
    stops[:, JointStop.REASON], stops[:, JointStop.TIME], stops[:, JointStop.EVENT] = (
        reason,
        rows[:, at],
        rows[:, event],
    )
    stops[:, JointStop.STEP] = step
    return stops


def _continues_request(is_kind: Bools, own: Ints) -> Bools:
    """Return whether each row's successor is of the same request: a request for a topic has an event per partition."""
    is_next = (np.diff(own[:, PartitionEvent.NUMBER]) == 1) & (np.diff(own[:, PartitionEvent.TIME]) == 0)
    both: Bools = is_kind[:-1] & is_kind[1:] & is_next
    return both
