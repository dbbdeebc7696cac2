"""Read, overwrite and vacuum Delta tables in a folder of this machine with delta-rs.

For few rows it is faster than Spark. Only `run` needs it: platforms with a Spark of their own lack the package.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyarrow import dataset

from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.delta_log import note_last_commit
from pipelines.spark.storage_faults import explain_storage_fault, make_damage_error
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table

_PLAIN_PATH = re.compile(r"[\w/ .-]+")


def is_plain(location: str) -> bool:
    """Tell whether delta-rs takes a path as it is: others it decodes, or rejects."""
    return _PLAIN_PATH.fullmatch(location) is not None


def read_rows(
    folder: Path, snapshots: Sequence[SnapshotKey] | None, columns: Sequence[str], max_rows: int
) -> pa.Table | None:
    """Read columns of the rows of snapshots, and perhaps of others; None if they may be many, or Spark must read them.

    snapshots: None = all.   Raises: StoreError if the table is damaged.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaProtocolError

    condition = None
    if snapshots is not None:
        clusters, ids = ([getattr(key, name) for key in snapshots] for name in ("cluster_id", "snapshot_id"))
        condition = dataset.field("cluster_id").isin(clusters) & dataset.field("snapshot_id").isin(ids)
    with _explain_damage(folder):
        try:
            source = DeltaTable(str(folder)).to_pyarrow_dataset()
        except DeltaProtocolError:
            return None
        count = 0
        for fragment in source.get_fragments(filter=condition):
            count += fragment.count_rows()
            if count > max_rows:
                return None
        return source.to_table(columns=list(columns), filter=condition)


def create_table(folder: Path, table: Table) -> None:
    """Create a table by its contract, if there is none; raise StoreError if its log is damaged."""
    from deltalake import DeltaTable, Schema

    properties = {"delta.checkpointInterval": "10"}  # that of Spark
    if table.skip_by:
        properties["delta.dataSkippingStatsColumns"] = ",".join(table.skip_by)
    with _explain_damage(folder, is_written=True):
        DeltaTable.create(
            str(folder),
            schema=Schema.from_json(table.schema.json()),
            mode="ignore",
            partition_by=list(table.partition_by),
            description=table.comment,
            configuration=properties,
        )


def write_rows(folder: Path, rows: pa.Table, replaced: Sequence[SnapshotKey], *, whole_clusters: bool = False) -> None:
    """Append rows to a table in one commit, which also removes the rows of some snapshots, or of their clusters.

    Raises: StoreError if the log of the table is damaged.
    """
    from deltalake import write_deltalake

    columns = SNAPSHOT_KEY[:1] if whole_clusters else SNAPSHOT_KEY
    matches = [
        " AND ".join(f"{column} = {_quote(getattr(key, column))}" for column in columns) for key in sorted(replaced)
    ]
    with _explain_damage(folder, is_written=True):
        if not matches:
            write_deltalake(str(folder), rows, mode="append")
        else:
            write_deltalake(str(folder), rows, mode="overwrite", predicate=" OR ".join(dict.fromkeys(matches)))
        note_last_commit(folder)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def overwrite_table(folder: Path, rows: pa.Table, comment: str, metadata: str) -> None:
    """Replace all rows and columns of a table in one commit; raise StoreError if its log is damaged.

    metadata: Delta's user metadata of the commit.
    """
    from deltalake import CommitProperties, write_deltalake

    properties = CommitProperties(custom_metadata={"userMetadata": metadata})
    with _explain_damage(folder):
        write_deltalake(
            str(folder),
            rows,
            mode="overwrite",
            schema_mode="overwrite",
            description=comment,
            commit_properties=properties,
        )


def vacuum_table(folder: Path) -> None:
    """Remove files that no version within the retention of a table needs; raise StoreError if its log is damaged."""
    from deltalake import DeltaTable

    with _explain_damage(folder):
        DeltaTable(str(folder)).vacuum(dry_run=False)


@contextmanager
def _explain_damage(folder: Path, *, is_written: bool = False) -> Iterator[None]:
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, pa.ArrowException, OSError) as error:
        if is_written and explain_storage_fault(error, "files") is not None:  # a full disk: the caller explains it
            raise
        raise make_damage_error(folder, str(error).partition("\n")[0]) from error
