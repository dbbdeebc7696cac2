"""Results of a simulation: Arrow tables in the schemas of simulation_schemas.py, plain rows, and the final state."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.ragged import expand_ranges, offsets_of
from udfs.failures.partition_health import is_under_replicated
from udfs.simulation import simulation_schemas as schemas
from udfs.simulation.event_columns import known_values, name_codes, read_columns
from udfs.simulation.event_packing import N_EPOCH
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
    HealthRow,
    Ints,
    LeadershipRow,
    Partition,
    PartitionEvent,
    ProgressRow,
    Replica,
    RequestStatus,
    TimelineStep,
    TransitionRow,
)
from udfs.simulation.request_results import join_requests
from udfs.simulation.simulator import Simulation

Row = dict[str, Any]  # of a table, by column name
_REQUEST_KINDS = ("produce", "fetch of a replica", "fetch of a consumer")
_CAUSES = {"cause": ChangeCause.labels()}
_ANSWERS = {"error": RequestError.labels(), "answered_by": AnsweredBy.labels()}
_ONLY_FOR_JOINS = ("progress_ms", "progress_bytes", "message_bytes")


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
            **read_columns(rows, LeadershipRow, schemas.LEADERSHIPS, _CAUSES),
            **self._event_columns(rows, LeadershipRow),
            "leader_before": self._broker_ids(rows[:, LeadershipRow.FROM_BROKER]),
            "leader": self._broker_ids(rows[:, LeadershipRow.TO_BROKER]),
            "isr": self._broker_lists(begin + 1, lists[begin] if len(begin) else begin),
        }
        return pa.table(columns, schema=schemas.LEADERSHIPS)

    @property
    def transitions(self) -> pa.Table:
        """Every attempted transition of a partition (broker_id null) or a replica (schema TRANSITIONS)."""
        rows = self._journals.states
        shift = np.where(rows[:, TransitionRow.BROKER] >= 0, len(PartitionState.labels()), 0)
        names = (*PartitionState.labels(), *ReplicaState.labels())
        columns = {
            **read_columns(rows, TransitionRow, schemas.TRANSITIONS, _CAUSES),
            **self._event_columns(rows, TransitionRow),
            "broker_id": self._broker_ids(rows[:, TransitionRow.BROKER]),
            "from_state": name_codes(names, rows[:, TransitionRow.FROM_STATE] + shift),
            "to_state": name_codes(names, rows[:, TransitionRow.TO_STATE] + shift),
        }
        return pa.table(columns, schema=schemas.TRANSITIONS)

    @property
    def health(self) -> pa.Table:
        """Periods in which a partition's health stayed the same (schema HEALTH); the last one lists its replicas."""
        rows, lists = self._journals.health, self._journals.lists
        p, begin, isr = rows[:, HealthRow.PARTITION], rows[:, HealthRow.REPLICA_LIST], rows[:, HealthRow.ISR_SIZE]
        ar, min_isr, leo = rows[:, HealthRow.AR_SIZE], rows[:, HealthRow.MIN_ISR], rows[:, HealthRow.LOG_END_OFFSET]
        is_last, has_data = begin >= 0, leo >= 0
        size = np.where(is_last, lists[np.maximum(begin, 0)] if len(lists) else 0, 0)
        # A partition that never had a leader has no offsets of its own, but the last row shows those of its replicas.
        has_offsets = is_last & (has_data | (self._now[p, Partition.DATA_STARTED] != 0))
        committed = np.where(has_data, rows[:, HealthRow.COMMITTED_OFFSET], self._now[p, Partition.COMMITTED_OFFSET])
        offset_size = np.where(has_offsets, size, -1)
        leos, hws = (_split(lists[expand_ranges(begin + 1 + i * size, offset_size)], offset_size) for i in (1, 2))
        row = np.repeat(np.arange(len(rows)), np.maximum(offset_size, 0))
        lag = np.zeros(len(rows), np.int64)
        np.maximum.at(lag, row, leo[row] - np.asarray(leos.flatten()))
        has_leader = rows[:, HealthRow.LEADER] >= 0
        exposed = zip(("0", "1", "all"), rows.T[HealthRow.EXPOSED_ACKS_0 : HealthRow.EXPOSED_ACKS_ALL + 1], strict=True)
        columns = {
            **read_columns(rows, HealthRow, schemas.HEALTH),
            **self._partition_columns(p),
            "from_ms": rows[:, HealthRow.FROM_TIME],
            "to_ms": rows[:, HealthRow.TO_TIME],
            "leader": self._broker_ids(rows[:, HealthRow.LEADER]),
            "replication_factor": ar,
            "in_sync": isr,
            "min_insync_replicas": min_isr,
            "under_replicated": is_under_replicated(isr, ar),
            "at_min_isr": isr == np.minimum(min_isr, ar),
            "under_min_isr": isr < np.minimum(min_isr, ar),
            "high_watermark": known_values(committed, has_data | has_offsets),
            "visible_offset": known_values(rows[:, HealthRow.HIGH_WATERMARK], has_data & has_leader),
            **{f"exposed_acks_{acks}_messages": known_values(messages, has_data) for acks, messages in exposed},
            "at_the_end": is_last,
            "replicas": self._broker_lists(begin + 1, np.where(is_last, size, -1)),
            "log_end_offsets": leos,
            "high_watermarks": hws,
            "lag_messages": known_values(lag, has_offsets & has_data),
        }
        return pa.table(columns, schema=schemas.HEALTH)

    @property
    def requests(self) -> pa.Table:
        """Appends and fetches, each partition of a request by itself (schema REQUESTS)."""
        own, now = self._log.own, self._now
        chosen = np.flatnonzero(own.requests[:, RequestStatus.ANSWERED_BY] >= 0)
        rows, events = own.requests[chosen], own.events[chosen]
        p, number = np.searchsorted(now[:, Partition.EVENT_END], chosen, side="right"), self._log.request[chosen]
        at, acks, slot = (events[:, i] for i in (PartitionEvent.TIME, PartitionEvent.ACKS, PartitionEvent.SLOT))
        is_append, answered_at = events[:, PartitionEvent.KIND] == EventKind.APPEND, rows[:, RequestStatus.ANSWERED_AT]
        base = rows[:, RequestStatus.BASE_OFFSET]
        # No base offset: a fetch that was rejected at once.
        is_rejected = rows[:, RequestStatus.ERROR] != RequestError.NONE
        is_rejected &= rows[:, RequestStatus.ANSWERED_BY] == AnsweredBy.AT_ONCE
        has_base = np.where(is_append, base >= 0, ~is_rejected)
        base = np.where(is_append, np.where(acks == 0, -1, base), rows[:, RequestStatus.OFFSET])
        message_bytes = self._log.numbers[now[p, Partition.CLUSTER], ClusterSetup.MESSAGE_BYTES]
        is_delayed, wait_ms = rows[:, RequestStatus.DELAYED] != 0, events[:, PartitionEvent.WAIT_MS]
        columns = {
            **read_columns(rows, RequestStatus, schemas.REQUESTS, _ANSWERS),
            "request": known_values(number, number >= 0),
            **self._partition_columns(p),
            "event": events[:, PartitionEvent.NUMBER],
            "at_ms": at,
            "kind": name_codes(_REQUEST_KINDS, np.where(is_append, 0, np.where(slot >= 0, 1, 2))),
            "broker_id": self._broker_ids(self._find_brokers(p, slot)),
            "parts": events[:, PartitionEvent.PARTS],
            "acks": known_values(acks, is_append),
            "waited_ms": known_values(answered_at - at, answered_at >= 0),
            "base_offset": known_values(base, has_base),
            "min_bytes": known_values(events[:, PartitionEvent.MIN_BYTES], ~is_append),
            "deadline_ms": known_values(at + wait_ms, is_delayed),
            **self._progress_columns(chosen),
            "message_bytes": known_values(message_bytes, ~is_append),
        }
        return pa.table(columns, schema=schemas.REQUESTS)

    @property
    def final_partitions(self) -> pa.Table:
        """Partitions that exist at the end (schema STATES_AT_END)."""
        now = self._now
        # A topic that is being deleted exists until all of its replicas are deleted.
        is_deleting = (now[:, Partition.DELETION] != 0) & (now[:, Partition.AR_SIZE] > 0)
        p = np.flatnonzero((now[:, Partition.STATE] != PartitionState.NON_EXISTENT) | is_deleting)
        leader = self._find_brokers(p, now[p, Partition.LEADER])
        # With ZooKeeper, the last broker stays written as leader after it has failed: no controller is left.
        leader[~np.isin(leader, self._live)] = NONE
        columns = {
            **read_columns(now[p], Partition, schemas.STATES_AT_END, {"state": PartitionState.labels()}),
            **self._partition_columns(p),
            "leader": self._broker_ids(leader),
            "replicas": self._replica_lists(p, Replica.AR),
            "isr": self._replica_lists(p, Replica.ISR),
            "elr": self._replica_lists(p, Replica.ELR),
        }
        return pa.table(columns, schema=schemas.STATES_AT_END)

    def _partition_columns(self, p: Ints) -> dict[str, Any]:
        codes, keys = pa.array(self._now[p, Partition.CLUSTER]), self._log.clusters
        names = enumerate(schemas.KEY_NAMES)
        columns = {name: pa.array([key[i] for key in keys], pa.string()).take(codes) for i, name in names}
        return columns | {"topic": self._log.topics.take(pa.array(p)), "partition": self._log.partitions[p]}

    def _event_columns(self, rows: Ints, names: type[LeadershipRow] | type[TransitionRow]) -> dict[str, Any]:
        """Return the partition and time of rows, and their positions among those of one event and partition."""
        event, p = rows[:, names.EVENT], rows[:, names.PARTITION]
        is_new = np.append(True, (event[1:] != event[:-1]) | (p[1:] != p[:-1]))[: len(event)]
        step = np.arange(len(event)) - np.flatnonzero(is_new)[np.cumsum(is_new) - 1]
        return {"at_ms": rows[:, names.TIME], "step": step} | self._partition_columns(p)

    def _progress_columns(self, chosen: Ints) -> dict[str, pa.Array]:
        rows = self._journals.progress
        rows = rows[np.argsort(rows[:, ProgressRow.REQUEST], kind="stable")]
        size = np.bincount(rows[:, ProgressRow.REQUEST], minlength=len(self._log.own.events))[chosen].astype(np.int64)
        size[size == 0] = -1
        progress = {"progress_ms": ProgressRow.TIME, "progress_bytes": ProgressRow.BYTES}
        return {name: _split(rows[:, column], size) for name, column in progress.items()}

    def _find_brokers(self, p: Ints, slot: Ints) -> Ints:
        """Return the places of the brokers of these partitions' slots; NONE for no slot."""
        broker, has_slot = np.full(len(p), NONE), slot >= 0
        broker[has_slot] = self._slot[(self._now[p, Partition.REPLICA_BEGIN] + slot)[has_slot], Replica.BROKER]
        return broker

    def _broker_ids(self, place: Ints) -> pa.Array:
        if not len(self._log.brokers):
            return pa.nulls(len(place), pa.int32())
        return known_values(self._log.brokers[np.maximum(place, 0)], place >= 0)

    def _broker_lists(self, begin: Ints, size: Ints) -> pa.Array:
        return _split(self._log.brokers[self._journals.lists[expand_ranges(begin, size)]], size)

    def _replica_lists(self, p: Ints, which: int) -> pa.Array:
        begin, size = self._now[p, Partition.REPLICA_BEGIN], self._now[p, which]
        slot = np.repeat(begin, size) + self._slot[expand_ranges(begin, size), which]
        return _split(self._log.brokers[self._slot[slot, Replica.BROKER]], size)


