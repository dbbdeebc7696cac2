"""A synthetic cluster model: brokers with racks, brokers to be emptied, partitions with loads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.checked_values import (
    INT64,
    Fact,
    as_int,
    as_ints,
    as_number,
    as_object,
    as_text,
    loads,
    need,
    parse_each,
    shown,
    unparsable,
)
from pipelines.ingest.formats.json_documents import OUTSIDE, outside_facts, outside_record
from pipelines.ingest.json_elements import ELEMENT, events
from pipelines.ingest.records import BROKER, FAULT, PARTITION, Format, Records

_ARRAYS = ("brokers", "removed", "partitions")
_LOADS = re.compile(r'"(?:size_mb|in_kbps|out_kbps)"\s*:')
_REMOVED = re.compile(r'"removed"\s*:\s*\[')


def _score(lines: Sequence[str]) -> float:
    text = "\n".join(lines)
    if '"brokers"' not in text or '"logDirs"' in text:
        return 0.0
    return 0.96 if _LOADS.search(text) or _REMOVED.search(text) else 0.0


def _frame(text: str, _path: str) -> Records:
    return Records.of(_rows(text))


def _rows(text: str) -> Iterator[tuple[int, str | None, str]]:
    for event in events(text, [(name,) for name in _ARRAYS]):
        if event.kind in OUTSIDE:
            yield outside_record(event, "brokers and partitions")
        elif event.kind == ELEMENT:
            yield event.line, str(event.path[0]), event.raw


def _facts(context: str | None, raw: str) -> list[Fact]:
    outside = outside_facts(context or "", raw)
    if outside is not None:
        return outside
    if context == "removed":
        return [(BROKER, {"broker_id": as_int(loads(raw), "removed"), "draining": True})]
    if context == "brokers":
        found = as_object(loads(raw), "the broker")
        rack = found.get("rack")
        return [
            (
                BROKER,
                {
                    "broker_id": as_int(need(found, "id"), "id"),
                    "rack": None if rack is None else as_text(rack, "rack"),
                    "listed": True,
                },
            )
        ]
    return [_partition(raw)]


def _partition(raw: str) -> Fact:
    found = as_object(loads(raw), "the partition")
    size = as_number(need(found, "size_mb"), "size_mb") * 1e6
    if size > INT64:
        raise unparsable(f"size_mb is {shown(found['size_mb'])}, which is too large")
    return PARTITION, {
        "topic": as_text(need(found, "topic"), "topic"),
        "partition": as_int(need(found, "partition"), "partition"),
        "replicas": as_ints(need(found, "replicas"), "replicas"),
        "size_bytes": round(size),
        "bytes_in_per_s": as_number(need(found, "in_kbps"), "in_kbps") * 1000,
        "bytes_out_per_s": as_number(need(found, "out_kbps"), "out_kbps") * 1000,
    }


def _parse(records: Records) -> pa.Table:
    facts = parse_each(records, _facts)
    faulty = set(facts.filter(pc.equal(facts["kind"], FAULT))["record_number"].to_pylist())
    # What stands in no array may be a broker too: the document broke there.
    gaps = {n for n, _, context, _ in records if n in faulty and context not in ("removed", "partitions")}
    if not gaps:
        return facts
    listed = pc.or_kleene(facts["listed"], pc.is_in(facts["record_number"], pa.array(gaps, pa.int64())))
    return facts.set_column(facts.schema.get_field_index("listed"), facts.schema.field("listed"), listed)


FORMAT = Format(
    name="model", title="synthetic cluster model of cluster_model.py", score=_score, frame=_frame, parse=_parse
)
