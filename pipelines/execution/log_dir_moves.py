"""Where the logs of replicas are, and how far those are that move to another log dir of their broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from pipelines.execution.copy_progress import CopyProgress, LogDirs
from pipelines.live.kafka_connection import KafkaConnection, KafkaFault, Key, ReplicaLogDirs


class ReplicaLog(NamedTuple):
    """The log of a replica: its log dir, and the one that it moves to, with the bytes there; None = it does not."""

    path: str | None
    size: int
    future: str | None = None
    future_size: int = 0


ReplicaLogs = Mapping[int, Mapping[Key, ReplicaLog]]  # by broker, of those that answer
NO_LOGS: ReplicaLogs = {}


def read_replica_logs(connection: KafkaConnection, brokers: Iterable[int]) -> ReplicaLogs:
    """Read the logs of all replicas; a broker that does not answer is left out. Raises: KafkaFault if denied."""
    log_dirs = {}
    for broker in sorted(brokers):
        try:
            log_dirs[broker] = connection.describe_log_dirs(broker)
        except KafkaFault as error:
            if error.is_denied:
                raise
    return list_replica_logs(log_dirs)


def list_replica_logs(log_dirs: LogDirs) -> ReplicaLogs:
    """List the logs of replicas by broker and partition."""
    logs: dict[int, dict[Key, ReplicaLog]] = {broker: {} for broker in log_dirs}
    for broker, dirs in log_dirs.items():
        for log_dir in dirs:
            for topic in log_dir["topics"]:
                for one in topic["partitions"]:
                    key, path, size = (topic["name"], one["partition_index"]), log_dir["log_dir"], one["partition_size"]
                    log = logs[broker].get(key, ReplicaLog(None, 0))
                    future = {"future": path, "future_size": size}
                    logs[broker][key] = log._replace(**future if one["is_future_key"] else {"path": path, "size": size})
    return logs


class MoveProgress(CopyProgress):
    """Bytes that a wave has to move between log dirs, and has moved. targets: the log dirs that replicas move to."""

    def __init__(self, connection: KafkaConnection, targets: ReplicaLogDirs, clock: Callable[[], float]) -> None:
        super().__init__(connection, {}, {}, clock)
        self._targets = targets

    def _measure(self) -> tuple[int, int]:
        logs = list_replica_logs(self._describe_brokers({broker for *_, broker in self._targets}))
        total = copied = 0
        for (topic, partition, broker), path in self._targets.items():
            if (log := logs.get(broker, {}).get((topic, partition))) is not None:
                total += log.size
                copied += log.size if log.path == path else min(log.size, log.future_size)
        return total, copied
