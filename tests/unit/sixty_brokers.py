"""Builds sources of a cluster with 60 brokers in 6 racks and 3,000 partitions, healthy or sick."""

import json
import random
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

BROKERS, RACKS, PARTITIONS = 60, 6, 3000


def write_sources(folder: Path, down: Collection[int] = (), empty: Collection[int] = (), sizes: bool = True) -> Path:
    """Write what kafka-topics, kafka-broker-api-versions and kafka-log-dirs print. empty: brokers without replicas."""
    rng, lines, logs, left = random.Random(7), [], defaultdict(list), PARTITIONS
    for number in range(PARTITIONS):
        if left <= 0:
            break
        count = min(left, rng.choice([3, 6, 12, 24, 48, 96]))
        factor = 3 if rng.random() < 0.97 else 1
        topic = f"{rng.choice(['orders', 'billing', 'audit'])}.events.v{number}"
        min_isr = 2 if rng.random() < 0.9 else 3
        configs = f"Configs: min.insync.replicas={min(min_isr, factor)}"
        lines.append(f"Topic: {topic}\tPartitionCount: {count}\tReplicationFactor: {factor}\t{configs}")
        for partition in range(count):
            replicas: list[int] = []
            while len(replicas) < factor:
                broker = rng.randrange(BROKERS)
                if broker not in empty and broker % RACKS not in {one % RACKS for one in replicas}:
                    replicas.append(broker)
            isr = [broker for broker in replicas if broker not in down]
            ids, in_sync = (",".join(map(str, one)) for one in (replicas, isr or replicas[-1:]))
            leader = isr[0] if isr else "none"
            place = f"\tTopic: {topic}\tPartition: {partition}\tLeader: {leader}"
            lines.append(f"{place}\tReplicas: {ids}\tIsr: {in_sync}")
            size = rng.randint(1, 20) * 10**8
            for broker in isr:
                log = {"partition": f"{topic}-{partition}", "size": size, "offsetLag": 0, "isFuture": False}
                logs[broker].append(log)
        left -= count
    folder.mkdir(exist_ok=True)
    (folder / "topics.txt").write_text("\n".join(lines) + "\n")
    live = [broker for broker in range(BROKERS) if broker not in down]
    (folder / "versions.txt").write_text(
        "".join(
            f"b{broker}.example:9092 (id: {broker} rack: r{broker % RACKS} isFenced: false) -> (\n"
            "\tProduce(0): 0 to 11 [usable: 11],\n)\n"
            for broker in live
        )
    )
    if sizes:
        dirs = {broker: [{"logDir": "/data", "error": None, "partitions": logs[broker]}] for broker in live}
        brokers = [{"broker": broker, "logDirs": log_dirs} for broker, log_dirs in dirs.items()]
        (folder / "log-dirs.txt").write_text(json.dumps({"version": 1, "brokers": brokers}) + "\n")
    return folder
