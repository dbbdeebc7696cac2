"""The interpreter: examples of docs/replay.md, worked by hand, and invariants of every history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.unit.simulation.interpreter import Controller, interpret
from tests.unit.simulation.random_cases import construct, random_data_case
from udfs.simulation.cluster_events import ClusterSettings, Event, InitialPartition, InitialState, TopicPartition
from udfs.simulation.kernels.codes import AnsweredBy, EventKind, RequestError

T: TopicPartition = ("t", 0)
NO_CHECKS = {"auto_leader_rebalance": False}


def begin(ar: Iterable[int], rules: dict[str, Any] | None = None, **fields: Any) -> InitialState:
    ar = tuple(ar)
    fields = {"isr": ar, "leader": ar[0]} | fields
    partition = construct(InitialPartition, T, ar, fields.pop("isr"), fields.pop("leader"), **fields)
    return InitialState(
        ar, frozenset(ar), (partition,), max(ar), 1, construct(ClusterSettings, **NO_CHECKS, **(rules or {}))
    )


def at(time: int, kind: int, broker: int | None = None, **more: Any) -> Event:
    return Event(
        time,
        kind,
        broker,
        None if kind in (EventKind.BROKER_DOWN, EventKind.BROKER_UP, EventKind.CONTROLLED_SHUTDOWN) else T,
        **more,
    )


def append(time: int, request: int, messages: int, acks: int = 1, **more: Any) -> Event:
    return at(time, EventKind.APPEND, request=request, messages=messages, acks=acks, **more)


def fetch(time: int, broker: int | None, **more: Any) -> Event:
    return at(time, EventKind.FETCH, broker, **more)


def get_offsets(model: Controller) -> dict[int, tuple[int, int]]:
    """Return (leo, hw) of each replica."""
    return {broker: (replica.leo, replica.hw) for broker, replica in model.partitions[T].replicas.items()}


def get_answer(model: Controller, request: int) -> tuple[int, int, int | None]:
    answer = model.requests[request, T]
    return answer["error"], answer["answered_by"], answer["answered_at"]


def test_the_smallest_leo_of_the_isr_is_the_high_watermark() -> None:
    start = begin((1, 2, 3, 4), leos=(25, 8, 9, 10), hws=(0, 0, 0, 0))
    before_last = interpret(start, [fetch(0, 4), fetch(1, 3)])
    assert before_last.partitions[T].visible == 8  # the leader knows the initial log ends of replicas
    model = interpret(start, [fetch(0, 4), fetch(1, 3), fetch(2, 2)])
    assert model.partitions[T].committed == model.partitions[T].visible == 8
    assert get_offsets(model) == {1: (25, 8), 2: (25, 8), 3: (25, 8), 4: (25, 8)}


def test_a_followers_high_watermark_is_a_round_behind() -> None:
    start = begin((1, 2))
    events = [append(0, 1, 3)]
    assert get_offsets(interpret(start, events)) == {1: (3, 0), 2: (0, 0)}
    events.append(fetch(1, 2))  # carries 0: HW min(3, 0); brings 3 messages, and HW 0
    assert get_offsets(interpret(start, events)) == {1: (3, 0), 2: (3, 0)}
    events.append(fetch(2, 2))  # carries 3: HW 3, which the answer returns
    assert get_offsets(interpret(start, events)) == {1: (3, 3), 2: (3, 3)}
    events += [append(3, 2, 2), fetch(4, 2)]
    assert get_offsets(interpret(start, events)) == {1: (5, 3), 2: (5, 3)}
    events.append(fetch(5, 2))
    assert get_offsets(interpret(start, events)) == {1: (5, 5), 2: (5, 5)}


def test_consumers_read_below_the_high_watermark() -> None:
    start = begin((1, 2), leos=(9, 6), hws=(0, 0))
    model = interpret(start, [fetch(0, 2), fetch(1, None, request=1, fetch_offset=0)])
    assert (model.partitions[T].replicas[1].leo, model.partitions[T].visible) == (9, 6)
    assert model.requests[1, T]["messages"] == 6  # offsets 0-5
    later = interpret(start, [fetch(0, 2), fetch(1, None, request=1, fetch_offset=6, wait_ms=500), fetch(2, 2)])
    assert get_answer(later, 1) == (RequestError.NONE, AnsweredBy.HIGH_WATERMARK, 2)
    assert later.requests[1, T]["messages"] == 3
    never = interpret(start, [fetch(1, None, request=1, fetch_offset=6, wait_ms=500)], end_at=501)
    assert get_answer(never, 1) == (RequestError.NONE, AnsweredBy.TIMEOUT, 501)
    assert (
        get_answer(interpret(start, [fetch(1, None, request=1, fetch_offset=10)]), 1)[0]
        == RequestError.OFFSET_OUT_OF_RANGE
    )


def test_acks() -> None:
    start = begin((1, 2), min_isr=2)
    model = interpret(start, [append(0, 1, 3, acks=0), append(1, 2, 2), append(2, 3, 4, acks=-1, wait_ms=100)])
    assert [model.requests[n, T]["base_offset"] for n in (1, 2, 3)] == [-1, 3, 5]
    assert get_answer(model, 1) == (RequestError.NONE, AnsweredBy.NOTHING_AWAITED, 0)
    assert get_answer(model, 2) == (RequestError.NONE, AnsweredBy.APPEND, 1)
    assert get_answer(model, 3) == (RequestError.NONE, AnsweredBy.WAITING, None)
    events = [append(2, 3, 4, acks=-1, wait_ms=100), fetch(50, 2), fetch(102, 2)]
    late = interpret(start, events)  # the deadline comes before events of the same time
    assert get_answer(late, 3) == (RequestError.REQUEST_TIMED_OUT, AnsweredBy.TIMEOUT, 102)
    in_time = interpret(start, [*events[:2], fetch(101, 2)])
    assert get_answer(in_time, 3) == (RequestError.NONE, AnsweredBy.HIGH_WATERMARK, 101)
    alone = interpret(start, [at(0, EventKind.BROKER_DOWN, 2), append(1, 3, 4, acks=-1)])
    assert get_answer(alone, 3) == (RequestError.NOT_ENOUGH_REPLICAS, AnsweredBy.AT_ONCE, 1)
    assert get_offsets(alone)[1] == (0, 0)
    after = interpret(start, [append(0, 3, 4, acks=-1, wait_ms=100), at(1, EventKind.BROKER_DOWN, 2)])
    assert get_answer(after, 3) == (RequestError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, AnsweredBy.HIGH_WATERMARK, 1)
    disconnected = interpret(start, [append(0, 3, 4, acks=-1, wait_ms=100), at(1, EventKind.BROKER_DOWN, 1)])
    assert get_answer(disconnected, 3) == (RequestError.DISCONNECTED, AnsweredBy.BROKER_DOWN, None)
    led_elsewhere = interpret(start, [append(0, 3, 4, acks=-1, wait_ms=100), at(1, EventKind.CONTROLLED_SHUTDOWN, 1)])
    assert get_answer(led_elsewhere, 3) == (RequestError.NOT_LEADER_OR_FOLLOWER, AnsweredBy.LEADER_CHANGE, 1)
    assert (led_elsewhere.requests[3, T]["lost_messages"], led_elsewhere.requests[3, T]["lost_at"]) == (4, 1)
    deleted = interpret(start, [append(0, 3, 4, acks=-1, wait_ms=100), at(1, EventKind.DELETE_PARTITION)])
    assert get_answer(deleted, 3) == (RequestError.UNKNOWN_TOPIC_OR_PARTITION, AnsweredBy.TOPIC_DELETION, 1)


def test_a_replicas_fetch_waits_for_bytes() -> None:
    start = begin((1, 2))
    events = [fetch(0, 2, request=1, wait_ms=500, min_bytes=200), append(1, 2, 1), append(2, 3, 1)]
    model = interpret(start, events)
    assert get_answer(model, 1) == (RequestError.NONE, AnsweredBy.APPEND, 2)
    assert model.requests[1, T]["messages"] == 2
    less = interpret(start, events[:2], end_at=500)
    assert get_answer(less, 1) == (RequestError.NONE, AnsweredBy.TIMEOUT, 500)
    assert get_offsets(less)[2] == (1, 0)
    newer = interpret(start, [*events[:2], fetch(2, 2, request=5)])
    assert get_answer(newer, 1) == (RequestError.NONE, AnsweredBy.NEWER_FETCH, 2)
    epoch = interpret(begin((1, 2, 3)), [*events[:1], at(1, EventKind.BROKER_DOWN, 3)])
    assert get_answer(epoch, 1) == (RequestError.FENCED_LEADER_EPOCH, AnsweredBy.LEADER_CHANGE, 1)


def test_messages_of_the_old_leader_alone_are_lost_and_truncated() -> None:
    events = [append(0, 1, 3), fetch(1, 2), append(2, 2, 2), at(3, EventKind.BROKER_DOWN, 1), append(4, 3, 1)]
    model = interpret(begin((1, 2)), [*events, at(5, EventKind.BROKER_UP, 1)])
    assert (model.requests[1, T]["lost_messages"], model.requests[2, T]["lost_messages"]) == (0, 2)
    assert model.requests[2, T]["lost_at"] == 3
    assert model.partitions[T].replicas[1].log == model.partitions[T].replicas[2].log[:3]
    alone = begin((1, 2), isr=(1,))
    back = interpret(alone, [append(0, 1, 3), at(1, EventKind.BROKER_DOWN, 1), at(2, EventKind.BROKER_UP, 1)])
    assert back.requests[1, T]["lost_messages"] == 0  # the same leader: nothing is lost
    unclean = begin((1, 2), isr=(1,), unclean=True)
    model = interpret(unclean, [append(0, 1, 3, acks=-1), at(1, EventKind.BROKER_DOWN, 1)])
    assert get_answer(model, 1) == (RequestError.NONE, AnsweredBy.AT_ONCE, 0)
    assert (model.requests[1, T]["lost_messages"], model.partitions[T].committed) == (3, 0)


def test_truncation_to_the_high_watermark_loses_acknowledged_messages() -> None:
    """Fixed by leader epochs in 0.11: a follower truncates messages and leads before it has copied them again."""
    events = [
        append(0, 1, 2, acks=-1, wait_ms=1_000),
        fetch(1, 2),
        fetch(1, 3),
        fetch(2, 2),
        fetch(2, 3, wait_ms=500),  # carries 2: all have it, but the answer with HW 2 has not arrived
        at(3, EventKind.BROKER_DOWN, 1),
        at(4, EventKind.BROKER_DOWN, 2),
    ]
    for rule, lost in (("high_watermark", 2), ("epoch", 0)):
        model = interpret(begin((1, 2, 3), {"truncate_to": rule}), events)
        assert get_answer(model, 1) == (RequestError.NONE, AnsweredBy.HIGH_WATERMARK, 2)
        assert model.requests[1, T]["lost_messages"] == lost


def test_a_failed_broker_starts_with_its_checkpoint() -> None:
    alone = begin((1,))
    events = [
        append(4_999, 1, 3),
        append(5_000, 2, 2),
        at(5_001, EventKind.BROKER_DOWN, 1),
        at(5_002, EventKind.BROKER_UP, 1),
    ]
    start = begin((1, 2), isr=(1,))
    # It leads again, alone in the ISR: its high watermark advances at once.
    assert interpret(alone, events).partitions[T].visible == 5
    followed = [append(0, 1, 3), fetch(1, 2), fetch(2, 2), append(3, 2, 2), fetch(5_000, 2), fetch(5_001, 2)]
    after_failure = interpret(
        start, [*followed, at(5_002, EventKind.BROKER_DOWN, 2), at(5_003, EventKind.BROKER_UP, 2)]
    )
    assert get_offsets(after_failure)[2] == (5, 3)
    ended = [
        at(5_002, EventKind.CONTROLLED_SHUTDOWN, 2),
        at(5_003, EventKind.BROKER_DOWN, 2),
        at(5_004, EventKind.BROKER_UP, 2),
    ]
    assert get_offsets(interpret(start, [*followed, *ended]))[2] == (5, 5)


@pytest.mark.parametrize(("rules", "leaves_at"), [({}, 45_000), ({"replica_lag_max_messages": 2}, 15_000)])
def test_a_lagging_replica_leaves_the_isr(rules: dict[str, int], leaves_at: int) -> None:
    events = [fetch(0, 2), append(1, 1, 3)]
    for end in (leaves_at - 1, leaves_at):
        model = interpret(begin((1, 2), rules), events, end_at=end)
        assert model.partitions[T].isr == ([1, 2] if end < leaves_at else [1])
        assert (model.partitions[T].visible, model.partitions[T].epoch) == (0 if end < leaves_at else 3, 0)
    # It joins when it has reached the high watermark: its second fetch carries 3.
    back = [*events, fetch(50_000, 2), fetch(50_001, 2)]
    assert interpret(begin((1, 2), rules), back[:-1]).partitions[T].isr == [1]
    assert interpret(begin((1, 2), rules), back).partitions[T].isr == [1, 2]


def test_a_replica_joins_with_all_messages_of_the_start_of_the_epoch() -> None:
    """A new leader's high watermark is a round behind: a replica that joins by it alone and leads loses messages."""
    events = [
        append(0, 1, 2, acks=-1, wait_ms=1_000),
        fetch(1, 2),
        fetch(1, 4),
        fetch(2, 2),  # carries 2 and gets HW 0, as 4 has not reported more
        fetch(3, 4),  # HW 2: the produce is answered
        at(4, EventKind.BROKER_DOWN, 1),  # 2 leads, and its HW is 0
        fetch(5, 3, wait_ms=500, min_bytes=1_000),  # carries 0 >= HW 0, and has nothing yet
        at(6, EventKind.BROKER_DOWN, 2),
    ]
    for rule, leader, lost in ((True, 4, 0), (False, 3, 2)):
        start = begin((1, 2, 3, 4), {"isr_joins_at_epoch_start": rule}, isr=(1, 2, 4))
        led = interpret(start, events[:-2])
        assert (led.partitions[T].committed, led.partitions[T].visible) == (2, 0)
        model = interpret(start, events)
        assert get_answer(model, 1) == (RequestError.NONE, AnsweredBy.HIGH_WATERMARK, 3)
        assert (model.partitions[T].leader, model.requests[1, T]["lost_messages"]) == (leader, lost)


