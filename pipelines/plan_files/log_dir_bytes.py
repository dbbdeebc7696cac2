"""The bytes of logs in each log dir, and what volumes have left once they change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.snapshot_reader import Snapshot
from udfs.arrow.columns import to_array, to_lists
from udfs.failures.replica_logs import take_logs
from udfs.failures.volumes import number_row_volumes

LogDirBytes = Mapping[tuple[int, str], int]  # by broker and log dir


def sum_log_dirs(snapshot: Snapshot) -> LogDirBytes:
    """Sum the bytes of the logs in each log dir, also of those that no assignment accounts for."""
    partitions = snapshot.partitions
    logs = [(pa.array(to_lists(partitions["replicas"]).values), take_logs(partitions))]
    logs.append((to_array(snapshot.stray_logs["broker_id"]), to_array(snapshot.stray_logs["log"])))
    names = ("log_dir", "size_bytes")
    tables = [
        pa.table({"broker_id": brokers, **{name: pc.struct_field(log, name) for name in names}})
        for brokers, log in logs
    ]
    known = pa.concat_tables(tables).drop_null()
    sums = known.group_by(["broker_id", "log_dir"]).aggregate([("size_bytes", "sum")]).to_pylist()
    return {(row["broker_id"], row["log_dir"]): row["size_bytes_sum"] for row in sums}


def update_volumes(before: Snapshot, after: Snapshot) -> Snapshot:
    """Return `after` with what volumes have left: less than before by what the logs on them have grown.

    Below 0 if they cannot hold them. Log dirs on one volume use the same bytes.
    """
    then, now = sum_log_dirs(before), sum_log_dirs(after)
    rows = after.log_dirs.to_pylist()
    volumes, grown = number_row_volumes(rows), Counter[int]()
    for row, volume in zip(rows, volumes, strict=True):
        place = (row["broker_id"], row["log_dir"])
        grown[volume] += now.get(place, 0) - then.get(place, 0)
    changed = [
        row if row["usable_bytes"] is None else row | {"usable_bytes": row["usable_bytes"] - grown[volume]}
        for row, volume in zip(rows, volumes, strict=True)
    ]
    return replace(after, log_dirs=pa.Table.from_pylist(changed, after.log_dirs.schema))
