"""What Spark's workers do for failure stages: sum shards, add up the sums, compute tables from them."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow import ipc
from udfs.arrow.columns import BINARY, INT, INTS, TEXT, TEXTS, table_of, to_array
from udfs.failures import partition_sums
from udfs.failures.failure_outcomes import SchemeAggregates, cluster_hotspot_rows, topic_hotspots
from udfs.failures.failure_rows import headroom_rows
from udfs.failures.partition_arrays import TopicShard, group_computed, group_observed, place_shard
from udfs.failures.scenarios import EMPTY_CLUSTER, Cluster, RandomSets, Scenarios, build_scenarios
from udfs.failures.scheme_distribution import measure_seeds
from udfs.hotspots.hotspot_measures import HOTSPOTS
from udfs.network.traffic_rows import NetworkAssumptions, Racks, aggregate_network, locate_clients
from udfs.placement.schemes import OBSERVED, SCHEMES

Clusters = Mapping[tuple[str, str], Cluster]  # by cluster_id and snapshot_id
# For `applyInArrow` by cluster, snapshot and scheme: a row of internal.scheme_aggregates -> rows, keys in front.
TableFunction = Callable[[pa.Table], pa.Table]
Limits = Mapping[tuple[str, str], npt.NDArray[np.float64]]  # capacities (n, loads) by cluster_id and snapshot_id

_SNAPSHOT = (("cluster_id", TEXT), ("snapshot_id", TEXT))
_KEY = (*_SNAPSHOT, ("scheme", TEXT))
_BLOBS = (("sums", BINARY), ("topic_hotspots", BINARY))
SHARD_AGGREGATES = pa.schema([*_KEY, ("shard", INT), *_BLOBS])
CLUSTER_AGGREGATES = pa.schema([*_KEY, ("brokers", INTS), ("racks", TEXTS), *_BLOBS])
_MAX_CELLS = 40_000_000  # of all tables of brokers by brokers, one per seed
_SCENARIO = "scenarios_"


class AggregationPlan(NamedTuple):
    """What to aggregate."""

    schemes: tuple[str, ...]
    run_seed: int
    seeds: int  # placements to try with each random scheme, the run's own included
    max_placed_partitions: int  # for these in all; large clusters try fewer seeds
    hot_ratio: float  # see hotspots.hot_ratio
    random_sets: RandomSets
    max_pairs: int  # clusters with more pairs of brokers are aggregated without pairs
    pair_loads: bool  # whether to keep what loads of pairs are computed from
    network: NetworkAssumptions


def aggregate_shard(shard: TopicShard, number: int, plan: AggregationPlan) -> pa.Table:
    """Sum a shard of topics under every scheme: a row each, with the columns of SHARD_AGGREGATES behind the key."""
    cluster = shard.cluster
    n = len(cluster.ids)
    scenarios = build_scenarios(shard.cluster_id, cluster, plan.random_sets)
    clients = locate_clients(cluster, plan.network)
    rows = []
    for name in plan.schemes:
        scheme = SCHEMES[name]
        is_observed, seed = name == OBSERVED, plan.run_seed
        placement = group_observed(shard) if is_observed else group_computed(shard, place_shard(shard, scheme, seed))
        sums = partition_sums.aggregate_placement(placement, n, scenarios, pairs=n * (n - 1) // 2 <= plan.max_pairs)
        sums |= aggregate_network(placement.group, clients, scenarios)
        if scheme.is_random:
            affordable = plan.max_placed_partitions // max(cluster.partitions, 1)
            seeds = min(plan.seeds, affordable, _MAX_CELLS // max(n, 1) ** 2)
            placed = (place_shard(shard, scheme, seed + i) for i in range(1, seeds))
            sums |= partition_sums.stack_seeds(partition_sums.aggregate_seed(one, n) for one in placed)
        ids = np.array(cluster.ids, dtype=np.int32)
        hotspots = topic_hotspots(placement, to_array(shard.topics["topic"]), ids, plan.hot_ratio)
        blobs = (partition_sums.pack_arrays(sums), ipc.pack_table(pa.Table.from_batches([hotspots])))
        rows.append((name, number, *blobs))
    return table_of(rows, pa.schema(list(SHARD_AGGREGATES)[len(_SNAPSHOT) :]))


def make_cluster_aggregator(
    clusters: Clusters, plan: AggregationPlan
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return a function for `applyInArrow` by cluster, snapshot and scheme: SHARD_AGGREGATES -> CLUSTER_AGGREGATES."""

    def aggregate(key: tuple[pa.Scalar, ...], shards: pa.Table) -> pa.Table:
        cluster_id, snapshot_id, scheme = (scalar.as_py() for scalar in key)
        shards = shards.sort_by("shard")
        cluster = clusters.get((cluster_id, snapshot_id), EMPTY_CLUSTER)
        parts = (partition_sums.unpack_arrays(part.as_py()) for part in shards["sums"])
        total = partition_sums.add_shards(parts, len(cluster.ids))
        scenarios = build_scenarios(cluster_id, cluster, plan.random_sets)
        sums = partition_sums.finish_pairs(total, scenarios.pair_stops)
        ids = np.array(cluster.ids, dtype=np.int32)
        sums = measure_seeds(sums, SchemeAggregates(ids, scenarios, sums).counted)
        if plan.pair_loads:
            sums |= {name: total[name] for name in partition_sums.JOINT}
        sums |= {f"{_SCENARIO}{field.name}": getattr(scenarios, field.name) for field in fields(Scenarios)}
        hotspots = ipc.unpack_tables(shards["topic_hotspots"].to_pylist(), HOTSPOTS)
        blobs = (partition_sums.pack_arrays(sums), ipc.pack_table(hotspots))
        row = (cluster_id, snapshot_id, scheme, cluster.ids, cluster.racks, *blobs)
        return table_of([row], CLUSTER_AGGREGATES)

    return aggregate


