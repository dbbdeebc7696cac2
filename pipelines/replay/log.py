"""A KRaft metadata log as the events that it records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pipelines.ingest import records as r
from pipelines.ingest.formats.kraft_log import FORMAT as KRAFT_LOG
from pipelines.ingest.records import Records
from udfs.kernels import replay_codes as k
from udfs.replay.events import Event, Key

_OFFSET = re.compile(r"\boffset: (\d+)")
_TIME = re.compile(r"\bCreateTime: (\d+)")
_EPOCH = re.compile(r"^\s*baseOffset: .*\bpartitionLeaderEpoch: (-?\d+)")
_LEADER = re.compile(r"\bLeaderChange: (\{.*)")


def events_of(records: Records) -> list[Event]:
    """The log's events in its order; records that carry none are left out.

    offset: the record's; at_ms: when it was written, or the offset where the log does not say.
    """
    return list(_Reader(records).events())


class _Reader:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._partitions: dict[str, set[Key]] = {}  # of each topic that exists

    def events(self) -> Iterator[Event]:
        facts: dict[int, list[dict[str, Any]]] = {}
        for fact in KRAFT_LOG.parse(self._records).to_pylist():
            facts.setdefault(fact["record_number"], []).append(fact)
        epoch, offset, at = 0, -1, 0
        for number, _, _, raw in self._records:
            if found := _EPOCH.match(raw):
                epoch = int(found[1])
                continue
            if found := _OFFSET.search(raw):
                offset = int(found[1])
            at = int(found[1]) if (found := _TIME.search(raw)) else at or max(offset, 0)
            if found := _LEADER.search(raw):
                leader = json.loads(found[1]).get("leaderId")
                yield Event(at, k.LED_BY, broker=leader, value=epoch, offset=offset)
            for fact in facts.get(number, ()):
                yield from self._of(fact, at, offset)

    def _of(self, fact: dict[str, Any], at: int, offset: int) -> Iterator[Event]:
        kind, topic = fact["kind"], fact["topic"]
        if kind in (r.PARTITION, r.PARTITION_CHANGE):
            key = (topic, fact["partition"])
            if kind == r.PARTITION:
                self._partitions.setdefault(topic, set()).add(key)
            elif key not in self._partitions.get(topic, ()):
                return  # quarantined where the log is read as a source
            yield _record(fact, key, at, offset)
        elif kind == r.TOPIC_REMOVED:
            for key in sorted(self._partitions.pop(topic, ())):
                yield Event(at, k.FORGET, partition=key, offset=offset)
        elif kind == r.CLEAR_ELR:
            topics = self._partitions if topic is None else [topic]
            for key in sorted(key for name in topics for key in self._partitions.get(name, ())):
                yield Event(at, k.CLEAR_ELR, partition=key, offset=offset)
        elif kind == r.BROKER:
            yield Event(at, k.UNFENCED if fact["fenced"] is False else k.FENCED, fact["broker_id"], offset=offset)
        elif kind == r.BROKER_CHANGE and fact["fenced"] is not None:
            yield Event(at, k.FENCED if fact["fenced"] else k.UNFENCED, fact["broker_id"], offset=offset)
        elif kind == r.BROKER_REMOVED:
            yield Event(at, k.FENCED, fact["broker_id"], offset=offset)


def _record(fact: dict[str, Any], key: Key, at: int, offset: int) -> Event:
    def ids(column: str) -> tuple[int, ...] | None:
        return None if fact[column] is None else tuple(fact[column])

    return Event(
        at,
        k.RECORD,
        partition=key,
        replicas=ids("replicas"),
        isr=ids("isr"),
        elr=ids("elr"),
        last_known=ids("last_known_elr"),
        adding=ids("adding_replicas"),
        removing=ids("removing_replicas"),
        leader=fact["leader"],
        leader_epoch=(fact["leader_epoch"] or 0) if fact["kind"] == r.PARTITION else -1,
        whole=fact["kind"] == r.PARTITION,
        offset=offset,
    )
