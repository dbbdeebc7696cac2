"""Kafka's leader election over flat arrays of partitions: the one rule for tables, `what-if`, views and notebooks.

A leader that is live keeps leading. Otherwise the first replica in assignment order that is live and in the ISR takes
over; else the first that is live and in the ELR; else, where the topic allows unclean election, the first that is
live; else the partition is offline. Checked against failures of real clusters, see docs/design.md. The controller
simulation has its own rules for the steps of an election; a test holds the two equal.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

NO_BROKER = -1
UNKNOWN = -1
MAX_REPLICAS = 62  # per partition: replica positions are bits of an int64


class PartitionGroup(NamedTuple):
    """p partitions with r replicas, of one cluster with n live brokers under one placement."""

    offsets: Ints  # int64 (p + 1), the replicas of each partition
    broker: Ids  # int32 (r), index 0..n - 1 of a live broker, in assignment order; NO_BROKER = the broker is down
    in_isr: Bools  # (r)
    in_elr: Bools  # (r)
    lag: Ints  # int64 (r), messages behind the leader; UNKNOWN = not known
    leader: Ids  # int32 (p), index of the leading broker; NO_BROKER = offline
    min_isr: Ids  # int32 (p), min.insync.replicas
    unclean: Bools  # (p), unclean.leader.election.enable
    size: Ints  # int64 (p), bytes; UNKNOWN = not known
    rate: Floats  # float64 (p, 2), bytes per second in and out; 0 = not known
    counted: Bools  # (p), whether what happens to it is counted; what it adds to loads always is


class ElectedFrom(IntEnum):
    """Why a broker leads after a failure; OFFLINE = none does."""

    UNCHANGED = 0
    ISR = 1
    ELR = 2
    UNCLEAN = 3
    OFFLINE = 4

    @property
    def label(self) -> str:
        """The published name, in answers and tables."""
        return "kept" if self is ElectedFrom.UNCHANGED else self.name.lower()


UNCHANGED, FROM_ISR, FROM_ELR, UNCLEAN, OFFLINE = (code.value for code in ElectedFrom)
WAITING = OFFLINE + 1  # of `fail_replicas`: the leader waits for an ISR member that failed, as no controller removes it


class ReplicaMasks(NamedTuple):
    """One partition: bit i of live, isr and elr stands for its replica at position i; leader is a position."""

    live: int
    isr: int
    elr: int
    leader: int
    unclean: bool


class Election(NamedTuple):
    """Position of the leader (NO_BROKER = offline), live in-sync replicas then, and a code of ElectedFrom."""

    leader: int
    in_sync: int
    elected_from: int


@part
def count_bits(value: int) -> int:
    """Count the bits that are set."""
    count = 0
    while value:
        value &= value - 1
        count += 1
    return count


@compiled
def lowest_bit(value: int) -> int:
    """Return the position of the lowest bit that is set. value: > 0."""
    return count_bits((value & -value) - 1)


@compiled
def elect_leader(replicas: ReplicaMasks, failed: int) -> Election:
    """Elect the leader of one partition after replicas failed. failed: mask of positions."""
    left = replicas.live & ~failed
    in_sync = count_bits(left & replicas.isr)
    if replicas.leader == NO_BROKER:  # a failure brings no replica back
        return Election(NO_BROKER, in_sync, OFFLINE)
    if not (failed >> replicas.leader) & 1:
        return Election(replicas.leader, in_sync, UNCHANGED)
    if left & replicas.isr:
        return Election(lowest_bit(left & replicas.isr), in_sync, FROM_ISR)
    if left & replicas.elr:  # the new leader starts as the whole ISR, as after an unclean election
        return Election(lowest_bit(left & replicas.elr), 1, FROM_ELR)
    if replicas.unclean and left:
        return Election(lowest_bit(left), 1, UNCLEAN)
    return Election(NO_BROKER, 0, OFFLINE)


@compiled
def fail_replicas(replicas: ReplicaMasks, failed: int, elects: bool) -> Election:
    """Elect as `elect_leader`; elects: False = no controller is left: no leader is elected, and no ISR shrinks."""
    if elects or replicas.leader == NO_BROKER:
        return elect_leader(replicas, failed)
    if (failed >> replicas.leader) & 1:
        return Election(NO_BROKER, 0, OFFLINE)
    in_sync = replicas.live & replicas.isr
    return Election(replicas.leader, count_bits(in_sync & ~failed), WAITING if in_sync & failed else UNCHANGED)


@part
def read_replicas(group: PartitionGroup, i: int, positions: Ids) -> tuple[ReplicaMasks, int]:
    """Return the masks of partition i and its number of live replicas, whose positions are written to `positions`."""
    live = isr = elr = 0
    leader = NO_BROKER
    live_count = 0
    begin = group.offsets[i]
    for at in range(begin, group.offsets[i + 1]):
        position = at - begin
        bit = 1 << position
        if group.in_isr[at]:
            isr |= bit
        if group.in_elr[at]:
            elr |= bit
        if group.broker[at] != NO_BROKER:
            live |= bit
            positions[live_count] = position
            live_count += 1
            if group.broker[at] == group.leader[i]:
                leader = position
    return ReplicaMasks(live, isr, elr, leader, group.unclean[i]), live_count


@compiled
def elect_leaders(
    group: PartitionGroup, failed: Bools, positions: Ids, leader: Ids, elected_from: Ids, elects: bool
) -> None:
    """Elect as `fail_replicas` after replicas (bool, r) failed: fill leader and elected_from, int32 (p).

    positions: scratch.
    """
    for i in range(len(group.leader)):
        replicas, _ = read_replicas(group, i, positions)
        begin = group.offsets[i]
        mask = 0
        for at in range(begin, group.offsets[i + 1]):
            if failed[at]:
                mask |= 1 << (at - begin)
        election = fail_replicas(replicas, mask, elects)
        leader[i] = NO_BROKER if election.leader == NO_BROKER else group.broker[begin + election.leader]
        elected_from[i] = election.elected_from


# Columns of a broker's counts: partitions led, replicas in first position, replicas, in-sync replicas.
LED, PREFERRED, REPLICAS, IN_SYNC, COUNTS = range(5)
# Columns of a broker's loads: size (which the caller adds, as it differs between replicas of a partition) and bytes in
# of its replicas, bytes out of what it leads.
SIZE, REPLICA_BYTES_IN, LEADER_BYTES_OUT, WEIGHTS = range(4)
# Columns of totals: partitions, replicas, partitions led by their first replica, partitions with a lagging replica.
PARTITIONS, ALL_REPLICAS, LED_BY_FIRST, UNDER_REPLICATED, TOTALS = range(5)


class BrokerCounts(NamedTuple):
    """What `count_brokers` adds up over n live brokers."""

    broker_counts: Ints  # int64 (n, COUNTS)
    broker_loads: Floats  # float64 (n, WEIGHTS)
    totals: Ints  # int64 (TOTALS)


class TopicParts(NamedTuple):
    """What `count_topics` fills: totals by topic, and a part for each topic and broker (room for r parts)."""

    totals: Ints  # int64 (topics, TOTALS)
    ends: Ints  # int64 (topics), where the parts of each topic end
    broker: Ids  # int32 (r), index of the part's broker
    leaders: Ints  # int64 (r), partitions that it leads
    in_sync: Ints  # int64 (r), its in-sync replicas
    out_rate: Floats  # float64 (r), bytes per second that consumers fetch from what it leads; NaN = unknown


@compiled
def count_brokers(group: PartitionGroup, out: BrokerCounts) -> None:
    """Add up what each broker holds and leads."""
    for i in range(len(group.leader)):
        begin, end = group.offsets[i], group.offsets[i + 1]
        out.totals[PARTITIONS] += 1
        out.totals[ALL_REPLICAS] += end - begin
        lagging = 0
        for at in range(begin, end):
            b = group.broker[at]
            lagging += not group.in_isr[at]
            if b == NO_BROKER:
                continue
            out.broker_counts[b, REPLICAS] += 1
            out.broker_counts[b, PREFERRED] += at == begin
            out.broker_counts[b, IN_SYNC] += group.in_isr[at]
            out.broker_loads[b, REPLICA_BYTES_IN] += group.rate[i, 0]
            if b == group.leader[i]:
                out.broker_counts[b, LED] += 1
                out.totals[LED_BY_FIRST] += at == begin
                out.broker_loads[b, LEADER_BYTES_OUT] += group.rate[i, 1]
        out.totals[UNDER_REPLICATED] += lagging > 0


@compiled
def count_topics(group: PartitionGroup, rows: Ints, out_rate: Floats, brokers: int, out: TopicParts) -> int:
    """Count in-sync replicas and leaders by topic (rows: int64, topics + 1) and broker; return the number of parts."""
    part_of_broker = np.full(brokers, -1, dtype=np.int64)
    # Taken out of the tuples once: each access in a loop would count references.
    offsets, replicas, in_isr, leaders = (group.offsets, group.broker, group.in_isr, group.leader)
    totals, part_broker, part_leaders = out.totals, out.broker, out.leaders
    part_in_sync, part_rate = out.in_sync, out.out_rate
    parts = 0
    for t in range(len(rows) - 1):
        first = parts
        for i in range(rows[t], rows[t + 1]):
            begin, end = offsets[i], offsets[i + 1]
            totals[t, PARTITIONS] += 1
            totals[t, ALL_REPLICAS] += end - begin
            lagging = 0
            for at in range(begin, end):
                b = replicas[at]
                lagging += not in_isr[at]
                if b == NO_BROKER:
                    continue
                leads = b == leaders[i]
                totals[t, LED_BY_FIRST] += leads and at == begin
                if not in_isr[at]:
                    continue
                part = part_of_broker[b]
                if part < 0:
                    part = part_of_broker[b] = parts
                    part_broker[part] = b
                    part_leaders[part] = part_in_sync[part] = 0
                    part_rate[part] = 0.0
                    parts += 1
                part_in_sync[part] += 1
                if leads:
                    part_leaders[part] += 1
                    part_rate[part] += out_rate[i]
            totals[t, UNDER_REPLICATED] += lagging > 0
        for part in range(first, parts):
            part_of_broker[part_broker[part]] = -1
        out.ends[t] = parts
    return parts


@compiled
def count_successors(offsets: Ints, broker: Ids, leaders: Ints, takeovers: Ids) -> None:
    """Count leaders (int64, n) and takeovers (int32, (n, n)) where all replicas are in sync: the second takes over."""
    for i in range(len(offsets) - 1):
        begin = offsets[i]
        leaders[broker[begin]] += 1
        if offsets[i + 1] - begin > 1:
            takeovers[broker[begin], broker[begin + 1]] += 1
