"""Partitions as a fold before left them ("partition so far", written by carry.py): a fold goes on from there.

Slots are numbered anew, by broker: the rows name brokers that the partition had something to do with, and there may be
more now. What is open of before - requests that wait, appends that may be lost - stands before a partition's events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from udfs.kernels import replay_codes as k
from udfs.kernels import replay_state as st
from udfs.kernels.replay_state import Ints, Own, State
from udfs.replay.ragged import positions

if TYPE_CHECKING:
    from udfs.replay.packing import Packer

# Columns that say where something stands in the arrays: each fold has its own.
_PLACES_NOW = (st.SLOT_BEGIN, st.SLOTS, st.COMMON_BEGIN, st.CLUSTER, st.STEP, st.OWN, st.OWN_BEGIN, st.OWN_END)
NOW_KEPT = np.array([c for c in range(st.NOW) if c not in _PLACES_NOW])
LISTS_KEPT = np.array([st.AR, st.ISR, st.ELR, st.TARGET])  # their i-th entries stand in a partition's i-th slot
SLOT_KEPT = np.arange(st.REPLICA_STATE, st.WAITS + 1)
SLOTS_NAMED = (st.LEADER, st.LAST_KNOWN, st.LAST_LEADER)
WRITTEN = 4  # columns of Packed.written
REQUEST_KEPT = st.EVENT + st.REQUEST + 1
# `numbers` of a row: these, then slots (lists' entries, then replicas), what their logs share, open requests, the
# places among these of those in QUEUE, STACK and WAIT, and what of them could be read when.
AT_NOW = 1
AT_SEEN = AT_NOW + len(NOW_KEPT)
AT_WRITTEN = AT_SEEN + st.SEEN
AT_OPEN = AT_WRITTEN + WRITTEN
AT_PROGRESS = AT_OPEN + 1
HEAD = AT_PROGRESS + 1
LAYOUT = HEAD * 10_000 + (len(LISTS_KEPT) + len(SLOT_KEPT)) * 100 + REQUEST_KEPT  # first of a row: what it is made of


class Carried:
    """The rows of a table that say how partitions are so far."""

    def __init__(self, packer: Packer) -> None:
        rows = np.flatnonzero(packer.kind == k.HELD_STATE)
        rows = rows[np.argsort(packer.row[rows], kind="stable")]
        self._p, cluster = packer.row[rows], packer.cluster[rows]
        if len(np.unique(self._p)) < len(rows):
            raise ValueError("a partition has more than one row 'partition so far'")
        self._partitions = len(packer.partition_of)
        numbers, ids = packer.numbers, packer.lists[0]
        self._values, self._at = numbers.values, numbers.begin[rows]
        if (numbers.size[rows] < HEAD).any() or (self._values[self._at] != LAYOUT).any():
            raise ValueError("rows 'partition so far' are of another version")
        self._head = self._values[self._at[:, None] + np.arange(HEAD)]
        self._slots = ids.size[rows]
        self._first_slot = np.cumsum(self._slots) - self._slots
        brokers = ids.values[positions(ids.begin[rows], self._slots)]
        of = np.repeat(np.arange(len(rows)), self._slots)
        self._slot = packer.slot_of(self._p[of], cluster[of], brokers)  # of each slot of before, the one of now
        self._open = self._head[:, AT_OPEN]
        self._blocks()

    def _blocks(self) -> None:
        """Nothing; what stands behind the head of each row, all rows' one behind another."""
        at = self._at + HEAD
        waiting = [self.now(column) for column in (st.QUEUE_TAIL, st.STACKED, st.WAITERS)]
        width = len(LISTS_KEPT) + len(SLOT_KEPT)
        sizes = [self._slots * width, self._slots**2, self._open * REQUEST_KEPT, *waiting]
        blocks = []
        for size in (*sizes, self._head[:, AT_PROGRESS] * st.PROGRESS):
            blocks.append(self._values[positions(at, size)])
            at = at + size
        self._slot_rows = blocks[0].reshape(-1, width)
        self._common, self._requests = blocks[1], blocks[2].reshape(-1, REQUEST_KEPT)
        self._waiting = list(zip((st.QUEUE, st.STACK, st.WAIT), waiting, blocks[3:6], strict=True))
        self._progress = blocks[6].reshape(-1, st.PROGRESS)

    def now(self, column: int) -> Ints:
        """That column of `now`, as it was."""
        out: Ints = self._head[:, AT_NOW + int(NOW_KEPT.tolist().index(column))]
        return out

    def _slot_now(self, of: Ints, slot: Ints) -> Ints:
        """Slots of now for slots of before, of these rows; what is below 0 stays."""
        if not len(self._slot):
            return slot
        return np.where(slot >= 0, self._slot[self._first_slot[of] + np.maximum(slot, 0)], slot)

    def before(self, row: Ints, events: Ints, requests: Ints, number: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """(rows of partitions, events, requests, their numbers), by row like those given: what was open, then these."""
        if not self._open.any():
            return row, events, requests, number
        of = np.repeat(np.arange(len(self._p)), self._open)
        old_events, old = self._requests[:, : st.EVENT].copy(), self._requests[:, st.EVENT :]
        old_events[:, st.E_BROKER] = self._slot_now(of, old_events[:, st.E_BROKER])
        rows = np.concatenate([self._p[of], row])
        order = np.lexsort((np.arange(len(rows)), rows))
        return (
            rows[order],
            np.concatenate([old_events, events])[order],
            np.concatenate([old[:, : st.REQUEST], requests])[order],
            np.concatenate([old[:, st.REQUEST], number])[order],
        )

    def written(self) -> Ints:
        """What was written last, as Packed has it."""
        out = np.tile(np.array([-1, 0, -1, 0]), (self._partitions, 1))
        out[self._p] = self._head[:, AT_WRITTEN:AT_OPEN]
        return out

    def progress(self, own_begin: Ints) -> Ints:
        """What requests that are open could read until now."""
        out = self._progress.copy()
        out[:, st.P_REQUEST] += np.repeat(own_begin[self._p], self._head[:, AT_PROGRESS])
        return out

    def requests(self, own_begin: Ints) -> tuple[Ints, Ints]:
        """(places of own events, their rows of requests): those that were open, as they were."""
        return positions(own_begin[self._p], self._open), self._requests[:, st.EVENT : -1].copy()

    def put(self, state: State, own: Own) -> None:
        """Nothing; the partitions are in `state` as they were, and what waits is in `own`."""
        p = self._p
        if not len(p):
            return
        self._put_now(state)
        state.seen[p] = self._head[:, AT_SEEN:AT_WRITTEN]
        self._put_slots(state)
        leader = self._slot_now(np.arange(len(p)), state.seen[p, st.SEEN_LEADER])
        place = state.slot[
            np.minimum(state.now[p, st.SLOT_BEGIN] + np.maximum(leader, 0), len(state.slot) - 1), st.MEMBER
        ]
        state.seen[p, st.SEEN_LEADER] = np.where(leader >= 0, place, leader)
        for which, size, places in self._waiting:
            begin = state.now[p, st.OWN_BEGIN]
            own.work[which, positions(begin, size)] = places + np.repeat(begin, size)

    def _put_now(self, state: State) -> None:
        p, now = self._p, state.now
        has_data = now[p, st.HAS_DATA]
        now[p[:, None], NOW_KEPT] = self._head[:, AT_NOW:AT_SEEN]
        now[p, st.HAS_DATA] |= has_data
        now[p, st.OWN] = now[p, st.OWN_BEGIN] + self._open
        for column in SLOTS_NAMED:
            now[p, column] = self._slot_now(np.arange(len(p)), now[p, column])

    def _put_slots(self, state: State) -> None:
        """Nothing; slots are as they were; those of brokers that are new to a partition are as at first."""
        now, slot = state.now, state.slot
        of = np.repeat(np.arange(len(self._p)), self._slots)
        begin, p = now[self._p[of], st.SLOT_BEGIN], self._p[of]
        nth = np.arange(len(of)) - self._first_slot[of]
        entries, replicas = self._slot_rows[:, : len(LISTS_KEPT)], self._slot_rows[:, len(LISTS_KEPT) :]
        for i, which in enumerate(LISTS_KEPT.tolist()):
            there = nth < now[p, which]
            slot[begin[there] + nth[there], which] = self._slot_now(of[there], entries[there, i])
        at = begin + self._slot
        slot[at[:, None], SLOT_KEPT] = replicas
        waits = slot[at, st.WAITS]
        slot[at, st.WAITS] = np.where(waits >= 0, waits + now[p, st.OWN_BEGIN], waits)
        self._put_common(state)

    def _put_common(self, state: State) -> None:
        of = np.repeat(np.arange(len(self._p)), self._slots**2)
        nth = np.arange(len(of)) - np.repeat(np.cumsum(self._slots**2) - self._slots**2, self._slots**2)
        a, b = (self._slot_now(of, place) for place in divmod(nth, self._slots[of]))
        now = state.now[self._p[of]]
        state.common[now[:, st.COMMON_BEGIN] + a * now[:, st.SLOTS] + b] = self._common
