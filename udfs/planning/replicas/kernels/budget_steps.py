"""Change replica lists one by one as far as a budget goes."""

from typing import NamedTuple

from udfs.kernel_compiler import compiled, part
from udfs.planning.kernels.array_types import Flags, Floats, Int32s, Ints, ListChanges


class ChangeCosts(NamedTuple):
    """Costs of each change, int64 and float64 (p), and the budgets for all."""

    moves: Ints
    bytes: Floats
    max_moves: int
    max_bytes: float


class CountBounds(NamedTuple):
    """Replicas of each broker, and their bounds: int64 (n)."""

    low: Ints
    high: Ints
    counts: Ints


@part
def _excess(bounds: CountBounds, b: int) -> int:
    count: int = bounds.counts[b]
    excess: int = max(count - bounds.high[b], 0) + max(bounds.low[b] - count, 0)
    return excess


@part
def _count_list(bounds: CountBounds, offsets: Ints, replicas: Int32s, row: int, sign: int) -> int:
    """Add a list to the counts (sign 1), or remove it (-1). Return how many replicas fewer are out of bounds."""
    gain = 0
    for at in range(offsets[row], offsets[row + 1]):
        b = replicas[at]
        gain += _excess(bounds, b)
        bounds.counts[b] += sign
        gain -= _excess(bounds, b)
    return gain


@compiled
def select_changes(order: Ints, lists: ListChanges, costs: ChangeCosts, bounds: CountBounds, selected: Flags) -> None:
    """Select changes that bring counts nearer to their bounds, repeatedly in the same order, within the budgets.

    Args:
        order: int64, the partitions to consider.
        lists: Lists of all partitions.
        costs: Costs and budgets.
        bounds: Its counts change.
        selected: bool (p), set for partitions whose new list is used.
    """
    moves_left, bytes_left = costs.max_moves, costs.max_bytes
    again = True
    while again:
        again = False
        for row in order:
            if selected[row] or costs.moves[row] > moves_left or costs.bytes[row] > bytes_left:
                continue
            gain = _count_list(bounds, lists.old_offsets, lists.old, row, -1)
            gain += _count_list(bounds, lists.new_offsets, lists.new, row, 1)
            if gain > 0:
                selected[row] = again = True
                moves_left -= costs.moves[row]
                bytes_left -= costs.bytes[row]
            else:
                _count_list(bounds, lists.old_offsets, lists.old, row, 1)
                _count_list(bounds, lists.new_offsets, lists.new, row, -1)
