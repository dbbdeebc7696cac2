"""The task of an annealing search: cluster, units, limits of every broker, weights, and the excess over limits."""

from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import any_true, row_of
from udfs.planning.annealing.kernels import search_state
from udfs.planning.annealing.kernels.oversized_annealing import LargestPartitions, ReliefCurves
from udfs.planning.annealing.kernels.search_state import BrokerLimits, ClusterArrays, CostWeights, SearchState
from udfs.planning.bounds.lower_bounds import CopyBound
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Int32s, Ints
from udfs.planning.constraints import Rules, find_staying_brokers
from udfs.planning.plan_request import BYTES_IN, BYTES_OUT, DISK, FAILOVER, LEADERS, REPLICAS, PlanRequest
from udfs.planning.replicas.count_limits import compute_count_targets

NO_LIMIT = 1e18

# Excess that counts as none: of counts, and in units of the mean of all others.
TOLERANCE = {"replicas": 0.5, "leaders": 0.5, "failover": 0.5, "": 2e-4}
# Of the mean, what brokers have to lead at least; the smallest partitions of all are not at the brokers that need them
_SMALL_LEADERS, _LARGER_LEADERS = 0.01, 2.0
_USUAL_LIMIT, _MIN_ROOM = 1.03, 0.02  # of a broker's bytes out, and of room beside them, in units of the mean


@dataclass(frozen=True)
class LoadUnits:
    """Means over the counted brokers."""

    counted: Flags  # bool (n), brokers that can share loads evenly after the plan: live, and not to be emptied
    replicas: float
    leaders: float
    disk: float  # Bytes
    bytes_in: float  # Bytes per second, as bytes_out
    bytes_out: float

    @property
    def brokers(self) -> int:
        """Number of counted brokers."""
        return int(self.counted.sum())


def compute_units(model: ClusterModel, rules: Rules) -> LoadUnits:
    """Compute the means after the plan."""
    stays = find_staying_brokers(model, rules)
    replicas = np.bincount(model.replicas, minlength=model.brokers)
    # A broker that gets nothing more and has less than the others cannot be evened out: it is left out with its load.
    counted = stays & (rules.receives | (replicas * max(int(stays.sum()), 1) >= rules.factor.sum()))
    apart = ~counted & ~rules.must_leave
    row, leader = model.row, model.replicas[model.offsets[:-1]]
    n = max(int(counted.sum()), 1)

    def mean(load: Floats) -> float:
        return float((load * rules.factor).sum() - load[row[apart[model.replicas]]].sum()) / n

    disk, bytes_in = mean(model.size), mean(model.rate_in)
    leaders = float((~apart[leader]).sum()) / n
    bytes_out = float(model.rate_out[~apart[leader]].sum()) / n
    loads = (max(load, 0.0) or 1.0 for load in (disk, bytes_in, bytes_out))
    return LoadUnits(counted, mean(np.ones(model.partitions)), leaders, *loads)


def build_cluster_arrays(
    model: ClusterModel, rules: Rules, units: LoadUnits, offsets: Ints, replicas: Int32s
) -> ClusterArrays:
    """Build the arrays of a search that starts from these lists. Partitions with a down replica keep their list."""
    down = any_true(~model.live[replicas], offsets)
    lists = (offsets, row_of(offsets).astype(np.int32), model.offsets, model.replicas)
    loads = (model.size / units.disk, model.rate_in / units.bytes_in, model.rate_out / units.bytes_out)
    brokers = (model.rack, rules.rack_cap.astype(np.int32), rules.receives, find_staying_brokers(model, rules))
    arrays = (*lists, *loads, *brokers)
    return ClusterArrays(*arrays, ~rules.fixed & ~down)


# Of a capacity: a search may exceed its limits by a little.
_SEARCHED_CAPACITY = 0.995


