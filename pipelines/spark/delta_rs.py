"""Read, write and maintain Delta tables in a folder of this machine with delta-rs.

For few rows it is faster than Spark, and it finds the files of a snapshot without reading those of others. Platforms
with a Spark of their own lack the package; they call nothing of this module.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, parquet

from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.delta_log import check_log, find_damaged_line, list_commits, note_last_commit
from pipelines.spark.storage_faults import explain_storage_fault, make_access_error, make_damage_error
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table

if TYPE_CHECKING:
    from deltalake import DeltaTable

_PLAIN_PATH = re.compile(r"[\w/ .-]+")
# Commits between two checkpoints, as Spark's: without these files, reading a table takes longer with each commit.
_CHECKPOINT_INTERVAL = 10
# Of files with the rows of many snapshots: readers of one open only the groups that may have its rows.
_ROWS_PER_GROUP = 20_000
_MAX_SORTED_BYTES = 256_000_000  # of a table that is sorted in memory


def is_plain(location: str) -> bool:
    """Tell whether delta-rs takes a path as it is: others it decodes, or rejects."""
    return _PLAIN_PATH.fullmatch(location) is not None


def read_rows(
    folder: Path, snapshots: Sequence[SnapshotKey] | None, columns: Sequence[str], max_rows: int | None = None
) -> pa.Table | None:
    """Read columns of the rows of snapshots; None if they may be more than max_rows, or Spark must read the table.

    snapshots: None = all; only the files that may have rows of them are opened.   Raises: StoreError if the table is
    damaged.
    """
    with _explain_damage(folder):
        table = _open(folder)
        if table is None:
            return None
        source = table.to_pyarrow_dataset()
        condition = None if snapshots is None else _match(snapshots)
        if max_rows is not None:
            count = 0
            for fragment in source.get_fragments(filter=condition):
                count += fragment.count_rows()
                if count > max_rows:
                    return None
        return source.to_table(columns=list(columns), filter=condition)


def open_rows(folder: Path, snapshots: Sequence[SnapshotKey] | None) -> dataset.Dataset | None:
    """Open the rows of snapshots, or all, to be read later as they are now; None if Spark must read the table.

    Raises: StoreError if the log is damaged, or a file is missing or cut.
    """
    with _explain_damage(folder):
        table = _open(folder)
        if table is None:
            return None
        source = table.to_pyarrow_dataset()
        condition = None if snapshots is None else _match(snapshots)
        _check_files(folder, table, [fragment.path for fragment in source.get_fragments(filter=condition)])
    return source if condition is None else source.filter(condition)


def list_files(folder: Path, snapshots: Sequence[SnapshotKey] | None) -> list[str] | None:
    """List the files that may have rows of snapshots, or all; None if Spark must read the table.

    Raises: StoreError if the log is damaged, or a file is missing or cut.
    """
    with _explain_damage(folder):
        table = _open(folder)
        if table is None:
            return None
        condition = None if snapshots is None else _match(snapshots)
        names = [fragment.path for fragment in table.to_pyarrow_dataset().get_fragments(filter=condition)]
        _check_files(folder, table, names)
    return [f"{folder}/{name}" for name in names]


def count_rows(folder: Path) -> int | None:
    """Count the rows of a table by its log; None if the log does not tell.

    Raises: StoreError if the log is damaged, or a file is missing or cut.
    """
    with _explain_damage(folder):
        table = _open(folder)
        if table is None:
            return None
        _check_files(folder, table)
        counts = pa.table(table.get_add_actions())["num_records"]
    return None if counts.null_count else pc.sum(counts).as_py() or 0


def count_by_cluster(folder: Path, snapshots: Sequence[SnapshotKey]) -> Counter[str] | None:
    """Count the rows of snapshots by cluster; None if Spark must do so.   Raises: StoreError if it is damaged."""
    counts: Counter[str] = Counter()
    with _explain_damage(folder):
        table = _open(folder)
        if table is None:
            return None
        source = table.to_pyarrow_dataset()
        condition = _match(snapshots)
        for fragment in source.get_fragments(filter=condition):
            rows = fragment.to_table(schema=source.schema, columns=["cluster_id"], filter=condition)
            for row in rows["cluster_id"].value_counts().to_pylist():
                counts[row["values"]] += row["counts"]
    return counts


def has_unnamed_data(folder: Path) -> bool:
    """Tell whether a table has been created, and data was written for it, but no commit names any."""
    if [int(file.stem) for file in list_commits(folder)] != [0]:
        return False
    with _explain_damage(folder):
        table = _open(folder)
        if table is None or pa.table(table.get_add_actions()).num_rows:
            return False
    return any(map(_has_rows, _list_data(folder)))


class Commit(NamedTuple):
    """A commit of a table."""

    operation: str  # WRITE, DELETE, OPTIMIZE, ...
    mode: str  # of a WRITE: Append, Overwrite
    metadata: str  # Delta's user metadata; empty = none

    @classmethod
    def parse(cls, operation: str | None, parameters: Mapping[str, Any] | None, metadata: str | None) -> Self:
        """Make a commit of what the history of a table shows."""
        return cls(operation or "", str((parameters or {}).get("mode", "")), metadata or "")


def read_history(folder: Path, commits: int) -> list[Commit]:
    """Read so many of the last commits of a table, the newest first; empty if there is no table."""
    if not list_commits(folder):
        return []
    with _explain_damage(folder):
        table = _open(folder)
        rows = table.history(commits) if table else []
    return [Commit.parse(*(row.get(k) for k in ("operation", "operationParameters", "userMetadata"))) for row in rows]


def create_table(folder: Path, table: Table) -> None:
    """Create a table by its contract, if there is none; raise StoreError if its log is damaged.

    It is not partitioned, as a partition per cluster makes a file per cluster and night, however few rows it has.
    """
    from deltalake import DeltaTable, Schema

    properties = {"delta.checkpointInterval": str(_CHECKPOINT_INTERVAL)}
    if table.skip_by:
        properties["delta.dataSkippingStatsColumns"] = ",".join(dict.fromkeys((*SNAPSHOT_KEY, *table.skip_by)))
    with _explain_damage(folder, is_written=True):
        DeltaTable.create(
            str(folder),
            schema=Schema.from_json(table.schema.json()),
            mode="ignore",
            description=table.comment,
            configuration=properties,
        )


def write_rows(folder: Path, rows: pa.Table, replaced: Sequence[SnapshotKey], *, whole_clusters: bool = False) -> None:
    """Append rows to a table in one commit, which also removes the rows of some snapshots, or of their clusters.

    Raises: StoreError if the log of the table is damaged.
    """
    from deltalake import write_deltalake

    condition = _match_in_sql(replaced, whole_clusters=whole_clusters)
    with _explain_damage(folder, is_written=True):
        if not replaced:
            write_deltalake(str(folder), rows, mode="append")
        else:
            write_deltalake(str(folder), rows, mode="overwrite", predicate=condition)
        note_last_commit(folder)


def _match_in_sql(snapshots: Sequence[SnapshotKey], *, whole_clusters: bool = False) -> str:
    """Write the condition that a row belongs to one of these snapshots, or of their clusters."""
    parts = [
        f"cluster_id = {quote(cluster)}"
        + ("" if whole_clusters else f" AND snapshot_id IN ({', '.join(map(quote, ids))})")
        for cluster, ids in _list_ids(snapshots).items()
    ]
    return " OR ".join(f"({part})" for part in parts)


def overwrite_table(folder: Path, rows: pa.RecordBatchReader, comment: str, metadata: str, condition: str = "") -> None:
    """Replace all rows and columns of a table in one commit, or the rows that meet a condition.

    metadata: Delta's user metadata of the commit.   Raises: StoreError if the log of the table is damaged.
    """
    from deltalake import CommitProperties, write_deltalake

    replaced: dict[str, Any] = {"predicate": condition} if condition else {"schema_mode": "overwrite"}
    properties = CommitProperties(custom_metadata={"userMetadata": metadata})
    with _explain_damage(folder):
        write_deltalake(
            str(folder), rows, mode="overwrite", description=comment, commit_properties=properties, **replaced
        )


def delete_snapshots(folder: Path, snapshots: Sequence[SnapshotKey], condition: str = "true") -> None:
    """Delete the rows of snapshots that meet a condition of SQL, in one commit.

    Raises: StoreError if the log of the table is damaged.
    """
    from deltalake import write_deltalake

    with _explain_damage(folder, is_written=True):
        if table := _open(folder):
            # Not `delete`: it writes the rows that stay as string_view, which Arrow cannot compare.
            nothing = table.to_pyarrow_dataset().schema.empty_table()
            predicate = f"({_match_in_sql(snapshots)}) AND {condition}"
            write_deltalake(str(folder), nothing, mode="overwrite", predicate=predicate)
            note_last_commit(folder)


def count_files(folder: Path) -> int:
    """Count the files of a table; raise StoreError if its log is damaged."""
    with _explain_damage(folder):
        table = _open(folder)
        return len(table.file_uris()) if table else 0


def compact_table(folder: Path) -> None:
    """Write the rows of a table to few files, in the order of snapshots; raise StoreError if its log is damaged."""
    from deltalake import WriterProperties

    properties = WriterProperties(compression="SNAPPY", max_row_group_size=_ROWS_PER_GROUP)
    with _explain_damage(folder, is_written=True):
        table = _open(folder)
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
    with _explain_damage(folder):
        table = _open(folder)
        if table is None or len(table.file_uris()) == sum(1 for _ in _list_data(folder)):
            return 0
        hours = None if days is None else round(days * 24)
        removed = table.vacuum(hours, enforce_retention_duration=False)
        if removed:
            table.vacuum(hours, dry_run=False, enforce_retention_duration=False)
        note_last_commit(folder)
    return len(removed)


def _list_data(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts)


def _open(folder: Path) -> "DeltaTable | None":
    """Open a table; None if there is none, or Spark must read it, as it has newer features than this program uses."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaProtocolError

    if not check_log(folder):
        return None
    try:
        table = DeltaTable(str(folder))
    except DeltaProtocolError:
        return None
    protocol = table.protocol()
    return None if protocol.min_reader_version > 1 or protocol.reader_features else table


