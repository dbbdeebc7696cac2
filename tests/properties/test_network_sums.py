"""Network traffic of random clusters, against plain Python: elect each partition, and follow each of its bytes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.test_failure_sums import Partition, clusters, elect, partition_group
from tests.seed_sampler import count_cases
from udfs.failures.kernels.election import PartitionGroup
from udfs.failures.scenarios import Cluster, RandomSets, build_scenarios
from udfs.network.kernels.network_sums import CONSUMERS, PRODUCERS_IN, REPLICATION, NetworkSums
from udfs.network.traffic_rows import (
    NetworkAssumptions,
    aggregate_network,
    locate_clients,
    name_zones,
    read_network,
    sum_producers,
)

_ZONES = ("a", "b", "c")


def carry(
    rows: list[Partition],
    n: int,
    racks: tuple[str | None, ...],
    failed: tuple[int, ...],
    fetching: tuple[bool, ...],
    shares: dict[str | None, float],
) -> tuple[Counter[Any], Counter[Any]]:
    """Return bytes by (broker, direction), and by (kind, from zone, to zone), after brokers failed."""
    brokers: Counter[Any] = Counter()
    zones: Counter[Any] = Counter()
    for row in rows:
        leader, _, _ = elect(row, n, failed)
        if leader < 0:
            continue
        live = [b for b in row["replicas"] if b < n and b not in failed]
        # Where no in-sync replica is left, the new leader starts alone.
        isr = [b for b in live if b in row["isr"]]
        followers = [b for b in isr if b != leader] if leader in isr or leader == row["leader"] else []
        brokers[leader, "producers in"] += row["in"]
        for follower in followers:
            brokers[leader, "replication out"] += row["in"]
            brokers[follower, "replication in"] += row["in"]
            zones["replication", racks[leader], racks[follower]] += row["in"]
        for zone, share in shares.items():
            same = [b for b in [leader, *followers] if zone is not None and racks[b] == zone]
            servers = [leader] if not fetching[leader] or not same or leader in same else same
            for server in servers:
                brokers[server, "consumers out"] += row["out"] * share / len(servers)
                zones["consumers", racks[server], zone] += row["out"] * share / len(servers)
    return brokers, zones


@st.composite
def placed_clusters(draw: st.DrawFn) -> tuple[Any, ...]:
    n, rows = draw(clusters())
    racks = tuple(draw(st.lists(st.sampled_from([*_ZONES, None]), min_size=n, max_size=n)))
    fetching = tuple(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    used = sorted({rack for rack in racks if rack})
    consumers = draw(st.dictionaries(st.sampled_from(used), st.integers(1, 5), max_size=3)) if used else {}
    if consumers and draw(st.booleans()):
        consumers["elsewhere"] = 2  # a zone without brokers
    custom = tuple(sorted(draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=3))))
    return n, rows, racks, fetching, consumers, custom


def as_counters(traffic: NetworkSums, state: int, zones: list[str | None]) -> tuple[Counter[Any], Counter[Any]]:
    """Return a state of the kernel's sums as `carry` does."""
    names = ("producers in", "replication in", "replication out", "consumers out")
    brokers = Counter({(b, names[k]): value for (b, k), value in np.ndenumerate(traffic.brokers[state]) if value})
    kinds = {REPLICATION: "replication", CONSUMERS: "consumers"}
    between = Counter(
        {(kinds[k], zones[a], zones[b]): value for (k, a, b), value in np.ndenumerate(traffic.zones[state]) if value}
    )
    return brokers, between


@settings(max_examples=count_cases(150), deadline=None)
@given(placed_clusters())
def test_traffic_is_that_of_each_partition(case: tuple[Any, ...]) -> None:
    n, rows, racks, fetching, consumers, custom = case
    cluster = Cluster(tuple(range(n)), racks, (custom,), follower_fetching=fetching)
    scenarios = build_scenarios("c", cluster, RandomSets((2,), 3, 0))
    assumptions = NetworkAssumptions(consumer_zones=consumers)
    group: PartitionGroup = partition_group(n, rows)
    traffic = read_network(aggregate_network(group, locate_clients(cluster, assumptions), scenarios))
    zones: list[str | None] = [*name_zones(racks, assumptions), None]
    weights = consumers or dict.fromkeys([rack for rack in racks if rack], 1) or {None: 1}
    shares = {zone: weight / sum(weights.values()) for zone, weight in weights.items()}
    sets = [(), *((b,) for b in range(n))]
    sets += [tuple(b for b in range(n) if racks[b] == rack) for rack in sorted({rack for rack in racks if rack})]
    sets.append(custom)
    assert len(traffic.brokers) == len(traffic.zones) == len(sets)
    for state, failed in enumerate(sets):
        expected = carry(rows, n, racks, failed, fetching, shares)
        for found, wanted in zip(as_counters(traffic, state, zones), expected, strict=True):
            assert found == pytest.approx({key: value for key, value in wanted.items() if value})


@settings(max_examples=count_cases(50), deadline=None)
@given(placed_clusters())
def test_zones_carry_what_brokers_carry(case: tuple[Any, ...]) -> None:
    n, rows, racks, fetching, consumers, custom = case
    cluster = Cluster(tuple(range(n)), racks, (custom,), follower_fetching=fetching)
    clients = locate_clients(cluster, NetworkAssumptions(consumer_zones=consumers))
    scenarios = build_scenarios("c", cluster, RandomSets())
    traffic = read_network(aggregate_network(partition_group(n, rows), clients, scenarios))
    into, fetched, sent, consumed = np.moveaxis(traffic.brokers.sum(axis=1), 1, 0)
    np.testing.assert_allclose(fetched, sent, atol=1e-9)
    by_kind = traffic.zones.sum(axis=(2, 3))
    np.testing.assert_allclose(by_kind[:, REPLICATION], sent, atol=1e-9)
    np.testing.assert_allclose(by_kind[:, CONSUMERS], consumed, atol=1e-9)
    producers = sum_producers(traffic.brokers, clients.zone, clients.consumers)
    np.testing.assert_allclose(producers.sum(axis=(1, 2)), into, atol=1e-9)
    leaders = traffic.brokers[:, :, PRODUCERS_IN]
    for zone in range(len(clients.consumers)):
        np.testing.assert_allclose(producers[:, :, zone].sum(axis=1), leaders[:, clients.zone == zone].sum(axis=1))
