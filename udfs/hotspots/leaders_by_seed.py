"""Count the leaders and replicas of each broker for many seeds, by each scheme."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import to_array, to_numpy
from udfs.arrow.ragged import offsets_of, take_segments
from udfs.hotspots.kernels import leader_counts
from udfs.hotspots.kernels.leader_counts import ClusterTopics, SeedCounts
from udfs.placement.kernels.java_util import scramble_seeds
from udfs.placement.kernels.round_robin import alternate_racks
from udfs.placement.kernels.topic_arrays import (
    NO_RACK,
    BrokerLists,
    Codes,
    Ints,
    Topics,
    check_admin_utils,
    check_striped,
)
from udfs.placement.kernels.topic_seeds import Words, combine_seeds, hash_topic_names
from udfs.placement.schemes import KAFKA, KAFKA_RACK_UNAWARE, KRAFT, NAIVE, find_place_function
from udfs.placement.topic_placement import get_utf8_buffers


def read_cluster_topics(cluster: str, topics: pa.Table) -> ClusterTopics:
    """Read a cluster's topics from columns topic, partitions, replication_factor, partition_loads of silver.topics."""
    partitions, loads = to_array(topics["partitions"]), to_array(topics["partition_loads"])
    ids = to_numpy(pc.struct_field(loads.flatten(), "partition")).astype(np.int64)
    offsets = offsets_of(to_numpy(pc.list_value_length(loads)))
    last = np.maximum.reduceat(np.append(ids, -1), offsets[:-1]) if len(offsets) > 1 else offsets[:-1]
    count = to_numpy(partitions).astype(np.int64)
    # A topic with loads lists all of its partitions: the ids matter only if some are missing.
    gaps = ~((np.diff(offsets) == count) & (last == count - 1))
    selected, selected_offsets = take_segments(ids, offsets, np.flatnonzero(gaps))
    lengths = np.zeros(len(count), dtype=np.int64)
    lengths[gaps] = np.diff(selected_offsets)
    names = hash_names(pa.array([cluster] * len(count), pa.string()), to_array(topics["topic"]).cast(pa.string()))
    factor = to_numpy(topics["replication_factor"]).astype(np.int64)
    hashes = names.to_numpy().view(np.uint64)
    return ClusterTopics(hashes, count, factor, selected.astype(np.int64), offsets_of(lengths))


def hash_names(cluster: pa.Array, topic: pa.Array) -> pa.Array:
    """Return `ClusterTopics.name_hash` as int64, from strings without nulls. Body of a scalar Arrow UDF."""
    hashes = hash_topic_names(get_utf8_buffers(cluster), get_utf8_buffers(topic))
    return pa.array(hashes.view(np.int64), pa.int64())


def _create_topics(topics: ClusterTopics) -> Topics:
    ids = {"partition_ids": topics.partition_ids, "partition_id_offsets": topics.partition_id_offsets}
    return Topics.create(topics.partitions, topics.replication_factor, np.zeros_like(topics.partitions), **ids)


def find_errors(scheme: str, topics: ClusterTopics, lists: BrokerLists) -> Codes:
    """Return the error code of each topic by this scheme: int8 (t)."""
    requests = _create_topics(topics)
    return check_striped(requests, lists) if scheme == KRAFT else check_admin_utils(requests, lists, scheme == KAFKA)


def estimate_cost(scheme: str, topics: ClusterTopics, lists: BrokerLists) -> int:
    """Estimate the cost of a seed: arithmetic operations on topics, or replicas, and brokers."""
    n = len(lists.ids)
    if scheme == KRAFT:
        shuffles = np.where(topics.partitions > n, topics.partitions, 1)
        placed = topics.partitions * topics.replication_factor
        return n + int(np.where(_needs_no_placing(topics, lists), shuffles, placed).sum())
    pairs = n * n if scheme == KAFKA and n and lists.rack[0] != NO_RACK else 0
    return n + len(topics.name_hash) + len(topics.partition_ids) + pairs


def create_counts(seeds: int, brokers: int) -> SeedCounts:
    """Allocate counts of zero."""
    return SeedCounts(*(np.zeros((seeds, brokers), dtype=np.int64) for _ in range(2)))


