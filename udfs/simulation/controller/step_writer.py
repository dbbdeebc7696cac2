"""Go through the steps and requests of a simulation; subclasses write what the controller does at each."""

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from udfs.simulation.controller.journal_reader import JournalReader, format_json
from udfs.simulation.event_packing import N_CONTROLLER, N_EPOCH
from udfs.simulation.kernels.broker_timeline import ClusterEvent
from udfs.simulation.kernels.change_log import LeadershipRow, TransitionRow
from udfs.simulation.kernels.codes import ChangeCause, EventKind, PartitionState
from udfs.simulation.kernels.simulation_arrays import (
    ClusterSetup,
    Ints,
    Partition,
    PartitionEvent,
    Replica,
    StepKind,
    TimelineStep,
)
from udfs.simulation.simulator import Simulation

_BATCH_KINDS = (
    EventKind.CREATE_PARTITION,
    EventKind.DELETE_PARTITION,
    EventKind.PARTITION_RECORD,
    EventKind.REMOVE_PARTITION,
    EventKind.TOPIC_DELETION_STARTED,
)


@dataclass(frozen=True)
class ControllerStep:
    """One thing that the controller does."""

    event: int  # Event that causes it
    at_ms: int  # Time, ms
    step: int  # Position within the event, from 0
    controller_id: int | None  # Active controller; None while there is none
    controller_epoch: int  # Its epoch
    action: str  # What it does, in words
    path: str | None = None  # A znode, or the metadata log; None for neither
    data: str | None = None  # Text of the znode, or JSON of what is sent or counted; None for nothing


@dataclass(frozen=True)
class EventBatch:
    """Adjacent events of one kind, topic and time: one request, or one batch of records."""

    kind: int
    first: int
    last: int
    at: int
    partitions: Ints
    lists: Ints
    value: int


def make_topic_id(cluster: str, topic: str, event: int) -> str:
    """Make a topic id as Kafka writes it (22 characters) from a hash of these; Kafka draws it at random."""
    raw = bytearray(hashlib.sha256(f"{cluster}\0{topic}\0{event}".encode()).digest()[:16])
    raw[0] &= 0x7F  # the first character is no "-"
    raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80  # a UUID of version 4
    return base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")


