"""Bytes that a wave has copied: all of them, or those since an execution was resumed."""

from __future__ import annotations

from typing import Any

from pipelines.execution.copy_progress import CopyProgress


class _Logs:
    """Stands for a KafkaAdmin: partition t-0 has 100 bytes on broker 1, and so many on broker 3."""

    copied = 0

    def describe_log_dirs(self, broker: int) -> list[dict[str, Any]]:
        size = {1: 100, 3: self.copied}[broker]
        log = {"partition_index": 0, "partition_size": size, "offset_lag": 0, "is_future_key": False}
        return [{"log_dir": "/d", "topics": [{"name": "t", "partitions": [log]}]}]


def test_resumed_wave_counts_what_is_copied_since() -> None:
    logs: Any = _Logs()
    whole, resumed = (CopyProgress(logs, {("t", 0): ((1,), (3,))}, lambda: 0.0) for _ in range(2))
    assert whole.copied_bytes is None
    logs.copied = 60
    resumed.resume()
    logs.copied = 90
    assert "90 B of 100 B copied" in whole.describe()
    resumed.describe()
    assert (whole.copied_bytes, resumed.copied_bytes) == (90, 30)
