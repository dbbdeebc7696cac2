"""Network traffic of small clusters, by hand: the example of docs/network.md, and what is unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipelines.config.plan_parameters import build_assumptions, build_prices
from pipelines.config.settings import load_settings
from pipelines.errors import SettingsError
from udfs.arrow.ragged import offsets_of
from udfs.failures.failure_outcomes import SchemeAggregates
from udfs.failures.kernels.election import PartitionGroup
from udfs.failures.scenarios import Cluster, RandomSets, build_scenarios
from udfs.network.traffic_rows import (
    MAX_ZONES,
    NO_ASSUMPTIONS,
    NO_PRICES,
    CrossZonePrices,
    NetworkAssumptions,
    aggregate_network,
    locate_clients,
    network_load_rows,
    zone_traffic_rows,
)

Rows = list[dict[str, Any]]
NEARBY = NetworkAssumptions(follower_fetching=True)


def aggregate(
    cluster: Cluster, lists: list[list[int]], rates: list[tuple[float, float]], assumptions: NetworkAssumptions
) -> SchemeAggregates:
    """Aggregate partitions on brokers (indices), all in sync and led by their first replicas."""
    broker, p = np.array([b for one in lists for b in one], dtype=np.int32), len(lists)
    offsets = offsets_of(np.array([len(one) for one in lists]))
    yes, no = np.ones(len(broker), dtype=np.bool_), np.zeros(len(broker), dtype=np.bool_)
    group = PartitionGroup(
        *(offsets, broker, yes, no, np.full(len(broker), -1), broker[offsets[:-1]], np.ones(p, dtype=np.int32)),
        *(np.zeros(p, dtype=np.bool_), np.full(p, -1), np.array(rates), np.ones(p, dtype=np.bool_)),
    )
    scenarios = build_scenarios("c", cluster, RandomSets())
    sums = aggregate_network(group, locate_clients(cluster, assumptions), scenarios)
    known = np.array([0, p, p], dtype=np.int64)
    return SchemeAggregates(np.array(cluster.ids, dtype=np.int32), scenarios, sums | {"known": known})


def zone_rows(
    cluster: Cluster,
    lists: list[list[int]],
    rates: list[tuple[float, float]],
    assumptions: NetworkAssumptions = NO_ASSUMPTIONS,
    prices: CrossZonePrices = NO_PRICES,
) -> Rows:
    aggregates = aggregate(cluster, lists, rates, assumptions)
    return zone_traffic_rows(aggregates, cluster.racks, assumptions, prices).to_pylist()


def between(rows: Rows, scenario: str, kind: str) -> dict[tuple[str, str], float]:
    return {
        (row["from_zone"], row["to_zone"]): row["bytes_per_s"]
        for row in rows
        if (row["scenario"], row["traffic_kind"]) == (scenario, kind)
    }


EXAMPLE = Cluster((1, 2, 3), ("a", "b", "c"))


@pytest.mark.parametrize("assumptions", [NO_ASSUMPTIONS, NEARBY])
def test_example_of_the_page(assumptions: NetworkAssumptions) -> None:
    """One partition on brokers 1 (leader) and 2, 6 MB/s in, 12 MB/s out; a third of the clients in each zone."""
    aggregates = aggregate(EXAMPLE, [[0, 1]], [(6e6, 12e6)], assumptions)
    loads = {
        (row["scenario"], row["broker_id"]): (row["network_bytes_in_per_s"], row["network_bytes_out_per_s"])
        for row in network_load_rows(aggregates, EXAMPLE.racks).to_pylist()
    }
    prices = CrossZonePrices(0.01, 0.01)
    rows = zone_traffic_rows(aggregates, EXAMPLE.racks, assumptions, prices).to_pylist()
    assert between(rows, "none", "replication") == {("a", "b"): 6e6}
    assert between(rows, "none", "producers") == {(zone, "a"): 2e6 for zone in "abc"}
    if assumptions is NEARBY:
        assert loads["none", 1] == (6e6, 14e6)  # to the follower and to consumers in a and c
        assert loads["none", 2] == (6e6, 4e6)
        assert between(rows, "none", "consumers") == {("a", "a"): 4e6, ("b", "b"): 4e6, ("a", "c"): 4e6}
    else:
        assert loads["none", 1] == (6e6, 18e6)
        assert loads["none", 2] == (6e6, 0)
        assert between(rows, "none", "consumers") == {("a", zone): 4e6 for zone in "abc"}
    assert loads["none", 3] == (0, 0)
    crossing = sum(row["bytes_per_s"] for row in rows if row["scenario"] == "none" and row["crosses_zones"])
    assert crossing == (14e6 if assumptions is NEARBY else 18e6)
    cost = sum(row["cost_per_month"] for row in rows if row["scenario"] == "none")
    assert cost == pytest.approx(725.76 if assumptions is NEARBY else 933.12)
    # Broker 1 fails: broker 2 leads, and nothing is replicated.
    assert loads["broker:1", 2] == (6e6, 12e6)
    assert between(rows, "broker:1", "replication") == {}
    assert between(rows, "rack:a", "consumers") == {("b", zone): 4e6 for zone in "abc"}


def test_without_racks_zones_are_unknown() -> None:
    cluster = Cluster((1, 2), (None, None))
    shares = NetworkAssumptions(follower_fetching=True, consumer_zones={"a": 1}, producer_zones={"a": 1})
    rows = zone_rows(cluster, [[0, 1]], [(5, 7)], shares, CrossZonePrices(1, 1))
    now = [row for row in rows if row["scenario"] == "none"]
    assert [(row["traffic_kind"], row["bytes_per_s"]) for row in now] == [
        ("replication", 5),
        ("producers", 5),
        ("consumers", 7),
    ]
    for row in now:
        assert {row[name] for name in ("from_zone", "to_zone", "crosses_zones", "cost_per_month")} == {None}


def test_a_broker_without_rack_is_in_an_unknown_zone() -> None:
    rows = zone_rows(Cluster((1, 2), ("a", None)), [[0, 1]], [(5, 7)], NEARBY, CrossZonePrices(1, 1))
    (replicated,) = [row for row in rows if row["scenario"] == "none" and row["traffic_kind"] == "replication"]
    assert (replicated["from_zone"], replicated["to_zone"]) == ("a", None)
    assert replicated["crosses_zones"] is replicated["cost_per_month"] is None


def test_unknown_rates_and_prices_are_null() -> None:
    aggregates = aggregate(EXAMPLE, [[0, 1]], [(6.0, 0.0)], NO_ASSUMPTIONS)
    aggregates.sums["known"][2] = 0
    rows = zone_traffic_rows(aggregates, EXAMPLE.racks, NO_ASSUMPTIONS, NO_PRICES).to_pylist()
    (consumers,) = [row for row in rows if row["scenario"] == "none" and row["traffic_kind"] == "consumers"]
    assert {consumers[name] for name in ("from_zone", "to_zone", "bytes_per_s", "crosses_zones")} == {None}
    assert {row["cost_per_month"] for row in rows} == {None}
    (load, *_) = network_load_rows(aggregates, EXAMPLE.racks).to_pylist()
    assert load["replication_bytes_out_per_s"] == 6
    assert load["consumer_bytes_out_per_s"] is load["network_bytes_out_per_s"] is None


def test_many_zones_have_no_traffic_after_failures() -> None:
    n = MAX_ZONES + 1
    cluster = Cluster(tuple(range(n)), tuple(f"r{i:02}" for i in range(n)))
    rows = zone_rows(cluster, [[i, (i + 1) % n] for i in range(n)], [(1, 1)] * n)
    assert {row["scenario"] for row in rows} == {"none"}
    assert sum(row["bytes_per_s"] for row in rows) == pytest.approx(3 * n)


def test_shares_of_clients_are_those_of_a_cluster_with_their_racks() -> None:
    lists, rates = [[0, 1], [1, 2], [2, 0]], [(1.0, 3.0)] * 3
    even = zone_rows(EXAMPLE, lists, rates)
    assert zone_rows(EXAMPLE, lists, rates, NetworkAssumptions(consumer_zones={"other": 1})) == even
    shares = NetworkAssumptions(consumer_zones={"a": 2, "remote": 1}, producer_zones={"b": 1})
    rows = zone_rows(EXAMPLE, lists, rates, shares)
    assert between(rows, "none", "producers") == {("b", zone): 1 for zone in "abc"}
    assert between(rows, "none", "consumers") == {
        (zone, to): n for zone in "abc" for to, n in (("a", 2), ("remote", 1))
    }


def test_settings_of_clients_and_prices() -> None:
    options = [
        "network.follower_fetching=on",
        'network.consumer_zones={"a": 2, "b": 1}',
        "prices.cross_zone_sent_per_gb=0.01",
    ]
    settings = load_settings(options, environ={})
    assert build_assumptions(settings) == NetworkAssumptions(True, {"a": 2, "b": 1}, {})
    assert build_prices(settings).month_per_byte_per_s == pytest.approx(0.01 * 30 * 86_400 / 1e9)
    defaults = load_settings([], environ={})
    assert build_assumptions(defaults) == NO_ASSUMPTIONS
    assert np.isnan(build_prices(defaults).month_per_byte_per_s)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("network.follower_fetching=maybe", "write one of 'auto', 'on' or 'off'"),
        ('network.consumer_zones={"a": 0}', "write more than 0"),
        ("network.consumer_zones=a", "write a table of keys and values"),
        ("prices.days_per_month=0", "write more than 0"),
    ],
)
def test_wrong_settings_are_explained(option: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_settings([option], environ={})
