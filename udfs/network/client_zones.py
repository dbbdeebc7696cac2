"""Where the clients of a cluster are: the shares of consumers and of producers in each zone (rack)."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.failures.scenarios import Cluster
from udfs.network.kernels.network_sums import ClientZones

Racks = tuple[str | None, ...]


class NetworkAssumptions(NamedTuple):
    """What is assumed of clients."""

    follower_fetching: bool | None = None  # whether consumers fetch from followers in their zone; None = see brokers
    consumer_zones: Mapping[str, float] = {}  # zone -> share, each > 0, in any unit; empty = even over the zones
    producer_zones: Mapping[str, float] = {}  # the same of producers
    rack_separator: str = ""  # between zone and rack in the names of racks; empty = racks are zones


NO_ASSUMPTIONS = NetworkAssumptions()


def list_zones(racks: Racks, assumptions: NetworkAssumptions) -> Racks:
    """Return the zone of each broker, by its rack."""
    separator = assumptions.rack_separator
    if not separator:
        return racks
    return tuple(None if rack is None else rack.partition(separator)[0] for rack in racks)


def _select_shares(racks: Racks, shares: Mapping[str, float]) -> Mapping[str, float]:
    """Return the shares if they are of a cluster with these racks, else none."""
    return shares if any(rack in shares for rack in racks) else {}


def name_zones(racks: Racks, assumptions: NetworkAssumptions) -> tuple[str, ...]:
    """Name the zones of a cluster, sorted: racks of its live brokers, and zones that only clients are in.

    There are none if no rack is known.
    """
    clients = (_select_shares(racks, shares) for shares in (assumptions.consumer_zones, assumptions.producer_zones))
    return tuple(sorted({rack for rack in racks if rack is not None}.union(*clients)))


def number_racks_by_zone(racks: Racks, zones: tuple[str, ...]) -> npt.NDArray[np.int32]:
    """Return the zone of each broker: int32 (n), len(zones) = unknown."""
    number: dict[str | None, int] = {zone: i for i, zone in enumerate(zones)}
    return np.array([number.get(rack, len(zones)) for rack in racks], dtype=np.int32)


def share_clients(racks: Racks, zones: tuple[str, ...], shares: Mapping[str, float]) -> npt.NDArray[np.float64]:
    """Return the share of the clients in each zone: float64 (z + 1), the last one in an unknown zone.

    Without shares, clients are even over the zones that have live brokers; without zones, theirs is unknown.
    """
    if not zones:
        return np.ones(1)
    used = _select_shares(racks, shares) or dict.fromkeys((rack for rack in racks if rack is not None), 1.0)
    weights = np.array([*(used.get(zone, 0.0) for zone in zones), 0.0])
    return np.asarray(weights / weights.sum())


def locate_clients(cluster: Cluster, assumptions: NetworkAssumptions) -> ClientZones:
    """Return the zones of a cluster's brokers and consumers, as the kernel takes them."""
    racks = list_zones(cluster.racks, assumptions)
    zones = name_zones(racks, assumptions)
    fetching = np.zeros(len(cluster.ids), dtype=np.bool_)
    if assumptions.follower_fetching is not None:
        fetching[:] = assumptions.follower_fetching
    elif cluster.follower_fetching:
        fetching[:] = [value is True for value in cluster.follower_fetching]
    consumers = share_clients(racks, zones, assumptions.consumer_zones)
    return ClientZones(number_racks_by_zone(racks, zones), consumers, fetching)
