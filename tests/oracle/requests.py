"""Random placement requests as flat arrays, in chunks; and a single one as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import offsets_of, position_of, row_of
from udfs.placement.kernels.java_util import index_rack_names
from udfs.placement.kernels.topic_arrays import DRAW_START, NO_RACK, BrokerLists, Topics
from udfs.placement.schemes import KRAFT, find_usable

MAX_BROKERS = 500
MAX_PARTITIONS = 10_000
INT_MAX = 2**31 - 1

# Blocks of rack names; a list of brokers takes its racks from one block. Names of the second block share hash codes.
# Java sorts the third block differently from code points. The last one is for one rack per broker. The others have at
# most 24 names, because nine keys in one bucket of a large HashMap are not modelled (java_util.py).
_BLOCKS = (
    [f"rack-{i}" for i in range(24)],
    ["AaAa", "AaBB", "BBAa", "BBBB", "", "a", "B", "b", "AaC", "BBC"],
    ["\uff21", "\uff5a", "\U0001f600", "\U0001f601", "\ufffd", "é", "e\u0301", "東京-1", "東京-2", " ", "z" * 97],
    [f"eu-west-{i}{zone}" for i in range(1, 9) for zone in "abc"],
    [f"r{i:03d}" for i in range(MAX_BROKERS)],
)
_NAMES = [name for block in _BLOCKS for name in block]
_SIZES = np.array([len(block) for block in _BLOCKS])
_STEP = 7  # from one name of a block to the next; coprime to the sizes of the blocks
_CODES, _RANKS, _HASHES = index_rack_names(_NAMES)
_BY_CODE = [_NAMES[i] for i in np.argsort(_CODES)]


@dataclass(frozen=True)
class OracleCases:
    """Random cases. The topics of a case share a list of brokers, and draw from one generator in order.

    Attributes:
        seeds: int64 (cases).
        topic_offsets: int64 (cases + 1).
        topics: Topics; their generator and broker list have the number of the case.
        lists: A broker list per case.
        names: The rack names that `lists.rack` refers to.
        registered: A broker list per case with the brokers that `lists` leaves out; None = there are none.
        cordoned: Which of those are: bool (as its ids).
    """

    seeds: npt.NDArray[np.int64]
    topic_offsets: npt.NDArray[np.int64]
    topics: Topics
    lists: BrokerLists
    names: list[str]
    registered: BrokerLists | None = None
    cordoned: npt.NDArray[np.bool_] | None = None

    def select_case(self, number: int) -> OracleCases:
        """Return a single case."""
        topic = slice(*self.topic_offsets[number : number + 2].tolist())
        t = self.topics
        zeros = np.zeros(topic.stop - topic.start, dtype=np.int64)
        topics = Topics.create(
            *(t.partitions[topic], t.replication_factor[topic], zeros),
            **{"generator": zeros, "start_partition": t.start_partition[topic]},
            fixed_start_index=t.fixed_start_index[topic],
        )
        one = OracleCases(
            *(self.seeds[number : number + 1], np.array([0, len(zeros)]), topics),
            *(_select_list(self.lists, number), self.names),
        )
        if self.registered is None or self.cordoned is None:
            return one
        brokers = slice(*self.registered.offsets[number : number + 2].tolist())
        return replace(one, registered=_select_list(self.registered, number), cordoned=self.cordoned[brokers])

    def to_json(self) -> dict[str, object]:
        """Return the first case, under the names of Kafka's own parameters."""
        one = self.select_case(0)
        requests = zip(
            one.topics.partitions.tolist(),
            one.topics.replication_factor.tolist(),
            one.topics.start_partition.tolist(),
            one.topics.fixed_start_index.tolist(),
            strict=True,
        )
        names = ("partitions", "replication_factor", "start_partition_id", "fixed_start_index")
        lists = one.registered or one.lists
        cordoned = np.zeros(len(lists.ids), dtype=np.bool_) if one.cordoned is None else one.cordoned
        columns = (lists.ids, lists.rack, lists.fenced, cordoned)
        brokers = zip(*(column.tolist() for column in columns), strict=True)
        return {
            "seed": int(one.seeds[0]),
            "brokers": [
                {"id": i, "rack": None if rack == NO_RACK else self.names[rack]}
                | {name: True for name, applies in (("fenced", fenced), ("cordoned", cordons)) if applies}
                for i, rack, fenced, cordons in brokers
            ],
            "topics": [dict(zip(names, values, strict=True)) for values in requests],
        }


