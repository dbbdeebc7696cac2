"""Counts of distinct copysets: a copyset is the sum of its live brokers' random keys, in an open-addressed table."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part
from udfs.planning.annealing.kernels.search_moves import draw_bits
from udfs.planning.annealing.kernels.search_state import ClusterArrays
from udfs.planning.kernels.array_types import Flags, Floats, Int32s, Ints, RandomState

_SMALL_SET_WEIGHT = 2.0  # weight of a copyset of fewer brokers than the largest: simultaneous failures hit it sooner
_SHARED_COST = 0.3  # cost of a copyset that many partitions have; that of one partition alone costs 1


class CopysetTable(NamedTuple):
    """How many partitions have each copyset. The size is a power of two, at least four times the partitions."""

    broker_key: npt.NDArray[np.uint64]  # uint64 (n), 0 = the broker is down
    copyset: npt.NDArray[np.uint64]  # uint64 (p), of each partition
    entry: npt.NDArray[np.uint64]  # uint64 (size), copysets in the table; 0 = empty
    partitions: Int32s  # int32 (size), how many partitions have it
    weight: Floats  # float64 (p), of each partition's copyset in the cost
    used: Ints  # int64 (1), entries in use
    distinct: Ints  # int64 (1), entries with partitions


def create_copyset_table(cluster: ClusterArrays, slots: Int32s, live: Flags, random: RandomState) -> CopysetTable:
    """Count the copysets of these slots (int32, r). live: bool (n)."""
    p, width = len(cluster.disk), np.diff(cluster.offsets)
    size = 1 << max(4, (4 * p).bit_length())
    table = CopysetTable(
        broker_key=np.array([draw_bits(random) if is_live else 0 for is_live in live.tolist()], dtype=np.uint64),
        copyset=np.zeros(p, np.uint64),
        entry=np.zeros(size, np.uint64),
        partitions=np.zeros(size, np.int32),
        weight=np.where(width < width.max(initial=0), _SMALL_SET_WEIGHT, 1.0),
        used=np.zeros(1, np.int64),
        distinct=np.zeros(1, np.int64),
    )
    _sum_keys(cluster, slots, table)
    return table


@compiled
def _sum_keys(cluster: ClusterArrays, slots: Int32s, table: CopysetTable) -> None:
    for p in range(len(table.copyset)):
        copyset = np.uint64(0)
        for slot in range(cluster.offsets[p], cluster.offsets[p + 1]):
            copyset += table.broker_key[slots[slot]]
        table.copyset[p] = copyset
    recount_copysets(table)


@part
def recount_copysets(table: CopysetTable) -> None:
    """Fill the table with the copysets that partitions have now, and no others."""
    table.entry[:] = 0
    table.partitions[:] = 0
    table.used[0] = table.distinct[0] = 0
    for p in range(len(table.copyset)):
        _add(table, table.copyset[p], 1)


@part
def _find_entry(table: CopysetTable, copyset: np.uint64) -> np.int64:
    """Return where this copyset is in the table, or would be."""
    mask = np.uint64(len(table.entry) - 1)
    at = (copyset ^ (copyset >> np.uint64(32))) & mask
    while table.entry[at] != copyset and table.entry[at] != 0:
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@part
def count_partitions(table: CopysetTable, copyset: np.uint64) -> int:
    """Return how many partitions have this copyset."""
    count: int = table.partitions[_find_entry(table, copyset)]
    return count


@part
def _add(table: CopysetTable, copyset: np.uint64, sign: int) -> None:
    """Count one partition more (sign 1) or less (-1) for this copyset. No live broker (0) is no copyset."""
    if copyset == 0:
        return
    at = _find_entry(table, copyset)
    if table.entry[at] == 0:
        table.entry[at] = copyset
        table.used[0] += 1
    if table.partitions[at] == 0:
        table.distinct[0] += 1
    table.partitions[at] += sign
    if table.partitions[at] == 0:
        table.distinct[0] -= 1


@part
def change_copyset(table: CopysetTable, p: int, copyset: np.uint64) -> float:
    """Give partition p this copyset. Return the rise in cost: a rare copyset costs each of its partitions more."""
    rise = -marginal_cost(count_partitions(table, table.copyset[p]) - 1)
    _add(table, table.copyset[p], -1)
    rise += marginal_cost(count_partitions(table, copyset))
    _add(table, copyset, 1)
    table.copyset[p] = copyset
    weighted: float = table.weight[p] * rise
    return weighted


@part
def marginal_cost(count: int) -> float:
    """Return what one more partition costs for a copyset that `count` partitions have."""
    return 1.0 if count <= 0 else _SHARED_COST / (count * (count + 1.0))
