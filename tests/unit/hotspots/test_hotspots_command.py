"""`hotspots`: the hottest broker now and by chance, for whole clusters and odd ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines import cli
from pipelines.cli import hotspots_output
from pipelines.errors import SettingsError
from pipelines.ingest.snapshot import load_snapshot
from pipelines.ingest.sources import find_source

CHANCES = hotspots_output.Chances(("kafka", "kraft", "naive"), 0, 50, 10**8, (1.1, 1.25))


def ask(place: Path, **more: Any) -> dict[str, Any]:
    chances = hotspots_output.Chances(**{**CHANCES.__dict__, **more})
    return hotspots_output.hotspots(load_snapshot(find_source(str(place))), chances)


def described(folder: Path, *partitions: str) -> Path:
    (folder / "describe.txt").write_text("\n".join(partitions) + "\n")
    return folder


def partition(topic: str, number: int, leader: int | str, replicas: str, isr: str) -> str:
    return f"Topic: {topic}\tPartition: {number}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {isr}"


def test_a_captured_cluster(samples: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    source = str(samples / "kafka-4.1.1-kraft")
    assert cli.main(["hotspots", source, "--seeds", "20", "--above", "1.05", "--json", str(answer)]) == 0
    said = capsys.readouterr().out
    for text in ("now: broker 0 leads 130 of 743 partitions", "kafka", "kraft", "naive", "chance of", "> 1.05"):
        assert text in said
    assert max(map(len, said.splitlines())) <= 120
    found = json.loads(answer.read_text())
    assert found["now"]["max_over_mean"] == 1.0498
    naive = found["schemes"]["naive"]
    # Every one of the single-partition topics and every surplus partition is on the first broker.
    assert (naive["seeds"], naive["leaders"]["max"]["p50"], naive["leaders"]["max_over_mean"]["p50"]) == (
        1,
        179,
        1.4455,
    )
    kafka = found["schemes"]["kafka"]
    assert kafka["seeds"] == 20
    assert [entry["above"] for entry in kafka["distribution"]] == [1.05, 1.1, 1.25, 1.5, 2.0]
    assert kafka["leaders"]["max"]["p5"] <= kafka["leaders"]["max"]["p50"] <= kafka["leaders"]["max"]["highest"]
    assert kafka["single_partition_topics"] == 35


def test_only_live_brokers_count(tmp_path: Path) -> None:
    lines = [partition("a", i, 1, "1,2", "1") for i in range(3)]  # broker 2 is in no ISR
    answer = ask(described(tmp_path, *lines, partition("b", 0, 1, "1", "1")))
    assert answer["live_brokers"] == 1
    for found in answer["schemes"].values():
        assert (found["unplaceable_topics"], found["partitions"]) == (1, 1)  # two replicas need two brokers
        assert found["leaders"]["max_over_mean"]["highest"] == 1.0
        assert found["distribution"] == [{"above": 1.1, "probability": 0.0}, {"above": 1.25, "probability": 0.0}]
    assert "  note: kafka cannot place 1 topics on these brokers: left out" in hotspots_output.lines(answer, 1.25)


def test_no_live_brokers(tmp_path: Path) -> None:
    answer = ask(described(tmp_path, partition("a", 0, "none", "1,2", "")))
    assert answer["live_brokers"] == 0
    assert answer["now"]["leaders_max"] is None
    assert {(found["seeds"], found["unplaceable_topics"]) for found in answer["schemes"].values()} == {(0, 1)}
    assert hotspots_output.lines(answer, 1.25)[1] == "  now: no live broker leads anything"


def test_only_schemes_that_place() -> None:
    assert hotspots_output.known_schemes("naive, kafka,naive") == ("naive", "kafka")
    for name in ("observed", "nonsense", ""):
        with pytest.raises(SettingsError, match="there are kafka"):
            hotspots_output.known_schemes(name)
