"""The log dirs of a cluster model: read from what sources show, and what a plan moves between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import is_valid, to_array, to_flags, to_lists, to_numpy
from udfs.arrow.ragged import offsets_of, row_of
from udfs.failures.disk_limits import number_volumes
from udfs.failures.replica_logs import take_logs
from udfs.planning.broker_log_dirs import ANY, BrokerLogDirs
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Int32s, Ints, ProposedAssignment


def add_log_dirs(model: ClusterModel, log_dirs: pa.Table, partitions: pa.Table, stray_logs: pa.Table) -> ClusterModel:
    """Add the log dirs that sources show to a model; the same model if they show none.

    log_dirs, partitions, stray_logs: as in pipelines.ingest.merge.entities, of the model's cluster.
    """
    known = log_dirs.filter(pc.is_in(log_dirs["broker_id"], pa.array(model.broker_ids, pa.int32())))
    known = known.sort_by([("broker_id", "ascending"), ("log_dir", "ascending")]).combine_chunks()
    if not known.num_rows:
        return model
    broker = np.searchsorted(model.broker_ids, to_numpy(known["broker_id"]))
    offsets = offsets_of(np.bincount(broker, minlength=model.brokers))
    names = pc.binary_join_element_wise(
        pc.cast(known["broker_id"], pa.string()), known["log_dir"], "\0"
    )  # one key of broker and path
    of_replica, size = _find_logs(model, partitions, to_array(names))
    stray = _sum_stray_logs(stray_logs, to_array(names))
    online = ~is_valid(known["log_dir_error"])
    log_dirs_of_model = BrokerLogDirs(
        offsets,
        tuple(known["log_dir"].to_pylist()),
        online,
        online & ~to_flags(known["cordoned"]),
        _to_floats(known["total_bytes"]),
        _to_floats(known["usable_bytes"]),
        of_replica,
        size,
        _find_moving(model, stray_logs),
        stray,
        number_volumes(broker, *(known[name].to_pylist() for name in ("total_bytes", "usable_bytes"))),
    )
    total, usable = log_dirs_of_model.total, log_dirs_of_model.usable
    unused = total - log_dirs_of_model.sum_sizes(of_replica)  # of volumes whose bytes a file has
    usable = np.where(np.isnan(usable), np.maximum(unused, 0.0), usable)
    return replace(model, log_dirs=replace(log_dirs_of_model, usable=usable))


def _to_floats(column: pa.ChunkedArray) -> Floats:
    values = pc.fill_null(pc.cast(column, pa.float64()), float("nan"))
    return np.asarray(to_array(values).to_numpy(zero_copy_only=False), dtype=np.float64)


def _find_logs(model: ClusterModel, partitions: pa.Table, names: pa.Array) -> tuple[Int32s, Floats]:
    """Find the log dir and the size of each replica of the model. names: broker id and path of each log dir."""
    placed = partitions.filter(pc.is_valid(partitions["replicas"]))
    placed = placed.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
    replicas, log = to_lists(placed["replicas"]), take_logs(placed)
    row = row_of(replicas.offsets)
    path, size = pc.struct_field(log, "log_dir"), pc.struct_field(log, "size_bytes")
    key = pc.binary_join_element_wise(pc.cast(pa.array(replicas.values), pa.string()), path, "\0")
    is_known = pc.and_(pc.is_valid(key), pc.is_valid(size))
    index = to_numpy(pc.if_else(is_known, pc.index_in(key, value_set=names), None), ANY).astype(np.int32)
    bytes_ = np.where(index != ANY, to_numpy(size, 0).astype(np.float64), 0.0)
    # The model has live replicas first: both orders have the same brokers of each partition.
    broker = np.searchsorted(model.broker_ids, replicas.values)
    in_source, in_model = np.lexsort((broker, row)), np.lexsort((model.replicas, model.row))
    of_replica, sizes = np.empty(len(index), dtype=np.int32), np.empty(len(index), dtype=np.float64)
    of_replica[in_model], sizes[in_model] = index[in_source], bytes_[in_source]
    return of_replica, sizes


def _sum_stray_logs(stray_logs: pa.Table, names: pa.Array) -> Floats:
    """Sum the bytes of logs that are no assigned replica, by log dir: float64 (d)."""
    log = to_array(stray_logs["log"])
    path, size = pc.struct_field(log, "log_dir"), pc.struct_field(log, "size_bytes")
    key = pc.binary_join_element_wise(pc.cast(to_array(stray_logs["broker_id"]), pa.string()), path, "\0")
    index = to_numpy(pc.if_else(pc.is_valid(key), pc.index_in(key, value_set=names), None), ANY).astype(np.int64)
    known = index != ANY
    return np.bincount(index[known], to_numpy(size, 0).astype(np.float64)[known], len(names)).astype(np.float64)


def _find_moving(model: ClusterModel, stray_logs: pa.Table) -> Flags:
    """Find the replicas (bool, r) whose log is being moved to another log dir of their broker."""
    future = stray_logs.filter(stray_logs["is_future"])
    topics = pa.array(model.topic_names, pa.string())
    keys = np.stack([model.topic[model.row], model.partition[model.row], model.broker_ids[model.replicas]])
    topic = to_numpy(pc.index_in(to_array(future["topic"]), value_set=topics), -1)
    moved = np.stack([topic, to_numpy(future["partition"]), to_numpy(future["broker_id"])])
    both, index = np.unique(np.concatenate([moved, keys], axis=1), axis=1, return_inverse=True)
    is_moved = np.zeros(both.shape[1], dtype=np.bool_)
    index = index.reshape(-1)
    is_moved[index[: moved.shape[1]]] = True
    flags: Flags = is_moved[index[moved.shape[1] :]]
    return flags


def find_dir_moves(model: ClusterModel, proposal: ProposedAssignment) -> Ints:
    """Find the replicas (int64, indices) that stay on their broker and are moved to another of its log dirs.

    Only for a proposal that leaves all replica lists as they are; for others, none moves between log dirs.
    """
    # One list may be longer and another one shorter by as much.
    if model.log_dirs is None or proposal.log_dirs is None or not np.array_equal(proposal.offsets, model.offsets):
        return np.empty(0, dtype=np.int64)
    now, planned = model.log_dirs.of_replica, proposal.log_dirs
    same_broker = proposal.replicas == model.replicas
    return np.flatnonzero(same_broker & (planned != ANY) & (now != ANY) & (planned != now))
