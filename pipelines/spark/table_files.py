"""Write Delta tables in a folder of this machine to few files, and remove those that they no longer have."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from pipelines.spark.delta_log import list_commits, note_last_commit
from pipelines.spark.delta_rs import explain_damage, open_table

# Of files with the rows of many snapshots: readers of one open only the groups that may have its rows.
_ROWS_PER_GROUP = 20_000
_MAX_SORTED_BYTES = 256_000_000  # of a table that is sorted in memory


def count_files(folder: Path) -> int:
    """Count the files of a table; raise StoreError if its log is damaged."""
    with explain_damage(folder):
        table = open_table(folder)
        return len(table.file_uris()) if table else 0


def compact_table(folder: Path) -> None:
    """Write the rows of a table to few files, in the order of snapshots; raise StoreError if its log is damaged."""
    from deltalake import WriterProperties

    properties = WriterProperties(compression="SNAPPY", max_row_group_size=_ROWS_PER_GROUP)
    with explain_damage(folder, is_written=True):
        table = open_table(folder)
        if table is None:
            return
        size_bytes = pc.sum(pa.table(table.get_add_actions())["size_bytes"]).as_py()
        if size_bytes <= _MAX_SORTED_BYTES and "snapshot_id" in table.to_pyarrow_dataset().schema.names:
            table.optimize.z_order(["snapshot_id"], writer_properties=properties)
        else:
            table.optimize.compact(writer_properties=properties)
        table.create_checkpoint()
        table.cleanup_metadata()  # commits before it that are older than the table's setting, 30 days by default
        note_last_commit(folder)


def vacuum_table(folder: Path, days: float | None) -> int:
    """Remove the files that a table has not had for so many days; return their number.

    days: None = as the table's properties say, a week by default.   Raises: StoreError if its log is damaged.
    """
    with explain_damage(folder):
        table = open_table(folder)
        if table is None or len(table.file_uris()) == sum(1 for _ in _list_data(folder)):
            return 0
        hours = None if days is None else round(days * 24)
        removed: list[str] = table.vacuum(hours, enforce_retention_duration=False)
        for name in removed:  # not by delta-rs, which writes commits for it: the disk may be full
            (folder / name).unlink(missing_ok=True)
    return len(removed)


def has_unnamed_data(folder: Path) -> bool:
    """Tell whether a table has been created, and data was written for it, but no commit names any."""
    if [int(file.stem) for file in list_commits(folder)] != [0]:
        return False
    with explain_damage(folder):
        table = open_table(folder)
        if table is None or pa.table(table.get_add_actions()).num_rows:
            return False
    return any(map(_has_rows, _list_data(folder)))


def _list_data(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts)


def _has_rows(file: Path) -> bool:
    """Return whether a Parquet file has rows; Spark also writes files without any, and one may be cut or removed."""
    try:
        return bool(parquet.read_metadata(file).num_rows)
    except (OSError, pa.ArrowException):
        return False