def compute_limits(
    model: ClusterModel, rules: Rules, units: LoadUnits, request: PlanRequest, cluster: ClusterArrays
) -> BrokerLimits:
    """Compute the limits of every broker."""
    n, targets, priorities = model.brokers, request.targets, set(request.priorities)
    even = compute_count_targets(model, rules)
    low, high = even.low.astype(np.float64), even.high.astype(np.float64)
    least = targets.loose_bytes if request.goal in ("expand", "drain") else 0.0
    disk_ratio, in_ratio, out_ratio = (max(one, least) for one in (targets.disk, targets.bytes_in, targets.bytes_out))
    low = np.minimum(low, _round_low(targets.min_over_mean, units.replicas))
    high = np.maximum(high, _round_high(targets.replicas, units.replicas))
    capacity = _SEARCHED_CAPACITY * rules.broker_bytes / units.disk
    disk = _limit_load(model, rules, units, cluster.disk, disk_ratio, capacity)
    bytes_in = _limit_load(model, rules, units, cluster.bytes_in, in_ratio)
    if request.broker_replicas is not None:
        high = np.minimum(high, request.broker_replicas)
    # A broker that gets nothing more and has less than the others does not give either.
    apart = find_staying_brokers(model, rules) & ~units.counted
    remaining = int((units.counted | apart).sum())
    survivors = max(remaining - 1, 1)
    # Partitions with one replica are lost with their broker: spread evenly, as all else.
    single = np.diff(cluster.offsets) == 1
    lost, lost_out = (
        total / max(remaining, 1) for total in (int(single.sum()), float(cluster.bytes_out[single].sum()))
    )

    def limit(name: str, value: Floats | float, otherwise: float = NO_LIMIT) -> Floats:
        return np.where(units.counted & (name in priorities), value, otherwise)

    def limit_survivor(value: float) -> Floats:
        limited = (units.counted | apart) & (FAILOVER in priorities) & (remaining > 1)
        return np.where(limited, value, NO_LIMIT)

    first = model.replicas[model.offsets[:-1]]
    replicas, leaders = (np.bincount(brokers, minlength=n) for brokers in (model.replicas, first))
    min_leaders = _round_low(targets.min_over_mean, units.leaders)
    max_leaders = _round_high(targets.leaders, units.leaders)
    mean_survivor = (model.partitions - lost) / survivors
    max_survivor = max(np.floor(targets.failover * mean_survivor + 1e-9), np.ceil(mean_survivor), max_leaders)
    survivor_out = targets.failover_out * (float(cluster.bytes_out.sum()) - lost_out) / survivors
    return BrokerLimits(
        min_replicas=np.where(apart, replicas, limit(REPLICAS, low, 0.0)),
        max_replicas=limit(REPLICAS, high),
        min_leaders=np.where(apart, leaders, limit(LEADERS, min_leaders, 0.0)),
        max_leaders=np.where(apart, leaders, limit(LEADERS, max_leaders)),
        disk=limit(DISK, disk),
        bytes_in=limit(BYTES_IN, bytes_in),
        bytes_out=np.where(apart, np.bincount(first, cluster.bytes_out, n), limit(BYTES_OUT, out_ratio)),
        survivor_leaders=limit_survivor(max_survivor),
        survivor_bytes_out=limit_survivor(survivor_out),
        copied_disk=np.inf if request.max_bytes is None else request.max_bytes / units.disk,
        copied_replicas=np.inf if request.max_moves is None else float(request.max_moves),
    )


def get_usual_bytes_out(limits: BrokerLimits) -> float:
    """Return the limit of bytes out of a broker that leads no oversized partition, in units of the mean."""
    return float(np.median(limits.bytes_out))


def compute_small_leaders(limits: BrokerLimits, cluster: ClusterArrays) -> float:
    """Compute the bytes out of the small partitions that a broker has to lead beside one of the largest, in means."""
    brokers = 2 * int((cluster.bytes_out > get_usual_bytes_out(limits)).sum())  # they lead or succeed these
    count = int(brokers * np.median(limits.min_leaders)) if brokers else 0
    least = np.sort(cluster.bytes_out)[:count].sum() / max(brokers, 1)
    return float(max(_SMALL_LEADERS, _LARGER_LEADERS * least))


