"""`assign`: golden requests and answers, Kafka's errors, and the output for Kafka's tools."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pipelines.cli import main
from udfs.placement.kernels.java_util import next_int, scramble_seeds

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden"
FORMATS = ROOT / "data_samples" / "formats"
ANSWER = ("replicas", "error", "first_partition")


def remove_answer(case: dict) -> dict:
    """Return the request of a golden case."""
    out = {key: value for key, value in case.items() if key not in ANSWER}
    if "topics" in out:
        out["topics"] = [remove_answer(topic) for topic in out["topics"]]
    return out


def assign(tmp_path: Path, *requests: dict | str, options: tuple[str, ...] = ()) -> str:
    file, out = tmp_path / "requests.jsonl", tmp_path / "out"
    file.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in requests))
    assert main(["assign", str(file), "--out", str(out), *options]) == 0
    return out.read_text()


def answers(tmp_path: Path, *requests: dict | str) -> list[dict]:
    return [json.loads(line) for line in assign(tmp_path, *requests).splitlines()]


@pytest.mark.parametrize("name", ["adminutils", "striped"])
def test_golden_cases(tmp_path: Path, name: str) -> None:
    cases = [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_text().splitlines()]
    assert len(cases) == 400
    assert answers(tmp_path, *map(remove_answer, cases)) == cases


def test_cordoned_brokers_get_no_replicas_from_the_striped_placement(tmp_path: Path) -> None:
    """As if they did not exist; and the error is that of Kafka 4.3."""
    brokers = [{"id": i, "rack": f"r{i % 2}"} for i in range(6)]
    request = {"algorithm": "striped", "seed": 5, "partitions": 9, "replication_factor": 2}
    cordoned = [broker | {"cordoned": broker["id"] in (1, 4)} for broker in brokers]
    (found, fewer) = answers(
        tmp_path,
        request | {"brokers": cordoned},
        request | {"brokers": [broker for broker in brokers if broker["id"] not in (1, 4)]},
    )
    assert found["replicas"] == fewer["replicas"]
    too_many = request | {"brokers": cordoned, "replication_factor": 5}
    (rejected,) = answers(tmp_path, too_many)
    assert rejected["error"]["message"] == (
        "The target replication factor of 5 cannot be reached because only 4 broker(s) are registered or some brokers "
        "have all their log directories cordoned."
    )
    (other,) = answers(tmp_path, request | {"brokers": cordoned, "algorithm": "adminutils", "fixed_start_index": 0})
    assert {1, 4} < {broker for replicas in other["replicas"] for broker in replicas}


def test_cordoned_brokers_of_a_source_get_no_replicas(tmp_path: Path) -> None:
    folder, out = tmp_path / "source", tmp_path / "out.json"
    folder.mkdir()
    lines = [f"\tTopic: t\tPartition: {i}\tLeader: {i % 3}\tReplicas: {i % 3}\tIsr: {i % 3}" for i in range(9)]
    (folder / "topics.txt").write_text("\n".join(["Topic: t\tPartitionCount: 9\tReplicationFactor: 1", *lines]))
    configs = "Dynamic configs for broker 2 are:\n  cordoned.log.dirs=* sensitive=false synonyms={}\n"
    (folder / "configs.txt").write_text(configs)
    assert main(["assign", str(folder), "--scheme", "kraft", "--out", str(out)]) == 0
    assert {broker for replicas in json.loads(out.read_text())["replicas"] for broker in replicas} == {0, 1}


def test_a_manual_list_with_a_cordoned_broker_is_rejected_with_the_text_of_kafka_4_4(tmp_path: Path) -> None:
    """As on a real cluster: tests/live/test_cordoned_brokers.py. The lower broker, in the order of ids, comes first."""
    brokers = [{"id": id_, "cordoned": id_ == 1} for id_ in range(3)]
    texts = ("0:2,2:0", "2:1,0:2", "9:1", "1:1", "0:0:1")
    requests = [{"algorithm": "manual", "brokers": brokers, "replica_assignment": text} for text in texts]
    includes = "The manual partition assignment includes"
    rejected = f"{includes} broker 1, but all its log directories are cordoned."
    assert [one.get("error", {}).get("message") for one in answers(tmp_path, *requests)] == [
        *(None, rejected, rejected, rejected, f"{includes} the broker 0 more than once.")
    ]


def test_requests_of_all_schemes_keep_their_order(tmp_path: Path) -> None:
    cases = [json.loads(line) for n in ("adminutils", "striped") for line in (GOLDEN / f"{n}.jsonl").open()][::7]
    cases = [case for pair in zip(cases, reversed(cases), strict=True) for case in pair]
    assert answers(tmp_path, *map(remove_answer, cases)) == cases


def test_an_invalid_line_is_an_error_in_its_place_and_the_others_are_answered(tmp_path: Path) -> None:
    good = {"algorithm": "naive", "brokers": [3, 1], "partitions": 2, "replication_factor": 1}
    bad = {
        "no json": "is not JSON",
        "[1]": "is not a JSON object",
        '{"algorithm": "round-robin"}': "algorithm 'round-robin' is unknown. Choose from adminutils, striped,",
        '{"algorithm": "naive"}': "brokers: Field required",
        json.dumps(good | {"partitions": "2"}): "partitions: Input should be a valid integer, got '2'",
        json.dumps(good | {"partitions": 2**31}): "partitions: Input should be less than",
        json.dumps(good | {"partitions": 2**31 - 1}): "limit of 100000000 replicas",
        json.dumps(good | {"brokers": [1, 1]}): "broker 1 is listed twice",
        json.dumps(good | {"brokers": [{"id": True}]}): "id: Input should be a valid integer",
        json.dumps(good | {"seed": 2**63}): "seed: Input should be less than",
        json.dumps(good | {"topics": 3}): "`topics` is a list",
        json.dumps({k: v for k, v in good.items() if k != "partitions"}): "partitions: Field required",
        json.dumps(good | {"existing_replicas": []}): "no replicas of partition 0",
        json.dumps(good | {"existing_replicas": [[-5]]}): "existing_replicas.0.0: Input should be greater than",
        json.dumps(good | {"existing_replicas": [[2**70]]}): "existing_replicas.0.0: Input should be less than",
        json.dumps(good | {"existing_replicas": [[1], [1, 2]]}): "partition 1 has [1, 2], but partition 0 has 1",
        json.dumps(good | {"algorithm": ["naive"]}): "algorithm ['naive'] is unknown",
        "[" * 100_000: "is not JSON",
        json.dumps(good | {"existing_replicas": [[1, 2]]}): "replication_factor is 1, but partition 0 has 2",
    }
    rows = answers(tmp_path, *bad, good)
    assert len(rows) == len(bad) + 1
    for number, (row, says) in enumerate(zip(rows, bad.values(), strict=False), 1):
        assert row["error"]["class"] == "InvalidRequestException"
        assert f"requests.jsonl, line {number}: " in row["error"]["message"]
        assert says in row["error"]["message"]
    assert rows[-1]["replicas"] == [[1], [3]]


def test_manual_assignments_get_the_errors_of_the_controller(tmp_path: Path) -> None:
    def manual_request(text: str) -> dict:
        return {"algorithm": "manual", "brokers": [0, 1, 2], "replica_assignment": text}

    rows = answers(tmp_path, *map(manual_request, ("0:1,2:0", "0:1,1:1", "0:7", "0:1,2", "0:x")))
    assert rows[0]["replicas"] == [[0, 1], [2, 0]]
    rejected = "The manual partition assignment includes "
    assert [row["error"]["message"] for row in rows[1:4]] == [
        f"{rejected}the broker 1 more than once.",
        f"{rejected}broker 7, but no such broker is registered.",
        f"{rejected}a partition with 1 replica(s), but this is not consistent with previous partitions, "
        "which have 2 replica(s).",
    ]
    assert {row["error"]["class"] for row in rows[1:4]} == {"InvalidReplicaAssignmentException"}
    assert "topic topic-5, partition 0, replicas '0:x'" in rows[4]["error"]["message"]


def test_added_partitions_begin_where_kafka_derives_it(tmp_path: Path) -> None:
    grows = {"algorithm": "kafka", "brokers": [9, 2, 5], "partitions": 3, "replication_factor": 2}
    # By id: 2, 5, 9. Partition 0's first replica 4 is gone: the first broker that is not below it is 5, index 1.
    (row,) = answers(tmp_path, grows | {"existing_replicas": [[4, 2]]})
    same = grows | {"brokers": [2, 5, 9], "fixed_start_index": 1, "start_partition_id": 1}
    assert row["first_partition"] == 1
    assert row["replicas"] == answers(tmp_path, same)[0]["replicas"] == [[9, 5], [2, 9], [5, 9]]
    (row,) = answers(tmp_path, grows | {"existing_replicas": [[10, 2]]})  # no broker is that high: index 0
    assert row["replicas"][0][0] == 5


def test_commands_are_valid_shell_commands(tmp_path: Path) -> None:
    brokers = {"brokers": [1, 2, 3], "seed": 5, "replication_factor": 2}
    text = assign(
        tmp_path,
        {"algorithm": "kafka", "topic": "new", "partitions": 2, **brokers},
        {"algorithm": "kafka", "topic": "wide", "partitions": 2, **brokers, "replication_factor": 4},
        {"algorithm": "kafka", "topic": "grown", "partitions": 1, "existing_replicas": [[1, 2]], **brokers},
        {"algorithm": "kafka", "topic": "unknown", "partitions": 1, "start_partition_id": 4, **brokers},
        {"algorithm": "kraft", "topic": "empty", "partitions": 0, **brokers},
        {"algorithm": "kafka", "topic": "a b; rm \ud800", "partitions": 1, **brokers},
        options=("--output-format", "commands", "--bootstrap-server", "kafka:1"),
    )
    lines = text.splitlines()
    created = shlex.split(lines[0])
    assert created[:6] == ["kafka-topics", "--bootstrap-server", "kafka:1", "--create", "--topic", "new"]
    assert created[6] == "--replica-assignment"
    assert [len(part.split(":")) for part in created[7].split(",")] == [2, 2]
    assert lines[1].startswith(
        "# rejected: topic wide: InvalidReplicationFactorException: Replication factor: 4 larger"
    )
    assert "--alter --topic grown --partitions 2 --replica-assignment 1:2," in lines[2]
    assert lines[3].startswith("# topic unknown begins at partition 4")
    assert lines[4] == "# topic empty: no partitions to place"
    assert lines[5].startswith("# rejected: topic a b; rm \\ud800: InvalidTopicException: Topic name is invalid: ")


@pytest.mark.parametrize("output_format", ["commands", "reassignment"])
def test_a_topic_requested_twice_is_an_error(
    tmp_path: Path, output_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    request = json.dumps({"algorithm": "naive", "topic": "t", "brokers": [1], "partitions": 1, "replication_factor": 1})
    (tmp_path / "r.jsonl").write_text(f"{request}\n{request}\n")
    assert main(["assign", str(tmp_path / "r.jsonl"), "--output-format", output_format]) == 1
    assert "topic t is requested twice" in capsys.readouterr().err


def test_added_partitions_do_not_affect_other_topics(tmp_path: Path) -> None:
    grows = {"partitions": 2, "replication_factor": 1, "existing_replicas": [[3]]}
    other = {"partitions": 2, "replication_factor": 1, "fixed_start_index": 0}
    request = {"algorithm": "kafka", "brokers": [3, 1, 2]}
    (both,) = answers(tmp_path, request | {"topics": [other, grows]})
    assert [topic["replicas"] for topic in both["topics"]] == [[[3], [1]], [[1], [2]]]


@pytest.mark.parametrize("name", ["a b", "..", "x" * 250, "a\n# forged", "\x1b[2J", "größe"])
@pytest.mark.parametrize("algorithm", ["kafka", "kraft", "naive"])
def test_a_name_that_kafka_rejects_is_an_error_in_every_output(tmp_path: Path, name: str, algorithm: str) -> None:
    """The topics beside it get the replicas that they get without it: Kafka checks names before it places topics."""
    topics = [{"topic": topic, "partitions": 3, "replication_factor": 2} for topic in ("a", name, "b")]
    request = {"algorithm": algorithm, "brokers": [1, 2, 3], "seed": 5, "topics": topics}
    rows = answers(tmp_path, request)[0]["topics"]
    assert rows[1]["error"]["class"] == "InvalidTopicException"
    assert rows[1]["error"]["message"].startswith("Topic name is invalid: ")
    alone = answers(tmp_path, request | {"topics": [topics[0], topics[2]]})[0]["topics"]
    assert [rows[0], rows[2]] == alone
    document = json.loads(assign(tmp_path, request, options=("--output-format", "reassignment")))
    assert {entry["topic"] for entry in document["partitions"]} == {"a", "b"}
    lines = assign(tmp_path, request, options=("--output-format", "commands")).splitlines()
    assert [line.split()[0] for line in lines] == ["kafka-topics", "#", "kafka-topics"]
    assert lines[1].startswith("# rejected: topic ")
    assert "\x1b" not in lines[1]


def test_a_manual_assignment_of_a_name_that_kafka_rejects(tmp_path: Path) -> None:
    request = {"algorithm": "manual", "topic": "a b", "brokers": [1, 2], "replica_assignment": "1:2"}
    assert answers(tmp_path, request)[0]["error"]["class"] == "InvalidTopicException"


def test_unicode_line_separators_do_not_end_a_request(tmp_path: Path) -> None:
    request = {"algorithm": "naive", "note": "a\u2028b\x85c", "brokers": [1], "partitions": 1, "replication_factor": 1}
    text = json.dumps(request, ensure_ascii=False)
    (row,) = answers(tmp_path, text)
    assert row["note"] == request["note"]
    assert row["replicas"] == [[1]]


def test_out_may_be_a_pipe_or_a_link(tmp_path: Path) -> None:
    request = tmp_path / "r.jsonl"
    request.write_text('{"algorithm":"naive","brokers":[1],"partitions":1,"replication_factor":1}\n')
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(target)
    assert main(["assign", str(request), "--out", str(link)]) == 0
    assert link.is_symlink()
    assert '"replicas":[[1]]' in target.read_text()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        assert main(["assign", str(request), "--out", str(pipe)]) == 0
        assert '"replicas":[[1]]' in reader.communicate(timeout=30)[0]
    assert pipe.is_fifo()


def test_a_reassignment_is_kafkas_json(tmp_path: Path) -> None:
    request = {"algorithm": "naive", "topic": "t", "brokers": [1, 2], "partitions": 2, "replication_factor": 1}
    grown = request | {"topic": "g", "existing_replicas": [[1]], "partitions": 1}
    document = json.loads(assign(tmp_path, request, grown, options=("--output-format", "reassignment")))
    assert document == {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [1]},
            {"topic": "t", "partition": 1, "replicas": [2]},
            {"topic": "g", "partition": 1, "replicas": [2]},
        ],
    }
    empty = json.loads(assign(tmp_path, "nothing", options=("--output-format", "reassignment")))
    assert empty == {"version": 1, "partitions": []}


def test_lists_of_topics_and_brokers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    brokers = tmp_path / "brokers.csv"
    brokers.write_text("broker_id\n7\n3\n5\n")
    topics = str(FORMATS / "topics.csv")
    assert main(["assign", topics, "--brokers", str(brokers), "--seed", "11", "--shared-random"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["topic"] for row in rows] == ["audit", "orders"]
    # One Random(11): start index and shift of audit, then of orders.
    states = scramble_seeds(np.array([11]))
    draws = [next_int(states, 0, 3) for _ in range(4)]
    ids = [3, 5, 7]
    assert rows[0]["replicas"][0][0] == ids[draws[0]]
    assert [replicas[0] for replicas in rows[1]["replicas"]] == [ids[(draws[2] + p) % 3] for p in range(6)]

    assert main(["assign", topics, "--brokers", str(brokers), "--seed", "11"]) == 0
    alone = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len({row["seed"] for row in alone}) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((str(FORMATS / "topics.csv"),), "no live broker is known. Add a list of brokers: --brokers FILE"),
        ((str(FORMATS / "topics.csv"), "--scheme", "manual"), "--scheme manual: choose from"),
        (
            (str(FORMATS / "topics.csv"), "--output-format", "xml"),
            "--output-format xml: choose from json, commands, reassignment",
        ),
        ((str(FORMATS / "brokers.csv"),), "no topic has a known number of partitions and replication factor"),
        (("nowhere.csv",), "nowhere.csv: there is no such file or folder"),
        ((str(FORMATS / "topics.csv"), "--out", "/nowhere/out"), "--out /nowhere/out: cannot be written"),
    ],
)
def test_messages_of_wrong_usage(arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["assign", *arguments]) == 1
    assert says in capsys.readouterr().err


def test_an_existing_file_stays_until_the_output_is_complete(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("before")
    assert main(["assign", str(FORMATS / "topics.csv"), "--out", str(out)]) == 1
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_dash_prints_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topics.csv").write_text("topic,partitions,replication_factor\norders,2,1\n")
    (tmp_path / "brokers.csv").write_text("broker_id\n1\n2\n")
    assert main(["assign", "topics.csv", "--brokers", "brokers.csv", "--out", "-"]) == 0
    assert '"topic":"orders"' in capsys.readouterr().out
    assert not (tmp_path / "-").exists()
