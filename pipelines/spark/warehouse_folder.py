"""Check, measure and list a warehouse that is a folder of this machine, without Spark."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import parquet

from pipelines.errors import StoreError
from pipelines.tables import TABLES
from udfs.json_answers import json_key, json_object


@json_object
class TableListing:
    """A table of a warehouse; its location is a path, or a name in a catalog."""

    name: str = json_key("table")
    rows: int
    version: int
    comment: str
    location: str = json_key("place")


def check_folder(warehouse: str, writing: bool) -> None:
    """Check that a folder can hold tables, or create it if they will be written; raise StoreError if it cannot."""
    folder = Path(warehouse).resolve()
    remedy = "Choose another folder: --warehouse DIR"
    try:
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        if not existing.is_dir():
            raise StoreError(f"--warehouse {warehouse}: {existing} is a file, not a folder. {remedy}")
        if writing:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        elif existing == folder:
            next(folder.iterdir(), None)
    except OSError as error:
        action = "written to" if writing else "read"
        raise StoreError(f"--warehouse {warehouse}: {folder} cannot be {action}: {error.strerror}. {remedy}") from error


def is_smaller_than(warehouse: str, limit_bytes: int) -> bool:
    """Tell whether the tables of a folder have fewer bytes than a limit."""
    total = 0
    for file in Path(warehouse).rglob("*.parquet"):
        total += file.stat().st_size
        if total >= limit_bytes:
            return False
    return True


def list_tables_without_spark(warehouse: str) -> list[TableListing] | None:
    """List the tables of a folder as `Store.list_tables` does; None if a log needs Delta to be read."""
    listing = []
    for name, table in TABLES.items():
        folder = Path(warehouse).resolve() / name.replace(".", "/")
        version = last_version(folder)
        if version < 0:
            continue
        files = list_data_files(folder)
        rows = None if files is None else count_rows(files)
        if rows is None:
            return None
        listing.append(TableListing(name, rows, version, table.comment, str(folder)))
    return listing


_MAX_COMMITS = 30
_MAX_BYTES = 4_000_000


class DataFile(NamedTuple):
    """A Parquet file of a table: absolute path, values of the partition columns, rows (None = not recorded)."""

    path: str
    partition: dict[str, str | None]
    rows: int | None


def list_commits(folder: Path) -> list[Path]:
    """List the commit files of a table in order; empty if there is no such table."""
    return sorted(file for file in (folder / "_delta_log").glob("*.json") if file.stem.isdigit())


def last_version(folder: Path) -> int:
    """Return the number of a table's last commit; -1 if there is no such table."""
    commits = list_commits(folder)
    return int(commits[-1].stem) if commits else -1


def list_data_files(folder: Path) -> list[DataFile] | None:
    """List the files of a table's newest version; None if the log does not tell them all."""
    commits = list_commits(folder)
    is_complete = [int(file.stem) for file in commits] == list(range(len(commits)))
    if not commits or not is_complete or len(commits) > _MAX_COMMITS:
        return None
    if sum(file.stat().st_size for file in commits) > _MAX_BYTES:
        return None
    files: dict[str, DataFile] = {}
    for commit in commits:
        for action in _read_actions(commit):
            protocol, file = action.get("protocol"), action.get("add") or action.get("remove") or {}
            if protocol and (protocol.get("readerFeatures") or protocol["minReaderVersion"] > 1):
                return None
            if file.get("deletionVector"):
                return None
            if "remove" in action:
                files.pop(action["remove"]["path"], None)
            elif "add" in action:
                files[action["add"]["path"]] = _parse_file(folder, action["add"])
    return list(files.values())


def list_added_files(folder: Path) -> list[DataFile] | None:
    """List the files that a table's last commit added; None if it removed any, or there is no such table."""
    commits = list_commits(folder)
    actions = _read_actions(commits[-1]) if commits else []
    if not commits or any("remove" in action for action in actions):
        return None
    return [_parse_file(folder, action["add"]) for action in actions if "add" in action]


def count_rows(files: Sequence[DataFile]) -> int | None:
    """Count the rows of files; None if a commit does not record them."""
    counts = [file.rows for file in files if file.rows is not None]
    return sum(counts) if len(counts) == len(files) else None


def check_files(folder: Path, files: Sequence[DataFile]) -> None:
    """Check that the files of a table exist; raise StoreError if one does not."""
    missing = next((file.path for file in files if not Path(file.path).exists()), None)
    if missing is not None:
        problem = f"{missing} is missing: it is part of a table, and was removed without Delta"
        raise StoreError(f"{problem}. Remove the whole folder {folder}, and run again.")


def read_files(folder: Path, files: Sequence[DataFile], columns: Sequence[str]) -> pa.Table:
    """Read columns of all rows of some files of a table; raise StoreError if one is missing."""
    check_files(folder, files)
    parts = [pa.table({column: pa.array([], pa.string()) for column in columns})] if not files else []
    for file in files:
        stored = [column for column in columns if column not in file.partition]
        part = parquet.ParquetFile(file.path).read(stored)
        for column in set(columns) - set(stored):
            part = part.append_column(column, pa.repeat(pa.scalar(file.partition[column], pa.string()), part.num_rows))
        parts.append(part.select(columns))
    return pa.concat_tables(parts)


def _read_actions(commit: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]


def _parse_file(folder: Path, added: dict[str, Any]) -> DataFile:
    path = unquote(added["path"])
    rows = json.loads(added.get("stats") or "{}").get("numRecords")
    return DataFile(path if path.startswith("/") else f"{folder}/{path}", added["partitionValues"], rows)
