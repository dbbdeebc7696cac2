"""Loads of topics and brokers, as `--metrics` writes them; Kafka's tools print nothing like it."""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from pipelines.ingest.formats.checked_values import INT64, as_int, as_number, as_partition, as_topic, quote, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Signature, ignore

_UNKNOWN = "-"
_RATES = r"in (\S++) B/s, out (\S++) B/s"
_STATISTICS = r"mean ([^\s,]++), p95 ([^\s,]++), peak ([^\s;)]++)"
_LOAD = re.compile(
    rf"load of (?:all topics|topic (\S++)) on broker ([^\s:]++): {_RATES}(?: \(in {_STATISTICS}; out {_STATISTICS}\))?"
)
_PARTITION_LOAD = re.compile(rf"load of topic (\S++) partition ([^\s:]++): {_RATES}")
_SIZE = re.compile(r"size of topic (\S++) partition (\S++) on broker ([^\s:]++): (\S++) bytes")
_VOLUME = re.compile(r"volume (\S.*?) on broker ([^\s:]++): total (\S++) bytes, usable (\S++) bytes")
_APPENDED = re.compile(r"appended to topic (\S++) partition (\S++) on broker ([^\s:]++): (\S++) records")
_HEADER = re.compile(r"loads from (.+)")
_PROBLEM = re.compile(r"problem of the loads: (.+)")
_ANY = re.compile(
    r"load of (?:all topics on broker |topic \S+ (?:on broker|partition) )|size of topic \S+ partition |"
    r"appended to topic \S+ partition |volume \S.* on broker \S+ total |loads from |problem of the loads: "
)


class LoadStatistic(StrEnum):
    """Which of the rates within a window counts."""

    MEAN = "mean"
    P95 = "p95"
    PEAK = "peak"


class WindowRates(NamedTuple):
    """What the rates within a window are, in bytes per second; None = unknown."""

    mean: float | None
    p95: float | None
    peak: float | None

    def get(self, statistic: LoadStatistic) -> float | None:
        """Return the rate that counts."""
        rate: float | None = getattr(self, statistic)
        return rate


NO_RATES = WindowRates(None, None, None)


class TopicLoad(NamedTuple):
    """What a broker transfers of a topic, or of all topics (None)."""

    topic: str | None
    broker: int
    bytes_in: WindowRates
    bytes_out: WindowRates


class PlainLoad(NamedTuple):
    """What a broker transfers of a topic, or of all (None), or what is transferred of a partition; None = unknown."""

    topic: str | None
    broker: int | None
    partition: int | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None


class MeasuredSize(NamedTuple):
    """The bytes of a replica."""

    topic: str
    partition: int
    broker: int
    size_bytes: int


class MeasuredVolume(NamedTuple):
    """The bytes of a volume of a broker, by where it is mounted; None = unknown."""

    path: str
    broker: int
    total_bytes: int
    usable_bytes: int | None


class AppendedRecords(NamedTuple):
    """How many records were appended to a replica."""

    topic: str
    partition: int
    broker: int
    records: int


Load = TopicLoad | PlainLoad | MeasuredSize | MeasuredVolume | AppendedRecords


def print_loads(header: str, loads: Iterable[Load], problems: Iterable[str], statistic: LoadStatistic) -> Iterator[str]:
    """Yield the lines of a file.

    header: where the loads are from; problems: sentences on what they lack; statistic: the one that counts.
    """
    yield f"loads from {header}"
    for text in problems:
        yield f"problem of the loads: {text}"
    for one in loads:
        match one:
            case TopicLoad():
                rates = _print_rates(one.bytes_in.get(statistic), one.bytes_out.get(statistic))
                within = f"in {_print_window(one.bytes_in)}; out {_print_window(one.bytes_out)}"
                yield f"load of {_name_topic(one.topic)} on broker {one.broker}: {rates} ({within})"
            case PlainLoad():
                place = f"on broker {one.broker}" if one.partition is None else f"partition {one.partition}"
                rates = _print_rates(one.bytes_in_per_s, one.bytes_out_per_s)
                yield f"load of {_name_topic(one.topic)} {place}: {rates}"
            case MeasuredSize():
                place = f"topic {one.topic} partition {one.partition} on broker {one.broker}"
                yield f"size of {place}: {one.size_bytes} bytes"
            case MeasuredVolume():
                usable = _UNKNOWN if one.usable_bytes is None else one.usable_bytes
                yield f"volume {one.path} on broker {one.broker}: total {one.total_bytes} bytes, usable {usable} bytes"
            case AppendedRecords():
                place = f"topic {one.topic} partition {one.partition} on broker {one.broker}"
                yield f"appended to {place}: {one.records} records"


