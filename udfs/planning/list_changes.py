"""Changes of replica lists: replicas that move forward in them, and numbered reasons."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import position_of, row_of
from udfs.planning.cluster_model import Int32s, Ints

# Reasons of a proposal are numbered with int16. Above this number, all partitions share a general reason.
MAX_REASONS = 30_000


def promote_replicas(offsets: Ints, replicas: Int32s, chosen: Ints, position: int) -> Int32s:
    """Move chosen replicas (indices, at most one per list) forward to `position`, 0 for the leader: int32 (r)."""
    row, old = row_of(offsets), position_of(offsets)
    until = np.full(len(offsets) - 1, -1, dtype=np.int64)
    until[row[chosen]] = old[chosen]
    new = old + ((old >= position) & (old < until[row]))
    new[chosen] = position
    out = np.empty_like(replicas)
    out[offsets[:-1][row] + new] = replicas
    return out


def encode_reasons(
    codes: Ints, describe: Callable[[int], str], general: str
) -> tuple[npt.NDArray[np.int16], tuple[str, ...]]:
    """Number the distinct reasons of `codes` (int64, p, -1 = unchanged): int16 (p), -1 = unchanged, and the texts."""
    reason = np.full(len(codes), -1, dtype=np.int16)
    rows = np.flatnonzero(codes >= 0)
    distinct, which = np.unique(codes[rows], return_inverse=True)
    if len(distinct) > MAX_REASONS:
        reason[rows] = 0
        return reason, (general,)
    reason[rows] = which
    return reason, tuple(describe(code) for code in distinct.tolist())
