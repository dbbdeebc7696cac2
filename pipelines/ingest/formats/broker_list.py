"""A list of every broker of a cluster, with racks: CSV or JSON, hand-kept or exported."""

import re
from collections.abc import Sequence
from typing import Any

from pipelines.ingest.fact_tables import Fact, FactKind
from pipelines.ingest.formats.checked_values import as_int, as_text, unparsable
from pipelines.ingest.formats.row_lists import ListColumns, detect_header, parse_rows, read_list
from pipelines.ingest.source_format import Format, Records

_COLUMNS = ListColumns(
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
_OTHER_FORMATS = re.compile(
    r'"(?:logDirs?|partitions?|replicas|topics?|size_mb|in_kbps|removed)"\s*:|"type"\s*:\s*"\w+_RECORD"'
)


def _detect(lines: Sequence[str]) -> float:
    text = "\n".join(lines)
    if text.lstrip()[:1] in ("{", "["):
        return 0.7 if _ENTRY.search(text) and not _OTHER_FORMATS.search(text) else 0.0
    return detect_header(lines, _COLUMNS)


def _read_records(text: str, path: str) -> Records:
    return read_list(text, path, _COLUMNS)


def _parse_broker(values: dict[str, Any]) -> Fact:
    if values.get("broker_id") is None:
        raise unparsable("broker_id is missing")
    rack, host, port = (None if values.get(name) == "" else values.get(name) for name in ("rack", "host", "port"))
    if type(rack) is int:  # racks are often just numbered
        rack = str(rack)
    return FactKind.BROKER, {
        "broker_id": as_int(values["broker_id"], "broker_id"),
        "rack": None if rack is None else as_text(rack, "rack"),
        "host": None if host is None else as_text(host, "host"),
        "port": None if port is None else as_int(port, "port", 0, 65535),
        "listed": True,
    }


FORMAT = Format(
    name="broker-list",
    title="broker list with racks, CSV or JSON",
    detect=_detect,
    parse_record=parse_rows(_COLUMNS, _parse_broker),
    read_records=_read_records,
)
