"""Read, write and maintain Delta tables in a folder of this machine with delta-rs.

For few rows it is faster than Spark, and it finds the files of a snapshot without reading those of others. Platforms
with a Spark of their own lack the package; they call nothing of this module.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, fs
from pyspark.sql.types import StructField, StructType

from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.delta_log import check_log, find_damaged_line, list_commits, note_last_commit
from pipelines.spark.storage_faults import explain_storage_fault, make_access_error, make_damage_error
from pipelines.spark.table_upgrades import TABLE_VERSION, VERSION_PROPERTY, TableState, Upgrade, list_properties
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MAX_COMPARED_ROWS = 2_000  # of a table that gets new rows; more are written, even if they are the same
_PLAIN_PATH = re.compile(r"[\w/ .-]+")


def is_plain(location: str) -> bool:
    """Tell whether delta-rs takes a path as it is: others it decodes, or rejects."""
    return _PLAIN_PATH.fullmatch(location) is not None


def reads_every_table(warehouse: str, names: Iterable[str]) -> bool:
    """Tell whether it reads all tables of these names that exist in a folder."""
    folder = Path(warehouse).resolve()
    tables = (folder / name.replace(".", "/") for name in names)
    with suppress(Exception):  # a damaged table: who needs it explains the damage
        return is_plain(str(folder)) and all(open_table(table) is not None for table in tables if check_log(table))
    return is_plain(str(folder))


def read_rows(
    folder: Path, snapshots: Sequence[SnapshotKey] | None, columns: pa.Schema, max_rows: int | None = None
) -> pa.Table | None:
    """Read columns of the rows of snapshots; None if they may be more than max_rows, or Spark must read the table.

    snapshots: None = all; only the files that may have rows of them are opened. columns: null if the table lacks them.
    Raises: StoreError if the table is damaged.
    """
    with explain_damage(folder):
        table = open_table(folder)
        if table is None:
            return None
        source = _add_columns(_open_files(folder, table), columns)
        condition = _match(snapshots)
        if max_rows is not None:
            count = 0
            for fragment in source.get_fragments(filter=condition):
                count += fragment.count_rows()
                if count > max_rows:
                    return None
        return source.to_table(columns=columns.names, filter=condition)


def open_rows(folder: Path, snapshots: Sequence[SnapshotKey] | None, columns: pa.Schema) -> dataset.Dataset | None:
    """Open the rows of snapshots, or all, to be read later as they are now; None if Spark must read the table.

    columns: null if the table lacks them.   Raises: StoreError if the log is damaged, or a file is missing or cut.
    """
    opened = _open_checked(folder, snapshots)
    if opened is None:
        return None
    source, condition = _add_columns(opened[0], columns), _match(snapshots)
    return source if condition is None else source.filter(condition)


def list_files(folder: Path, snapshots: Sequence[SnapshotKey] | None) -> list[str] | None:
    """List the files that may have rows of snapshots, or all; None if Spark must read the table.

    Raises: StoreError if the log is damaged, or a file is missing or cut.
    """
    opened = _open_checked(folder, snapshots)
    return None if opened is None else [f"{folder}/{name}" for name in opened[1]]


def _open_checked(folder: Path, snapshots: Sequence[SnapshotKey] | None) -> tuple[dataset.Dataset, list[str]] | None:
    """Open a table, check the files that may have rows of snapshots, or all, and return its rows and their names."""
    with explain_damage(folder):
        table = open_table(folder)
        if table is None:
            return None
        source = _open_files(folder, table)
        names = [fragment.path for fragment in source.get_fragments(filter=_match(snapshots))]
        _check_files(folder, table, names)
    return source, names


def _open_files(folder: Path, table: "DeltaTable") -> dataset.Dataset:
    """Open the rows of a table.

    Not with delta-rs's own file system: it is in Python, and pyarrow keeps Python locked while it begins to read for
    DuckDB, so that its threads, which open the files, and this one may wait for each other for ever.
    """
    own = fs.SubTreeFileSystem(str(folder.resolve()), fs.LocalFileSystem())
    rows: dataset.Dataset = table.to_pyarrow_dataset(filesystem=own)
    return rows


def count_rows(folder: Path) -> int | None:
    """Count the rows of a table by its log; None if the log does not tell.

    Raises: StoreError if the log is damaged, or a file is missing or cut.
    """
    with explain_damage(folder):
        table = open_table(folder)
        if table is None:
            return None
        _check_files(folder, table)
        counts = pa.table(table.get_add_actions())["num_records"]
    return None if counts.null_count else pc.sum(counts).as_py() or 0


def count_by_cluster(folder: Path, snapshots: Sequence[SnapshotKey]) -> Counter[str] | None:
    """Count the rows of snapshots by cluster; None if Spark must do so.   Raises: StoreError if it is damaged."""
    counts: Counter[str] = Counter()
    with explain_damage(folder):
        table = open_table(folder)
        if table is None:
            return None
        source = _open_files(folder, table)
        condition = _match(snapshots)
        for fragment in source.get_fragments(filter=condition):
            rows = fragment.to_table(schema=source.schema, columns=["cluster_id"], filter=condition)
            for row in rows["cluster_id"].value_counts().to_pylist():
                counts[row["values"]] += row["counts"]
    return counts


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
    with explain_damage(folder):
        table = open_table(folder)
        rows = table.history(commits) if table else []
    return [Commit.parse(*(row.get(k) for k in ("operation", "operationParameters", "userMetadata"))) for row in rows]


def _add_columns(rows: dataset.Dataset, columns: pa.Schema) -> dataset.Dataset:
    """Add columns that an earlier version of this program did not write, with nulls."""
    missing = [field for field in columns if field.name not in rows.schema.names]
    return rows.replace_schema(pa.schema([*rows.schema, *missing])) if missing else rows


def read_state(folder: Path) -> TableState | None:
    """Read the columns and the version of a table; None if Spark must.   Raises: StoreError if its log is damaged."""
    with explain_damage(folder):
        table = open_table(folder)
        if table is None:
            return None
        schema = StructType.fromJson(json.loads(table.schema().to_json()))
        return TableState.of_properties(schema, table.metadata().configuration)


def upgrade_table(folder: Path, upgrade: Upgrade) -> None:
    """Add to a table what it lacks; raise StoreError if its log is damaged."""
    from deltalake import Field

    with explain_damage(folder, is_written=True):
        table = open_table(folder)
        if table is None:
            return
        for name, comment in upgrade.new_comments.items():
            table.alter.set_column_metadata(name, {"comment": comment})
        if upgrade.new_columns:
            nullable = StructType([StructField(c.name, c.dataType, True, c.metadata) for c in upgrade.new_columns])
            table.alter.add_columns([Field.from_json(json.dumps(f)) for f in nullable.jsonValue()["fields"]])
        if upgrade.sets_version:
            table.alter.set_table_properties({VERSION_PROPERTY: str(TABLE_VERSION)}, raise_if_not_exists=False)
        note_last_commit(folder)


def create_table(folder: Path, table: Table) -> None:
    """Create a table by its contract, if there is none; raise StoreError if its log is damaged.

    It is not partitioned, as a partition per cluster makes a file per cluster and night, however few rows it has.
    """
    from deltalake import DeltaTable, Schema

    with explain_damage(folder, is_written=True):
        DeltaTable.create(
            str(folder),
            schema=Schema.from_json(table.schema.json()),
            mode="ignore",
            description=table.comment,
            configuration=list_properties(dict.fromkeys((*SNAPSHOT_KEY, *table.skip_by)) if table.skip_by else ()),
            raise_if_key_not_exists=False,
        )


def write_rows(folder: Path, rows: pa.Table, replaced: Sequence[SnapshotKey], *, whole_clusters: bool = False) -> None:
    """Append rows to a table in one commit, which also removes the rows of some snapshots, or of their clusters.

    Raises: StoreError if the log of the table is damaged.
    """
    from deltalake import write_deltalake

    condition = _match_in_sql(replaced, whole_clusters=whole_clusters)
    with explain_damage(folder, is_written=True):
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


def overwrite_table(folder: Path, rows: pa.RecordBatchReader, comment: str, metadata: str, condition: str = "") -> bool:
    """Replace all rows and columns of a table in one commit, or the rows that meet a condition.

    Return False, without a commit, if the table has these few rows already. metadata: Delta's user metadata.
    Raises: StoreError if the log of the table is damaged.
    """
    from deltalake import CommitProperties, write_deltalake

    first: list[pa.RecordBatch] = []
    while sum(batch.num_rows for batch in first) <= _MAX_COMPARED_ROWS and (batch := next(rows, None)) is not None:
        first.append(batch)
    if not condition and _has_exactly(folder, pa.Table.from_batches(first, rows.schema)):
        return False
    rows = pa.RecordBatchReader.from_batches(rows.schema, chain(first, rows))
    replaced: dict[str, Any] = {"predicate": condition} if condition else {"schema_mode": "overwrite"}
    properties = CommitProperties(custom_metadata={"userMetadata": metadata})
    with explain_damage(folder):
        write_deltalake(
            str(folder), rows, mode="overwrite", description=comment, commit_properties=properties, **replaced
        )
    return True


def _has_exactly(folder: Path, rows: pa.Table) -> bool:
    """Tell whether there is a table with these rows and columns, if they are few; a damaged one is written anew."""
    if rows.num_rows > _MAX_COMPARED_ROWS:
        return False
    with suppress(StoreError), explain_damage(folder):
        table = open_table(folder)
        source = _open_files(folder, table) if table else None
        if source and source.schema.names == rows.schema.names and source.count_rows() == rows.num_rows:
            return Counter(map(str, source.to_table().to_pylist())) == Counter(map(str, rows.to_pylist()))
    return False


def delete_snapshots(folder: Path, snapshots: Sequence[SnapshotKey], condition: str = "true") -> None:
    """Delete the rows of snapshots that meet a condition of SQL, in one commit.

    Raises: StoreError if the log of the table is damaged.
    """
    from deltalake import write_deltalake

    with explain_damage(folder, is_written=True):
        if table := open_table(folder):
            # Not `delete`: it writes the rows that stay as string_view, which Arrow cannot compare.
            nothing = _open_files(folder, table).schema.empty_table()
            predicate = f"({_match_in_sql(snapshots)}) AND {condition}"
            write_deltalake(str(folder), nothing, mode="overwrite", predicate=predicate)
            note_last_commit(folder)


def open_table(folder: Path) -> "DeltaTable | None":
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


def _match(snapshots: Sequence[SnapshotKey] | None) -> dataset.Expression | None:
    """Make the condition that a row belongs to one of these snapshots (None = all), which leaves out files, too."""
    if snapshots is None:
        return None
    keys = sorted(set(snapshots))
    # The ids leave out files and parts of them. Both in one text, as a condition per cluster takes longer with each.
    ids, clusters = dataset.field("snapshot_id"), dataset.field("cluster_id")
    names = pa.array([f"{key.snapshot_id} {key.cluster_id}" for key in keys], pa.string())
    is_one = pc.binary_join_element_wise(ids, clusters, " ").isin(names)
    # Not ==, which Arrow lacks for strings that some writers store as string_view.
    return ids.isin(pa.array([key.snapshot_id for key in keys], pa.string())) & is_one


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


def quote(text: str) -> str:
    """Quote a text as a literal of standard SQL, which delta-rs reads."""
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def explain_damage(folder: Path, *, is_written: bool = False) -> Iterator[None]:
    """Raise StoreError instead of an error of the block that a damaged table has caused."""
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
