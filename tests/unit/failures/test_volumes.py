"""Log dirs on one volume, and the log dir that Kafka chooses for a new replica."""

from __future__ import annotations

import pytest

from tests.unit.failures.log_dir_rows import log_dir_table
from udfs.failures.disk_limits import (
    FILE,
    LOG_DIRS,
    Volume,
    choose_emptiest,
    find_disk_limits,
    is_full,
    list_volumes,
    number_volumes,
)

TB = 10**12


@pytest.mark.parametrize(
    ("total", "usable", "volumes"),
    [
        ([TB, TB, TB], [5, 5, 5], [0, 0, 0]),
        ([TB, TB, 2 * TB], [5, 5, 5], [0, 0, 2]),
        ([TB, TB, TB], [TB // 2, TB // 3, TB // 2], [0, 1, 0]),
        ([TB, TB, TB], [TB // 2, TB // 2 - 4096, TB // 2 + 8192], [0, 0, 0]),  # written to in between
        ([None, None, TB], [None, None, 5], [0, 1, 2]),
        ([], [], []),
    ],
)
def test_log_dirs_share_a_volume(total: list[int | None], usable: list[int | None], volumes: list[int]) -> None:
    assert number_volumes([1] * len(total), total, usable).tolist() == volumes


def test_brokers_share_no_volume() -> None:
    assert number_volumes([2, 1, 2], [TB] * 3, [7] * 3).tolist() == [0, 1, 0]


def _row(path: str, total: int | None, usable: int | None, used: int | None = None) -> dict[str, object]:
    return {"log_dir": path, "total_bytes": total, "usable_bytes": usable, "used_bytes": used}


@pytest.mark.parametrize(
    ("rows", "volumes"),
    [
        ([_row("/a", 100, 60), _row("/b", 100, 60)], [Volume(("/a", "/b"), 100, 60, LOG_DIRS)]),
        (
            [_row("/a", 100, 60), _row("/b", 100, 50)],
            [Volume(("/a",), 100, 60, LOG_DIRS), Volume(("/b",), 100, 50, LOG_DIRS)],
        ),
        (
            [_row("/a", 100, 60), _row("/b", None, None)],
            [Volume(("/a",), 100, 60, LOG_DIRS), Volume(("/b",), None, None, LOG_DIRS)],
        ),
        (
            [_row("/f", 100, 60, 10), _row("/b", 100, 60)],
            [Volume(("/f",), 500, 490, FILE), Volume(("/b",), 100, 60, LOG_DIRS)],
        ),
        ([_row("/f", 100, 60, None)], [Volume(("/f",), 500, None, FILE)]),
        ([], []),
    ],
)
def test_each_volume_is_listed_once(rows: list[dict[str, object]], volumes: list[Volume]) -> None:
    """A file says that /f has 500 bytes for itself."""
    assert list_volumes(rows, {"/f": 500}) == volumes


def test_kafka_chooses_the_log_dir_with_the_fewest_replicas() -> None:
    assert choose_emptiest([3, 1, 2], 5) == [1, 1, 2, 0, 1]
    assert choose_emptiest([0], 2) == [0, 0]


def test_a_full_volume() -> None:
    assert is_full(1000, 49)
    assert not is_full(1000, 50)


def test_a_shared_volume_among_others_limits_its_log_dirs() -> None:
    """Two log dirs of 300 and 100 bytes share 40 free bytes, so that they can grow by 10 %; the third shares none."""
    rows = [(1, "/a", 1000, 40, 300), (1, "/b", 1000, 40, 100), (1, "/c", 1000, 900, 50)]
    limits = find_disk_limits([1], log_dir_table(rows), {})
    assert {path: limit.free_bytes for (_, path), limit in limits.items()} == {None: 940, "/a": 30, "/b": 10, "/c": 900}
