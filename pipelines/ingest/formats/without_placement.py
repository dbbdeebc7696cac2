"""Formats that say nothing about placement, and that people save beside the others: their records are ignored."""

import re
from collections.abc import Sequence

from pipelines.ingest.fact_tables import Fact, ignore
from pipelines.ingest.formats.checked_values import parse_object, quote, unparsable
from pipelines.ingest.formats.json_documents import TOPIC_TO_MOVE, find_keys, get_array, parse_elements, read_elements
from pipelines.ingest.formats.noise_lines import PROSE, TOOL_MESSAGE, classify_noise
from pipelines.ingest.source_format import Format, Records

# Array of a tool's input -> the keys of its elements, and what such an element is.
_INPUT_ARRAYS = {
    "topics": ({"topic"}, TOPIC_TO_MOVE),
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


def _detect_input(lines: Sequence[str]) -> float:
    text = "\n".join(lines)
    if not _INPUT.search(text):
        return 0.0
    keys = find_keys(text) - {"version"}
    return 0.8 if any(keys == {array, *element} for array, (element, _) in _INPUT_ARRAYS.items()) else 0.0


def _read_input(text: str, _path: str) -> Records:
    arrays = [(array,) for array in _INPUT_ARRAYS]
    return Records.from_rows(read_elements(text, arrays, "topics or partitions", get_array))


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


TOOL_INPUT = Format(
    name="tool-input",
    title="input of Kafka's tools: topics to move, or partitions to elect leaders of",
    detect=_detect_input,
    parse_record=parse_elements(_parse_input),
    read_records=_read_input,
)
TOOL_OUTPUT = Format(
    name="tool-output",
    title="status lines of kafka-reassign-partitions --verify and kafka-leader-election",
    detect=_detect_output,
    parse_record=_parse_output,
)
# Never detected: a file of a folder that has no other format is read as this.
UNRECOGNISED = Format(
    name="unrecognised",
    title="a file in no known format",
    detect=lambda _lines: 0.0,
    parse_record=lambda _context, _raw: ignore("unrecognised file"),
)
