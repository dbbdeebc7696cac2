"""The commands of next steps run as they are printed, except for Kafka's, which need brokers."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.cli.run_summary import format_in_summary
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.statements import STATEMENTS
from pipelines.verdict.verdict_points import Level, NextPlan, VerdictPoint
from tests.commands import call
from tests.unit.failures.test_limit_findings import write_disks

SAMPLES = Path(__file__).parents[2] / "data_samples"
TOPIC = "orders.v2-113"  # of the sample kafka-4.1.1-kraft


# Plans with options, by goal.
PLANS = {"rf": NextPlan("rf", factor=3, topics=(TOPIC,)), "expand": NextPlan("expand", new_brokers=("6:r0", "7:r0"))}


def fill_steps() -> Iterator[str]:
    """Fill in the next steps of all statements, with their repairs."""
    for statement in STATEMENTS.values():
        steps = ((statement.step, statement.goal), *((repair.text, repair.goal) for repair in statement.repairs))
        for step, goal in steps:
            values = {
                "restart": "",
                "only_copy": "",
                "only": "1 partition",
                "move": "",
                "repair_first": "",
                "election": "",
                "repair": "",
                "factor": 3,
                "plan": PLANS.get(goal, NextPlan(goal)).command,
                "first": TOPIC,
                "racks": "rack r0 has 1 of 6 live brokers",
                "others": "",
                "brokers": "broker 2",
                "cancelled": "{}",
            }
            yield re.sub(r"\[([^\[\]|]*)\|([^\[\]|]*)\]", r"\1", step).format(**values)


COMMANDS = sorted(
    {part[part.index("kafka-") :] for step in fill_steps() for part in step.split("; ") if "kafka-" in part}
)


def write_empty_broker(folder: Path) -> Path:
    """Write a cluster of which broker 3 has no replicas."""
    folder.mkdir()
    brokers = [{"id": broker, "host": f"b{broker}", "port": 9092, "rack": None} for broker in (1, 2, 3)]
    (folder / "brokers.json").write_text(json.dumps(brokers))
    lines = [f"\tTopic: t\tPartition: {n}\tLeader: 1\tReplicas: 1,2\tIsr: 1,2" for n in range(6)]
    (folder / "topics.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs_as_printed(tmp_path: Path, command: str) -> None:
    folder = SAMPLES / "kafka-4.1.1-kraft"
    if "--goal expand --out" in command:  # it needs an empty broker
        folder = write_empty_broker(tmp_path / "cluster")
    elif "--goal log-dirs" in command or "--goal relieve" in command:  # it needs their bytes
        folder = tmp_path / "cluster"
        folder.mkdir()
        write_disks(folder, brokers=4, factor=3, size=300, dirs=2)
    source = shlex.quote(str(folder))
    step = VerdictPoint(Level.OK, "", command).name_source(source, "kafka 4.1").step
    program, *arguments = shlex.split(step)
    if program == "kafka-placement":
        call(*arguments, folder=tmp_path)
    elif program != "kafka-storage":  # which runs on the broker
        assert "--bootstrap-server localhost:9092" in step


def test_what_if_names_the_source_in_text_and_json(tmp_path: Path) -> None:
    folder = tmp_path / "my SOURCE"
    folder.mkdir()
    shutil.copy(SAMPLES / "kafka-4.1.1-kraft" / "topics-describe.txt", folder / "prod.txt")
    printed = call("what-if", "prod=my SOURCE/prod.txt", "--json", "answer.json", folder=tmp_path).stdout
    answer = json.loads((tmp_path / "answer.json").read_text())
    steps = [point["step"] for point in answer["verdict"]["points"] if "kafka-placement" in point["step"]]
    assert steps
    for step in steps:
        assert step.partition(": ")[2].partition("; ")[0] in printed
        assert "kafka-placement plan 'prod=my SOURCE/prod.txt' --goal " in step


def test_a_topic_is_never_taken_for_the_source() -> None:
    point = VerdictPoint(Level.OK, "", "add replicas: kafka-placement plan SOURCE --goal rf --topics SOURCE,a")
    assert (
        point.name_source(r"a\1", "prod").step == r"add replicas: kafka-placement plan a\1 --goal rf --topics SOURCE,a"
    )


def test_plans_of_clusters_and_goals_have_their_own_folders() -> None:
    folders = set()
    for cluster in ("eu/1 a", "us.2"):
        for goal in ("repair", "leaders"):
            point = VerdictPoint(
                Level.OK, "", f"plan: kafka-placement plan SOURCE --goal {goal} --out plan-CLUSTER-{goal}"
            )
            folders.add(point.name_source("CLUSTER", cluster).step.split(" --out ")[1])
    assert folders == {"plan-eu-1-a-repair", "plan-eu-1-a-leaders", "plan-us.2-repair", "plan-us.2-leaders"}


def test_the_summary_names_the_worst_three_findings_of_a_cluster_at_risk() -> None:
    points = [
        VerdictPoint(
            Level.AT_RISK, "First.", "repair: kafka-placement plan SOURCE --goal repair --out plan-CLUSTER-repair"
        )
    ]
    points += [VerdictPoint(Level.WARNING, f"{n}.", f"do {n}") for n in ("Second", "Third", "Fourth", "Fifth")]
    lines = [
        "prod: AT RISK: first.",
        "    next: repair: kafka-placement plan dumps/prod --goal repair --out plan-prod-repair",
        "  - Second.",
        "    next: do Second",
        "  - Third.",
        "    next: do Third",
    ]
    for count, more in ((3, []), (4, ["  1 more finding"]), (5, ["  2 more findings"])):
        verdict = Verdict(Level.AT_RISK, "First.", tuple(points[:count]))
        expected = [*lines, *(f"{text}: kafka-placement what-if dumps/prod" for text in more)]
        assert list(format_in_summary("prod", verdict, "dumps/prod")) == expected
    warning = Verdict(Level.WARNING, "Second.", tuple(points[1:]))
    assert list(format_in_summary("prod", warning, "dumps/prod")) == ["prod: WARNING: second."]
