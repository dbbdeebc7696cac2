"""Writes what was read from a running cluster as Kafka's own tools print it, so that it is a source like any other.

Formats: TopicCommand, LogDirsCommand and ClusterTool of Kafka 4.1. Partitions also have the column of offline replicas
that Confluent's kafka-topics prints, and topics the two configs that failures depend on, even with Kafka's default.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.ingest.sources import ANSWER, RUNNING_CLUSTER
from pipelines.live import cluster_records as records

TOPICS, LOG_DIRS, OFFSETS = "topics-describe.txt", "log-dirs.txt", "end-offsets.txt"
BROKERS, BROKER_CONFIGS, NOT_READ = "brokers.txt", "broker-configs.txt", "not-read.txt"
FEATURES, QUORUM = "features.txt", "metadata-quorum.txt"
# What the files are called where they are not saved: as the request that they answer.
REQUESTS = {
    TOPICS: f"{ANSWER}DescribeTopics",
    LOG_DIRS: f"{ANSWER}DescribeLogDirs",
    OFFSETS: f"{ANSWER}ListOffsets",
    BROKERS: f"{ANSWER}DescribeCluster",
    BROKER_CONFIGS: f"{ANSWER}DescribeConfigs",
    FEATURES: f"{ANSWER}ApiVersions",
    QUORUM: f"{ANSWER}DescribeQuorum",
    NOT_READ: RUNNING_CLUSTER,
}
_NULL = "null"  # instead of a rack


def print_topics(
    topics: Sequence[records.LiveTopic],
    configs: Mapping[str, Mapping[str, str | None]],
    elrs: Mapping[tuple[str, int], records.LivePartition] | None,
    reassignments: Mapping[tuple[str, int], records.OngoingReassignment],
) -> Iterator[str]:
    """Yield the lines of `kafka-topics --describe`."""
    for topic in topics:
        ids = f"\tTopicId: {topic.topic_id}" if topic.topic_id else ""
        factor = 0
        if topic.partitions:  # as TopicCommand: the replicas of the first one, without those that are being added
            first = topic.partitions[0]
            moved = reassignments.get((topic.name, first.partition))
            factor = len(first.replicas) - (len(moved.adding) if moved else 0)
        texts = ",".join(f"{key}={value}" for key, value in sorted(configs.get(topic.name, {}).items()))
        counts = f"PartitionCount: {len(topic.partitions)}\tReplicationFactor: {factor}"
        yield f"Topic: {topic.name}{ids}\t{counts}\tConfigs: {texts}"
        for partition in topic.partitions:
            key = (topic.name, partition.partition)
            leader = partition.leader if partition.leader >= 0 else "none"
            line = f"\tTopic: {topic.name}\tPartition: {partition.partition}\tLeader: {leader}"
            line += f"\tReplicas: {_join(partition.replicas)}\tIsr: {_join(partition.isr)}"
            if moved := reassignments.get(key):
                line += f"\tAdding Replicas: {_join(moved.adding)}\tRemoving Replicas: {_join(moved.removing)}"
            if elrs is not None and key in elrs:
                line += f"\tElr: {_join(elrs[key].elr or ())}\tLastKnownElr: {_join(elrs[key].last_known_elr or ())}"
            yield f"{line}\tOffline: {_join(partition.offline)}"


def print_log_dirs(log_dirs: Mapping[int, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Yield the lines of `kafka-log-dirs --describe` for the brokers that answered."""
    ids = _join(sorted(log_dirs))
    yield "Querying brokers for log directories information"
    yield f"Received log directory information from brokers {ids}"
    brokers = [
        {"broker": broker, "logDirs": [_describe_dir(one) for one in log_dirs[broker]]} for broker in sorted(log_dirs)
    ]
    yield json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":"))


def print_brokers(state: records.ClusterDescription) -> Iterator[str]:
    """Yield the lines of `kafka-cluster cluster-id` and `list-endpoints`; no state if the cluster does not say it."""
    if state.cluster_id:
        yield f"Cluster ID: {state.cluster_id}"
    knows_states = any(broker.is_fenced is not None for broker in state.brokers)
    heads = ["ID", "HOST", "PORT", "RACK", *(["STATE"] if knows_states else []), "ENDPOINT_TYPE"]
    rows = [heads]
    for broker in state.brokers:
        states = ["fenced" if broker.is_fenced else "unfenced"] if knows_states else []
        rows.append([str(broker.id), broker.host, str(broker.port), broker.rack or _NULL, *states, "broker"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def print_broker_configs(configs: Mapping[int, Mapping[str, str]]) -> Iterator[str]:
    """Yield the lines of `kafka-configs --describe --all` for brokers, with the configs that were read."""
    for broker, entries in sorted(configs.items()):
        yield f"All configs for broker {broker} are:"
        yield from (f"  {key}={value} sensitive=false synonyms={{}}" for key, value in sorted(entries.items()))


def print_features(features: records.Features) -> Iterator[str]:
    """Yield the lines of `kafka-features describe`, with levels as numbers."""
    for name, feature in features.items():
        levels = f"SupportedMinVersion: {feature.lowest}\tSupportedMaxVersion: {feature.highest}"
        yield f"Feature: {name}\t{levels}\tFinalizedVersionLevel: {feature.finalized}"


def print_quorum(quorum: records.Quorum) -> Iterator[str]:
    """Yield the lines of `kafka-metadata-quorum describe`, with --status and with --replication."""
    yield f"LeaderId: {quorum.leader}"
    for name, is_voter in (("CurrentVoters", True), ("CurrentObservers", False)):
        nodes = [
            {"id": node.id, "directoryId": node.directory_id, "endpoints": list(node.endpoints)}
            for node in quorum.nodes
            if node.is_voter == is_voter
        ]
        yield f"{name}: {json.dumps(nodes)}"
    end = max((node.log_end_offset for node in quorum.nodes if node.id == quorum.leader), default=-1)
    yield "NodeId\tDirectoryId\tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus"
    for node in quorum.nodes:
        status = "Observer" if not node.is_voter else "Leader" if node.id == quorum.leader else "Follower"
        lag = max(end - node.log_end_offset, 0)
        row = (node.id, node.directory_id or "", node.log_end_offset, lag, node.last_fetch_ms, node.caught_up_ms)
        yield "\t".join(map(str, (*row, status)))


def print_offsets(offsets: Mapping[tuple[str, int], int]) -> Iterator[str]:
    """Yield the lines of `kafka-get-offsets`."""
    yield from (f"{topic}:{partition}:{offset}" for (topic, partition), offset in sorted(offsets.items()))


def _describe_dir(log_dir: Mapping[str, Any]) -> dict[str, Any]:
    partitions = [
        {
            "partition": f"{topic['name']}-{one['partition_index']}",
            "size": one["partition_size"],
            "offsetLag": one["offset_lag"],
            "isFuture": one["is_future_key"],
        }
        for topic in log_dir["topics"]
        for one in topic["partitions"]
    ]
    # Kafka's tool prints neither bytes of the volume nor cordons. The keys are those of DescribeLogDirs (-1 = unknown).
    volume = {"totalBytes": log_dir.get("total_bytes", -1), "usableBytes": log_dir.get("usable_bytes", -1)}
    known: dict[str, Any] = {key: value for key, value in volume.items() if value >= 0}
    if "is_cordoned" in log_dir:  # Kafka 4.3 and later
        known["isCordoned"] = log_dir["is_cordoned"]
    return {"partitions": partitions, "error": log_dir.get("error"), "logDir": log_dir["log_dir"], **known}


def _join(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))
