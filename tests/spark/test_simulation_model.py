"""The replay as Spark spreads it against the plain-Python interpreter: no difference in 10,000 random sequences.

That many in `make soak`; a tenth of them, other ones in every run, in `make test`.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipelines.stages import simulation_stage as stages
from tests.samples import Sampled
from tests.unit.simulation.comparison import logs_of, partitions_of, requests_of, told_by
from tests.unit.simulation.interpreter import interpret
from tests.unit.simulation.random_cases import random_case, random_data_case
from udfs.simulation.cluster_events import Begin, Event, event_log

SEQUENCES = 10_000
PARTS = 5
BUCKETS = 3
Rows = dict[str, list[dict]]


def case(number: int) -> tuple[Begin, list[Event]]:
    """A quarter of the controller alone, the others with data, half of these under Kafka's present rules."""
    if number % 4 == 0:
        return random_case(100_000 + number)
    return random_data_case(100_000 + number, facts=number % 4 != 1)


def by_cluster(rows: pa.Table) -> Rows:
    out: Rows = {}
    for row in rows.to_pylist():
        out.setdefault(row["cluster_id"], []).append(row)
    return out


def folded(spark: SparkSession, cases: dict[str, tuple[Begin, list[Event]]]) -> dict[str, Rows]:
    """Rows of each kind, by cluster, as Spark makes them of all these clusters at once."""
    logs = [event_log(begin, events, cluster=name, snapshot=name) for name, (begin, events) in cases.items()]
    replayed = stages.replayed(spark.createDataFrame(pa.concat_tables(logs).combine_chunks()), BUCKETS).cache()
    makers = (stages.partitions, stages.replication_health, stages.requests, stages.leadership_events)
    rows = {make.__name__: by_cluster(make(replayed).toArrow()) for make in makers}
    replayed.unpersist()
    return rows


def at_once_with_others(sequence: list[Event], answers: dict) -> set[int | None]:
    """Requests of several partitions that end when several events happen: parts do not know which came first."""
    times = Counter(event.at_ms for event in sequence)
    several = {event.request for event in sequence if event.parts > 1}
    return {number for (number, _), one in answers.items() if number in several and times.get(one[2], 2) > 1}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_difference_to_the_interpreter(spark: SparkSession, sampled: Sampled, part: int) -> None:
    seeds = sampled.seeds(SEQUENCES)
    size = len(seeds) // PARTS
    cases = {str(number): case(number) for number in seeds[part * size : (part + 1) * size]}
    rows = folded(spark, cases)
    compared = 0
    for name, (begin, sequence) in cases.items():
        by_hw = begin.rules.truncate_to == "high_watermark"
        partitions, all_logs, answers = told_by(interpret(begin, sequence))
        assert partitions_of(rows["partitions"].get(name, [])) == partitions, name
        found = logs_of(rows["replication_health"].get(name, []))
        assert found == {key: all_logs[key] for key in found}, name
        for key in all_logs.keys() - found.keys():  # partitions that nothing ever happened to
            leos, hws, committed, visible = all_logs[key]
            assert not any([*leos.values(), *hws.values(), committed, visible]), (name, key)
        mine = requests_of(rows["requests"].get(name, []))
        tied = at_once_with_others(sequence, answers)
        mine, answers = ({key: one for key, one in of.items() if key[0] not in tied} for of in (mine, answers))
        if by_hw:  # logs that have parted share messages again beyond: what is lost is told up to there alone
            mine, answers = ({key: one[:5] for key, one in of.items()} for of in (mine, answers))
        assert mine == answers, name
        compared += len(found) + len(mine)
        epochs: dict[tuple[str, int], int] = {}
        for row in sorted(rows["leadership_events"].get(name, []), key=lambda row: (row["event"], row["step"])):
            key = (row["topic"], row["partition"])
            if row["cause"] != "created":
                assert row["leader_epoch"] >= epochs.get(key, 0), name
            epochs[key] = row["leader_epoch"]
    assert compared > 5 * size  # there was something to compare


@pytest.mark.slow
@pytest.mark.parametrize("kraft", [False, True])
def test_what_must_always_hold(spark: SparkSession, sampled: Sampled, kraft: bool) -> None:
    """Under Kafka's present rules: high watermarks, leaders in their ISR, and what acks=all has promised."""
    seeds = sampled.seeds(SEQUENCES // PARTS)
    cases = {str(n): random_data_case(500_000 + n, facts=False, kraft=kraft) for n in seeds}
    rows = folded(spark, cases)
    health, requests, leaders = rows["replication_health"], rows["requests"], rows["leadership_events"]
    promised = 0
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
                promised += row["messages"]
                assert row["lost_messages"] == 0 or (row["topic"], row["partition"]) in unclean, name
    assert promised > len(seeds)
