"""What partitions do together, found out before each is folded for itself: rebalances of leaders, topics' deletions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.simulation.event_names import KINDS
from udfs.simulation.event_packing import N_CONTROLLER, Packed, pack
from udfs.simulation.kernels import codes as k
from udfs.simulation.kernels import joint_actions as x
from udfs.simulation.kernels import simulation_state as st
from udfs.simulation.kernels.broker_timeline import C_AT, C_EVENT, checks_of
from udfs.simulation.kernels.simulation_state import Ints, Own, State, new_journal
from udfs.simulation.simulator import Folded, Timeline, begin_all, folded, timeline

Bools = npt.NDArray[np.bool_]
_DELETION_STEPS = (st.UP, st.UP_CONTROLLER, st.DOWN_CONTROLLER, st.FAIL_OVER)


def folded_whole(table: pa.Table) -> Folded:
    """A log (EVENTS or WIRE) with all partitions of its clusters, folded."""
    packed = pack(table)
    found = rows_together(packed, table.schema)
    return folded(pack(pa.concat_tables([table, found])) if found.num_rows else packed)


def rows_together(packed: Packed, schema: pa.Schema) -> pa.Table:
    """Rows of this schema (EVENTS or WIRE): brokers whose leaders are rebalanced; when a topic's deletion starts, ends.

    packed: all partitions of its clusters; of a cluster whose time is too short for a rebalance, all of each topic.
    """
    found = _found(packed)
    cluster, kind, of = found[:, 0], found[:, 1 + x.F_KIND], found[:, 1 + x.F_OF]
    whole = kind == k.REBALANCED_LEADERS
    place, p = np.where(whole, of, 0), np.where(whole, 0, of)
    names = [packed.clusters[c] for c in cluster.tolist()]
    size = len(found)
    columns: dict[str, pa.Array] = {
        "cluster_id": pa.array([name for name, _ in names], pa.string()),
        "snapshot_id": pa.array([name for _, name in names], pa.string()),
        "at_ms": pa.array(found[:, 1 + x.F_AT]),
        "event": pa.array(found[:, 1 + x.F_EVENT]),
        "kind": pa.array([KINDS[one] for one in kind.tolist()], pa.string()),
    }
    if whole.any():
        columns["broker_id"] = pa.array(packed.brokers[place].astype(np.int32), mask=~whole)
    if not whole.all():
        topics = packed.topics.take(pa.array(p, mask=whole))
        columns |= {"topic": topics, "partition": pa.array(packed.partitions[p].astype(np.int32), mask=whole)}
    if "lists" in schema.names:
        columns["lists"] = pa.array([[]] * size, schema.field("lists").type)
    arrays = [columns.get(field.name, pa.nulls(size, field.type)) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _found(packed: Packed) -> Ints:
    """int64 (f, 1 + FOUND): cluster, then what replay_together.together finds."""
    line = timeline(packed, np.empty((0, 4), np.int64))
    each = np.arange(len(packed.clusters) + 1)
    rows = np.searchsorted(packed.state.now[:, st.CLUSTER], each)
    places = np.searchsorted(packed.broker_cluster, each)
    topics = _Topics(packed)
    checked = [c for c, numbers in enumerate(packed.numbers) if numbers[st.REBALANCES] and rows[c] < rows[c + 1]]
    times = _times(packed) if checked else []
    found = [np.empty((0, 1 + x.FOUND), np.int64)]
    state: State | None = None
    for c in each[:-1].tolist():
        steps = slice(line.world.cluster[c, st.STEP_BEGIN], line.world.cluster[c, st.STEP_END])
        parts = topics.stops(c, line.world.steps, steps)
        if c in checked:
            parts.append(_checks(packed, line, c, times[c], steps))
        stops = np.concatenate([np.empty((0, x.STOP), np.int64), *parts])
        if not len(stops):
            continue
        if state is None:
            state = State(*(array.copy() for array in packed.state))
            own = Own(packed.own.events, packed.own.lists, packed.own.requests.copy(), packed.own.work.copy())
            begin_all(state, line.world, own)
            journal = new_journal(1, 0, writes=False)
        after = np.isin(stops[:, x.X_FOR], (x.CHECKED, x.CREATED_AGAIN), invert=True)
        stops = stops[np.lexsort((stops[:, x.X_FOR] == x.CHECKED, 2 * stops[:, x.X_EVENT] + 2 * after))]
        new = x.together(state, line.world, journal, own, rows[c : c + 2], places[c : c + 2], stops)
        found.append(np.column_stack([np.full(len(new), c), new]))
    return np.concatenate(found)


def _checks(packed: Packed, line: Timeline, c: int, times: Ints, steps: slice) -> Ints:
    """Stops (STOP) at which leaders' imbalance is looked at."""
    numbers, world = packed.numbers[c], line.world
    due = checks_of(
        np.concatenate([times, world.cluster[c : c + 1, [st.END_AT, st.END_EVENT]]]),
        world.steps[steps],
        line.controllers[steps],
        bool(numbers[st.KRAFT]) or numbers[N_CONTROLLER] != k.NOBODY,
        int(numbers[st.START_AT] + numbers[st.CHECK_EVERY_MS]),
        int(numbers[st.CHECK_EVERY_MS]),
        int(numbers[st.FIRST_CHECK_MS]),
    )
    stops = np.full((len(due), x.STOP), -1)
    stops[:, x.X_FOR], stops[:, x.X_AT], stops[:, x.X_EVENT] = x.CHECKED, due[:, 0], due[:, 1]
    return stops


