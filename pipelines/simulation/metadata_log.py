"""A KRaft metadata log as the events that it records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.ingest import records as r
from pipelines.ingest.formats.kraft_log import FORMAT as KRAFT_LOG
from pipelines.ingest.records import Records
from udfs.simulation.cluster_events import Event, Key
from udfs.simulation.kernels import codes as k

# Of a record: not "Log starting offset", "Snapshot end offset".
_OFFSET = re.compile(r"(?<!ing )(?<!end )\boffset: (\d+)")
_TIME = re.compile(r"\bCreateTime: (\d+)")
_EPOCH = re.compile(r"^\s*(?:baseOffset: .*\bpartitionLeaderEpoch|Snapshot end offset: .*\bepoch): (-?\d+)")
_SNAPSHOT = re.compile(r"\s*Snapshot end offset: ")
_MIN_ISR = "min.insync.replicas"
_LEADER = re.compile(r"\bLeaderChange: (\{.*)")


def events_of(logs: Sequence[Records], min_isr: int = 1) -> tuple[int, list[Event]]:
    """(the controller's epoch at first, the log's events in its order); records that carry none are left out.

    logs: the log's parts.   offset: the record's; at_ms: when it was written, or the offset where the log does not say.
    min_isr: min.insync.replicas of topics that set none.
    """
    events: list[Event] = []
    epoch = 0
    for records in logs:
        reader = _Reader(records, min_isr, epoch)
        events.extend(reader.events())
        epoch = reader.epoch
    if events and events[0].kind == k.LED_BY and events[0].broker is None:  # it was so when the log begins
        return events[0].value, events[1:]
    return 0, events


@dataclass(frozen=True)
class LogEnd:
    """What is known of a log as a whole, or of its first part. controller: None = not told. gaps: (first, last) of
    offsets that are missing.   first: the first offset; 0 too for a snapshot, which has all that was before it."""

    records: Records
    controller: int | None
    controller_epoch: int
    gaps: tuple[tuple[int, int], ...]
    first: int = 0


def read_until(records: Records, offset: int | None = None, at_ms: int | None = None) -> LogEnd:
    """The log up to an offset (included), or a time (ms since 1970); None = all of it."""
    epoch, controller, controller_epoch, last, first = 0, None, 0, -1, -1
    gaps = []
    size = 0
    for _, _, _, raw in records:
        found, told = _OFFSET.search(raw), _TIME.search(raw)
        late = found is not None and offset is not None and int(found[1]) > offset
        if late or (told is not None and at_ms is not None and int(told[1]) > at_ms):
            break
        size += 1
        if _SNAPSHOT.match(raw):
            first = 0
        if batch := _EPOCH.match(raw):
            epoch = int(batch[1])
        elif found:
            now = int(found[1])
            first = now if first < 0 else first
            if last >= 0 and now > last + 1:
                gaps.append((last + 1, now - 1))
            last = now
            if epoch > controller_epoch:  # who leads in it is told by a LeaderChange, which a log may have lost
                controller, controller_epoch = None, epoch
        if led := _LEADER.search(raw):
            controller, controller_epoch = json.loads(led[1]).get("leaderId"), epoch
    of = records
    kept = Records(of.record_number[:size], of.line_number[:size], of.context[:size], of.raw[:size])
    return LogEnd(kept, controller, controller_epoch, tuple(gaps), max(first, 0))


class _Reader:
    """epoch: of the controller, as far as is known."""

    def __init__(self, records: Records, min_isr: int, epoch: int) -> None:
        self._records, self._default, self.epoch = records, min_isr, epoch
        self._min_isr: dict[str, int] = {}
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
            if written := _OFFSET.search(raw):
                offset = int(written[1])
            at = int(found[1]) if (found := _TIME.search(raw)) else at or max(offset, 0)
            if found := _LEADER.search(raw):
                leader, self.epoch = json.loads(found[1]).get("leaderId"), epoch
                yield Event(at, k.LED_BY, broker=leader, value=epoch, offset=offset)
            elif written and epoch > self.epoch:  # the LeaderChange is not in the log
                self.epoch = epoch
                yield Event(at, k.LED_BY, value=epoch, offset=offset)
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
            least = self._min_isr.get(topic, self._default)
            if kind == r.PARTITION and least != 1:
                yield Event(at, k.SET_MIN_ISR, partition=key, value=least, offset=offset)
        elif kind == r.CONFIG:
            yield from self._configured(topic, dict(fact["configs"]), at, offset)
        elif kind == r.TOPIC_REMOVED:
            self._min_isr.pop(topic, None)
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

    def _configured(self, topic: str, configs: dict[str, str | None], at: int, offset: int) -> Iterator[Event]:
        """Whether elections may be unclean need not be told: the log has who was elected."""
        if _MIN_ISR not in configs:
            return
        said = configs[_MIN_ISR]
        if said is not None and not said.isdigit():
            return  # a warning where the log is read as a source
        least = self._default if said is None else int(said)
        self._min_isr[topic] = least
        for key in sorted(self._partitions.get(topic, ())):
            yield Event(at, k.SET_MIN_ISR, partition=key, value=least, offset=offset)


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
