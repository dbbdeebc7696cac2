"""The logs of replicas, and the bytes of each: the one rule for all that sums the bytes of brokers."""

from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import (
    DOUBLE,
    INT,
    INTS,
    LONG,
    TEXT,
    column,
    is_valid,
    to_array,
    to_flags,
    to_list_array,
    to_lists,
    to_numpy,
)
from udfs.arrow.ragged import RaggedLists, count_true, is_in_segment, offsets_of, position_of, row_of
from udfs.failures.kernels.election import NO_BROKER, Bools, Ids

UNKNOWN = -1
# Columns of silver.partitions.
REPLICA_BYTES_COLUMNS: tuple[pa.Field, ...] = (
    column(
        "replica_sizes",
        pa.list_(LONG),
        "bytes of each replica, in the order of `replicas`: of its own log, or of the leader's where no source shows "
        "its own; null = unknown",
    ),
    column("unmeasured_replicas", INTS, "replicas of which no source shows the log, so that the leader's size counts"),
)
_COUNTS = (
    *("replicas", "leaders", "only_in_sync_partitions"),
    *("partitions_with_size", "partitions_with_bytes_in", "partitions_with_bytes_out"),
    "inferred_bytes",  # of replicas that count as large as the leader's log
)
# What a broker holds, by log dir; the logs of several shards add up. A sum of values that are all unknown is null.
LOG_SUMS = pa.schema(
    [
        ("broker_id", INT),
        ("log_dir", TEXT),  # null = of replicas of which no source shows it
        *((name, LONG) for name in _COUNTS),
        ("replica_bytes", LONG),  # of replicas, also in failed log dirs, and where no source shows the log
        ("size_bytes", LONG),  # of all logs, but for those in failed log dirs: also of those that no assignment has
        ("unknown_logs", LONG),  # logs of unknown size
        *((name, DOUBLE) for name in ("bytes_in_per_s", "bytes_out_per_s")),
    ]
)


class ReplicaBytes(NamedTuple):
    """The bytes of r replicas."""

    size: npt.NDArray[np.int64]  # int64 (r); UNKNOWN = not known
    is_inferred: npt.NDArray[np.bool_]  # (r), whether the size is that of the leader, as no source shows its own


def take_logs(partitions: pa.Table) -> pa.StructArray:
    """Return the log (struct LOG) of each of r replicas; null where no source shows it.

    partitions: columns replicas and logs, in the order of the replicas.
    """
    offsets, logs = to_lists(partitions["replicas"]).offsets, to_array(partitions["logs"])
    row, count = row_of(offsets), to_numpy(pc.list_value_length(logs)).astype(np.int64)
    position = position_of(offsets)
    at = offsets_of(count)[:-1][row] + position
    return logs.flatten().take(pa.array(at, mask=position >= count[row]))


def measure_replicas(partitions: pa.Table) -> ReplicaBytes:
    """Return the bytes of each replica: its own log's where a source shows it, else those of the leader.

    partitions: columns replicas, logs and size_bytes, which is the size of the leader's log.
    """
    own = to_numpy(pc.struct_field(take_logs(partitions), "size_bytes"), UNKNOWN).astype(np.int64)
    row = row_of(to_lists(partitions["replicas"]).offsets)
    of_leader = to_numpy(partitions["size_bytes"], UNKNOWN).astype(np.int64)[row]
    # A model shows sizes of partitions alone: all of their replicas have that size.
    is_inferred = (own == UNKNOWN) & (of_leader != UNKNOWN) & is_valid(partitions["logs"])[row]
    return ReplicaBytes(np.where(own == UNKNOWN, of_leader, own), is_inferred)


