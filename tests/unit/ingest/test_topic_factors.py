"""The replication factor of topics: as declared, else that of partition 0, as it will be after its reassignment."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source

LINE = "\tTopic: t\tPartition: {}\tLeader: 1\tReplicas: {}\tIsr: 1"
MOVED = "\tAdding Replicas: {}\tRemoving Replicas: {}"


@pytest.mark.parametrize(
    ("declared", "replicas", "expected"),
    [
        (2, ["1,2", "1,2,3"], 2),
        (3, ["1,2", "1,2,3"], 3),
        (None, ["1,2", "1,2,3", "1,2,3"], 2),  # as kafka-topics would declare
        (None, ["1,2,3 + 3", "1,2"], 3),
        (2, ["1,2,3 + 3", "1,2,3"], 3),  # from 2 to 3 replicas
        (3, ["6,1,2,3 + 6 - 2,3", "2,1", "3,6"], 2),  # from 3 to 2
        (3, ["3,1,2 + 3 - 2", "1,2"], 2),  # a tool that counts replicas being added
        (3, ["65,62,63,64 + 65 - 64", "63,64,61"], 3),
    ],
)
def test_factors(tmp_path: Path, declared: int | None, replicas: list[str], expected: int) -> None:
    lines = [] if declared is None else [f"Topic: t\tPartitionCount: 9\tReplicationFactor: {declared}\tConfigs: "]
    for i, text in enumerate(replicas):
        ids, _, change = text.partition(" + ")
        added, _, removed = change.partition(" - ")
        lines.append(LINE.format(i, ids) + (MOVED.format(added, removed) if added else ""))
    (tmp_path / "describe.txt").write_text("\n".join(lines) + "\n")
    topics = load_snapshot(find_source(f"c={tmp_path / 'describe.txt'}")).topics
    assert topics["replication_factor"].to_pylist() == [expected]
