"""Events of a cluster as plain values, and as rows of the event log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from udfs.simulation.event_names import KINDS
from udfs.simulation.kernels.codes import HELD_BROKER, HELD_CLUSTER, HELD_PARTITION
from udfs.simulation.kernels.simulation_state import RULES
from udfs.simulation.simulation_schemas import EVENTS

Key = tuple[str, int]
List = tuple[int, ...]


@dataclass(frozen=True)
class Event:
    """One event. at_ms: milliseconds since the begin, or of the log's clock.   kind: a code of replay_codes.

    broker: an id, or None.   partition: (topic, number), or None.   value: what the kind says: a number, a
    flag; of a creation 1 = its request is rejected.
    replicas: the new AR (a creation, a reassignment), or the ISR (isr); of a record, None = unchanged, as the others.
    leader_epoch: of a record; -1 = one more where the leader is named.   whole: a record that says everything.
    offset: where it stands in a log, or in a scenario.
    request: number of the request that an append or a fetch belongs to, of its `parts` partitions; unique in a replay.
    wait_ms: a produce's timeout, a fetch's longest wait.   fetch_offset: None = the replica's own log end.
    leo, hw: what an `offsets` event says of the broker's replica, None = nothing. A fetch without broker: a consumer's.
    """

    at_ms: int
    kind: int
    broker: int | None = None
    partition: Key | None = None
    value: int = 0
    replicas: List | None = None
    isr: List | None = None
    elr: List | None = None
    last_known: List | None = None
    adding: List | None = None
    removing: List | None = None
    leader: int | None = None
    leader_epoch: int = -1
    whole: bool = False
    offset: int = 0
    request: int | None = None
    parts: int = 1
    acks: int = 1
    messages: int = 0
    wait_ms: int = 0
    min_bytes: int = 1
    fetch_offset: int | None = None
    leo: int | None = None
    hw: int | None = None


@dataclass(frozen=True)
class Held:
    """A partition at the begin. leader: an id, or None.   controller_epoch: of who wrote it.

    leos, hws: of each replica, None = not known; empty = of none.
    """

    key: Key
    replicas: List
    isr: List
    leader: int | None
    leader_epoch: int = 0
    controller_epoch: int = 0
    elr: List = ()
    unclean: bool = False
    min_isr: int = 1
    leos: tuple[int | None, ...] = ()
    hws: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Rules:
    """How a cluster is run: Kafka's settings of the same names.

    first_check_ms: of the leaders' imbalance, after a controller has started (ZooKeeper).
    message_bytes: how large a message is, for fetches that wait for bytes.
    truncate_to: "epoch" (since 0.11) or "high_watermark".
    isr_joins_at_epoch_start: who joins an ISR must have reached where the leader's epoch began, too (since 2.1).
    """

    kraft: bool = False
    elr: bool = False
    auto_leader_rebalance: bool = True
    leader_imbalance_check_ms: int = 300_000
    leader_imbalance_percent: int = 10
    first_check_ms: int = 5_000
    replica_lag_time_max_ms: int = 30_000
    replica_lag_max_messages: int = 0
    message_bytes: int = 100
    truncate_to: str = "epoch"
    checkpoint_ms: int = 5_000
    isr_joins_at_epoch_start: bool = True

    def packed(self) -> list[int]:
        """As the kernels read them; KRaft looks at no percentage, and at first after as long as between two looks.

        Source: PeriodicTaskControlManager.activate of 4.1.
        """
        values = [
            self.kraft,
            self.elr,
            self.auto_leader_rebalance,
            max(self.leader_imbalance_check_ms, 1),
            max(self.leader_imbalance_check_ms, 1) if self.kraft else self.first_check_ms,
            -1 if self.kraft else self.leader_imbalance_percent,
            self.replica_lag_time_max_ms,
            self.replica_lag_max_messages,
            self.message_bytes,
            self.truncate_to == "high_watermark",
            max(self.checkpoint_ms, 1),
            self.isr_joins_at_epoch_start,
        ]
        assert len(values) == RULES
        return [int(value) for value in values]


@dataclass(frozen=True)
class Begin:
    """How a cluster stands before the first event. live: ids; brokers: all that it has, live or not."""

    brokers: tuple[int, ...] = ()
    live: frozenset[int] = frozenset()
    partitions: tuple[Held, ...] = ()
    controller: int | None = None
    controller_epoch: int = 0
    rules: Rules = field(default_factory=Rules)


def event_log(
    begin: Begin, events: Sequence[Event], end_at: int | None = None, cluster: str = "", snapshot: str = ""
) -> pa.Table:
    """The rows of EVENTS for a cluster from its begin through its events.

    end_at: until when time goes on after the last event, ms; None = it does not.
    """
    times = [event.at_ms for event in events]
    start, end = (times[0], times[-1]) if times else (end_at or 0, end_at or 0)
    controller = -1 if begin.controller is None else begin.controller
    numbers = [*begin.rules.packed(), start, max(end, end_at or end), len(events), controller, begin.controller_epoch]
    first: list[dict[str, object]] = [{"kind": KINDS[HELD_CLUSTER], "numbers": numbers}]
    first += [
        {"kind": KINDS[HELD_BROKER], "broker_id": broker, "value": int(broker in begin.live)}
        for broker in sorted({*begin.brokers, *begin.live})
    ]
    first += [_held(one) for one in begin.partitions]
    columns = _columns(events)
    size = len(events)
    at_first = pa.Table.from_pylist([{**row, "event": -1, "at_ms": start} for row in first], schema=EVENTS)
    following = pa.Table.from_arrays(
        [columns.get(field.name, pa.nulls(size, field.type)) for field in EVENTS], schema=EVENTS
    )
    both = pa.concat_tables([at_first, following])
    for i, name in enumerate((cluster, snapshot)):
        both = both.set_column(i, EVENTS.field(i), pa.repeat(name, both.num_rows))
    return both


def _held(one: Held) -> dict[str, object]:
    numbers = [int(one.unclean), one.min_isr, one.controller_epoch]
    if one.leos or one.hws:
        for values in (one.leos, one.hws):
            numbers += [value or 0 for value in values] or [0] * len(one.replicas)
    return {
        "kind": KINDS[HELD_PARTITION],
        "topic": one.key[0],
        "partition": one.key[1],
        "replicas": one.replicas,
        "isr": one.isr,
        "elr": one.elr,
        "leader": -1 if one.leader is None else one.leader,
        "leader_epoch": one.leader_epoch,
        "numbers": numbers,
    }


def _columns(events: Sequence[Event]) -> dict[str, pa.Array]:
    def of(name: str, values: Iterable[object]) -> pa.Array:
        return pa.array(list(values), EVENTS.field(name).type)

    return {
        "event": pa.array(np.arange(len(events))),
        "at_ms": of("at_ms", (e.at_ms for e in events)),
        "offset": of("offset", (e.offset for e in events)),
        "kind": of("kind", (KINDS[e.kind] for e in events)),
        "broker_id": of("broker_id", (e.broker for e in events)),
        "topic": of("topic", (e.partition and e.partition[0] for e in events)),
        "partition": of("partition", (e.partition and e.partition[1] for e in events)),
        "value": of("value", (int(e.whole) or e.value for e in events)),
        "replicas": of("replicas", (e.replicas for e in events)),
        "isr": of("isr", (e.isr for e in events)),
        "elr": of("elr", (e.elr for e in events)),
        "last_known_elr": of("last_known_elr", (e.last_known for e in events)),
        "adding_replicas": of("adding_replicas", (e.adding for e in events)),
        "removing_replicas": of("removing_replicas", (e.removing for e in events)),
        "leader": of("leader", (e.leader for e in events)),
        "leader_epoch": of("leader_epoch", (e.leader_epoch for e in events)),
        "request": of("request", (e.request for e in events)),
        "parts": of("parts", (e.parts for e in events)),
        "acks": of("acks", (e.acks for e in events)),
        "messages": of("messages", (e.messages for e in events)),
        "wait_ms": of("wait_ms", (e.wait_ms for e in events)),
        "min_bytes": of("min_bytes", (e.min_bytes for e in events)),
        "fetch_offset": of("fetch_offset", (e.fetch_offset for e in events)),
        "log_end_offset": of("log_end_offset", (e.leo for e in events)),
        "high_watermark": of("high_watermark", (e.hw for e in events)),
    }
