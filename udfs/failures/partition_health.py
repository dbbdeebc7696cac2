"""The health of each partition now, and who leads it if the broker or the rack of its leader fails."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from udfs.arrow.columns import FLAG, INT, INTS, column, to_list_array, to_lists, to_numpy
from udfs.arrow.ragged import RaggedLists, any_true, count_true, is_in_segment, offsets_of, row_of
from udfs.failures.failed_log_dirs import find_failed_dir_replicas
from udfs.failures.kernels.election import NO_BROKER, UNKNOWN, Bools, Ids, Ints, PartitionGroup
from udfs.failures.partition_arrays import elect_after, find_electable

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
