"""Kafka's reassignment JSON, alone or in what --generate and --execute print."""

import re
from collections.abc import Iterator, Sequence

from pipelines.ingest.fact_tables import Fact, FactKind, ignore
from pipelines.ingest.formats.checked_values import parse_object
from pipelines.ingest.formats.json_documents import JsonEventKind, parse_elements, to_row, walk_documents
from pipelines.ingest.source_format import Format, Records, Row

_CURRENT, _PROPOSED = "current", "proposed"
_ELEMENT = re.compile(r'"partitions"\s*:\s*\[\s*(?:\{[^{}]*"(?:topic|partition)"\s*:|\])')
_TITLES = (
    (re.compile(r"\s*Current partition replica assignment", re.I), _CURRENT),
    (re.compile(r"\s*Proposed partition reassignment", re.I), _PROPOSED),
)


def _detect(lines: Sequence[str]) -> float:
    text = "\n".join(lines)
    if '"logDirs"' in text or '"brokers"' in text or not _ELEMENT.search(text):
        return 0.0
    return 0.9 if '"replicas"' in text else 0.5


def _read_records(text: str, _path: str) -> Records:
    return Records.from_rows(_read_rows(text))


def _read_rows(text: str) -> Iterator[Row]:
    assignment = _CURRENT
    for event in walk_documents(text, [("partitions",)]):
        if event.kind == JsonEventKind.LINE:
            assignment = next((name for title, name in _TITLES if title.match(event.raw)), assignment)
        row = to_row(event, "partitions")
        if row is not None:
            yield row
        elif event.kind == JsonEventKind.ELEMENT:
            yield event.line, assignment, event.raw


def _parse_partition(assignment: str, raw: str) -> list[Fact]:
    if assignment == _PROPOSED:
        return ignore("proposed assignment")
    partition = parse_object(raw, "the partition", "the partition")
    values = {
        "topic": partition.get_text("topic"),
        "partition": partition.get_int("partition"),
        "replicas": partition.get_broker_ids("replicas"),
    }
    return [(FactKind.PARTITION, values)]


FORMAT = Format(
    name="reassignment",
    title="reassignment JSON, alone or as kafka-reassign-partitions prints it",
    detect=_detect,
    parse_record=parse_elements(_parse_partition),
    read_records=_read_records,
)
