"""`plan` on the command line: files and a table for every goal; impossible requests are rejected without files."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import call
from tests.unit.planning import judge
from tests.unit.planning.plan_commands import CommandResult, assert_rejected, describe_line, write_describe, write_model

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("goal", "more"),
    [
        ("leaders", []),
        ("leaders", ["--per-topic"]),
        ("failover", []),
        ("failover", ["--keep-leaders"]),
        ("balance", ["--objective", "min-bytes"]),
        ("drain", ["--brokers", "3,7"]),
        ("expand", []),
        ("replace", ["--replace", "3=16,7=17"]),
        ("repair", []),
        ("rf", ["--rf", "3"]),
    ],
)
def test_every_goal(goal: str, more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out, answer = write_model(tmp_path), tmp_path / "plan", tmp_path / "answer.json"
    result = CommandResult(capsys, "plan", source, "--goal", goal, *more, "--out", out, "--json", answer)
    assert result.code == 0, result.err
    for text in ("max/mean", "leaders (preferred)", "worst survivor", "rack violations", "took:"):
        assert text in result.out
    for text in ("copysets", "P(loss if"):
        assert (text in result.out) is (goal != "repair"), "a repair is urgent"
    found, written = json.loads(answer.read_text()), json.loads((out / "plan.json").read_text())
    assert sorted(path.name for path in out.iterdir()) == sorted(found["files"])
    for name in ("cluster", "goal", "request", "certificate", "metrics"):
        assert found[name] == written[name], name
    judged = judge.judge(judge.model(3), json.loads((out / "reassignment.json").read_text()))
    metrics = found["metrics"]
    leaders = metrics["leader_changes"] + metrics["leader_replacements"]
    assert (judged["moves"], judged["leader_changes"]) == (metrics["moves"], leaders)
    assert (metrics["leader_replacements"] > 0) == (goal == "replace")
    assert judged["bad"] == 0
    if goal in ("leaders", "failover"):
        assert metrics["moves"] == 0
        assert "nothing is copied" in result.out
        assert "--throttle" not in result.out
    elif metrics["moves"]:
        assert "--throttle 50000000" in result.out
    assert CommandResult(capsys, "check", out, source).code == 0


def test_budget_is_kept_and_missed_targets_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write_model(tmp_path, removed=[3]), tmp_path / "plan"
    result = CommandResult(capsys, "plan", source, "--goal", "drain", "--max-moves", "5", "--out", out)
    assert result.code == 0
    assert "missed: " in result.out
    assert json.loads((out / "plan.json").read_text())["metrics"]["moves"] <= 5


def test_files_are_reproducible(tmp_path: Path) -> None:
    """A process with other hashes of texts makes the same files."""
    source, folders = write_model(tmp_path, removed=[3]), (tmp_path / "here", tmp_path / "there")
    commands = [["plan", str(source), "--goal", "drain", "--out", str(folder)] for folder in folders]
    call(*commands[0])
    probe = f"import sys; from pipelines.cli import main; sys.exit(main(sys.argv[1:]) or hash('a') == {hash('a')})"
    subprocess.run([sys.executable, "-c", probe, *commands[1]], cwd=ROOT, check=True, capture_output=True)
    texts = [{path.name: path.read_bytes() for path in sorted(folder.iterdir())} for folder in folders]
    assert texts[0] == texts[1]


def test_balanced_cluster_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_describe(tmp_path, describe_line(0, "1,2"), describe_line(1, "2,3"), describe_line(2, "3,1"))
    out = tmp_path / "plan"
    result = CommandResult(capsys, "plan", source, "--goal", "leaders", "--out", out)
    assert result.code == 0
    assert "no reassignment is needed" in result.out
    assert "kafka-reassign-partitions" not in result.out
    assert json.loads((out / "plan.json").read_text())["changes"] == []
    assert CommandResult(capsys, "check", out, source).out.startswith("done")


def test_election_without_reassignment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [describe_line(0, "1,2").replace("Leader: 1", "Leader: 2"), describe_line(1, "2,1")]
    result = CommandResult(
        capsys, "plan", write_describe(tmp_path, *lines), "--goal", "leaders", "--out", tmp_path / "plan"
    )
    assert "no reassignment is needed" in result.out
    assert "kafka-leader-election" in result.out
    assert "1 partition is not led by its preferred leader now" in result.out


def test_infeasible_request_exits_with_3_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out, answer = write_model(tmp_path), tmp_path / "plan", tmp_path / "answer.json"
    result = CommandResult(capsys, "plan", source, "--goal", "rf", "--rf", "19", "--out", out, "--json", answer)
    assert result.code == 3
    assert "only 18 can hold one" in result.err
    assert not out.exists()
    assert not answer.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_drain_of_the_only_broker_of_a_rack_names_remedies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "brokers.csv").write_text("broker_id,rack\n1,a\n2,a\n3,b\n4,b\n9,c\n")
    write_describe(tmp_path, *(describe_line(n, ids) for n, ids in enumerate(("1,3,9", "2,4,9", "9,1,4"))))
    result = CommandResult(capsys, "plan", tmp_path, "--goal", "drain", "--brokers", "9", "--out", tmp_path / "plan")
    assert result.code == 3
    commands = [line[line.index(": kafka-placement ") + 2 :] for line in result.err.splitlines()[-2:]]
    assert [shlex.split(command)[-2:] for command in commands] == [
        ["--add-brokers", "10:c"],
        [str(tmp_path / "plan"), "--allow-empty-racks"],
    ]
    for command in commands:
        assert CommandResult(capsys, *shlex.split(command)[1:]).code == 0


def test_rack_violations_beside_a_drain_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broker 1 has a replica of partition 0 only; partition 1 has two replicas in rack b."""
    (tmp_path / "brokers.csv").write_text("broker_id,rack\n1,a\n2,a\n3,b\n4,b\n5,c\n")
    write_describe(tmp_path, *(describe_line(n, ids) for n, ids in enumerate(("1,3,5", "2,3,4"))))
    arguments = ["plan", tmp_path, "--goal", "drain", "--brokers", "1", "--objective", "min-moves", "--out"]
    lines = CommandResult(capsys, *arguments, tmp_path / "plan").out.splitlines()
    begin = "  rack violations: at least 1 replica is copied only to repair them, not to drain; without that:"
    command = lines[lines.index(begin) + 1]
    again = CommandResult(capsys, *shlex.split(command)[1:])
    assert again.code == 0, again.err
    assert "only to repair them" not in again.out
    assert "  copied: 1 replica," in again.out
    assert Path(f"{tmp_path / 'plan'}-without-racks", "plan.json").exists()


