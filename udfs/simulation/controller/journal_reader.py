"""Read the journals of one cluster's simulation event by event, with the state of the cluster before each event."""

import json
from typing import Any

import numpy as np

from udfs.simulation.event_columns import Bools
from udfs.simulation.kernels.codes import ChangeCause, PartitionState
from udfs.simulation.kernels.simulation_arrays import (
    DOWN_STEPS,
    UP_STEPS,
    ClusterSetup,
    HealthRow,
    Ints,
    LeadershipRow,
    Partition,
    Replica,
    TransitionRow,
)
from udfs.simulation.simulator import Simulation


class JournalReader:
    """A cursor over the journals; `advance` goes through events in their order."""

    def __init__(self, simulation: Simulation) -> None:
        """Start before the first event."""
        log = simulation.log
        if len(log.clusters) != 1:
            raise ValueError(f"controller steps are listed for one cluster, not for {len(log.clusters)}")
        self.cluster = log.clusters[0][0]
        self.topics = np.array(log.topics.to_pylist(), object)  # topic of each partition
        self.numbers, self.broker_ids = log.partitions, log.brokers  # int64 (p); int64 (n), by place
        self._now = log.state.partitions
        self._member = log.state.replicas[:, Replica.BROKER]
        self._partition = np.repeat(np.arange(len(self._now)), self._now[:, Partition.SLOTS])
        self._lists = simulation.journals.lists
        leaderships, states = _drop_isrs_of_leaders(simulation), simulation.journals.states
        self._leaderships = leaderships[np.argsort(leaderships[:, LeadershipRow.EVENT], kind="stable")]
        self._states = states[np.argsort(states[:, TransitionRow.EVENT], kind="stable")]
        self._applied = 0
        self.is_live: Bools = log.flags != 0  # bool (n), before the step at hand
        # States of partitions (p) and replicas (slots); initially what the first transition left, or never changed.
        self.partition_state: Ints = log.state.partitions[:, Partition.STATE].copy()
        self.replica_state: Ints = log.state.replicas[:, Replica.STATE].copy()
        self._apply(self._states[::-1], TransitionRow.FROM_STATE)

    def _apply(self, rows: Ints, column: int) -> None:
        """Set states to those in a column of transitions; the last transition of a partition or replica counts."""
        of_partition, of_replica = rows[rows[:, TransitionRow.BROKER] < 0], rows[rows[:, TransitionRow.BROKER] >= 0]
        self.partition_state[of_partition[:, TransitionRow.PARTITION]] = of_partition[:, column]
        if len(of_replica):
            n = len(self.broker_ids)
            key = of_replica[:, TransitionRow.PARTITION] * n + of_replica[:, TransitionRow.BROKER]
            self.replica_state[np.searchsorted(self._partition * n + self._member, key)] = of_replica[:, column]

    def advance(self, event: int) -> None:
        """Apply all transitions before this event."""
        end = int(np.searchsorted(self._states[:, TransitionRow.EVENT], event))
        rows = self._states[self._applied : end]
        self._apply(rows[rows[:, TransitionRow.LEGAL] != 0], TransitionRow.TO_STATE)
        self._applied = max(self._applied, end)

    def change_broker(self, kind: int, place: int) -> None:
        """Set whether a broker is live after a step of this kind."""
        if kind in DOWN_STEPS or kind in UP_STEPS:
            self.is_live[place] = kind in UP_STEPS

    def list_leaderships(self, first: int, last: int, at: int) -> Ints:
        """Return what was written at these events themselves, not before them as time passed."""
        rows = _between(self._leaderships, LeadershipRow.EVENT, first, last)
        return np.compress(rows[:, LeadershipRow.TIME] == at, rows, axis=0)

    def list_transitions(self, first: int, last: int) -> Ints:
        """Return the legal transitions at these events."""
        rows = _between(self._states, TransitionRow.EVENT, first, last)
        return np.compress(rows[:, TransitionRow.LEGAL] != 0, rows, axis=0)

    def exists(self) -> Bools:
        """Return which partitions exist, those of topics that are being deleted included."""
        result: Bools = self.partition_state != PartitionState.NON_EXISTENT
        result[self._partition[self.replica_state != PartitionState.NON_EXISTENT]] = True
        return result

    def list_topics(self) -> list[str]:
        """Return the topics that exist, by name."""
        return sorted(set(self.topics[self.exists()]))

    def has_replica(self, place: int) -> Bools:
        """Return which partitions have a replica on a broker."""
        result = np.zeros(len(self._now), np.bool_)
        result[self._partition[(self._member == place) & (self.replica_state != PartitionState.NON_EXISTENT)]] = True
        return result

    def list_replica_brokers(self, partitions: Ints) -> list[int]:
        """Return the ids of live brokers with a replica of these partitions."""
        chosen = np.isin(self._partition, partitions) & (self.replica_state != PartitionState.NON_EXISTENT)
        places = np.unique(self._member[chosen])
        return [int(b) for b in self.broker_ids[places[self.is_live[places]]]]

    def count_live_replicas(self) -> tuple[int, int]:
        """Return how many existing replicas are on live brokers, and how many on others."""
        is_live = self.is_live[self._member[self.replica_state != PartitionState.NON_EXISTENT]]
        return int(is_live.sum()), int((~is_live).sum())

    def list_live_brokers(self) -> list[int]:
        """Return the ids of live brokers."""
        return [int(b) for b in self.broker_ids[self.is_live]]

    def get_broker(self, place: int) -> int | None:
        """Return the id of the broker at a place; None for no broker."""
        return int(self.broker_ids[place]) if place >= 0 else None

    def get_leader(self, row: Ints) -> int:
        """Return the id of the leader in a row of leaderships; -1 for none."""
        leader = self.get_broker(row[LeadershipRow.TO_BROKER])
        return -1 if leader is None else leader

    def list_isr(self, row: Ints) -> list[int]:
        """Return the ids of the ISR in a row of leaderships."""
        begin = row[LeadershipRow.ISR]
        return [int(b) for b in self.broker_ids[self._lists[begin + 1 : begin + 1 + self._lists[begin]]]]


