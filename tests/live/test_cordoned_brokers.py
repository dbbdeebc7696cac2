"""Cordoned brokers (KIP-1066) are read, get nothing from plans, and may be in no list since Kafka 4.4."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from pipelines.execution.cluster_view import view_cluster
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.plan_files.plan_reader import read_plan
from tests.commands import call
from tests.live.kafka_cluster import KafkaCluster, wait_until
from tests.seed_sampler import sample_some

pytestmark = [pytest.mark.slow, pytest.mark.live]

_CORDONED = 3
_REJECTION = "The manual partition assignment includes broker 3, but all its log directories are cordoned."


def _read_cordoned(source: str) -> list[int]:
    brokers = json.loads(call("inspect", source, "--json", "-").stdout)["brokers"]
    assert {type(broker["cordoned"]) for broker in brokers} == {bool}
    return [broker["broker_id"] for broker in brokers if broker["cordoned"]]


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
                admin.alter_broker_configs(_CORDONED, {"cordoned.log.dirs": value})
                assert _read_cordoned(source) == cordoned
            assert "Broker 3 is cordoned: it gets no new replicas." in call("what-if", source).stdout
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
            admin.alter_broker_configs(_CORDONED, {"cordoned.log.dirs": None})
            wait_until(lambda: not admin.alter_reassignments({("t", 0): [3, 2]}), "broker 3 stays cordoned")
            wait_until(lambda: not admin.list_reassignments(), "a reassignment does not end")
            admin.alter_broker_configs(_CORDONED, {"cordoned.log.dirs": "*"})
            call("plan", source, "--goal", "drain", "--brokers", "3", "--out", str(drain := tmp_path / "drain"))
            arguments = ("apply", str(drain), "--bootstrap-server", running.bootstrap, "--execute")
            assert "as planned" in call(*arguments).stdout
            is_rejected = version == "kafka_4_4"
            answer = json.loads(
                call("check", str(drain / "rollback.json"), source, "--json", "-", code=int(is_rejected)).stdout
            )
            assert ("cordoned_broker" in {one["fault"] for one in answer["findings"]}) is is_rejected
            if is_rejected:
                assert _REJECTION in call(*arguments, "--rollback", code=1).stderr
                admin.alter_broker_configs(_CORDONED, {"cordoned.log.dirs": None})
                time.sleep(3)  # until its next heartbeats
            assert "as before the plan" in call(*arguments, "--rollback").stdout
    finally:
        running.stop()
