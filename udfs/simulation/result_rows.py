"""Results of the simulation of one cluster as plain Python values: rows of tables, and the state at the end."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from udfs.json_output import json_key, json_object
from udfs.simulation.event_packing import N_EPOCH
from udfs.simulation.kernels.simulation_arrays import BrokerFlag, TimelineStep
from udfs.simulation.request_results import join_requests
from udfs.simulation.result_tables import ResultTables
from udfs.simulation.simulation_schemas import JOINED_REQUESTS, KEY_NAMES
from udfs.simulation.simulator import Simulation

Row = dict[str, Any]  # of a table, by column name
_ONLY_FOR_JOINS = ("progress_ms", "progress_bytes", "message_bytes")


@json_object
class BrokerState:
    """A broker at the end of a simulation."""

    broker_id: int
    is_live: bool = json_key("alive")


@dataclass(frozen=True)
class FinalState:
    """A cluster at the end of a simulation. Partitions are rows of the schema STATES_AT_END, by name."""

    controller_epoch: int
    brokers: list[BrokerState]
    partitions: list[Row]


def get_final_state(simulation: Simulation) -> FinalState:
    """Return the state of the cluster at the end."""
    log, timeline = simulation.log, simulation.timeline
    epochs = timeline.arrays.steps[:, TimelineStep.CONTROLLER_EPOCH]
    partitions = _plain_rows(ResultTables(simulation).final_partitions)
    return FinalState(
        int(epochs[-1] if len(epochs) else log.numbers[0, N_EPOCH]),
        [
            BrokerState(int(broker), bool(flags & BrokerFlag.LIVE))
            for broker, flags in zip(log.brokers, timeline.flags, strict=True)
        ],
        sorted(partitions, key=lambda row: (row["topic"], row["partition"])),
    )


def list_leaderships(simulation: Simulation) -> list[Row]:
    """List every leader, ISR or leader epoch that was written, by event."""
    return _plain_rows(_by_event(ResultTables(simulation).leaderships))


def list_transitions(simulation: Simulation) -> list[Row]:
    """List every attempted transition of a partition (broker_id None) or a replica, legal or not, by event."""
    return _plain_rows(_by_event(ResultTables(simulation).transitions))


def list_requests(simulation: Simulation) -> list[Row]:
    """List every append and fetch, partition by partition, by event; error and answer are the whole request's."""
    joined = join_requests(ResultTables(simulation).requests)
    names = [name for name in JOINED_REQUESTS.names if name not in _ONLY_FOR_JOINS]
    return _plain_rows(_by_event(joined.select(names)))


def list_health(simulation: Simulation) -> list[Row]:
    """List the periods in which each partition's health stayed the same."""
    return _plain_rows(ResultTables(simulation).health)


def _by_event(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.lexsort((np.asarray(table["event"]), np.asarray(table["at_ms"])))))


def _plain_rows(table: pa.Table) -> list[Row]:
    rows: list[Row] = table.drop_columns(list(KEY_NAMES)).to_pylist()
    return rows
