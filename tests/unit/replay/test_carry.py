"""A fold in pieces, each going on from the rows that the one before left, against one fold over everything."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.samples import Sampled
from tests.unit.replay.any_cases import with_data, with_raft
from tests.unit.replay.interpreter import interpret
from tests.unit.replay.random_cases import random_case, random_data_case
from tests.unit.replay.resumed import resume, wired
from udfs.kernels import replay_codes as k
from udfs.replay.carry import carried, cluster_rows, state_rows
from udfs.replay.events import Begin, Event, Held, Rules, event_log
from udfs.replay.fold import Folded, folded
from udfs.replay.packing import pack
from udfs.replay.rows import Rows
from udfs.replay.schema import EVENTS, WIRE
from udfs.replay.together import folded_whole, rows_together

SEQUENCES = 300
Case = Callable[[int], tuple[Begin, list[Event]]]
Row = dict[str, Any]
WHOSE = ("cluster_id", "topic", "partition")


class _Union:
    """Rows of several folds, later ones instead of earlier ones with the same key."""

    def __init__(self) -> None:
        self.health: dict[tuple[Any, ...], Row] = {}
        self.requests: dict[tuple[Any, ...], Row] = {}
        self.written: dict[str, dict[tuple[Any, ...], Row]] = {"leaderships": {}, "transitions": {}}
        self.at_the_end: dict[tuple[Any, ...], Row] = {}

    def add(self, of: Folded) -> None:
        rows = Rows(of)
        for name, held in self.written.items():
            new = _keyed(getattr(rows, name)(), *WHOSE, "event", "step")
            assert not held.keys() & new.keys(), name  # what was written stays as it is
            held |= new
        health = _keyed(rows.health(), *WHOSE, "from_ms")
        there = _keyed(state_rows(of), *WHOSE).keys()
        self.health = {key: row for key, row in self.health.items() if not (row["at_the_end"] and key[:3] in there)}
        self.health |= health
        self.requests |= _keyed(rows.requests(), *WHOSE, "event", "request")
        self.at_the_end = _keyed(rows.at_the_end(), *WHOSE)


def _keyed(table: pa.Table, *names: str) -> dict[tuple[Any, ...], Row]:
    rows = {tuple(row[name] for name in names): row for row in table.to_pylist()}
    assert len(rows) == table.num_rows
    return rows


def _events(table: pa.Table, first: int, last: int) -> pa.Table:
    return table.filter(pc.and_(pc.greater_equal(table["event"], first), pc.less(table["event"], last)))


def _cuts(draw: random.Random, size: int) -> list[int]:
    return sorted({draw.randint(1, max(size - 1, 1)) for _ in range(draw.randint(1, 3))})


def _pieces(begin: Begin, events: list[Event], draw: random.Random, name: str = "") -> list[tuple[pa.Table, int]]:
    """(a piece of the log, until when its fold goes on), in order; the first with the begin."""
    cuts = [0, *_cuts(draw, len(events)), len(events)]
    whole, out = event_log(begin, events, cluster=name), []
    for first, last in pairwise(cuts):
        latest = events[last].at_ms if last < len(events) else events[-1].at_ms
        until = draw.choice([events[last - 1].at_ms, draw.randint(events[last - 1].at_ms, latest)])
        piece = event_log(begin, events[:last], until, name) if first == 0 else _events(whole, first, last)
        out.append((piece, until))
    return out


def _in_pieces(pieces: list[tuple[pa.Table, int]], draw: random.Random) -> _Union:
    union, rows = _Union(), None
    for piece, until in pieces:
        log = piece if rows is None else resume(rows, wired(piece) if draw.random() < 0.5 else piece, until)
        of = folded_whole(log)
        union.add(of)
        rows = carried(of)
    return union


def _same(whole: Folded, union: _Union, seed: int) -> None:
    want = _Union()
    want.add(whole)
    assert union.at_the_end == want.at_the_end, seed
    assert union.written == want.written, seed
    assert union.health == want.health, seed
    assert union.requests == want.requests, seed


@pytest.mark.slow
@pytest.mark.parametrize("case", [random_case, random_data_case, with_data, with_raft])
def test_pieces_are_as_the_whole(case: Case, sampled: Sampled) -> None:
    for seed in sampled.seeds(SEQUENCES):
        begin, events = case(seed)
        draw = random.Random(-seed)
        union = _in_pieces(_pieces(begin, events, draw), draw)
        _same(folded_whole(event_log(begin, events)), union, seed)


def test_an_append_that_all_have_can_be_lost() -> None:
    """All of the AR have it, and nobody waits; then a replica comes anew, and leads, uncleanly."""
    append = Event(0, k.APPEND, partition=("t", 0), request=0, messages=3)
    moved = Event(1, k.REASSIGN, partition=("t", 0), replicas=(2, 1))
    events = [append, moved, Event(2, k.BROKER_DOWN, 1)]
    begin = Begin((1, 2), frozenset({1, 2}), (Held(("t", 0), (1,), (1,), 1, unclean=True),), 2)
    first = carried(folded_whole(event_log(begin, events[:1])))
    of = folded_whole(resume(first, _events(event_log(begin, events), 1, 3)))
    assert [row["lost_messages"] for row in Rows(of).requests().to_pylist()] == [3]


def test_a_request_is_told_again_only_if_something_happened_to_it() -> None:
    of = {"partition": ("t", 0)}
    appends = [Event(at, k.APPEND, request=at, messages=1, acks=1, **of) for at in (0, 1, 2)]
    fetch = Event(3, k.FETCH, broker=2, request=3, **of)
    begin = Begin((1, 2), frozenset({1, 2}), (Held(("t", 0), (1, 2), (1, 2), 1, unclean=True),), 2)
    events = [*appends, fetch, Event(4, k.BROKER_DOWN, 1), Event(5, k.BROKER_UP, 1)]
    rows, told = None, []
    for n in range(len(events)):
        new = _events(event_log(begin, events), n, n + 1)
        piece = event_log(begin, events[:1]) if rows is None else resume(rows, new)
        result = folded_whole(piece)
        told.append(sorted(row["request"] for row in Rows(result).requests().to_pylist()))
        rows = carried(result)
    assert told == [[0], [1], [2], [3], [], []]


@pytest.mark.slow
def test_clusters_are_carried_together_or_by_partition(sampled: Sampled) -> None:
    """Two clusters in each call, cut at other places; then the same with some of the partitions in each call."""
    for seed in sampled.seeds(SEQUENCES // 3):
        draw = random.Random(-seed)
        cases = {"a": with_data(2 * seed), "b": random_case(2 * seed + 1)}
        whole = folded_whole(pa.concat_tables([event_log(*case, cluster=name) for name, case in cases.items()]))
        pieces = [_pieces(*case, draw, name) for name, case in cases.items()]
        together, apart = _Union(), _Union()
        rows = parts = None
        for turn in range(max(map(len, pieces))):
            new = wired(pa.concat_tables([one[turn][0] for one in pieces if turn < len(one)]))
            of = folded_whole(new if rows is None else resume(rows, new))
            together.add(of)
            rows = carried(of)
            parts = _apart(new if parts is None else resume(parts, new), apart)
        _same(whole, together, seed)
        _same(whole, apart, seed)


def _apart(log: pa.Table, union: _Union) -> pa.Table:
    """What is carried after a fold in two calls, as workers of Spark do it."""
    log = pa.concat_tables([log, rows_together(pack(log), WIRE)])
    half = np.asarray(pc.fill_null(log["partition"], -1)) % 2
    none = np.asarray(pc.is_null(log["partition"]))
    calls = [folded(pack(log.filter(pa.array(none | (half == which))))) for which in (0, 1)]
    ends: dict[tuple[Any, ...], Row] = {}
    for of in calls:
        union.add(of)
        ends |= union.at_the_end
    union.at_the_end = ends
    return pa.concat_tables([cluster_rows(calls[0]), *(state_rows(of) for of in calls)])


def test_a_row_is_written_as_it_was_read() -> None:
    for seed in range(SEQUENCES // 6):
        begin, events = with_data(seed)
        first = carried(folded_whole(event_log(begin, events)))
        again = carried(folded_whole(resume(first, _events(event_log(begin, events), 0, 0))))
        assert again.equals(first), seed


def test_rows_of_another_version_are_refused() -> None:
    begin, events = random_data_case(1)
    rows = state_rows(folded_whole(event_log(begin, events)))
    numbers = pa.array([[1, 2, 3]] * rows.num_rows, EVENTS.field("numbers").type)
    other = rows.set_column(len(EVENTS) - 1, EVENTS.field("numbers"), numbers)
    clusters = cluster_rows(folded_whole(event_log(begin, events)))
    with pytest.raises(ValueError, match="another version"):
        pack(pa.concat_tables([clusters, other]))
    with pytest.raises(ValueError, match="more than one row"):
        pack(pa.concat_tables([clusters, rows, rows]))


def _by_one(begin: Begin, events: list[Event]) -> tuple[Folded, _Union]:
    """(the whole, the union of a fold of each event alone)."""
    log, union, rows = event_log(begin, events), _Union(), None
    for n, event in enumerate(events):
        piece = event_log(begin, events[:1]) if rows is None else resume(rows, _events(log, n, n + 1), event.at_ms)
        of = folded_whole(piece)
        union.add(of)
        rows = carried(of)
    return folded_whole(log), union


def test_the_next_check_of_leaders_is_carried() -> None:
    begin = Begin((1, 2), frozenset({1, 2}), (Held(("t", 0), (1, 2), (1, 2), 2),), 1)
    rules = Rules(leader_imbalance_check_ms=10_000)
    begin = Begin(begin.brokers, begin.alive, begin.partitions, 1, 0, rules)
    events = [Event(at, k.APPEND, partition=("t", 0), request=at, messages=1) for at in (0, 4_000, 12_000)]
    whole, union = _by_one(begin, events)
    _same(whole, union, 0)
    assert [(row["cause"], row["at_ms"]) for row in union.written["leaderships"].values()] == [
        ("auto rebalance", 10_000)
    ]


def test_who_is_new_to_a_partition_lags_since_its_first_fetch() -> None:
    rules = Rules(auto_leader_rebalance=False, replica_lag_time_max_ms=600)
    begin = Begin((1, 2, 3), frozenset({1, 2, 3}), (Held(("t", 0), (1, 2), (1, 2), 1),), 1, 0, rules)
    of = {"partition": ("t", 0)}
    fetches = [Event(at, k.FETCH, broker=2, request=at, **of) for at in (0, 1_000, 1_400)]
    told = Event(1_000, k.SET_ISR, replicas=(1, 2, 3), **of)
    append = Event(1, k.APPEND, request=1, messages=1, **of)
    whole, union = _by_one(begin, [fetches[0], append, fetches[1], told, fetches[2]])
    _same(whole, union, 0)
    shrunk = [row for row in union.written["leaderships"].values() if row["cause"] == "isr shrunk"]
    assert [(row["at_ms"], row["event"], row["step"]) for row in shrunk][-1] == (1_200, 3, 1)


def test_a_reassignment_ends_when_any_broker_returns() -> None:
    """An unclean election has made the ISR what it is to be; that is seen at the next step of anybody."""
    held = Held(("t", 0), (1,), (1,), 1, unclean=True)
    begin = Begin((1, 2, 3, 4), frozenset({1, 2, 4}), (held,), 4)
    of = {"partition": ("t", 0)}
    events = [Event(0, k.REASSIGN, replicas=(2,), **of), Event(1, k.BROKER_DOWN, 1), Event(2, k.BROKER_UP, 3)]
    ar = [one["replicas"] for one in Rows(folded_whole(event_log(begin, events))).at_the_end().to_pylist()]
    assert ar == [interpret(begin, events).partitions["t", 0].ar] == [[2]]
    whole, union = _by_one(begin, [*events, Event(3, k.REASSIGN, replicas=(3,), **of)])
    _same(whole, union, 0)


def test_clusters_of_a_call_know_nothing_of_each_other() -> None:
    """Also where a partition waits for a leader from the first step on."""
    events = [Event(0, k.BROKER_DOWN, 2), Event(5, k.BROKER_UP, 2), Event(9, k.BROKER_UP, 1)]
    begins = [Begin((1, 2), frozenset({2}), (Held(("t", 0), ar, ar[:1], None),), 2) for ar in ((1,), (1, 2))]
    logs = [event_log(begin, events, cluster=name) for begin, name in zip(begins, "ab", strict=True)]
    apart = _Union()
    for log in logs:
        of = folded_whole(log)
        for name, held in apart.written.items():
            held |= _keyed(getattr(Rows(of), name)(), *WHOSE, "event", "step")
    together = _Union()
    together.add(folded_whole(pa.concat_tables(logs)))
    assert together.written == apart.written
