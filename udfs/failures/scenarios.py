"""Which brokers fail together: racks, custom failures and random sets; and the controller quorum."""

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import offsets_of, row_of
from udfs.placement.topic_placement import mark_cordoned

# Of a voter that follows the leader: five times controller.quorum.fetch.timeout.ms, and it fetches far more often.
# The controller quorum: a majority of its voters elects leaders, completes reassignments and registers brokers.
# Voters are those of KRaft. One that is down, or does not follow the leader, does not count for a majority in time.
MAX_LAG_MS = 10_000
UNKNOWN_VOTER = -1  # stands for all voters where sources show nothing of them but that they have no majority


@dataclass(frozen=True)
class QuorumVoters:
    """The voters of a quorum, by node id; a node may be a broker as well. None at all: not known, or ZooKeeper."""

    voters: tuple[int, ...] = ()
    lagging: tuple[int, ...] = ()  # of these, those that are down or do not follow the leader
    leader: int | None = None  # the active controller, if it is known

    @property
    def majority(self) -> int:
        """The voters that it takes to elect a leader."""
        return len(self.voters) // 2 + 1

    @property
    def spare(self) -> int:
        """How many of the voters that follow may fail; negative = there is no majority now."""
        return len(self.voters) - len(self.lagging) - self.majority

    @property
    def is_weak(self) -> bool:
        """Whether voters that are down or lag leave no spare one: one more failure, and no leader is elected."""
        return bool(self.lagging) and self.spare <= 0

    def elects_without(self, failed: Collection[int]) -> bool:
        """Return whether there is a majority once nodes failed. Of an unknown quorum, it is assumed."""
        lost = {voter for voter in self.voters if voter in failed} - {*self.lagging}
        return not self.voters or len(lost) <= self.spare

    def order_restarts(self, nodes: Iterable[int]) -> tuple[list[int], list[int]]:
        """Order nodes that may restart one after another, the leader last; and those that leave no majority."""
        order = sorted(nodes, key=lambda node: (node == self.leader, node))
        return [n for n in order if self.elects_without({n})], [n for n in order if not self.elects_without({n})]

    def find_fatal_pairs(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Find the pairs of nodes whose failure leaves no majority: bool (n, n); on the diagonal, single nodes."""
        follows = np.isin(ids, list({*self.voters} - {*self.lagging})).astype(np.int64)
        lost = follows[:, None] + follows
        np.fill_diagonal(lost, follows)
        return (lost > self.spare) & (len(self.voters) > 0)

    def find_fatal_rack(self, racks: Mapping[int, str | None]) -> str | None:
        """Find the rack whose failure leaves no majority, though there is one now. racks: of nodes; None = unknown."""
        counts = Counter(rack for voter in self.voters if (rack := racks.get(voter)) and voter not in self.lagging)
        rack, count = max(counts.items(), key=lambda item: item[1], default=(None, 0))
        return rack if count > self.spare >= 0 else None


def find_lags(end: pa.Array, caught_up_ms: pa.Array, leads: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return (ms since nodes have followed the leader, whether they follow): int64 and bool; null = not shown.

    end: log end offsets, -1 = none. caught_up_ms: when nodes had all that the leader has. leads: bool without nulls.
    """
    newest = pc.max(caught_up_ms.filter(leads))
    lag_ms = pc.max_element_wise(pc.subtract(newest, caught_up_ms), 0, skip_nulls=False)
    return lag_ms, pc.invert(pc.or_kleene(pc.equal(end, -1), pc.greater(lag_ms, MAX_LAG_MS)))


class ScenarioKind(StrEnum):
    """What fails: values of the column scenario_kind."""

    BROKER = "broker"
    PAIR = "pair"
    RACK = "rack"
    CUSTOM = "custom"
    RANDOM = "random"
    ROLLING_RESTART = "rolling_restart"


@dataclass(frozen=True)
class Cluster:
    """The live brokers of one snapshot."""

    ids: tuple[int, ...]  # rising
    racks: tuple[str | None, ...]  # of each broker; None = not known
    custom_failures: tuple[tuple[int, ...], ...] = ()  # sets of broker ids, given by the user, that fail together
    partitions: int = 0  # of all its topics
    unknown: tuple[int, ...] = ()  # of ids: nothing shows whether they are live, so none is elected from an ELR
    caps_min_isr: bool = True  # whether min.insync.replicas counts only up to the number of replicas, see TopicDefaults
    follower_fetching: tuple[bool | None, ...] = ()  # of each broker, see silver.brokers; empty = not known
    cordoned: tuple[bool | None, ...] = ()  # whether all log dirs of each broker are; None = not known; empty = of all
    quorum: QuorumVoters = field(default_factory=QuorumVoters)


EMPTY_CLUSTER = Cluster((), ())  # of sources that show neither a topic nor a broker


class RandomSets(NamedTuple):
    """Random sets of brokers that fail together."""

    sizes: tuple[int, ...] = ()  # numbers of brokers, each > 0
    draws: int = 0  # sets of each size
    seed: int = 0  # of the run


@dataclass(frozen=True)
class Scenarios:
    """s sets of brokers."""

    kind: npt.NDArray[np.str_]  # (s), values of the column scenario_kind
    name: npt.NDArray[np.str_]  # (s), values of the column scenario
    offsets: npt.NDArray[np.int64]  # (s + 1), the live brokers of each set
    member: npt.NDArray[np.int32]  # (flat), indices into the live brokers
    failed_offsets: npt.NDArray[np.int64]  # (s + 1), all brokers of each set
    failed: npt.NDArray[np.int32]  # (flat), rising ids, including brokers that are down already
    stops: npt.NDArray[np.bool_]  # (s), sets whose failure leaves no majority of the controller quorum
    pair_stops: npt.NDArray[np.bool_]  # (n, n), the same of pairs of live brokers; on the diagonal, of single ones
    cordoned: npt.NDArray[np.bool_]  # (n), whether all log dirs of each live broker are; not known = no

    def by_broker(self, brokers: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return (offsets (brokers + 1), scenario numbers): the scenarios in which each broker fails."""
        order = np.argsort(self.member, kind="stable")
        counts = np.bincount(self.member, minlength=brokers)
        return offsets_of(counts), row_of(self.offsets)[order]

    def members(self, brokers: int) -> npt.NDArray[np.bool_]:
        """Return bool (s, brokers): which live brokers fail in each scenario."""
        out = np.zeros((len(self.kind), brokers), dtype=np.bool_)
        out[row_of(self.offsets), self.member] = True
        return out


def _draw_sets(brokers: int, size: int, draws: int, seed: int) -> list[tuple[int, ...]]:
    """Draw distinct sets of brokers; return all sets if there are no more than `draws`."""
    if size >= brokers:
        return []
    if comb(brokers, size) <= draws:
        return list(combinations(range(brokers), size))
    rng = np.random.default_rng([seed & 0xFFFFFFFFFFFFFFFF, brokers, size])
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < draws:
        drawn[tuple(sorted(rng.choice(brokers, size, replace=False).tolist()))] = None
    return list(drawn)


def build_scenarios(cluster_id: str, cluster: Cluster, random: RandomSets) -> Scenarios:
    """Build the scenarios of a cluster. The same arguments give the same scenarios."""
    rows: list[tuple[ScenarioKind, str, Sequence[int], Sequence[int]]] = []  # kind, name, live members, failed ids

    def add(kind: ScenarioKind, name: str, members: Sequence[int]) -> None:
        rows.append((kind, f"{kind}:{name}", members, sorted(cluster.ids[m] for m in members)))

    for rack in sorted({rack for rack in cluster.racks if rack is not None}):
        add(ScenarioKind.RACK, rack, [i for i, name in enumerate(cluster.racks) if name == rack])
    index = {broker: i for i, broker in enumerate(cluster.ids)}
    for failed in cluster.custom_failures:
        name = f"{ScenarioKind.CUSTOM}:{','.join(map(str, failed))}"
        rows.append((ScenarioKind.CUSTOM, name, [index[b] for b in failed if b in index], failed))
    seed = random.seed ^ zlib.crc32(cluster_id.encode())
    for size in random.sizes:
        for number, members in enumerate(_draw_sets(len(cluster.ids), size, random.draws, seed)):
            add(ScenarioKind.RANDOM, f"{size}:{number}", members)
    return Scenarios(
        np.array([kind for kind, *_ in rows], dtype=np.str_),
        np.array([name for _, name, *_ in rows], dtype=np.str_),
        offsets_of(np.array([len(members) for *_, members, _ in rows], dtype=np.int64)),
        np.array([m for *_, members, _ in rows for m in members], dtype=np.int32),
        offsets_of(np.array([len(ids) for *_, ids in rows], dtype=np.int64)),
        np.array([broker for *_, ids in rows for broker in ids], dtype=np.int32),
        np.array([not cluster.quorum.elects_without(ids) for *_, ids in rows], dtype=np.bool_),
        cluster.quorum.find_fatal_pairs(np.array(cluster.ids, dtype=np.int32)),
        mark_cordoned(cluster.cordoned, len(cluster.ids)),
    )
