"""The cluster once brokers are down that its sources show as live, or of which they show nothing."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.kraft_merge import find_voters
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.what_if.what_if_answers import model_snapshot
from udfs.arrow.columns import is_valid, replace_columns, to_list_array, to_lists, to_numpy
from udfs.arrow.ragged import RaggedLists, count_true, offsets_of, row_of
from udfs.failures.kernels.election import NO_BROKER, ElectedFrom
from udfs.failures.partition_arrays import elect_after
from udfs.failures.topic_defaults import TopicDefaults


def fail_brokers(snapshot: Snapshot, ids: Sequence[int], defaults: TopicDefaults) -> Snapshot:
    """Return the snapshot with these brokers down, their replicas out of sync, and leaders as Kafka elects them.

    The ISR of a partition that goes offline stays as it was, as any of these replicas may lead it again.

    Raises: SourceError if the sources show no replicas.
    """
    _, placement, aggregates = model_snapshot(snapshot, defaults)
    group, partitions = placement.group, snapshot.partitions
    fails = np.append(np.isin(aggregates.ids, ids), False)  # NO_BROKER does not fail
    elects = find_voters(snapshot.quorum, snapshot.brokers).elects_without(ids)
    elected, elected_from = elect_after(group, fails[group.broker], elects)
    known = is_valid(partitions["replicas"])
    leader = to_numpy(partitions["leader"], NO_BROKER).astype(np.int32)
    leader[known] = np.append(aggregates.ids, NO_BROKER)[elected]
    is_alone = np.zeros(len(leader), dtype=np.bool_)  # a leader that was not in the ISR is the whole ISR
    is_alone[known] = np.isin(elected_from, (ElectedFrom.ELR, ElectedFrom.UNCLEAN))
    isr = to_lists(partitions["isr"])
    stays = ~np.isin(isr.values, ids) | (leader == NO_BROKER)[row_of(isr.offsets)]
    rest = RaggedLists(isr.values[stays], offsets_of(count_true(stays, isr.offsets)), isr.valid)
    alone = RaggedLists(leader, np.arange(len(leader) + 1), isr.valid)
    leaders = pc.if_else(pc.is_valid(partitions["leader"]), pa.array(leader), partitions["leader"])
    changes = {"isr": pc.if_else(pa.array(is_alone), to_list_array(alone), to_list_array(rest)), "leader": leaders}
    brokers = snapshot.brokers
    is_down = pc.is_in(brokers["broker_id"], pa.array(ids, pa.int32()))
    state = {
        "live": pc.and_kleene(pc.invert(is_down), brokers["live"]),
        "live_reason": pc.if_else(is_down, "as --down says", brokers["live_reason"]),
    }
    return replace(snapshot, brokers=replace_columns(brokers, state), partitions=replace_columns(partitions, changes))
