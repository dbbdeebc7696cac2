"""Go through the steps and requests of a simulation, and write what the controller does at each.

Source for KRaft: ReplicationControlManager of Kafka 4.1. zookeeper_steps.py has controllers with ZooKeeper.
"""

import base64
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from udfs.simulation.controller.journal_reader import JournalReader, count_causes, format_json
from udfs.simulation.event_packing import N_CONTROLLER, N_EPOCH
from udfs.simulation.kernels.broker_timeline import ClusterEvent
from udfs.simulation.kernels.codes import ChangeCause, EventKind, PartitionState
from udfs.simulation.kernels.simulation_arrays import (
    ClusterSetup,
    Ints,
    LeadershipRow,
    Partition,
    PartitionEvent,
    Replica,
    StepKind,
    TimelineStep,
    TransitionRow,
)
from udfs.simulation.simulator import Simulation

_LOG = "__cluster_metadata"
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
    at_ms: int
    step: int  # Position within the event, from 0
    controller_id: int | None  # Active controller; None while there is none
    controller_epoch: int
    action: str  # What it does, in words
    path: str | None = None  # A znode, or the metadata log; None for neither
    data: str | None = None  # Text of the znode, or JSON of what is sent or counted; None for nothing


class EventBatch(NamedTuple):
    """Adjacent events of one kind, topic and time: one request, or one batch of records."""

    partitions: Ints
    lists: Ints
    kind: int
    first: int
    last: int
    at: int
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

    def write(self) -> list[ControllerStep]:
        """Write all steps, in order."""
        items: list[tuple[int, Callable[[], None]]] = []
        for t, order in enumerate(self._timeline.arrays.steps[:, TimelineStep.ORDER].tolist()):
            items.append((order, partial(self._take_step, t)))
        for batch in self._list_batches():
            order = 2 * batch.first + 1 + (batch.kind == EventKind.TOPIC_DELETION_STARTED)
            items.append((order, partial(self._take_batch, batch)))
        events = self._log.cluster_events
        items += [
            (2 * int(row[ClusterEvent.NUMBER]) + 1, partial(self._write_old_controller, row))
            for row in events[events[:, ClusterEvent.KIND] == EventKind.STALE_CONTROLLER]
        ]
        for _, take in sorted(items, key=lambda item: item[0]):
            take()
        return self._steps

    def _write_step(self, kind: int, place: int, after: tuple[int | None, int], wrote: Ints) -> None:
        """Write a step of brokers or controllers. after: controller and epoch after it; wrote: leaderships."""
        raise NotImplementedError

    def _write_batch(self, batch: EventBatch) -> None:
        raise NotImplementedError

    def _write(self, action: str, path: str | None = None, data: str | None = None, **fields: Any) -> None:
        """Write a step; its data is a text, or these fields in JSON."""
        is_same_event = bool(self._steps) and self._steps[-1].event == self._event
        step = self._steps[-1].step + 1 if is_same_event else 0
        controller, data = (self._controller, self._epoch), format_json(**fields) if fields else data
        self._steps.append(ControllerStep(self._event, self._at, step, *controller, action, path, data))

    def _advance(self, event: int, at: int) -> None:
        self._event, self._at = event, at
        self._reader.advance(event)

    def _take_batch(self, batch: EventBatch) -> None:
        self._advance(batch.first, batch.at)
        self._write_batch(batch)

    def _take_step(self, t: int) -> None:
        row = self._timeline.arrays.steps[t]
        kind, place, event = int(row[TimelineStep.KIND]), int(row[TimelineStep.BROKER]), int(row[TimelineStep.EVENT])
        self._advance(event, int(row[TimelineStep.TIME]))
        wrote = self._reader.list_leaderships(event, event, self._at)
        cause = wrote[:, LeadershipRow.CAUSE]
        # A rebalance and the event after it have the same number. Deletions of topics write theirs themselves.
        is_own = cause != ChangeCause.AUTO_REBALANCE
        if kind == StepKind.LEADER_REBALANCE:
            is_own = ~is_own & (wrote[:, LeadershipRow.TO_BROKER] == place)
        after = self._find_controller(t, kind, event), int(row[TimelineStep.CONTROLLER_EPOCH])
        self._write_step(kind, place, after, wrote[is_own & (cause != ChangeCause.TOPIC_DELETION)])
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
        epoch, number, broker = (int(row[i]) for i in (ClusterEvent.VALUE, ClusterEvent.NUMBER, ClusterEvent.BROKER_ID))
        self._advance(number, int(row[ClusterEvent.TIME]))
        own = self._log.own.events
        kind, numbers = own[:, PartitionEvent.KIND], own[:, PartitionEvent.NUMBER]
        is_request = (kind == EventKind.STALE_CONTROLLER) & (numbers == number)
        fields: dict[str, Any] = {} if broker < 0 else {"broker": broker}
        for p in self._find_partitions(np.flatnonzero(is_request)):
            fields["partition"] = f"{self._reader.topics[p]}-{self._reader.numbers[p]}"
        answer = f"accepted: controller epoch {epoch}"
        if epoch > self._epoch:
            answer = f"impossible: no controller has had epoch {epoch} yet; the current epoch is {self._epoch}"
        elif epoch < self._epoch:
            answer = f"rejected: STALE_CONTROLLER_EPOCH, {epoch} < {self._epoch}"
        self._write(answer, data=format_json(**fields))

    def _find_partitions(self, events: Ints) -> Ints:
        return np.searchsorted(self._log.state.partitions[:, Partition.EVENT_END], events, side="right")

    def _list_batches(self) -> Iterator[EventBatch]:
        """List the events of partitions that the controller acts on, as requests and batches."""
        kind = self._log.own.events[:, PartitionEvent.KIND]
        chosen = np.flatnonzero(np.isin(kind, _BATCH_KINDS))
        number = self._log.own.events[chosen, PartitionEvent.NUMBER]
        chosen = chosen[np.lexsort((kind[chosen] == EventKind.TOPIC_DELETION_STARTED, number))]
        if not len(chosen):
            return
        rows, p = self._log.own.events[chosen], self._find_partitions(chosen)
        of_batch = (PartitionEvent.KIND, PartitionEvent.NUMBER, PartitionEvent.TIME, PartitionEvent.VALUE)
        kind, number, at, value = (rows[:, i] for i in of_batch)
        topic = np.unique(self._reader.topics, return_inverse=True)[1][p]
        topic[kind == EventKind.PARTITION_RECORD] = -1  # a batch has records of any topics
        key = np.stack([kind, at, topic, value])
        is_new = np.any(key[:, 1:] != key[:, :-1], axis=0) | (np.diff(number) > 1)
        for part in np.split(np.arange(len(rows)), np.flatnonzero(is_new) + 1):
            first, last = part[0], part[-1]
            numbers = (kind[first], number[first], number[last], at[first], value[first])
            yield EventBatch(p[part], rows[part, PartitionEvent.LIST], *map(int, numbers))

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
        states = self._reader.list_transitions(batch.first, batch.last)[:, TransitionRow.TO_STATE]
        return bool((states == PartitionState.NEW).any())

    def _write_validated(self, topic: str, adds_partitions: bool, assignment: dict[str, list[int]]) -> None:
        request = "add partitions to" if adds_partitions else "create"
        self._write(f"request to {request} {topic}: validated", partitions=assignment)

    def _get_topic(self, batch: EventBatch) -> str:
        return str(self._reader.topics[batch.partitions[0]])


