"""Pack event logs into the flat arrays that the kernels read: any number of clusters in one call, no loop over rows.

A *place* is a broker of a cluster, by id; a *row* is a partition of a cluster; a *slot* is a broker that a partition
ever has a replica on. Places and rows count through all clusters, slots from 0 in each partition.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from udfs.arrow.ragged import expand_ranges, offsets_of, position_of
from udfs.simulation.event_columns import CLUSTER_KINDS, UNKNOWN, EventColumns, ListColumn, fill_rows, read_ints
from udfs.simulation.kernels.broker_timeline import ClusterEvent
from udfs.simulation.kernels.codes import NONE, EventKind, PartitionState, ReplicaState
from udfs.simulation.kernels.metadata_records import UNCHANGED_LEADER, RecordList
from udfs.simulation.kernels.simulation_arrays import (
    LONG_AGO,
    NEVER,
    SETTINGS,
    BrokerFlag,
    ClusterSetup,
    Ints,
    Partition,
    PartitionEvent,
    PartitionEvents,
    PartitionHealth,
    ReassignmentFlag,
    Replica,
    RequestList,
    RequestStatus,
    SimulationState,
)

_KINDS_WITH_LIST = (EventKind.CREATE_PARTITION, EventKind.REASSIGN_PARTITION, EventKind.ALTER_ISR)
_JOINT_KINDS = (EventKind.TOPIC_DELETION_STARTED, EventKind.TOPIC_DELETION_COMPLETED, EventKind.CREATION_BLOCKED)
_DATA_KINDS = (EventKind.APPEND, EventKind.FETCH, EventKind.REPLICA_OFFSETS)
_FIRST_OFFSET = 3  # position of the first log end offset in `numbers` of an initial partition
# Positions in `numbers` of an initial cluster, after its settings, start, end and number of events.
N_CONTROLLER, N_EPOCH, NUMBERS = range(SETTINGS + 3, SETTINGS + 6)
# Columns of partition events that are columns of the table, and what null means.
_EVENT_COLUMNS = (
    (PartitionEvent.ACKS, "acks", 1),
    (PartitionEvent.MESSAGES, "messages", 0),
    (PartitionEvent.WAIT_MS, "wait_ms", 0),
    (PartitionEvent.MIN_BYTES, "min_bytes", 1),
    (PartitionEvent.OFFSET, "fetch_offset", UNKNOWN),
    (PartitionEvent.PARTS, "parts", 1),
    (PartitionEvent.LEADER_EPOCH, "leader_epoch", UNKNOWN),
)


@dataclass(frozen=True)
class PackedLog:
    """An event log as arrays. Shapes: c clusters, n brokers (places), p partitions (rows), e events."""

    clusters: tuple[tuple[str, str], ...]  # (cluster_id, snapshot_id) of each cluster
    brokers: Ints  # int64 (n), broker ids
    broker_cluster: Ints  # int64 (n), the cluster of each broker
    topics: pa.Array  # Topic of each partition
    partitions: Ints  # int64 (p), partition numbers
    numbers: Ints  # int64 (c, NUMBERS), settings and times of each cluster, its initial controller and epoch
    flags: Ints  # int64 (n), LIVE or 0 initially
    cluster_events: Ints  # int64 (e, ClusterEvent), events of brokers and controllers, by cluster and order
    cluster_events_begin: Ints  # int64 (c + 1), where the events of each cluster begin
    state: SimulationState  # Partitions and replicas, initially
    own: PartitionEvents  # Events of partitions
    request: Ints  # int64 (e), the request number of each of these events, or -1
    checks: Ints  # int64 (k, 4), automatic rebalances: cluster, time, event, place of the preferred broker


def pack_event_log(table: pa.Table) -> PackedLog:
    """Pack a table of schema EVENTS or WIRE, whose rows may be in any order; those of brokers may be repeated."""
    # Raises ValueError unless each cluster has one row "cluster at first".
    return _Packer(EventColumns(table.combine_chunks())).pack()


class _Packer:
    def __init__(self, columns: EventColumns) -> None:
        self._columns = columns
        self._kind, self._cluster = columns.kind, columns.cluster
        self._number_partitions()
        self._number_brokers()
        self._number_slots()

    def pack(self) -> PackedLog:
        columns, clusters = self._columns, np.arange(len(self._columns.clusters) + 1)
        numbers = self._pack_numbers()
        own, request = self._pack_own_events()
        cluster_events, cluster = self._pack_cluster_events()
        return PackedLog(
            columns.clusters,
            self._brokers,
            self._broker_cluster,
            columns.topics.take(pa.array(self._row_topic)),
            self._partitions,
            numbers,
            self._flags,
            cluster_events,
            np.searchsorted(cluster, clusters).astype(np.int64),
            self._pack_state(numbers, own.events),
            own,
            request,
            self._pack_checks(),
        )

    # ---- numbers for partitions, brokers and slots

    def _number_partitions(self) -> None:
        """Number the partitions of all clusters; row -1 for events of none."""
        columns, topics = self._columns, max(len(self._columns.topics), 1)
        key = ((self._cluster * topics + columns.topic) << 32) + read_ints(columns.table["partition"], UNKNOWN)
        has_topic = columns.topic >= 0
        unique, row = np.unique(key[has_topic], return_inverse=True)
        self._row = np.full(len(key), UNKNOWN)
        self._row[has_topic] = row
        self._partitions = unique & 0xFFFFFFFF
        self._row_cluster, self._row_topic = np.divmod(unique >> 32, topics)

    def _number_brokers(self) -> None:
        columns = self._columns
        listed = [(self._cluster[ids.row], ids.values) for ids in columns.lists]
        # A quorum's leader may be no broker.
        for ids, is_named in (
            (columns.broker, self._kind != EventKind.CONTROLLER_CHANGE),
            (columns.leader, columns.leader >= 0),
        ):
            chosen = is_named & (ids >= 0)
            listed.append((self._cluster[chosen], ids[chosen]))
        self._place_key = np.unique(np.concatenate([(cluster << 32) + broker for cluster, broker in listed]))
        self._brokers, self._broker_cluster = self._place_key & 0xFFFFFFFF, self._place_key >> 32
        self._flags = np.zeros(len(self._place_key), np.int64)
        initial = self._kind == EventKind.INITIAL_BROKER
        self._flags[self._find_places(self._cluster[initial], columns.broker[initial])] = columns.value[initial]

    def _find_places(self, cluster: Ints, broker: Ints) -> Ints:
        """Find the places of brokers; -1 for unknown ones."""
        if not len(self._place_key):
            return np.full(len(broker), UNKNOWN)
        key = (cluster << 32) + broker
        place = np.minimum(np.searchsorted(self._place_key, key), len(self._place_key) - 1)
        return np.where((broker >= 0) & (self._place_key[place] == key), place, UNKNOWN)

    def _number_slots(self) -> None:
        columns = self._columns
        pairs = [(ids.row, ids.values) for ids in columns.lists]
        for ids in (columns.broker, columns.leader):
            chosen = np.flatnonzero((self._row >= 0) & (ids >= 0))
            pairs.append((chosen, ids[chosen]))
        events, brokers = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        self._slot_key = np.unique(self._row[events] * self._places + self._find_places(self._cluster[events], brokers))
        row, self._member = np.divmod(self._slot_key, self._places)
        self._slots = np.bincount(row, minlength=len(self._partitions)).astype(np.int64)
        self._slot_begin = offsets_of(self._slots)

    @property
    def _places(self) -> int:
        return max(len(self._place_key), 1)

    def _find_slots(self, event: Ints, broker: Ints) -> Ints:
        """Find the slots of brokers in the partitions of these events (rows of the table); -1 for no broker."""
        if not len(self._slot_key):
            return np.full(len(broker), UNKNOWN)
        row, place = self._row[event], self._find_places(self._cluster[event], broker)
        slot = np.minimum(np.searchsorted(self._slot_key, row * self._places + place), len(self._slot_key) - 1)
        return np.where(place >= 0, slot - self._slot_begin[np.maximum(row, 0)], UNKNOWN)

    # ---- events

    def _pack_own_events(self) -> tuple[PartitionEvents, Ints]:
        """Return (the events of partitions, by row and order; their request numbers)."""
        columns, table = self._columns, self._columns.table
        chosen = np.flatnonzero((self._row >= 0) & (self._kind != EventKind.INITIAL_PARTITION))
        is_joint = np.isin(self._kind[chosen], _JOINT_KINDS)
        chosen = chosen[np.lexsort((is_joint, columns.event[chosen], self._row[chosen]))]
        lists, place = self._pack_lists()
        kind, row = self._kind[chosen], self._row[chosen]
        values = {
            PartitionEvent.NUMBER: columns.event[chosen],
            PartitionEvent.TIME: columns.at[chosen],
            PartitionEvent.KIND: kind,
            PartitionEvent.SLOT: self._find_slots(chosen, columns.broker[chosen]),
            PartitionEvent.LIST: place[chosen],
            PartitionEvent.VALUE: columns.value[chosen],
        }
        values |= {column: read_ints(table[name], missing)[chosen] for column, name, missing in _EVENT_COLUMNS}
        events = fill_rows(len(chosen), PartitionEvent, values)
        has_offsets = kind == EventKind.REPLICA_OFFSETS
        events[has_offsets, PartitionEvent.OFFSET] = read_ints(table["log_end_offset"], UNKNOWN)[chosen[has_offsets]]
        events[has_offsets, PartitionEvent.LIST] = read_ints(table["high_watermark"], UNKNOWN)[chosen[has_offsets]]
        requests = np.zeros((len(chosen), len(RequestStatus)), np.int64)
        requests[:, [RequestStatus.ANSWERED_BY, RequestStatus.ANSWERED_AT, RequestStatus.BASE_OFFSET]] = UNKNOWN
        requests[:, [RequestStatus.HIGH_WATERMARK, RequestStatus.LOST_AT]] = UNKNOWN
        self._own_begin = np.searchsorted(row, np.arange(len(self._partitions) + 1)).astype(np.int64)
        own = PartitionEvents(events, lists, requests, np.zeros((len(RequestList), len(row)), np.int64))
        return own, read_ints(table["request"], UNKNOWN)[chosen]

    def _pack_lists(self) -> tuple[Ints, Ints]:
        """Return (lists of slots, each after its length; where those of each row of the table begin)."""
        # A record has its leader, its epoch and six lists.
        columns = self._columns
        is_record = self._kind == EventKind.PARTITION_RECORD
        has_one = np.isin(self._kind, _KINDS_WITH_LIST) & (columns.lists[0].size >= 0)
        has_lists = [is_record | has_one, *([is_record] * (len(columns.lists) - 1))]
        sizes = [has * (1 + np.maximum(ids.size, 0)) for has, ids in zip(has_lists, columns.lists, strict=True)]
        size = np.sum(sizes, axis=0) + 2 * is_record
        place = (np.cumsum(size) - size).astype(np.int64)
        out = np.zeros(int(size.sum()), np.int64)
        record = np.flatnonzero(is_record)
        leader = columns.leader[record]
        out[place[record]] = np.where(leader == UNCHANGED_LEADER, UNCHANGED_LEADER, self._find_slots(record, leader))
        out[place[record] + 1] = read_ints(columns.table["leader_epoch"], UNKNOWN)[record]
        begin = place + 2 * is_record
        for ids, part in zip(columns.lists, sizes, strict=True):
            has_list = part > 0
            out[begin[has_list]] = ids.size[has_list]
            chosen = has_list[ids.row]
            row = ids.row[chosen]
            out[begin[row] + 1 + ids.position[chosen]] = self._find_slots(row, ids.values[chosen])
            begin = begin + part
        return out, place

    def _pack_cluster_events(self) -> tuple[Ints, Ints]:
        """Return (events of brokers and controllers, by cluster and order; their clusters)."""
        columns = self._columns
        chosen = np.flatnonzero(np.isin(self._kind, CLUSTER_KINDS))
        chosen = chosen[np.lexsort((columns.event[chosen], self._cluster[chosen]))]
        cluster, broker = self._cluster[chosen], columns.broker[chosen]
        values = {
            ClusterEvent.NUMBER: columns.event[chosen],
            ClusterEvent.TIME: columns.at[chosen],
            ClusterEvent.KIND: self._kind[chosen],
            ClusterEvent.BROKER: self._find_places(cluster, broker),
            ClusterEvent.BROKER_ID: broker,
            ClusterEvent.VALUE: columns.value[chosen],
        }
        return fill_rows(len(chosen), ClusterEvent, values), cluster

    def _pack_checks(self) -> Ints:
        columns = self._columns
        chosen = np.flatnonzero(self._kind == EventKind.LEADERS_REBALANCED)
        chosen = chosen[np.lexsort((columns.broker[chosen], columns.event[chosen], self._cluster[chosen]))]
        cluster = self._cluster[chosen]
        place = self._find_places(cluster, columns.broker[chosen])
        return np.stack([cluster, columns.at[chosen], columns.event[chosen], place], axis=1)

    # ---- initial state

    def _pack_numbers(self) -> Ints:
        clusters, lists = len(self._columns.clusters), self._columns.numbers
        initial = self._cluster[self._kind == EventKind.INITIAL_CLUSTER]
        if len(initial) != clusters or len(np.unique(initial)) != clusters:
            raise ValueError("each cluster of an event log needs exactly one row 'cluster at first'")
        numbers = np.zeros((clusters, NUMBERS), np.int64)
        chosen = self._kind[lists.row] == EventKind.INITIAL_CLUSTER
        numbers[self._cluster[lists.row[chosen]], lists.position[chosen]] = lists.values[chosen]
        numbers[:, N_CONTROLLER] = self._find_places(np.arange(clusters), numbers[:, N_CONTROLLER])
        return numbers

    def _pack_state(self, numbers: Ints, own_events: Ints) -> SimulationState:
        p, s = len(self._partitions), len(self._member)
        now, slot = np.zeros((p, len(Partition)), np.int64), np.zeros((s, len(Replica)), np.int64)
        squares = offsets_of(self._slots**2)
        now[:, Partition.REPLICA_BEGIN], now[:, Partition.SLOTS] = self._slot_begin[:-1], self._slots
        now[:, Partition.PREFIX_BEGIN], now[:, Partition.CLUSTER] = squares[:-1], self._row_cluster
        now[:, [Partition.LEADER, Partition.LAST_KNOWN_LEADER, Partition.PREVIOUS_LEADER]] = NONE
        now[:, Partition.MIN_ISR], now[:, Partition.NEXT_DEADLINE] = 1, NEVER
        now[:, [Partition.LAST_EVENT, Partition.NEXT_STEP]] = UNKNOWN
        now[:, Partition.TIME] = numbers[self._row_cluster, ClusterSetup.START_TIME]
        now[:, Partition.NEXT_EVENT] = now[:, Partition.EVENT_BEGIN] = self._own_begin[:-1]
        now[:, Partition.EVENT_END] = self._own_begin[1:]
        data = np.flatnonzero(np.isin(own_events[:, PartitionEvent.KIND], _DATA_KINDS))
        now[np.searchsorted(now[:, Partition.EVENT_END], data, side="right"), Partition.HAS_DATA] = 1
        slot[:, Replica.BROKER] = self._member
        slot[:, [Replica.WAITING_FETCH, Replica.REMOTE_LEO]] = -1
        slot[:, [Replica.LAST_CAUGHT_UP_AT, Replica.LAST_FETCH_AT, Replica.HW_CHANGED_AT]] = LONG_AGO
        slot[:, Replica.LAST_FETCH_LEADER_LEO] = NEVER
        health = np.full((p, len(PartitionHealth)), UNKNOWN)
        state = SimulationState(now, slot, np.zeros(int(squares[-1]), np.int64), health)
        self._set_initial_partitions(state)
        return state

    def _set_initial_partitions(self, state: SimulationState) -> None:
        columns, now, slot = self._columns, state.partitions, state.replicas
        initial = np.flatnonzero(self._kind == EventKind.INITIAL_PARTITION)
        row = self._row[initial]
        for which, ids in zip((Replica.AR, Replica.ISR, Replica.ELR), columns.lists[:3], strict=True):
            now[row, which] = np.maximum(ids.size[initial], 0)
            event, order, slots = self._find_initial_slots(ids)
            begin = self._slot_begin[self._row[event]]
            slot[begin + order, which] = slots
            if which == Replica.AR:
                at = begin + slots
                is_live = self._flags[self._member[at]] & BrokerFlag.LIVE != 0
                slot[at, Replica.REMOTE_LEO] = 0
                slot[at, Replica.LAST_CAUGHT_UP_AT] = now[self._row[event], Partition.TIME]
                slot[at, Replica.STATE] = np.where(is_live, ReplicaState.ONLINE, ReplicaState.OFFLINE)
        self._set_initial_reassignments(state)
        last = columns.lists[RecordList.LAST_KNOWN_ELR]
        event = last.row[last.size[last.row] == 1]  # Kafka elects no other, see metadata_records.py
        chosen = np.isin(event, initial)
        ids = last.values[last.size[last.row] == 1]
        now[self._row[event[chosen]], Partition.LAST_KNOWN_LEADER] = self._find_slots(event[chosen], ids[chosen])
        leader = self._find_slots(initial, columns.leader[initial])
        now[row, Partition.LEADER] = now[row, Partition.PREVIOUS_LEADER] = leader
        now[row, Partition.LEADER_EPOCH] = read_ints(columns.table["leader_epoch"], 0)[initial]
        now[row, Partition.STATE] = np.where(leader >= 0, PartitionState.ONLINE, PartitionState.OFFLINE)
        numbers = columns.numbers
        is_partition = self._kind[numbers.row] == EventKind.INITIAL_PARTITION
        self._set_initial_offsets(state, numbers, is_partition & (numbers.position >= _FIRST_OFFSET))
        for position, column in enumerate((Partition.UNCLEAN_ELECTION, Partition.MIN_ISR, Partition.CONTROLLER_EPOCH)):
            chosen = is_partition & (numbers.position == position)
            now[self._row[numbers.row[chosen]], column] = numbers.values[chosen]
        led, leaderless = row[leader >= 0], row[leader < 0]
        now[led, Partition.COMMITTED_OFFSET] = slot[self._slot_begin[led] + now[led, Partition.LEADER], Replica.HW]
        # Without a leader: the highest watermark that any replica knows.
        at = expand_ranges(self._slot_begin[leaderless], self._slots[leaderless])
        row = np.repeat(leaderless, self._slots[leaderless])
        np.maximum.at(now[:, Partition.COMMITTED_OFFSET], row, slot[at, Replica.HW])

    def _set_initial_reassignments(self, state: SimulationState) -> None:
        """Flag the replicas that running reassignments add or remove; the target has the others, in their order."""
        now, replicas, lists = state.partitions, state.replicas, self._columns.lists
        event, _, slot = self._find_initial_slots(lists[RecordList.REPLICAS])
        row = self._row[event]
        begin = self._slot_begin[row]
        flags = np.zeros(len(replicas), np.int64)
        for which, flag in zip((RecordList.ADDING, RecordList.REMOVING), ReassignmentFlag, strict=True):
            flagged, _, flagged_slot = self._find_initial_slots(lists[which])
            flags[self._slot_begin[self._row[flagged]] + flagged_slot] |= flag
        flags = flags[begin + slot]  # of replicas: a source may show former ones
        replicas[begin + slot, Replica.REASSIGNMENT] = flags
        is_reassigned = np.bincount(row[flags != 0], minlength=len(now)) > 0
        stays = is_reassigned[row] & (flags & ReassignmentFlag.REMOVED == 0)
        now[:, Partition.TARGET_SIZE] = np.bincount(row[stays], minlength=len(now))
        position = position_of(offsets_of(np.bincount(event[stays])))
        replicas[begin[stays] + position, Replica.TARGET] = slot[stays]

    def _find_initial_slots(self, ids: ListColumn) -> tuple[Ints, Ints, Ints]:
        """Return the rows of the table, positions and slots of the ids that initial partitions list."""
        chosen = self._kind[ids.row] == EventKind.INITIAL_PARTITION
        return ids.row[chosen], ids.position[chosen], self._find_slots(ids.row[chosen], ids.values[chosen])

    def _set_initial_offsets(self, state: SimulationState, numbers: ListColumn, chosen: np.ndarray) -> None:
        """Set log ends and high watermarks; two logs share what the shorter one has."""
        if not chosen.any():
            return
        event, value, replicas = numbers.row[chosen], numbers.values[chosen], self._columns.lists[0]
        position, size = numbers.position[chosen] - _FIRST_OFFSET, replicas.size[event]
        ids = replicas.values[np.searchsorted(replicas.row, event) + position % size]
        row = self._row[event]
        at = self._slot_begin[row] + self._find_slots(event, ids)
        is_leo = position < size
        state.partitions[row, Partition.HAS_DATA] = state.partitions[row, Partition.DATA_STARTED] = 1
        state.replicas[at[is_leo], Replica.LEO] = state.replicas[at[is_leo], Replica.REMOTE_LEO] = value[is_leo]
        state.replicas[at[~is_leo], Replica.HW] = state.replicas[at[~is_leo], Replica.CHECKPOINTED_HW] = value[~is_leo]
        pair = np.repeat(np.arange(len(self._slots)), self._slots**2)
        nth = np.arange(len(pair)) - state.partitions[pair, Partition.PREFIX_BEGIN]
        width, begin, leo = self._slots[pair], self._slot_begin[pair], state.replicas[:, Replica.LEO]
        state.common_prefixes[:] = np.minimum(leo[begin + nth // width], leo[begin + nth % width])
