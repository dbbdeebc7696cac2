"""Capacity: the replicas that are free to move, and how many of them fit on which brokers."""

import math
from dataclasses import dataclass

import numpy as np
from ortools.graph.python import max_flow

from udfs.planning.cluster_model import ClusterModel, Flags, Int32s, Ints
from udfs.planning.constraints import Rules
from udfs.planning.replicas.kernels.replica_units import PartitionRules, PlacedReplicas, keep_replicas


@dataclass(frozen=True)
class FreeReplicas:
    """The free replicas, by kinds of partitions that place as many replicas and have as many places in each rack.

    Any split over brokers that the kinds allow, their partitions allow too.
    """

    receives: Flags  # bool (n), brokers that may get replicas
    rack: Int32s  # int32 (n)
    base: Ints  # int64 (n), replicas that stay on each broker in any case
    top: Ints  # int64 (n), most replicas that each broker may hold
    count: int  # Free replicas
    members: Ints  # int64 (k), partitions of each kind
    replicas: Ints  # int64 (k), replicas that each partition of a kind places
    places: Ints  # int64 (k, racks), places of each partition of a kind in each rack

    def fit(self, limit: Ints) -> tuple[int, Flags]:
        """Fit free replicas on brokers that take at most `limit` (int64, n).

        Returns:
            How many fit, and the full brokers (bool, n): the others cannot get more, whatever their limit.
        """
        kinds, racks = self.places.shape
        kind, rack = np.divmod(np.arange(kinds * racks), racks)
        takers = np.flatnonzero(self.receives)
        taker_kind, taker = np.repeat(np.arange(kinds), len(takers)), np.tile(takers, kinds)
        first_cell, first_broker = 1 + kinds, 1 + kinds + kinds * racks
        sink = first_broker + len(self.base)
        arcs = (
            (np.zeros(kinds), 1 + np.arange(kinds), self.members * self.replicas),
            (1 + kind, first_cell + kind * racks + rack, (self.members[:, None] * self.places).ravel()),
            (first_cell + taker_kind * racks + self.rack[taker], first_broker + taker, self.members[taker_kind]),
            (first_broker + takers, np.full(len(takers), sink), limit[takers]),
        )
        flow = max_flow.SimpleMaxFlow()
        flow.add_arcs_with_capacity(*(np.concatenate(part).astype(np.int64) for part in zip(*arcs, strict=True)))
        if flow.num_nodes() <= sink:
            return 0, np.ones(len(self.base), dtype=np.bool_)
        flow.solve(0, sink)
        reached = np.zeros(sink + 1, dtype=np.bool_)
        reached[flow.get_source_side_min_cut()] = True
        return flow.optimal_flow(), reached[first_broker:sink]


def find_free_replicas(model: ClusterModel, rules: Rules, settled: bool) -> FreeReplicas:
    """Find the free replicas: all but those of fixed partitions, or on brokers that receive none.

    Args:
        model: The cluster.
        rules: The rules.
        settled: Whether, if moves come first, nothing moves unless it must: only replicas that must move are free.
    """
    stays = ~rules.must_leave & (~rules.receives if rules.even or not settled else np.True_)
    racks = int(model.rack.max(initial=0)) + 1
    left = np.zeros(model.partitions, dtype=np.int64)
    room = np.zeros((model.partitions, racks), dtype=np.int32)
    remaining = np.repeat(rules.fixed, model.factor)
    placed = PlacedReplicas(model.offsets, model.replicas, remaining, model.rack)
    keep_replicas(PartitionRules(rules.fixed, rules.factor, rules.rack_cap), placed, stays, settled, left, room)
    base = np.bincount(model.replicas[remaining], minlength=model.brokers).astype(np.int64)
    rows = np.flatnonzero(left > 0)
    kinds, members = _kinds(np.column_stack([left[rows], room[rows].astype(np.int64)]))
    current = base if rules.even else np.bincount(model.replicas, minlength=model.brokers)
    top = np.where(rules.receives, np.maximum(rules.broker_replicas, current), base)
    return FreeReplicas(rules.receives, model.rack, base, top, int(left.sum()), members, kinds[:, 0], kinds[:, 1:])


def _kinds(table: Ints) -> tuple[Ints, Ints]:
    """The distinct rows of a table of small numbers, and how often each occurs."""
    widths = [int(width) + 1 for width in table.max(axis=0, initial=0)]
    if math.prod(widths) >= 1 << 62:
        rows, times = np.unique(table, axis=0, return_counts=True)
        return rows, times.astype(np.int64)
    _, first, times = np.unique(np.ravel_multi_index(tuple(table.T), widths), return_index=True, return_counts=True)
    return table[first], times.astype(np.int64)