def test_a_consumers_fetch_of_two_partitions() -> None:
    other: TopicPartition = ("u", 1)
    fields = tuple(InitialPartition(key, (1, 2), (1, 2), 1) for key in (T, other))
    start = InitialState((1, 2), frozenset((1, 2)), fields, 1, 1, construct(ClusterSettings, **NO_CHECKS))
    both = [
        Event(0, EventKind.FETCH, None, key, request=1, parts=2, fetch_offset=0, wait_ms=500, min_bytes=300)
        for key in (T, other)
    ]
    fill = [
        event
        for time, key, messages in ((1, T, 2), (5, other, 1))
        for event in (
            Event(time, EventKind.APPEND, None, key, messages=messages),
            Event(time + 1, EventKind.FETCH, 2, key),
            Event(time + 2, EventKind.FETCH, 2, key),
        )
    ]
    model = interpret(start, [*both, *fill])
    assert [model.requests[1, key]["messages"] for key in (T, other)] == [2, 1]
    assert {(model.requests[1, key]["answered_by"], model.requests[1, key]["answered_at"]) for key in (T, other)} == {
        (AnsweredBy.HIGH_WATERMARK, 7)
    }
    fewer = interpret(start, [*both, *fill[:3]], end_at=500)
    assert [model["messages"] for model in fewer.requests.values()] == [2, 0]
    assert {model["answered_by"] for model in fewer.requests.values()} == {AnsweredBy.TIMEOUT}
    failed = interpret(start, [*both, *fill[:3], Event(9, EventKind.DELETE_PARTITION, None, other)])
    assert [(model["error"], model["messages"], model["answered_at"]) for model in failed.requests.values()] == [
        (RequestError.NONE, 2, 9),
        (RequestError.UNKNOWN_TOPIC_OR_PARTITION, 0, 9),
    ]