def _with_keys(make_rows: Callable[[SchemeAggregates, pa.Table], pa.Table]) -> TableFunction:
    def rows(row: pa.Table) -> pa.Table:
        sums = partition_sums.unpack_arrays(row["sums"][0].as_py())
        scenarios = Scenarios(**{field.name: sums[f"{_SCENARIO}{field.name}"] for field in fields(Scenarios)})
        result = make_rows(SchemeAggregates(np.array(row["brokers"][0].as_py(), dtype=np.int32), scenarios, sums), row)
        keys = [pa.repeat(row[name][0], result.num_rows) for name, _ in _KEY]
        return pa.Table.from_arrays([*keys, *result.columns], schema=pa.schema([*_KEY, *result.schema]))

    return rows


def table_function(make_rows: Callable[[SchemeAggregates], pa.Table]) -> TableFunction:
    """Return the function of a table that follows from the aggregates alone."""
    return _with_keys(lambda aggregates, row: make_rows(aggregates))


def table_function_with_racks(make_rows: Callable[[SchemeAggregates, Racks], pa.Table]) -> TableFunction:
    """Return the function of a table that also needs the rack of each live broker."""
    return _with_keys(lambda aggregates, row: make_rows(aggregates, tuple(row["racks"][0].as_py())))


def hotspot_function(hot_ratio: float) -> TableFunction:
    """Return the function of gold.leader_hotspots: the cluster, and each topic."""

    def make_rows(aggregates: SchemeAggregates, row: pa.Table) -> pa.Table:
        cluster = pa.Table.from_batches([cluster_hotspot_rows(aggregates, hot_ratio)])
        return pa.concat_tables([cluster, ipc.unpack_tables([row["topic_hotspots"][0].as_py()], HOTSPOTS)])

    return _with_keys(make_rows)


def headroom_function(limits: Limits, headroom: float, over_capacity: bool) -> TableFunction:
    """Return the function of gold.headroom, or of gold.over_capacity. Clusters without limits get uniform ones."""

    def make_rows(aggregates: SchemeAggregates, row: pa.Table) -> pa.Table:
        key = (row["cluster_id"][0].as_py(), row["snapshot_id"][0].as_py())
        return headroom_rows(aggregates, limits.get(key), headroom)[over_capacity]

    return _with_keys(make_rows)
