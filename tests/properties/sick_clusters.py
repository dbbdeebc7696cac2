"""Random sick clusters, and slow checks of plans that share no code with planners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

Key = tuple[str, int]
_MAX_PARTITIONS = 6  # of a topic


class Planned(NamedTuple):
    """What a wave sets."""

    key: Key
    replicas: list[int]
    log_dirs: list[str] | None = None


Waves = list[list[Planned]]


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

    racks: dict[int, str | None]  # None also of brokers that are down and no longer registered
    down: set[int]
    topics: list[Topic]
    failed: dict[Key, frozenset[int]] = field(default_factory=dict)  # live brokers whose log dir of a partition failed
    caps_min_isr: bool = True  # as from Kafka 3.7 on, min.insync.replicas counts up to the number of replicas
    unknown: frozenset[int] = frozenset()  # live brokers of which the sources do not show it
    waits_for_all: bool = True  # as up to Kafka 4.2, a reassignment waits for all replicas of its target
    drops_at_once: bool = False  # as up to Kafka 3.7, where it may not have waited for them
    cordoned: frozenset[int] = frozenset()  # live brokers that get no new replicas
    cordoned_dirs: frozenset[tuple[int, str]] = frozenset()  # brokers and log dirs that get no replicas
    rejects_cordoned: bool = False  # as from Kafka 4.4 on, in any list

    @property
    def live(self) -> list[int]:
        return [broker for broker in self.racks if broker not in self.down]

    def find_min_isr(self, min_isr: int, replicas: int) -> int:
        """Return min.insync.replicas as it counts for so many replicas."""
        return min(min_isr, replicas) if self.caps_min_isr else min_isr

    @property
    def partitions(self) -> dict[Key, Partition]:
        return {(topic.name, i): one for topic in self.topics for i, one in enumerate(topic.partitions)}

    @property
    def factors(self) -> dict[str, int]:
        return {topic.name: topic.factor for topic in self.topics}


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


def find_harm(cluster: SickCluster, waves: Waves, expected: Expectation) -> Iterator[str]:
    """Execute a plan wave by wave as Kafka does, and yield each harm that it does."""
    lists = {key: list(one.replicas) for key, one in cluster.partitions.items()}
    in_sync = {
        key: {b for b in one.isr if b not in cluster.down and b not in cluster.failed[key]}
        for key, one in cluster.partitions.items()
    }
    start = {key: set(brokers) for key, brokers in in_sync.items()}
    for number, wave in enumerate(waves, 1):
        for key, new, _ in wave:
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
            if cordoned := copied & cluster.cordoned:
                yield f"{where}: copied to cordoned brokers {cordoned}"
            if lost := copied & cluster.failed[key]:
                yield f"{where}: {lost} would get back what is in a failed log dir"
            after = (in_sync[key] & set(new)) | (copied if in_sync[key] else set())
            if len(after) < min(len(start[key]), len(new)):
                yield f"{where}: {len(after)} in-sync copies are left of {len(start[key])}"
            lists[key], in_sync[key] = list(new), after
    for key in {planned.key for wave in waves for planned in wave if planned.key in lists}:
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
        lost = cluster.down | cluster.failed[key]
        live_isr = [b for b in one.isr if b not in lost]
        factor = cluster.factors[key[0]]
        places = {*cluster.racks} - lost - (cluster.cordoned - {*one.replicas})
        if one.is_reassigned or not live_isr or len(live_isr) > factor or len(places) < factor:
            continue
        if cluster.rejects_cordoned and cluster.cordoned.intersection(one.replicas):
            continue
        new = plan.get(key, one.replicas)
        if len(new) < factor or lost.intersection(new):
            yield f"{key[0]}-{key[1]} {one.replicas} (in sync: {live_isr}) -> {new}, replication factor {factor}"