CASES = 3000


@pytest.mark.parametrize("part", range(3))
def test_invariants(part: int) -> None:
    for seed in range(part * CASES // 3, (part + 1) * CASES // 3):
        start, events = random_data_case(seed, facts=False)
        assert not find_violations(interpret(start, events, events[-1].at_ms + 10_000 * (seed % 5)), start, events), (
            seed
        )


def find_violations(model: Controller, start: InitialState, events: list[Event]) -> list[dict[str, Any]]:
    """Return the rows of a history that violate invariants."""
    acks = {(e.request, e.partition): e.acks for e in events if e.kind == EventKind.APPEND}
    leaders: dict[TopicPartition, dict[str, Any]] = {}
    epochs = {partition.key: partition.leader_epoch for partition in start.partitions}
    controllers, out = start.controller_epoch, []
    for row in model.history:
        unclean = leaders.get(row["key"], {}).get("unclean", False)
        if row["what"] == "leader":
            leaders[row["key"]] = row
            is_valid = row["leader"] is None or row["leader"] in row["isr"]
            is_valid = is_valid and row["epoch"] >= epochs.get(row["key"], 0) and row["controller_epoch"] >= controllers
            epochs[row["key"]], controllers = row["epoch"], row["controller_epoch"]
        elif row["what"] == "isr":
            is_valid = row["leader"] in row["isr"] and row["epoch"] == epochs.get(row["key"], 0)
        elif row["what"] == "committed":
            is_valid = row["now"] >= row["was"] or unclean
        else:
            lost = row["answer"]
            acknowledged = lost["error"] == RequestError.NONE and lost["answered_at"] is not None
            is_valid = unclean or not acknowledged or acks[row["request"], row["key"]] != -1
        if not is_valid:
            out.append(row)
    replicas = [replica for partition in model.partitions.values() for replica in partition.replicas.values()]
    assert all(0 <= replica.hw <= replica.leo for replica in replicas)
    return out


def test_the_invariants_find_what_they_are_for() -> None:
    """Under the rules before 0.11 acknowledged messages are lost without an unclean election."""
    found = 0
    for seed in range(500):
        start, events = random_data_case(seed, facts=False)
        object.__setattr__(start.settings, "truncate_to", "high_watermark")
        found += bool(find_violations(interpret(start, events), start, events))
    assert found
