"""What one pass over some partitions of a cluster adds up, and how the parts of a cluster come together.

All of it is named arrays. Most of them add up element by element; the exceptions are lists that are put one behind the
other, and copysets, of which each counts once.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.ragged import offsets_of, row_of
from udfs.durability.kernels.loss_probability import copysets
from udfs.failures.kernels.broker_sums import COUNTS, TOTALS, WEIGHTS, sum_held, sum_successors
from udfs.failures.kernels.failure_sums import EVENTS, LOADS, MOST_REPLICAS, NOBODY, UNKNOWN, Group, sum_failures
from udfs.failures.kernels.rolling_restart import sum_restart
from udfs.failures.kernels.scenario_sums import pair_leaders, sum_scenarios
from udfs.failures.partition_groups import Placement, first_replicas
from udfs.failures.scenarios import Scenarios
from udfs.placement.kernels.topic_arrays import Placed

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

# Not added up, but put one behind the other.
_LISTS = ("third_key", "third_sum")
_COPYSETS = ("copyset_offsets", "copyset_members")
_WIDTHS = MOST_REPLICAS + 1


@dataclass(frozen=True)
class Want:
    """What to add up. pairs: whether all pairs of brokers."""

    scenarios: Scenarios
    pairs: bool


def _fields(group: Group) -> dict[str, Any]:
    """The arguments that all kernels have: by name."""
    return {name: getattr(group, name) for name in group.__dataclass_fields__}


def sum_placement(placement: Placement, brokers: int, want: Want) -> dict[str, Array]:
    """The sums over one placement of a share on n = `brokers` live brokers.

    held_counts (n, COUNTS), held_loads (n, WEIGHTS), totals (TOTALS): of held.py.   known (3): see Placement.
    now, led, singles, taken, pairs: of failure_sums.py; third_key (e), third_sum (e, 3): its third entries, by key.
    scenario_events, scenario_lost, scenario_taken: of failure_scenarios.py.
    during, from_then, moved, returned: of rolling_restart.py.
    copyset_offsets, copyset_members: of durability.py, over live replicas.
    width_count, width_bytes, width_unsized (_WIDTHS): partitions by live replicas, their bytes, those of no known
    size.
    """
    group, n = placement.group, brokers
    counts, loads, totals = np.zeros((n, COUNTS), np.int64), np.zeros((n, WEIGHTS)), np.zeros(TOTALS, np.int64)
    sum_held(group.offsets, group.broker, group.in_isr, group.leader, group.size, group.rate, counts, loads, totals)

    group = first_replicas(group, MOST_REPLICAS)
    given = _fields(group)
    now, led = np.zeros(EVENTS, np.int64), np.zeros((n, LOADS))
    singles, taken = np.zeros((n, EVENTS), np.int64), np.zeros((n, n, LOADS))
    of_pairs = n if want.pairs else 0
    pairs = np.zeros((of_pairs, of_pairs, EVENTS), np.int64)
    partitions = len(group.leader)
    room = 2 * partitions if want.pairs else 0
    third, third_from = np.empty(room, np.int64), np.empty(room, np.int64)
    entries = sum_failures(
        **given, now=now, led=led, singles=singles, taken=taken, pairs=pairs, third=third, third_from=third_from
    )
    third_key, third_sum = _by_key(third[:entries], group.rate[third_from[:entries]])

    s = len(want.scenarios.kind)
    events = np.zeros((s, EVENTS), np.int64)
    lost, gained = np.zeros((s, n, LOADS)), np.zeros((s, n, LOADS))
    member_offsets, member = want.scenarios.of_brokers(n)
    sum_scenarios(**given, member_offsets=member_offsets, member=member, events=events, lost=lost, taken=gained)
    during, from_then = np.zeros((n, EVENTS), np.int64), np.zeros((n, EVENTS), np.int64)
    moved, returned = np.zeros((n, n, 3)), np.zeros((n, 3))
    sum_restart(**given, during=during, from_then=from_then, moved=moved, returned=returned)

    live = group.broker != NOBODY
    rows = row_of(group.offsets)
    width = np.bincount(rows[live], minlength=partitions)
    sets = copysets(offsets_of(width), group.broker[live], n)
    size = np.maximum(group.size, 0)
    return {
        "held_counts": counts,
        "held_loads": loads,
        "totals": totals,
        "known": placement.known,
        "now": now,
        "led": led,
        "singles": singles,
        "taken": taken,
        "pairs": pairs,
        "third_key": third_key,
        "third_sum": third_sum,
        "scenario_events": events,
        "scenario_lost": lost,
        "scenario_taken": gained,
        "during": during,
        "from_then": from_then,
        "moved": moved,
        "returned": returned,
        "copyset_offsets": sets[0],
        "copyset_members": sets[1],
        "width_count": np.bincount(width, minlength=_WIDTHS),
        "width_bytes": np.bincount(width, weights=size, minlength=_WIDTHS).astype(np.int64),
        "width_unsized": np.bincount(width, weights=group.size == UNKNOWN, minlength=_WIDTHS).astype(np.int64),
    }


def _by_key(key: npt.NDArray[np.int64], rate: npt.NDArray[np.float64]) -> tuple[Array, Array]:
    """(distinct keys, rising; float64 (e, 3): entries and rates of each)."""
    keys, where = np.unique(key, return_inverse=True)
    out = np.empty((len(keys), 3))
    out[:, 0] = np.bincount(where, minlength=len(keys))
    for column in (0, 1):
        out[:, 1 + column] = np.bincount(where, weights=rate[:, column], minlength=len(keys))
    return keys, out


def sum_seed(placed: Placed, brokers: int) -> dict[str, Array]:
    """What a placement by one more seed is asked for: seed_led (1, n), seed_taken (1, n, n), leaders by broker.

    placed: on brokers 0 to n - 1.   All in sync: the second replica takes over from the first.
    """
    led, taken = np.zeros(brokers, np.int64), np.zeros((brokers, brokers), np.int32)
    sum_successors(placed.replica_offsets, placed.broker, led, taken)
    return {"seed_led": led[None], "seed_taken": taken[None]}


def stacked(parts: Iterable[Arrays]) -> dict[str, Array]:
    """Arrays of several seeds, one behind the other."""
    held = list(parts)
    return {name: np.concatenate([part[name] for part in held]) for name in held[0]} if held else {}


def added(parts: Iterable[Arrays], brokers: int) -> dict[str, Array]:
    """The sums of all parts of a cluster, from those of each."""
    out: dict[str, Array] = {}
    lists: dict[str, list[Array]] = {}
    for part in parts:
        for name, values in part.items():
            if name in _LISTS or name in _COPYSETS:
                lists.setdefault(name, []).append(values)
            elif name in out:
                out[name] = out[name] + values
            else:
                out[name] = values
    if "third_key" in lists:
        out |= _merged_third(lists)
    if "copyset_offsets" in lists:
        lengths = np.concatenate([np.diff(offsets) for offsets in lists["copyset_offsets"]])
        members = np.concatenate(lists["copyset_members"]).astype(np.int32)
        sets = copysets(offsets_of(lengths), members, brokers)
        out["copyset_offsets"], out["copyset_members"] = sets
    return out


def _merged_third(lists: Mapping[str, list[Array]]) -> dict[str, Array]:
    keys, where = np.unique(np.concatenate(lists["third_key"]), return_inverse=True)
    every = np.concatenate(lists["third_sum"])
    total = np.column_stack([np.bincount(where, weights=every[:, c], minlength=len(keys)) for c in range(3)])
    return {"third_key": keys, "third_sum": total.astype(np.float64, copy=False)}  # where nothing is summed, ints


def with_pairs(sums: Arrays) -> dict[str, Array]:
    """The sums of a whole cluster with pairs in their final form, in place of `pairs` and the third entries.

    pair_worst, pair_total: float64 (pairs, 3); pair_broker: int32, pair_receivers: int64 (pairs): of pair_leaders.
    pair_events: int64 (pairs, EVENTS), as `now` is after both failures.   Pairs a < b: (0, 1), (0, 2), ...
    """
    out = {name: values for name, values in sums.items() if name not in ("pairs", *_LISTS)}
    n = len(sums["pairs"])
    a, b = np.triu_indices(n, 1)
    worst, total = np.empty((len(a), 3)), np.empty((len(a), 3))
    broker, takeover_brokers = np.empty(len(a), np.int32), np.empty(len(a), np.int64)
    if n:
        led, taken = (np.ascontiguousarray(sums[name][..., :3]) for name in ("led", "taken"))
        third_key, third_sum = (np.ascontiguousarray(sums[name]) for name in _LISTS)
        pair_leaders(led, taken, third_key, third_sum, worst, broker, takeover_brokers, total)
    events = sums["now"] + sums["singles"][a] + sums["singles"][b] + sums["pairs"][a, b]
    return out | {
        "pair_worst": worst,
        "pair_total": total,
        "pair_broker": broker,
        "pair_receivers": takeover_brokers,
        "pair_events": events,
    }


def packed(arrays: Arrays) -> bytes:
    """The arrays as bytes, compressed."""
    out = io.BytesIO()
    np.savez(out, **dict(arrays))  # type: ignore[arg-type]
    data = out.getvalue()
    return len(data).to_bytes(8, "little") + bytes(pa.compress(data, codec="lz4", asbytes=True))


def unpacked(data: bytes) -> dict[str, Array]:
    """The arrays of `packed`."""
    size = int.from_bytes(data[:8], "little")
    whole = pa.decompress(data[8:], decompressed_size=size, codec="lz4", asbytes=True)
    with np.load(io.BytesIO(whole), allow_pickle=False) as held:
        return {name: held[name] for name in held.files}
