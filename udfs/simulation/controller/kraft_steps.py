"""What a controller of a metadata quorum does: records of the log, which brokers read.

Source: ReplicationControlManager of Kafka 4.1.
"""

from __future__ import annotations

from udfs.simulation.controller.explanations import causes, text
from udfs.simulation.controller.step_writer import Group, Teller, made_topic_id
from udfs.simulation.kernels import codes as k
from udfs.simulation.kernels import simulation_state as st
from udfs.simulation.kernels.simulation_state import Ints

_LOG = "__cluster_metadata"


class KRaft(Teller):
    """The same as records of the metadata log; brokers read it, and nothing is sent to them."""

    def _step(self, kind: int, place: int, after: tuple[int | None, int], wrote: Ints) -> None:
        self._story.brokers_change(kind, place)
        broker = self._story.broker(place)
        if kind in (st.QUORUM, st.FAIL_OVER):
            self._controller, self._epoch = after
            self._say(f"leader of the metadata quorum: {after[0]}, epoch {after[1]}", _LOG)
            return
        if kind == st.CHECK:
            if not len(wrote):
                return  # whom it should lead, it cannot lead
            self._say(f"leaders' balance: broker {broker} is preferred, and in sync again")
        elif kind == st.LEAVING:
            self._registration(broker, inControlledShutdown=1)
        else:
            self._registration(broker, fenced=1 if kind in (st.DOWN, st.SEEN_DOWN) else -1)
        if kind not in (st.SEEN_DOWN, st.SEEN_UP):  # of those that are shown, the log's own records tell the rest
            self._say(f"PARTITION_CHANGE_RECORD: {len(wrote)}", _LOG, text(**causes(wrote)))

    def _registration(self, broker: int | None, **change: int) -> None:
        self._say("BROKER_REGISTRATION_CHANGE_RECORD", _LOG, text(brokerId=broker, **change))

    def _told(self, group: Group) -> None:
        count = len(group.partitions)
        if group.kind == k.RECORD:
            self._say(f"{'PARTITION_RECORD' if group.value else 'PARTITION_CHANGE_RECORD'}: {count}", _LOG)
        elif group.kind == k.CREATE:
            self._created(group)
        elif self._story.there()[group.partitions].any():
            self._say("REMOVE_TOPIC_RECORD", _LOG, text(name=self._topic(group)))

    def _created(self, group: Group) -> None:
        story, topic = self._story, self._topic(group)
        topic_id, assigned = made_topic_id(story.cluster, topic, group.first), self._assigned(group)
        grown = self._is_grown(group)
        if not self._is_taken(group):
            self._say(f"request to create {topic}: rejected", data=text(partitions=assigned))
            return
        self._say(
            f"request to {'add partitions to' if grown else 'create'} {topic}: validated",
            data=text(partitions=assigned),
        )
        known = {} if grown else {"topicId": topic_id}
        if not grown:
            self._say("TOPIC_RECORD", _LOG, text(name=topic, **known))
        for row in story.leaderships(group.first, group.last, self._at):
            number = int(story.numbers[row[st.L_PARTITION]])
            self._say("PARTITION_RECORD", _LOG, self._record(row, number, known, assigned[str(number)]))
        self._say("request answered: the records are committed")

    def _record(self, row: Ints, number: int, known: dict[str, str], replicas: list[int]) -> str:
        leader = self._story.broker(row[st.L_TO])
        return text(
            partitionId=number,
            **known,
            replicas=replicas,
            isr=self._story.isr(row),
            removingReplicas=[],
            addingReplicas=[],
            leader=-1 if leader is None else leader,
            leaderEpoch=int(row[st.L_EPOCH]),
            partitionEpoch=0,
        )
