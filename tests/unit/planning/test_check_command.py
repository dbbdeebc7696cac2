"""`check`: plans of this program and of others, judged before they run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.check_rendering import render_running
from pipelines.ingest.formats.live_requests import NO_REASSIGNMENTS, print_requests
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import Source
from pipelines.plan_files.planned_cluster import find_running_reassignments
from tests.commands import call
from tests.unit.ingest.test_kafka_versions import write_api_versions
from tests.unit.planning.plan_commands import CommandResult
from tests.unit.planning.test_sick_plans import describe
from udfs.failures.topic_defaults import KAFKA_DEFAULTS
from udfs.planning.plan_states import PlanFault

LINES = [
    *describe("orders", 3, "1,2,3 1,2,3", "2,3,4 2,3,4", "3,4,1 3,4", min_isr=2),
    *describe("keys", 2, "1,2 2", "5,6 5"),
    *describe("moving", 2, "4,1,2 1,2 4 2"),
    *describe("lone", 1, "1 1", min_isr=2),
    *describe("dead", 1, "5 5"),
]
LEVELS = ["SAFE", "RISKY", "HARMFUL", "REJECTED BY KAFKA"]
RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 6: "b"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Brokers 1 to 4 and 6 are live, 5 is down, and 9 does not exist."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "topics.txt").write_text("\n".join(LINES).replace("Leader: 5", "Leader: none") + "\n")
    rows = [f"{broker}  h{broker}  9092  {rack}  unfenced  broker" for broker, rack in RACKS.items()]
    rows.append("5  h5  9092  c  fenced  broker")
    (folder / "brokers.txt").write_text("\n".join(["ID  HOST  PORT  RACK  STATE  ENDPOINT_TYPE", *rows]) + "\n")
    return folder


def write(folder: Path, *lists: tuple[str, int, Sequence[int]], name: str = "plan.json", **more: Any) -> Path:
    entries = [{"topic": topic, "partition": i, "replicas": list(ids), **more} for topic, i, ids in lists]
    path = folder / name
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return path


def cordon(source: Path, broker: int) -> None:
    """Add the configs of a broker whose log dirs are all cordoned."""
    configs = f"Dynamic configs for broker {broker} are:\n  cordoned.log.dirs=* sensitive=false synonyms={{}}\n"
    (source / "configs.txt").write_text(configs)


def judge(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[str, dict[str, dict[str, Any]]]:
    """Return the level of a plan, and its findings by fault."""
    result = CommandResult(capsys, "check", *arguments, "--set", "topics.kafka_version=4.2", "--json", "-")
    answer = json.loads(result.out)
    levels = [LEVELS.index(finding["level"]) for finding in answer["findings"]]
    assert levels == sorted(levels, reverse=True)
    assert answer["level"] == LEVELS[max(levels, default=0)]
    assert result.code == (1 if answer["level"] in ("HARMFUL", "REJECTED BY KAFKA") else 0)
    return answer["level"], {finding["fault"]: finding for finding in answer["findings"]}


@pytest.mark.parametrize(
    ("lists", "fault", "brokers"),
    [
        ([("orders", 7, [1, 2, 3])], PlanFault.UNKNOWN_PARTITION, []),
        ([("other", 0, [1])], PlanFault.UNKNOWN_PARTITION, []),
        ([("orders", 0, [1, 2, 3]), ("orders", 0, [2, 1, 3])], PlanFault.REPEATED_PARTITION, []),
        ([("orders", 0, [])], PlanFault.EMPTY_LIST, []),
        ([("orders", 0, [1, 2, 2])], PlanFault.REPEATED_REPLICA, [2]),
        ([("orders", 0, [1, 2, 9])], PlanFault.UNKNOWN_BROKER, [9]),
        ([("orders", 0, [1, 2, -1])], PlanFault.UNKNOWN_BROKER, [-1]),
        ([("orders", 0, [1, 2, 5])], PlanFault.DOWN_BROKER, [5]),
        ([("moving", 0, [1, 2])], PlanFault.UNDER_WAY, []),
        ([("orders", 2, [3, 1])], PlanFault.WAITS_FOR_LAGGING, [1]),
        ([("orders", 1, [2])], PlanFault.SINGLE_REPLICA, [2]),
        ([("keys", 0, [1])], PlanFault.LAST_COPY, [2]),
        ([("keys", 1, [6])], PlanFault.LAST_COPY, [5]),
        ([("dead", 0, [1])], PlanFault.NO_SOURCE, []),
        ([("orders", 0, [1, 2])], PlanFault.REPLICATION_FACTOR, []),
        ([("orders", 0, [1, 2, 3, 4])], PlanFault.REPLICATION_FACTOR, []),
        ([("orders", 0, [1, 2, 4])], PlanFault.FEWER_RACKS, []),
        ([("keys", 0, [2, 6])], PlanFault.LAGGING_RACK, []),
        ([("orders", 2, [3, 2, 1])], PlanFault.WAITS_FOR_LAGGING, [1]),
        ([("lone", 0, [2])], PlanFault.BLOCKED_WHILE_COPYING, []),
    ],
)
def test_every_fault_is_named(
    lists: list[tuple[str, int, list[int]]],
    fault: PlanFault,
    brokers: list[int],
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    level, findings = judge(capsys, write(tmp_path, *lists), source)
    assert LEVELS.index(level) >= LEVELS.index(fault.level)
    assert findings[fault]["brokers"] == brokers
    topic, partition, _ = lists[0]
    assert findings[fault]["first_partitions"] == [f"{topic}-{partition}"]
    assert f"{topic}-{partition}" in findings[fault]["text"]


@pytest.mark.parametrize(
    ("version", "lists", "level"),
    [
        ("4.4", [("orders", 0, [2, 1, 3])], "REJECTED BY KAFKA"),  # it only changes the order
        ("4.4", [("orders", 1, [2, 3, 1])], "REJECTED BY KAFKA"),
        ("4.4", [("orders", 0, [2, 3, 4])], "SAFE"),  # it leaves the cordoned broker
        ("4.3", [("orders", 0, [2, 1, 3])], "SAFE"),
        ("4.3", [("orders", 1, [2, 3, 1])], "SAFE"),
    ],
)
def test_lists_with_a_cordoned_broker_are_rejected_since_4_4(
    version: str,
    lists: list[tuple[str, int, list[int]]],
    level: str,
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cordon(source, 1)
    file = write(tmp_path, *lists)
    result = CommandResult(capsys, "check", file, source, "--set", f"topics.kafka_version={version}", "--json", "-")
    answer = json.loads(result.out)
    assert (answer["level"], result.code) == (level, int(level != "SAFE"))
    rejected = [PlanFault.CORDONED_BROKER] * (level != "SAFE")
    assert [(one["fault"], one["brokers"]) for one in answer["findings"]] == [(fault, [1]) for fault in rejected]


@pytest.mark.parametrize("version", ["4.3", "4.4"])
@pytest.mark.parametrize(
    ("cordoned", "options", "code"),
    [
        (6, ("--goal", "balance"), 0),
        (6, ("--goal", "rf", "--rf", "5", "--topics", "orders"), 3),  # there are five live brokers
        (1, ("--goal", "drain", "--brokers", "1", "--topics", "orders"), 0),
        (6, ("--goal", "expand", "--brokers", "6"), 1),
        (4, ("--goal", "leaders"), 0),
    ],
)
def test_plans_copy_nothing_to_a_cordoned_broker(
    version: str,
    cordoned: int,
    options: tuple[str, ...],
    code: int,
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cordon(source, cordoned)
    out, version_is = tmp_path / "plan", ("--set", f"topics.kafka_version={version}")
    result = CommandResult(capsys, "plan", source, *options, *version_is, "--out", out)
    assert result.code == code, result.out + result.err
    if code:
        assert f"uncordon broker {cordoned}" in result.err or "down, draining or cordoned" in result.err
        return
    assert f"no new replicas: broker {cordoned}, all log dirs are cordoned" in result.out
    before = {("orders", i): ids for i, ids in enumerate(([1, 2, 3], [2, 3, 4], [3, 4, 1]))}
    for one in json.loads((out / "reassignment.json").read_text())["partitions"]:
        assert cordoned not in one["replicas"] or cordoned in before[one["topic"], one["partition"]]
    rejected = "cordoned_broker" in judge_version(capsys, version, out / "reassignment.json", source)
    assert not rejected
    back = "cordoned_broker" in judge_version(capsys, version, out / "rollback.json", source)
    assert back is (version == "4.4" and options[1] == "drain")


@pytest.mark.parametrize("options", [("repair",), ("rf", "--rf", "3", "--topics", "late")])
def test_replicas_leave_a_cordoned_broker_that_is_down(options: tuple[str, ...], source: Path, tmp_path: Path) -> None:
    """As where a broker fails while it is drained: no new list names it."""
    cordon(source, 5)
    with (source / "topics.txt").open("a") as file:
        file.write("\n".join(describe("late", 2, "1,5 1")) + "\n")
    out = tmp_path / "plan"
    call("plan", str(source), "--goal", *options, "--out", str(out))
    moved = json.loads((out / "reassignment.json").read_text())["partitions"]
    assert [one for one in moved if one["topic"] == "late"]
    assert not [one for one in moved if 5 in one["replicas"]]


def judge_version(capsys: pytest.CaptureFixture[str], version: str, *arguments: str | Path) -> list[str]:
    result = CommandResult(capsys, "check", *arguments, "--set", f"topics.kafka_version={version}", "--json", "-")
    return [one["fault"] for one in json.loads(result.out)["findings"]]


def test_a_plan_that_is_safe(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(capsys, write(tmp_path, ("orders", 0, [2, 3, 1]), ("orders", 1, [2, 3, 1])), source) == ("SAFE", {})
    assert judge(capsys, write(tmp_path), source) == ("SAFE", {})


def test_copies_to_a_broker_that_may_be_down_are_risky(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the list of one partition names broker 9, which is in no ISR."""
    source = tmp_path / "topics.txt"
    source.write_text("\n".join(describe("t", 2, "1,2 1,2", "2,9 2", "1,2 1,2")) + "\n")
    level, findings = judge(capsys, write(tmp_path, ("t", 0, [1, 9])), source)
    assert (level, findings["unknown_state"]["brokers"]) == ("RISKY", [9])
    assert judge(capsys, write(tmp_path, ("t", 1, [2, 1])), source) == ("SAFE", {})


