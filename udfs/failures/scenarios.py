"""Which brokers fail together: racks, the user's lists, random sets. (Singles, pairs and restarts need no list.)"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import offsets_of, row_of

BROKER, PAIR, RACK, SHUTDOWN, LIST, RANDOM = "broker", "pair", "rack", "shutdown", "list", "random"
KINDS = (BROKER, PAIR, RACK, SHUTDOWN, LIST, RANDOM)


@dataclass(frozen=True)
class Cluster:
    """The brokers of one snapshot that live. ids: rising; racks: of each, None = not known.

    lists: broker ids that the user wants to see fail together; partitions: of all its topics.
    """

    ids: tuple[int, ...]
    racks: tuple[str | None, ...]
    lists: tuple[tuple[int, ...], ...] = ()
    partitions: int = 0

    @property
    def rack_names(self) -> list[str]:
        """Names of the racks that live brokers are on, in order."""
        return sorted({rack for rack in self.racks if rack is not None})


@dataclass(frozen=True)
class RandomPlan:
    """failures: how many brokers fail together, each k of these; draws: sets of each k; seed: of the run."""

    failures: tuple[int, ...]
    draws: int
    seed: int


@dataclass(frozen=True)
class Scenarios:
    """s sets of brokers.

    kind, name: text (s).   offsets: int64 (s + 1), member: int32 (flat), the live ones, as indices into the ids.
    failed_offsets: int64 (s + 1), failed: int32 (flat), the ids of all, rising, also of those that are down already.
    """

    kind: npt.NDArray[np.str_]
    name: npt.NDArray[np.str_]
    offsets: npt.NDArray[np.int64]
    member: npt.NDArray[np.int32]
    failed_offsets: npt.NDArray[np.int64]
    failed: npt.NDArray[np.int32]

    def of_brokers(self, brokers: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(offsets (brokers + 1), scenario numbers) of the scenarios that each broker fails in."""
        order = np.argsort(self.member, kind="stable")
        counts = np.bincount(self.member, minlength=brokers)
        return offsets_of(counts), row_of(self.offsets)[order]


def _random_sets(brokers: int, k: int, draws: int, seed: int) -> list[tuple[int, ...]]:
    """Distinct sets of k of the brokers: all of them, if there are no more than wanted."""
    if k >= brokers:
        return []
    if comb(brokers, k) <= draws:
        return list(combinations(range(brokers), k))
    rng = np.random.default_rng([seed & 0xFFFFFFFFFFFFFFFF, brokers, k])
    found: dict[tuple[int, ...], None] = {}
    while len(found) < draws:
        found[tuple(sorted(rng.choice(brokers, k, replace=False).tolist()))] = None
    return list(found)


def scenarios_of(cluster_id: str, cluster: Cluster, plan: RandomPlan) -> Scenarios:
    """The scenarios of a cluster; the same arguments give the same."""
    place = {broker: i for i, broker in enumerate(cluster.ids)}
    found: list[tuple[str, str, Sequence[int]]] = [
        (RACK, f"rack:{rack}", [i for i, name in enumerate(cluster.racks) if name == rack])
        for rack in cluster.rack_names
    ]
    for chosen in cluster.lists:
        text = ",".join(map(str, chosen))
        found.append((LIST, f"list:{text}", [place[b] for b in chosen if b in place]))
    seed = plan.seed ^ zlib.crc32(cluster_id.encode())
    for k in plan.failures:
        drawn = _random_sets(len(cluster.ids), k, plan.draws, seed)
        found += [(RANDOM, f"random:{k}:{number}", chosen) for number, chosen in enumerate(drawn)]
    down = [sorted(cluster.ids[m] for m in members) for _, _, members in found]
    racks = len(cluster.rack_names)
    down[racks : racks + len(cluster.lists)] = [list(chosen) for chosen in cluster.lists]
    return Scenarios(
        np.array([kind for kind, _, _ in found], dtype=np.str_),
        np.array([name for _, name, _ in found], dtype=np.str_),
        offsets_of(np.array([len(members) for _, _, members in found], dtype=np.int64)),
        np.array([m for _, _, members in found for m in members], dtype=np.int32),
        offsets_of(np.array([len(ids) for ids in down], dtype=np.int64)),
        np.array([broker for ids in down for broker in ids], dtype=np.int32),
    )
