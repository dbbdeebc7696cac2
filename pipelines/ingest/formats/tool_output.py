"""What Kafka's tools print about their work: no placement in it, and yet people keep it beside the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from pipelines.ingest.formats.checked_values import Fact, ignored, parse_each
from pipelines.ingest.formats.noise_lines import PROSE, TOOL_MESSAGE, line_records, noise_reason
from pipelines.ingest.records import Format, Records

_MESSAGE = re.compile(
    r"\s*(?:Status of partition reassignment|Reassignment of (?:partition|replica) |Clearing (?:broker|topic)-level"
    r"|(?:Successfully (?:completed|started)|Failed to (?:complete|elect)|Error completing) "
    r"|Valid replica already elected"
    r"|There is no active reassignment|Throttle was removed|The inter-broker throttle|Warning: You must run --verify"
    r"|\d+ replica\(s\) could not be elected|Created topic |Updating (?:default )?configs? |Completed updating config"
    r"|Successfully (?:cancelled|reassigned)|No partition reassignments found|Current partition reassignments:)",
    re.I,
)


def _score(lines: Sequence[str]) -> float:
    return 0.4 if any(_MESSAGE.match(line) for line in lines) else 0.0


def _frame(text: str, _path: str) -> Records:
    return line_records(text)


def _facts(_context: str | None, raw: str) -> list[Fact]:
    reason = noise_reason(raw)
    return ignored(TOOL_MESSAGE if reason == PROSE else reason)


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format(
    name="tool-output",
    title="status lines of kafka-reassign-partitions --verify and kafka-leader-election",
    score=_score,
    frame=_frame,
    parse=_parse,
)
