"""Kafka's own tools, run as a person does: what each prints."""

from __future__ import annotations

import subprocess

from pipelines.setup.java import check_java
from tests.live.kafka_cluster import find_class_path

# The classes of the scripts; where two are named, the second is of Kafka up to 4.2.
_CLASSES = {
    "kafka-cluster": ("org.apache.kafka.tools.ClusterTool",),
    "kafka-configs": ("org.apache.kafka.tools.ConfigCommand", "kafka.admin.ConfigCommand"),
    "kafka-dump-log": ("org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"),
    "kafka-get-offsets": ("org.apache.kafka.tools.GetOffsetShell",),
    "kafka-leader-election": ("org.apache.kafka.tools.LeaderElectionCommand",),
    "kafka-log-dirs": ("org.apache.kafka.tools.LogDirsCommand",),
    "kafka-metadata-quorum": ("org.apache.kafka.tools.MetadataQuorumCommand",),
    "kafka-metadata-shell": ("org.apache.kafka.shell.MetadataShell",),
    "kafka-reassign-partitions": ("org.apache.kafka.tools.reassign.ReassignPartitionsCommand",),
    "kafka-topics": ("org.apache.kafka.tools.TopicCommand",),
}
_NOT_THERE = "Could not find or load main class"


_OPTIONS = ("-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


def run_tool(release: str, tool: str, *arguments: str, may_fail: bool = False) -> str:
    """Run a tool of a release, as in kafka_4_4.

    Returns: what it prints; with may_fail, also its errors. Raises: RuntimeError if it fails otherwise.
    """
    for name in _CLASSES[tool]:
        command = (check_java().executable, *_OPTIONS, "-cp", find_class_path(release), name)
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        if _NOT_THERE not in done.stderr:
            break
    if may_fail:
        return done.stdout + done.stderr
    if done.returncode:
        raise RuntimeError(f"{tool} {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout
