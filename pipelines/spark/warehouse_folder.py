"""Check and measure a warehouse that is a folder of this machine, without Spark."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import StoreError
from pipelines.spark.delta_rs import is_plain
from pipelines.spark.table_files import has_unnamed_data
from pipelines.tables import TABLES


@dataclass(frozen=True)
class TableListing:
    """A table of a warehouse; its location is a path, or a name in a catalog."""

    name: str
    rows: int
    version: int
    comment: str
    location: str


def check_folder(warehouse: str, writing: bool) -> None:
    """Check that a folder can hold tables, or create it if they will be written; raise StoreError if it cannot."""
    folder = Path(warehouse).resolve()
    remedy = "Choose another folder: --warehouse DIR"
    check_place(warehouse)
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


def find_lost_rows(warehouse: str) -> Iterator[str]:
    """Say which tables of a folder are empty, although data was written for them."""
    for name in TABLES:
        folder = Path(warehouse).resolve() / name.replace(".", "/")
        try:
            is_lost = is_plain(str(folder)) and has_unnamed_data(folder)
        except StoreError:  # the log is damaged: who reads the table will tell
            continue
        if is_lost:
            reason = "a run was killed while it wrote them, or is writing them now, or commits of its log are lost"
            yield f"table {name} at {folder} has no rows, but files with rows: {reason}. To write them, repeat run"


def check_place(warehouse: str) -> None:
    """Check that Java can read the path or URL of a warehouse; raise StoreError if it cannot."""
    try:
        warehouse.encode("utf-8")
    except UnicodeEncodeError as error:
        problem = f"--warehouse {warehouse}: the name is not UTF-8, and Java cannot read it"
        raise StoreError(f"{problem}. Choose another folder: --warehouse DIR") from error


def is_smaller_than(warehouse: str, limit_bytes: int) -> bool:
    """Tell whether the tables of a folder have fewer bytes than a limit."""
    total = 0
    for file in Path(warehouse).rglob("*.parquet"):
        try:
            total += file.stat().st_size
        except OSError:  # removed in the meantime, or a link to nothing: who reads the table will tell
            continue
        if total >= limit_bytes:
            return False
    return True