def _times(packed: Packed) -> list[Ints]:
    """Of each cluster, the times and numbers of all its events, by order."""
    now = packed.state.now
    own = packed.own.events
    of = np.repeat(now[:, st.CLUSTER], now[:, st.OWN_END] - now[:, st.OWN_BEGIN])
    cluster = np.concatenate([of, np.repeat(np.arange(len(packed.clusters)), np.diff(packed.of_clusters_begin))])
    event = np.concatenate([own[:, st.E_EVENT], packed.of_clusters[:, C_EVENT]])
    at = np.concatenate([own[:, st.E_AT], packed.of_clusters[:, C_AT]])
    order = np.lexsort((event, cluster))
    begins = np.cumsum(np.bincount(cluster, minlength=len(packed.clusters)))[:-1]
    return np.split(np.stack([at, event], axis=1)[order], begins)


class _Topics:
    """Topics that are deleted, and where their deletion may go on."""

    def __init__(self, packed: Packed) -> None:
        now, events = packed.state.now, packed.own.events
        self._now, self._events = now, events
        deleted = np.zeros(len(now), np.bool_)
        asked = np.flatnonzero(events[:, st.E_KIND] == k.DELETE)
        deleted[np.searchsorted(now[:, st.OWN_END], asked, side="right")] = True
        deleted &= packed.numbers[now[:, st.CLUSTER], st.KRAFT] == 0
        self._of: dict[int, list[tuple[int, int]]] = {}
        if not deleted.any():
            return
        codes = np.asarray(packed.topics.dictionary_encode().indices)
        new = np.concatenate([[True], (codes[1:] != codes[:-1]) | (np.diff(now[:, st.CLUSTER]) != 0)])
        begins = np.flatnonzero(new)
        for first, last in zip(begins, [*begins[1:], len(now)], strict=True):
            if deleted[first:last].any():
                self._of.setdefault(int(now[first, st.CLUSTER]), []).append((int(first), int(last)))

    def stops(self, c: int, steps: Ints, of: slice) -> list[Ints]:
        """Of a cluster: stops (STOP), topic by topic. steps: of World.   of: which are the cluster's."""
        chosen = np.flatnonzero(np.isin(steps[of, st.T_KIND], _DELETION_STEPS)) + of.start
        return [self._topic(first, last, steps, chosen) for first, last in self._of.get(c, [])]

    def _topic(self, first: int, last: int, steps: Ints, chosen: Ints) -> Ints:
        now = self._now[first:last]
        own = self._events[now[0, st.OWN_BEGIN] : now[-1, st.OWN_END]]
        own = own[np.argsort(own[:, st.E_EVENT], kind="stable")]
        kind, event = own[:, st.E_KIND], own[:, st.E_EVENT]
        delete, create = kind == k.DELETE, kind == k.CREATE
        since, moves = int(event[delete].min()), (kind == k.REASSIGN).any()
        parts = [
            _stops(x.ASKED, own[delete & ~np.append(_one_request(delete, own), False)]),
            _stops(x.CREATED_AGAIN, own[create & ~np.append(False, _one_request(create, own))]),
            _stops(x.OWN_EVENT, own[~delete & ~create] if moves else own[:0]),
            _stops(x.STEPPED, steps[chosen], chosen, st.T_AT, st.T_EVENT),
        ]
        stops = np.concatenate(parts)
        stops[:, x.X_FIRST], stops[:, x.X_LAST] = first, last
        return stops[stops[:, x.X_EVENT] >= since]


def _stops(what: int, rows: Ints, step: Ints | int = -1, at: int = st.E_AT, event: int = st.E_EVENT) -> Ints:
    stops = np.full((len(rows), x.STOP), -1)
    stops[:, x.X_FOR], stops[:, x.X_AT], stops[:, x.X_EVENT] = what, rows[:, at], rows[:, event]
    stops[:, x.X_STEP] = step
    return stops


def _one_request(one: Bools, own: Ints) -> Bools:
    """Of rows of a kind, whether the next row belongs to the same request: one for a topic has an event a partition."""
    goes_on = (np.diff(own[:, st.E_EVENT]) == 1) & (np.diff(own[:, st.E_AT]) == 0)
    both: Bools = one[:-1] & one[1:] & goes_on
    return both
