"""How partitions get to the shard of their topic, as Arrow IPC batches, and a shard's aggregates to their cluster.

Spark moves an Arrow IPC batch as one binary value. Rows with lists and nulls would cost more than all computing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow import ipc
from udfs.arrow.columns import to_array, to_codes
from udfs.failures.aggregates import (
    JOINT,
    Array,
    Arrays,
    add_shards,
    aggregate_placement,
    aggregate_seed,
    finish_pairs,
    pack_arrays,
    stack_seeds,
    unpack_arrays,
)
from udfs.failures.broker_loads import topic_hotspots
from udfs.failures.failure_outcomes import SchemeAggregates
from udfs.failures.partition_groups import PARTITIONS, TOPICS, TopicShard, group_computed, group_observed, place_shard
from udfs.failures.scenarios import Cluster, RandomSets, Scenarios, build_scenarios
from udfs.failures.scheme_distribution import measure_seeds
from udfs.hotspots.hotspot_measures import HOTSPOTS
from udfs.placement.schemes import OBSERVED, SCHEMES

Clusters = Mapping[tuple[str, str], Cluster]  # by cluster_id and snapshot_id

_SNAPSHOT = (("cluster_id", pa.string()), ("snapshot_id", pa.string()))
IPC_BATCHES = pa.schema([*_SNAPSHOT, ("shard", pa.int32()), ("kind", pa.string()), ("ipc_batch", pa.binary())])
_BLOBS = (("sums", pa.binary()), ("topic_hotspots", pa.binary()))
SHARD_AGGREGATES = pa.schema([*_SNAPSHOT, ("scheme", pa.string()), ("shard", pa.int32()), *_BLOBS])
CLUSTER_AGGREGATES = pa.schema(
    [*_SNAPSHOT, ("scheme", pa.string()), ("brokers", pa.list_(pa.int32())), ("racks", pa.list_(pa.string())), *_BLOBS]
)
# Kinds of Arrow IPC batches. An EMPTY row makes a shard for clusters without topics.
EMPTY, TOPIC_BATCH, PARTITION_BATCH = "empty", "topics", "partitions"
_SCHEMAS = {TOPIC_BATCH: TOPICS, PARTITION_BATCH: PARTITIONS}
_MAX_CELLS = 40_000_000  # of all tables of brokers by brokers, one per seed
_SCENARIO = "scenarios_"


@dataclass(frozen=True)
class AggregationPlan:
    """What to aggregate."""

    schemes: tuple[str, ...]
    run_seed: int
    seeds: int  # placements to try with each random scheme, the run's own included
    max_placed_partitions: int  # for these in all; large clusters try fewer seeds
    shard_counts: Mapping[str, int]  # shards of the topics of each cluster, by cluster_id; 1 if not named
    hot_ratio: float  # see hotspots.hot_ratio
    random_sets: RandomSets
    max_pairs: int  # clusters with more pairs of brokers are aggregated without pairs
    pair_loads: bool  # whether to keep what loads of pairs are computed from


def make_packer(
    kind: str, shard_counts: Mapping[str, int]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow`: rows of `kind`, with cluster_id and snapshot_id -> IPC_BATCHES."""
    schema = _SCHEMAS[kind]

    def split(rows: pa.Table) -> Iterator[pa.RecordBatch]:
        (cluster, clusters), (snapshot, snapshots) = (to_codes(rows[name]) for name, _ in _SNAPSHOT)
        counts = np.array([shard_counts.get(name, 1) for name in clusters.to_pylist()], dtype=np.uint64)
        shard = ipc.topic_shards(to_array(rows["topic"]), counts[cluster])
        key = (cluster * len(snapshots) + snapshot) * int(counts.max()) + shard
        order = np.argsort(key, kind="stable")
        begins = np.flatnonzero(np.diff(key[order], prepend=-1)).tolist()
        for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
            first = order[begin]
            part = rows.select(schema.names).take(pa.array(order[begin:end])).cast(schema)
            names = (clusters[int(cluster[first])].as_py(), snapshots[int(snapshot[first])].as_py())
            values = (*names, int(shard[first]), kind, ipc.pack_table(part))
            yield pa.RecordBatch.from_pylist([dict(zip(IPC_BATCHES.names, values, strict=True))], schema=IPC_BATCHES)

    return lambda batches: ipc.rebatch(batches, split)


