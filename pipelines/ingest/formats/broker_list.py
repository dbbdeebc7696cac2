"""A list of every broker of a cluster, with racks: CSV or JSON, kept by hand or exported."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pipelines.ingest.formats.checked_values import Fact, as_int, as_text, parse_each, unparsable
from pipelines.ingest.formats.row_lists import Columns, frame, header_score, row_facts
from pipelines.ingest.records import BROKER, Format, Records

_COLUMNS = Columns(
    names={
        "broker_id": ("broker_id", "id", "broker", "node_id"),
        "rack": ("rack", "broker_rack"),
        "host": ("host",),
        "port": ("port",),
    },
    required=("broker_id",),
    array="brokers",
)
_ENTRY = re.compile(r'\{[^{}]*"(?:broker_?id|id|broker|node_?id)"\s*:', re.I)
_OTHERS = re.compile(
    r'"(?:logDirs?|partitions?|replicas|topics?|size_mb|in_kbps|removed)"\s*:|"type"\s*:\s*"\w+_RECORD"'
)


def _score(lines: Sequence[str]) -> float:
    text = "\n".join(lines)
    if text.lstrip()[:1] in ("{", "["):
        return 0.7 if _ENTRY.search(text) and not _OTHERS.search(text) else 0.0
    return header_score(lines, _COLUMNS)


def _frame(text: str, path: str) -> Records:
    return frame(text, path, _COLUMNS)


def _fact(values: dict[str, Any]) -> Fact:
    if values.get("broker_id") is None:
        raise unparsable("broker_id is missing")
    rack, host, port = values.get("rack"), values.get("host"), values.get("port")
    if type(rack) is int:  # racks are often just numbered
        rack = str(rack)
    return BROKER, {
        "broker_id": as_int(values["broker_id"], "broker_id"),
        "rack": None if rack in (None, "") else as_text(rack, "rack"),
        "host": None if host in (None, "") else as_text(host, "host"),
        "port": None if port in (None, "") else as_int(port, "port", 0, 65535),
        "listed": True,
    }


def _facts(context: str | None, raw: str) -> list[Fact]:
    return row_facts(context, raw, _COLUMNS, _fact)


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format(
    name="broker-list", title="broker list with racks, CSV or JSON", score=_score, frame=_frame, parse=_parse
)
