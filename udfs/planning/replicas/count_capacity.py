"""How much brokers can hold at all: the replicas that are free to go, and how many fit where."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from ortools.graph.python import max_flow

from udfs.planning.cluster_model import ClusterModel, Flags, Ints, Places
from udfs.planning.constraints import Rules
from udfs.planning.replicas.kernels.replica_units import kept_and_room


@dataclass(frozen=True)
class Shares:
    """The free replicas, by kinds of partitions that have as many to place and as much room in each rack.

    base: int64 (n), replicas that stay on each broker in any case.   top: int64 (n), the most it may hold.
    free: how many replicas are free to go.   members: int64 (k), partitions of each kind; left: int64 (k), replicas
    that each places; room: int64 (k, racks).   Any split over brokers that these allow, the partitions allow too.
    """

    receives: Flags
    rack: Places
    base: Ints
    top: Ints
    free: int
    members: Ints
    left: Ints
    room: Ints

    def most(self, limit: Ints) -> tuple[int, Flags]:
        """How many free replicas fit where brokers take at most `limit` (int64, n), and which then hold up the rest.

        Those (bool, n) are full; the others cannot be given more, whatever their limit.
        """
        brokers, kinds, racks = len(self.base), len(self.members), self.room.shape[1]
        sink = 1 + kinds + kinds * racks + brokers
        kind, rack = np.divmod(np.arange(kinds * racks), racks)
        takers = np.flatnonzero(self.receives)
        by_kind = np.repeat(np.arange(kinds), len(takers))
        taker = np.tile(takers, kinds)
        first_broker = 1 + kinds + kinds * racks
        tail = [
            np.zeros(kinds, np.int64),
            1 + kind,
            1 + kinds + by_kind * racks + self.rack[taker],
            first_broker + takers,
        ]
        head = [1 + np.arange(kinds), 1 + kinds + kind * racks + rack, first_broker + taker, np.full(len(takers), sink)]
        capacity = [
            self.members * self.left,
            (self.members[:, None] * self.room).reshape(-1),
            self.members[by_kind],
            limit[takers],
        ]
        flow = max_flow.SimpleMaxFlow()
        flow.add_arcs_with_capacity(*(np.concatenate(part).astype(np.int64) for part in (tail, head, capacity)))
        if flow.num_nodes() <= sink:
            return 0, np.ones(brokers, dtype=np.bool_)
        flow.solve(0, sink)
        reached = np.zeros(sink + 1, dtype=np.bool_)
        reached[flow.get_source_side_min_cut()] = True
        return flow.optimal_flow(), reached[first_broker:sink]


def shares_of(model: ClusterModel, rules: Rules, settled: bool) -> Shares:
    """The free replicas: all but those of fixed partitions, or on brokers that get none.

    settled: whether, if counts come second, nothing moves that need not; only partitions that lose replicas are free.
    """
    stays = ~rules.must_leave & (~rules.receives if rules.even or not settled else np.True_)
    racks = int(model.rack.max(initial=0)) + 1
    left = np.zeros(model.partitions, dtype=np.int64)
    room = np.zeros((model.partitions, racks), dtype=np.int32)
    kept = np.repeat(rules.fixed, model.factor)
    lists = (model.offsets, model.replicas, model.rack)
    kept_and_room(rules.fixed, rules.factor, rules.cap, *lists, stays, settled, left, room, kept)
    base = np.bincount(model.replicas[kept], minlength=model.brokers).astype(np.int64)
    rows = np.flatnonzero(left > 0)
    kinds, members = _kinds(np.column_stack([left[rows], room[rows].astype(np.int64)]))
    held = base if rules.even else np.bincount(model.replicas, minlength=model.brokers)
    top = np.where(rules.receives, np.maximum(rules.max_replicas, held), base)
    free = int(left.sum())
    parts = (members, kinds[:, 0], kinds[:, 1:])
    return Shares(rules.receives, model.rack, base, top, free, *parts)


def _kinds(table: Ints) -> tuple[Ints, Ints]:
    """(the different rows of a table of small numbers, how often each comes)."""
    widths = [int(width) + 1 for width in table.max(axis=0, initial=0)]
    if math.prod(widths) >= 1 << 62:
        rows, times = np.unique(table, axis=0, return_counts=True)
        return rows, times.astype(np.int64)
    _, first, times = np.unique(np.ravel_multi_index(tuple(table.T), widths), return_index=True, return_counts=True)
    return table[first], times.astype(np.int64)
