"""Completes the state of partitions: leaders and ISRs that no source shows, and their health.

This needs the brokers of the whole cluster. `what-if` and the pipeline call the same functions. A replica on an
unregistered broker is legitimate: that broker is down.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.entities import INFERRED_PARTITIONS, STATE_INFERRED
from pipelines.ingest.merge.live_brokers import get_down_brokers, get_live_brokers, get_releases, get_unknown_brokers
from udfs.arrow.columns import (
    is_in_lists,
    is_valid,
    replace_columns,
    to_array,
    to_flags,
    to_list_array,
    to_lists,
    to_numpy,
)
from udfs.arrow.ragged import RaggedLists, count_true, first_true, offsets_of, row_of
from udfs.failures.partition_health import HEALTH_COLUMNS, LiveBrokerRacks, TopicRules, find_health, number_racks
from udfs.failures.topic_defaults import TopicDefaults


def infer_state(partitions: pa.Table, brokers: pa.Table) -> pa.Table:
    """Infer leader and ISR of n partitions where no source shows them: PARTITIONS -> INFERRED_PARTITIONS.

    They are as healthy as the live brokers allow. A replica is out if its broker is down, if it is being added, or if
    it is an observer. An unknown ISR is the leader and the replicas that are not out, or empty if there is no leader;
    an unknown leader is the first replica in the ISR that is not out. Without replicas, leader and ISR stay as they
    are: a ZooKeeper dump may have a partition's state without its assignment.
    """
    replicas, isr = to_lists(partitions["replicas"]), to_lists(partitions["isr"])

    def is_in(name: str) -> npt.NDArray[np.bool_]:
        return is_in_lists(replicas, partitions[name])

    is_out = np.isin(replicas.values, get_down_brokers(brokers)) | is_in("adding_replicas") | is_in("observers")
    knows_leader = is_valid(partitions["leader"])
    leaders = to_numpy(partitions["leader"], -1).astype(np.int32)
    needs_leader = replicas.valid & ~knows_leader
    needs_isr = replicas.valid & ~isr.valid & ~(knows_leader & (leaders < 0))
    row = row_of(replicas.offsets)
    of_unknown_isr = needs_isr[row]
    is_inside = ~is_out | (knows_leader[row] & (replicas.values == leaders[row]))
    first = first_true((is_in("isr") | of_unknown_isr) & is_inside, replicas.offsets)
    first_in_sync = np.where(first >= 0, replicas.values[first] if len(replicas.values) else -1, -1)
    leaders = np.where(needs_leader, first_in_sync, leaders).astype(np.int32)

    offsets = offsets_of(np.where(needs_isr, count_true(is_inside, replicas.offsets), isr.lengths))
    values = np.empty(int(offsets[-1]), dtype=np.int32)
    is_inferred = needs_isr[row_of(offsets)]
    values[is_inferred] = replicas.values[is_inside & of_unknown_isr]
    values[~is_inferred] = isr.values[~needs_isr[row_of(isr.offsets)]]
    columns = {
        "leader": pa.array(leaders, mask=~(replicas.valid | knows_leader)),
        "isr": to_list_array(RaggedLists(values, offsets, replicas.valid | isr.valid)),
    }
    inferred = replace_columns(partitions, columns).append_column(STATE_INFERRED, pa.array(needs_leader | needs_isr))
    return inferred.select(INFERRED_PARTITIONS.names).cast(INFERRED_PARTITIONS)


def add_health(partitions: pa.Table, topics: pa.Table, brokers: pa.Table, defaults: TopicDefaults) -> pa.Table:
    """Append HEALTH_COLUMNS to partitions (schema INFERRED_PARTITIONS).

    topics: those of the partitions, at least; brokers: id, state, rack and releases of all brokers of
    the cluster.
    """
    at_topic = pc.index_in(to_array(partitions["topic"]), value_set=to_array(topics["topic"]))
    min_isr, unclean = (
        to_array(topics[name]).take(at_topic) for name in ("min_insync_replicas", "unclean_leader_election")
    )
    replicas = to_lists(partitions["replicas"]).lengths
    defaults = defaults.adapt_to(get_releases(brokers))
    rules = TopicRules(defaults.fill_min_isr(min_isr, replicas), np.array(to_flags(defaults.fill_unclean(unclean))))
    racks = dict(zip(brokers["broker_id"].to_pylist(), brokers["rack"].to_pylist(), strict=True))
    ids = get_live_brokers(brokers)
    live = LiveBrokerRacks(ids, number_racks([racks[i] for i in ids.tolist()]), get_unknown_brokers(brokers))
    health = find_health(partitions, live, rules)
    for field in HEALTH_COLUMNS:
        partitions = partitions.append_column(field, health[field.name])
    return partitions
