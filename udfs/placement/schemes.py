"""The placement schemes by name. To add a scheme, add an entry to SCHEMES; all stages and commands use them from there.

Every command needs the names, few need the compiled kernels: these are imported at the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.placement.kernels.topic_arrays import BrokerLists, Ints, TopicPlacements, Topics

OBSERVED = "observed"
MANUAL = "manual"
NAIVE = "naive"
KAFKA = "kafka"
KAFKA_RACK_UNAWARE = "kafka_rack_unaware"
KRAFT = "kraft"

# (topics, broker lists, generator states, which the call advances) -> placements
PlaceFunction = Callable[["Topics", "BrokerLists", "Ints"], "TopicPlacements"]


@dataclass(frozen=True)
class Scheme:
    """A way to place replicas."""

    name: str  # Name in settings, options and tables
    title: str  # Description for people
    place: PlaceFunction | None = None  # Function that places topics; None if the replicas are input
    is_random: bool = False  # Whether the placement depends on a seed


def _import_on_call(module: str, function: str, **options: bool) -> PlaceFunction:
    def place(topics: Topics, lists: BrokerLists, states: Ints) -> TopicPlacements:
        kernel: Callable[..., TopicPlacements] = getattr(import_module(f"udfs.placement.kernels.{module}"), function)
        return kernel(topics, lists, states, **options)

    return place


SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme(OBSERVED, "current replicas of the cluster"),
        Scheme(
            KAFKA,
            "Kafka's round robin with a shift, rack-aware if brokers have racks",
            _import_on_call("admin_utils", "place_kafka"),
            is_random=True,
        ),
        Scheme(
            KAFKA_RACK_UNAWARE,
            "Kafka's round robin with a shift, ignoring racks",
            _import_on_call("admin_utils", "place_kafka", use_racks=False),
            is_random=True,
        ),
        Scheme(
            KRAFT,
            "KRaft's striped placement, new draws for each topic",
            _import_on_call("striped", "place_striped"),
            is_random=True,
        ),
        Scheme(
            NAIVE, "replica j of partition i on broker (i + j) mod n", _import_on_call("admin_utils", "place_naive")
        ),
        Scheme(MANUAL, "written by hand: id:id,id:id"),
    )
}


def is_computed(name: str) -> bool:
    """Return whether the scheme computes placements, rather than taking replicas as input."""
    return SCHEMES[name].place is not None


def find_usable(name: str, cordoned: Sequence[bool | None]) -> list[int]:
    """Return the indices of the brokers that a scheme places over: KRaft's own one leaves out cordoned ones."""
    return [i for i, is_cordoned in enumerate(cordoned) if not (is_cordoned and name == KRAFT)]


def find_place_function(name: str) -> PlaceFunction:
    """Return the function that places topics by a scheme. Raises: ValueError if it does not compute placements."""
    place = SCHEMES[name].place
    if place is None:
        raise ValueError(f"scheme {name} does not compute placements")
    return place
