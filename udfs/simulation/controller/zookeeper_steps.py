"""What a controller with ZooKeeper does: znodes that it reads and writes, and requests to brokers.

Sources: KafkaController, PartitionStateMachine, ReplicaStateMachine and TopicDeletionManager of Kafka 2.8.
"""

from typing import Any

import numpy as np

from udfs.simulation.controller.journal_reader import count_causes
from udfs.simulation.controller.step_writer import EventBatch, StepWriter, make_topic_id
from udfs.simulation.kernels.codes import ChangeCause, EventKind, PartitionState, ReplicaState
from udfs.simulation.kernels.simulation_arrays import ClusterSetup, Ints, LeadershipRow, StepKind, TransitionRow
from udfs.simulation.simulator import Simulation

_ELECTED = (
    ChangeCause.LEADER_FAILED,
    ChangeCause.UNCLEAN_ELECTION,
    ChangeCause.PREFERRED_ELECTION,
    ChangeCause.AUTO_REBALANCE,
    ChangeCause.CONTROLLED_SHUTDOWN,
)
_DELETING = (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL, ReplicaState.DELETION_INELIGIBLE)
_STATES = "/brokers/topics/+/partitions/+/state"


class ZooKeeperStepWriter(StepWriter):
    """Writes znodes and requests to brokers."""

    def __init__(self, simulation: Simulation) -> None:
        """Start before the first event."""
        super().__init__(simulation)
        self._written_deletions: set[int] = set()  # events

    # ---- steps of brokers and controllers

    def _write_step(self, kind: int, place: int, after: tuple[int | None, int], wrote: Ints) -> None:
        broker = self._reader.get_broker(place)
        if kind in (StepKind.BROKER_DOWN, StepKind.CONTROLLER_DOWN, StepKind.UNNOTICED_DOWN):
            self._write_failure(kind, place, after, wrote)
        elif kind in (StepKind.BROKER_UP, StepKind.CONTROLLER_UP):
            self._write_registration(kind, place, after, wrote)
        elif kind == StepKind.CONTROLLED_SHUTDOWN:
            self._write_shutdown(place, wrote)
        elif kind == StepKind.CONTROLLER_FAILOVER:
            self._write_failover(after, wrote)
        elif kind == StepKind.LEADER_REBALANCE:
            self._write(f"auto rebalance: broker {broker} leads too few of its preferred partitions")
            self._write_changes(wrote)
        elif kind == StepKind.QUORUM_CHANGE:
            self._controller, self._epoch = after
            self._write(f"the snapshot shows controller {after[0]}", "/controller")
        else:
            self._reader.change_broker(kind, place)
            state = "registered" if kind == StepKind.BROKER_UNFENCED else "gone"
            self._write(f"the snapshot shows broker {broker} {state}", f"/brokers/ids/{broker}")

    def _write_failure(self, kind: int, place: int, after: tuple[int | None, int], wrote: Ints) -> None:
        broker, partitions = self._reader.get_broker(place), int(self._reader.has_replica(place).sum())
        self._reader.change_broker(kind, place)
        self._write(f"session of broker {broker} ended: its znode is deleted", f"/brokers/ids/{broker}")
        if kind == StepKind.CONTROLLER_DOWN:
            self._write_failover(after, wrote)
            return
        if kind == StepKind.UNNOTICED_DOWN:
            self._controller = None
            self._write("deleted: the controller's session ended; no broker is left to create it", "/controller")
            return
        self._write_live_brokers()
        self._write(f"partitions with a replica on broker {broker}: {partitions}")
        offline = self._count_transitions(PartitionState.OFFLINE, of_partitions=True)
        self._write(f"partitions led by broker {broker} go offline: {offline}")
        self._write_changes(wrote)
        self._write_resumed_deletions()

    def _write_registration(self, kind: int, place: int, after: tuple[int | None, int], wrote: Ints) -> None:
        reader, broker = self._reader, self._reader.get_broker(place)
        leaderless = int(np.isin(reader.partition_state, (PartitionState.NEW, PartitionState.OFFLINE)).sum())
        reader.change_broker(kind, place)
        self._write(f"broker {broker} registered", f"/brokers/ids/{broker}")
        if kind == StepKind.CONTROLLER_UP:
            self._write_failover(after, wrote)
            return
        self._write_live_brokers()
        others = [one for one in reader.list_live_brokers() if one != broker]
        self._write(f"UpdateMetadata sent: broker {broker} is live", brokers=others)
        self._write("UpdateMetadata sent: all partitions", brokers=[broker])
        self._write(f"replicas online: {self._count_transitions(PartitionState.ONLINE, of_partitions=False)}")
        self._write(f"elections attempted for partitions without leader: {leaderless}")
        self._write_changes(wrote, also=np.flatnonzero(reader.has_replica(place)))
        resumed = _count_partitions(_with_cause(wrote, ChangeCause.REASSIGNMENT))
        self._write(f"reassignments resumed: {resumed}", "/admin/reassign_partitions")
        self._write_resumed_deletions()

    def _write_shutdown(self, place: int, wrote: Ints) -> None:
        broker, partitions = self._reader.get_broker(place), int(self._reader.has_replica(place).sum())
        self._write(f"controlled shutdown requested by broker {broker}", partitions=partitions)
        self._write_changes(wrote)
        if followed := len(wrote) - len(_with_cause(wrote, ChangeCause.CONTROLLED_SHUTDOWN)):
            action = f"StopReplica sent, partitions that broker {broker} follows: {followed}"
            self._write(action, brokers=[broker], delete=False)
        self._write("request answered", brokers=[broker])

    def _write_failover(self, after: tuple[int | None, int], wrote: Ints) -> None:
        """Write how another broker becomes controller: it reads everything anew."""
        reader, before = self._reader, self._controller
        self._controller = None
        if before is not None:
            self._write(f"deleted: the session of controller {before} ended", "/controller")
        self._controller = after[0]
        created = f"created by broker {after[0]}, which came first"
        self._write(created, "/controller", version=1, brokerid=after[0], timestamp=str(self._at))
        self._write(f"read: {self._epoch}", "/controller_epoch", str(self._epoch))
        self._epoch = after[1]
        self._write(f"incremented to {self._epoch}", "/controller_epoch", str(self._epoch))
        topics = len(reader.list_topics())
        for listener, path in (
            (" registered: reassignment", "/admin/reassign_partitions"),
            (" registered: ISR changes", "/isr_change_notification"),
            (" registered: preferred election", "/admin/preferred_replica_election"),
            (" registered: topics", "/brokers/topics"),
            (f"s registered for the partitions of topics: {topics}", "/brokers/topics/+"),
            (" registered: topic deletion", "/admin/delete_topics"),
            (" registered: broker ids", "/brokers/ids"),
        ):
            self._write(f"listener{listener}", path)
        self._write_live_brokers()
        self._write(f"topics read: {topics}", "/brokers/topics")
        self._write(f"partitions and their replicas read: {int(reader.exists().sum())}", "/brokers/topics/+")
        self._write(f"leaders and ISRs read: {len(self._list_with_state())}", _STATES)
        online, offline = reader.count_live_replicas()
        self._write("replica state machine started", online=online, offline=offline)
        is_down = np.isin(wrote[:, LeadershipRow.CAUSE], (ChangeCause.ISR_SHRINK, ChangeCause.NO_LEADER))
        self._write_states(wrote[is_down], "replicas of failed brokers removed from ISRs, state znodes written")
        count = _count_partitions(_with_cause(wrote, *_ELECTED, ChangeCause.CREATED))
        self._write(f"partition state machine started; partitions without leader that get one: {count}")
        self._write_elections(wrote[~is_down])
        # Every replica on a live broker has gone online: its broker gets a request, whether it changed or not.
        self._write_leader_and_isr(self._list_with_state())
        pending = len(_with_cause(wrote, ChangeCause.REASSIGNMENT))
        self._write(f"pending reassignments resumed: {pending}", "/admin/reassign_partitions")
        self._write("pending preferred election resumed: 0", "/admin/preferred_replica_election")
        self._write("UpdateMetadata sent: all partitions", brokers=reader.list_live_brokers())
        settings = self._log.numbers[0]
        if settings[ClusterSetup.AUTO_LEADER_REBALANCE]:
            first_check_ms = int(settings[ClusterSetup.FIRST_REBALANCE_CHECK_MS])
            self._write(f"auto rebalance started: first check in {first_check_ms} ms")
        self._write("topic deletion started", "/admin/delete_topics")
        self._write_resumed_deletions()

    def _write_live_brokers(self) -> None:
        live = self._reader.list_live_brokers()
        self._write(f"live brokers read: {len(live)}", "/brokers/ids", brokers=live)

    def _list_with_state(self) -> Ints:
        return np.flatnonzero(np.isin(self._reader.partition_state, (PartitionState.ONLINE, PartitionState.OFFLINE)))

    def _count_transitions(self, state: int, of_partitions: bool) -> int:
        rows = self._reader.list_transitions(self._event, self._event)
        is_counted = (rows[:, TransitionRow.TO_STATE] == state) & ((rows[:, TransitionRow.BROKER] < 0) == of_partitions)
        return int(is_counted.sum())

    # ---- what is written, and to whom it is sent

    def _write_changes(self, wrote: Ints, also: Ints | None = None) -> None:
        """Write elections, znodes and requests. also: partitions that are sent to brokers in any case."""
        self._write_elections(wrote)
        partitions = np.unique(wrote[:, LeadershipRow.PARTITION])
        self._write_requests(partitions if also is None else np.union1d(partitions, also))

    def _write_elections(self, wrote: Ints) -> None:
        elected = _with_cause(wrote[wrote[:, LeadershipRow.TO_BROKER] >= 0], *_ELECTED)
        self._write(f"leaders elected: {len(elected)}", data=count_causes(elected))
        if leaderless := _count_partitions(_with_cause(wrote, ChangeCause.NO_LEADER)):
            self._write(f"partitions for which no leader can be elected: {leaderless}")
        is_created = wrote[:, LeadershipRow.CAUSE] == ChangeCause.CREATED
        self._write_new_states(wrote[is_created])
        self._write_states(wrote[~is_created], "state znodes written")
        self._reader.advance(self._event + 1)

    def _write_states(self, wrote: Ints, action: str) -> None:
        if len(wrote):
            self._write(f"{action}: {len(wrote)}", _STATES, count_causes(wrote))

    def _write_new_states(self, wrote: Ints) -> None:
        """Write the znodes of partitions that have a leader for the first time, parents first."""
        reader, partitions = self._reader, wrote[:, LeadershipRow.PARTITION]
        with_state = set(reader.topics[self._list_with_state()])
        for topic in sorted(set(reader.topics[partitions]) - with_state):
            self._write("created", f"/brokers/topics/{topic}/partitions")
        paths = [f"/brokers/topics/{reader.topics[p]}/partitions/{reader.numbers[p]}" for p in partitions]
        for path in paths:
            self._write("created", path)
        for path, row in zip(paths, wrote, strict=True):
            self._write(
                "created",
                f"{path}/state",
                controller_epoch=int(row[LeadershipRow.CONTROLLER_EPOCH]),
                leader=reader.get_leader(row),
                version=1,
                leader_epoch=int(row[LeadershipRow.LEADER_EPOCH]),
                isr=reader.list_isr(row),
            )

    def _write_requests(self, partitions: Ints) -> None:
        if len(partitions):
            self._write_leader_and_isr(partitions)
            self._write("UpdateMetadata sent", brokers=self._reader.list_live_brokers(), partitions=len(partitions))

    def _write_leader_and_isr(self, partitions: Ints) -> None:
        brokers = self._reader.list_replica_brokers(partitions)
        self._write("LeaderAndIsr sent", brokers=brokers, partitions=len(partitions))

    # ---- topics

    def _write_batch(self, batch: EventBatch) -> None:
        if batch.kind == EventKind.CREATE_PARTITION:
            self._write_creation(batch)
        elif batch.kind == EventKind.DELETE_PARTITION:
            self._write_deletion_request(batch)
        elif batch.kind == EventKind.TOPIC_DELETION_STARTED:
            if batch.first not in self._written_deletions:  # a reassignment has ended
                self._write_resumed_deletions()
        else:
            topics = len(set(self._reader.topics[batch.partitions]))
            change = "removed" if batch.kind == EventKind.REMOVE_PARTITION else "changed"
            action = f"the snapshot shows {change} partitions: {len(batch.partitions)}, of topics: {topics}"
            self._write(action, "/brokers/topics/+")

    def _write_creation(self, batch: EventBatch) -> None:
        """Write a request: it is answered before the controller acts on it."""
        reader, topic, adds_partitions = self._reader, self._get_topic(batch), self._adds_partitions(batch)
        assignment, path = self._list_assignment(batch), f"/brokers/topics/{topic}"
        if not self._is_accepted(batch):
            self._write(f"request to create {topic}: rejected, TOPIC_ALREADY_EXISTS", partitions=assignment)
            return
        self._write_validated(topic, adds_partitions, assignment)
        topic_id = make_topic_id(reader.cluster, topic, batch.first)
        if adds_partitions:
            self._write(f"partitions added: {len(assignment)}", path)
        else:
            self._write("created", f"/config/topics/{topic}", version=1, config={})
            reassigned: dict[str, Any] = {"adding_replicas": {}, "removing_replicas": {}}
            self._write("created", path, partitions=assignment, topic_id=topic_id, **reassigned, version=3)
        self._write("request answered: what follows is asynchronous")
        if not adds_partitions:
            self._write("topic id read", path, topic_id=topic_id)
            self._write("listener registered: its partitions", path)
        self._write("assignment read back", path, partitions=assignment)
        states = reader.list_transitions(batch.first, batch.last)
        to_state = states[states[:, TransitionRow.BROKER] >= 0, TransitionRow.TO_STATE]  # of replicas
        new = np.unique(states[states[:, TransitionRow.TO_STATE] == PartitionState.NEW, TransitionRow.PARTITION])
        counts = np.bincount(to_state, minlength=len(ReplicaState))
        self._write(f"partitions New: {len(new)}")
        self._write(f"replicas New: {counts[PartitionState.NEW]}")
        wrote = _with_cause(reader.list_leaderships(batch.first, batch.last, self._at), ChangeCause.CREATED)
        self._write_new_states(wrote)
        self._write(f"partitions Online: {len(wrote)}")
        reader.advance(batch.last + 1)
        self._write_requests(wrote[:, LeadershipRow.PARTITION])
        offline = f", Offline: {counts[PartitionState.OFFLINE]}" if counts[PartitionState.OFFLINE] else ""
        self._write(f"replicas Online: {counts[PartitionState.ONLINE]}{offline}")

    def _write_deletion_request(self, batch: EventBatch) -> None:
        reader, topic = self._reader, self._get_topic(batch)
        if not reader.exists()[batch.partitions].any():
            return
        self._write("created: the topic is to be deleted", f"/admin/delete_topics/{topic}")
        self._written_deletions.add(batch.last)
        states = reader.list_transitions(batch.first, batch.last)
        if not len(states):
            has_controller = self._controller is not None
            reason = "a reassignment is in progress" if has_controller else "there is no active controller"
            self._write(f"deletion waits: {reason}")
            return
        wrote = reader.list_leaderships(batch.first, batch.last, self._at)
        reader.advance(batch.last + 1)
        self._write_deletion(topic, states, wrote)

    def _write_resumed_deletions(self) -> None:
        """Write the deletions that this step continued or postponed."""
        reader, event = self._reader, self._event
        self._written_deletions.add(event)
        wrote = reader.list_leaderships(event, event, self._at)
        reader.advance(event + 1)
        rows = reader.list_transitions(event, event)
        is_deletion = rows[:, TransitionRow.CAUSE] == ChangeCause.TOPIC_DELETION
        deleting = rows[is_deletion & np.isin(rows[:, TransitionRow.TO_STATE], _DELETING)]
        for topic in sorted(set(reader.topics[deleting[:, TransitionRow.PARTITION]])):
            states = rows[reader.topics[rows[:, TransitionRow.PARTITION]] == topic]
            is_resumed = (states[:, TransitionRow.TO_STATE] == ReplicaState.DELETION_STARTED).any()
            self._write(f"deletion {'resumed' if is_resumed else 'postponed'}", f"/admin/delete_topics/{topic}")
            self._write_deletion(topic, states, wrote[reader.topics[wrote[:, LeadershipRow.PARTITION]] == topic])

    def _write_deletion(self, topic: str, states: Ints, wrote: Ints) -> None:
        """Write the transitions of a topic that is deleted, and what was written meanwhile."""
        reader = self._reader
        is_replica, to_state = states[:, TransitionRow.BROKER] >= 0, states[:, TransitionRow.TO_STATE]

        def list_brokers(state: int) -> list[int]:
            """List the brokers of the replicas that went to this state, by transition."""
            return [int(b) for b in reader.broker_ids[states[is_replica & (to_state == state), TransitionRow.BROKER]]]

        gone = int((~is_replica & (to_state == PartitionState.NON_EXISTENT)).sum())
        if gone:
            self._write(f"partitions Offline, then NonExistent: {gone}")
            self._write("UpdateMetadata sent: leader -2, being deleted", brokers=reader.list_live_brokers())
        if ineligible := list_brokers(ReplicaState.DELETION_INELIGIBLE):
            self._write(f"replicas ReplicaDeletionIneligible: {len(ineligible)}", brokers=sorted(set(ineligible)))
        if offline := list_brokers(ReplicaState.OFFLINE):
            self._write(f"replicas Offline: {len(offline)}")
        self._write_states(_with_cause(wrote, ChangeCause.TOPIC_DELETION), "state znodes written")
        if started := list_brokers(ReplicaState.DELETION_STARTED):
            self._write(f"replicas ReplicaDeletionStarted: {len(started)}")
            self._write("StopReplica sent", brokers=sorted(set(started)), delete=True)
            successful = len(list_brokers(ReplicaState.DELETION_SUCCESSFUL))
            self._write(f"replicas ReplicaDeletionSuccessful: {successful}")
        if topic in reader.list_topics():
            self._write("deletion waits")
            return
        self._write(f"replicas NonExistent: {len(list_brokers(ReplicaState.NON_EXISTENT))}")
        for path in (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}"):
            self._write("deleted", path)


def _with_cause(wrote: Ints, *causes: int) -> Ints:
    return np.compress(np.isin(wrote[:, LeadershipRow.CAUSE], causes), wrote, axis=0)


def _count_partitions(wrote: Ints) -> int:
    return len(np.unique(wrote[:, LeadershipRow.PARTITION]))
