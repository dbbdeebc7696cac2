"""What analyses and planners take, from settings: requests, limits, assumptions on clients, and prices."""

from typing import Any

from pipelines.config.setting_sections import Settings
from udfs.durability.kernels.loss_probability import SearchEffort
from udfs.network.traffic_rows import CrossZonePrices, NetworkAssumptions
from udfs.planning.plan_metrics import MetricOptions
from udfs.planning.plan_request import COPYSETS, BrokerSet, PlanRequest, Targets
from udfs.planning.waves import WaveLimits

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


def build_request(settings: Settings, goal: str, copysets: bool = False, **fields: Any) -> PlanRequest:
    """Build the request for a goal. fields: of PlanRequest that settings lack, or that override settings."""
    plans = settings.plans
    last = (COPYSETS,) if copysets and COPYSETS not in plans.priorities else ()
    from_settings: dict[str, Any] = {
        "max_disk_ratio": settings.capacity.max_disk_ratio,
        "broker_replicas": plans.broker_replicas or None,
        "broker_bytes": plans.broker_bytes or None,
        "priorities": (*plans.priorities, *last),
        "targets": Targets(**{name: getattr(plans, f"target_{name}") for name in Targets.__dataclass_fields__}),
        "seed": settings.run.seed,
        "network": build_assumptions(settings),
        "broker_sets": tuple(BrokerSet(**one.model_dump()) for one in plans.broker_sets),
        "soft_broker_sets": plans.broker_set_rule == "soft",
        "rack_separator": plans.rack_separator,
        "soft_racks": plans.rack_rule == "soft",
    }
    return PlanRequest(goal, **{**from_settings, **fields})


def build_wave_limits(settings: Settings) -> WaveLimits:
    """Build the limits of a wave; 0 in settings means no limit."""
    plans, unlimited = settings.plans, WaveLimits()
    return WaveLimits(
        plans.wave_bytes_per_broker or unlimited.bytes_in_flight,
        plans.wave_moves_per_broker or unlimited.moves_per_broker,
        plans.throttle_bytes_per_s,
    )


def build_metric_options(settings: Settings) -> MetricOptions:
    """Build the options of a plan's metrics: as much work as the failure and durability stages may take."""
    durability = settings.durability
    effort = SearchEffort(durability.max_exact_steps, durability.monte_carlo_samples, settings.run.seed)
    network, prices = build_assumptions(settings), build_prices(settings)
    return MetricOptions(settings.failures.max_pairs, effort, network, prices)
