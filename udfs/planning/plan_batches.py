"""Whole clusters on their way to a planner, and plans on their way back: Arrow IPC batches, one plan per group."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow import ipc
from udfs.failures.topic_defaults import TopicDefaults
from udfs.planning.cluster_model import build_model
from udfs.planning.constraints import InfeasibleRequest, check_request
from udfs.planning.plan_making import freeze_partitions, make_plan
from udfs.planning.plan_metrics import MetricOptions, summarize_plan
from udfs.planning.plan_request import PlanRequest
from udfs.planning.plan_rows import (
    MOVES,
    PLAN,
    PLAN_METRICS,
    build_infeasible_row,
    build_metric_rows,
    build_move_rows,
    build_plan_row,
)
from udfs.planning.waves import WaveLimits

_INTS = pa.list_(pa.int32())
# Columns that a planner reads, without keys. No list is null.
_FLAGS = ("live", "draining", "follower_fetching", "cordoned")
_RELEASES = ("release_from", "release_before")
BROKERS = pa.schema(
    [
        ("broker_id", pa.int32()),
        ("rack", pa.string()),
        *((name, pa.bool_()) for name in _FLAGS),
        *((name, pa.int32()) for name in _RELEASES),
    ]
)
TOPICS = pa.schema(
    [
        ("topic", pa.string()),
        ("marked_for_deletion", pa.bool_()),
        ("min_insync_replicas", pa.int32()),
        ("replication_factor", pa.int32()),
    ]
)
PARTITIONS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("leader", pa.int32()),
        ("replicas", _INTS),
        ("isr", _INTS),
        ("adding_replicas", _INTS),
        ("removing_replicas", _INTS),
        ("offline_replicas", _INTS),
        ("replica_sizes", pa.list_(pa.int64())),
        ("size_bytes", pa.int64()),
        ("bytes_in_per_s", pa.float64()),
        ("bytes_out_per_s", pa.float64()),
    ]
)
INPUT_SCHEMAS = {"brokers": BROKERS, "topics": TOPICS, "partitions": PARTITIONS}
_KEYS = (("cluster_id", pa.string()), ("snapshot_id", pa.string()))
IPC_BATCHES = pa.schema([*_KEYS, ("goal", pa.string()), ("kind", pa.string()), ("ipc_batch", pa.binary())])
_PART_SCHEMAS = {"plan": PLAN, "metrics": PLAN_METRICS, "moves": MOVES}
PACKED_PLANS = pa.schema([*_KEYS, ("goal", pa.string()), *((part, pa.binary()) for part in _PART_SCHEMAS)])

Keys = tuple[pa.Scalar, ...]
Requests = Mapping[str, Sequence[PlanRequest]]  # By cluster, each of another goal


def make_packer(kind: str, requests: Requests) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make a function for `mapInArrow`: rows with cluster_id, snapshot_id and the columns of a kind -> IPC_BATCHES.

    Each request of a cluster gets all its rows.
    """
    schema = INPUT_SCHEMAS[kind]

    def pack(rows: pa.Table) -> Iterator[pa.RecordBatch]:
        for keys, part in ipc.split_by_values(rows, [name for name, _ in _KEYS]):
            if cluster_requests := requests.get(keys[0], ()):
                packed = ipc.pack_table(part.select(schema.names).cast(schema))
                for request in cluster_requests:
                    yield _one_row(IPC_BATCHES, *keys, request.goal, kind, packed).to_batches()[0]

    return lambda batches: ipc.rebatch(batches, pack)


def make_planner(
    requests: Requests, limits: WaveLimits, options: MetricOptions, defaults: TopicDefaults
) -> Callable[[Keys, pa.Table], pa.Table]:
    """Make a function for `applyInArrow` by cluster, snapshot and goal: IPC_BATCHES -> one row of PACKED_PLANS."""

    def plan(key: Keys, batches: pa.Table) -> pa.Table:
        cluster_id, snapshot_id, goal = (scalar.as_py() for scalar in key)
        request = next(request for request in requests[cluster_id] if request.goal == goal)
        brokers, partitions, topics = (
            ipc.unpack_tables(batches.filter(pc.field("kind") == kind)["ipc_batch"].to_pylist(), INPUT_SCHEMAS[kind])
            for kind in ("brokers", "partitions", "topics")
        )
        model = build_model(cluster_id, brokers, partitions, topics, request.exclude_topics, defaults)
        reasons: Sequence[str] = check_request(model, request)
        if not reasons:
            model = freeze_partitions(model, request)
            try:
                summary = summarize_plan(model, request, make_plan(model, request), limits, options)
            except InfeasibleRequest as error:
                reasons = error.reasons
        if reasons:
            parts = [build_infeasible_row(request, reasons), PLAN_METRICS.empty_table(), MOVES.empty_table()]
        else:
            parts = [build(request, summary) for build in (build_plan_row, build_metric_rows, build_move_rows)]
        return _one_row(PACKED_PLANS, cluster_id, snapshot_id, request.goal, *map(ipc.pack_table, parts))

    return plan


def _one_row(schema: pa.Schema, *values: str | bytes) -> pa.Table:
    arrays = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def schema_with_keys(part: str) -> pa.Schema:
    """Return the schema of a part of PACKED_PLANS, with the keys in front."""
    return pa.schema([*_KEYS, *_PART_SCHEMAS[part]])


def make_unpacker(part: str) -> Callable[[pa.Table], pa.Table]:
    """Make a function for `applyInArrow` by cluster, snapshot and goal: the keys and one part -> that part's rows."""

    def unpack(row: pa.Table) -> pa.Table:
        rows = ipc.unpack_tables(row[part].to_pylist(), _PART_SCHEMAS[part])
        keys = [pa.repeat(row[name][0], rows.num_rows) for name, _ in _KEYS]
        columns = [column.combine_chunks() for column in rows.columns]
        return pa.Table.from_arrays([*keys, *columns], schema=schema_with_keys(part))

    return unpack
