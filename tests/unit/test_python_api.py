"""The Python API answers as the commands do, on healthy and sick clusters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_placement import read
from pipelines.errors import SettingsError, SourceError
from tests.commands import call
from udfs.json_answers import to_json

SICK = "".join(
    f"\tTopic: t\tPartition: {p}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {isr}\n"
    for p, (leader, replicas, isr) in enumerate(
        [("none", "3,1", "3"), (1, "1,2", "1,2"), (2, "2,1", "2,1"), (2, "2,3", "2"), (1, "1,3", "1"), (1, "1", "1")]
    )
)


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Broker 3 is down, and has the only copy in sync of t-0."""
    folder = tmp_path / "prod"
    folder.mkdir()
    head = "Topic: t\tPartitionCount: 6\tReplicationFactor: 2\tConfigs: min.insync.replicas=1\n"
    (folder / "topics.txt").write_text(head + SICK)
    return str(folder)


def write_json(file: Path, *arguments: str, code: int = 0) -> dict[str, object]:
    call(*arguments, "--json", str(file), code=code)
    answer: dict[str, object] = json.loads(file.read_text())
    return answer


def test_the_verdict_and_failures(source: str, tmp_path: Path) -> None:
    cluster = read(source)
    expected = write_json(tmp_path / "a.json", "what-if", source)
    own = json.loads(json.dumps(to_json(cluster.judge())))
    # The commands of next steps name the source, and --json has what the command compares beside.
    ignored = {"verdict", "wait_or_move", "json_version"}
    assert {k: v for k, v in own.items() if k not in ignored} == {k: v for k, v in expected.items() if k not in ignored}
    assert own["verdict"]["sentence"] == expected["verdict"]["sentence"]  # type: ignore[index]
    failure = json.loads(json.dumps(to_json(cluster.what_if([1]))))
    assert failure["partitions"] == write_json(tmp_path / "b.json", "what-if", source, "--fail", "1")["partitions"]
    with pytest.raises(SourceError, match="has no broker 9"):
        cluster.what_if([9])


def test_plans_and_their_judge(source: str, tmp_path: Path) -> None:
    cluster, folder = read(source, settings=["run.seed=3"]), tmp_path / "plan"
    created = cluster.plan("leaders", folder)
    call("plan", source, "--goal", "leaders", "--set", "run.seed=3", "--out", str(tmp_path / "other"))
    waves = sorted(file.name for file in folder.glob("*.json"))
    assert waves == sorted(file.name for file in (tmp_path / "other").glob("*.json"))
    for name in waves:
        assert (folder / name).read_text() == (tmp_path / "other" / name).read_text()
    checked = cluster.check(folder)
    answer = write_json(
        tmp_path / "c.json", "check", str(folder), source, "--set", "run.seed=3", code=int(not checked.may_execute)
    )
    assert checked.judgement is not None
    assert (checked.judgement.level, created.facts.judgement.level) == (answer["level"], answer["level"])
    file = tmp_path / "by-hand.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 1, "replicas": [3]}]}))
    by_hand = cluster.check(file)
    assert by_hand.judgement is not None
    assert by_hand.judgement.level.is_harmful
    assert not by_hand.may_execute
    assert cluster.plan("repair").files  # without a folder


def test_wrong_input(tmp_path: Path, source: str) -> None:
    with pytest.raises(SourceError, match="there is no such file"):
        read(str(tmp_path / "nothing"))
    with pytest.raises(SettingsError, match=r"run\.sed"):
        read(source, settings=["run.sed=1"])
    with pytest.raises(SourceError, match="is not the address"):
        read("kafka://b1")
    with pytest.raises(TypeError, match="colour"):
        read(source).plan("balance", colour="red")