def test_log_dirs_of_another_length(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, ("orders", 0, [1, 2, 3]), log_dirs=["any", "any"])
    assert "log_dirs_length" in judge(capsys, file, source)[1]
    file = write(tmp_path, ("orders", 0, [1, 2, 3]), log_dirs=["any"] * 3)
    assert judge(capsys, file, source)[0] == "SAFE"


@pytest.fixture
def jbod(source: Path) -> Path:
    """Broker 4 has log dirs of 100 GB with 40 GB free, and one that failed; 20 GB of orders-1 are in the first."""
    log = {"partition": "orders-1", "size": 20 * 10**9, "offsetLag": 0, "isFuture": False}
    volume = {"error": None, "totalBytes": 100 * 10**9, "usableBytes": 40 * 10**9}
    second = volume | {"logDir": "/d1", "partitions": [], "usableBytes": 15 * 10**9}
    failed = {"logDir": "/d2", "error": "KAFKA_STORAGE_ERROR", "partitions": []}
    dirs = [volume | {"logDir": "/d0", "partitions": [log]}, second, failed]
    document = {"version": 1, "brokers": [{"broker": 4, "logDirs": dirs}]}
    (source / "log-dirs.json").write_text(json.dumps(document))
    return source


@pytest.mark.parametrize("path", ["/d2", "/d3"])
def test_a_log_dir_that_failed_or_does_not_exist(
    path: str, jbod: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    level, findings = judge(capsys, write(tmp_path, ("orders", 1, [2, 3, 4]), log_dirs=["any", "any", path]), jbod)
    assert level == "REJECTED BY KAFKA"
    assert findings["unusable_log_dir"]["brokers"] == [4]
    # Nothing is known of the log dirs of broker 2.
    file = write(tmp_path, ("orders", 1, [2, 3, 4]), log_dirs=[path, "any", "any"])
    assert judge(capsys, file, jbod) == ("SAFE", {})


def test_a_move_to_a_cordoned_log_dir(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As Kafka does since 4.3: "Log directory /d1 is cordoned", also where the replica is there already."""
    log = {"partition": "orders-1", "size": 20 * 10**9, "offsetLag": 0, "isFuture": False}
    dirs = [{"logDir": f"/d{i}", "error": None, "partitions": [log] * (i == 0), "isCordoned": i < 2} for i in range(3)]
    (source / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": [{"broker": 4, "logDirs": dirs}]}))
    for path, expected in (("/d0", {"cordoned_log_dir"}), ("/d1", {"cordoned_log_dir"}), ("/d2", {})):
        file = write(tmp_path, ("orders", 1, [2, 3, 4]), log_dirs=["any", "any", path])
        level, findings = judge(capsys, file, source)
        assert (level == "REJECTED BY KAFKA", findings.keys()) == (bool(expected), set(expected))
    copied = write(tmp_path, ("orders", 0, [2, 3, 4]), log_dirs=["any", "any", "/d1"])
    assert "cordoned_log_dir" in judge(capsys, copied, source)[1]


def test_a_move_between_log_dirs_fills_a_volume(jbod: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, ("orders", 1, [2, 3, 4]), log_dirs=["any", "any", "/d1"])
    level, findings = judge(capsys, file, jbod)
    assert (level, set(findings)) == ("HARMFUL", {"log_dir_overflow"})
    assert findings["log_dir_overflow"]["text"] == (
        "wave 1: while replicas are copied, the volume of /d1 of broker 4 would hold up to 20 GB, more than the 15 GB "
        "that it has room for"
    )
    log_dirs = jbod / "log-dirs.json"
    log_dirs.write_text(log_dirs.read_text().replace(f"{15 * 10**9}", f"{22 * 10**9}"))
    level, findings = judge(capsys, file, jbod)
    assert (level, set(findings)) == ("RISKY", {"log_dir_full"})
    assert findings["log_dir_full"]["text"] == (
        "wave 1: while replicas are copied, the volume of /d1 of broker 4 would hold up to 20 GB, 3 GB more than "
        "capacity.max_disk_ratio of it"
    )
    # The file of capacities replaces what a broker says of its volumes.
    capacities = tmp_path / "capacities.csv"
    capacities.write_text("broker_id,log_dir,disk_bytes\n4,/d1,1000000000000\n")
    assert judge(capsys, file, jbod, "--set", f"capacity.file={capacities}") == ("SAFE", {})
    assert judge(capsys, file, jbod, "--set", "capacity.max_disk_ratio=1.0") == ("SAFE", {})
    stays = write(tmp_path, ("orders", 1, [2, 3, 4]), log_dirs=["any", "any", "/d0"])
    assert judge(capsys, stays, jbod) == ("SAFE", {})


def test_a_factor_that_is_asked_for(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, ("orders", 0, [1, 2, 3, 4]))
    assert judge(capsys, file, source, "--rf", "4")[0] == "SAFE"
    assert judge(capsys, file, source, "--rf", "2")[0] == "HARMFUL"


def test_files_are_waves_in_their_order(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second wave is right after the first, and not without it."""
    first = write(tmp_path, ("keys", 0, [2, 3]), name="first.json")
    second = write(tmp_path, ("keys", 0, [3, 1]), name="second.json")
    assert judge(capsys, first, second, source)[0] == "SAFE"
    level, findings = judge(capsys, second, source)
    assert (level, findings["waits_for_lagging"]["brokers"]) == ("RISKY", [1])
    result = CommandResult(capsys, "check", second, source, "--set", "topics.kafka_version=4.3")
    assert result.out.startswith("SAFE: ")
    assert "its rules are those of 4.3 (topics.kafka_version)" in result.out
    third = write(tmp_path, ("keys", 0, [9]), name="third.json")
    assert judge(capsys, first, second, third, source)[1]["unknown_broker"]["wave"] == 3


def test_output_of_generate_and_of_cruise_control(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    current, planned = (write(tmp_path, ("orders", 0, ids)).read_text() for ids in ([1, 2, 3], [1, 2, 9]))
    printed = tmp_path / "generated.txt"
    printed.write_text(
        f"Current partition replica assignment\n{current}\n\nProposed partition reassignment configuration\n{planned}\n"
    )
    assert "unknown_broker" in judge(capsys, printed, source)[1]
    proposal = {
        "topicPartition": {"topic": "orders", "partition": 0, "hash": 7},
        "oldLeader": 1,
        "oldReplicas": [1, 2, 3],
        "newReplicas": [1, 2, 4],
    }
    proposals = tmp_path / "proposals.json"
    proposals.write_text(json.dumps({"summary": {"numReplicaMovements": 1}, "proposals": [proposal]}))
    assert "fewer_racks" in judge(capsys, proposals, source)[1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON"),
        ("{}", "partitions: Field required"),
        ('{"partitions":\n[{"topic":"t","partition":"0","replicas":[1]}]}', "partitions.0.partition: Input should be"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1.5]}]}', "partitions.0.replicas.0: Input should be"),
    ],
)
def test_files_that_are_no_plans(
    text: str, problem: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    result = CommandResult(capsys, "check", file, source)
    assert (result.code, problem in result.err, "a folder that plan wrote" in result.err) == (1, True, True), result.err
    assert CommandResult(capsys, "check", tmp_path, source).code == 1


def test_copies_that_one_wave_drops_and_a_later_one_brings_back(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last list has as many replicas as before, but one in-sync copy is left meanwhile."""
    files = []
    for wave, replicas in enumerate(([1], [1, 2, 3])):
        folder = tmp_path / f"wave-{wave}"
        folder.mkdir()
        files.append(write(folder, ("orders", 0, replicas)))
    level, findings = judge(capsys, *files, source)
    assert (level, findings[PlanFault.DROPS_IN_SYNC]["wave"]) == ("HARMFUL", 1)


@pytest.mark.parametrize(
    ("version", "replicas", "sentence"),
    [
        (
            "3.6",
            [3, 1],
            "2 are in sync now, 1 then. KRaft drops them at once up to Kafka 3.7; with ZooKeeper, this waits",
        ),
        ("3.6", [3], "2 are in sync now, 1 then"),
        ("4.1", [3, 1], ""),
        ("4.4", [3, 1], ""),
    ],
)
def test_dropped_replicas_by_version(
    version: str, replicas: list[int], sentence: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broker 1 lags. What stays in sync is counted once all that Kafka waits for are."""
    options = (
        source / "topics.txt",
        "--rf",
        str(len(replicas)),
        "--set",
        f"topics.kafka_version={version}",
        "--json",
        "-",
    )
    answer = json.loads(CommandResult(capsys, "check", write(tmp_path, ("orders", 2, replicas)), *options).out)
    texts = [one["text"] for one in answer["findings"] if one["fault"] == PlanFault.DROPS_IN_SYNC]
    assert (answer["level"] == "HARMFUL") is bool(texts) is bool(sentence)
    assert all(sentence in text and ("KRaft" in text) is ("KRaft" in sentence) for text in texts)


@pytest.mark.parametrize(
    ("lists", "shown"),
    [
        ([("keys", 0, [1])], "without leader: dead-0, keys-0"),
        ([("orders", 0, [1, 2, 4])], "NOT_ENOUGH_REPLICAS"),
        ([("lone", 0, [2])], "NOT_ENOUGH_REPLICAS"),
    ],
)
def test_a_scenario_shows_the_worst_fault(
    lists: list[tuple[str, int, list[int]]],
    shown: str,
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario = tmp_path / "worst.yaml"
    CommandResult(capsys, "check", write(tmp_path, *lists), source, "--scenario", scenario)
    assert shown in call("replay", str(source), str(scenario)).stdout
    safe = CommandResult(capsys, "check", write(tmp_path), source, "--scenario", scenario)
    assert (safe.code, "no fault of this plan can be shown by a scenario" in safe.err) == (0, True)
    assert "SAFE" in safe.out


def test_what_is_left_of_a_plan_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broker 4 fails after the first wave, which has moved the first partition to it."""
    source, out = tmp_path / "topics.txt", tmp_path / "plan"
    before = describe("t", 2, "1,2 1,2", "1,3 1,3", "2,3 2,3", "4,3 4,3")
    source.write_text("\n".join(before) + "\n")
    drain = ("plan", source, "--goal", "drain", "--brokers", "1", "--throttle", "7MB", "--out", out)
    assert CommandResult(capsys, *drain).code == 0
    result = CommandResult(capsys, "check", out, source)
    assert result.out.startswith("fits")
    assert "SAFE" in result.out
    for rate, options in ((7e6, ()), (9e6, ("--throttle", "9MB"))):  # that of the plan, or another one
        answer = json.loads(CommandResult(capsys, "check", out, source, *options, "--json", "-").out)
        assert answer["throttle_bytes_per_s"] == rate
    plan = json.loads((out / "plan.json").read_text())
    assert plan["judgement"]["level"] == "SAFE"
    done = before.copy()
    for change in plan["changes"]:
        ids = ",".join(map(str, change["after"]))
        place = 1 + change["partition"]
        done[place] = describe("t", 2, *["0 0"] * change["partition"], f"{ids} {ids}")[place]
    source.write_text("\n".join(done) + "\n")
    answer = json.loads(CommandResult(capsys, "check", out, source, "--json", "-").out)
    assert answer["progress"][0]["status"] == "done"
    assert sum(wave["partitions"] for wave in answer["waves"]) == 0


def test_a_plan_that_is_not_safe_says_so_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "topics.txt"
    source.write_text("\n".join(describe("t", 3, "1,2,3 1,2,3", "2,3,1 2,3,1", min_isr=2)) + "\n")
    result = CommandResult(capsys, "plan", source, "--goal", "rf", "--rf", "2")
    assert result.out.startswith("RISKY: ")
    assert "2 partitions (t-0, t-1) that the failure of a broker would block for acks=all" in result.out
    printed = CommandResult(capsys, "plan", source, "--goal", "rf", "--rf", "2", "--out", "-")
    assert "warning: RISKY: " in printed.err
    assert json.loads(printed.out)["partitions"]


def test_a_change_ticket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out, ticket = tmp_path / "topics.txt", tmp_path / "plan", tmp_path / "ticket.md"
    source.write_text("\n".join(describe("t", 2, "1,2 1,2", "1,3 1,3", "2,3 2,3", "4,3 4,3")) + "\n")
    goal = ("--goal", "drain", "--brokers", "1", "--out", out)
    result = CommandResult(capsys, "plan", source, *goal, "--bootstrap-server", "b1:9092", "--ticket", ticket)
    assert (result.code, ", plan.json, ticket.md\n" in result.out) == (0, True), result.out
    text = ticket.read_text()
    apply = f"kafka-placement apply {out} --bootstrap-server b1:9092"
    for option in ("--execute", "--rollback --execute"):
        assert f"\n{apply} {option}    # " in text
    assert f"kafka-reassign-partitions --bootstrap-server b1:9092 --reassignment-json-file {out}/rollback.json" in text
    assert "Cluster id" not in text
    assert "The verdicts count all live brokers; both columns leave out broker 1, which is to be emptied" in text
    assert text == (out / "ticket.md").read_text()
    assert text.startswith(
        "# Change of Kafka cluster topics: drain 1\n\n**SAFE**, compared with the cluster as it is now. "
    )
    for path in out.iterdir():
        assert path.name == "ticket.md" or f"| {path.name} | {hashlib.sha256(path.read_bytes()).hexdigest()} |" in text
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert ["1", *["unknown"] * 5, "2", "0", "2", "0"] in rows
    plan = json.loads((out / "plan.json").read_text())
    assert ["t", f"{len(plan['changes'])}", f"{plan['metrics']['moves']}", "unknown"] in rows
    assert sum(row[0].startswith("verdict") and row[1] != row[2] for row in rows) <= 1
    # The folder is replaced with its ticket; without one, it has none.
    assert CommandResult(capsys, "plan", source, *goal).code == 0
    assert not (out / "ticket.md").exists()
    result = CommandResult(capsys, "plan", source, *goal, "--ticket", tmp_path / "no" / "ticket.md")
    assert (result.code, "--ticket" in result.err) == (64, True)
    CommandResult(capsys, "plan", source, "--goal", "leaders", "--after", out, "--ticket", ticket)
    assert ticket.read_text().startswith(f"# Change of Kafka cluster topics: leaders, after the plan in {out}\n")


def test_the_assumed_version_and_what_a_plan_waits_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`plan`, its ticket and `check` say it in the same words."""
    source, out, ticket = tmp_path / "topics.txt", tmp_path / "plan", tmp_path / "ticket.md"
    lines = [*describe("t", 2, "1,2 1,2", "1,3 1,3"), *describe("u", 2, "3,1,2 1,2 3 2")]
    source.write_text("\n".join(lines) + "\n")
    goal = ("--goal", "drain", "--brokers", "1", "--topics", "t", "--out", out, "--ticket", ticket)
    options = ("--set", "topics.kafka_version=4.2")
    texts = [CommandResult(capsys, "plan", source, *goal, *options).out, ticket.read_text()]
    texts.append(CommandResult(capsys, "check", out, source, *options).out)
    version = "where the source does not show Kafka's version, its rules are those of 4.2 (topics.kafka_version)"
    waits = "the plan waits for 1 reassignment beside it: apply begins once it is complete (u-0)"
    assert all(f"note: {version}\n" in text for text in texts)
    assert all(waits in text for text in texts)
    assert texts[2].startswith(f"in flight: {waits}\n")
    assert version in CommandResult(capsys, "check", source, *options).err
    with source.open("a") as file:
        file.write(write_api_versions(9))  # up to 3.6
    assert "its rules are those of" not in CommandResult(capsys, "check", source, *options).err


def _write_log_dirs(folder: Path, sizes: Mapping[int, int]) -> None:
    """Write the logs of a partition, in GB by broker, as kafka-log-dirs prints them."""
    log_dirs = [
        {
            "broker": broker,
            "logDirs": [
                {
                    "logDir": "/d",
                    "error": None,
                    "partitions": [{"partition": "tolls-1", "size": size * 10**9, "offsetLag": 0, "isFuture": False}],
                }
            ],
        }
        for broker, size in sizes.items()
    ]
    (folder / "log-dirs.txt").write_text(json.dumps({"version": 1, "brokers": log_dirs}))


@pytest.mark.parametrize(
    ("version", "waits"),
    [("4.2", ""), ("4.3", ", waits for broker 3, which it removes: it does not end until it is cancelled")],
)
def test_a_request_for_the_former_replicas(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, waits: str
) -> None:
    """Two requests, to 3,2 and back to 1,2: since 4.3 it waits for what the first one has added."""
    (tmp_path / "topics.txt").write_text("\n".join(describe("tolls", 2, "1,2,3 1,2,3 3 3")) + "\n")
    result = CommandResult(capsys, "check", tmp_path, "--set", f"topics.kafka_version={version}")
    assert result.code == int(bool(waits))
    assert f"tolls-0: adds 3, removes 3{waits}\n" in result.out


@pytest.mark.parametrize(("rate", "left"), [(600_000, "18 h 31 min at a throttle of 600 kB/s"), (2**63 - 1, "50 MB/s")])
def test_the_rate_that_brokers_have_counts(
    rate: int, left: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "topics.txt").write_text("\n".join(describe("tolls", 2, "2,3 2", "3,1,2 1,2 3 2")) + "\n")
    entry = f"  follower.replication.throttled.rate={rate} sensitive=false synonyms={{}}"
    (folder / "configs.txt").write_text(f"All configs for broker 3 are:\n{entry}\n")
    _write_log_dirs(folder, {1: 80, 2: 80, 3: 40})
    assert left in CommandResult(capsys, "check", folder).out


def test_reassignments_under_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broker 25 is in no ISR: what it is to get never ends. Broker 3 has half of what it copies."""
    folder = tmp_path / "source"
    folder.mkdir()
    lines = [
        *describe("tolls", 2, "25,22,23 22,23 25 23", "3,1,2 1,2 3 2", "1,2,3 1,2  3"),
        *describe("audit", 2, "25,22 22", "23,25 23"),
    ]
    (folder / "topics.txt").write_text("\n".join(lines) + "\n")
    _write_log_dirs(folder, {1: 80, 2: 80, 3: 40})
    result = CommandResult(capsys, "check", folder, "--throttle", "40MB")
    assert result.code == 1
    assert "3 partitions being reassigned, 1 of them stuck" in result.out
    assert "tolls-0: adds 25, removes 23, waits for broker 25, down: it does not end until it is back" in result.out
    assert (
        "  in all beside the stuck ones and those of unknown size: 40 GB left, 17 min at a throttle of 40 MB/s\n"
        in result.out
    )
    assert "    kafka-placement apply PLAN --bootstrap-server HOST:PORT --cancel\n" in result.out
    assert "tolls-1: adds 3, removes 2, waits for broker 3, 40 GB left, 17 min at a throttle of 40 MB/s" in result.out
    cancel = '{"version":1,"partitions":[{"topic":"tolls","partition":0,"replicas":[22,23]}]}'
    assert f"    {cancel}\n" in result.out
    answer = json.loads(CommandResult(capsys, "check", folder, "--json", "-").out)
    assert json.loads(answer["cancel_stuck"]) == json.loads(cancel)
    lists = {one["partition"]: one["replicas"] for one in json.loads(answer["cancel"])["partitions"]}
    assert lists == {0: [22, 23], 1: [1, 2], 2: [1, 2]}
    (folder / "topics.txt").write_text("\n".join(describe("t", 1, "1 1")) + "\n")
    result = CommandResult(capsys, "check", folder)
    assert (result.code, result.out) == (0, "no partition is being reassigned\n")
    (folder / "not-read.txt").write_text("\n".join(print_requests("b1:9092", [NO_REASSIGNMENTS], ["no answer"])) + "\n")
    result = CommandResult(capsys, "check", folder)
    unknown = "whether a partition is being reassigned is not known: the cluster has not answered that\n"
    assert (result.code, result.out) == (1, unknown)


@pytest.mark.parametrize(
    ("copied", "rate", "left"),
    [
        ({1: 80, 2: 80, 3: 50}, 1e9, "30 GB left, 30 s at 1 GB/s as now"),
        ({1: 80, 2: 80, 3: 40}, 0, "40 GB left, nothing is copied"),
        ({1: 81, 2: 81, 3: 40}, 0, "41 GB left, nothing is copied"),
        ({1: 80, 2: 80, 3: 80}, 4e9, "0 B left, under 1 s at 4 GB/s as now"),
    ],
)
def test_rate_of_a_reassignment_is_that_between_two_looks(
    tmp_path: Path, copied: dict[int, int], rate: float, left: str
) -> None:
    (tmp_path / "topics.txt").write_text("\n".join(describe("tolls", 2, "1,2 1,2", "3,1,2 1,2 3 2")) + "\n")
    looks = []
    for sizes in ({1: 80, 2: 80, 3: 40}, copied):
        _write_log_dirs(tmp_path, sizes)
        looks.append(load_snapshot(Source("prod", tuple(sorted(tmp_path.iterdir())))))
    first = find_running_reassignments(looks[0], 50e6)
    later = find_running_reassignments(looks[1], 50e6, KAFKA_DEFAULTS, first, 10.0)
    assert later.partitions[0].rate_bytes_per_s == rate
    lines = list(render_running(later))
    assert f"  in all: {left}" in lines
    assert any(line.startswith("  tolls-1:") and line.endswith(left) for line in lines)
    # One that has begun only in between has no rate.
    begun = find_running_reassignments(looks[1], 50e6, KAFKA_DEFAULTS, replace(first, partitions=()), 10.0)
    assert begun.partitions[0].rate_bytes_per_s is None