def test_partitions_in_flight_are_frozen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moving = describe_line(1, "1,2,3", "\tAdding Replicas: 3\tRemoving Replicas: 2")
    source = write_describe(tmp_path, describe_line(0, "1,2"), moving, describe_line(2, "1,3"), describe_line(3, "1,3"))
    result = CommandResult(capsys, "plan", source, "--goal", "leaders", "--out", tmp_path / "plan")
    assert result.code == 0
    assert "1 partition stays as it is because of an ongoing reassignment" in result.err
    wanted = json.loads((tmp_path / "plan" / "reassignment.json").read_text())["partitions"]
    assert 1 not in [entry["partition"] for entry in wanted]
    assert CommandResult(capsys, "check", tmp_path / "plan", source).code == 1


@pytest.mark.parametrize("option", [["--ignore-topics", "t*"], ["--set", "topics.ignored=t*"]])
def test_ignored_topics_are_frozen(option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = describe_line(0, "1,2").replace("Topic: t", "Topic: other")
    source, out = write_describe(tmp_path, describe_line(0, "1,2"), describe_line(1, "1,2"), other), tmp_path / "plan"
    drain = CommandResult(capsys, "plan", source, "--goal", "drain", "--brokers", "2", "--add-brokers", "3,4", *option)
    assert "t-0 and 1 other must stay, because of an ignored topic" in drain.err
    raised = CommandResult(capsys, "plan", source, "--goal", "rf", "--rf", "1", *option, "--json", "-", "--out", out)
    assert "2 partitions stay as they are because of an ignored topic" in raised.err
    answer = json.loads(raised.out)
    assert answer["frozen_partitions"] == {"an ignored topic": 2}
    assert [entry["topic"] for entry in json.loads((out / "reassignment.json").read_text())["partitions"]] == ["other"]
    write_describe(tmp_path, describe_line(0, "1,3"), describe_line(1, "1,2"), other)
    assert "changed partitions: t-0" in CommandResult(capsys, "check", out, source).out
    checked = CommandResult(capsys, "check", out, source, *option)
    assert (checked.code, "changed partitions" in checked.out) == (0, False)


def test_pattern_of_ignored_topics_without_a_match(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_describe(tmp_path, describe_line(0, "1,2"), describe_line(1, "1,2"))
    for arguments in (["--goal", "leaders"], ["--goal", "repair"]):
        result = CommandResult(capsys, "plan", source, *arguments, "--ignore-topics", "nix-*")
        assert "--ignore-topics nix-*: no topic has such a name" in result.err


def test_next_step_of_what_if_adds_replicas_to_all_topics_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    single = [describe_line(0, f"{i % 3 + 1}").replace("Topic: t", f"Topic: single-{i}") for i in range(5)]
    source, out = write_describe(tmp_path, *single, describe_line(0, "1,2,3")), tmp_path / "plan"
    lines = CommandResult(capsys, "what-if", source).out.splitlines()
    (command,) = [lines[row + 1] for row, line in enumerate(lines) if line.endswith("the only copy):")]
    arguments = [str(out) if part.startswith("plan-") else part for part in shlex.split(command)[2:]]
    assert CommandResult(capsys, "plan", *arguments).code == 0
    changes = json.loads((out / "reassignment.json").read_text())["partitions"]
    assert {entry["topic"]: len(entry["replicas"]) for entry in changes} == {f"single-{i}": 3 for i in range(5)}


def test_outdated_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write_describe(tmp_path, describe_line(0, "1,2"), describe_line(1, "1,2")), tmp_path / "plan"
    assert CommandResult(capsys, "plan", source, "--goal", "leaders", "--out", out).code == 0
    write_describe(tmp_path, describe_line(0, "1,3"), describe_line(1, "1,3"))
    answer = tmp_path / "answer.json"
    result = CommandResult(capsys, "check", out, source, "--json", answer)
    assert result.code == 1
    assert result.out.startswith("changed")
    assert json.loads(answer.read_text())["progress"][0]["status"] == "changed"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--goal", "drain"], "there is no broker to drain"),
        (["--goal", "drain", "--brokers", "99"], "there is no broker 99"),
        (["--goal", "expand"], "there is no empty live broker"),
        (["--goal", "replace", "--replace", "98=99"], "there is no broker 98, 99"),
        (["--goal", "rf", "--rf", "2", "--topics", "nix"], "there is no topic nix"),
        (["--goal", "leaders", "--exclude-topics", "nix"], "has no topic nix"),
        (["--goal", "repair", "--exclude-brokers", "99"], "there is no broker 99"),
        (
            ["--goal", "balance", "--max-bytes", "1GB"],
            "show no sizes, so --max-bytes cannot be applied. Use --max-moves",
        ),
        (["--goal", "leaders", "--by-bytes"], "show no bytes out, which --by-bytes balances. Leave out"),
    ],
)
def test_senseless_request_is_explained(
    arguments: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_rejected(capsys, tmp_path, arguments, 1, text)


def test_plan_of_another_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = write_describe(tmp_path, describe_line(0, "1,2"), describe_line(1, "1,2")), tmp_path / "plan"
    assert CommandResult(capsys, "plan", source, "--goal", "leaders", "--out", out).code == 0
    later = source.rename(tmp_path / "later.txt")
    result = CommandResult(capsys, "check", out, later)
    assert (result.code, "use describe=PATH" in result.err) == (1, True)
    assert CommandResult(capsys, "check", out, f"describe={later}").code == 0


def test_source_without_replicas_and_foreign_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "brokers.csv").write_text("broker,rack\n1,a\n2,b\n")
    result = CommandResult(capsys, "plan", tmp_path / "brokers.csv", "--goal", "leaders", "--out", tmp_path / "plan")
    assert (result.code, "show no replicas" in result.err) == (1, True)
    source = write_describe(tmp_path, describe_line(0, "1,2"))
    result = CommandResult(capsys, "plan", source, "--goal", "leaders", "--out", tmp_path)
    assert (result.code, "which is not a file of a plan" in result.err) == (1, True)


