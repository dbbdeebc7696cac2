"""The judge of plans on models: failed log dirs, disks, slow brokers and leaders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.planning.small_clusters import cluster
from udfs.arrow.ragged import offsets_of
from udfs.planning.broker_log_dirs import ANY, BrokerLogDirs
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.plan_judge import JudgeOptions, judge_steps
from udfs.planning.plan_states import FaultRows, PlanFault, PlanLevel

GB = 1e9


def steps(*lists: tuple[int, int, Sequence[int]]) -> Any:
    """Steps of a plan: wave from 0, partition, replicas."""
    return SimpleNamespace(
        wave=np.array([wave for wave, _, _ in lists], dtype=np.int32),
        row=np.array([row for _, row, _ in lists], dtype=np.int64),
        offsets=offsets_of(np.array([len(new) for _, _, new in lists], dtype=np.int64)),
        replicas=np.array([broker for _, _, new in lists for broker in new], dtype=np.int32),
        waves=1 + max((wave for wave, _, _ in lists), default=-1),
        log_dirs=None,
    )


def find(model: ClusterModel, plan: Any, **options: Any) -> dict[PlanFault, FaultRows]:
    return {rows.fault: rows for rows in judge_steps(model, plan, JudgeOptions(**options)).faults}


def test_a_replica_in_a_failed_log_dir_is_waited_for() -> None:
    model = cluster([[0, 1, 2]], 4)
    failed = np.array([False, True, False])
    model = replace(model, failed=failed, in_sync=~failed, completes_with_added=False)
    plan = steps((0, 0, [0, 1, 3]))
    assert find(model, plan)[PlanFault.CANNOT_COMPLETE].broker.tolist() == [1]
    # Since Kafka 4.3 it completes once the added replica is in sync, if no more are removed.
    assert PlanFault.CANNOT_COMPLETE not in find(replace(model, completes_with_added=True), plan)
    since_4_3 = replace(model, completes_with_added=True)
    assert find(since_4_3, steps((0, 0, [1, 3])))[PlanFault.CANNOT_COMPLETE].broker.tolist() == [1]
    assert PlanFault.CANNOT_COMPLETE not in find(model, steps((0, 0, [0, 3, 2])))


def test_replicas_leave_once_those_that_stay_are_in_sync() -> None:
    """Kafka 3.8 and later keep broker 2 until 1 is in sync; before, KRaft drops it, and one is left of two."""
    model = cluster([[0, 1, 2]], 3)
    model = replace(model, in_sync=np.array([True, False, True]), topic_min_isr=np.array([2], dtype=np.int32))
    plan = steps((0, 0, [0, 1]))
    for drops_at_once, under_min_isr in ((False, [0, 0]), (True, [0, 1])):
        judged = judge_steps(replace(model, drops_at_once=drops_at_once), plan, JudgeOptions(asked_factors=(2,)))
        assert judged.waves.under_min_isr.tolist() == judged.waves.one_in_sync.tolist() == under_min_isr
        faults = {rows.fault for rows in judged.faults}
        assert PlanFault.WAITS_FOR_LAGGING in faults
        assert (PlanFault.DROPS_IN_SYNC in faults) == (PlanFault.UNDER_MIN_ISR in faults) == drops_at_once


def test_the_last_copy_that_is_named_is_in_sync() -> None:
    """Both brokers are down, and 1 was the last in sync."""
    model = cluster([[0, 1]], 3)
    model = replace(model, live=np.array([False, False, True]), in_sync=np.array([False, True]))
    assert find(model, steps((0, 0, [2])))[PlanFault.LAST_COPY].broker.tolist() == [1]


def test_disks_hold_old_and_new_replicas_while_they_are_copied() -> None:
    """Broker 2 gets both partitions, and loses its own in the second wave only."""
    model = cluster([[0], [1], [2]], 3)
    model = replace(model, size=np.full(3, 10 * GB), known=(True, False, False))
    plan = steps((0, 0, [2]), (1, 1, [2]), (1, 2, [0]))
    room = np.array([np.nan, np.nan, 20 * GB])
    assert PlanFault.DISK_FULL not in find(model, plan, disk_room=room)
    over = find(model, plan, disk_room=room - 2, disk_free=room - 1)
    assert (over.keys() & {PlanFault.DISK_FULL, PlanFault.DISK_OVERFLOW}) == {PlanFault.DISK_OVERFLOW}
    assert (over[PlanFault.DISK_OVERFLOW].fault.level, over[PlanFault.DISK_OVERFLOW].before.tolist()) == (
        PlanLevel.HARMFUL,
        [30 * GB - 1],
    )
    assert find(model, plan, disk_room=room - 11 * GB)[PlanFault.DISK_FULL].wave.tolist() == [1]  # the first of them
    full = find(model, plan, disk_room=room - 1)[PlanFault.DISK_FULL]
    assert (full.broker.tolist(), full.wave.tolist(), full.after.tolist()) == ([2], [2], [30 * GB])
    facts = judge_steps(model, plan, JudgeOptions()).waves
    assert facts.peak_bytes[:, 2].tolist() == [20 * GB, 30 * GB]
    assert facts.received.tolist() == [[0, 0, 10 * GB], [10 * GB, 0, 10 * GB]]
    assert facts.sent.tolist() == [[10 * GB, 0, 0], [0, 10 * GB, 10 * GB]]
    assert (facts.rollback_copies.tolist(), facts.rollback_bytes.tolist()) == ([0, 1, 3], [0, 10 * GB, 30 * GB])


def test_copies_to_a_broker_that_is_down_count_for_when_it_is_back() -> None:
    model = cluster([[0, 1]], 3)
    live, size = np.array([True, True, False]), np.full(1, 10 * GB)
    facts = judge_steps(replace(model, live=live, size=size), steps((0, 0, [0, 2])), JudgeOptions()).waves
    assert facts.copies.tolist() == [1]
    assert facts.received.tolist() == [[0, 0, 10 * GB]]


def test_what_a_broker_has_lost_does_not_come_back_to_it() -> None:
    """Kafka puts the replica into no other log dir of its broker, also not once it was elsewhere."""
    model = cluster([[0, 1, 2]], 4)
    failed = np.array([False, True, False])
    model = replace(model, failed=failed, in_sync=~failed)
    stuck = find(model, steps((0, 0, [0, 3, 2]), (1, 0, [0, 1, 2])))[PlanFault.CANNOT_COMPLETE]
    assert (stuck.broker.tolist(), stuck.wave.tolist()) == ([1], [2])


def make_jbod(volume: Sequence[int]) -> ClusterModel:
    """Two partitions of 10 GB on broker 0, and one on 1; both have two log dirs of 100 GB, with 55 GB free."""
    model = cluster([[0], [0], [1]], 2)
    log_dirs = BrokerLogDirs(
        offsets=np.array([0, 2, 4]),
        paths=("/a", "/b", "/a", "/b"),
        online=np.ones(4, dtype=np.bool_),
        receives=np.ones(4, dtype=np.bool_),
        total=np.full(4, 100 * GB),
        usable=np.full(4, 55 * GB),
        of_replica=np.array([0, 0, 2], dtype=np.int32),
        size=np.full(3, 10 * GB),
        moving=np.zeros(3, dtype=np.bool_),
        unassigned=np.zeros(4),
        volume=np.array(volume),
    )
    return replace(model, size=np.full(3, 10 * GB), known=(True, False, False), log_dirs=log_dirs)


def with_log_dirs(plan: Any, *log_dirs: int) -> Any:
    plan.log_dirs = np.array(log_dirs, dtype=np.int32)
    return plan


def test_volumes_hold_what_moves_between_log_dirs_twice() -> None:
    """Of a volume of 100 GB that has 45 GB, a plan may fill half: 5 GB more."""
    apart, shared = make_jbod([0, 1, 2, 3]), make_jbod([0, 0, 2, 2])
    move = with_log_dirs(steps((0, 0, [0])), 1)
    full = find(apart, move, max_disk_ratio=0.5)[PlanFault.LOG_DIR_FULL]
    assert full.log_dir is not None
    assert (full.broker.tolist(), full.log_dir.tolist(), full.after.tolist()) == ([0], [1], [10 * GB])
    assert PlanFault.LOG_DIR_FULL not in find(apart, move, max_disk_ratio=0.55)
    # One volume is what the broker has: both copies are on it for a while.
    assert PlanFault.LOG_DIR_FULL not in find(shared, move, max_disk_ratio=0.5)
    facts = judge_steps(shared, move, JudgeOptions()).waves
    assert (facts.bytes_now.tolist(), facts.peak_bytes.tolist()) == ([20 * GB, 10 * GB], [[30 * GB, 10 * GB]])
    assert (facts.received.sum(), facts.copies.tolist()) == (0, [0])  # nothing is copied to another broker
    room = np.array([10 * GB, np.nan])
    assert PlanFault.DISK_FULL not in find(shared, move, disk_room=room)
    assert PlanFault.DISK_FULL in find(shared, move, disk_room=room - 1)


def test_copies_fill_the_log_dir_that_a_plan_chooses() -> None:
    model = make_jbod([0, 1, 2, 3])
    copies = steps((0, 0, [1]), (0, 1, [1]))
    full = find(model, with_log_dirs(copies, 3, 3), max_disk_ratio=0.6)[PlanFault.LOG_DIR_FULL]
    assert full.log_dir is not None
    assert (full.log_dir.tolist(), full.before.tolist(), full.after.tolist()) == ([3], [15 * GB], [20 * GB])
    assert PlanFault.LOG_DIR_FULL not in find(model, with_log_dirs(copies, 2, 3), max_disk_ratio=0.6)
    # Kafka chooses: no volume is certain, and the broker has room.
    assert PlanFault.LOG_DIR_FULL not in find(model, with_log_dirs(copies, ANY, ANY), max_disk_ratio=0.6)


SLOW = {PlanFault.SLOW_COPIES_IN, PlanFault.SLOW_COPIES_OUT}


@pytest.mark.parametrize(("size", "is_slow"), [(10 * GB, True), (0.1 * GB, False)])
def test_a_broker_that_copies_most_is_named(size: float, is_slow: bool) -> None:
    model = cluster([[broker] for broker in range(7)], 7)
    model = replace(model, size=np.full(7, size), known=(True, False, False))
    faults = find(model, steps(*((0, row, [row, 6]) for row in range(6))), asked_factors=(2,))
    assert SLOW & faults.keys() == ({PlanFault.SLOW_COPIES_IN} if is_slow else set())
    if is_slow:
        slow = faults[PlanFault.SLOW_COPIES_IN]
        assert (slow.wave.tolist(), slow.broker.tolist(), slow.after.tolist()) == ([0], [6], [6 * size])


def test_a_broker_that_is_down_is_not_slow() -> None:
    model = cluster([[broker] for broker in range(6)], 7)
    model = replace(model, size=np.full(6, 10.0 * GB), known=(True, False, False), live=np.arange(7) != 6)
    assert not SLOW & find(model, steps(*((0, row, [row, 6]) for row in range(6))), asked_factors=(2,)).keys()


@pytest.mark.parametrize(
    ("lists", "racks", "moves"),
    [
        ([[i % 6] for i in range(12)], "aaaaaaaa", [(i, [6 + i % 2]) for i in range(8)]),  # onto two empty brokers
        ([[i % 6] for i in range(12)], "aaaaaaa", [(i, [6]) for i in range(8)]),  # onto an empty broker
        ([[i % 6] for i in range(18)] + [[6]], "aaaaaaa", [(i, [6]) for i in range(2)]),  # the next night
        ([[i % 6] for i in range(18)] + [[6]] * 2, "aaaaaaa", [(0, [6])]),  # the last one
        ([[i % 6] for i in range(24)], "aaaaaaa", [(i, [6]) for i in range(0, 24, 6)]),  # from one, which is as fast
        ([[i % 9] for i in range(18)], "abcabcabc", [(i, [3 + i // 3 % 6 // 3 * 3]) for i in (0, 9)]),  # within a rack
        ([[0]] * 12, "aaaaaa", [(i, [1 + i % 5]) for i in range(12)]),  # from a broker that is emptied
    ],
)
def test_a_broker_that_must_copy_most_is_not_slow(
    lists: list[list[int]], racks: str, moves: list[tuple[int, list[int]]]
) -> None:
    names = sorted(set(racks))
    rack = np.array([names.index(one) for one in racks], dtype=np.int32)
    model = replace(cluster(lists, len(racks)), rack=rack, rack_names=tuple(names))
    model = replace(model, size=np.full(len(lists), 10.0 * GB), known=(True, False, False))
    assert not SLOW & find(model, steps(*((0, *move) for move in moves))).keys()


def test_leaders_are_compared_with_the_brokers_that_stay() -> None:
    model = cluster([[broker % 4, (broker + 1) % 4] for broker in range(40)], 4)
    # Broker 3 hands its leaders over to the others.
    plan = steps(*((0, row, [i % 3, (i + 1) % 3]) for i, row in enumerate(range(3, 40, 4))))
    assert PlanFault.UNEVEN_LEADERS not in find(model, plan, emptied=(3,))
    assert PlanFault.UNEVEN_LEADERS in find(model, plan)
    # Broker 0 leads what broker 3 led.
    plan = steps(*((0, row, [0, 1]) for row in range(3, 40, 4)))
    uneven = find(model, plan)[PlanFault.UNEVEN_LEADERS]
    assert (uneven.broker.tolist(), uneven.before.tolist(), uneven.after.tolist()) == ([0], [0.0], [2.0])


def test_nothing_to_judge() -> None:
    model = cluster([[0, 1]], 2)
    judged = judge_steps(model, steps(), JudgeOptions())
    assert (judged.level, judged.faults, len(judged.waves.partitions)) == (PlanLevel.SAFE, (), 0)
    empty = cluster([], 2)
    assert judge_steps(empty, steps(), JudgeOptions()).level is PlanLevel.SAFE
