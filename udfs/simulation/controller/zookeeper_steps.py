"""What a controller does that keeps its state in ZooKeeper, in its order: znodes, and requests to brokers.

Sources: KafkaController, PartitionStateMachine, ReplicaStateMachine and TopicDeletionManager of Kafka 2.8.
"""

from __future__ import annotations

import numpy as np

from udfs.simulation.controller.explanations import causes, text
from udfs.simulation.controller.step_writer import Group, Teller, made_topic_id
from udfs.simulation.kernels import codes as k
from udfs.simulation.kernels import simulation_state as st
from udfs.simulation.kernels.simulation_state import Ints
from udfs.simulation.simulator import Folded

_ELECTED = (k.OFFLINE_LEADER, k.UNCLEAN, k.PREFERRED, k.REBALANCED, k.SHUTTING_DOWN)
_DELETING = (k.DELETION_STARTED, k.DELETION_DONE, k.DELETION_INELIGIBLE)


class ZooKeeper(Teller):
    def __init__(self, of: Folded) -> None:
        super().__init__(of)
        self._deletions_told: set[int] = set()  # events

    # ---- steps of brokers and controllers

    def _step(self, kind: int, place: int, after: tuple[int | None, int], wrote: Ints) -> None:
        if kind in (st.DOWN, st.DOWN_CONTROLLER, st.DOWN_LAST):
            self._ended(kind, place, after, wrote)
        elif kind in (st.UP, st.UP_CONTROLLER):
            self._registered(kind, place, after, wrote)
        elif kind == st.LEAVING:
            self._shuts_down(place, wrote)
        elif kind == st.FAIL_OVER:
            self._fails_over(after, wrote)
        elif kind == st.CHECK:
            self._say(f"auto rebalance: broker {self._story.broker(place)} leads too few that prefer it")
            self._written(wrote)
        elif kind == st.QUORUM:
            self._controller, self._epoch = after
            self._say(f"controller {after[0]} is shown", "/controller")
        else:
            self._story.brokers_change(kind, place)
            what = "registered" if kind == st.SEEN_UP else "gone"
            self._say(
                f"broker {self._story.broker(place)} is shown {what}", f"/brokers/ids/{self._story.broker(place)}"
            )

    def _ended(self, kind: int, place: int, after: tuple[int | None, int], wrote: Ints) -> None:
        """Nothing; a broker's session ends."""
        broker, on = self._story.broker(place), self._story.on(place)
        self._story.brokers_change(kind, place)
        self._say(f"session of broker {broker} ended: its znode is deleted", f"/brokers/ids/{broker}")
        if kind == st.DOWN_CONTROLLER:
            self._fails_over(after, wrote)
            return
        if kind == st.DOWN_LAST:
            self._controller = None
            self._say("deleted: the controller's session ended; nobody is left to create it", "/controller")
            return
        self._read_brokers()
        self._say(f"partitions with a replica on broker {broker}: {int(on.sum())}")
        lost = self._states_to(self._event, k.OFFLINE, whole=True)
        self._say(f"partitions that it led are offline: {lost}")
        self._written(wrote)
        self._resumed_deletions()

    def _registered(self, kind: int, place: int, after: tuple[int | None, int], wrote: Ints) -> None:
        """Nothing; a broker starts."""
        story, broker = self._story, self._story.broker(place)
        tried = int(np.isin(story.partition_state, (k.NEW, k.OFFLINE)).sum())
        story.brokers_change(kind, place)
        self._say(f"broker {broker} registered", f"/brokers/ids/{broker}")
        if kind == st.UP_CONTROLLER:
            self._fails_over(after, wrote)
            return
        self._read_brokers()
        others = [one for one in story.live_brokers() if one != broker]
        self._say(f"UpdateMetadata sent: broker {broker} lives", data=text(brokers=others))
        self._say("UpdateMetadata sent: all partitions", data=text(brokers=[broker]))
        online = self._states_to(self._event, k.ONLINE, whole=False)
        self._say(f"replicas online: {online}")
        self._say(f"elections tried for partitions without leader: {tried}")
        self._written(wrote, also=story.on(place).nonzero()[0])
        resumed = wrote[wrote[:, st.L_CAUSE] == k.REASSIGNED]
        self._say(f"reassignments resumed: {len(np.unique(resumed[:, st.L_PARTITION]))}", "/admin/reassign_partitions")
        self._resumed_deletions()

    def _shuts_down(self, place: int, wrote: Ints) -> None:
        broker = self._story.broker(place)
        self._say(
            f"controlled shutdown asked by broker {broker}", data=text(partitions=int(self._story.on(place).sum()))
        )
        self._written(wrote)
        left = len(wrote) - int((wrote[:, st.L_CAUSE] == k.SHUTTING_DOWN).sum())
        if left:
            self._say(
                f"StopReplica sent: {left} partitions that it followed", data=text(brokers=[broker], delete=False)
            )
        self._say("answered", data=text(brokers=[broker]))

    def _fails_over(self, after: tuple[int | None, int], wrote: Ints) -> None:
        """Nothing; another controller: it knows nothing but what it reads."""
        story, before = self._story, self._controller
        self._controller = None
        if before is not None:
            self._say(f"deleted: the session of controller {before} ended", "/controller")
        self._controller = after[0]
        timestamp = text(version=1, brokerid=after[0], timestamp=str(self._at))
        self._say(f"created by broker {after[0]}: first come", "/controller", timestamp)
        self._say(f"read: {self._epoch}", "/controller_epoch", str(self._epoch))
        self._epoch = after[1]
        self._say(f"incremented to {self._epoch}", "/controller_epoch", str(self._epoch))
        self._listens()
        self._read_brokers()
        there, topics = story.there(), story.topics_there()
        self._say(f"topics read: {len(topics)}", "/brokers/topics")
        self._say(f"partitions and their replicas read: {int(there.sum())}", "/brokers/topics/+")
        written = int(np.isin(story.partition_state, (k.ONLINE, k.OFFLINE)).sum())
        self._say(f"leaders and ISRs read: {written}", "/brokers/topics/+/partitions/+/state")
        self._start_machines(wrote)
        pending = wrote[wrote[:, st.L_CAUSE] == k.REASSIGNED]
        self._say(f"pending reassignments resumed: {len(pending)}", "/admin/reassign_partitions")
        self._say("pending preferred election resumed: 0", "/admin/preferred_replica_election")
        self._say("UpdateMetadata sent: all partitions", data=text(brokers=story.live_brokers()))
        rules = self._of.packed.numbers[0]
        if rules[st.REBALANCES]:
            self._say(f"auto rebalance started: first check in {int(rules[st.FIRST_CHECK_MS])} ms")
        self._say("topic deletion started", "/admin/delete_topics")
        self._resumed_deletions()

    def _listens(self) -> None:
        """Nothing; the listeners that a new controller registers."""
        topics = self._story.topics_there()
        for what, path in (
            ("reassignment", "/admin/reassign_partitions"),
            ("ISR changes", "/isr_change_notification"),
            ("preferred election", "/admin/preferred_replica_election"),
            ("topics", "/brokers/topics"),
        ):
            self._say(f"listener registered: {what}", path)
        self._say(f"listeners registered: partitions of {len(topics)} topics", "/brokers/topics/+")
        self._say("listener registered: topic deletion", "/admin/delete_topics")
        self._say("listener registered: broker ids", "/brokers/ids")

    def _start_machines(self, wrote: Ints) -> None:
        """Nothing; replicas on down brokers are offline, then whoever has no leader is tried."""
        down = np.isin(wrote[:, st.L_CAUSE], (k.SHRUNK, k.LEADERLESS))
        live = self._story.replicas_live()
        self._say("replica state machine started", data=text(online=int(live.sum()), offline=int((~live).sum())))
        self._state_znodes(wrote[down], "down replicas taken out of ISRs, state znodes written")
        tried = len(np.unique(wrote[np.isin(wrote[:, st.L_CAUSE], (*_ELECTED, k.CREATED)), st.L_PARTITION]))
        self._say(f"partition state machine started: {tried} partitions without leader get one")
        self._elected(wrote[~down])
        # Every replica on a live broker has gone online: its broker hears of it, changed or not.
        self._lead(np.flatnonzero(np.isin(self._story.partition_state, (k.ONLINE, k.OFFLINE))))

    def _read_brokers(self) -> None:
        live = self._story.live_brokers()
        self._say(f"live brokers read: {len(live)}", "/brokers/ids", text(brokers=live))

    def _states_to(self, event: int, state: int, whole: bool) -> int:
        rows = self._story.states(event, event)
        return int(((rows[:, st.S_TO] == state) & ((rows[:, st.S_BROKER] < 0) == whole)).sum())

    # ---- what is written, and to whom it is sent

    def _written(self, wrote: Ints, also: Ints | None = None) -> None:
        """Nothing; leaders that were elected, znodes, and requests. also: partitions that brokers hear of anyway."""
        self._elected(wrote)
        partitions = np.unique(wrote[:, st.L_PARTITION])
        self._send(partitions if also is None else np.union1d(partitions, also))

    def _elected(self, wrote: Ints) -> None:
        """Nothing; leaders that were elected, and znodes."""
        elected = wrote[np.isin(wrote[:, st.L_CAUSE], _ELECTED) & (wrote[:, st.L_TO] >= 0)]
        without = wrote[wrote[:, st.L_CAUSE] == k.LEADERLESS]
        self._say(f"leaders elected: {len(elected)}", data=text(**causes(elected)))
        if len(without):
            self._say(f"no leader can be elected: {len(np.unique(without[:, st.L_PARTITION]))}")
        created = wrote[:, st.L_CAUSE] == k.CREATED
        self._create_states(wrote[created])
        self._state_znodes(wrote[~created], "state znodes written")
        self._story.reach(self._event + 1)

    def _state_znodes(self, wrote: Ints, action: str) -> None:
        if len(wrote):
            self._say(f"{action}: {len(wrote)}", "/brokers/topics/+/partitions/+/state", text(**causes(wrote)))

    def _send(self, partitions: Ints) -> None:
        """Nothing; the brokers concerned hear of these partitions' leaders, and then all brokers."""
        if len(partitions):
            self._lead(partitions)
            self._say("UpdateMetadata sent", data=text(brokers=self._story.live_brokers(), partitions=len(partitions)))

    def _lead(self, partitions: Ints) -> None:
        brokers = self._story.concerned(partitions)
        self._say("LeaderAndIsr sent", data=text(brokers=brokers, partitions=len(partitions)))

    def _create_states(self, wrote: Ints) -> None:
        """Nothing; the znodes of partitions that have a leader for the first time, parents first."""
        story = self._story
        with_state = set(story.topics[np.isin(story.partition_state, (k.ONLINE, k.OFFLINE))])
        for topic in sorted(set(story.topics[wrote[:, st.L_PARTITION]]) - with_state):
            self._say("created", f"/brokers/topics/{topic}/partitions")
        paths = [f"/brokers/topics/{story.topics[p]}/partitions/{story.numbers[p]}" for p in wrote[:, st.L_PARTITION]]
        for path in paths:
            self._say("created", path)
        for path, row in zip(paths, wrote, strict=True):
            self._say("created", f"{path}/state", story.znode(row))

    # ---- topics

    def _told(self, group: Group) -> None:
        if group.kind == k.CREATE:
            self._created(group)
        elif group.kind == k.DELETE:
            self._deleted(group)
        elif group.kind == k.DELETION_STARTS:
            if group.first not in self._deletions_told:  # as a reassignment has ended
                self._resumed_deletions()
        else:
            topics = len(set(self._story.topics[group.partitions]))
            what = "gone" if group.kind == k.FORGET else "as shown"
            self._say(f"{len(group.partitions)} partitions of {topics} topics are {what}", "/brokers/topics/+")

    def _created(self, group: Group) -> None:
        """Nothing; the request is answered before the controller, by itself, does what it asks."""
        story, topic, path = self._story, self._topic(group), f"/brokers/topics/{self._topic(group)}"
        assigned, grown = self._assigned(group), self._is_grown(group)
        if not self._is_taken(group):
            self._say(f"request to create {topic}: rejected, TOPIC_ALREADY_EXISTS", data=text(partitions=assigned))
            return
        self._say(
            f"request to {'add partitions to' if grown else 'create'} {topic}: validated",
            data=text(partitions=assigned),
        )
        if grown:
            self._say(f"written: {len(assigned)} partitions more", path)
        else:
            topic_id = made_topic_id(story.cluster, topic, group.first)
            self._say("created", f"/config/topics/{topic}", text(version=1, config={}))
            data = {"partitions": assigned, "topic_id": topic_id, "adding_replicas": {}, "removing_replicas": {}}
            self._say("created", path, text(**data, version=3))
        self._say("request answered: what follows is asynchronous")
        if not grown:
            self._say("topic id read", path, text(topic_id=topic_id))
            self._say("listener registered: its partitions", path)
        self._say("assignment read back", path, text(partitions=assigned))
        self._start(group)

    def _start(self, group: Group) -> None:
        story = self._story
        states = story.states(group.first, group.last)
        of_replicas = states[states[:, st.S_BROKER] >= 0]
        new = np.unique(states[states[:, st.S_TO] == k.NEW, st.S_PARTITION])
        self._say(f"partitions New: {len(new)}")
        self._say(f"replicas New: {int((of_replicas[:, st.S_TO] == k.NEW).sum())}")
        wrote = story.leaderships(group.first, group.last, self._at)
        wrote = wrote[wrote[:, st.L_CAUSE] == k.CREATED]
        self._create_states(wrote)
        self._say(f"partitions Online: {len(wrote)}")
        story.reach(group.last + 1)
        self._send(wrote[:, st.L_PARTITION])
        offline = int((of_replicas[:, st.S_TO] == k.OFFLINE).sum())
        more = f", Offline: {offline}" if offline else ""
        self._say(f"replicas Online: {int((of_replicas[:, st.S_TO] == k.ONLINE).sum())}{more}")

    def _deleted(self, group: Group) -> None:
        topic = self._topic(group)
        there = self._story.there()[group.partitions]
        if not there.any():
            return
        self._say("created: the topic is to be deleted", f"/admin/delete_topics/{topic}")
        self._deletions_told.add(group.last)
        states = self._story.states(group.first, group.last)
        if not len(states):
            waits = "a reassignment goes on" if self._controller is not None else "nobody is the controller"
            self._say(f"deletion waits: {waits}")
            return
        wrote = self._story.leaderships(group.first, group.last, self._at)
        self._story.reach(group.last + 1)
        self._delete(topic, states, wrote)

    def _resumed_deletions(self) -> None:
        """Nothing; deletions that this step took further, or put off."""
        story, event = self._story, self._event
        self._deletions_told.add(event)
        wrote = story.leaderships(event, event, self._at)
        story.reach(event + 1)
        rows = story.states(event, event)
        deleting = rows[np.isin(rows[:, st.S_TO], _DELETING) & (rows[:, st.S_CAUSE] == k.REMOVED)]
        for topic in sorted(set(story.topics[deleting[:, st.S_PARTITION]])):
            mine = rows[story.topics[rows[:, st.S_PARTITION]] == topic]
            goes_on = bool((mine[:, st.S_TO] == k.DELETION_STARTED).any())
            self._say(f"deletion {'resumed' if goes_on else 'put off'}", f"/admin/delete_topics/{topic}")
            self._delete(topic, mine, wrote[story.topics[wrote[:, st.L_PARTITION]] == topic])

    def _delete(self, topic: str, states: Ints, wrote: Ints) -> None:
        """Nothing; transitions of a topic that is deleted, and what was written meanwhile."""
        story = self._story
        whole, replica = states[states[:, st.S_BROKER] < 0], states[states[:, st.S_BROKER] >= 0]

        def to(state: int) -> Ints:
            chosen: Ints = replica[replica[:, st.S_TO] == state]
            return chosen

        if len(gone := whole[whole[:, st.S_TO] == k.ABSENT]):
            self._say(f"partitions Offline, then NonExistent: {len(gone)}")
            self._say("UpdateMetadata sent: leader -2, being deleted", data=text(brokers=story.live_brokers()))
        if len(barred := to(k.DELETION_INELIGIBLE)):
            brokers = [story.broker(b) for b in np.unique(barred[:, st.S_BROKER])]
            self._say(f"replicas ReplicaDeletionIneligible: {len(barred)}", data=text(brokers=brokers))
        if len(offline := to(k.OFFLINE)):
            self._say(f"replicas Offline: {len(offline)}")
        self._state_znodes(wrote[wrote[:, st.L_CAUSE] == k.REMOVED], "state znodes written")
        if len(started := to(k.DELETION_STARTED)):
            brokers = [story.broker(b) for b in np.unique(started[:, st.S_BROKER])]
            self._say(f"replicas ReplicaDeletionStarted: {len(started)}")
            self._say("StopReplica sent", data=text(brokers=brokers, delete=True))
            self._say(f"replicas ReplicaDeletionSuccessful: {len(to(k.DELETION_DONE))}")
        if topic in story.topics_there():
            self._say("deletion waits")
            return
        self._say(f"replicas NonExistent: {len(to(k.ABSENT))}")
        for path in (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}"):
            self._say("deleted", path)
