"""Loads of topics on brokers, as `--metrics` writes them; Kafka's tools print nothing like it."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pipelines.ingest.formats.checked_values import INT64, as_int, as_number, as_partition, as_topic, quote, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Signature, ignore

_UNKNOWN = "-"
_LOAD = re.compile(r"load (\S++) on broker ([^\s:]++): (\S++) B/s in, (\S++) B/s out")
_APPENDED = re.compile(r"appended to (\S++) partition ([^\s:]++): (\S++) records")
_HEADER = re.compile(r"loads from (.+)")
_PROBLEM = re.compile(r"problem of the loads: (.+)")
_ANY = re.compile(r"load \S+ on broker |appended to \S+ partition |loads from |problem of the loads: ")


class TopicLoad(NamedTuple):
    """What a broker transfers of a topic, in bytes per second; None = unknown."""

    topic: str
    broker: int
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None


class AppendedRecords(NamedTuple):
    """How many records were appended to a partition."""

    topic: str
    partition: int
    records: int


def print_loads(
    header: str, loads: Iterable[TopicLoad], appended: Iterable[AppendedRecords], problems: Iterable[str]
) -> Iterator[str]:
    """Yield the lines of a file. header: where the loads are from; problems: sentences on what they lack."""
    yield f"loads from {header}"
    for text in problems:
        yield f"problem of the loads: {text}"
    for load in loads:
        rate_in, rate_out = map(_print_rate, (load.bytes_in_per_s, load.bytes_out_per_s))
        yield f"load {load.topic} on broker {load.broker}: {rate_in} B/s in, {rate_out} B/s out"
    for one in appended:
        yield f"appended to {one.topic} partition {one.partition}: {one.records} records"


def _print_rate(rate: float | None) -> str:
    return _UNKNOWN if rate is None else repr(float(rate))


def _read_rate(text: str, what: str) -> float | None:
    return None if text == _UNKNOWN else as_number(text, what)


def _is_line(line: str) -> bool:
    return _ANY.match(line) is not None


def _parse_line(_context: str | None, raw: str) -> list[Fact]:
    line = raw.strip()
    if not line:
        return ignore("blank line")
    if match := _LOAD.fullmatch(line):
        rates = {"bytes_in_per_s": _read_rate(match[3], "B/s in"), "bytes_out_per_s": _read_rate(match[4], "B/s out")}
        place = {"topic": as_topic(match[1], "topic"), "broker_id": as_int(match[2], "broker")}
        return [(FactKind.LOAD, {**place, **rates})]
    if match := _APPENDED.fullmatch(line):
        records = as_int(match[3], "records", 0, INT64)
        partition = as_partition(match[2], "partition")
        return [(FactKind.APPENDED, {"topic": as_topic(match[1], "topic"), "partition": partition, "records": records})]
    if match := _PROBLEM.fullmatch(line):
        return ignore("problem", f"metrics: {match[1]}")
    if _HEADER.fullmatch(line):
        return ignore("header")
    raise unparsable(f"{quote(line)} is no line of loads")


FORMAT = Format(
    "topic-loads", "loads of topics on brokers, as --metrics writes them", Signature(line=_is_line), _parse_line
)
