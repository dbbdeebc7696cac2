"""What one pass over the partitions of a shard adds up of its network traffic, as named arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import offsets_of, row_of
from udfs.failures.kernels.election import PartitionGroup
from udfs.failures.partition_arrays import truncate_replicas
from udfs.failures.scenarios import ScenarioKind, Scenarios
from udfs.network.kernels.network_sums import DIRECTIONS, PATHS, ClientZones, NetworkSums, sum_network

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
