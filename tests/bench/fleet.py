"""A seeded fleet of clusters as kafka-topics prints them: `make fleet SIZE=700000`.

A folder a cluster, with topics-describe.txt and brokers.csv (racks); `--loads` adds topics.csv. Clusters differ in
size, as fleets do (log-normal); topics too. Old clusters are placed by AdminUtils, new ones by KRaft's stripes, and
then lived in: replicas moved by hand, leaders not moved back, ISRs shrunk, now and then a down broker.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import offsets_of, position_of, row_of
from udfs.placement.kernels.java_util import scramble_seeds
from udfs.placement.kernels.topic_arrays import BrokerLists, Topics
from udfs.placement.schemes import KAFKA, KRAFT, SCHEMES

PARTITIONS_PER_TOPIC, PARTITIONS_PER_BROKER, CLUSTERS = 70, 1750, 100
_ROWS = 500_000  # partitions written at once


@dataclass(frozen=True)
class Shape:
    """What a fleet consists of. small: clusters of 500 partitions more, beside the others."""

    partitions: int
    clusters: int
    brokers: int
    topics: int
    small: int = 0
    seed: int = 0
    loads: bool = False


def shares(total: int, weights: np.ndarray, least: int) -> np.ndarray:
    """Whole numbers (int64, n) in proportion to weights, none below `least`, that add up to total if they can."""
    n = len(weights)
    rest = max(0, total - least * n)
    exact = weights / weights.sum() * rest
    out = np.floor(exact).astype(np.int64)
    out[np.argsort(out - exact, kind="stable")[: rest - int(out.sum())]] += 1
    return out + least


def _clusters(shape: Shape) -> Iterator[tuple[str, int, int, int]]:
    """(name, partitions, brokers, topics) of each cluster, the largest first."""
    rng = np.random.default_rng(shape.seed)
    weight = np.sort(rng.lognormal(0, 1.2, shape.clusters))[::-1]
    topics = shares(shape.topics, weight, 1)
    partitions = topics + shares(shape.partitions - int(topics.sum()), weight, 0)
    brokers = shares(shape.brokers, weight, 3)
    digits = len(str(shape.clusters + shape.small))
    for i, row in enumerate(zip(partitions, brokers, topics, strict=True)):
        yield f"cluster-{i:0{digits}d}", *map(int, row)
    for i in range(shape.clusters, shape.clusters + shape.small):
        yield f"cluster-{i:0{digits}d}", 500, 5, 20


def _texts(flat: np.ndarray, offsets: np.ndarray) -> pa.Array:
    """The ids of each partition, joined by commas."""
    ids = pa.array(flat, pa.int32()).cast(pa.string())
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), ids), ",")


class _Cluster:
    def __init__(self, partitions: int, brokers: int, topics: int, rng: np.random.Generator) -> None:
        self.racks = 3 if brokers < 60 else 6
        # Ids with gaps: brokers were replaced.
        self.ids = np.sort(rng.choice(brokers + brokers // 8 + 1, brokers, replace=False)).astype(np.int32)
        self.rack = [f"zone-{i % self.racks}" for i in range(brokers)]
        self.sizes = 1 + shares(partitions - topics, rng.lognormal(0, 1.5, topics), 0)
        factor = np.minimum(rng.choice([3, 3, 3, 3, 3, 3, 3, 3, 2, 4], topics), brokers)
        if brokers > 200:
            factor[:] = 3
        self.factor = factor
        lists = BrokerLists.create(self.ids, np.array([0, brokers]), self.rack)
        scheme = SCHEMES[KRAFT if rng.random() < 0.5 else KAFKA]
        asked = Topics.create(self.sizes, factor, np.zeros(topics, dtype=np.int64))
        assert scheme.place is not None
        placed = scheme.place(asked, lists, scramble_seeds(rng.integers(0, 1 << 48, topics)))
        self.offsets, self.replica = placed.replica_offsets, placed.broker.copy()
        self._live_in(rng, brokers)

    def _live_in(self, rng: np.random.Generator, brokers: int) -> None:
        """Moves, failures and lagging followers; sets leader (p) and in_sync (r)."""
        rows, n = row_of(self.offsets), len(self.offsets) - 1
        # By hand: two replicas of a partition in the other order, or one of it elsewhere.
        width = np.diff(self.offsets)
        moved = np.flatnonzero((rng.random(n) < 0.02) & (width > 1))
        first, last = self.offsets[moved], self.offsets[moved + 1] - 1
        self.replica[first], self.replica[last] = self.replica[last], self.replica[first].copy()
        elsewhere = self.ids[rng.integers(0, brokers, len(moved))]
        same = np.zeros(len(moved), dtype=np.bool_)
        for place in range(int(width.max(initial=0))):  # of the few places of a partition
            at = np.minimum(first + place, last)
            same |= self.replica[at] == elsewhere
        half = ~same & (rng.random(len(moved)) < 0.5)
        self.replica[last[half]] = elsewhere[half]
        failed_brokers = rng.choice(self.ids, 1) if brokers > 5 and rng.random() < 0.1 else np.empty(0, dtype=np.int32)
        down = np.isin(self.replica, failed_brokers)
        lags = np.zeros(len(self.replica), dtype=np.bool_)
        lags[(rng.random(len(lags)) < 0.003) & (position_of(self.offsets) > 0)] = True
        self.in_sync = ~down & ~lags
        # Leads: the first that is in sync, in a few cases the last; a partition with none keeps none.
        leader = np.full(n, -1, dtype=np.int32)
        back = np.flatnonzero(self.in_sync)[::-1]
        leader[rows[back]] = self.replica[back]
        swap = rng.random(n) < 0.03
        ahead = np.flatnonzero(self.in_sync & swap[rows])
        leader[rows[ahead]] = self.replica[ahead]
        self.leader = leader

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        racks = "".join(f"{i},{rack}\n" for i, rack in zip(self.ids.tolist(), self.rack, strict=True))
        (folder / "brokers.csv").write_text(f"broker_id,rack\n{racks}", encoding="utf-8")
        topic = np.repeat(np.arange(len(self.sizes)), self.sizes)
        number = np.arange(len(topic)) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        kept = np.flatnonzero(self.in_sync)
        isr_offsets = offsets_of(np.bincount(row_of(self.offsets)[kept], minlength=len(topic)))
        with (folder / "topics-describe.txt").open("wb") as out:
            for begin in range(0, len(topic), _ROWS):
                part = slice(begin, min(begin + _ROWS, len(topic)))
                ends = slice(begin, part.stop + 1)
                names = _names(pa.array(topic[part]))
                isr = self.replica[kept][isr_offsets[part.start] : isr_offsets[part.stop]]
                replicas = self.replica[self.offsets[part.start] : self.offsets[part.stop]]
                leader = pa.array(self.leader[part]).cast(pa.string())
                lines = pc.binary_join_element_wise(
                    "\tTopic: ",
                    names,
                    "\tPartition: ",
                    pa.array(number[part]).cast(pa.string()),
                    "\tLeader: ",
                    pc.if_else(pc.equal(leader, "-1"), "none", leader),
                    "\tReplicas: ",
                    _texts(replicas, self.offsets[ends] - self.offsets[part.start]),
                    "\tIsr: ",
                    _texts(isr, isr_offsets[ends] - isr_offsets[part.start]),
                    "",
                )
                heads = np.flatnonzero(number[part] == 0)
                header = self._headers(topic[part][heads])
                order = np.argsort(np.concatenate([heads - 0.5, np.arange(len(lines))]), kind="stable")
                text = pa.concat_arrays([header, lines]).take(pa.array(order))
                out.write("\n".join(text.to_pylist()).encode())
                out.write(b"\n")

    def _headers(self, topics: np.ndarray) -> pa.Array:
        first = np.cumsum(self.sizes)[topics] - self.sizes[topics]
        width = (self.offsets[first + 1] - self.offsets[first]).astype(np.int64)
        configs = np.array(["min.insync.replicas=2,segment.bytes=1073741824", "cleanup.policy=compact", ""])
        return pc.binary_join_element_wise(
            "Topic: ",
            _names(pa.array(topics)),
            "\tTopicId: ",
            pc.utf8_lpad(pa.array(topics).cast(pa.string()), 22, "A"),
            "\tPartitionCount: ",
            pa.array(self.sizes[topics]).cast(pa.string()),
            "\tReplicationFactor: ",
            pa.array(width).cast(pa.string()),
            "\tConfigs: ",
            pa.array(configs[topics % 3].tolist()),
            "",
        )

    def write_loads(self, folder: Path, rng: np.random.Generator) -> None:
        rate = rng.lognormal(12, 2, len(self.sizes))
        rows = zip(range(len(self.sizes)), self.sizes.tolist(), self.factor.tolist(), rate.tolist(), strict=True)
        text = "".join(f"topic-{t:06d},{p},{f},{r:.1f},{2 * r:.1f},{int(r * 3600)}\n" for t, p, f, r in rows)
        head = "topic,partitions,replication_factor,bytes_in_per_s,bytes_out_per_s,size_bytes\n"
        (folder / "topics.csv").write_text(head + text, encoding="utf-8")


def _names(numbers: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("topic-", pc.utf8_lpad(numbers.cast(pa.string()), 6, "0"), "")


def make_fleet(shape: Shape, out: Path) -> list[Path]:
    """The folders of the clusters, written anew below `out`."""
    if out.exists():
        shutil.rmtree(out)
    folders = []
    for i, (name, partitions, brokers, topics) in enumerate(_clusters(shape)):
        rng = np.random.default_rng([shape.seed, i])
        cluster = _Cluster(partitions, brokers, topics, rng)
        cluster.write(out / name)
        if shape.loads:
            cluster.write_loads(out / name, rng)
        folders.append(out / name)
    return folders


def shape_of(arguments: argparse.Namespace) -> Shape:
    """The shape that the options ask for: what is not given follows from the number of partitions."""
    size = arguments.size
    clusters = arguments.clusters or CLUSTERS
    brokers = arguments.brokers or max(3 * clusters, size // PARTITIONS_PER_BROKER)
    topics = arguments.topics or max(clusters, size // PARTITIONS_PER_TOPIC)
    return Shape(size, clusters, brokers, topics, arguments.small, arguments.seed, arguments.loads)


def add_shape_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=70_000, help="partitions in all")
    parser.add_argument("--clusters", type=int, help=f"default {CLUSTERS}")
    parser.add_argument("--brokers", type=int, help=f"default: one for {PARTITIONS_PER_BROKER} partitions")
    parser.add_argument("--topics", type=int, help=f"default: one for {PARTITIONS_PER_TOPIC} partitions")
    parser.add_argument("--small", type=int, default=0, help="so many clusters of 500 partitions beside these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loads", action="store_true", help="also bytes in, out and on disk of each topic")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shape_options(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder, replaced if it is there")
    arguments = parser.parse_args()
    shape = shape_of(arguments)
    folders = make_fleet(shape, arguments.out)
    print(f"{len(folders)} clusters with {shape.partitions + 500 * shape.small} partitions below {arguments.out}")


if __name__ == "__main__":
    main()
