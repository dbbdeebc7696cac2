"""What `inspect` and `what-if` show beyond whole and healthy clusters: the text, and the same in the JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipelines import cli
from pipelines.cli.inspect_command import build_answer, render_snapshot
from pipelines.cli.what_if_rendering import format_cluster, format_failure
from pipelines.errors import SourceError
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.what_if.what_if_answers import evaluate_brokers, evaluate_failure
from udfs.failures.topic_defaults import TopicDefaults
from udfs.json_answers import to_json

DEFAULTS = TopicDefaults()


def state(topic: str, partition: int, leader: int, isr: list[int]) -> str:
    path = f"/brokers/topics/{topic}/partitions/{partition}/state"
    return json.dumps({"path": path, "data": {"version": 1, "leader": leader, "leader_epoch": 8, "isr": isr}})


def assignment(topic: str, *replicas: list[int]) -> str:
    partitions = {str(i): ids for i, ids in enumerate(replicas)}
    return json.dumps({"path": f"/brokers/topics/{topic}", "data": {"version": 1, "partitions": partitions}})


def describe(*partitions: tuple[int, str, str, str]) -> str:
    count = len({partition for partition, *_ in partitions})
    header = f"Topic: t\tPartitionCount: {count}\tReplicationFactor: 1\tConfigs: min.insync.replicas=1"
    lines = [f"\tTopic: t\tPartition: {p}\tLeader: {x}\tReplicas: {r}\tIsr: {i}" for p, x, r, i in partitions]
    return "\n".join([header, *lines])


def load(folder: Path, **texts: str) -> Snapshot:
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text + "\n" * bool(text))
    return load_snapshot(find_source(str(folder)))


@pytest.fixture
def half_a_dump(tmp_path: Path) -> Snapshot:
    """Topic a has states but no assignment: one led, one leaderless; topic b has both, in part."""
    lines = (state("a", 0, 4, [4, 7]), state("a", 1, -1, [9]), assignment("b", [4, 7], [7, 4]), state("b", 0, 4, [4]))
    return load(tmp_path, dump="\n".join(lines))


def test_inspect_shows_a_leader_and_isr_without_an_assignment(half_a_dump: Snapshot) -> None:
    partitions = build_answer(half_a_dump)["partitions"]
    shown = [(p["leader"], p["replicas"], p["isr"], p["state_inferred"]) for p in partitions]
    assert shown == [(4, [], [4, 7], False), (None, [], [9], False), (4, [4, 7], [4], False), (7, [7, 4], [7, 4], True)]
    text = list(render_snapshot(half_a_dump))
    assert "  topics: 2, partitions: 4, leaderless: 1" in text
    assert "  2 partitions without known replicas, 1 of them with a leader" in text
    assert half_a_dump.partitions["replicas"].to_pylist()[:2] == [None, None]


def test_brokers_that_only_a_state_names_are_known(half_a_dump: Snapshot) -> None:
    brokers = {b["broker_id"]: (b["live"], b["leaders"]) for b in half_a_dump.brokers.to_pylist()}
    assert brokers == {4: (True, 2), 7: (True, 0), 9: (False, 0)}  # 9: the last ISR member of a leaderless partition


def test_what_if_leaves_partitions_without_an_assignment_out_and_says_so(half_a_dump: Snapshot) -> None:
    answer = evaluate_failure(half_a_dump, [4], DEFAULTS)
    assert [(p.topic, p.partition) for p in answer.partitions] == [("b", 0), ("b", 1)]
    assert answer.summary.gaps.unplaced_partitions == 2
    assert answer.summary.gaps.unplaced_partitions_losing_leader == 1
    text = format_failure(answer)
    assert "  warning: No source shows the replicas of 2 partitions: no answer covers them." in text
    note = "  note: 1 of the partitions without known replicas loses its leader; its next leader is unknown"
    assert note in text


def test_what_if_rejects_a_source_of_states_alone(tmp_path: Path) -> None:
    snapshot = load(tmp_path, dump=state("a", 0, 4, [4, 7]))
    with pytest.raises(SourceError, match="its sources show no replicas"):
        evaluate_failure(snapshot, [4], DEFAULTS)


def test_a_state_without_assignment_is_held_against_a_complete_list(tmp_path: Path) -> None:
    snapshot = load(tmp_path, brokers="broker_id\n4", dump=f"{state('a', 0, 5, [5])}\n{state('a', 1, 4, [4])}")
    (reasons,) = (row["reasons"] for row in snapshot.quarantined)
    assert reasons == [
        "partition a-0: leader 5 is not in the cluster's broker list",
        "partition a-0: ISR member 5 is not in the cluster's broker list",
    ]


NOTES: list[tuple[dict[str, str], dict[str, int], str]] = [
    (
        {"describe": describe((0, "1", "1,2", "1,2"), (1, "1", "1,1", "1"))},
        {"quarantined_records": 1, "incomplete_topics": 1},
        "1 record of the sources is quarantined and left out of every answer: run inspect to see why.",
    ),
    (
        {"describe": describe((0, "1", "1,2", "1,2"), (1, "1", "1,2", "1"), (1, "2", "1,2", "1,2"))},
        {"conflicts": 2, "quarantined_records": 2, "incomplete_topics": 1},
        "the sources conflict 2 times (run inspect for details)",
    ),
    (
        {"describe": describe((0, "1", "1,2", "1,2")), "topics": "topic,partitions,replication_factor\nu,3,2"},
        {"unplaced_partitions": 3, "topics_without_min_isr": 1},
        "No source shows the replicas of 3 partitions: no answer covers them.",
    ),
    (
        {"reassignment": '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'},
        {"state_inferred_partitions": 1, "topics_without_min_isr": 1},
        "The sources do not show leader or ISR of 1 partition: it counts as healthy.",
    ),
    (
        {"describe": describe((0, "1", "1,2", "1,2")), "empty": "", "letter": "Dear all"},
        {"unused_files": 2},
        "Nothing is used of 2 files (empty.txt, letter.txt): run inspect to see why.",
    ),
]
COUNTS = (
    "unplaced_partitions",
    "unplaced_partitions_losing_leader",
    "state_inferred_partitions",
    "topics_without_min_isr",
    "incomplete_topics",
    "quarantined_records",
    "conflicts",
    "unused_files",
    "skipped_entries",
)


@pytest.mark.parametrize(("texts", "counts", "note"), NOTES, ids=[next(iter(c)) for _, c, _ in NOTES])
def test_what_if_notes_what_its_answer_leaves_out(
    tmp_path: Path, texts: dict[str, str], counts: dict[str, int], note: str
) -> None:
    answer = evaluate_failure(load(tmp_path, **texts), [1], DEFAULTS)
    gaps = {name: getattr(answer.summary.gaps, name) for name in COUNTS}
    gaps["incomplete_topics"] = len(gaps["incomplete_topics"])
    assert gaps == dict.fromkeys(COUNTS, 0) | counts
    notes = [line.partition(": ")[2] for line in format_failure(answer) if line.startswith(("  note: ", "  warning: "))]
    assert note in notes
    assert len(notes) >= len(counts)
    json.dumps(to_json(answer))


def test_what_if_names_brokers_that_are_down_already(tmp_path: Path) -> None:
    snapshot = load(tmp_path, describe=describe((0, "1", "1,2", "1"), (1, "none", "2", "2")))
    answer = evaluate_failure(snapshot, [2], DEFAULTS)
    assert answer.summary.gaps.failed_already_down == (2,)
    assert answer.summary.leaders_moved == 0
    assert "  broker 2 is down already" in format_failure(answer)


@pytest.mark.parametrize("broker", [0, 5, 2_000_000_000])
def test_a_cluster_of_one_broker_and_one_replica(tmp_path: Path, broker: int) -> None:
    snapshot = load(tmp_path, describe=describe((0, str(broker), str(broker), str(broker))))
    answer = evaluate_failure(snapshot, [broker], DEFAULTS)
    expected: dict[str, Any] = {
        "survivors": 0,
        "offline_before": 0,
        "offline_after": 1,
        "leaders_after": {},
        "worst_survivor": None,
        "worst_survivor_ratio": None,
    }
    assert {name: getattr(answer.summary, name) for name in expected} == expected
    assert format_failure(answer)[0] == "NO: 1 partition would go offline: t-0"


def test_inspect_and_what_if_show_the_brokers_of_racks(tmp_path: Path) -> None:
    rows = "\n".join(f"\tTopic: t\tPartition: {p}\tLeader: {p}\tReplicas: {p},4\tIsr: {p},4" for p in (1, 2))
    listing = f"Topic: t\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: \n{rows}\n"
    (tmp_path / "topics.txt").write_text(f"{listing}\tTopic: t\tPartition: 0\tLeader: 4\tReplicas: 4,1\tIsr: 4\n")
    (tmp_path / "brokers.csv").write_text("broker_id,rack\n1,a\n2,a\n4,b\n")
    snapshot = load_snapshot(find_source(str(tmp_path)))
    assert "  brokers: 3 live (1, 2, 4), 2 racks (live brokers: a 2, b 1)" in list(render_snapshot(snapshot))
    lines = format_cluster(evaluate_brokers(snapshot, TopicDefaults()))
    at = next(i for i, line in enumerate(lines) if line.startswith("Can this rack fail now?"))
    cells = [line.split()[:3] for line in lines[at + 1 :]]
    assert [row[0] for row in cells] == ["rack", "b", "a"]
    assert [row[2] for row in cells] == ["brokers", "1", "2"]
    racks = "\n".join(f"{n},r{n:02}" for n in range(1, 15))
    (tmp_path / "brokers.csv").write_text(f"broker_id,rack\n{racks}\n")
    (line,) = (x for x in render_snapshot(load_snapshot(find_source(str(tmp_path)))) if "  brokers:" in x)
    assert line.endswith(
        "14 racks (brokers that are not down: " + ", ".join(f"r{n:02} 1" for n in range(1, 13)) + " and 2 more)"
    )


def test_inspect_names_a_file_that_gives_nothing(tmp_path: Path) -> None:
    text = list(render_snapshot(load(tmp_path, describe=describe((0, "1", "1", "1")), empty="")))
    assert "    ignored: 1 x empty, or not text" in text


def test_inspect_names_the_lines_that_it_ignores(tmp_path: Path) -> None:
    text = "\n".join(["Dear all,", describe((0, "1", "1", "1")), "", *["that was all of it"] * 8])
    snapshot = load(tmp_path, describe=text)
    assert "    ignored: 9 x prose (lines 1, 5, 6, 7, 8, 9 and 3 more)" in list(render_snapshot(snapshot))
    (source,) = build_answer(snapshot)["sources"]
    assert source["ignored_lines"]["prose"] == [1, 5, 6, 7, 8, 9, 10, 11, 12]


def test_inspect_lists_a_thousand_rejected_records(tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_text("Topic: t Partition: x Leader: 1 Replicas: 1 Isr: 1\n" * 1_002)
    *_, last, more = render_snapshot(load_snapshot(find_source(str(tmp_path / "many.txt"))))
    assert last.startswith("  quarantined: many.txt line 1000: ")
    assert more == "  and 2 more quarantined records: inspect --json FILE writes all"


def test_inspect_says_what_to_add_if_no_partition_is_shown(tmp_path: Path) -> None:
    text = list(render_snapshot(load(tmp_path, brokers="broker_id,rack\n1,a\n")))
    assert "  no partition is shown: add the output of kafka-topics --describe" in text


def test_logs_without_partitions_are_named(tmp_path: Path) -> None:
    parts = '[{"partition":"t-0","size":1,"offsetLag":0,"isFuture":false}]'
    dirs = f'[{{"logDir":"/d","error":null,"partitions":{parts}}}]'
    logs = f'{{"version":1,"brokers":[{{"broker":1,"logDirs":{dirs}}},{{"broker":2,"logDirs":{dirs}}}]}}\n'
    snapshot = load(tmp_path, logs=logs)
    text = list(render_snapshot(snapshot))
    shown = "only logs of 1 partition on 2 brokers: add the output of kafka-topics --describe"
    assert f"  no partition is shown, {shown}" in text
    message = (
        "its sources show logs of 1 partition on 2 brokers, but no leaders, ISRs or order of replicas. Add the output"
    )
    with pytest.raises(SourceError, match=re.escape(message)):
        evaluate_brokers(snapshot, DEFAULTS)


def test_what_if_says_what_is_known_of_topics_without_partitions(tmp_path: Path) -> None:
    header = "Topic: t\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: retention.ms=1\n"
    message = (
        "its sources show no replicas. Add the output of kafka-topics --describe. 1 topic is not fully shown by the "
        "sources (t); 3 partitions are missing: no answer covers what is missing."
    )
    with pytest.raises(SourceError, match=re.escape(message)):
        evaluate_brokers(load(tmp_path, describe=header), DEFAULTS)


CAPTURES = Path(__file__).parents[2] / "data_samples"


@pytest.mark.parametrize(
    ("before", "failed", "after", "partitions"),
    [
        ("kafka-4.1.1-kraft", [2], "kafka-4.1.1-kraft/topics-describe.broker-2-down.txt", 743),
        ("kafka-2.8.2-zookeeper", [1001], "kafka-2.8.2-zookeeper/topics-describe.broker-1001-down.txt", 61),
        (
            "captures/kafka-4.1.1-two-dead/topics-describe.txt",
            [1, 4],
            "kafka-4.1.1-two-dead/topics-describe.brokers-1-4-down.txt",
            150,
        ),
    ],
)
def test_what_if_gives_the_leaders_that_real_clusters_chose(
    before: str, failed: list[int], after: str, partitions: int
) -> None:
    answer = evaluate_failure(load_snapshot(find_source(str(CAPTURES / before))), failed, DEFAULTS)
    chosen = load_snapshot(find_source(str(CAPTURES / "captures" / after))).partitions.to_pylist()
    real = {(row["topic"], row["partition"]): None if row["leader"] == -1 else row["leader"] for row in chosen}
    assert {(p.topic, p.partition): p.leader_after for p in answer.partitions} == real
    assert len(real) == partitions


@pytest.mark.parametrize(
    "command", [["plan", "--goal", "leaders"], ["assign"], ["hotspots"]], ids=lambda words: words[0]
)
def test_every_command_warns_of_listings_that_differ(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[4,5]}]}'
    (tmp_path / "a.txt").write_text(describe((0, "1", "1,2", "1,2")) + f"\n{declared}\n")
    assert cli.main([*command, str(tmp_path / "a.txt")]) == 0
    assert "show partitions differently (1 of " in capsys.readouterr().err


def test_a_plan_without_a_folder_is_a_preview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text(describe(*((p, "1", "1,2", "1,2") for p in range(4))))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["plan", "a.txt", "--goal", "leaders"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "  a preview: nothing is written. Add --out DIR to write the files for Kafka's tools"
    assert any(line.startswith("  changed: 2 replica lists") for line in lines)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_plan_for_stdout_is_the_reassignment_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text(describe(*((p, "1", "1,2", "1,2") for p in range(4))))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["plan", "a.txt", "--goal", "leaders", "--out", "-"]) == 0
    moved = json.loads(capsys.readouterr().out)["partitions"]
    assert [(row["topic"], row["replicas"]) for row in moved] == [("t", [2, 1])] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
