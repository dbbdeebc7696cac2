"""Assumptions on clients, and prices of traffic between zones, from settings."""

from pipelines.config.settings import Settings
from udfs.network.client_zones import NetworkAssumptions
from udfs.network.traffic_rows import CrossZonePrices

_FOLLOWER_FETCHING = {"auto": None, "on": True, "off": False}


def build_assumptions(settings: Settings) -> NetworkAssumptions:
    """Build what is assumed of clients."""
    network = settings.network
    fetching, separator = _FOLLOWER_FETCHING[network.follower_fetching], settings.plans.rack_separator
    return NetworkAssumptions(fetching, network.consumer_zones, network.producer_zones, separator)


def build_prices(settings: Settings) -> CrossZonePrices:
    """Build the prices of bytes that cross zones."""
    prices = settings.prices
    return CrossZonePrices(prices.cross_zone_sent_per_gb, prices.cross_zone_received_per_gb, prices.days_per_month)
