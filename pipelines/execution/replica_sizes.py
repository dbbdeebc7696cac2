"""The sizes of replicas, from the answers to DescribeLogDirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.live.kafka_connection import Key

LogDirs = Mapping[int, Sequence[Mapping[str, Any]]]  # by broker


class ReplicaSize(NamedTuple):
    """The log of one replica. is_future: being moved to another log directory of its broker."""

    broker: int
    key: Key
    size_bytes: int
    is_future: bool


def list_replica_sizes(log_dirs: LogDirs) -> Iterator[ReplicaSize]:
    """Yield the sizes of all replicas."""
    for broker, dirs in log_dirs.items():
        for log_dir in dirs:
            for topic in log_dir["topics"]:
                for one in topic["partitions"]:
                    key = (topic["name"], one["partition_index"])
                    yield ReplicaSize(broker, key, one["partition_size"], one["is_future_key"])
