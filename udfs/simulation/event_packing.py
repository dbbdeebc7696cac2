"""Event logs as the flat arrays that the kernels fold: any number of clusters in one call, no loop over rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.simulation.event_names import KINDS
from udfs.simulation.kernels import codes as k
from udfs.simulation.kernels import simulation_state as st
from udfs.simulation.kernels.broker_timeline import C_AT, C_BROKER, C_EVENT, C_ID, C_KIND, C_VALUE, CLUSTER_EVENT
from udfs.simulation.kernels.metadata_records import ABSENT_LIST, SAME_LEADER
from udfs.simulation.kernels.simulation_state import LONG_AGO, NEVER, Ints, Own, State
from udfs.simulation.simulation_schemas import LISTS

_OF_CLUSTERS = (
    k.BROKER_DOWN,
    k.BROKER_UP,
    k.SHUTDOWN,
    k.CONTROLLER_LOST,
    k.OLD_CONTROLLER,  # changes nothing; what is said to it is told by steps.py
    k.FENCED,
    k.UNFENCED,
    k.LED_BY,
)
# What every share of a cluster needs, whichever partitions it has.
OF_EVERY_SHARD = (*_OF_CLUSTERS, k.REBALANCED_LEADERS, k.HELD_CLUSTER, k.HELD_BROKER)
_WITH_LIST = (k.CREATE, k.REASSIGN, k.SET_ISR)
_DATA = (k.APPEND, k.FETCH, k.OFFSETS)
UNKNOWN = -1
FIRST_OFFSET = 3  # of `numbers` of a partition at first
# Of `numbers` of a cluster at first, after rules, start, end and events.
N_CONTROLLER, N_EPOCH, NUMBERS = range(st.RULES + 3, st.RULES + 6)


@dataclass(frozen=True)
class Packed:
    """Clusters, brokers and partitions of a call, in the order of their places and rows, and the arrays.

    clusters: [(cluster_id, snapshot_id)].   brokers: int64 (n), ids; broker_cluster: int64 (n).   topics: of each
    partition row (p), partitions: int64 (p).   numbers: int64 (c, NUMBERS), of clusters at first.   flags: int64
    (n), who is LIVE at first.   of_clusters: int64 (e, CLUSTER_EVENT), cluster by cluster, and where each begins
    (c + 1).   request: int64 (own events), numbers that answers name.   checks: int64 (k, 4), cluster, time, event,
    place of a broker whose leaders are rebalanced then.
    """

    clusters: tuple[tuple[str, str], ...]
    brokers: Ints
    broker_cluster: Ints
    topics: pa.Array
    partitions: Ints
    numbers: Ints
    flags: Ints
    of_clusters: Ints
    of_clusters_begin: Ints
    state: State
    own: Own
    request: Ints
    checks: Ints


def pack(table: pa.Table) -> Packed:
    """The arrays of a table of EVENTS or of WIRE (schema.py), in any order of rows.

    Each cluster has its row `cluster at first`; rows of brokers and controllers may be there more than once.
    """
    return _Packer(table.combine_chunks()).packed()


def _ints(column: Any, missing: int) -> Ints:
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(pc.fill_null(values.cast(pa.int64()), missing))


def _codes(column: Any) -> tuple[Ints, pa.Array]:
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return _ints(encoded.indices, UNKNOWN), encoded.dictionary


class _Lists:
    """A column of lists: how long each is (-1 = null), and its values one behind another."""

    def __init__(self, size: Ints, values: Ints) -> None:
        self.size, self.values = size, values
        length = np.maximum(size, 0)
        self.row: Ints = np.repeat(np.arange(len(size)), length)
        begin = np.cumsum(length) - length
        self.position: Ints = np.arange(len(self.row)) - begin[self.row]


def _column(column: Any) -> _Lists:
    array = column.combine_chunks()
    size = np.asarray(pc.fill_null(pc.list_value_length(array), ABSENT_LIST)).astype(np.int64)
    return _Lists(size, np.asarray(array.flatten()).astype(np.int64))


def _unwired(column: Any) -> list[_Lists]:
    """The lists that travelled in one, as WIRE tells."""
    whole = _column(column)
    there = whole.size > 0
    place = np.cumsum(np.maximum(whole.size, 0)) - np.maximum(whole.size, 0)
    out = []
    for _ in range(len(LISTS) + 1):
        size = np.full(len(there), ABSENT_LIST)
        size[there] = whole.values[place[there]]
        length = np.maximum(size, 0)
        starts = np.cumsum(length) - length
        values = whole.values[np.repeat(place + 1 - starts, length) + np.arange(int(length.sum()))]
        out.append(_Lists(size, values))
        place = place + np.where(there, 1 + length, 0)
    return out


def _kinds(table: pa.Table) -> Ints:
    return _ints(pc.index_in(table["kind"], value_set=pa.array(KINDS)), UNKNOWN)


def _once(table: pa.Table) -> pa.Table:
    """The table with each row of brokers and controllers once: these go to every share, and a worker has several."""
    kind = _kinds(table)
    of_clusters = np.flatnonzero(np.isin(kind, OF_EVERY_SHARD))
    key = [_codes(table[name].take(pa.array(of_clusters)))[0] for name in ("cluster_id", "snapshot_id")]
    key += [_ints(table[name], UNKNOWN)[of_clusters] for name in ("event", "at_ms", "broker_id")]
    _, first = np.unique(np.stack([*key, kind[of_clusters]]), axis=1, return_index=True)
    if len(first) == len(of_clusters):
        return table
    kept = np.ones(len(kind), np.bool_)
    kept[of_clusters] = False
    kept[of_clusters[first]] = True
    return table.filter(pa.array(kept)).combine_chunks()


class _Packer:
    def __init__(self, table: pa.Table) -> None:
        table = _once(table)
        self.table = table
        self.kind = _kinds(table)
        key = pc.binary_join_element_wise(table["cluster_id"], table["snapshot_id"], "\0")
        self.cluster, words = _codes(key)
        self.clusters = tuple(
            (cluster, snapshot) for cluster, _, snapshot in (w.partition("\0") for w in words.to_pylist())
        )
        self.event = _ints(table["event"], UNKNOWN)
        self.at = _ints(table["at_ms"], 0)
        self.broker = _ints(table["broker_id"], UNKNOWN)
        self.value = _ints(table["value"], 0)
        wired = "lists" in table.column_names
        every = _unwired(table["lists"]) if wired else [_column(table[name]) for name in (*LISTS, "numbers")]
        self.lists, self.numbers = every[:-1], every[-1]
        self.leader = _ints(table["leader"], SAME_LEADER)

    def packed(self) -> Packed:
        self._rows()
        self._places()
        self._slots()
        own, requests = self._own()
        numbers = self._numbers()
        of_clusters, begin = self._of_clusters()
        return Packed(
            self.clusters,
            self.broker_id,
            self.broker_cluster,
            self.topic_of,
            self.partition_of,
            numbers,
            self.flags_at_first,
            of_clusters,
            begin,
            self._state(numbers),
            own,
            requests,
            self._checks(),
        )

    def _rows(self) -> None:
        """A row for each partition of a cluster; row -1 for events of none."""
        topics, words = _codes(self.table["topic"])
        number = _ints(self.table["partition"], UNKNOWN)
        key = ((self.cluster * max(len(words), 1) + topics) << 32) + number
        there = topics >= 0
        unique, inverse = np.unique(key[there], return_inverse=True)
        self.row = np.full(len(key), UNKNOWN)
        self.row[there] = inverse
        self.partition_of = unique & 0xFFFFFFFF
        topic = (unique >> 32) % max(len(words), 1)
        self.cluster_of = (unique >> 32) // max(len(words), 1)
        self.topic_of = words.take(pa.array(topic))

    def _places(self) -> None:
        """A place for each broker of a cluster, by id."""
        listed = [(self.cluster[one.row], one.values) for one in self.lists]
        named = (self.broker >= 0) & (self.kind != k.LED_BY)
        led = self.leader >= 0
        listed += [(self.cluster[named], self.broker[named]), (self.cluster[led], self.leader[led])]
        key = np.concatenate([(cluster << 32) + broker for cluster, broker in listed])
        self.place_key = np.unique(key)
        self.broker_id, self.broker_cluster = self.place_key & 0xFFFFFFFF, self.place_key >> 32
        self.flags_at_first = np.zeros(len(self.place_key), np.int64)
        held = self.kind == k.HELD_BROKER
        self.flags_at_first[self._place(self.cluster[held], self.broker[held])] = self.value[held]

    def _place(self, cluster: Ints, broker: Ints) -> Ints:
        """Places of brokers; -1 for those that no list and no broker names (a controller may be no broker)."""
        if not len(self.place_key):
            return np.full(len(broker), UNKNOWN)
        key = (cluster << 32) + broker
        found = np.minimum(np.searchsorted(self.place_key, key), len(self.place_key) - 1)
        return np.where((broker >= 0) & (self.place_key[found] == key), found, UNKNOWN)

    def _slots(self) -> None:
        """Slots: the brokers that a partition ever has something to do with."""
        n = max(len(self.place_key), 1)
        pairs = []
        for one in self.lists:
            row = self.row[one.row]
            pairs.append((row, self._place(self.cluster[one.row], one.values)))
        here = (self.row >= 0) & (self.broker >= 0)
        pairs.append((self.row[here], self._place(self.cluster[here], self.broker[here])))
        led = (self.row >= 0) & (self.leader >= 0)
        pairs.append((self.row[led], self._place(self.cluster[led], self.leader[led])))
        self.slot_key = np.unique(np.concatenate([row * n + place for row, place in pairs]))
        row = self.slot_key // n
        self.slots = np.bincount(row, minlength=len(self.partition_of)).astype(np.int64)
        self.slot_begin = np.concatenate([[0], np.cumsum(self.slots)]).astype(np.int64)
        self.member = self.slot_key % n

    def _slot_of(self, row: Ints, cluster: Ints, broker: Ints) -> Ints:
        """Slots of brokers in partition rows; -1 for no broker."""
        if not len(self.slot_key):
            return np.full(len(broker), UNKNOWN)
        place, n = self._place(cluster, broker), max(len(self.place_key), 1)
        found = np.minimum(np.searchsorted(self.slot_key, row * n + place), len(self.slot_key) - 1)
        return np.where(place >= 0, found - self.slot_begin[np.maximum(row, 0)], UNKNOWN)

    # ---- events of partitions

    def _own(self) -> tuple[Own, Ints]:
        """(the events of partitions, by row and order; numbers of requests)."""
        mine = np.flatnonzero((self.row >= 0) & (self.kind != k.HELD_PARTITION))
        follows = (self.kind[mine] >= k.DELETION_STARTS) & (self.kind[mine] <= k.TOPIC_HELD)
        mine = mine[np.lexsort((follows, self.event[mine], self.row[mine]))]
        lists, place = self._packed_lists()
        events = np.zeros((len(mine), st.EVENT), np.int64)
        table, kind = self.table, self.kind[mine]
        events[:, st.E_EVENT], events[:, st.E_AT], events[:, st.E_KIND] = self.event[mine], self.at[mine], kind
        events[:, st.E_BROKER] = self._slot_of(self.row[mine], self.cluster[mine], self.broker[mine])
        events[:, st.E_LIST], events[:, st.E_VALUE] = place[mine], self.value[mine]
        for column, name, missing in (
            (st.E_ACKS, "acks", 1),
            (st.E_MESSAGES, "messages", 0),
            (st.E_WAIT_MS, "wait_ms", 0),
            (st.E_MIN_BYTES, "min_bytes", 1),
            (st.E_OFFSET, "fetch_offset", UNKNOWN),
            (st.E_PARTS, "parts", 1),
            (st.E_EPOCH, "leader_epoch", UNKNOWN),
        ):
            events[:, column] = _ints(table[name], missing)[mine]
        known = kind == k.OFFSETS
        events[known, st.E_OFFSET] = _ints(table["log_end_offset"], UNKNOWN)[mine[known]]
        events[known, st.E_LIST] = _ints(table["high_watermark"], UNKNOWN)[mine[known]]
        requests = np.zeros((len(mine), st.REQUEST), np.int64)
        requests[:, st.Q_BY] = requests[:, st.Q_AT] = requests[:, st.Q_BASE] = UNKNOWN
        requests[:, st.Q_HW] = requests[:, st.Q_LOST_AT] = UNKNOWN
        self.has_data = np.zeros(len(self.partition_of), np.int64)
        self.has_data[self.row[mine[np.isin(kind, _DATA)]]] = 1
        number = _ints(table["request"], UNKNOWN)[mine]
        row = self.row[mine]
        self.own_begin = np.searchsorted(row, np.arange(len(self.partition_of) + 1)).astype(np.int64)
        return Own(events, lists, requests, np.zeros((st.WORK, len(row)), np.int64)), number

    def _packed_lists(self) -> tuple[Ints, Ints]:
        """(lists of slots, where each row of the table has its own): of a record its leader, epoch and six lists."""
        record = self.kind == k.RECORD
        single = np.isin(self.kind, _WITH_LIST) & (self.lists[0].size >= 0)
        parts = [
            np.where(record | (single & (i == 0)), 1 + np.maximum(one.size, 0), 0) for i, one in enumerate(self.lists)
        ]
        size = np.sum(parts, axis=0) + 2 * record
        place = np.concatenate([[0], np.cumsum(size)])[:-1].astype(np.int64)
        out = np.zeros(int(size.sum()), np.int64)
        leader = self.leader[record]
        slot = self._slot_of(self.row[record], self.cluster[record], leader)
        out[place[record]] = np.where(leader == SAME_LEADER, SAME_LEADER, slot)
        out[place[record] + 1] = _ints(self.table["leader_epoch"], UNKNOWN)[record]
        start = place + 2 * record
        for one, part in zip(self.lists, parts, strict=True):
            there = part > 0
            out[start[there]] = one.size[there]
            chosen = there[one.row]
            row = one.row[chosen]
            values = self._slot_of(self.row[row], self.cluster[row], one.values[chosen])
            out[start[row] + 1 + one.position[chosen]] = values
            start = start + part
        return out, place

    # ---- events of clusters, and how all is at first

    def _of_clusters(self) -> tuple[Ints, Ints]:
        mine = np.flatnonzero(np.isin(self.kind, _OF_CLUSTERS))
        mine = mine[np.lexsort((self.event[mine], self.cluster[mine]))]
        events = np.empty((len(mine), CLUSTER_EVENT), np.int64)
        events[:, C_EVENT], events[:, C_AT], events[:, C_KIND] = self.event[mine], self.at[mine], self.kind[mine]
        events[:, C_BROKER] = self._place(self.cluster[mine], self.broker[mine])
        events[:, C_VALUE], events[:, C_ID] = self.value[mine], self.broker[mine]
        return events, np.searchsorted(self.cluster[mine], np.arange(len(self.clusters) + 1)).astype(np.int64)

    def _checks(self) -> Ints:
        mine = np.flatnonzero(self.kind == k.REBALANCED_LEADERS)
        mine = mine[np.lexsort((self.broker[mine], self.event[mine], self.cluster[mine]))]
        place = self._place(self.cluster[mine], self.broker[mine])
        return np.stack([self.cluster[mine], self.at[mine], self.event[mine], place], axis=1)

    def _numbers(self) -> Ints:
        """Of each cluster at first: rules, start, end, events, controller's place, its epoch."""
        held = np.flatnonzero(self.kind == k.HELD_CLUSTER)
        numbers = np.zeros((len(self.clusters), NUMBERS), np.int64)
        if len(held) != len(self.clusters) or len(set(self.cluster[held].tolist())) != len(held):
            raise ValueError("each cluster of an event log needs one row 'cluster at first'")
        said = self.kind[self.numbers.row] == k.HELD_CLUSTER
        row = self.cluster[self.numbers.row[said]]
        numbers[row, self.numbers.position[said]] = self.numbers.values[said]
        numbers[:, N_CONTROLLER] = self._place(np.arange(len(self.clusters)), numbers[:, N_CONTROLLER])
        return numbers

    def _state(self, numbers: Ints) -> State:
        p, s = len(self.partition_of), len(self.member)
        now, slot = np.zeros((p, st.NOW), np.int64), np.zeros((s, st.SLOT), np.int64)
        squares = np.concatenate([[0], np.cumsum(self.slots**2)]).astype(np.int64)
        now[:, st.SLOT_BEGIN], now[:, st.SLOTS], now[:, st.COMMON_BEGIN] = (
            self.slot_begin[:-1],
            self.slots,
            squares[:-1],
        )
        now[:, st.CLUSTER] = self.cluster_of
        now[:, [st.LEADER, st.LAST_KNOWN, st.LAST_LEADER]] = k.NOBODY
        now[:, st.MIN_ISR], now[:, st.DEADLINE], now[:, st.LAST_EVENT] = 1, NEVER, UNKNOWN
        now[:, st.AT] = numbers[self.cluster_of, st.START_AT]
        now[:, st.OWN_BEGIN], now[:, st.OWN_END] = self.own_begin[:-1], self.own_begin[1:]
        now[:, st.OWN] = self.own_begin[:-1]
        now[:, st.HAS_DATA] = self.has_data
        slot[:, st.MEMBER] = self.member
        slot[:, st.WAITS] = slot[:, st.REMOTE] = -1
        slot[:, [st.CAUGHT_UP_AT, st.FETCHED_AT, st.HW_AT]], slot[:, st.FETCHED_LEO] = LONG_AGO, NEVER
        state = State(now, slot, np.zeros(int(squares[-1]), np.int64), np.full((p, st.SEEN), UNKNOWN))
        self._hold(state)
        return state

    def _hold(self, state: State) -> None:
        """Nothing; partitions that are there at first are so in the state."""
        held = np.flatnonzero(self.kind == k.HELD_PARTITION)
        row = self.row[held]
        now, slot = state.now, state.slot
        for which, one in ((st.AR, self.lists[0]), (st.ISR, self.lists[1]), (st.ELR, self.lists[2])):
            now[row, which] = np.maximum(one.size[held], 0)
            chosen = self.kind[one.row] == k.HELD_PARTITION
            of = self.row[one.row[chosen]]
            slots = self._slot_of(of, self.cluster[one.row[chosen]], one.values[chosen])
            slot[self.slot_begin[of] + one.position[chosen], which] = slots
            if which == st.AR:
                at = self.slot_begin[of] + slots
                live = self.flags_at_first[self.member[at]] & st.LIVE != 0
                slot[at, st.REMOTE], slot[at, st.CAUGHT_UP_AT] = 0, now[of, st.AT]
                slot[at, st.REPLICA_STATE] = np.where(live, k.ONLINE, k.OFFLINE)
        leader = self._slot_of(row, self.cluster[held], self.leader[held])
        now[row, st.LEADER] = now[row, st.LAST_LEADER] = leader
        now[row, st.EPOCH] = _ints(self.table["leader_epoch"], 0)[held]
        now[row, st.STATE] = np.where(leader >= 0, k.ONLINE, k.OFFLINE)
        numbers = self.numbers
        self._offsets_at_first(state, numbers)
        for position, column in enumerate((st.UNCLEAN_ALLOWED, st.MIN_ISR, st.WRITTEN)):
            chosen = (numbers.position == position) & (self.kind[numbers.row] == k.HELD_PARTITION)
            now[self.row[numbers.row[chosen]], column] = numbers.values[chosen]
        known = np.zeros(len(now), np.int64)  # where nobody leads: what any replica knows
        np.maximum.at(known, np.repeat(np.arange(len(self.slots)), self.slots), slot[:, st.HW])
        led, unled = row[leader >= 0], row[leader < 0]
        now[led, st.COMMITTED] = slot[self.slot_begin[led] + now[led, st.LEADER], st.HW]
        now[unled, st.COMMITTED] = known[unled]

    def _offsets_at_first(self, state: State, numbers: _Lists) -> None:
        """Nothing; logs are as long as is said, and share what the shorter has."""
        chosen = (self.kind[numbers.row] == k.HELD_PARTITION) & (numbers.position >= FIRST_OFFSET)
        if not chosen.any():
            return
        table_row, value, ar = numbers.row[chosen], numbers.values[chosen], self.lists[0]
        position, size = numbers.position[chosen] - FIRST_OFFSET, ar.size[table_row]
        ids = ar.values[np.searchsorted(ar.row, table_row) + position % size]
        row = self.row[table_row]
        at = self.slot_begin[row] + self._slot_of(row, self.cluster[table_row], ids)
        is_leo = position < size
        state.now[row, st.HAS_DATA] = state.now[row, st.SEEN_DATA] = 1
        state.slot[at[is_leo], st.LEO] = state.slot[at[is_leo], st.REMOTE] = value[is_leo]
        state.slot[at[~is_leo], st.HW] = state.slot[at[~is_leo], st.CHECKPOINT] = value[~is_leo]
        pair = np.repeat(np.arange(len(self.slots)), self.slots**2)
        nth = np.arange(len(pair)) - state.now[pair, st.COMMON_BEGIN]
        width, begin = self.slots[pair], self.slot_begin[pair]
        leo = state.slot[:, st.LEO]
        state.common[:] = np.minimum(leo[begin + nth // width], leo[begin + nth % width])
