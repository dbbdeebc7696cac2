"""Whether what fails for good fits on the disks of survivors: by hand, and levels against bisection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.failures.disk_after_failure import VOLUMES, disk_rows, find_level
from udfs.failures.replica_logs import LOG_SUMS

# broker, log dir, replicas, leaders, partitions with one replica in sync, bytes
Usage = list[tuple[int, str | None, int, int, int, int | None]]
# broker, rack, live, log dir, total, usable, error, cordoned
Volumes = list[tuple[int, str | None, bool | None, str | None, int | None, int | None, str | None, bool | None]]


def rows_of(usage: Usage, volumes: Volumes, ratio: float = 1.0, **capacities: Any) -> dict[str, dict[str, Any]]:
    names = ("broker_id", "log_dir", "replicas", "leaders", "only_in_sync_partitions", "size_bytes")
    sums = [dict(zip(names, row, strict=True)) for row in usage]
    for row in sums:
        is_known = row["size_bytes"] is not None
        row |= {"replica_bytes": row["size_bytes"], "unknown_logs": 0 if is_known else row["replicas"]}
        row |= {"partitions_with_size": row["replicas"] if is_known else 0}
    log_dirs = [dict(zip(VOLUMES.names, row, strict=True)) for row in volumes]
    tables = (pa.Table.from_pylist(sums, LOG_SUMS), pa.Table.from_pylist(log_dirs, VOLUMES))
    return {row["scenario"]: row for row in disk_rows(*tables, ratio, **capacities).to_pylist()}


def volume(broker: int, total: int | None, usable: int | None, rack: str | None = None, path: str = "/d") -> Any:
    return (broker, rack, True, path, total, usable, None, None)


USAGE_OF_THREE: Usage = [(1, "/d", 4, 2, 1, 600), (2, "/d", 3, 1, 0, 500), (3, "/d", 2, 1, 0, 100)]


def test_the_fullest_survivor_by_hand() -> None:
    volumes = [volume(1, 1000, 400), volume(2, 1000, 500), volume(3, 2000, 1900)]
    rows = rows_of(USAGE_OF_THREE, volumes, 0.9)
    first = rows["broker:1"]
    assert (first["replicas"], first["leaders"], first["only_in_sync_partitions"]) == (4, 2, 1)
    assert first["bytes_to_copy"] == 600
    assert first["free_bytes"] == 400 + 1700  # up to 90 % of 1000 and 2000
    assert first["fits"] is True
    # Broker 3 takes all: (100 + 600) / 2000 is below the 0.5 of broker 2.
    assert (first["fullest_broker"], first["fullest_disk_ratio"]) == (2, 0.5)
    third = rows["broker:3"]
    assert third["free_bytes"] == 300 + 400
    assert third["fullest_disk_ratio"] == pytest.approx(0.6)  # (500 + 100) / 1000


def test_a_failure_that_does_not_fit() -> None:
    rows = rows_of(USAGE_OF_THREE, [volume(1, 1000, 400), volume(2, 600, 100), volume(3, 500, 400)])
    assert (rows["broker:1"]["fits"], rows["broker:1"]["free_bytes"]) == (False, 500)
    assert rows["broker:1"]["fullest_disk_ratio"] == pytest.approx(1200 / 1100)


def test_racks() -> None:
    volumes = [volume(1, 1000, 400, "a"), volume(2, 1000, 500, "a"), volume(3, 2000, 1900, "b")]
    rows = rows_of(USAGE_OF_THREE, volumes)
    assert rows.pop("none")["fullest_broker"] == 1  # 600 of 1,000 bytes
    assert set(rows) == {"broker:1", "broker:2", "broker:3", "rack:a", "rack:b"}
    assert (rows["broker:1"]["fits"], rows["broker:1"]["fits_in_rack"]) == (True, False)
    assert rows["broker:3"]["fits_in_rack"] is False  # no other broker is in its rack
    assert (rows["rack:a"]["failed_brokers"], rows["rack:a"]["bytes_to_copy"]) == ([1, 2], 1100)
    assert rows["rack:a"]["fits_in_rack"] is None


def test_a_log_dir_that_fails_leaves_its_broker() -> None:
    usage: Usage = [(1, "/a", 2, 1, 1, 300), (1, "/b", 1, 0, 0, 100), (2, "/d", 1, 1, 0, 50)]
    volumes = [volume(1, 500, 200, path="/a"), volume(1, 600, 500, path="/b"), volume(2, 100, 50)]
    rows = rows_of(usage, volumes)
    lost = rows["log_dir:1:/a"]
    assert (lost["scenario_kind"], lost["failed_brokers"]) == ("log_dir", [1])
    assert (lost["replicas"], lost["leaders"], lost["only_in_sync_partitions"]) == (2, 1, 1)
    assert (lost["bytes_to_copy"], lost["free_bytes"], lost["fits"]) == (300, 550, True)
    assert rows["broker:1"]["bytes_to_copy"] == 400
    assert "log_dir:2:/d" not in rows  # the only one of its broker


def test_log_dirs_on_one_volume_count_once() -> None:
    volumes = [volume(1, 1000, 400, path="/a"), volume(1, 1000, 400, path="/b"), volume(2, 900, 900)]
    assert rows_of([(2, "/d", 1, 1, 0, 10)], volumes)["broker:2"]["free_bytes"] == 400


def test_cordoned_log_dirs_take_no_copies() -> None:
    def cordon(row: Any) -> Any:
        return (*row[:-1], True)

    usage: Usage = [(1, "/a", 1, 1, 1, 300), (2, "/a", 1, 0, 0, 100), (3, "/a", 1, 0, 0, 100)]
    part = [volume(2, 1000, 800, path="/a"), cordon(volume(2, 2000, 1900, path="/b"))]
    volumes = [volume(1, 1000, 700, path="/a"), *part, cordon(volume(3, 900, 800, path="/a"))]
    rows = rows_of(usage, volumes)
    assert (rows["broker:1"]["free_bytes"], rows["broker:1"]["fullest_broker"]) == (800, 2)
    assert rows["broker:3"]["free_bytes"] == 700 + 800
    assert rows["log_dir:2:/a"]["free_bytes"] is None, "no log dir of broker 2 is left that takes copies"


@pytest.mark.parametrize("broken", [volume(3, None, None), (3, None, True, None, None, None, None, None)])
def test_unknown_disks_stay_unknown(broken: Any) -> None:
    row = rows_of(USAGE_OF_THREE, [volume(1, 1000, 400), volume(2, 1000, 500), broken])["broker:1"]
    assert row["bytes_to_copy"] == 600
    assert [row[name] for name in ("free_bytes", "fits", "fullest_broker", "fullest_disk_ratio")] == [None] * 4


def test_unknown_sizes_stay_unknown() -> None:
    row = rows_of([(1, None, 4, 2, 1, None)], [volume(1, 1000, 400), volume(2, 1000, 500)])["broker:1"]
    assert (row["bytes_to_copy"], row["fits"], row["free_bytes"]) == (None, None, 500)


def test_capacities_of_a_file() -> None:
    volumes = [volume(1, None, None), (2, None, True, "/d", None, None, None, None), volume(3, 9, 9)]
    capacities = {(2, ""): 800.0, (3, "/d"): 1000.0}
    row = rows_of(USAGE_OF_THREE, volumes, capacities=capacities)["broker:1"]
    assert row["free_bytes"] == (800 - 500) + (1000 - 100)  # less what logs use


def test_plans_broker_bytes_are_the_disks_of_which_nothing_else_is_known() -> None:
    volumes = [volume(1, 1000, 400), volume(2, None, None), (3, None, True, None, None, None, None, None)]
    row = rows_of(USAGE_OF_THREE, volumes, broker_bytes=700)["broker:1"]
    assert row["free_bytes"] == (700 - 500) + (700 - 100)


def test_only_logs_count_against_the_bytes_that_a_file_has_for_a_broker() -> None:
    """Other files use 900 bytes of the volume, of which the file gives 800 to the logs."""
    row = rows_of(USAGE_OF_THREE, [volume(1, 9, 9), volume(2, 2000, 600)], capacities={(2, ""): 800.0})["broker:1"]
    assert row["free_bytes"] == 800 - 500


def test_a_volume_is_left_if_another_log_dir_is_on_it() -> None:
    usage: Usage = [(1, "/a", 2, 1, 1, 300), (1, "/b", 1, 0, 0, 100), (1, "/c", 1, 0, 0, 100)]
    shared = [volume(1, 1000, 400, path="/a"), volume(1, 1000, 400, path="/b"), volume(1, 500, 50, path="/c")]
    rows = rows_of(usage, shared)
    free = {path: rows[f"log_dir:1:{path}"]["free_bytes"] for path in ("/a", "/b", "/c")}
    assert free == {"/a": 450, "/b": 450, "/c": 400}
    together = rows_of(usage, shared, capacities={(1, ""): 2000.0})
    assert together["log_dir:1:/a"]["free_bytes"] is None  # what the others have of it is not known


def test_brokers_that_are_down_are_no_survivors() -> None:
    down = (2, None, False, "/d", 1000, 500, None, None)
    rows = rows_of(USAGE_OF_THREE, [volume(1, 1000, 400), down, volume(3, 2000, 1900)])
    assert set(rows) == {"none", "broker:1", "broker:3"}
    assert rows["broker:1"]["free_bytes"] == 1900


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 1000)), min_size=1, max_size=8), st.integers(0, 5000))
def test_levels_against_bisection(disks: list[tuple[int, int]], added: int) -> None:
    total, used = (np.array(values, dtype=np.float64) for values in zip(*disks, strict=True))
    low, high = 0.0, 1e5
    for _ in range(200):
        level = (low + high) / 2
        if np.maximum(level * total - used, 0).sum() < added:
            low = level
        else:
            high = level
    found = find_level(total, used, added)
    assert np.maximum(found * total - used, 0).sum() == pytest.approx(added, abs=1e-6)
    assert added == 0 or found == pytest.approx(high, rel=1e-6)
