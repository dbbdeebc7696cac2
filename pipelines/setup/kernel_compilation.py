"""Compile groups of kernels by calling them on tiny inputs.

`python -m pipelines.setup.kernel_compilation placement failures` compiles these groups; without names, missing ones.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.setup.compile_on_demand import FAILURES, PLACEMENT, REPLAY, compile_missing, get_marker, plan_group
from udfs.arrow.ipc import pack_table
from udfs.durability.durability_rows import DurabilityPlan, durability_rows
from udfs.durability.kernels.loss_probability import SearchEffort
from udfs.failures import partition_arrays as groups
from udfs.failures.failure_outcomes import SchemeAggregates, topic_hotspots
from udfs.failures.partition_sums import aggregate_placement, aggregate_seed, finish_pairs
from udfs.failures.scenarios import Cluster, RandomSets, build_scenarios
from udfs.failures.topic_defaults import KAFKA_DEFAULTS
from udfs.hotspots.hotspot_distribution import PlacementTrial
from udfs.hotspots.kernels.leader_counts import ClusterTopics
from udfs.kernel_compiler import cache_folder
from udfs.network.traffic_rows import NO_ASSUMPTIONS, aggregate_network, locate_clients
from udfs.origin.topic_origins import BROKERS, TOPICS, find_topic_origins
from udfs.placement.kernels.topic_arrays import BrokerLists
from udfs.placement.schemes import KAFKA, SCHEMES
from udfs.placement.topic_placement import LiveBrokers, TopicBatch, place_topics
from udfs.planning.goal_registry import GOALS
from udfs.planning.kernels.log_dir_search import assign_first_waves, balance_log_dirs, fill_log_dirs
from udfs.planning.plan_batches import INPUT_SCHEMAS, make_planner
from udfs.planning.plan_metrics import MetricOptions
from udfs.planning.plan_request import EMPTY_LOG_DIR, LOG_DIRS, PRIORITIES, RELIEVE, PlanRequest
from udfs.planning.waves import WaveLimits
from udfs.simulation.cluster_events import Event as ReplayEvent
from udfs.simulation.cluster_events import InitialPartition, InitialState
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.simulator import simulate


def compile_placement() -> None:
    """Place a topic by each scheme, with and without racks, count its leaders, and find the origin of topics."""
    name, two = pa.array(["warm-up"]), pa.array([2], pa.int32())
    ids, offsets = np.empty(0, dtype=np.int64), np.zeros(2, dtype=np.int64)
    topics = ClusterTopics(np.zeros(1, dtype=np.uint64), np.array([2]), np.array([2]), ids, offsets)
    for scheme in SCHEMES.values():
        for racks in (None, ["a", "b", "a"]):
            if scheme.place is not None:
                lists = BrokerLists.create(np.arange(3), np.array([0, 3]), racks)
                place_topics(TopicBatch(name, name, two, two), lists, np.zeros(1, dtype=np.int64), scheme.name, 0)
                trial = PlacementTrial.create(scheme.name, topics, LiveBrokers((0, 1, 2), racks or ()), 1, 1)
                trial.count(0)
                trial.expect_random_leaders()
    brokers = pa.table(
        [pa.array([0, 1, 2], pa.int32()), pa.nulls(3, pa.string()), pa.array([True] * 3), pa.nulls(3, pa.bool_())],
        schema=BROKERS,
    )
    # The last partition breaks the pattern, so that the kernel also tries whether the topic grew later.
    lists_of_replicas = ([0, 1], [1, 2], [2, 0], [0, 1], [0, 2])
    partitions = [{"partition": p, "replicas": replicas} for p, replicas in enumerate(lists_of_replicas)]
    for racks in (brokers["rack"], pa.array(["a", "b", "a"])):
        rows = pa.Table.from_pylist(
            [dict.fromkeys(TOPICS.names[:3], f"warm-up-{last}") | {"partitions": partitions[:last]} for last in (2, 5)],
            TOPICS,
        )
        find_topic_origins(rows, brokers.set_column(1, "rack", racks))


def compile_failures() -> None:
    """Aggregate the failures of a cluster of three brokers and one topic."""
    cluster = Cluster((0, 1, 2), ("a", "b", "a"), ((0, 1),), 2)
    counts = {"partitions": 2, "replication_factor": 2, "min_insync_replicas": 1}
    topic = {"topic": "t", **counts, "counted": True, "partition_loads": []}
    rows = [
        {"topic": "t", "partition": p, "replicas": [p, p + 1], "leader": p, "isr": [], "elr": [], "lags": []}
        for p in range(2)
    ]
    topics, partitions = pa.Table.from_pylist([topic], groups.TOPICS), pa.Table.from_pylist(rows, groups.PARTITIONS)
    shard = groups.TopicShard("c", cluster, topics, partitions)
    scenarios = build_scenarios("c", cluster, RandomSets((2,), 1, 0))
    ids = np.arange(3, dtype=np.int32)
    placed = groups.place_shard(shard, SCHEMES[KAFKA], 0)
    for placement in (groups.group_observed(shard), groups.group_computed(shard, placed)):
        sums = finish_pairs(aggregate_placement(placement, 3, scenarios, pairs=True), scenarios.pair_stops)
        aggregate_network(placement.group, locate_clients(cluster, NO_ASSUMPTIONS), scenarios)
        groups.elect_after(placement.group, placement.group.broker == 0)
        topic_hotspots(placement, pa.array(["t"]), ids, 1.0)
    aggregate_seed(placed, 3)
    for steps in (0, 10**6):
        plan = DurabilityPlan((1, 2, 3), SearchEffort(steps, 1, 0))
        durability_rows(SchemeAggregates(ids, scenarios, sums), cluster.racks, plan)


def compile_plan(goal: str) -> None:
    """Plan for a goal, in a cluster of seven brokers on three racks, one broker being empty."""
    brokers = [{"broker_id": b, "rack": f"r{b % 3}", "live": True, "draining": False} for b in range(7)]
    partitions = [
        {"topic": "t", "partition": p, "leader": p % 3, "replicas": [p % 3, 3 + p % 2], "size_bytes": p + 1}
        | {
            "isr": [p % 3, 3 + p % 2],
            "adding_replicas": [],
            "removing_replicas": [],
            "offline_replicas": [],
            "replica_sizes": [p + 1, p + 1],
            "bytes_in_per_s": 1.0 + p,
            "bytes_out_per_s": 2.0 + p,
        }
        for p in range(24)
    ]
    rows: dict[str, list[dict[str, Any]]] = {"brokers": brokers, "topics": [{"topic": "t"}], "partitions": partitions}
    ipc_batches = [pack_table(pa.Table.from_pylist(rows[kind], schema)) for kind, schema in INPUT_SCHEMAS.items()]
    inputs = pa.table({"kind": list(INPUT_SCHEMAS), "ipc_batch": pa.array(ipc_batches, pa.binary())})
    options = {"drain": {"brokers": (5,)}, "replace": {"replacements": ((5, 6),)}, "rf": {"factor": 3}}
    kind = "replace" if goal in (RELIEVE, EMPTY_LOG_DIR) else goal  # these need disks, and the same waves
    plan_request = PlanRequest(kind, priorities=PRIORITIES, **options.get(kind, {}))  # type: ignore[arg-type]
    for one in (plan_request, replace(plan_request, max_moves=2))[: 2 if goal == "balance" else 1]:
        make_planner({"warm-up": [one]}, WaveLimits(), MetricOptions(), KAFKA_DEFAULTS)(
            (pa.scalar("warm-up"), pa.scalar(""), pa.scalar(kind)), inputs
        )
    compile_log_dirs(goal)


def compile_log_dirs(goal: str) -> None:
    """Move two replicas between two log dirs, and copy them to a broker with two."""
    two, ids, online = np.ones(2), np.arange(2), np.ones(2, dtype=np.bool_)
    if goal == LOG_DIRS:
        balance_log_dirs(two, np.zeros(2, dtype=np.int64), np.array([2.0, 0.0]), two, two, 1.0, ids.copy())
    else:
        fill_log_dirs(np.zeros(2, dtype=np.int64), two, np.array([0, 2]), online, two.copy(), ids.copy())
    if goal in (LOG_DIRS, RELIEVE, EMPTY_LOG_DIR):
        assign_first_waves(ids, ids, two, 1.0, 1, ids.copy())


def compile_replay() -> None:
    """Simulate a cluster of two brokers."""
    initial = InitialState((0, 1), frozenset((0, 1)), (InitialPartition(("t", 0), (0, 1), (0, 1), 0),), 0, 1)
    appended = ReplayEvent(10**6, EventKind.APPEND, partition=("t", 0), request=0, messages=1)
    simulate(initial, [ReplayEvent(0, EventKind.BROKER_DOWN, 1), appended])


GROUPS: dict[str, Callable[[], None]] = {
    PLACEMENT: compile_placement,
    FAILURES: compile_failures,
    REPLAY: compile_replay,
    **{plan_group(goal): partial(compile_plan, goal) for goal in GOALS},
}


def compile_groups(names: Sequence[str]) -> None:
    """Compile groups of kernels (names of GROUPS), and mark them as compiled."""
    for name in names:
        GROUPS[name]()
        if (folder := cache_folder()) is not None and folder.is_dir():
            get_marker(folder, name).touch()


if __name__ == "__main__":
    if sys.argv[1:]:
        compile_groups(sys.argv[1:])
    else:
        compile_missing(list(GROUPS))
