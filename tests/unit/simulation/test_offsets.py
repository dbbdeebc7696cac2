"""Logs, high watermarks, ISRs and truncation: worked examples, and every condition true and false on its own."""

from __future__ import annotations

import pytest

from tests.unit.simulation.event_helpers import (
    T,
    append,
    cluster,
    consume,
    describe_final_health,
    down,
    fetch,
    led_partition,
    partition_event,
    shown_offsets,
    simulate_requests,
    up,
)
from udfs.simulation.cluster_events import Event, InitialPartition, InitialState
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.kernels.simulation_arrays import Partition
from udfs.simulation.result_tables import list_leaderships, list_requests
from udfs.simulation.simulator import Simulation, simulate

PAIR = cluster(led_partition(1, 2))


# ---- log end offsets and high watermarks


def test_the_high_watermark_is_the_smallest_leo_of_the_isr() -> None:
    """Leader 25, followers 8, 9, 10: 8."""
    leos = [
        shown_offsets(0, 1, leo=25),
        shown_offsets(0, 2, leo=8),
        shown_offsets(0, 3, leo=9),
        shown_offsets(0, 4, leo=10),
    ]
    health = describe_final_health(simulate(cluster(led_partition(1, 2, 3, 4)), leos))
    assert (health["log_end_offset"], health["high_watermark"], health["visible_offset"]) == (25, 8, 8)
    # A replica outside the ISR does not hold it back.
    health = describe_final_health(simulate(cluster(led_partition(1, 2, 3, 4, isr=(1, 3, 4))), leos))
    assert health["high_watermark"] == 9
    # It advances only with the smallest log end.
    health = describe_final_health(
        simulate(cluster(led_partition(1, 2, 3, 4)), [*leos, shown_offsets(1, 4, leo=20), shown_offsets(1, 3, leo=20)])
    )
    assert health["high_watermark"] == 8
    assert (
        describe_final_health(simulate(cluster(led_partition(1, 2, 3, 4)), [*leos, shown_offsets(1, 2, leo=20)]))[
            "high_watermark"
        ]
        == 9
    )


def test_offsets_of_replicas_without_a_leader_are_shown() -> None:
    """A cluster is captured while the partition is offline."""
    brokers = (1, 2, 9)
    offline = InitialPartition(T, (1, 2), (1,), None, leos=(6, 4), hws=(4, 3))
    health = describe_final_health(
        simulate(InitialState(brokers, frozenset((2, 9)), (offline,), 9, 1), [shown_offsets(1, 2, leo=5)])
    )
    assert (health["leader"], health["log_end_offset"], health["lag_messages"]) == (None, None, None)
    assert (health["leo"], health["hw"], health["high_watermark"]) == ({1: 6, 2: 5}, {1: 4, 2: 3}, 4)


def test_appends_and_fetches_give_the_same_high_watermark() -> None:
    copied = [append(0, 8), fetch(1, 2), append(2, 1), fetch(3, 3), append(4, 1), fetch(5, 4), append(6, 15)]
    health = describe_final_health(simulate(cluster(led_partition(1, 2, 3, 4)), copied))
    assert health["leo"] == {1: 25, 2: 8, 3: 9, 4: 10}
    assert health["high_watermark"] == 0  # every fetch so far reported an empty log
    health = describe_final_health(
        simulate(cluster(led_partition(1, 2, 3, 4)), [*copied, fetch(7, 2), fetch(7, 3), fetch(7, 4)])
    )
    assert (health["log_end_offset"], health["high_watermark"]) == (25, 8)
    assert health["leo"] == {1: 25, 2: 25, 3: 25, 4: 25}


def test_a_followers_high_watermark_is_one_round_behind() -> None:
    steps = [append(0, 5), fetch(1, 2), fetch(2, 2), append(3, 3), fetch(4, 2), fetch(5, 2)]
    offsets = []
    for count in range(1, len(steps) + 1):
        health = describe_final_health(simulate(PAIR, steps[:count]))
        offsets.append((health["leo"][1], health["hw"][1], health["leo"][2], health["hw"][2]))
    assert offsets == [
        (5, 0, 0, 0),  # the leader appends
        (5, 0, 5, 0),  # first round: the messages are copied
        (5, 5, 5, 5),  # second: the follower's LEO, then the high watermark
        (8, 5, 5, 5),
        (8, 5, 8, 5),
        (8, 8, 8, 8),
    ]
    # With an append in between, the follower's is one round behind.
    health = describe_final_health(simulate(PAIR, [append(0, 5), fetch(1, 2), append(2, 5), fetch(3, 2)]))
    assert (health["hw"][1], health["leo"][2], health["hw"][2]) == (5, 10, 5)