def loosen_for_largest(limits: BrokerLimits, cluster: ClusterArrays, slots: Int32s) -> BrokerLimits:
    """Loosen the limits of brokers that lead or succeed, at `slots`, a partition whose bytes out alone exceed them.

    Such a partition stays there: wherever it goes, it exceeds a limit.
    """
    small = compute_small_leaders(limits, cluster)
    first, alone, load = cluster.offsets[:-1], np.diff(cluster.offsets) == 1, cluster.bytes_out
    leader, successor = slots[first], slots[np.minimum(first + 1, max(len(slots) - 1, 0))]
    bytes_out, survivor = limits.bytes_out.copy(), limits.survivor_bytes_out.copy()
    rows = load > limits.bytes_out[leader]
    np.maximum.at(bytes_out, leader[rows], load[rows] + small)
    for brokers, may_exceed in ((leader, rows), (successor, ~alone)):
        rows = (load > limits.survivor_bytes_out[brokers]) & may_exceed
        np.maximum.at(survivor, brokers[rows], load[rows] + 3 * small)
    return limits._replace(bytes_out=bytes_out, survivor_bytes_out=survivor)


def _round_low(ratio: float, mean: float) -> float:
    return float(min(np.ceil(ratio * mean), np.floor(mean)))


def _round_high(ratio: float, mean: float) -> float:
    return float(max(np.floor(ratio * mean + 1e-9), np.ceil(mean)))


def _raise_limits(limit: Floats, capacity: Floats, brokers: Flags, load: float) -> None:
    """Raise limits of some brokers evenly, up to their capacities, until they can hold a load together: float64 (n)."""
    for _ in range(len(limit)):  # in each round but the last, a broker is filled
        rest, is_open = load - limit[brokers].sum(), brokers & (limit < capacity)
        if rest <= 1e-9 or not is_open.any():
            break
        limit[is_open] = np.minimum(limit + rest / is_open.sum(), capacity)[is_open]


def _limit_load(
    model: ClusterModel, rules: Rules, units: LoadUnits, load: Floats, ratio: float, capacity: Floats | None = None
) -> Floats:
    """Return `ratio` times the mean, or times what racks or one partition that stays require: float64 (n).

    capacity: float64 (n), the most that brokers can hold, so that others of their racks, or all, must hold more.
    """
    counted, n, factor = units.counted, model.brokers, rules.factor
    in_rack = np.bincount(model.rack[counted], minlength=int(model.rack.max(initial=0)) + 1).astype(np.float64)
    racks = np.flatnonzero(in_rack)
    room = np.minimum(rules.rack_cap[:, None], in_rack[None, racks])  # p x racks
    most = np.minimum(room, factor[:, None])
    least = np.maximum(factor[:, None] - (room.sum(axis=1)[:, None] - room), 0.0)
    total, share = float((load * factor).sum()), np.ones(n)
    for i, rack in enumerate(racks.tolist()):
        here, elsewhere = counted & (model.rack == rack), counted & (model.rack != rack)
        share[here] = np.maximum(share[here], load @ least[:, i] / in_rack[rack])
        if elsewhere.any():
            share[elsewhere] = np.maximum(share[elsewhere], (total - load @ most[:, i]) / elsewhere.sum())
    limit = ratio * share
    # A partition too large for any broker stays where it is, and those brokers' limits are its size.
    slots = np.flatnonzero(load[model.row] > ratio)
    np.maximum.at(limit, model.replicas[slots], ratio * load[model.row[slots]])
    if capacity is not None and (limit > capacity)[counted].any():
        np.minimum(limit, capacity, out=limit)
        for i, rack in enumerate(racks.tolist()):
            _raise_limits(limit, capacity, counted & (model.rack == rack), ratio * float(load @ least[:, i]))
        _raise_limits(limit, capacity, counted, ratio * total)
    return limit


# What a search charges. Costs of replicas are in typical replicas, costs of loads in units of the mean.
COPIED_REPLICA, EXCESS_REPLICA = 0.015, 0.75  # of a replica copied, and beyond a limit
EXCESS_LOAD = 1.02  # of a unit of disk or bytes in beyond a limit, at first
# Of a unit by which a broker's disk and bytes in differ, while heavy and oversized partitions are placed; and where
# single partitions exceed what a broker may lead, as their bytes in fill brokers
_UNEVEN_LOAD, _UNEVEN_LARGEST = 0.15, 0.35
RELIEF_STEPS = 32  # of the curve of disk over bytes in that leave a broker


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
    copy_bound: CopyBound  # Lower bound of what must be copied
    seed: int  # Seed of the random moves
    # Limits of bytes out, now and after failures, before they are loosened for the largest partitions: float64 (n) each
    firm_bytes_out: tuple[Floats, Floats]
    # Looser limits of bytes out to try, in this order, before the target after failures is given up
    loose_bytes_out: tuple[float, ...] = ()

    @property
    def firm_limits(self) -> BrokerLimits:
        """Return the limits before they are loosened for the largest partitions."""
        bytes_out, survivor = self.firm_bytes_out
        return self.limits._replace(bytes_out=bytes_out, survivor_bytes_out=survivor)

    @property
    def uneven_cost(self) -> float:
        """What a unit costs by which a broker's disk and bytes in differ; 0 if one of them has no limit."""
        limited = all((limit < NO_LIMIT / 2).any() for limit in (self.limits.disk, self.limits.bytes_in))
        has_largest = (self.cluster.bytes_out > get_usual_bytes_out(self.limits)).any()
        return (_UNEVEN_LARGEST if has_largest else _UNEVEN_LOAD) if limited else 0.0

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
    return not has_excess(result.limits, search_state.create_state(task.cluster, result.limits, result.slots))


