"""`kafka-broker-api-versions`: brokers, their racks, whether they answered, and which releases they may run."""

import re

from pipelines.ingest.formats.checked_values import as_int, quote, unparsable
from pipelines.ingest.formats.kafka_versions import combine, name_fields, read_api
from pipelines.ingest.source_format import Fact, FactKind, Format, Records, Signature, ignore, read_lines
from pipelines.ingest.text import MAX_LOOK, PROSE, classify_noise
from udfs.failures.kafka_releases import UNKNOWN_RELEASE, ReleaseRange

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
_API = re.compile(r"[\s>|#]*+[A-Z]\w*+\(([0-9]++)\): [0-9]++ to ([0-9]++)")
VERSION = "API version"


def _is_line(line: str) -> bool:
    line = line[:MAX_LOOK]
    return ("(id: " in line and _BROKER.search(line) is not None) or _VERSION.fullmatch(line) is not None


def _read_records(text: str, path: str) -> Records:
    """Return one record per line; of a broker, the last one that shows its release has all lines' as context."""
    records = read_lines(text, path)
    contexts: list[str | None] = [None] * len(records.raw)
    last: dict[str, tuple[int, ReleaseRange]] = {}  # by broker
    broker = None
    for index, line in enumerate(records.raw):
        match = _BROKER.search(line)
        if match is not None or _NEARLY.search(line):
            broker = match[2] if match is not None else None
        elif broker is not None and (api := _API.match(line)) and len(api[1]) < 4 and len(api[2]) < 4:
            releases = read_api(int(api[1]), int(api[2]))
            if releases != UNKNOWN_RELEASE:
                last[broker] = index, combine(releases, last.get(broker, (0, UNKNOWN_RELEASE))[1])
    for broker, (index, releases) in last.items():
        contexts[index] = " ".join(map(str, (broker, releases.first or 0, releases.before or 0)))
    return Records(records.record_number, records.line_number, contexts, records.raw)


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    match = _BROKER.search(raw)
    if match is None:
        if context is not None and _VERSION.fullmatch(raw) and not context.startswith("-"):
            broker, first, before = context.split()
            releases = ReleaseRange(int(first) or None, int(before) or None)
            return [(FactKind.BROKER, {"broker_id": as_int(broker, "id"), **name_fields(releases)})]
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
