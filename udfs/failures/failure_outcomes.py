"""The loads of brokers before any failure and the outcome of every scenario, out of the aggregates of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import DOUBLE, INT, LONG, TEXT, column, schema_of
from udfs.arrow.ragged import take_segments
from udfs.failures.kernels import election
from udfs.failures.kernels.failure_totals import BYTES_IN, BYTES_OUT, FETCH, LEADERS, LOADS
from udfs.failures.partition_arrays import Placement
from udfs.failures.partition_sums import Arrays
from udfs.failures.scenarios import ScenarioKind, Scenarios
from udfs.hotspots.hotspot_measures import BrokerParts, measure_leaders
from udfs.placement.topic_placement import find_counted_brokers

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_PAIR_ROWS = 200_000  # survivors of pairs whose loads are computed at once


class SchemeAggregates(NamedTuple):
    """The aggregates of one cluster under one scheme. ids: int32 (n), its live brokers, rising."""

    ids: npt.NDArray[np.int32]
    scenarios: Scenarios
    sums: Arrays

    @property
    def is_known(self) -> dict[int, bool]:
        """Whether each load is known for at least one partition."""
        _, into, out = (bool(value) for value in self.sums["known"].tolist())
        return {LEADERS: True, BYTES_IN: into, BYTES_OUT: out, FETCH: into and out}

    @property
    def has_replicas(self) -> npt.NDArray[np.bool_]:
        """Whether each broker has replicas: bool (n)."""
        used: npt.NDArray[np.bool_] = self.sums["broker_counts"][:, election.REPLICAS] > 0
        return used

    @property
    def counted(self) -> npt.NDArray[np.bool_]:
        """Whether means count each broker: bool (n)."""
        return find_counted_brokers(self.has_replicas, self.scenarios.cordoned)


@dataclass(frozen=True)
class Outcomes:
    """What s scenarios of one kind lead to."""

    kind: ScenarioKind
    name: pa.Array  # (s), values of the column scenario
    failed_brokers: pa.Array  # (s), lists of ids, rising
    survivors: Ints  # (s)
    counted: Ints  # (s), survivors that means count
    holders: Ints  # (s), survivors that have replicas
    leaders_lost: Ints  # (s)
    takeover_brokers: Ints  # (s)
    worst: Floats  # (s, LOADS), the largest load of a survivor
    total: Floats  # (s, LOADS), the sum over survivors
    worst_broker: npt.NDArray[np.int32]  # (s), id of the survivor with most leaders, -1 = none
    hottest_successor: npt.NDArray[np.int32]  # (s), the same among those that take over leaders, -1 = none has as many
    events: Ints  # (s, EVENTS)
    leaves_majority: npt.NDArray[np.bool_]  # (s), of the voters of the controller quorum, or they are not known

    def slice(self, begin: int, end: int) -> Outcomes:
        """Return some of the scenarios."""
        kind, *columns = vars(self).values()
        return Outcomes(kind, *(values[begin:end] for values in columns))


class SurvivorLoads(NamedTuple):
    """What the survivors of s scenarios lead; other brokers have any values."""

    outcomes: Outcomes
    after: Floats  # (s, n, loads), what each broker leads afterwards
    takeovers: Floats  # (s, n, loads), what it takes over
    survives: npt.NDArray[np.bool_]  # (s, n)


def _describe_sets(kind: ScenarioKind, *ids: npt.NDArray[np.int32]) -> tuple[pa.Array, pa.Array]:
    """Return names and lists of the sets with the first, second, ... brokers `ids`: int32 (s)."""
    texts = (pa.array(part, pa.int32()).cast(pa.string()) for part in ids)
    names = pc.binary_join_element_wise(f"{kind}:", pc.binary_join_element_wise(*texts, ","), "")
    brokers = pa.array(np.column_stack(ids).ravel(), pa.int32())
    return names, pa.FixedSizeListArray.from_arrays(brokers, len(ids)).cast(pa.list_(pa.int32()))


def _evaluate(
    aggregates: SchemeAggregates,
    kind: ScenarioKind,
    sets: tuple[pa.Array, pa.Array],
    survives: npt.NDArray[np.bool_],
    after: Floats,
    takeovers: Floats,
    events: Ints,
    stops: npt.NDArray[np.bool_],
) -> SurvivorLoads:
    """Evaluate s scenarios of one kind. sets: names and lists; arrays: see SurvivorLoads, Outcomes and Scenarios."""
    loads = np.where(survives[:, :, None], after, 0.0)
    leaders = np.insert(np.where(survives, after[:, :, LEADERS], -1.0), 0, -0.5, axis=1)  # -0.5: no survivor
    ids = np.append(-1, aggregates.ids).astype(np.int32)
    is_hottest = (leaders[:, 1:] == leaders.max(axis=1)[:, None]) & (takeovers[:, :, LEADERS] > 0)
    outcomes = Outcomes(
        kind,
        *sets,
        survivors=survives.sum(axis=1),
        counted=(survives & aggregates.counted).sum(axis=1),
        holders=(survives & aggregates.has_replicas).sum(axis=1),
        leaders_lost=(~survives @ aggregates.sums["leader_loads"][:, LEADERS]).astype(np.int64),
        takeover_brokers=(takeovers[:, :, LEADERS] > 0).sum(axis=1),
        worst=loads.max(axis=1, initial=0.0),
        total=loads.sum(axis=1),
        worst_broker=ids[leaders.argmax(axis=1)],
        hottest_successor=ids[np.insert(is_hottest, 0, ~is_hottest.any(axis=1), axis=1).argmax(axis=1)],
        events=events,
        leaves_majority=~stops,
    )
    return SurvivorLoads(outcomes, after, takeovers, survives)


def single_failures(aggregates: SchemeAggregates) -> SurvivorLoads:
    """Return the failure of each broker."""
    sums, ids = aggregates.sums, aggregates.ids
    survives, after = ~np.eye(len(ids), dtype=np.bool_), sums["leader_loads"] + sums["takeovers"]
    sets, events = _describe_sets(ScenarioKind.BROKER, ids), sums["events"] + sums["single_events"]
    stops = aggregates.scenarios.pair_stops.diagonal()
    return _evaluate(aggregates, ScenarioKind.BROKER, sets, survives, after, sums["takeovers"], events, stops)


def pair_failures(aggregates: SchemeAggregates) -> Outcomes:
    """Return the failure of each pair of brokers; none where pairs are left out."""
    sums, ids, n = aggregates.sums, aggregates.ids, len(aggregates.ids)
    counted, has_replicas = aggregates.counted, aggregates.has_replicas
    a, b = np.triu_indices(n if len(sums["pair_events"]) else 0, 1)
    leaders = sums["leader_loads"][:, LEADERS].astype(np.int64)
    unknown = np.full((len(a), LOADS - FETCH), np.nan)  # what leaders send to followers is not computed for pairs
    worst = np.append(ids, -1).astype(np.int32)[sums["pair_worst_broker"]]
    return Outcomes(
        ScenarioKind.PAIR,
        *_describe_sets(ScenarioKind.PAIR, ids[a], ids[b]),
        survivors=np.full(len(a), n - 2),
        counted=counted.sum() - counted[a] - counted[b],
        holders=has_replicas.sum() - has_replicas[a] - has_replicas[b],
        leaders_lost=leaders[a] + leaders[b],
        takeover_brokers=sums["pair_takeover_brokers"],
        worst=np.column_stack([sums["pair_worst"], unknown]),
        total=np.column_stack([sums["pair_total"], unknown]),
        worst_broker=worst,
        hottest_successor=np.where(sums["pair_takeover_brokers"] > 0, worst, -1).astype(np.int32),
        events=sums["pair_events"],
        leaves_majority=~aggregates.scenarios.pair_stops[a, b],
    )


def scenario_failures(aggregates: SchemeAggregates) -> Iterator[SurvivorLoads]:
    """Yield racks, custom failures and random sets, by kind."""
    scenarios, sums = aggregates.scenarios, aggregates.sums
    survives = ~scenarios.members(len(aggregates.ids))
    events = sums["events"] + sums["scenario_events"]
    for kind in dict.fromkeys(scenarios.kind.tolist()):
        rows = np.flatnonzero(scenarios.kind == kind)
        takeovers = sums["scenario_takeovers"][rows]
        failed, offsets = take_segments(scenarios.failed, scenarios.failed_offsets, rows)
        lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(failed, pa.int32()))
        sets = pa.array(scenarios.name[rows].tolist(), pa.string()), lists
        after = sums["leader_loads"] + takeovers
        by_set = (survives[rows], after, takeovers, events[rows], scenarios.stops[rows])
        yield _evaluate(aggregates, ScenarioKind(kind), sets, *by_set)


def rolling_restart(aggregates: SchemeAggregates) -> Outcomes:
    """Return the steps of a rolling restart, in the order of broker ids."""
    sums, n = aggregates.sums, len(aggregates.ids)
    load, takeovers = sums["leader_loads"][:, :FETCH].copy(), sums["restart_takeovers"]
    lost, after = np.zeros(n, np.int64), np.full((n, n, LOADS), np.nan)
    for step in range(n):
        lost[step] = load[step, LEADERS]
        load[step] = 0
        load += takeovers[step]
        after[step, :, :FETCH] = load
        load[step] += sums["restart_returns"][step]
    lasting = sums["restart_lasting_events"]
    events = sums["events"] + np.cumsum(lasting, axis=0) - lasting + sums["restart_events"]
    sets, survives = _describe_sets(ScenarioKind.ROLLING_RESTART, aggregates.ids), ~np.eye(n, dtype=np.bool_)
    by_step = (survives, after, takeovers, events, aggregates.scenarios.pair_stops.diagonal())
    steps = _evaluate(aggregates, ScenarioKind.ROLLING_RESTART, sets, *by_step)
    return replace(steps.outcomes, leaders_lost=lost)


def survivor_loads(aggregates: SchemeAggregates) -> Iterator[SurvivorLoads]:
    """Yield single failures, racks and custom failures."""
    yield single_failures(aggregates)
    yield from (loads for loads in scenario_failures(aggregates) if loads.outcomes.kind != ScenarioKind.RANDOM)


def pair_loads(aggregates: SchemeAggregates) -> Iterator[SurvivorLoads]:
    """Yield pairs, some at a time; they need the joint takeovers."""
    outcomes, n = pair_failures(aggregates), len(aggregates.ids)
    leader_loads, takeovers = (aggregates.sums[name][..., :FETCH] for name in ("leader_loads", "takeovers"))
    key, joint = aggregates.sums["joint_key"], aggregates.sums["joint_sum"]
    first, second = np.triu_indices(n, 1)
    step = max(1, _PAIR_ROWS // max(n, 1))
    for begin in range(0, len(outcomes.survivors), step):
        end = min(begin + step, len(outcomes.survivors))
        a, b = first[begin:end], second[begin:end]
        gained = np.where(outcomes.leaves_majority[begin:end, None, None], takeovers[a] + takeovers[b], 0.0)
        entry = np.flatnonzero(np.isin(key // n, a * n + b))
        gained[np.searchsorted(a * n + b, key[entry] // n), key[entry] % n] += joint[entry]
        survives = np.ones((len(a), n), dtype=np.bool_)
        survives[np.arange(len(a)), a] = survives[np.arange(len(a)), b] = False
        yield SurvivorLoads(outcomes.slice(begin, end), leader_loads[None] + gained, gained, survives)


CURRENT_LOAD_COLUMNS = (
    column("broker_id", INT, "broker id", required=True),
    column("rack", TEXT, "its rack"),
    column("leaders", LONG, "partitions it leads", required=True),
    column("preferred_leaders", LONG, "partitions whose first replica it is", required=True),
    column(
        "replicas",
        LONG,
        "replicas it holds, without those in failed log dirs, which silver.brokers counts",
        required=True,
    ),
    column("size_bytes", LONG, "bytes of the replicas it holds; null = no size is known"),
    column("bytes_in_per_s", DOUBLE, "bytes per second written to the replicas it holds; null = unknown"),
    column("bytes_out_per_s", DOUBLE, "bytes per second that consumers fetch from what it leads; null = unknown"),
)


def current_load_rows(aggregates: SchemeAggregates, racks: tuple[str | None, ...]) -> pa.Table:
    """Return a row of gold.current_loads for every live broker, even if it holds nothing."""
    counts, loads = aggregates.sums["broker_counts"], aggregates.sums["broker_loads"]
    unknown = np.broadcast_to(aggregates.sums["known"] == 0, (len(counts), 3))
    size = loads[:, election.SIZE].astype(np.int64)
    columns = [
        aggregates.ids,
        pa.array(racks, TEXT),
        *counts[:, [election.LED, election.PREFERRED, election.REPLICAS]].T,
        pa.array(size, mask=unknown[:, 0].copy()),
        pa.array(loads[:, election.REPLICA_BYTES_IN], mask=unknown[:, 1].copy()),
        pa.array(loads[:, election.LEADER_BYTES_OUT], mask=unknown[:, 2].copy()),
    ]
    return pa.Table.from_arrays(columns, schema=schema_of(CURRENT_LOAD_COLUMNS))


def topic_hotspots(
    placement: Placement, topics: pa.Array, ids: npt.NDArray[np.int32], hot_ratio: float
) -> pa.RecordBatch:
    """Measure each topic that has partitions in a shard. topics: names, as in placement.rows."""
    count, n, room = len(topics), len(ids), len(placement.group.broker)
    totals, ends = np.zeros((count, election.TOTALS), np.int64), np.zeros(count, np.int64)
    leaders, in_sync = np.empty(room, np.int64), np.empty(room, np.int64)
    out = election.TopicParts(totals, ends, np.empty(room, np.int32), leaders, in_sync, np.empty(room))
    used = slice(election.count_topics(placement.group, placement.rows, placement.out_rate, n, out))
    broker = out.broker[used]
    parts = BrokerParts(ids[broker] if n else broker, leaders[used], in_sync[used], out.out_rate[used])
    measures = measure_leaders(topics, n, np.append(0, ends), parts, totals, hot_ratio)
    return measures.filter(pa.array(totals[:, election.PARTITIONS] > 0))


def cluster_hotspot_rows(aggregates: SchemeAggregates, hot_ratio: float) -> pa.RecordBatch:
    """Measure the cluster as a whole: one row, none if it has no partition."""
    counts, loads = aggregates.sums["broker_counts"], aggregates.sums["broker_loads"]
    totals = aggregates.sums["totals"][None]
    has_replicas = np.flatnonzero(counts[:, election.IN_SYNC])
    # One partition of unknown rate makes every sum unknown.
    is_known = int(aggregates.sums["known"][2]) == int(totals[0, election.PARTITIONS])
    rate = np.where(is_known, loads[has_replicas, election.LEADER_BYTES_OUT], np.nan)
    leaders, in_sync = counts[has_replicas, election.LED], counts[has_replicas, election.IN_SYNC]
    parts = BrokerParts(aggregates.ids[has_replicas], leaders, in_sync, rate)
    offsets = np.array([0, len(has_replicas)], dtype=np.int64)
    cluster = measure_leaders(pa.nulls(1, TEXT), int(aggregates.counted.sum()), offsets, parts, totals, hot_ratio)
    return cluster.filter(pa.array(totals[:, election.PARTITIONS] > 0))
