"""Loads of topics on brokers become loads of partitions, each with its origin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.ingest.formats.topic_loads import AppendedRecords, TopicLoad, print_loads
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source

_TOPICS = """Topic: orders\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 4\tReplicationFactor: 2\tConfigs: \n
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2
\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2,3
\tTopic: orders\tPartition: 2\tLeader: 1\tReplicas: 1,3\tIsr: 1,3
\tTopic: orders\tPartition: 3\tLeader: none\tReplicas: 3\tIsr:
Topic: quiet\tTopicId: BBBBBBBBBBBBBBBBBBBBBB\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n
\tTopic: quiet\tPartition: 0\tLeader: 3\tReplicas: 3\tIsr: 3
"""
_LOADS = [TopicLoad("orders", 1, 400, 800.5), TopicLoad("orders", 2, 10, None), TopicLoad("deleted", 2, 5, 5)]
_APPENDED = [AppendedRecords("orders", 0, 30), AppendedRecords("orders", 2, 10), AppendedRecords("deleted", 9, 1)]


def _load(folder: Path, **others: str) -> Snapshot:
    (folder / "topics.txt").write_text(_TOPICS)
    lines = print_loads("prometheus=http://p:9090, p95 of 7 days", _LOADS, _APPENDED, ["no series of broker 3"])
    (folder / "loads.txt").write_text("".join(f"{line}\n" for line in lines))
    for name, text in others.items():
        (folder / f"{name}.csv").write_text(text)
    return load_snapshot(find_source(f"prod={folder}"))


def _get_loads(snapshot: Snapshot) -> list[tuple[Any, ...]]:
    names = ("topic", "partition", "bytes_in_per_s", "bytes_out_per_s", "load_source")
    return [tuple(row[name] for name in names) for row in snapshot.partitions.to_pylist()]


def test_printed_loads_are_divided_among_partitions(tmp_path: Path) -> None:
    snapshot = _load(tmp_path)
    assert snapshot.quarantined == []
    assert _get_loads(snapshot) == [
        ("orders", 0, 300, 600.375, "offsets"),
        ("orders", 1, 10, None, "even"),
        ("orders", 2, 100, 200.125, "offsets"),
        ("orders", 3, None, None, None),
        ("quiet", 0, None, None, None),  # without metrics: unknown, not 0
    ]
    assert [row["warning"] for row in snapshot.warnings.to_pylist()] == ["metrics: no series of broker 3"]


def test_loads_of_topics_fill_what_metrics_lack(tmp_path: Path) -> None:
    listed = "topic,partitions,rf,bytes_in_per_s,bytes_out_per_s\norders,4,2,40,80\nquiet,1,1,7,8\n"
    assert _get_loads(_load(tmp_path, list=listed)) == [
        ("orders", 0, 300, 600.375, "offsets"),
        ("orders", 1, 10, 20, "even"),
        ("orders", 2, 100, 200.125, "offsets"),
        ("orders", 3, 10, 20, "topic"),
        ("quiet", 0, 7, 8, "topic"),
    ]


def test_wrong_lines_are_quarantined_with_their_values(tmp_path: Path) -> None:
    (tmp_path / "topics.txt").write_text(_TOPICS)
    lines = [
        "load orders on broker 1: -4 B/s in, 1 B/s out",
        "load orders on broker x: 4 B/s in, 1 B/s out",
        "load or/ders on broker 1: 4 B/s in, 1 B/s out",
        "load orders on broker 1: 4 B/s in",
        "appended to orders partition 0: many records",
    ]
    (tmp_path / "loads.txt").write_text("".join(f"{line}\n" for line in lines))
    rows = load_snapshot(find_source(f"prod={tmp_path}")).quarantined
    reasons = {row["line_number"]: row["reasons"][0] for row in rows}
    assert reasons.keys() == {1, 2, 3, 4, 5}
    assert "B/s in is" in reasons[1]
    assert "broker is" in reasons[2]
    assert "or/ders" in reasons[3]
    assert "is no line of loads" in reasons[4]
    assert "records is" in reasons[5]


def test_consumers_fetch_from_followers_too(tmp_path: Path) -> None:
    loads = [TopicLoad("orders", 1, 400, 100), TopicLoad("orders", 2, 10, 20), TopicLoad("orders", 3, 0, 44)]
    appended = [AppendedRecords("orders", 0, 30), AppendedRecords("orders", 1, 30), AppendedRecords("orders", 2, 10)]
    (tmp_path / "topics.txt").write_text(_TOPICS)
    (tmp_path / "loads.txt").write_text("\n".join(print_loads("p", loads, appended, [])) + "\n")
    snapshot = load_snapshot(find_source(f"prod={tmp_path}"))
    # Broker 3 leads no partition with a leader; it follows partitions 1 and 2.
    outs = [row["bytes_out_per_s"] for row in snapshot.partitions.to_pylist()]
    assert outs == [75, 53, 36, None, None]

    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    (tmp_path / "brokers.txt").write_text(
        "".join(
            f"All configs for broker {id_} are:\n  replica.selector.class={selector} sensitive=false synonyms={{}}\n"
            for id_ in (1, 2, 3)
        )
    )
    snapshot = load_snapshot(find_source(f"prod={tmp_path}"))
    assert snapshot.quarantined == []
    # Broker 2 leads partition 1, and follows partition 0; producers still write to leaders only.
    rows = snapshot.partitions.to_pylist()
    assert [row["bytes_out_per_s"] for row in rows] == [85, 43, 36, None, None]
    assert [row["bytes_in_per_s"] for row in rows[:3]] == [300, 10, 100]
