"""How a cluster's partitions travel: in Arrow IPC batches to the shard of their topic, and each shard's sums to its
cluster.

an Arrow IPC batch is an Arrow table as bytes: Spark moves it, and need not look into it. Row by row, with lists and
nulls, that
would cost more than all the counting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow import ipc
from udfs.failures.aggregates import Array, Want, added, packed, stacked, sum_placement, sum_seed, unpacked, with_pairs
from udfs.failures.load_rows import MEASURES, topic_hotspots
from udfs.failures.partition_groups import PARTITIONS, TOPICS, Share, computed, observed, place
from udfs.failures.scenarios import Cluster, RandomPlan, Scenarios, scenarios_of
from udfs.failures.seed_rows import with_metrics
from udfs.placement.schemes import OBSERVED, SCHEMES

Clusters = Mapping[tuple[str, str], Cluster]

KEYED = (("cluster_id", pa.string()), ("snapshot_id", pa.string()))
IPC_BATCHES = pa.schema([*KEYED, ("shard", pa.int32()), ("kind", pa.string()), ("ipc_batch", pa.binary())])
_BLOBS = (("sums", pa.binary()), ("topic_hotspots", pa.binary()))
PARTIAL = pa.schema([*KEYED, ("scheme", pa.string()), ("shard", pa.int32()), *_BLOBS])
SUMS = pa.schema(
    [*KEYED, ("scheme", pa.string()), ("brokers", pa.list_(pa.int32())), ("racks", pa.list_(pa.string())), *_BLOBS]
)
NOTHING, OF_TOPICS, OF_PARTITIONS = "nothing", "topics", "partitions"
_SCHEMAS = {OF_TOPICS: TOPICS, OF_PARTITIONS: PARTITIONS}
_MOST_CELLS = 40_000_000  # of broker by broker tables, one a seed
_SCENARIO = "scenarios_"


@dataclass(frozen=True)
class SumPlan:
    """What to sum.

    schemes: names; seed: of the run; seeds, work: how many seeds to try besides, and partitions placed for that in all.
    shards: {cluster: shards of its topics}, 1 if not named.   hot_ratio: see HotspotParameters.
    max_pairs: with more pairs of brokers than that, pairs are left out.   pair_loads: keep what loads of pairs take.
    """

    schemes: tuple[str, ...]
    seed: int
    seeds: int
    work: int
    shard_counts: Mapping[str, int]
    hot_ratio: float
    random: RandomPlan
    max_pairs: int
    pair_loads: bool


def packer(
    kind: str, shard_counts: Mapping[str, int]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: rows with cluster_id, snapshot_id and the columns of TOPICS or PARTITIONS -> IPC_BATCHES."""
    schema = _SCHEMAS[kind]

    def split(rows: pa.Table) -> Iterator[pa.RecordBatch]:
        clusters, snapshots = (
            pc.dictionary_encode(rows[name].combine_chunks()) for name in ("cluster_id", "snapshot_id")
        )
        names, moments = clusters.dictionary.to_pylist(), snapshots.dictionary.to_pylist()
        of_cluster = np.asarray(clusters.indices).astype(np.int64)
        counts = np.array([shard_counts.get(name, 1) for name in names], dtype=np.uint64)
        shard = ipc.topic_shards(rows["topic"].combine_chunks(), counts[of_cluster])
        key = (of_cluster * len(moments) + np.asarray(snapshots.indices)) * int(counts.max()) + shard
        order = np.argsort(key, kind="stable")
        begins = np.flatnonzero(np.diff(key[order], prepend=-1))
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True):
            at = order[begin]
            part = rows.select(schema.names).take(pa.array(order[begin:end])).cast(schema)
            cluster, snapshot = names[of_cluster[at]], moments[np.asarray(snapshots.indices)[at]]
            yield pa.RecordBatch.from_pylist(
                [
                    {
                        "cluster_id": cluster,
                        "snapshot_id": snapshot,
                        "shard": int(shard[at]),
                        "kind": kind,
                        "ipc_batch": ipc.packed(part),
                    }
                ],
                schema=IPC_BATCHES,
            )

    return lambda batches: ipc.in_ipc_batches(batches, split)


