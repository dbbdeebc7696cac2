"""Room on the disks that a plan copies to: volumes count once, and every log dir is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pipelines.execution.cluster_view import ClusterView
from pipelines.execution.planned_steps import PlannedSteps
from pipelines.execution.preflight import ClusterDisks, find_problems, find_unchecked_disks
from pipelines.ingest.merge.entities import LOG_DIRS
from pipelines.live.cluster_records import ClusterDescription, LiveBroker, LivePartition
from pipelines.plan_files.plan_reader import PlannedChange
from udfs.failures.disk_limits import list_broker_disks
from udfs.failures.replica_logs import LOG_SUMS

GB = 10**9


def log_dir(path: str, total: int, usable: int, partitions: Mapping[int, int] | None = None) -> dict[str, Any]:
    """Return a log dir with logs of topic t: {partition: bytes}."""
    logs = [
        {"partition_index": id_, "partition_size": size, "is_future_key": False}
        for id_, size in (partitions or {}).items()
    ]
    topics = [{"name": "t", "partitions": logs}] if logs else []
    return {"log_dir": path, "error": None, "total_bytes": total, "usable_bytes": usable, "topics": topics}


FAILED = {"log_dir": "/f", "error": "KafkaStorage", "total_bytes": -1, "usable_bytes": -1, "topics": []}


def view_of(brokers: int, offline: tuple[int, ...] = ()) -> ClusterView:
    """Two partitions on brokers 1 and 2."""
    live = tuple(LiveBroker(id_, "h", 9092, None, False) for id_ in range(1, brokers + 1))
    partitions = {("t", p): LivePartition(p, 1, (1, 2), (1, 2), offline) for p in (0, 1)}
    return ClusterView(ClusterDescription("c", live), partitions, {"t": "id"}, {})


def copy_to_third(chosen: str | None = None) -> PlannedSteps:
    """Move both partitions from broker 2 to broker 3."""
    log_dirs = {} if chosen is None else {3: chosen}
    steps = PlannedChange([1, 2], ((1, [1, 3]),), log_dirs=log_dirs)
    return PlannedSteps({("t", 0): steps, ("t", 1): steps}, 1)


LEADER = log_dir("/a", 1000 * GB, 900 * GB, {0: 10 * GB, 1: 10 * GB})


def disks_of(log_dirs: Mapping[int, list[dict[str, Any]]], ratio: float = 0.95, **capacities: Any) -> ClusterDisks:
    """Return the disks of brokers 1 to 3, and partitions of 10 GB."""
    rows = [
        {
            **{"broker_id": broker, "log_dir": one["log_dir"], "log_dir_error": one["error"]},
            "cordoned": one.get("is_cordoned"),
            **{name: None if one[name] < 0 else one[name] for name in ("total_bytes", "usable_bytes")},
        }
        for broker, own in log_dirs.items()
        for one in own
    ]
    table = pa.Table.from_pylist(rows, LOG_DIRS)
    disks = list_broker_disks(LOG_SUMS.empty_table(), table, (1, 2, 3), **capacities)
    return ClusterDisks(log_dirs, disks, {("t", 0): 10 * GB, ("t", 1): 10 * GB}, ratio)


def find(dirs: list[dict[str, Any]], chosen: str | None = None) -> list[str]:
    return find_problems(copy_to_third(chosen), view_of(3), disks_of({1: [LEADER], 2: [], 3: dirs}), [])


def test_one_full_log_dir_among_several() -> None:
    """Kafka puts new replicas into the log dir with the fewest, which is the full one, though another has room."""
    full, empty = log_dir("/full", 100 * GB, 6 * GB), log_dir("/empty", 100 * GB, 90 * GB, {8: 1, 9: 1})
    assert find([full, empty]) == [
        "broker 3 has 6.0 GB left on log dir /full, too little for the 20.0 GB that the plan copies to it. "
        "Free space, or make a plan with --max-bytes"
    ]
    assert find([full, empty], chosen="/empty") == []
    assert len(find([full, empty], chosen="/full")) == 1
    assert len(find([log_dir("/full", 100 * GB, 14 * GB)] * 2)) == 1  # one volume: both copies go there
    assert find([log_dir("/a", 100 * GB, 24 * GB), log_dir("/b", 100 * GB, 30 * GB)]) == []


def test_cordoned_log_dirs_are_no_room() -> None:
    """Kafka chooses none of them."""
    wide, small = log_dir("/wide", 1000 * GB, 900 * GB), log_dir("/small", 100 * GB, 6 * GB, {8: 1, 9: 1})
    assert find([wide, small]) == []
    (problem,) = find([wide | {"is_cordoned": True}, small])
    assert problem.startswith("broker 3 has 6.0 GB left on its disks, too little for the 20.0 GB")


def test_disks_may_be_used_up_to_a_share() -> None:
    """capacity.max_disk_ratio, as for the plan itself."""
    logs = {1: [LEADER], 2: [], 3: [log_dir("/a", 100 * GB, 50 * GB)]}
    assert find_problems(copy_to_third(), view_of(3), disks_of(logs, 0.7), []) == []
    (problem,) = find_problems(copy_to_third(), view_of(3), disks_of(logs, 0.69), [])
    assert problem.startswith("broker 3 has 50.0 GB left on its disks, too little for the 20.0 GB")


def test_a_full_log_dir_that_gets_nothing_is_no_problem() -> None:
    full, empty = log_dir("/full", 100 * GB, 1 * GB), log_dir("/empty", 100 * GB, 90 * GB)
    assert find([full, empty], chosen="/empty") == []


def test_disks_of_a_file_and_of_a_setting() -> None:
    """capacity.file and plans.broker_bytes, as for what-if and plans."""
    unknown, wide = log_dir("/a", -1, -1), log_dir("/a", 100 * GB, 90 * GB)

    def find_full(dirs: list[dict[str, Any]], **capacities: Any) -> list[str]:
        disks = disks_of({1: [LEADER], 2: [], 3: dirs}, **capacities)
        return find_problems(copy_to_third(), view_of(3), disks, []) + find_unchecked_disks(
            copy_to_third(), view_of(3), disks
        )

    (problem,) = find_full([wide], capacities={(3, ""): 15.0 * GB})
    assert problem.startswith("broker 3 has 15.0 GB left on its disks, too little for the 20.0 GB")
    (problem,) = find_full([wide], capacities={(3, "/a"): 19.0 * GB})
    assert problem.startswith("broker 3 has 19.0 GB left on its disks")
    (problem,) = find_full([unknown], broker_bytes=20 * GB)  # of which 95 % may be used
    assert problem.startswith("broker 3 has 20.0 GB left on its disks")
    assert find_full([unknown], broker_bytes=30 * GB) == find_full([], broker_bytes=30 * GB) == []
    assert len(find_full([])) == 1


def test_failed_and_unknown_log_dirs_leave_the_others_checked() -> None:
    full, unknown = log_dir("/full", 100 * GB, 6 * GB), log_dir("/u", -1, -1, {7: 1, 8: 1, 9: 1})
    assert len(find([full, FAILED, unknown])) == 1
    assert (
        find([full, FAILED], chosen="/f")[0] == "log dir /f of broker 3 failed, and the plan needs it. Make a new plan"
    )
    logs = {1: [LEADER], 2: [], 3: [full, FAILED, unknown]}
    texts = find_unchecked_disks(copy_to_third(), view_of(3), disks_of(logs))
    assert texts == [
        "log dir /f of broker 3 failed: no replica can be in it until its disk is replaced",
        "free bytes of log dirs are not known: /u of broker 3. Check that they have room",
    ]
    assert find_unchecked_disks(copy_to_third(), view_of(3), disks_of({1: [LEADER]})) == [
        "free bytes of log dirs are not known: broker 3. Check that they have room"
    ]


def test_a_replica_that_stays_in_a_failed_log_dir_blocks_its_reassignment() -> None:
    view = view_of(3, offline=(1,))
    (problem,) = find_problems(copy_to_third(), view, disks_of({}), [])
    assert problem == (
        "the plan leaves replicas of 2 partitions in failed log dirs (t-0, t-1), so that Kafka would not end their "
        "reassignments. Make a plan with --goal repair first"
    )
    assert find_problems(copy_to_third(), view_of(3, offline=(2,)), disks_of({}), []) == []
