"""The file of capacities: what each broker can bear, by load, and the bytes that its disks hold."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipelines.errors import SettingsError
from pipelines.quoted_values import quote_value
from udfs.failures.kernels.failure_totals import LOADS
from udfs.failures.required_headroom import RESOURCES

_MAX_BYTES = 100_000_000  # of a capacity file
_DISK = "disk_bytes"
_COLUMNS = ("cluster", "broker_id", *RESOURCES, _DISK)


class BrokerCapacity(NamedTuple):
    """The capacity of a broker."""

    loads: list[float]  # one per load; NaN = no limit
    disk_bytes: float  # NaN = unknown


# By cluster ("" = every cluster) and broker id.
Capacities = Mapping[tuple[str, int], BrokerCapacity]


def match_broker(capacities: Capacities, cluster: str, broker: int) -> BrokerCapacity | None:
    """Return the capacity of a broker: its row of this cluster, else that of every cluster."""
    return capacities.get((cluster, broker), capacities.get(("", broker)))


def read_capacities(file: str) -> Capacities:
    """Read the capacity file: CSV with commas, semicolons or tabs, # for comments; raise SettingsError if wrong."""
    if not file:
        return {}
    try:
        with Path(file).open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"capacity.file {file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"capacity.file {file}: byte {error.start} is not UTF-8. Save it as UTF-8") from error
    if len(data) > _MAX_BYTES:
        raise SettingsError(f"capacity.file {file}: has more than {_MAX_BYTES:,} bytes. Name a list of capacities")
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#"]
    number, header = lines[0] if lines else (1, "")
    delimiter = next((mark for mark in ",;\t" if mark in header), ",")
    names = [name.strip() for name in _split_cells(header, delimiter, f"capacity.file {file}, line {number}")]
    wrong = [name for i, name in enumerate(names) if name not in _COLUMNS or name in names[:i]]
    if "broker_id" not in names or wrong:
        problem = f"column {quote_value(wrong[0])} is unknown or repeated" if wrong else "there is no column broker_id"
        raise SettingsError(f"capacity.file {file}, line {number}: {problem}. Columns: {', '.join(_COLUMNS)}")
    capacities: dict[tuple[str, int], BrokerCapacity] = {}
    for number, line in lines[1:]:
        where = f"capacity.file {file}, line {number}"
        cells = _split_cells(line, delimiter, where)
        if len(cells) > len(names):
            raise SettingsError(f"{where}: {len(cells)} values for {len(names)} columns. Write 1500, not 1,500")
        key, values = _parse_row(dict(zip(names, cells, strict=False)), where)
        if key in capacities:
            raise SettingsError(f"{where}: broker {key[1]} is repeated. Keep one row")
        capacities[key] = values
    return capacities


def _split_cells(line: str, delimiter: str, where: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error as error:  # a cell of more than 128 KB
        raise SettingsError(f"{where}: {error}. Correct the line") from error


def _parse_row(row: Mapping[str, str], where: str) -> tuple[tuple[str, int], BrokerCapacity]:
    broker = row.get("broker_id", "").strip()
    if not (broker.isascii() and broker.isdigit() and len(broker) <= 10):
        raise SettingsError(f"{where}: broker_id is {quote_value(broker)}. Write a broker's id")
    loads = [float("nan")] * LOADS
    for name, load in RESOURCES.items():
        loads[load] = _parse_limit(row, name, where)
    capacity = BrokerCapacity(loads, _parse_limit(row, _DISK, where))
    return (row.get("cluster", "").strip(), int(broker)), capacity


def _parse_limit(row: Mapping[str, str], name: str, where: str) -> float:
    """Parse a limit; NaN without one."""
    text = row.get(name, "").strip()
    if not text:
        return float("nan")
    try:
        limit = float(text) if "_" not in text else -1.0  # Python would accept 1_000
    except ValueError:
        limit = -1.0
    if not (np.isfinite(limit) and limit >= 0):
        raise SettingsError(f"{where}: {name} is {quote_value(text)}. Write a number >= 0, or nothing for no limit")
    return limit
