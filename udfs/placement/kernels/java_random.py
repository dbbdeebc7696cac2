"""java.util.Random over arrays: many generators, each drawing what its Java twin would, in the same order.

Source: the class's documentation - a 48-bit linear congruential generator (Knuth 3.2.1) - and that of
Collections.shuffle. A generator is its 48-bit state, an int64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled

Ints = npt.NDArray[np.int64]

_MULTIPLIER = 0x5DEECE66D
_ADDEND = 0xB
_MASK = (1 << 48) - 1
_INT_MAX = 0x7FFFFFFF


@compiled
def next_int(states: Ints, which: int, bound: int) -> int:
    """`nextInt(bound)` of generator `which`: in [0, bound); bound > 0. Advances states[which]."""
    state = (int(states[which]) * _MULTIPLIER + _ADDEND) & _MASK
    bits = state >> 17
    if bound & -bound == bound:
        states[which] = state
        return (bound * bits) >> 31
    value = bits % bound
    # Java rejects draws from the incomplete last interval: there bits - value + (bound - 1) leaves int range.
    while bits - value + (bound - 1) > _INT_MAX:
        state = (state * _MULTIPLIER + _ADDEND) & _MASK
        bits = state >> 17
        value = bits % bound
    states[which] = state
    return value


@compiled
def shuffle(states: Ints, which: int, values: npt.NDArray[np.int32]) -> None:
    """`Collections.shuffle` of an ArrayList with generator `which`, in place."""
    for size in range(len(values), 1, -1):
        other = next_int(states, which, size)
        values[size - 1], values[other] = values[other], values[size - 1]


@compiled
def _next_ints(states: Ints, which: Ints, bounds: Ints, out: Ints) -> None:
    for i in range(len(which)):
        out[i] = next_int(states, which[i], bounds[i])


def scrambled(seeds: npt.NDArray[np.int64]) -> Ints:
    """The states (int64, n) of `new Random(seed)` for seeds (int64, n); only the low 48 bits count, as in Java."""
    return (np.asarray(seeds, dtype=np.int64) ^ _MULTIPLIER) & _MASK


class JavaRandom:
    """As many independent generators as there are seeds.

    seeds: int64 (g), what `new Random(seed)` would be given.   states: int64 (g), advanced by each draw.
    """

    def __init__(self, seeds: npt.NDArray[np.int64]) -> None:
        self.states = scrambled(seeds)

    def next_int(self, bound: npt.NDArray[np.integer], which: Ints | None = None) -> Ints:
        """Draws one `nextInt(bound)` after the other: int64 (n), each in [0, bound[i]).

        which: int64 (n), the generator that each is drawn from - the same one several times is a stream that these
        draws share, in order. None = draw i from generator i.   bound: int64 (n), > 0.
        """
        bounds = np.asarray(bound, dtype=np.int64)
        if len(bounds) and bounds.min() <= 0:
            raise ValueError(f"bound must be positive, got {bounds.min()}")
        out = np.empty(len(bounds), dtype=np.int64)
        _next_ints(self.states, np.arange(len(bounds)) if which is None else which, bounds, out)
        return out