def test_a_consumer_reads_below_the_high_watermark() -> None:
    """Messages 0-8, LEO 9, high watermark 6: 0-5."""
    begin = cluster(led_partition(1, 2, leos=(9, 6), hws=(6, 6)))
    row = simulate_requests(begin, consume(0))[0]
    assert (row["messages"], row["high_watermark"], row["base_offset"]) == (6, 6, 0)
    assert simulate_requests(begin, consume(0, 4))[0]["messages"] == 2
    assert simulate_requests(begin, consume(0, 7))[0]["messages"] == 0  # written, and not committed
    assert simulate_requests(begin, fetch(0, 2))[0]["messages"] == 3  # a replica reads all
    assert simulate_requests(begin, consume(0, 10))[0]["error"] == "OFFSET_OUT_OF_RANGE"


# ---- the ISR


@pytest.mark.parametrize(("limit", "isr"), [(1000, [1]), (1001, [1, 2])])
def test_the_isr_shrinks_by_time(limit: int, isr: list[int]) -> None:
    """Caught up at 499, checked at 1500: 1001 ms exceed a limit of 1000, not one of 1001."""
    begin = cluster(led_partition(1, 2), replica_lag_time_max_ms=limit)
    events = [fetch(499, 2), append(500)]
    health = describe_final_health(simulate(begin, events, end_at=1500))
    assert health["isr"] == isr
    assert health["high_watermark"] == (1 if isr == [1] else 0)


def test_a_lag_at_the_limit_does_not_exceed_it() -> None:
    begin = cluster(led_partition(1, 2), replica_lag_time_max_ms=1000)
    assert describe_final_health(simulate(begin, [fetch(500, 2), append(501)], end_at=1500))["isr"] == [1, 2]
    assert describe_final_health(simulate(begin, [fetch(500, 2), append(501)], end_at=2000))["isr"] == [1]
    # A replica that has all messages stays, however long ago it fetched.
    assert describe_final_health(simulate(begin, [fetch(500, 2)], end_at=60_000))["isr"] == [1, 2]
    # A replica that fetches from the log end of its last fetch was caught up then.
    rounds = [fetch(t, 2) for t in range(0, 5000, 250)]
    busy = sorted([*rounds, *(append(t + 1) for t in range(0, 5000, 250))], key=lambda event: event.at_ms)
    assert list_leaderships(simulate(begin, busy)) == []
    # Without any fetch, lag is unknown.
    assert describe_final_health(simulate(begin, [append(0)], end_at=60_000))["isr"] == [1, 2]


def test_each_follower_lags_alone() -> None:
    """At 1500 one is 1001 ms behind, the other 1000."""
    begin = cluster(led_partition(1, 2, 3), replica_lag_time_max_ms=1000)
    events = [fetch(499, 2), fetch(500, 3), append(501)]
    assert describe_final_health(simulate(begin, events, end_at=1500))["isr"] == [1, 3]
    assert describe_final_health(simulate(begin, events, end_at=2000))["isr"] == [1]
    # The fetches of one replica do not count for another.
    events = [fetch(0, 2), append(1), fetch(1000, 2), fetch(1001, 2)]
    assert describe_final_health(simulate(begin, events, end_at=1500))["isr"] == [1, 2]


@pytest.mark.parametrize(("messages", "isr"), [(4000, [1, 2]), (4001, [1])])
def test_the_isr_shrinks_by_messages(messages: int, isr: list[int]) -> None:
    """replica.lag.max.messages of old versions: at the next check, long before the time."""
    begin = cluster(led_partition(1, 2), replica_lag_max_messages=4000, replica_lag_time_max_ms=10_000)
    simulation = simulate(begin, [fetch(0, 2), append(1, messages)], end_at=5000)
    assert describe_final_health(simulation)["isr"] == isr
    assert [row["cause"] for row in list_leaderships(simulation)] == ["isr shrunk"] * (isr == [1])


def test_a_new_replica_lags_from_its_first_fetch_on() -> None:
    begin = cluster(led_partition(1, 2), led_partition(3, key=("u", 0)), replica_lag_time_max_ms=600)
    events = [
        fetch(0, 2),
        append(1),
        fetch(1000, 2),
        partition_event(1000, EventKind.ALTER_ISR, replicas=(1, 2, 3)),
        fetch(1400, 2),
    ]
    shrunk = [row for row in list_leaderships(simulate(begin, events)) if row["cause"] == "isr shrunk"]
    # It belongs to the last event before it, not to the next one.
    assert [(row["at_ms"], row["event"], row["step"]) for row in shrunk][-1] == (1200, 3, 1)


BEHIND = led_partition(1, 2, 3, isr=(1, 3), leos=(10, 4, 8), hws=(8, 4, 8))


