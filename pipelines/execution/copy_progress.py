"""How much of a wave is copied, from the sizes of the logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pipelines.live.kafka_connection import KafkaConnection, KafkaFault, Key
from udfs.wording import format_bytes, format_duration

LogDirs = Mapping[int, Sequence[Mapping[str, Any]]]  # answers to DescribeLogDirs, by broker


def get_replica_sizes(log_dirs: LogDirs) -> dict[tuple[int, Key], int]:
    """Return the bytes of all replicas by broker and partition, without those on the way to another log dir."""
    return {
        (broker, (topic["name"], one["partition_index"])): one["partition_size"]
        for broker, dirs in log_dirs.items()
        for log_dir in dirs
        for topic in log_dir["topics"]
        for one in topic["partitions"]
        if not one["is_future_key"]
    }


class CopyProgress:
    """Bytes that a wave has to copy, and has copied. before, after: the replicas of its partitions."""

    def __init__(
        self,
        connection: KafkaConnection,
        before: Mapping[Key, Sequence[int]],
        after: Mapping[Key, Sequence[int]],
        clock: Callable[[], float],
    ) -> None:
        self._connection = connection
        self._added = {key: sorted(set(after[key]) - set(before[key])) for key in after}
        self._sources = before
        self._clock = clock
        self._began: tuple[float, int] | None = None  # time, bytes
        self._bytes_before = 0
        self._bytes_now: int | None = None
        self._is_denied = False  # whether the user may not read the log dirs of a broker
        self._seen: tuple[int, int | None] | None = None

    @property
    def copied_bytes(self) -> int | None:
        """Bytes that were copied since `resume`, or in all, when they were last looked at; None = never."""
        return None if self._bytes_now is None else max(0, self._bytes_now - self._bytes_before)

    def resume(self) -> None:
        """Count only what is copied from now on."""
        self.describe()
        self._bytes_before = self._bytes_now or 0

    def has_changed(self, done: int) -> bool:
        """Return whether a wave has gone on since the last call, or may have, as the user may not read the log dirs.

        done: partitions. A broker that does not answer counts as one that copies nothing.
        """
        seen, self._seen = self._seen, (done, self._bytes_now)
        return self._is_denied or seen != self._seen

    def describe(self) -> str:
        """Describe bytes and time left, as the end of a sentence; empty if brokers do not show their logs."""
        total, copied = self._measure()
        if not total:
            return ""
        self._bytes_now = copied
        now = self._clock()
        text = f", {format_bytes(copied)} of {format_bytes(total)} copied"
        if self._began is None:
            self._began = (now, copied)
        elif copied > self._began[1] and now > self._began[0]:
            rate = (copied - self._began[1]) / (now - self._began[0])
            text += f", {format_duration((total - copied) / rate)} left at {format_bytes(rate)}/s"
        return text

    def _measure(self) -> tuple[int, int]:
        """Measure the bytes that are to be copied, and those that are; 0 if brokers do not show their logs."""
        brokers = {broker for added in self._added.values() for broker in added}
        brokers |= {broker for key, added in self._added.items() if added for broker in self._sources[key]}
        sizes = get_replica_sizes(self._describe_brokers(brokers))
        total = copied = 0
        for key, added in self._added.items():
            size = max((sizes.get((broker, key), 0) for broker in (*self._sources[key], *added)), default=0)
            total += size * len(added)
            copied += sum(min(size, sizes.get((broker, key), 0)) for broker in added)
        return total, copied

    def _describe_brokers(self, brokers: Iterable[int]) -> LogDirs:
        """Describe the log dirs of brokers, of those that answer."""
        log_dirs = {}
        for broker in sorted(brokers):
            try:
                log_dirs[broker] = self._connection.describe_log_dirs(broker)
            except KafkaFault as error:
                self._is_denied |= error.is_denied
        return log_dirs
