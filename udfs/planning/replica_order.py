"""The order of replica lists: preferred leaders, successors, and lists that are reordered without copying anything."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import position_of, row_of
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Int32s, Ints

Array = npt.NDArray[Any]

# Reasons of a proposal are numbered with int16. Above this number, all partitions share a general reason.
MAX_REASONS = 30_000


def promote_replicas(offsets: Ints, replicas: Int32s, chosen: Ints, position: int) -> Int32s:
    """Move chosen replicas forward to `position` of their lists; the others keep their order.

    Args:
        offsets: int64 (p + 1), list boundaries.
        replicas: int32 (r), brokers by index.
        chosen: int64, indices of replicas, at most one per partition, none before `position` of its list.
        position: 0 for the preferred leader, 1 for its successor.

    Returns:
        The replicas in their new order, int32 (r).
    """
    row, old = row_of(offsets), position_of(offsets)
    until = np.full(len(offsets) - 1, -1, dtype=np.int64)
    until[row[chosen]] = old[chosen]
    new = old + ((old >= position) & (old < until[row]))
    new[chosen] = position
    out = np.empty_like(replicas)
    out[offsets[:-1][row] + new] = replicas
    return out


def compute_leader_loads(model: ClusterModel, weight: Floats | None = None, taken_over: Flags | None = None) -> Array:
    """Compute the load of the leaders of each broker after each failure.

    Args:
        model: The cluster.
        weight: float64 (p), load of each leader; None = 1.
        taken_over: bool (p), partitions whose successor takes over; None = all. Without a successor, they are lost.

    Returns:
        int64 or float64 (n, n), by failed broker and survivor; 0 for the failed broker itself.
    """
    n, leader, successor = model.brokers, model.preferred_leaders, model.successors
    led = leader >= 0
    used = led & (successor >= 0)
    if taken_over is not None:
        used &= taken_over
    keys = leader[used] * n + successor[used]
    loads = np.bincount(keys, None if weight is None else weight[used], n * n).reshape(n, n)
    loads = loads + np.bincount(leader[led], None if weight is None else weight[led], n)
    np.fill_diagonal(loads, 0)
    return loads


def find_eligible_leaders(model: ClusterModel, may_lead: Flags | None) -> Flags:
    """Find the brokers (bool, n) that may lead: live, not draining, and in `may_lead` (bool, n) if that is set."""
    eligible: Flags = model.live & ~model.draining
    return eligible if may_lead is None else eligible & may_lead


def encode_reasons(
    codes: Ints, describe: Callable[[int], str], general: str
) -> tuple[npt.NDArray[np.int16], tuple[str, ...]]:
    """Number the distinct reasons of a proposal.

    Args:
        codes: int64 (p), what the reason of each partition depends on; -1 = unchanged.
        describe: Text of a code.
        general: Text for all partitions if there are more than MAX_REASONS codes.

    Returns:
        The reason of each partition (int16, p, -1 = unchanged), and the texts.
    """
    reason = np.full(len(codes), -1, dtype=np.int16)
    rows = np.flatnonzero(codes >= 0)
    distinct, which = np.unique(codes[rows], return_inverse=True)
    if len(distinct) > MAX_REASONS:
        reason[rows] = 0
        return reason, (general,)
    reason[rows] = which
    return reason, tuple(describe(code) for code in distinct.tolist())