def _shard_of(key: tuple[str, str], cluster: Cluster, held: pa.Table) -> Share:
    def of_kind(kind: str) -> list[bytes]:
        return list(held.filter(pc.field("kind") == kind)["ipc_batch"].to_pylist())

    topics = ipc.unpacked(of_kind(OF_TOPICS), TOPICS).sort_by("topic").combine_chunks()
    partitions = ipc.unpacked(of_kind(OF_PARTITIONS), PARTITIONS).combine_chunks()
    at = pc.index_in(partitions["topic"].combine_chunks(), value_set=topics["topic"].combine_chunks())
    # In one order whatever the way here: sums of rates must come out the same to the last bit.
    order = np.lexsort((np.asarray(partitions["partition"]), np.asarray(at.fill_null(0))))
    return Share(key[0], cluster, topics, partitions.take(pa.array(order)).combine_chunks())


def _want(key: tuple[str, str], cluster: Cluster, plan: SumPlan) -> Want:
    n = len(cluster.ids)
    return Want(scenarios_of(key[0], cluster, plan.random), n * (n - 1) // 2 <= plan.max_pairs)


def sum_shard(clusters: Clusters, plan: SumPlan) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """For `applyInArrow` by cluster, snapshot and shard: Arrow IPC batches -> the sums of each scheme (schema
    PARTIAL)."""

    def sums(key: tuple[pa.Scalar, ...], held: pa.Table) -> pa.Table:
        cluster_id, snapshot_id = key[0].as_py(), key[1].as_py()
        cluster = clusters[cluster_id, snapshot_id]
        shard = _shard_of((cluster_id, snapshot_id), cluster, held)
        want = _want((cluster_id, snapshot_id), cluster, plan)
        ids = np.array(cluster.ids, dtype=np.int32)
        names = shard.topics["topic"].combine_chunks()
        rows = []
        for name in plan.schemes:
            scheme = SCHEMES[name]
            placement = observed(shard) if name == OBSERVED else computed(shard, place(shard, scheme, plan.seed))
            found = sum_placement(placement, len(ids), want)
            if scheme.draws:
                tried = min(plan.seeds, plan.work // max(cluster.partitions, 1), _MOST_CELLS // max(len(ids), 1) ** 2)
                found |= stacked(sum_seed(place(shard, scheme, plan.seed + i), len(ids)) for i in range(1, tried))
            hotspots = pa.Table.from_batches([topic_hotspots(placement, names, ids, plan.hot_ratio)])
            rows.append([cluster_id, snapshot_id, name, key[2].as_py(), packed(found), ipc.packed(hotspots)])
        return pa.Table.from_arrays(
            [pa.array(v, f.type) for v, f in zip(zip(*rows, strict=True), PARTIAL, strict=True)], schema=PARTIAL
        )

    return sums


def sum_cluster(clusters: Clusters, plan: SumPlan) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """For `applyInArrow` by cluster, snapshot and scheme: PARTIAL -> one row of SUMS."""

    def sums(key: tuple[pa.Scalar, ...], parts: pa.Table) -> pa.Table:
        cluster_id, snapshot_id, scheme = (scalar.as_py() for scalar in key)
        parts = parts.sort_by("shard")
        cluster = clusters[cluster_id, snapshot_id]
        want = _want((cluster_id, snapshot_id), cluster, plan)
        whole = added((unpacked(part.as_py()) for part in parts["sums"]), len(cluster.ids))
        final = with_metrics(with_pairs(whole))
        if plan.pair_loads:
            final |= {name: whole[name] for name in ("third_key", "third_sum")}
        final |= _scenario_arrays(want.scenarios)
        hotspots = ipc.unpacked(parts["topic_hotspots"].to_pylist(), MEASURES)
        values = [
            cluster_id,
            snapshot_id,
            scheme,
            list(cluster.ids),
            list(cluster.racks),
            packed(final),
            ipc.packed(hotspots),
        ]
        return pa.Table.from_arrays([pa.array([v], f.type) for v, f in zip(values, SUMS, strict=True)], schema=SUMS)

    return sums


def _scenario_arrays(scenarios: Scenarios) -> dict[str, Array]:
    return {f"{_SCENARIO}{name}": getattr(scenarios, name) for name in Scenarios.__dataclass_fields__}


def scenarios_in(sums: dict[str, Array]) -> Scenarios:
    """The scenarios that these sums are of."""
    return Scenarios(**{name: sums[f"{_SCENARIO}{name}"] for name in Scenarios.__dataclass_fields__})


def hotspots_in(ipc_batch: bytes) -> pa.Table:
    """The measures of topics (schema MEASURES) that came along."""
    return ipc.unpacked([ipc_batch], MEASURES)
