"""Random sick clusters with disks, as a running cluster shows itself: what `apply` sees, and the files of a source.

Every replica has a size of its own. Brokers have several log dirs, of which some share a volume, have failed or are of
unknown size; some brokers do not answer. Logs may be left over, or under way between log dirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pipelines.execution.cluster_view import ClusterView
from pipelines.live.cluster_reader import ClusterReading
from pipelines.live.cluster_records import ClusterDescription, LiveBroker, LivePartition, LiveTopic, OngoingReassignment
from tests.properties.sick_clusters import Key, Partition, SickCluster, draw_cluster

LOST = "left-over"  # a topic of which only logs are left
_TOTALS = (20_000_000, 5_000_000)  # bytes of a volume


class HeldBytes(NamedTuple):
    """The bytes of brokers."""

    logs: Counter[int]  # of all logs
    log_dirs: Counter[tuple[int, str]]  # of these, by log dir
    replicas: Counter[int]  # of assigned replicas
    assigned: Counter[int]  # likewise, also of those in failed log dirs


@dataclass(frozen=True)
class DiskCluster:
    """A cluster, and what its brokers answer to DescribeLogDirs."""

    cluster: SickCluster
    reading: ClusterReading

    @property
    def view(self) -> ClusterView:
        """What `apply` sees of it."""
        read = self.reading
        partitions = {(topic.name, one.partition): one for topic in read.topics for one in topic.partitions}
        ids = {topic.name: topic.topic_id for topic in read.topics}
        return ClusterView(read.state, partitions, ids, read.reassignments)

    def list_logs(self) -> Iterator[tuple[int, str, Key, int, bool]]:
        """Yield broker, log dir, partition, bytes, and whether it is on its way to this log dir, of all logs."""
        for broker, dirs in self.reading.log_dirs.items():
            for log_dir in dirs:
                for topic in log_dir["topics"]:
                    for one in topic["partitions"]:
                        key = (topic["name"], one["partition_index"])
                        yield broker, log_dir["log_dir"], key, one["partition_size"], one["is_future_key"]

    def sum_bytes(self, live: Collection[int]) -> HeldBytes:
        """Sum bytes by hand. live: the brokers that are surely live.

        A replica without a log is as large as the log of its leader, or else the largest one of its partition; in a
        failed log dir of a live broker, it takes no room on any disk that works.
        """
        held = HeldBytes(Counter(), Counter(), Counter(), Counter())
        own: dict[tuple[int, Key], int] = {}
        offline = {key: one.offline for key, one in self.view.partitions.items()}
        for broker, path, key, size, is_future in self.list_logs():
            held.logs[broker] += size
            held.log_dirs[broker, path] += size
            if not is_future:
                own[broker, key] = size
        for key, one in self.cluster.partitions.items():
            known = {broker: own[broker, key] for broker in one.replicas if (broker, key) in own}
            of_leader = known.get(-1 if one.leader is None else one.leader, max(known.values(), default=0))
            for broker in one.replicas:
                is_lost = broker in live and broker in offline[key]
                held.assigned[broker] += known.get(broker, of_leader)
                held.replicas[broker] += 0 if is_lost else known.get(broker, of_leader)
                held.logs[broker] += 0 if is_lost or broker in known else of_leader
        return held

    def unregister(self, broker: int) -> DiskCluster:
        """Return the cluster without the registration of a broker that is down."""
        state, racks = self.reading.state, {**self.cluster.racks, broker: None}
        state = state._replace(brokers=tuple(one for one in state.brokers if one.id != broker))
        return DiskCluster(replace(self.cluster, racks=racks), replace(self.reading, state=state))

    def write(self, folder: Path) -> tuple[Path, ...]:
        """Write the files of a source."""
        return tuple(self.reading.write_files(folder))


def draw_disk_cluster(rng: Random) -> DiskCluster:
    """Draw a cluster."""
    cluster = draw_cluster(rng)
    dirs = {broker: list(_draw_dirs(rng)) for broker in cluster.live if rng.random() < 0.9}
    failed = cluster.failed = dict.fromkeys(cluster.partitions, frozenset[int]())
    for key, one in cluster.partitions.items():
        size = rng.randrange(0, 1_000_000)
        if len(one.isr) == 1 and any(log_dir["error"] for log_dir in dirs.get(one.isr[0], ())) and rng.random() < 0.3:
            one.leader = None  # the last replica in sync may be in a failed log dir
        for broker in one.replicas:
            online = [log_dir for log_dir in dirs.get(broker, ()) if log_dir["error"] is None]
            # A replica that a broker with a failed log dir does not show would be taken to be there.
            if broker not in dirs or (len(online) == len(dirs[broker]) and rng.random() < 0.03):
                continue  # no log is shown
            may_fail = broker not in one.isr or one.leader is None
            is_last = one.leader is None and broker in one.isr
            if (len(online) < len(dirs[broker]) and may_fail and (is_last or rng.random() < 0.5)) or not online:
                failed[key] |= {broker} if may_fail else frozenset()
                continue
            part = rng.choice([0, rng.random()]) if broker in one.adding else rng.choice([1, 1, rng.uniform(0.5, 3)])
            _add_log(rng.choice(online), key, round(size * part))
            if len(online) > 1 and rng.random() < 0.05:
                here = next(d for d in online if _has_log(d, key))
                _add_log(rng.choice([d for d in online if d is not here]), key, size // 2, is_future=True)
    for own in dirs.values():
        online = [log_dir for log_dir in own if log_dir["error"] is None]
        if online and rng.random() < 0.3:
            _add_log(rng.choice(online), (LOST, rng.randrange(3)), rng.randrange(1_000_000))
    for own in dirs.values():
        _fill_volumes(rng, own)
    return DiskCluster(cluster, _read(cluster, dirs, failed, rng))


def _draw_dirs(rng: Random) -> Iterator[dict[str, Any]]:
    count = rng.choice([1, 1, 2, 2, 3])
    volume = 0
    for i in range(count):
        error = "KAFKA_STORAGE_ERROR" if count > 1 and i and rng.random() < 0.2 else None
        volume += i > 0 and rng.random() < 0.6  # else it shares the volume of the one before
        is_known = error is None and rng.random() < 0.9
        yield {"log_dir": f"/d{i}", "error": error, "topics": [], "volume": volume, "is_known": is_known}


def _add_log(log_dir: dict[str, Any], key: Key, size: int, is_future: bool = False) -> None:
    log = {"partition_index": key[1], "partition_size": size, "offset_lag": 0, "is_future_key": is_future}
    for topic in log_dir["topics"]:
        if topic["name"] == key[0]:
            topic["partitions"].append(log)
            return
    log_dir["topics"].append({"name": key[0], "partitions": [log]})


def _has_log(log_dir: dict[str, Any], key: Key) -> bool:
    return any(
        t["name"] == key[0] and any(p["partition_index"] == key[1] for p in t["partitions"]) for t in log_dir["topics"]
    )


def _fill_volumes(rng: Random, dirs: list[dict[str, Any]]) -> None:
    """Set the bytes of volumes: of what logs use, and of other files; each volume of a broker differs from others."""
    for volume in {log_dir["volume"] for log_dir in dirs}:
        here = [log_dir for log_dir in dirs if log_dir["volume"] == volume]
        logs = sum(p["partition_size"] for d in here for t in d["topics"] for p in t["partitions"])
        total = rng.choice(_TOTALS) + 1_000_000 * volume
        total = max(total, logs + rng.choice([0, 1_000_000]))
        usable = rng.randrange(0, total - logs + 1)
        is_known = all(log_dir["is_known"] for log_dir in here if log_dir["error"] is None)
        for log_dir in here:
            shown = is_known and log_dir["error"] is None
            log_dir |= {"total_bytes": total if shown else -1, "usable_bytes": usable if shown else -1}
    for log_dir in dirs:
        del log_dir["volume"], log_dir["is_known"]


def _read(
    cluster: SickCluster, dirs: dict[int, list[dict[str, Any]]], failed: dict[Key, frozenset[int]], rng: Random
) -> ClusterReading:
    """Return what is read of the cluster."""
    brokers = tuple(
        LiveBroker(id_, f"host-{id_}", 9092, rack, id_ in cluster.down) for id_, rack in cluster.racks.items()
    )
    moves = {
        key: OngoingReassignment(tuple(one.replicas), tuple(one.adding), tuple(one.removing))
        for key, one in cluster.partitions.items()
        if one.is_reassigned
    }

    def show(topic: str, i: int, one: Partition) -> LivePartition:
        offline = tuple(b for b in one.replicas if b in cluster.down or b in failed[topic, i])
        return LivePartition(i, -1 if one.leader is None else one.leader, tuple(one.replicas), tuple(one.isr), offline)

    topics = tuple(
        LiveTopic(topic.name, f"{i:A>22}", tuple(show(topic.name, p, one) for p, one in enumerate(topic.partitions)))
        for i, topic in enumerate(cluster.topics)
    )
    configs: dict[str, dict[str, str | None]] = {
        topic.name: {
            "min.insync.replicas": str(topic.min_isr),
            "unclean.leader.election.enable": rng.choice(["false", "false", "true"]),
        }
        for topic in cluster.topics
    }
    state = ClusterDescription("sickclustersickclusterA", brokers)
    return ClusterReading("server:9092", state, topics, configs, {}, None, moves, dirs, {}, None, {}, ())
