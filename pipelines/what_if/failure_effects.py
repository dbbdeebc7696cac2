"""What the failure of some brokers does to partitions that are fine now, and what makes them vulnerable."""

import numpy as np
import pyarrow as pa

from pipelines.verdict.cluster_evidence import MAX_NAMED
from pipelines.verdict.failure_causes import FailureEffects
from pipelines.verdict.snapshot_findings import PartitionFlags, count_by_topic
from udfs.arrow.columns import to_array, to_lists
from udfs.arrow.ragged import any_true, count_true, row_of
from udfs.failures.failed_log_dirs import find_failed_dir_replicas
from udfs.failures.kernels.election import NO_BROKER, Bools, ElectedFrom, Ids, PartitionGroup
from udfs.failures.partition_health import find_expected


def find_effects(
    partitions: pa.Table, group: PartitionGroup, fails: Bools, leader: Ids, in_sync: Ids, min_isr: Ids, live: Ids
) -> FailureEffects:
    """Find what a failure does.

    partitions: those of the group (schema INFERRED_PARTITIONS); fails: bool (r); leader, in_sync (count_in_sync): of
    the partitions after it, int32 (p); min_isr: as it is set, int32 (p); live: ids of the brokers that are known to be
    live.
    """
    goes_offline = group.counted & (group.leader != NO_BROKER) & (leader == NO_BROKER)
    is_blocked = find_blocked(group, leader, in_sync)
    in_sync_now = count_in_sync(group, np.zeros_like(fails), np.zeros_like(leader))
    is_blocked &= (group.leader == NO_BROKER) | (in_sync_now >= group.min_isr)
    is_single = np.diff(group.offsets) == 1
    broker = to_lists(partitions["replicas"]).values
    has_failed = find_failed_dir_replicas(partitions, live)
    is_down, is_expected = group.broker == NO_BROKER, find_expected(partitions, broker, group.offsets)
    lags = is_expected & ~is_down & ~group.in_isr
    masks = (is_expected & is_down & ~has_failed, has_failed, lags)
    misses_down, misses_disk, misses_live = (any_true(mask, group.offsets) for mask in masks)
    affected = goes_offline | is_blocked
    is_lagging = affected & misses_live & ~misses_down & ~misses_disk
    is_complete = is_blocked & ~misses_live & ~misses_down & ~misses_disk
    is_crowded = is_complete & (count_true(group.in_isr & ~is_down, group.offsets) > group.min_isr)
    topic, factor = to_array(partitions["topic"]), np.diff(group.offsets).astype(np.int32)
    flags = PartitionFlags(factor, misses_down, misses_disk, min_isr, group.min_isr)
    first = partitions.select(["topic", "partition"]).filter(pa.array(is_lagging)).slice(0, MAX_NAMED)
    return FailureEffects(
        count_by_topic(topic, goes_offline, flags),
        count_by_topic(topic, is_blocked, flags),
        without_survivor=int((goes_offline & ~is_single & ~any_true(~fails, group.offsets)).sum()),
        out_of_sync=int(is_lagging.sum()),
        out_of_sync_partitions=tuple(f"{row['topic']}-{row['partition']}" for row in first.to_pylist()),
        out_of_sync_brokers=tuple(np.unique(broker[lags & is_lagging[row_of(group.offsets)]]).tolist()),
        crowded=int(is_crowded.sum()),
        no_spare=count_by_topic(topic, is_complete & ~is_crowded, flags),
    )


def find_blocked(group: PartitionGroup, leader: Ids, in_sync: Ids) -> Bools:
    """Find the partitions that count, are online, and block producers with acks=all (p)."""
    is_blocked: Bools = group.counted & (leader != NO_BROKER) & (in_sync < group.min_isr)
    return is_blocked


def find_single_isr(group: PartitionGroup, leader: Ids, in_sync: Ids) -> Bools:
    """Find the partitions that count, are online, and have one replica in sync (p)."""
    is_single: Bools = group.counted & (leader != NO_BROKER) & (in_sync == 1)
    return is_single


def count_in_sync(group: PartitionGroup, fails: Bools, elected_from: Ids) -> Ids:
    """Count live in-sync replicas after a failure: int32 (p). A leader that was not in the ISR is the whole ISR."""
    row, left = row_of(group.offsets), group.in_isr & (group.broker != NO_BROKER) & ~fails
    count = np.bincount(row[left], minlength=len(group.leader))
    alone = (elected_from == ElectedFrom.ELR) | (elected_from == ElectedFrom.UNCLEAN)
    return np.where(alone, 1, count).astype(np.int32)