def _unpack_shard(cluster_id: str, cluster: Cluster, batches: pa.Table) -> TopicShard:
    def unpack(kind: str) -> pa.Table:
        rows = batches.filter(pc.field("kind") == kind)
        return ipc.unpack_tables(rows["ipc_batch"].to_pylist(), _SCHEMAS[kind]).combine_chunks()

    topics, partitions = unpack(TOPIC_BATCH).sort_by("topic").combine_chunks(), unpack(PARTITION_BATCH)
    at = pc.index_in(to_array(partitions["topic"]), value_set=to_array(topics["topic"]))
    # Always in one order, so that sums of rates are the same to the last bit.
    order = np.lexsort((np.asarray(partitions["partition"]), np.asarray(at.fill_null(0))))
    return TopicShard(cluster_id, cluster, topics, partitions.take(pa.array(order)).combine_chunks())


def make_shard_aggregator(
    clusters: Clusters, plan: AggregationPlan
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return a function for `applyInArrow` by cluster, snapshot and shard: IPC_BATCHES -> SHARD_AGGREGATES."""

    def aggregate(key: tuple[pa.Scalar, ...], batches: pa.Table) -> pa.Table:
        cluster_id, snapshot_id, number = (scalar.as_py() for scalar in key)
        cluster = clusters[cluster_id, snapshot_id]
        n = len(cluster.ids)
        shard = _unpack_shard(cluster_id, cluster, batches)
        scenarios = build_scenarios(cluster_id, cluster, plan.random_sets)
        rows = []
        for name in plan.schemes:
            scheme = SCHEMES[name]
            if name == OBSERVED:
                placement = group_observed(shard)
            else:
                placement = group_computed(shard, place_shard(shard, scheme, plan.run_seed))
            sums = aggregate_placement(placement, n, scenarios, pairs=n * (n - 1) // 2 <= plan.max_pairs)
            if scheme.is_random:
                seeds = min(
                    plan.seeds, plan.max_placed_partitions // max(cluster.partitions, 1), _MAX_CELLS // max(n, 1) ** 2
                )
                placed = (place_shard(shard, scheme, plan.run_seed + i) for i in range(1, seeds))
                sums |= stack_seeds(aggregate_seed(one, n) for one in placed)
            ids = np.array(cluster.ids, dtype=np.int32)
            hotspots = topic_hotspots(placement, to_array(shard.topics["topic"]), ids, plan.hot_ratio)
            blobs = (pack_arrays(sums), ipc.pack_table(pa.Table.from_batches([hotspots])))
            rows.append((cluster_id, snapshot_id, name, number, *blobs))
        return pa.Table.from_pylist(
            [dict(zip(SHARD_AGGREGATES.names, row, strict=True)) for row in rows], schema=SHARD_AGGREGATES
        )

    return aggregate


def make_cluster_aggregator(
    clusters: Clusters, plan: AggregationPlan
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return a function for `applyInArrow` by cluster, snapshot and scheme: SHARD_AGGREGATES -> CLUSTER_AGGREGATES."""

    def aggregate(key: tuple[pa.Scalar, ...], shards: pa.Table) -> pa.Table:
        cluster_id, snapshot_id, scheme = (scalar.as_py() for scalar in key)
        shards = shards.sort_by("shard")
        cluster = clusters[cluster_id, snapshot_id]
        total = add_shards((unpack_arrays(part.as_py()) for part in shards["sums"]), len(cluster.ids))
        sums = measure_seeds(finish_pairs(total))
        if plan.pair_loads:
            sums |= {name: total[name] for name in JOINT}
        sums |= _scenario_arrays(build_scenarios(cluster_id, cluster, plan.random_sets))
        hotspots = ipc.unpack_tables(shards["topic_hotspots"].to_pylist(), HOTSPOTS)
        row = (cluster_id, snapshot_id, scheme, cluster.ids, cluster.racks, pack_arrays(sums), ipc.pack_table(hotspots))
        return pa.Table.from_pylist([dict(zip(CLUSTER_AGGREGATES.names, row, strict=True))], schema=CLUSTER_AGGREGATES)

    return aggregate


def _scenario_arrays(scenarios: Scenarios) -> dict[str, Array]:
    return {f"{_SCENARIO}{field.name}": getattr(scenarios, field.name) for field in fields(Scenarios)}


def read_aggregates(brokers: list[int], sums: bytes) -> SchemeAggregates:
    """Read the aggregates of one row of internal.scheme_aggregates."""
    arrays: Arrays = unpack_arrays(sums)
    scenarios = Scenarios(**{field.name: arrays[f"{_SCENARIO}{field.name}"] for field in fields(Scenarios)})
    return SchemeAggregates(np.array(brokers, dtype=np.int32), scenarios, arrays)
