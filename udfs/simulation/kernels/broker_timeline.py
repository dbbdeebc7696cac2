"""Timeline of a cluster's brokers and its controller: the steps that events make, the controller and its epoch.

Sources: KafkaController.elect, onControllerFailover, onBrokerStartup and onBrokerFailure of 2.8.
"""

import enum

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.simulation.kernels.codes import NONE, DownKind, EventKind
from udfs.simulation.kernels.simulation_arrays import BrokerFlag, Ints, StepKind, TimelineStep, columns


@columns
class ClusterEvent(enum.IntEnum):
    """Columns of an event of a cluster. BROKER: place. BROKER_ID: a controller need not be a broker with a place."""

    NUMBER, TIME, KIND, BROKER, VALUE, BROKER_ID = range(6)


@compiled
def build_timeline_steps(
    events: Ints, flags: Ints, first: int, kraft: bool, controller: int, epoch: int
) -> tuple[Ints, Ints]:
    """Turn the events of a cluster (e, ClusterEvent) into steps (t, TimelineStep), and the controller after each."""
    # Events that change nothing make no step. flags: (n, BrokerFlag) of the cluster's brokers, changed to those at the
    # end; first: place of the first of them; controller, epoch: initially; NONE = no controller.
    steps, controllers = np.empty((len(events), 6), np.int64), np.empty(len(events), np.int64)
    rows = 0
    for i in range(len(events)):
        kind, place = events[i, ClusterEvent.KIND], events[i, ClusterEvent.BROKER]
        broker = place - first
        is_live = place != NONE and flags[broker] & BrokerFlag.LIVE != 0
        step = NONE
        if kind == EventKind.BROKER_DOWN and (is_live or events[i, ClusterEvent.VALUE] == DownKind.NOTICED_LATER):
            flags[broker] &= ~BrokerFlag.LIVE
            is_noticed = events[i, ClusterEvent.VALUE] != DownKind.UNNOTICED
            step = StepKind.BROKER_DOWN if is_noticed else StepKind.UNNOTICED_DOWN
            if not kraft and controller == place:
                controller = _lowest_live_broker(flags, first)
                step = StepKind.UNNOTICED_DOWN if controller == NONE else StepKind.CONTROLLER_DOWN
                epoch += controller != NONE
        elif kind == EventKind.BROKER_UP and not is_live:
            # A broker of a quorum may have lost messages, unless it was only fenced (value 1) or stopped cleanly.
            was_unclean = flags[broker] & BrokerFlag.SHUTTING_DOWN == 0 and events[i, ClusterEvent.VALUE] == 0
            step = StepKind.UNCLEAN_BROKER_UP if kraft and was_unclean else StepKind.BROKER_UP
            flags[broker] = BrokerFlag.LIVE
            if not kraft and controller == NONE:
                controller, epoch, step = place, epoch + 1, StepKind.CONTROLLER_UP
        elif kind == EventKind.CONTROLLED_SHUTDOWN and is_live:
            flags[broker] |= BrokerFlag.SHUTTING_DOWN
            step = StepKind.CONTROLLED_SHUTDOWN
        elif kind == EventKind.CONTROLLER_LOST:
            controller = place if is_live else _lowest_live_broker(flags, first)
            if controller != NONE:
                epoch, step = epoch + 1, StepKind.CONTROLLER_FAILOVER
        elif kind == EventKind.BROKER_FENCED and is_live:
            # value 1: after a controlled shutdown
            flags[broker] = BrokerFlag.SHUTTING_DOWN * events[i, ClusterEvent.VALUE]
            step = StepKind.BROKER_FENCED
        elif kind == EventKind.BROKER_UNFENCED and not is_live:
            flags[broker], step = BrokerFlag.LIVE, StepKind.BROKER_UNFENCED
        elif kind == EventKind.CONTROLLER_CHANGE:
            controller, epoch, step = place, events[i, ClusterEvent.VALUE], StepKind.QUORUM_CHANGE
        if step == NONE:
            continue
        row, number = steps[rows], events[i, ClusterEvent.NUMBER]
        row[TimelineStep.ORDER], row[TimelineStep.TIME] = 2 * number + 1, events[i, ClusterEvent.TIME]
        row[TimelineStep.KIND], row[TimelineStep.BROKER] = step, place
        row[TimelineStep.CONTROLLER_EPOCH], row[TimelineStep.EVENT] = epoch, number
        controllers[rows] = controller
        rows += 1
    return steps[:rows], controllers[:rows]


@part
def _lowest_live_broker(flags: Ints, first: int) -> int:
    """Return the broker that becomes controller: any may create /controller first, so the lowest live id is taken."""
    for broker in range(len(flags)):
        if flags[broker] & BrokerFlag.LIVE:
            return first + broker
    return NONE


@compiled
def find_rebalance_checks(
    times: Ints, steps: Ints, controllers: Ints, has_controller: bool, first: int, every: int, after: int
) -> Ints:
    """Return (k, 2): when the controller looks for imbalanced leaders, and number of the event that follows."""
    # Of checks between the same two events only the first counts: the second would find nothing new.
    # times: (e, 2), time and number of all events; steps, controllers: of `build_timeline_steps`; first: time of the
    # first check; every: ms between checks; after: ms from the start of a controller to its first check.
    checks = np.empty((len(times), 2), np.int64)
    rows, due, t = 0, first, 0
    for i in range(len(times)):
        at, event = times[i, 0], times[i, 1]
        if due <= at:
            if has_controller:
                checks[rows, 0], checks[rows, 1] = due, event
                rows += 1
            due += ((at - due) // every + 1) * every
        if t < len(steps) and steps[t, TimelineStep.EVENT] == event:
            kind = steps[t, TimelineStep.KIND]
            if kind in (StepKind.CONTROLLER_DOWN, StepKind.CONTROLLER_UP, StepKind.CONTROLLER_FAILOVER):
                due = at + after
            if kind != StepKind.QUORUM_CHANGE:
                has_controller = controllers[t] != NONE
            t += 1
    return checks[:rows]
