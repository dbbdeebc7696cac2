"""The health of a cluster's partitions, from what its sources show: the same for `what-if` and silver.partitions."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.live_brokers import get_caps, get_live_brokers, get_unknown_brokers
from udfs.arrow.columns import to_array, to_flags, to_lists
from udfs.failures.partition_health import HEALTH_COLUMNS, LiveBrokerRacks, TopicRules, find_health, number_racks
from udfs.failures.topic_defaults import TopicDefaults


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
