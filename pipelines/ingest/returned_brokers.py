"""A cluster as it will be once brokers that are down or lag are back, with all of their replicas in sync."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.snapshot_reader import Snapshot
from udfs.arrow.columns import replace_columns, to_list_array, to_lists, to_numpy
from udfs.arrow.ragged import RaggedLists, any_true, count_true, first_true, is_in_segment, offsets_of, row_of
from udfs.failures.partition_health import find_expected
from udfs.failures.topic_defaults import TopicDefaults


def find_missing_brokers(snapshot: Snapshot, defaults: TopicDefaults) -> list[int]:
    """Find the brokers, by id, with replicas that should be in sync and are not; of topics that count."""
    topics = snapshot.topics["topic"].filter(pa.array(defaults.find_counted(snapshot.topics)))
    partitions = snapshot.partitions.filter(pc.is_in(snapshot.partitions["topic"], topics.combine_chunks()))
    replicas, isr = (to_lists(partitions[name]) for name in ("replicas", "isr"))
    lags = ~is_in_segment(replicas.values, replicas.offsets, isr.values, isr.offsets)
    lags &= find_expected(partitions, replicas.values, replicas.offsets)
    brokers: list[int] = np.unique(replicas.values[lags]).tolist()
    return brokers


def return_brokers(snapshot: Snapshot, ids: Sequence[int]) -> Snapshot:
    """Return the snapshot with these brokers live, and their replicas in the ISR, but for observers and new ones.

    A partition without a leader stays as it is unless one of these brokers was in sync there, which then leads.
    """
    brokers, partitions = snapshot.brokers, snapshot.partitions
    is_back = pc.is_in(brokers["broker_id"], pa.array(ids, pa.int32()))
    brokers = replace_columns(brokers, {"live": pc.or_kleene(is_back, brokers["live"])})
    replicas, isr, elr = (to_lists(partitions[name]) for name in ("replicas", "isr", "elr"))
    broker, offsets = replicas.values, replicas.offsets
    in_isr = is_in_segment(broker, offsets, isr.values, isr.offsets)
    is_returned = np.isin(broker, ids)
    returns = is_returned & find_expected(partitions, broker, offsets)
    # Without a leader, only a replica that was in sync may lead, and the others copy from it.
    has_leader = to_numpy(partitions["leader"], -1) >= 0
    may_lead = is_returned & (in_isr | is_in_segment(broker, offsets, elr.values, elr.offsets))
    first = first_true(may_lead, offsets)
    returns &= (has_leader | (first >= 0))[row_of(offsets)]
    is_affected, in_sync = any_true(returns, offsets), returns | in_isr
    new_isr = RaggedLists(broker[in_sync], offsets_of(count_true(in_sync, offsets)), replicas.valid)
    leads = is_affected & ~has_leader
    leader = np.zeros(len(leads), dtype=np.int32)
    leader[leads] = broker[first[leads]]
    affected = pa.array(is_affected)
    nothing = {name: pa.nulls(len(leads), partitions.schema.field(name).type) for name in ("elr", "last_known_elr")}
    columns = {"isr": to_list_array(new_isr), **nothing}
    changes = {name: pc.if_else(affected, new, partitions[name]) for name, new in columns.items()}
    changes["leader"] = pc.if_else(pa.array(leads), pa.array(leader), partitions["leader"])
    return replace(snapshot, brokers=brokers, partitions=replace_columns(partitions, changes))