class KRaftStepWriter(StepWriter):
    """Writes records of the metadata log, which brokers read."""

    def _write_step(self, kind: int, place: int, after: tuple[int | None, int], wrote: Ints) -> None:
        self._reader.change_broker(kind, place)
        broker = self._reader.get_broker(place)
        if kind in (StepKind.QUORUM_CHANGE, StepKind.CONTROLLER_FAILOVER):
            self._controller, self._epoch = after
            self._write(f"leader of the metadata quorum: {after[0]}, epoch {after[1]}", _LOG)
            return
        if kind == StepKind.UNNOTICED_DOWN:
            self._write(f"broker {broker} fails: without a majority of the quorum's voters, nothing is written", _LOG)
            return
        if kind == StepKind.LEADER_REBALANCE:
            if not len(wrote):
                return  # the preferred leader cannot lead
            self._write(f"leader balance: broker {broker} is the preferred leader, and in sync again")
        else:
            change: dict[str, Any] = {"fenced": 1 if kind in (StepKind.BROKER_DOWN, StepKind.BROKER_FENCED) else -1}
            if kind == StepKind.CONTROLLED_SHUTDOWN:
                change = {"inControlledShutdown": 1}
            self._write("BROKER_REGISTRATION_CHANGE_RECORD", _LOG, brokerId=broker, **change)
        if kind not in (StepKind.BROKER_FENCED, StepKind.BROKER_UNFENCED):  # of a replayed log, which has the records
            self._write(f"PARTITION_CHANGE_RECORD: {len(wrote)}", _LOG, count_causes(wrote))

    def _write_batch(self, batch: EventBatch) -> None:
        count = len(batch.partitions)
        if batch.kind == EventKind.PARTITION_RECORD:
            self._write(f"{'PARTITION_RECORD' if batch.value else 'PARTITION_CHANGE_RECORD'}: {count}", _LOG)
        elif batch.kind == EventKind.CREATE_PARTITION:
            self._write_creation(batch)
        elif self._reader.exists()[batch.partitions].any():
            self._write("REMOVE_TOPIC_RECORD", _LOG, name=self._get_topic(batch))

    def _write_creation(self, batch: EventBatch) -> None:
        reader, topic, assignment = self._reader, self._get_topic(batch), self._list_assignment(batch)
        adds_partitions = self._adds_partitions(batch)
        if not self._is_accepted(batch):
            self._write(f"request to create {topic}: rejected", partitions=assignment)
            return
        self._write_validated(topic, adds_partitions, assignment)
        topic_id = {} if adds_partitions else {"topicId": make_topic_id(reader.cluster, topic, batch.first)}
        if not adds_partitions:
            self._write("TOPIC_RECORD", _LOG, name=topic, **topic_id)
        wrote = reader.list_leaderships(batch.first, batch.last, self._at)
        # A rebalance just before has the same event number.
        for row in wrote[wrote[:, LeadershipRow.CAUSE] == ChangeCause.CREATED]:
            number = int(reader.numbers[row[LeadershipRow.PARTITION]])
            self._write(
                "PARTITION_RECORD",
                _LOG,
                partitionId=number,
                **topic_id,
                replicas=assignment[str(number)],
                isr=reader.list_isr(row),
                removingReplicas=[],
                addingReplicas=[],
                leader=reader.get_leader(row),
                leaderEpoch=int(row[LeadershipRow.LEADER_EPOCH]),
                partitionEpoch=0,
            )
        self._write("request answered: the records are committed")
