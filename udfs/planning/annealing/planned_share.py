"""The part of a plan that a budget pays for: which of its partitions change now, and which can follow later."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import LinearConstraint
from scipy.sparse import csr_array, hstack, vstack

from udfs.planning.annealing.kernels.search_state import BrokerLimits, SearchState
from udfs.planning.annealing.search_task import SearchTask
from udfs.planning.cluster_model import Flags, Floats, Int32s, Ints
from udfs.planning.integer_programs import solve_program
from udfs.planning.plan_request import BYTES_IN, BYTES_OUT, DISK, LEADERS, REPLICAS

_WHOLE = 1e-6  # distance from 0 and 1 up to which a share is whole
# Partitions that cost least, which are chosen again beside those with a share in between; one number after the other
_CHOSEN_AGAIN = (100, 300)
_NODES, _GAP = 500, 0.01  # of branch and bound: a count and not a clock, so that plans are reproducible
_MAX_PARTITIONS = 30_000  # above which the program takes minutes


@dataclass(frozen=True)
class _Load:
    """A load of all brokers: float64 (n) each."""

    more: csr_array  # float64 (n, k), what a broker has more of it once a partition is as planned
    now: Floats
    limit: Floats
    most: Floats  # the limit, or the worst of now if that is above it


@dataclass(frozen=True)
class PlannedShare:
    """A program that chooses some of k partitions, whose lists a plan without a budget changes."""

    rows: Ints  # int64 (k), the partitions
    cost: Floats  # float64 (k), disk that is copied
    loads: dict[str, _Load]
    fewest: Floats  # float64 (n), replicas that a broker keeps at least
    spent: csr_array  # float64 (b, k), what each partition takes of the budgets
    budgets: Floats  # float64 (b)

    def choose(self, priorities: Sequence[str]) -> Ints:
        """Choose the partitions that bring loads nearest to their limits, the first priority first: int64.

        A linear program divides partitions; then those in between, and some small ones, are chosen as wholes.
        Returns none if that is impossible.
        """
        over = [one for one in priorities if one in self.loads and (self.loads[one].now > self.loads[one].limit).any()]
        if not 0 < len(self.rows) <= _MAX_PARTITIONS:
            return self.rows[:0]
        divided = self._solve(over, np.zeros(len(self.rows)), np.ones(len(self.rows), dtype=np.bool_), whole=False)
        if divided is None:
            return self.rows[:0]
        shares = np.rint(divided)
        for again in _CHOSEN_AGAIN:
            free = np.abs(divided - shares) > _WHOLE
            others = np.flatnonzero(~free)
            free[others[np.argsort(self.cost[others], kind="stable")[:again]]] = True
            chosen = self._solve(over, shares, free, whole=True)
            if chosen is not None:
                return self.rows[chosen > 0.5]
        return self.rows[:0]

    def _solve(self, names: Sequence[str], shares: Floats, free: Flags, *, whole: bool) -> Floats | None:
        """Return the shares (float64, k) with the least excess of each load, one after the other; None = impossible.

        shares: of those that are not free (bool, k). whole: whether shares are 0 or 1.
        """
        fixed, columns = np.where(free, 0.0, shares), np.flatnonzero(free)
        integrality = np.append(np.full(len(columns), int(whole)), 0)
        bounds = (0.0, np.append(np.ones(len(columns)), np.inf))
        most, solution = {name: load.most for name, load in self.loads.items()}, None
        for name in names:
            low = self.fewest - self.loads[REPLICAS].now
            limits = [(load.more, most[other] - load.now, 0.0) for other, load in self.loads.items()]
            limits += [(self.loads[name].more, self.loads[name].limit - self.loads[name].now, -1.0)]
            limits += [(self.spent, self.budgets, 0.0), (-self.loads[REPLICAS].more, -low, 0.0)]
            matrices = [
                hstack([matrix[:, columns], np.full((matrix.shape[0], 1), excess)]) for matrix, _, excess in limits
            ]
            highs = np.concatenate([high - matrix @ fixed for matrix, high, _ in limits])
            constraint = LinearConstraint(vstack(matrices, format="csr"), ub=highs)
            result = solve_program(
                np.append(np.zeros(len(columns)), 1.0), constraint, bounds, integrality, (_NODES, _GAP)
            )
            if result.x is None:
                break
            most[name] = np.minimum(most[name], self.loads[name].limit + result.x[-1] + _WHOLE)
            solution = fixed.copy()
            solution[columns] = result.x[:-1]
        return solution


def build_share(
    task: SearchTask, state: SearchState, planned: tuple[Int32s, Int32s], most: BrokerLimits, broker_disk: Floats
) -> PlannedShare:
    """Build the program of a plan without a budget.

    Args:
        task: What is evened out.
        state: The cluster now.
        planned: The planned lists, int32 (r), and the broker that sends the copies of each partition, int32 (p).
        most: What no broker may exceed, and what may be copied.
        broker_disk: float64 (2, n), disk that each broker may receive, and send.
    """
    cluster, limits, n = task.cluster, task.limits, len(task.cluster.rack)
    slots, sender = planned
    rows = np.unique(cluster.row[slots != state.slots]).astype(np.int64)
    column = np.full(len(cluster.offsets) - 1, -1, dtype=np.int64)
    column[rows] = np.arange(len(rows))
    at = np.flatnonzero(column[cluster.row] >= 0)
    first = cluster.offsets[rows]

    def change(weight: Floats, places: Ints) -> csr_array:
        columns = column[cluster.row[places]]
        value = weight[cluster.row[places]]
        after, before = (
            csr_array((value, (brokers[places], columns)), shape=(n, len(rows))) for brokers in (slots, state.slots)
        )
        return after - before

    one = np.ones(len(column))
    loads = {
        REPLICAS: _Load(change(one, at), state.replicas.astype(float), limits.max_replicas, most.max_replicas),
        LEADERS: _Load(change(one, first), state.leaders.astype(float), limits.max_leaders, most.max_leaders),
        DISK: _Load(change(cluster.disk, at), state.disk, limits.disk, most.disk),
        BYTES_IN: _Load(change(cluster.bytes_in, at), state.bytes_in, limits.bytes_in, most.bytes_in),
        BYTES_OUT: _Load(change(cluster.bytes_out, first), state.bytes_out, limits.bytes_out, most.bytes_out),
    }
    received = loads[REPLICAS].more.maximum(0)
    copies, disk = received.sum(axis=0), cluster.disk[rows]
    sent = csr_array((copies * disk, (sender[rows], np.arange(len(rows)))), shape=(n, len(rows)))
    spent = [
        (csr_array((copies * disk)[None, :]), [most.copied_disk]),
        (csr_array(copies[None, :]), [most.copied_replicas]),
        (received * disk[None, :], broker_disk[0]),
        (sent, broker_disk[1]),
    ]
    matrices, budgets = vstack([matrix for matrix, _ in spent], format="csr"), np.concatenate([one for _, one in spent])
    limited = budgets < np.inf
    return PlannedShare(rows, copies * disk, loads, most.min_replicas, matrices[limited], budgets[limited])
