"""Placement of oversized partitions: those that fill alone most of what a survivor can take over."""

from dataclasses import dataclass

import numpy as np

from udfs.planning.annealing.kernels.oversized_annealing import anneal_oversized
from udfs.planning.annealing.kernels.search_moves import Schedule
from udfs.planning.annealing.kernels.search_state import BrokerLimits, create_search, create_state
from udfs.planning.annealing.search_task import SearchTask, compute_takeover_room, compute_weights, measure_excess
from udfs.planning.cluster_model import Flags, Int32s
from udfs.planning.kernels.array_types import RandomState

_OVERSIZED_SHARE = 0.4  # of the room for a takeover
_HUGE, _FULL = 0.5, 0.9  # of a broker's disk or bytes in
_HEADROOM_SHARE = 0.0015  # of all bytes out: headroom beyond the divisible load, as the load is not quite divisible
_FITTING, _NEARLY = 0.6, 2.0  # of that headroom, what may be missing; what may be missing to try again for longer
_MAX_PROPOSALS = 6_000_000
_RETRIES = ((1.5, 0.2), (2.0, 0.05), (2.0, 0.1))  # effort and first temperature
_REFINEMENTS = ((3.0, 0.1), (3.0, 0.1))  # the same, to copy less
_OTHER_TAKEOVERS = 0.01  # of the mean: what survivors take over beside an oversized partition


@dataclass(frozen=True)
class OversizedPlacement:
    """Where oversized partitions go, the limits with the least ratio of bytes out after failures, and that ratio."""

    slots: Int32s
    limits: BrokerLimits
    failover_out: float


@dataclass(frozen=True)
class _Attempt:
    """A placement. fits: whether all other partitions find headroom.   cost: disk copied and in excess."""

    fits: bool
    nearly_fits: bool
    cost: float
    slots: Int32s


def find_oversized(task: SearchTask) -> Flags:
    """Return the oversized partitions: bool (p)."""
    return (task.cluster.bytes_out > _OVERSIZED_SHARE * compute_takeover_room(task)) & task.cluster.can_change


def place_oversized(task: SearchTask, oversized: Flags, random: RandomState) -> OversizedPlacement:
    """Place oversized partitions so that bytes out after any failure keep to the least ratio that is found."""
    cluster, share = task.cluster, task.profile.heavy_share
    unchanged = OversizedPlacement(task.slots, task.limits, task.failover_out)
    heavy = ((cluster.disk > share) | (cluster.bytes_in > share)) & cluster.can_change
    rows = np.flatnonzero(oversized | heavy if task.placed is None else oversized)
    if not len(rows) or len(task.targets) < 3:
        return unchanged
    start = task.slots
    if task.placed is None and heavy.any() and not (oversized.any() and task.profile.copies_for_failover):
        start = _place_heavy(task, heavy, random)
    unchanged = OversizedPlacement(start, task.limits, task.failover_out)
    if task.failover_out == np.inf or not oversized.any():
        return unchanged
    return _OversizedSearch(task, oversized, rows, start, random).search() or unchanged