def has_excess(limits: BrokerLimits, state: SearchState) -> bool:
    """Tell whether a broker has more beyond a limit than the tolerance."""
    excess = measure_excess(limits, state)
    return any((much > TOLERANCE.get(name, TOLERANCE[""])).any() for name, much in excess.items())


def compute_takeover_room(task: SearchTask) -> float:
    """Return the bytes out that a broker at its limit, or at the usual one, can take over, in units of the mean."""
    room = task.limits.survivor_bytes_out - task.limits.bytes_out
    least = float(np.median(room)) if len(room) else np.inf
    return max(least, task.failover_out - _USUAL_LIMIT, _MIN_ROOM)


def compute_weights(task: SearchTask, max_excess_cost: float | None = None) -> CostWeights:
    """Return the weights. max_excess_cost: the most to charge excess load by the copy bound; None = excess_load."""
    n, leader = len(task.cluster.rack), task.leader_unit
    disk = bytes_in = np.full(n, EXCESS_LOAD)
    if max_excess_cost is not None:
        by_bound = (cost * 1.02 for cost in (task.copy_bound.disk, task.copy_bound.into))
        floors = (EXCESS_LOAD, EXCESS_LOAD / 2)
        disk, bytes_in = (
            np.minimum(np.maximum(cost, floor), max_excess_cost) for cost, floor in zip(by_bound, floors, strict=True)
        )
    copies = (1.0, COPIED_REPLICA * task.replica_unit, 0.005 * leader, 0.0025 * leader)
    counts = (*copies, EXCESS_REPLICA * task.replica_unit, 1.0 * leader)
    return CostWeights(*counts, disk, bytes_in, 3.0, 1.0 * leader, 3.0)


def find_largest(limits: BrokerLimits, cluster: ClusterArrays) -> LargestPartitions:
    """Find the partitions that exceed what a broker may lead. limits: of brokers that neither lead nor succeed them."""
    usual, small = get_usual_bytes_out(limits), compute_small_leaders(limits, cluster)
    rows = np.flatnonzero((cluster.bytes_out > usual) & cluster.can_change)
    return LargestPartitions(rows, usual, small, limits.bytes_out.copy(), limits.survivor_bytes_out.copy())


def compute_relief(task: SearchTask, rows: Ints) -> ReliefCurves:
    """Compute the disk that leaves each broker with its bytes in, if `rows` (int64) stay and the least disk leaves."""
    cluster, slots, n = task.cluster, task.slots, len(task.cluster.rack)
    others = np.flatnonzero(~np.isin(cluster.row, rows) & (cluster.bytes_in > 0.0)[cluster.row])
    row = cluster.row[others]
    order = np.lexsort((cluster.disk[row] / cluster.bytes_in[row], slots[others]))
    ends = np.searchsorted(slots[others][order], np.arange(n + 1))
    loads = [np.append(0.0, np.cumsum(load[row[order]])) for load in (cluster.bytes_in, cluster.disk)]
    step, disk = np.empty(n), np.empty((n, RELIEF_STEPS + 1))
    for b in range(n):
        bytes_in, left = (load[ends[b] : ends[b + 1] + 1] - load[ends[b]] for load in loads)
        step[b] = max(float(bytes_in[-1]), 1e-3) / RELIEF_STEPS
        disk[b] = np.interp(step[b] * np.arange(RELIEF_STEPS + 1), bytes_in, left)
    return ReliefCurves(step, disk)
