"""Events of a cluster and its initial state, what they become under its controller quorum, and their rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa

from udfs.failures.scenarios import QuorumVoters
from udfs.simulation.kernels.codes import DownKind, EventKind
from udfs.simulation.kernels.simulation_arrays import BrokerFlag
from udfs.simulation.simulation_schemas import EVENTS
from udfs.wording import count_of, join_names

TopicPartition = tuple[str, int]
BrokerIds = tuple[int, ...]


@dataclass(frozen=True)
class Event:
    """An event of a cluster. Attributes are columns of EVENTS (None = null), which describes those not listed here."""

    at_ms: int
    kind: int  # A code of udfs/simulation/kernels/codes.py
    broker: int | None = None  # Column broker_id
    partition: TopicPartition | None = None  # Columns topic and partition
    # A number or flag that depends on the kind. Of a creation, 1 = it is rejected; of a reassignment, it is cancelled
    value: int = 0
    replicas: BrokerIds | None = None
    isr: BrokerIds | None = None
    elr: BrokerIds | None = None
    last_known: BrokerIds | None = None  # Column last_known_elr
    adding: BrokerIds | None = None  # Column adding_replicas
    removing: BrokerIds | None = None  # Column removing_replicas
    leader: int | None = None
    leader_epoch: int = -1
    is_full_record: bool = False  # Whether a record states everything, as a PARTITION_RECORD does
    offset: int = 0
    request: int | None = None
    parts: int = 1
    acks: int = 1
    messages: int = 0
    wait_ms: int = 0
    min_bytes: int = 1
    fetch_offset: int | None = None
    leo: int | None = None  # Column log_end_offset
    hw: int | None = None  # Column high_watermark


@dataclass(frozen=True)
class InitialPartition:
    """A partition in the initial state."""

    key: TopicPartition
    replicas: BrokerIds  # preferred leader first
    isr: BrokerIds
    leader: int | None
    leader_epoch: int = 0
    controller_epoch: int = 0  # of the controller that wrote it
    elr: BrokerIds = ()
    unclean: bool = False  # Whether unclean elections are allowed
    min_isr: int = 1  # min.insync.replicas
    leos: tuple[int | None, ...] = ()  # Log end offset of each replica, None = unknown; () = all unknown
    hws: tuple[int | None, ...] = ()  # High watermark of each replica, None = unknown; () = all unknown
    last_known: BrokerIds = ()  # last known ELR
    adding: BrokerIds = ()  # of the running reassignment
    removing: BrokerIds = ()


@dataclass(frozen=True)
class ClusterSettings:
    """Settings of a cluster. Most are Kafka's of the same names; times are in ms."""

    kraft: bool = False
    elr: bool = False
    auto_leader_rebalance: bool = True
    leader_imbalance_check_ms: int = 300_000
    leader_imbalance_percent: int = 10
    first_check_ms: int = 5_000  # From a controller's start to its first check of the leaders' imbalance (ZooKeeper)
    replica_lag_time_max_ms: int = 30_000
    replica_lag_max_messages: int = 0
    message_bytes: int = 100  # Size of a message, for fetches that wait for bytes
    truncate_to: str = "epoch"  # What followers truncate to: "epoch" (since 0.11) or "high_watermark"
    checkpoint_ms: int = 5_000
    # Whether a replica that joins the ISR must have reached the start of the leader's epoch too (since 2.1)
    isr_joins_at_epoch_start: bool = True
    # Whether a reassignment waits only for the replicas that it adds (KRaft since 4.3)
    completes_with_added: bool = True

    def to_numbers(self) -> list[int]:
        """Return the settings as the kernels read them."""
        # KRaft ignores the imbalance percentage; its first check comes after the usual interval. Source:
        # PeriodicTaskControlManager.activate of Kafka 4.1.
        check_ms = max(self.leader_imbalance_check_ms, 1)
        values = [
            self.kraft,
            self.elr,
            self.auto_leader_rebalance,
            check_ms,
            check_ms if self.kraft else self.first_check_ms,
            -1 if self.kraft else self.leader_imbalance_percent,
            self.replica_lag_time_max_ms,
            self.replica_lag_max_messages,
            self.message_bytes,
            self.truncate_to == "high_watermark",
            max(self.checkpoint_ms, 1),
            self.isr_joins_at_epoch_start,
            self.completes_with_added,
        ]
        return [int(value) for value in values]


