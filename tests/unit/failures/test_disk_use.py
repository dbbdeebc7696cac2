"""The bytes that brokers hold, against the volumes of their log dirs, a capacity file, and a setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.disk_use import list_disk_uses
from pipelines.config.settings import load_settings
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source

_DESCRIBE = (
    "Topic: t\tPartitionCount: 1\tReplicationFactor: 3\tConfigs: \n"
    "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\n"
)


def _log_dir(path: str, total: int | None, usable: int | None, *replicas: int) -> dict[str, Any]:
    logs = [{"partition": "t-0", "size": size, "offsetLag": 0, "isFuture": False} for size in replicas]
    volume = {} if total is None else {"totalBytes": total, "usableBytes": usable}
    return {"logDir": path, "error": None, **volume, "partitions": logs}


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """Broker 1 has two volumes, broker 2 two log dirs on one volume, broker 3 a log dir of an unknown volume."""
    folder = tmp_path / "prod"
    folder.mkdir()
    (folder / "describe.txt").write_text(_DESCRIBE)
    dirs = {
        1: [_log_dir("/a", 1000, 600, 300), _log_dir("/b", 1000, 900)],
        2: [_log_dir("/a", 500, 100, 300), _log_dir("/b", 500, 100)],
        3: [_log_dir("/a", 500, 100, 300), _log_dir("/b", None, None)],
    }
    answer = {"version": 1, "brokers": [{"broker": id_, "logDirs": own} for id_, own in dirs.items()]}
    (folder / "log-dirs.json").write_text(json.dumps(answer))
    return load_snapshot(find_source(str(folder)))


def test_volumes_count_once_and_unknown_ones_leave_the_setting(snapshot: Snapshot) -> None:
    def list_disks(*options: str) -> list[float | None]:
        return [use.disk_bytes for use in list_disk_uses(snapshot, load_settings(options))]

    assert list_disks() == [2000, 500, None]
    assert list_disks("plans.broker_bytes=700") == [2000, 500, 700]


def test_capacity_file_replaces_volumes(snapshot: Snapshot, tmp_path: Path) -> None:
    file = tmp_path / "capacity.csv"
    file.write_text("broker_id,disk_bytes,log_dir\n1,9000,\n2,100,/a\n2,150,/b\n")
    uses = list_disk_uses(snapshot, load_settings([f"capacity.file={file}"]))
    assert [(use.size_bytes, use.disk_bytes, use.is_over) for use in uses] == [
        (300, 9000, False),
        (300, 250, True),
        (300, None, False),
    ]
