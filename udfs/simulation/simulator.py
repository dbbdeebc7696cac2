"""A packed event log through the kernels: what was written on the way, and how it stands at the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from udfs.simulation.event_packing import N_CONTROLLER, N_EPOCH, Packed
from udfs.simulation.kernels import simulation_state as st
from udfs.simulation.kernels.broker_timeline import steps_of
from udfs.simulation.kernels.partition_timeline import ALL, begin, fold
from udfs.simulation.kernels.simulation_state import Ints, Journal, Own, State, World, new_journal

_LEAST_ROWS = 4096


@dataclass(frozen=True)
class Journals:
    """What a fold wrote, by partition, then by time. Lists: a value of L_ISR or H_LIST is a place in `lists`."""

    leadership: Ints
    states: Ints
    health: Ints
    progress: Ints
    lists: Ints


@dataclass(frozen=True)
class Timeline:
    """Of a call's clusters: steps (with those of automatic rebalances), who controls after each step (a place, or -1),
    flags of brokers at the end."""

    world: World
    controllers: Ints
    flags: Ints


@dataclass(frozen=True)
class Folded:
    """state: how partitions stand at the end; own.requests: how requests ended."""

    packed: Packed
    timeline: Timeline
    journals: Journals


def folded(packed: Packed) -> Folded:
    """The log of `packed`, folded; its state and requests are changed to how they are at the end.

    What partitions do together is among its events (together.py).
    """
    world = timeline(packed, packed.checks)
    return Folded(packed, world, _fold(packed.state, world.world, packed.own))


def timeline(packed: Packed, checks: Ints) -> Timeline:
    """checks: as of Packed."""
    first = np.searchsorted(packed.broker_cluster, np.arange(len(packed.clusters) + 1))
    numbers = packed.numbers
    cluster = np.zeros((len(numbers), st.CLUSTERS), np.int64)
    cluster[:, :N_CONTROLLER], cluster[:, st.EPOCH_AT_FIRST] = numbers[:, :N_CONTROLLER], numbers[:, N_EPOCH]
    of = np.searchsorted(checks[:, 0], np.arange(len(numbers) + 1))
    parts, controllers, flags, done = [], [], packed.flags.copy(), 0
    for c, row in enumerate(numbers):
        events = packed.of_clusters[packed.of_clusters_begin[c] : packed.of_clusters_begin[c + 1]]
        own = flags[first[c] : first[c + 1]]
        kraft = bool(row[st.KRAFT])
        steps, who = steps_of(events, own, int(first[c]), kraft, int(row[N_CONTROLLER]), int(row[N_EPOCH]))
        steps, who = _with_checks(steps, who, checks[of[c] : of[c + 1]], row)
        cluster[c, st.STEP_BEGIN], cluster[c, st.STEP_END] = done, done + len(steps)
        done += len(steps)
        parts.append(steps)
        controllers.append(who)
    all_steps = np.concatenate([*parts, np.empty((0, st.TIMELINE), np.int64)])
    broker, change = _changes(all_steps, packed.flags)
    broker, of = _index(all_steps, cluster, broker)
    return Timeline(
        World(all_steps, cluster, broker, change, of), np.concatenate([*controllers, np.empty(0, np.int64)]), flags
    )


def _with_checks(steps: Ints, who: Ints, checks: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Steps, and those of the checks between them, in order."""
    if not len(checks):
        return steps, who
    more = np.zeros((len(checks), st.TIMELINE), np.int64)
    more[:, st.T_AT], more[:, st.T_EVENT], more[:, st.T_BROKER] = checks[:, 1], checks[:, 2], checks[:, 3]
    more[:, st.T_KIND], more[:, st.T_ORDER] = st.CHECK, 2 * checks[:, 2]
    before = np.searchsorted(steps[:, st.T_ORDER], more[:, st.T_ORDER]) - 1
    here = before >= 0
    more[:, st.T_EPOCH] = np.where(here, steps[before, st.T_EPOCH] if len(steps) else 0, numbers[N_EPOCH])
    controls = np.where(here, who[before] if len(who) else 0, numbers[N_CONTROLLER])
    both = np.concatenate([steps, more])
    order = np.argsort(both[:, st.T_ORDER], kind="stable")
    return both[order], np.concatenate([who, controls])[order]


_AFTER = {
    st.DOWN: 0,
    st.DOWN_CONTROLLER: 0,
    st.DOWN_LAST: 0,
    st.SEEN_DOWN: 0,
    st.UP: st.LIVE,
    st.UP_CONTROLLER: st.LIVE,
    st.UP_UNCLEAN: st.LIVE,
    st.SEEN_UP: st.LIVE,
    st.LEAVING: st.LIVE | st.LEAVES,
}


