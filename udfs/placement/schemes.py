"""The placement schemes by name. A new scheme is one entry here; the stages take them as they come.

The names are needed by every command, the compiled kernels by few: these are imported when first called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.placement.kernels.topic_arrays import BrokerLists, Ints, Placed, Topics

OBSERVED = "observed"
MANUAL = "manual"
NAIVE = "naive"
KAFKA = "kafka"
KAFKA_RACK_UNAWARE = "kafka_rack_unaware"
KRAFT = "kraft"

# (topics, broker lists, states of the generators, which are advanced) -> replicas
Place = Callable[["Topics", "BrokerLists", "Ints"], "Placed"]


@dataclass(frozen=True)
class Scheme:
    """A way to place replicas.

    place: see above; None where the replicas are given, not computed.   draws: whether it depends on a seed.
    """

    name: str
    title: str
    place: Place | None = None
    draws: bool = False


def _kafka(topics: Topics, lists: BrokerLists, states: Ints) -> Placed:
    from udfs.placement.kernels import admin_utils

    return admin_utils.kafka(topics, lists, states)


def _kafka_rack_unaware(topics: Topics, lists: BrokerLists, states: Ints) -> Placed:
    from udfs.placement.kernels import admin_utils

    return admin_utils.kafka(topics, lists, states, use_racks=False)


def _kraft(topics: Topics, lists: BrokerLists, states: Ints) -> Placed:
    from udfs.placement.kernels import striped

    return striped.striped(topics, lists, states)


def _naive(topics: Topics, lists: BrokerLists, states: Ints) -> Placed:
    from udfs.placement.kernels import admin_utils

    return admin_utils.naive(topics, lists)


SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme(OBSERVED, "as the cluster is now"),
        Scheme(KAFKA, "Kafka's round robin plus shift, over racks in turn if brokers have any", _kafka, True),
        Scheme(KAFKA_RACK_UNAWARE, "Kafka's round robin plus shift, whatever the racks", _kafka_rack_unaware, True),
        Scheme(KRAFT, "KRaft's striped placement, anew for each topic", _kraft, True),
        Scheme(NAIVE, "replica j of partition i on broker (i + j) mod n", _naive),
        Scheme(MANUAL, "as written by hand: id:id,id:id"),
    )
}


def computed(name: str) -> bool:
    """Whether the scheme places topics by itself."""
    return SCHEMES[name].place is not None
