"""What partitions lack in in-sync replicas while the waves of a plan repair them, and which brokers can restart when.

A partition is as it is now until the wave that sets its last list. From then on its live replicas are in sync, except
those that stay and are not in sync now. Topics whose problems do not count are left out.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from udfs.arrow.ragged import any_true, count_true, row_of
from udfs.planning.cluster_model import ClusterModel, Flags, Ints, ReplicaLists
from udfs.planning.elections import find_in_sync_replicas
from udfs.planning.plan_execution import PlanExecution

NEVER = -1  # instead of a wave


class WaveHealth(NamedTuple):
    """How many online partitions lack in-sync replicas now, and after each of w waves; n brokers."""

    under_replicated: Ints  # int64 (w + 1), with a replica that is not in sync
    under_min_isr: Ints  # int64 (w + 1), with fewer replicas in sync than min.insync.replicas
    at_min_isr: Ints  # int64 (w + 1), with several replicas, and as many in sync as min.insync.replicas
    one_in_sync: Ints  # int64 (w + 1), with several replicas, of which one is in sync
    # int64 (w + 1, n), with several replicas, below min.insync.replicas or offline if this broker restarts
    blocked_by_restart: Ints
    incomplete_at_end: Ints  # int64 (n), of these after the last wave, those that are under-replicated

    def find_restart_waves(self) -> Ints:
        """Find the waves after which brokers can restart for good: int64 (n), 0 = now, NEVER = not after the last.

        Until then, the restart of the broker leaves a partition without enough replicas in sync.
        """
        is_blocking = self.blocked_by_restart > 0
        last_blocking = len(is_blocking) - 1 - is_blocking[::-1].argmax(axis=0)
        first = np.where(is_blocking.any(axis=0), last_blocking + 1, 0)
        return np.where(first < len(is_blocking), first, NEVER)


class _Health(NamedTuple):
    """The partitions (bool, p) of WaveHealth at one time."""

    under_replicated: Flags
    under_min_isr: Flags
    at_min_isr: Flags
    one_in_sync: Flags

    @property
    def is_critical(self) -> Flags:
        """Return whether the failure of any in-sync replica makes the partition worse: bool (p)."""
        return self.at_min_isr | self.one_in_sync


def find_lagging_brokers(model: ClusterModel) -> Ints:
    """Find the live brokers (int64) with a replica that is not in sync, but may catch up, of partitions that count."""
    lags = model.is_usable & ~find_in_sync_replicas(model, model) & model.counted[model.row]
    brokers: Ints = np.unique(model.replicas[lags]).astype(np.int64)
    return brokers


def measure_wave_health(execution: PlanExecution, *, catch_up: bool = False) -> WaveHealth:
    """Count the partitions that lack in-sync replicas now and after each wave.

    catch_up: as if all replicas on live brokers were in sync now, but for those in failed log dirs.
    """
    model, proposal, waves = execution.model, execution.proposal, execution.waves
    model = replace(model, in_sync=model.is_usable) if catch_up else model
    last_wave = np.full(model.partitions, NEVER, dtype=np.int64)
    np.maximum.at(last_wave, waves.row, waves.wave)
    before, after = _find_health(model, model), _find_health(model, proposal)

    def count(old: Flags, new: Flags) -> Ints:
        counts = np.zeros(waves.waves + 1, dtype=np.int64)
        counts[0] = old.sum()
        is_set = last_wave != NEVER
        change = np.bincount(last_wave[is_set], (new.astype(np.int64) - old)[is_set], waves.waves)
        counts[1:] = counts[0] + np.cumsum(change).astype(np.int64)
        return counts

    def count_by_broker(lists: ReplicaLists, is_at: Flags) -> Ints:
        """Count by the wave that sets the last list of the partitions (0 = none), and by broker."""
        row = row_of(lists.offsets)
        blocks = is_at[row] & find_in_sync_replicas(model, lists)
        place = (last_wave[row[blocks]] + 1) * model.brokers + lists.replicas[blocks]
        return np.bincount(place, minlength=(waves.waves + 1) * model.brokers).reshape(-1, model.brokers)

    old, new = count_by_broker(model, before.is_critical), count_by_broker(proposal, after.is_critical)
    # The partitions that no wave sets, [0], are the same before and after.
    blocked = old.sum(axis=0) + np.cumsum(new - old, axis=0)
    incomplete = count_by_broker(proposal, after.is_critical & after.under_replicated).sum(axis=0)
    under_replicated, under_min_isr, at_min_isr, one = (count(*pair) for pair in zip(before, after, strict=True))
    return WaveHealth(under_replicated, under_min_isr, at_min_isr, one, blocked, incomplete)


def _find_health(model: ClusterModel, lists: ReplicaLists) -> _Health:
    is_in_sync = find_in_sync_replicas(model, lists)
    in_sync, factor = count_true(is_in_sync, lists.offsets), np.diff(lists.offsets)
    is_online = model.counted & (in_sync > 0)
    return _Health(
        under_replicated=is_online & any_true(~is_in_sync, lists.offsets),
        under_min_isr=is_online & (in_sync < model.min_isr),
        at_min_isr=is_online & (in_sync == model.min_isr) & (factor > 1),
        one_in_sync=is_online & (in_sync == 1) & (factor > 1),
    )
