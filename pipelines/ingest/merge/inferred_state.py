"""Infers what sources do not show: which brokers are live, and leader and ISR of partitions without a state.

Both need the brokers of the whole cluster. `what-if` and the pipeline call the same functions. A replica on an
unregistered broker is legitimate: that broker is down.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.entities import BROKERS, CONFLICTS, FIRST_USED, INFERRED_PARTITIONS, STATE_INFERRED, USAGE
from udfs.arrow.columns import is_valid, to_array, to_flags, to_list_array, to_lists, to_numpy
from udfs.arrow.ragged import RaggedLists, count_true, first_true, offsets_of, row_of
from udfs.plurals import count_of

# What leader and ISR of a partition become.
STATE = pa.struct([INFERRED_PARTITIONS.field("leader"), INFERRED_PARTITIONS.field("isr"), STATE_INFERRED])


def count_usage(partitions: pa.Table) -> pa.Table:
    """Count what each broker does in these partitions (schema USAGE; partitions: schema PARTITIONS)."""
    replicas, isr = to_lists(partitions["replicas"]), to_lists(partitions["isr"])
    leader = to_numpy(partitions["leader"], -1).astype(np.int64)
    has_leader = np.repeat(leader >= 0, isr.lengths)
    unknown = np.repeat(~is_valid(partitions["leader"]) & ~isr.valid, replicas.lengths)
    counted = (replicas.values, leader[leader >= 0], isr.values[has_leader], replicas.values[unknown])
    # The ISR of a leaderless partition counts as nothing, but names brokers: its replicas may be unknown.
    # Each part has few distinct ids; sorting all replicas at once costs more than all the rest.
    distinct = [np.unique(part, return_counts=True) for part in (*counted, isr.values)]
    ids = np.unique(np.concatenate([result.astype(np.int64) for result, _ in distinct]))
    counts = np.zeros((len(counted), len(ids)), dtype=np.int64)
    for row, (result, count) in zip(counts, distinct, strict=False):
        row[np.searchsorted(ids, result)] = count
    return pa.Table.from_arrays([pa.array(ids, pa.int32()), *map(pa.array, counts)], schema=USAGE)


def infer_brokers(registrations: pa.Table, usage: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return (a cluster's brokers, schema BROKERS; conflicts: down brokers that lead partitions all the same).

    Broker ids are unique in registrations (schema REGISTRATIONS) and in usage (schema USAGE).
    """
    declared = {row["broker_id"]: row for row in registrations.to_pylist()}
    used = {row["broker_id"]: row for row in usage.to_pylist()}
    shows_registrations = any(row["registered"] for row in declared.values())
    defaults = {**dict.fromkeys(registrations.schema.names), **dict.fromkeys(USAGE.names, 0)}
    rows = []
    for broker_id in sorted(declared.keys() | used.keys()):
        row = {**defaults, **declared.get(broker_id, {}), **used.get(broker_id, {}), "broker_id": broker_id}
        only_in_isr = broker_id in used and not row["replicas"]  # of leaderless partitions with unknown replicas
        row["live"], row["live_reason"] = _infer_live(row, shows_registrations, only_in_isr)
        row.update(draining=bool(row["draining"]), controller=bool(row["controller"]))
        rows.append({name: row[name] for name in BROKERS.names})
    brokers = pa.Table.from_pylist(rows, BROKERS)
    return brokers, find_leading_down_brokers(brokers)


def _infer_live(row: dict[str, Any], shows_registrations: bool, only_in_isr: bool) -> tuple[bool, str]:
    evidence = (  # the strongest first
        (row["registered"] is False, False, "unregistered"),
        (row["fenced"], False, "fenced"),
        (row["registered"], True, "registered"),
        (row["answers"], True, "answers"),
        # Also where registrations are shown: they may be an excerpt.
        (row["leaders"] or row["in_sync"], True, "leads or is in sync"),
        (row["controller"], True, "is the controller"),  # an ephemeral znode: it disappears with its broker
        (row["listed"] is False, False, "not in the broker list"),  # a model's `removed` may still name it
        (shows_registrations, False, "not registered"),
        (row["unknown"] == row["replicas"] and not only_in_isr, True, "nothing says otherwise"),
    )
    return next(((live, why) for holds, live, why in evidence if holds), (False, "no leaders, and in no ISR"))


