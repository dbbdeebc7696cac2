"""Random sick clusters as the output of Kafka's tools, and slow checks of plans that share no code with planners."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

Key = tuple[str, int]
_MAX_PARTITIONS = 6  # of a topic


@dataclass
class Partition:
    """A partition as `kafka-topics --describe` shows it; the ISR as Kafka keeps it."""

    replicas: list[int]
    isr: list[int]
    leader: int | None
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)

    @property
    def is_reassigned(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass
class Topic:
    """A topic. The replication factor is what it was created with, which some of its partitions differ from."""

    name: str
    factor: int
    min_isr: int
    partitions: list[Partition]


@dataclass
class SickCluster:
    """Brokers, some of them down, and partitions in all states that a bad week leaves behind."""

    racks: dict[int, str | None]
    down: set[int]
    topics: list[Topic]

    @property
    def live(self) -> list[int]:
        return [broker for broker in self.racks if broker not in self.down]

    @property
    def partitions(self) -> dict[Key, Partition]:
        return {(topic.name, i): one for topic in self.topics for i, one in enumerate(topic.partitions)}

    @property
    def factors(self) -> dict[str, int]:
        return {topic.name: topic.factor for topic in self.topics}

    def write(self, folder: Path, rng: Random) -> Path:
        """Write what kafka-topics, kafka-cluster and kafka-log-dirs print of the cluster to a new folder."""
        folder.mkdir()
        (folder / "topics.txt").write_text("\n".join(self._describe()) + "\n")
        (folder / "brokers.txt").write_text("\n".join(self._list_endpoints()) + "\n")
        (folder / "log-dirs.txt").write_text("\n".join(self._describe_log_dirs(rng)) + "\n")
        return folder

    def _describe(self) -> Iterator[str]:
        for topic in self.topics:
            counts = f"PartitionCount: {len(topic.partitions)}\tReplicationFactor: {topic.factor}"
            yield f"Topic: {topic.name}\tTopicId: {'A' * 22}\t{counts}\tConfigs: min.insync.replicas={topic.min_isr}"
            for i, one in enumerate(topic.partitions):
                line = f"\tTopic: {topic.name}\tPartition: {i}\tLeader: {'none' if one.leader is None else one.leader}"
                line += f"\tReplicas: {_join(one.replicas)}\tIsr: {_join(one.isr)}"
                if one.is_reassigned:
                    line += f"\tAdding Replicas: {_join(one.adding)}\tRemoving Replicas: {_join(one.removing)}"
                yield line

    def _list_endpoints(self) -> Iterator[str]:
        yield "Cluster ID: sickclustersickclusterA"
        yield "ID  HOST  PORT  RACK  STATE  ENDPOINT_TYPE"
        for broker, rack in self.racks.items():
            state = "fenced" if broker in self.down else "unfenced"
            yield f"{broker}  host-{broker}  9092  {rack or 'null'}  {state}  broker"

    def _describe_log_dirs(self, rng: Random) -> Iterator[str]:
        yield "Querying brokers for log directories information"
        yield f"Received log directory information from brokers {_join(self.live)}"
        sizes = {key: rng.randrange(0, 1_000_000) for key in self.partitions}
        brokers = []
        for broker in self.live:
            dirs: list[list[dict[str, object]]] = [[], []]
            for (topic, i), one in self.partitions.items():
                if broker in one.replicas:
                    size = {"size": sizes[topic, i], "offsetLag": 0, "isFuture": False}
                    dirs[rng.randrange(2)].append({"partition": f"{topic}-{i}", **size})
            log_dirs = [{"logDir": f"/d{i}", "error": None, "partitions": logs} for i, logs in enumerate(dirs)]
            brokers.append({"broker": broker, "logDirs": log_dirs})
        yield json.dumps({"version": 1, "brokers": brokers})


def _join(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def draw_cluster(rng: Random) -> SickCluster:
    """Draw a cluster of 2 to 9 brokers: some down, replicas lagging, reassignments under way, factors that differ."""
    count = rng.randrange(2, 10)
    ids = sorted(rng.sample(range(1, 40), count))
    names = [f"r{i}" for i in range(rng.randrange(1, 5))]
    racks = {broker: rng.choice(names) if len(names) > 1 else None for broker in ids}
    down = set(rng.sample(ids, rng.choice([0, 1, 1, 1, 2, 2, 3]) % count))
    empty = rng.choice(ids) if rng.random() < 0.4 else None  # for expand and replace
    holders = [broker for broker in ids if broker != empty]
    topics = []
    for number in range(rng.randrange(1, 6)):
        factor = min(rng.choice([1, 2, 2, 3, 3, 3, 4]), len(holders))
        count = rng.randrange(1, _MAX_PARTITIONS + 1)
        # Kafka declares the replicas of partition 0, so only other ones differ from that.
        partitions = [_draw_partition(rng, holders, down, factor, differs=i > 0) for i in range(count)]
        topics.append(Topic(f"t{number}", factor, rng.choice([1, 1, 2, 2, 3]), partitions))
    return SickCluster(racks, down, topics)


def _draw_partition(rng: Random, holders: Sequence[int], down: set[int], factor: int, *, differs: bool) -> Partition:
    size = factor
    if differs and rng.random() < 0.2:  # patched by hand, or left over
        size = min(max(factor + rng.choice([-1, 1, 1, 2]), 1), len(holders))
    replicas = rng.sample(list(holders), size)
    adding, removing = [], []
    others = [broker for broker in holders if broker not in replicas]
    if others and rng.random() < 0.15:
        adding = rng.sample(others, rng.randrange(1, min(2, len(others), len(replicas)) + 1))
        if rng.random() < 0.8 or not differs:
            removing = rng.sample(replicas, min(len(adding), len(replicas)))
        replicas = [*adding, *replicas]
    lagging = {broker for broker in replicas if rng.random() < 0.15} | set(adding)
    isr = [broker for broker in replicas if broker not in down and broker not in lagging]
    if not isr:  # KRaft keeps the last one, live or not
        last = rng.choice([broker for broker in replicas if broker not in adding])
        isr = [last]
    leader = next((broker for broker in replicas if broker in isr and broker not in down), None)
    return Partition(replicas, rng.sample(isr, len(isr)), leader, adding, removing)


@dataclass(frozen=True)
class Expectation:
    """How many replicas a goal may give partitions beside the ones that they have."""

    goal: str
    asked: int | None = None  # replication factor of the goal rf
    topics: tuple[str, ...] = ()  # of the goal rf; empty = all


def find_harm(cluster: SickCluster, waves: Sequence[Mapping[Key, list[int]]], expected: Expectation) -> Iterator[str]:
    """Execute a plan wave by wave as Kafka does, and yield each harm that it does."""
    lists = {key: list(one.replicas) for key, one in cluster.partitions.items()}
    in_sync = {key: {b for b in one.isr if b not in cluster.down} for key, one in cluster.partitions.items()}
    start = {key: set(brokers) for key, brokers in in_sync.items()}
    for number, wave in enumerate(waves, 1):
        for key, new in wave.items():
            where = (
                f"wave {number}: {key[0]}-{key[1]} {lists.get(key)} (in sync: {sorted(in_sync.get(key, ()))}) -> {new}"
            )
            if key not in lists:
                yield f"{where}: unknown partition"
                continue
            if cluster.partitions[key].is_reassigned:
                yield f"{where}: is being reassigned"
            if not new or len(set(new)) != len(new):
                yield f"{where}: empty, or a replica is there twice"
            if dead := [broker for broker in new if broker not in cluster.live]:
                yield f"{where}: names brokers {dead}, which are down or unknown"
            if not in_sync[key]:
                yield f"{where}: nothing can be copied, as no replica in sync is live"
            copied = {broker for broker in new if broker not in lists[key]}
            after = (in_sync[key] & set(new)) | (copied if in_sync[key] else set())
            if len(after) < min(len(start[key]), len(new)):
                yield f"{where}: {len(after)} in-sync copies are left of {len(start[key])}"
            lists[key], in_sync[key] = list(new), after
    for key in {key for wave in waves for key in wave if key in lists}:
        yield from _check_factor(cluster, key, lists[key], expected)


def _check_factor(cluster: SickCluster, key: Key, new: Sequence[int], expected: Expectation) -> Iterator[str]:
    before, factor, where = len(cluster.partitions[key].replicas), cluster.factors[key[0]], f"{key[0]}-{key[1]}"
    if expected.goal == "rf":
        if expected.topics and key[0] not in expected.topics:
            yield f"{where}: changed, though its topic was not asked for"
        elif len(new) != expected.asked:
            yield f"{where}: {len(new)} replicas, {expected.asked} were asked for"
    elif expected.goal == "repair" and len(new) not in (factor, max(before, factor)):
        yield f"{where}: {before} replicas become {len(new)}, its topic has replication factor {factor}"
    elif expected.goal != "repair" and len(new) != before:
        yield f"{where}: {before} replicas become {len(new)}"


def find_unrepaired(cluster: SickCluster, plan: Mapping[Key, list[int]]) -> Iterator[str]:
    """Yield the partitions that a repair could restore to the replication factor of their topic, and did not."""
    for key, one in cluster.partitions.items():
        live_isr = [b for b in one.isr if b not in cluster.down]
        factor = cluster.factors[key[0]]
        if one.is_reassigned or not live_isr or len(live_isr) > factor or len(cluster.live) < factor:
            continue
        new = plan.get(key, one.replicas)
        if len(new) < factor or cluster.down.intersection(new):
            yield f"{key[0]}-{key[1]} {one.replicas} (in sync: {live_isr}) -> {new}, replication factor {factor}"
