"""Log dirs of plans on a real cluster, carried out by Kafka's own tool and by apply."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pipelines.errors import EXIT_NOT_APPLIED
from pipelines.execution.replication_throttle import DIR_RATES
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from tests.commands import call
from tests.live.kafka_cluster import CONTROLLER_ID, DEFAULT_VERSION, KafkaCluster, Node, wait_until
from tests.live.kafka_tools import run_tool

pytestmark = [pytest.mark.slow, pytest.mark.live]

_PARTITIONS = 8
Places = dict[tuple[str, int, int], str]  # log dir by topic, partition and broker


@pytest.fixture(scope="module")
def jbod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Two brokers of Kafka 4.1, each with three log dirs."""
    running = KafkaCluster(Path(tmp_path_factory.mktemp("jbod")) / "cluster", brokers=2, racks=0, log_dirs=3)
    try:
        running.start()
        running.create_topics({"orders": ({p: [p % 2 + 1, 2 - p % 2] for p in range(_PARTITIONS)}, {})})
        running.wait_until_settled(_PARTITIONS)
        yield running
    finally:
        running.stop()


def find_places(cluster: KafkaCluster) -> tuple[Places, int]:
    """Return the log dir of each replica, and how many are being moved."""
    places: Places = {}
    future = 0
    with KafkaAdmin(cluster.bootstrap, ClientProperties()) as admin:
        for broker in (1, 2):
            for log_dir in admin.describe_log_dirs(broker):
                assert log_dir["total_bytes"] > log_dir["usable_bytes"] > 0
                for topic in log_dir["topics"]:
                    for one in topic["partitions"]:
                        future += one["is_future_key"]
                        if not one["is_future_key"]:
                            places[topic["name"], one["partition_index"], broker] = log_dir["log_dir"]
    return places, future


def reassign(cluster: KafkaCluster, file: Path, *options: str) -> str:
    """Run kafka-reassign-partitions."""
    arguments = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(file), *options)
    return run_tool(DEFAULT_VERSION, "kafka-reassign-partitions", *arguments)


def _apply(cluster: KafkaCluster, plan: Path, *options: str, code: int = 0) -> str:
    out = call("apply", str(plan), "--bootstrap-server", cluster.bootstrap, *options, code=code)
    return out.stdout + out.stderr


def _kill_while_moving(cluster: KafkaCluster, plan: Path) -> None:
    """Apply a plan slowly, and kill the process as soon as a replica moves."""
    command = [sys.executable, "-m", "pipelines.cli", "apply", str(plan), "--bootstrap-server", cluster.bootstrap]
    process = subprocess.Popen([*command, "--execute", "--throttle", "50kB"], stdout=subprocess.DEVNULL)
    wait_until(lambda: find_places(cluster)[1] > 0, "no replica moves")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert read_dir_rates(cluster) == {"50000"}


def read_dir_rates(cluster: KafkaCluster) -> set[str]:
    """Return the throttles of moves between log dirs, of all brokers."""
    with KafkaAdmin(cluster.bootstrap, ClientProperties()) as admin:
        return {rate for broker in (1, 2) for rate in admin.describe_own_broker_configs(broker, DIR_RATES).values()}