@dataclass(frozen=True)
class InitialState:
    """A cluster before the first event. brokers: all ids; live: those of live brokers; shut_down: stopped cleanly.

    quorum: the voters that elect the controller, with KRaft; unknown, a controller is assumed.
    """

    brokers: tuple[int, ...] = ()
    live: frozenset[int] = frozenset()
    partitions: tuple[InitialPartition, ...] = ()
    controller: int | None = None
    controller_epoch: int = 0
    settings: ClusterSettings = field(default_factory=ClusterSettings)
    shut_down: frozenset[int] = frozenset()
    quorum: QuorumVoters = field(default_factory=QuorumVoters)


# The columns of EVENTS that are an attribute of Event of another name.
ATTRIBUTES = {
    "broker_id": "broker",
    "last_known_elr": "last_known",
    "adding_replicas": "adding",
    "removing_replicas": "removing",
    "log_end_offset": "leo",
    "high_watermark": "hw",
}


def build_event_log(
    initial_state: InitialState,
    events: Sequence[Event],
    end_at: int | None = None,
    cluster: str = "",
    snapshot: str = "",
) -> pa.Table:
    """Build the event log (schema EVENTS) of a cluster: its initial state, then events in their order."""
    # end_at: until when time goes on after the last event, ms; None = until the last event.
    times = [event.at_ms for event in events] or [end_at or 0]
    start, end = times[0], max(times[-1], end_at or times[-1])
    controller = -1 if initial_state.controller is None else initial_state.controller
    settings = initial_state.settings.to_numbers()
    numbers = [*settings, start, end, len(events), controller, initial_state.controller_epoch]
    rows: list[dict[str, object]] = [{"kind": EventKind.INITIAL_CLUSTER.label, "numbers": numbers}]
    for broker in sorted({*initial_state.brokers, *initial_state.live}):
        flags = BrokerFlag.LIVE * (broker in initial_state.live)
        flags += BrokerFlag.SHUTTING_DOWN * (broker in initial_state.shut_down)
        rows.append({"kind": EventKind.INITIAL_BROKER.label, "broker_id": broker, "value": flags})
    rows += [_describe_partition(partition) for partition in initial_state.partitions]
    key = {"cluster_id": cluster, "snapshot_id": snapshot}
    initial = pa.Table.from_pylist([{**key, **row, "event": -1, "at_ms": start} for row in rows], schema=EVENTS)
    columns = [_read_column(events, key, column) for column in EVENTS]
    return pa.concat_tables([initial, pa.Table.from_arrays(columns, schema=EVENTS)])


def _describe_partition(partition: InitialPartition) -> dict[str, object]:
    numbers = [int(partition.unclean), partition.min_isr, partition.controller_epoch]
    if partition.leos or partition.hws:
        for offsets in (partition.leos, partition.hws):
            numbers += [offset or 0 for offset in offsets] or [0] * len(partition.replicas)
    same = {name: getattr(partition, name) for name in ("replicas", "isr", "elr", "leader_epoch")}
    same["last_known_elr"] = partition.last_known
    same["adding_replicas"], same["removing_replicas"] = partition.adding, partition.removing
    topic, number = partition.key
    leader = -1 if partition.leader is None else partition.leader
    key = {"kind": EventKind.INITIAL_PARTITION.label, "topic": topic, "partition": number}
    return {**key, **same, "leader": leader, "numbers": numbers}


def _read_column(events: Sequence[Event], key: dict[str, str], column: pa.Field) -> pa.Array:
    size, labels = len(events), EventKind.labels()
    match column.name:
        case "cluster_id" | "snapshot_id":
            return pa.repeat(key[column.name], size)
        case "event" | "numbers":
            return pa.array(np.arange(size)) if column.name == "event" else pa.nulls(size, column.type)
        case "kind":
            return pa.array([labels[event.kind] for event in events], column.type)
        case "topic" | "partition":
            part = int(column.name == "partition")
            return pa.array([event.partition and event.partition[part] for event in events], column.type)
        case "value":
            return pa.array([int(event.is_full_record) or event.value for event in events], column.type)
    return pa.array(list(map(attrgetter(ATTRIBUTES.get(column.name, column.name)), events)), column.type)


