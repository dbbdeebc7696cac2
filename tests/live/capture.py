"""Records what Kafka's tools print of a sick cluster at one moment: `python -m tests.live.capture kafka_4_4 FOLDER`.

Broker 2 of four is down, broker 4 is cordoned (Kafka 4.3 and later), and topic `big` is being moved to broker 3.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from pipelines.execution.cluster_view import view_cluster
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from tests.live.chaos import WITH_CORDONS
from tests.live.kafka_cluster import CONTROLLER_ID, KafkaCluster, wait_until
from tests.live.kafka_tools import run_tool

_TOPICS = {
    "big": ({0: [1, 4]}, {}),
    "orders": ({p: [p % 4 + 1, (p + 1) % 4 + 1, (p + 2) % 4 + 1] for p in range(6)}, {"min.insync.replicas": "2"}),
    "clicks": ({p: [p + 1, (p + 2) % 4 + 1] for p in range(4)}, {"retention.ms": "3600000"}),
    "single": ({0: [2], 1: [3]}, {"unclean.leader.election.enable": "true"}),
}
_NO_SHELL = ("kafka_4_4",)  # its jar is not published


def record(release: str, folder: Path) -> None:
    """Start a cluster, make it sick, and write what each tool prints to a file in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        settings = {"metadata.log.max.snapshot.interval.ms": "20000"}
        cluster = KafkaCluster(Path(work, "cluster"), release, 4, log_dirs=2, controllers=3, settings=settings)
        try:
            cluster.start()
            _make_sick(cluster, Path(work))
            _record_all(cluster, Path(work), folder)
        finally:
            cluster.stop()


def _make_sick(cluster: KafkaCluster, work: Path) -> None:
    cluster.create_topics(_TOPICS)
    count = sum(len(lists) for lists, _ in _TOPICS.values())
    cluster.wait_until_settled(count)
    cluster.produce({("big", 0): 500, ("orders", 0): 30, ("orders", 3): 10, ("single", 1): 5})
    cluster.nodes[2].kill()
    file = work / "move.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "big", "partition": 0, "replicas": [3, 1]}]}))
    with KafkaAdmin(f"127.0.0.1:{cluster.nodes[1].port}", ClientProperties()) as admin:
        wait_until(lambda: 2 not in view_cluster(admin).unfenced_brokers, "broker 2 is not fenced")
        if cluster.version in WITH_CORDONS:
            admin.alter_broker_configs(4, {"cordoned.log.dirs": "*"})


def _record_all(cluster: KafkaCluster, work: Path, folder: Path) -> None:
    server = ("--bootstrap-server", f"127.0.0.1:{cluster.nodes[1].port}")
    release, move = cluster.version, str(work / "move.json")

    def write(name: str, tool: str, *arguments: str) -> None:
        (folder / name).write_text(run_tool(release, tool, *server, *arguments).replace(str(cluster.folder), "/data"))

    topics = work / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "orders"}]}))
    write(
        "reassign-generate.txt",
        "kafka-reassign-partitions",
        *("--topics-to-move-json-file", str(topics), "--broker-list", "1,3,4", "--generate"),
    )
    write(
        "reassign-execute.txt",
        "kafka-reassign-partitions",
        *("--reassignment-json-file", move, "--execute", "--throttle", "1000"),
    )
    write("reassignment-list.txt", "kafka-reassign-partitions", "--list")
    write("topics-describe.txt", "kafka-topics", "--describe")
    write("log-dirs.txt", "kafka-log-dirs", "--describe", "--broker-list", "1,3,4")
    write("metadata-quorum.status.txt", "kafka-metadata-quorum", "describe", "--status")
    write("metadata-quorum.replication.txt", "kafka-metadata-quorum", "describe", "--replication")
    write("topic-configs.brokers.txt", "kafka-configs", "--describe", "--entity-type", "brokers")
    write("topic-configs.txt", "kafka-configs", "--describe", "--entity-type", "topics")
    election = ("--election-type", "preferred", "--all-topic-partitions")
    text = run_tool(release, "kafka-leader-election", *server, *election, may_fail=True)
    (folder / "leader-election.txt").write_text(text)
    data = cluster.nodes[CONTROLLER_ID].folder / "data" / "__cluster_metadata-0"
    snapshots: list[Path] = []
    wait_until(lambda: bool(snapshots.extend(sorted(data.glob("*-*.checkpoint"))) or snapshots[1:]), "no snapshot")
    dump = ("--cluster-metadata-decoder", "--files")
    logs = ",".join(map(str, sorted(data.glob("*.log"))))
    for name, files in (
        ("cluster-metadata-dump.txt", logs),
        ("cluster-metadata-dump.snapshot.txt", str(snapshots[-1])),
    ):
        (folder / name).write_text(
            run_tool(release, "kafka-dump-log", *dump, files).replace(str(cluster.folder), "/data")
        )
    if release not in _NO_SHELL:
        copy = Path(shutil.copy(snapshots[-1], work))  # the controller has locked its folder
        texts = (
            f">> {command}\n{run_tool(release, 'kafka-metadata-shell', '--snapshot', str(copy), *command.split())}"
            for command in ("tree image/topics/byName", "tree image/cluster/brokers")
        )
        (folder / "metadata-shell.txt").write_text("".join(texts))


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]))
