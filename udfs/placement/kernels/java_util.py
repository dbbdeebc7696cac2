"""What Kafka's placement uses of java.util: Random and Collections.shuffle over arrays, and the order of HashMap.

Source: documentation of Random (a 48-bit linear congruential generator, Knuth 3.2.1; a generator is its state, an
int64), Collections.shuffle, String.hashCode and String.compareTo; behaviour of HashMap (OpenJDK 17).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]

MULTIPLIER = 0x5DEECE66D
STATE_MASK = (1 << 48) - 1
_ADDEND = 0xB
_INT_MAX = 0x7FFFFFFF
_FIRST_TABLE = 16
_SMALLEST_TABLE_WITH_TREES = 64
_LONGEST_CHAIN = 8


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


def compute_hash_code(text: str) -> int:
    """Return `text.hashCode()`: a 32-bit hash of the UTF-16 units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + (high << 8) + low) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def index_rack_names(racks: Sequence[str | None]) -> tuple[Ids, Ids, Ids]:
    """Return (name index of each rack, -1 for None; rank of each name in Java's order; hash of each name): int32."""
    names = sorted({rack for rack in racks if rack is not None}, key=lambda n: n.encode("utf-16-be", "surrogatepass"))
    index = {name: i for i, name in enumerate(names)}
    codes = np.array([-1 if rack is None else index[rack] for rack in racks], dtype=np.int32)
    return codes, np.arange(len(names), dtype=np.int32), np.array(list(map(compute_hash_code, names)), dtype=np.int32)


@compiled
def find_hash_map_order(hashes: Ids, out: Ids) -> None:
    """Find the iteration order (out: int32, n) of a HashMap whose keys were inserted with these hash codes (int32, n).

    Keys of one bucket keep their order when the table grows. Buckets of nine or more keys in tables of 64 or more,
    which Java turns into trees, are not modelled.
    """
    count = len(hashes)
    bits = hashes.astype(np.int64) & 0xFFFFFFFF  # an int32 keeps its sign; Java's >>> shifts the bits without it
    spread = bits ^ (bits >> 16)
    size = _FIRST_TABLE
    for i in range(count):
        if size < _SMALLEST_TABLE_WITH_TREES:
            chain = 0
            for j in range(i):
                if (spread[j] ^ spread[i]) & (size - 1) == 0:
                    chain += 1
            if chain >= _LONGEST_CHAIN:
                size *= 2
        if i + 1 > size * 3 // 4:
            size *= 2
    out[:count] = np.argsort((spread & (size - 1)) * count + np.arange(count))