def _select_list(lists: BrokerLists, number: int) -> BrokerLists:
    begin, end = lists.offsets[number : number + 2].tolist()
    columns = (lists.ids[begin:end], np.array([0, end - begin]), lists.rack[begin:end], lists.fenced[begin:end])
    return BrokerLists(*columns, lists.rack_rank, lists.rack_hash)


def add_cordons(requests: OracleCases, rng: np.random.Generator) -> OracleCases:
    """Cordon brokers of cases, so that our placement has only those that it leaves to the striped placer."""
    lists, row = requests.lists, row_of(requests.lists.offsets)
    shares = rng.choice([0, 10, 50, 100], len(lists.offsets) - 1, p=[0.4, 0.3, 0.25, 0.05])
    cordoned = rng.integers(0, 100, len(row)) < shares[row]
    usable = np.array(find_usable(KRAFT, cordoned.tolist()), dtype=np.int64)
    offsets = offsets_of(np.bincount(row[usable], minlength=len(lists.offsets) - 1))
    columns = (lists.ids[usable], offsets, lists.rack[usable], lists.fenced[usable])
    rest = BrokerLists(*columns, lists.rack_rank, lists.rack_hash)
    return replace(requests, lists=rest, registered=lists, cordoned=cordoned)


def generate_chunks(cases: int, size: int, seed: int, striped: bool) -> Iterator[OracleCases]:
    """Yield `cases` random cases in chunks; striped: with fences and missing racks, which only it considers."""
    for number, begin in enumerate(range(0, cases, size)):
        yield generate_cases(np.random.default_rng([seed, number]), min(size, cases - begin), striped)


