"""Partitions without a leader, and a cluster as it will be once brokers that are down or lag are back."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.live_brokers import get_down_brokers, get_live_brokers
from pipelines.ingest.snapshot_reader import Snapshot
from udfs.arrow.columns import replace_columns, to_array, to_flags, to_list_array, to_lists, to_numpy
from udfs.arrow.ragged import RaggedLists, any_true, count_true, is_in_segment, offsets_of, row_of
from udfs.failures.kernels.election import NO_BROKER, Bools
from udfs.failures.partition_health import (
    BrokerStart,
    KnownStops,
    LeaderRecovery,
    find_expected,
    find_recovery,
    order_starts,
)
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, TopicDefaults

_MAX_ROWS = 100


class OfflinePartitions(NamedTuple):
    """Partitions that no live broker leads, and how they come back."""

    partitions: pa.Table  # p rows of the snapshot
    recovery: LeaderRecovery
    starts: list[BrokerStart]  # the brokers that are needed, in the order to start them

    def find_on(self, ids: Sequence[int]) -> tuple[int, list[dict[str, Any]]]:
        """Return (how many have a replica on one of these brokers, the rows of the first of them)."""
        rows = np.flatnonzero(any_true(np.isin(self.recovery.broker, ids), self.recovery.offsets))
        return len(rows), self.partitions.select(["topic", "partition"]).take(rows[:_MAX_ROWS]).to_pylist()


def find_missing_brokers(snapshot: Snapshot, defaults: TopicDefaults) -> list[int]:
    """Find the brokers, by id, that are down or lag with replicas that should be in sync, of topics that count."""
    topics = snapshot.topics["topic"].filter(pa.array(defaults.find_counted(snapshot.topics)))
    partitions = snapshot.partitions.filter(pc.is_in(snapshot.partitions["topic"], topics.combine_chunks()))
    replicas, isr = (to_lists(partitions[name]) for name in ("replicas", "isr"))
    lags = ~is_in_segment(replicas.values, replicas.offsets, isr.values, isr.offsets)
    lags |= np.isin(replicas.values, get_down_brokers(snapshot.brokers))  # the last in sync stays in the ISR
    lags &= find_expected(partitions, replicas.values, replicas.offsets)
    brokers: list[int] = np.unique(replicas.values[lags]).tolist()
    return brokers


def find_offline(snapshot: Snapshot, defaults: TopicDefaults) -> OfflinePartitions:
    """Find the partitions without a live leader, of topics that count, and the brokers to start."""
    counted = snapshot.topics["topic"].filter(pa.array(defaults.find_counted(snapshot.topics)))
    is_offline = ~np.isin(to_numpy(snapshot.partitions["leader"], NO_BROKER), get_live_brokers(snapshot.brokers))
    is_offline &= to_flags(pc.is_in(snapshot.partitions["topic"], counted.combine_chunks()))
    is_offline &= to_lists(snapshot.partitions["replicas"]).valid
    recovery, stops = _find_recovery(snapshot, is_offline, defaults)
    starts = order_starts(recovery, get_down_brokers(snapshot.brokers).tolist(), stops)
    return OfflinePartitions(snapshot.partitions.filter(pa.array(is_offline)), recovery, starts)


def _find_recovery(
    snapshot: Snapshot, is_selected: Bools, defaults: TopicDefaults
) -> tuple[LeaderRecovery, KnownStops]:
    topics, partitions = snapshot.topics, snapshot.partitions.filter(pa.array(is_selected)).combine_chunks()
    at_topic = pc.index_in(to_array(partitions["topic"]), value_set=to_array(topics["topic"]))
    unclean = defaults.fill_unclean(topics["unclean_leader_election"]).take(at_topic)
    stops = KnownStops(get_live_brokers(snapshot.brokers), snapshot.stops.shut_down, snapshot.stops.order)
    return find_recovery(partitions, to_flags(unclean), stops), stops


def return_brokers(snapshot: Snapshot, ids: Sequence[int], defaults: TopicDefaults = KAFKA_DEFAULTS) -> Snapshot:
    """Return the snapshot with these brokers live, and their replicas in the ISR, but for observers and new ones.

    A partition without a leader stays as it is unless these brokers bring it online, see `LeaderRecovery`.
    """
    brokers, partitions = snapshot.brokers, snapshot.partitions
    restarted = np.intersect1d(ids, get_down_brokers(brokers))
    is_back = pc.is_in(brokers["broker_id"], pa.array(ids, pa.int32()))
    brokers = replace_columns(brokers, {"live": pc.or_kleene(is_back, brokers["live"])})
    replicas, isr = (to_lists(partitions[name]) for name in ("replicas", "isr"))
    broker, offsets = replicas.values, replicas.offsets
    leader = to_numpy(partitions["leader"], NO_BROKER).astype(np.int32)
    is_leaderless = leader == NO_BROKER
    recovery, stops = _find_recovery(snapshot, is_leaderless, defaults)
    _, leader[is_leaderless] = recovery.find_returned(ids, stops.live)
    leads = is_leaderless & (leader != NO_BROKER)
    returns = np.isin(broker, ids) & find_expected(partitions, broker, offsets)
    returns = (returns & (leader != NO_BROKER)[row_of(offsets)]) | (
        broker == np.where(leads, leader, -1)[row_of(offsets)]
    )
    is_affected = any_true(returns, offsets)
    in_sync = returns | is_in_segment(broker, offsets, isr.values, isr.offsets)
    new_isr = RaggedLists(broker[in_sync], offsets_of(count_true(in_sync, offsets)), replicas.valid)
    affected = pa.array(is_affected)
    nothing = {name: pa.nulls(len(leads), partitions.schema.field(name).type) for name in ("elr", "last_known_elr")}
    columns = {"isr": to_list_array(new_isr), **nothing}
    changes = {name: pc.if_else(affected, new, partitions[name]) for name, new in columns.items()}
    offline = to_lists(partitions["offline_replicas"])
    stays = ~np.isin(offline.values, restarted)  # also those that wait for another broker: their log dirs are well
    still_offline = RaggedLists(offline.values[stays], offsets_of(count_true(stays, offline.offsets)), offline.valid)
    changes["offline_replicas"] = to_list_array(still_offline)
    changes["leader"] = pc.if_else(pa.array(leads), pa.array(leader), partitions["leader"])
    return replace(snapshot, brokers=brokers, partitions=replace_columns(partitions, changes))
