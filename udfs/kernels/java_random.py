"""java.util.Random over arrays: one generator per element, each drawing what its Java twin would.

Source: the class's documentation - a 48-bit linear congruential generator (Knuth 3.2.1).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_MULTIPLIER = np.uint64(0x5DEECE66D)
_ADDEND = np.uint64(0xB)
_MASK = np.uint64((1 << 48) - 1)


class JavaRandom:
    """As many independent generators as there are seeds.

    seeds: int64 (n), what `new Random(seed)` would be given; only the low 48 bits count, as in Java.
    """

    def __init__(self, seeds: npt.NDArray[np.int64]) -> None:
        self._state = (np.asarray(seeds, dtype=np.int64).view(np.uint64) ^ _MULTIPLIER) & _MASK

    def _next31(self, which: npt.NDArray[np.bool_] | slice = slice(None)) -> npt.NDArray[np.int64]:
        state = (self._state[which] * _MULTIPLIER + _ADDEND) & _MASK
        self._state[which] = state
        return (state >> np.uint64(17)).astype(np.int64)

    def next_int(self, bound: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """One `nextInt(bound)` of each generator: int64 (n), each in [0, bound). bound (n) must be > 0."""
        bounds = np.asarray(bound, dtype=np.int64)
        if len(bounds) and bounds.min() <= 0:
            raise ValueError(f"bound must be positive, got {bounds.min()}")
        bits = self._next31()
        power_of_two = (bounds & -bounds) == bounds
        value = np.where(power_of_two, (bounds * bits) >> 31, bits % bounds)
        # Java rejects draws from the incomplete last interval: there bits - value + (bound - 1) leaves int range.
        again = ~power_of_two & (bits - value + (bounds - 1) > 0x7FFFFFFF)
        while again.any():
            bits = self._next31(again)
            retry = bits % bounds[again]
            value[again] = retry
            again[again] = bits - retry + (bounds[again] - 1) > 0x7FFFFFFF
        return value