def _split(values: npt.NDArray[Any], size: Ints) -> pa.Array:
    """Split values into lists of these sizes; -1 = null."""
    offsets = pa.array(offsets_of(np.maximum(size, 0)).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(values), mask=pa.array(size < 0))


# ---- plain rows of one cluster, and its final state


@dataclass(frozen=True)
class BrokerState:
    """A broker at the end of a simulation."""

    broker_id: int
    is_live: bool


@dataclass(frozen=True)
class FinalState:
    """A cluster at the end of a simulation."""

    controller_epoch: int
    brokers: list[BrokerState]
    partitions: list[Row]  # of the schema STATES_AT_END


def get_final_state(simulation: Simulation) -> FinalState:
    """Return the state of the cluster at the end."""
    log, timeline = simulation.log, simulation.timeline
    epochs = timeline.arrays.steps[:, TimelineStep.CONTROLLER_EPOCH]
    partitions = _plain_rows(ResultTables(simulation).final_partitions)
    live = (timeline.flags & BrokerFlag.LIVE != 0).tolist()
    return FinalState(
        int(epochs[-1] if len(epochs) else log.numbers[0, N_EPOCH]),
        [BrokerState(*broker) for broker in zip(log.brokers.tolist(), live, strict=True)],
        sorted(partitions, key=lambda row: (row["topic"], row["partition"])),
    )


def list_leaderships(simulation: Simulation) -> list[Row]:
    """List every leader, ISR or leader epoch that was written, by event."""
    return _plain_rows(_by_event(ResultTables(simulation).leaderships))


def list_transitions(simulation: Simulation) -> list[Row]:
    """List every attempted transition of a partition (broker_id None) or a replica, legal or not, by event."""
    return _plain_rows(_by_event(ResultTables(simulation).transitions))


def list_requests(simulation: Simulation) -> list[Row]:
    """List every append and fetch, partition by partition, by event; error and answer are the whole request's."""
    names = [name for name in schemas.JOINED_REQUESTS.names if name not in _ONLY_FOR_JOINS]
    return _plain_rows(_by_event(join_requests(ResultTables(simulation).requests).select(names)))


def list_health(simulation: Simulation) -> list[Row]:
    """List the periods in which each partition's health stayed the same."""
    return _plain_rows(ResultTables(simulation).health)


def _by_event(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.lexsort((np.asarray(table["event"]), np.asarray(table["at_ms"])))))


def _plain_rows(table: pa.Table) -> list[Row]:
    return list(table.drop_columns(list(schemas.KEY_NAMES)).to_pylist())
