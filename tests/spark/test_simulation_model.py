"""The simulation in Spark against an interpreter in plain Python: no difference in 10,000 random sequences.

`make test-soak` runs all of them, `make test` a thirtieth, drawn anew in every run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipelines.stages import simulation_stages as stage
from tests.seed_sampler import SeedSampler
from tests.unit.simulation.comparison import collect_interpreted, index_logs, index_partitions, index_requests
from tests.unit.simulation.interpreter import interpret
from tests.unit.simulation.random_cases import random_case, random_data_case
from udfs.simulation.cluster_events import Event, InitialState, build_event_log
from udfs.simulation.kernels.codes import EventKind

SEQUENCES = 10_000
AT_ONCE = 2_000  # sequences that Spark simulates in one call
BUCKETS = 3
Rows = dict[str, list[dict]]


def case(number: int) -> tuple[InitialState, list[Event]]:
    """Return a random case: a quarter has no data, half of the others use the rules of current Kafka versions."""
    if number % 4 == 0:
        return random_case(100_000 + number)
    return random_data_case(100_000 + number, facts=number % 4 != 1)


def by_cluster(rows: pa.Table) -> Rows:
    out: Rows = {}
    for row in rows.to_pylist():
        out.setdefault(row["cluster_id"], []).append(row)
    return out


def simulate_in_spark(spark: SparkSession, cases: dict[str, tuple[InitialState, list[Event]]]) -> dict[str, Rows]:
    """Return the rows of each table, by cluster, that Spark returns for all of these clusters in one call."""
    logs = [build_event_log(begin, events, cluster=name, snapshot=name) for name, (begin, events) in cases.items()]
    results = stage.simulate_events(spark.createDataFrame(pa.concat_tables(logs).combine_chunks()), BUCKETS).cache()
    tables = {
        "partitions": stage.build_final_partitions,
        "health": stage.build_replication_health,
        "requests": stage.build_requests,
        "leaderships": stage.build_leadership_events,
    }
    rows = {name: by_cluster(build(results).toArrow()) for name, build in tables.items()}
    results.unpersist()
    return rows


def at_once_with_others(sequence: list[Event], answers: dict) -> set[int | None]:
    """Return requests of several partitions that end while several events happen: parts do not know their order."""
    times = Counter(event.at_ms for event in sequence)
    several = {event.request for event in sequence if event.parts > 1}
    return {number for (number, _), one in answers.items() if number in several and times.get(one[2], 2) > 1}


@pytest.mark.slow
def test_no_difference_to_the_interpreter(spark: SparkSession, seed_sampler: SeedSampler) -> None:
    seeds = seed_sampler.seeds(SEQUENCES)
    for begin in range(0, len(seeds), AT_ONCE):
        check_against_the_interpreter(spark, {str(number): case(number) for number in seeds[begin : begin + AT_ONCE]})


def check_against_the_interpreter(spark: SparkSession, cases: dict[str, tuple[InitialState, list[Event]]]) -> None:
    rows = simulate_in_spark(spark, cases)
    compared = 0
    for name, (begin, sequence) in cases.items():
        by_hw = begin.settings.truncate_to == "high_watermark"
        partitions, all_logs, answers = collect_interpreted(interpret(begin, sequence))
        assert index_partitions(rows["partitions"].get(name, [])) == partitions, name
        logs = index_logs(rows["health"].get(name, []))
        assert logs == {key: all_logs[key] for key in logs}, name
        for key in all_logs.keys() - logs.keys():  # partitions without events
            leos, hws, committed, visible = all_logs[key]
            assert not any([*leos.values(), *hws.values(), committed, visible]), (name, key)
        actual = index_requests(rows["requests"].get(name, []))
        tied = at_once_with_others(sequence, answers)
        actual, answers = ({key: one for key, one in of.items() if key[0] not in tied} for of in (actual, answers))
        if by_hw:  # diverged logs may share messages again beyond: only losses up to there are comparable
            actual, answers = ({key: one[:5] for key, one in of.items()} for of in (actual, answers))
        assert actual == answers, name
        compared += len(logs) + len(actual)
        epochs: dict[tuple[str, int], int] = {}
        for row in sorted(rows["leaderships"].get(name, []), key=lambda row: (row["event"], row["step"])):
            key = (row["topic"], row["partition"])
            if row["cause"] != "created":
                assert row["leader_epoch"] >= epochs.get(key, 0), name
            epochs[key] = row["leader_epoch"]
    assert compared > 5 * len(cases)  # there was something to compare


def clear_elrs(begin: InitialState, events: list[Event]) -> tuple[InitialState, list[Event]]:
    """Return the same case where a changed min.insync.replicas clears the ELR, as in Kafka 4.1."""
    pairs = (
        (event, replace(event, kind=EventKind.CLEAR_ELR, value=0)) if event.kind == EventKind.SET_MIN_ISR else (event,)
        for event in events
    )
    return begin, [replace(event, offset=i) for i, event in enumerate(chain.from_iterable(pairs))]


@pytest.mark.slow
@pytest.mark.parametrize("kraft", [False, True])
def test_invariants(spark: SparkSession, seed_sampler: SeedSampler, kraft: bool) -> None:
    """With the rules of current versions: high watermarks rise, leaders are in sync, acks=all loses nothing."""
    seeds = seed_sampler.seeds(SEQUENCES // 5)
    cases = {str(n): clear_elrs(*random_data_case(500_000 + n, facts=False, kraft=kraft)) for n in seeds}
    rows = simulate_in_spark(spark, cases)
    health, requests, leaders = rows["health"], rows["requests"], rows["leaderships"]
    acknowledged = 0
    for name in cases:
        unclean = {
            (row["topic"], row["partition"])
            for row in leaders.get(name, [])
            if row["cause"] in ("unclean election", "last known leader")
        }
        for row in leaders.get(name, []):
            assert row["leader"] is None or row["leader"] in row["isr"], name
        marks: dict[tuple[str, int], int] = {}
        for row in sorted(health.get(name, []), key=lambda row: row["from_ms"]):
            key = (row["topic"], row["partition"])
            if row["high_watermark"] is not None and key not in unclean:
                assert row["high_watermark"] >= marks.get(key, 0), name
                marks[key] = row["high_watermark"]
        for row in requests.get(name, []):
            if row["acks"] == -1 and row["error"] == "NONE" and row["answered_at_ms"] is not None:
                acknowledged += row["messages"]
                assert row["lost_messages"] == 0 or (row["topic"], row["partition"]) in unclean, name
    assert acknowledged > len(seeds)
