"""Replica lists put in another order: nothing is copied."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import position_of, row_of
from udfs.planning.cluster_model import ClusterModel, Flags, Ints, Places

# Texts of a proposal are told apart by int16; with more, all partitions share a general one.
MOST_REASONS = 30_000


def brought(offsets: Ints, replicas: Places, at: Ints, place: int) -> Places:
    """The lists (int32, r) in which the replicas `at` stand at `place` of theirs, and the others keep their order.

    at: int64, indices of replicas, at most one a partition, none before `place` of its list.
    """
    row, position = row_of(offsets), position_of(offsets)
    until = np.full(len(offsets) - 1, -1, dtype=np.int64)
    until[row[at]] = position[at]
    to = position + ((position >= place) & (position < until[row]))
    to[at] = place
    out = np.empty_like(replicas)
    out[offsets[:-1][row] + to] = replicas
    return out


def leaders_of(model: ClusterModel) -> Ints:
    """The preferred leader of each partition: int64 (p), a place, or -1 where the first replica is not live."""
    out = np.full(model.partitions, -1, dtype=np.int64)
    filled = np.flatnonzero(model.factor)
    first = model.replicas[model.offsets[:-1][filled]]
    out[filled] = np.where(model.live[first], first, -1)
    return out


def successors_of(model: ClusterModel) -> Ints:
    """Who leads each partition after its leader's broker fails: int64 (p), a place, or -1 if nobody."""
    out = np.full(model.partitions, -1, dtype=np.int64)
    rows = np.flatnonzero(model.factor > 1)
    second = model.replicas[model.offsets[:-1][rows] + 1]
    out[rows] = np.where(model.live[second], second, -1)
    return out


def may_lead_of(model: ClusterModel, may_lead: Flags | None) -> Flags:
    """Which brokers (bool, n) may lead: live, not draining, and among `may_lead` where that is given."""
    allowed: Flags = model.live & ~model.draining
    return allowed if may_lead is None else allowed & may_lead


def told(codes: Ints, text: Callable[[int], str], otherwise: str) -> tuple[npt.NDArray[np.int16], tuple[str, ...]]:
    """(reason, reasons) of a proposal: the text of each code (int64 (p), -1 = none), `otherwise` if they are too
    many."""
    reason = np.full(len(codes), -1, dtype=np.int16)
    rows = np.flatnonzero(codes >= 0)
    distinct, which = np.unique(codes[rows], return_inverse=True)
    if len(distinct) > MOST_REASONS:
        reason[rows] = 0
        return reason, (otherwise,)
    reason[rows] = which
    return reason, tuple(text(code) for code in distinct.tolist())


def some(ids: list[int]) -> str:
    """The first few ids, and how many more there are."""
    return ", ".join(map(str, ids[:8])) + (f" and {len(ids) - 8} more" if len(ids) > 8 else "")
