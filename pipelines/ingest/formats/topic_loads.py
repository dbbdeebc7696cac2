"""Loads of topics and brokers, as `--metrics` writes them; Kafka's tools print nothing like it."""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from pipelines.ingest.formats.checked_values import INT64, as_int, as_number, as_partition, as_topic, quote, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Signature, ignore

_UNKNOWN = "-"
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


STATISTICS = tuple(f"bytes_{way}_{name}_per_s" for way in ("in", "out") for name in LoadStatistic)  # columns of FACTS
_RATES = "in {bytes_in_per_s} B/s, out {bytes_out_per_s} B/s"
_WINDOW = " (in mean {{{}}}, p95 {{{}}}, peak {{{}}}; out mean {{{}}}, p95 {{{}}}, peak {{{}}})".format(*STATISTICS)
_REPLICA = "topic {topic} partition {partition} on broker {broker_id}"
# The lines of loads, with the columns of the fact that each is.
_LINES = (
    (FactKind.LOAD, f"load of all topics on broker {{broker_id}}: {_RATES}"),
    (FactKind.LOAD, f"load of all topics on broker {{broker_id}}: {_RATES}{_WINDOW}"),
    (FactKind.LOAD, f"load of topic {{topic}} on broker {{broker_id}}: {_RATES}"),
    (FactKind.LOAD, f"load of topic {{topic}} on broker {{broker_id}}: {_RATES}{_WINDOW}"),
    (FactKind.LOAD, f"load of topic {{topic}} partition {{partition}}: {_RATES}"),
    (FactKind.REPLICA_SIZE, f"size of {_REPLICA}: {{size_bytes}} bytes"),
    (FactKind.VOLUME, "volume {log_dir} on broker {broker_id}: total {total_bytes} bytes, usable {usable_bytes} bytes"),
    (FactKind.APPENDED, f"appended to {_REPLICA}: {{records}} records"),
)
_WORD, _NUMBER = r"\S++", r"[^\s:]++"
_COLUMN = re.compile(r"\\\{([a-z0-9_]+)\\\}")  # in an escaped line
_VALUES = {
    **{"log_dir": r"\S.*?", "broker_id": _NUMBER, "partition": _NUMBER},
    **dict.fromkeys(STATISTICS, r"[^\s,;)]++"),
}


def _to_pattern(line: str) -> re.Pattern[str]:
    return re.compile(_COLUMN.sub(lambda match: f"(?P<{match[1]}>{_VALUES.get(match[1], _WORD)})", re.escape(line)))


_PATTERNS = tuple((kind, _to_pattern(line)) for kind, line in _LINES)
_TEMPLATES = {frozenset(pattern.groupindex): line for (_, pattern), (_, line) in zip(_PATTERNS, _LINES, strict=True)}
_PLACES = ("topic", "broker_id", "partition")  # a load lacks some of them
_COLUMNS = {"broker": "broker_id", "path": "log_dir"}  # names of fields that are not those of columns


def print_loads(header: str, loads: Iterable[Load], problems: Iterable[str], statistic: LoadStatistic) -> Iterator[str]:
    """Yield the lines of a file.

    header: where the loads are from; problems: sentences on what they lack; statistic: the one that counts.
    """
    yield f"loads from {header}"
    for text in problems:
        yield f"problem of the loads: {text}"
    for load in loads:
        values = {_COLUMNS.get(name, name): value for name, value in load._asdict().items()}
        if isinstance(load, TopicLoad):
            for way, rates in (("in", values.pop("bytes_in")), ("out", values.pop("bytes_out"))):
                values[f"bytes_{way}_per_s"] = rates.get(statistic)
                values |= {f"bytes_{way}_{name}_per_s": rates.get(name) for name in LoadStatistic}
        known = {name: value for name, value in values.items() if value is not None or name not in _PLACES}
        texts = {name: _print_value(name, value) for name, value in known.items()}
        yield _TEMPLATES[frozenset(texts)].format(**texts)


def have_window(lines: Iterable[str]) -> bool:
    """Return whether some of these lines have rates within a window, as not those of CSV."""
    matches = (pattern.fullmatch(line) for line in lines for _, pattern in _PATTERNS)
    return any(match is not None and STATISTICS[0] in match.groupdict() for match in matches)


def _print_value(name: str, value: object) -> str:
    if value is None:
        return _UNKNOWN
    return repr(round(float(str(value)), 3)) if name.endswith("_per_s") else str(value)


def _read_value(name: str, text: str) -> object:
    """Return the value of a column."""
    match name:
        case "topic":
            return as_topic(text, "topic")
        case "partition":
            return as_partition(text, "partition")
        case "broker_id":
            return as_int(text, "broker")
        case "log_dir":
            return text
    if text == _UNKNOWN and name not in ("size_bytes", "total_bytes", "records"):
        return None
    if name.endswith("_per_s"):
        return as_number(text, "B/s")
    return as_int(text, "bytes" if name == "size_bytes" else name.replace("_", " "), 0, INT64)


def _is_line(line: str) -> bool:
    return _ANY.match(line) is not None


def _parse_line(_context: str | None, raw: str) -> list[Fact]:
    line = raw.strip()
    if not line:
        return ignore("blank line")
    for kind, pattern in _PATTERNS:
        if match := pattern.fullmatch(line):
            return [(kind, {name: _read_value(name, text) for name, text in match.groupdict().items()})]
    if match := _PROBLEM.fullmatch(line):
        return ignore("problem", f"metrics: {match[1]}")
    if _HEADER.fullmatch(line):
        return ignore("header")
    raise unparsable(f"{quote(line)} is no line of loads")


FORMAT = Format(
    "topic-loads", "loads of topics on brokers, as --metrics writes them", Signature(line=_is_line), _parse_line
)
