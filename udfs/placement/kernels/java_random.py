"""java.util.Random over arrays: many generators that draw the numbers that Java draws, in the same order.

Source: documentation of java.util.Random (a 48-bit linear congruential generator, Knuth 3.2.1) and of
Collections.shuffle. A generator is its 48-bit state, an int64.
"""

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled

Ints = npt.NDArray[np.int64]

MULTIPLIER = 0x5DEECE66D
STATE_MASK = (1 << 48) - 1
_ADDEND = 0xB
_INT_MAX = 0x7FFFFFFF


@compiled
def next_int(states: Ints, generator: int, bound: int) -> int:
    """Draw `nextInt(bound)`, in [0, bound), from one of the generators; bound > 0. Advances states[generator]."""
    state = (int(states[generator]) * MULTIPLIER + _ADDEND) & STATE_MASK
    bits = state >> 17
    if bound & -bound == bound:
        states[generator] = state
        return (bound * bits) >> 31
    value = bits % bound
    # Java draws again in the incomplete last interval, where bits - value + (bound - 1) exceeds an int.
    while bits - value + (bound - 1) > _INT_MAX:
        state = (state * MULTIPLIER + _ADDEND) & STATE_MASK
        bits = state >> 17
        value = bits % bound
    states[generator] = state
    return value


@compiled
def shuffle(states: Ints, generator: int, values: npt.NDArray[np.int32]) -> None:
    """Shuffle values in place, as `Collections.shuffle` does an ArrayList with this generator."""
    for size in range(len(values), 1, -1):
        other = next_int(states, generator, size)
        values[size - 1], values[other] = values[other], values[size - 1]


def scramble_seeds(seeds: npt.NDArray[np.int64]) -> Ints:
    """Return the states (int64, n) of `new Random(seed)` for seeds (int64, n). Java uses the low 48 bits only."""
    return (np.asarray(seeds, dtype=np.int64) ^ MULTIPLIER) & STATE_MASK
