"""Synthetic clusters as models of JSON: brokers with racks, brokers to empty, and partitions with loads.

Topics are placed by Kafka's rack-aware round robin over the old brokers; loads are log-normal. The same arguments give
the same model on any machine.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

Model = dict[str, Any]
_UNEVEN = (0, 1, 0, 2, 3, 0, 1, 4, 0, 1, 2, 5, 0, 1, 2, 3, 4, 0, 1, 3)  # racks of consecutive brokers


@dataclass(frozen=True)
class Shape:
    """What a model looks like."""

    brokers: int = 60
    racks: int = 6
    topics: int = 2000
    new: int = 0  # Brokers that hold nothing yet, the last ones
    removed: tuple[int, ...] = ()  # Brokers to empty
    uneven: bool = False  # Whether racks differ in size


def make_model(shape: Shape, seed: int) -> Model:
    """Make the model of a shape."""
    rng = random.Random(seed)
    ids = range(shape.brokers)
    racks = {i: f"r{_UNEVEN[i % len(_UNEVEN)] if shape.uneven else i % shape.racks}" for i in ids}
    old = [i for i in ids if i < shape.brokers - shape.new]
    partitions = []
    for topic in range(shape.topics):
        count = min(64, max(1, int(rng.lognormvariate(1.6, 1.0))))
        factor = 3 if rng.random() < 0.9 else 2
        topic_in, ratio = rng.lognormvariate(3, 1.6), rng.choice([1, 2, 3, 5])
        for number, replicas in enumerate(_place(old, racks, count, factor, rng)):
            into = topic_in * rng.uniform(0.6, 1.4)
            size = round(into * 3.6 * rng.uniform(4, 24), 3)
            loads = {"size_mb": size, "in_kbps": round(into, 3), "out_kbps": round(into * ratio, 3)}
            partitions.append({"topic": f"t{topic:05d}", "partition": number, "replicas": replicas, **loads})
    brokers = [{"id": i, "rack": rack} for i, rack in racks.items()]
    return {"name": f"{seed}", "brokers": brokers, "removed": list(shape.removed), "partitions": partitions}


def _place(
    brokers: Sequence[int], rack_of: dict[int, str], count: int, factor: int, rng: random.Random
) -> list[list[int]]:
    """Place a topic as Kafka's AdminUtils does: alternating racks, a random start, a shift that grows."""
    by_rack: dict[str, list[int]] = {}
    for broker in brokers:
        by_rack.setdefault(rack_of[broker], []).append(broker)
    turns = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    order = [broker for broker in chain.from_iterable(turns) if broker is not None]
    n, racks = len(order), len(by_rack)
    start, shift = rng.randrange(n), rng.randrange(n)
    lists = []
    for partition in range(count):
        if partition > 0 and partition % n == 0:
            shift += 1
        first = (partition + start) % n
        replicas, tries = [order[first]], 0
        while len(replicas) < factor:
            broker = order[(first + 1 + (shift * racks + tries) % (n - 1)) % n]
            tries += 1
            used = {rack_of[other] for other in replicas}
            if (rack_of[broker] not in used or len(used) == racks) and (broker not in replicas or len(replicas) == n):
                replicas.append(broker)
        lists.append(replicas)
    return lists
