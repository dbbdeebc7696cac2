"""An independent judge of plans: it reads a cluster model file and a reassignment file, and counts."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

Model = dict[str, Any]


def model(seed: int, brokers: int = 18, racks: int = 3, topics: int = 60, removed: Sequence[int] = ()) -> Model:
    """Make a cluster with racks, skewed loads, two empty brokers, and brokers to be emptied."""
    rng = random.Random(seed)
    rack = {broker: f"r{broker % racks}" for broker in range(brokers)}
    partitions = []
    for topic in range(topics):
        factor = rng.choice([1, 2, 3, 3, 3])
        for partition in range(rng.randint(1, 16)):
            chosen: list[int] = []
            while len(chosen) < factor:
                broker = rng.randrange(brokers - 2)
                if rack[broker] not in {rack[other] for other in chosen}:
                    chosen.append(broker)
            loads = {name: round(rng.lognormvariate(4, 1), 1) for name in ("size_mb", "in_kbps", "out_kbps")}
            partitions.append({"topic": f"t{topic:03d}", "partition": partition, "replicas": chosen, **loads})
    listed = [{"id": broker, "rack": name} for broker, name in rack.items()]
    return {"name": f"m{seed}", "brokers": listed, "removed": list(removed), "partitions": partitions}


def judge(model: Model, plan: dict[str, Any] | None = None) -> dict[str, Any]:
    """Measure balance, worst survivor, moves and faults of a model with a reassignment; other partitions stay."""
    rack = {broker["id"]: broker["rack"] for broker in model["brokers"]}
    stay = [broker for broker in rack if broker not in model["removed"]]
    racks = len({rack[broker] for broker in stay})
    planned = {(p["topic"], p["partition"]): p["replicas"] for p in (plan or {}).get("partitions", [])}
    held: dict[str, Counter[int]] = defaultdict(Counter)
    take: dict[str, dict[int, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    moved = megabytes = changes = violations = bad = 0
    for one in model["partitions"]:
        old = one["replicas"]
        new = planned.get((one["topic"], one["partition"]), old)
        bad += len(set(new)) != len(new) or any(broker not in stay for broker in new)
        added = [broker for broker in new if broker not in old]
        moved, megabytes = moved + len(added), megabytes + len(added) * one["size_mb"]
        changes += new[0] != old[0]
        violations += max(Counter(rack[broker] for broker in new).values()) > math.ceil(len(new) / racks)
        for broker in new:
            held["replicas"][broker] += 1
            held["size_bytes"][broker] += one["size_mb"]
            held["bytes_in_per_s"][broker] += one["in_kbps"]
        for name, weight in (("leaders", 1), ("bytes_out_per_s", one["out_kbps"])):
            held[name][new[0]] += weight
            if len(new) > 1:
                take[name][new[0]][new[1]] += weight
    names = ("replicas", "leaders", "size_bytes", "bytes_in_per_s", "bytes_out_per_s")
    return {
        "moves": moved,
        "megabytes": megabytes,
        "leader_changes": changes,
        "bad": bad,
        "rack_violations": violations,
        **{name: _spread([held[name][broker] for broker in stay]) for name in names},
        "worst_survivor_ratio": _worst(held["leaders"], take["leaders"], stay),
        "worst_survivor_bytes_out_ratio": _worst(held["bytes_out_per_s"], take["bytes_out_per_s"], stay),
    }


def _spread(values: list[float]) -> dict[str, float]:
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    found = {"max_over_mean": max(values) / mean, "min_over_mean": min(values) / mean, "cv": deviation / mean}
    return {name: round(value, 4) for name, value in found.items()}


def _worst(led: Counter[int], take: dict[int, Counter[int]], stay: list[int]) -> float:
    """Find the worst survivor over the mean. A partition of one replica is lost, not taken over."""
    worst = 0.0
    for down in stay:
        values = [led[broker] + take[down][broker] for broker in stay if broker != down]
        worst = max(worst, max(values) * len(values) / sum(values))
    return round(worst, 4)
