"""What a running cluster says of its brokers, topics and reassignments."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from udfs.failures.scenarios import QuorumVoters, find_lags


class LiveBroker(NamedTuple):
    """A registered broker."""

    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool | None  # None = the cluster does not say it


class LivePartition(NamedTuple):
    """A partition; leader -1 = none; elr, last_known_elr: None = the cluster does not say it."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


class LiveTopic(NamedTuple):
    """A topic; topic_id: None = the cluster has no ids."""

    name: str
    topic_id: str | None
    partitions: tuple[LivePartition, ...]


class ClusterDescription(NamedTuple):
    """What describes a cluster as a whole."""

    cluster_id: str | None
    brokers: tuple[LiveBroker, ...]
    operations: tuple[str, ...] = ()  # what the user may do on the cluster, as in ALTER; empty = not known
    silent_brokers: tuple[int, ...] = ()  # that are registered and not fenced, but do not answer


class Feature(NamedTuple):
    """Levels of a feature, as metadata.version. finalized: of the cluster (0 = not); others: of one broker."""

    lowest: int
    highest: int
    finalized: int


Features = dict[str, Feature]


class QuorumNode(NamedTuple):
    """A node of the controller quorum. Times are ms since 1970, -1 = never."""

    id: int
    directory_id: str | None
    is_voter: bool
    log_end_offset: int
    last_fetch_ms: int
    caught_up_ms: int
    endpoints: tuple[str, ...]  # as CONTROLLER://host:port


class Quorum(NamedTuple):
    """The controller quorum. leader: -1 = none."""

    leader: int
    nodes: tuple[QuorumNode, ...]

    @property
    def voters(self) -> QuorumVoters:
        """Its voters, and which of them lag."""
        nodes = [node for node in self.nodes if node.is_voter]
        ids = [node.id for node in nodes]
        ends = pa.array([one.log_end_offset for one in nodes], pa.int64())
        times = pa.array([one.caught_up_ms for one in nodes], pa.int64())
        leads = pa.array([id_ == self.leader for id_ in ids], pa.bool_())
        follows = find_lags(ends, times, leads)[1].to_pylist()
        lagging = tuple(id_ for id_, is_ok in zip(ids, follows, strict=True) if is_ok is False)
        return QuorumVoters(tuple(ids), lagging, self.leader if self.leader in ids else None)


class OngoingReassignment(NamedTuple):
    """An ongoing reassignment."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that it ends with, in their order."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def ends_when_cancelled(self) -> bool:
        """Whether it only drops what an earlier one added: it never completes since 4.3, and cancelled leads there."""
        return bool(self.adding) and set(self.adding) == set(self.removing)


def read_topic(topic: Mapping[str, Any]) -> LiveTopic:
    """Read a topic as the client describes it."""
    partitions = sorted(map(read_partition, topic["partitions"]))
    return LiveTopic(topic["name"], format_uuid(topic.get("topic_id")), tuple(partitions))


def read_partition(partition: Mapping[str, Any]) -> LivePartition:
    """Read a partition as the client describes it."""

    def ids(name: str) -> tuple[int, ...]:
        return tuple(partition.get(name) or ())

    elrs: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (None, None)
    if "eligible_leader_replicas" in partition:
        elrs = (ids("eligible_leader_replicas"), ids("last_known_elr"))
    return LivePartition(
        partition["partition_index"],
        partition["leader_id"],
        ids("replica_nodes"),
        ids("isr_nodes"),
        ids("offline_replicas"),
        *elrs,
    )


def read_quorum(answer: Mapping[str, Any]) -> Quorum:
    """Read the quorum as the client describes it."""
    (partition,) = answer["topics"][0]["partitions"]
    places = {
        node["node_id"]: tuple(f"{one['name']}://{one['host']}:{one['port']}" for one in node["listeners"])
        for node in answer.get("nodes") or ()
    }
    nodes = (
        QuorumNode(
            one["replica_id"],
            format_uuid(one.get("replica_directory_id")),
            name == "current_voters",
            one["log_end_offset"],
            one.get("last_fetch_timestamp", -1),
            one.get("last_caught_up_timestamp", -1),
            places.get(one["replica_id"], ()),
        )
        for name in ("current_voters", "observers")
        for one in partition[name] or ()
    )
    return Quorum(partition["leader_id"], tuple(nodes))


def format_uuid(value: uuid.UUID | str | None) -> str | None:
    """Format an id as Kafka does: base64 without padding; None without one, and for that of topics without one."""
    one = uuid.UUID(str(value)) if value else None
    return base64.urlsafe_b64encode(one.bytes).decode().rstrip("=") if one is not None and one.int else None
