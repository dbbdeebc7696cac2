"""The election rule, case by case."""

from __future__ import annotations

import numpy as np
import pytest

from udfs.arrow.ragged import offsets_of
from udfs.failures.kernels.election import CAUSES, PartitionArrays, elect, successor_if_leader_fails


def state(*rows: tuple[list[int], list[int], list[int], int, bool]) -> PartitionArrays:
    """Partitions as (replicas, isr, elr, leader, unclean)."""
    flat = [b for replicas, *_ in rows for b in replicas]
    return PartitionArrays(
        offsets_of(np.array([len(r[0]) for r in rows])),
        np.array(flat, dtype=np.int32),
        np.array([b in isr for replicas, isr, *_ in rows for b in replicas], dtype=np.bool_),
        np.array([b in elr for replicas, _, elr, *_ in rows for b in replicas], dtype=np.bool_),
        np.array([r[3] for r in rows], dtype=np.int32),
        np.array([r[4] for r in rows], dtype=np.bool_),
    )


@pytest.mark.parametrize(
    ("replicas", "isr", "elr", "leader", "unclean", "down", "expected", "cause"),
    [
        ([1, 2, 3], [1, 2, 3], [], 1, False, {1}, 2, "isr"),
        ([1, 2, 3], [1, 3], [], 1, False, {1}, 3, "isr"),
        ([3, 1, 2], [2, 1, 3], [], 3, False, {3}, 1, "isr"),  # assignment order, not the ISR's
        ([1, 2, 3], [1, 2, 3], [], 2, False, {3}, 2, "kept"),
        ([1, 2, 3], [1, 2, 3], [], 2, False, {2}, 1, "isr"),
        ([1, 2], [1], [], 1, False, {1}, -1, "offline"),
        ([1, 2], [1], [], 1, True, {1}, 2, "unclean"),
        ([1, 2, 3], [1], [3], 1, False, {1}, 3, "elr"),
        ([1, 2, 3], [1], [3], 1, True, {1}, 3, "elr"),
        ([1, 2, 3], [1], [3], 1, True, {1, 3}, 2, "unclean"),
        ([1], [1], [], 1, False, {1}, -1, "offline"),
        ([1], [1], [], 1, True, {1}, -1, "offline"),
        ([1, 2, 3], [1, 2, 3], [], 1, False, {1, 2}, 3, "isr"),
        ([1, 2, 3], [1, 2, 3], [], 1, False, set(), 1, "kept"),
    ],
)
def test_who_leads(
    replicas: list[int],
    isr: list[int],
    elr: list[int],
    leader: int,
    unclean: bool,
    down: set[int],
    expected: int,
    cause: str,
) -> None:
    partitions = state((replicas, isr, elr, leader, unclean))
    live = np.array([b not in down for b in replicas])
    found, why = elect(partitions, live)
    assert found.tolist() == [expected]
    assert CAUSES[why[0]] == cause


def test_one_call_answers_every_single_failure() -> None:
    partitions = state(
        ([1, 2, 3], [1, 2, 3], [], 1, False),
        ([2, 3, 1], [2, 1], [], 2, False),
        ([3], [3], [], 3, False),
        ([1, 2], [2], [], -1, False),
        ([1, 2], [1], [], 1, True),
    )
    successor, cause = successor_if_leader_fails(partitions, np.ones(len(partitions.replicas), dtype=np.bool_))
    assert successor.tolist() == [2, 1, -1, -1, 2]
    assert [CAUSES[c] for c in cause] == ["isr", "isr", "offline", "offline", "unclean"]


def test_no_partitions() -> None:
    leader, cause = elect(state(), np.empty(0, dtype=np.bool_))
    assert len(leader) == len(cause) == 0
