"""What kafka-reassign-partitions and kafka-leader-election read and print: assignments, other input, status lines."""

import re
from collections.abc import Iterator, Sequence

from pipelines.ingest.formats import json_documents as documents
from pipelines.ingest.formats.checked_values import as_broker_ids, as_int, as_text, parse_object, quote, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Records, Row, ignore
from pipelines.ingest.text import PROSE, TOOL_MESSAGE, classify_noise

_CURRENT, _PROPOSED = "current", "proposed"
_ELEMENT = re.compile(r'"partitions"\s*:\s*\[\s*(?:\{[^{}]*"(?:topic|partition)"\s*:|\])')
_TITLES = (
    (re.compile(r"\s*Current partition replica assignment", re.I), _CURRENT),
    (re.compile(r"\s*Proposed partition reassignment", re.I), _PROPOSED),
)
# Array of a tool's input -> the keys of its elements, and what such an element is.
_INPUT_ARRAYS = {
    "topics": ({"topic"}, documents.TOPIC_TO_MOVE),
    "partitions": ({"topic", "partition"}, "partition to elect a leader of"),
}
_INPUT = re.compile(r'"(?:topics|partitions)"\s*:\s*\[\s*\{')
_MESSAGE = re.compile(
    r"\s*(?:Status of partition reassignment|Reassignment of (?:partition|replica) |Clearing (?:broker|topic)-level"
    r"|(?:Successfully (?:completed|started)|Failed to (?:complete|elect)|Error completing) "
    r"|Valid replica already elected"
    r"|There is no active reassignment|Throttle was removed|The inter-broker throttle|Warning: You must run --verify"
    r"|\d+ replica\(s\) could not be elected|Created topic |Updating (?:default )?configs? |Completed updating config"
    r"|Successfully (?:cancelled|reassigned)|No partition reassignments found|Current partition reassignments:)",
    re.I,
)


def _detect_reassignment(lines: Sequence[str]) -> float:
    text = "\n".join(lines)
    if '"logDirs"' in text or '"brokers"' in text or not _ELEMENT.search(text):
        return 0.0
    return 0.9 if '"replicas"' in text else 0.5


def _read_reassignment(text: str, _path: str) -> Records:
    def read_rows() -> Iterator[Row]:
        assignment = _CURRENT
        for event in documents.walk_documents(text, [("partitions",)]):
            if event.kind == documents.JsonEventKind.LINE:
                assignment = next((name for title, name in _TITLES if title.match(event.raw)), assignment)
            if (row := documents.to_row(event, "partitions")) is not None:
                yield row
            elif event.kind == documents.JsonEventKind.ELEMENT:
                yield event.line, assignment, event.raw

    return Records.from_rows(read_rows())


def _parse_partition(assignment: str, raw: str) -> list[Fact]:
    if assignment == _PROPOSED:
        return ignore("proposed assignment")
    partition = parse_object(raw, "the partition", "the partition")
    values = {
        "topic": partition.read("topic", as_text),
        "partition": partition.read("partition", as_int),
        "replicas": partition.read("replicas", as_broker_ids),
    }
    return [(FactKind.PARTITION, values)]


def _detect_input(lines: Sequence[str]) -> float:
    text = "\n".join(lines)
    if not _INPUT.search(text):
        return 0.0
    keys = documents.find_keys(text) - {"version"}
    return 0.8 if any(keys == {array, *element} for array, (element, _) in _INPUT_ARRAYS.items()) else 0.0


def _read_input(text: str, _path: str) -> Records:
    arrays = [(array,) for array in _INPUT_ARRAYS]
    return Records.from_rows(documents.read_elements(text, arrays, "topics or partitions", documents.get_array))


def _parse_input(array: str, raw: str) -> list[Fact]:
    keys, reason = _INPUT_ARRAYS[array]
    entry = parse_object(raw, "the entry")
    if entry.keys() != keys:
        raise unparsable(f"the entry has {quote(sorted(entry))}, expected {quote(sorted(keys))}")
    return ignore(reason)


def _detect_output(lines: Sequence[str]) -> float:
    return 0.4 if any(_MESSAGE.match(line) for line in lines) else 0.0


def _parse_output(_context: str | None, raw: str) -> list[Fact]:
    reason = classify_noise(raw)
    return ignore(TOOL_MESSAGE if reason == PROSE else reason)


REASSIGNMENT = Format(
    "reassignment",
    "reassignment JSON, alone or as kafka-reassign-partitions prints it",
    *(_detect_reassignment, documents.parse_elements(_parse_partition), _read_reassignment),
)
TOOL_INPUT = Format(
    "tool-input",
    "input of Kafka's tools: topics to move, or partitions to elect leaders of",
    *(_detect_input, documents.parse_elements(_parse_input), _read_input),
)
TOOL_OUTPUT = Format(
    "tool-output",
    "status lines of kafka-reassign-partitions --verify and kafka-leader-election",
    *(_detect_output, _parse_output),
)
