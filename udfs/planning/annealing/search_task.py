"""What an annealing search takes and returns, the weights of its objective, and the excess over its limits."""

from dataclasses import dataclass

import numpy as np

from udfs.planning.annealing.kernels.search_state import (
    BrokerLimits,
    ClusterArrays,
    CostWeights,
    SearchState,
    create_state,
)
from udfs.planning.bounds.copy_bounds import CopyBound
from udfs.planning.cluster_model import Flags, Floats, Int32s

# Excess that counts as none: of counts, and in units of the mean of all others.
TOLERANCE = {"replicas": 0.5, "leaders": 0.5, "failover": 0.5, "": 2e-4}
_USUAL_LIMIT, _MIN_ROOM = 1.03, 0.02  # of a broker's bytes out, and of room beside them, in units of the mean


@dataclass(frozen=True)
class CostProfile:
    """What an objective charges. Costs of replicas are in typical replicas, costs of loads in units of the mean."""

    copied_disk: float  # Of a unit copied
    copied_replica: float  # Of a replica copied
    excess_replica: float  # Of a replica beyond a limit
    excess_load: float  # Of a unit of disk or bytes in beyond a limit, at first
    temperature: float  # The first temperature
    copies_for_failover: bool  # Whether replicas are copied to even out bytes out after a failure
    heavy_share: float  # Partitions above this share of a broker's disk or bytes in are placed before all others
    heavy_excess_load: float  # As excess_load, while heavy partitions are placed


MINIMIZE_BYTES = CostProfile(1.0, 0.015, 0.75, 1.02, 0.075, True, 0.15, 0.9)
MINIMIZE_MOVES = CostProfile(0.02, 20.0, 40.0, 1.0, 1.0, False, 0.03, 1.0)


@dataclass(frozen=True)
class SearchTask:
    """A search for replica lists."""

    cluster: ClusterArrays  # The cluster
    limits: BrokerLimits  # What brokers should keep to
    slots: Int32s  # int32 (r), the lists to start from
    targets: Int32s  # int32, brokers that may receive
    brokers: int  # Number of brokers that the means are over
    # Target for the bytes out of the worst survivor, over the mean, as in limits.survivor_bytes_out
    failover_out: float
    profile: CostProfile  # Costs
    copy_bound: CopyBound  # Lower bound of what must be copied
    seed: int  # Seed of the random moves
    placed: Flags | None = None  # bool (p), partitions that are placed already, or None

    @property
    def replica_unit(self) -> float:
        """A typical replica, in units of a broker's disk."""
        return self.brokers / max(len(self.slots), 1)

    @property
    def leader_unit(self) -> float:
        """A typical leader, in units of a broker's bytes out."""
        return self.brokers / max(len(self.cluster.disk), 1)

    def count_proposals(self, dense: float, limit: float, sparse: float) -> int:
        """Return `dense` moves for each replica, up to `limit`, but at least `sparse` for each."""
        r = len(self.slots)
        return int(max(min(dense * r, limit), sparse * r, 2_000))


@dataclass(frozen=True)
class SearchResult:
    """Replica lists that a search found."""

    slots: Int32s  # int32 (r)
    limits: BrokerLimits  # The limits in the end: those for bytes out after failures may have been raised
    failover_out: float  # The ratio that oversized partitions allow
    oversized: Flags  # bool (p), partitions that fill most of what one broker can take over


def measure_excess(limits: BrokerLimits, state: SearchState) -> dict[str, Floats]:
    """Return what each broker (float64, n) has beyond its limits, by name; replicas and leaders in both directions."""
    few_replicas = np.maximum(limits.min_replicas - state.replicas, 0.0)
    few_leaders = np.maximum(limits.min_leaders - state.leaders, 0.0)
    return {
        "replicas": np.maximum(state.replicas - limits.max_replicas, few_replicas).clip(0.0),
        "leaders": np.maximum(state.leaders - limits.max_leaders, few_leaders).clip(0.0),
        "disk": (state.disk - limits.disk).clip(0.0),
        "bytes_in": (state.bytes_in - limits.bytes_in).clip(0.0),
        "bytes_out": (state.bytes_out - limits.bytes_out).clip(0.0),
        "failover": (state.leaders + state.takeovers.worst).clip(0.0),
        "failover_out": (state.bytes_out + state.takeovers_bytes_out.worst).clip(0.0),
    }


def meets_limits(task: SearchTask, result: SearchResult) -> bool:
    """Tell whether the lists keep to all limits."""
    excess = measure_excess(result.limits, create_state(task.cluster, result.limits, result.slots))
    return not any((much > TOLERANCE.get(name, TOLERANCE[""])).any() for name, much in excess.items())


def compute_takeover_room(task: SearchTask) -> float:
    """Return the bytes out that a broker at its limit can take over, in units of the mean.

    Where one leader alone raises all limits, it is what a usual limit leaves.
    """
    least = float((task.limits.survivor_bytes_out - task.limits.bytes_out).min(initial=np.inf))
    return max(least, task.failover_out - _USUAL_LIMIT, _MIN_ROOM)


def compute_weights(task: SearchTask, max_excess_cost: float | None = None) -> CostWeights:
    """Return the weights of the objective.

    Args:
        task: The search.
        max_excess_cost: Charge excess of disk and bytes in by what the copy bound says that it takes to avoid it, up
            to this; None = charge the profile's `excess_load`.
    """
    profile, n, leader = task.profile, len(task.cluster.rack), task.leader_unit
    disk = bytes_in = np.full(n, profile.excess_load)
    if max_excess_cost is not None:
        by_bound = (cost * 1.02 * profile.copied_disk for cost in (task.copy_bound.disk, task.copy_bound.into))
        floors = (profile.excess_load, profile.excess_load / 2)
        disk, bytes_in = (
            np.minimum(np.maximum(cost, floor), max_excess_cost) for cost, floor in zip(by_bound, floors, strict=True)
        )
    return CostWeights(
        copied_disk=profile.copied_disk,
        copied_replica=profile.copied_replica * task.replica_unit,
        leader_change=0.005 * leader,
        successor_change=0.0025 * leader,
        excess_replicas=profile.excess_replica * task.replica_unit,
        excess_leaders=1.0 * leader,
        excess_disk=disk,
        excess_bytes_in=bytes_in,
        excess_bytes_out=3.0,
        excess_survivor_leaders=1.0 * leader,
        excess_survivor_bytes_out=3.0,
    )
