"""What the failure of some brokers does to partitions that are fine now, and what makes them vulnerable."""

import numpy as np
import pyarrow as pa

from pipelines.verdict.failure_causes import FailureEffects
from pipelines.verdict.snapshot_findings import count_by_topic
from udfs.arrow.ragged import any_true, row_of
from udfs.failures.kernels.election import NO_BROKER, Bools, ElectedFrom, Ids, PartitionGroup


def find_effects(
    topic: pa.Array, group: PartitionGroup, fails: Bools, leader: Ids, elected_from: Ids
) -> FailureEffects:
    """Find what a failure does. topic: of the p partitions; fails: bool (r); leader, elected_from: after it, (p)."""
    goes_offline = group.counted & (group.leader != NO_BROKER) & (leader == NO_BROKER)
    is_blocked = group.counted & (leader != NO_BROKER)
    is_blocked &= count_in_sync(group, fails, elected_from) < group.min_isr
    is_blocked &= ~_is_under_min_isr_now(group)
    is_single = np.diff(group.offsets) == 1
    is_down = group.broker == NO_BROKER
    misses_down, misses_live = (any_true(mask, group.offsets) for mask in (is_down, ~is_down & ~group.in_isr))
    affected = goes_offline | is_blocked
    offline, blocked = (
        count_by_topic(topic.filter(pa.array(mask)), topic.filter(pa.array(mask & is_single)))
        for mask in (goes_offline, is_blocked)
    )
    return FailureEffects(
        offline,
        blocked,
        without_survivor=int((goes_offline & ~is_single & ~any_true(~fails, group.offsets)).sum()),
        on_down_brokers=int((affected & misses_down).sum()),
        out_of_sync=int((affected & misses_live & ~misses_down).sum()),
        no_spare=int((is_blocked & ~misses_live & ~misses_down).sum()),
    )


def count_in_sync(group: PartitionGroup, fails: Bools, elected_from: Ids) -> Ids:
    """Count live in-sync replicas after a failure: int32 (p). A leader that was not in the ISR is the whole ISR."""
    row, left = row_of(group.offsets), group.in_isr & (group.broker != NO_BROKER) & ~fails
    count = np.bincount(row[left], minlength=len(group.leader))
    alone = (elected_from == ElectedFrom.ELR) | (elected_from == ElectedFrom.UNCLEAN)
    return np.where(alone, 1, count).astype(np.int32)


def _is_under_min_isr_now(group: PartitionGroup) -> Bools:
    nothing = np.zeros(len(group.broker), dtype=np.bool_)
    unchanged = np.zeros(len(group.leader), dtype=np.int32)
    is_under: Bools = (group.leader != NO_BROKER) & (count_in_sync(group, nothing, unchanged) < group.min_isr)
    return is_under
