"""The timeline of a cluster: which broker fails, returns or becomes controller at which step.

It does not depend on partitions, so each of these can go through it alone.
"""

from dataclasses import dataclass

import numpy as np

from udfs.simulation.event_columns import fill_rows
from udfs.simulation.event_packing import N_CONTROLLER, N_EPOCH, PackedLog
from udfs.simulation.kernels.broker_timeline import build_timeline_steps
from udfs.simulation.kernels.simulation_arrays import BrokerFlag, ClusterSetup, Ints, StepKind, Timeline, TimelineStep

# The flags of a broker after a step.
_FLAGS_AFTER = {
    StepKind.BROKER_DOWN: 0,
    StepKind.CONTROLLER_DOWN: 0,
    StepKind.LAST_BROKER_DOWN: 0,
    StepKind.BROKER_FENCED: 0,
    StepKind.BROKER_UP: BrokerFlag.LIVE,
    StepKind.CONTROLLER_UP: BrokerFlag.LIVE,
    StepKind.UNCLEAN_BROKER_UP: BrokerFlag.LIVE,
    StepKind.BROKER_UNFENCED: BrokerFlag.LIVE,
    StepKind.CONTROLLED_SHUTDOWN: BrokerFlag.LIVE | BrokerFlag.SHUTTING_DOWN,
}
_STEPS_OF_ALL_PARTITIONS = (StepKind.CONTROLLER_DOWN, StepKind.CONTROLLER_UP, StepKind.CONTROLLER_FAILOVER)


@dataclass(frozen=True)
class ClusterTimeline:
    """Timelines of the clusters of a log."""

    arrays: Timeline  # Steps of all clusters, automatic rebalances included, and how to find those of a broker
    controllers: Ints  # After each step, the place of the controller's broker, or -1
    flags: Ints  # Flags of each broker at the end


def build_timeline(log: PackedLog, checks: Ints) -> ClusterTimeline:
    """Build the timelines of a log's clusters.

    Args:
        log: The log.
        checks: Automatic rebalances, as `PackedLog.checks`.
    """
    clusters = np.arange(len(log.numbers) + 1)
    first_broker = np.searchsorted(log.broker_cluster, clusters)
    first_check = np.searchsorted(checks[:, 0], clusters)
    cluster = np.zeros((len(log.numbers), len(ClusterSetup)), np.int64)
    cluster[:, :N_CONTROLLER] = log.numbers[:, :N_CONTROLLER]
    cluster[:, ClusterSetup.INITIAL_CONTROLLER_EPOCH] = log.numbers[:, N_EPOCH]
    steps, controllers = [np.empty((0, len(TimelineStep)), np.int64)], [np.empty(0, np.int64)]
    flags, size = log.flags.copy(), 0
    for c, row in enumerate(log.numbers):
        events = log.cluster_events[log.cluster_events_begin[c] : log.cluster_events_begin[c + 1]]
        own_flags, first = flags[first_broker[c] : first_broker[c + 1]], int(first_broker[c])
        new_steps = build_timeline_steps(
            events, own_flags, first, bool(row[ClusterSetup.KRAFT]), int(row[N_CONTROLLER]), int(row[N_EPOCH])
        )
        own_steps, own_controllers = _insert_checks(*new_steps, checks[first_check[c] : first_check[c + 1]], row)
        cluster[c, ClusterSetup.STEP_BEGIN], cluster[c, ClusterSetup.STEP_END] = size, size + len(own_steps)
        size += len(own_steps)
        steps.append(own_steps)
        controllers.append(own_controllers)
    all_steps = np.concatenate(steps)
    broker, change = _list_changes(all_steps, log.flags)
    broker, step_index = _index_steps(all_steps, cluster, broker)
    return ClusterTimeline(Timeline(all_steps, cluster, broker, change, step_index), np.concatenate(controllers), flags)


