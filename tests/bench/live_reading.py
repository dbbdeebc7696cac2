"""What reading a running cluster costs this program: processor seconds and memory (`make bench-live`).

Starts a cluster of Kafka 4.1 with three brokers and so many partitions, reads it as `snapshot` does in a process of its
own, and prints what that took. Creating 10,000 partitions takes minutes.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.live.kafka_cluster import KafkaCluster

_PER_TOPIC, _REPLICAS, _BATCH = 20, 2, 25  # topics that are created in one request


def _read(servers: str) -> None:
    """What the measured process does."""
    from pipelines.cli import main

    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        code = main(["snapshot", f"kafka://{servers}", "--out", f"{folder}/saved"])
        size = sum(file.stat().st_size for file in Path(folder, "saved").iterdir()) if code == 0 else 0
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"{used.ru_utime + used.ru_stime:.1f} s of processor time, {time.monotonic() - began:.1f} s in all, "
        f"peak memory {used.ru_maxrss / 1000:.0f} MB, {size / 1e6:.1f} MB of files"
    )
    raise SystemExit(code)


def main() -> None:
    """Start the cluster, create the topics, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        _read(options.read)
    with tempfile.TemporaryDirectory(prefix="kafka-placement-bench-") as folder:
        cluster = KafkaCluster(Path(folder) / "cluster", brokers=3, heap_mb=1024)
        try:
            cluster.start()
            replicas = {p: [(p + shift) % 3 + 1 for shift in range(_REPLICAS)] for p in range(_PER_TOPIC)}
            names = [f"topic-{number:05d}" for number in range(options.partitions // _PER_TOPIC)]
            for begin in range(0, len(names), _BATCH):
                cluster.create_topics({name: (replicas, {}) for name in names[begin : begin + _BATCH]})
            cluster.wait_until_settled(len(names) * _PER_TOPIC, seconds=900)
            print(f"{len(names) * _PER_TOPIC:,} partitions of {len(names):,} topics, {_REPLICAS} replicas, 3 brokers")
            for _ in range(3):
                command = [sys.executable, "-m", "tests.bench.live_reading", "--read", cluster.bootstrap]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                print(f"  {done.stdout.strip().splitlines()[-1] if done.stdout else done.stderr}")
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
