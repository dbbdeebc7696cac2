"""Time from a file to facts, for the output of each tool, as processor seconds per million records: `make bench-read`.

python -m tests.bench.reading [--partitions N] [--runs N]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import TextIO

from pipelines.ingest.snapshot_reader import parse_facts, read_file

_PER_TOPIC, _BROKERS, _FACTOR = 50, 100, 3
_MAX_BYTES = 2**31 - 1


def list_replicas(partitions: int) -> Iterator[tuple[int, int, list[int]]]:
    """Yield (topic, partition, replicas)."""
    generator = random.Random(1)
    for i in range(partitions):
        yield i // _PER_TOPIC, i % _PER_TOPIC, generator.sample(range(_BROKERS), _FACTOR)


def write_describe(out: TextIO, partitions: int) -> None:
    for topic, partition, replicas in list_replicas(partitions):
        ids = ",".join(map(str, replicas))
        if partition == 0:
            counts = f"PartitionCount: {_PER_TOPIC}\tReplicationFactor: {_FACTOR}"
            out.write(f"Topic: topic-{topic}\tTopicId: {topic:022}\t{counts}\tConfigs: min.insync.replicas=2\n")
        values = f"Partition: {partition}\tLeader: {replicas[0]}\tReplicas: {ids}\tIsr: {ids}"
        out.write(f"\tTopic: topic-{topic}\t{values}\tElr: \tLastKnownElr: \n")


def write_kcat(out: TextIO, partitions: int) -> None:
    out.write(f"Metadata for all topics (from broker 0: b0:9092/0):\n {_BROKERS} brokers:\n")
    out.writelines(f"  broker {i} at b{i}:9092\n" for i in range(_BROKERS))
    out.write(f" {partitions // _PER_TOPIC} topics:\n")
    for topic, partition, replicas in list_replicas(partitions):
        ids = ",".join(map(str, replicas))
        if partition == 0:
            out.write(f'  topic "topic-{topic}" with {_PER_TOPIC} partitions:\n')
        out.write(f"    partition {partition}, leader {replicas[0]}, replicas: {ids}, isrs: {ids}\n")


def write_log_dirs(out: TextIO, partitions: int) -> None:
    logs: list[list[dict[str, object]]] = [[] for _ in range(_BROKERS)]
    for i in range(partitions):  # a log per partition, so that records are as many as in the other formats
        name = f"topic-{i // _PER_TOPIC}-{i % _PER_TOPIC}"
        logs[i % _BROKERS].append({"partition": name, "size": 1000 + i, "offsetLag": 0, "isFuture": False})
    brokers = [
        {"broker": i, "logDirs": [{"partitions": own, "error": None, "logDir": "/data"}]} for i, own in enumerate(logs)
    ]
    json.dump({"brokers": brokers, "version": 1}, out, separators=(",", ":"))


def write_zookeeper(out: TextIO, partitions: int) -> None:
    for topic, partition, replicas in list_replicas(partitions):
        if partition == 0:
            lists = {str(p): replicas for p in range(_PER_TOPIC)}
            data = json.dumps({"version": 2, "partitions": lists})
            out.write(json.dumps({"path": f"/brokers/topics/topic-{topic}", "data": data}) + "\n")
        state = {"controller_epoch": 1, "leader": replicas[0], "version": 1, "leader_epoch": 0, "isr": replicas}
        path = f"/brokers/topics/topic-{topic}/partitions/{partition}/state"
        out.write(json.dumps({"path": path, "data": json.dumps(state)}) + "\n")


WRITERS: dict[str, Callable[[TextIO, int], None]] = {
    "kafka-topics --describe": write_describe,
    "kcat -L": write_kcat,
    "kafka-log-dirs": write_log_dirs,
    "ZooKeeper dump": write_zookeeper,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{arguments.partitions:,} partitions; processor seconds, median of {arguments.runs} runs")
    print(f"  {'':26}{'read':>8}{'parse':>8}{'both':>8}{'MB':>8}{'per million records':>22}")
    for title, write in WRITERS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "source.txt")
            with path.open("w", encoding="utf-8") as out:
                write(out, arguments.partitions)
            times = []
            for _ in range(arguments.runs + 1):  # once to load machine code
                begin = process_time()
                file = read_file(path, None, _MAX_BYTES)
                read = process_time()
                facts = parse_facts([file])
                times.append((read - begin, process_time() - read))
            read_time, parse_time = (statistics.median(column) for column in zip(*times[1:], strict=True))
            both = read_time + parse_time
            rate = both / facts.num_rows * 1e6
            print(
                f"  {title:26}{read_time:8.2f}{parse_time:8.2f}{both:8.2f}{path.stat().st_size / 1e6:8.0f}{rate:22.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