def _match(snapshots: Sequence[SnapshotKey]) -> dataset.Expression:
    """Make the condition that a row belongs to one of these snapshots, by which files are left out, too."""
    conditions = [
        # Not ==, which Arrow lacks for strings that some writers store as string_view.
        dataset.field("cluster_id").isin(pa.array([cluster], pa.string()))
        & dataset.field("snapshot_id").isin(pa.array(ids, pa.string()))
        for cluster, ids in _list_ids(snapshots).items()
    ]
    return reduce(or_, conditions) if conditions else dataset.scalar(False)


def _list_ids(snapshots: Sequence[SnapshotKey]) -> dict[str, list[str]]:
    """List the ids of snapshots by cluster, both in order."""
    by_cluster: dict[str, list[str]] = {}
    for key in sorted(set(snapshots)):
        by_cluster.setdefault(key.cluster_id, []).append(key.snapshot_id)
    return by_cluster


def _check_files(folder: Path, table: "DeltaTable", names: Sequence[str] | None = None) -> None:
    """Check that files of a table (None = all) exist with their sizes; raise StoreError if one does not."""
    actions = pa.table(table.get_add_actions())
    sizes = dict(zip(map(unquote, actions["path"].to_pylist()), actions["size_bytes"].to_pylist(), strict=True))
    for name in sizes if names is None else names:
        path = f"{folder}/{name}"
        try:
            size = Path(path).stat().st_size
        except FileNotFoundError:
            problem = f"its file {path} is missing: it was removed without Delta"
            raise make_damage_error(folder, problem) from None
        if size != sizes[name]:
            problem = f"its file {path} has {size:,} bytes, but had {sizes[name]:,} when it was written"
            raise make_damage_error(folder, problem)
        if not os.access(path, os.R_OK):  # Spark would say that the file does not exist
            raise make_access_error(folder, path)


def _has_rows(file: Path) -> bool:
    """Return whether a Parquet file has rows; Spark also writes files without any, and one may be cut or removed."""
    try:
        return bool(parquet.read_metadata(file).num_rows)
    except (OSError, pa.ArrowException):
        return False


def quote(text: str) -> str:
    """Quote a text as a literal of standard SQL, which delta-rs reads."""
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _explain_damage(folder: Path, *, is_written: bool = False) -> Iterator[None]:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, pa.ArrowException, OSError) as error:
        if is_written and explain_storage_fault(error, "files") is not None:  # a full disk: the caller explains it
            raise
        with suppress(DeltaError, pa.ArrowException, OSError):  # what is wrong, in better words
            if problem := find_damaged_line(folder):
                raise make_damage_error(folder, problem) from error
            _check_files(folder, DeltaTable(str(folder)))
        raise make_damage_error(folder, str(error).partition("\n")[0].removeprefix("Kernel error: ")) from error
