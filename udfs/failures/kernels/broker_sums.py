"""What brokers hold and lead under a placement: sums over its partitions, by broker and by topic."""

from typing import NamedTuple

import numpy as np

from udfs.failures.kernels.election import NO_BROKER, Floats, Ids, Ints, PartitionGroup
from udfs.kernel_compiler import compiled

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
