"""Events of data in few words, and what a replay says of them."""

from __future__ import annotations

from typing import Any

from udfs.simulation.cluster_events import Begin, Event, Held, Key, Rules
from udfs.simulation.kernels import codes as k
from udfs.simulation.plain_results import health, replay, requests, state_of
from udfs.simulation.simulator import Folded

T = ("t", 0)
AWAY = 9  # controls the cluster and holds nothing, so that failures of others are only theirs
Row = dict[str, Any]


def held(*ar: int, key: Key = T, isr: tuple[int, ...] | None = None, **more: Any) -> Held:
    """A partition led by the first of its replicas."""
    return Held(key, ar, ar if isr is None else isr, ar[0], **more)


def cluster(*partitions: Held, **rules: Any) -> Begin:
    brokers = tuple(sorted({AWAY, *(b for one in partitions for b in one.replicas)}))
    rules = {"auto_leader_rebalance": False, "message_bytes": 100, **rules}
    return Begin(brokers, frozenset(brokers), partitions, AWAY, 1, Rules(**rules))


def append(at: int, messages: int = 1, acks: int = 1, wait: int = 1000, key: Key = T, **more: Any) -> Event:
    return Event(at, k.APPEND, partition=key, messages=messages, acks=acks, wait_ms=wait, **more)


def fetch(at: int, broker: int, offset: int | None = None, wait: int = 0, key: Key = T, **more: Any) -> Event:
    return Event(at, k.FETCH, broker, key, fetch_offset=offset, wait_ms=wait, **more)


def consume(at: int, offset: int = 0, wait: int = 0, key: Key = T, **more: Any) -> Event:
    return Event(at, k.FETCH, partition=key, fetch_offset=offset, wait_ms=wait, **more)


def said(at: int, broker: int, leo: int | None = None, hw: int | None = None) -> Event:
    return Event(at, k.OFFSETS, broker, T, leo=leo, hw=hw)


def down(at: int, broker: int) -> Event:
    return Event(at, k.BROKER_DOWN, broker)


def up(at: int, broker: int) -> Event:
    return Event(at, k.BROKER_UP, broker)


def other(at: int, kind: int, **more: Any) -> Event:
    return Event(at, kind, partition=T, **more)


def stands(of: Folded) -> Row:
    """How T stands at the end, its replicas' offsets by broker."""
    row = next(one for one in health(of) if one["at_the_end"] and one["topic"] == "t" and one["partition"] == 0)
    row["leo"] = dict(zip(row["replicas"], row["log_end_offsets"], strict=True))
    row["hw"] = dict(zip(row["replicas"], row["high_watermarks"], strict=True))
    row["isr"] = next(p["isr"] for p in state_of(of)["partitions"] if (p["topic"], p["partition"]) == T)
    return row


def told(begin: Begin, *events: Event, end_at: int | None = None) -> list[Row]:
    return requests(replay(begin, events, end_at))


def one(begin: Begin, *events: Event, of: int = 0, end_at: int | None = None) -> tuple[Any, ...]:
    """(delayed, error, what answered, when) of the request that event `of` is."""
    row = next(row for row in told(begin, *events, end_at=end_at) if row["event"] == of)
    return row["delayed"], row["error"], row["answered_by"], row["answered_at_ms"]
