"""Partitions that lack in-sync replicas, now and while the waves of a plan repair them."""

from typing import NamedTuple

import numpy as np

from udfs.arrow.ragged import any_true, count_true, is_in_segment, offsets_of, row_of
from udfs.planning.cluster_model import ClusterModel, Flags, Ints, ReplicaLists
from udfs.planning.elections import find_in_sync_replicas
from udfs.planning.plan_execution import PlanExecution


class UnderReplication(NamedTuple):
    """How many partitions are under-replicated."""

    now: int
    after_waves: Ints  # int64 (waves), after each wave


def find_under_replicated(model: ClusterModel) -> Flags:
    """Find the online partitions (bool, p) with a replica that is not in sync."""
    in_sync = find_in_sync_replicas(model, model)
    lagging: Flags = any_true(in_sync, model.offsets) & any_true(~in_sync, model.offsets)
    return lagging


def count_under_replicated(execution: PlanExecution) -> UnderReplication:
    """Count the under-replicated partitions now and after each wave, as if replicas that stay never caught up.

    A partition counts until the wave that sets its last list.
    """
    model, proposal, waves = execution.model, execution.proposal, execution.waves
    lagging = find_under_replicated(model)
    lags_afterwards = any_true(~find_in_sync_replicas(model, proposal), proposal.offsets)
    last_wave = np.full(model.partitions, -1, dtype=np.int64)
    np.maximum.at(last_wave, waves.row, waves.wave)
    repaired = lagging & ~lags_afterwards & (last_wave >= 0)
    done = np.cumsum(np.bincount(last_wave[repaired], minlength=waves.waves))
    return UnderReplication(int(lagging.sum()), int(lagging.sum()) - done)


def find_last_copies(model: ClusterModel, lists: ReplicaLists) -> Flags:
    """Find the replicas (bool, r) of the lists on down brokers without which an acknowledged message may be lost.

    These are the replicas of partitions without a live in-sync replica: those in the last known ISR, or all of them if
    it is empty or not known.
    """
    row = row_of(lists.offsets)
    old = ~model.live[lists.replicas] & ~model.find_copied(lists)
    is_lost = ~any_true(find_in_sync_replicas(model, lists), lists.offsets)
    last = old & is_lost[row]
    if model.in_sync is None:
        return last
    in_isr = model.in_sync
    isr_offsets = offsets_of(count_true(in_isr, model.offsets))
    in_last_isr = last & is_in_segment(lists.replicas, lists.offsets, model.replicas[in_isr], isr_offsets)
    return np.where(any_true(in_last_isr, lists.offsets)[row], in_last_isr, last)
