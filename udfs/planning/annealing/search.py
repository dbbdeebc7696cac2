"""Search for replica lists within the limits of all brokers, by simulated annealing in phases.

1. Oversized partitions are placed. 2. Replicas are annealed: counts, disk, bytes in. 3. Leaders and successors are
annealed: nothing is copied. 4. Everything is annealed jointly for the remaining excess, and copied replicas return.
"""

import numpy as np

from udfs.planning.annealing.kernels.joint_annealing import anneal_jointly
from udfs.planning.annealing.kernels.leadership_annealing import anneal_leadership
from udfs.planning.annealing.kernels.replica_annealing import MOVE_KINDS, MoveChoices, anneal_replicas
from udfs.planning.annealing.kernels.search_moves import Schedule, seed_random
from udfs.planning.annealing.kernels.search_state import CostWeights, create_search, create_state, recompute_state
from udfs.planning.annealing.oversized_placement import (
    OversizedPlacement,
    find_oversized,
    pin_oversized,
    place_oversized,
)
from udfs.planning.annealing.search_task import (
    MINIMIZE_BYTES,
    TOLERANCE,
    SearchResult,
    SearchTask,
    compute_weights,
    measure_excess,
    meets_limits,
)
from udfs.planning.cluster_model import Flags
from udfs.planning.kernels.array_types import RandomState

_MIX = np.cumsum(np.array([4, 1, 1, 1, 1, 1, 1]) / 10)
assert len(_MIX) == MOVE_KINDS
_EXCESS = 1e-6  # units of the mean from which another round of replica annealing is worth it
_ROUNDS, _RATIO_STEP = 2, 0.01  # of raising the limit of bytes out after failures, and by how much
_STUCK = 0.9  # of the previous excess: if more is left, the limits are in the way and not the weights
_LEADER_COST = 10.0  # of a leader too many in the end, in units of bytes out
_LIGHT_SHARE = 0.03  # of all replicas


def search_assignment(task: SearchTask) -> SearchResult:
    """Search for replica lists within the limits; the same task gives the same result."""
    unchanged = SearchResult(task.slots, task.limits, task.failover_out, np.zeros(len(task.cluster.disk), np.bool_))
    if meets_limits(task, unchanged):
        return unchanged
    random, oversized = seed_random(task.seed), find_oversized(task)
    placement = place_oversized(task, oversized, random)
    return _Phases(task, oversized, placement, random).search(placement.failover_out)


