"""Plans leave disks without room alone: repairs, and balances whose even share is more than some disks hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import call

GB = 10**9


def write_cluster(folder: Path, full: int) -> str:
    """Six brokers in three racks; broker 6 is down; of broker 3, of rack c as 6 is, only 1 GB is free.

    Each partition has 1 GB. full: the bytes of the volume of broker 3 beside its logs and 1 GB.
    """
    lists = [[1, 2, 3], [4, 5, 6], [1, 5, 6], [4, 2, 3], [2, 1, 6], [5, 4, 3]]
    lines = ["Topic: t\tPartitionCount: 6\tReplicationFactor: 3\tConfigs: min.insync.replicas=2"]
    for partition, replicas in enumerate(lists):
        live = ",".join(str(one) for one in replicas if one != 6)
        text = f"\tTopic: t\tPartition: {partition}\tLeader: {replicas[0]}\tReplicas: {','.join(map(str, replicas))}"
        lines.append(f"{text}\tIsr: {live}")
    (folder / "topics.txt").write_text("\n".join(lines) + "\n")
    racks = {1: "a", 4: "a", 2: "b", 5: "b", 3: "c", 7: "c"}
    (folder / "brokers.txt").write_text(
        "".join(f"h{b}:9092 (id: {b} rack: {rack}) -> (\n)\n" for b, rack in racks.items())
    )
    brokers = []
    for broker in racks:
        own = [partition for partition, replicas in enumerate(lists) if broker in replicas]
        total = (len(own) + 1) * GB + full if broker == 3 else 1000 * GB
        logs = [{"partition": f"t-{p}", "size": GB, "offsetLag": 0, "isFuture": False} for p in own]
        usable = GB if broker == 3 else total - len(own) * GB
        volume = {"error": None, "logDir": "/d", "totalBytes": total, "usableBytes": usable, "partitions": logs}
        brokers.append({"broker": broker, "logDirs": [volume]})
    (folder / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": brokers}))
    return str(folder)


def read_lists(plan: Path) -> dict[int, list[int]]:
    changes = json.loads((plan / "reassignment.json").read_text())["partitions"]
    return {one["partition"]: one["replicas"] for one in changes}


def test_a_repair_leaves_a_full_disk_alone(tmp_path: Path) -> None:
    source = write_cluster(tmp_path, full=96 * GB)
    printed = call("plan", source, "--goal", "repair", "--out", "plan", folder=tmp_path).stdout
    assert "HARMFUL" not in printed
    assert "more than its disks may" not in printed
    lists = read_lists(tmp_path / "plan")
    assert sorted(lists) == [1, 2, 4]
    assert all(7 in replicas and 3 not in replicas for replicas in lists.values())


@pytest.mark.parametrize("row", ["3,{bytes}", "3,{bytes},/d"], ids=["of the broker", "of its log dir"])
def test_bytes_of_disks_in_a_file_count_in_plans_and_their_judgement(tmp_path: Path, row: str) -> None:
    (tmp_path / "in").mkdir()
    source = write_cluster(tmp_path / "in", full=900 * GB)
    header = "broker_id,disk_bytes" + (",log_dir" if "/d" in row else "")
    for size, is_full in ((1000 * GB, False), (4 * GB, True)):
        (tmp_path / "capacity.csv").write_text(f"{header}\n{row.format(bytes=size)}\n")
        lists = [
            {"topic": "t", "partition": p, "replicas": replicas} for p, replicas in ((1, [4, 5, 3]), (2, [1, 5, 3]))
        ]
        (tmp_path / "by-hand.json").write_text(json.dumps({"version": 1, "partitions": lists}))
        settings = ("--set", f"capacity.file={tmp_path / 'capacity.csv'}")
        answer = call("check", "by-hand.json", source, *settings, code=1 if is_full else 0, folder=tmp_path).stdout
        assert ("would hold up to 5 GB, more than the 4 GB" in answer) is is_full
        call("plan", source, "--goal", "repair", "--out", f"plan-{size}", *settings, folder=tmp_path)
        planned = read_lists(tmp_path / f"plan-{size}")
        assert not (is_full and any(3 in replicas for replicas in planned.values()))


def test_a_balance_fills_no_small_disk(tmp_path: Path) -> None:
    """The even share of broker 3 and 7 in rack c is 3 GB, and broker 3 may hold 2.9 GB."""
    (tmp_path / "in").mkdir()
    source = write_cluster(tmp_path / "in", full=900 * GB)
    (tmp_path / "capacity.csv").write_text(f"broker_id,disk_bytes\n3,{2.9 * GB / 0.95:.0f}\n")
    settings = ("--set", f"capacity.file={tmp_path / 'capacity.csv'}")
    call("plan", source, "--goal", "balance", "--out", "plan", *settings, folder=tmp_path)
    after = json.loads(call("what-if", source, "--after", "plan", "--json", "-", folder=tmp_path).stdout)
    (use,) = [one for one in after["disks"] if one["broker_id"] == 3]
    assert use["size_bytes"] <= 3 * GB


def test_a_repair_knows_the_disks_of_brokers_with_several_log_dirs(tmp_path: Path) -> None:
    """The file has the bytes of the broker, and not of its log dirs."""
    (tmp_path / "in").mkdir()
    source = write_cluster(tmp_path / "in", full=900 * GB)
    file = tmp_path / "in" / "log-dirs.json"
    document = json.loads(file.read_text())
    (third,) = [one for one in document["brokers"] if one["broker"] == 3]
    for volume in third["logDirs"]:
        del volume["totalBytes"], volume["usableBytes"]
    third["logDirs"].append({"error": None, "logDir": "/e", "partitions": []})
    file.write_text(json.dumps(document))
    (tmp_path / "capacity.csv").write_text("broker_id,disk_bytes\n3,3000000000\n")
    settings = ("--set", f"capacity.file={tmp_path / 'capacity.csv'}")
    call("plan", source, "--goal", "repair", "--out", "plan", *settings, folder=tmp_path)
    assert all(7 in replicas and 3 not in replicas for replicas in read_lists(tmp_path / "plan").values())


def test_a_live_broker_of_unknown_rack_does_not_make_the_plan_forget_racks(tmp_path: Path) -> None:
    """As one that --return brings back: a list of live brokers did not show its rack. Broker 6 was in rack c."""
    (tmp_path / "in").mkdir()
    source = write_cluster(tmp_path / "in", full=0)
    brokers = tmp_path / "in" / "brokers.txt"
    brokers.write_text(brokers.read_text().replace("(id: 7 rack: c)", "(id: 7 rack: null)"))
    answer = call("plan", source, "--goal", "repair", "--out", "plan", folder=tmp_path).stdout
    assert "no source shows the rack of broker 7" in answer
    racks = {1: "a", 4: "a", 2: "b", 5: "b", 3: "c", 7: "c"}
    for replicas in read_lists(tmp_path / "plan").values():
        assert len({racks[broker] for broker in replicas}) == 3
