"""A dump of ZooKeeper's znodes: one JSON object a line, with path and data."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from pipelines.ingest.formats.checked_values import Fact, as_object, as_text, ignored, loads, need, parse_each
from pipelines.ingest.formats.noise_lines import line_records, noise_reason
from pipelines.ingest.formats.znodes import znode_facts
from pipelines.ingest.records import Format, Records

_PATH = re.compile(r'\s*\{.*"path"\s*:\s*"/')


def _score(lines: Sequence[str]) -> float:
    return 0.95 if any(_PATH.match(line) for line in lines) else 0.0


def _frame(text: str, _path: str) -> Records:
    return line_records(text)


def _facts(_context: str | None, raw: str) -> list[Fact]:
    line = raw.strip()
    if line[:1] not in ("{", "[", '"', "}", "]") or noise_reason(line) == "ellipsis":
        return ignored(noise_reason(raw))
    if line in ("[", "]"):  # the lines may stand in a JSON array, with commas between
        return ignored("array bracket")
    znode = as_object(loads(line.rstrip(",")), "the line")
    path = as_text(need(znode, "path"), "path")
    return znode_facts(path, need(znode, "data"))


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format(
    name="zookeeper-json", title="ZooKeeper dump, JSON lines of path and data", score=_score, frame=_frame, parse=_parse
)
