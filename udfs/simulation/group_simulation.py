"""Simulate consumer groups, and list how requests were answered and which states each group had."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from udfs.simulation.group_coordinator import GroupCoordinator, Row
from udfs.simulation.group_events import GroupEvent, GroupEventKind, GroupSettings
from udfs.simulation.simulation_schemas import GROUP_REQUESTS, GROUP_TRANSITIONS

# What an event must not be, in the order of checks: (problem, whether an event after another one has it).
_FAULTS: tuple[tuple[str, Callable[[GroupEvent, GroupEvent], bool]], ...] = (
    ("is earlier than the event before it", lambda event, before: event.at_ms < before.at_ms),
    ("is of no known kind", lambda event, _: not 0 <= event.kind < len(GroupEventKind)),
    (
        "is a request without a member",
        lambda event, _: event.kind < GroupEventKind.COORDINATOR_LOST and not event.member,
    ),
    ("has a timeout below 0", lambda event, _: min(event.session_ms, event.rebalance_ms) < 0),
)


@dataclass(frozen=True)
class GroupSimulation:
    """A finished simulation of groups."""

    requests: list[Row]  # by event
    transitions: list[Row]  # group by group


def simulate_groups(
    events: Sequence[GroupEvent], settings: GroupSettings | None = None, end_at: int | None = None
) -> GroupSimulation:
    """Simulate groups, then their timers until `end_at`, ms (None = the last event); ValueError for wrong events."""
    for problem, is_wrong in _FAULTS:
        for number, event in enumerate(events):
            if is_wrong(event, events[max(number - 1, 0)]):
                raise ValueError(f"event {number} {problem}: {event}")
    groups: dict[str, GroupCoordinator] = {}
    for number, event in enumerate(events):
        group = groups.setdefault(event.group, GroupCoordinator(event.group, settings or GroupSettings()))
        group.run_timers(event.at_ms)
        group.handle_event(number, event)
    last = events[-1].at_ms if events else 0
    for group in groups.values():
        group.run_timers(last if end_at is None else max(last, end_at))
    requests = sorted((row for group in groups.values() for row in group.requests), key=lambda row: row["event"])
    return GroupSimulation(requests, [row for group in groups.values() for row in group.transitions])


def build_group_tables(simulation: GroupSimulation, cluster: str, snapshot: str) -> tuple[pa.Table, pa.Table]:
    """Return (rows of GROUP_REQUESTS, by event; rows of GROUP_TRANSITIONS, group by group)."""
    key = {"cluster_id": cluster, "snapshot_id": snapshot}
    requests, transitions = ([key | row for row in rows] for rows in (simulation.requests, simulation.transitions))
    return pa.Table.from_pylist(requests, GROUP_REQUESTS), pa.Table.from_pylist(transitions, GROUP_TRANSITIONS)


def list_group_requests(simulation: GroupSimulation) -> list[Row]:
    """List every join, sync, heartbeat and leave, by event, and how it was answered."""
    # A request that was dropped has no answered_at_ms, and a reason other than "still waiting".
    return [_rename_group(row) for row in simulation.requests]


def list_group_transitions(simulation: GroupSimulation) -> list[Row]:
    """List every change of a group's state, by time."""
    rows = sorted(simulation.transitions, key=lambda row: row["at_ms"])
    return [{name: value for name, value in _rename_group(row).items() if name != "step"} for row in rows]


def _rename_group(row: Row) -> Row:
    return {"group" if name == "group_id" else name: value for name, value in row.items()}
