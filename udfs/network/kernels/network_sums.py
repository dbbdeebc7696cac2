"""Bytes per second that brokers send and receive, now and after failures, in one pass over the partitions.

A failure changes only the partitions that one of its brokers leads or follows: for these, what they carried is
subtracted, and what they carry after the election is added.
"""

from typing import NamedTuple

import numpy as np

from udfs.failures.kernels.election import (
    FROM_ELR,
    MAX_REPLICAS,
    NO_BROKER,
    UNCLEAN,
    Bools,
    Floats,
    Ids,
    Ints,
    PartitionGroup,
    fail_replicas,
    lowest_bit,
    read_replicas,
)
from udfs.kernel_compiler import compiled, part

# Columns of a broker's traffic: what producers send to it, what it fetches from leaders, what it sends to followers and
# to consumers.
PRODUCERS_IN, REPLICATION_IN, REPLICATION_OUT, CONSUMERS_OUT, DIRECTIONS = range(5)
# Kinds of traffic between zones. What producers send follows from PRODUCERS_IN and the zones of producers.
REPLICATION, CONSUMERS, PATHS = range(3)


class ClientZones(NamedTuple):
    """Zones 0 to z - 1 of a cluster with n live brokers, and zone z, which stands for an unknown one."""

    zone: Ids  # int32 (n), zone of each broker
    consumers: Floats  # float64 (z + 1), share of the consumers in each zone; their sum is 1
    fetches_nearby: Bools  # (n), whether consumers of what a broker leads may fetch from followers in their own zone


class NetworkSums(NamedTuple):
    """What `sum_network` adds up: the cluster as it is (0), and how each set of failed brokers (1 to f) changes it."""

    brokers: Floats  # float64 (1 + f, n, DIRECTIONS), bytes per second of each broker
    zones: Floats  # float64 (1 + f, PATHS, z + 1, z + 1), from zone, to zone; (1, ...) = not after failures


@part
def add_traffic(
    group: PartitionGroup,
    i: int,
    leader: int,
    followers: int,
    sign: float,
    to: int,
    clients: ClientZones,
    out: NetworkSums,
) -> None:
    """Add what partition i carries to state `to`. leader: a position; followers: mask of in-sync ones; sign: 1, -1."""
    offsets, broker, rate, zone = group.offsets, group.broker, group.rate, clients.zone
    consumers, brokers, zones = clients.consumers, out.brokers, out.zones
    begin = offsets[i]
    b = broker[begin + leader]
    rate_in, rate_out = sign * rate[i, 0], sign * rate[i, 1]
    has_zones = to < len(zones)
    home, unknown = zone[b], len(consumers) - 1
    brokers[to, b, PRODUCERS_IN] += rate_in
    left = followers
    while left:
        f = broker[begin + lowest_bit(left)]
        left &= left - 1
        brokers[to, b, REPLICATION_OUT] += rate_in
        brokers[to, f, REPLICATION_IN] += rate_in
        if has_zones:
            zones[to, REPLICATION, home, zone[f]] += rate_in
    for c in range(len(consumers)):
        rate_of_zone = rate_out * consumers[c]
        if rate_of_zone == 0.0:
            continue
        nearby = 0
        if clients.fetches_nearby[b] and c != home and c != unknown:
            left = followers
            while left:
                nearby += zone[broker[begin + lowest_bit(left)]] == c
                left &= left - 1
        if nearby == 0:
            brokers[to, b, CONSUMERS_OUT] += rate_of_zone
            if has_zones:
                zones[to, CONSUMERS, home, c] += rate_of_zone
            continue
        left = followers
        while left:
            f = broker[begin + lowest_bit(left)]
            left &= left - 1
            if zone[f] == c:
                brokers[to, f, CONSUMERS_OUT] += rate_of_zone / nearby
        if has_zones:
            zones[to, CONSUMERS, c, c] += rate_of_zone


@compiled
def sum_network(
    group: PartitionGroup, clients: ClientZones, set_offsets: Ints, failure_sets: Ints, stops: Bools, out: NetworkSums
) -> None:
    """Add up the traffic of a group of partitions.

    set_offsets: int64 (n + 1), the sets (0 to f - 1) in which each broker fails, in `failure_sets`.
    stops: bool (f), sets whose failure leaves no controller to elect leaders.
    """
    positions = np.empty(MAX_REPLICAS, dtype=np.int32)
    sets = len(out.brokers) - 1
    failed = np.zeros(sets, dtype=np.int64)
    concerned = np.empty(sets, dtype=np.int64)
    for i in range(len(group.leader)):
        replicas, live_count = read_replicas(group, i, positions)
        if replicas.leader == NO_BROKER:  # a failure brings no leader back
            continue
        begin = group.offsets[i]
        followers = replicas.live & replicas.isr & ~(1 << replicas.leader)
        add_traffic(group, i, replicas.leader, followers, 1.0, 0, clients, out)
        count = 0
        for k in range(live_count):
            b = group.broker[begin + positions[k]]
            for at in range(set_offsets[b], set_offsets[b + 1]):
                s = failure_sets[at]
                if failed[s] == 0:
                    concerned[count] = s
                    count += 1
                failed[s] |= 1 << positions[k]
        for c in range(count):
            s = concerned[c]
            after = fail_replicas(replicas, failed[s], not stops[s])
            left = followers & ~failed[s]
            failed[s] = 0
            if after.leader == replicas.leader and left == followers:  # only replicas out of sync fail
                continue
            add_traffic(group, i, replicas.leader, followers, -1.0, s + 1, clients, out)
            if after.leader == NO_BROKER:
                continue
            if after.elected_from == FROM_ELR or after.elected_from == UNCLEAN:
                left = 0  # the new leader starts as the whole ISR
            add_traffic(group, i, after.leader, left & ~(1 << after.leader), 1.0, s + 1, clients, out)
