"""Simulations against each other: clusters in one call, partitions in shards, the first events alone."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.seed_sampler import SeedSampler
from tests.unit.simulation.random_cases import random_case, random_data_case
from tests.unit.simulation.random_event_sequences import random_kraft_sequence, random_zookeeper_sequence
from udfs.simulation.cluster_events import Event, InitialPartition, InitialState, build_event_log
from udfs.simulation.cluster_timeline import find_joint_events
from udfs.simulation.event_packing import pack_event_log
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.result_tables import ResultTables
from udfs.simulation.simulation_schemas import LISTS, WIRE
from udfs.simulation.simulator import Simulation, simulate_log, simulate_packed

SEQUENCES = 300
TABLES = ("leaderships", "transitions", "health", "requests", "final_partitions")
Row = dict[str, Any]


def collect_rows(*simulations: Simulation) -> dict[str, list[str]]:
    """Return all rows of these simulations, by table."""
    rows = [ResultTables(of) for of in simulations]
    return {name: sorted(str(row) for one in rows for row in getattr(one, name).to_pylist()) for name in TABLES}


def to_wire(table: pa.Table) -> pa.Table:
    """Return rows of EVENTS as rows of WIRE."""
    rows = table.to_pylist()
    for row in rows:
        lists = [row.pop(name) for name in (*LISTS, "numbers")]
        no_partition = all(one is None for one in lists)
        row["lists"] = [] if no_partition else [n for one in lists for n in ([-1] if one is None else [len(one), *one])]
    return pa.Table.from_pylist(rows, schema=WIRE)


@pytest.mark.slow
def test_clusters_in_one_call_and_partitions_in_shards(seed_sampler: SeedSampler) -> None:
    """Three clusters in one call; then some of their partitions in each call, as Spark workers have them."""
    for seed in seed_sampler.seeds(SEQUENCES // 3):
        cases = {"a": random_zookeeper_sequence(seed), "b": random_case(seed), "c": random_kraft_sequence(seed)}
        logs = [build_event_log(*case, cluster=name) for name, case in cases.items()]
        alone = collect_rows(*map(simulate_log, logs))
        log = to_wire(pa.concat_tables(logs))
        assert collect_rows(simulate_log(log)) == alone, seed
        log = pa.concat_tables([log, find_joint_events(pack_event_log(log), WIRE)])
        half = np.asarray(pc.fill_null(log["partition"], -1)) % 2
        no_partition = np.asarray(pc.is_null(log["partition"]))
        parts = [
            simulate_packed(pack_event_log(log.filter(pa.array(no_partition | (half == which))))) for which in (0, 1)
        ]
        assert collect_rows(*parts) == alone, seed


def list_changes(begin: InitialState, events: list[Event], first: int) -> tuple[list[Row], list[Row]]:
    """Return changes of a simulation of the first events, and those of all events that happen until then."""
    part, whole = (ResultTables(simulate_log(build_event_log(begin, some))) for some in (events[:first], events))
    out: list[list[Row]] = [[], []]
    for rows, changes in zip((part, whole), out, strict=True):
        for name in ("leaderships", "transitions"):
            changes += [{"table": name, **row} for row in getattr(rows, name).to_pylist()]
    return out[0], [row for row in out[1] if row["event"] < first and row["at_ms"] <= events[first - 1].at_ms]


@pytest.mark.slow
@pytest.mark.parametrize("case", [random_case, random_data_case, random_zookeeper_sequence, random_kraft_sequence])
def test_changes_do_not_depend_on_later_events(case: Any, seed_sampler: SeedSampler) -> None:
    for seed in seed_sampler.seeds(SEQUENCES):
        begin, events = case(seed)
        first = random.Random(-seed).randint(1, len(events))
        actual, expected = list_changes(begin, events, first)
        # A check of leaders after the first events comes before the next event and has its number.
        assert [row for row in actual if row["event"] < first] == expected, seed


def test_clusters_of_a_call_are_independent() -> None:
    """Also if a partition waits for a leader from the first step on."""
    events = [Event(0, EventKind.BROKER_DOWN, 2), Event(5, EventKind.BROKER_UP, 2), Event(9, EventKind.BROKER_UP, 1)]
    begins = [
        InitialState((1, 2), frozenset({2}), (InitialPartition(("t", 0), ar, ar[:1], None),), 2)
        for ar in ((1,), (1, 2))
    ]
    logs = [build_event_log(begin, events, cluster=name) for begin, name in zip(begins, "ab", strict=True)]
    assert collect_rows(simulate_log(pa.concat_tables(logs))) == collect_rows(*map(simulate_log, logs))
