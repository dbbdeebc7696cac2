"""A list of topics with partition counts, replication factors and loads: CSV or JSON."""

import re
from collections.abc import Sequence
from typing import Any

from pipelines.ingest.fact_tables import Fact, FactKind
from pipelines.ingest.formats.checked_values import INT64, as_int, as_number, as_text, quote, unparsable
from pipelines.ingest.formats.row_lists import ListColumns, detect_header, parse_rows, read_list
from pipelines.ingest.source_format import Format, Records

_COLUMNS = ListColumns(
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
_OTHER_FORMATS = re.compile(r'"(?:logDirs?|partition|replicas|brokers|size_mb|path)"\s*:|"type"\s*:\s*"\w+_RECORD"')


def _detect(lines: Sequence[str]) -> float:
    text = "\n".join(lines)
    if text.lstrip()[:1] in ("{", "["):
        return 0.65 if _ENTRY.search(text) and not _OTHER_FORMATS.search(text) else 0.0
    # The word "topic" alone on a line is no list.
    return detect_header(lines, _COLUMNS) if re.search(r"[,;\t]", text) else 0.0


def _read_records(text: str, path: str) -> Records:
    return read_list(text, path, _COLUMNS)


def _parse_topic(values: dict[str, Any]) -> Fact:
    for name in _COLUMNS.required:
        if values.get(name) is None:
            raise unparsable(f"{name} is missing")
    topic = as_text(values["topic"], "topic")
    size = _parse_load(values, "size_bytes")
    if size is not None and size > INT64:
        raise unparsable(f"size_bytes is {quote(values['size_bytes'])}, which is too large")
    return FactKind.TOPIC, {
        "topic": topic,
        "partition_count": as_int(values["partitions"], f"partitions of {quote(topic)}", 1),
        "replication_factor": as_int(values["replication_factor"], f"replication_factor of {quote(topic)}", 1, 32767),
        "bytes_in_per_s": _parse_load(values, "bytes_in_per_s"),
        "bytes_out_per_s": _parse_load(values, "bytes_out_per_s"),
        "size_bytes": None if size is None else round(size),
    }


def _parse_load(values: dict[str, Any], name: str) -> float | None:
    value = values.get(name)
    return None if value in (None, "") else as_number(value, name)


FORMAT = Format(
    name="topic-list",
    title="topic list with partition counts, replication factors and loads, CSV or JSON",
    detect=_detect,
    parse_record=parse_rows(_COLUMNS, _parse_topic),
    read_records=_read_records,
)
