"""From one set of replica lists toward another, as far as a budget goes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@compiled
def toward(
    order: Ints,
    from_offsets: Ints,
    from_replicas: Places,
    to_offsets: Ints,
    to_replicas: Places,
    moves: Ints,
    size: Floats,
    moves_left: int,
    bytes_left: float,
    lo: Ints,
    hi: Ints,
    counts: Ints,
    use: Flags,
) -> None:
    """Fill use (p): whose list changes, taken in order again and again while that brings counts nearer their bounds."""
    again = True
    while again:
        again = False
        for row in order:
            if use[row] or moves[row] > moves_left or size[row] > bytes_left:
                continue
            for turn in range(2):  # there, and back if it did no good
                gain = 0
                sign = 1 - 2 * turn
                for at in range(from_offsets[row], from_offsets[row + 1]):
                    b = from_replicas[at]
                    before = max(counts[b] - hi[b], 0) + max(lo[b] - counts[b], 0)
                    counts[b] -= sign
                    gain += before - max(counts[b] - hi[b], 0) - max(lo[b] - counts[b], 0)
                for at in range(to_offsets[row], to_offsets[row + 1]):
                    b = to_replicas[at]
                    before = max(counts[b] - hi[b], 0) + max(lo[b] - counts[b], 0)
                    counts[b] += sign
                    gain += before - max(counts[b] - hi[b], 0) - max(lo[b] - counts[b], 0)
                if turn == 0 and gain > 0:
                    use[row] = again = True
                    moves_left -= moves[row]
                    bytes_left -= size[row]
                    break
