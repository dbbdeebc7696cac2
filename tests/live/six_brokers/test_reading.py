"""A running cluster as a source: the same answers as from the output of Kafka's own tools."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.app import EXAMPLES
from tests.commands import call, call_run
from tests.docs.pages import ROOT, blocks, commands
from tests.live.kafka_cluster import KafkaCluster
from tests.live.kafka_tools import run_tool
from tests.live.six_brokers.conftest import PARTITIONS, TOPICS

pytestmark = [pytest.mark.slow, pytest.mark.live]


def _run(cluster: KafkaCluster, tool: str, *arguments: str) -> str:
    """Run a tool of Kafka, and return what it prints."""
    return run_tool(cluster.version, tool, *arguments, "--bootstrap-server", cluster.bootstrap)


@pytest.fixture(scope="module")
def described(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Kafka's own tools print of the cluster."""
    folder = tmp_path_factory.mktemp("described") / "prod"
    folder.mkdir()
    (folder / "topics.txt").write_text(_run(cluster, "kafka-topics", "--describe"))
    endpoints = _run(cluster, "kafka-cluster", "list-endpoints")
    (folder / "endpoints.txt").write_text(endpoints)
    (folder / "log-dirs.txt").write_text(_run(cluster, "kafka-log-dirs", "--describe"))
    configs = _run(cluster, "kafka-configs", "--describe", "--all", "--entity-type", "topics")
    (folder / "configs.txt").write_text(configs)
    return folder


def _answer(command: str, *arguments: str) -> dict[str, Any]:
    return json.loads(call(command, *arguments, "--json", "-").stdout)


@pytest.mark.parametrize("options", [(), ("--fail", "1"), ("--fail", "2,5"), ("--fail", "r1")])
def test_what_if_answers_as_from_describe(cluster: KafkaCluster, described: Path, options: tuple[str, ...]) -> None:
    live, saved = f"prod=kafka://{cluster.bootstrap}", f"prod={described}"
    answer = json.loads(json.dumps(_answer("what-if", live, *options)).replace(live, saved))
    expected = _answer("what-if", saved, *options)
    for one in (answer, expected):
        one.pop("quorum", None)
        one.pop("disks", None)  # kafka-topics shows none, and no voters
        del (one["summary"]["gaps"] if "summary" in one else one["left_out"])["unknown_quorum"]
        if "verdict" in one:  # nor the controller quorum, of one voter
            points = one["verdict"]["points"]
            one["verdict"]["points"] = [point for point in points if point["kind"] != "no_spare_voter"]
    assert answer == expected


def test_snapshot_is_a_source(cluster: KafkaCluster, tmp_path: Path) -> None:
    out = call("snapshot", f"prod=kafka://{cluster.bootstrap}", "--out", str(tmp_path / "saved"))
    assert f"what-if prod={tmp_path / 'saved'}" in out.stdout
    inspected = _answer("inspect", f"prod={tmp_path / 'saved'}")
    assert inspected["quarantined"] == []
    assert len(inspected["partitions"]) == PARTITIONS
    assert {topic["topic"] for topic in inspected["topics"]} == set(TOPICS)
    assert all(partition["size_bytes"] is not None for partition in inspected["partitions"])
    live = _answer("inspect", f"prod=kafka://{cluster.bootstrap}")
    names = {source["source"] for source in live.pop("sources")}
    requests = {f"Describe{what}" for what in ("Cluster", "Configs", "LogDirs", "Quorum", "Topics")}
    assert names == {f"answer to {request}" for request in requests | {"ApiVersions"}}
    assert {key: inspected[key] for key in live} == live


def test_commands_of_the_readme(cluster: KafkaCluster, tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().split("## A running cluster\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.S)
    lines = block.strip().splitlines()
    assert [line.split()[1] for line in lines] == ["what-if", "run", "plan", "apply", "apply"]
    out = [_call(cluster, line, tmp_path) for line in lines]
    assert "AT RISK" in out[0]
    assert (tmp_path / "prod.html").is_file()
    assert all("as planned" in text for text in out[3:])
    text = _call(
        cluster, "kafka-placement apply plan --bootstrap-server b1:9092 --verify --warehouse warehouse", tmp_path
    )
    assert "gold.plan_executions: " in text
    (tmp_path / "client.properties").touch()
    (tmp_path / "reassignment.json").write_text((tmp_path / "plan" / "reassignment.json").read_text())
    # Of the plan above, which is complete: there is neither a wave left nor an execution whose throttle can change.
    examples = [line for line in EXAMPLES["apply"] if "--waves" not in line and "--change-throttle" not in line]
    for line in (*EXAMPLES["snapshot"], *examples):
        _call(cluster, line.replace("dumps/prod", f"dumps/{len(line)}"), tmp_path)


def test_commands_of_the_page(cluster: KafkaCluster, tmp_path: Path) -> None:
    lines = [one for block in blocks(ROOT / "docs" / "live-clusters.md", "sh") for one in commands(block)]
    assert {line.words[1] for line in lines} == {"snapshot", "what-if"}
    for line in lines:
        _call(cluster, line.text, tmp_path)


def _call(cluster: KafkaCluster, line: str, folder: Path) -> str:
    """Run a command as it is printed, on this cluster."""
    servers = re.sub(r"\bb1:909[23](,b2:909[23])?", cluster.bootstrap, line)
    command, *arguments = shlex.split(servers, comments=True)[1:]
    if command == "run":
        return call_run(*arguments, folder=folder).stdout
    return call(command, *arguments, folder=folder).stdout
