"""Cordoned brokers (KIP-1066) are read, get nothing from plans, and may be in no list since Kafka 4.4."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from kafka.errors import InvalidReplicationAssignmentError

from pipelines.execution.cluster_view import view_cluster
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.live.live_sources import read_snapshot
from pipelines.plan_files.plan_reader import read_plan
from tests.commands import call
from tests.live.kafka_cluster import KafkaCluster, wait_until
from tests.seed_sampler import sample_some

pytestmark = [pytest.mark.slow, pytest.mark.live]

_CORDONED = 3
_CONFIG = "cordoned.log.dirs"
_REQUESTED = [{"id": id_, "cordoned": id_ == _CORDONED} for id_ in (1, 2, 3)]
_PREFLIGHT = "Kafka 4.4 rejects lists with broker 3, all of whose log dirs are cordoned: 1 partition (t-0)"
_REJECTION = "The manual partition assignment includes broker 3, but all its log directories are cordoned."


def _read_cordoned(source: str) -> list[int]:
    brokers = json.loads(call("inspect", source, "--json", "-").stdout)["brokers"]
    assert {type(broker["cordoned"]) for broker in brokers} == {bool}
    return [broker["broker_id"] for broker in brokers if broker["cordoned"]]


def _find_cordoned_dirs(admin: KafkaAdmin) -> set[str]:
    return {row["log_dir"] for row in read_snapshot(admin)[0].log_dirs.to_pylist() if row["cordoned"]}


@pytest.mark.parametrize("version", sample_some(["kafka_4_3", "kafka_4_4"], 1, "versions with cordons"))
def test_a_cordoned_broker(version: str, tmp_path: Path) -> None:
    running = KafkaCluster(tmp_path / "cluster", version, brokers=4, racks=0, log_dirs=2)
    try:
        running.start()
        running.create_topics({"t": ({p: [1, 2] if p < 6 else [3, 1] for p in range(7)}, {"min.insync.replicas": "1"})})
        running.wait_until_settled(7)
        source = f"prod=kafka://{running.bootstrap}"
        with KafkaAdmin(running.bootstrap, ClientProperties()) as admin:
            for value, cordoned in ((str(running.nodes[_CORDONED].folder / "data"), []), ("*", [_CORDONED])):
                admin.alter_broker_configs(_CORDONED, {_CONFIG: value})
                assert _read_cordoned(source) == cordoned
            assert "Broker 3 is cordoned: it gets no new replicas." in call("what-if", source, "--all").stdout
            assert (
                "broker 3 cannot be filled" in call("plan", source, "--goal", "expand", "--brokers", "3", code=1).stderr
            )

            plan = tmp_path / "plan"
            assert "no new replicas: broker 3" in call("plan", source, "--goal", "balance", "--out", str(plan)).stdout
            lists = {key: one.after for key, one in read_plan(plan).changes.items()}
            assert lists
            assert not any(_CORDONED in brokers for key, brokers in lists.items() if key[1] != 6)
            arguments = ("apply", str(plan), "--bootstrap-server", running.bootstrap, "--execute")
            assert "as planned" in call(*arguments).stdout

            rejects = pytest.raises(InvalidReplicationAssignmentError, match=_REJECTION)
            with rejects if version == "kafka_4_4" else nullcontext():
                running.create_topics({"manual": ({0: [1, 3]}, {})})
            lists_of_manual = json.dumps({"algorithm": "manual", "brokers": _REQUESTED, "replica_assignment": "1:3"})
            (tmp_path / "manual.jsonl").write_text(lists_of_manual)
            assert _REJECTION in call("assign", str(tmp_path / "manual.jsonl"), code=0).stdout

            now = view_cluster(admin).partitions["t", 6].replicas
            for partition, replicas in ((0, [3, 2]), (6, list(reversed(now))), (6, [1, 2])):
                file, key = tmp_path / "lists.json", ("t", partition)
                entry = {"topic": "t", "partition": partition, "replicas": replicas}
                file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
                is_rejected = version == "kafka_4_4" and _CORDONED in replicas
                answer = json.loads(call("check", str(file), source, "--json", "-", code=int(is_rejected)).stdout)
                assert ("cordoned_broker" in {one["fault"] for one in answer["findings"]}) is is_rejected
                error = {key: f"InvalidReplicationAssignment: {_REJECTION}"} if is_rejected else {}
                assert admin.alter_reassignments({key: replicas}) == error
                wait_until(lambda: not admin.list_reassignments(), "a reassignment does not end")
                is_there = list(view_cluster(admin).partitions[key].replicas) == replicas
                assert is_there is not is_rejected

            # Drain it, and roll that back.
            admin.alter_broker_configs(_CORDONED, {_CONFIG: None})
            wait_until(lambda: not admin.alter_reassignments({("t", 0): [3, 2]}), "broker 3 stays cordoned")
            wait_until(lambda: not admin.list_reassignments(), "a reassignment does not end")
            admin.alter_broker_configs(_CORDONED, {_CONFIG: "*"})
            call("plan", source, "--goal", "drain", "--brokers", "3", "--out", str(drain := tmp_path / "drain"))
            arguments = ("apply", str(drain), "--bootstrap-server", running.bootstrap, "--execute")
            assert "as planned" in call(*arguments).stdout
            is_rejected = version == "kafka_4_4"
            answer = json.loads(call("check", str(drain / "rollback.json"), source, "--json", "-", code=1).stdout)
            fault = "cordoned_broker" if is_rejected else "cordoned_log_dir"  # the file names the log dirs of before
            assert {one["fault"] for one in answer["findings"]} == {fault}
            if is_rejected:
                for command in ((*arguments, "--rollback"), (*arguments[:-1], "--rollback")):
                    output = call(*command, code=1)
                    assert _PREFLIGHT in output.stdout + output.stderr
                assert not admin.list_reassignments()
                admin.alter_broker_configs(_CORDONED, {_CONFIG: None})
                time.sleep(3)  # until its next heartbeats
            assert "as before the plan" in call(*arguments, "--rollback").stdout

            # A broker that is partly cordoned: Kafka takes no such log dir, not even where a replica is in it.
            dirs = [one["log_dir"] for one in admin.describe_log_dirs(_CORDONED)]
            admin.alter_broker_configs(_CORDONED, {_CONFIG: dirs[0]})
            wait_until(lambda: _find_cordoned_dirs(admin) == {dirs[0]}, "the log dir is not cordoned")
            key, ids = ("t", 0), list(view_cluster(admin).partitions["t", 0].replicas)
            for path in dirs:
                paths = [path if id_ == _CORDONED else "any" for id_ in ids]
                entry = {"topic": key[0], "partition": key[1], "replicas": ids, "log_dirs": paths}
                (file := tmp_path / "dirs.json").write_text(json.dumps({"version": 1, "partitions": [entry]}))
                is_rejected = path == dirs[0]
                answer = json.loads(call("check", str(file), source, "--json", "-", code=int(is_rejected)).stdout)
                assert [one["fault"] for one in answer["findings"]] == ["cordoned_log_dir"] * is_rejected
                errors = admin.choose_log_dirs({(*key, _CORDONED): path})
                assert errors == ({key: f"InvalidReplicationAssignment: {path} on broker 3"} if is_rejected else {})

            # A drain that cordons, and its rollback, which brings the earlier value back.
            call("plan", source, "--goal", "drain", "--brokers", "3", "--out", str(drain := tmp_path / "again"))
            arguments = ("apply", str(drain), "--bootstrap-server", running.bootstrap, "--cordon")
            assert "broker 3 is cordoned from the first wave on whose lists leave it out" in call(*arguments).stdout
            assert _read_cordoned(source) == []
            output = call(*arguments, "--execute").stdout
            assert "broker 3 is cordoned: it gets no new replicas" in output
            assert "as planned" in output
            wait_until(lambda: _read_cordoned(source) == [_CORDONED], "broker 3 is not cordoned")
            assert "broker 3 cordoned, which --rollback undoes" in call(*arguments[:-1], "--verify").stdout
            assert "as before the plan" in call(*arguments[:-1], "--rollback", "--execute").stdout
            assert admin.describe_own_broker_configs(_CORDONED, (_CONFIG,)) == {_CONFIG: dirs[0]}
    finally:
        running.stop()