class StepWriter:
    """Goes through steps and events; subclasses implement `_write_step` and `_write_batch`."""

    def __init__(self, simulation: Simulation) -> None:
        """Start before the first event."""
        self._log, self._timeline = simulation.log, simulation.timeline
        self._reader = JournalReader(simulation)
        numbers = self._log.numbers[0]
        self._controller, self._epoch = self._reader.get_broker(numbers[N_CONTROLLER]), int(numbers[N_EPOCH])
        self._steps: list[ControllerStep] = []
        self._event, self._at = -1, 0
        # Partitions that an old controller writes, by event.
        self._partitions_of_old_controllers: dict[int, int] = {}

    def write(self) -> list[ControllerStep]:
        """Write all steps, in order."""
        events = self._log.cluster_events
        items: list[tuple[int, Any]] = [
            (int(row[TimelineStep.ORDER]), t) for t, row in enumerate(self._timeline.arrays.steps)
        ]
        items += [
            (2 * batch.first + 1 + (batch.kind == EventKind.TOPIC_DELETION_STARTED), batch)
            for batch in self._list_batches()
        ]
        items += [
            (2 * int(row[ClusterEvent.NUMBER]) + 1, row)
            for row in events[events[:, ClusterEvent.KIND] == EventKind.STALE_CONTROLLER]
        ]
        for _, item in sorted(items, key=lambda pair: pair[0]):
            if isinstance(item, EventBatch):
                self._advance(item.first, item.at)
                self._write_batch(item)
            elif isinstance(item, int):
                self._take_step(item)
            else:
                self._advance(int(item[ClusterEvent.NUMBER]), int(item[ClusterEvent.TIME]))
                self._write_old_controller(item)
        return self._steps

    def _write_step(self, kind: int, place: int, after: tuple[int | None, int], wrote: Ints) -> None:
        """Write a step of brokers or controllers. after: controller and epoch after it; wrote: leaderships."""
        raise NotImplementedError

    def _write_batch(self, batch: EventBatch) -> None:
        raise NotImplementedError

    def _write(self, action: str, path: str | None = None, data: str | None = None) -> None:
        is_same_event = bool(self._steps) and self._steps[-1].event == self._event
        step = self._steps[-1].step + 1 if is_same_event else 0
        controller = self._controller, self._epoch
        self._steps.append(ControllerStep(self._event, self._at, step, *controller, action, path, data))

    def _advance(self, event: int, at: int) -> None:
        self._event, self._at = event, at
        self._reader.advance(event)

    def _take_step(self, t: int) -> None:
        row = self._timeline.arrays.steps[t]
        kind, place, event = int(row[TimelineStep.KIND]), int(row[TimelineStep.BROKER]), int(row[TimelineStep.EVENT])
        self._advance(event, int(row[TimelineStep.TIME]))
        wrote = self._reader.list_leaderships(event, event, self._at)
        is_rebalance = wrote[:, LeadershipRow.CAUSE] == ChangeCause.AUTO_REBALANCE
        # A rebalance and the event after it have the same number.
        is_own = (
            is_rebalance & (wrote[:, LeadershipRow.TO_BROKER] == place)
            if kind == StepKind.LEADER_REBALANCE
            else ~is_rebalance
        )
        wrote = wrote[
            is_own & (wrote[:, LeadershipRow.CAUSE] != ChangeCause.TOPIC_DELETION)
        ]  # written with the deletion of the topic
        after = self._find_controller(t, kind, event), int(row[TimelineStep.CONTROLLER_EPOCH])
        self._write_step(kind, place, after, wrote)
        self._controller, self._epoch = after

    def _find_controller(self, t: int, kind: int, event: int) -> int | None:
        """Return the controller after a step; a quorum's leader may be no broker."""
        events = self._log.cluster_events
        if kind == StepKind.QUORUM_CHANGE:
            leader = int(events[np.searchsorted(events[:, ClusterEvent.NUMBER], event), ClusterEvent.BROKER_ID])
            return None if leader < 0 else leader
        controller = self._reader.get_broker(int(self._timeline.controllers[t]))
        return self._controller if controller is None and self._log.numbers[0, ClusterSetup.KRAFT] else controller

    def _write_old_controller(self, row: Ints) -> None:
        """Write the answer to a controller's request: it is accepted unless brokers know a later epoch."""
        epoch, p = int(row[ClusterEvent.VALUE]), self._partitions_of_old_controllers.get(int(row[ClusterEvent.NUMBER]))
        sender = {} if row[ClusterEvent.BROKER_ID] < 0 else {"broker": int(row[ClusterEvent.BROKER_ID])}
        partition = {} if p is None else {"partition": f"{self._reader.topics[p]}-{self._reader.numbers[p]}"}
        data = format_json(**sender, **partition)
        if epoch > self._epoch:
            problem = f"no controller has had epoch {epoch} yet, the current one is {self._epoch}"
            self._write(f"impossible: {problem}", data=data)
        elif epoch < self._epoch:
            self._write(f"rejected: STALE_CONTROLLER_EPOCH, {epoch} < {self._epoch}", data=data)
        else:
            self._write(f"accepted: controller epoch {epoch}", data=data)

    def _list_batches(self) -> Iterator[EventBatch]:
        """List the events of partitions that the controller acts on, as requests and batches."""
        now, events = self._log.state.partitions, self._log.own.events
        p = np.searchsorted(now[:, Partition.EVENT_END], np.arange(len(events)), side="right")
        kind = events[:, PartitionEvent.KIND]
        old = np.flatnonzero(kind == EventKind.STALE_CONTROLLER)
        numbers = events[old, PartitionEvent.NUMBER].tolist()
        self._partitions_of_old_controllers = dict(zip(numbers, p[old].tolist(), strict=True))
        chosen = np.flatnonzero(np.isin(kind, _BATCH_KINDS))
        chosen = chosen[
            np.lexsort((kind[chosen] == EventKind.TOPIC_DELETION_STARTED, events[chosen, PartitionEvent.NUMBER]))
        ]
        if not len(chosen):
            return
        rows, p = events[chosen], p[chosen]
        topic = np.unique(self._reader.topics, return_inverse=True)[1][p]
        topic = np.where(
            rows[:, PartitionEvent.KIND] == EventKind.PARTITION_RECORD, -1, topic
        )  # a batch has records of any topics
        key = np.stack(
            [rows[:, PartitionEvent.KIND], rows[:, PartitionEvent.TIME], topic, rows[:, PartitionEvent.VALUE]]
        )
        is_new = np.any(key[:, 1:] != key[:, :-1], axis=0) | (np.diff(rows[:, PartitionEvent.NUMBER]) > 1)
        for part in np.split(np.arange(len(rows)), np.flatnonzero(is_new) + 1):
            first, last = rows[part[0]], rows[part[-1]]
            yield EventBatch(
                int(first[PartitionEvent.KIND]),
                int(first[PartitionEvent.NUMBER]),
                int(last[PartitionEvent.NUMBER]),
                int(first[PartitionEvent.TIME]),
                p[part],
                rows[part, PartitionEvent.LIST],
                int(first[PartitionEvent.VALUE]),
            )

    # ---- topics that are created

    def _list_assignment(self, batch: EventBatch) -> dict[str, list[int]]:
        """Return the replicas of each partition that is created, by number."""
        state, lists = self._log.state, self._log.own.lists
        assignment = {}
        for p, place in zip(batch.partitions, batch.lists, strict=True):
            slots = lists[place + 1 : place + 1 + lists[place]]
            member = state.replicas[state.partitions[p, Partition.REPLICA_BEGIN] + slots, Replica.BROKER]
            assignment[str(self._reader.numbers[p])] = [int(b) for b in self._reader.broker_ids[member]]
        return assignment

    def _adds_partitions(self, batch: EventBatch) -> bool:
        """Return whether the topic has other partitions than those that are created."""
        others = self._reader.exists() & (self._reader.topics == self._get_topic(batch))
        others[batch.partitions] = False
        return bool(others.any())

    def _is_accepted(self, batch: EventBatch) -> bool:
        """Return whether any of the partitions is created; otherwise the request is rejected."""
        return bool(
            (
                self._reader.list_transitions(batch.first, batch.last)[:, TransitionRow.TO_STATE] == PartitionState.NEW
            ).any()
        )

    def _write_validated(self, topic: str, adds_partitions: bool, assignment: dict[str, list[int]]) -> None:
        request = "add partitions to" if adds_partitions else "create"
        self._write(f"request to {request} {topic}: validated", data=format_json(partitions=assignment))

    def _get_topic(self, batch: EventBatch) -> str:
        return str(self._reader.topics[batch.partitions[0]])
