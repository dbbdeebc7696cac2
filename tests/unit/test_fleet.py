"""The generator of fleets: what it writes is read as what was asked for."""

from __future__ import annotations

from pathlib import Path

from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from tests.bench.fleet import Shape, make_fleet

SHAPE = Shape(partitions=900, clusters=3, brokers=30, topics=40, small=1, seed=5, loads=True)


def test_a_fleet_is_of_the_size_asked_for(tmp_path: Path) -> None:
    snapshots = [load_snapshot(find_source(str(folder))) for folder in make_fleet(SHAPE, tmp_path / "fleet")]
    assert sum(s.partitions.num_rows for s in snapshots) == 900 + 500
    assert sum(s.brokers.num_rows for s in snapshots) == 30 + 5
    assert sum(s.topics.num_rows for s in snapshots) == 40 + 20
    for snapshot in snapshots:
        assert snapshot.quarantined == []
        assert snapshot.conflicts.num_rows == 0
        assert not any(snapshot.topics["incomplete"].to_pylist())
        assert None not in snapshot.partitions["bytes_in_per_s"].to_pylist()


def test_the_same_seed_gives_the_same_fleet(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        folders = make_fleet(SHAPE, tmp_path / name)
        texts.append([file.read_bytes() for folder in folders for file in sorted(folder.iterdir())])
    assert texts[0] == texts[1]
