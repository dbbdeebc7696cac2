"""The logs of replicas, and the bytes of each: the one rule for all that sums the bytes of brokers."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.column_declarations import INTS, LONG, column
from udfs.arrow.columns import is_valid, to_array, to_list_array, to_lists, to_numpy
from udfs.arrow.ragged import RaggedLists, count_true, offsets_of, position_of, row_of

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
