"""Whom to warn: the topics with partitions that are broken, or whose leaders move."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pipelines.config.owner_map import TopicOwner
from pipelines.what_if.failure_effects import find_blocked, find_single_isr
from udfs.arrow.columns import to_codes, to_flags
from udfs.failures.kernels.election import NO_BROKER, Bools, ElectedFrom, Ids, PartitionGroup
from udfs.failures.topic_defaults import match_topics


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
