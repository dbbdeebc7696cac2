"""Clusters whose brokers have several log dirs, as files of Kafka's tools; and an independent judge of their plans."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Key = tuple[str, int]
Place = tuple[int, str]  # broker, path of the log dir


@dataclass
class JbodCluster:
    """Replica lists, and the log dir and size of each replica."""

    lists: dict[Key, list[int]]
    places: dict[tuple[Key, int], str]  # by partition and broker
    sizes: dict[tuple[Key, int], int]
    volumes: dict[Place, tuple[int, int] | None]  # total and usable bytes; None = not shown
    offline: set[Place] = field(default_factory=set)
    cordoned: set[Place] = field(default_factory=set)
    future: set[tuple[Key, int]] = field(default_factory=set)  # replicas that are being moved between log dirs

    @property
    def loads(self) -> dict[Place, int]:
        """Bytes of the assigned replicas in each log dir."""
        loads = dict.fromkeys(self.volumes, 0)
        for (key, broker), path in self.places.items():
            loads[broker, path] += self.sizes[key, broker]
        return loads

    def write(self, folder: Path) -> Path:
        """Write kafka-topics --describe and kafka-log-dirs --describe."""
        folder.mkdir(parents=True, exist_ok=True)
        lines = []
        for topic in sorted({topic for topic, _ in self.lists}):
            partitions = {p: ids for (name, p), ids in self.lists.items() if name == topic}
            factor = len(partitions[0])
            lines.append(f"Topic: {topic}\tPartitionCount: {len(partitions)}\tReplicationFactor: {factor}\tConfigs: ")
            for p, ids in sorted(partitions.items()):
                text = ",".join(map(str, ids))
                lines.append(f"\tTopic: {topic}\tPartition: {p}\tLeader: {ids[0]}\tReplicas: {text}\tIsr: {text}")
        (folder / "topics.txt").write_text("".join(f"{line}\n" for line in lines))
        (folder / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": list(self._list_brokers())}))
        return folder

    def _list_brokers(self) -> list[dict[str, Any]]:
        brokers: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for (broker, path), volume in sorted(self.volumes.items()):
            here = [(key, id_) for (key, id_), place in self.places.items() if (id_, place) == (broker, path)]
            logs = [
                {"partition": f"{key[0]}-{key[1]}", "size": self.sizes[key, id_], "offsetLag": 0, "isFuture": False}
                for key, id_ in here
            ]
            logs += [
                dict(log, size=1, isFuture=True) for log, one in zip(logs, here, strict=True) if one in self.future
            ]
            is_offline = (broker, path) in self.offline
            log_dir = {"logDir": path, "error": "KAFKA_STORAGE_ERROR" if is_offline else None, "partitions": logs}
            known = {} if volume is None else {"totalBytes": volume[0], "usableBytes": volume[1]}
            known |= {"isCordoned": (broker, path) in self.cordoned} if self.cordoned else {}
            brokers[broker].append(log_dir | known)
        return [{"broker": broker, "logDirs": dirs} for broker, dirs in brokers.items()]


def make_cluster(seed: int, brokers: int = 4, partitions: int = 40, volumes: bool = True) -> JbodCluster:
    """Make a cluster with two to four log dirs on each broker, most logs in the first."""
    rng = random.Random(seed)
    paths = {broker: [f"/d{i}" for i in range(rng.randint(2, 4))] for broker in range(1, brokers + 1)}
    lists, places, sizes = {}, {}, {}
    for p in range(partitions):
        key = ("orders" if p % 2 else "a.b_c", p // 2)
        lists[key] = rng.sample(range(1, brokers + 1), 2)
        for broker in lists[key]:
            places[key, broker] = paths[broker][0] if rng.random() < 0.6 else rng.choice(paths[broker])
            sizes[key, broker] = int(rng.lognormvariate(16, 1.2))
    cluster = JbodCluster(lists, places, sizes, {(b, path): None for b, all_ in paths.items() for path in all_})
    if volumes:
        loads = cluster.loads
        total = {broker: rng.choice([1, 2]) * 10**10 for broker in paths}
        for i, (broker, path) in enumerate(sorted(loads)):
            size = total[broker] * (1 + (i % 2))
            cluster.volumes[broker, path] = (size, size - loads[broker, path])
    return cluster


def judge_log_dirs(cluster: JbodCluster, reassignment: dict[str, Any], max_disk_ratio: float = 0.95) -> dict[str, Any]:
    """Measure a plan of the goal log-dirs, and list its faults.

    Returns: fullness of the fullest log dir over the mean, by broker, before and after; bytes moved; faults.
    """
    faults = Counter[str]()
    places, incoming, moved = dict(cluster.places), Counter[Place](), 0
    for entry in reassignment["partitions"]:
        key = (entry["topic"], entry["partition"])
        faults["replicas changed"] += entry["replicas"] != cluster.lists[key]
        faults["wrong length"] += len(entry["log_dirs"]) != len(entry["replicas"])
        changes = 0
        for broker, path in zip(entry["replicas"], entry["log_dirs"], strict=False):
            if path == "any":
                continue
            faults["unknown log dir"] += (broker, path) not in cluster.volumes
            faults["offline log dir"] += (broker, path) in cluster.offline
            faults["cordoned log dir"] += (broker, path) in cluster.cordoned and path != places[key, broker]
            if path != places[key, broker]:
                changes += 1
                moved += cluster.sizes[key, broker]
                incoming[broker, path] += cluster.sizes[key, broker]
                places[key, broker] = path
                faults["moved twice at once"] += (key, broker) in cluster.future
        faults["nothing changes"] += not changes
    after = JbodCluster(cluster.lists, places, cluster.sizes, cluster.volumes)
    for place, count in incoming.items():
        if (volume := cluster.volumes[place]) is not None:
            faults["over capacity"] += count > volume[1] - (1 - max_disk_ratio) * volume[0] + 1e-6
    return {
        "before": _measure(cluster, cluster),
        "after": _measure(after, cluster),
        "bytes": moved,
        "faults": {name: count for name, count in faults.items() if count},
    }


def _measure(state: JbodCluster, cluster: JbodCluster) -> dict[int, float]:
    ratios, loads = {}, state.loads
    for broker in {broker for broker, _ in cluster.volumes}:
        here = [place for place in cluster.volumes if place[0] == broker and place not in cluster.offline]
        known = all(cluster.volumes[place] is not None for place in here)
        capacity = {place: (cluster.volumes[place] or (1,))[0] if known else 1 for place in here}
        mean = sum(loads[place] for place in here) / sum(capacity.values())
        if mean:
            ratios[broker] = max(loads[place] / capacity[place] for place in here) / mean
    return ratios
