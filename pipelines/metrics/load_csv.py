"""Loads from a CSV file, with the columns of silver.measured_loads, and of partitions."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from pipelines.errors import SourceError
from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.source_format import Fact, FactKind
from udfs.plurals import join_names

COLUMNS = ("topic", "broker_id", "partition", "bytes_in_per_s", "bytes_out_per_s", "size_bytes")
_MAX_NAMED = 5
_PLACES = "topic and broker_id, broker_id alone, or topic and partition"
_REMEDY = f"Write a header with some of {', '.join(COLUMNS)}, and a row per {_PLACES}"


def is_csv(text: str) -> bool:
    """Return whether a text begins with a CSV header, and so is neither text nor JSON of Prometheus."""
    names = {name.strip() for name in text.lstrip("\ufeff").partition("\n")[0].split(",")}
    return len(names) > 1 and bool(names & {"topic", "broker_id"})


def parse_csv(path: Path, text: str) -> Iterator[Fact]:
    """Yield the loads of a CSV file. Raises: SourceError with the line, the value and the remedy."""
    reader = csv.reader(io.StringIO(text.lstrip("\ufeff")))
    names = [name.strip() for name in next(reader)]
    if unknown := [name for name in names if name not in COLUMNS]:
        raise SourceError(f"{path}, line 1", f"there is no column {unknown[0]!r}", _REMEDY)
    if len(set(names)) < len(names) or not set(names) & set(COLUMNS[3:]):
        raise SourceError(f"{path}, line 1", "a column is there twice, or there are no loads", _REMEDY)
    seen = set[tuple[object, ...]]()
    for cells in reader:
        row = {name: cell.strip() for name, cell in zip(names, cells, strict=False)}
        if not any(row.values()):
            continue
        try:
            if len(cells) != len(names):
                raise check.unparsable(f"has {len(cells)} cells, but the header has {len(names)}")
            place = (*(row.get(name, "") for name in COLUMNS[:3]), bool(row.get("size_bytes")))
            if place in seen:
                raise check.unparsable("its topic, broker and partition are there twice")
            seen.add(place)
            yield from _parse_row(row)
        except check.BadValueError as error:
            raise SourceError(
                f"{path}, line {reader.line_num}", str(error).removeprefix("unparsable: "), _REMEDY
            ) from None


def _parse_row(row: dict[str, str]) -> Iterator[Fact]:
    values = check.read_columns({name: row.get(name) or None for name in COLUMNS})
    topic, broker, partition, rate_in, rate_out, size = (values[name] for name in COLUMNS)
    has_rates = rate_in is not None or rate_out is not None
    if size is not None:
        if topic is None or broker is None or partition is None:
            raise check.unparsable("size_bytes needs topic, partition and broker_id: it is the size of a replica")
        replica = {"topic": topic, "partition": partition, "broker_id": broker}
        yield FactKind.REPLICA_SIZE, {**replica, "size_bytes": size}
    if not has_rates:
        return
    if (topic is None and partition is not None) or (broker is None) == (partition is None):
        raise check.unparsable(f"bytes per second are of {_PLACES}")
    rates = {"bytes_in_per_s": rate_in, "bytes_out_per_s": rate_out}
    yield FactKind.LOAD, {"topic": topic, "broker_id": broker, "partition": partition, **rates}


def check_listed(loads: Sequence[Fact], brokers: Collection[int]) -> tuple[list[Fact], list[str]]:
    """Return the loads of brokers of the cluster, and sentences on what is odd. brokers: none = not known."""
    listed = {values["broker_id"] for kind, values in loads if kind == FactKind.LOAD} - {None}
    others = listed - {*brokers} if brokers else set()
    own = [(kind, values) for kind, values in loads if kind != FactKind.LOAD or values["broker_id"] not in others]
    problems = []
    if others:
        problems.append(
            f"rows of brokers that the cluster lacks are not used: {join_names(sorted(map(str, others)), 5)}"
        )
    if listed - others and (silent := sorted({*brokers} - listed)):
        problems.append(f"no rows of brokers {join_names(silent, _MAX_NAMED)}")
    return own, problems
