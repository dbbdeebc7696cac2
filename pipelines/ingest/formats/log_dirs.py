"""`kafka-log-dirs --describe`: two lines of text, then one JSON document of brokers, log dirs and replicas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from pipelines.ingest.formats._documents import outside_facts, outside_record
from pipelines.ingest.formats._values import (
    INT64,
    Fact,
    as_bool,
    as_int,
    as_object,
    as_text,
    loads,
    need,
    parse_each,
    shown,
    unparsable,
)
from pipelines.ingest.json_elements import BROKEN, ELEMENT, END, LINE, OTHER, START, VALUE, Event, events
from pipelines.ingest.records import BROKER, REPLICA, Format, Records

# Both arrays: a broker without log dirs is still an answer, and its partitions are elements of their own.
_WANTED = (("brokers",), ("brokers", "*", "logDirs", "*", "partitions"))
_SIGN = re.compile(r'"logDirs?"\s*:')


def _score(lines: Sequence[str]) -> float:
    text = "\n".join(lines)
    if _SIGN.search(text) and '"brokers"' in text:
        return 0.97
    return 0.6 if "Received log directory information from brokers" in text else 0.0


class _Broker:
    """What is known so far of one broker of the document: keys come in any order."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.id: Any = None
        self.dirs: dict[int, dict[str, Any]] = {}
        self.replicas: list[tuple[int, int, str]] = []  # index of its log dir, line, raw

    def rows(self) -> Iterator[tuple[int, str | None, str]]:
        known = isinstance(self.id, (int, str)) or self.id is None
        yield self.line, "broker", json.dumps({"broker": self.id if known else shown(self.id)})
        contexts = {
            i: json.dumps({"broker": self.id, "logDir": d.get("logDir"), "error": d.get("error")})
            for i, d in self.dirs.items()
        }
        for i, line, raw in self.replicas:
            yield line, contexts[i], raw


def _frame(text: str, _path: str) -> Records:
    return Records.of(_rows(text))


def _rows(text: str) -> Iterator[tuple[int, str | None, str]]:
    broker: _Broker | None = None
    for event in events(text, _WANTED):
        if event.kind in (LINE, OTHER, BROKEN):
            if broker is not None:  # broken off inside: what was read of this broker stands
                yield from broker.rows()
                broker = None
            yield outside_record(event, "brokers and their logDirs")
        elif event.path[:1] == ("brokers",) and len(event.path) >= 2:
            if event.kind == START and len(event.path) == 2:
                broker = _Broker(event.line)
            elif event.kind == VALUE and len(event.path) == 2:
                yield event.line, "broker", json.dumps(event.value)
            elif broker is not None:
                _note(broker, event)
                if event.kind == END and len(event.path) == 2:
                    yield from broker.rows()
                    broker = None


def _note(broker: _Broker, event: Event) -> None:
    path = event.path
    if event.kind == VALUE and len(path) == 3 and path[2] == "broker":
        broker.id = event.value
    elif len(path) >= 4 and path[2] == "logDirs" and isinstance(path[3], int):
        log_dir = broker.dirs.setdefault(path[3], {})
        if event.kind == VALUE and len(path) == 5:
            log_dir[str(path[4])] = event.value
        elif event.kind == ELEMENT:
            broker.replicas.append((path[3], event.line, event.raw))


def _facts(context: str | None, raw: str) -> list[Fact]:
    context = context or ""
    outside = outside_facts(context, raw)
    if outside is not None:
        return outside
    if context == "broker":
        found = as_object(loads(raw), "the broker")
        return [(BROKER, {"broker_id": as_int(need(found, "broker"), "broker"), "registered": True})]
    around = as_object(loads(context, "the context"), "the context")
    found = as_object(loads(raw), "the replica")
    name = as_text(need(found, "partition"), "partition")
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic:
        raise unparsable(f"partition is {shown(name)}, expected topic-number")
    log_dir, is_future = around.get("logDir"), found.get("isFuture")
    lag = found.get("offsetLag", -1)
    return [
        (
            REPLICA,
            {
                "topic": topic,
                "partition": as_int(partition, f"the number in partition {shown(name)}"),
                "broker_id": as_int(around.get("broker"), "broker"),
                "size_bytes": as_int(need(found, "size"), "size", 0, INT64),
                # -1 is Kafka's word for unknown
                "offset_lag": None if lag in (-1, None) else as_int(lag, "offsetLag", 0, INT64),
                "log_dir": None if log_dir is None else as_text(log_dir, "logDir"),
                "is_future": None if is_future is None else as_bool(is_future, "isFuture"),
            },
        )
    ]


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format(
    name="log-dirs",
    title="kafka-log-dirs --describe",
    score=_score,
    frame=_frame,
    parse=_parse,
)