def sum_logs(partitions: pa.Table, stray_logs: pa.Table, brokers: pa.Table) -> pa.Table:
    """Sum what each broker holds in each log dir (LOG_SUMS): its replicas, and logs that no assignment accounts for.

    partitions, stray_logs, brokers (broker_id and live): as in pipelines.ingest.merge.entities.
    """
    (broker, offsets, _), isr = to_lists(partitions["replicas"]), to_lists(partitions["isr"])
    row, measured = row_of(offsets), measure_replicas(partitions)
    leads = to_numpy(partitions["leader"], UNKNOWN)[row] == broker
    is_only = is_in_segment(broker, offsets, isr.values, isr.offsets) & (isr.lengths == 1)[row]
    is_known, live = measured.size != UNKNOWN, brokers.filter(pa.array(to_flags(brokers["live"])))["broker_id"]
    is_lost = measured.is_inferred & find_failed_dir_replicas(partitions, to_numpy(live))
    size = pa.array(measured.size, mask=~is_known)
    rates = [to_array(partitions[name]).take(pa.array(row)) for name in ("bytes_in_per_s", "bytes_out_per_s")]
    columns = {
        "broker_id": broker,
        "log_dir": pc.struct_field(take_logs(partitions), "log_dir"),
        **{"replicas": np.ones(len(row)), "leaders": leads, "only_in_sync_partitions": is_only},
        **{"partitions_with_size": is_known, "replica_bytes": size, "unknown_logs": ~is_known},
        "size_bytes": pc.if_else(pa.array(is_lost), 0, size),
        "inferred_bytes": np.where(measured.is_inferred & ~is_lost, measured.size, 0),
        **{"partitions_with_bytes_in": pc.is_valid(rates[0]), "partitions_with_bytes_out": pc.is_valid(rates[1])},
        **{"bytes_in_per_s": rates[0], "bytes_out_per_s": pc.multiply(rates[1], leads.astype(np.float64))},
    }
    assigned = pa.table(columns).select(LOG_SUMS.names).cast(LOG_SUMS)
    log, nothing = to_array(stray_logs["log"]), {name: pa.repeat(0, stray_logs.num_rows) for name in _COUNTS}
    path, stray_size = (pc.struct_field(log, name) for name in ("log_dir", "size_bytes"))
    others = {"broker_id": stray_logs["broker_id"], "log_dir": path, "size_bytes": stray_size}
    stray = pa.table(nothing | others | {"unknown_logs": pc.is_null(stray_size)})
    stray = stray.cast(pa.schema([LOG_SUMS.field(name) for name in stray.column_names]))
    logs = pa.concat_tables([assigned, stray], promote_options="default")
    sums = logs.group_by(LOG_SUMS.names[:2]).aggregate([(name, "sum") for name in LOG_SUMS.names[2:]])
    return sums.rename_columns(LOG_SUMS.names).cast(LOG_SUMS)


def sum_column(sums: pa.Table, name: str = "size_bytes") -> Counter[tuple[int, str | None]]:
    """Sum a column of LOG_SUMS by broker (log dir None), and by broker and log dir."""
    totals: Counter[tuple[int, str | None]] = Counter()
    for row in sums.select(["broker_id", "log_dir", name]).to_pylist():
        for path in {None, row["log_dir"]}:
            totals[row["broker_id"], path] += row[name] or 0
    return totals


def list_replica_bytes(partitions: pa.Table) -> dict[str, pa.Array]:
    """Return REPLICA_BYTES_COLUMNS of partitions."""
    broker, offsets, valid = to_lists(partitions["replicas"])
    size, is_inferred = measure_replicas(partitions)
    sizes, ends = pa.array(size, mask=size == UNKNOWN), pa.array(offsets, pa.int32())
    unmeasured = RaggedLists(broker[is_inferred], offsets_of(count_true(is_inferred, offsets)), valid)
    lists = (pa.ListArray.from_arrays(ends, sizes, mask=pa.array(~valid)), to_list_array(unmeasured))
    return {field.name: values for field, values in zip(REPLICA_BYTES_COLUMNS, lists, strict=True)}


def align_lists(column: pa.ChunkedArray, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the values of lists by replica: int64 (r), UNKNOWN where null, or where a list is of another length."""
    lists = to_array(column)
    list_offsets = offsets_of(to_numpy(pc.list_value_length(lists)))
    values = np.full(int(offsets[-1]), UNKNOWN, dtype=np.int64)
    is_full = np.diff(list_offsets) == np.diff(offsets)
    values[is_full[row_of(offsets)]] = to_numpy(lists.flatten(), UNKNOWN)[is_full[row_of(list_offsets)]]
    return values


def list_known_sizes(partitions: pa.Table) -> npt.NDArray[np.float64] | None:
    """Return the bytes of each replica: float64 (r), 0 where not known; None if no column shows them."""
    if "replica_sizes" in partitions.column_names:
        offsets = to_lists(partitions["replicas"]).offsets
        sizes, of_leader = align_lists(partitions["replica_sizes"], offsets), to_numpy(partitions["size_bytes"], 0)
        return np.where(sizes == UNKNOWN, of_leader[row_of(offsets)], sizes).astype(np.float64)
    if "logs" in partitions.column_names:
        return measure_replicas(partitions).size.clip(0).astype(np.float64)
    return None


def find_failed_dir_replicas(partitions: pa.Table, live: Ids) -> Bools:
    """Find the replicas (bool, r) in failed log dirs of live brokers.

    A live broker whose replica is offline has lost the log dir, and not itself. In the ISR of a partition with a
    leader, a replica is online, whatever another source shows; without a leader, the last one in sync stays in the ISR.

    Args:
        partitions: Columns replicas, isr, leader and offline_replicas; none failed without the last.
        live: Ids of the brokers that are known to be live.
    """
    broker, offsets, _ = to_lists(partitions["replicas"])
    if "offline_replicas" not in partitions.column_names:
        return np.zeros(len(broker), dtype=np.bool_)
    is_offline, in_isr = (
        is_in_segment(broker, offsets, *to_lists(partitions[name])[:2]) for name in ("offline_replicas", "isr")
    )
    has_leader = to_numpy(partitions["leader"], NO_BROKER) != NO_BROKER
    failed: Bools = is_offline & np.isin(broker, live) & ~(in_isr & has_leader[row_of(offsets)])
    return failed
