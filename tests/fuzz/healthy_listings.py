"""Builds listings of healthy clusters: what-if answers OK, so every mutation that hides harm shows."""

from __future__ import annotations

import random

from tests.fuzz.samples import Sample

HEALTHY = "healthy.txt"  # name of the sample
_NAMES = ("orders", "payments", "audit.log", "a_b-c", "__consumer_offsets", "Topic", "none")


def build_healthy_listing(rng: random.Random) -> Sample:
    """Return the describe of three or four brokers; after any failure, the others lead equally many partitions."""
    brokers = rng.sample(range(1, 1_200), rng.randint(3, 4))
    size = len(brokers)
    named = rng.random() < 0.8
    lines = []
    for topic in rng.sample(_NAMES, rng.randint(1, 3)):
        partitions = size * (size - 1)
        lines.append(
            f"Topic: {topic}\tTopicId: {''.join(rng.choices('abcXYZ019_-', k=22))}\tPartitionCount: {partitions}\t"
            "ReplicationFactor: 3\tConfigs: min.insync.replicas=2"
        )
        for partition in range(partitions):
            step = partition // size + 1
            places = [0, step, next(i for i in range(1, size) if i != step)]
            replicas = [brokers[(partition + place) % size] for place in places]
            ids = ",".join(map(str, replicas))
            name = f"Topic: {topic}\t" if named else ""
            lines.append(f"\t{name}Partition: {partition}\tLeader: {replicas[0]}\tReplicas: {ids}\tIsr: {ids}")
    text = "\n".join(lines) + "\n"
    if rng.random() < 0.4:
        text = text.replace("\t", rng.choice((" ", "  ")))
    return Sample(HEALTHY, text, text.encode())
