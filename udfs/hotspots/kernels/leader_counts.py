"""Count the leaders and replicas of each broker for many seeds, without placing partition by partition.

In Kafka's round robin over n brokers, n consecutive partitions put one leader on every broker. So a topic gives every
broker p // n leaders, and one more to an arc of p % n brokers: two entries of a difference array. Without racks, every
rank of follower is an arc too. Kernels take run_words (seeds) of `mix_run_seeds`, and add to `counts`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import offsets_of, row_of, take_segments
from udfs.kernel_compiler import compiled, part
from udfs.placement.kernels.java_util import MULTIPLIER, STATE_MASK, next_int, shuffle
from udfs.placement.kernels.round_robin import ReplicaScratch, place_partition
from udfs.placement.kernels.striped import RackLayout, StripedTopic, StripeScratch, lay_out_racks, place_topic
from udfs.placement.kernels.topic_arrays import Ids, Ints
from udfs.placement.kernels.topic_seeds import Words, combine_seed


class ClusterTopics(NamedTuple):
    """The t topics of a cluster."""

    name_hash: Words  # uint64 (t), of `hash_topic_names`
    partitions: Ints  # int64 (t)
    replication_factor: Ints  # int64 (t)
    partition_ids: Ints  # int64 (flat), the only partitions to count of each topic; none = all of them
    partition_id_offsets: Ints  # int64 (t + 1)

    def select(self, rows: npt.NDArray[np.bool_]) -> ClusterTopics:
        """Return the topics with a flag: rows, bool (t)."""
        ids, offsets = take_segments(self.partition_ids, self.partition_id_offsets, np.flatnonzero(rows))
        values = (self.name_hash[rows], self.partitions[rows], self.replication_factor[rows])
        return ClusterTopics(*values, ids.astype(np.int64), offsets)

    def count_rows(self) -> Ints:
        """Return the partitions to count of each topic: int64 (t)."""
        selected = np.diff(self.partition_id_offsets)
        return np.where(selected > 0, selected, self.partitions)


class SeedCounts(NamedTuple):
    """Leaders and replicas of each broker, for each seed: int64 (seeds, brokers)."""

    leaders: Ints
    replicas: Ints


class Arcs(NamedTuple):
    """Topics over n brokers as whole rounds, and arcs: runs of partitions within one round."""

    whole: Ints  # int64 (t), whole rounds over the brokers
    offsets: Ints  # int64 (t + 1), the arcs of each topic in the flat arrays
    begin: Ints  # int64 (flat), first partition of an arc, modulo n
    length: Ints  # int64 (flat), partitions of an arc
    turn: Ints  # int64 (flat), round of an arc


def find_arcs(topics: ClusterTopics, brokers: int) -> Arcs:
    """Split topics into whole rounds and arcs; each selected partition id is an arc of its own."""
    selected = np.diff(topics.partition_id_offsets)
    whole = np.where(selected > 0, 0, topics.partitions // brokers)
    rest = np.where(selected > 0, 0, topics.partitions % brokers)
    offsets = offsets_of(np.where(selected > 0, selected, rest > 0))
    topic = row_of(offsets)
    single = selected[topic] > 0
    begin, length, turn = np.zeros_like(topic), rest[topic], whole[topic]
    begin[single], length[single] = topics.partition_ids % brokers, 1
    turn[single] = topics.partition_ids // brokers
    return Arcs(whole, offsets, begin, length, turn)


@part
def _seed(state: Ints, name_hash: np.uint64, run_word: np.uint64) -> None:
    """Set `state` (int64, 1) to that of a topic's generator in a run."""
    state[0] = (combine_seed(name_hash, run_word) ^ MULTIPLIER) & STATE_MASK


@part
def _add_arc(steps: Ints, begin: int, length: int) -> None:
    """Add one to `length` (1 to n - 1) brokers from `begin`, wrapping around; steps: int64 (n + 1), differences."""
    n = len(steps) - 1
    end = begin + length
    steps[begin] += 1
    if end > n:
        steps[0] += 1
        end -= n
    steps[end] -= 1


