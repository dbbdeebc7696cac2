"""Where partitions go that weigh much on a broker, when few moves are allowed: an integer program, with its bound.

What is light flows as a liquid: it may come to any broker in any amount. So what the program cannot do nobody can, and
what it does is where a search begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from ortools.linear_solver import pywraplp

from udfs.planning.annealing.kernels.search_state import Limits, Work
from udfs.planning.annealing.search_limits import NO_LIMIT
from udfs.planning.cluster_model import Flags, Ints, Places

_HEAVY, _SOME = 0.05, 0.02  # of a broker's mean disk or bytes in: has a place; leaves whole or not at all
_SINGLY = 30  # so many of a broker's next largest are looked at one by one
_MOST_CELLS = 20_000  # heavy partitions x brokers, beyond which the program is too large
_CLOSE = 0.004  # of the mean: a ratio proven so closely is good enough
_NODES = 4_000  # of the search tree, so that the same input ends with the same answer
_MOVE = 1e-5  # what a move costs, in units of looser limits
_ROOM = 0.006  # of the mean: kept for what does not flow like a liquid


@dataclass(frozen=True)
class Heavy:
    """looser: by how much limits of disk and bytes in must be looser, in units of the mean, at `slots`.

    least: proven, whatever the lists.   slots: int32 (r).   rows: bool (p), partitions that have a place.
    """

    looser: float
    least: float
    slots: Places
    rows: Flags


def place_heavy(work: Work, limits: Limits, slots: Places, leaves: Flags) -> Heavy | None:
    """Heavy partitions where limits need be loosened least with limits.moves; None if the program does not find any.

    slots: int32 (r), legal lists as a plan by counts has them.   leaves: bool (n), brokers that end empty.
    """
    if not np.array_equal(work.offsets, work.home_offsets):
        return None  # lists change in length
    brokers = np.flatnonzero(work.leads)
    row, home = work.row, work.home  # as offsets are the same, slots before and after have the same rows
    weight = np.maximum(work.disk, work.into)
    rows = (weight > _HEAVY) & work.free
    if not rows.any() or rows.sum() * len(brokers) > _MOST_CELLS:
        return None
    program = _Program(work, limits, brokers, leaves)
    for p in np.flatnonzero(rows).tolist():
        program.place(p)
    for b in brokers.tolist():
        mine = np.flatnonzero((home == b) & ~rows[row])
        held = mine[work.free[row[mine]]]
        order = held[np.argsort(-weight[row[held]], kind="stable")]
        program.hold(b, mine, order)
    light = leaves[home] & ~rows[row] & work.free[row]
    if not program.solve(row[light], int((leaves[home] & work.free[row]).sum())):
        return None
    return Heavy(program.looser(), program.least(), program.lists(slots), rows)


class _Program:
    """The model: whether heavy partition p is on broker b, and what leaves whom."""

    def __init__(self, work: Work, limits: Limits, brokers: Ints, leaves: Flags) -> None:
        solver = pywraplp.Solver.CreateSolver("SCIP")
        self.solver, self.work, self.limits, self.brokers, self.leaves = solver, work, limits, brokers, leaves
        self.more = solver.NumVar(0.0, 4.0, "")
        self.loads: dict[int, list[Any]] = {b: [0, 0] for b in brokers.tolist()}
        self.counts: dict[int, Any] = dict.fromkeys(brokers.tolist(), 0)
        self.at: dict[int, dict[int, Any]] = {}
        self.shed: dict[int, Any] = {}
        self.moves: Any = 0
        self.flows: list[Any] = [0, 0]  # what is light and leaves brokers that stay

    def place(self, p: int) -> None:
        """Heavy partition p, on any brokers that may have it."""
        work = self.work
        home = work.home[work.home_offsets[p] : work.home_offsets[p + 1]]
        able = [b for b in self.brokers.tolist() if work.receives[b] or b in home]
        at = self.at[p] = {b: self.solver.BoolVar("") for b in able}
        self.solver.Add(sum(at.values()) == len(home))
        for rack in np.unique(work.rack[self.brokers]).tolist():
            self.solver.Add(sum(x for b, x in at.items() if work.rack[b] == rack) <= int(work.rack_cap[p]))
        for b, x in at.items():
            self.loads[b][0] += float(work.disk[p]) * x
            self.loads[b][1] += float(work.into[p]) * x
            self.counts[b] += x
            if b in home:
                self.moves += 1 - x

    def hold(self, b: int, mine: Ints, order: Ints) -> None:
        """What else broker b holds: slots `mine`, of which `order`, the heaviest first, may leave."""
        work = self.work
        row, loads = work.row, (work.disk, work.into)
        some, rest = order[:_SINGLY], row[order[_SINGLY:]]
        for i, load in enumerate(loads):
            self.loads[b][i] += float(load[row[mine]].sum())
        self.counts[b] += len(mine)
        for slot in some.tolist():
            p = row[slot]
            whole = max(work.disk[p], work.into[p]) > _SOME
            x = self.shed[slot] = self.solver.BoolVar("") if whole else self.solver.NumVar(0.0, 1.0, "")
            self._leave(b, x, [float(load[p]) * x for load in loads])
        if len(rest):  # at most as if each were the heaviest of them
            x, goes = self.solver.NumVar(0.0, len(rest), ""), []
            for load in loads:
                goes.append(self.solver.NumVar(0.0, self.solver.infinity(), ""))
                self.solver.Add(goes[-1] <= float(load[rest].max()) * x)
            self._leave(b, x, goes)

    def _leave(self, b: int, count: Any, loads: list[Any]) -> None:
        self.moves += count
        self.counts[b] -= count
        for i, load in enumerate(loads):
            self.loads[b][i] -= load
            self.flows[i] += load

    def solve(self, emptied: Places, leaving: int) -> bool:
        """Whether a solution was found. emptied: rows of what is light and leaves; leaving: all that leaves anyway."""
        solver, limits = self.solver, self.limits
        for i, (load, limit) in enumerate(((self.work.disk, limits.disk), (self.work.into, limits.into))):
            able = [solver.infinity() if self.work.receives[b] else 0.0 for b in self.brokers]
            arrives = [solver.NumVar(0.0, most, "") for most in able]
            for b, comes in zip(self.brokers.tolist(), arrives, strict=True):
                if limit[b] < NO_LIMIT / 2:
                    solver.Add(self.loads[b][i] + comes <= float(limit[b]) - _ROOM + self.more)
            solver.Add(sum(arrives) == float(load[emptied].sum()) + self.flows[i])
        for b in self.brokers.tolist():
            if limits.replicas_high[b] < NO_LIMIT / 2:
                solver.Add(self.counts[b] <= float(limits.replicas_high[b]))
        if limits.moves < np.inf:
            solver.Add(self.moves <= float(limits.moves) - leaving)
        solver.Minimize(self.more + _MOVE * self.moves)
        solver.SetSolverSpecificParametersAsString(f"limits/totalnodes = {_NODES}\nlimits/absgap = {_CLOSE}\n")
        return solver.Solve() in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE)

    def looser(self) -> float:
        """What was found."""
        return max(0.0, float(self.more.solution_value()) - _ROOM)

    def least(self) -> float:
        """What is proven."""
        most = _MOVE * max(float(self.limits.moves), 0.0) if self.limits.moves < np.inf else 0.0
        return max(0.0, float(self.solver.Objective().BestBound()) - most - _ROOM)

    def lists(self, slots: Places) -> Places:
        """The slots with what was found: heavy ones where they are to be, what is shed where there is most room."""
        work, out = self.work, slots.copy()
        for p, at in self.at.items():
            mine = slice(work.offsets[p], work.offsets[p + 1])
            goes = [b for b, x in at.items() if x.solution_value() > 0.5]
            new = [b for b in goes if b not in out[mine]]
            out[[i for i in range(mine.start, mine.stop) if out[i] not in goes]] = new
        row = work.row
        heavy = np.isin(row, list(self.at))
        room = self.limits.disk - np.bincount(out, work.disk[row], len(work.rack))
        room[~(work.receives & work.leads)] = -np.inf

        def go(slot: int, able: Flags) -> bool:
            """Whether the slot's partition went where there is most room of those able."""
            p = row[slot]
            mine = slice(work.offsets[p], work.offsets[p + 1])
            others = np.delete(out[mine], slot - mine.start)
            racks = np.bincount(work.rack[others], minlength=int(work.rack.max()) + 1)
            able = able & (racks[work.rack] < work.rack_cap[p]) & (room > -np.inf)
            able[out[mine]] = False
            t = int(np.argmax(np.where(able, room, -np.inf)))
            if able[t]:
                room[[out[slot], t]] += work.disk[p], -work.disk[p]
                out[slot] = t
            return bool(able[t])

        for slot in (s for s, x in self.shed.items() if x.solution_value() > 0.5):
            home = work.home[slot]
            if out[slot] != home or not go(slot, np.ones(len(room), dtype=np.bool_)):
                continue  # it leaves as it is, or cannot
            # In its stead something stays that would leave for the sake of counts.
            for other in np.flatnonzero((work.home == home) & (out != home) & ~heavy).tolist():
                if other not in self.shed and go(other, np.arange(len(room)) == home):
                    break
        return out
