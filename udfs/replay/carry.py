"""What a fold leaves behind for one that goes on from there: rows of the event log, instead of all its events."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from udfs.kernels import replay_codes as k
from udfs.kernels import replay_state as st
from udfs.kernels.replay_health import NOT_THERE
from udfs.kernels.replay_state import Ints
from udfs.replay.fold import Folded
from udfs.replay.packing import N_CHECK, N_CONTROLLER, N_EPOCH, N_EVENT
from udfs.replay.packing_carried import LAYOUT, LISTS_KEPT, NOW_KEPT, SLOT_KEPT
from udfs.replay.ragged import joined, positions
from udfs.replay.rows import nth
from udfs.replay.schema import EVENTS, KEY
from udfs.replay.words import KINDS

_RESTARTS = (st.DOWN_CONTROLLER, st.UP_CONTROLLER, st.FAIL_OVER)


def carried(of: Folded) -> pa.Table:
    """Rows of EVENTS from which a fold goes on: of clusters and brokers, and of partitions."""
    return pa.concat_tables([cluster_rows(of), state_rows(of)])


# ---- clusters


def cluster_rows(of: Folded) -> pa.Table:
    """How clusters and their brokers are at the end of a fold, as rows "at first" of the next."""
    packed, world = of.packed, of.timeline.world
    numbers = _numbers(of)
    places, clusters = np.arange(len(packed.brokers)), np.arange(len(packed.clusters))
    flags = world.change[world.broker[places, 1] - 1, 1]
    of_brokers = _table(
        packed.clusters,
        packed.broker_cluster,
        k.HELD_BROKER,
        numbers[packed.broker_cluster, st.END_AT],
        broker_id=pa.array(packed.brokers.astype(np.int32)),
        value=pa.array(flags),
    )
    of_clusters = _table(packed.clusters, clusters, k.HELD_CLUSTER, numbers[:, st.END_AT], numbers=rows_of(numbers))
    return pa.concat_tables([of_clusters, of_brokers])


def _numbers(of: Folded) -> Ints:
    """`numbers` of clusters, from now on: rules, start, now, the next event's number, who controls, what is due."""
    packed, world, steps = of.packed, of.timeline.world, of.timeline.world.steps
    numbers = packed.numbers.copy()
    there = world.cluster[:, st.STEP_BEGIN] < world.cluster[:, st.STEP_END]
    last = world.cluster[there, st.STEP_END] - 1
    numbers[there, N_EPOCH], numbers[there, N_EVENT] = steps[last, st.T_EPOCH], steps[last, st.T_EVENT]
    place = of.timeline.controller
    numbers[:, N_CONTROLLER] = k.NOBODY
    numbers[place >= 0, N_CONTROLLER] = packed.brokers[place[place >= 0]]
    numbers[:, N_CHECK] = _next_check(of)
    return numbers