def have_window(lines: Iterable[str]) -> bool:
    """Return whether some of these lines have rates within a window, as not those of CSV."""
    return any((match := _LOAD.fullmatch(line)) is not None and match[5] is not None for line in lines)


def _name_topic(topic: str | None) -> str:
    return "all topics" if topic is None else f"topic {topic}"


def _print_rates(rate_in: float | None, rate_out: float | None) -> str:
    return f"in {_print_rate(rate_in)} B/s, out {_print_rate(rate_out)} B/s"


def _print_window(rates: WindowRates) -> str:
    return ", ".join(f"{name} {_print_rate(rate)}" for name, rate in zip(LoadStatistic, rates, strict=True))


def _print_rate(rate: float | None) -> str:
    return _UNKNOWN if rate is None else repr(round(float(rate), 3))


def _read_rate(text: str | None, what: str) -> float | None:
    return None if text in (None, _UNKNOWN) else as_number(text, what)


def _is_line(line: str) -> bool:
    return _ANY.match(line) is not None


def _parse_line(_context: str | None, raw: str) -> list[Fact]:
    line = raw.strip()
    if not line:
        return ignore("blank line")
    if match := _LOAD.fullmatch(line):
        topic = None if match[1] is None else as_topic(match[1], "topic")
        return [(FactKind.LOAD, {"topic": topic, "broker_id": as_int(match[2], "broker"), **_parse_rates(match, 3)})]
    if match := _PARTITION_LOAD.fullmatch(line):
        return [(FactKind.LOAD, {**_parse_place(match), **_parse_rates(match, 3)})]
    if match := _SIZE.fullmatch(line):
        place = {**_parse_place(match), "broker_id": as_int(match[3], "broker")}
        return [(FactKind.REPLICA_SIZE, {**place, "size_bytes": as_int(match[4], "bytes", 0, INT64)})]
    if match := _VOLUME.fullmatch(line):
        total = as_int(match[3], "total bytes", 0, INT64)
        usable = None if match[4] == _UNKNOWN else as_int(match[4], "usable bytes", 0, INT64)
        place = {"broker_id": as_int(match[2], "broker"), "log_dir": match[1]}
        return [(FactKind.VOLUME, {**place, "total_bytes": total, "usable_bytes": usable})]
    if match := _APPENDED.fullmatch(line):
        place = {**_parse_place(match), "broker_id": as_int(match[3], "broker")}
        return [(FactKind.APPENDED, {**place, "records": as_int(match[4], "records", 0, INT64)})]
    if match := _PROBLEM.fullmatch(line):
        return ignore("problem", f"metrics: {match[1]}")
    if _HEADER.fullmatch(line):
        return ignore("header")
    raise unparsable(f"{quote(line)} is no line of loads")


def _parse_place(match: re.Match[str]) -> dict[str, Any]:
    return {"topic": as_topic(match[1], "topic"), "partition": as_partition(match[2], "partition")}


def _parse_rates(match: re.Match[str], first: int) -> dict[str, Any]:
    """Parse the two rates that count, and then those of the statistics, where the line has them."""
    rates = dict(zip(("bytes_in_per_s", "bytes_out_per_s"), match.groups()[first - 1 :], strict=False))
    statistics = dict(zip(STATISTICS, match.groups()[first + 1 :], strict=False))
    return {name: _read_rate(text, "B/s") for name, text in {**rates, **statistics}.items()}


STATISTICS = tuple(f"bytes_{way}_{name}_per_s" for way in ("in", "out") for name in LoadStatistic)  # columns of FACTS

FORMAT = Format(
    "topic-loads", "loads of topics on brokers, as --metrics writes them", Signature(line=_is_line), _parse_line
)
