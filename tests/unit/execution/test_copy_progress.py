"""Bytes that a wave has copied: all of them, or those since an execution was resumed."""

from __future__ import annotations

from typing import Any

from pipelines.execution.copy_progress import CopyProgress
from pipelines.live.kafka_connection import KafkaFault


class _Logs:
    """Stands for a KafkaAdmin: partition t-0 has 100 bytes on broker 1, and so many on broker 3."""

    copied = 0
    fault: KafkaFault | None = None

    def describe_log_dirs(self, broker: int) -> list[dict[str, Any]]:
        if self.fault is not None:
            raise self.fault
        size = {1: 100, 3: self.copied}[broker]
        log = {"partition_index": 0, "partition_size": size, "offset_lag": 0, "is_future_key": False}
        return [{"log_dir": "/d", "topics": [{"name": "t", "partitions": [log]}]}]


def _make_progress(logs: Any) -> CopyProgress:
    return CopyProgress(logs, {("t", 0): (1,)}, {("t", 0): (3,)}, lambda: 0.0)


def test_wave_that_copies_nothing_stands_still() -> None:
    logs = _Logs()
    progress = _make_progress(logs)
    progress.describe()
    assert progress.has_changed(0)
    progress.describe()
    assert not progress.has_changed(0)
    logs.copied = 1
    progress.describe()
    assert progress.has_changed(0)
    assert progress.has_changed(1)  # a partition is done
    logs.fault = KafkaFault("b1:9092", "no answer", "")
    progress.describe()
    assert not progress.has_changed(1)
    logs.fault = KafkaFault("b1:9092", "may not", "", is_denied=True)  # then nobody knows
    progress.describe()
    assert progress.has_changed(1)


def test_resumed_wave_counts_what_is_copied_since() -> None:
    logs: Any = _Logs()
    whole, resumed = (_make_progress(logs) for _ in range(2))
    assert whole.copied_bytes is None
    logs.copied = 60
    resumed.resume()
    logs.copied = 90
    assert "90 B of 100 B copied" in whole.describe()
    resumed.describe()
    assert (whole.copied_bytes, resumed.copied_bytes) == (90, 30)
