"""`kafka-log-dirs --describe`: two lines of text, then one JSON document of brokers, log dirs and replicas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.checked_values import (
    INT32,
    INT64,
    BadValueError,
    Fact,
    as_bool,
    as_int,
    as_object,
    as_text,
    as_topic,
    loads,
    need,
    parse_each,
    shown,
    unparsable,
)
from pipelines.ingest.formats.json_documents import outside_facts, outside_record
from pipelines.ingest.formats.record_batches import in_order, pick, rows_of, with_origin
from pipelines.ingest.json_elements import BROKEN, ELEMENT, END, LINE, OTHER, START, VALUE, Event, events
from pipelines.ingest.records import BROKER, REPLICA, Format, Records

# Both arrays: a broker without log dirs is still an answer, and its partitions are elements of their own.
_WANTED = (("brokers",), ("brokers", "*", "logDirs", "*", "partitions"))
_BATCH = 131_072
# An element as Kafka writes it; every other goes through the JSON parser. Tests hold both equal.
_REPLICA = (
    r'^\{"partition":"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>[0-9]{1,9})","size":(?P<size>0|[1-9][0-9]{0,17}),'
    r'"offsetLag":(?P<lag>-1|0|[1-9][0-9]{0,17}),"isFuture":(?P<future>true|false)\}$'
)
FAILED = "failed log dir"  # the context of a log dir that shows an error where its replicas would be
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
        self.lines: dict[int, int] = {}  # where each log dir begins
        self.replicas: list[tuple[int, int, str]] = []  # index of its log dir, line, raw

    def rows(self) -> Iterator[tuple[int, str | None, str]]:
        known = isinstance(self.id, (int, str)) or self.id is None
        yield self.line, "broker", json.dumps({"broker": self.id if known else shown(self.id)})
        contexts = {
            i: json.dumps({"broker": self.id, "logDir": d.get("logDir"), "error": d.get("error")})
            for i, d in self.dirs.items()
        }
        for i, log_dir in self.dirs.items():
            if log_dir.get("error") is not None:
                yield self.lines[i], FAILED, contexts[i]
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
        broker.lines.setdefault(path[3], event.line)
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
    if context == FAILED:
        found = as_object(loads(raw), "the log dir")
        where = f"log dir {shown(found.get('logDir'))} of broker {shown(found.get('broker'))}"
        raise BadValueError(f"{where} failed: {shown(found.get('error'))}; its replicas are not shown")
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
                "topic": as_topic(topic, "topic"),
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
    starts = range(0, max(len(records), 1), _BATCH)
    return pa.concat_tables([_parse_batch(rows_of(records, slice(i, i + _BATCH))) for i in starts])


def _parse_batch(records: Records) -> pa.Table:
    found = pc.extract_regex(pa.array(records.raw, pa.string()), _REPLICA)
    places = {context: _place(context) for context in set(records.context)}
    known = np.array([places[context] is not None for context in records.context], bool)
    topic = pc.struct_field(found, "topic")
    odd = pc.or_(pc.is_in(topic, pa.array([".", ".."])), pc.greater(pc.utf8_length(topic), 249))
    fast = known & pc.fill_null(pc.invert(odd), False).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(fast)
    table = _replicas(pc.filter(found, pa.array(fast)), [places[records.context[i]] for i in rows.tolist()])
    table = with_origin(table, records, rows)
    others = np.flatnonzero(~fast)
    if not len(others):
        return table
    return in_order([table, parse_each(pick(records, others), _facts)])


def _place(context: str | None) -> tuple[int, str | None] | None:
    """(broker, log dir) of a replica's context; None if it is another context, or not as it should be."""
    if not (context or "").startswith("{"):
        return None
    around = loads(context or "", "the context")
    broker, log_dir = around.get("broker"), around.get("logDir")
    if type(broker) is not int or not 0 <= broker <= INT32 or not (log_dir is None or isinstance(log_dir, str)):
        return None
    return None if "\\u" in (context or "") else (broker, log_dir)


def _replicas(found: pa.StructArray, places: list[Any]) -> dict[str, pa.Array]:
    lag = found.field("lag")
    return {
        "kind": pa.repeat(pa.scalar(REPLICA), len(found)),
        "topic": found.field("topic"),
        "partition": pc.cast(found.field("partition"), pa.int32()),
        "broker_id": pa.array([broker for broker, _ in places], pa.int32()),
        "size_bytes": pc.cast(found.field("size"), pa.int64()),
        "offset_lag": pc.cast(pc.if_else(pc.equal(lag, "-1"), pa.scalar(None, pa.string()), lag), pa.int64()),
        "log_dir": pa.array([log_dir for _, log_dir in places], pa.string()),
        "is_future": pc.equal(found.field("future"), "true"),
    }


FORMAT = Format(name="log-dirs", title="kafka-log-dirs --describe", score=_score, frame=_frame, parse=_parse)
