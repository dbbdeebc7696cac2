"""What brokers answer: `kafka-broker-api-versions`, and `kafka-cluster list-endpoints` of Kafka 4."""

import re

from pipelines.ingest.formats.checked_values import as_int, quote, read_columns, unparsable
from pipelines.ingest.formats.kafka_versions import combine, name_fields, read_api
from pipelines.ingest.source_format import Fact, FactKind, Format, Records, Signature, ignore, read_lines
from pipelines.ingest.text import MAX_LOOK, PROSE, classify_noise, find_marked
from udfs.failures.topic_defaults import UNKNOWN_RELEASE, ReleaseRange

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


def _is_answer(line: str) -> bool:
    line = line[:MAX_LOOK]
    return _BROKER.search(line) is not None or _VERSION.fullmatch(line) is not None


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


def _parse_answer(context: str | None, raw: str) -> list[Fact]:
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


API_VERSIONS = Format(
    "broker-api-versions",
    "kafka-broker-api-versions: brokers that answer, and their racks",
    *(Signature(line=find_marked(r"\(id: |\([0-9]+\): ", _is_answer)), _parse_answer, _read_records),
)


# `kafka-cluster list-endpoints` (Kafka 4): registered brokers, their racks, and whether they are fenced.
# Columns are those of ClusterTool in Kafka 4.1.
_START = r"[\s>|#`]*+"
_HEADER = re.compile(_START + r"ID\s++HOST\s++PORT\s++RACK\s++(?:STATE\s++)?ENDPOINT_TYPE[\s`]*+")
_ROW = re.compile(
    _START + r"(?P<broker_id>[0-9]++)\s++(?P<host>[^\s|]++)\s++(?P<port>[0-9]{1,5})\s++(?P<rack>\S.*?)\s++"
    r"(?:(?P<state>fenced|unfenced)\s++)?(?P<type>broker|controller)[\s`]*+"
)


def _parse_endpoint(_context: str | None, raw: str) -> list[Fact]:
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


ENDPOINTS = Format(
    "cluster-endpoints",
    "kafka-cluster list-endpoints: registered brokers and their racks",
    *(Signature(line=re.compile(f"{_HEADER.pattern}|{_ROW.pattern}").fullmatch), _parse_endpoint),
)
