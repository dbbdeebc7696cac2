"""Plans on a real cluster whose brokers answer each other, while one of them does not answer the client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from pipelines.config.settings import load_settings
from pipelines.errors import SourceError
from pipelines.execution.cluster_execution import ExecutionOptions, ExecutionStopped
from pipelines.execution.cluster_view import view_cluster
from pipelines.execution.journal import JOURNAL
from pipelines.execution.plan_application import PlanApplication
from pipelines.execution.planned_steps import PlannedSteps
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.live.kafka_connection import Key
from pipelines.plan_files.kafka_json import FOLLOWER_RATE, LEADER_RATE, LEADER_REPLICAS
from pipelines.plan_files.plan_reader import read_plan
from tests.commands import call
from tests.live.broker_gate import BrokerGate
from tests.live.kafka_cluster import KafkaCluster, find_free_ports, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.live]

_BROKERS = 4
_SILENT = 3
_TOPIC = {partition: [partition % 2 + 1, 2 - partition % 2] for partition in range(6)}  # on brokers 1 and 2
_RATES = (LEADER_RATE, FOLLOWER_RATE)


@pytest.fixture(scope="module")
def gates() -> Iterator[dict[int, BrokerGate]]:
    """What clients connect to in place of the brokers."""
    made = {id_: BrokerGate(port) for id_, port in enumerate(find_free_ports(_BROKERS), 1)}
    yield made
    for gate in made.values():
        gate.close()


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory, gates: dict[int, BrokerGate]) -> Iterator[KafkaCluster]:
    """Four brokers of Kafka 4.1 that reach each other directly."""
    ports = {id_: (gate.broker_port, gate.port) for id_, gate in gates.items()}
    folder = Path(tmp_path_factory.mktemp("kafka")) / "cluster"
    settings = {"broker.session.timeout.ms": "600000"}  # none fails, however slow this machine is
    running = KafkaCluster(folder, brokers=_BROKERS, racks=0, client_ports=ports, settings=settings)
    try:
        running.start()
        running.create_topics({"t": (_TOPIC, {})})
        running.wait_until_settled(len(_TOPIC))
        running.produce({("t", partition): 10 for partition in _TOPIC})
        yield running
    finally:
        running.stop()


@pytest.fixture
def servers(gated: KafkaCluster, gates: dict[int, BrokerGate]) -> Iterator[str]:
    """host:port of the gates, with all of them open, and the topic where it was in the beginning."""
    text = ",".join(f"127.0.0.1:{gate.port}" for gate in gates.values())
    yield text
    for gate in gates.values():
        gate.open()
    with KafkaAdmin(gated.bootstrap, ClientProperties()) as admin:
        for broker in gates:
            admin.alter_broker_configs(broker, dict.fromkeys(_RATES))
        admin.alter_reassignments({("t", partition): replicas for partition, replicas in _TOPIC.items()})
        wait_until(lambda: not admin.list_reassignments(), "the topic is not back")


@pytest.fixture
def plan(servers: str, tmp_path: Path) -> Path:
    """A plan that moves replicas from brokers 1 and 2 to 3 and 4."""
    goal = ("--goal", "expand", "--brokers", "3,4", "--out", str(tmp_path / "plan"))
    call("plan", f"prod=kafka://{servers}", *goal)
    return tmp_path / "plan"


def _apply(plan: Path, servers: str, *options: str, code: int = 0) -> str:
    out = call("apply", str(plan), "--bootstrap-server", servers, *options, code=code)
    return out.stdout + out.stderr


def _list_throttled(cluster: KafkaCluster) -> tuple[list[int], bool]:
    """Return the brokers with rates, and whether the topic has throttled replicas."""
    with KafkaAdmin(cluster.bootstrap, ClientProperties()) as admin:
        brokers = [id_ for id_ in range(1, _BROKERS + 1) if admin.describe_own_broker_configs(id_, _RATES)]
        return brokers, bool(admin.describe_topic_configs(["t"], (LEADER_REPLICAS,))["t"])


def test_closed_listener_is_named_before_anything_changes(
    gated: KafkaCluster, gates: dict[int, BrokerGate], servers: str, plan: Path
) -> None:
    gates[_SILENT].close()
    for mode in ((), ("--execute",), ("--rollback",), ("--rollback", "--execute")):
        text = _apply(plan, servers, *mode, code=1)
        address = f"127.0.0.1:{gates[_SILENT].port}"
        assert "broker 3 does not answer, though the cluster lists it as live (broker 3 at " in text
        assert f"{address} cannot be reached (Connection refused)" in text
    text = _apply(plan, servers, "--verify", code=1)  # if it got so far: requests go to any broker
    assert "whether throttles are left is not known: no answer from broker 3" in text or "broker 3 is live, but" in text
    assert not (plan / JOURNAL).exists()
    assert _list_throttled(gated) == ([], False)


def test_hung_broker_is_named_before_anything_changes(
    gates: dict[int, BrokerGate], servers: str, plan: Path, tmp_path: Path
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("request.timeout.ms=2000\nsocket.connection.setup.timeout.ms=2000\n")
    gates[_SILENT].hang()
    others = ",".join(f"127.0.0.1:{gate.port}" for id_, gate in gates.items() if id_ != _SILENT)
    for mode in ((), ("--execute",), ("--cancel",), ("--verify",)):
        begin = time.monotonic()
        text = _apply(plan, others, *mode, "--command-config", str(properties), code=1)
        assert time.monotonic() - begin < 20
        assert "broker 3" in text
        if mode in ((), ("--execute",)):
            assert "broker 3 does not answer, though the cluster lists it as live (broker 3 at " in text
            assert not (plan / JOURNAL).exists()


class _LosesBroker(KafkaAdmin):
    """A connection that loses a broker as soon as it begins to set throttles."""

    gate: BrokerGate | None = None

    def alter_topic_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        """Lose the broker, and change configs."""
        if self.gate is not None:
            self.gate.close()
        return super().alter_topic_configs(changes)


def test_broker_that_falls_silent_before_its_throttle_ends_the_execution(
    gated: KafkaCluster, gates: dict[int, BrokerGate], servers: str, plan: Path
) -> None:
    lines: list[str] = []
    # The closed broker rejects connections at once. The others may be slow on a busy machine.
    with _LosesBroker(servers, ClientProperties(request_timeout_ms=60_000, connect_timeout_ms=60_000)) as connection:
        connection.gate = gates[_SILENT]
        options = ExecutionOptions(50_000_000, max_pause_s=3)
        with pytest.raises(ExecutionStopped) as stopped:
            PlanApplication(plan, connection, lines.append).execute(options, load_settings())
    text = str(stopped.value)
    assert "paused for 3 s: the throttle is not set: no answer about the configs of broker 3" in text
    assert "No reassignment of the plan was submitted. Throttles stay set on broker 3." in text
    assert text.splitlines()[-1].endswith(f"--entity-name=3 --delete-config {LEADER_RATE},{FOLLOWER_RATE}")
    with KafkaAdmin(gated.bootstrap, ClientProperties()) as admin:
        assert admin.list_reassignments() == {}
    assert _list_throttled(gated) == ([], False)
    gates[_SILENT].open()
    assert "as planned" in _apply(plan, servers, "--execute")
    assert _list_throttled(gated) == ([], False)


def test_broker_that_falls_silent_while_it_copies_keeps_its_throttle_until_it_answers(
    gated: KafkaCluster, gates: dict[int, BrokerGate], servers: str, plan: Path
) -> None:
    waves = PlannedSteps.of_plan(read_plan(plan)).waves
    submitted: list[Key] = []

    class LosesBroker(KafkaAdmin):
        def alter_reassignments(self, targets: Mapping[Key, Sequence[int] | None]) -> dict[Key, str]:
            answer = super().alter_reassignments(targets)
            submitted.append(min(targets))
            if len(submitted) == waves:
                gates[_SILENT].close()
            return answer

    with LosesBroker(servers, ClientProperties(request_timeout_ms=60_000, connect_timeout_ms=60_000)) as connection:
        application = PlanApplication(plan, connection, lambda _: None)
        with pytest.raises(ExecutionStopped, match=r"complete, but throttles remain on broker 3\. Repeat"):
            application.execute(ExecutionOptions(50_000_000, max_pause_s=60), load_settings())
    assert _list_throttled(gated) == ([3], False)
    gates[_SILENT].open()
    assert "as planned" in _apply(plan, servers, "--execute")
    assert _list_throttled(gated) == ([], False)


def test_cancellation_ends_though_a_broker_is_silent(
    gated: KafkaCluster, gates: dict[int, BrokerGate], servers: str, plan: Path
) -> None:
    """Without a journal it has nothing to remove, and says that it does not know the throttles of one broker."""
    gates[_SILENT].close()
    text = _apply(plan, servers, "--cancel", code=1)
    assert "no answer from broker 3" in text or "broker 3 does not answer, though the cluster lists it as live" in text


def test_rejection_is_printed_and_leaves_no_throttle(gated: KafkaCluster, plan: Path) -> None:
    class MovesElsewhere(KafkaAdmin):
        def alter_reassignments(self, targets: Mapping[Key, Sequence[int] | None]) -> dict[Key, str]:
            return super().alter_reassignments({key: [*(ids or ()), 99] for key, ids in targets.items()})

    with MovesElsewhere(gated.bootstrap, ClientProperties()) as connection:
        application = PlanApplication(plan, connection, lambda _: None)
        with pytest.raises(ExecutionStopped) as stopped:
            application.execute(ExecutionOptions(50_000_000), load_settings())
    text = str(stopped.value)
    assert text.startswith("Kafka rejects the reassignment of ")
    assert "(InvalidReplicationAssignment: " in text
    assert "includes broker 99, but no such broker is registered" in text
    assert "No reassignment of the plan was submitted. No throttle of the plan is left." in text
    assert _list_throttled(gated) == ([], False)
    with KafkaAdmin(gated.bootstrap, ClientProperties()) as admin:
        assert view_cluster(admin).reassignments == {}


def test_rejected_throttle_is_printed(gated: KafkaCluster) -> None:
    with KafkaAdmin(gated.bootstrap, ClientProperties()) as admin, pytest.raises(SourceError) as error:
        admin.alter_broker_configs(1, {LEADER_RATE: "-7"})
    assert "Kafka rejects the configs of broker 1: " in str(error.value)
    assert "Value must be at least 0" in str(error.value)
