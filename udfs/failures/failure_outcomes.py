"""The outcome of every scenario, as arrays, out of the aggregates of a cluster under a scheme."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import take_segments
from udfs.failures.aggregates import Arrays
from udfs.failures.kernels.partition_arrays import BYTES_IN, BYTES_OUT, FETCH, LEADERS, LOADS
from udfs.failures.scenarios import ScenarioKind, Scenarios

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_PAIR_ROWS = 200_000  # survivors of pairs whose loads are computed at once


@dataclass(frozen=True)
class SchemeAggregates:
    """The aggregates of one cluster under one scheme. ids: int32 (n), its live brokers, rising."""

    ids: npt.NDArray[np.int32]
    scenarios: Scenarios
    sums: Arrays

    def floats(self, name: str) -> Floats:
        """Return one of the sums that hold loads."""
        return self.sums[name]

    def counts(self, name: str) -> Ints:
        """Return one of the sums that hold counts."""
        return self.sums[name]

    @property
    def is_known(self) -> dict[int, bool]:
        """Whether each load is known for at least one partition."""
        _, into, out = (bool(value) for value in self.counts("known").tolist())
        return {LEADERS: True, BYTES_IN: into, BYTES_OUT: out, FETCH: into and out}


@dataclass(frozen=True)
class Outcomes:
    """What s scenarios of one kind lead to."""

    kind: ScenarioKind
    name: pa.Array  # (s), values of the column scenario
    failed: npt.NDArray[np.int32]  # (flat), ids of the failed brokers
    offsets: Ints  # (s + 1), the failed brokers of each scenario
    survivors: Ints  # (s)
    leaders_lost: Ints  # (s)
    takeover_brokers: Ints  # (s)
    worst: Floats  # (s, LOADS), the largest load of a survivor
    total: Floats  # (s, LOADS), the sum over survivors
    worst_broker: npt.NDArray[np.int32]  # (s), id of the survivor with most leaders, -1 = none
    events: Ints  # (s, EVENTS)

    @property
    def failed_brokers(self) -> pa.Array:
        """The ids of the failed brokers, one list per scenario."""
        return pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), pa.array(self.failed, pa.int32()))

    def slice(self, begin: int, end: int) -> Outcomes:
        """Return some of the scenarios."""
        first, last = self.offsets[begin], self.offsets[end]
        names = ("name", "survivors", "leaders_lost", "takeover_brokers", "worst", "total", "worst_broker", "events")
        columns = {name: getattr(self, name)[begin:end] for name in names}
        return replace(self, failed=self.failed[first:last], offsets=self.offsets[begin : end + 1] - first, **columns)


@dataclass(frozen=True)
class SurvivorLoads:
    """What the survivors of s scenarios lead."""

    outcomes: Outcomes
    after: Floats  # (s, n, loads), what each broker leads afterwards
    takeovers: Floats  # (s, n, loads), what it takes over
    survives: npt.NDArray[np.bool_]  # (s, n)


def _names(kind: ScenarioKind, *ids: npt.NDArray[np.int32]) -> pa.Array:
    texts = [pa.array(part, pa.int32()).cast(pa.string()) for part in ids]
    return pc.binary_join_element_wise(f"{kind}:", pc.binary_join_element_wise(*texts, ","), "")


def _find_worst(
    after: Floats, survives: npt.NDArray[np.bool_], ids: npt.NDArray[np.int32]
) -> tuple[Floats, Floats, npt.NDArray[np.int32]]:
    """Return worst, total and worst_broker, see Outcomes. after: (s, n, loads); survives: (s, n)."""
    loads = np.where(survives[:, :, None], after, 0.0)
    if not after.shape[1]:
        return np.zeros(loads.shape[::2]), np.zeros(loads.shape[::2]), np.full(len(after), -1, np.int32)
    at = np.where(survives, after[:, :, LEADERS], -1.0).argmax(axis=1)
    worst_broker = np.where(survives.any(axis=1), ids[at], -1).astype(np.int32)
    return loads.max(axis=1), loads.sum(axis=1), worst_broker


def single_failures(aggregates: SchemeAggregates) -> Outcomes:
    """Return the failure of each broker."""
    ids, leader_loads = aggregates.ids, aggregates.floats("leader_loads")
    takeovers, n = aggregates.floats("takeovers"), len(aggregates.ids)
    worst, total, worst_broker = _find_worst(leader_loads[None] + takeovers, ~np.eye(n, dtype=np.bool_), ids)
    return Outcomes(
        kind=ScenarioKind.BROKER,
        name=_names(ScenarioKind.BROKER, ids),
        failed=ids,
        offsets=np.arange(n + 1),
        survivors=np.full(n, n - 1),
        leaders_lost=leader_loads[:, LEADERS].astype(np.int64),
        takeover_brokers=(takeovers[:, :, LEADERS] > 0).sum(axis=1),
        worst=worst,
        total=total,
        worst_broker=worst_broker,
        events=aggregates.counts("events") + aggregates.counts("single_events"),
    )


def pair_failures(aggregates: SchemeAggregates) -> Outcomes:
    """Return the failure of each pair of brokers; none where pairs are left out."""
    ids, n = aggregates.ids, len(aggregates.ids)
    a, b = np.triu_indices(n if len(aggregates.sums["pair_events"]) else 0, 1)
    leaders = aggregates.floats("leader_loads")[:, LEADERS].astype(np.int64)
    at = aggregates.sums["pair_worst_broker"]
    unknown = np.full((len(a), LOADS - FETCH), np.nan)  # what leaders send to followers is not computed for pairs
    return Outcomes(
        kind=ScenarioKind.PAIR,
        name=_names(ScenarioKind.PAIR, ids[a], ids[b]),
        failed=np.column_stack([ids[a], ids[b]]).ravel(),
        offsets=np.arange(len(a) + 1) * 2,
        survivors=np.full(len(a), n - 2),
        leaders_lost=leaders[a] + leaders[b],
        takeover_brokers=aggregates.counts("pair_takeover_brokers"),
        worst=np.column_stack([aggregates.floats("pair_worst"), unknown]),
        total=np.column_stack([aggregates.floats("pair_total"), unknown]),
        worst_broker=np.where(at >= 0, ids[np.maximum(at, 0)] if n else -1, -1).astype(np.int32),
        events=aggregates.counts("pair_events"),
    )


def scenario_failures(aggregates: SchemeAggregates) -> Iterator[SurvivorLoads]:
    """Yield racks, custom failures and random sets, by kind."""
    scenarios, ids, leader_loads = aggregates.scenarios, aggregates.ids, aggregates.floats("leader_loads")
    fails = scenarios.members(len(ids))
    events = aggregates.counts("events") + aggregates.counts("scenario_events")
    for kind in dict.fromkeys(scenarios.kind.tolist()):
        rows = np.flatnonzero(scenarios.kind == kind)
        takeovers = aggregates.floats("scenario_takeovers")[rows]
        after = leader_loads[None] - aggregates.floats("scenario_losses")[rows] + takeovers
        worst, total, worst_broker = _find_worst(after, ~fails[rows], ids)
        failed, offsets = take_segments(scenarios.failed, scenarios.failed_offsets, rows)
        outcomes = Outcomes(
            kind=ScenarioKind(kind),
            name=pa.array(scenarios.name[rows].tolist(), pa.string()),
            failed=failed.astype(np.int32),
            offsets=offsets,
            survivors=(~fails[rows]).sum(axis=1),
            leaders_lost=(fails[rows] * leader_loads[None, :, LEADERS]).sum(axis=1).astype(np.int64),
            takeover_brokers=(takeovers[:, :, LEADERS] > 0).sum(axis=1),
            worst=worst,
            total=total,
            worst_broker=worst_broker,
            events=events[rows],
        )
        yield SurvivorLoads(outcomes, after, takeovers, ~fails[rows])


def rolling_restart(aggregates: SchemeAggregates) -> Outcomes:
    """Return the steps of a rolling restart, in the order of broker ids."""
    ids, n = aggregates.ids, len(aggregates.ids)
    load, events = aggregates.floats("leader_loads")[:, :FETCH].copy(), aggregates.counts("events").copy()
    takeovers, returns = aggregates.floats("restart_takeovers"), aggregates.floats("restart_returns")
    worst, total = np.full((n, LOADS), np.nan), np.full((n, LOADS), np.nan)
    worst[:, LEADERS] = total[:, LEADERS] = 0
    lost, worst_broker = np.zeros(n, np.int64), np.full(n, -1, np.int32)
    events_then = np.empty((n, len(events)), np.int64)
    for step in range(n):
        lost[step] = load[step, LEADERS]
        load[step] = 0
        load += takeovers[step]
        events_then[step] = events + aggregates.counts("restart_events")[step]
        others = np.flatnonzero(np.arange(n) != step)
        if len(others):
            worst[step, :FETCH], total[step, :FETCH] = load[others].max(axis=0), load[others].sum(axis=0)
            worst_broker[step] = ids[others[load[others, LEADERS].argmax()]]
        load[step] += returns[step]
        events += aggregates.counts("restart_lasting_events")[step]
    return Outcomes(
        kind=ScenarioKind.ROLLING_RESTART,
        name=_names(ScenarioKind.ROLLING_RESTART, ids),
        failed=ids,
        offsets=np.arange(n + 1),
        survivors=np.full(n, n - 1),
        leaders_lost=lost,
        takeover_brokers=(takeovers[:, :, LEADERS] > 0).sum(axis=1),
        worst=worst,
        total=total,
        worst_broker=worst_broker,
        events=events_then,
    )


def survivor_loads(aggregates: SchemeAggregates) -> Iterator[SurvivorLoads]:
    """Yield single failures, racks and custom failures."""
    leader_loads, takeovers = aggregates.floats("leader_loads"), aggregates.floats("takeovers")
    survives = ~np.eye(len(aggregates.ids), dtype=np.bool_)
    yield SurvivorLoads(single_failures(aggregates), leader_loads[None] + takeovers, takeovers, survives)
    for loads in scenario_failures(aggregates):
        if loads.outcomes.kind != ScenarioKind.RANDOM:
            yield loads


def pair_loads(aggregates: SchemeAggregates) -> Iterator[SurvivorLoads]:
    """Yield pairs, some at a time; they need the joint takeovers."""
    outcomes, n = pair_failures(aggregates), len(aggregates.ids)
    leader_loads, takeovers = (aggregates.floats(name)[..., :FETCH] for name in ("leader_loads", "takeovers"))
    key, joint = aggregates.counts("joint_key"), aggregates.floats("joint_sum")
    first, second = np.triu_indices(n, 1)
    step = max(1, _PAIR_ROWS // max(n, 1))
    for begin in range(0, len(outcomes.survivors), step):
        end = min(begin + step, len(outcomes.survivors))
        a, b = first[begin:end], second[begin:end]
        gained = takeovers[a] + takeovers[b]
        entry = np.flatnonzero(np.isin(key // n, a * n + b))
        gained[np.searchsorted(a * n + b, key[entry] // n), key[entry] % n] += joint[entry]
        survives = np.ones((len(a), n), dtype=np.bool_)
        survives[np.arange(len(a)), a] = survives[np.arange(len(a)), b] = False
        yield SurvivorLoads(outcomes.slice(begin, end), leader_loads[None] + gained, gained, survives)