@pytest.mark.parametrize(("offset", "joins"), [(8, True), (7, False)])
def test_a_replica_joins_the_isr_at_the_high_watermark(offset: int, joins: bool) -> None:
    simulation = simulate(cluster(BEHIND), [fetch(0, 2, offset)])
    assert describe_final_health(simulation)["isr"] == ([1, 3, 2] if joins else [1, 3])
    assert [row["cause"] for row in list_leaderships(simulation)] == ["isr expanded"] * joins


def test_replicas_that_may_not_join_the_isr() -> None:
    simulation = simulate(cluster(BEHIND), [fetch(0, 3, 10)])  # it is in the ISR already
    assert (describe_final_health(simulation)["isr"], list_leaderships(simulation)) == ([1, 3], [])
    begin = cluster(BEHIND, led_partition(4, key=("u", 0)))
    simulation = simulate(begin, [fetch(0, 4, 10)])  # it is not in the AR
    assert (describe_final_health(simulation)["isr"], list_requests(simulation)[0]["error"]) == (
        [1, 3],
        "NOT_ASSIGNED_REPLICA",
    )
    simulation = simulate(
        cluster(BEHIND), [Event(0, EventKind.CONTROLLED_SHUTDOWN, 2), fetch(0, 2, 10)]
    )  # it shuts down
    assert describe_final_health(simulation)["isr"] == [1, 3]


@pytest.mark.parametrize("from_epoch_start", [True, False])
def test_since_2_1_a_replica_joins_after_the_start_of_the_leaders_epoch(from_epoch_start: bool) -> None:
    """Broker 2 leads from offset 10 on and knows a high watermark of 5. Broker 3, at 7, is in between."""
    partition = led_partition(1, 2, 3, 4, isr=(1, 2, 4), leos=(10, 10, 5, 10), hws=(10, 5, 5, 5))
    begin = cluster(partition, isr_joins_at_epoch_start=from_epoch_start)
    simulation = simulate(begin, [down(1, 1), fetch(3, 3, 7)])
    assert describe_final_health(simulation)["visible_offset"] == 5
    assert describe_final_health(simulation)["isr"] == ([2, 4] if from_epoch_start else [2, 4, 3])
    assert 3 in describe_final_health(simulate(begin, [down(1, 1), fetch(3, 3, 10)]))["isr"]


# ---- leader changes: truncation and lost messages


def test_an_append_on_all_replicas_can_be_lost() -> None:
    """All of the AR have it. Then a new replica is added and leads after an unclean election."""
    begin = cluster(led_partition(1, unclean=True), led_partition(2, key=("u", 0)))
    moved = partition_event(1, EventKind.REASSIGN_PARTITION, replicas=(2, 1))
    assert list_requests(simulate(begin, [append(0, 3), moved, down(2, 1)]))[0]["lost_messages"] == 3


@pytest.mark.parametrize(("truncate_to", "lost"), [("high_watermark", 2), ("epoch", 0)])
def test_truncation_to_the_high_watermark_loses_committed_messages(truncate_to: str, lost: int) -> None:
    """KIP-101: 3 has all messages and a high watermark that is a round behind when 2 leads; then 2 fails as well."""
    begin = cluster(led_partition(1, 2, 3, leos=(8, 8, 8), hws=(8, 8, 8)), truncate_to=truncate_to)
    rounds = [append(0, 2, -1), fetch(1, 2), fetch(1, 3), fetch(2, 3), fetch(2, 2)]
    simulation = simulate(begin, [*rounds, down(3, 1)])
    assert describe_final_health(simulation)["leo"] == {1: 10, 2: 10, 3: 10 - lost}
    produce = list_requests(simulate(begin, [*rounds, down(3, 1), down(4, 2)]))[0]
    assert (produce["error"], produce["answered_at_ms"], produce["lost_messages"]) == ("NONE", 2, lost)
    assert produce["lost_at_ms"] == (4 if lost else None)
    # The fetch that advances the high watermark returns it: the last replica to fetch is not behind.
    rounds = [append(0, 2, -1), fetch(1, 2), fetch(1, 3), fetch(2, 2), fetch(2, 3)]
    assert list_requests(simulate(begin, [*rounds, down(3, 1), down(4, 2)]))[0]["lost_messages"] == 0


@pytest.mark.parametrize(("truncate_to", "common"), [("high_watermark", 1), ("epoch", 2)])
def test_truncation_to_the_high_watermark_lets_logs_diverge(truncate_to: str, common: int) -> None:
    """KIP-101: 2 lost its unflushed messages and leads; 1 returns with a log end below its high watermark."""
    begin = cluster(led_partition(1, 2, leos=(2, 2), hws=(2, 2)), truncate_to=truncate_to)
    crash = [append(0, 0), down(6000, 1), down(6001, 2), shown_offsets(6002, 2, leo=1, hw=1), up(7000, 2)]
    simulation = simulate(begin, [*crash, append(7001, 1), up(8000, 1), fetch(8001, 1)])
    health = describe_final_health(simulation)
    assert health["leader"] == 2
    assert health["leo"] == {1: 2, 2: 2}  # of equal length; only leader epochs show the difference
    slots, state = 2, simulation.log.state
    begin_of = state.partitions[0, Partition.PREFIX_BEGIN]
    assert state.common_prefixes[begin_of + 1] == state.common_prefixes[begin_of + slots] == common


