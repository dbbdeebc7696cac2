"""Completes the state of partitions: leaders and ISRs that no source shows, and their health.

This needs the brokers of the whole cluster. `what-if` and the pipeline call the same functions. A replica on an
unregistered broker is legitimate: that broker is down.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.entities import INFERRED_PARTITIONS, STATE_INFERRED
from pipelines.ingest.merge.live_brokers import get_caps, get_down_brokers, get_live_brokers, get_unknown_brokers
from udfs.arrow.columns import is_valid, to_array, to_flags, to_list_array, to_lists, to_numpy
from udfs.arrow.ragged import RaggedLists, count_true, first_true, is_in_segment, offsets_of, row_of
from udfs.failures.partition_health import HEALTH_COLUMNS, LiveBrokerRacks, TopicRules, find_health, number_racks
from udfs.failures.topic_defaults import TopicDefaults

# Lists of replicas that are not in the ISR as long as no source shows it, even if their brokers are live.
NEVER_INFERRED_IN_SYNC = ("adding_replicas", "observers")
# What leader and ISR of a partition become.
STATE = pa.struct([INFERRED_PARTITIONS.field("leader"), INFERRED_PARTITIONS.field("isr"), STATE_INFERRED])


def infer_state(partitions: pa.Table, brokers: pa.Table) -> pa.Table:
    """Infer leader and ISR where no source shows them (a reassignment, a model): PARTITIONS -> INFERRED_PARTITIONS."""
    replicas = to_lists(partitions["replicas"])
    is_out = np.isin(replicas.values, get_down_brokers(brokers))
    for name in NEVER_INFERRED_IN_SYNC:
        lists = to_lists(partitions[name])
        is_out |= is_in_segment(replicas.values, replicas.offsets, lists.values, lists.offsets)
    state = infer_leader_and_isr(replicas, to_array(partitions["leader"]), to_lists(partitions["isr"]), is_out)
    columns = {name: partitions[name] for name in partitions.schema.names}
    columns |= dict(zip(STATE.names, state.flatten(), strict=True))
    return pa.table(columns).select(INFERRED_PARTITIONS.names).cast(INFERRED_PARTITIONS)


def infer_leader_and_isr(
    replicas: RaggedLists, leader: pa.Array, isr: RaggedLists, is_out: npt.NDArray[np.bool_]
) -> pa.StructArray:
    """Infer leader and ISR of n partitions where they are not known: as healthy as the live brokers allow.

    An unknown ISR is the leader and the replicas that are not out, or empty if there is no leader; an unknown leader is
    the first replica in the ISR that is not out. Without replicas, leader and ISR stay as they are: a ZooKeeper dump
    may have a partition's state without its assignment. leader: int32 (n), -1 = none, null = unknown; is_out: for each
    flat replica, whether its broker is down, or it is in a list of NEVER_INFERRED_IN_SYNC. Returns structs of type
    STATE (n).
    """
    knows_leader = is_valid(leader)
    leaders = to_numpy(leader, -1).astype(np.int32)
    needs_leader = replicas.valid & ~knows_leader
    needs_isr = replicas.valid & ~isr.valid & ~(knows_leader & (leaders < 0))
    row = row_of(replicas.offsets)
    of_unknown_isr = needs_isr[row]
    is_inside = ~is_out | (knows_leader[row] & (replicas.values == leaders[row]))
    in_sync = is_in_segment(replicas.values, replicas.offsets, isr.values, isr.offsets) | of_unknown_isr
    first = first_true(in_sync & is_inside, replicas.offsets)
    first_in_sync = np.where(first >= 0, replicas.values[first] if len(replicas.values) else -1, -1)
    leaders = np.where(needs_leader, first_in_sync, leaders).astype(np.int32)

    offsets = offsets_of(np.where(needs_isr, count_true(is_inside, replicas.offsets), isr.lengths))
    values = np.empty(int(offsets[-1]), dtype=np.int32)
    is_inferred = needs_isr[row_of(offsets)]
    values[is_inferred] = replicas.values[is_inside & of_unknown_isr]
    values[~is_inferred] = isr.values[~needs_isr[row_of(isr.offsets)]]
    columns = [
        pa.array(leaders, mask=~(replicas.valid | knows_leader)),
        to_list_array(RaggedLists(values, offsets, replicas.valid | isr.valid)),
        pa.array(needs_leader | needs_isr),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(STATE))


def add_health(partitions: pa.Table, topics: pa.Table, brokers: pa.Table, defaults: TopicDefaults) -> pa.Table:
    """Append HEALTH_COLUMNS to partitions (schema INFERRED_PARTITIONS).

    topics: those of the partitions, at least; brokers: id, state, rack and caps_min_isr of all brokers of
    the cluster.
    """
    at_topic = pc.index_in(to_array(partitions["topic"]), value_set=to_array(topics["topic"]))
    min_isr, unclean = (
        to_array(topics[name]).take(at_topic) for name in ("min_insync_replicas", "unclean_leader_election")
    )
    replicas = to_lists(partitions["replicas"]).lengths
    defaults = defaults.adapt_to(get_caps(brokers))
    rules = TopicRules(defaults.fill_min_isr(min_isr, replicas), np.array(to_flags(defaults.fill_unclean(unclean))))
    health = find_health(partitions, _select_live(brokers), rules)
    for field in HEALTH_COLUMNS:
        partitions = partitions.append_column(field, health[field.name])
    return partitions


def _select_live(brokers: pa.Table) -> LiveBrokerRacks:
    by_id = dict(zip(brokers["broker_id"].to_pylist(), brokers["rack"].to_pylist(), strict=True))
    ids = get_live_brokers(brokers)
    return LiveBrokerRacks(ids, number_racks([by_id[broker] for broker in ids.tolist()]), get_unknown_brokers(brokers))
