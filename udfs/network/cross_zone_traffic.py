"""Bytes that cross zones in one state of a cluster, and what they cost: for the metrics of plans."""

from dataclasses import dataclass

import numpy as np

from udfs.failures.kernels.election import PartitionGroup
from udfs.failures.scenarios import Cluster
from udfs.network.client_zones import NetworkAssumptions, list_zones, locate_clients, name_zones, share_clients
from udfs.network.kernels.network_sums import CONSUMERS, REPLICATION
from udfs.network.traffic_rows import CrossZonePrices, sum_producers
from udfs.network.traffic_sums import aggregate_network, read_network


@dataclass(frozen=True)
class CrossZoneTraffic:
    """Bytes per second that cross zones, by kind, and their cost; None = racks, rates or prices are not known."""

    replication_bytes_per_s: float | None = None
    producers_bytes_per_s: float | None = None
    consumers_bytes_per_s: float | None = None
    cost_per_month: float | None = None


def measure_cross_zone_traffic(
    group: PartitionGroup,
    cluster: Cluster,
    knows_rates: tuple[bool, bool],
    assumptions: NetworkAssumptions,
    prices: CrossZonePrices,
) -> CrossZoneTraffic:
    """Measure what crosses zones as the cluster is. knows_rates: whether any rate in, any rate out is known."""
    racks = list_zones(cluster.racks, assumptions)
    zones = name_zones(racks, assumptions)
    if not zones or None in cluster.racks:
        return CrossZoneTraffic()
    clients = locate_clients(cluster, assumptions)
    traffic = read_network(aggregate_network(group, clients, None))
    shares = share_clients(racks, zones, assumptions.producer_zones)
    producers = sum_producers(traffic.brokers, clients.zone, shares)[0]
    crosses = ~np.eye(len(shares), dtype=np.bool_)
    replication, consumers = (float(traffic.zones[0, kind][crosses].sum()) for kind in (REPLICATION, CONSUMERS))
    knows_in, knows_out = knows_rates
    rates = (
        round(replication, 3) if knows_in else None,
        round(float(producers[crosses].sum()), 3) if knows_in else None,
        round(consumers, 3) if knows_out else None,
    )
    known = [rate for rate in rates if rate is not None]
    cost = sum(known) * prices.month_per_byte_per_s
    return CrossZoneTraffic(*rates, round(cost, 2) if len(known) == len(rates) and not np.isnan(cost) else None)
