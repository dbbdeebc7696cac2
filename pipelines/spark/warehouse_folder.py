"""Check, measure and list a warehouse that is a folder of this machine, without Spark."""

import tempfile
from pathlib import Path

from pipelines.errors import StoreError
from pipelines.spark.delta_log import count_rows, last_version, list_data_files
from pipelines.tables import TABLES
from udfs.json_output import json_key, json_object


@json_object
class TableListing:
    """A table of a warehouse; its location is a path, or a name in a catalog."""

    name: str = json_key("table")
    rows: int
    version: int
    comment: str
    location: str = json_key("place")


def check_folder(warehouse: str, writing: bool) -> None:
    """Check that a folder of this machine can hold tables; create it if they will be written.

    Raises:
        StoreError: If it is a file, or cannot be read or written.
    """
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
