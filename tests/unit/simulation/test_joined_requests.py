"""Requests of several partitions: every condition on its own, and random ones against plain Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.simulation.comparison import collect_interpreted
from tests.unit.simulation.event_helpers import (
    Row,
    T,
    append,
    cluster,
    consume,
    down,
    fetch,
    led_partition,
    partition_event,
)
from tests.unit.simulation.interpreter import interpret
from tests.unit.simulation.random_cases import random_data_case
from udfs.simulation.cluster_events import Event, InitialState, TopicPartition
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.request_results import join_requests
from udfs.simulation.result_tables import ResultTables
from udfs.simulation.simulation_schemas import JOINED_REQUESTS, REQUESTS
from udfs.simulation.simulator import simulate

# ---- requests of several partitions


U = ("u", 0)
BOTH = cluster(led_partition(1, 2, leos=(3, 3), hws=(3, 3)), led_partition(1, 3, key=U, leos=(3, 3), hws=(3, 3)))


def wholes(begin: InitialState, *events: Event, end_at: int | None = None) -> list[Row]:
    """Return the parts of request 7, of T and of U."""
    rows: list[Row] = join_requests(ResultTables(simulate(begin, events, end_at)).requests).to_pylist()
    return sorted((row for row in rows if row["request"] == 7), key=lambda row: row["topic"])


def whole(begin: InitialState, *events: Event, end_at: int | None = None) -> tuple[Any, ...]:
    """Return (delayed, error, cause, time), which are the same for both parts."""
    rows = wholes(begin, *events, end_at=end_at)
    answers = {(row["delayed"], row["error"], row["answered_by"], row["answered_at_ms"]) for row in rows}
    assert len(rows) == 2
    assert len(answers) == 1
    for row in rows:
        assert row["waited_ms"] == (None if row["answered_at_ms"] is None else row["answered_at_ms"] - row["at_ms"])
    return answers.pop()


def produce_both(acks: int = -1, messages: tuple[int, int] = (1, 1)) -> list[Event]:
    more: Any = {"acks": acks, "request": 7, "parts": 2}
    return [append(0, messages[0], **more), append(0, messages[1], key=U, **more)]


T_DONE, U_DONE = [fetch(10, 2), fetch(20, 2)], [fetch(30, 3, key=U), fetch(40, 3, key=U)]


@pytest.mark.parametrize(
    ("then", "answer", "errors"),
    [
        ([*T_DONE, *U_DONE], (True, "NONE", "high watermark", 40), ["NONE", "NONE"]),
        (T_DONE, (True, "REQUEST_TIMED_OUT", "timeout", 1000), ["NONE", "REQUEST_TIMED_OUT"]),
        ([*T_DONE, down(30, 1)], (True, "DISCONNECTED", "broker down", None), ["NONE", "DISCONNECTED"]),
        (
            [*T_DONE, Event(30, EventKind.REASSIGN_PARTITION, partition=U, replicas=(3,))],
            (True, "NOT_LEADER_OR_FOLLOWER", "leader changed", 30),
            ["NONE", "NOT_LEADER_OR_FOLLOWER"],
        ),
        (
            [partition_event(5, EventKind.DELETE_PARTITION), *U_DONE],
            (True, "UNKNOWN_TOPIC_OR_PARTITION", "high watermark", 40),
            ["UNKNOWN_TOPIC_OR_PARTITION", "NONE"],
        ),
    ],
)
def test_a_produce_is_answered_with_its_last_part(
    then: list[Event], answer: tuple[Any, ...], errors: list[str]
) -> None:
    events = [*produce_both(), *then]
    assert whole(BOTH, *events, end_at=2000) == answer
    assert [row["part_error"] for row in wholes(BOTH, *events, end_at=2000)] == errors


def test_the_parts_of_a_produce_keep_their_own_times() -> None:
    rows = wholes(BOTH, *produce_both(), *T_DONE, *U_DONE)
    assert [row["part_answered_at_ms"] for row in rows] == [20, 40]
    rows = wholes(BOTH, *produce_both(), *T_DONE)
    assert [row["part_answered_at_ms"] for row in rows] == [20, None]
    assert whole(BOTH, *produce_both(), *T_DONE) == (True, "NONE", "waiting", None)


SHORT = cluster(led_partition(1, 2, isr=(1,), min_isr=2), led_partition(1, 3, key=U))
TOO_SHORT = cluster(led_partition(1, 2, isr=(1,), min_isr=2), led_partition(1, 3, key=U, isr=(1,), min_isr=2))


@pytest.mark.parametrize(
    ("begin", "acks", "messages", "delayed"),
    [
        (BOTH, -1, (1, 1), True),
        (BOTH, 1, (1, 1), False),
        (BOTH, 0, (1, 1), False),
        (BOTH, -1, (0, 0), False),
        (BOTH, -1, (0, 1), True),  # the request has messages
        (SHORT, -1, (1, 1), True),  # one append worked
        (TOO_SHORT, -1, (1, 1), False),  # none
    ],
)
def test_when_a_produce_of_several_is_delayed(
    begin: InitialState, acks: int, messages: tuple[int, int], delayed: bool
) -> None:
    rows = wholes(begin, *produce_both(acks, messages), end_at=2000)
    assert [row["delayed"] for row in rows] == [delayed, delayed]
    assert [row["deadline_ms"] for row in rows] == [1000 if delayed else None] * 2
    assert rows[0]["answered_at_ms"] == (1000 if delayed else 0)
    if begin is SHORT:
        assert [row["part_error"] for row in rows] == ["NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"]
        assert [row["part_answered_at_ms"] for row in rows] == [0, 1000]
        assert {row["error"] for row in rows} == {"NOT_ENOUGH_REPLICAS"}


def consume_both(least: int, wait: int = 500, offsets: tuple[int, int] = (3, 3), **more: Any) -> list[Event]:
    more.update(wait=wait, min_bytes=least, request=7, parts=2)
    return [consume(0, offsets[0], **more), consume(0, offsets[1], key=U, **more)]


def committed(at: int, messages: int, key: TopicPartition = T) -> list[Event]:
    """Return an append and two fetches of the follower, which commit it."""
    follower = 2 if key == T else 3
    return [append(at, messages, key=key), fetch(at, follower, key=key), fetch(at, follower, key=key)]


@pytest.mark.parametrize(
    ("least", "wait", "offsets", "answer"),
    [
        (201, 500, (2, 2), (True, "NONE", "timeout", 500)),
        (200, 500, (2, 2), (False, "NONE", "at once", 0)),  # together there is enough
        (200, 500, (1, 3), (False, "NONE", "at once", 0)),
        (201, 0, (2, 2), (False, "NONE", "at once", 0)),  # its longest wait is 0
        (201, 500, (2, 4), (False, "OFFSET_OUT_OF_RANGE", "at once", 0)),  # a read failed
    ],
)
def test_when_a_fetch_of_several_is_delayed(
    least: int, wait: int, offsets: tuple[int, int], answer: tuple[Any, ...]
) -> None:
    events = consume_both(least, wait, offsets)
    assert whole(BOTH, *events, end_at=1000) == answer
    rows = wholes(BOTH, *events, end_at=1000)
    assert [row["messages"] for row in rows] == [max(3 - offset, 0) for offset in offsets]
    assert rows[0]["part_error"] == "NONE"
    assert [row["part_answered_at_ms"] for row in rows] == [answer[3]] * 2


@pytest.mark.parametrize(
    ("then", "answer", "messages"),
    [
        ([*committed(10, 1), *committed(20, 2, U)], (True, "NONE", "high watermark", 20), [1, 2]),
        ([*committed(10, 1), *committed(20, 1), *committed(30, 2)], (True, "NONE", "high watermark", 30), [4, 0]),
        ([*committed(10, 1), *committed(20, 1, U)], (True, "NONE", "timeout", 500), [1, 1]),
        ([*committed(10, 1), append(20, 5, key=U)], (True, "NONE", "timeout", 500), [1, 0]),
        ([*committed(10, 1), *committed(500, 5, U)], (True, "NONE", "timeout", 500), [1, 0]),
        (
            [*committed(10, 1), Event(30, EventKind.REASSIGN_PARTITION, partition=U, replicas=(3,)), *committed(40, 9)],
            (True, "NOT_LEADER_OR_FOLLOWER", "leader changed", 30),
            [1, 0],
        ),
        ([*committed(10, 1), down(30, 1)], (True, "DISCONNECTED", "broker down", None), [0, 0]),
        ([*committed(10, 9), down(30, 1)], (True, "NONE", "high watermark", 10), [9, 0]),
        ([*committed(10, 9), down(30, 2)], (True, "NONE", "high watermark", 10), [9, 0]),
    ],
)
def test_how_a_delayed_fetch_of_several_ends(then: list[Event], answer: tuple[Any, ...], messages: list[int]) -> None:
    events = [*consume_both(300), *then]
    assert whole(BOTH, *events, end_at=1000) == answer
    rows = wholes(BOTH, *events, end_at=1000)
    assert [row["messages"] for row in rows] == messages
    failed = [row["part_error"] for row in rows]
    assert (failed == ["NONE", "NONE"]) == (answer[1] == "NONE")
    if answer[1] == "NOT_LEADER_OR_FOLLOWER":
        assert failed == ["NONE", "NOT_LEADER_OR_FOLLOWER"]
    for row in rows:
        assert row["high_watermark"] == (3 + row["messages"] if row["messages"] else row["high_watermark"])
    assert {row["part_answered_at_ms"] for row in rows} == {answer[3]}


def test_a_fetch_of_several_that_is_still_waiting() -> None:
    assert whole(BOTH, *consume_both(300), *committed(10, 1), end_at=400) == (True, "NONE", "waiting", None)


def test_requests_of_one_part_and_replica_fetches_are_unchanged() -> None:
    events = [append(0, 2, -1), consume(1, 3, wait=50), *committed(2, 1), fetch(3, 2, request=9, parts=2)]
    table = ResultTables(simulate(BOTH, events, 1000)).requests
    joined = join_requests(table)
    assert joined.schema.equals(JOINED_REQUESTS)
    assert joined.select(REQUESTS.names).equals(table)
    assert joined["part_error"].equals(table["error"])
    assert joined["part_answered_at_ms"].equals(table["answered_at_ms"])
    assert join_requests(table.slice(0, 0)).num_rows == 0


# ---- random requests against plain Python


@pytest.mark.slow
def test_no_difference_of_fetches_to_the_interpreter() -> None:
    """Joined rows have the error, time and messages of each part in the interpreter."""
    compared = 0
    for seed in range(300):
        begin, events = random_data_case(seed, facts=seed % 3 != 1)
        answers = collect_interpreted(interpret(begin, events))[2]
        for row in join_requests(ResultTables(simulate(begin, events)).requests).to_pylist():
            error, by, at, _, messages, _, _ = answers[row["request"], (row["topic"], row["partition"])]
            assert (row["part_error"], row["part_answered_at_ms"], row["messages"]) == (error, at, messages), seed
            assert by in (None, row["answered_by"]) or error == "DISCONNECTED", seed
            compared += row["parts"] > 1
    assert compared > 90


def produces(draw: random.Random) -> tuple[InitialState, list[Event]]:
    keys = [("t", number) for number in range(4)]
    # One leader of all, because the parts of a request go to one broker.
    lists = [(1, *draw.sample([2, 3], draw.randint(0, 2))) for _ in keys]
    partitions = [
        led_partition(*ar, key=key, min_isr=draw.choice([1, 1, 3])) for key, ar in zip(keys, lists, strict=True)
    ]
    events, at = [], 0
    for number in range(40):
        at += draw.choice([0, 1, 7])
        key, parts = draw.choice(keys), draw.sample(keys, draw.randint(1, 3))
        if draw.random() < 0.4:
            shared: Any = {"request": number, "parts": len(parts), "wait": draw.choice([0, 20, 60])}
            acks = draw.choice([0, 1, -1, -1])
            events += [append(at, draw.randint(0, 3), acks, key=one, **shared) for one in parts]
        elif draw.random() < 0.9:
            events.append(fetch(at, draw.choice([2, 3]), key=key))
        elif draw.random() < 0.5:
            events.append(down(at, draw.choice([1, 2, 3])))
        else:
            change = draw.choice([EventKind.DELETE_PARTITION, EventKind.REASSIGN_PARTITION])
            events.append(
                Event(at, change, partition=key, replicas=(3,) if change == EventKind.REASSIGN_PARTITION else None)
            )
    return cluster(*partitions), events


def expected_produce(parts: list[Row]) -> tuple[Any, ...]:
    """Return (delayed, error, time) of a whole produce, following docs/replay-rules.md."""
    delayed = (
        parts[0]["acks"] == -1
        and sum(row["messages"] for row in parts) > 0
        and any(row["base_offset"] is not None for row in parts)
    )
    if any(row["answered_at_ms"] is None for row in parts):
        return delayed, "DISCONNECTED" if any(row["error"] == "DISCONNECTED" for row in parts) else "NONE", None
    failed = sorted((row["answered_at_ms"], i) for i, row in enumerate(parts) if row["error"] != "NONE")
    error = parts[failed[0][1]]["error"] if failed else "NONE"
    return delayed, error, max(row["answered_at_ms"] for row in parts)


def test_produces_of_many_clusters() -> None:
    tables = []
    for seed in range(60):
        begin, events = produces(random.Random(seed))
        rows = ResultTables(simulate(begin, events, events[-1].at_ms + seed % 3 * 30)).requests
        for i, name in enumerate((f"c{seed // 2}", f"s{seed % 2}")):
            rows = rows.set_column(i, REQUESTS.field(i), pa.repeat(name, rows.num_rows))
        tables.append(rows)
    table = pa.concat_tables(tables)
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))
    in_order = shuffled.sort_by([(name, "ascending") for name in ("cluster_id", "snapshot_id", "event")])
    wholes, alone = join_requests(shuffled).to_pylist(), in_order.to_pylist()
    places: dict[tuple[Any, ...], list[int]] = {}
    for i, row in enumerate(alone):
        if row["parts"] > 1:
            places.setdefault((row["cluster_id"], row["snapshot_id"], row["request"]), []).append(i)
    endings = set()
    for rows in places.values():
        expected = expected_produce([alone[i] for i in rows])
        endings.add(expected[:2])
        assert {(wholes[i]["delayed"], wholes[i]["error"], wholes[i]["answered_at_ms"]) for i in rows} == {expected}
        assert all(wholes[i]["part_error"] == alone[i]["error"] for i in rows)
    assert len(endings) > 8  # enough different endings