@part
def _accumulate(steps: Ints, out: Ints) -> None:
    """Add the counts of the differences (n + 1) to `out` (n), and clear the differences."""
    level = 0
    for k in range(len(out)):
        level += steps[k]
        out[k] += level
    steps[:] = 0


@part
def _finish_seed(
    leaders: Ints, replicas: Ints, leader_steps: Ints, follower_steps: Ints, leaders_each: int, replicas_each: int
) -> None:
    """Add up a seed's differences, and what every broker has: `leaders_each`, and `replicas_each` beside leaders."""
    _accumulate(leader_steps, leaders)
    _accumulate(follower_steps, replicas)
    for k in range(len(leaders)):
        replicas[k] += leaders[k] + replicas_each
        leaders[k] += leaders_each


@compiled
def count_round_robin(run_words: Words, topics: ClusterTopics, arcs: Arcs, is_random: bool, counts: SeedCounts) -> None:
    """Count the round robin without racks, in the order placed over; not is_random: start index and shift are 0."""
    n = counts.leaders.shape[1]
    begin, length, turn, factor = arcs.begin, arcs.length, arcs.turn, topics.replication_factor
    state = np.empty(1, dtype=np.int64)
    leader_steps, follower_steps = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    leaders_each, replicas_each = arcs.whole.sum(), (arcs.whole * factor).sum()  # of whole rounds
    for s in range(len(run_words)):
        for i in range(len(factor)):
            start, shift = 0, 0
            if arcs.offsets[i] == arcs.offsets[i + 1]:
                continue
            if is_random:
                _seed(state, topics.name_hash[i], run_words[s])
                start = next_int(state, 0, n)
                if factor[i] > 1:
                    shift = next_int(state, 0, n)
            for a in range(arcs.offsets[i], arcs.offsets[i + 1]):
                first = begin[a] + start
                if first >= n:
                    first -= n
                _add_arc(leader_steps, first, length[a])
                step = (shift + turn[a]) % (n - 1) if is_random and factor[i] > 1 else 0
                for _rank in range(1, factor[i]):
                    follower = first + 1 + step
                    if follower >= n:
                        follower -= n
                    _add_arc(follower_steps, follower, length[a])
                    step += 1
                    if step == n - 1:
                        step = 0
        _finish_seed(counts.leaders[s], counts.replicas[s], leader_steps, follower_steps, leaders_each, replicas_each)


