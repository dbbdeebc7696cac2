"""Where a partition is on its way through a plan, as each wave and direction sees it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.errors import SettingsError
from pipelines.execution.cluster_view import ClusterView
from pipelines.execution.planned_steps import Direction, Place, PlannedSteps
from pipelines.live.cluster_records import ClusterDescription, LivePartition, OngoingReassignment
from pipelines.plan_files.plan_reader import PlannedChange

_KEY = ("t", 0)
_STEPS = PlannedSteps({_KEY: PlannedChange([1, 2], ((1, [1, 3]), (3, [4, 3])))}, 3)


def _partition(*replicas: int) -> LivePartition:
    return LivePartition(0, replicas[0], replicas, replicas, ())


def _place(
    wave: int, direction: Direction, now: LivePartition | None, move: OngoingReassignment | None = None
) -> Place:
    return _STEPS.find_place(_KEY, _STEPS.find_targets(wave, direction)[_KEY], now, move)


@pytest.mark.parametrize(
    ("wave", "direction", "replicas", "place"),
    [
        (1, Direction.APPLY, (1, 2), Place.PENDING),
        (1, Direction.APPLY, (1, 3), Place.DONE),
        (1, Direction.APPLY, (4, 3), Place.DONE),  # further than this wave
        (3, Direction.APPLY, (1, 3), Place.PENDING),
        (3, Direction.ROLLBACK, (4, 3), Place.PENDING),
        (3, Direction.ROLLBACK, (1, 3), Place.DONE),
        (1, Direction.ROLLBACK, (1, 3), Place.PENDING),
        (1, Direction.ROLLBACK, (1, 2), Place.DONE),
        (1, Direction.APPLY, (2, 1), Place.CHANGED),  # another order is another list
        (1, Direction.APPLY, (5, 6), Place.CHANGED),
    ],
)
def test_settled_partition(wave: int, direction: Direction, replicas: tuple[int, ...], place: Place) -> None:
    assert _place(wave, direction, _partition(*replicas)) is place


def test_deleted_partition_is_gone() -> None:
    assert _place(1, Direction.APPLY, None) is Place.GONE


def test_only_a_cancellation_ends_a_request_for_the_former_replicas() -> None:
    """Since 4.3, when the first one has added replica 3."""
    move = OngoingReassignment((1, 2, 3), (3,), (3,))
    assert _place(1, Direction.ROLLBACK, _partition(1, 2, 3), move) is Place.PENDING


@pytest.mark.parametrize(
    ("isr", "text"),
    [
        ((1, 2), ""),  # 3 is still copied
        ((1, 2, 3), ", waits for broker 4, whose replica stays but lags"),
        ((1, 2, 3, 4), ""),
    ],
)
def test_replicas_that_hold_up_a_wave_are_named(isr: tuple[int, ...], text: str) -> None:
    partitions = {_KEY: LivePartition(0, 1, (1, 3, 4, 2), isr, ())}
    moves = {_KEY: OngoingReassignment((1, 3, 4, 2), (3,), (2,))}
    view = ClusterView(ClusterDescription("c", ()), partitions, {}, moves)
    assert view.describe_lagging([_KEY, ("deleted", 0)]) == text


def test_target_of_an_ongoing_reassignment_counts() -> None:
    move = OngoingReassignment((1, 3, 2), (3,), (2,))
    assert _place(1, Direction.APPLY, _partition(1, 3, 2), move) is Place.MOVING
    assert _place(1, Direction.ROLLBACK, _partition(1, 3, 2), move) is Place.PENDING
    assert _place(3, Direction.ROLLBACK, _partition(1, 2, 3), OngoingReassignment((1, 2, 3), (2,), (3,))) is Place.DONE
    later = OngoingReassignment((4, 3, 1), (4,), (1,))
    assert _place(1, Direction.APPLY, _partition(4, 3, 1), later) is Place.DONE  # the third wave waits for it
    assert _place(3, Direction.APPLY, _partition(4, 3, 1), later) is Place.MOVING
    foreign = OngoingReassignment((5, 1, 2), (5,), (1, 2))
    assert _place(1, Direction.APPLY, _partition(5, 1, 2), foreign) is Place.CHANGED


def test_foreign_reassignments_are_listed() -> None:
    own, other = OngoingReassignment((1, 3, 2), (3,), (2,)), OngoingReassignment((7, 8), (8,), (7,))
    assert _STEPS.list_foreign({_KEY: own, ("u", 1): other}) == [("u", 1)]
    assert _STEPS.list_foreign({_KEY: other}) == [_KEY]


def test_waves_are_in_the_order_of_the_direction() -> None:
    assert _STEPS.list_waves(Direction.APPLY) == [1, 2, 3]
    assert _STEPS.list_waves(Direction.ROLLBACK) == [3, 2, 1]
    assert _STEPS.find_targets(2, Direction.APPLY) == {}


def test_partition_that_returns_to_earlier_replicas_is_rejected() -> None:
    change = PlannedChange([1, 2], ((1, [1, 3]), (2, [1, 2])))
    plan: Any = SimpleNamespace(changes={_KEY: change}, waves=("wave-1.json", "wave-2.json"))
    with pytest.raises(SettingsError, match="gives t-0 the same replicas twice"):
        PlannedSteps.of_plan(plan)
