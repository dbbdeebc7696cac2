"""A cluster as it will be once brokers that are down or lag are back, with all of their replicas in sync."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.live_brokers import get_down_brokers
from pipelines.ingest.snapshot_reader import Snapshot
from udfs.arrow.columns import to_list_array, to_lists, to_numpy
from udfs.arrow.ragged import RaggedLists, any_true, count_true, first_true, is_in_segment, offsets_of
from udfs.failures.partition_health import find_expected


def find_missing_brokers(snapshot: Snapshot) -> list[int]:
    """Find the brokers, by id, with replicas that should be in sync and are not, and those that are down."""
    replicas, isr = (to_lists(snapshot.partitions[name]) for name in ("replicas", "isr"))
    lags = ~is_in_segment(replicas.values, replicas.offsets, isr.values, isr.offsets)
    lags &= find_expected(snapshot.partitions, replicas.values, replicas.offsets)
    return sorted({*get_down_brokers(snapshot.brokers).tolist(), *np.unique(replicas.values[lags]).tolist()})


def return_brokers(snapshot: Snapshot, ids: Sequence[int]) -> Snapshot:
    """Return the snapshot with these brokers live, and their replicas in the ISR, but for observers and new ones.

    A partition without a leader that has a replica there is led by the first replica of its new ISR.
    """
    brokers, partitions = snapshot.brokers, snapshot.partitions
    is_back = pc.is_in(brokers["broker_id"], pa.array(ids, pa.int32()))
    brokers = _set_columns(brokers, {"live": pc.or_kleene(is_back, brokers["live"])})
    replicas, isr = to_lists(partitions["replicas"]), to_lists(partitions["isr"])
    offsets = replicas.offsets
    returns = np.isin(replicas.values, ids) & find_expected(partitions, replicas.values, offsets)
    in_sync = returns | is_in_segment(replicas.values, offsets, isr.values, isr.offsets)
    new_isr = RaggedLists(replicas.values[in_sync], offsets_of(count_true(in_sync, offsets)), replicas.valid)
    is_affected = any_true(returns, offsets)
    leads = is_affected & (to_numpy(partitions["leader"], -1) < 0)
    leader = np.zeros(len(leads), dtype=np.int32)
    leader[leads] = replicas.values[first_true(in_sync, offsets)[leads]]
    affected = pa.array(is_affected)
    nothing = {name: pa.nulls(len(leads), partitions.schema.field(name).type) for name in ("elr", "last_known_elr")}
    columns = {"isr": to_list_array(new_isr), **nothing}
    changes = {name: pc.if_else(affected, new, partitions[name]) for name, new in columns.items()}
    changes["leader"] = pc.if_else(pa.array(leads), pa.array(leader), partitions["leader"])
    return replace(snapshot, brokers=brokers, partitions=_set_columns(partitions, changes))


def _set_columns(table: pa.Table, columns: dict[str, pa.ChunkedArray]) -> pa.Table:
    for name, values in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), values)
    return table
