"""The hottest broker of one cluster: now, and by each scheme over many seeds."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import to_array, to_numpy
from udfs.hotspots.hotspot_distribution import PlacementTrial, SchemeHotspots, TrialOptions
from udfs.hotspots.leader_counting import read_cluster_topics
from udfs.placement.topic_batches import LiveBrokers


@dataclass(frozen=True)
class ObservedLeaders:
    """Leaders on live brokers now; None if no live broker leads a partition."""

    leaders: int
    hottest_broker: int | None = None
    leaders_max: int | None = None
    max_over_mean_ratio: float | None = None
    single_partition_leaders_max: int | None = None


@dataclass(frozen=True)
class ClusterHotspots:
    """Hotspots of a cluster: observed, and by scheme with seeds from `run_seed`."""

    cluster: str
    live_brokers: int
    topics: int
    run_seed: int
    observed: ObservedLeaders
    schemes: dict[str, SchemeHotspots]


def count_observed_leaders(
    ids: np.ndarray, topics: pa.Table, partitions: pa.Table
) -> tuple[np.ndarray, ObservedLeaders]:
    """Count the leaders of each live broker (ids: ascending), and summarise them."""
    partitions = partitions.filter(pc.is_valid(partitions["replicas"]))
    leader = to_numpy(partitions["leader"], -1)
    single_partition_topics = to_array(topics["topic"].filter(pc.equal(topics["partitions"], 1)))
    is_single = np.asarray(pc.is_in(to_array(partitions["topic"]), value_set=single_partition_topics))
    live = np.isin(leader, ids)
    leaders, single = (
        np.bincount(np.searchsorted(ids, leader[rows]), minlength=len(ids)) for rows in (live, live & is_single)
    )
    total = int(leaders.sum())
    if not total:
        return leaders, ObservedLeaders(total)
    most, hottest = int(leaders.max()), int(ids[leaders.argmax()])
    return leaders, ObservedLeaders(total, hottest, most, most * len(ids) / total, int(single.max()))


def find_hotspots(
    cluster: str, brokers: LiveBrokers, topics: pa.Table, partitions: pa.Table, options: TrialOptions
) -> ClusterHotspots:
    """Find the hottest broker of a cluster, now and by each scheme over many seeds.

    Args:
        cluster: Name of the cluster, which determines its topics' seeds.
        brokers: Live brokers, by id.
        topics: As silver.topics.
        partitions: As silver.partitions.
        options: Schemes and seeds to try.
    """
    leaders, observed = count_observed_leaders(np.asarray(brokers.ids, dtype=np.int64), topics, partitions)
    cluster_topics = read_cluster_topics(cluster, topics)
    schemes: dict[str, SchemeHotspots] = {}
    for scheme in options.schemes:
        trial = PlacementTrial.create(scheme, cluster_topics, brokers, options.seeds, options.max_placed_topics)
        facts, hottest = trial.find_facts(leaders.tolist()), trial.find_hottest(options.run_seed)
        schemes[scheme] = SchemeHotspots.create(facts, *hottest, options.thresholds)
    return ClusterHotspots(cluster, len(brokers.ids), topics.num_rows, options.run_seed, observed, schemes)
