"""Plans carried out on a real cluster: final assignments, throttles, interruptions, and what others do meanwhile."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import pytest
from kafka import KafkaProducer

from pipelines.config.settings import load_settings
from pipelines.errors import EXIT_NOT_APPLIED, EXIT_PARTLY_APPLIED, EXIT_THROTTLED, EXIT_WAVES_LEFT
from pipelines.execution.cluster_execution import ExecutionOptions
from pipelines.execution.cluster_view import ClusterView, view_cluster
from pipelines.execution.journal import JOURNAL, Journal
from pipelines.execution.plan_application import PlanApplication
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.live.kafka_connection import KafkaFault, Key
from pipelines.plan_files.kafka_json import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from pipelines.plan_files.plan_reader import read_plan
from tests.commands import call
from tests.live.kafka_cluster import CONTROLLER_ID, KafkaCluster, read_values, wait_until
from tests.live.kafka_tools import run_tool
from tests.live.six_brokers.conftest import TOPICS

pytestmark = [pytest.mark.slow, pytest.mark.live]

_SLOW, _SLOWER = "1MB", "50kB"  # throttles of plans that are interrupted
Lists = dict[tuple[str, int], tuple[int, ...]]


@pytest.fixture(scope="module")
def filled(cluster: KafkaCluster) -> KafkaCluster:
    """The cluster with 500 kB in each partition of the topic `hot`, so that copies take time."""
    cluster.produce({("hot", partition): 50 for partition in TOPICS["hot"][0]})
    return cluster


@pytest.fixture
def admin(filled: KafkaCluster) -> Iterator[KafkaAdmin]:
    """A connection to the cluster."""
    with KafkaAdmin(filled.bootstrap, ClientProperties()) as connection:
        yield connection


@pytest.fixture
def original(filled: KafkaCluster, admin: KafkaAdmin) -> Lists:
    """The assignment that each test begins with, and which is restored after it."""
    for id_, node in filled.nodes.items():
        if not node.is_running:
            filled.restart(id_)
    lists = {
        (topic, partition): tuple(replicas)
        for topic, (assignments, _) in TOPICS.items()
        for partition, replicas in assignments.items()
    }
    _restore(admin, lists)
    return lists


def _restore(admin: KafkaAdmin, lists: Lists) -> None:
    """Bring a cluster back to an assignment, with preferred leaders, without throttles."""
    view = view_cluster(admin)
    wrong = {
        key: ids for key, ids in lists.items() if view.partitions[key].replicas != ids or key in view.reassignments
    }
    for broker in view.live_brokers:
        admin.alter_broker_configs(broker, dict.fromkeys((LEADER_RATE, FOLLOWER_RATE)))
    admin.alter_topic_configs({topic: dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS)) for topic in TOPICS})
    if under_way := wrong.keys() & view.reassignments.keys():  # since 4.3 a request for the former lists never ends
        admin.alter_reassignments(dict.fromkeys(under_way))
        wait_until(lambda: not admin.list_reassignments(), "a cancellation does not end")
    if wrong:
        admin.alter_reassignments(wrong)
    wait_until(lambda: not admin.list_reassignments(), "the cluster is not back at its assignment")
    wait_until(lambda: not view_cluster(admin).list_under_replicated(), "replicas do not come in sync")
    admin.elect_preferred_leaders(list(lists))


def _get_lists(view: ClusterView) -> Lists:
    return {key: partition.replicas for key, partition in view.partitions.items()}


def _make_plan(cluster: KafkaCluster, folder: Path, *options: str) -> Path:
    goal = options or ("--goal", "drain", "--brokers", "1")
    call("plan", f"prod=kafka://{cluster.bootstrap}", *goal, "--out", str(folder / "plan"))
    return folder / "plan"


def _get_planned(plan: Path, original: Lists) -> Lists:
    return original | {key: tuple(change.after) for key, change in read_plan(plan).changes.items()}


def _apply(cluster: KafkaCluster, plan: Path, *options: str, code: int = 0) -> str:
    out = call("apply", str(plan), "--bootstrap-server", cluster.bootstrap, *options, code=code)
    return out.stdout + out.stderr


def _start(cluster: KafkaCluster, plan: Path, *options: str) -> subprocess.Popen[str]:
    """Apply a plan in a process of its own."""
    command = [sys.executable, "-m", "pipelines.cli", "apply", str(plan), "--bootstrap-server", cluster.bootstrap]
    return subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _finish(process: subprocess.Popen[str]) -> str:
    """Wait until a process has applied its plan; return what it printed."""
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    return out


def _check_no_throttle(admin: KafkaAdmin) -> None:
    view = view_cluster(admin)
    for broker in view.live_brokers:
        assert admin.describe_own_broker_configs(broker, (LEADER_RATE, FOLLOWER_RATE)) == {}
    configs = admin.describe_topic_configs(list(TOPICS), (LEADER_REPLICAS, FOLLOWER_REPLICAS))
    assert {topic: found for topic, found in configs.items() if found} == {}


def _wait_until_moving(admin: KafkaAdmin) -> None:
    wait_until(lambda: bool(admin.list_reassignments()), "nothing is being reassigned")


def _kill_while_moving(cluster: KafkaCluster, admin: KafkaAdmin, plan: Path, *direction: str) -> None:
    """Apply a plan slowly, and kill the process as soon as several partitions with data move: they take a minute."""
    process = _start(cluster, plan, *direction, "--throttle", _SLOWER)
    wait_until(lambda: sum(topic == "hot" for topic, _ in admin.list_reassignments()) > 1, "no partition is copied")
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_preview_changes_nothing(filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path) -> None:
    plan = _make_plan(filled, tmp_path)
    text = _apply(filled, plan)
    assert "Nothing was changed. Add --execute to carry it out." in text
    assert "to copy" in text
    assert _get_lists(view_cluster(admin)) == original
    assert not (plan / JOURNAL).exists()


def test_plan_is_applied_and_rolled_back(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    plan = _make_plan(filled, tmp_path)
    assert "as planned" in _apply(filled, plan, "--execute")
    view = view_cluster(admin)
    assert _get_lists(view) == _get_planned(plan, original)
    assert all(one.leader == one.replicas[0] for one in view.partitions.values())
    _check_no_throttle(admin)
    journal = (plan / JOURNAL).read_bytes()
    assert "nothing to do" in _apply(filled, plan, "--execute")
    assert (plan / JOURNAL).read_bytes() == journal
    text = _apply(filled, plan, "--verify")
    assert "as planned" in text
    assert f"kafka-cluster unregister --bootstrap-server {filled.bootstrap} --id 1" in text
    assert "as before the plan" in _apply(filled, plan, "--rollback", "--execute", "--throttle", "none")
    assert "as before the plan" in _apply(filled, plan, "--verify", code=EXIT_NOT_APPLIED)
    assert sum(entry["event"] == "throttle" for entry in Journal.open(plan).entries) == journal.count(b'"throttle",')
    view = view_cluster(admin)
    assert _get_lists(view) == original
    assert all(one.leader == one.replicas[0] for one in view.partitions.values())
    _check_no_throttle(admin)


def _get_leaders(admin: KafkaAdmin) -> dict[Key, int]:
    return {key: partition.leader for key, partition in view_cluster(admin).partitions.items()}


@pytest.mark.parametrize("way", ["apply", "tools"])
def test_rollback_returns_leaders(
    way: str, filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    """With apply, and with the commands in the ticket. Another leader than the preferred one, orders-2, stays."""
    admin.alter_reassignments({("orders", 2): [original["orders", 2][i] for i in (1, 0, 2)]})
    wait_until(lambda: view_cluster(admin).partitions["orders", 2].replicas[0] == 4, "the order has not changed")
    lists, leaders, ticket = _get_lists(view_cluster(admin)), _get_leaders(admin), tmp_path / "ticket.md"
    assert leaders["orders", 2] == original["orders", 2][0] == 3
    goal = ("--goal", "drain", "--brokers", "6", "--set", "plans.wave_moves_per_broker=2", "--ticket", str(ticket))
    plan = _make_plan(filled, tmp_path, *goal, "--bootstrap-server", filled.bootstrap)
    changes, elected = read_plan(plan).changes, set(read_plan(plan).rollback_election)
    assert elected == {key for key in changes if changes[key].after[0] != lists[key][0] == leaders[key]}
    assert ("orders", 2) in changes.keys() - elected
    assert admin.alter_reassignments({key: change.after for key, change in changes.items()}) == {}
    wait_until(lambda: not admin.list_reassignments(), "the plan is not complete")
    admin.elect_preferred_leaders(list(read_plan(plan).election))
    assert _get_leaders(admin) != leaders
    if way == "apply":
        _apply(filled, plan, "--rollback", "--execute")
        (entry,) = [one for one in Journal.open(plan).entries if one["event"] == "elect"]
        assert {tuple(key) for key in entry["partitions"]} == elected
    else:
        _, _, text = ticket.read_text().partition("  to roll it back")
        commands = [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("    kafka-")]
        assert [words[0] for words in commands] == [*["kafka-reassign-partitions"] * 3, "kafka-leader-election"]
        for name, *words in commands:
            wait_until(lambda: not admin.list_reassignments(), "the rollback is not complete")
            run_tool(filled.version, name, *words)
    assert _get_lists(view_cluster(admin)) == lists
    wait_until(lambda: _get_leaders(admin) == leaders, "the leaders are not those before the plan")
    _check_no_throttle(admin)


def test_earlier_throttles_are_restored(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    plan = _make_plan(filled, tmp_path)
    admin.alter_broker_configs(3, {LEADER_RATE: "77000000"})
    admin.alter_topic_configs({"hot": {LEADER_REPLICAS: "0:1,0:2"}})
    assert "broker 3 and topic hot have a throttle of another tool" in _apply(filled, plan)
    text = _apply(filled, plan, "--execute")
    assert "throttles that were set before this plan are set on broker 3 and topic hot" in text
    assert admin.describe_own_broker_configs(3, (LEADER_RATE, FOLLOWER_RATE)) == {LEADER_RATE: "77000000"}
    assert admin.describe_topic_configs(["hot"], (LEADER_REPLICAS,)) == {"hot": {LEADER_REPLICAS: "0:1,0:2"}}


def test_plan_is_applied_in_two_nights(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    """The first ends with its wave, the second before a wave that would end too late; and so on, also back."""
    plan = _make_plan(filled, tmp_path, "--goal", "drain", "--brokers", "1", "--set", "plans.wave_moves_per_broker=2")
    waves = len(read_plan(plan).waves)
    assert waves > 2
    error = _apply(filled, plan, "--execute", "--waves", "2-", code=1)
    assert re.search(r"wave 1 is not done \(\d+ partitions left: .*\). Begin with it: --waves 1", error)
    assert not (plan / JOURNAL).exists()
    text = _apply(filled, plan, "--execute", "--waves", "1", code=EXIT_WAVES_LEFT)
    assert f"waves 2-{waves} of {waves} are left. To continue another night:" in text
    command = f"kafka-placement apply {plan} --bootstrap-server {filled.bootstrap} --execute --waves 2-{waves}"
    assert text.splitlines()[-1].strip() == command
    _check_no_throttle(admin)
    steps = {key: change.lists[change.waves.count(1)] for key, change in read_plan(plan).changes.items()}
    assert _get_lists(view_cluster(admin)) == original | steps
    assert "journal: apply began at " in (preview := _apply(filled, plan))
    assert f" and left waves 2-{waves} for another night" in preview
    soon = f"{datetime.now(UTC) + timedelta(minutes=2):%Y-%m-%dT%H:%M:%SZ}"
    text = _apply(filled, plan, "--execute", "--throttle", "1kB", "--until", soon, code=EXIT_WAVES_LEFT)
    assert re.search(r"wave \d+ is not begun: it takes about .* at 1 kB/s, and would end at ", text)
    assert re.search(r"--execute --waves \d+-\d+ --throttle 1000 --until \d\d:\d\d(:\d\d)?$", text.strip())
    _check_no_throttle(admin)
    error = _apply(filled, plan, "--execute", "--throttle", "none", "--until", soon, code=1)
    assert "is not known, so --until cannot end before it. Name a rate with --throttle" in error
    assert "as planned" in _apply(filled, plan, "--execute", "--waves", "2-")
    assert _get_lists(view_cluster(admin)) == _get_planned(plan, original)
    assert "are left" in _apply(filled, plan, "--rollback", "--execute", "--waves", f"{waves}", code=EXIT_WAVES_LEFT)
    assert "as planned" in _apply(filled, plan, "--execute", "--waves", f"{waves}")
    _apply(filled, plan, "--rollback", "--execute", "--waves", f"2-{waves}", code=EXIT_WAVES_LEFT)
    assert _get_lists(view_cluster(admin)) == original | steps
    _apply(filled, plan, "--rollback", "--execute")
    assert _get_lists(view_cluster(admin)) == original
    _check_no_throttle(admin)


def _write_lists(folder: Path, name: str, lists: Lists) -> Path:
    """Write a file as kafka-reassign-partitions takes it."""
    entries = [{"topic": topic, "partition": one, "replicas": ids} for (topic, one), ids in lists.items()]
    (folder / name).write_text(json.dumps({"version": 1, "partitions": entries}))
    return folder / name


def test_file_of_another_tool_is_carried_out(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    """In waves of apply, killed and continued, verified, rolled back and cancelled by naming the file again."""
    lists: Lists = {("hot", partition): (4, 2, 3) for partition in range(12)}
    file = _write_lists(tmp_path, "moves.json", lists)
    few = ("--set", "plans.wave_moves_per_broker=4")
    text = _apply(filled, file, *few)
    assert f"{file}.plan: the plan that stands for {file} from now on" in text
    assert "  wave 3: 4 partitions, 4 replicas to copy" in text
    assert _get_lists(view_cluster(admin)) == original
    assert "nothing of it was begun" in _apply(filled, file, "--rollback", "--execute", code=1)
    process = _start(filled, file, "--execute", "--throttle", _SLOWER, *few)
    _wait_until_moving(admin)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert "is applying" not in _apply(filled, file, "--execute", "--throttle", "50MB")
    assert _get_lists(view_cluster(admin)) == original | lists
    _check_no_throttle(admin)
    assert "as planned: 12 partitions" in _apply(filled, file, "--verify")
    assert "as planned: 12 partitions" in _apply(filled, Path(f"{file}.plan"), "--verify")
    _apply(filled, file, "--rollback", "--execute")
    assert _get_lists(view_cluster(admin)) == original
    process = _start(filled, file, "--execute", "--throttle", _SLOWER)
    _wait_until_moving(admin)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _apply(filled, file, "--cancel")
    assert _get_lists(view_cluster(admin)) == original
    _check_no_throttle(admin)


def test_harmful_file_of_another_tool_is_not_carried_out(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    """It drops replicas; Kafka rejects another one, which names a broker that does not exist."""
    harmful = _write_lists(tmp_path, "harmful.json", {("hot", 0): (1,)})
    assert "or add --accept-harm to carry it out all the same" in _apply(filled, harmful, "--execute", code=1)
    rejected = _write_lists(tmp_path, "rejected.json", {("hot", 0): (1, 2, 9)})
    assert "REJECTED BY KAFKA" in _apply(filled, rejected, "--execute", "--accept-harm", code=1)
    assert _get_lists(view_cluster(admin)) == original
    _apply(filled, harmful, "--execute", "--accept-harm")
    assert _get_lists(view_cluster(admin)) == original | {("hot", 0): (1,)}
    _apply(filled, harmful, "--rollback", "--execute")
    assert _get_lists(view_cluster(admin)) == original


@pytest.mark.parametrize("direction", [("--execute",), ("--rollback", "--execute")])
def test_killed_executor_continues(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path, direction: tuple[str, ...]
) -> None:
    # The fewest moves: all partitions with data are in one wave.
    plan = _make_plan(filled, tmp_path, "--goal", "drain", "--brokers", "1", "--objective", "min-moves")
    source = f"prod=kafka://{filled.bootstrap}"
    is_back = "--rollback" in direction
    if is_back:
        _apply(filled, plan, "--execute")
    _kill_while_moving(filled, admin, plan, *direction)
    with (plan / JOURNAL).open("ab") as file:
        file.write(b'{"at":"2026-')  # as if it was killed while it wrote
    if not is_back:
        assert "being executed: wave " in call("check", str(plan), source).stdout
        text = _apply(filled, plan)
        assert "journal: apply began at" in text
        assert "Add --execute to wait for what is under way, and to carry out the rest." in text
    else:
        assert "being rolled back: " in call("check", str(plan), source, code=1).stdout
        text = _apply(filled, plan, code=1)
        assert "journal: rollback began at" in text
        assert "problem: a rollback of this plan has not ended. End it first, with --rollback or --cancel" in text
    assert admin.list_reassignments()
    way = "rollback" if is_back else "apply"
    assert f"journal: {way} began at" in _apply(filled, plan, "--verify", code=EXIT_PARTLY_APPLIED)
    if is_back:
        assert "Nothing was changed. Add --execute to roll it back." in _apply(filled, plan, "--rollback")
    began = time.monotonic()
    _apply(filled, plan, *direction, "--throttle", "none")
    assert time.monotonic() - began < 60  # at the rate of before, it would take several minutes
    expected = original if is_back else _get_planned(plan, original)
    assert _get_lists(view_cluster(admin)) == expected
    _check_no_throttle(admin)


@pytest.mark.parametrize(
    ("mode", "is_over"), [("--execute", False), ("--execute", True), ("--rollback --execute", False)]
)
def test_killed_executor_continues_without_its_journal(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path, mode: str, is_over: bool
) -> None:
    """The throttle that it has left is neither the plan's nor the option's; broker 6 has one of another tool."""
    plan = _make_plan(filled, tmp_path, "--goal", "replace", "--replace", "1=5", "--allow-empty-racks")
    admin.alter_broker_configs(6, {LEADER_RATE: "77000000"})
    _kill_while_moving(filled, admin, plan, "--execute")
    copy = tmp_path / "copy"
    shutil.copytree(plan, copy, ignore=shutil.ignore_patterns(JOURNAL))
    if is_over:
        for broker in range(1, 7):
            if FOLLOWER_RATE in admin.describe_own_broker_configs(broker, (FOLLOWER_RATE,)):
                admin.alter_broker_configs(broker, dict.fromkeys((LEADER_RATE, FOLLOWER_RATE), "60000000"))
        wait_until(lambda: not admin.list_reassignments(), "the wave does not end")
    code = EXIT_THROTTLED if is_over and len(read_plan(plan).waves) == 1 else EXIT_PARTLY_APPLIED
    text = _apply(filled, copy, "--verify", code=code)
    assert "throttles are set on brokers " in text
    assert "--alter --entity-type topics --entity-name=hot --delete-config " in text
    assert "throttles of this plan are left on brokers " in _apply(filled, copy)
    _apply(filled, copy, *mode.split(), "--throttle", "50MB")
    expected = _get_planned(plan, original) if mode == "--execute" else original
    assert _get_lists(view_cluster(admin)) == expected
    foreign = admin.describe_own_broker_configs(6, (LEADER_RATE, FOLLOWER_RATE))
    assert foreign in ({LEADER_RATE: "77000000"}, {})  # {} if the first execution has replaced it
    admin.alter_broker_configs(6, {LEADER_RATE: None})
    _check_no_throttle(admin)


def test_throttle_is_changed_from_another_terminal(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    plan = _make_plan(filled, tmp_path)
    admin.alter_broker_configs(3, {LEADER_RATE: "77000000"})
    process = _start(filled, plan, "--execute", "--throttle", "1kB")  # which would take many minutes
    _wait_until_moving(admin)
    assert f"process {process.pid} copies 50 MB/s" in _apply(filled, plan, "--throttle", "50MB", "--change-throttle")
    assert "throttle: 50 MB/s per broker from now on" in _finish(process)
    assert _get_lists(view_cluster(admin)) == _get_planned(plan, original)
    assert admin.describe_own_broker_configs(3, (LEADER_RATE, FOLLOWER_RATE)) == {LEADER_RATE: "77000000"}
    admin.alter_broker_configs(3, {LEADER_RATE: None})
    _check_no_throttle(admin)


def test_terminated_executor_says_what_is_left(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    """Kafka's own tool takes the commands that it prints."""
    plan = _make_plan(filled, tmp_path)
    process = _start(filled, plan, "--execute", "--throttle", _SLOWER)
    _wait_until_moving(admin)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, out
    assert re.search(r"interrupted: (\d+|Up to \d+) reassignments of the plan (are|may be) under way", out)
    assert "Throttles stay set on brokers " in out
    assert "Repeat the command to continue, or use --cancel or --rollback." in out
    assert "To remove the throttles without this program, once the reassignments are over:" in out
    commands = [line for line in out.splitlines() if line.startswith("kafka-configs ")]
    broker, topic = (next(line for line in commands if text in line) for text in ("-name=2 ", "-name=hot "))
    assert admin.describe_own_broker_configs(2, (LEADER_RATE,))
    for command in (broker, topic):
        run_tool(filled.version, *shlex.split(command))
    assert admin.describe_own_broker_configs(2, (LEADER_RATE, FOLLOWER_RATE)) == {}
    assert admin.describe_topic_configs(["hot"], (LEADER_REPLICAS, FOLLOWER_REPLICAS)) == {"hot": {}}
    _apply(filled, plan, "--cancel")
    _check_no_throttle(admin)


