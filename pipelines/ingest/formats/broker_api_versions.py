"""`kafka-broker-api-versions`: brokers, their racks and whether they answered; their API versions are not used."""

import re

from pipelines.ingest.formats.checked_values import as_int, quote, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Signature, ignore
from pipelines.ingest.text import PROSE, classify_noise

# Kafka 4 adds isFenced. `-> (` is followed by versions, `-> ERROR: ` by why the broker did not answer.
_BROKER = re.compile(
    r"(?<![^\s>|\"'`*#])([^\s>|\"'`*#()]++) \(id: (-?[0-9]++) rack: ([^()\n]*+)\)\s*+-\s?(?:>|&gt;)\s*+(\(|ERROR\b|$)"
)
_EXCEPTION = re.compile(r"\b\w++(?<=Exception)")
_FENCED = re.compile(r"^(.*?)\s++isFenced: (true|false)$")
_VERSION = re.compile(
    r"[\s>|#]*+[A-Z]\w*+\([0-9]++\): (?:[0-9]++(?: to [0-9]++)?|UNSUPPORTED)(?: \[[^\]\n]*+\])?+,?\s*+"
)
_CLOSING = re.compile(r"[\s>|#`]*+\),?[\s`]*+")
_NEARLY = re.compile(r"\(id: -?[0-9]++(?: rack:|\s*+$)")
VERSION = "API version"


def _is_line(line: str) -> bool:
    line = line[:2000]
    return ("(id: " in line and _BROKER.search(line) is not None) or _VERSION.fullmatch(line) is not None


def _parse_record(_context: str | None, raw: str) -> list[Fact]:
    match = _BROKER.search(raw)
    if match is None:
        if _VERSION.fullmatch(raw) or _CLOSING.fullmatch(raw):
            return ignore(VERSION)
        reason = classify_noise(raw)
        if reason == PROSE and _NEARLY.search(raw):
            raise unparsable(f"{quote(raw.strip())} is no whole line as in host:9092 (id: 1 rack: a) -> (")
        return ignore(reason)
    host, colon, port = match[1].rpartition(":")
    broker_id = as_int(match[2], "id", -(2**31))
    if broker_id < 0:
        return ignore("bootstrap server, not a broker")
    if not colon:
        raise unparsable(f"{quote(match[1])} is not host:port")
    fenced = _FENCED.match(match[3])
    rack = (fenced[1] if fenced else match[3]).strip()
    values: dict[str, object] = {
        "broker_id": broker_id,
        "host": host or None,
        "port": as_int(port, "port", 0, 65535),
        "rack": None if rack in ("null", "") else rack,
        "registered": match[4] == "(" if match[4] else None,  # whether it answered; None: the line is cut off
        "fenced": None if fenced is None else fenced[2] == "true",
    }
    if values["registered"] is False:
        error = _EXCEPTION.search(raw, match.end())
        cause = f" ({error[0]})" if error else ""
        values["warning"] = (
            f"broker {broker_id} ({match[1]}) did not answer kafka-broker-api-versions{cause}: "
            "it may be down, or not reachable from there"
        )
    return [(FactKind.BROKER, values)]


FORMAT = Format(
    "broker-api-versions",
    "kafka-broker-api-versions: brokers that answer, and their racks",
    *(Signature(line=_is_line), _parse_record),
)
