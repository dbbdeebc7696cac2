"""What one pass over some partitions of a cluster adds up, and how the shards of a cluster are put together.

Aggregates are named arrays. Most add up element by element; joint takeovers and copysets are merged by key.
"""

import io
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.ragged import offsets_of, row_of
from udfs.durability.kernels.loss_probability import find_copysets
from udfs.failures.kernels.broker_sums import COUNTS, TOTALS, WEIGHTS, count_brokers, count_successors
from udfs.failures.kernels.failure_totals import sum_failures
from udfs.failures.kernels.partition_arrays import (
    EVENTS,
    FETCH,
    LOADS,
    MAX_REPLICAS,
    NO_BROKER,
    UNKNOWN,
    BrokerCounts,
    FailureSums,
    PairSums,
    RestartSums,
    ScenarioSums,
)
from udfs.failures.kernels.rolling_restart import sum_restart
from udfs.failures.kernels.scenario_sums import sum_pairs, sum_scenarios
from udfs.failures.partition_groups import Placement, truncate_replicas
from udfs.failures.scenarios import Scenarios
from udfs.placement.kernels.topic_arrays import TopicPlacements

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

# Merged by key, not added up.
JOINT = ("joint_key", "joint_sum")
_COPYSETS = ("copyset_offsets", "copyset_members")
_WIDTHS = MAX_REPLICAS + 1