def test_topic_that_was_deleted_meanwhile_needs_no_new_plan(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    filled.create_topics({"brief": ({0: [1, 2], 1: [2, 1]}, {})})
    wait_until(lambda: ("brief", 1) in view_cluster(admin).partitions, "the topic was not created")
    plan = _make_plan(filled, tmp_path)
    _kill_while_moving(filled, admin, plan, "--execute")
    filled.delete_topics(["brief"])
    wait_until(lambda: ("brief", 1) not in view_cluster(admin).partitions, "the topic was not deleted")
    text = _apply(filled, plan)
    assert "changed: the cluster has changed; what is left of the plan can be carried out" in text
    assert "ake a new plan" not in text
    assert "Add --execute to " in text
    assert "left out: brief" in _apply(filled, plan, "--execute", "--throttle", "50MB")
    assert "nothing to do" not in _apply(filled, plan, code=1)  # it has ended, and so the plan no longer fits


def test_cancel_restores_the_order(filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path) -> None:
    plan = _make_plan(filled, tmp_path)
    admin.alter_broker_configs(3, {LEADER_RATE: "77000000"})
    _kill_while_moving(filled, admin, plan, "--execute")
    changes = read_plan(plan).changes
    moving = {key for key in admin.list_reassignments() if key[0] == "hot"}  # the others are empty, and so done at once
    assert moving
    _apply(filled, plan, "--cancel")
    lists = _get_lists(view_cluster(admin))
    assert all(lists[key] in changes[key].lists for key in changes)
    assert {key: lists[key] for key in moving} == {key: original[key] for key in moving}
    assert admin.describe_own_broker_configs(3, (LEADER_RATE, FOLLOWER_RATE)) == {LEADER_RATE: "77000000"}
    admin.alter_broker_configs(3, {LEADER_RATE: None})
    _check_no_throttle(admin)
    _apply(filled, plan, "--rollback", "--execute")
    assert _get_lists(view_cluster(admin)) == original


def test_foreign_reassignment_is_noticed(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    plan = _make_plan(filled, tmp_path)
    admin.alter_topic_configs({"hot": {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "*"}})
    for broker in range(1, 7):
        admin.alter_broker_configs(broker, {LEADER_RATE: "1000", FOLLOWER_RATE: "1000"})
    admin.alter_reassignments({("hot", 0): [4, 5, 6]})
    text = _apply(filled, plan, "--execute", code=1)
    assert "hot-0" in text
    looks = call("check", f"prod=kafka://{filled.bootstrap}", code=0)
    shown = looks.stdout
    assert looks.stderr.count(": read ") == 1  # of two looks
    assert re.search(r"hot-0: adds .*, waits for broker.*B left, (nothing is copied|.* at .*B/s as now)", shown)
    assert _get_lists(view_cluster(admin))["clicks", 4] == original["clicks", 4]


def test_foreign_reassignment_pauses_the_plan(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    """Another tool moves a partition beside the plan, slowly; a second execution is refused meanwhile."""
    plan = _make_plan(filled, tmp_path)
    filled.create_topics({"other": ({0: [2]}, {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "*"})})
    filled.produce({("other", 0): 20})
    process = _start(filled, plan, "--execute", "--throttle", _SLOW)
    _wait_until_moving(admin)
    admin.alter_broker_configs(2, {LEADER_RATE: "1000"})
    admin.alter_reassignments({("other", 0): [3]})
    assert "is applying a plan to cluster" in _apply(filled, plan, "--rollback", "--execute", code=1)
    reason = "another tool reassigns other-0"
    wait_until(lambda: any(e.get("reason") == reason for e in Journal.open(plan).entries), "the plan was not paused")
    assert process.poll() is None
    admin.alter_broker_configs(2, {LEADER_RATE: None})
    _finish(process)
    assert _get_lists(view_cluster(admin)) == _get_planned(plan, original) | {("other", 0): (3,)}
    filled.delete_topics(["other"])
    _check_no_throttle(admin)


def test_changed_cluster_is_refused(filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path) -> None:
    plan = _make_plan(filled, tmp_path)
    key = next(iter(read_plan(plan).changes))
    admin.alter_reassignments({key: list(reversed(original[key]))})
    wait_until(lambda: _get_lists(view_cluster(admin))[key] != original[key], "the order has not changed")
    assert "has changed" in _apply(filled, plan, "--execute", code=1)
    filled.delete_topics([key[0]])
    wait_until(lambda: key not in view_cluster(admin).partitions, "the topic was not deleted")
    filled.create_topics({key[0]: TOPICS[key[0]]})
    wait_until(lambda: key in view_cluster(admin).partitions, "the topic was not created")
    assert "was deleted and created again" in _apply(filled, plan, "--execute", code=1)
    assert not (plan / JOURNAL).exists()


def test_failed_broker_pauses_the_plan(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    plan = _make_plan(filled, tmp_path)
    process = _start(filled, plan, "--execute", "--throttle", _SLOW)
    _wait_until_moving(admin)
    filled.nodes[5].kill()
    wait_until(lambda: any(e["event"] == "pause" for e in Journal.open(plan).entries), "the plan was not paused")
    filled.restart(5)
    _finish(process)
    assert _get_lists(view_cluster(admin)) == _get_planned(plan, original)
    _check_no_throttle(admin)


def test_returned_broker_is_asked_at_once(filled: KafkaCluster, admin: KafkaAdmin, original: Lists) -> None:
    filled.nodes[5].kill()
    wait_until(lambda: any(one.is_fenced for one in admin.describe_cluster().brokers), "broker 5 is still live")
    with KafkaAdmin(filled.bootstrap, ClientProperties()) as connection:  # its metadata lack broker 5
        with pytest.raises(KafkaFault, match="UnknownBrokerId"):
            connection.describe_own_broker_configs(5, (LEADER_RATE,))
        filled.restart(5)
        wait_until(lambda: not any(b.is_fenced for b in connection.describe_cluster().brokers), "broker 5 is fenced")
        assert connection.describe_own_broker_configs(5, (LEADER_RATE,)) == {}


def test_killed_controller_is_waited_for(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    plan = _make_plan(filled, tmp_path)
    process = _start(filled, plan, "--execute", "--throttle", _SLOW)
    _wait_until_moving(admin)
    filled.nodes[CONTROLLER_ID].kill()
    time.sleep(3)
    filled.restart(CONTROLLER_ID)
    _finish(process)
    assert _get_lists(view_cluster(admin)) == _get_planned(plan, original)
    _check_no_throttle(admin)


class _LosesAnswers(KafkaAdmin):
    """A connection whose first answers to reassignments are lost: what they ask for is done all the same."""

    lost = 0

    def alter_reassignments(self, targets: Mapping[Key, Sequence[int] | None]) -> dict[Key, str]:
        """Reassign, and lose the answer."""
        answer = super().alter_reassignments(targets)
        if self.lost < 2:
            self.lost += 1
            raise KafkaFault(self.servers, "no answer about the reassignment: KafkaTimeout", "Repeat it")
        return answer


def test_lost_answer_is_no_failure(filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path) -> None:
    plan = _make_plan(filled, tmp_path)
    lines: list[str] = []
    with _LosesAnswers(filled.bootstrap, ClientProperties()) as connection:
        PlanApplication(plan, connection, lines.append).execute(
            ExecutionOptions(50_000_000), load_settings([], environ={})
        )
    assert sum("looking at the cluster" in line for line in lines) == 2
    assert _get_lists(view_cluster(admin)) == _get_planned(plan, original)
    _check_no_throttle(admin)


def test_throttle_of_a_failed_broker_is_removed_later(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    plan = _make_plan(filled, tmp_path)
    _kill_while_moving(filled, admin, plan, "--execute")
    filled.nodes[5].kill()
    wait_until(
        lambda: all(broker.is_fenced for broker in admin.describe_cluster().brokers if broker.id == 5),
        "broker 5 is still live",
    )
    assert "5 (fenced)" in _apply(filled, plan, code=1)
    text = _apply(filled, plan, "--cancel", code=1)
    assert "throttles remain on broker 5." in text
    command = f"--bootstrap-server {filled.bootstrap} --alter --entity-type brokers --entity-name=5 --delete-config "
    assert f"kafka-configs {command}{LEADER_RATE},{FOLLOWER_RATE}" in text
    filled.restart(5)
    assert admin.describe_own_broker_configs(5, (LEADER_RATE,)) != {}
    _apply(filled, plan, "--cancel")
    _check_no_throttle(admin)


def test_no_acknowledged_record_is_lost(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    """Producers with acks=all write, with min.insync.replicas 2, while partitions move and a broker fails."""
    plan = _make_plan(filled, tmp_path)
    before = admin.list_end_offsets([("orders", p) for p in TOPICS["orders"][0]])
    with _Producing(filled) as producing:
        process = _start(filled, plan, "--execute", "--throttle", _SLOW)
        _wait_until_moving(admin)
        filled.nodes[6].kill()
        time.sleep(6)
        filled.restart(6)
        _finish(process)
    wait_until(lambda: not view_cluster(admin).list_under_replicated(), "replicas do not come in sync")
    written = read_values(filled.bootstrap, "orders", before)
    assert producing.acknowledged <= written
    assert len(producing.acknowledged) > 100
    assert producing.rejected + len(producing.acknowledged) == producing.sent


class _Producing:
    """Sends numbered records to the topic `orders`, and notes which are acknowledged; a context manager."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap.split(","),
            acks="all",
            enable_idempotence=True,
            delivery_timeout_ms=60_000,
        )
        self._thread = threading.Thread(target=self._send)
        self._ended = threading.Event()
        self.sent, self.rejected = 0, 0
        self.acknowledged: set[bytes] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush(60)
        self._producer.close()

    def _send(self) -> None:
        partitions = sorted(TOPICS["orders"][0])
        while not self._ended.is_set():
            value = b"%d" % self.sent
            future = self._producer.send("orders", value, partition=partitions[self.sent % len(partitions)])
            future.add_callback(lambda _metadata, value=value: self.acknowledged.add(value))
            future.add_errback(self._reject)
            self.sent += 1
            self._ended.wait(0.01)

    def _reject(self, _error: object) -> None:
        self.rejected += 1


# The last test, as it leaves a partition more behind.
def test_topic_is_deleted_and_another_grows(
    filled: KafkaCluster, admin: KafkaAdmin, original: Lists, tmp_path: Path
) -> None:
    filled.create_topics({"doomed": ({0: [1, 2], 1: [2, 1]}, {})})
    wait_until(lambda: ("doomed", 1) in view_cluster(admin).partitions, "the topic was not created")
    plan = _make_plan(filled, tmp_path)
    process = _start(filled, plan, "--execute", "--throttle", _SLOW)
    _wait_until_moving(admin)
    filled.delete_topics(["doomed"])
    filled.add_partition("orders", 24, [2, 3, 5])
    out = _finish(process)
    assert "deleted meanwhile, and left out: doomed" in out
    lists = _get_lists(view_cluster(admin))
    assert lists.pop(("orders", 24)) == (2, 3, 5)
    planned = _get_planned(plan, original)
    assert lists == {key: ids for key, ids in planned.items() if key[0] != "doomed"}
    _check_no_throttle(admin)