class _Phases:
    """The phases after the placement of oversized partitions. `state` changes, and `limits` may be raised."""

    def __init__(self, task: SearchTask, oversized: Flags, placement: OversizedPlacement, random: RandomState):
        self.task, self.oversized, self.random, self.limits = task, oversized, random, placement.limits
        self.state = create_state(task.cluster, placement.limits, placement.slots)

    def search(self, ratio: float) -> SearchResult:
        """Run all phases. ratio: of bytes out after failures."""
        weights = self._anneal_replicas()
        self._anneal_leadership()
        self._anneal_jointly(weights)
        before = np.inf
        for _ in range(_ROUNDS):
            excess = measure_excess(self.limits, self.state)
            left = max(float(excess["bytes_out"].max()), float(excess["failover_out"].max()))
            if left < _RATIO_STEP or left > _STUCK * before or ratio == np.inf:
                break
            before = left
            ratio += _RATIO_STEP  # brokers that take over oversized partitions lack headroom
            self.limits = self.limits._replace(survivor_bytes_out=self.limits.survivor_bytes_out + _RATIO_STEP)
            self._anneal_leadership()
            self._anneal_jointly(weights)
        self._even_out_leaders()
        return SearchResult(self.state.slots, self.limits, ratio, self.oversized)

    def _anneal_replicas(self) -> CostWeights:
        """Anneal replica counts, disk and bytes in, and charge what is left in excess more and more.

        Returns:
            The last weights.
        """
        task, profile, state = self.task, self.task.profile, self.state
        weights = compute_weights(task, 4.0 * profile.excess_load)
        if not len(task.targets):
            return weights
        start, end = profile.temperature * task.replica_unit, 1e-3 * profile.temperature * task.replica_unit
        schedule = Schedule(task.count_proposals(230, 1e7, 30), start, end)
        load = (task.cluster.disk + task.cluster.bytes_in)[task.cluster.row]
        light = np.argsort(load, kind="stable")[: int(_LIGHT_SHARE * len(load))].astype(np.int32)
        choices = MoveChoices(task.targets, light, pin_oversized(task, state.slots, self.oversized), _MIX)
        before = np.inf
        for step in range(6):
            anneal_replicas(create_search(task.cluster, self.limits, weights, state, self.random), choices, schedule)
            if step == 0:
                schedule = Schedule(schedule.proposals // 6, start / 10, end / 10)
            excess = measure_excess(self.limits, state)
            disk, bytes_in = excess["disk"] > _EXCESS, excess["bytes_in"] > _EXCESS
            if not (disk.any() or bytes_in.any() or excess["replicas"].any()):
                break
            left = float(excess["disk"].sum() + excess["bytes_in"].sum())
            if step > 1 and left > _STUCK * before and not excess["replicas"].any():
                break
            before = left
            weights = weights._replace(
                excess_replicas=(2.0 if profile.copies_for_failover else 3.0) * weights.excess_replicas,
                excess_disk=np.where(disk, 1.7 * weights.excess_disk, weights.excess_disk),
                excess_bytes_in=np.where(bytes_in, 1.7 * weights.excess_bytes_in, weights.excess_bytes_in),
                copied_replica=weights.copied_replica / 2 if profile is MINIMIZE_BYTES else weights.copied_replica,
            )
        recompute_state(task.cluster, self.limits, state)
        return weights

    def _anneal_leadership(self) -> None:
        """Anneal leaders and successors, but not of oversized partitions.

        Leader counts cost little at first: bytes out often pass through a broker that then leads one too many.
        """
        task, leader = self.task, self.task.leader_unit
        cluster = task.cluster._replace(can_change=task.cluster.can_change & ~self.oversized)
        proposals, weights = task.count_proposals(23, 1e6, 6), compute_weights(task, 4.0)
        for cost, temperature, share in ((0.3, 0.5, 0.7), (2.0, 0.02, 0.3)):
            weights = weights._replace(excess_leaders=cost * leader, excess_survivor_leaders=cost * leader)
            search = create_search(cluster, self.limits, weights, self.state, self.random)
            anneal_leadership(search, Schedule(int(share * proposals), temperature * leader, 2.5e-4 * leader), 0.7)

    def _even_out_leaders(self) -> None:
        """Even out leader counts again where even bytes out were traded for them: counts matter more."""
        if not (measure_excess(self.limits, self.state)["leaders"] >= TOLERANCE["leaders"]).any():
            return
        task, leader = self.task, self.task.leader_unit
        weights = compute_weights(task, 4.0)._replace(
            excess_leaders=_LEADER_COST, excess_survivor_leaders=_LEADER_COST * leader
        )
        schedule = Schedule(task.count_proposals(23, 1e6, 6), 0.02 * leader, 2.5e-4 * leader)
        anneal_leadership(create_search(task.cluster, self.limits, weights, self.state, self.random), schedule, 0.7)

    def _anneal_jointly(self, last: CostWeights) -> None:
        """Anneal everything for the remaining excess. last: weights of the replica annealing."""
        task, state, unit = self.task, self.state, self.task.replica_unit
        if not len(task.targets):
            return
        least = 12.0 * task.profile.excess_load  # so that even disk and bytes in are not given up for bytes out
        excess = measure_excess(self.limits, state)
        if (
            max(excess["disk"].max(), excess["bytes_in"].max()) > TOLERANCE[""]
        ):  # one cost, or excess goes where cheaper
            least = max(least, 4.0 * last.excess_disk.max(), 4.0 * last.excess_bytes_in.max())
        weights = compute_weights(task)._replace(
            copied_replica=last.copied_replica,
            excess_replicas=last.excess_replicas,
            excess_disk=np.maximum(4.0 * last.excess_disk, least),
            excess_bytes_in=np.maximum(4.0 * last.excess_bytes_in, least),
        )
        proposals = task.count_proposals(23, 1e6, 4)
        for start, end, return_share in ((0.0075, 0.00075, 0.3), (0.002, 7.5e-5, 0.5)):
            search = create_search(task.cluster, self.limits, weights, state, self.random)
            anneal_jointly(search, task.targets, Schedule(proposals, start * unit, end * unit), return_share)
