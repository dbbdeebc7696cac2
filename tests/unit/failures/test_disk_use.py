"""The bytes of brokers and log dirs, against their volumes, a capacity file, and a setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.what_if_rendering import format_disk_uses
from pipelines.config.settings import load_settings
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.plan_files.hypothetical_cluster import grow_loads
from pipelines.what_if.failure_effects import DiskUse, list_disk_uses
from tests.commands import call


def write_describe(folder: Path, replicas: list[int]) -> None:
    ids = ",".join(map(str, replicas))
    (folder / "describe.txt").write_text(
        f"Topic: t\tPartitionCount: 1\tReplicationFactor: {len(replicas)}\tConfigs: \n"
        f"\tTopic: t\tPartition: 0\tLeader: {replicas[0]}\tReplicas: {ids}\tIsr: {ids}\n"
    )


def write_log_dirs(folder: Path, dirs: dict[int, list[dict[str, Any]]]) -> None:
    answer = {"version": 1, "brokers": [{"broker": id_, "logDirs": own} for id_, own in dirs.items()]}
    (folder / "log-dirs.json").write_text(json.dumps(answer))


def _log_dir(path: str, total: int | None, usable: int | None, *replicas: int) -> dict[str, Any]:
    logs = [{"partition": "t-0", "size": size, "offsetLag": 0, "isFuture": False} for size in replicas]
    volume = {} if total is None else {"totalBytes": total, "usableBytes": usable}
    return {"logDir": path, "error": None, **volume, "partitions": logs}


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """Broker 1 has two volumes, broker 2 two log dirs on one volume, broker 3 a log dir of an unknown volume."""
    folder = tmp_path / "prod"
    folder.mkdir()
    write_describe(folder, [1, 2, 3])
    dirs = {
        1: [_log_dir("/a", 1000, 600, 300), _log_dir("/b", 1000, 900)],
        2: [_log_dir("/a", 500, 100, 300), _log_dir("/b", 500, 100)],
        3: [_log_dir("/a", 500, 100, 300), _log_dir("/b", None, None)],
    }
    write_log_dirs(folder, dirs)
    return load_snapshot(find_source(str(folder)))


def test_volumes_count_once_and_unknown_ones_leave_the_setting(snapshot: Snapshot) -> None:
    def list_disks(*options: str) -> list[float | None]:
        uses = list_disk_uses(snapshot, snapshot, load_settings(options))
        return [use.disk_bytes for use in uses if use.log_dir is None]

    # Other files use 100 bytes of each volume: 600 and 900 are usable beside the 300 of the replica.
    assert list_disks() == [1800, 400, None]
    assert list_disks("plans.broker_bytes=700") == [1800, 400, 700]


def test_log_dirs_of_brokers_with_several(snapshot: Snapshot) -> None:
    """Those on one volume have no limit of their own, and neither has one of an unknown volume."""
    uses = list_disk_uses(snapshot, snapshot, load_settings())
    assert [(use.name, use.size_bytes, use.disk_bytes) for use in uses if use.log_dir is not None] == [
        ("log dir /a of broker 1", 300, 900),
        ("log dir /b of broker 1", 0, 900),
        ("log dir /a of broker 2", 300, None),
        ("log dir /b of broker 2", 0, None),
        ("log dir /a of broker 3", 300, 400),
        ("log dir /b of broker 3", 0, None),
    ]


def test_replicas_count_by_their_own_logs(tmp_path: Path) -> None:
    """The leader has 2 kB, a follower 10 kB, as its broker deletes segments later; a third broker does not answer."""
    folder = tmp_path / "prod"
    folder.mkdir()
    write_describe(folder, [1, 2, 3])
    write_log_dirs(folder, {1: [_log_dir("/a", 20_000, 9_000, 2_000)], 2: [_log_dir("/a", 20_000, 1_000, 10_000)]})
    snapshot = load_snapshot(find_source(str(folder)))
    uses = list_disk_uses(snapshot, snapshot, load_settings())
    assert [(use.name, use.size_bytes, use.inferred_bytes, use.disk_bytes) for use in uses] == [
        ("broker 1", 2_000, 0, 11_000),
        ("broker 2", 10_000, 0, 11_000),
        ("broker 3", 2_000, 2_000, None),
    ]
    assert list(format_disk_uses(uses)) == ["  disk: broker 2 holds 10 kB, 91 % of the 11 kB that its disks can hold"]
    only_third = [use for use in uses if use.broker_id == 3]
    assert list(format_disk_uses(only_third)) == [
        "  disk: broker 3 holds 2 kB (2 kB inferred from leaders), the most of all; the size of its disks is not known"
    ]


def test_a_log_dir_that_others_have_filled_is_the_fullest() -> None:
    uses = [DiskUse(1, None, 300, 1800), DiskUse(1, "/a", 300, 900), DiskUse(1, "/b", 0, 0)]
    assert list(format_disk_uses(uses)) == [
        "  disk: log dir /b of broker 1 holds 0 B, 100 % of the 0 B that its disk can hold"
    ]


def test_a_larger_load_fills_a_log_dir_before_its_broker(snapshot: Snapshot) -> None:
    grown = list_disk_uses(grow_loads(snapshot, 3.5), snapshot, load_settings())
    assert [use.name for use in grown if use.is_over] == [
        "log dir /a of broker 1",
        "broker 2",
        "log dir /a of broker 3",
    ]
    assert list(format_disk_uses(grown)) == [
        "  disk: broker 2 holds 1.05 kB, more than the 400 B that its disks can hold",
        "    1 broker and 2 log dirs would hold more than their disks can",
    ]
    only_dir = [DiskUse(1, None, 300, 1800), DiskUse(1, "/a", 300, 900)]
    assert list(format_disk_uses(only_dir)) == [
        "  disk: log dir /a of broker 1 holds 300 B, 33 % of the 900 B that its disk can hold"
    ]


def test_capacity_file_replaces_volumes(snapshot: Snapshot, tmp_path: Path) -> None:
    file = tmp_path / "capacity.csv"
    file.write_text("broker_id,disk_bytes,log_dir\n1,9000,\n2,100,/a\n2,150,/b\n")
    uses = list_disk_uses(snapshot, snapshot, load_settings([f"capacity.file={file}"]))
    assert [(use.size_bytes, use.disk_bytes, use.is_over) for use in uses if use.log_dir is None] == [
        (300, 9000, False),
        (300, 250, True),
        (300, None, False),
    ]
    assert [(use.size_bytes, use.disk_bytes) for use in uses if use.broker_id == 2] == [
        (300, 250),
        (300, 100),
        (0, 150),
    ]


@pytest.mark.parametrize(("replicas", "brokers_after"), [(3, 2), (2, 3)])
def test_log_dirs_after_a_plan(tmp_path: Path, replicas: int, brokers_after: int) -> None:
    """Replicas that stay keep their log dirs; a copy goes to the emptier one, which the plan chose."""
    folder = tmp_path / "prod"
    folder.mkdir()
    held_by = [1, 2, 3][:replicas]
    write_describe(folder, held_by)
    dirs = {b: [_log_dir("/a", 1000, 600, *[300] * (b in held_by)), _log_dir("/b", 1000, 900)] for b in (1, 2, 3)}
    write_log_dirs(folder, dirs)
    plan, answer = str(tmp_path / "plan"), tmp_path / "answer.json"
    call("plan", str(folder), "--goal", "rf", "--rf", str(brokers_after), "--out", plan)
    call("what-if", str(folder), "--after", plan, "--json", str(answer))
    found = {(use["broker_id"], use["log_dir"]): use["size_bytes"] for use in json.loads(answer.read_text())["disks"]}
    holders = [broker for broker in (1, 2, 3) if found[broker, None]]
    assert len(holders) == brokers_after
    for broker in holders:
        expected = (300, 0) if broker in held_by else (0, 300)
        assert (found[broker, "/a"], found[broker, "/b"]) == expected