def _insert_checks(steps: Ints, controllers: Ints, checks: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Insert automatic rebalances into a cluster's steps; return (steps, controllers after them)."""
    if not len(checks):
        return steps, controllers
    before = np.searchsorted(steps[:, TimelineStep.ORDER], 2 * checks[:, 2])
    values = {
        TimelineStep.TIME: checks[:, 1],
        TimelineStep.EVENT: checks[:, 2],
        TimelineStep.ORDER: 2 * checks[:, 2],
        TimelineStep.KIND: StepKind.LEADER_REBALANCE,
        TimelineStep.BROKER: checks[:, 3],
        TimelineStep.CONTROLLER_EPOCH: np.append(numbers[N_EPOCH], steps[:, TimelineStep.CONTROLLER_EPOCH])[before],
    }
    more = fill_rows(len(checks), TimelineStep, values)
    controller = np.append(numbers[N_CONTROLLER], controllers)[before]
    merged = np.concatenate([steps, more])
    order = np.argsort(merged[:, TimelineStep.ORDER], kind="stable")
    return merged[order], np.concatenate([controllers, controller])[order]


def _list_changes(steps: Ints, flags: Ints) -> tuple[Ints, Ints]:
    """Return (broker: (n, 2), change: (k, 2)) of Timeline: which flags a broker has from which step on.

    A broker that fails while it shuts down keeps SHUTTING_DOWN: it had handed over its leaders.
    """
    kinds = np.array(list(_FLAGS_AFTER))
    step = np.flatnonzero(np.isin(steps[:, TimelineStep.KIND], kinds))
    step = step[np.argsort(steps[step, TimelineStep.BROKER], kind="stable")]
    place, kind = steps[step, TimelineStep.BROKER], steps[step, TimelineStep.KIND]
    after = np.zeros(int(kinds.max()) + 1, np.int64)
    after[kinds] = list(_FLAGS_AFTER.values())
    value = after[kind]
    was_leaving = np.zeros(len(place), np.bool_)
    was_leaving[1:] = (place[1:] == place[:-1]) & (kind[:-1] == StepKind.CONTROLLED_SHUTDOWN)
    value[(value == 0) & was_leaving] = BrokerFlag.SHUTTING_DOWN
    all_places = np.concatenate([np.arange(len(flags)), place])
    rows = np.stack([np.concatenate([np.full(len(flags), -1), step]), np.concatenate([flags, value])], axis=1)
    order = np.argsort(all_places, kind="stable")
    begins = np.searchsorted(all_places[order], np.arange(len(flags) + 1))
    return np.stack([begins[:-1], begins[1:]], axis=1).astype(np.int64), rows[order].astype(np.int64)


def _index_steps(steps: Ints, cluster: Ints, broker: Ints) -> tuple[Ints, Ints]:
    """Return (broker: (n, 4), of) of Timeline; write into `cluster` which steps concern all of its partitions."""
    place, kind = steps[:, TimelineStep.BROKER], steps[:, TimelineStep.KIND]
    of_brokers = np.flatnonzero((place >= 0) & (kind != StepKind.QUORUM_CHANGE))
    of_brokers = of_brokers[np.argsort(place[of_brokers], kind="stable")]
    begins = np.searchsorted(place[of_brokers], np.arange(len(broker) + 1))
    of_all = np.flatnonzero(np.isin(kind, _STEPS_OF_ALL_PARTITIONS))
    for column, bound in (
        (ClusterSetup.COMMON_STEP_BEGIN, ClusterSetup.STEP_BEGIN),
        (ClusterSetup.COMMON_STEP_END, ClusterSetup.STEP_END),
    ):
        cluster[:, column] = len(of_brokers) + np.searchsorted(of_all, cluster[:, bound])
    step_index = np.concatenate([of_brokers, of_all]).astype(np.int64)
    return np.concatenate([broker, begins[:-1, None], begins[1:, None]], axis=1).astype(np.int64), step_index
