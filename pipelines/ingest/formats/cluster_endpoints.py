"""`kafka-cluster list-endpoints` (Kafka 4): registered brokers, their racks, and whether they are fenced.

Columns are those of ClusterTool in Kafka 4.1.
"""

import re

from pipelines.ingest.formats.checked_values import read_columns
from pipelines.ingest.source_format import Fact, FactKind, Format, Signature, ignore
from pipelines.ingest.text import classify_noise

_START = r"[\s>|#`]*+"
_HEADER = re.compile(_START + r"ID\s++HOST\s++PORT\s++RACK\s++(?:STATE\s++)?ENDPOINT_TYPE[\s`]*+")
_ROW = re.compile(
    _START + r"(?P<broker_id>[0-9]++)\s++(?P<host>[^\s|]++)\s++(?P<port>[0-9]{1,5})\s++(?P<rack>\S.*?)\s++"
    r"(?:(?P<state>fenced|unfenced)\s++)?(?P<type>broker|controller)[\s`]*+"
)


def _is_line(line: str) -> bool:
    return ("broker" in line or "controller" in line or "ENDPOINT_TYPE" in line) and (
        _HEADER.fullmatch(line) is not None or _ROW.fullmatch(line) is not None
    )


def _parse_record(_context: str | None, raw: str) -> list[Fact]:
    row = _ROW.fullmatch(raw)
    if row is None:
        return ignore("header" if _HEADER.fullmatch(raw) else classify_noise(raw))
    if row["type"] == "controller":
        return ignore("a controller")
    texts = {name: row[name] for name in ("broker_id", "host", "port", "rack") if row[name] != "null"}
    values = read_columns(texts, broker_id="ID", port="PORT") | {"registered": True}
    if row["state"] is not None:  # only Kafka 4.0 and later tell it
        values |= {"fenced": row["state"] == "fenced", "release_from": 400}
    return [(FactKind.BROKER, values)]


FORMAT = Format(
    "cluster-endpoints",
    "kafka-cluster list-endpoints: registered brokers and their racks",
    *(Signature(line=_is_line), _parse_record),
)
