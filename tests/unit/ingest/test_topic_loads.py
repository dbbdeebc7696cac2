"""Loads of topics on brokers become loads of partitions, each with its origin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipelines.ingest.formats.topic_loads import NO_RATES, LoadStatistic, TopicLoad, WindowRates, print_loads
from pipelines.ingest.merge.cluster_merge import merge_facts
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot, parse_facts, read_files
from pipelines.ingest.sources import find_source
from tests.loads import appended_records, measured_size, measured_volume, plain_load

_TOPICS = """Topic: orders\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 4\tReplicationFactor: 2\tConfigs: \n
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2
\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2,3
\tTopic: orders\tPartition: 2\tLeader: 1\tReplicas: 1,3\tIsr: 1,3
\tTopic: orders\tPartition: 3\tLeader: none\tReplicas: 3\tIsr:
Topic: quiet\tTopicId: BBBBBBBBBBBBBBBBBBBBBB\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n
\tTopic: quiet\tPartition: 0\tLeader: 3\tReplicas: 3\tIsr: 3
"""


def _window(p95: float) -> WindowRates:
    return WindowRates(p95 / 2, p95, p95 * 2)


_LOADS = [
    TopicLoad(None, 1, _window(400), _window(800.5)),
    TopicLoad("orders", 1, _window(400), _window(800.5)),
    TopicLoad("orders", 2, _window(10), NO_RATES),
    TopicLoad("deleted", 2, _window(5), _window(5)),
]
_APPENDED = [
    appended_records("orders", 0, 1, 30),
    appended_records("orders", 2, 1, 10),
    appended_records("orders", 2, 3, 1_000),  # a follower that was copied meanwhile
    appended_records("deleted", 9, 1, 1),
]


def _load(folder: Path, **others: str) -> Snapshot:
    (folder / "topics.txt").write_text(_TOPICS)
    lines = print_loads("files, 7d, p95", [*_LOADS, *_APPENDED], ["no series of broker 3"], LoadStatistic.P95)
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
        "load topic=orders broker_id=1 bytes_in_per_s=-4 bytes_out_per_s=1",
        "load topic=orders broker_id=x bytes_in_per_s=4 bytes_out_per_s=1",
        "load topic=or/ders broker_id=1 bytes_in_per_s=4 bytes_out_per_s=1",
        "load topic=orders bytes_in_per_s=4",
        "appended topic=orders partition=0 broker_id=1 records=many",
        "replica_size topic=orders partition=0 broker_id=1 size_bytes=1.5",
        "volume log_dir=/data broker_id=1 total_bytes=many usable_bytes=5",
        "load topic='orders broker_id=1 bytes_in_per_s=4",
    ]
    (tmp_path / "loads.txt").write_text("".join(f"{line}\n" for line in lines))
    rows = load_snapshot(find_source(f"prod={tmp_path}")).quarantined
    reasons = {row["line_number"]: row["reasons"][0] for row in rows}
    assert reasons.keys() == {1, 2, 3, 4, 5, 6, 7, 8}
    assert "B/s is" in reasons[1]
    assert "broker is" in reasons[2]
    assert "or/ders" in reasons[3]
    assert "is no line of loads" in reasons[4]
    assert "records is" in reasons[5]
    assert "bytes is" in reasons[6]
    assert "total bytes is" in reasons[7]
    assert "is no line of loads" in reasons[8]


def test_loads_of_places_and_sizes_fill_what_sources_lack(tmp_path: Path) -> None:
    """A size of a replica is used unless kafka-log-dirs shows it too."""
    (tmp_path / "topics.txt").write_text(_TOPICS)
    logs = '{"partition":"orders-0","size":7,"offsetLag":0,"isFuture":false}'
    answer = (
        f'{{"version":1,"brokers":[{{"broker":1,"logDirs":[{{"logDir":"/d","error":null,"partitions":[{logs}]}}]}}]}}'
    )
    (tmp_path / "logs.txt").write_text(answer)
    loads = [
        plain_load("orders", None, 0, 5, 6),
        plain_load("orders", 1, None, 40, 80),
        *(measured_size("orders", 0, broker, 9) for broker in (1, 2)),
        measured_size("orders", 1, 2, 11),
    ]
    text = "".join(f"{line}\n" for line in print_loads("x", loads, [], LoadStatistic.MEAN))
    (tmp_path / "loads.txt").write_text(text)
    snapshot = load_snapshot(find_source(f"prod={tmp_path}"))
    assert snapshot.quarantined == []
    assert snapshot.conflicts.num_rows == 0
    assert _get_loads(snapshot)[:3] == [
        ("orders", 0, 5, 6, "partition"),
        ("orders", 1, None, None, None),
        ("orders", 2, 35, 74, "even"),
    ]
    sizes = {(row["topic"], row["partition"]): row["size_bytes"] for row in snapshot.partitions.to_pylist()}
    assert sizes == {("orders", 0): 7, ("orders", 1): 11, **{("orders", p): None for p in (2, 3)}, ("quiet", 0): None}
    logs_of_first = snapshot.partitions["logs"][0].as_py()
    assert [log["size_bytes"] for log in logs_of_first] == [7, 9]


def test_volumes_are_those_of_the_log_dirs_below_them(tmp_path: Path) -> None:
    """The volume that is mounted deepest counts; one that kafka-log-dirs shows itself stays."""
    (tmp_path / "topics.txt").write_text(_TOPICS)
    paths = {"/data/a/kafka": None, "/data/b": None, "/data/c": (70, 7), "/database": None, "/my disk/kafka": None}
    log_dirs = [
        {
            "logDir": path,
            "error": None,
            "partitions": [],
            **({"totalBytes": own[0], "usableBytes": own[1]} if own else {}),
        }
        for path, own in paths.items()
    ]
    answer = {"version": 1, "brokers": [{"broker": 1, "logDirs": log_dirs}]}
    (tmp_path / "logs.json").write_text(json.dumps(answer))
    volumes = [
        measured_volume("/", 2, 1, 1),
        measured_volume("/data", 1, 1000, 400),
        measured_volume("/my disk", 1, 500, 100),
        measured_volume("/data/a", 1, 2000, None),
        measured_volume("/data/c", 1, 3000, 3),
    ]
    lines = print_loads("x", volumes, [], LoadStatistic.P95)
    (tmp_path / "loads.txt").write_text("".join(f"{line}\n" for line in lines))
    snapshot = load_snapshot(find_source(f"prod={tmp_path}"))
    assert snapshot.quarantined == []
    rows = {row["log_dir"]: (row["total_bytes"], row["usable_bytes"]) for row in snapshot.log_dirs.to_pylist()}
    expected = {"/data/a/kafka": (2000, None), "/data/b": (1000, 400), "/data/c": (70, 7), "/database": (None, None)}
    expected["/my disk/kafka"] = (500, 100)
    assert rows == expected


def test_measured_loads_are_kept_with_their_statistics(tmp_path: Path) -> None:
    (tmp_path / "loads.txt").write_text(
        "".join(f"{line}\n" for line in print_loads("x", _LOADS, [], LoadStatistic.PEAK))
    )
    facts = parse_facts(list(read_files(find_source(f"prod={tmp_path}"), None)))
    rows = merge_facts(facts).topic_loads.to_pylist()
    assert [(row["topic"], row["broker_id"]) for row in rows] == [(one.topic, one.broker) for one in _LOADS]
    assert list(rows[0].values())[2:] == [800, 200, 400, 800, 1601, 400.25, 800.5, 1601]
    assert list(rows[2].values())[2:] == [20, 5, 10, 20, None, None, None, None]


def test_consumers_fetch_from_followers_too(tmp_path: Path) -> None:
    loads = [
        plain_load("orders", broker, None, rate_in, rate_out)
        for broker, rate_in, rate_out in ((1, 400, 100), (2, 10, 20), (3, 0, 44))
    ]
    leaders = ((0, 1, 30), (1, 2, 30), (2, 1, 10))
    appended = [appended_records("orders", *one) for one in leaders]
    (tmp_path / "topics.txt").write_text(_TOPICS)
    (tmp_path / "loads.txt").write_text("\n".join(print_loads("p", [*loads, *appended], [], LoadStatistic.P95)) + "\n")
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


def test_loads_that_several_files_show_count_once(tmp_path: Path) -> None:
    """The first file counts; where the others differ is a conflict, and what it lacks is taken from them."""
    files = {
        "a": [plain_load("orders", 1, None, 40, None), plain_load("quiet", None, 0, 7, None)],
        "b": [plain_load("orders", 1, None, 40, 80), plain_load("quiet", None, 0, 7, None)],
        "c": [plain_load("orders", 1, None, 50, 80)],
    }
    (tmp_path / "topics.txt").write_text(_TOPICS)
    for name, loads in files.items():
        lines = print_loads(name, loads, [], LoadStatistic.MEAN)
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    snapshot = load_snapshot(find_source(f"prod={tmp_path}"))
    assert [row[2:4] for row in _get_loads(snapshot) if row[4]] == [(20, 40), (20, 40), (7, None)]
    conflicts = snapshot.conflicts.to_pylist()
    assert [(row["entity"], row["field"], row["value"], row["other_value"]) for row in conflicts] == [
        ("load of topic orders on broker 1", "bytes_in_per_s", "40.0", "50.0")
    ]
