"""Preferred leader elections after a plan: which succeed, and who leads before and after them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from udfs.arrow.ragged import any_true, count_true, first_true, is_in_segment, offsets_of, row_of, take_segments
from udfs.planning.cluster_model import (
    FREE,
    ClusterModel,
    Flags,
    FreezeReason,
    Int32s,
    Ints,
    ProposedAssignment,
    ReplicaLists,
    take,
)
from udfs.planning.waves import find_reassigned_partitions

NO_LEADER = -1


@dataclass(frozen=True)
class PreferredElections:
    """The p partitions of a cluster after a plan and its elections."""

    leader: Ints  # int64 (p), the leader, NO_LEADER = none
    preferred: Ints  # int64 (p), the first replica, live or not
    elected: Flags  # bool (p), the preferred leader is live and in sync, and does not lead before its election
    out_of_sync: Flags  # bool (p), the preferred leader is live, but out of sync: its election would fail
    others: Flags  # bool (p), an election would succeed, but the plan does not change the preferred leader


def find_current_leaders(model: ClusterModel) -> Ints:
    """Find the leader of each partition now: int64 (p), NO_LEADER = none. Without a known leader, the first replica."""
    leader = model.current_leaders.astype(np.int64)
    return np.where(_can_lead(model, leader), leader, NO_LEADER)


def find_in_sync_replicas(model: ClusterModel, lists: ReplicaLists, rows: Ints | None = None) -> Flags:
    """Find the replicas (bool, r) of the lists that are usable and in sync once these are reassigned: new ones are.

    rows: int64 (k), the partition of each list; None = one list for each partition of the model, in its order.
    """

    def is_among(values: Int32s, offsets: Ints) -> Flags:
        others = (values, offsets) if rows is None else take_segments(values, offsets, rows)
        return is_in_segment(lists.replicas, lists.offsets, *others)

    in_isr, is_old = is_among(*_in_sync_lists(model)), is_among(model.replicas, model.offsets)
    of_lists = np.arange(model.partitions) if rows is None else rows
    return find_usable(model, of_lists, lists.replicas, lists.offsets) & (in_isr | ~is_old)


def elect_preferred_leaders(
    model: ClusterModel, proposal: ProposedAssignment, *, elects_all: bool = False
) -> PreferredElections:
    """Elect preferred leaders where the plan changes them.

    elects_all: also elsewhere, but for frozen partitions.

    A reassignment keeps the leader if the new list has it; else the first in-sync replica of the new list leads. New
    replicas are in sync at its end. As elections copy nothing, a replica on a down broker does not prevent them.
    Source: KRaft's PartitionChangeBuilder (ElectionType.PREFERRED) and PartitionReassignmentReplicas.
    """
    reassigned = find_reassigned_partitions(model, proposal)
    planned = proposal.replicas[proposal.offsets[:-1]]
    preferred = np.where(reassigned, planned, model.source_order[model.offsets[:-1]]).astype(np.int64)
    ready = _can_lead(model, preferred)

    old_leader = find_current_leaders(model)
    keeps = is_in_segment(
        old_leader.astype(np.int32), np.arange(model.partitions + 1), proposal.replicas, proposal.offsets
    )
    first = first_true(find_in_sync_replicas(model, proposal), proposal.offsets)
    successor = np.where(first >= 0, proposal.replicas[first], old_leader)
    leader = np.where(~reassigned | keeps | (old_leader < 0), old_leader, successor)

    votes = (preferred != leader) & (
        reassigned | np.isin(model.frozen, (FREE, FreezeReason.DOWN_REPLICA, FreezeReason.FAILED_DIR))
    )
    is_changed = reassigned & (preferred != model.source_order[model.offsets[:-1]])
    votes_for_plan = votes if elects_all else votes & is_changed
    elected, out_of_sync = votes_for_plan & ready, votes_for_plan & model.live[preferred] & ~ready
    others = votes & ~votes_for_plan & ready
    return PreferredElections(np.where(elected, preferred, leader), preferred, elected, out_of_sync, others)


def lead_lists(model: ClusterModel, leader: Ints) -> ClusterModel:
    """Return the cluster with the leader (int64, p) first in each list; without a leader, a down replica."""
    first = np.where(model.is_usable, 1, 0)
    row = model.row
    first = np.where(leader[row] >= 0, model.replicas != leader[row], first)
    order = np.lexsort((np.arange(len(row)), first, row))
    of_replicas: dict[str, Any] = {
        name: take(getattr(model, name), order) for name in ("replicas", "failed", "replica_size")
    }
    return replace(model, **of_replicas, source_replicas=None, leader=None, in_sync=None, adding=None)


def find_last_copies(model: ClusterModel, lists: ReplicaLists) -> Flags:
    """Find the replicas (bool, r) that lists keep offline, and without which an acknowledged message may be lost.

    These are the replicas of partitions without a live in-sync replica: those in the last known ISR, else those that
    may lead (find_last_in_sync), else all of them.
    """
    row = row_of(lists.offsets)
    usable = find_usable(model, np.arange(model.partitions), lists.replicas, lists.offsets)
    old = ~usable & ~model.find_copied(lists)
    is_lost = ~any_true(find_in_sync_replicas(model, lists), lists.offsets)
    last = old & is_lost[row]
    in_last_isr = last & is_in_segment(lists.replicas, lists.offsets, *_in_sync_lists(model))
    return np.where(any_true(in_last_isr, lists.offsets)[row], in_last_isr, last)


def find_usable(model: ClusterModel, rows: Ints, replicas: Int32s, offsets: Ints) -> Flags:
    """Find the replicas (bool) of lists that are or can come in sync: on live brokers, and not in failed log dirs.

    rows: int64 (k), the partition of each list. replicas, offsets: the k lists.
    """
    usable: Flags = model.live[replicas]
    if model.failed is None:
        return usable
    failed = model.replicas[model.failed], offsets_of(count_true(model.failed, model.offsets))
    return usable & ~is_in_segment(replicas, offsets, *take_segments(*failed, rows))


def _in_sync_lists(model: ClusterModel) -> tuple[Int32s, Ints]:
    """Return the in-sync replicas of each partition: (int32, offsets)."""
    if model.in_sync is None:
        return model.replicas, model.offsets
    return model.replicas[model.in_sync], offsets_of(count_true(model.in_sync, model.offsets))


def _can_lead(model: ClusterModel, broker: Ints) -> Flags:
    """Return whether one broker (int64, p) of each partition is in sync and usable, or will be, as a new replica."""
    each = np.arange(model.partitions + 1)
    one = broker.astype(np.int32)
    synced = is_in_segment(one, each, *_in_sync_lists(model))
    is_new = ~is_in_segment(one, each, model.replicas, model.offsets)
    return find_usable(model, each[:-1], one, each) & (synced | is_new)