# What no controller takes part in.
_WITHOUT_CONTROLLER = (EventKind.APPEND, EventKind.FETCH, EventKind.REPLICA_OFFSETS)


class QuorumElections:
    """Follows the voters of a KRaft cluster through events, in their order.

    While a majority of the voters follows, the loss of the active controller elects another: the lowest id, as any may
    win. Without a majority, no failure is noticed, brokers that return cannot register, and requests to the controller
    fail. A later majority notices what happened.
    """

    def __init__(self, state: InitialState) -> None:
        """Begin with a cluster's state."""
        self._quorum, self._brokers = state.quorum, {*state.brokers}
        self._absent = {*state.quorum.voters} & ({*state.quorum.lagging} | (self._brokers - state.live))
        self._leader, self._epoch = state.quorum.leader, state.controller_epoch
        self._unnoticed: dict[int | None, Event] = {}  # failures, by broker
        self._returned: dict[int | None, Event] = {}  # of brokers that wait for a controller
        self._unanswered: list[Event] = []  # events that failed, as no controller was active

    @property
    def _has_majority(self) -> bool:
        return len(self._quorum.voters) - len(self._absent) >= self._quorum.majority

    def elect(self, events: Sequence[Event]) -> list[Event]:
        """Return the events with those of the quorum. Those of nodes that are no brokers are left out."""
        if not self._quorum.voters:
            return list(events)
        followed: list[Event] = []
        for (_, ends), group in groupby(events, lambda one: (one.at_ms, _ends_process(one))):
            together = list(group)
            if ends:  # no controller is elected between failures at the same time
                self._absent |= {*self._quorum.voters} & {one.broker for one in together}
            followed += (result for one in together for result in self._follow(one))
        return followed

    def describe_unanswered(self) -> Iterator[str]:
        """Yield a sentence on the events that failed, if there are any."""
        if self._unanswered:
            first = self._unanswered[0]
            kinds = join_names(dict.fromkeys(EventKind.labels()[one.kind] for one in self._unanswered))
            needed = f"{self._quorum.majority} of {count_of(len(self._quorum.voters), 'voter')}"
            yield f"from t={first.at_ms / 1000:g}s on without a controller, which needs {needed}: no effect of {kinds}"

    def _follow(self, event: Event) -> Iterator[Event]:
        if event.kind == EventKind.BROKER_UP and event.broker is not None:
            self._absent.discard(event.broker)
        yield from self._elect_controller(event)
        if event.kind in (EventKind.BROKER_DOWN, EventKind.BROKER_UP) and event.broker not in self._brokers:
            return
        if self._has_majority or event.kind in _WITHOUT_CONTROLLER:
            yield event
        elif _ends_process(event):
            self._unnoticed.setdefault(event.broker, event)
            self._returned.pop(event.broker, None)
            yield replace(event, value=DownKind.UNNOTICED)
        elif event.kind == EventKind.BROKER_UP:
            self._returned[event.broker] = event
        else:
            self._unanswered.append(event)

    def _elect_controller(self, event: Event) -> Iterator[Event]:
        """Yield the election of a controller, if there is one, and what it notices."""
        if not self._has_majority:
            self._leader = None
        elif self._leader is None or self._leader in self._absent:
            self._leader = min({*self._quorum.voters} - self._absent)
            self._epoch += 1
            yield Event(event.at_ms, EventKind.CONTROLLER_CHANGE, self._leader, value=self._epoch, offset=event.offset)
            for one in self._unnoticed.values():
                yield replace(one, at_ms=event.at_ms, value=DownKind.NOTICED_LATER)
            for one in self._returned.values():
                yield replace(one, at_ms=event.at_ms)
            self._unnoticed, self._returned = {}, {}


def _ends_process(event: Event) -> bool:
    return event.kind == EventKind.BROKER_DOWN and event.value != DownKind.FENCED
