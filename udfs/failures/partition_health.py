"""The health of each partition now, and who leads it if the broker or the rack of its leader fails."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from udfs.arrow.columns import FLAG, INT, INTS, column, to_list_array, to_lists, to_numpy
from udfs.arrow.ragged import RaggedLists, any_true, count_true, first_true, is_in_segment, offsets_of, row_of
from udfs.failures.kernels.election import NO_BROKER, UNKNOWN, Bools, Ids, Ints, PartitionGroup
from udfs.failures.partition_arrays import elect_after, find_electable
from udfs.failures.replica_logs import find_failed_dir_replicas


class RecoveredFrom(IntEnum):
    """What the next leader of a partition is elected from.

    UNKNOWN = an empty ISR and no ELR is shown; NONE = only an unclean election by hand helps.
    """

    ISR = 0
    ELR = 1
    LAST_KNOWN_LEADER = 2
    UNKNOWN = 3
    UNCLEAN = 4
    NONE = 5

    @property
    def label(self) -> str:
        """The published name, in answers."""
        return self.name.lower().replace("_", " ")


class KnownStops(NamedTuple):
    """What is known of brokers."""

    live: Ids  # live brokers; those of unknown state too
    shut_down: Sequence[int] = ()  # brokers that were shut down cleanly: the others count as crashed
    order: Sequence[int] = ()  # in which brokers stopped, as far as it is known


class LeaderRecovery(NamedTuple):
    """How p partitions without a leader come back, by their r replicas."""

    broker: Ids  # int32 (r), broker ids in assignment order
    offsets: Ints  # int64 (p + 1), the replicas of each partition
    eligible: Bools  # (r), may lead without loss of messages, as far as the cluster knows
    alone: Bools  # (r), brings its partition online once it starts, however its broker stopped
    together: Bools  # (r), all of these bring it online once they have started, though each may have crashed
    unclean: Bools  # (p), whether the topic allows unclean elections
    last: Ids  # int32 (p), last known leader; NO_BROKER = none, or several
    recovered_from: Ids  # int32 (p), code of RecoveredFrom
    stopped_last: Ids  # int32 (p), broker that has most messages; NO_BROKER = unknown

    def find_returned(self, ids: Sequence[int] | Ids, live: Ids) -> tuple[Bools, Ids]:
        """Find which partitions (p) have an eligible leader once brokers start, and all leaders (int32, p) then.

        Others have a leader only if an unclean election is allowed; live: the brokers that are live anyway.
        """
        starts = np.isin(self.broker, ids)
        first = first_true(self.alone & starts, self.offsets)
        waits = self.together & ~starts & ~np.isin(self.broker, live)
        all_back = any_true(self.together & starts, self.offsets) & ~any_true(waits, self.offsets)
        is_clean = (first >= 0) | all_back
        first = np.where(~is_clean & self.unclean, first_true(starts, self.offsets), first)
        leader = np.where(
            first >= 0, np.append(self.broker, NO_BROKER)[first], np.where(all_back, self.last, NO_BROKER)
        )
        return is_clean, leader.astype(np.int32)

    def needs_only(self, is_failed: Bools) -> Bools:
        """Find which partitions (p) have eligible replicas, and all of them among these (r), as in failed log dirs."""
        result: Bools = any_true(self.eligible & is_failed, self.offsets)
        return result & ~any_true(self.eligible & ~is_failed, self.offsets)


def find_recovery(partitions: pa.Table, unclean: Bools, stops: KnownStops) -> LeaderRecovery:
    """Find how partitions without a leader come back.

    partitions: p, columns replicas, isr, elr, last_known_elr; unclean (p): whether unclean elections are allowed.
    """
    broker, offsets, _ = to_lists(partitions["replicas"])
    isr, elr, known = (to_lists(partitions[name]) for name in ("isr", "elr", "last_known_elr"))
    row = row_of(offsets)
    in_isr, in_elr = (is_in_segment(broker, offsets, *lists[:2]) for lists in (isr, elr))
    last = np.full(len(offsets) - 1, NO_BROKER, dtype=np.int32)
    last[known.lengths == 1] = known.values[known.offsets[:-1][known.lengths == 1]]
    is_last = broker == last[row]
    has_last, has_isr = any_true(is_last, offsets), any_true(in_isr, offsets)
    has_elr = ~has_isr & any_true(in_elr, offsets)
    is_alone = ~has_isr & ~has_elr & has_last
    in_elr &= has_elr[row]
    steps = [has_isr, has_elr, is_alone, ~elr.valid, unclean]
    return LeaderRecovery(
        broker,
        offsets,
        eligible=in_isr | in_elr | (is_last & is_alone[row]),
        alone=in_isr | (in_elr & np.isin(broker, stops.shut_down)) | (is_last & is_alone[row]),
        together=(in_elr | is_last) & (has_elr & has_last)[row],
        unclean=unclean,
        last=last,
        recovered_from=np.select(steps, np.arange(len(steps)), RecoveredFrom.NONE).astype(np.int32),
        stopped_last=_find_stopped_last(broker, offsets, stops.order),
    )


def find_last_in_sync(partitions: pa.Table, is_usable: Bools) -> Bools | None:
    """Find the replicas in the ISR (bool, r), and where that is empty, those on down brokers that may lead.

    partitions: column isr, and elr and last_known_elr, if they are known. is_usable (r): not down, nor in a failed log
    dir. None = no source shows an ISR.
    """
    if "isr" not in partitions.column_names:
        return None
    broker, offsets, _ = to_lists(partitions["replicas"])
    in_isr = is_in_segment(broker, offsets, *to_lists(partitions["isr"])[:2])
    if "last_known_elr" not in partitions.column_names:
        return in_isr
    unclean = np.zeros(len(offsets) - 1, dtype=np.bool_)
    eligible = find_recovery(partitions, unclean, KnownStops(np.zeros(0, dtype=np.int32))).eligible
    return in_isr | (eligible & ~is_usable)


def _find_stopped_last(broker: Ids, offsets: Ints, order: Sequence[int]) -> Ids:
    """Find the broker of each partition that stopped last; NO_BROKER where no source shows when one of them did."""
    ids, row = np.array(order, dtype=np.int32), row_of(offsets)
    by_id = np.argsort(ids)
    place = np.full(len(broker), -1, dtype=np.int64)
    is_known = np.isin(broker, ids)
    place[is_known] = by_id[np.searchsorted(ids, broker[is_known], sorter=by_id)]
    last = np.full(len(offsets) - 1, -1, dtype=np.int64)
    np.maximum.at(last, row, place)
    return np.where(any_true(~is_known, offsets), NO_BROKER, np.append(ids, NO_BROKER)[last]).astype(np.int32)


@dataclass(frozen=True)
class BrokerStart:
    """A broker to start, and how many more partitions come online then, after those before it."""

    broker: int
    partitions: int


def order_starts(recovery: LeaderRecovery, down: Sequence[int], stops: KnownStops) -> list[BrokerStart]:
    """Order the brokers that are needed: next comes the one that brings most partitions online.

    Of equal ones, the one that stopped last comes first: it has most messages. Unclean elections come last of all.
    """
    started: list[BrokerStart] = []
    online = np.zeros(len(recovery.last), dtype=np.bool_)
    row, is_unclean = row_of(recovery.offsets), recovery.recovered_from == RecoveredFrom.UNCLEAN
    # An eligible broker may have crashed, but where unclean elections are allowed, it leads all the same.
    is_uncertain = recovery.unclean & ~is_unclean & ~any_true(recovery.alone | recovery.together, recovery.offsets)
    stopped = {broker: place for place, broker in enumerate(stops.order)}
    is_down = np.isin(recovery.broker, down)
    for phase in (~is_unclean, is_unclean):
        while True:
            ids = [start.broker for start in started]
            waits = is_down & (phase & ~online)[row] & ~np.isin(recovery.broker, ids)
            missing = waits & recovery.together
            size = count_true(missing, recovery.offsets)[row]
            helps = waits & (recovery.alone | is_unclean[row] | (recovery.eligible & is_uncertain[row]))
            # A broker that is not enough counts in part, so that those that help together come one after another.
            weight = np.where(helps, 1.0, missing / np.maximum(size, 1))
            candidates, index = np.unique(recovery.broker, return_inverse=True)
            sums = np.bincount(index, weight, minlength=len(candidates))
            whole = np.bincount(index, weight == 1, minlength=len(candidates))
            if not (sums > 0).any():
                break
            last = np.array([stopped.get(broker, -1) for broker in candidates.tolist()])
            broker = int(candidates[np.lexsort((-candidates, last, sums.round(6), whole))[-1]])
            is_clean, leader = recovery.find_returned([*ids, broker], stops.live)
            now = np.where(is_unclean | is_uncertain, leader != NO_BROKER, is_clean)
            started.append(BrokerStart(broker, int((now & ~online).sum())))
            online = now
    return started


# Columns of silver.partitions. All are null where the replicas are unknown.
HEALTH_COLUMNS: tuple[pa.Field, ...] = (
    column("online", FLAG, "a live broker leads it"),
    column(
        "under_replicated",
        FLAG,
        "a replica is out of sync, and is not the only one; observers and replicas that are being added do not count",
    ),
    column(
        "under_min_isr",
        FLAG,
        "it is online, but has fewer live in-sync replicas than min.insync.replicas: producers with acks=all fail",
    ),
    column(
        "successor",
        INT,
        "broker that takes over if the leader fails; -1 = none, the partition goes offline; null = it is not online. "
        "Topics without the config follow topics.unclean_leader_election",
    ),
    column(
        "rack_successor",
        INT,
        "broker that takes over if all brokers in the leader's rack fail; -1 = none, the partition goes offline; null "
        "= it is not online, or the leader's rack is unknown",
    ),
    column(
        "effective_min_isr",
        INT,
        "live in-sync replicas that acks=all needs: min.insync.replicas, or topics.min_insync_replicas where no source "
        "shows it; from Kafka 3.7 on at most the number of replicas",
    ),
    column(
        "min_isr_critical_brokers",
        INTS,
        "brokers whose failure leaves it online, but takes it below effective_min_isr; empty also if it is below now",
    ),
    column(
        "failed_dir_replicas",
        INTS,
        "replicas in failed log dirs of live brokers: they cannot catch up until the disk is replaced",
    ),
)


class LiveBrokerRacks(NamedTuple):
    """The live brokers of a cluster, by rising id."""

    ids: Ids  # int32 (n)
    rack: Ids  # int32 (n), number of the rack; UNKNOWN = not known
    unknown: Ids  # int32, those of ids that nothing shows to be live, so that none is elected from an ELR

    @property
    def known(self) -> Ids:
        """Those that a source shows to be live: int32."""
        return np.setdiff1d(self.ids, self.unknown)


class TopicRules(NamedTuple):
    """What the topic of each of p partitions allows."""

    min_isr: Ids  # int32 (p), effective min.insync.replicas
    unclean: Bools  # (p), unclean.leader.election.enable


def number_racks(racks: list[str | None]) -> Ids:
    """Return a number for each rack (int32), the same for the same name; UNKNOWN for None."""
    names = {name: i for i, name in enumerate(dict.fromkeys(rack for rack in racks if rack is not None))}
    return np.array([UNKNOWN if rack is None else names[rack] for rack in racks], dtype=np.int32)


def find_health(partitions: pa.Table, brokers: LiveBrokerRacks, rules: TopicRules) -> dict[str, pa.Array]:
    """Return HEALTH_COLUMNS of p partitions.

    partitions: columns replicas, isr, elr, leader, observers, adding_replicas, offline_replicas.
    """
    broker, offsets, is_placed = to_lists(partitions["replicas"])
    in_isr, in_elr = find_electable(partitions, broker, offsets, brokers.unknown)
    leader = to_numpy(partitions["leader"], NO_BROKER).astype(np.int32)
    failed = find_failed_dir_replicas(partitions, brokers.known)
    is_live, row = np.isin(broker, brokers.ids) & ~failed, row_of(offsets)
    leads = is_live & (broker == leader[row])
    online = any_true(leads, offsets)
    in_sync = np.bincount(row[is_live & in_isr], minlength=len(leader))
    is_expected = find_expected(partitions, broker, offsets)
    # Kafka's replication factor is without the replicas that are being added, but its ISR is with them.
    is_counted = is_expected | is_in_segment(broker, offsets, *to_lists(partitions["adding_replicas"])[:2])

    rack = np.full(len(broker), UNKNOWN, dtype=np.int32)
    rack[is_live] = brokers.rack[np.searchsorted(brokers.ids, broker[is_live])]
    leader_rack = np.full(len(leader), UNKNOWN, dtype=np.int32)
    leader_rack[row[leads]] = rack[leads]

    replicas = (offsets, np.where(is_live, broker, NO_BROKER).astype(np.int32), in_isr, in_elr)
    group = _make_group(replicas, leader, rules)
    successor, _ = elect_after(group, leads)
    rack_successor, _ = elect_after(group, (rack == leader_rack[row]) & (rack != UNKNOWN))
    # Whoever takes over from the only in-sync replica is the whole ISR then, which has as many replicas as before.
    at_minimum = online & (in_sync == rules.min_isr)
    critical = is_live & in_isr & at_minimum[row] & ~(leads & (in_sync == 1)[row])
    critical_offsets, failed_offsets = (offsets_of(count_true(mask, offsets)) for mask in (critical, failed))
    return {
        "online": pa.array(online, mask=~is_placed),
        "under_replicated": pa.array(
            is_under_replicated(count_true(is_counted & in_isr & is_live, offsets), count_true(is_expected, offsets)),
            mask=~is_placed,
        ),
        "under_min_isr": pa.array(online & (in_sync < rules.min_isr), mask=~is_placed),
        "successor": pa.array(successor, mask=~online),
        "rack_successor": pa.array(rack_successor, mask=~online | (leader_rack == UNKNOWN)),
        "effective_min_isr": pa.array(rules.min_isr, mask=~is_placed),
        "min_isr_critical_brokers": to_list_array(RaggedLists(broker[critical], critical_offsets, is_placed)),
        "failed_dir_replicas": to_list_array(RaggedLists(broker[failed], failed_offsets, is_placed)),
    }


def is_under_replicated(in_sync: Ints, replicas: Ints) -> Bools:
    """Return whether partitions lack in-sync replicas (p), as in UnderReplicatedPartitions.

    in_sync: the size of the ISR (p). replicas: without those that are being added, which the ISR may contain (p).
    """
    # An only replica that is down leaves the ISR if its cluster keeps an ELR, and stays otherwise. Either way its
    # partition is offline, which is counted as such: no leader is left that reports it in UnderReplicatedPartitions.
    return (in_sync < replicas) & (replicas > 1)


def find_elected_leaders(partitions: pa.Table, live: Ids) -> Ids:
    """Find the leaders that an election of the preferred ones would give p online partitions: ids, int32 (p).

    NO_BROKER where it changes nothing: the first replica leads already, or is not live and in sync.

    partitions: columns replicas, isr and leader. live: ids of the live brokers, and of those of unknown state.
    """
    replicas, isr = to_lists(partitions["replicas"]), to_lists(partitions["isr"])
    leader = to_numpy(partitions["leader"], NO_BROKER)
    first = np.full(len(leader), NO_BROKER, dtype=np.int32)
    placed = replicas.lengths > 0
    first[placed] = replicas.values[replicas.offsets[:-1][placed]]
    changes = any_true(isr.values == first[row_of(isr.offsets)], isr.offsets) & (leader != first)
    return np.where(changes & np.isin(first, live) & np.isin(leader, live), first, NO_BROKER)


def find_expected(partitions: pa.Table, broker: Ids, offsets: Ints) -> Bools:
    """Find the replicas (bool, r) that should be in sync: not observers, and none that are being added.

    partitions: columns observers, adding_replicas; broker, offsets: their replicas, int32 (r) and int64 (p + 1).
    """
    is_expected = np.ones(len(broker), dtype=np.bool_)
    for name in ("observers", "adding_replicas"):
        is_expected &= ~is_in_segment(broker, offsets, *to_lists(partitions[name])[:2])
    return is_expected


def _make_group(replicas: tuple[Ints, Ids, Bools, Bools], leader: Ids, rules: TopicRules) -> PartitionGroup:
    # Elections compare brokers only with each other: ids do as indices.
    count, no_lag = len(leader), np.full(len(replicas[1]), UNKNOWN, dtype=np.int64)
    loads = (np.full(count, UNKNOWN, dtype=np.int64), np.zeros((count, 2)), np.ones(count, dtype=np.bool_))
    return PartitionGroup(*replicas, no_lag, leader, rules.min_isr, rules.unclean, *loads)
