"""Whole clusters on their way to a planner, and plans on their way back: as Arrow IPC batches, one cluster a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow import ipc
from udfs.planning.cluster_model import model_of
from udfs.planning.constraints import Infeasible
from udfs.planning.plan_maker import make_plan, without_frozen
from udfs.planning.plan_metrics import Effort
from udfs.planning.plan_request import PlanRequest
from udfs.planning.plan_rows import MOVES, PLAN, move_rows, no_plan_row, plan_row
from udfs.planning.plan_summary import told
from udfs.planning.request_checks import nonsense
from udfs.planning.waves import Limits

_INTS = pa.list_(pa.int32())
# What a planner is told, without keys. No list is null.
BROKERS = pa.schema([("broker_id", pa.int32()), ("rack", pa.string()), ("live", pa.bool_()), ("draining", pa.bool_())])
TOPICS = pa.schema([("topic", pa.string()), ("marked_for_deletion", pa.bool_()), ("min_insync_replicas", pa.int32())])
PARTITIONS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("leader", pa.int32()),
        ("replicas", _INTS),
        ("adding_replicas", _INTS),
        ("removing_replicas", _INTS),
        ("size_bytes", pa.int64()),
        ("bytes_in_per_s", pa.float64()),
        ("bytes_out_per_s", pa.float64()),
    ]
)
KINDS = {"brokers": BROKERS, "topics": TOPICS, "partitions": PARTITIONS}
KEYED = (("cluster_id", pa.string()), ("snapshot_id", pa.string()))
IPC_BATCHES = pa.schema([*KEYED, ("kind", pa.string()), ("ipc_batch", pa.binary())])
PLANNED = pa.schema([*KEYED, ("goal", pa.string()), ("plan", pa.binary()), ("moves", pa.binary())])
_PARTS = {"plan": PLAN, "moves": MOVES}

Keys = tuple[pa.Scalar, ...]


def packer(kind: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: rows with cluster_id, snapshot_id and the columns of a kind -> IPC_BATCHES."""
    schema = KINDS[kind]

    def split(rows: pa.Table) -> Iterator[pa.RecordBatch]:
        codes = [pc.dictionary_encode(rows[name].combine_chunks()) for name, _ in KEYED]
        clusters, snapshots = (np.asarray(code.indices).astype(np.int64) for code in codes)
        key = clusters * len(codes[1].dictionary) + snapshots
        for one in np.unique(key).tolist():
            cluster, snapshot = divmod(one, len(codes[1].dictionary))
            part = rows.select(schema.names).filter(pa.array(key == one)).cast(schema)
            values = [codes[0].dictionary[cluster], codes[1].dictionary[snapshot], kind, ipc.packed(part)]
            arrays = [
                pa.array([v.as_py() if isinstance(v, pa.Scalar) else v], f.type)
                for v, f in zip(values, IPC_BATCHES, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=IPC_BATCHES)

    return lambda batches: ipc.in_ipc_batches(batches, split)


def planner(request: PlanRequest, limits: Limits, effort: Effort, min_isr: int) -> Callable[[Keys, pa.Table], pa.Table]:
    """For `applyInArrow` by cluster and snapshot: Arrow IPC batches -> one row of PLANNED.

    min_isr: of topics whose sources show none.
    """

    def plan(key: Keys, held: pa.Table) -> pa.Table:
        cluster_id, snapshot_id = (scalar.as_py() for scalar in key)
        tables = {
            kind: ipc.unpacked(held.filter(pc.field("kind") == kind)["ipc_batch"].to_pylist(), schema)
            for kind, schema in KINDS.items()
        }
        of_cluster = (tables["brokers"], tables["partitions"], tables["topics"])
        model = model_of(cluster_id, *of_cluster, request.exclude_topics, min_isr)
        model = without_frozen(model, request.goal)
        moves = MOVES.empty_table()
        reasons: list[str] | tuple[str, ...] = nonsense(model, request)
        try:
            proposal = None if reasons else make_plan(model, request)
        except Infeasible as error:
            proposal, reasons = None, error.reasons
        if proposal is None:
            row = no_plan_row(request, reasons)
        else:
            found = told(model, request, proposal, limits, effort)
            row, moves = plan_row(request, found), move_rows(request, found)
        values = [cluster_id, snapshot_id, request.goal, ipc.packed(row), ipc.packed(moves)]
        arrays = [pa.array([v], f.type) for v, f in zip(values, PLANNED, strict=True)]
        return pa.Table.from_arrays(arrays, schema=PLANNED)

    return plan


def keyed(part: str) -> pa.Schema:
    """The schema of a part of PLANNED - plan, moves - with the keys in front."""
    return pa.schema([*KEYED, *_PARTS[part]])


def unpacker(part: str) -> Callable[[pa.Table], pa.Table]:
    """For `applyInArrow` by cluster, snapshot and goal: a row with PLANNED's keys and one part -> that part's rows."""

    def rows(row: pa.Table) -> pa.Table:
        found = ipc.unpacked(row[part].to_pylist(), _PARTS[part])
        keys = [pa.repeat(row[name][0], found.num_rows) for name, _ in KEYED]
        columns = [column.combine_chunks() for column in found.columns]
        return pa.Table.from_arrays([*keys, *columns], schema=keyed(part))

    return rows
