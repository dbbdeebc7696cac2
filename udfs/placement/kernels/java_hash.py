"""How Java orders strings and the keys of a HashMap, where Kafka's draws depend on it.

Source: the documentation of String.hashCode and String.compareTo, and the behaviour of java.util.HashMap (17).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled

Ids = npt.NDArray[np.int32]

_FIRST_TABLE = 16
_SMALLEST_TABLE_WITH_TREES = 64
_LONGEST_CHAIN = 8


def java_hash(text: str) -> int:
    """`text.hashCode()`: over its UTF-16 units, in 32 bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + (high << 8) + low) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def rack_names(racks: Sequence[str | None]) -> tuple[Ids, Ids, Ids]:
    """(index of each rack's name, -1 for None; each name's rank in Java's order; each name's hash): int32."""
    names = sorted({rack for rack in racks if rack is not None}, key=lambda n: n.encode("utf-16-be", "surrogatepass"))
    index = {name: i for i, name in enumerate(names)}
    codes = np.array([-1 if rack is None else index[rack] for rack in racks], dtype=np.int32)
    return codes, np.arange(len(names), dtype=np.int32), np.array([java_hash(n) for n in names], dtype=np.int32)


@compiled
def hash_map_order(hashes: Ids, out: Ids) -> None:
    """The order in which a HashMap gives keys back, as indices; put in as they come, with these hash codes.

    hashes, out: int32 (n). Keys of one bucket keep their order as the table grows. Not followed: buckets of nine keys
    and more in tables of 64 and more, which Java keeps as trees.
    """
    count = len(hashes)
    size = _FIRST_TABLE
    for i in range(count):
        # An int32 has its sign; Java's >>> shifts the bits as they are.
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