def test_replicas_move_between_log_dirs_as_planned(jbod: KafkaCluster, tmp_path: Path) -> None:
    """By Kafka's own tool, and by apply: whole, killed and continued, rolled back, and cancelled."""
    wait_until(lambda: len(find_places(jbod)[0]) == 2 * _PARTITIONS, "not every replica has a log dir")
    before, _ = find_places(jbod)
    crowded = {broker: min(path for (*_, id_), path in before.items() if id_ == broker) for broker in (1, 2)}
    large = [p for p in range(_PARTITIONS) if before["orders", p, 1] == crowded[1]]
    assert len(large) > 1
    jbod.produce({("orders", p): 100 if p in large else 2 for p in range(_PARTITIONS)})
    plan, source = tmp_path / "plan", f"jbod=kafka://{jbod.bootstrap}"
    # All log dirs are on one volume here, which may be nearly full.
    ratio = ("--set", "capacity.max_disk_ratio=1")
    out = call("plan", source, "--goal", "log-dirs", "--throttle", "100MB", "--out", str(plan), *ratio).stdout
    document = json.loads((plan / "plan.json").read_text())
    assert all(one["max_over_mean"] < one["max_over_mean_before"] for one in document["certificate"]["brokers"])
    planned = {
        (change["topic"], change["partition"], int(broker)): path
        for change in document["changes"]
        for broker, path in change["log_dirs"].items()
    }
    assert planned
    throttle = ("--replica-alter-log-dirs-throttle", "100000000")
    assert " ".join(throttle) in out
    assert f"kafka-placement apply {plan} --bootstrap-server " in out
    executed = reassign(jbod, plan / "wave-01.json", "--execute", *throttle)
    assert executed.count("Successfully started moving log directory") == len(planned)
    wait_until(lambda: find_places(jbod)[1] == 0, "the moves between log dirs do not end")
    verified = reassign(jbod, plan / "wave-01.json", "--verify")
    assert verified.count("completed successfully") == len(planned), verified
    after, _ = find_places(jbod)
    assert after == before | planned
    assert call("check", str(plan), source).stdout.startswith("done: ")
    assert "as planned: " in _apply(jbod, plan, "--verify")
    _apply(jbod, plan, "--rollback", "--execute")
    assert find_places(jbod) == (before, 0)
    assert read_dir_rates(jbod) == set()
    assert "as before the plan, which is not applied" in _apply(jbod, plan, "--verify", code=EXIT_NOT_APPLIED)
    count = sum(path != before[replica] for replica, path in planned.items())
    assert f"{count} replica{'s' if count > 1 else ''} to copy" in _apply(jbod, plan)
    _kill_while_moving(jbod, plan)
    _apply(jbod, plan, "--cancel")
    places, future = find_places(jbod)
    assert not future
    assert all(path in (before[replica], planned.get(replica)) for replica, path in places.items())
    _kill_while_moving(jbod, plan)
    assert "as planned: " in _apply(jbod, plan, "--execute", "--throttle", "100MB")
    assert find_places(jbod) == (before | planned, 0)
    assert read_dir_rates(jbod) == set()
    assert "nothing to do" in _apply(jbod, plan, "--execute")
    _apply(jbod, plan, "--rollback", "--execute")
    assert find_places(jbod) == (before, 0)


@pytest.mark.parametrize("tool", ["apply", "kafka-reassign-partitions"])
def test_copied_replicas_are_in_the_planned_log_dirs(jbod: KafkaCluster, tmp_path: Path, tool: str) -> None:
    topic = f"single-{tool}"
    jbod.create_topics({topic: ({p: [1] for p in range(4)}, {})})
    jbod.produce({(topic, p): 50 for p in range(4)})
    wait_until(lambda: all((topic, p, 1) in find_places(jbod)[0] for p in range(4)), "not every replica has a log dir")
    plan, source = tmp_path / "plan", f"jbod=kafka://{jbod.bootstrap}"
    call("plan", source, "--goal", "rf", "--rf", "2", "--topics", topic, "--out", str(plan))
    changes = json.loads((plan / "plan.json").read_text())["changes"]
    planned = {(one["topic"], one["partition"], int(b)): path for one in changes for b, path in one["log_dirs"].items()}
    assert {key[2] for key in planned} == {2}
    assert len({*planned.values()}) > 1
    if tool == "apply":
        call("apply", str(plan), "--bootstrap-server", jbod.bootstrap, "--execute")
        after, moving = find_places(jbod)
        assert planned.items() <= after.items()
        assert not moving
    else:
        reassign(jbod, plan / "wave-01.json", "--execute")
        wait_until(lambda: planned.items() <= find_places(jbod)[0].items(), "replicas are not where they should be")


