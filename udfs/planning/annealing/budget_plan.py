"""Plans within a budget that does not pay for all targets: which partitions change now, and which can follow later."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import LinearConstraint
from scipy.sparse import csr_array, hstack, vstack

from udfs.planning.annealing import search_task
from udfs.planning.annealing.kernels.budgeted_moves import DONE, ReliefTask, relieve_brokers
from udfs.planning.annealing.kernels.search_state import BrokerLimits, ClusterArrays, SearchState, create_state
from udfs.planning.annealing.search import NEAR, order_leadership
from udfs.planning.annealing.search_task import TOLERANCE, LoadUnits, SearchResult, SearchTask
from udfs.planning.bounds.lower_bounds import Budget, bound_fullest_broker
from udfs.planning.certificates import Relief
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Int32s, Ints
from udfs.planning.constraints import Rules
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


COPIED_LOADS = (REPLICAS, DISK, BYTES_IN)  # loads that only copies even out
_STEPS = 14  # of a bisection
_MAX_STUCK = 10  # brokers at most that cannot be relieved, after which the others are not either


@dataclass(frozen=True)
class _Try:
    """The state after moves to a level, and what they have copied from and to each broker."""

    outcome: int  # as of relieve_brokers
    slots: Int32s
    received: Floats
    sent: Floats


class BudgetPlanner:
    """Spends the budget of a task on the loads that come first."""

    def __init__(self, model: ClusterModel, rules: Rules, units: LoadUnits, task: SearchTask, planned: Int32s) -> None:
        self.leader, self.planned = model.current_leaders, planned
        self.rules, self.units, self.task = rules, units, task
        cluster, limits = task.cluster, task.limits
        self.loads = {
            DISK: (cluster.disk, limits.disk),
            BYTES_IN: (cluster.bytes_in, limits.bytes_in),
            REPLICAS: (np.ones(len(cluster.disk)), limits.max_replicas),
        }
        budgets = [cluster.disk / max(limits.copied_disk, 1e-12), np.full(len(cluster.disk), 1.0)]
        budgets[1] /= max(limits.copied_replicas, 1e-12)
        unlimited = limits.copied_disk == limits.copied_replicas == np.inf  # a budget of time: bytes count
        self.cost = cluster.disk if unlimited else budgets[0] + budgets[1]

    def find_candidates(self, priorities: tuple[str, ...], planned_only: bool) -> Iterator[SearchResult]:
        """Find lists within the budget: with moves of leaders and successors, then without, then as they are.

        planned_only: whether all moves are of the plan without a budget, so that later plans can make the others.
        """
        if planned_only:
            for loads in (COPIED_LOADS, (*COPIED_LOADS, LEADERS, BYTES_OUT)):
                yield from self._order_lists(self._choose_share(priorities, loads))
        for first_place in (0, 2):
            yield from self._order_lists(self._relieve(priorities, first_place, planned_only))
        yield from self._order_lists(self.task.slots)

    def _choose_share(self, priorities: tuple[str, ...], loads: tuple[str, ...]) -> Int32s:
        """Return lists of which some are as planned: those that the budget pays for, with most relief.

        loads: those that do not get worse; others depend on the order of lists, which is chosen afterwards.
        """
        slots, limits = self.task.slots.copy(), self.task.limits
        state = self._state(slots)
        over = _measure_worst(limits, state)
        most = self._loosen_limits(state, {})._replace(
            max_leaders=limits.max_leaders + over["most leaders"], bytes_out=limits.bytes_out + over["bytes_out"]
        )
        # Repairs of racks have used some of the budget.
        left = self.rules.broker_budget / self.units.disk - np.array(
            measure_traffic(self.task.cluster, state, self.leader)
        )
        most = most._replace(
            copied_disk=limits.copied_disk - state.copied_disk[0],
            copied_replicas=limits.copied_replicas - state.copied_count[0],
        )
        share = build_share(self.task, state, (self.planned, self.leader), most, left)
        chosen = replace(share, loads={name: share.loads[name] for name in loads}).choose(priorities)
        as_planned = np.isin(self.task.cluster.row, chosen)
        slots[as_planned] = self.planned[as_planned]
        return slots

    def _order_lists(self, slots: Int32s) -> Iterator[SearchResult]:
        """Order leaders and successors for the targets, then so that none gets worse than now; then leave them."""
        limits = self.task.limits
        over = _measure_worst(limits, self._state(self.task.slots))
        as_now = limits._replace(
            min_leaders=limits.min_leaders - over["leaders"],
            max_leaders=limits.max_leaders + over["most leaders"],
            bytes_out=limits.bytes_out + over["bytes_out"],
            survivor_leaders=limits.survivor_leaders + over["failover"],
            survivor_bytes_out=limits.survivor_bytes_out + over["failover_out"],
        )
        yield replace(order_leadership(self.task, slots, limits), limits=limits)
        ordered = order_leadership(self.task, slots, as_now)
        for start in (ordered.slots, slots):
            yield replace(ordered, slots=start, limits=limits)
            yield replace(order_leadership(self.task, start, as_now, NEAR), limits=limits)

    def _relieve(self, priorities: tuple[str, ...], first_place: int, planned_only: bool) -> Int32s:
        """Return the lists after all relief that the budget pays for, one load after the other."""
        traffic = measure_traffic(self.task.cluster, self._state(self.task.slots), self.leader)
        last = _Try(DONE, self.task.slots, *traffic)
        for name in priorities:
            if name in COPIED_LOADS:
                last = self._relieve_load(name, last, first_place, planned_only)
        return last.slots

    def _relieve_load(self, name: str, last: _Try, first_place: int, planned_only: bool) -> _Try:
        """Bring the brokers as near to their limits as the budget pays for; those that are stuck stay as they are."""
        limit = self.loads[name][1]
        over = (self._measure(name, self._state(last.slots)) - limit).clip(0.0)
        stuck, best, high = np.zeros(len(limit)), last, float(over.max(initial=0.0))
        while high > 0.0 and np.count_nonzero(stuck) < _MAX_STUCK:
            low, failure = 0.0, DONE
            for step in range(_STEPS):
                if high <= low:
                    break
                middle = (low + high) / 2 if step else 0.0
                trial = self._try_level(name, last, limit + np.maximum(middle, stuck), first_place, planned_only)
                if trial.outcome == DONE:
                    best, high = trial, middle
                else:
                    low, failure = middle, trial.outcome
            if failure < 0 or stuck[failure] > 0.0:  # the budget is used, or all other brokers keep to their limits
                break
            stuck[failure] = high
        return best

    def _state(self, slots: Int32s) -> SearchState:
        return create_state(self.task.cluster, self.task.limits, slots)

    def _measure(self, name: str, state: SearchState) -> Floats:
        loads = {DISK: state.disk, BYTES_IN: state.bytes_in, REPLICAS: state.replicas.astype(np.float64)}
        return loads[name].copy()

    def _try_level(self, name: str, last: _Try, level: Floats, first_place: int, planned_only: bool) -> _Try:
        """Move replicas of the last lists until no broker has more of this load than its level."""
        state, limits = self._state(last.slots), self.task.limits
        caps = self._loosen_limits(state, {name: level})
        task = ReliefTask(
            self.loads[name][0],
            self.cost,
            self.leader,
            self.planned,
            planned_only,
            first_place,
            self.units.replicas,
            caps,
            limits,
            self.rules.broker_budget / self.units.disk,
            last.received.copy(),
            last.sent.copy(),
        )
        outcome = relieve_brokers(self.task.cluster, state, task, self._measure(name, state), level)
        return _Try(int(outcome), state.slots, task.received, task.sent)

    def _loosen_limits(self, state: SearchState, levels: dict[str, Floats]) -> BrokerLimits:
        """Return limits that no load exceeds by more than now; capacity stays a limit, and so are levels of loads."""
        limits = self.task.limits
        loads = {
            load: limit + (self._measure(load, state) - limit).max(initial=0.0)
            for load, (_, limit) in self.loads.items()
        }
        loads |= levels
        few = (limits.min_replicas - state.replicas).max(initial=0.0)
        return limits._replace(
            min_replicas=limits.min_replicas - few,
            max_replicas=np.minimum(loads[REPLICAS], self.rules.broker_replicas),
            disk=np.minimum(loads[DISK], self.rules.broker_bytes / self.units.disk),
            bytes_in=loads[BYTES_IN],
        )


def measure_traffic(cluster: ClusterArrays, state: SearchState, leader: Int32s) -> tuple[Floats, Floats]:
    """Measure the disk that each broker receives and sends in all copies: float64 (n) each."""
    slots = state.copied_slots[: state.copied_count[0]]
    row, n = cluster.row[slots], len(cluster.rack)
    received, sent = (np.bincount(ends, cluster.disk[row], n) for ends in (state.slots[slots], leader[row]))
    return received.astype(np.float64), sent.astype(np.float64)


def _measure_worst(limits: BrokerLimits, state: SearchState) -> dict[str, float]:
    """Measure the most that any broker has beyond its limits, by load; of counts also only above them."""
    over = search_task.measure_excess(limits, state)
    over["most replicas"] = (state.replicas - limits.max_replicas).clip(0.0)
    over["most leaders"] = (state.leaders - limits.max_leaders).clip(0.0)
    return {name: float(much.max(initial=0.0)) for name, much in over.items()}


def find_harm(task: SearchTask, before: SearchState, result: SearchResult) -> list[str]:
    """Find the loads that get worse than now, and exceed their targets."""
    state = create_state(task.cluster, task.limits, result.slots)
    old, new = (_measure_worst(task.limits, one) for one in (before, state))
    return [name for name, over in new.items() if over > old[name] + TOLERANCE.get(name.split()[-1], TOLERANCE[""])]


def measure_relief(task: SearchTask, before: SearchState, result: SearchResult, name: str) -> float:
    """Measure by how much a plan brings the worst broker nearer to its limit of a load; 0 of no load."""
    after = create_state(task.cluster, task.limits, result.slots)
    excesses = [_measure_worst(task.limits, one).get(name, 0.0) for one in (before, after)]
    return excesses[0] - excesses[1]


def bound_relief(
    model: ClusterModel, rules: Rules, units: LoadUnits, name: str, reached: tuple[float, float]
) -> Relief:
    """Compare the relief of a load with what no plan within the budget exceeds. reached: before and after the plan."""
    row = model.row
    size = model.size[row]
    load, mean = {
        DISK: (size, units.disk),
        BYTES_IN: (model.rate_in[row], units.bytes_in),
        REPLICAS: (np.ones(len(row)), units.replicas),
    }[name]
    # All copies arrive at brokers that receive, each within its own budget.
    most_bytes = min(rules.byte_budget, rules.broker_budget * int(rules.receives.sum()))
    budgets = [Budget(size, most_bytes, whole=False), Budget(np.ones(len(row)), rules.move_budget, whole=True)]
    limited = [budget for budget in budgets if budget.most < np.inf]
    free = ~rules.fixed[row]
    bound = bound_fullest_broker(model.replicas, load, free, units.counted, limited) / mean
    before, after = reached
    return Relief(name, round(before, 6), round(after, 6), round(min(bound, after), 6))
