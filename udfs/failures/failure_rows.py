"""gold.failure_summary and gold.failure_load out of the sums of a cluster under a scheme."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import take_segments
from udfs.failures.aggregates import Arrays
from udfs.failures.kernels.failure_sums import (
    AT_ONE,
    AT_STAKE,
    BYTES_IN,
    BYTES_OUT,
    FETCH,
    LEADERS,
    LOADS,
    OFFLINE,
    OFFLINE_BYTES,
    STAKE_UNKNOWN,
    UNCLEAN,
    UNDER_MIN,
    UNSIZED,
)
from udfs.failures.scenarios import BROKER, LIST, PAIR, RACK, RANDOM, SHUTDOWN, Scenarios

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_IDS = pa.list_(pa.int32())
SUMMARY = pa.schema(
    [
        ("scenario_kind", pa.string()),
        ("scenario", pa.string()),
        ("failed_brokers", _IDS),
        ("survivors", pa.int64()),
        ("leaders_lost", pa.int64()),
        ("takeover_brokers", pa.int64()),
        ("leaders_after_mean", pa.float64()),
        ("leaders_after_max", pa.int64()),
        ("worst_survivor", pa.int32()),
        ("worst_survivor_ratio", pa.float64()),
        ("worst_survivor_bytes_in_ratio", pa.float64()),
        ("worst_survivor_bytes_out_ratio", pa.float64()),
        ("worst_survivor_fetch_ratio", pa.float64()),
        ("offline_partitions", pa.int64()),
        ("newly_offline_partitions", pa.int64()),
        ("offline_size_bytes", pa.int64()),
        ("under_min_isr_before_partitions", pa.int64()),
        ("under_min_isr_partitions", pa.int64()),
        ("single_isr_partitions", pa.int64()),
        ("unclean_elections", pa.int64()),
        ("potential_lost_messages", pa.int64()),
    ]
)
_RATES = (("bytes_in", BYTES_IN), ("bytes_out", BYTES_OUT), ("fetch", FETCH))
LOAD = pa.schema(
    [
        ("scenario_kind", pa.string()),
        ("scenario", pa.string()),
        ("failed_brokers", _IDS),
        ("broker_id", pa.int32()),
        ("leaders_before", pa.int64()),
        ("takeovers", pa.int64()),
        ("leaders_after", pa.int64()),
        *((f"{name}_{when}_per_s", pa.float64()) for name, _ in _RATES for when in ("before", "after")),
    ]
)
_BY_SCENARIO = ("name", "survivors", "lost", "takeover_brokers", "worst", "total", "worst_broker", "events")
_PAIR_ROWS = 200_000  # survivors of pairs that are made rows of at once


@dataclass(frozen=True)
class Outcome:
    """The sums of one cluster under one scheme. ids: int32 (n), its live brokers, rising."""

    ids: npt.NDArray[np.int32]
    scenarios: Scenarios
    sums: Arrays

    def array(self, name: str) -> npt.NDArray[np.float64]:
        """One of the sums."""
        return self.sums[name]

    def counts(self, name: str) -> Ints:
        """One of the sums that are whole numbers."""
        return self.sums[name]

    @property
    def rates_known(self) -> dict[int, bool]:
        """Whether a load is known of any partition."""
        _, into, out = (bool(value) for value in self.counts("known").tolist())
        return {LEADERS: True, BYTES_IN: into, BYTES_OUT: out, FETCH: into and out}


@dataclass(frozen=True)
class _After:
    """s scenarios of one kind. failed: ids (flat) and offsets (s + 1). lost, survivors, takeover_brokers: int64 (s).

    worst, total: float64 (s, loads).   worst_broker: int32 (s), -1 = none.   events: int64 (s, EVENTS).
    """

    kind: str
    name: pa.Array
    failed: npt.NDArray[np.int32]
    offsets: Ints
    survivors: Ints
    lost: Ints
    takeover_brokers: Ints
    worst: Floats
    total: Floats
    worst_broker: npt.NDArray[np.int32]
    events: Ints

    @property
    def failed_lists(self) -> pa.Array:
        """The ids of the brokers that are down, a list a scenario."""
        return pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), pa.array(self.failed, pa.int32()))


def _names(kind: str, *ids: npt.NDArray[np.int32]) -> pa.Array:
    texts = [pa.array(part, pa.int32()).cast(pa.string()) for part in ids]
    return pc.binary_join_element_wise(f"{kind}:", pc.binary_join_element_wise(*texts, ","), "")


def _worst(after: Floats, survive: npt.NDArray[np.bool_], ids: npt.NDArray[np.int32]) -> tuple[Floats, Floats, Ints]:
    """(worst (s, loads), total (s, loads), id of the worst by leaders or -1) of after (s, n, loads), survive (s, n)."""
    shown = np.where(survive[:, :, None], after, 0.0)
    if not after.shape[1]:
        return np.zeros(shown.shape[::2]), np.zeros(shown.shape[::2]), np.full(len(after), -1)
    at = np.where(survive, after[:, :, LEADERS], -1.0).argmax(axis=1)
    worst_broker = np.where(survive.any(axis=1), ids[at], -1)
    return shown.max(axis=1), shown.sum(axis=1), worst_broker


def _singles(outcome: Outcome) -> _After:
    ids, led, taken = outcome.ids, outcome.array("led"), outcome.array("taken")
    n = len(ids)
    survive = ~np.eye(n, dtype=np.bool_)
    worst, total, broker = _worst(led[None] + taken, survive, ids)
    return _After(
        BROKER,
        _names(BROKER, ids),
        ids,
        np.arange(n + 1),
        np.full(n, n - 1),
        led[:, LEADERS].astype(np.int64),
        (taken[:, :, LEADERS] > 0).sum(axis=1),
        worst,
        total,
        broker.astype(np.int32),
        outcome.counts("now") + outcome.counts("singles"),
    )


def _pairs(outcome: Outcome) -> _After:
    ids, n = outcome.ids, len(outcome.ids)
    wanted = len(outcome.sums["pair_events"]) > 0
    a, b = np.triu_indices(n if wanted else 0, 1)
    leaders = outcome.array("led")[:, LEADERS].astype(np.int64)
    at = outcome.sums["pair_broker"]
    unknown = np.full((len(a), LOADS - FETCH), np.nan)  # what leaders send to followers is not followed for pairs
    return _After(
        PAIR,
        _names(PAIR, ids[a], ids[b]),
        np.column_stack([ids[a], ids[b]]).ravel(),
        np.arange(len(a) + 1) * 2,
        np.full(len(a), n - 2),
        leaders[a] + leaders[b],
        outcome.counts("pair_receivers"),
        np.column_stack([outcome.array("pair_worst"), unknown]),
        np.column_stack([outcome.array("pair_total"), unknown]),
        np.where(at >= 0, ids[np.maximum(at, 0)] if n else -1, -1).astype(np.int32),
        outcome.counts("pair_events"),
    )


def _members(outcome: Outcome) -> npt.NDArray[np.bool_]:
    """bool (s, n): which brokers a listed scenario kills."""
    scenarios = outcome.scenarios
    out = np.zeros((len(scenarios.kind), len(outcome.ids)), dtype=np.bool_)
    out[np.repeat(np.arange(len(out)), np.diff(scenarios.offsets)), scenarios.member] = True
    return out


def _listed(outcome: Outcome) -> Iterator[_After]:
    """Racks, lists and random sets."""
    scenarios, ids = outcome.scenarios, outcome.ids
    down, led = _members(outcome), outcome.array("led")
    lost, taken = outcome.array("scenario_lost"), outcome.array("scenario_taken")
    worst, total, broker = _worst(led[None] - lost + taken, ~down, ids)
    events = outcome.counts("now") + outcome.counts("scenario_events")
    for kind in dict.fromkeys(scenarios.kind.tolist()):
        of = np.flatnonzero(scenarios.kind == kind)
        failed, failed_offsets = take_segments(scenarios.failed, scenarios.failed_offsets, of)
        yield _After(
            kind,
            pa.array(scenarios.name[of].tolist(), pa.string()),
            failed.astype(np.int32),
            failed_offsets,
            (~down[of]).sum(axis=1),
            (down[of] * led[None, :, LEADERS]).sum(axis=1).astype(np.int64),
            (taken[of, :, LEADERS] > 0).sum(axis=1),
            worst[of],
            total[of],
            broker[of].astype(np.int32),
            events[of],
        )


def _restart(outcome: Outcome) -> _After:
    """The steps of a rolling restart, by rising id."""
    ids, n = outcome.ids, len(outcome.ids)
    load, events = outcome.array("led")[:, :FETCH].copy(), outcome.counts("now").copy()
    moved, returned = outcome.array("moved"), outcome.array("returned")
    worst, total = np.full((n, LOADS), np.nan), np.full((n, LOADS), np.nan)
    lost, broker, seen = np.zeros(n, np.int64), np.full(n, -1, np.int32), np.empty((n, len(events)), np.int64)
    for step in range(n):
        lost[step] = load[step, LEADERS]
        load[step] = 0
        load += moved[step]
        seen[step] = events + outcome.counts("during")[step]
        others = np.flatnonzero(np.arange(n) != step)
        if len(others):
            worst[step, :FETCH], total[step, :FETCH] = load[others].max(axis=0), load[others].sum(axis=0)
            broker[step] = ids[others[load[others, LEADERS].argmax()]]
        load[step] += returned[step]
        events += outcome.counts("from_then")[step]
    takeover_brokers = (moved[:, :, LEADERS] > 0).sum(axis=1)
    ends = np.arange(n + 1)
    worst[:, LEADERS], total[:, LEADERS] = np.nan_to_num(worst[:, LEADERS]), np.nan_to_num(total[:, LEADERS])
    name = _names(SHUTDOWN, ids)
    return _After(SHUTDOWN, name, ids, ends, np.full(n, n - 1), lost, takeover_brokers, worst, total, broker, seen)


def _nullable(values: npt.NDArray[np.generic], known: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind, mask=~known)


def _summary(after: _After, outcome: Outcome) -> pa.Table:
    n = len(after.survivors)
    some = after.survivors > 0
    mean = np.divide(after.total, after.survivors[:, None], out=np.zeros_like(after.total), where=some[:, None])
    ratio = np.divide(after.worst, mean, out=np.full_like(mean, np.nan), where=mean > 0)
    for load, known in outcome.rates_known.items():
        if not known:
            ratio[:, load] = np.nan
    events, now = after.events, outcome.counts("now")
    sized = events[:, UNSIZED] == 0
    columns = [
        pa.repeat(after.kind, n),
        after.name,
        after.failed_lists,
        after.survivors,
        after.lost,
        after.takeover_brokers,
        _nullable(mean[:, LEADERS], some, pa.float64()),
        _nullable(after.worst[:, LEADERS].astype(np.int64), some, pa.int64()),
        _nullable(after.worst_broker, after.worst_broker >= 0, pa.int32()),
        *(
            _nullable(ratio[:, load], ~np.isnan(ratio[:, load]), pa.float64())
            for load in (LEADERS, BYTES_IN, BYTES_OUT, FETCH)
        ),
        events[:, OFFLINE],
        events[:, OFFLINE] - now[OFFLINE],
        _nullable(events[:, OFFLINE_BYTES], sized, pa.int64()),
        np.full(n, now[UNDER_MIN]),
        events[:, UNDER_MIN],
        events[:, AT_ONE],
        events[:, UNCLEAN],
        _nullable(events[:, AT_STAKE], events[:, STAKE_UNKNOWN] == 0, pa.int64()),
    ]
    arrays = [column if isinstance(column, pa.Array) else pa.array(column) for column in columns]
    return pa.Table.from_arrays(arrays, names=SUMMARY.names).cast(SUMMARY)


def summary(outcome: Outcome) -> pa.Table:
    """All scenarios of a cluster under a scheme (schema SUMMARY)."""
    every = [_singles(outcome), _pairs(outcome), *_listed(outcome), _restart(outcome)]
    return pa.concat_tables([_summary(after, outcome) for after in every])


def random_summary(outcome: Outcome) -> pa.Table:
    """The random sets alone (schema SUMMARY)."""
    drawn = (_summary(after, outcome) for after in _listed(outcome) if after.kind == RANDOM)
    return pa.concat_tables([SUMMARY.empty_table(), *drawn])


def _load_rows(
    after: _After, before: Floats, then: Floats, gained: Floats, survive: npt.NDArray[np.bool_], outcome: Outcome
) -> pa.Table:
    """Rows of LOAD. before: float64 (n, loads); then, gained: (s, n, loads); survive: bool (s, n)."""
    scenario, broker = np.nonzero(survive)
    at = pa.array(scenario)
    columns = [
        pa.repeat(after.kind, len(scenario)),
        after.name.take(at),
        after.failed_lists.take(at),
        pa.array(outcome.ids[broker], pa.int32()),
        pa.array(before[broker, LEADERS].astype(np.int64)),
        pa.array(gained[scenario, broker, LEADERS].astype(np.int64)),
        pa.array(then[scenario, broker, LEADERS].astype(np.int64)),
    ]
    for _, load in _RATES:
        known = outcome.rates_known[load] and load < then.shape[2]
        if known:
            columns += [pa.array(before[broker, load]), pa.array(then[scenario, broker, load])]
        else:
            columns += [pa.nulls(len(scenario), pa.float64())] * 2
    return pa.Table.from_arrays(columns, names=LOAD.names).cast(LOAD)


@dataclass(frozen=True)
class Followed:
    """Scenarios of one kind whose survivors are told one by one.

    then, gained: float64 (s, n, loads), what each leads afterwards, and takes over.   survive: bool (s, n).
    """

    after: _After
    then: Floats
    gained: Floats
    survive: npt.NDArray[np.bool_]


def followed(outcome: Outcome) -> Iterator[Followed]:
    """Single failures, racks and lists."""
    led, taken = outcome.array("led"), outcome.array("taken")
    yield Followed(_singles(outcome), led[None] + taken, taken, ~np.eye(len(outcome.ids), dtype=np.bool_))
    down = _members(outcome)
    lost, gained = outcome.array("scenario_lost"), outcome.array("scenario_taken")
    for after in _listed(outcome):
        if after.kind in (RACK, LIST):
            of = np.flatnonzero(outcome.scenarios.kind == after.kind)
            yield Followed(after, led[None] - lost[of] + gained[of], gained[of], ~down[of])


def loads(outcome: Outcome) -> Iterator[pa.Table]:
    """Each survivor of every single, rack and list (schema LOAD); of pairs too, where their third entries are kept."""
    for one in followed(outcome):
        yield _load_rows(one.after, outcome.array("led"), one.then, one.gained, one.survive, outcome)
    if "third_key" in outcome.sums:
        yield from _pair_loads(outcome)


def _pair_loads(outcome: Outcome) -> Iterator[pa.Table]:
    after, n = _pairs(outcome), len(outcome.ids)
    led, taken = outcome.array("led")[:, :FETCH], outcome.array("taken")[:, :, :FETCH]
    key, third = outcome.counts("third_key"), outcome.array("third_sum")
    first, second = np.triu_indices(n, 1)
    step = max(1, _PAIR_ROWS // max(n, 1))
    for begin in range(0, len(after.survivors), step):
        part = slice(begin, min(begin + step, len(after.survivors)))
        a, b = first[part], second[part]
        gained = taken[a] + taken[b]
        entry = np.flatnonzero(np.isin(key // n, a * n + b))
        row = np.searchsorted(a * n + b, key[entry] // n)
        gained[row, key[entry] % n] += third[entry]
        survive = np.ones((len(a), n), dtype=np.bool_)
        survive[np.arange(len(a)), a] = survive[np.arange(len(a)), b] = False
        of_these = {name: getattr(after, name)[part] for name in _BY_SCENARIO}
        failed, offsets = after.failed[2 * part.start : 2 * part.stop], np.arange(len(a) + 1) * 2
        some = replace(after, failed=failed, offsets=offsets, **of_these)
        yield _load_rows(some, led, led[None] + gained, gained, survive, outcome)
