"""Compiles the kernels before they are needed, on tiny inputs. Machine code is kept beside the kernels' sources.

`python -m pipelines.setup.kernel_compilation placement failures` compiles these groups; without names, missing ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from pipelines.setup.first_use_compilation import FAILURES, PLACEMENT, REPLAY, compile_missing, note, plan_group
from udfs.arrow.ipc import packed
from udfs.durability.durability_rows import DurabilityPlan, durability
from udfs.failures.aggregates import Want, added, sum_placement, sum_seed, with_pairs
from udfs.failures.failure_rows import Outcome
from udfs.failures.load_rows import topic_hotspots
from udfs.failures.partition_groups import PARTITIONS as OF_PARTITIONS
from udfs.failures.partition_groups import TOPICS as OF_TOPICS
from udfs.failures.partition_groups import Share, computed, observed, place
from udfs.failures.scenarios import Cluster, RandomPlan, scenarios_of
from udfs.hotspots.hotspot_distribution import Mix, Trial
from udfs.kernel_compiler import cache_folder
from udfs.origin.topic_origins import BROKERS, TOPICS, topic_origins
from udfs.placement.kernels.topic_arrays import BrokerLists
from udfs.placement.schemes import KAFKA, SCHEMES
from udfs.placement.topic_batches import LiveBrokers, Requests, place_topics
from udfs.planning.goals import GOALS
from udfs.planning.plan_batches import KINDS, planner
from udfs.planning.plan_metrics import Effort
from udfs.planning.plan_request import PRIORITIES, PlanRequest
from udfs.planning.waves import Limits
from udfs.simulation.cluster_events import Begin, Held
from udfs.simulation.cluster_events import Event as ReplayEvent
from udfs.simulation.groups.group_simulation import GroupEvent, replay_groups
from udfs.simulation.kernels import codes
from udfs.simulation.kernels.consumer_groups import JOIN
from udfs.simulation.plain_results import replay


def compile_placement() -> None:
    """Place a topic by each scheme, with racks and without, count its leaders, and look for the origin of topics."""
    name, two = pa.array(["warm-up"]), pa.array([2], pa.int32())
    mix = Mix(np.zeros(1, np.uint64), np.array([2]), np.array([2]), np.array([], dtype=np.int64), np.zeros(2, np.int64))
    for scheme in SCHEMES.values():
        for racks in (None, ["a", "b", "a"]):
            if scheme.place is not None:
                lists = BrokerLists.of(np.arange(3), np.array([0, 3]), racks)
                place_topics(Requests(name, name, two, two), lists, np.zeros(1, dtype=np.int64), scheme, 0)
                trial = Trial.of(scheme.name, mix, LiveBrokers((0, 1, 2), racks or ()), 1, 1)
                trial.counts(0)
                trial.expected_blind()
    brokers = pa.table(
        [pa.array([0, 1, 2], pa.int32()), pa.nulls(3, pa.string()), pa.array([True] * 3)], schema=BROKERS
    )
    # The last partition breaks the pattern, so that a later growth is tried too.
    lists_of_replicas = ([0, 1], [1, 2], [2, 0], [0, 1], [0, 2])
    shown = [{"partition": p, "replicas": replicas} for p, replicas in enumerate(lists_of_replicas)]
    for racks in (brokers["rack"], pa.array(["a", "b", "a"])):
        topics = pa.Table.from_pylist(
            [dict.fromkeys(TOPICS.names[:3], f"warm-up-{last}") | {"shown": shown[:last]} for last in (2, 5)], TOPICS
        )
        topic_origins(topics, brokers.set_column(1, "rack", racks))


def compile_failures() -> None:
    """Sum up the failures of a cluster of three brokers and one topic."""
    cluster = Cluster((0, 1, 2), ("a", "b", "a"), ((0, 1),), 2)
    topic = {"topic": "t", "partitions": 2, "replication_factor": 2, "min_insync_replicas": 1, "partition_loads": []}
    rows = [
        {"topic": "t", "partition": p, "replicas": [p, p + 1], "leader": p, "isr": [], "elr": [], "lags": []}
        for p in range(2)
    ]
    share = Share("c", cluster, pa.Table.from_pylist([topic], OF_TOPICS), pa.Table.from_pylist(rows, OF_PARTITIONS))
    scenarios = scenarios_of("c", cluster, RandomPlan((2,), 1, 0))
    ids = np.arange(3, dtype=np.int32)
    for placement in (observed(share), computed(share, place(share, SCHEMES[KAFKA], 0))):
        sums = with_pairs(added([sum_placement(placement, 3, Want(scenarios, pairs=True))], 3))
        topic_hotspots(placement, pa.array(["t"]), ids, 1.0)
    sum_seed(place(share, SCHEMES[KAFKA], 0), 3)
    for steps in (0, 10**6):
        durability(Outcome(ids, scenarios, sums), cluster.racks, DurabilityPlan((1, 2, 3), steps, 1, 0))


def compile_plan(goal: str) -> None:
    """Plan for this goal, in a cluster of seven brokers on three racks, one of them empty."""
    ids = {"broker_id": range(7), "rack": [f"r{b % 3}" for b in range(7)], "live": [True] * 7, "draining": [False] * 7}
    rows = [
        {"topic": "t", "partition": p, "leader": p % 3, "replicas": [p % 3, 3 + p % 2], "size_bytes": p + 1}
        | {"adding_replicas": [], "removing_replicas": [], "bytes_in_per_s": 1.0 + p, "bytes_out_per_s": 2.0 + p}
        for p in range(24)
    ]
    tables = {
        "brokers": pa.table(ids),
        "topics": pa.table({"topic": ["t"], "marked_for_deletion": [False], "min_insync_replicas": [1]}),
        "partitions": pa.Table.from_pylist(rows),
    }
    ipc_batches = [packed(tables[kind].select(schema.names).cast(schema)) for kind, schema in KINDS.items()]
    held = pa.table({"kind": list(KINDS), "ipc_batch": pa.array(ipc_batches, pa.binary())})
    more = {"drain": {"brokers": (5,)}, "replace": {"replacements": ((5, 6),)}, "rf": {"factor": 3}}
    plan_request = PlanRequest(goal, priorities=PRIORITIES, **more.get(goal, {}))  # type: ignore[arg-type]
    planner(plan_request, Limits(), Effort(), 1)((pa.scalar("warm-up"), pa.scalar("")), held)


def compile_replay() -> None:
    """Replay a cluster of two brokers, and a consumer group of one member."""
    begin = Begin((0, 1), frozenset((0, 1)), (Held(("t", 0), (0, 1), (0, 1), 0),), 0, 1)
    appended = ReplayEvent(10**6, codes.APPEND, partition=("t", 0), request=0, messages=1)
    replay(begin, [ReplayEvent(0, codes.BROKER_DOWN, 1), appended])
    replay_groups([GroupEvent(0, JOIN, "g", "m")])


GROUPS: dict[str, Callable[[], None]] = {
    PLACEMENT: compile_placement,
    FAILURES: compile_failures,
    REPLAY: compile_replay,
    **{plan_group(goal): partial(compile_plan, goal) for goal in GOALS},
}


def compile_groups(names: Sequence[str]) -> None:
    """Compile these groups of kernels (names of GROUPS), and note where the machine code is kept that this was done."""
    for name in names:
        GROUPS[name]()
        if (folder := cache_folder()) is not None and folder.is_dir():
            note(folder, name).touch()


if __name__ == "__main__":
    if sys.argv[1:]:
        compile_groups(sys.argv[1:])
    else:
        compile_missing(list(GROUPS))
