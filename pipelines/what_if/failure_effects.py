"""What the failure of some brokers does to partitions that are fine now, and to topics: whom to warn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pipelines.config.owner_map import TopicOwner
from pipelines.verdict.cluster_evidence import MAX_NAMED
from pipelines.verdict.failure_causes import FailureEffects
from pipelines.verdict.snapshot_findings import PartitionFlags, count_by_topic
from udfs.arrow.columns import to_array, to_codes, to_flags, to_lists
from udfs.arrow.ragged import any_true, count_true, row_of
from udfs.failures.failed_log_dirs import find_failed_dir_replicas
from udfs.failures.kernels.election import NO_BROKER, Bools, ElectedFrom, Ids, PartitionGroup
from udfs.failures.partition_health import find_expected
from udfs.failures.topic_defaults import match_topics


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


@dataclass(frozen=True)
class AffectedTopic:
    """A topic now, or after a failure: of its partitions, those with each effect; columns of gold.failure_summary."""

    topic: str
    partitions: int
    offline_partitions: int
    under_min_isr_partitions: int  # acks=all blocked
    single_isr_partitions: int
    single_replica_partitions: int  # of these, those with replication factor 1
    leaders_moved: int
    unclean_elections: int
    team: str | None = None  # of --owner-map; None = no pattern matches

    @property
    def is_affected(self) -> bool:
        """Whether something is broken, nearly broken, or moves; a partition with one replica always has one in sync."""
        is_broken = self.offline_partitions + self.under_min_isr_partitions + self.unclean_elections > 0
        return is_broken or self.leaders_moved > 0 or self.single_isr_partitions > self.single_replica_partitions


def list_affected_topics(
    topics: pa.ChunkedArray, group: PartitionGroup, leader: Ids, in_sync: Ids, elected_from: Ids
) -> list[AffectedTopic]:
    """List the affected topics, the worst first.

    topics: of the partitions of the group (p); leader, in_sync, elected_from: of the partitions in the state that is
    counted, int32 (p).
    """
    code, names = to_codes(topics)
    is_online = leader != NO_BROKER
    is_single = find_single_isr(group, leader, in_sync)
    masks: tuple[Bools, ...] = (
        np.ones(len(leader), dtype=np.bool_),
        group.counted & ~is_online,
        find_blocked(group, leader, in_sync),
        is_single,
        is_single & (np.diff(group.offsets) == 1),
        is_online & (group.leader != NO_BROKER) & (leader != group.leader),
        group.counted & (elected_from == ElectedFrom.UNCLEAN),
    )
    counts = np.stack([np.bincount(code[mask], minlength=len(names)) for mask in masks], axis=1)
    rows = (AffectedTopic(name, *row) for name, row in zip(names.to_pylist(), counts.tolist(), strict=True))
    return sorted((row for row in rows if row.is_affected), key=_rank)


def _rank(row: AffectedTopic) -> tuple[int | str, ...]:
    losses = (row.offline_partitions, row.unclean_elections, row.under_min_isr_partitions, row.single_isr_partitions)
    return (*(-count for count in losses), -row.leaders_moved, row.topic)


def name_owners(topics: Sequence[AffectedTopic], owners: Sequence[TopicOwner]) -> list[AffectedTopic]:
    """Return the topics with the team of the first pattern that matches each."""
    names = pa.array([row.topic for row in topics], pa.string())
    teams: dict[str, str] = {}
    for owner in reversed(owners):  # the first pattern is the last to be entered
        matches = to_flags(match_topics(names, [owner.pattern]))
        teams |= {topics[row].topic: owner.team for row in np.flatnonzero(matches).tolist()}
    return [replace(row, team=teams.get(row.topic)) for row in topics]