def test_a_running_cluster_shows_the_bytes_of_its_volumes(jbod: KafkaCluster, tmp_path: Path) -> None:
    call("snapshot", f"jbod=kafka://{jbod.bootstrap}", "--out", str(tmp_path / "files"))
    text = next((tmp_path / "files").rglob("log-dirs.txt")).read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("{")]
    dirs = [log_dir for broker in json.loads(line)["brokers"] for log_dir in broker["logDirs"]]
    assert len(dirs) == 6
    assert all(log_dir["totalBytes"] > log_dir["usableBytes"] > 0 for log_dir in dirs)


def fail_log_dir(cluster: KafkaCluster, broker: int, name: str) -> None:
    """Put a file in the place of a log dir, and wait until the broker has noticed: root can write to any folder."""
    log_dir = cluster.nodes[broker].folder / name
    while log_dir.exists():  # the broker may write to it meanwhile
        shutil.rmtree(log_dir, ignore_errors=True)
    log_dir.write_text("failed")

    def has_failed(node: Node) -> bool:
        with KafkaAdmin(f"127.0.0.1:{node.port}", ClientProperties()) as admin:
            lost = [one for one in admin.describe_log_dirs(broker) if one["error"]]
            offline = [p for topic in admin.describe_topics()[0] for p in topic.partitions if p.offline]
            return bool(lost and offline) and all(broker not in p.isr for p in offline)

    for node in cluster.nodes.values():  # each shows what it knows
        if node.id != CONTROLLER_ID and node.is_running:
            wait_until(partial(has_failed, node), f"broker {node.id} does not notice that {name} of {broker} failed")


def test_a_repair_moves_what_a_failed_log_dir_has_lost(tmp_path: Path) -> None:
    """Brokers that are live lose replicas with a log dir, of which Kafka brings none back before a restart."""
    cluster = KafkaCluster(tmp_path / "cluster", brokers=4, racks=0, log_dirs=3)
    try:
        cluster.start()
        lists = {p: [(p + i) % 4 + 1 for i in range(3)] for p in range(12)}
        cluster.create_topics({"orders": (lists, {"min.insync.replicas": "2"})})
        cluster.wait_until_settled(12)
        cluster.produce({("orders", p): 10 for p in range(12)})
        with KafkaAdmin(cluster.bootstrap, ClientProperties()) as admin:
            (last,) = [one for one in admin.describe_log_dirs(1) if one["log_dir"].endswith("data-3")]
        lost = {one["partition_index"] for topic in last["topics"] for one in topic["partitions"]}
        assert lost
        fail_log_dir(cluster, 1, "data-3")
        source, plan = f"jbod=kafka://{cluster.bootstrap}", tmp_path / "plan"
        verdict = call("what-if", source, "--all").stdout
        count = f"{len(lost)} partition{'s' if len(lost) > 1 else ''}"
        replicas = f"{len(lost)} replica{'s' if len(lost) > 1 else ''} on broker 1"
        assert f"AT RISK: log dir {last['log_dir']} of broker 1 failed: {replicas}" in verdict
        assert "look at these brokers" not in verdict
        call("plan", source, "--goal", "repair", "--out", str(plan))
        changes = json.loads((plan / "plan.json").read_text())["changes"]
        assert {change["partition"] for change in changes} == lost
        assert all(1 in change["before"] and 1 not in change["after"] for change in changes)
        call("apply", str(plan), "--bootstrap-server", cluster.bootstrap, "--execute")
        cluster.wait_until_settled(12)
        assert "as planned: " in call("apply", str(plan), "--bootstrap-server", cluster.bootstrap, "--verify").stdout
        after = call("what-if", source, "--all").stdout
        assert f"log dir {last['log_dir']} of broker 1 failed." in after.lower()
        assert "are offline" not in after
        back = call(
            "apply", str(plan), "--bootstrap-server", cluster.bootstrap, "--rollback", "--execute", code=1
        ).stderr
        assert f"log dir {last['log_dir']} of broker 1 failed, and the rollback would copy {count} back to that" in back
        with KafkaAdmin(cluster.bootstrap, ClientProperties()) as admin:
            assert admin.list_reassignments() == {}
    finally:
        cluster.stop()