def generate_cases(rng: np.random.Generator, cases: int, striped: bool) -> OracleCases:
    """Generate requests, most of them valid.

    Brokers: 1 to 500, log-uniform; ids with gaps, in any order. Partitions: log-uniform too, 1 to 10,000 in one of ten
    topics and 1 to 1,000 in the others, 240 on average.
    """
    lists = _generate_brokers(rng, cases, striped)
    counts = np.where(rng.random(cases) < 0.75, 1, rng.integers(2, 5, cases))
    case = np.repeat(np.arange(cases), counts)
    n = len(case)
    brokers = np.diff(lists.offsets)[case]

    factor = rng.integers(1, 8, n)
    factor = np.where(rng.random(n) < 0.9, np.minimum(factor, np.maximum(brokers, 1)), factor)
    partitions = _one_of(
        rng, n, (0.1, _log_uniform(rng, 1, MAX_PARTITIONS, n)), (0.9, _log_uniform(rng, 1, MAX_PARTITIONS // 10, n))
    )
    wide = rng.random(n) < 0.01
    factor = np.where(wide, 1 + (brokers * rng.random(n)).astype(np.int64), factor)
    partitions = np.where(wide, np.minimum(partitions, 50), partitions)
    factor = np.where(rng.random(n) < 0.01, brokers + rng.integers(1, 4, n), factor)
    factor = np.where(rng.random(n) < 0.01, rng.choice([0, -1, -7], n), factor)
    partitions = np.where(rng.random(n) < 0.015, rng.choice([0, -1, -12, -INT_MAX - 1], n), partitions)

    grown = _log_uniform(rng, 1, 20_000, n)
    first = _one_of(rng, n, (0.5, -1), (0.2, 0), (0.28, grown), (0.005, -9), (0.015, INT_MAX - grown))
    small = (rng.random(n) * np.maximum(brokers, 1)).astype(np.int64)
    fixed = _one_of(
        *(rng, n, (0.7, DRAW_START), (0.2, small), (0.005, -2)),
        *((0.055, _log_uniform(rng, 1, INT_MAX, n)), (0.04, INT_MAX - _log_uniform(rng, 1, 20_000, n))),
    )
    # Multiplied by the racks these overflow, and Kafka may try two billion candidates for a follower: use only a few.
    fixed[(fixed > INT_MAX // MAX_BROKERS) & _has_rack(lists)[case] & (rng.random(n) > 0.03)] = DRAW_START
    seeds = rng.integers(-(2**63), 2**63 - 1, cases)
    more = {"generator": case, "start_partition": first, "fixed_start_index": fixed}
    topics = Topics.create(partitions, factor, case, **more)
    return OracleCases(seeds, offsets_of(counts), topics, lists, _BY_CODE)


def _log_uniform(rng: np.random.Generator, least: int, most: int, n: int) -> npt.NDArray[np.int64]:
    """Draw int64 (n) from least to most, with uniform logarithms."""
    low, high = np.log(least), np.log(most + 1)
    return np.minimum(np.exp(low + (high - low) * rng.random(n)).astype(np.int64), most)


def _one_of(
    rng: np.random.Generator, n: int, *choices: tuple[float, int | npt.NDArray[np.int64]]
) -> npt.NDArray[np.int64]:
    """Draw int64 (n), each from one of the choices: (probability, value or values (n))."""
    which = rng.choice(len(choices), n, p=[probability for probability, _ in choices])
    values: npt.NDArray[np.int64] = np.choose(which, [np.broadcast_to(value, n) for _, value in choices])
    return values


def _has_rack(lists: BrokerLists) -> npt.NDArray[np.bool_]:
    """Return whether any broker of a list has a rack: bool (m)."""
    counts = np.diff(np.append(0, np.cumsum(lists.rack != NO_RACK))[lists.offsets])
    has: npt.NDArray[np.bool_] = counts > 0
    return has


def _generate_brokers(rng: np.random.Generator, m: int, striped: bool) -> BrokerLists:
    """Generate m lists of brokers; fences and many missing racks are for the striped placer only."""
    sizes = _one_of(rng, m, (0.003, 0), (0.02, 1), (0.007, MAX_BROKERS), (0.97, _log_uniform(rng, 1, MAX_BROKERS, m)))
    offsets = offsets_of(sizes)
    row, place = row_of(offsets), position_of(offsets)
    flat = len(row)

    # Ids with gaps; the last may be the largest possible.
    gap = 1 + (rng.choice([0, 3, 900], m, p=[0.5, 0.3, 0.2])[row] * rng.random(flat)).astype(np.int64)
    ids = np.cumsum(gap)
    ids -= np.append(0, ids)[offsets[:-1]][row]
    begin = _one_of(rng, m, (0.6, -1), (0.3, 1000), (0.1, INT_MAX - MAX_BROKERS * 901))
    ids += begin[row]
    shuffled = np.where((rng.random(m) < 0.7)[row], rng.random(flat), place)
    ids = ids[np.lexsort((shuffled, row))]

    # Racks: some of a block's names, used unevenly; or one rack per broker.
    block = rng.choice(len(_BLOCKS), m, p=[0.35, 0.15, 0.15, 0.3, 0.05])
    each = (block == len(_BLOCKS) - 1)[row]
    racks = np.minimum(_log_uniform(rng, 1, 24, m), _SIZES[block])
    uneven = rng.choice([1, 2, 5], m)[row]
    turn = (racks[row] * rng.random(flat) ** uneven).astype(np.int64)
    turned = rng.integers(0, MAX_BROKERS, m)  # which of the block's names, and in which order
    name = np.where(each, place, turn)
    begin_of_block = (np.cumsum(_SIZES) - _SIZES)[block]
    name = begin_of_block[row] + (name * _STEP + turned[row]) % _SIZES[block][row]
    some = 0.3 if striped else 0.03
    missing = _one_of(rng, m, (0.4, 100), (0.6 - some, 0), (some, rng.integers(1, 100, m)))
    without = rng.integers(0, 100, flat) < missing[row]
    fenced = rng.integers(0, 100, flat) < rng.choice([0, 10, 50, 90, 100], m, p=[0.4, 0.3, 0.2, 0.08, 0.02])[row]
    rack = np.where(without, NO_RACK, _CODES[name]).astype(np.int32)
    return BrokerLists(ids.astype(np.int32), offsets, rack, fenced, _RANKS, _HASHES)
