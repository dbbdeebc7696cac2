"""Plans in the styles of other tools for five sick clusters, judged by `check`: which faults, in how many partitions.

    python -m tests.bench.foreign_plans

Each cluster has 30 brokers in 6 racks, one of them down, and 1 % of the replicas out of sync. The styles:
- generate: what `kafka-reassign-partitions --generate` proposes for all topics and all live brokers (the same scheme).
- topicmappr: the replicas of the broker that is down go to the brokers with fewest replicas in other racks.
- Cruise Control: as that, and replicas from the fullest brokers to the emptiest, within racks, in one file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.properties.sick_clusters import Key, Partition, SickCluster, Topic

BROKERS, RACKS, TOPICS, SEEDS = 30, 6, 150, range(1, 6)
Lists = dict[Key, list[int]]


def draw(seed: int) -> SickCluster:
    """Draw a cluster whose topics Kafka has placed, with one broker down and 1 % of the replicas out of sync."""
    rng = Random(seed)
    racks: dict[int, str | None] = {broker: f"r{broker % RACKS}" for broker in range(BROKERS)}
    down = {rng.randrange(BROKERS)}
    topics = []
    for number in range(TOPICS):
        factor = rng.choice([1, 2, 3, 3, 3, 3])
        partitions = []
        for _ in range(rng.choice([1, 3, 6, 12, 24])):
            first = rng.randrange(BROKERS)
            replicas = [(first + i * rng.choice([1, 7])) % BROKERS for i in range(factor)]
            replicas = (
                replicas
                if len({broker % RACKS for broker in replicas}) == factor
                else [(first + i) % BROKERS for i in range(factor)]
            )
            isr = [broker for broker in replicas if broker not in down and rng.random() > 0.01] or [replicas[0]]
            leader = next((broker for broker in isr if broker not in down), None)
            partitions.append(Partition(replicas, isr, leader))
        topics.append(Topic(f"t{number:03}", factor, min(2, factor), partitions))
    return SickCluster(racks, down, topics)


def replace_dead(cluster: SickCluster) -> Lists:
    """Replace the replicas on down brokers by the brokers with fewest replicas in other racks."""
    counts = Counter(broker for one in cluster.partitions.values() for broker in one.replicas)
    lists = {}
    for key, one in cluster.partitions.items():
        if cluster.down.intersection(one.replicas):
            new = list(one.replicas)
            for place, broker in enumerate(one.replicas):
                if broker in cluster.down:
                    others = {cluster.racks[other] for other in new if other != broker}
                    new[place] = min(
                        (other for other in cluster.live if other not in new and cluster.racks[other] not in others),
                        key=lambda other: counts[other],
                    )
                    counts[new[place]] += 1
            lists[key] = new
    return lists


def even_out(cluster: SickCluster) -> Lists:
    """Replace dead replicas, and move replicas from the fullest brokers to the emptiest of the same rack."""
    lists = replace_dead(cluster)
    counts = Counter(broker for one in cluster.partitions.values() for broker in one.replicas)
    for key, one in cluster.partitions.items():
        new = lists.get(key, list(one.replicas))
        for place, broker in enumerate(new):
            same_rack = [b for b in cluster.live if cluster.racks[b] == cluster.racks[broker] and b not in new]
            emptiest = min(same_rack, key=lambda other: counts[other], default=broker)
            if counts[broker] > counts[emptiest] + 1:
                counts[broker], counts[emptiest] = counts[broker] - 1, counts[emptiest] + 1
                new[place] = emptiest
                lists[key] = new
    return lists


def generate(source: Path, cluster: SickCluster) -> dict[str, Any]:
    """Return what Kafka's scheme places for all topics."""
    command = ("assign", str(source), "--scheme", "kafka", "--output-format", "reassignment")
    document: dict[str, Any] = json.loads(_call(*command))
    assert len(document["partitions"]) == len(cluster.partitions)
    return document


def _call(*arguments: str) -> str:
    command = (sys.executable, "-m", "pipelines.cli", *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def write_styles(cluster: SickCluster, source: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Write a plan in each style: (its name, its file)."""
    proposals = [
        {"topicPartition": {"topic": topic, "partition": i}, "newReplicas": new}
        for (topic, i), new in even_out(cluster).items()
    ]
    entries = [{"topic": topic, "partition": i, "replicas": new} for (topic, i), new in replace_dead(cluster).items()]
    documents: dict[str, dict[str, Any]] = {
        "generate": generate(source, cluster),
        "topicmappr": {"version": 1, "partitions": entries},
        "Cruise Control": {"proposals": proposals},
    }
    for style, document in documents.items():
        path = folder / f"{style}.json"
        path.write_text(json.dumps(document))
        yield style, path


def main() -> None:
    """Print a row of Markdown for each style and model."""
    print("| style | model | verdict | partitions in the plan | faults (partitions) |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        for seed in SEEDS:
            cluster, folder = draw(seed), Path(place, str(seed))
            folder.mkdir()
            source = cluster.write(folder / "source", Random(seed))
            for style, path in write_styles(cluster, source, folder):
                answer = json.loads(_call("check", str(path), str(source), "--json", "-"))
                faults = [f"{one['fault']} {one['partitions'] or ''}".strip() for one in answer["findings"]]
                planned = sum(wave["partitions"] for wave in answer["waves"])
                print(
                    f"| {style} | {seed} | {answer['level']} | {planned} | {', '.join(faults) or 'none'} |", flush=True
                )


if __name__ == "__main__":
    main()