def find_leading_down_brokers(brokers: pa.Table) -> pa.Table:
    """Return a conflict (schema CONFLICTS) for each down broker (schema BROKERS) that leads partitions all the same."""
    rows = brokers.filter(pc.and_(pc.invert(brokers["live"]), pc.greater(brokers["leaders"], 0)))
    conflicts = [
        {
            "entity": f"broker {row['broker_id']}",
            "field": "live",
            "value": f"down: {row['live_reason']}",
            "other_value": f"leads {count_of(row['leaders'], 'partition')}",
            "outcome": FIRST_USED,
        }
        for row in rows.to_pylist()
    ]
    return pa.Table.from_pylist(conflicts, CONFLICTS)


def infer_state(partitions: pa.Table, brokers: pa.Table) -> pa.Table:
    """Infer leader and ISR where no source shows them (a reassignment, a model): PARTITIONS -> INFERRED_PARTITIONS."""
    replicas = to_lists(partitions["replicas"])
    is_down = np.isin(replicas.values, get_down_brokers(brokers))
    state = infer_leader_and_isr(replicas, to_array(partitions["leader"]), to_lists(partitions["isr"]), is_down)
    columns = {name: partitions[name] for name in partitions.schema.names}
    columns |= dict(zip(STATE.names, state.flatten(), strict=True))
    return pa.table(columns).select(INFERRED_PARTITIONS.names).cast(INFERRED_PARTITIONS)


def infer_leader_and_isr(
    replicas: RaggedLists, leader: pa.Array, isr: RaggedLists, is_down: npt.NDArray[np.bool_]
) -> pa.StructArray:
    """Infer leader and ISR of n partitions where neither is known: as healthy as the live brokers allow.

    The ISR is the live replicas, the leader the first of them. Without replicas, leader and ISR stay as they are: a
    ZooKeeper dump may have a partition's state without its assignment. leader: int32 (n), -1 = none, null = unknown;
    is_down: for each flat replica, whether its broker is down. Returns structs of type STATE (n).
    """
    unknown = replicas.valid & ~is_valid(leader) & ~isr.valid
    first = first_true(~is_down, replicas.offsets)
    first_live = np.where(first >= 0, replicas.values[first] if len(replicas.values) else -1, -1)
    leaders = np.where(unknown, first_live, to_numpy(leader, -1)).astype(np.int32)

    offsets = offsets_of(np.where(unknown, count_true(~is_down, replicas.offsets), isr.lengths))
    values = np.empty(int(offsets[-1]), dtype=np.int32)
    is_inferred = unknown[row_of(offsets)]
    values[is_inferred] = replicas.values[~is_down & unknown[row_of(replicas.offsets)]]
    values[~is_inferred] = isr.values[~unknown[row_of(isr.offsets)]]
    columns = [
        pa.array(leaders, mask=~(replicas.valid | is_valid(leader))),
        to_list_array(RaggedLists(values, offsets, replicas.valid | isr.valid)),
        pa.array(unknown),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(STATE))


def get_down_brokers(brokers: pa.Table) -> npt.NDArray[np.int32]:
    """Return the ids (int32) of the down brokers of a table (schema BROKERS)."""
    return to_numpy(brokers["broker_id"]).astype(np.int32)[~to_flags(brokers["live"])]


def get_live_brokers(brokers: pa.Table) -> npt.NDArray[np.int32]:
    """Return the ids (int32, ascending) of the live brokers of a table (schema BROKERS)."""
    return np.sort(to_numpy(brokers["broker_id"]).astype(np.int32)[to_flags(brokers["live"])])
