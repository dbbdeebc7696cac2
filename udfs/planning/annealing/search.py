"""Search for replica lists within the limits of all brokers, by simulated annealing in phases.

1. Oversized partitions are placed, which fill alone most of what a survivor can take over. 2. Replicas are annealed:
counts, disk, bytes in. 3. Leaders and successors: nothing is copied. 4. Everything jointly, for the remaining excess,
and copied replicas return.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from udfs.planning.annealing import search_task
from udfs.planning.annealing.kernels import search_state
from udfs.planning.annealing.kernels.list_annealing import (
    MOVE_KINDS,
    MoveChoices,
    anneal_jointly,
    anneal_leadership,
    anneal_replicas,
)
from udfs.planning.annealing.kernels.oversized_annealing import anneal_oversized
from udfs.planning.annealing.kernels.search_moves import Schedule, seed_random
from udfs.planning.annealing.kernels.search_state import (
    BrokerLimits,
    ClusterArrays,
    CostWeights,
    SearchState,
    create_search,
)
from udfs.planning.annealing.search_task import EXCESS_LOAD, TOLERANCE, SearchResult, SearchTask
from udfs.planning.cluster_model import Flags, Floats, Int32s
from udfs.planning.kernels.array_types import RandomState

_OVERSIZED_SHARE = 0.4  # of the room for a takeover
_HEAVY_SHARE = 0.15  # of a broker's disk or bytes in: partitions above it are placed before all others
_HEAVY_EXCESS_LOAD = 0.9  # cost of a unit of disk beyond a limit, while these are placed
_TEMPERATURE = 0.075  # the first one of the replica annealing, in typical replicas
_HUGE, _FULL = 0.5, 0.9  # of a broker's disk or bytes in
_HEADROOM_SHARE = 0.0009  # of all bytes out: headroom beyond the divisible load, as the load is not quite divisible
_FITTING, _NEARLY = 0.33, 2.7  # of that headroom, what may be missing; what may be missing to try again for longer
_MORE_HEADROOM, _LESS_MISSING = 3.5, 0.45  # factors of both where the target is missed anyway
_MAX_PROPOSALS = 3_000_000  # at an effort of 1
_RETRIES = ((1.5, 0.2), (2.0, 0.05), (2.0, 0.1))  # effort and first temperature
_REFINEMENTS, _NEAR_BOUND = ((2.0, 0.05),) * 4, 1.015  # the same, to copy less, until copies are near their bound
# Where the target is missed anyway, what lower ratios may cost: bytes over what must be copied, and of all bytes
_AFFORDABLE, _AFFORDABLE_SHARE = 1.1, 0.02
_CHEAPER = 0.97  # of the bytes to copy: if a looser limit of bytes out needs more, it saves too little
_OTHER_TAKEOVERS = 0.01  # of the mean: what survivors take over beside an oversized partition

_MIX = np.cumsum(np.array([4, 1, 1, 1, 1, 1, 1]) / 10)
assert len(_MIX) == MOVE_KINDS
_EXCESS = 1e-6  # units of the mean from which another round of replica annealing is worth it
_ROUNDS, _RATIO_STEP = 2, 0.01  # of raising the limit of bytes out after failures, and by how much
_STUCK = 0.9  # of the previous excess: if more is left, the limits are in the way and not the weights
_LEADER_COST = 10.0  # of a leader too many in the end, in units of bytes out
_LIGHT_SHARE = 0.03  # of all replicas
# Rounds of anneal_order: cost of a leader too many, first temperature, share of proposals. NEAR changes few lists.
ANY_ORDER, NEAR = ((0.3, 0.5, 0.7), (2.0, 0.02, 0.3)), ((2.0, 0.02, 0.3), (2.0, 0.05, 1.0))


@dataclass(frozen=True)
class _Attempt:
    """A placement of oversized partitions."""

    fits: bool  # Whether all other partitions find headroom
    nearly_fits: bool
    copies: float  # Disk that the plan is likely to copy
    cost: float  # Disk that is copied and in excess, and how much disk and bytes in differ
    slots: Int32s

    def is_better_than(self, other: "_Attempt", share: float = 1.0) -> bool:
        """Return whether it fits and the other does not, or copies less than this share of what the other copies."""
        return (self.fits, -self.copies) > (other.fits, -share * other.copies)


def place_oversized(task: SearchTask, oversized: Flags, random: RandomState) -> SearchResult:
    """Place oversized partitions so that bytes out after any failure keep to the least ratio that is found."""
    cluster, share, start = task.cluster, _HEAVY_SHARE, task.slots
    heavy = ((cluster.disk > share) | (cluster.bytes_in > share)) & cluster.can_change
    has_targets = len(task.targets) >= 3
    if has_targets and heavy.any() and not oversized.any():
        start = _place_heavy(task, heavy, random)
    placement = SearchResult(start, task.limits, task.failover_out, oversized)
    if not has_targets or task.failover_out == np.inf or not oversized.any():
        return placement
    return _OversizedSearch(task, oversized, np.flatnonzero(oversized | heavy), start, random).search() or placement


class _OversizedSearch:
    def __init__(self, task: SearchTask, oversized: Flags, rows: np.ndarray, start: Int32s, random: RandomState):
        brokers = np.full(len(task.cluster.rack), 0.95)
        self.task, self.oversized, self.rows, self.start, self.random = task, oversized, rows, start, random
        self.weights = search_task.compute_weights(task)._replace(excess_disk=brokers, excess_bytes_in=brokers)
        self.cluster = task.cluster._replace(bytes_out=np.where(oversized, task.cluster.bytes_out, 0.0))
        self.divisible_load = float(task.cluster.bytes_out.sum() - self.cluster.bytes_out.sum())
        self.headroom = _HEADROOM_SHARE * task.brokers
        self.fitting, self.bytes_out = _FITTING, 0.0
        self.relief = search_task.compute_relief(task, rows)
        self._affordable = max(_AFFORDABLE * task.copy_bound.bound, _AFFORDABLE_SHARE * task.brokers)

    def _raise_limits(self, ratio: float, less: float = 0.0) -> BrokerLimits:
        task, limits = self.task, self.task.firm_limits
        more = (ratio - task.failover_out) * task.brokers / max(task.brokers - 1, 1) - less
        bytes_out = np.maximum(limits.bytes_out, self.bytes_out)
        return limits._replace(survivor_bytes_out=limits.survivor_bytes_out + more, bytes_out=bytes_out)

    def _relieve(self, bytes_in: Floats) -> Floats:
        """Return the disk that leaves each broker with these bytes in (float64, n, each)."""
        at, steps = (
            np.minimum(bytes_in / self.relief.step, search_task.RELIEF_STEPS),
            np.arange(search_task.RELIEF_STEPS + 1),
        )
        return np.array([np.interp(one, steps, disk) for one, disk in zip(at, self.relief.disk, strict=True)])

    def attempt(self, ratio: float, effort: float, temperature: float = 5e-2) -> _Attempt:
        task = self.task
        firm = self._raise_limits(ratio, _OTHER_TAKEOVERS)
        limits = search_task.loosen_for_largest(firm, self.task.cluster, self.start)
        state = search_state.create_state(self.cluster, limits, self.start)
        proposals = int(effort * min(20_000 * len(self.rows), _MAX_PROPOSALS))
        shortfall = anneal_oversized(
            create_search(self.cluster, limits, self.weights, state, self.random),
            self.rows,
            search_task.find_largest(firm, task.cluster),
            self.relief,
            self.task.targets,
            self.divisible_load + self.headroom,
            Schedule(proposals, temperature, 3e-5),
            self.task.uneven_cost,
        )
        copied, excess = float(state.copied_disk[0]), search_task.measure_excess(limits, state)
        copies = copied + float(np.maximum(excess["disk"], self._relieve(excess["bytes_in"])).sum())
        cost = copies + task.uneven_cost * float(np.abs(state.disk - state.bytes_in).sum())
        fits, nearly_fits = shortfall <= self.fitting * self.headroom, shortfall < _NEARLY * self.headroom
        return _Attempt(fits, nearly_fits, copies, cost, state.slots)

    def search(self) -> SearchResult | None:
        """Return the placement with the least ratio; None if something else than oversized partitions is in the way.

        Bytes out beyond their target come first: a little more of them often keeps to the ratio, or copies much less.
        """
        ratio = self.task.failover_out
        best, limit = self._reach(ratio), 0.0
        for loose in self.task.loose_bytes_out:
            if best.fits and best.copies < self.task.copy_bound.bound / _CHEAPER:
                break
            self.bytes_out = loose
            other = self._reach(ratio)
            if other.is_better_than(best, _CHEAPER):
                best, limit = other, loose
        self.bytes_out = limit if best.fits else max(self.task.loose_bytes_out, default=0.0)
        if not best.fits:
            # As the target is missed anyway, a little more headroom makes the rest of the search easy.
            self.headroom, self.fitting = _MORE_HEADROOM * self.headroom, _LESS_MISSING * self.fitting
            raised = self._raise_ratio(ratio)
            if raised is None:
                return None
            low, ratio, best = raised
            most = max(self._affordable, best.copies / _CHEAPER)
            while ratio - low > 0.01:
                middle = (low + ratio) / 2
                attempt = self.attempt(middle, 0.5)
                if attempt.fits and attempt.copies <= most:
                    ratio, best = middle, attempt
                else:
                    low = middle
            ratio += 0.01  # a slightly higher ratio saves many copied bytes
        for effort, temperature in _REFINEMENTS:
            if best.copies <= _NEAR_BOUND * self.task.copy_bound.bound:
                break
            attempt = self.attempt(ratio, effort, temperature)
            if attempt.fits and attempt.cost < best.cost:
                best = attempt
        limits = search_task.loosen_for_largest(self._raise_limits(ratio), self.task.cluster, best.slots)
        return SearchResult(best.slots, limits, ratio, self.oversized)

    def _raise_ratio(self, ratio: float) -> tuple[float, float, _Attempt] | None:
        """Find a ratio above which little is saved. Return a lower one that is too low, it, and the attempt."""
        raised, low, ratio = None, ratio, ratio + 0.05
        for _ in range(8):
            attempt = self.attempt(ratio, 0.5)
            if raised is not None and attempt.copies > _CHEAPER * raised[2].copies:
                break  # a higher ratio saves nothing
            if attempt.fits:
                raised = low, ratio, attempt
                if attempt.copies <= self._affordable:
                    break
            low, ratio = ratio, ratio + 2 * (ratio - low)
        return raised

    def _reach(self, ratio: float) -> _Attempt:
        """Return the best of some attempts at this ratio."""
        best = self.attempt(ratio, 1.0)
        for effort, temperature in _RETRIES:
            if best.nearly_fits and not best.fits:
                again = self.attempt(ratio, effort, temperature)
                best = again if again.is_better_than(best) else best
        return best


def _place_heavy(task: SearchTask, heavy: Flags, random: RandomState) -> Int32s:
    """Return the slots with partitions of much disk or bytes in where they fit, whatever their bytes out."""
    rows = np.flatnonzero(heavy)
    cluster = task.cluster._replace(bytes_out=np.zeros_like(task.cluster.bytes_out))
    excess = np.full(len(cluster.rack), _HEAVY_EXCESS_LOAD)
    weights = search_task.compute_weights(task)._replace(excess_disk=excess, excess_bytes_in=excess)
    state = search_state.create_state(cluster, task.limits, task.slots)
    schedule = Schedule(min(20_000 * len(rows), 4_000_000), 5e-2, 3e-5)
    search = create_search(cluster, task.limits, weights, state, random)
    relief, largest = search_task.compute_relief(task, rows), search_task.find_largest(task.limits, cluster)
    anneal_oversized(search, rows, largest, relief, task.targets, 0.0, schedule, task.uneven_cost)
    return state.slots


def pin_oversized(task: SearchTask, slots: Int32s, oversized: Flags) -> Flags:
    """Return the slots (bool, r) that stay: leaders and successors of oversized partitions, and huge replicas."""
    cluster = task.cluster
    sizes = np.diff(cluster.offsets)
    huge = np.repeat((cluster.disk > _HUGE) | (cluster.bytes_in > _HUGE), sizes)
    place = np.arange(len(slots)) - np.repeat(cluster.offsets[:-1], sizes)
    leads_or_succeeds = np.repeat(oversized, sizes) & (place < 2)
    crowded = np.zeros(len(cluster.rack), dtype=np.bool_)
    for load, limit in ((cluster.disk, task.limits.disk), (cluster.bytes_in, task.limits.bytes_in)):
        crowded |= np.bincount(slots[huge], load[cluster.row[huge]], len(cluster.rack)) > _FULL * limit
    return huge | (leads_or_succeeds & ~crowded[slots])


def search_assignment(task: SearchTask) -> SearchResult:
    """Search for replica lists within the limits; the same task gives the same result."""
    unchanged = SearchResult(task.slots, task.limits, task.failover_out, np.zeros(len(task.cluster.disk), np.bool_))
    if search_task.meets_limits(task, unchanged):
        return unchanged
    random = seed_random(task.seed)
    return _Phases(task, place_oversized(task, _find_oversized(task), random), random).search()


def accept_lists(task: SearchTask, slots: Int32s) -> SearchResult:
    """Return the result of an earlier search: oversized partitions allow the ratio that it reaches."""
    limits = search_task.loosen_for_largest(task.firm_limits, task.cluster, slots)
    oversized, state = _find_oversized(task), search_state.create_state(task.cluster, limits, slots)
    excess = float(search_task.measure_excess(limits, state)["failover_out"].max(initial=0.0))
    if not oversized.any() or not np.isfinite(excess):
        excess = 0.0
    limits = limits._replace(survivor_bytes_out=limits.survivor_bytes_out + excess)
    return SearchResult(slots, limits, task.failover_out + excess * (task.brokers - 1) / task.brokers, oversized)


def _find_oversized(task: SearchTask) -> Flags:
    heaviest = _OVERSIZED_SHARE * search_task.compute_takeover_room(task)
    return (task.cluster.bytes_out > heaviest) & task.cluster.can_change


def anneal_order(
    cluster: ClusterArrays,
    limits: BrokerLimits,
    state: SearchState,
    random: RandomState,
    leader: float,  # A typical leader, in units of a broker's bytes out
    proposals: int,
    rounds: Sequence[tuple[float, float, float]] = ANY_ORDER,
    leader_cost: float | None = None,
) -> None:
    """Anneal leaders and successors. rounds: (cost of a leader too many, first temperature, share of proposals).

    Leader counts cost little at first: bytes out often pass through a broker that then leads one too many.
    """
    free = np.zeros(len(cluster.rack))
    for cost, temperature, share in rounds:
        costs = (leader_cost or cost * leader, free, free, 3.0, cost * leader, 3.0)
        weights = CostWeights(0.0, 0.0, 0.005 * leader, 0.0025 * leader, 0.0, *costs)
        search = create_search(cluster, limits, weights, state, random)
        anneal_leadership(search, Schedule(int(share * proposals), temperature * leader, 2.5e-4 * leader), 0.7)


def order_leadership(
    task: SearchTask, slots: Int32s, limits: BrokerLimits, rounds: Sequence[tuple[float, float, float]] = ANY_ORDER
) -> SearchResult:
    """Return these lists with leaders and successors in an order that is nearer to the limits. Nothing is copied."""
    unchanged = SearchResult(slots, limits, task.failover_out, np.zeros(len(task.cluster.disk), np.bool_))
    phases = _Phases(task, unchanged, seed_random(task.seed))
    phases.order_leadership(rounds)
    return replace(unchanged, slots=phases.state.slots)


class _Phases:
    """The phases after the placement of oversized partitions. `state` changes, and `limits` may be raised."""

    def __init__(self, task: SearchTask, placement: SearchResult, random: RandomState):
        self.task, self.oversized, self.random, self.limits = task, placement.oversized, random, placement.limits
        self.placement = placement
        self.state = search_state.create_state(task.cluster, placement.limits, placement.slots)

    def search(self) -> SearchResult:
        """Run all phases."""
        weights, ratio = self._anneal_replicas(), self.placement.failover_out
        self._anneal_leadership()
        self._anneal_jointly(weights)
        before = np.inf
        for _ in range(_ROUNDS):
            excess = search_task.measure_excess(self.limits, self.state)
            left = max(float(excess["bytes_out"].max()), float(excess["failover_out"].max()))
            if left < _RATIO_STEP or left > _STUCK * before or ratio == np.inf:
                break
            before = left
            ratio += _RATIO_STEP  # brokers that take over oversized partitions lack headroom
            self.limits = self.limits._replace(survivor_bytes_out=self.limits.survivor_bytes_out + _RATIO_STEP)
            self._anneal_leadership()
            self._anneal_jointly(weights)
        self._even_out_leaders()
        return replace(self.placement, slots=self.state.slots, limits=self.limits, failover_out=ratio)

    def order_leadership(self, rounds: Sequence[tuple[float, float, float]]) -> None:
        """Run the phases that copy nothing."""
        self._anneal_leadership(rounds)
        self._even_out_leaders()

    def _anneal_replicas(self) -> CostWeights:
        """Anneal replica counts, disk and bytes in; charge what is left in excess more and more. Return the weights."""
        task, state = self.task, self.state
        weights = search_task.compute_weights(task, 4.0 * EXCESS_LOAD)
        if not len(task.targets):
            return weights
        start, end = _TEMPERATURE * task.replica_unit, 1e-3 * _TEMPERATURE * task.replica_unit
        schedule = Schedule(task.count_proposals(230, 1e7, 20), start, end)
        load = (task.cluster.disk + task.cluster.bytes_in)[task.cluster.row]
        light = np.argsort(load, kind="stable")[: int(_LIGHT_SHARE * len(load))].astype(np.int32)
        choices = MoveChoices(task.targets, light, pin_oversized(task, state.slots, self.oversized), _MIX)
        before = np.inf
        for step in range(6):
            anneal_replicas(create_search(task.cluster, self.limits, weights, state, self.random), choices, schedule)
            if step == 0:
                schedule = Schedule(schedule.proposals // 6, start / 10, end / 10)
            excess = search_task.measure_excess(self.limits, state)
            disk, bytes_in = excess["disk"] > _EXCESS, excess["bytes_in"] > _EXCESS
            if not (disk.any() or bytes_in.any() or excess["replicas"].any()):
                break
            left = float(excess["disk"].sum() + excess["bytes_in"].sum())
            if step > 1 and left > _STUCK * before and not excess["replicas"].any():
                break
            before = left
            weights = weights._replace(
                excess_replicas=2.0 * weights.excess_replicas,
                excess_disk=np.where(disk, 1.7 * weights.excess_disk, weights.excess_disk),
                excess_bytes_in=np.where(bytes_in, 1.7 * weights.excess_bytes_in, weights.excess_bytes_in),
                copied_replica=weights.copied_replica / 2,
            )
        search_state.recompute_state(task.cluster, self.limits, state)
        return weights

    def _anneal_leadership(self, rounds: Sequence[tuple[float, float, float]] = ANY_ORDER) -> None:
        """Anneal leaders and successors, but not of oversized partitions."""
        task, leader = self.task, self.task.leader_unit
        cluster = task.cluster._replace(can_change=task.cluster.can_change & ~self.oversized)
        proposals = task.count_proposals(23, 1e6, 6)
        anneal_order(cluster, self.limits, self.state, self.random, leader, proposals, rounds)

    def _even_out_leaders(self) -> None:
        """Even out leader counts again where even bytes out were traded for them: counts matter more."""
        if not (search_task.measure_excess(self.limits, self.state)["leaders"] >= TOLERANCE["leaders"]).any():
            return
        task, proposals, rounds = self.task, self.task.count_proposals(23, 1e6, 6), ((_LEADER_COST, 0.02, 1.0),)
        search = (task.cluster, self.limits, self.state, self.random)
        anneal_order(*search, task.leader_unit, proposals, rounds, _LEADER_COST)

    def _anneal_jointly(self, last: CostWeights) -> None:
        """Anneal everything for the remaining excess. last: weights of the replica annealing."""
        task, state, unit = self.task, self.state, self.task.replica_unit
        if not len(task.targets):
            return
        least = 12.0 * EXCESS_LOAD  # so that even disk and bytes in are not given up for bytes out
        excess = search_task.measure_excess(self.limits, state)
        # One cost, or excess goes where it is cheaper.
        if max(excess["disk"].max(), excess["bytes_in"].max()) > TOLERANCE[""]:
            least = max(least, 4.0 * last.excess_disk.max(), 4.0 * last.excess_bytes_in.max())
        weights = search_task.compute_weights(task)._replace(
            copied_replica=last.copied_replica,
            excess_replicas=last.excess_replicas,
            excess_disk=np.maximum(4.0 * last.excess_disk, least),
            excess_bytes_in=np.maximum(4.0 * last.excess_bytes_in, least),
        )
        proposals = task.count_proposals(23, 1e6, 4)
        for start, end, return_share in ((0.0075, 0.00075, 0.3), (0.002, 7.5e-5, 0.5)):
            search = create_search(task.cluster, self.limits, weights, state, self.random)
            anneal_jointly(search, task.targets, Schedule(proposals, start * unit, end * unit), return_share)
