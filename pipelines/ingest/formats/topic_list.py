"""A list of topics with partition counts, replication factors and loads: CSV or JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pipelines.ingest.formats.checked_values import (
    INT64,
    Fact,
    as_int,
    as_number,
    as_text,
    parse_each,
    shown,
    unparsable,
)
from pipelines.ingest.formats.row_lists import Columns, frame, header_score, row_facts
from pipelines.ingest.records import TOPIC, Format, Records

_COLUMNS = Columns(
    names={
        "topic": ("topic", "name", "topic_name"),
        "partitions": ("partitions", "partition_count", "num_partitions"),
        "replication_factor": ("replication_factor", "rf", "replicationfactor"),
        "bytes_in_per_s": ("bytes_in_per_s",),
        "bytes_out_per_s": ("bytes_out_per_s",),
        "size_bytes": ("size_bytes",),
    },
    required=("topic", "partitions", "replication_factor"),
    array="topics",
)
_ENTRY = re.compile(r'\{[^{}]*"(?:topic|name|topic_?name)"\s*:', re.I)
_OTHERS = re.compile(r'"(?:logDirs?|partition|replicas|brokers|size_mb|path)"\s*:|"type"\s*:\s*"\w+_RECORD"')


def _score(lines: Sequence[str]) -> float:
    text = "\n".join(lines)
    if text.lstrip()[:1] in ("{", "["):
        return 0.65 if _ENTRY.search(text) and not _OTHERS.search(text) else 0.0
    # The word "topic" alone on a line is no list.
    return header_score(lines, _COLUMNS) if re.search(r"[,;\t]", text) else 0.0


def _frame(text: str, path: str) -> Records:
    return frame(text, path, _COLUMNS)


def _fact(values: dict[str, Any]) -> Fact:
    for name in _COLUMNS.required:
        if values.get(name) is None:
            raise unparsable(f"{name} is missing")
    topic = as_text(values["topic"], "topic")
    size = _number(values, "size_bytes")
    if size is not None and size > INT64:
        raise unparsable(f"size_bytes is {shown(values['size_bytes'])}, which is too large")
    return TOPIC, {
        "topic": topic,
        "partition_count": as_int(values["partitions"], f"partitions of {shown(topic)}", 1),
        "replication_factor": as_int(values["replication_factor"], f"replication_factor of {shown(topic)}", 1, 32767),
        "bytes_in_per_s": _number(values, "bytes_in_per_s"),
        "bytes_out_per_s": _number(values, "bytes_out_per_s"),
        "size_bytes": None if size is None else round(size),
    }


def _number(values: dict[str, Any], name: str) -> float | None:
    value = values.get(name)
    return None if value in (None, "") else as_number(value, name)


def _facts(context: str | None, raw: str) -> list[Fact]:
    return row_facts(context, raw, _COLUMNS, _fact)


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format(
    name="topic-list",
    title="topic list with partition counts, replication factors and loads, CSV or JSON",
    score=_score,
    frame=_frame,
    parse=_parse,
)