def _next_check(of: Folded) -> Ints:
    """When each cluster's leaders are next looked at: as checks_of counts, from the controller's start on."""
    numbers, world = of.packed.numbers, of.timeline.world
    due, end = numbers[:, N_CHECK].copy(), numbers[:, st.END_AT]
    at = np.flatnonzero(np.isin(world.steps[:, st.T_KIND], _RESTARTS))
    cluster = np.searchsorted(world.cluster[:, st.STEP_END], at, side="right")
    due[cluster] = world.steps[at, st.T_AT] + numbers[cluster, st.FIRST_CHECK_MS]  # the last one stays
    every = numbers[:, st.CHECK_EVERY_MS]
    out: Ints = np.where(due <= end, due + ((end - due) // every + 1) * every, due)
    return out


# ---- partitions


def state_rows(of: Folded) -> pa.Table:
    """A row for each partition: all that is to be known to go on.

    Appends are kept for good: any may be lost yet, if a replica that comes anew, or is cut, leads.
    """
    packed, state, own = of.packed, of.packed.state, of.packed.own
    now, p = state.now, np.arange(len(of.packed.state.now))
    waiting = _waiting(of)
    waits = state.slot[:, st.WAITS]
    opened = np.unique(np.concatenate([*(values for _, values in waiting), waits[waits >= 0]]))
    rank = _Rank(opened, now)
    progress = _progress(of, opened)
    sizes = [size for size, _ in waiting]
    head = np.column_stack(
        [
            np.full(len(now), LAYOUT),
            _now(now, sizes)[:, NOW_KEPT],
            _seen(of),
            _written(of),
            rank.count,
            rank.sizes(progress[:, st.P_REQUEST]),
        ]
    ).astype(np.int64)
    requests = np.column_stack([own.events[opened], own.requests[opened], packed.request[opened]])
    progress[:, st.P_REQUEST] = rank.of(progress[:, st.P_REQUEST])
    slots = _slots(of, rank)
    size, values = joined(
        [
            (np.full(len(now), head.shape[1]), head.ravel()),
            (now[:, st.SLOTS] * slots.shape[1], slots.ravel()),
            (now[:, st.SLOTS] ** 2, state.common),
            (rank.count * requests.shape[1], requests.ravel()),
            *((size, rank.of(places)) for size, places in waiting),
            (head[:, -1] * st.PROGRESS, progress.ravel()),
        ]
    )
    return _table(
        packed.clusters,
        now[p, st.CLUSTER],
        k.HELD_STATE,
        packed.numbers[now[p, st.CLUSTER], st.END_AT],
        topic=packed.topics,
        partition=pa.array(packed.partitions.astype(np.int32)),
        value=pa.array(now[:, st.DELETED]),  # whoever looks for what partitions do together sees this
        replicas=lists_of(now[:, st.SLOTS], packed.brokers[state.slot[:, st.MEMBER]]),
        numbers=lists_of(size, values),
    )


class _Rank:
    """Own events that are carried, by partition: which one of its partition each is."""

    def __init__(self, opened: Ints, now: Ints) -> None:
        self._opened, self._end = opened, now[:, st.OWN_END]
        self._first = np.searchsorted(opened, now[:, st.OWN_BEGIN])
        self.count = self.sizes(opened)

    def _p(self, places: Ints) -> Ints:
        return np.searchsorted(self._end, places, side="right")

    def sizes(self, places: Ints) -> Ints:
        """How many of these each partition has."""
        return np.bincount(self._p(places), minlength=len(self._end)).astype(np.int64)

    def of(self, places: Ints) -> Ints:
        """Places among the partition's carried ones, for places of own events."""
        out: Ints = np.searchsorted(self._opened, places) - self._first[self._p(places)]
        return out


def _waiting(of: Folded) -> list[tuple[Ints, Ints]]:
    """(how many each partition has, places of own events) in QUEUE, STACK and WAIT."""
    now, own = of.packed.state.now, of.packed.own
    begin, n = now[:, st.OWN_BEGIN], len(now)
    out = []
    for which, first, last in (
        (st.QUEUE, now[:, st.QUEUE_HEAD], now[:, st.QUEUE_TAIL]),
        (st.STACK, np.zeros(n, np.int64), now[:, st.STACKED]),
        (st.WAIT, np.zeros(n, np.int64), now[:, st.WAITERS]),
    ):
        p, places = np.repeat(np.arange(n), last - first), own.work[which, positions(begin + first, last - first)]
        rows = own.requests[places]
        kept = np.ones(len(p), np.bool_)
        if which == st.QUEUE:
            kept = rows[:, st.Q_BY] == k.WAITING
        out.append((np.bincount(p[kept], minlength=n).astype(np.int64), places[kept]))
    return out


def _progress(of: Folded, opened: Ints) -> Ints:
    """What open fetches could read, and when, by request."""
    rows = np.concatenate([of.packed.progress, of.journals.progress])
    rows = rows[np.isin(rows[:, st.P_REQUEST], opened)]
    out: Ints = rows[np.argsort(rows[:, st.P_REQUEST], kind="stable")]
    return out


def _now(now: Ints, waiting: list[Ints]) -> Ints:
    """Partitions as they are; the queues begin anew."""
    out = now.copy()
    out[:, st.QUEUE_HEAD] = 0
    for column, size in zip((st.QUEUE_TAIL, st.STACKED, st.WAITERS), waiting, strict=True):
        out[:, column] = size
    return out


def _seen(of: Folded) -> Ints:
    """Their health; the replay's end has closed it, so who leads is looked at anew, as a slot."""
    state, world = of.packed.state, of.timeline.world
    leader, out = state.now[:, st.LEADER], state.seen.copy()
    led = np.flatnonzero(leader >= 0)
    member = state.slot[state.now[led, st.SLOT_BEGIN] + leader[led], st.MEMBER]
    alive = world.change[world.broker[member, 1] - 1, 1] & st.ALIVE != 0
    out[:, st.SEEN_LEADER] = k.NOBODY
    out[led[alive], st.SEEN_LEADER] = leader[led[alive]]
    out[state.now[:, st.STATE] == k.ABSENT, st.SEEN_LEADER] = NOT_THERE
    return out


def _written(of: Folded) -> Ints:
    """As Packed.written: of the last rows of each partition their event, and how many it has."""
    out = of.packed.written.copy()
    for i, (rows, at, of_p) in enumerate(
        ((of.journals.leadership, st.L_EVENT, st.L_PARTITION), (of.journals.states, st.S_EVENT, st.S_PARTITION))
    ):
        p, event = rows[:, of_p], rows[:, at]
        count = nth(event, p) + 1
        last = np.flatnonzero(np.append(p[1:] != p[:-1], True)) if len(p) else p
        same = out[p[last], 2 * i] == event[last]
        out[p[last], 2 * i + 1] = count[last] + np.where(same, out[p[last], 2 * i + 1], 0)
        out[p[last], 2 * i] = event[last]
    return out


def _slots(of: Folded, rank: _Rank) -> Ints:
    """Slots as rows carry them: of lists the entries that there are, of fetches that wait their place."""
    now, slot = of.packed.state.now, of.packed.state.slot
    p = np.repeat(np.arange(len(now)), now[:, st.SLOTS])
    in_p = np.arange(len(slot)) - now[p, st.SLOT_BEGIN]
    out = slot[:, np.concatenate([LISTS_KEPT, SLOT_KEPT])]
    for i, which in enumerate(LISTS_KEPT.tolist()):
        out[in_p >= now[p, which], i] = 0
    waits = np.flatnonzero(slot[:, st.WAITS] >= 0)
    out[waits, -1] = rank.of(slot[waits, st.WAITS])
    return out


# ---- rows


def _table(clusters: tuple[tuple[str, str], ...], of: Ints, kind: int, at: Ints, **columns: pa.Array) -> pa.Table:
    size = len(of)
    named = {
        field.name: pa.array([one[i] for one in clusters], pa.string()).take(pa.array(of))
        for i, field in enumerate(KEY)
    }
    named |= {
        "event": pa.array(np.full(size, -1)),
        "at_ms": pa.array(at),
        "kind": pa.array([KINDS[kind]], pa.string()).take(pa.array(np.zeros(size, np.int64))),
    }
    every = named | columns
    arrays = [every[name].cast(kind) if name in every else pa.nulls(size, kind) for name, kind in _fields()]
    return pa.Table.from_arrays(arrays, schema=EVENTS)


def _fields() -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in EVENTS]


def rows_of(values: Ints) -> pa.Array:
    """A list for each row."""
    return lists_of(np.full(len(values), values.shape[1]), values.ravel())


def lists_of(size: Ints, values: Ints) -> pa.Array:
    """Lists of these sizes, their values one behind another."""
    offsets = np.concatenate([[0], np.cumsum(size)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