@compiled
def count_rack_aware(
    run_words: Words, topics: ClusterTopics, arcs: Arcs, rack: Ids, racks: int, counts: SeedCounts
) -> None:
    """Count the rack-aware round robin of one factor; equal pairs of leader and shift have equal followers."""
    n, width = counts.leaders.shape[1], topics.replication_factor[0]
    whole, begin, length, turn = arcs.whole, arcs.begin, arcs.length, arcs.turn
    cycle = max(1, n - 1)
    state = np.empty(1, dtype=np.int64)
    pair_steps = np.zeros((cycle, n + 1), dtype=np.int64)  # differences along the leaders
    round_steps = np.zeros(cycle + 1, dtype=np.int64)  # whole rounds, differences along the shifts
    scratch = ReplicaScratch(
        np.zeros(1, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
    )
    for s in range(len(run_words)):
        rounds = 0  # whole rounds at every shift
        for i in range(len(topics.name_hash)):
            if whole[i] == 0 and arcs.offsets[i] == arcs.offsets[i + 1]:
                continue
            _seed(state, topics.name_hash[i], run_words[s])
            start = next_int(state, 0, n)
            shift = next_int(state, 0, n)
            rounds += whole[i] // cycle
            if whole[i] % cycle > 0:
                _add_arc(round_steps, shift % cycle, whole[i] % cycle)
            for a in range(arcs.offsets[i], arcs.offsets[i + 1]):
                first = begin[a] + start
                _add_arc(pair_steps[(shift + turn[a]) % cycle], first if first < n else first - n, length[a])
        for t in range(cycle):
            rounds += round_steps[t]
            level = rounds
            for leader in range(n):
                level += pair_steps[t, leader]
                if level == 0:
                    continue
                counts.leaders[s, leader] += level
                place_partition(rack, racks, leader, t, width, scratch)
                for rank in range(width):
                    counts.replicas[s, scratch.replicas[rank]] += level
            pair_steps[t, :] = 0
        round_steps[:] = 0


@compiled
def count_striped_one_rack(run_words: Words, topics: ClusterTopics, counts: SeedCounts) -> None:
    """Count KRaft's placement of whole topics over unfenced brokers (by id) of one rack.

    The last, incomplete round is an arc: by id in the first round, in a newly shuffled order in each later one.
    """
    n, factor = counts.leaders.shape[1], topics.replication_factor
    state = np.empty(1, dtype=np.int64)
    leader_steps, follower_steps = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    order = np.empty(n, dtype=np.int32)
    leaders_each, replicas_each = (
        (topics.partitions // n).sum(),
        (topics.partitions // n * factor).sum(),
    )  # whole rounds
    for s in range(len(run_words)):
        for i in range(len(factor)):
            whole, rest = topics.partitions[i] // n, topics.partitions[i] % n
            if rest == 0:
                continue
            _seed(state, topics.name_hash[i], run_words[s])
            start = next_int(state, 0, n)
            if whole == 0:
                _add_arc(leader_steps, start, rest)
                for rank in range(1, factor[i]):
                    first = start + rank
                    _add_arc(follower_steps, first if first < n else first - n, rest)
                continue
            next_int(state, 0, 1)  # the draw of a rack
            for k in range(n):
                order[k] = k
            for _round in range(whole):
                shuffle(state, 0, order)
            for partition in range(rest):
                counts.leaders[s, order[(start + partition) % n]] += 1
                for rank in range(1, factor[i]):
                    counts.replicas[s, order[(start + partition + rank) % n]] += 1
        _finish_seed(counts.leaders[s], counts.replicas[s], leader_steps, follower_steps, leaders_each, replicas_each)


@compiled
def count_striped(
    run_words: Words, topics: ClusterTopics, ids: Ids, rank: Ids, rack_hash: Ids, counts: SeedCounts
) -> None:
    """Count KRaft's placement over unfenced brokers by placing every replica; ids: int32 (n), of each in `counts`."""
    n = counts.leaders.shape[1]
    brokers, bounds = np.empty(n, dtype=np.int32), np.empty(2 * n + 1, dtype=np.int32)
    draw_order = np.empty(n, dtype=np.int32)
    racks = lay_out_racks(ids, rank, np.zeros(n, dtype=np.bool_), rack_hash, brokers, bounds, draw_order)
    layout = RackLayout(brokers, bounds, draw_order, racks)
    scratch = StripeScratch(
        np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32), np.empty((2 * n, 3), dtype=np.int32)
    )
    state = np.empty(1, dtype=np.int64)
    out = np.empty((topics.partitions * topics.replication_factor).max(), dtype=np.int32)
    orders = np.empty_like(topics.partition_ids)
    for i in range(len(topics.partitions)):
        lo, hi = topics.partition_id_offsets[i], topics.partition_id_offsets[i + 1]
        orders[lo:hi] = np.argsort(topics.partition_ids[lo:hi])
    for s in range(len(run_words)):
        for i in range(len(topics.partitions)):
            _seed(state, topics.name_hash[i], run_words[s])
            lo, hi = topics.partition_id_offsets[i], topics.partition_id_offsets[i + 1]
            partition_ids, order = topics.partition_ids[lo:hi], orders[lo:hi]
            rows, width = topics.partitions[i], topics.replication_factor[i]
            count = rows
            if hi > lo:
                count, rows = partition_ids[order[-1]] + 1, hi - lo
            place_topic(state, 0, layout, scratch, StripedTopic(count, width, partition_ids, order), out)
            at = 0
            for _row in range(rows):
                counts.leaders[s, out[at]] += 1
                for _rank in range(width):
                    counts.replicas[s, out[at]] += 1
                    at += 1
