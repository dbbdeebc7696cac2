"""From a cluster model, rules and request to the arrays of a search: units, cluster, and limits of every broker."""

from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import any_true
from udfs.planning.annealing.kernels.search_state import BrokerLimits, ClusterArrays
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Int32s, Ints
from udfs.planning.constraints import Rules, find_staying_brokers
from udfs.planning.plan_request import BYTES_IN, BYTES_OUT, DISK, FAILOVER, LEADERS, REPLICAS, PlanRequest, Targets
from udfs.planning.replicas.count_targets import compute_count_targets

NO_LIMIT = 1e18


@dataclass(frozen=True)
class LoadUnits:
    """Means over the counted brokers."""

    # bool (n), brokers that can share loads evenly after the plan: live, and not to be emptied. replicas, leaders:
    # Counts.
    counted: Flags
    replicas: float
    leaders: float
    disk: float  # Bytes. bytes_in, bytes_out: Bytes per second.
    bytes_in: float
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
    return ClusterArrays(
        offsets=offsets,
        row=np.repeat(np.arange(model.partitions, dtype=np.int32), np.diff(offsets)),
        initial_offsets=model.offsets,
        initial=model.replicas,
        disk=model.size / units.disk,
        bytes_in=model.rate_in / units.bytes_in,
        bytes_out=model.rate_out / units.bytes_out,
        rack=model.rack,
        rack_limit=rules.rack_cap.astype(np.int32),
        can_receive=rules.receives,
        can_lead=find_staying_brokers(model, rules),
        can_change=~rules.fixed & ~down,
    )


def compute_limits(
    model: ClusterModel, rules: Rules, units: LoadUnits, request: PlanRequest, cluster: ClusterArrays, loose: float
) -> BrokerLimits:
    """Compute what every broker should keep to. Loads that are not among the priorities have no limit.

    Args:
        model: The cluster.
        rules: Constraints.
        units: Units of the limits.
        request: Its targets and priorities.
        cluster: The arrays of the search.
        loose: For the goals expand and drain, disk and bytes in over the mean.
    """
    n, targets, priorities = model.brokers, request.targets, set(request.priorities)
    few_moves = request.goal in ("expand", "drain")
    low, high = _limit_counts(model, rules, units, targets, few_moves)
    disk_ratio, in_ratio = (max(target, loose) if few_moves else target for target in (targets.disk, targets.bytes_in))
    disk = _limit_load(model, rules, units, cluster.disk, disk_ratio)
    bytes_in = _limit_load(model, rules, units, cluster.bytes_in, in_ratio)
    out_ratio = max(targets.bytes_out, targets.loose_bytes) if few_moves else targets.bytes_out
    largest_leader = float(cluster.bytes_out.max(initial=0.0))
    bytes_out = np.full(n, max(out_ratio, largest_leader))
    if request.broker_bytes is not None:
        disk = np.minimum(disk, request.broker_bytes / units.disk)
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

    def limit(name: str, value: Floats | float) -> Floats:
        return np.where(units.counted & (name in priorities), value, NO_LIMIT)

    def limit_survivor(value: float) -> Floats:
        limited = (units.counted | apart) & (FAILOVER in priorities) & (remaining > 1)
        return np.where(limited, value, NO_LIMIT)

    def floor(name: str, value: Floats | float) -> Floats:
        return np.where(units.counted & (name in priorities), value, 0.0)

    first = model.replicas[model.offsets[:-1]]
    replicas, leaders = (np.bincount(brokers, minlength=n) for brokers in (model.replicas, first))
    max_leaders = _round_high(targets.leaders, units.leaders)
    mean_survivor = (model.partitions - lost) / survivors
    max_survivor = max(np.floor(targets.failover * mean_survivor + 1e-9), np.ceil(mean_survivor), max_leaders)
    survivor_out = targets.failover_out * (float(cluster.bytes_out.sum()) - lost_out) / survivors
    return BrokerLimits(
        min_replicas=np.where(apart, replicas, floor(REPLICAS, low)),
        max_replicas=limit(REPLICAS, high),
        min_leaders=np.where(apart, leaders, floor(LEADERS, _round_low(targets.min_over_mean, units.leaders))),
        max_leaders=np.where(apart, leaders, limit(LEADERS, max_leaders)),
        disk=limit(DISK, disk),
        bytes_in=limit(BYTES_IN, bytes_in),
        bytes_out=np.where(apart, np.bincount(first, cluster.bytes_out, n), limit(BYTES_OUT, bytes_out)),
        survivor_leaders=limit_survivor(max_survivor),
        survivor_bytes_out=limit_survivor(survivor_out),
        copied_disk=np.inf if request.max_bytes is None else request.max_bytes / units.disk,
        copied_replicas=np.inf if request.max_moves is None else float(request.max_moves),
    )


def _round_low(ratio: float, mean: float) -> float:
    return float(min(np.ceil(ratio * mean), np.floor(mean)))


def _round_high(ratio: float, mean: float) -> float:
    return float(max(np.floor(ratio * mean + 1e-9), np.ceil(mean)))


def _limit_counts(
    model: ClusterModel, rules: Rules, units: LoadUnits, targets: Targets, few_moves: bool
) -> tuple[Floats, Floats]:
    even = compute_count_targets(model, rules)
    low, high = even.low.astype(np.float64), even.high.astype(np.float64)
    if few_moves:
        return low, high
    low = np.minimum(low, _round_low(targets.min_over_mean, units.replicas))
    return low, np.maximum(high, _round_high(targets.replicas, units.replicas))


def _limit_load(model: ClusterModel, rules: Rules, units: LoadUnits, load: Floats, ratio: float) -> Floats:
    """Return `ratio` times the mean, or times what racks or one partition that stays require: float64 (n)."""
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
    return limit
