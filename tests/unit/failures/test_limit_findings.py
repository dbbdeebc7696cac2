"""What disks and survivors cannot take after a failure, in the verdict: answers that were computed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.commands import call
from tests.unit.failures.test_hypothetical_clusters import FILE, write_cluster


def write_disks(folder: Path, brokers: int, factor: int, size: int, dirs: int = 1, usable: int = 150) -> None:
    """Write a describe and log dirs: each broker leads one partition; all replicas have this size, volumes 1 kB."""
    lists = [[(p + i) % brokers + 1 for i in range(factor)] for p in range(brokers)]
    lines = [f"Topic: t\tPartitionCount: {brokers}\tReplicationFactor: {factor}\tConfigs: min.insync.replicas=1"]
    for p, replicas in enumerate(lists):
        ids = ",".join(map(str, replicas))
        lines.append(f"\tTopic: t\tPartition: {p}\tLeader: {replicas[0]}\tReplicas: {ids}\tIsr: {ids}")
    (folder / "describe.txt").write_text("\n".join(lines) + "\n")
    answer: list[dict[str, Any]] = []
    for broker in range(1, brokers + 1):
        here = [p for p, replicas in enumerate(lists) if broker in replicas]
        log_dirs = []
        for number in range(dirs):
            logs = [{"partition": f"t-{p}", "size": size, "offsetLag": 0, "isFuture": False} for p in here]
            logs = logs[number::dirs]
            free = usable if dirs == 1 else 1000 - sum(log["size"] for log in logs)
            volume = {"totalBytes": 1000 + number, "usableBytes": free}
            log_dirs.append({"logDir": f"/d{number}", "error": None, **volume, "partitions": logs})
        answer.append({"broker": broker, "logDirs": log_dirs})
    (folder / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": answer}))


def ask(folder: Path, *options: str) -> dict[str, dict[str, Any]]:
    """Return the findings by kind."""
    answer = json.loads(call("what-if", ".", *options, "--json", "-", folder=folder).stdout)
    return {point["kind"]: point for point in answer["verdict"]["points"]}


def test_data_of_a_lost_broker_that_does_not_fit(tmp_path: Path) -> None:
    """Each of four brokers has 2 x 400 B of 1,000 B, 150 B of them usable: up to 95 %, the others can take 3 x 100."""
    write_disks(tmp_path, brokers=4, factor=2, size=400)
    point = ask(tmp_path)["disk_too_small"]
    assert (point["level"], point["affected"]) == ("warning", 4)
    assert point["text"] == (
        "If any single broker is lost for good, its replicas do not fit on the disks of those that stay "
        "(worst case: broker 1, 800 B, where 300 B fit)."
    )
    larger = ("--add", "9", "--set", "plans.broker_bytes=2000")
    assert "disk_too_small" not in ask(tmp_path, "--set", "capacity.max_disk_ratio=1", *larger)


def test_a_disk_above_its_limit_now(tmp_path: Path) -> None:
    """850 B of 1,000 B are used."""
    write_disks(tmp_path, brokers=4, factor=2, size=400)
    assert "disk_over_limit" not in ask(tmp_path)
    point = ask(tmp_path, "--set", "capacity.max_disk_ratio=0.8")["disk_over_limit"]
    assert (point["level"], point["text"]) == ("warning", "The disks of broker 1 are 85 % full.")


def test_where_nothing_would_be_copied_nothing_is_said(tmp_path: Path) -> None:
    """Two brokers cannot take a third replica of partitions with three."""
    write_disks(tmp_path, brokers=3, factor=3, size=280)
    assert "disk_too_small" not in ask(tmp_path)


def test_log_dirs_of_which_one_is_fuller(tmp_path: Path) -> None:
    """Of three replicas of 300 B, two are in the first log dir: 60 % of it are used, and 30 % of the other."""
    write_disks(tmp_path, brokers=4, factor=3, size=300, dirs=2)
    point = ask(tmp_path)["uneven_log_dirs"]
    assert point["text"] == (
        "Log dirs of brokers 1, 2, 3, 4 are unevenly full: /d0 60 %, /d1 30 % of broker 1, /d0 60 %, /d1 30 % of "
        "broker 2, /d0 60 %, /d1 30 % of broker 3, /d0 60 %, /d1 30 % of broker 4."
    )
    assert point["plan"]["goal"] == "log-dirs"


def test_a_survivor_over_a_known_capacity(tmp_path: Path) -> None:
    write_cluster(tmp_path)
    busier = ("--grow", "1.3")
    (tmp_path / "prod").mkdir()
    (tmp_path / "prod.json").rename(tmp_path / "prod" / "prod.json")
    limits = ("--set", f"capacity.file={tmp_path / FILE[1].split('=')[1]}")
    assert ask(tmp_path / "prod", *limits, *busier)["survivor_over_capacity"]["text"] == (
        "If any single broker fails, a survivor is over its capacity (worst case: broker 0; broker 1 then transfers "
        "260 kB/s (bytes in), and its capacity is 250 kB/s)."
    )
    assert "survivor_over_capacity" not in ask(tmp_path / "prod", *limits)
    assert "survivor_over_capacity" not in ask(tmp_path / "prod", *busier)
