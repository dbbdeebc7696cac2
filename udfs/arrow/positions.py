"""Lists of different lengths, one behind another in flat arrays."""

from __future__ import annotations

import numpy as np

from udfs.simulation.kernels.simulation_state import Ints


def positions(begin: Ints, size: Ints) -> Ints:
    """Places begin, begin + 1, ... of each, one behind another."""
    size = np.maximum(size, 0)
    starts = np.cumsum(size) - size
    out: Ints = np.repeat(begin - starts, size) + np.arange(int(size.sum()))
    return out
