"""`kafka-broker-api-versions`: brokers, their racks, whether they answered, and whether they run Kafka 3.7 or later."""

import re

from pipelines.ingest.formats.checked_values import as_int, quote, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Records, Signature, ignore, read_lines
from pipelines.ingest.text import MAX_LOOK, PROSE, classify_noise

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
_PRODUCE = re.compile(r"[\s>|#]*+Produce\(0\): [0-9]++ to ([0-9]++)")
_FIRST_CAPPING_PRODUCE = 10  # Kafka 3.7; 3.6 has up to 9
VERSION = "API version"


def _is_line(line: str) -> bool:
    line = line[:MAX_LOOK]
    return ("(id: " in line and _BROKER.search(line) is not None) or _VERSION.fullmatch(line) is not None


def _read_records(text: str, path: str) -> Records:
    """Return one record per line; the context of versions of Produce is the id of their broker."""
    records = read_lines(text, path)
    contexts: list[str | None] = []
    broker = None
    for line in records.raw:
        match = _BROKER.search(line)
        if match is not None or _NEARLY.search(line):
            broker = match[2] if match is not None else None
        contexts.append(broker if match is None and _PRODUCE.match(line) else None)
    return Records(records.record_number, records.line_number, contexts, records.raw)


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    match = _BROKER.search(raw)
    if match is None:
        produce = _PRODUCE.match(raw) if context is not None and _VERSION.fullmatch(raw) else None
        if context is not None and produce is not None and not context.startswith("-"):
            caps = as_int(produce[1], "version") >= _FIRST_CAPPING_PRODUCE
            return [(FactKind.BROKER, {"broker_id": as_int(context, "id"), "caps_min_isr": caps})]
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
    *(Signature(line=_is_line), _parse_record, _read_records),
)
