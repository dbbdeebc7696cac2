"""The goals relieve and empty-log-dir: against brute force, and by an independent judge of their files."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines import cli
from tests.commands import call
from tests.seed_sampler import sample_some
from tests.unit.planning.jbod_clusters import JbodCluster, make_cluster
from udfs.planning.disk_relief import _choose_fewest_bytes

LIMIT = 0.95


@pytest.mark.parametrize("seed", range(40))
def test_no_other_choice_of_replicas_has_fewer_bytes(seed: int) -> None:
    rng = random.Random(seed)
    size = np.sort([float(rng.randint(1, 1000)) for _ in range(rng.randint(1, 10))])[::-1]
    need = float(rng.randint(1, int(size.sum() * 1.1)))
    sums = [sum(some) for count in range(len(size) + 1) for some in combinations(size.tolist(), count)]
    chosen = size[_choose_fewest_bytes(size, need)].sum()
    assert min((one for one in sums if one >= need), default=size.sum()) <= chosen
    assert chosen <= min((one for one in sums if one >= need * (1 + len(size) / 4096)), default=size.sum())


def fill_disks(cluster: JbodCluster, rng: random.Random, factor: float) -> dict[tuple[int, str], int]:
    """Shrink some volumes to less than their logs may have; return the bytes above the limit."""
    excess = {}
    for place, load in cluster.loads.items():
        total = max(int(load * factor), 10**8)
        if rng.random() < 0.3 and load:
            total = int(load / rng.uniform(0.955, 0.999))
        cluster.volumes[place] = (total, total - load)
        if load > LIMIT * total:
            excess[place] = load - int(LIMIT * total)
    return excess


def apply_plan(cluster: JbodCluster, folder: Path) -> tuple[JbodCluster, Counter[tuple[int, str]], int]:
    """Return the cluster after a plan, the bytes that each log dir receives, and those that are copied or moved."""
    lists, places, sizes = dict(cluster.lists), dict(cluster.places), dict(cluster.sizes)
    incoming, moved = Counter[tuple[int, str]](), 0
    for entry in json.loads((folder / "reassignment.json").read_text())["partitions"]:
        key = (entry["topic"], entry["partition"])
        assert len(set(entry["replicas"])) == len(lists[key])
        leader_size = cluster.sizes[key, lists[key][0]]
        paths = entry.get("log_dirs", ["any"] * len(entry["replicas"]))
        for broker in set(lists[key]) - set(entry["replicas"]):
            del places[key, broker]
        for broker, path in zip(entry["replicas"], paths, strict=True):
            if broker not in lists[key]:
                own = [place for place in cluster.volumes if place[0] == broker]
                assert path != "any" or len(own) == 1
                sizes[key, broker], places[key, broker] = leader_size, own[0][1] if path == "any" else path
            elif path in ("any", places[key, broker]):
                continue
            places[key, broker] = path if path != "any" else places[key, broker]
            incoming[broker, places[key, broker]] += sizes[key, broker]
            moved += sizes[key, broker]
        lists[key] = entry["replicas"]
    return JbodCluster(lists, places, sizes, cluster.volumes), incoming, moved


def plan(cluster: JbodCluster, folder: Path, goal: str, *options: str) -> dict[str, Any]:
    source = f"c={cluster.write(folder / 'source')}"
    assert cli.main(["plan", source, "--goal", goal, "--out", str(folder / "plan"), *options]) == 0
    facts: dict[str, Any] = json.loads((folder / "plan" / "plan.json").read_text())
    return facts


@pytest.mark.parametrize("seed", sample_some(range(30), 10, "test_disk_relief"))
def test_disks_are_relieved_and_none_is_overfilled(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    cluster = make_cluster(seed, brokers=rng.randint(3, 6))
    excess = fill_disks(cluster, rng, rng.choice([1.2, 2.0]))
    facts = plan(cluster, tmp_path, "relieve")
    after, incoming, moved = apply_plan(cluster, tmp_path / "plan")
    over = {place for place, load in after.loads.items() if load > LIMIT * cluster.volumes[place][0] + 1}  # type: ignore[index]
    missed = " ".join(facts["certificate"]["missed"])
    for broker, path in over:
        assert f"{path} of broker {broker}:" in missed
    assert over <= {*excess}
    for place, received in incoming.items():  # while both copies exist
        assert received + cluster.loads[place] <= LIMIT * cluster.volumes[place][0] + 1  # type: ignore[index]
    for place in {*excess} - over:  # nothing left that could have stayed
        gone = [
            one for one, path in cluster.places.items() if (one[1], path) == place and after.places.get(one) != path
        ]
        least = min(cluster.sizes[one] for one in gone)
        assert after.loads[place] + least > LIMIT * cluster.volumes[place][0] - 1  # type: ignore[index]
    proof = facts["certificate"]
    assert proof["lower_bound"] <= proof["value"] == pytest.approx(moved)
    assert facts["judgement"]["level"] in ("SAFE", "RISKY")
    names = {name for place in excess for name in (f"/{place[1][1:]} of broker {place[0]}",)}
    assert all(any(text.startswith(name) for name in names) for text in proof["missed"])


def test_a_budget_pays_for_the_fullest_disk_first(tmp_path: Path) -> None:
    lists = {("t", p): [1 + p % 2, 3] for p in range(20)}
    sizes = {(key, broker): 10**9 for key, ids in lists.items() for broker in ids}
    cluster = JbodCluster(lists, dict.fromkeys(sizes, "/d"), sizes, {})
    volumes = {1: 10_100_000_000, 2: 10_400_000_000, 3: 10**12, 4: 10**12}
    for broker, total in volumes.items():
        cluster.volumes[broker, "/d"] = (total, total)
    used = Counter(broker for ids in lists.values() for broker in ids)
    for broker, total in volumes.items():
        cluster.volumes[broker, "/d"] = (total, total - used[broker] * 10**9)
    facts = plan(cluster, tmp_path, "relieve", "--max-bytes", "1GB")
    after, _, moved = apply_plan(cluster, tmp_path / "plan")
    assert moved == 10**9
    assert after.loads[1, "/d"] == 9 * 10**9
    assert "/d of broker 2" in facts["certificate"]["missed"][0]
    assert "budget" in facts["certificate"]["missed"][0]


@pytest.mark.parametrize("seed", range(6))
def test_a_log_dir_is_emptied(seed: int, tmp_path: Path) -> None:
    cluster = make_cluster(seed)
    broker = random.Random(seed).randint(1, 4)
    before = [one for one, path in cluster.places.items() if (one[1], path) == (broker, "/d0")]
    facts = plan(cluster, tmp_path, "empty-log-dir", "--log-dirs", f"{broker}:/d0")
    after, _, moved = apply_plan(cluster, tmp_path / "plan")
    assert after.lists == cluster.lists
    assert not [one for one, path in after.places.items() if (one[1], path) == (broker, "/d0")]
    assert moved == sum(cluster.sizes[one] for one in before)
    assert facts["certificate"]["missed"] == []


def test_what_has_no_room_stays_in_its_log_dir_and_is_counted(tmp_path: Path) -> None:
    cluster = make_cluster(1)
    for place, load in cluster.loads.items():
        cluster.volumes[place] = (int(load / 0.94) + 10, int(load / 0.94) + 10 - load)
    here = [cluster.sizes[one] for one, path in cluster.places.items() if (one[1], path) == (2, "/d0")]
    (missed,) = plan(cluster, tmp_path, "empty-log-dir", "--log-dirs", "2:/d0")["certificate"]["missed"]
    after, _, moved = apply_plan(cluster, tmp_path / "plan")
    left = [one for one, path in after.places.items() if (one[1], path) == (2, "/d0")]
    assert f"/d0 of broker 2 keeps {len(left)} replicas" in missed
    assert moved == sum(here) - sum(cluster.sizes[one] for one in left)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--goal", "empty-log-dir"), 64, "name the log dirs with their brokers"),
        (("--goal", "empty-log-dir", "--log-dirs", "2"), 64, "has no path"),
        (("--goal", "empty-log-dir", "--log-dirs", "2:/nowhere"), 3, "its log dirs: /d0, /d1"),
        (("--goal", "empty-log-dir", "--log-dirs", "77:/d0"), 3, "no source shows a log dir /d0 of broker 77"),
        (("--goal", "empty-log-dir", "--log-dirs", "3:/d0"), 3, "/d0 of broker 3 is offline"),
        (("--goal", "relieve", "--log-dirs", "2:/d0"), 64, "--log-dirs is for --goal empty-log-dir"),
    ],
)
def test_log_dirs_that_cannot_be_emptied(options: tuple[str, ...], code: int, words: str, tmp_path: Path) -> None:
    cluster = make_cluster(3)
    cluster.offline.add((3, "/d0"))
    cluster.write(tmp_path / "c")
    done = call("plan", "c", *options, "--out", "p", folder=tmp_path, code=code)
    assert words in done.stderr


def test_without_bytes_of_disks_nothing_can_be_relieved(tmp_path: Path) -> None:
    make_cluster(3, volumes=False).write(tmp_path / "c")
    done = call("plan", "c", "--goal", "relieve", "--out", "p", folder=tmp_path, code=3)
    assert "no source shows how full disks are" in done.stderr


@pytest.mark.parametrize("goal", ["drain", "balance"])
@pytest.mark.parametrize("seed", sample_some(range(40), 6, "plans that copy to small log dirs"))
def test_no_plan_overfills_a_log_dir(seed: int, goal: str, tmp_path: Path) -> None:
    """What has no room elsewhere stays, even on a broker to drain."""
    rng = random.Random(seed)
    cluster = make_cluster(seed, brokers=rng.randint(4, 6))
    loads = cluster.loads
    for place, load in loads.items():
        total = int(load * rng.uniform(1.1, 2.5)) + 10**6
        cluster.volumes[place] = (total, total - load)
    options = ("--brokers", "1", "--objective", "min-bytes") if goal == "drain" else ()
    facts = plan(cluster, tmp_path, goal, *options)
    assert facts["judgement"]["level"] in ("SAFE", "RISKY")
    after = apply_plan(cluster, tmp_path / "plan")[0]
    for place, load in after.loads.items():
        assert load <= max(LIMIT * cluster.volumes[place][0] + 1, loads[place])  # type: ignore[index]
    left = sum(1 in ids for ids in after.lists.values())
    if goal == "drain" and left:
        assert f"broker 1 still holds {left} replica" in " ".join(facts["certificate"]["missed"])