def count_causes(rows: Ints) -> str:
    """Count leaderships by cause, in JSON."""
    codes, counts = np.unique(rows[:, LeadershipRow.CAUSE], return_counts=True)
    labels = ChangeCause.labels()
    return format_json(**{labels[code]: int(count) for code, count in zip(codes, counts, strict=True)})


def format_json(**data: Any) -> str:
    """Format JSON as Kafka does: without spaces."""
    return json.dumps(data, separators=(",", ":"))


def _drop_isrs_of_leaders(simulation: Simulation) -> Ints:
    """Drop the ISRs that leaders changed as time passed: with ZooKeeper, these keep the leader epoch."""
    log, rows, health = simulation.log, simulation.journals.leadership, simulation.journals.health
    if log.numbers[0, ClusterSetup.KRAFT]:
        return rows
    epoch = np.zeros(len(log.state.partitions), np.int64)  # initially: that of the first period of health
    epoch[health[::-1, HealthRow.PARTITION]] = health[::-1, HealthRow.LEADER_EPOCH]
    p = rows[:, LeadershipRow.PARTITION]
    has_previous = np.append(False, p[1:] == p[:-1])[: len(p)]
    previous = np.where(has_previous, np.roll(rows[:, LeadershipRow.LEADER_EPOCH], 1), epoch[p])
    is_later = rows[:, LeadershipRow.TIME] > log.numbers[0, ClusterSetup.START_TIME]
    is_isr_change = np.isin(rows[:, LeadershipRow.CAUSE], (ChangeCause.ISR_SHRINK, ChangeCause.ISR_EXPAND))
    is_dropped = is_later & is_isr_change & (rows[:, LeadershipRow.LEADER_EPOCH] == previous)
    return np.compress(~is_dropped, rows, axis=0)


def _between(rows: Ints, column: int, first: int, last: int) -> Ints:
    begin, end = np.searchsorted(rows[:, column], [first, last + 1])
    return np.asarray(rows[begin:end])
