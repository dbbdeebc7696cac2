"""Run an event log through the kernels: what is written on the way, and the state at the end."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from udfs.simulation.cluster_events import Event, InitialState, build_event_log
from udfs.simulation.cluster_timeline import ClusterTimeline, build_timeline
from udfs.simulation.event_packing import PackedLog, pack_event_log
from udfs.simulation.joint_events import find_joint_events
from udfs.simulation.kernels.change_log import ChangeLog, Cursor, HealthRow, LeadershipRow, new_change_log
from udfs.simulation.kernels.partition_timeline import simulate_partitions
from udfs.simulation.kernels.simulation_arrays import NEVER, Ints, Partition, SimulationArrays

_MIN_JOURNAL_ROWS = 4096


@dataclass(frozen=True)
class Journals:
    """What a simulation wrote, by partition, then by time (columns of change_log.py).

    Values of LeadershipRow.ISR and HealthRow.REPLICA_LIST are positions in `lists`.
    """

    leadership: Ints
    states: Ints
    health: Ints
    progress: Ints
    lists: Ints


@dataclass(frozen=True)
class Simulation:
    """A finished simulation."""

    log: PackedLog  # Its event log; `log.state` is the state at the end, `log.own.requests` how requests ended
    timeline: ClusterTimeline  # Steps of brokers and controllers
    journals: Journals  # What was written on the way


def simulate(initial_state: InitialState, events: Sequence[Event], end_at: int | None = None) -> Simulation:
    """Simulate events of one cluster, in their order.

    Args:
        initial_state: The cluster before the first event.
        events: The events.
        end_at: Until when time goes on after the last event, ms; None = until the last event.
    """
    return simulate_log(build_event_log(initial_state, events, end_at))


def simulate_log(table: pa.Table) -> Simulation:
    """Simulate an event log (schema EVENTS or WIRE) with all partitions of its clusters."""
    log = pack_event_log(table)
    joint = find_joint_events(log, table.schema)
    return simulate_packed(pack_event_log(pa.concat_tables([table, joint])) if joint.num_rows else log)


def simulate_packed(log: PackedLog) -> Simulation:
    """Simulate a packed log, joint events included; its state and requests become those at the end."""
    timeline = build_timeline(log, log.checks)
    state, own = log.state, log.own
    slots = int(state.partitions[:, Partition.SLOTS].max(initial=0))
    rows = max(_MIN_JOURNAL_ROWS, len(state.partitions) * 4 + len(own.events) // 2)
    journals: list[ChangeLog] = []
    done, last = 0, len(state.partitions)
    while done < last or not journals:
        journals.append(new_change_log(rows, slots))
        done = simulate_partitions(SimulationArrays(*state, *timeline.arrays, *own, *journals[-1]), done, last, NEVER)
    return Simulation(log, timeline, _join_journals(journals))


def _join_journals(journals: Sequence[ChangeLog]) -> Journals:
    """Join journals, one after another; positions in lists count through."""
    used, lists_before = [journal.cursor.tolist() for journal in journals], 0
    for journal, sizes in zip(journals, used, strict=True):
        journal.leaderships[:, LeadershipRow.ISR] += lists_before
        lists = journal.health_intervals[: sizes[Cursor.HEALTH], HealthRow.REPLICA_LIST]
        lists[lists >= 0] += lists_before
        lists_before += sizes[Cursor.LISTS]

    def join(name: str, which: int) -> Ints:
        return np.concatenate([getattr(one, name)[: sizes[which]] for one, sizes in zip(journals, used, strict=True)])

    return Journals(
        join("leaderships", Cursor.LEADERSHIPS),
        join("transitions", Cursor.TRANSITIONS),
        join("health_intervals", Cursor.HEALTH),
        join("progress", Cursor.PROGRESS),
        join("written_lists", Cursor.LISTS),
    )
