"""gold.network_load and gold.zone_traffic: columns, and rows out of what one pass over the partitions sums up."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.columns import DOUBLE, FLAG, INT, TEXT, column, schema_of
from udfs.arrow.ragged import offsets_of, row_of
from udfs.failures.failure_outcomes import SchemeAggregates
from udfs.failures.kernels.election import PartitionGroup
from udfs.failures.kernels.failure_totals import BYTES_IN, BYTES_OUT
from udfs.failures.partition_arrays import truncate_replicas
from udfs.failures.scenarios import Cluster, ScenarioKind, Scenarios
from udfs.network.kernels.network_sums import (
    CONSUMERS,
    CONSUMERS_OUT,
    DIRECTIONS,
    PATHS,
    PRODUCERS_IN,
    REPLICATION,
    REPLICATION_IN,
    REPLICATION_OUT,
    ClientZones,
    NetworkSums,
    sum_network,
)

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


_ROUNDING = 1e-9  # of a cluster's traffic: what differences of sums may leave of 0
MAX_ZONES = 16  # of a cluster whose traffic between zones is also computed after failures


def select_failures(scenarios: Scenarios) -> npt.NDArray[np.int64]:
    """Return which scenarios have rows of network traffic: racks and custom failures, not random ones."""
    return np.flatnonzero(scenarios.kind != ScenarioKind.RANDOM)


def _list_sets(
    brokers: int, scenarios: Scenarios | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return (offsets (n + 1), sets in which each broker fails, stops (f)): each broker alone, then scenarios."""
    if scenarios is None:
        return np.zeros(brokers + 1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
    selected = select_failures(scenarios)
    number = np.full(len(scenarios.kind), -1, dtype=np.int64)
    number[selected] = brokers + np.arange(len(selected))
    sets = number[row_of(scenarios.offsets)]
    broker = np.concatenate([np.arange(brokers), scenarios.member[sets >= 0]])
    order = np.argsort(broker, kind="stable")
    sets = np.concatenate([np.arange(brokers), sets[sets >= 0]])[order]
    stops = np.append(scenarios.pair_stops.diagonal(), scenarios.stops[selected])
    return offsets_of(np.bincount(broker, minlength=brokers)), sets, stops


def aggregate_network(
    group: PartitionGroup, clients: ClientZones, scenarios: Scenarios | None
) -> dict[str, npt.NDArray[Any]]:
    """Add up the fields of NetworkSums (prefix network_): now, after each failure of a broker, and after scenarios.

    scenarios: None = only now.
    """
    brokers, zones = len(clients.zone), len(clients.consumers)
    offsets, sets, stops = _list_sets(brokers, scenarios)
    count = len(stops)
    shapes = (1 + count, brokers, DIRECTIONS), (1 + count if zones <= MAX_ZONES + 1 else 1, PATHS, zones, zones)
    sums = NetworkSums(*(np.zeros(shape) for shape in shapes))
    sum_network(truncate_replicas(group), clients, offsets, sets, stops, sums)
    return {f"network_{name}": values for name, values in sums._asdict().items()}


def read_network(sums: Mapping[str, npt.NDArray[Any]]) -> NetworkSums:
    """Return what `aggregate_network` has summed, with the states after failures instead of changes."""
    traffic = NetworkSums(*(sums[f"network_{name}"].copy() for name in NetworkSums._fields))
    for values in traffic:
        values[1:] += values[0]
        values[np.abs(values) < _ROUNDING * values.sum(axis=tuple(range(1, values.ndim)), keepdims=True)] = 0
    return traffic


Floats = npt.NDArray[np.float64]

NOW = "none"  # scenario and scenario_kind of the cluster without a failure
SCENARIO_KINDS = (NOW, ScenarioKind.BROKER, ScenarioKind.RACK, ScenarioKind.CUSTOM)
_SCENARIO = (
    column("scenario_kind", TEXT, "none (before any failure), broker, rack, or custom (see failures.custom)", True),
    column("scenario", TEXT, "what fails: none, broker:2, rack:east or custom:1,2,5", required=True),
)
_UNKNOWN = "partitions of unknown rate count as 0; null = no rate is known"


def _rate(name: str, text: str) -> pa.Field:
    return column(f"{name}_per_s", DOUBLE, f"bytes per second {text}; {_UNKNOWN}")


NETWORK_LOAD_COLUMNS = (
    *_SCENARIO,
    column("broker_id", INT, "a live broker, or a survivor of the failure", required=True),
    column("rack", TEXT, "its rack"),
    _rate("producer_bytes_in", "that producers send to what it leads"),
    _rate("replication_bytes_in", "that it fetches from the leaders of what it follows in sync"),
    _rate("replication_bytes_out", "that it sends to in-sync followers of what it leads"),
    _rate("consumer_bytes_out", "that it sends to consumers, of what it leads or follows"),
    _rate("network_bytes_in", "that it receives: of producers and replication"),
    _rate("network_bytes_out", "that it sends: replication and consumers"),
)
REPLICATION_KIND, PRODUCERS_KIND, CONSUMERS_KIND = TRAFFIC_KINDS = ("replication", "producers", "consumers")
ZONE_TRAFFIC_COLUMNS = (
    *_SCENARIO,
    column("traffic_kind", TEXT, ", ".join(TRAFFIC_KINDS), required=True),
    column("from_zone", TEXT, "zone (rack) that sends; null = unknown"),
    column("to_zone", TEXT, "zone (rack) that receives; null = unknown"),
    _rate("bytes", "from zone to zone"),
    column("crosses_zones", FLAG, "the two zones differ; null = one of them is unknown"),
    column(
        "cost_per_month",
        DOUBLE,
        "price of crossing zones, in prices.currency; 0 within a zone; null = [prices] has no price, or zones or bytes "
        "are unknown",
    ),
)
_NETWORK_LOAD, _ZONE_TRAFFIC = schema_of(NETWORK_LOAD_COLUMNS), schema_of(ZONE_TRAFFIC_COLUMNS)
_SECONDS_PER_DAY = 86_400
_BYTES_PER_GB = 1e9


class CrossZonePrices(NamedTuple):
    """Prices of bytes that cross zones, in any currency; 0 for both = unknown."""

    sent_per_gb: float = 0.0  # in the zone that sends
    received_per_gb: float = 0.0  # in the zone that receives
    days_per_month: float = 30.0

    @property
    def month_per_byte_per_s(self) -> float:
        """The cost of one byte per second for a month; NaN = unknown."""
        price = self.sent_per_gb + self.received_per_gb
        return price * self.days_per_month * _SECONDS_PER_DAY / _BYTES_PER_GB if price else float("nan")


NO_PRICES = CrossZonePrices()


def _list_scenarios(aggregates: SchemeAggregates) -> Iterator[tuple[str, str, npt.NDArray[np.bool_]]]:
    """Yield kind, name and survivors (bool, n) of every state in the order of NetworkSums."""
    n, scenarios = len(aggregates.ids), aggregates.scenarios
    yield NOW, NOW, np.ones(n, dtype=np.bool_)
    for i, id_ in enumerate(aggregates.ids.tolist()):
        yield str(ScenarioKind.BROKER), f"{ScenarioKind.BROKER}:{id_}", np.arange(n) != i
    members = scenarios.members(n)
    for s in select_failures(scenarios).tolist():
        yield str(scenarios.kind[s]), str(scenarios.name[s]), ~members[s]


def network_load_rows(aggregates: SchemeAggregates, racks: Racks) -> pa.Table:
    """Return a row of gold.network_load for each live broker now, and for each survivor of a failure."""
    traffic = read_network(aggregates.sums).brokers
    kinds, names, survivors = zip(*_list_scenarios(aggregates), strict=True)
    state, broker = np.nonzero(np.stack(survivors))
    at_state, rows = pa.array(state), traffic[state, broker]
    knows_in, knows_out = aggregates.is_known[BYTES_IN], aggregates.is_known[BYTES_OUT]
    rates = (
        (rows[:, PRODUCERS_IN], knows_in),
        (rows[:, REPLICATION_IN], knows_in),
        (rows[:, REPLICATION_OUT], knows_in),
        (rows[:, CONSUMERS_OUT], knows_out),
        (rows[:, PRODUCERS_IN] + rows[:, REPLICATION_IN], knows_in),
        (rows[:, REPLICATION_OUT] + rows[:, CONSUMERS_OUT], knows_in and knows_out),
    )
    columns = [
        pa.array(kinds, TEXT).take(at_state),
        pa.array(names, TEXT).take(at_state),
        aggregates.ids[broker],
        pa.array(racks, TEXT).take(pa.array(broker)),
        *(pa.array(rate) if known else pa.nulls(len(rate), DOUBLE) for rate, known in rates),
    ]
    return pa.Table.from_arrays(columns, schema=_NETWORK_LOAD)


def sum_producers(brokers: Floats, zone: npt.NDArray[np.int32], shares: Floats) -> Floats:
    """Return bytes per second of producers: float64 (states, z, z), zone of the producer, zone of the leader.

    brokers: as in NetworkSums; zone: int32 (n); shares: of producers by zone, float64 (z).
    """
    in_zone = zone[:, None] == np.arange(len(shares))
    to_zone = np.einsum("sb,bz->sz", brokers[:, :, PRODUCERS_IN], in_zone.astype(np.float64))
    return np.asarray(to_zone[:, None, :] * shares[:, None])


def zone_traffic_rows(
    aggregates: SchemeAggregates, racks: Racks, assumptions: NetworkAssumptions, prices: CrossZonePrices
) -> pa.Table:
    """Return the rows of gold.zone_traffic: one for each kind of traffic and two zones between which there is any.

    A kind of unknown rate has one row per state, with nulls. Above MAX_ZONES zones, only the state now has rows.
    """
    racks = list_zones(racks, assumptions)
    zones, traffic = name_zones(racks, assumptions), read_network(aggregates.sums)
    zone, shares = number_racks_by_zone(racks, zones), share_clients(racks, zones, assumptions.producer_zones)
    scenarios = list(_list_scenarios(aggregates))[: len(traffic.zones)]
    producers = sum_producers(traffic.brokers[: len(scenarios)], zone, shares)
    by_kind = {
        REPLICATION_KIND: (traffic.zones[:, REPLICATION], aggregates.is_known[BYTES_IN]),
        PRODUCERS_KIND: (producers, aggregates.is_known[BYTES_IN]),
        CONSUMERS_KIND: (traffic.zones[:, CONSUMERS], aggregates.is_known[BYTES_OUT]),
    }
    names = pa.array([*zones, None], TEXT)
    kinds, titles = (pa.array([scenario[i] for scenario in scenarios], TEXT) for i in (0, 1))
    parts = [_ZONE_TRAFFIC.empty_table()]
    for kind, (rates, is_known) in by_kind.items():
        if not is_known:
            unknown = [pa.nulls(len(scenarios), field.type) for field in list(_ZONE_TRAFFIC)[3:]]
            columns = [kinds, titles, pa.repeat(kind, len(scenarios)), *unknown]
            parts.append(pa.Table.from_arrays(columns, schema=_ZONE_TRAFFIC))
            continue
        state, from_zone, to_zone = np.nonzero(rates)
        rate, is_unknown = rates[state, from_zone, to_zone], np.maximum(from_zone, to_zone) == len(zones)
        cost = np.where(from_zone == to_zone, 0.0, rate) * prices.month_per_byte_per_s
        columns = [
            kinds.take(pa.array(state)),
            titles.take(pa.array(state)),
            pa.repeat(kind, len(state)),
            names.take(pa.array(from_zone)),
            names.take(pa.array(to_zone)),
            rate,
            pa.array(from_zone != to_zone, mask=is_unknown),
            pa.array(cost, mask=is_unknown | np.isnan(cost)),
        ]
        parts.append(pa.Table.from_arrays(columns, schema=_ZONE_TRAFFIC))
    return pa.concat_tables(parts)


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
