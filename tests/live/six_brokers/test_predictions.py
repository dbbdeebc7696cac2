"""Predicted leaders beside those that Kafka elects: after the failure of each broker, and of three pairs."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from pipelines.execution.cluster_view import view_cluster
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.simulation.cluster_replay import ReplayRequest, run_replay
from tests.commands import call
from tests.live.kafka_cluster import KafkaCluster, Node, wait_until
from tests.live.six_brokers.conftest import PARTITIONS, TOPICS
from tests.seed_sampler import sample_cases
from udfs.simulation.result_tables import get_final_state

pytestmark = [pytest.mark.slow, pytest.mark.live]

# Each broker fails as one of a pair; alone, another part of them in every run.
_FAILURES = [(1, 2), (3, 5), (4, 6), *sample_cases([(1,), (2,), (3,), (4,), (5,), (6,)], "single failures")]


@pytest.fixture(scope="module")
def saved(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot of the whole cluster."""
    folder = tmp_path_factory.mktemp("saved") / "prod"
    call("snapshot", f"prod=kafka://{cluster.bootstrap}", "--out", str(folder))
    return folder


@pytest.mark.parametrize("failed", _FAILURES, ids=[",".join(map(str, ids)) for ids in _FAILURES])
def test_leaders_are_as_predicted(cluster: KafkaCluster, saved: Path, failed: tuple[int, ...]) -> None:
    for broker in failed:
        cluster.nodes[broker].kill()
    with KafkaAdmin(cluster.bootstrap, ClientProperties()) as admin:
        wait_until(lambda: not view_cluster(admin).live_brokers & set(failed), "the failure is not noticed")
        ids = ",".join(map(str, failed))
        arguments = ("what-if", str(saved), "--fail", ids, "--actual", f"prod=kafka://{cluster.bootstrap}")
        check = json.loads(call(*arguments, "--json", "-").stdout)["check"]
        for broker in failed:
            cluster.restart(broker)
        cluster.wait_until_settled(PARTITIONS)
        admin.elect_preferred_leaders([(topic, p) for topic, (assignments, _) in TOPICS.items() for p in assignments])
    assert check["differences"] == []
    assert check["as_predicted"] == check["partitions"] == PARTITIONS


_OUTAGES = [
    ((1, 2, 4), Node.kill),
    ((2,), Node.stop),
    *sample_cases([((6, 3), Node.kill), ((5,), Node.kill)], "brokers that return"),
]


@pytest.mark.parametrize(("failed", "end"), _OUTAGES, ids=[",".join(map(str, ids)) for ids, _ in _OUTAGES])
def test_leaders_after_returns_are_as_replayed(
    cluster: KafkaCluster, tmp_path: Path, failed: tuple[int, ...], end: Callable[[Node], None]
) -> None:
    """A snapshot of the outage, replayed with each return of brokers that crashed, or were shut down."""
    for broker in failed:
        end(cluster.nodes[broker])
        wait_until(partial(is_down, cluster, broker), f"the failure of broker {broker} is not noticed")
    call("snapshot", f"prod=kafka://{cluster.bootstrap}", "--out", str(tmp_path / "prod"))
    try:
        for count, broker in enumerate(failed, 1):
            cluster.restart(broker)
            events = [f"t={place} broker {one} up" for place, one in enumerate(failed[:count])]
            (tmp_path / "returns.yaml").write_text(json.dumps({"events": events}))
            replay = run_replay(ReplayRequest([str(tmp_path / "prod"), str(tmp_path / "returns.yaml")]))
            rows = get_final_state(replay.simulation).partitions
            predicted = {(row["topic"], row["partition"]): row["leader"] or -1 for row in rows}
            with suppress(AssertionError):  # the comparison shows how they differ
                wait_until(partial(has_leaders, cluster, predicted), "")
            assert read_leaders(cluster) == predicted
            assert len(predicted) == PARTITIONS
    finally:
        for broker in failed:
            if not cluster.nodes[broker].is_running:
                cluster.restart(broker)
        cluster.wait_until_settled(PARTITIONS)


def is_down(cluster: KafkaCluster, broker: int) -> bool:
    with KafkaAdmin(cluster.bootstrap, ClientProperties()) as admin:
        return broker not in view_cluster(admin).live_brokers


def read_leaders(cluster: KafkaCluster) -> dict[tuple[str, int], int]:
    with KafkaAdmin(cluster.bootstrap, ClientProperties()) as admin:
        return {key: one.leader for key, one in view_cluster(admin).partitions.items()}


def has_leaders(cluster: KafkaCluster, leaders: dict[tuple[str, int], int]) -> bool:
    return read_leaders(cluster) == leaders
