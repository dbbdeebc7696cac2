"""The file of capacities of brokers and their disks: capacity.file."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.config.setting_types import read_settings_file
from pipelines.errors import SettingsError
from udfs.failures.failure_rows import LOAD_QUANTITIES
from udfs.failures.kernels.failure_totals import LOADS
from udfs.wording import quote_value

if TYPE_CHECKING:
    from pipelines.ingest.snapshot_reader import Snapshot

_MAX_BYTES = 100_000_000
_DISK, _LOG_DIR = "disk_bytes", "log_dir"
_COLUMNS = ("cluster", "broker_id", *LOAD_QUANTITIES, _DISK, _LOG_DIR)


# Limits of loads (NaN = none), one per load, by cluster ("" = every cluster) and broker id.
Capacities = Mapping[tuple[str, int], list[float]]


class CapacityRow(NamedTuple):
    """One row: capacities of a broker, or the bytes of one of its log dirs."""

    key: tuple[str, int]  # cluster ("" = every cluster), broker id
    log_dir: str  # "" = the broker as a whole
    loads: list[float]  # one per load; NaN = no limit
    disk_bytes: float  # NaN = unknown


def match_broker(capacities: Capacities, cluster: str, broker: int) -> list[float] | None:
    """Return the limits of a broker's loads: those of its row for this cluster, else for every cluster."""
    return capacities.get((cluster, broker), capacities.get(("", broker)))


def read_capacities(file: str) -> Capacities:
    """Read the limits of brokers' loads. Raises: SettingsError if the file is wrong."""
    return {row.key: row.loads for row in read_capacity_rows(file) if not row.log_dir}


def match_disks(capacities: Mapping[tuple[str, int, str], float], cluster: str) -> dict[tuple[int, str], float]:
    """Return the bytes of disks of a cluster by broker and log dir; its rows replace those for every cluster."""
    return {place[1:]: limit for name in ("", cluster) for place, limit in capacities.items() if place[0] == name}


def read_disk_capacities(file: str) -> dict[tuple[str, int, str], float]:
    """Read the bytes of disks by cluster ("" = every cluster), broker and log dir ("" = all of the broker)."""
    rows = read_capacity_rows(file)
    return {(*row.key, row.log_dir): row.disk_bytes for row in rows if not np.isnan(row.disk_bytes)}


def add_disk_capacities(snapshot: Snapshot, file: str) -> Snapshot:
    """Return a snapshot with the bytes of disks that the file has: as disk_capacities, and for its log dirs.

    Those of a broker are those of its log dir, if it has only one. Usable bytes of its volume are then unknown: the
    volume less what its logs use. Raises: SettingsError if the file is wrong.
    """
    disks = match_disks(read_disk_capacities(file), snapshot.cluster_id)
    rows = snapshot.log_dirs.to_pylist()
    counts = Counter(row["broker_id"] for row in rows)
    for row in rows:
        broker = row["broker_id"]
        total = disks.get((broker, row["log_dir"]), disks.get((broker, "")) if counts[broker] == 1 else None)
        if total is not None:
            row |= {"total_bytes": round(total), "usable_bytes": None}
    log_dirs = pa.Table.from_pylist(rows, snapshot.log_dirs.schema)
    return replace(snapshot, log_dirs=log_dirs, disk_capacities=disks)


def read_capacity_rows(file: str) -> list[CapacityRow]:
    """Read the file: CSV with commas, semicolons or tabs, # for comments. Raises: SettingsError if it is wrong."""
    if not file:
        return []
    place = f"capacity.file {file}"
    text = read_settings_file(file, "capacity.file", _MAX_BYTES, "utf-8-sig")
    lines = {i: line for i, line in enumerate(text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#"}
    header = next(iter(lines.values()), "")
    delimiter = next((mark for mark in ",;\t" if mark in header), ",")
    try:
        table = [(f"{place}, line {i}", next(csv.reader([line], delimiter=delimiter))) for i, line in lines.items()]
    except csv.Error as error:  # a cell of more than 128 KB
        raise SettingsError(f"{place}: {error}. Correct the line") from error
    where, cells = table[0] if table else (f"{place}, line 1", [])
    names = [name.strip() for name in cells]
    wrong = [name for i, name in enumerate(names) if name not in _COLUMNS or name in names[:i]]
    if "broker_id" not in names or wrong:
        problem = f"column {quote_value(wrong[0])} is unknown or repeated" if wrong else "there is no column broker_id"
        raise SettingsError(f"{where}: {problem}. Columns: {', '.join(_COLUMNS)}")
    rows: dict[tuple[tuple[str, int], str], CapacityRow] = {}
    for where, cells in table[1:]:
        if len(cells) > len(names):
            raise SettingsError(f"{where}: {len(cells)} values for {len(names)} columns. Write 1500, not 1,500")
        row = _parse_row(dict(zip(names, cells, strict=False)), where)
        if (row.key, row.log_dir) in rows:
            which = f"log dir {row.log_dir} of " if row.log_dir else ""
            raise SettingsError(f"{where}: {which}broker {row.key[1]} is repeated. Keep one row")
        rows[row.key, row.log_dir] = row
    return list(rows.values())


def _parse_row(row: Mapping[str, str], where: str) -> CapacityRow:
    broker = row.get("broker_id", "").strip()
    if not (broker.isascii() and broker.isdigit() and len(broker) <= 10):
        raise SettingsError(f"{where}: broker_id is {quote_value(broker)}. Write a broker's id")
    loads = [float("nan")] * LOADS
    for name, load in LOAD_QUANTITIES.items():
        loads[load] = _parse_number(row, name, where)
    log_dir = row.get(_LOG_DIR, "").strip()
    if log_dir and not np.isnan(loads).all():
        raise SettingsError(f"{where}: a log dir has only {_DISK}. Write other capacities in a row of the broker")
    key = (row.get("cluster", "").strip(), int(broker))
    return CapacityRow(key, log_dir, loads, _parse_number(row, _DISK, where))


def _parse_number(row: Mapping[str, str], name: str, where: str) -> float:
    """Parse a cell; NaN if it is empty."""
    text = row.get(name, "").strip()
    if not text:
        return float("nan")
    try:
        value = float(text) if "_" not in text else -1.0  # Python would accept 1_000
    except ValueError:
        value = -1.0
    if not (np.isfinite(value) and value >= 0):
        raise SettingsError(f"{where}: {name} is {quote_value(text)}. Write a number >= 0, or nothing for no limit")
    return value
