"""What partitions lack in in-sync replicas while the waves of a plan repair them, and which brokers can restart when.

Topics whose problems do not count are left out.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from udfs.arrow.ragged import count_true
from udfs.failures.partition_health import is_under_replicated
from udfs.planning.cluster_model import ClusterModel, Flags, Ints
from udfs.planning.elections import find_in_sync_replicas
from udfs.planning.plan_states import PlanStates, find_plan_states
from udfs.planning.planned_waves import PlannedWaves

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


class StateHealth(NamedTuple):
    """Which of the k states of partitions lack in-sync replicas: each bool (k)."""

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
    lags = _find_caught_up(model) & ~find_in_sync_replicas(model, model) & model.counted[model.row]
    lags &= True if model.adding is None else ~model.adding
    brokers: Ints = np.unique(model.replicas[lags]).astype(np.int64)
    return brokers


def measure_wave_health(execution: PlannedWaves, *, catch_up: bool = False) -> WaveHealth:
    """Count the partitions that lack in-sync replicas now and after each wave.

    catch_up: as if all replicas on live brokers were in sync now, but for those in failed log dirs and those of
        offline partitions.
    """
    model, waves = execution.model, execution.waves
    model = replace(model, in_sync=_find_caught_up(model)) if catch_up else model
    states = find_plan_states(model, waves)
    counts = find_state_health(model, states)
    blocked = count_needing_broker(states, counts.is_critical, model.brokers)
    incomplete = count_needing_broker(states, counts.is_critical & counts.under_replicated, model.brokers)[-1]
    return WaveHealth(
        under_replicated=states.count(counts.under_replicated),
        under_min_isr=states.count(counts.under_min_isr),
        at_min_isr=states.count(counts.at_min_isr),
        one_in_sync=states.count(counts.one_in_sync),
        blocked_by_restart=blocked,
        incomplete_at_end=incomplete,
    )


def count_needing_broker(states: PlanStates, selected: Flags, brokers: int) -> Ints:
    """Count the selected states (bool, k) that need the replica on each broker: int64 (w + 1, n)."""
    needs = np.flatnonzero(selected[states.state] & states.in_sync)
    return states.sum_by_broker(states.state[needs], states.replicas[needs].astype(np.int64), brokers).astype(np.int64)


def _find_caught_up(model: ClusterModel) -> Flags:
    """Find the usable replicas (bool, r) of partitions with one in sync: the others have nothing to copy from."""
    is_online = count_true(find_in_sync_replicas(model, model), model.offsets) > 0
    caught_up: Flags = model.is_usable & is_online[model.row]
    return caught_up


def find_state_health(model: ClusterModel, states: PlanStates) -> StateHealth:
    """Find which states of partitions whose problems count lack in-sync replicas."""
    in_sync, factor = count_true(states.in_sync, states.offsets), np.diff(states.offsets)
    is_online = model.counted[states.row] & (in_sync > 0)
    min_isr = model.find_min_isr(states.row, factor)
    # Replicas that a running reassignment adds are not missed: Kafka's replication factor is without them.
    added = (
        np.zeros(model.partitions, dtype=np.int64) if model.adding is None else count_true(model.adding, model.offsets)
    )
    return StateHealth(
        under_replicated=is_online & is_under_replicated(in_sync, factor - added[states.row]),
        under_min_isr=is_online & (in_sync < min_isr),
        at_min_isr=is_online & (in_sync == min_isr) & (factor > 1),
        one_in_sync=is_online & (in_sync == 1) & (factor > 1),
    )