WRITTEN = [append(0, 4, 0), append(1, 4, 1), append(2, 4, -1)]


def losses(simulation: Simulation) -> list[tuple[int, int, int | None]]:
    return [
        (row["acks"], row["lost_messages"], row["lost_at_ms"])
        for row in list_requests(simulation)
        if row["kind"] == "produce"
    ]


def test_messages_lost_by_a_clean_election() -> None:
    # Nothing was fetched: appends with acks 0 and 1 are lost, and those not acknowledged yet.
    simulation = simulate(PAIR, [*WRITTEN, down(10, 1)])
    assert losses(simulation) == [(0, 4, 10), (1, 4, 10), (-1, 4, 10)]
    assert list_requests(simulation)[2]["error"] == "DISCONNECTED"
    # Fetched to the end once: nothing is lost, even if the leader does not know it.
    simulation = simulate(PAIR, [*WRITTEN, fetch(5, 2), down(10, 1)])
    assert losses(simulation) == [(0, 0, None), (1, 0, None), (-1, 0, None)]
    behind = [append(0, 4, 0), append(1, 2, 1), fetch(2, 2), append(3, 2, 1)]
    assert losses(simulate(PAIR, [*behind, down(10, 1)])) == [(0, 0, None), (1, 0, None), (1, 2, 10)]
    # Every member of the ISR has what was acknowledged with acks=all.
    simulation = simulate(PAIR, [*WRITTEN, fetch(5, 2), fetch(6, 2), append(7, 3, 1), down(10, 1)])
    assert losses(simulation) == [(0, 0, None), (1, 0, None), (-1, 0, None), (1, 3, 10)]
    assert describe_final_health(simulation)["high_watermark"] == 12


def test_messages_lost_by_an_unclean_election() -> None:
    """Broker 2 leads from outside the ISR: messages acknowledged with acks=all by broker 1 alone are lost too."""
    for unclean in (True, False):
        begin = cluster(led_partition(1, 2, isr=(1,), unclean=unclean, leos=(5, 5), hws=(5, 5)))
        simulation = simulate(begin, [*WRITTEN, down(10, 1)])
        assert list_requests(simulation)[2]["error"] == "NONE"
        assert losses(simulation) == (
            [(0, 4, 10), (1, 4, 10), (-1, 4, 10)] if unclean else [(a, 0, None) for a in (0, 1, -1)]
        )
        assert describe_final_health(simulation)["leader"] == (2 if unclean else None)
        assert describe_final_health(simulation)["high_watermark"] == (5 if unclean else 17)
        # If the same leader returns, nothing is lost. After an unclean election it truncates.
        simulation = simulate(begin, [*WRITTEN, down(10, 1), up(20, 1)])
        assert describe_final_health(simulation)["leo"][1] == (5 if unclean else 17)
        assert losses(simulation)[2][1] == (4 if unclean else 0)


def test_the_exposure_by_acks() -> None:
    health = describe_final_health(simulate(PAIR, WRITTEN))
    assert [health[f"exposed_acks_{a}_messages"] for a in ("0", "1", "all")] == [4, 4, 4]
    health = describe_final_health(simulate(PAIR, [*WRITTEN, fetch(5, 2, 0), fetch(6, 2, 6)]))
    assert [health[f"exposed_acks_{a}_messages"] for a in ("0", "1", "all")] == [0, 2, 4]


@pytest.mark.parametrize(
    ("advanced_at", "down_at", "is_clean", "hw"),
    [
        (11_000, 12_000, False, 4),
        (11_000, 15_000, False, 6),
        (9_999, 12_000, False, 6),
        (10_000, 12_000, False, 4),  # just after the checkpoint
        (11_000, 12_000, True, 6),
    ],
)
def test_the_high_watermark_after_a_restart(advanced_at: int, down_at: int, is_clean: bool, hw: int) -> None:
    """It advances from 4 to 6 and is checkpointed every 5 s. A clean shutdown writes it once more."""
    events = [append(9000, 2), fetch(9000, 2), fetch(advanced_at, 2)]
    if is_clean:
        events.append(Event(down_at, EventKind.CONTROLLED_SHUTDOWN, 2))
    events += [down(down_at, 2), up(down_at + 1, 2)]
    health = describe_final_health(simulate(cluster(led_partition(1, 2, leos=(4, 4), hws=(4, 4))), events))
    assert health["hw"][2] == hw
    assert health["leo"][2] == 6  # since 0.11 logs are not truncated to it
