"""A rolling restart: brokers are shut down one after another, each coming back before the next one stops.

A broker that comes back has no leaders: no preferred election runs in between, so each step starts with the leaders
that the steps before left. A returned broker is in sync again before the next step. Each partition is followed through
the steps of its own brokers alone; running sums give the rest.
"""

import numpy as np

from udfs.failures.kernels.election import UNCHANGED, Election, ReplicaMasks, elect_leader, read_replicas
from udfs.failures.kernels.failure_totals import count_events
from udfs.failures.kernels.partition_arrays import (
    BYTES_IN,
    BYTES_OUT,
    EVENTS,
    LEADERS,
    MAX_REPLICAS,
    NO_BROKER,
    Floats,
    PartitionGroup,
    RestartSums,
)
from udfs.kernel_compiler import compiled, part


@part
def _add_rates(out: Floats, rate: Floats) -> None:
    out[LEADERS] += 1
    out[BYTES_IN] += rate[0]
    out[BYTES_OUT] += rate[1]


@compiled
def sum_restart(group: PartitionGroup, out: RestartSums) -> None:
    """Add up the steps of a rolling restart over a group of partitions."""
    positions = np.empty(MAX_REPLICAS, dtype=np.int32)
    base, events = np.empty(EVENTS, np.int64), np.empty(EVENTS, np.int64)
    for i in range(len(group.leader)):
        replicas, live_count = read_replicas(group, i, positions)
        begin = group.offsets[i]
        for k in range(1, live_count):  # sort by step; there are few
            position, at = positions[k], k
            while at > 0 and group.broker[begin + positions[at - 1]] > group.broker[begin + position]:
                positions[at] = positions[at - 1]
                at -= 1
            positions[at] = position
        count_events(group, i, replicas.leader, elect_leader(replicas, 0), base)
        for k in range(live_count):
            step = group.broker[begin + positions[k]]
            bit = 1 << positions[k]
            after = elect_leader(replicas, bit)
            count_events(group, i, replicas.leader, after, events)
            for e in range(EVENTS):
                out.events[step, e] += events[e] - base[e]
            if replicas.leader != positions[k]:
                continue
            if after.leader == NO_BROKER:
                _add_rates(out.returns[step], group.rate[i])
                continue
            _add_rates(out.takeovers[step, group.broker[begin + after.leader]], group.rate[i])
            isr, was_in_isr = replicas.isr, (replicas.isr >> after.leader) & 1
            if not was_in_isr:  # the new leader started as the whole ISR, and the old one has rejoined it
                isr = (1 << after.leader) | bit
            replicas = ReplicaMasks(replicas.live, isr, replicas.elr, after.leader, replicas.unclean)
            if not was_in_isr:
                in_sync = elect_leader(replicas, 0).in_sync
                count_events(group, i, replicas.leader, Election(replicas.leader, in_sync, UNCHANGED), events)
                for e in range(EVENTS):
                    out.lasting_events[step, e] += events[e] - base[e]
                base[:] = events
