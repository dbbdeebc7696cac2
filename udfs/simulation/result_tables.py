"""What a fold wrote, as rows with names: the Arrow tables of schema.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.positions import positions
from udfs.simulation.event_names import ANSWERS, CAUSES, ERRORS, PARTITION_STATES, REPLICA_STATES
from udfs.simulation.kernels import codes as k
from udfs.simulation.kernels import simulation_state as st
from udfs.simulation.kernels.simulation_state import Ints
from udfs.simulation.simulation_schemas import HEALTH, LEADERSHIPS, REQUESTS, STATES_AT_END, TRANSITIONS
from udfs.simulation.simulator import Folded

Bools = npt.NDArray[np.bool_]


class Rows:
    """Tables of a fold."""

    def __init__(self, folded: Folded) -> None:
        self._packed, self._journals = folded.packed, folded.journals
        self._live = np.flatnonzero(folded.timeline.flags & st.LIVE)
        self._cluster = folded.packed.state.now[:, st.CLUSTER]
        self._ids = [pa.array([one[i] for one in folded.packed.clusters], pa.string()) for i in (0, 1)]

    def leaderships(self) -> pa.Table:
        """Every leadership, ISR or epoch that was written."""
        rows = self._journals.leadership
        p = rows[:, st.L_PARTITION]
        lists = self._journals.lists
        begin = rows[:, st.L_ISR]
        isr = self._brokers_of(lists, begin + 1, lists[begin] if len(begin) else begin)
        return pa.table(
            [
                *self._key(p),
                rows[:, st.L_EVENT],
                rows[:, st.L_AT],
                *self._place(p),
                _int32(_nth(rows[:, st.L_EVENT], p)),
                _words(CAUSES, rows[:, st.L_CAUSE]),
                self._broker(rows[:, st.L_FROM]),
                self._broker(rows[:, st.L_TO]),
                _int32(rows[:, st.L_EPOCH]),
                _int32(rows[:, st.L_CONTROLLER_EPOCH]),
                isr,
            ],
            schema=LEADERSHIPS,
        )

    def transitions(self) -> pa.Table:
        """Every transition of a partition (broker_id null) or a replica that was tried, legal or not."""
        rows = self._journals.states
        p, of_replica = rows[:, st.S_PARTITION], rows[:, st.S_BROKER] >= 0
        names = [*PARTITION_STATES, *REPLICA_STATES]
        states = [np.where(of_replica, rows[:, c] + len(PARTITION_STATES), rows[:, c]) for c in (st.S_FROM, st.S_TO)]
        return pa.table(
            [
                *self._key(p),
                rows[:, st.S_EVENT],
                rows[:, st.S_AT],
                *self._place(p),
                _int32(_nth(rows[:, st.S_EVENT], p)),
                self._broker(rows[:, st.S_BROKER]),
                *(_words(names, codes) for codes in states),
                _words(CAUSES, rows[:, st.S_CAUSE]),
                _int32(rows[:, st.S_EPOCH]),
                _int32(rows[:, st.S_CONTROLLER_EPOCH]),
                pa.array(rows[:, st.S_LEGAL] != 0),
            ],
            schema=TRANSITIONS,
        )

    def health(self) -> pa.Table:
        """Times in which a partition's health was the same; the last of each is `at_the_end`, with its replicas."""
        rows, lists = self._journals.health, self._journals.lists
        p, place = rows[:, st.H_PARTITION], rows[:, st.H_LIST]
        last = place >= 0
        size = np.where(last, lists[np.maximum(place, 0)] if len(lists) else 0, 0)
        data = rows[:, st.H_LEO] >= 0
        # Where there never was a leader, the offsets that are known of the replicas stand in the last row all the same.
        now = self._packed.state.now
        known = last & (data | (now[p, st.SEEN_DATA] != 0))
        committed = np.where(data, rows[:, st.H_COMMITTED], now[p, st.COMMITTED])
        replicas = self._brokers_of(lists, place + 1, np.where(last, size, -1))
        least = np.minimum(rows[:, st.H_MIN_ISR], rows[:, st.H_AR])
        isr = rows[:, st.H_ISR]
        leos = _lists(lists, place + 1 + size, np.where(known, size, -1))
        hws = _lists(lists, place + 1 + 2 * size, np.where(known, size, -1))
        lag = np.zeros(len(rows), np.int64)
        of = np.repeat(np.arange(len(rows)), np.where(known, size, 0))
        values = np.asarray(leos.flatten())
        np.maximum.at(lag, of, rows[of, st.H_LEO] - values)
        return pa.table(
            [
                *self._key(p),
                *self._place(p),
                rows[:, st.H_FROM],
                rows[:, st.H_TO],
                self._broker(rows[:, st.H_LEADER]),
                _int32(rows[:, st.H_EPOCH]),
                _int32(rows[:, st.H_AR]),
                _int32(isr),
                _int32(rows[:, st.H_MIN_ISR]),
                pa.array(isr < rows[:, st.H_AR]),
                pa.array(isr == least),
                pa.array(isr < least),
                _known(rows[:, st.H_LEO], data),
                _known(committed, data | known),
                _known(rows[:, st.H_VISIBLE], data & (rows[:, st.H_LEADER] >= 0)),
                *(_known(rows[:, c], data) for c in (st.H_EXPOSED_0, st.H_EXPOSED_1, st.H_EXPOSED_ALL)),
                pa.array(last),
                replicas,
                leos,
                hws,
                _known(lag, known & data),
            ],
            schema=HEALTH,
        )

    def requests(self) -> pa.Table:
        """Appends and fetches of partitions, and how each ended there; progress: of those with several parts."""
        events, all_requests = self._packed.own.events, self._packed.own.requests
        chosen = np.flatnonzero(all_requests[:, st.Q_BY] >= 0)
        rows, said = all_requests[chosen], events[chosen]
        p = np.searchsorted(self._packed.state.now[:, st.OWN_END], chosen, side="right")
        append, answered = said[:, st.E_KIND] == k.APPEND, rows[:, st.Q_AT] >= 0
        broker = np.full(len(chosen), k.NOBODY)
        of_broker = said[:, st.E_BROKER] >= 0
        slot = self._packed.state.now[p, st.SLOT_BEGIN] + said[:, st.E_BROKER]
        broker[of_broker] = self._packed.state.slot[slot[of_broker], st.MEMBER]
        kinds = np.where(append, 0, np.where(of_broker, 1, 2))
        written = append & (rows[:, st.Q_BASE] >= 0)
        acks = said[:, st.E_ACKS]
        base = np.where(acks == 0, -1, rows[:, st.Q_BASE])
        rejected = (rows[:, st.Q_BY] == k.AT_ONCE) & (
            rows[:, st.Q_ERROR] != k.NO_ERROR
        )  # nobody looked where it begins
        progress = self._progress(chosen)
        return pa.table(
            [
                *self._key(p),
                _known(self._packed.request[chosen], self._packed.request[chosen] >= 0),
                *self._place(p),
                said[:, st.E_EVENT],
                said[:, st.E_AT],
                _words(("produce", "fetch of a replica", "fetch of a consumer"), kinds),
                self._broker(broker),
                _int32(said[:, st.E_PARTS]),
                pa.array(acks.astype(np.int32), mask=~append),
                pa.array(rows[:, st.Q_DELAYED] != 0),
                _words(ERRORS, rows[:, st.Q_ERROR]),
                _words(ANSWERS, rows[:, st.Q_BY]),
                _known(rows[:, st.Q_AT], answered),
                _known(rows[:, st.Q_AT] - said[:, st.E_AT], answered),
                _known(np.where(append, base, rows[:, st.Q_NEEDED]), written | ~(append | rejected)),
                rows[:, st.Q_COUNT],
                _known(rows[:, st.Q_HW], rows[:, st.Q_HW] >= 0),
                rows[:, st.Q_LOST],
                _known(rows[:, st.Q_LOST_AT], rows[:, st.Q_LOST_AT] >= 0),
                _known(said[:, st.E_MIN_BYTES], ~append),
                _known(said[:, st.E_AT] + said[:, st.E_WAIT_MS], rows[:, st.Q_DELAYED] != 0),
                *progress,
                _known(self._packed.numbers[self._cluster[p], st.MESSAGE_BYTES], ~append),
            ],
            schema=REQUESTS,
        )

    def at_the_end(self) -> pa.Table:
        """Partitions that exist at the end: leader, lists, state."""
        now = self._packed.state.now
        # A topic that is being deleted is there until all its replicas are gone.
        p = np.flatnonzero((now[:, st.STATE] != k.ABSENT) | ((now[:, st.DELETED] != 0) & (now[:, st.AR] > 0)))
        leader = np.where(
            now[p, st.LEADER] >= 0,
            self._packed.state.slot[np.maximum(now[p, st.SLOT_BEGIN] + now[p, st.LEADER], 0), st.MEMBER]
            if len(self._packed.state.slot)
            else -1,
            -1,
        )
        # With ZooKeeper the last leader stays written where nobody is left to control: it leads no more.
        leader = np.where(np.isin(leader, self._live), leader, k.NOBODY)
        return pa.table(
            [
                *self._key(p),
                *self._place(p),
                self._broker(leader),
                _int32(now[p, st.EPOCH]),
                _int32(now[p, st.WRITTEN]),
                *(self._held(p, which) for which in (st.AR, st.ISR, st.ELR)),
                _words(PARTITION_STATES, now[p, st.STATE]),
            ],
            schema=STATES_AT_END,
        )

    def _held(self, p: Ints, which: int) -> pa.Array:
        now, slot = self._packed.state.now, self._packed.state.slot
        size = now[p, which]
        at = positions(now[p, st.SLOT_BEGIN], size)
        member = slot[np.repeat(now[p, st.SLOT_BEGIN], size) + slot[at, which], st.MEMBER]
        return _as_lists(self._packed.brokers[member].astype(np.int32), size)

    def _progress(self, chosen: Ints) -> tuple[pa.Array, pa.Array]:
        rows = self._journals.progress
        rows = rows[np.argsort(rows[:, st.P_REQUEST], kind="stable")]
        size = np.bincount(rows[:, st.P_REQUEST], minlength=len(self._packed.own.events))[chosen].astype(np.int64)
        return tuple(_as_lists(rows[:, c], np.where(size == 0, -1, size)) for c in (st.P_AT, st.P_BYTES))

    def _key(self, p: Ints) -> list[pa.Array]:
        codes = pa.array(self._cluster[p])
        return [ids.take(codes) for ids in self._ids]

    def _place(self, p: Ints) -> list[pa.Array]:
        return [self._packed.topics.take(pa.array(p)), _int32(self._packed.partitions[p])]

    def _broker(self, place: Ints) -> pa.Array:
        known = place >= 0
        if not len(self._packed.brokers):
            return pa.nulls(len(place), pa.int32())
        return pa.array(self._packed.brokers[np.where(known, place, 0)].astype(np.int32), mask=~known)

    def _brokers_of(self, lists: Ints, begin: Ints, size: Ints) -> pa.Array:
        values = lists[positions(begin, size)]
        return _as_lists(self._packed.brokers[values].astype(np.int32), size)


def _lists(values: Ints, begin: Ints, size: Ints) -> pa.Array:
    return _as_lists(values[positions(begin, size)], size)


def _as_lists(values: npt.NDArray[np.generic], size: Ints) -> pa.Array:
    """Lists of these lengths, one behind another; -1 = null."""
    offsets = np.concatenate([[0], np.cumsum(np.maximum(size, 0))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=pa.array(size < 0))


def _words(names: Sequence[str], codes: Ints) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names)).cast(pa.string())


def _int32(values: Ints) -> pa.Array:
    return pa.array(values.astype(np.int32))


def _known(values: Ints, known: Bools) -> pa.Array:
    return pa.array(values, mask=~known)


def _nth(event: Ints, p: Ints) -> Ints:
    """0, 1, ... for the rows of one event of one partition, which stand together."""
    if not len(event):
        return event
    new = np.concatenate([[True], (event[1:] != event[:-1]) | (p[1:] != p[:-1])])
    begin = np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))
    out: Ints = np.arange(len(new)) - begin
    return out