def _changes(steps: Ints, flags: Ints) -> tuple[Ints, Ints]:
    """(broker: (n, 2), change: (k, 2)) of World: which flags a broker has from which step on.

    A broker that fails while it leaves keeps LEAVES: it went in order.
    """
    kinds = np.array(list(_AFTER))
    at = np.flatnonzero(np.isin(steps[:, st.T_KIND], kinds))
    place, kind = steps[at, st.T_BROKER], steps[at, st.T_KIND]
    order = np.lexsort((at, place))
    place, kind, at = place[order], kind[order], at[order]
    after = np.zeros(int(kinds.max()) + 1, np.int64)
    after[kinds] = list(_AFTER.values())
    value = after[kind]
    was_leaving = np.concatenate([[False], (place[1:] == place[:-1]) & (kind[:-1] == st.LEAVING)])
    value = np.where((value == 0) & was_leaving, st.LEAVES, value)
    all_place = np.concatenate([np.arange(len(flags)), place])
    rows = np.stack([np.concatenate([np.full(len(flags), -1), at]), np.concatenate([flags, value])], axis=1)
    by_place = np.lexsort((rows[:, 0], all_place))
    begins = np.searchsorted(all_place[by_place], np.arange(len(flags) + 1))
    return np.stack([begins[:-1], begins[1:]], axis=1).astype(np.int64), rows[by_place].astype(np.int64)


_OF_ALL = (st.DOWN_CONTROLLER, st.UP_CONTROLLER, st.FAIL_OVER)


def _index(steps: Ints, cluster: Ints, broker: Ints) -> tuple[Ints, Ints]:
    """(broker: (n, 4), of) of World; which steps concern every partition of a cluster is put into `cluster`."""
    place, kind = steps[:, st.T_BROKER], steps[:, st.T_KIND]
    of_brokers = np.flatnonzero((place >= 0) & (kind != st.QUORUM))
    of_brokers = of_brokers[np.argsort(place[of_brokers], kind="stable")]
    begins = np.searchsorted(place[of_brokers], np.arange(len(broker) + 1))
    of_all = np.flatnonzero(np.isin(kind, _OF_ALL))
    for column, bound in ((st.OF_ALL_BEGIN, st.STEP_BEGIN), (st.OF_ALL_END, st.STEP_END)):
        cluster[:, column] = len(of_brokers) + np.searchsorted(of_all, cluster[:, bound])
    of = np.concatenate([of_brokers, of_all]).astype(np.int64)
    return np.concatenate([broker, begins[:-1, None], begins[1:, None]], axis=1).astype(np.int64), of


def begin_all(state: State, world: World, own: Own) -> None:
    """Nothing; partitions stand before the first step of their clusters, as they are at first."""
    state.now[:, st.STEP] = world.cluster[state.now[:, st.CLUSTER], st.STEP_BEGIN]
    begin(state, world, new_journal(1, 0, writes=False), own)


def _fold(state: State, world: World, own: Own) -> Journals:
    slots = int(state.now[:, st.SLOTS].max(initial=0))
    rows = max(_LEAST_ROWS, len(state.now) * 4 + len(own.events) // 2)
    parts: list[Journal] = []
    used: list[list[int]] = []
    done, last = 0, len(state.now)
    begin_all(state, world, own)
    while done < last or not parts:
        journal = new_journal(rows, slots)
        done = fold(state, world, journal, own, done, last, ALL)
        parts.append(journal)
        used.append(journal.used.tolist())
    return _joined(parts, used)


def _joined(parts: list[Journal], used: list[list[int]]) -> Journals:
    """One behind another; places of lists count through."""
    before = 0
    for journal, sizes in zip(parts, used, strict=True):
        journal.leadership[:, st.L_ISR] += before
        lists = journal.health[: sizes[st.U_HEALTH], st.H_LIST]
        lists[lists >= 0] += before
        before += sizes[st.U_LISTS]

    def all_of(name: str, which: int) -> Ints:
        return np.concatenate([getattr(one, name)[: sizes[which]] for one, sizes in zip(parts, used, strict=True)])

    return Journals(
        all_of("leadership", st.U_LEADERSHIP),
        all_of("states", st.U_STATES),
        all_of("health", st.U_HEALTH),
        all_of("progress", st.U_PROGRESS),
        all_of("lists", st.U_LISTS),
    )
