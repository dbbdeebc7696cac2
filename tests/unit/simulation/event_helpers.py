"""Short constructors of events and initial states, and what a simulation returns for them."""

from __future__ import annotations

from typing import Any

from udfs.simulation.cluster_events import ClusterSettings, Event, InitialPartition, InitialState, TopicPartition
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.result_tables import Row, get_final_state, list_health, list_requests
from udfs.simulation.simulator import Simulation, simulate

T = ("t", 0)
AWAY = 9  # the controller, without replicas, so that failures of other brokers affect nothing else


def led_partition(
    *replicas: int, key: TopicPartition = T, isr: tuple[int, ...] | None = None, **more: Any
) -> InitialPartition:
    """Return a partition that the first of its replicas leads."""
    return InitialPartition(key, replicas, replicas if isr is None else isr, replicas[0], **more)


def cluster(*partitions: InitialPartition, **settings: Any) -> InitialState:
    brokers = tuple(sorted({AWAY, *(broker for partition in partitions for broker in partition.replicas)}))
    settings = {"auto_leader_rebalance": False, "message_bytes": 100, **settings}
    return InitialState(brokers, frozenset(brokers), partitions, AWAY, 1, ClusterSettings(**settings))


def append(at: int, messages: int = 1, acks: int = 1, wait: int = 1000, key: TopicPartition = T, **more: Any) -> Event:
    return Event(at, EventKind.APPEND, partition=key, messages=messages, acks=acks, wait_ms=wait, **more)


def fetch(
    at: int, broker: int, offset: int | None = None, wait: int = 0, key: TopicPartition = T, **more: Any
) -> Event:
    return Event(at, EventKind.FETCH, broker, key, fetch_offset=offset, wait_ms=wait, **more)


def consume(at: int, offset: int = 0, wait: int = 0, key: TopicPartition = T, **more: Any) -> Event:
    return Event(at, EventKind.FETCH, partition=key, fetch_offset=offset, wait_ms=wait, **more)


def shown_offsets(at: int, broker: int, leo: int | None = None, hw: int | None = None) -> Event:
    return Event(at, EventKind.REPLICA_OFFSETS, broker, T, leo=leo, hw=hw)


def down(at: int, broker: int) -> Event:
    return Event(at, EventKind.BROKER_DOWN, broker)


def up(at: int, broker: int) -> Event:
    return Event(at, EventKind.BROKER_UP, broker)


def partition_event(at: int, kind: int, **more: Any) -> Event:
    return Event(at, kind, partition=T, **more)


def describe_final_health(simulation: Simulation) -> Row:
    """Return the last health row of T, with its ISR, and offsets by broker."""
    rows = list_health(simulation)
    row = next(row for row in rows if row["at_the_end"] and (row["topic"], row["partition"]) == T)
    row["leo"] = dict(zip(row["replicas"], row["log_end_offsets"], strict=True))
    row["hw"] = dict(zip(row["replicas"], row["high_watermarks"], strict=True))
    row["isr"] = next(p["isr"] for p in get_final_state(simulation).partitions if (p["topic"], p["partition"]) == T)
    return row


def simulate_requests(begin: InitialState, *events: Event, end_at: int | None = None) -> list[Row]:
    return list_requests(simulate(begin, events, end_at))


def find_request(begin: InitialState, *events: Event, of: int = 0, end_at: int | None = None) -> tuple[Any, ...]:
    """Return (delayed, error, answered_by, answered_at_ms) of the request in event `of`."""
    row = next(row for row in simulate_requests(begin, *events, end_at=end_at) if row["event"] == of)
    return row["delayed"], row["error"], row["answered_by"], row["answered_at_ms"]
