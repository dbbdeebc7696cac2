"""Where heavy partitions go when few moves are allowed: an integer program; light ones are divisible load."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from ortools.linear_solver import pywraplp

from udfs.planning.annealing.kernels.search_state import BrokerLimits, ClusterArrays
from udfs.planning.annealing.search_task import NO_LIMIT
from udfs.planning.cluster_model import Flags, Int32s, Ints

# Over a broker's mean disk or bytes in: above the first, a partition is placed; above the second, it leaves as a whole.
_HEAVY, _INDIVISIBLE = 0.05, 0.02
_SINGLE_REPLICAS = 30  # a broker's next largest replicas that have a variable of their own
_MAX_CELLS = 20_000  # heavy partitions x brokers, above which the program is too large
_ABSOLUTE_GAP = 0.004  # of the mean, at which a ratio counts as proven
# Nodes of the search tree, and their product with the cells: half a minute at most. Counts and not a clock, so that the
# same input gives the same answer.
_NODES, _NODE_CELLS = 4_000, 2_500_000
_MOVE_COST = 1e-5  # in units of looser limits
_HEADROOM = 0.006  # of the mean, kept free as light partitions are not really divisible


@dataclass(frozen=True)
class HeavyPlacement:
    """Where heavy partitions go."""

    looser: float  # By how much limits of disk and bytes in must be looser, in units of the mean, at `slots`
    least: float  # A lower bound of it for any lists
    slots: Int32s  # int32 (r), brokers
    rows: Flags  # bool (p), heavy partitions


def place_heavy_partitions(
    cluster: ClusterArrays, limits: BrokerLimits, slots: Int32s, leaves: Flags
) -> HeavyPlacement | None:
    """Place heavy partitions so that limits are loosened least with at most `limits.copied_replicas` moves.

    slots: int32 (r), legal lists of a plan by counts. leaves: bool (n), brokers to be emptied. Return None if the
    program is too large or finds no placement, or lists change in length.
    """
    if not np.array_equal(cluster.offsets, cluster.initial_offsets):
        return None
    brokers = np.flatnonzero(cluster.can_lead)
    row, home = cluster.row, cluster.initial  # offsets are equal, so slots before and after have the same rows
    weight = np.maximum(cluster.disk, cluster.bytes_in)
    rows = (weight > _HEAVY) & cluster.can_change
    if not rows.any() or rows.sum() * len(brokers) > _MAX_CELLS:
        return None
    program = _Program(cluster, limits, brokers)
    for p in np.flatnonzero(rows).tolist():
        program.add_heavy_partition(p)
    for b in brokers.tolist():
        current = np.flatnonzero((home == b) & ~rows[row])
        free = current[cluster.can_change[row[current]]]
        program.add_light_replicas(b, current, free[np.argsort(-weight[row[free]], kind="stable")])
    light = leaves[home] & ~rows[row] & cluster.can_change[row]
    if not program.solve(row[light], int((leaves[home] & cluster.can_change[row]).sum())):
        return None
    looser = float(program.more.solution_value()) - _HEADROOM
    moves = max(float(limits.copied_replicas), 0.0) if limits.copied_replicas < np.inf else 0.0
    least = float(program.solver.Objective().BestBound()) - _MOVE_COST * moves - _HEADROOM
    return HeavyPlacement(max(0.0, looser), max(0.0, least), program.read_lists(slots), rows)


class _Program:
    """The integer program: whether heavy partition p is on broker b, and which light replicas leave which broker."""

    def __init__(self, cluster: ClusterArrays, limits: BrokerLimits, brokers: Ints) -> None:
        solver = pywraplp.Solver.CreateSolver("SCIP")
        self.solver, self.cluster, self.limits, self.brokers = solver, cluster, limits, brokers
        self.more = solver.NumVar(0.0, 4.0, "")
        self.loads: dict[int, list[Any]] = {b: [0, 0] for b in brokers.tolist()}
        self.counts: dict[int, Any] = dict.fromkeys(brokers.tolist(), 0)
        self.heavy: dict[int, dict[int, Any]] = {}
        self.leaving: dict[int, Any] = {}
        self.moves: Any = 0
        self.divisible: list[Any] = [0, 0]  # load of light replicas that leave brokers that stay

    def add_heavy_partition(self, p: int) -> None:
        """Let heavy partition p be on any brokers that may hold it."""
        cluster = self.cluster
        home = cluster.initial[cluster.initial_offsets[p] : cluster.initial_offsets[p + 1]]
        able = [b for b in self.brokers.tolist() if cluster.can_receive[b] or b in home]
        on = self.heavy[p] = {b: self.solver.BoolVar("") for b in able}
        self.solver.Add(sum(on.values()) == len(home))
        for rack in np.unique(cluster.rack[self.brokers]).tolist():
            self.solver.Add(sum(x for b, x in on.items() if cluster.rack[b] == rack) <= int(cluster.rack_limit[p]))
        for b, x in on.items():
            self.loads[b][0] += float(cluster.disk[p]) * x
            self.loads[b][1] += float(cluster.bytes_in[p]) * x
            self.counts[b] += x
            if b in home:
                self.moves += 1 - x

    def add_light_replicas(self, b: int, current: Ints, free: Ints) -> None:
        """Add the other slots that broker b holds; those in `free`, the heaviest first, may leave."""
        cluster = self.cluster
        row, loads = cluster.row, (cluster.disk, cluster.bytes_in)
        single, rest = free[:_SINGLE_REPLICAS], row[free[_SINGLE_REPLICAS:]]
        for i, load in enumerate(loads):
            self.loads[b][i] += float(load[row[current]].sum())
        self.counts[b] += len(current)
        for slot in single.tolist():
            p = row[slot]
            whole = max(cluster.disk[p], cluster.bytes_in[p]) > _INDIVISIBLE
            x = self.leaving[slot] = self.solver.BoolVar("") if whole else self.solver.NumVar(0.0, 1.0, "")
            self._leave(b, x, [float(load[p]) * x for load in loads])
        if len(rest):  # at most as if each were the heaviest of them
            x, left = self.solver.NumVar(0.0, len(rest), ""), []
            for load in loads:
                left.append(self.solver.NumVar(0.0, self.solver.infinity(), ""))
                self.solver.Add(left[-1] <= float(load[rest].max()) * x)
            self._leave(b, x, left)

    def _leave(self, b: int, count: Any, loads: list[Any]) -> None:
        self.moves += count
        self.counts[b] -= count
        for i, load in enumerate(loads):
            self.loads[b][i] -= load
            self.divisible[i] += load

    def solve(self, emptied: Int32s, must_move: int) -> bool:
        """Return whether a solution is found. emptied: rows of light replicas that must leave. must_move: all such."""
        solver, limits = self.solver, self.limits
        for i, (load, limit) in enumerate(((self.cluster.disk, limits.disk), (self.cluster.bytes_in, limits.bytes_in))):
            most = [solver.infinity() if self.cluster.can_receive[b] else 0.0 for b in self.brokers]
            arrivals = [solver.NumVar(0.0, bound, "") for bound in most]
            for b, arrives in zip(self.brokers.tolist(), arrivals, strict=True):
                if limit[b] < NO_LIMIT / 2:
                    solver.Add(self.loads[b][i] + arrives <= float(limit[b]) - _HEADROOM + self.more)
            solver.Add(sum(arrivals) == float(load[emptied].sum()) + self.divisible[i])
        for b in self.brokers.tolist():
            if limits.max_replicas[b] < NO_LIMIT / 2:
                solver.Add(self.counts[b] <= float(limits.max_replicas[b]))
        if limits.copied_replicas < np.inf:
            solver.Add(self.moves <= float(limits.copied_replicas) - must_move)
        solver.Minimize(self.more + _MOVE_COST * self.moves)
        nodes = min(_NODES, _NODE_CELLS // sum(map(len, self.heavy.values())))
        solver.SetSolverSpecificParametersAsString(f"limits/totalnodes = {nodes}\nlimits/absgap = {_ABSOLUTE_GAP}\n")
        return solver.Solve() in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE)

    def read_lists(self, slots: Int32s) -> Int32s:
        """Return the slots of the solution: heavy partitions in place, leaving ones where there is most headroom."""
        cluster, out = self.cluster, slots.copy()
        for p, on in self.heavy.items():
            segment = slice(cluster.offsets[p], cluster.offsets[p + 1])
            chosen = [b for b, x in on.items() if x.solution_value() > 0.5]
            new = [b for b in chosen if b not in out[segment]]
            out[[i for i in range(segment.start, segment.stop) if out[i] not in chosen]] = new
        row = cluster.row
        heavy = np.isin(row, list(self.heavy))
        headroom = self.limits.disk - np.bincount(out, cluster.disk[row], len(cluster.rack))
        headroom[~(cluster.can_receive & cluster.can_lead)] = -np.inf

        def move(slot: int, able: Flags) -> bool:
            """Move a slot's partition to the able broker with most headroom; return whether there is one."""
            p = row[slot]
            segment = slice(cluster.offsets[p], cluster.offsets[p + 1])
            others = np.delete(out[segment], slot - segment.start)
            racks = np.bincount(cluster.rack[others], minlength=int(cluster.rack.max()) + 1)
            able = able & (racks[cluster.rack] < cluster.rack_limit[p]) & (headroom > -np.inf)
            able[out[segment]] = False
            target = int(np.argmax(np.where(able, headroom, -np.inf)))
            if able[target]:
                headroom[[out[slot], target]] += cluster.disk[p], -cluster.disk[p]
                out[slot] = target
            return bool(able[target])

        for slot in (slot for slot, x in self.leaving.items() if x.solution_value() > 0.5):
            home = cluster.initial[slot]
            if out[slot] != home or not move(slot, np.ones(len(headroom), dtype=np.bool_)):
                continue  # it leaves already, or cannot
            # In its place another replica stays that would leave for the sake of counts.
            for other in np.flatnonzero((cluster.initial == home) & (out != home) & ~heavy).tolist():
                if other not in self.leaving and move(other, np.arange(len(headroom)) == home):
                    break
        return out
