"""What one pass over partitions adds up, as named arrays, and how the shards of a cluster are put together."""

import io
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.ragged import offsets_of, row_of
from udfs.durability.kernels.loss_probability import find_copysets
from udfs.failures.kernels import election, failure_totals
from udfs.failures.kernels.election import (
    COUNTS,
    MAX_REPLICAS,
    NO_BROKER,
    TOTALS,
    UNKNOWN,
    WEIGHTS,
    BrokerCounts,
    count_brokers,
    count_successors,
)
from udfs.failures.kernels.failure_totals import EVENTS, FETCH, LOADS
from udfs.failures.partition_arrays import Placement, truncate_replicas
from udfs.failures.scenarios import Scenarios
from udfs.placement.kernels.topic_arrays import TopicPlacements

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

# Merged by key, not added up.
JOINT = ("joint_key", "joint_sum")
_COPYSETS = ("copyset_offsets", "copyset_members")
_WIDTHS = MAX_REPLICAS + 1


def _zeros(*shape: int) -> npt.NDArray[np.int64]:
    return np.zeros(shape, np.int64)


def aggregate_failures(placement: Placement, brokers: int, scenarios: Scenarios, pairs: bool) -> dict[str, Array]:
    """Add up what n brokers lead, and single failures, scenarios, and pairs if asked for, over one placement.

    Fields of FailureSums (joint_key, joint_sum: float64 (e, 3), takeovers and rates by distinct key), ScenarioSums
    (prefix scenario_) and BrokerCounts, and `known` of Placement.
    """
    group, n, s = truncate_replicas(placement.group), brokers, len(scenarios.kind)
    counts = BrokerCounts(_zeros(n, COUNTS), np.zeros((n, WEIGHTS)), _zeros(TOTALS))
    count_brokers(placement.group, counts)
    live = placement.group.broker != NO_BROKER
    sizes = np.maximum(placement.replica_bytes[live], 0)
    counts.broker_loads[:, election.SIZE] = np.bincount(placement.group.broker[live], sizes, n)
    paired, room = (n, 2 * len(group.leader)) if pairs else (0, 0)
    single = (_zeros(EVENTS), np.zeros((n, LOADS)), _zeros(n, EVENTS), np.zeros((n, n, LOADS)))
    by_pair = _zeros(paired, paired, EVENTS), _zeros(n, EVENTS), _zeros(room), _zeros(room)
    sums = failure_totals.FailureSums(*single, *by_pair)
    entries = failure_totals.sum_failures(group, scenarios.pair_stops, sums)
    out = sums._asdict()
    rates = group.rate[out.pop("joint_partition")[:entries]]
    out |= _sum_by_key(sums.joint_key[:entries], np.column_stack([np.ones(entries), rates]))
    by_scenario = failure_totals.ScenarioSums(_zeros(s, EVENTS), np.zeros((s, n, LOADS)))
    failure_totals.sum_scenarios(group, *scenarios.by_broker(n), scenarios.stops, by_scenario)
    return out | _prefixed("scenario", by_scenario._asdict()) | counts._asdict() | {"known": placement.known}


def aggregate_placement(placement: Placement, brokers: int, scenarios: Scenarios, pairs: bool) -> dict[str, Array]:
    """Add up everything that the gold tables are computed from over one placement of a shard.

    Also: fields of RestartSums (prefix restart_), copysets of live replicas, and int64 (_WIDTHS), by number of live
    replicas: partitions (width_count), their bytes, and those of unknown size (width_unsized).
    """
    n, group = brokers, truncate_replicas(placement.group)
    restart = failure_totals.RestartSums(
        _zeros(n, EVENTS), _zeros(n, EVENTS), np.zeros((n, n, FETCH)), np.zeros((n, FETCH))
    )
    failure_totals.sum_restart(group, scenarios.pair_stops, restart)
    live = group.broker != NO_BROKER
    width = np.bincount(row_of(group.offsets)[live], minlength=len(group.leader))
    weights = {"count": None, "bytes": np.maximum(group.size, 0), "unsized": group.size == UNKNOWN}
    return {
        **aggregate_failures(placement, n, scenarios, pairs),
        **_prefixed("restart", restart._asdict()),
        **dict(zip(_COPYSETS, find_copysets(offsets_of(width), group.broker[live], n), strict=True)),
        **{f"width_{k}": np.bincount(width, w, _WIDTHS).astype(np.int64) for k, w in weights.items()},
    }


def _prefixed(prefix: str, arrays: Arrays) -> dict[str, Array]:
    return {f"{prefix}_{name}": values for name, values in arrays.items()}


def _sum_by_key(key: Array, values: Array) -> dict[str, Array]:
    """Return the distinct keys, rising, and the sums (float64 (e, 3)) of the values (flat, 3) of each."""
    keys, entry = np.unique(key, return_inverse=True)
    sums = [np.bincount(entry, weights=values[:, column], minlength=len(keys)) for column in range(3)]
    return {"joint_key": keys, "joint_sum": np.column_stack(sums).astype(np.float64, copy=False)}


def aggregate_seed(placed: TopicPlacements, brokers: int) -> dict[str, Array]:
    """Count leaders (1, n) and takeovers (1, n, n) of one more placement, on brokers 0 to n - 1, all in sync."""
    leaders, takeovers = _zeros(brokers), np.zeros((brokers, brokers), np.int32)
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


def finish_pairs(sums: Arrays, stops: npt.NDArray[np.bool_]) -> dict[str, Array]:
    """Replace pair_events and joint takeovers of a whole cluster by the outcome of each pair a < b.

    stops: see pair_stops of Scenarios.
    """
    out = {name: values for name, values in sums.items() if name not in JOINT}
    a, b = np.triu_indices(len(sums["pair_events"]), 1)
    count = len(a)
    pairs = failure_totals.PairSums(
        np.empty((count, FETCH)), np.empty((count, FETCH)), np.empty(count, np.int32), _zeros(count)
    )
    if len(sums["pair_events"]):
        leader_loads, takeovers = (sums[name][..., :FETCH].copy() for name in ("leader_loads", "takeovers"))
        joint_key, joint_sum = (np.ascontiguousarray(sums[name]) for name in JOINT)
        failure_totals.sum_pairs(leader_loads, takeovers, stops, joint_key, joint_sum, pairs)
    single, stopped = (sums[name][a] + sums[name][b] for name in ("single_events", "stopped_events"))
    parts = np.where(stops[a, b, None], stopped, single)
    out["pair_events"] = sums["events"] + parts + sums["pair_events"][a, b]
    return out | _prefixed("pair", pairs._asdict())


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
        return dict(arrays)
