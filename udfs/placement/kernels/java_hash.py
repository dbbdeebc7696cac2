"""Java's string order, hash codes and HashMap order, which Kafka's placement of racks depends on.

Source: documentation of String.hashCode and String.compareTo; behaviour of java.util.HashMap (OpenJDK 17).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled

Ids = npt.NDArray[np.int32]

_FIRST_TABLE = 16
_SMALLEST_TABLE_WITH_TREES = 64
_LONGEST_CHAIN = 8


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
    size = _FIRST_TABLE
    for i in range(count):
        # An int32 keeps its sign; Java's >>> shifts the bits without it.
        bits = np.int64(hashes[i]) & 0xFFFFFFFF
        spread = bits ^ (bits >> 16)
        if size < _SMALLEST_TABLE_WITH_TREES:
            chain = 0
            for j in range(i):
                other = np.int64(hashes[j]) & 0xFFFFFFFF
                if ((other ^ (other >> 16)) ^ spread) & (size - 1) == 0:
                    chain += 1
            if chain >= _LONGEST_CHAIN:
                size *= 2
        if i + 1 > size * 3 // 4:
            size *= 2
    bucket = np.empty(count, dtype=np.int64)
    for i in range(count):
        bits = np.int64(hashes[i]) & 0xFFFFFFFF
        bucket[i] = ((bits ^ (bits >> 16)) & (size - 1)) * count + i
    order = np.argsort(bucket)
    for i in range(count):
        out[i] = order[i]
