"""`what-if --topics` and `--owner-map`: whom to warn."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import call
from tests.unit.failures.test_wait_or_move import write_cluster
from tests.unit.sixty_brokers import write_sources

COUNTS = ("offline_partitions", "under_min_isr_partitions", "single_isr_partitions", "leaders_moved")
OWNERS = "topic,team\n# payments first\nb,payments\na*, orders team\nb*,search\n"


def ask(folder: Path, *options: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(call("what-if", "prod", *options, "--json", "-", folder=folder).stdout)
    return answer


def count(answer: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {row["topic"]: tuple(row[name] for name in COUNTS) for row in answer["topics"]}


def test_topics_by_hand(tmp_path: Path) -> None:
    write_cluster(tmp_path / "prod", None)
    assert ask(tmp_path)["topics"] == []
    assert "No topic is affected" in call("what-if", "prod", "--topics", folder=tmp_path).stdout
    after = ask(tmp_path, "--fail", "4")
    # a-0 and a-1 keep two replicas; b-0 needs all of its three, and broker 4 leads it; c-0 has no other replica.
    assert count(after) == {"c": (1, 0, 0, 0), "b": (0, 1, 0, 1)}
    assert count(ask(tmp_path, "--fail", "2,4")) == {"c": (1, 0, 0, 0), "a": (0, 2, 2, 1), "b": (0, 1, 1, 1)}
    write_cluster(tmp_path / "prod", 4)
    assert count(ask(tmp_path)) == {"c": (1, 0, 0, 0), "b": (0, 1, 0, 0)}


def test_topics_add_up_to_the_answer(tmp_path: Path) -> None:
    write_sources(tmp_path / "prod", down=(2, 17), sizes=False)
    for failed in ("5", "r1", "7,42"):
        answer = ask(tmp_path, "--fail", failed)
        sums = [sum(row[name] for row in answer["topics"]) for name in (*COUNTS, "single_replica_partitions")]
        summary = answer["summary"]
        assert sums[:2] == [summary["offline_after"], summary["under_min_isr_after"]]
        single = summary["single_isr_partitions"] - summary["single_replica_partitions"]
        assert sums[2] - sums[4] == single, "topics with one replica are affected only if these go offline or move"
        assert sums[3] == summary["leaders_moved"]
    now = ask(tmp_path)
    for name in ("offline_partitions", "under_min_isr_partitions"):
        assert sum(row[name] for row in now["topics"]) == now["exposure"][name]


def test_owners_are_grouped_and_topics_without_one_named(tmp_path: Path) -> None:
    write_cluster(tmp_path / "prod", None)
    (tmp_path / "owners.csv").write_text(OWNERS)
    options = ("--fail", "2,4", "--owner-map", "owners.csv")
    teams = {row["topic"]: row["team"] for row in ask(tmp_path, *options)["topics"]}
    assert teams == {"a": "orders team", "b": "payments", "c": None}, "the first pattern that matches wins"
    lines = call("what-if", "prod", *options, folder=tmp_path).stdout.splitlines()
    assert lines[0].startswith("NO: 1 partition would go offline: c-0")
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "3 topics are affected; their partitions:",
        "team topics partitions offline blocked one in sync leader moves",
        "orders team 1 2 2 2 1",
        "payments 1 1 1 1 1",
        "no team 1 1 1",
        "no pattern of --owner-map matches c",
    ]
    every = call("what-if", "prod", *options, "--all", folder=tmp_path).stdout
    assert "\n  orders team  a  " in every
    assert "\n  no team      c  " in every


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is empty. Write topic,team"),
        ("a,b\n", "line 1: 'a,b' is not the header. Write topic,team"),
        ("topic,team\n\nonly\n", "line 3: 'only' names no team for a pattern. Write a pattern and a team"),
        ("topic,team\na,\n", "line 2: 'a,' names no team for a pattern"),
        ("topic,team\na,b,c\n", "line 2: 'a,b,c' names no team for a pattern"),
        ("topic,team\n\u00fc*,b\n", "can match no topic"),
    ],
)
def test_wrong_owner_maps(text: str, problem: str, tmp_path: Path) -> None:
    write_cluster(tmp_path / "prod", None)
    (tmp_path / "owners.csv").write_text(text)
    error = call("what-if", "prod", "--owner-map", "owners.csv", code=1, folder=tmp_path).stderr
    assert "--owner-map owners.csv" in error
    assert problem in error.replace('"', "'")


def test_topics_of_sixty_brokers_fit_on_a_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    write_sources(tmp_path / "prod", down=(2, 17), sizes=False)
    (tmp_path / "owners.csv").write_text("topic,team\norders.*,orders\n")
    for options in (("--topics",), ("--owner-map", "owners.csv")):
        lines = call("what-if", "prod", "--fail", "r1", *options, folder=tmp_path).stdout.splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 80
