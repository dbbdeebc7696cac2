"""Moves the new replicas of a plan from brokers whose disks have no room for them to others that have it."""

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import row_of
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.constraints import Rules
from udfs.wording import format_bytes

Int32s = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_ROUNDING = 1e-9  # of a capacity


def fit_disks(model: ClusterModel, rules: Rules, offsets: Ints, replicas: Int32s) -> Int32s:
    """Return lists in which no broker gets more bytes than its disks have room for, as far as possible: int32 (r).

    The largest new replicas of a full broker move first: back to a broker of the list before, or to that with the most
    room, in the same place of the list. Racks hold no more replicas than rules.rack_cap, or than they of_cluster.

    Args:
        model: The cluster before the plan.
        rules: Which brokers receive replicas, and how many bytes each may hold.
        offsets: int64 (p + 1), of the lists.
        replicas: int32 (r), indices of brokers.
    """
    capacity = rules.broker_bytes * (1 + _ROUNDING)
    row = row_of(offsets)
    used = np.bincount(replicas, model.size[row], model.brokers)
    over = np.flatnonzero(used > capacity)
    if not len(over):
        return replicas
    fitting, is_new = replicas.copy(), _find_new(model, row, replicas)
    received = np.bincount(replicas[is_new], model.size[row[is_new]], model.brokers)
    for broker in over[np.argsort((capacity - used)[over])].tolist():
        slots = np.flatnonzero((replicas == broker) & is_new & (model.size[row] > 0))
        for slot in slots[np.argsort(-model.size[row[slots]], kind="stable")].tolist():
            if used[broker] <= capacity[broker]:
                break
            partition = int(row[slot])
            size = float(model.size[partition])
            own = fitting[offsets[partition] : offsets[partition + 1]]
            before = model.replicas[model.offsets[partition] : model.offsets[partition + 1]]
            has_room = used + size <= capacity
            has_room[own] = False
            has_room &= _has_place(model, rules, partition, own[own != broker], before)
            stays = before[has_room[before] & ~rules.must_leave[before] & model.live[before]]
            receives = np.flatnonzero(has_room & rules.receives & (received + size <= rules.broker_budget))
            candidates = stays if len(stays) else receives
            if not len(candidates):
                continue
            # Brokers of which no disk is known have room without end: then that with the fewest bytes.
            order = np.lexsort((used[candidates], (used - capacity)[candidates]))
            to = int(candidates[order[0]])
            fitting[slot] = to
            used[broker] -= size
            used[to] += size
            received[broker] -= size
            received[to] += size if to not in before else 0.0
    return fitting


def describe_overfull(model: ClusterModel, rules: Rules, broker: int, load: float) -> str:
    """Say that a broker would hold more bytes than it may."""
    excess = format_bytes(load - rules.broker_bytes[broker])
    return f"broker {model.broker_ids[broker]} would hold {format_bytes(load)}, {excess} more than its disks may"


def _find_new(model: ClusterModel, row: Ints, replicas: Int32s) -> Bools:
    """Find the replicas that the plan copies: bool (r)."""
    of_cluster = np.unique(model.row * model.brokers + model.replicas)
    is_new: Bools = ~np.isin(row * model.brokers + replicas, of_cluster)
    return is_new


def _has_place(model: ClusterModel, rules: Rules, partition: int, others: Int32s, before: Int32s) -> Bools:
    """Find the brokers in whose rack a partition may have one more replica beside these others: bool (n)."""
    racks = int(model.rack.max(initial=0)) + 1
    here, earlier = (np.bincount(model.rack[brokers], minlength=racks) for brokers in (others, before))
    has_place: Bools = (here < np.maximum(rules.rack_cap[partition], earlier))[model.rack]
    return has_place
