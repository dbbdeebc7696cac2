"""What Kafka's tools are given: topics to move, partitions to elect a leader of. No placement in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

from pipelines.ingest.formats.checked_values import Fact, as_object, ignored, loads, parse_each, shown, unparsable
from pipelines.ingest.formats.json_documents import OUTSIDE, TOPIC_TO_MOVE, keys_in, outside_facts, outside_record
from pipelines.ingest.json_elements import ELEMENT, events
from pipelines.ingest.records import Format, Records

# Array -> the keys of its elements, and what such an element is.
_ARRAYS = {
    "topics": ({"topic"}, TOPIC_TO_MOVE),
    "partitions": ({"topic", "partition"}, "partition to elect a leader of"),
}
_SIGN = re.compile(r'"(?:topics|partitions)"\s*:\s*\[\s*\{')


def _score(lines: Sequence[str]) -> float:
    text = "\n".join(lines)
    if not _SIGN.search(text):
        return 0.0
    found = keys_in(text)
    return 0.8 if any(found - {"version"} == {array, *keys} for array, (keys, _) in _ARRAYS.items()) else 0.0


def _frame(text: str, _path: str) -> Records:
    return Records.of(_rows(text))


def _rows(text: str) -> Iterator[tuple[int, str | None, str]]:
    for event in events(text, [(array,) for array in _ARRAYS]):
        if event.kind in OUTSIDE:
            yield outside_record(event, "topics or partitions")
        elif event.kind == ELEMENT:
            yield event.line, str(event.path[0]), event.raw


def _facts(context: str | None, raw: str) -> list[Fact]:
    outside = outside_facts(context or "", raw)
    if outside is not None:
        return outside
    keys, reason = _ARRAYS[context or ""]
    found = as_object(loads(raw), "the entry")
    if found.keys() != keys:
        raise unparsable(f"the entry has {shown(sorted(found))}, expected {shown(sorted(keys))}")
    return ignored(reason)


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format(
    name="tool-input",
    title="topics to move, or partitions to elect leaders of, as Kafka's tools are given them",
    score=_score,
    frame=_frame,
    parse=_parse,
)
