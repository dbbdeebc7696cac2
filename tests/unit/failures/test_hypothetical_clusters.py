"""`what-if` with --add, --remove and --grow: hand-computed answers for larger, smaller and busier clusters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import call

# Each broker leads one partition of 100 kB/s in and 200 kB/s out, which the next broker follows.
PARTITIONS = [
    {"topic": "t", "partition": p, "replicas": [p, (p + 1) % 3], "size_mb": 10, "in_kbps": 100, "out_kbps": 200}
    for p in range(3)
]
CAPACITIES = "broker_id,bytes_in_per_s,bytes_out_per_s\n0,250000,\n1,250000,\n2,250000,\n"


def write_cluster(folder: Path, racks: str | None = None) -> None:
    """Write a model; racks: the rack of each broker; None = no racks."""
    brokers = [{"id": id_} | ({"rack": racks[id_]} if racks else {}) for id_ in range(len(racks) if racks else 3)]
    (folder / "prod.json").write_text(json.dumps({"name": "prod", "brokers": brokers, "partitions": PARTITIONS}))
    (folder / "limits.csv").write_text(CAPACITIES)


def ask(folder: Path, *options: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(call("what-if", "prod.json", *options, "--json", "-", folder=folder).stdout)
    return answer


def list_rates(answer: dict[str, Any], quantity: str = "bytes_in_per_s") -> list[tuple[Any, ...]]:
    names = ("failed", "broker_id", "load", "capacity", "load_over_capacity_ratio")
    return [tuple(row[name] for name in names) for row in answer["survivor_loads"] if row["quantity"] == quantity]


FILE = ("--set", "capacity.file=limits.csv")


def test_survivors_of_a_busier_cluster_are_over_their_capacities(tmp_path: Path) -> None:
    write_cluster(tmp_path)
    # Whoever fails, the next broker leads its partition too.
    assert list_rates(ask(tmp_path, *FILE)) == [
        ([broker], (broker + 1) % 3, 200_000, 250_000, 0.8) for broker in range(3)
    ]
    busier = ask(tmp_path, *FILE, "--grow", "1.3")
    assert list_rates(busier) == [([b], (b + 1) % 3, 260_000, 250_000, 1.04) for b in range(3)]
    assert busier["hypothesis"] == {
        "load_factor": 1.3, "added_brokers": [], "removed_brokers": [], "copied_replicas": 0
    }  # fmt: skip
    out = call("what-if", "prod.json", *FILE, "--grow", "1.3", folder=tmp_path)
    assert "as if all sizes and rates were 1.3 times as large" in out.stderr
    words = (
        "  bytes in: if broker 0 fails, broker 1 transfers 260 kB/s, over its capacity of 250 kB/s, as in capacity.file"
    )
    assert f"\n{words}\n    3 of 3 failures would take a survivor over its capacity\n" in out.stdout
    assert "transfers 520 kB/s, and its capacity is not known" in out.stdout


def test_without_a_file_no_capacity_is_known(tmp_path: Path) -> None:
    write_cluster(tmp_path)
    assert list_rates(ask(tmp_path, "--grow", "2"))[0] == ([0], 1, 400_000, None, None)


def test_new_brokers_are_filled_and_take_load_from_the_others(tmp_path: Path) -> None:
    write_cluster(tmp_path, "abc")
    answer = ask(tmp_path, "--add", "3")
    added = answer["hypothesis"]["added_brokers"]
    assert added == [{"broker_id": 3 + n, "rack": rack} for n, rack in enumerate("abc")]
    assert [row["failed"] for row in answer["brokers"]] == [0, 1, 2, 3, 4, 5]
    # Six replicas on six brokers: who follows a broker's only partition leads nothing, or one partition.
    assert answer["hypothesis"]["copied_replicas"] == 3
    assert {row[2] for row in list_rates(answer)} <= {100_000, 200_000}
    failure = ask(tmp_path, "--add", "3", "--fail", "0,1,2")
    assert failure["hypothesis"]["added_brokers"] == added
    assert failure["summary"]["survivors"] == 3


def test_new_brokers_go_to_the_racks_with_the_fewest(tmp_path: Path) -> None:
    write_cluster(tmp_path, "aabbbc")
    added = ask(tmp_path, "--add", "4")["hypothesis"]["added_brokers"]
    assert [(row["broker_id"], row["rack"]) for row in added] == [(6, "c"), (7, "a"), (8, "c"), (9, "a")]
    write_cluster(tmp_path)
    assert ask(tmp_path, "--add", "1")["hypothesis"]["added_brokers"] == [{"broker_id": 3, "rack": None}]


def test_removed_brokers_are_emptied_and_gone(tmp_path: Path) -> None:
    write_cluster(tmp_path)
    answer = ask(tmp_path, "--remove", "2")
    assert [row["failed"] for row in answer["brokers"]] == [0, 1]
    assert answer["hypothesis"]["removed_brokers"] == [2]
    assert answer["hypothesis"]["copied_replicas"] == 2  # those of broker 2
    # Two brokers have all replicas of all partitions: the survivor leads all three.
    assert [row[:3] for row in list_rates(answer)] == [([0], 1, 300_000), ([1], 0, 300_000)]
    out = call("what-if", "prod.json", "--remove", "2", folder=tmp_path)
    assert "as if broker 2 was emptied as plan --goal drain does (2 replicas copied), and removed" in out.stderr
    assert "next:" not in out.stdout  # the commands of next steps are for the cluster as it is


def test_a_broker_that_is_lost_for_good(tmp_path: Path) -> None:
    """Broker 3 is down: a-0 has another copy, a-1 has none."""
    (tmp_path / "prod.txt").write_text(
        "Topic: a\tPartition: 0\tLeader: 1\tReplicas: 3,1\tIsr: 1\n"
        "Topic: a\tPartition: 1\tLeader: none\tReplicas: 3\tIsr: 3\n"
        "Topic: a\tPartition: 2\tLeader: 2\tReplicas: 2,1\tIsr: 2,1\n"
    )
    out = call("what-if", "prod.txt", "--remove", "3", "--json", "answer.json", folder=tmp_path)
    assert "1 partition had all replicas there, on a down broker: lost; create their topics again" in out.stderr
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["hypothesis"]["removed_brokers"] == [3]
    assert "1 partition is offline now: a (1)" in out.stdout
    both = call("what-if", "prod.txt", "--remove", "2,3", folder=tmp_path, code=3)
    assert "no plan for drain" in both.stderr


def test_disks_of_a_larger_cluster(tmp_path: Path) -> None:
    """Each broker has two replicas of 10 MB."""
    write_cluster(tmp_path)
    limit = ("--set", "plans.broker_bytes=50MB")

    def list_lines(*options: str) -> list[str]:
        out = call("what-if", "prod.json", *options, folder=tmp_path).stdout
        return [line.strip() for line in out.splitlines() if "hold" in line]

    assert list_lines() == []
    assert list_lines(*limit) == ["disk: broker 0 holds 20 MB, 40 % of the 50 MB that its disks can hold"]
    assert list_lines(*limit, "--grow", "3") == [
        "disk: broker 0 holds 60 MB, more than the 50 MB that its disks can hold",
        "3 brokers would hold more than their disks can",
    ]
    assert list_lines("--grow", "3") == [
        "disk: broker 0 holds 60 MB, the most of all; the size of its disks is not known"
    ]
    (tmp_path / "limits.csv").write_text("broker_id,disk_bytes\n1,40000000\n")
    uses = ask(tmp_path, *FILE, "--grow", "3", *limit)["disks"]
    assert [(use["size_bytes"], use["disk_bytes"]) for use in uses] == [
        (60 * 10**6, size * 10**6) for size in (50, 40, 50)
    ]


def test_all_at_once(tmp_path: Path) -> None:
    write_cluster(tmp_path)
    answer = ask(tmp_path, "--remove", "0", "--add", "1", "--grow", "2")
    assert [row["failed"] for row in answer["brokers"]] == [1, 2, 3]
    assert list_rates(answer)[0][2] >= 400_000
    assert (answer["hypothesis"]["load_factor"], answer["hypothesis"]["removed_brokers"]) == (2, [0])


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--remove", "0,1"), 3, "prod: no plan for drain:"),
        (("--remove", "7"), 64, "--remove: prod has no broker 7. Its brokers: 0, 1, 2"),
        (("--remove", "x"), 64, "--remove: 'x' is neither a broker id nor a rack"),
        (("--add", "0"), 64, "is not a whole number from 1 to 1,000"),
        (("--grow", "0"), 64, "is not a number from 0.001 to 1,000"),
        (("--fail", "0", "--actual", "prod.json", "--add", "1"), 64, "--actual compares with the cluster as it is"),
    ],
)
def test_clusters_that_cannot_be(tmp_path: Path, options: tuple[str, ...], code: int, words: str) -> None:
    write_cluster(tmp_path)
    assert words in call("what-if", "prod.json", *options, code=code, folder=tmp_path).stderr


def test_a_source_without_loads_cannot_grow(tmp_path: Path) -> None:
    (tmp_path / "prod.txt").write_text("\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n")
    out = call("what-if", "prod.txt", "--grow", "1.3", code=1, folder=tmp_path)
    assert "prod: its sources show neither sizes nor rates, which --grow multiplies. Add the output" in out.stderr
    assert "bytes in" not in call("what-if", "prod.txt", folder=tmp_path).stdout


def test_after_a_plan(tmp_path: Path) -> None:
    """Plans come first: they were made for the cluster as it is."""
    write_cluster(tmp_path)
    call("plan", "prod.json", "--goal", "drain", "--brokers", "2", "--out", "plan", folder=tmp_path)
    answer = ask(tmp_path, "--after", "plan", "--remove", "2", "--grow", "3")
    assert answer["hypothesis"]["copied_replicas"] == 0
    assert [row[:3] for row in list_rates(answer)] == [([0], 1, 900_000), ([1], 0, 900_000)]
