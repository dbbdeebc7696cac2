"""A KRaft metadata log as events."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pipelines.ingest.formats.checked_values import BadValueError
from pipelines.ingest.formats.kraft_log import FORMAT as KRAFT_LOG
from pipelines.ingest.formats.kraft_log import find_create_time, find_new_controller
from pipelines.ingest.source_format import FactKind, Records
from udfs.simulation.cluster_events import ATTRIBUTES, Event, TopicPartition
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.simulation_schemas import LISTS

# Of a record: not "Log starting offset", "Snapshot end offset".
_OFFSET = re.compile(r"(?<!ing )(?<!end )\boffset: (\d{1,18})(?!\d)")
_EPOCH = re.compile(r"^\s*+(?:baseOffset: .*\bpartitionLeaderEpoch|Snapshot end offset: .*\bepoch): (-?\d{1,9})(?!\d)")
_SNAPSHOT = re.compile(r"\s*Snapshot end offset: ")
_LEADER_CHANGE = "LeaderChange: {"
_MIN_ISR = "min.insync.replicas"


def read_log_events(logs: Sequence[Records], min_isr: int = 1) -> tuple[int, list[Event]]:
    """Return (initial epoch of the controller, events) of a log; min_isr: of topics that set none."""
    # offset of an event: that of its record; at_ms: when it was written, or its offset if the log shows no times.
    events: list[Event] = []
    epoch = 0
    for records in logs:
        reader = _EventReader(records, min_isr, epoch)
        events.extend(reader.read_events())
        epoch = reader.epoch
    first = events[0] if events else None
    if first and first.kind == EventKind.CONTROLLER_CHANGE and first.broker is None:  # the epoch when the log begins
        return first.value, events[1:]
    return 0, events


class LogEnd(NamedTuple):
    """A log, or its first part."""

    records: Records
    controller: int | None  # The last controller; None = unknown
    controller_epoch: int
    gaps: tuple[tuple[int, int], ...]  # First and last of each range of missing offsets
    first: int = 0  # First offset; 0 if the log begins with a snapshot, which has everything before it


def cut_log(records: Records, offset: int | None = None, at_ms: int | None = None) -> LogEnd:
    """Cut a log after an offset or a time (ms since 1970); None = not at all."""
    epoch, controller, controller_epoch, last, first, size = 0, None, 0, -1, -1, 0
    gaps = []
    for _, _, _, raw in records:
        offset_match, time = _OFFSET.search(raw), find_create_time(raw)
        is_later = offset_match is not None and offset is not None and int(offset_match[1]) > offset
        if is_later or (time is not None and at_ms is not None and time > at_ms):
            break
        size += 1
        if _SNAPSHOT.match(raw):
            first = 0
        if batch := _EPOCH.match(raw):
            epoch = int(batch[1])
        elif offset_match:
            current = int(offset_match[1])
            first = current if first < 0 else first
            if last >= 0 and current > last + 1:
                gaps.append((last + 1, current - 1))
            last = current
            if epoch > controller_epoch:  # a LeaderChange names the leader, unless the log has lost it
                controller, controller_epoch = None, epoch
        if _LEADER_CHANGE in raw:
            controller, controller_epoch = _read_controller(raw), epoch
    cut = slice(size)
    columns = records.record_number[cut], records.line_number[cut], records.context[cut], records.raw[cut]
    return LogEnd(Records(*columns), controller, controller_epoch, tuple(gaps), max(first, 0))


def _read_controller(raw: str) -> int | None:
    """Return the controller that a LeaderChange names; None if the line was cut, and is quarantined in the source."""
    try:
        return find_new_controller(raw)
    except BadValueError:
        return None


class _EventReader:
    """Reads events; `epoch` is the controller's, as far as it is known."""

    def __init__(self, records: Records, min_isr: int, epoch: int) -> None:
        self._records, self._default_min_isr, self.epoch = records, min_isr, epoch
        self._min_isr: dict[str, int] = {}
        self._partitions: dict[str, set[TopicPartition]] = {}  # of each topic that exists

    def read_events(self) -> Iterator[Event]:
        facts: dict[int, list[dict[str, Any]]] = {}
        for fact in KRAFT_LOG.parse_facts(self._records).to_pylist():
            facts.setdefault(fact["record_number"], []).append(fact)
        epoch, offset, at = 0, -1, 0
        for number, _, _, raw in self._records:
            if match := _EPOCH.match(raw):
                epoch = int(match[1])
                continue
            if offset_match := _OFFSET.search(raw):
                offset = int(offset_match[1])
            time = find_create_time(raw)
            at = time if time is not None else at or max(offset, 0)
            if _LEADER_CHANGE in raw:
                self.epoch = epoch
                yield Event(at, EventKind.CONTROLLER_CHANGE, broker=_read_controller(raw), value=epoch, offset=offset)
            elif offset_match and epoch > self.epoch:  # the log lacks the LeaderChange
                self.epoch = epoch
                yield Event(at, EventKind.CONTROLLER_CHANGE, value=epoch, offset=offset)
            for fact in facts.get(number, ()):
                yield from self._read_fact(fact, at, offset)

    def _read_fact(self, fact: dict[str, Any], at: int, offset: int) -> Iterator[Event]:
        topic = fact["topic"]
        match fact["kind"]:
            case FactKind.PARTITION | FactKind.PARTITION_CHANGE:
                yield from self._read_partition(fact, (topic, fact["partition"]), at, offset)
            case FactKind.CONFIG:
                yield from self._read_config(topic, dict(fact["configs"]), at, offset)
            case FactKind.TOPIC_REMOVED:
                self._min_isr.pop(topic, None)
                for key in sorted(self._partitions.pop(topic, ())):
                    yield Event(at, EventKind.REMOVE_PARTITION, partition=key, offset=offset)
            case FactKind.CLEAR_ELR:
                topics = self._partitions if topic is None else [topic]
                for key in sorted(key for name in topics for key in self._partitions.get(name, ())):
                    yield Event(at, EventKind.CLEAR_ELR, partition=key, offset=offset)
            case FactKind.BROKER | FactKind.BROKER_REMOVED | FactKind.BROKER_CHANGE:
                if fact["kind"] != FactKind.BROKER_CHANGE or fact["fenced"] is not None:
                    is_live = fact["fenced"] is False and fact["kind"] != FactKind.BROKER_REMOVED
                    kind = EventKind.BROKER_UNFENCED if is_live else EventKind.BROKER_FENCED
                    yield Event(at, kind, fact["broker_id"], offset=offset)

    def _read_partition(self, fact: dict[str, Any], key: TopicPartition, at: int, offset: int) -> Iterator[Event]:
        topic, is_new = key[0], fact["kind"] == FactKind.PARTITION
        if is_new:
            self._partitions.setdefault(topic, set()).add(key)
        elif key not in self._partitions.get(topic, ()):
            return  # quarantined where the log is read as a source

        ids = ((ATTRIBUTES.get(name, name), fact[name]) for name in LISTS)
        lists: dict[str, Any] = {name: None if one is None else tuple(one) for name, one in ids}
        yield Event(
            at,
            EventKind.PARTITION_RECORD,
            partition=key,
            **lists,
            leader=fact["leader"],
            leader_epoch=(fact["leader_epoch"] or 0) if is_new else -1,
            is_full_record=is_new,
            offset=offset,
        )
        min_isr = self._min_isr.get(topic, self._default_min_isr)
        if is_new and min_isr != 1:
            yield Event(at, EventKind.SET_MIN_ISR, partition=key, value=min_isr, offset=offset)

    def _read_config(self, topic: str, configs: dict[str, str | None], at: int, offset: int) -> Iterator[Event]:
        """Read min.insync.replicas; unclean elections need no config, as the log shows who was elected."""
        text = configs.get(_MIN_ISR)
        if _MIN_ISR not in configs or (text is not None and not re.fullmatch("[0-9]{1,9}", text)):
            return
        self._min_isr[topic] = self._default_min_isr if text is None else int(text)
        for key in sorted(self._partitions.get(topic, ())):
            yield Event(at, EventKind.SET_MIN_ISR, partition=key, value=self._min_isr[topic], offset=offset)
