"""Run an event log through the kernels: what is written on the way, and the state at the end."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from udfs.simulation.cluster_events import Event, InitialState, build_event_log
from udfs.simulation.cluster_timeline import ClusterTimeline, build_timeline, find_joint_events
from udfs.simulation.event_packing import PackedLog, pack_event_log
from udfs.simulation.kernels import simulation_arrays as arrays
from udfs.simulation.kernels.partition_timeline import simulate_partitions

_MIN_JOURNAL_ROWS = 4096


@dataclass(frozen=True)
class Journals:
    """What a simulation wrote, by partition, then by time (columns of ChangeLog).

    Values of LeadershipRow.ISR and HealthRow.REPLICA_LIST are positions in `lists`.
    """

    leadership: arrays.Ints
    states: arrays.Ints
    health: arrays.Ints
    progress: arrays.Ints
    lists: arrays.Ints


@dataclass(frozen=True)
class Simulation:
    """A finished simulation."""

    log: PackedLog  # Its event log; `log.state` is the state at the end, `log.own.requests` how requests ended
    timeline: ClusterTimeline
    journals: Journals


def simulate(initial_state: InitialState, events: Sequence[Event], end_at: int | None = None) -> Simulation:
    """Simulate events of one cluster, in their order; `end_at` as for `build_event_log`."""
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
    slots = int(state.partitions[:, arrays.Partition.SLOTS].max(initial=0))
    rows = max(_MIN_JOURNAL_ROWS, len(state.partitions) * 4 + len(own.events) // 2)
    journals: list[arrays.ChangeLog] = []
    done, last = 0, len(state.partitions)
    while done < last or not journals:
        journals.append(arrays.new_change_log(rows, slots))
        sim = arrays.SimulationArrays(*state, *timeline.arrays, *own, *journals[-1])
        done = simulate_partitions(sim, done, last, arrays.NEVER)
    return Simulation(log, timeline, _join_journals(journals))


def _join_journals(journals: Sequence[arrays.ChangeLog]) -> Journals:
    """Join journals, one after another; positions in lists count through."""
    parts, lists_before = [], 0
    for journal in journals:
        sizes = journal[-1].tolist()  # of the arrays, in their order
        used = [array[:size] for array, size in zip(journal[:-1], sizes[: len(journal) - 1], strict=True)]
        used[arrays.Cursor.LEADERSHIPS][:, arrays.LeadershipRow.ISR] += lists_before
        lists = used[arrays.Cursor.HEALTH][:, arrays.HealthRow.REPLICA_LIST]
        lists[lists >= 0] += lists_before
        lists_before += sizes[arrays.Cursor.LISTS]
        parts.append(used)
    return Journals(*map(np.concatenate, zip(*parts, strict=True)))