def _restore_order(counts: SeedCounts, order: Ints) -> SeedCounts:
    """Return counts with brokers in the order of the list; order: their indices in the list."""
    back = np.argsort(order)
    return SeedCounts(counts.leaders[:, back], counts.replicas[:, back])


def _count_round_robin(topics: ClusterTopics, order: Ints, run_words: Words, is_random: bool) -> SeedCounts:
    counts = create_counts(len(run_words), len(order))
    leader_counts.count_round_robin(run_words, topics, leader_counts.find_arcs(topics, len(order)), is_random, counts)
    return _restore_order(counts, order)


def _count_rack_aware(topics: ClusterTopics, lists: BrokerLists, run_words: Words) -> SeedCounts:
    ids, rack = np.empty_like(lists.ids), np.empty_like(lists.rack)
    racks = alternate_racks(lists.ids, lists.broker_rank(), ids, rack)
    by_id = np.argsort(lists.ids)
    order = by_id[np.searchsorted(lists.ids[by_id], ids)]
    counts = create_counts(len(run_words), len(order))
    for factor in np.unique(topics.replication_factor).tolist():
        group = topics.select(topics.replication_factor == factor)
        leader_counts.count_rack_aware(
            run_words, group, leader_counts.find_arcs(group, len(order)), rack, racks, counts
        )
    return _restore_order(counts, order)


def _count_kraft(topics: ClusterTopics, lists: BrokerLists, run_words: Words) -> SeedCounts:
    order = np.argsort(lists.ids)
    counts = create_counts(len(run_words), len(order))
    places = np.argsort(order).astype(np.int32)  # by id, as the placement sorts them
    simple = _needs_no_placing(topics, lists)
    if simple.any():
        leader_counts.count_striped_one_rack(run_words, topics.select(simple), counts)
    if not simple.all():
        leader_counts.count_striped(
            run_words, topics.select(~simple), places, lists.broker_rank(), lists.broker_hash(), counts
        )
    return _restore_order(counts, order)


def _needs_no_placing(topics: ClusterTopics, lists: BrokerLists) -> np.ndarray:
    """Return the topics (bool, t) that KRaft's scheme need not place: whole ones, if all brokers are in one rack."""
    is_one_rack = len(np.unique(lists.rack)) == 1
    return np.asarray((np.diff(topics.partition_id_offsets) == 0) & is_one_rack)


def count_by_placing(scheme: str, topics: ClusterTopics, lists: BrokerLists, run_words: Words) -> SeedCounts:
    """Count leaders and replicas by placing the topics with every seed; works for every scheme."""
    place = find_place_function(scheme)
    requests = _create_topics(topics)
    counts = create_counts(len(run_words), len(lists.ids))
    by_id = np.argsort(lists.ids)
    for s, run_word in enumerate(run_words):
        placements = place(requests, lists, scramble_seeds(combine_seeds(topics.name_hash, run_word)))
        at = by_id[np.searchsorted(lists.ids[by_id], placements.broker)]
        counts.replicas[s] = np.bincount(at, minlength=len(by_id))
        counts.leaders[s] = np.bincount(at[placements.replica_offsets[:-1]], minlength=len(by_id))
    return counts


def count_replicas(scheme: str, topics: ClusterTopics, lists: BrokerLists, run_words: Words) -> SeedCounts:
    """Count leaders and replicas by seed (run_words of `mix_run_seeds`) and broker; topics can be placed."""
    n = len(lists.ids)
    if not len(run_words):
        return create_counts(0, n)
    if scheme == KRAFT:
        return _count_kraft(topics, lists, run_words)
    if scheme == NAIVE:
        return _count_round_robin(topics, np.argsort(lists.ids), run_words, is_random=False)
    if scheme == KAFKA and lists.rack[0] != NO_RACK:
        return _count_rack_aware(topics, lists, run_words)
    if scheme in (KAFKA, KAFKA_RACK_UNAWARE):
        return _count_round_robin(topics, np.arange(n), run_words, is_random=True)
    return count_by_placing(scheme, topics, lists, run_words)
