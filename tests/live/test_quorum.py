"""Failures that leave a majority of the controller quorum, or none: leaders as predicted, on real clusters."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaConnectionError

from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from tests.commands import call
from tests.live.kafka_cluster import CONTROLLER_ID, KafkaCluster, wait_until
from tests.seed_sampler import sample_some

pytestmark = [pytest.mark.slow, pytest.mark.live]

_TOPICS = {
    "orders": ({p: [p % 3 + 1, (p + 1) % 3 + 1, (p + 2) % 3 + 1] for p in range(6)}, {"min.insync.replicas": "2"}),
    "clicks": ({p: [p % 3 + 1, (p + 2) % 3 + 1] for p in range(3)}, {}),
    "single": ({p: [p + 1] for p in range(3)}, {}),
}
_PARTITIONS = sum(len(assignments) for assignments, _ in _TOPICS.values())
_SECONDS = 30  # after which leaders are compared


_VERSIONS = ("kafka_4_2", "kafka_4_3", "kafka_4_4")
_DYNAMIC = "kafka_4_4"  # whose voters are in the metadata log only
# Whether brokers are the controllers; in `make test`, each with one of the versions.
_LAYOUTS = [
    (version, combined) for combined in (True, False) for version in sample_some(_VERSIONS, 1, f"quorum {combined}")
]


@pytest.fixture(scope="module", params=_LAYOUTS, ids=[f"{v}-{'combined' if c else 'separate'}" for v, c in _LAYOUTS])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three brokers, and three controllers: the same nodes, or others."""
    version, combined = request.param
    folder = Path(tmp_path_factory.mktemp("kafka")) / "cluster"
    dynamic = version == _DYNAMIC
    running = KafkaCluster(folder, version=version, controllers=3, combined=combined, dynamic=dynamic)
    try:
        running.start()
        running.create_topics(_TOPICS)
        running.wait_until_settled(_PARTITIONS)
        yield running
    finally:
        running.stop()


def _read_leaders(cluster: KafkaCluster) -> dict[tuple[str, int], int | None]:
    """Read the leaders from a live broker; one whose process has ended leads nothing, whatever metadata say."""
    live = [node for node in cluster.nodes.values() if node.id < CONTROLLER_ID and node.is_running]
    topics: list[dict[str, Any]] = []

    def is_read() -> bool:
        with suppress(KafkaConnectionError):  # without a majority, brokers that are down are still listed, and tried
            admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{live[0].port}")
            topics[:] = admin.describe_topics(list(_TOPICS))
            admin.close()
        return bool(topics)

    wait_until(is_read, "no broker answers")
    ids = {node.id for node in live}
    found = {
        (topic["name"], one["partition_index"]): one["leader_id"] for topic in topics for one in topic["partitions"]
    }
    return {key: leader if leader in ids else None for key, leader in found.items()}


def _restore(cluster: KafkaCluster, failed: tuple[int, ...]) -> None:
    """Restart nodes, and have the preferred leaders lead again."""
    for id_ in failed:
        cluster.restart(id_)
    cluster.wait_until_settled(_PARTITIONS)
    with KafkaAdmin(cluster.bootstrap, ClientProperties()) as admin:
        admin.elect_preferred_leaders([(topic, p) for topic, (assignments, _) in _TOPICS.items() for p in assignments])


def _list_failures(request: pytest.FixtureRequest, cluster: KafkaCluster) -> list[tuple[int, ...]]:
    """List every node and every pair; in `make test`, a pair of voters and another one."""
    nodes, voters = list(cluster.nodes), [id_ for id_, node in cluster.nodes.items() if node.controller_port]
    sets = [*combinations(nodes, 1), *combinations(nodes, 2)]
    pair = sample_some(list(combinations(voters, 2)), 1, "pairs of voters")[0]
    return [pair, *sample_some([one for one in sets if one != pair], 1, request.node.name)]


def test_leaders_are_as_predicted(request: pytest.FixtureRequest, cluster: KafkaCluster, tmp_path: Path) -> None:
    saved = tmp_path / "prod"
    call("snapshot", f"prod=kafka://{cluster.bootstrap}", "--out", str(saved))
    voters = {id_ for id_, node in cluster.nodes.items() if node.controller_port}
    for failed in _list_failures(request, cluster):
        before = _read_leaders(cluster)
        out = json.loads(call("what-if", str(saved), "--fail", ",".join(map(str, failed)), "--json", "-").stdout)
        predicted = {(one["topic"], one["partition"]): one["leader_after"] for one in out["partitions"]}
        for id_ in failed:
            cluster.nodes[id_].kill()
        time.sleep(_SECONDS)
        if len(voters.difference(failed)) < 2:
            _check_verdict(cluster)
        found = _read_leaders(cluster)
        _restore(cluster, failed)
        lost = sum(leader is None for leader in found.values())
        moved = sum(before[key] != found[key] for key in found)
        print(json.dumps({"failed": failed, "without leader": lost, "moved": moved}))
        assert found == predicted, failed
        assert ("No leader can be elected" in json.dumps(out)) == (len(voters.difference(failed)) < 2), failed


def _check_verdict(cluster: KafkaCluster) -> None:
    """Without a majority, brokers still show those that failed as live, with the leaders of before."""
    text = call("what-if", f"prod=kafka://{cluster.bootstrap}", "--all").stdout
    assert "AT RISK: the controller quorum has no majority" in text
    assert "no controller with a majority answers: no leader is elected, and brokers, leaders and ISRs" in text
    assert "NodeNotReady" not in text
    live = sum(node.is_running for id_, node in cluster.nodes.items() if id_ < CONTROLLER_ID)
    assert text.startswith(f"cluster prod, {live} live broker")


def test_hung_voter_lags(cluster: KafkaCluster, tmp_path: Path) -> None:
    """What it shows before it hangs is old, not wrong: it counts once it has not followed for 10 s."""
    hung = next(id_ for id_, node in reversed(cluster.nodes.items()) if node.controller_port)
    process = cluster.nodes[hung].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    servers = ",".join(
        f"127.0.0.1:{node.port}" for id_, node in cluster.nodes.items() if id_ < CONTROLLER_ID and id_ != hung
    )

    def lags() -> bool:
        folder = tmp_path / str(time.monotonic_ns())
        call("snapshot", f"prod=kafka://{servers}", "--out", str(folder))
        quorum = load_snapshot(find_source(f"prod={folder}")).quorum.to_pylist()
        return any(row["node_id"] == hung and row["caught_up"] is False for row in quorum)

    try:
        # Where it was the active one, brokers pass on no requests until theirs to it have timed out.
        wait_until(lags, f"voter {hung} does not lag", seconds=150)
        text = call("what-if", f"prod=kafka://{servers}", "--all").stdout
        assert f"1 of 3 voters of the controller quorum is down or lags ({hung}): no other voter may fail" in text
    finally:
        process.send_signal(signal.SIGCONT)
        cluster.wait_until_settled(_PARTITIONS)
