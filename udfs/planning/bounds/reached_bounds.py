"""Lower bounds of what any plan copies that reaches as much as a proposal: its rack limits, and its disks."""

import numpy as np

from udfs.arrow.ragged import row_of
from udfs.planning.cluster_model import ClusterModel, Flags, Ints, ProposedAssignment, ReplicaLists
from udfs.planning.constraints import Rules, count_in_racks


def count_missing_replicas(model: ClusterModel, rules: Rules) -> Ints:
    """Count the replicas that any legal plan copies of each partition: int64 (p).

    A partition keeps at most what is on brokers that stay, and of each rack at most what the rack may hold.
    """
    stays = ~rules.must_leave[model.replicas] | rules.fixed[model.row]
    row, count = count_in_racks(model, model, stays)
    count = np.where(rules.fixed[row], count, np.minimum(count, rules.rack_cap[row]))
    remaining = np.bincount(row, count, model.partitions).astype(np.int64)
    missing: Ints = np.maximum(rules.factor - remaining, 0)
    return missing


def count_forced_replicas(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> Ints:
    """Count what any plan copies that leaves no more of a partition where it must not be: int64 (p).

    These are replicas on brokers to be emptied, and replicas beyond what a rack may hold.
    """
    placed = model.with_lists(proposal.offsets, proposal.replicas)
    stayed = np.bincount(placed.row[rules.must_leave[placed.replicas]], minlength=model.partitions)
    left = stayed + _count_beyond_racks(model, placed, rules, ~rules.must_leave[placed.replicas])
    forced: Ints = np.maximum(count_missing_replicas(model, rules) - left, 0)
    return forced


def count_rack_repairs(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> Ints:
    """Count the copies of each partition, int64 (p), that only repair racks that hold too many of its replicas now."""
    stays = ~rules.must_leave[model.replicas]
    before = _count_beyond_racks(model, model, rules, stays)
    placed = model.with_lists(proposal.offsets, proposal.replicas)
    after = _count_beyond_racks(model, placed, rules, np.ones(len(placed.replicas), dtype=np.bool_))
    repairs: Ints = np.maximum(before - after, 0) * ~rules.fixed
    return repairs


def bound_bytes_by_disk(model: ClusterModel, rules: Rules, proposal: ProposedAssignment, counted: Flags) -> float:
    """Bound the bytes that any plan copies whose brokers hold between the least and the most of this proposal.

    What a counted broker (bool, n) has above the fullest one of the proposal leaves it, and so does what leaves the
    brokers to be emptied; what a counted broker has below the emptiest one comes to it.
    """
    if not counted.any():
        return 0.0
    # Copies have the leader's size, and so have all replicas here.
    sizes = ((lists.replicas, model.size[row_of(lists.offsets)]) for lists in (model, proposal))
    before, after = (np.bincount(*one, minlength=model.brokers) for one in sizes)
    leaving = np.maximum(before - after[counted].max(), 0.0)[counted].sum()
    leaving += np.maximum(before - after, 0.0)[rules.must_leave].sum()
    arriving = np.maximum(after[counted].min() - before, 0.0)[counted].sum()
    return float(max(leaving, arriving))


def _count_beyond_racks(model: ClusterModel, lists: ReplicaLists, rules: Rules, selected: Flags) -> Ints:
    """Count the selected replicas (bool, r) of each partition beyond what their racks may hold: int64 (p)."""
    row, count = count_in_racks(model, lists, selected)
    beyond = np.bincount(row, np.maximum(count - rules.rack_cap[row], 0), model.partitions)
    return beyond.astype(np.int64)
