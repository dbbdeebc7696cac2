"""A ZooKeeper controller in plain Python, one partition and one step at a time, written from docs/replay.md.

What follows for data is in data_interpreter.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.unit.simulation.data_interpreter import DataPlane, PartitionData
from udfs.simulation.cluster_events import Event, InitialState, TopicPartition
from udfs.simulation.kernels.codes import EventKind


@dataclass
class ModelPartition(PartitionData):
    ar: list[int]
    isr: list[int]
    leader: int | None
    epoch: int
    written: int
    unclean: bool = False
    target: list[int] = field(default_factory=list)
    is_deleted: bool = False  # its deletion is requested; its replicas are deleted once it has started
    deletion_started: bool = False
    deleted_replicas: set[int] = field(default_factory=set)
    is_new: bool = False  # created, without a live replica yet


class Controller:
    """Applies events; the final state is in `partitions`, `live`, `epoch` and `requests`.

    requests: by number and partition: error, answered_by (codes), answered_at, base_offset, messages, lost_messages,
    lost_at.   history: every leadership, ISR and high watermark in the order of writing.
    """

    def __init__(self, begin: InitialState, events: list[Event]) -> None:
        first_at = self.at = events[0].at_ms
        self.settings = begin.settings
        self.live = set(begin.live)
        self.leaving: set[int] = set()
        self.id, self.epoch = begin.controller, begin.controller_epoch
        self.partitions: dict[TopicPartition, ModelPartition] = {}
        self.removed_partitions: dict[
            TopicPartition, ModelPartition
        ] = {}  # no longer served, and not all replicas are deleted
        self.waiting_topics: set[str] = set()  # topics whose deletion waits for reassignments
        for one in begin.partitions:
            self.partitions[one.key] = ModelPartition(
                list(one.replicas), list(one.isr), one.leader, one.leader_epoch, one.controller_epoch, one.unclean
            )
            self.partitions[one.key].min_isr = one.min_isr
        self.requests: dict[tuple[int, TopicPartition], dict[str, Any]] = {}
        self.history: list[dict[str, Any]] = []
        self.data = DataPlane(self, first_at)
        for one in begin.partitions:
            leos, hws = getattr(one, "leos", ()), getattr(one, "hws", ())
            self.data.add_partition(self.partitions[one.key], one.key, leos, hws, first_at)
        every = begin.settings.leader_imbalance_check_ms
        self.check = first_at + every if begin.settings.auto_leader_rebalance else None

    def note(self, what: str, one: ModelPartition, **more: Any) -> None:
        self.history.append(
            {"what": what, "at": self.at, "key": one.key, "leader": one.leader, "isr": tuple(one.isr)}
            | {"epoch": one.epoch, "controller_epoch": one.written, **more}
        )

    def pass_until(self, at: int) -> None:
        """Run everything that is due until then, in order."""
        while True:
            due = self.data.next_due()
            if self.check is not None:
                due = min(due, (self.check, 3))
            if due[0] > at:
                break
            self.at = max(self.at, due[0])
            if due[1] == 3:
                self.check += self.settings.leader_imbalance_check_ms
                self.rebalance()
            else:
                self.data.run_due(due[1])
            self.data.complete_failed_groups()

    def apply(self, event: Event) -> None:
        requested, live, epoch = self.deleting(), set(self.live), self.epoch
        self.dispatch(event)
        self.advance_deletions(requested, self.live - live, self.epoch > epoch)

    def dispatch(self, event: Event) -> None:
        one = self.partitions.get(event.partition) if event.partition else None
        if event.kind == EventKind.BROKER_DOWN:
            self.down(event.broker)
        elif event.kind == EventKind.BROKER_UP:
            self.up(event.broker)
        elif event.kind == EventKind.CONTROLLED_SHUTDOWN:
            self.shutdown(event.broker)
        elif event.kind == EventKind.CONTROLLER_LOST:
            self.change_controller(event.broker, event.at_ms)
        elif event.kind == EventKind.CREATE_PARTITION:
            if event.partition[0] not in {key[0] for key in self.deleting()}:
                self.create(event.partition, list(event.replicas))
        elif event.kind == EventKind.APPEND:
            self.data.append(one, event)
        elif event.kind == EventKind.FETCH:
            self.data.fetch(one, event)
        elif event.kind == EventKind.REPLICA_OFFSETS:
            self.data.offsets(one, event)
        elif one is None:
            return
        elif event.kind == EventKind.DELETE_PARTITION:
            one.is_deleted = True
        elif (
            event.kind == EventKind.REASSIGN_PARTITION
            and not one.is_deleted
            and not one.is_new
            and set(event.replicas) <= self.live
        ):
            one.target = list(event.replicas)
            one.ar = one.target + [b for b in one.ar if b not in one.target]
            self.data.update_assignment(one)
            if not set(one.target) <= set(one.isr):
                self.write(one, one.leader)
            self.try_complete_reassignment(one)
        elif event.kind == EventKind.ELECT_PREFERRED_LEADER:
            self.elect_preferred(one)
        elif event.kind == EventKind.SET_UNCLEAN_ELECTION:
            one.unclean = bool(event.value)
            if one.unclean and one.leader is None and not one.is_new:
                self.elect(one)
        elif event.kind == EventKind.ALTER_ISR and one.leader in event.replicas and list(event.replicas) != one.isr:
            one.isr, one.written = list(event.replicas), self.epoch
            self.note("isr", one)
            self.data.try_high_watermark(one)
            if one.target:
                self.try_complete_reassignment(one)
        elif event.kind == EventKind.SET_MIN_ISR:
            one.min_isr = event.value

    def write(self, one: ModelPartition, leader: int | None, unclean: bool = False) -> None:
        one.leader, one.written = leader, self.epoch
        one.epoch += 1
        self.note("leader", one, unclean=unclean)
        if one.key not in self.removed_partitions:
            self.data.apply_leader_change(one)

    def elect(self, one: ModelPartition) -> None:
        """Elect the first live replica of the AR in the ISR, or an unclean leader if that is allowed."""
        if one.is_deleted:
            return
        staying = self.live - self.leaving
        in_sync = [b for b in one.ar if b in staying and b in one.isr]
        if in_sync:
            one.isr = [b for b in one.isr if b in staying]
            self.write(one, in_sync[0])
        elif one.unclean and staying & set(one.ar):
            leader = next(b for b in one.ar if b in staying)
            one.isr = [leader]
            self.write(one, leader, unclean=True)
            if one.target:
                self.try_complete_reassignment(one)

    def elect_all(self) -> None:
        for one in self.partitions.values():
            if one.is_deleted:
                continue
            if one.is_new:
                self.initialize_leader(one)
            elif one.leader is None or one.leader not in self.live:
                self.elect(one)

    def initialize_leader(self, one: ModelPartition) -> None:
        one.isr = [b for b in one.ar if b in self.live - self.leaving]
        if one.isr:
            one.leader, one.written, one.is_new = one.isr[0], self.epoch, False
            self.note("leader", one, unclean=False)
            self.data.apply_leader_change(one)

    def remove_from_isr(self, one: ModelPartition, broker: int) -> None:
        """Remove an offline replica from the ISR unless it is the last one, and add an epoch."""
        if broker not in one.isr:
            return
        if len(one.isr) > 1:
            one.isr.remove(broker)
        self.write(one, None if one.leader in (broker, None) else one.leader)

    def down(self, broker: int) -> None:
        if broker not in self.live:
            return
        in_order = broker in self.leaving
        self.live.discard(broker)
        self.leaving.discard(broker)
        self.data.on_broker_failure(broker, in_order)
        if self.id == broker:
            self.change_controller(None, self.at)
            return
        self.elect_all()
        for one in self.partitions.values():
            if broker in one.ar and not one.is_deleted:
                self.remove_from_isr(one, broker)

    def change_controller(self, successor: int | None, at: int) -> None:
        self.id = successor if successor in self.live else min(self.live, default=None)
        if self.id is None:
            return
        self.epoch += 1
        if self.check is not None:
            self.check = at + self.settings.first_check_ms
        for one in [*self.partitions.values(), *self.removed_partitions.values()]:
            one.deletion_started, one.deleted_replicas = False, set()
            for broker in list(one.ar):
                if broker not in self.live:
                    self.remove_from_isr(one, broker)
        self.elect_all()
        self.resume_reassignments()

    def resume_reassignments(self, back: int | None = None) -> None:
        """Resume reassignments: all, or those to a broker that is back."""
        for one in list(self.partitions.values()):
            if one.target and (back is None or back in one.target):
                if set(one.target) <= set(one.isr):
                    self.try_complete_reassignment(one)
                else:
                    self.write(one, one.leader)

    def up(self, broker: int) -> None:
        if broker in self.live:
            return
        self.live.add(broker)
        self.data.on_broker_return(broker)
        controls = self.id is None
        if controls:
            self.change_controller(broker, self.at)
        self.elect_all()
        if not controls:
            self.resume_reassignments(broker)
        for one in self.partitions.values():  # a leader that is back before it was replaced
            self.data.apply_leader_change(one)

    def shutdown(self, broker: int) -> None:
        if broker not in self.live:
            return
        self.leaving.add(broker)
        for one in self.partitions.values():
            if one.is_deleted or broker not in one.ar or len(one.ar) < 2:
                continue
            if one.leader != broker:
                self.remove_from_isr(one, broker)
                continue
            staying = self.live - self.leaving
            in_sync = [b for b in one.ar if b in staying and b in one.isr]
            if in_sync:
                one.isr = [b for b in one.isr if b in staying]
                self.write(one, in_sync[0])

    def create(self, key: TopicPartition, ar: list[int]) -> None:
        self.partitions[key] = ModelPartition(ar, [], None, 0, 0, is_new=True)
        self.data.add_new_partition(self.partitions[key], key)
        self.initialize_leader(self.partitions[key])

    def deleting(self) -> set[TopicPartition]:
        return {key for key, one in [*self.partitions.items(), *self.removed_partitions.items()] if one.is_deleted}

    def advance_deletions(self, requested: set[TopicPartition], returned: set[int], failed_over: bool) -> None:
        """Start deletions of topics when requested, when reassignments end or when a broker returns."""
        now = self.deleting()
        for topic in sorted({key[0] for key in now}):
            parts = {key: one for key, one in {**self.partitions, **self.removed_partitions}.items() if key[0] == topic}
            brokers = {broker for one in parts.values() for broker in one.ar}
            may_advance = len({key for key in now if key[0] == topic}) > len(
                {key for key in requested if key[0] == topic}
            )
            may_advance = may_advance or topic in self.waiting_topics or (failed_over and brokers <= self.live)
            may_advance = may_advance or bool(not failed_over and returned & brokers)
            is_reassigned = any(one.target for one in parts.values())
            if (
                self.id is not None
                and may_advance
                and not is_reassigned
                and all(one.is_deleted for one in parts.values())
            ):
                for key, one in parts.items():
                    if key in self.partitions:
                        self.data.fail_partition_requests(one)
                        self.removed_partitions[key] = self.partitions.pop(key)
                    one.deletion_started = True
            self.waiting_topics.discard(topic)
            if is_reassigned:
                self.waiting_topics.add(topic)
            for one in parts.values():
                self.delete_replicas(one)
            if all(one.deletion_started and one.deleted_replicas >= set(one.ar) for one in parts.values()):
                for key in parts:
                    del self.removed_partitions[key]

    def delete_replicas(self, one: ModelPartition) -> None:
        for broker in one.ar:
            if one.deletion_started and broker in self.live and broker not in one.deleted_replicas:
                self.remove_from_isr(one, broker)
                one.deleted_replicas.add(broker)

    def try_complete_reassignment(self, one: ModelPartition) -> None:
        if not set(one.target) <= set(one.isr):
            return
        leader = one.leader
        if leader is None or leader not in self.live or leader not in one.target:
            leader = next((b for b in one.target if b in self.live - self.leaving and b in one.isr), None)
            if leader is None:
                return
        self.write(one, leader)
        for broker in [b for b in one.ar if b not in one.target]:
            self.remove_from_isr(one, broker)
        one.ar, one.target = one.target, []
        self.data.update_assignment(one)

    def elect_preferred(self, one: ModelPartition) -> None:
        first = one.ar[0]
        if not one.is_deleted and one.leader != first and first in self.live - self.leaving and first in one.isr:
            self.write(one, first)

    def rebalance(self) -> None:
        if self.id is None:
            return
        add_partition = [one for one in self.partitions.values() if not one.is_deleted]
        for broker in sorted(self.live):
            preferring = [one for one in add_partition if one.ar[0] == broker]
            elsewhere = [one for one in preferring if one.leader != broker]
            if preferring and 100 * len(elsewhere) > self.settings.leader_imbalance_percent * len(preferring):
                for one in elsewhere:
                    if not one.target:
                        self.elect_preferred(one)


def interpret(begin: InitialState, events: list[Event], end_at: int | None = None) -> Controller:
    """Apply all events and return the controller. Timers run until `end_at`, or until the last event."""
    controller = Controller(begin, events)
    for event in events:
        controller.pass_until(event.at_ms)
        controller.at = event.at_ms
        controller.apply(event)
        controller.data.complete_failed_groups()
    controller.pass_until(events[-1].at_ms if end_at is None else end_at)
    return controller