def aggregate_failures(placement: Placement, brokers: int, scenarios: Scenarios, pairs: bool) -> dict[str, Array]:
    """Add up what brokers lead, and single failures, pairs and scenarios, over one placement of a shard.

    Args:
        placement: of a shard's partitions.
        brokers: number n of live brokers.
        scenarios: s sets of brokers that fail together.
        pairs: whether to add up all pairs of brokers.

    Returns:
        The fields of FailureSums, with joint_key and joint_sum (float64 (e, 3): takeovers and rates) by distinct key.
        scenario_events, scenario_losses, scenario_takeovers: of ScenarioSums.
        broker_counts, broker_loads, totals: of BrokerCounts.
        known: int64 (3), see Placement.
    """
    group, n, s = truncate_replicas(placement.group, MAX_REPLICAS), brokers, len(scenarios.kind)
    counts = BrokerCounts(np.zeros((n, COUNTS), np.int64), np.zeros((n, WEIGHTS)), np.zeros(TOTALS, np.int64))
    count_brokers(placement.group, counts)
    paired, room = (n, 2 * len(group.leader)) if pairs else (0, 0)
    sums = FailureSums(
        np.zeros(EVENTS, np.int64),
        np.zeros((n, LOADS)),
        np.zeros((n, EVENTS), np.int64),
        np.zeros((n, n, LOADS)),
        np.zeros((paired, paired, EVENTS), np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )
    entries = sum_failures(group, sums)
    out = sums._asdict()
    rates = group.rate[out.pop("joint_partition")[:entries]]
    out |= _sum_by_key(sums.joint_key[:entries], np.column_stack([np.ones(entries), rates]))
    by_scenario = ScenarioSums(np.zeros((s, EVENTS), np.int64), np.zeros((s, n, LOADS)), np.zeros((s, n, LOADS)))
    sum_scenarios(group, *scenarios.by_broker(n), by_scenario)
    named = {f"scenario_{name}": values for name, values in by_scenario._asdict().items()}
    return out | named | counts._asdict() | {"known": placement.known}


def aggregate_placement(placement: Placement, brokers: int, scenarios: Scenarios, pairs: bool) -> dict[str, Array]:
    """Add up everything that the gold tables are computed from over one placement of a shard.

    Args:
        placement: of a shard's partitions.
        brokers: number n of live brokers.
        scenarios: sets of brokers that fail together.
        pairs: whether to add up all pairs of brokers.

    Returns:
        What `aggregate_failures` returns, and:
        restart_events, restart_lasting_events, restart_takeovers, restart_returns: of RestartSums.
        copyset_offsets, copyset_members: of `find_copysets`, over live replicas.
        width_count, width_bytes, width_unsized: int64 (_WIDTHS), partitions by number of live replicas, their bytes,
        and those of unknown size.
    """
    n = brokers
    group = truncate_replicas(placement.group, MAX_REPLICAS)
    restart = RestartSums(
        np.zeros((n, EVENTS), np.int64), np.zeros((n, EVENTS), np.int64), np.zeros((n, n, FETCH)), np.zeros((n, FETCH))
    )
    sum_restart(group, restart)

    live = group.broker != NO_BROKER
    width = np.bincount(row_of(group.offsets)[live], minlength=len(group.leader))
    sets = find_copysets(offsets_of(width), group.broker[live], n)
    size = np.maximum(group.size, 0)
    return {
        **aggregate_failures(placement, n, scenarios, pairs),
        **{f"restart_{name}": values for name, values in restart._asdict().items()},
        "copyset_offsets": sets[0],
        "copyset_members": sets[1],
        "width_count": np.bincount(width, minlength=_WIDTHS),
        "width_bytes": np.bincount(width, weights=size, minlength=_WIDTHS).astype(np.int64),
        "width_unsized": np.bincount(width, weights=group.size == UNKNOWN, minlength=_WIDTHS).astype(np.int64),
    }


def _sum_by_key(key: Array, values: Array) -> dict[str, Array]:
    """Return the distinct keys, rising, and the sums (float64 (e, 3)) of the values (flat, 3) of each."""
    keys, entry = np.unique(key, return_inverse=True)
    sums = [np.bincount(entry, weights=values[:, column], minlength=len(keys)) for column in range(3)]
    return {"joint_key": keys, "joint_sum": np.column_stack(sums).astype(np.float64, copy=False)}


def aggregate_seed(placed: TopicPlacements, brokers: int) -> dict[str, Array]:
    """Count leaders and takeovers of a placement by one more seed: seed_leaders (1, n), seed_takeovers (1, n, n).

    placed: on brokers 0 to n - 1, all replicas in sync, so the second replica takes over from the first.
    """
    leaders, takeovers = np.zeros(brokers, np.int64), np.zeros((brokers, brokers), np.int32)
    count_successors(placed.replica_offsets, placed.broker, leaders, takeovers)
    return {"seed_leaders": leaders[None], "seed_takeovers": takeovers[None]}


def stack_seeds(seeds: Iterable[Arrays]) -> dict[str, Array]:
    """Concatenate the arrays of several seeds."""
    parts = list(seeds)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def add_shards(shards: Iterable[Arrays], brokers: int) -> dict[str, Array]:
    """Put the aggregates of all shards of a cluster together."""
    out: dict[str, Array] = {}
    lists: dict[str, list[Array]] = {}
    for shard in shards:
        for name, values in shard.items():
            if name in (*JOINT, *_COPYSETS):
                lists.setdefault(name, []).append(values)
            else:
                out[name] = out[name] + values if name in out else values
    if "joint_key" in lists:
        out |= _sum_by_key(*(np.concatenate(lists[name]) for name in JOINT))
    if "copyset_offsets" in lists:
        lengths = np.concatenate([np.diff(offsets) for offsets in lists["copyset_offsets"]])
        members = np.concatenate(lists["copyset_members"]).astype(np.int32)
        out |= zip(_COPYSETS, find_copysets(offsets_of(lengths), members, brokers), strict=True)
    return out


def finish_pairs(sums: Arrays) -> dict[str, Array]:
    """Replace pair_events and the joint takeovers of a whole cluster by the outcome of each pair a < b.

    pair_worst, pair_total, pair_worst_broker, pair_takeover_brokers: of PairSums. pair_events: int64 (pairs, EVENTS)
    after both failures.
    """
    out = {name: values for name, values in sums.items() if name not in JOINT}
    n = len(sums["pair_events"])
    a, b = np.triu_indices(n, 1)
    count, loads = len(a), FETCH
    pairs = PairSums(
        np.empty((count, loads)), np.empty((count, loads)), np.empty(count, np.int32), np.empty(count, np.int64)
    )
    if n:
        leader_loads, takeovers = (
            np.ascontiguousarray(sums[name][..., :loads]) for name in ("leader_loads", "takeovers")
        )
        joint_key, joint_sum = (np.ascontiguousarray(sums[name]) for name in JOINT)
        sum_pairs(leader_loads, takeovers, joint_key, joint_sum, pairs)
    single = sums["single_events"]
    out["pair_events"] = sums["events"] + single[a] + single[b] + sums["pair_events"][a, b]
    return out | {f"pair_{name}": values for name, values in pairs._asdict().items()}


def pack_arrays(arrays: Arrays) -> bytes:
    """Serialize named arrays, compressed."""
    out = io.BytesIO()
    np.savez(out, **dict(arrays))  # type: ignore[arg-type]
    data = out.getvalue()
    return len(data).to_bytes(8, "little") + bytes(pa.compress(data, codec="lz4", asbytes=True))


def unpack_arrays(data: bytes) -> dict[str, Array]:
    """Deserialize what `pack_arrays` wrote."""
    size = int.from_bytes(data[:8], "little")
    whole = pa.decompress(data[8:], decompressed_size=size, codec="lz4", asbytes=True)
    with np.load(io.BytesIO(whole), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
