"""Loads of topics and brokers, as `--metrics` writes them; Kafka's tools print nothing like it."""

import re
import shlex
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from pipelines.ingest.formats.checked_values import quote, read_columns, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Signature, ignore

_HEADER = re.compile(r"loads from (.+)")
_PROBLEM = re.compile(r"problem of the loads: (.+)")


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


Load = TopicLoad | Fact  # a fact of the kinds below
STATISTICS = tuple(f"bytes_{way}_{name}_per_s" for way in ("in", "out") for name in LoadStatistic)  # columns of FACTS
_REPLICA = {"topic", "partition", "broker_id"}
# Columns that name what a line is about, and columns of its values, by the kind of fact.
_PLACES: dict[str, list[set[str]]] = {
    FactKind.LOAD: [{"broker_id"}, {"topic", "broker_id"}, {"topic", "partition"}],
    FactKind.REPLICA_SIZE: [_REPLICA],
    FactKind.VOLUME: [{"log_dir", "broker_id"}],
    FactKind.APPENDED: [_REPLICA],
}
_VALUES: dict[str, set[str]] = {
    FactKind.LOAD: {"bytes_in_per_s", "bytes_out_per_s", *STATISTICS},
    FactKind.REPLICA_SIZE: {"size_bytes"},
    FactKind.VOLUME: {"total_bytes", "usable_bytes"},
    FactKind.APPENDED: {"records"},
}
_LINE = re.compile(rf"(?:{'|'.join(_PLACES)}) [a-z_]++=|loads from |problem of the loads: ")


def print_loads(header: str, loads: Iterable[Load], problems: Iterable[str], statistic: LoadStatistic) -> Iterator[str]:
    """Yield the lines of a file.

    header: where the loads are from; problems: sentences on what they lack; statistic: the one that counts.
    """
    yield f"loads from {header}"
    for text in problems:
        yield f"problem of the loads: {text}"
    values: dict[str, Any]
    for load in loads:
        if isinstance(load, TopicLoad):
            kind, values = FactKind.LOAD, {"topic": load.topic, "broker_id": load.broker}
            for way, rates in (("in", load.bytes_in), ("out", load.bytes_out)):
                values[f"bytes_{way}_per_s"] = rates.get(statistic)
                values |= {f"bytes_{way}_{name}_per_s": rates.get(name) for name in LoadStatistic}
        else:
            kind, values = load
        words = [f"{name}={_print_value(name, value)}" for name, value in values.items() if value is not None]
        yield " ".join([kind, *words])


def have_window(lines: Iterable[str]) -> bool:
    """Return whether some of these lines have rates within a window, as not those of CSV."""
    return any(f" {name}=" in line for line in lines for name in STATISTICS)


def _print_value(name: str, value: object) -> str:
    return repr(round(float(str(value)), 3)) if name.endswith("_per_s") else shlex.quote(str(value))


def _parse_line(_context: str | None, raw: str) -> list[Fact]:
    line = raw.strip()
    if not line:
        return ignore("blank line")
    if match := _PROBLEM.fullmatch(line):
        return ignore("problem", f"metrics: {match[1]}")
    if _HEADER.fullmatch(line):
        return ignore("header")
    try:
        kind, *words = shlex.split(line)
    except ValueError:  # a quote without end
        kind, words = line, []
    texts = dict(word.partition("=")[::2] for word in words)
    values = _VALUES.get(kind, set())
    if texts.keys() - values not in _PLACES.get(kind, []) or not texts.keys() & values:
        raise unparsable(f"{quote(line)} is no line of loads")
    labels = {name: "B/s" if name.endswith("_per_s") else name.replace("_", " ") for name in texts}
    return [(FactKind(kind), read_columns(texts, **labels | {"broker_id": "broker", "size_bytes": "bytes"}))]


FORMAT = Format(
    "topic-loads", "loads of topics on brokers, as --metrics writes them", Signature(_LINE.match), _parse_line
)
