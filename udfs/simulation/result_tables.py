"""Results of a simulation as Arrow tables, in the schemas of simulation_schemas.py."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.ragged import expand_ranges
from udfs.simulation.event_columns import known_values, name_codes
from udfs.simulation.kernels.change_log import HealthRow, LeadershipRow, ProgressRow, TransitionRow
from udfs.simulation.kernels.codes import (
    NONE,
    AnsweredBy,
    ChangeCause,
    EventKind,
    PartitionState,
    ReplicaState,
    RequestError,
)
from udfs.simulation.kernels.simulation_arrays import (
    BrokerFlag,
    ClusterSetup,
    Ints,
    Partition,
    PartitionEvent,
    Replica,
    RequestStatus,
)
from udfs.simulation.simulation_schemas import HEALTH, KEY_NAMES, LEADERSHIPS, REQUESTS, STATES_AT_END, TRANSITIONS
from udfs.simulation.simulator import Simulation

_REQUEST_KINDS = ("produce", "fetch of a replica", "fetch of a consumer")


class ResultTables:
    """Tables of a simulation."""

    def __init__(self, simulation: Simulation) -> None:
        """Take a finished simulation."""
        self._log, self._journals = simulation.log, simulation.journals
        self._now, self._slot = simulation.log.state.partitions, simulation.log.state.replicas
        self._live = np.flatnonzero(simulation.timeline.flags & BrokerFlag.LIVE)

    @property
    def leaderships(self) -> pa.Table:
        """Every leader, ISR or leader epoch that was written (schema LEADERSHIPS)."""
        rows, lists = self._journals.leadership, self._journals.lists
        begin = rows[:, LeadershipRow.ISR]
        columns = {
            **self._event_columns(rows, LeadershipRow.EVENT, LeadershipRow.TIME, LeadershipRow.PARTITION),
            "cause": name_codes(ChangeCause.labels(), rows[:, LeadershipRow.CAUSE]),
            "leader_before": self._broker_ids(rows[:, LeadershipRow.FROM_BROKER]),
            "leader": self._broker_ids(rows[:, LeadershipRow.TO_BROKER]),
            "leader_epoch": rows[:, LeadershipRow.LEADER_EPOCH],
            "controller_epoch": rows[:, LeadershipRow.CONTROLLER_EPOCH],
            "isr": self._broker_lists(lists, begin + 1, lists[begin] if len(begin) else begin),
        }
        return pa.table(columns, schema=LEADERSHIPS)

    @property
    def transitions(self) -> pa.Table:
        """Every attempted transition of a partition (broker_id null) or a replica (schema TRANSITIONS)."""
        rows = self._journals.states
        shift = np.where(rows[:, TransitionRow.BROKER] >= 0, len(PartitionState.labels()), 0)
        names = (*PartitionState.labels(), *ReplicaState.labels())
        columns = {
            **self._event_columns(rows, TransitionRow.EVENT, TransitionRow.TIME, TransitionRow.PARTITION),
            "broker_id": self._broker_ids(rows[:, TransitionRow.BROKER]),
            "from_state": name_codes(names, rows[:, TransitionRow.FROM_STATE] + shift),
            "to_state": name_codes(names, rows[:, TransitionRow.TO_STATE] + shift),
            "cause": name_codes(ChangeCause.labels(), rows[:, TransitionRow.CAUSE]),
            "leader_epoch": rows[:, TransitionRow.LEADER_EPOCH],
            "controller_epoch": rows[:, TransitionRow.CONTROLLER_EPOCH],
            "legal": rows[:, TransitionRow.LEGAL] != 0,
        }
        return pa.table(columns, schema=TRANSITIONS)

    @property
    def health(self) -> pa.Table:
        """Periods in which a partition's health stayed the same (schema HEALTH); the last one lists its replicas."""
        rows, lists = self._journals.health, self._journals.lists
        p, begin, isr = rows[:, HealthRow.PARTITION], rows[:, HealthRow.REPLICA_LIST], rows[:, HealthRow.ISR_SIZE]
        is_last, has_data = begin >= 0, rows[:, HealthRow.LOG_END_OFFSET] >= 0
        size = np.where(is_last, lists[np.maximum(begin, 0)] if len(lists) else 0, 0)
        # A partition that never had a leader has no offsets of its own, but the last row shows those of its replicas.
        has_offsets = is_last & (has_data | (self._now[p, Partition.DATA_STARTED] != 0))
        committed = np.where(has_data, rows[:, HealthRow.COMMITTED_OFFSET], self._now[p, Partition.COMMITTED_OFFSET])
        offset_size = np.where(has_offsets, size, -1)
        leos = _lists(lists, begin + 1 + size, offset_size)
        row = np.repeat(np.arange(len(rows)), np.maximum(offset_size, 0))
        lag = np.zeros(len(rows), np.int64)
        np.maximum.at(lag, row, rows[row, HealthRow.LOG_END_OFFSET] - np.asarray(leos.flatten()))
        least = np.minimum(rows[:, HealthRow.MIN_ISR], rows[:, HealthRow.AR_SIZE])
        columns = {
            **self._partition_columns(p),
            "from_ms": rows[:, HealthRow.FROM_TIME],
            "to_ms": rows[:, HealthRow.TO_TIME],
            "leader": self._broker_ids(rows[:, HealthRow.LEADER]),
            "leader_epoch": rows[:, HealthRow.LEADER_EPOCH],
            "replication_factor": rows[:, HealthRow.AR_SIZE],
            "in_sync": isr,
            "min_insync_replicas": rows[:, HealthRow.MIN_ISR],
            "under_replicated": isr < rows[:, HealthRow.AR_SIZE],
            "at_min_isr": isr == least,
            "under_min_isr": isr < least,
            "log_end_offset": known_values(rows[:, HealthRow.LOG_END_OFFSET], has_data),
            "high_watermark": known_values(committed, has_data | has_offsets),
            "visible_offset": known_values(
                rows[:, HealthRow.HIGH_WATERMARK], has_data & (rows[:, HealthRow.LEADER] >= 0)
            ),
            "exposed_acks_0_messages": known_values(rows[:, HealthRow.EXPOSED_ACKS_0], has_data),
            "exposed_acks_1_messages": known_values(rows[:, HealthRow.EXPOSED_ACKS_1], has_data),
            "exposed_acks_all_messages": known_values(rows[:, HealthRow.EXPOSED_ACKS_ALL], has_data),
            "at_the_end": is_last,
            "replicas": self._broker_lists(lists, begin + 1, np.where(is_last, size, -1)),
            "log_end_offsets": leos,
            "high_watermarks": _lists(lists, begin + 1 + 2 * size, offset_size),
            "lag_messages": known_values(lag, has_offsets & has_data),
        }
        return pa.table(columns, schema=HEALTH)

    @property
    def requests(self) -> pa.Table:
        """Appends and fetches, each partition of a request by itself (schema REQUESTS)."""
        own, now = self._log.own, self._now
        chosen = np.flatnonzero(own.requests[:, RequestStatus.ANSWERED_BY] >= 0)
        rows, events = own.requests[chosen], own.events[chosen]
        p = np.searchsorted(now[:, Partition.EVENT_END], chosen, side="right")
        is_append, has_broker = events[:, PartitionEvent.KIND] == EventKind.APPEND, events[:, PartitionEvent.SLOT] >= 0
        broker = np.full(len(chosen), NONE)
        slot = now[p, Partition.REPLICA_BEGIN] + events[:, PartitionEvent.SLOT]
        broker[has_broker] = self._slot[slot[has_broker], Replica.BROKER]
        is_delayed, is_answered = rows[:, RequestStatus.DELAYED] != 0, rows[:, RequestStatus.ANSWERED_AT] >= 0
        acks, number = events[:, PartitionEvent.ACKS], self._log.request[chosen]
        is_written = is_append & (rows[:, RequestStatus.BASE_OFFSET] >= 0)
        base = np.where(
            is_append, np.where(acks == 0, -1, rows[:, RequestStatus.BASE_OFFSET]), rows[:, RequestStatus.OFFSET]
        )
        # No base offset: a fetch that was rejected at once.
        is_rejected = (rows[:, RequestStatus.ANSWERED_BY] == AnsweredBy.AT_ONCE) & (
            rows[:, RequestStatus.ERROR] != RequestError.NONE
        )
        message_bytes = self._log.numbers[now[p, Partition.CLUSTER], ClusterSetup.MESSAGE_BYTES]
        columns = {
            "request": known_values(number, number >= 0),
            **self._partition_columns(p),
            "event": events[:, PartitionEvent.NUMBER],
            "at_ms": events[:, PartitionEvent.TIME],
            "kind": name_codes(_REQUEST_KINDS, np.where(is_append, 0, np.where(has_broker, 1, 2))),
            "broker_id": self._broker_ids(broker),
            "parts": events[:, PartitionEvent.PARTS],
            "acks": known_values(acks, is_append),
            "delayed": is_delayed,
            "error": name_codes(RequestError.labels(), rows[:, RequestStatus.ERROR]),
            "answered_by": name_codes(AnsweredBy.labels(), rows[:, RequestStatus.ANSWERED_BY]),
            "answered_at_ms": known_values(rows[:, RequestStatus.ANSWERED_AT], is_answered),
            "waited_ms": known_values(rows[:, RequestStatus.ANSWERED_AT] - events[:, PartitionEvent.TIME], is_answered),
            "base_offset": known_values(base, is_written | ~(is_append | is_rejected)),
            "messages": rows[:, RequestStatus.MESSAGES],
            "high_watermark": known_values(
                rows[:, RequestStatus.HIGH_WATERMARK], rows[:, RequestStatus.HIGH_WATERMARK] >= 0
            ),
            "lost_messages": rows[:, RequestStatus.LOST_MESSAGES],
            "lost_at_ms": known_values(rows[:, RequestStatus.LOST_AT], rows[:, RequestStatus.LOST_AT] >= 0),
            "min_bytes": known_values(events[:, PartitionEvent.MIN_BYTES], ~is_append),
            "deadline_ms": known_values(events[:, PartitionEvent.TIME] + events[:, PartitionEvent.WAIT_MS], is_delayed),
            **self._progress_columns(chosen),
            "message_bytes": known_values(message_bytes, ~is_append),
        }
        return pa.table(columns, schema=REQUESTS)

    @property
    def final_partitions(self) -> pa.Table:
        """Partitions that exist at the end (schema STATES_AT_END)."""
        now = self._now
        # A topic that is being deleted exists until all of its replicas are deleted.
        is_deleting = (now[:, Partition.DELETION] != 0) & (now[:, Partition.AR_SIZE] > 0)
        p = np.flatnonzero((now[:, Partition.STATE] != PartitionState.NON_EXISTENT) | is_deleting)
        leader = np.full(len(p), NONE)
        led = now[p, Partition.LEADER] >= 0
        leader[led] = self._slot[(now[p, Partition.REPLICA_BEGIN] + now[p, Partition.LEADER])[led], Replica.BROKER]
        # With ZooKeeper, the last broker stays written as leader after it has failed: no controller is left.
        leader[~np.isin(leader, self._live)] = NONE
        columns = {
            **self._partition_columns(p),
            "leader": self._broker_ids(leader),
            "leader_epoch": now[p, Partition.LEADER_EPOCH],
            "controller_epoch": now[p, Partition.CONTROLLER_EPOCH],
            "replicas": self._replica_lists(p, Replica.AR),
            "isr": self._replica_lists(p, Replica.ISR),
            "elr": self._replica_lists(p, Replica.ELR),
            "state": name_codes(PartitionState.labels(), now[p, Partition.STATE]),
        }
        return pa.table(columns, schema=STATES_AT_END)

    def _partition_columns(self, p: Ints) -> dict[str, Any]:
        codes, clusters = pa.array(self._now[p, Partition.CLUSTER]), self._log.clusters
        columns = {
            name: pa.array([key[i] for key in clusters], pa.string()).take(codes) for i, name in enumerate(KEY_NAMES)
        }
        return columns | {"topic": self._log.topics.take(pa.array(p)), "partition": self._log.partitions[p]}

    def _event_columns(self, rows: Ints, event: int, at: int, partition: int) -> dict[str, Any]:
        columns = {"event": rows[:, event], "at_ms": rows[:, at], "step": _steps(rows[:, event], rows[:, partition])}
        return columns | self._partition_columns(rows[:, partition])

    def _progress_columns(self, chosen: Ints) -> dict[str, pa.Array]:
        rows = self._journals.progress
        rows = rows[np.argsort(rows[:, ProgressRow.REQUEST], kind="stable")]
        size = np.bincount(rows[:, ProgressRow.REQUEST], minlength=len(self._log.own.events))[chosen].astype(np.int64)
        size[size == 0] = -1
        return {
            "progress_ms": _split(rows[:, ProgressRow.TIME], size),
            "progress_bytes": _split(rows[:, ProgressRow.BYTES], size),
        }

    def _broker_ids(self, place: Ints) -> pa.Array:
        if not len(self._log.brokers):
            return pa.nulls(len(place), pa.int32())
        return known_values(self._log.brokers[np.maximum(place, 0)], place >= 0)

    def _broker_lists(self, lists: Ints, begin: Ints, size: Ints) -> pa.Array:
        return _split(self._log.brokers[lists[expand_ranges(begin, size)]], size)

    def _replica_lists(self, p: Ints, which: int) -> pa.Array:
        begin, size = self._now[p, Partition.REPLICA_BEGIN], self._now[p, which]
        slot = np.repeat(begin, size) + self._slot[expand_ranges(begin, size), which]
        return _split(self._log.brokers[self._slot[slot, Replica.BROKER]], size)


def _lists(values: Ints, begin: Ints, size: Ints) -> pa.Array:
    return _split(values[expand_ranges(begin, size)], size)


def _split(values: npt.NDArray[Any], size: Ints) -> pa.Array:
    """Split values into lists of these sizes; -1 = null."""
    offsets = np.concatenate([[0], np.cumsum(np.maximum(size, 0))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=pa.array(size < 0))


def _steps(event: Ints, p: Ints) -> Ints:
    """Number the rows of one event and partition, which are adjacent: 0, 1, ..."""
    if not len(event):
        return event
    is_new = np.append(True, (event[1:] != event[:-1]) | (p[1:] != p[:-1]))
    steps: Ints = np.arange(len(event)) - np.flatnonzero(is_new)[np.cumsum(is_new) - 1]
    return steps