def test_printed_commands_name_live_brokers_of_the_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_model(tmp_path, removed=[3]).rename(tmp_path / "prod.json").parent
    hosts = {2: "", 3: "b3", 4: "b4;reboot", 5: "b5", 6: "-b6", 7: "b7", 8: "b8"}
    rows = [{"brokerId": id_, "host": host, "port": 9094} for id_, host in hosts.items()]
    (tmp_path / "brokers.json").write_text(json.dumps(rows))
    arguments = ("plan", source, "--goal", "balance", "--objective", "min-bytes", "--max-moves", "5")
    result = CommandResult(capsys, *arguments, "--out", tmp_path.parent / "plan")
    assert "--bootstrap-server b3:9094 --reassign" in result.out
    named = CommandResult(capsys, *arguments, "--out", tmp_path.parent / "plan", "--bootstrap-server", "other:1")
    assert "--bootstrap-server other:1 --reassign" in named.out


@pytest.mark.parametrize(
    ("options", "repaired"),
    [
        ((), {0, 1, 2, 3}),
        (("--at-min-isr-partitions",), {1, 2}),
        (("--under-min-isr-partitions",), {3}),
        (("--at-min-isr-partitions", "--under-min-isr-partitions"), {1, 2, 3}),
        (("--at-min-isr-partitions", "--brokers", "4"), {2}),
        (("--brokers", "4"), {2}),
    ],
)
def test_a_repair_of_partitions_that_are_short_of_in_sync_replicas(
    options: tuple[str, ...], repaired: set[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broker 9 is down. min.insync.replicas is 2; partitions 0 to 3 have 3, 2, 2 and 1 in-sync replicas."""
    isrs = {"1,2,3,9": "1,2,3", "1,2,9": "1,2", "2,4,9": "2,4", "3,9": "3", "1,2": "1,2"}
    header = "Topic: t\tPartitionCount: 5\tReplicationFactor: 3\tConfigs: min.insync.replicas=2"
    lines = [describe_line(n, ids).replace(f"Isr: {ids}", f"Isr: {isr}") for n, (ids, isr) in enumerate(isrs.items())]
    (tmp_path / "brokers.csv").write_text("broker_id,live\n1,yes\n2,yes\n3,yes\n4,yes\n5,yes\n9,no\n")
    write_describe(tmp_path, header, *lines)
    result = CommandResult(capsys, "plan", tmp_path, "--goal", "repair", *options, "--out", "-")
    assert result.code == 0, result.err
    changed = {entry["partition"] for entry in json.loads(result.out)["partitions"]}
    assert changed - {4} == repaired


def test_a_repair_names_the_command_for_partitions_below_min_isr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broker 9 is down; only partition 1 has fewer in-sync replicas than min.insync.replicas."""
    header = "Topic: t\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: min.insync.replicas=2"
    lists = {"1,2,9": "1,2", "3,9,2": "3"}
    lines = [describe_line(n, ids).replace(f"Isr: {ids}", f"Isr: {isr}") for n, (ids, isr) in enumerate(lists.items())]
    (tmp_path / "brokers.csv").write_text("broker_id,live\n1,yes\n2,yes\n3,yes\n4,yes\n9,no\n")
    write_describe(tmp_path, header, *lines)
    out = tmp_path / "plan"
    text = CommandResult(capsys, "plan", tmp_path, "--goal", "repair", "--out", out).out.splitlines()
    at = text.index("  first: 1 partition below min.insync.replicas (t-1) is repaired by:")  # of unknown size
    command = shlex.split(text[at + 1])[1:]
    assert command[-3:] == ["--out", f"{out}-first", "--under-min-isr-partitions"]
    result = CommandResult(capsys, *command)
    assert result.code == 0
    assert "  first: " not in result.out
    planned = json.loads(Path(f"{out}-first", "reassignment.json").read_text())["partitions"]
    assert [entry["partition"] for entry in planned] == [1]


def test_a_throttle_replaces_that_of_the_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--goal", "balance", "--objective", "min-bytes", "--out", tmp_path / "plan", "--json", tmp_path / "a")

    def read_seconds(*more: str) -> tuple[str, float]:
        result = CommandResult(capsys, "plan", write_model(tmp_path), *options, *more)
        assert result.code == 0, result.err
        return result.out, sum(wave["seconds"] for wave in json.loads((tmp_path / "a").read_text())["waves"])

    _, seconds = read_seconds()
    out, faster = read_seconds("--throttle", "200MB")
    assert faster == pytest.approx(seconds / 4, rel=0.05)
    assert "of copying at 200 MB/s per broker" in out
    assert "--execute --throttle 200000000\n" in out
    assert "leader.replication.throttled.rate=200000000" in (tmp_path / "plan" / "throttles.sh").read_text()


def test_a_check_warns_of_patterns_that_match_no_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_describe(tmp_path, describe_line(0, "1,2"), describe_line(1, "2,1"))
    out = tmp_path / "plan"
    assert CommandResult(capsys, "plan", source, "--goal", "leaders", "--out", out).code == 0
    patterns = ("--ignore-topics", "nix-*", "--ignore-topics", "t")
    warnings = CommandResult(capsys, "check", out, source, *patterns).err
    assert warnings.count("no topic has such a name") == 1
    assert "--ignore-topics nix-*: no topic has such a name" in warnings