class _OversizedSearch:
    def __init__(self, task: SearchTask, oversized: Flags, rows: np.ndarray, start: Int32s, random: RandomState):
        brokers = np.full(len(task.cluster.rack), 0.9)
        self.task, self.rows, self.start, self.random = task, rows, start, random
        self.weights = compute_weights(task)._replace(excess_disk=brokers, excess_bytes_in=brokers)
        self.cluster = task.cluster._replace(bytes_out=np.where(oversized, task.cluster.bytes_out, 0.0))
        self.divisible_load = float(task.cluster.bytes_out.sum() - self.cluster.bytes_out.sum())
        self.headroom = _HEADROOM_SHARE * task.brokers
        self.fitting = _FITTING

    def _raise_limits(self, ratio: float, less: float = 0.0) -> BrokerLimits:
        task = self.task
        more = (ratio - task.failover_out) * task.brokers / max(task.brokers - 1, 1) - less
        return task.limits._replace(survivor_bytes_out=task.limits.survivor_bytes_out + more)

    def attempt(self, ratio: float, effort: float, temperature: float = 5e-2) -> _Attempt:
        limits = self._raise_limits(ratio, _OTHER_TAKEOVERS)
        state = create_state(self.cluster, limits, self.start)
        if not self.task.profile.copies_for_failover:
            limits = limits._replace(copied_replicas=float(state.copied_count[0]))
        proposals = int(min(effort * min(20_000 * len(self.rows), 4_000_000), _MAX_PROPOSALS))
        shortfall = anneal_oversized(
            create_search(self.cluster, limits, self.weights, state, self.random),
            self.rows,
            self.task.targets,
            self.divisible_load + self.headroom,
            Schedule(proposals, temperature, 3e-5),
            0.5 if self.task.placed is None else 0.0,
        )
        cost = float(state.copied_disk[0] + measure_excess(limits, state)["disk"].sum())
        fits, nearly_fits = shortfall <= self.fitting * self.headroom, shortfall < _NEARLY * self.headroom
        return _Attempt(fits, nearly_fits, cost, state.slots)

    def search(self) -> OversizedPlacement | None:
        """Return the placement with the least ratio; None if something else than oversized partitions is in the way."""
        ratio = self.task.failover_out
        best = self.attempt(ratio, 1.0)
        for effort, temperature in _RETRIES:
            if best.nearly_fits and not best.fits:
                best = self.attempt(ratio, effort, temperature)
        if not best.fits:
            # As the target is missed anyway, a little more headroom makes the rest of the search easy.
            self.headroom, self.fitting = 2 * self.headroom, _FITTING / 2
            low, ratio = ratio, ratio + 0.05
            for _ in range(8):
                best = self.attempt(ratio, 0.5)
                if best.fits:
                    break
                low, ratio = ratio, ratio + 2 * (ratio - low)
            else:
                return None
            while ratio - low > 0.01:
                middle = (low + ratio) / 2
                attempt = self.attempt(middle, 0.5)
                if attempt.fits:
                    ratio, best = middle, attempt
                else:
                    low = middle
            ratio += 0.01  # a slightly higher ratio saves many copied bytes
        for effort, temperature in _REFINEMENTS:
            attempt = self.attempt(ratio, effort, temperature)
            if attempt.fits and attempt.cost < best.cost:
                best = attempt
        return OversizedPlacement(best.slots, self._raise_limits(ratio), ratio)


def _place_heavy(task: SearchTask, heavy: Flags, random: RandomState) -> Int32s:
    """Return the slots with partitions of much disk or bytes in where they fit, whatever their bytes out."""
    profile, n, rows = task.profile, len(task.cluster.rack), np.flatnonzero(heavy)
    cluster = task.cluster._replace(bytes_out=np.zeros_like(task.cluster.bytes_out))
    weights = compute_weights(task)
    if not profile.copies_for_failover:  # replica counts are evened out later, by replicas that are copied anyway
        weights = weights._replace(excess_replicas=weights.excess_replicas / 100)
    excess = np.full(n, profile.heavy_excess_load)
    weights = weights._replace(excess_disk=excess, excess_bytes_in=excess)
    state = create_state(cluster, task.limits, task.slots)
    schedule = Schedule(min(20_000 * len(rows), 4_000_000), 5e-2, 3e-5)
    anneal_oversized(
        create_search(cluster, task.limits, weights, state, random), rows, task.targets, 0.0, schedule, 0.5
    )
    return state.slots


def pin_oversized(task: SearchTask, slots: Int32s, oversized: Flags) -> Flags:
    """Return the slots (bool, r) that stay: leaders and successors of oversized partitions, and huge replicas.

    Oversized partitions beside a huge replica may move: it leaves them no room.
    """
    cluster = task.cluster
    sizes = np.diff(cluster.offsets)
    huge = np.repeat((cluster.disk > _HUGE) | (cluster.bytes_in > _HUGE), sizes)
    place = np.arange(len(slots)) - np.repeat(cluster.offsets[:-1], sizes)
    leads_or_succeeds = np.repeat(oversized, sizes) & (place < 2)
    crowded = np.zeros(len(cluster.rack), dtype=np.bool_)
    for load, limit in ((cluster.disk, task.limits.disk), (cluster.bytes_in, task.limits.bytes_in)):
        crowded |= np.bincount(slots[huge], load[cluster.row[huge]], len(cluster.rack)) > _FULL * limit
    stays = huge if task.placed is None else huge | task.placed[cluster.row]
    return stays | (leads_or_succeeds & ~crowded[slots])
