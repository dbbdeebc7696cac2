"""What a KRaft controller does: it writes records to the metadata log, which brokers read.

Source: ReplicationControlManager of Kafka 4.1.
"""

from udfs.simulation.controller.journal_reader import count_causes, format_json
from udfs.simulation.controller.step_writer import EventBatch, StepWriter, make_topic_id
from udfs.simulation.kernels.change_log import LeadershipRow
from udfs.simulation.kernels.codes import ChangeCause, EventKind
from udfs.simulation.kernels.simulation_arrays import Ints, StepKind

_LOG = "__cluster_metadata"


class KRaftStepWriter(StepWriter):
    """Writes records of the metadata log."""

    def _write_step(self, kind: int, place: int, after: tuple[int | None, int], wrote: Ints) -> None:
        self._reader.change_broker(kind, place)
        broker = self._reader.get_broker(place)
        if kind in (StepKind.QUORUM_CHANGE, StepKind.CONTROLLER_FAILOVER):
            self._controller, self._epoch = after
            self._write(f"leader of the metadata quorum: {after[0]}, epoch {after[1]}", _LOG)
            return
        if kind == StepKind.LEADER_REBALANCE:
            if not len(wrote):
                return  # the preferred leader cannot lead
            self._write(f"leader balance: broker {broker} is the preferred leader, and in sync again")
        elif kind == StepKind.CONTROLLED_SHUTDOWN:
            self._write_registration(broker, inControlledShutdown=1)
        else:
            self._write_registration(broker, fenced=1 if kind in (StepKind.BROKER_DOWN, StepKind.BROKER_FENCED) else -1)
        if kind not in (
            StepKind.BROKER_FENCED,
            StepKind.BROKER_UNFENCED,
        ):  # a log that is replayed has these records itself
            self._write(f"PARTITION_CHANGE_RECORD: {len(wrote)}", _LOG, format_json(**count_causes(wrote)))

    def _write_registration(self, broker: int | None, **change: int) -> None:
        self._write("BROKER_REGISTRATION_CHANGE_RECORD", _LOG, format_json(brokerId=broker, **change))

    def _write_batch(self, batch: EventBatch) -> None:
        count = len(batch.partitions)
        if batch.kind == EventKind.PARTITION_RECORD:
            self._write(f"{'PARTITION_RECORD' if batch.value else 'PARTITION_CHANGE_RECORD'}: {count}", _LOG)
        elif batch.kind == EventKind.CREATE_PARTITION:
            self._write_creation(batch)
        elif self._reader.exists()[batch.partitions].any():
            self._write("REMOVE_TOPIC_RECORD", _LOG, format_json(name=self._get_topic(batch)))

    def _write_creation(self, batch: EventBatch) -> None:
        reader, topic, assignment = self._reader, self._get_topic(batch), self._list_assignment(batch)
        adds_partitions = self._adds_partitions(batch)
        if not self._is_accepted(batch):
            self._write(f"request to create {topic}: rejected", data=format_json(partitions=assignment))
            return
        self._write_validated(topic, adds_partitions, assignment)
        topic_id = {} if adds_partitions else {"topicId": make_topic_id(reader.cluster, topic, batch.first)}
        if not adds_partitions:
            self._write("TOPIC_RECORD", _LOG, format_json(name=topic, **topic_id))
        wrote = reader.list_leaderships(batch.first, batch.last, self._at)
        for row in wrote[
            wrote[:, LeadershipRow.CAUSE] == ChangeCause.CREATED
        ]:  # a rebalance just before has the same event number
            number, leader = (
                int(reader.numbers[row[LeadershipRow.PARTITION]]),
                reader.get_broker(row[LeadershipRow.TO_BROKER]),
            )
            record = format_json(
                partitionId=number,
                **topic_id,
                replicas=assignment[str(number)],
                isr=reader.list_isr(row),
                removingReplicas=[],
                addingReplicas=[],
                leader=-1 if leader is None else leader,
                leaderEpoch=int(row[LeadershipRow.LEADER_EPOCH]),
                partitionEpoch=0,
            )
            self._write("PARTITION_RECORD", _LOG, record)
        self._write("request answered: the records are committed")
