"""What the waves of a plan do to brokers and partitions, and what it would take to roll them back."""

from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import count_true, is_in_segment, take_segments
from udfs.planning.cluster_model import ClusterModel, Floats, Ints
from udfs.planning.disk_growth import sum_bytes_by_wave
from udfs.planning.elections import NO_LEADER
from udfs.planning.plan_states import PlanStates
from udfs.planning.wave_health import count_needing_broker, find_state_health


@dataclass(frozen=True)
class WaveFacts:
    """What happens in each of w waves, and the state after it; the first of w + 1 is the state now. n brokers."""

    partitions: Ints  # int64 (w)
    copies: Ints  # int64 (w), replicas
    received: Floats  # float64 (w, n), bytes
    sent: Floats  # float64 (w, n), bytes
    bytes_now: Floats  # float64 (n), that a broker holds
    peak_bytes: Floats  # float64 (w, n), that a broker holds at most during the wave
    leaders: Ints  # int64 (w + 1, n)
    under_replicated: Ints  # int64 (w + 1), partitions
    under_min_isr: Ints  # int64 (w + 1)
    one_in_sync: Ints  # int64 (w + 1)
    blocked_by_broker: (
        Ints  # int64 (w + 1), partitions that acks=all or everyone cannot write if the worst broker fails
    )
    rollback_copies: Ints  # int64 (w + 1), replicas to copy back if the plan is rolled back after the wave
    rollback_bytes: Floats  # float64 (w + 1)

    @property
    def slowest_broker(self) -> Ints:
        """The broker that copies most bytes in or out in each wave: int64 (w)."""
        slowest: Ints = np.maximum(self.received, self.sent).argmax(axis=1)
        return slowest

    @property
    def slowest_bytes(self) -> Floats:
        """The bytes of that broker: float64 (w)."""
        slowest: Floats = np.maximum(self.received, self.sent).max(axis=1, initial=0.0)
        return slowest


def measure_wave_facts(model: ClusterModel, states: PlanStates) -> WaveFacts:
    """Measure what happens in each wave, and the state after it."""
    n, w, state = model.brokers, states.waves, states.state
    health = find_state_health(model, states)
    copies = np.flatnonzero(states.copied)
    source = states.leader[states.previous[state[copies]]]
    size = states.written[copies]
    wave = states.begin[state[copies]] - 1

    def sum_bytes(broker: Ints) -> Floats:
        known = broker != NO_LEADER
        sums = np.bincount(wave[known] * n + broker[known], size[known], w * n)
        return np.asarray(sums, dtype=np.float64).reshape(w, n)

    received, sent = sum_bytes(states.replicas[copies].astype(np.int64)), sum_bytes(source)
    totals, peaks = sum_bytes_by_wave(states, np.arange(len(states.replicas)), states.replicas, n)
    led = np.flatnonzero(states.leader != NO_LEADER)
    missing, bytes_back = _measure_rollback(model, states)
    return WaveFacts(
        partitions=np.bincount(states.begin[model.partitions :] - 1, minlength=w).astype(np.int64),
        copies=np.bincount(wave, minlength=w).astype(np.int64),
        received=received,
        sent=sent,
        bytes_now=totals[0],
        peak_bytes=peaks,
        leaders=states.sum_by_broker(led, states.leader[led], n).astype(np.int64),
        under_replicated=states.count(health.under_replicated),
        under_min_isr=states.count(health.under_min_isr),
        one_in_sync=states.count(health.one_in_sync),
        blocked_by_broker=count_needing_broker(states, health.is_critical, n).max(axis=1, initial=0),
        rollback_copies=missing,
        rollback_bytes=bytes_back,
    )


def _measure_rollback(model: ClusterModel, states: PlanStates) -> tuple[Ints, Floats]:
    """Measure what a rollback copies, to the lists before the plan: replicas and bytes after each wave."""
    replicas, offsets = model.rollback_lists or (model.replicas, model.offsets)
    earlier = take_segments(replicas, offsets, states.row)
    missing = np.diff(earlier[1]) - count_true(is_in_segment(states.replicas, states.offsets, *earlier), states.offsets)
    weights = missing.astype(np.float64), missing * model.size[states.row]
    zero = np.zeros(len(states.row), dtype=np.int64)
    every = np.arange(len(states.row))
    copies, bytes_ = (states.sum_by_broker(every, zero, 1, weight)[:, 0] for weight in weights)
    return copies.astype(np.int64), bytes_
