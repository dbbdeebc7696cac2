"""Requests that are answered at once and delayed requests: every condition true and false on its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.simulation.event_helpers import (
    AWAY,
    T,
    append,
    cluster,
    consume,
    describe_final_health,
    down,
    fetch,
    find_request,
    led_partition,
    partition_event,
    simulate_requests,
)
from udfs.simulation.cluster_events import Event, InitialPartition, InitialState
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.simulator import simulate

PAIR = cluster(led_partition(1, 2))


# ---- produce


@pytest.mark.parametrize(
    ("acks", "base", "answer"),
    [
        (0, -1, (False, "NONE", "nothing awaited", 5)),
        (1, 7, (False, "NONE", "append", 5)),
        (-1, 7, (True, "NONE", "high watermark", 9)),
    ],
)
def test_acks(acks: int, base: int, answer: tuple[Any, ...]) -> None:
    begin = cluster(led_partition(1, 2, leos=(7, 7), hws=(7, 7)))
    events = [append(5, 3, acks), fetch(7, 2), fetch(9, 2)]
    assert find_request(begin, *events) == answer
    row = simulate_requests(begin, *events)[0]
    assert (row["base_offset"], row["messages"], row["waited_ms"]) == (base, 3, answer[3] - 5)


def test_min_isr_before_the_append() -> None:
    begin = cluster(led_partition(1, 2, 3, isr=(1,), min_isr=2))
    row = simulate_requests(begin, append(0, 3, -1))[0]
    assert (row["error"], row["answered_by"], row["base_offset"]) == ("NOT_ENOUGH_REPLICAS", "at once", None)
    assert describe_final_health(simulate(begin, [append(0, 3, -1)]))["log_end_offset"] == 0  # nothing is appended
    for acks in (0, 1):
        assert simulate_requests(begin, append(0, 3, acks))[0]["error"] == "NONE"
    assert (
        simulate_requests(cluster(led_partition(1, 2, 3, isr=(1, 2), min_isr=2)), append(0, 3, -1))[0]["error"]
        == "NONE"
    )


def test_min_isr_after_the_append() -> None:
    """The follower leaves the ISR while the produce waits: the messages are appended but not safe."""
    begin = cluster(led_partition(1, 2, min_isr=2), replica_lag_time_max_ms=1000)
    events = [fetch(0, 2), append(1, 3, -1, wait=60_000)]
    assert find_request(begin, *events, of=1, end_at=2000) == (
        True,
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "high watermark",
        1500,
    )
    begin = cluster(led_partition(1, 2, min_isr=1), replica_lag_time_max_ms=1000)
    assert find_request(begin, *events, of=1, end_at=2000) == (True, "NONE", "high watermark", 1500)


@pytest.mark.parametrize(
    ("event", "begin", "delayed"),
    [
        (append(0, 1, -1), PAIR, True),
        (append(0, 1, 1), PAIR, False),  # acks are not all
        (append(0, 1, 0), PAIR, False),
        (append(0, 0, -1), PAIR, False),  # no messages
        (append(0, 1, -1), cluster(led_partition(1, 2, isr=(1,), min_isr=2)), False),  # the append was rejected
    ],
)
def test_when_a_produce_is_delayed(event: Event, begin: InitialState, delayed: bool) -> None:
    row = simulate_requests(begin, event)[0]
    assert row["delayed"] == delayed
    assert (row["answered_at_ms"] is None) == delayed


def test_a_produce_without_a_leader() -> None:
    begin = InitialState((1, 2, AWAY), frozenset({2, AWAY}), (InitialPartition(T, (1, 2), (1,), None),), AWAY, 1)
    assert find_request(begin, append(0, 1, 1)) == (False, "LEADER_NOT_AVAILABLE", "at once", 0)
    assert find_request(begin, append(0, 1, 0)) == (False, "LEADER_NOT_AVAILABLE", "nothing awaited", 0)
    assert find_request(begin, consume(0)) == (False, "LEADER_NOT_AVAILABLE", "at once", 0)


@pytest.mark.parametrize(
    ("then", "answer"),
    [
        ([fetch(10, 2), fetch(20, 2)], (True, "NONE", "high watermark", 20)),
        ([fetch(10, 2)], (True, "REQUEST_TIMED_OUT", "timeout", 1000)),
        ([fetch(10, 2), fetch(1000, 2)], (True, "REQUEST_TIMED_OUT", "timeout", 1000)),  # its deadline comes first
        ([fetch(10, 2), fetch(999, 2)], (True, "NONE", "high watermark", 999)),
        (
            [partition_event(50, EventKind.REASSIGN_PARTITION, replicas=(2,))],
            (True, "NOT_LEADER_OR_FOLLOWER", "leader changed", 50),
        ),
        ([Event(50, EventKind.CONTROLLED_SHUTDOWN, 1)], (True, "NOT_LEADER_OR_FOLLOWER", "leader changed", 50)),
        ([down(50, 1)], (True, "DISCONNECTED", "broker down", None)),  # no broker can answer
        ([down(50, 2)], (True, "NONE", "high watermark", 50)),  # the ISR is the leader alone
        ([partition_event(50, EventKind.ALTER_ISR, replicas=(1,))], (True, "NONE", "high watermark", 50)),
        ([partition_event(50, EventKind.DELETE_PARTITION)], (True, "UNKNOWN_TOPIC_OR_PARTITION", "topic deleted", 50)),
        (
            [partition_event(50, EventKind.REASSIGN_PARTITION, replicas=(1, 2))],
            (True, "REQUEST_TIMED_OUT", "timeout", 1000),
        ),  # same leader
    ],
)
def test_how_a_delayed_produce_ends(then: list[Event], answer: tuple[Any, ...]) -> None:
    assert find_request(PAIR, append(0, 1, -1), *then, end_at=2000) == answer


def test_a_produce_that_is_still_waiting() -> None:
    assert find_request(PAIR, append(0, 1, -1), end_at=999) == (True, "NONE", "waiting", None)


def test_a_single_replica_isr_does_not_delay_a_produce() -> None:
    assert find_request(cluster(led_partition(1)), append(5, 1, -1)) == (True, "NONE", "at once", 5)


def test_produces_are_answered_in_order() -> None:
    begin, events = PAIR, [append(0, 2, -1), append(1, 2, -1), fetch(2, 2, 0), fetch(3, 2, 2), fetch(4, 2, 4)]
    answers = [
        (row["base_offset"], row["answered_at_ms"])
        for row in simulate_requests(begin, *events)
        if row["kind"] == "produce"
    ]
    assert answers == [(0, 3), (2, 4)]


# ---- fetch


FULL = cluster(led_partition(1, 2, 3, leos=(3, 3, 3), hws=(3, 3, 3)))


@pytest.mark.parametrize(
    ("wait", "least", "offset", "delayed"),
    [
        (100, 400, 0, True),
        (0, 400, 0, False),  # its longest wait is 0
        (100, 300, 0, False),  # there is enough
        (100, 1, 3, True),
        (100, 0, 3, False),
        (100, 400, 4, False),  # the read fails
    ],
)
@pytest.mark.parametrize("broker", [2, None])
def test_when_a_fetch_is_delayed(broker: int | None, wait: int, least: int, offset: int, delayed: bool) -> None:
    event = Event(0, EventKind.FETCH, broker, T, fetch_offset=offset, wait_ms=wait, min_bytes=least)
    row = simulate_requests(FULL, event)[0]
    assert (row["delayed"], row["answered_at_ms"]) == (delayed, None if delayed else 0)
    assert row["error"] == ("OFFSET_OUT_OF_RANGE" if offset == 4 else "NONE")
    assert row["messages"] == (0 if delayed or offset == 4 else 3 - offset)


@pytest.mark.parametrize(
    ("then", "answer", "messages"),
    [
        ([append(10, 1), append(20, 1)], (True, "NONE", "append", 20), 2),
        ([append(10, 1)], (True, "NONE", "timeout", 500), 1),
        ([], (True, "NONE", "timeout", 500), 0),
        ([append(500, 2)], (True, "NONE", "timeout", 500), 0),
        ([append(10, 1), fetch(20, 2)], (True, "NONE", "newer fetch", 20), 0),
        ([append(10, 1), fetch(20, 3)], (True, "NONE", "timeout", 500), 1),  # another's
        ([down(10, 2)], (True, "DISCONNECTED", "broker down", None), 0),
        ([down(10, 1)], (True, "DISCONNECTED", "broker down", None), 0),
        ([Event(10, EventKind.CONTROLLED_SHUTDOWN, 1)], (True, "NOT_LEADER_OR_FOLLOWER", "leader changed", 10), 0),
        ([down(10, 3)], (True, "FENCED_LEADER_EPOCH", "leader changed", 10), 0),  # same leader, another epoch
        (
            [partition_event(10, EventKind.DELETE_PARTITION)],
            (True, "UNKNOWN_TOPIC_OR_PARTITION", "topic deleted", 10),
            0,
        ),
    ],
)
def test_how_a_delayed_fetch_of_a_replica_ends(then: list[Event], answer: tuple[Any, ...], messages: int) -> None:
    events = [fetch(0, 2, wait=500, min_bytes=200), *then]
    assert find_request(FULL, *events, end_at=1000) == answer
    assert simulate_requests(FULL, *events, end_at=1000)[0]["messages"] == messages


CAUGHT_UP = [fetch(10, 2), fetch(10, 3)]


@pytest.mark.parametrize(
    ("then", "answer", "messages"),
    [
        ([append(1, 2), fetch(2, 2), fetch(2, 3), fetch(3, 2), fetch(4, 3)], (True, "NONE", "high watermark", 4), 2),
        ([append(1, 2), fetch(2, 2), fetch(2, 3)], (True, "NONE", "timeout", 500), 0),  # written, not committed
        ([append(1, 1), fetch(2, 2), fetch(2, 3), fetch(3, 2), fetch(4, 3)], (True, "NONE", "timeout", 500), 1),
        ([consume(20, 3, wait=500)], (True, "NONE", "timeout", 500), 0),  # a consumer may have several waiting fetches
        ([down(10, 1)], (True, "DISCONNECTED", "broker down", None), 0),
        ([Event(10, EventKind.CONTROLLED_SHUTDOWN, 1)], (True, "NOT_LEADER_OR_FOLLOWER", "leader changed", 10), 0),
        ([down(10, 3)], (True, "FENCED_LEADER_EPOCH", "leader changed", 10), 0),
    ],
)
def test_how_a_delayed_fetch_of_a_consumer_ends(then: list[Event], answer: tuple[Any, ...], messages: int) -> None:
    events = [consume(0, 3, wait=500, min_bytes=200), *then]
    assert find_request(FULL, *events, end_at=1000) == answer
    assert simulate_requests(FULL, *events, end_at=1000)[0]["messages"] == messages


@pytest.mark.parametrize(
    ("epoch", "offset", "error"),
    [
        (4, 3, "FENCED_LEADER_EPOCH"),
        (5, 3, "NONE"),
        (6, 3, "UNKNOWN_LEADER_EPOCH"),
        (-1, 3, "NONE"),
        (5, 4, "OFFSET_OUT_OF_RANGE"),
        (4, 4, "FENCED_LEADER_EPOCH"),  # Kafka checks the epoch before it reads
    ],
)
@pytest.mark.parametrize("broker", [2, None])
def test_the_leader_epoch_of_a_fetch(broker: int | None, epoch: int, offset: int, error: str) -> None:
    begin = cluster(led_partition(1, 2, leos=(3, 3), hws=(3, 3), leader_epoch=5))
    event = Event(0, EventKind.FETCH, broker, T, fetch_offset=offset, wait_ms=50, min_bytes=0, leader_epoch=epoch)
    assert simulate_requests(begin, event)[0]["error"] == error


def test_brokers_that_may_not_fetch() -> None:
    assert simulate_requests(PAIR, down(0, 2), fetch(1, 2))[0]["error"] == "BROKER_DOWN"
    assert simulate_requests(PAIR, fetch(1, 1))[0]["error"] == "NOT_ASSIGNED_REPLICA"
    assert simulate_requests(PAIR, down(0, 2), consume(1))[0]["error"] == "NONE"


def test_a_rejected_fetch_has_no_offset() -> None:
    """These errors come before the log is read. A fetch that fails after waiting keeps its offset."""
    assert simulate_requests(PAIR, down(0, 2), fetch(1, 2))[0]["base_offset"] is None
    assert simulate_requests(PAIR, fetch(1, 1))[0]["base_offset"] is None
    assert simulate_requests(FULL, consume(0, 4))[0]["base_offset"] is None  # out of range
    (failed,) = simulate_requests(
        FULL, consume(0, 3, wait=500), Event(10, EventKind.CONTROLLED_SHUTDOWN, 1), end_at=1000
    )
    assert (failed["error"], failed["base_offset"]) == ("NOT_LEADER_OR_FOLLOWER", 3)
    assert simulate_requests(FULL, consume(0, 2))[0]["base_offset"] == 2
