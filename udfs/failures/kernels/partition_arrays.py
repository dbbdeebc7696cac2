"""Partitions as the flat arrays that all failure kernels read, and the meaning of the columns that they add up."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

# Columns of event counts. LOST_MESSAGES: messages of unclean elections whose new leader has a known lag; UNKNOWN_LAG:
# unclean elections without one. OFFLINE_BYTES: size of the partitions that go offline; UNKNOWN_SIZE: those without one.
(
    OFFLINE,
    UNDER_MIN_ISR,
    SINGLE_ISR,
    UNCLEAN_ELECTIONS,
    LOST_MESSAGES,
    UNKNOWN_LAG,
    OFFLINE_BYTES,
    UNKNOWN_SIZE,
    EVENTS,
) = range(9)
# Columns of the load that a leadership brings. FETCH is what a leader sends: bytes out to consumers, and bytes in once
# more for each follower that is in sync.
LEADERS, BYTES_IN, BYTES_OUT, FETCH, LOADS = range(5)
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


class BrokerCounts(NamedTuple):
    """What `count_brokers` adds up."""

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


class FailureSums(NamedTuple):
    """What `sum_failures` adds up."""

    events: Ints  # int64 (EVENTS), the cluster as it is
    leader_loads: Floats  # float64 (n, LOADS), what each broker leads as the cluster is
    single_events: Ints  # int64 (n, EVENTS), how the failure of one broker changes `events`
    # float64 (n, n, LOADS), what a broker (second) gains if another (first) fails; FETCH also changes where a broker
    # only loses a follower.
    takeovers: Floats
    # int64 (n, n, EVENTS), for a < b, how the failure of both changes `events` beyond the sum of the single failures;
    # (0, 0, EVENTS) = pairs are not counted.
    pair_events: Ints
    joint_key: Ints  # int64 (2 p), (a * n + b) * n + c for a partition that c takes over only if both a < b fail
    joint_partition: Ints  # int64 (2 p), that partition


class ScenarioSums(NamedTuple):
    """What `sum_scenarios` adds up for s sets of failed brokers."""

    events: Ints  # int64 (s, EVENTS), how a scenario changes the cluster as it is
    losses: Floats  # float64 (s, n, LOADS), what each broker no longer leads
    takeovers: Floats  # float64 (s, n, LOADS), what each broker gains


class PairSums(NamedTuple):
    """What `sum_pairs` fills, for pairs a < b in the order (0, 1), (0, 2), ... and w loads."""

    worst: Floats  # float64 (pairs, w), the largest load of a survivor
    total: Floats  # float64 (pairs, w), the sum over survivors
    worst_broker: Ids  # int32 (pairs), survivor with most leaders, the lowest index among equals; NO_BROKER = none
    takeover_brokers: Ints  # int64 (pairs), survivors that take over at least one partition


class RestartSums(NamedTuple):
    """What `sum_restart` adds up over steps 0..n - 1; step s restarts broker s."""

    events: Ints  # int64 (n, EVENTS), how step s changes the state before it while its broker is down
    lasting_events: Ints  # int64 (n, EVENTS), what step s changes for all later steps
    takeovers: Floats  # float64 (n, n, 3), leaders and rates that others take over at a step
    returns: Floats  # float64 (n, 3), what is offline while its broker is down and is led by it again afterwards
