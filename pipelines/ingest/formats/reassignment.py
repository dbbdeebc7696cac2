"""Kafka's reassignment JSON, alone or in what --generate and --execute print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

from pipelines.ingest.formats.checked_values import (
    Fact,
    as_int,
    as_ints,
    as_object,
    as_text,
    ignored,
    loads,
    need,
    parse_each,
)
from pipelines.ingest.formats.json_documents import OUTSIDE, outside_facts, outside_record
from pipelines.ingest.json_elements import ELEMENT, LINE, events
from pipelines.ingest.records import PARTITION, Format, Records

PROPOSED = "proposed assignment"

_ELEMENT = re.compile(r'"partitions"\s*:\s*\[\s*(?:\{[^{}]*"(?:topic|partition)"\s*:|\])')
_IS_CURRENT = re.compile(r"\s*Current partition replica assignment", re.I)
_IS_PROPOSED = re.compile(r"\s*Proposed partition reassignment", re.I)


def _score(lines: Sequence[str]) -> float:
    text = "\n".join(lines)
    if '"logDirs"' in text or '"brokers"' in text or not _ELEMENT.search(text):
        return 0.0
    return 0.9 if '"replicas"' in text else 0.5


def _frame(text: str, _path: str) -> Records:
    return Records.of(_rows(text))


def _rows(text: str) -> Iterator[tuple[int, str | None, str]]:
    role = "current"
    for event in events(text, [("partitions",)]):
        if event.kind == LINE:
            if _IS_PROPOSED.match(event.raw):
                role = "proposed"
            elif _IS_CURRENT.match(event.raw):
                role = "current"
        if event.kind in OUTSIDE:
            yield outside_record(event, "partitions")
        elif event.kind == ELEMENT:
            yield event.line, role, event.raw


def _facts(context: str | None, raw: str) -> list[Fact]:
    outside = outside_facts(context or "", raw)
    if outside is not None:
        return outside
    if context == "proposed":
        return ignored(PROPOSED)
    found = as_object(loads(raw, "the partition"), "the partition")
    return [
        (
            PARTITION,
            {
                "topic": as_text(need(found, "topic"), "topic"),
                "partition": as_int(need(found, "partition"), "partition"),
                "replicas": as_ints(need(found, "replicas"), "replicas"),
            },
        )
    ]


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format(
    name="reassignment",
    title="reassignment JSON, alone or as kafka-reassign-partitions prints it",
    score=_score,
    frame=_frame,
    parse=_parse,
)
