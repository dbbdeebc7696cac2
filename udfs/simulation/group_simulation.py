"""Simulate consumer groups: events by name, packed for the kernel, and how each request is answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from udfs.arrow.ragged import offsets_of
from udfs.simulation.event_columns import Bools, known_values, name_codes
from udfs.simulation.kernels.codes import NONE
from udfs.simulation.kernels.group_arrays import (
    CoordinatorEvent,
    CoordinatorSetting,
    GroupAnswer,
    GroupTransition,
    JoinFlag,
)
from udfs.simulation.kernels.group_codes import GroupCause, GroupError, GroupEventKind, GroupState
from udfs.simulation.kernels.group_coordinator import simulate_group_events
from udfs.simulation.kernels.simulation_arrays import Ints
from udfs.simulation.simulation_schemas import GROUP_REQUESTS, GROUP_TRANSITIONS, KEY_NAMES


@dataclass(frozen=True)
class GroupEvent:
    """A request to a group's coordinator, or an event of the coordinator itself."""

    at_ms: int  # Time, ms
    kind: int  # A code of GroupEventKind
    group: str  # Name of the group
    member: str = ""  # Name of the member, unique in its group; "" for events of the coordinator
    session_ms: int = 10_000  # Session timeout in a join, ms
    rebalance_ms: int = 60_000  # Rebalance timeout in a join, ms
    generation: int | None = None  # Generation in a sync or heartbeat; None = the group's current one
    # Whether a join carries the member's id, so that it is rejected if the group does not know it; otherwise, an
    # unknown member joins as a new one
    known: bool = False
    changed: bool = False  # Whether a join differs from the member's last one, e.g. in its topics.


@dataclass(frozen=True)
class GroupSettings:
    """Settings of coordinators, in ms; the defaults are those of Kafka 2.8.2."""

    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    # Whether a new member's first join is answered with an id, with which it joins again (since JoinGroup v4)
    member_id_required: bool = False
    # Whether a member that does not sync within the rebalance timeout is removed (since 2.8.1)
    sync_timeout: bool = True
    rejoin_sets_timeouts: bool = False  # Whether a member that joins again sets its timeouts anew (since 3.3)
    new_member_ms: int = 300_000  # How long a new member's join may wait, whatever its session timeout
    min_session_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_ms: int = 1_800_000  # group.max.session.timeout.ms

    def to_numbers(self) -> Ints:
        """Return the settings as the kernel reads them."""
        values = [
            self.initial_rebalance_delay_ms,
            self.member_id_required,
            self.sync_timeout,
            self.rejoin_sets_timeouts,
            self.new_member_ms,
            self.min_session_ms,
            self.max_session_ms,
        ]
        assert len(values) == len(CoordinatorSetting)
        return np.array(values, np.int64)


@dataclass(frozen=True)
class PackedGroups:
    """Events of groups as arrays."""

    events: Ints  # int64 (e, CoordinatorEvent), group by group; REQUEST is the position of the event as given
    group_offsets: Ints  # int64 (g + 1), where the events of each group begin
    member_offsets: Ints  # int64 (g + 1), where the members of each group begin
    groups: tuple[str, ...]  # Names of groups, in the order of their codes: by first appearance
    members: tuple[str, ...]  # Names of members, in the order of their codes: by group, then by first appearance
    group_of: Ints  # int64 (e), the group of each event as given


@dataclass(frozen=True)
class GroupSimulation:
    """A finished simulation of groups."""

    packed: PackedGroups  # The events
    answers: Ints  # int64 (e, GroupAnswer), by event as given
    transitions: Ints  # int64 (t, GroupTransition), group by group


def simulate_groups(
    events: Sequence[GroupEvent], settings: GroupSettings | None = None, end_at: int | None = None
) -> GroupSimulation:
    """Simulate groups, then their timers until `end_at` (ms; default: the time of the last event)."""
    packed = pack_group_events(events)
    last = events[-1].at_ms if events else 0
    end = last if end_at is None else max(last, end_at)
    numbers = (settings or GroupSettings()).to_numbers()
    results = simulate_group_events(packed.events, packed.group_offsets, packed.member_offsets, numbers, end)
    return GroupSimulation(packed, *results)


def pack_group_events(events: Sequence[GroupEvent]) -> PackedGroups:
    """Pack events, which must be sorted by time.

    Raises:
        ValueError: An event is out of order, of no known kind, a request without a member, or has a negative timeout.
    """
    table = np.array([_to_numbers(event) for event in events], np.int64).reshape(-1, len(CoordinatorEvent))
    has_member = table[:, CoordinatorEvent.KIND] < GroupEventKind.COORDINATOR_LOST
    names = np.array([event.member for event in events], object)
    _check_events(events, table, (names == "") & has_member)
    group_of, groups = pd.factorize(np.array([event.group for event in events], object))
    name_of, distinct = pd.factorize(names)
    # A member is a name in a group: the same name in another group is another member.
    pair_of, pairs = pd.factorize(group_of[has_member] * max(len(distinct), 1) + name_of[has_member])
    pair_group, pair_name = np.divmod(pairs, max(len(distinct), 1))
    by_group = np.argsort(pair_group, kind="stable")
    rank = np.empty(len(pairs), np.int64)
    rank[by_group] = np.arange(len(pairs))
    table[has_member, CoordinatorEvent.MEMBER] = rank[pair_of]
    table[:, CoordinatorEvent.REQUEST] = np.arange(len(table))
    return PackedGroups(
        events=table[np.argsort(group_of, kind="stable")],
        group_offsets=offsets_of(np.bincount(group_of, minlength=len(groups))),
        member_offsets=offsets_of(np.bincount(pair_group.astype(np.int64), minlength=len(groups))),
        groups=tuple(groups.tolist()),
        members=tuple(distinct[pair_name[by_group]].tolist()),
        group_of=group_of.astype(np.int64),
    )


def _to_numbers(event: GroupEvent) -> tuple[int, ...]:
    generation = -1 if event.generation is None else event.generation
    flags = JoinFlag.KNOWN_MEMBER * event.known + JoinFlag.CHANGED_METADATA * event.changed
    return event.at_ms, event.kind, NONE, event.session_ms, event.rebalance_ms, generation, flags, 0


def _check_events(events: Sequence[GroupEvent], table: Ints, is_nameless: Bools) -> None:
    is_early = np.zeros(len(table), np.bool_)
    is_early[1:] = np.diff(table[:, CoordinatorEvent.TIME]) < 0
    for is_wrong, problem in (
        (is_early, "is earlier than the event before it"),
        (
            (table[:, CoordinatorEvent.KIND] < 0) | (table[:, CoordinatorEvent.KIND] >= len(GroupEventKind)),
            "is of no known kind",
        ),
        (is_nameless, "is a request without a member"),
        (
            (table[:, [CoordinatorEvent.SESSION_MS, CoordinatorEvent.REBALANCE_MS]] < 0).any(axis=1),
            "has a timeout below 0",
        ),
    ):
        if is_wrong.any():
            first = int(np.argmax(is_wrong))
            raise ValueError(f"event {first} {problem}: {events[first]}")


# ---- results


def build_group_tables(simulation: GroupSimulation, cluster: str, snapshot: str) -> tuple[pa.Table, pa.Table]:
    """Return (rows of GROUP_REQUESTS, by event; rows of GROUP_TRANSITIONS, group by group)."""
    return _build_requests(simulation, cluster, snapshot), _build_transitions(simulation, cluster, snapshot)


def list_group_requests(simulation: GroupSimulation) -> list[dict[str, Any]]:
    """List every join, sync, heartbeat and leave, by event, and how it was answered.

    A request that was dropped has no answered_at_ms, and a reason other than "still waiting".
    """
    return _list_rows(_build_requests(simulation, "", ""))


def list_group_transitions(simulation: GroupSimulation) -> list[dict[str, Any]]:
    """List every change of a group's state, by time."""
    return _list_rows(_build_transitions(simulation, "", "").sort_by("at_ms").drop_columns(["step"]))


def _build_requests(simulation: GroupSimulation, cluster: str, snapshot: str) -> pa.Table:
    packed = simulation.packed
    in_order = packed.events[np.argsort(packed.events[:, CoordinatorEvent.REQUEST])]
    chosen = np.flatnonzero(in_order[:, CoordinatorEvent.KIND] < GroupEventKind.COORDINATOR_LOST)
    events, rows = in_order[chosen], simulation.answers[chosen]
    columns = {
        "event": chosen,
        "at_ms": events[:, CoordinatorEvent.TIME],
        "kind": name_codes(GroupEventKind.labels(), events[:, CoordinatorEvent.KIND]),
        "group_id": name_codes(packed.groups, packed.group_of[chosen]),
        "member": name_codes(packed.members, events[:, CoordinatorEvent.MEMBER]),
        "answered_at_ms": known_values(rows[:, GroupAnswer.ANSWERED_AT], rows[:, GroupAnswer.ANSWERED_AT] >= 0),
        "answered_by": name_codes(GroupCause.labels(), rows[:, GroupAnswer.ANSWERED_BY]),
        "error": name_codes(GroupError.labels(), rows[:, GroupAnswer.ERROR]),
        "generation": known_values(rows[:, GroupAnswer.GENERATION], rows[:, GroupAnswer.GENERATION] >= 0),
        "leader": name_codes(packed.members, rows[:, GroupAnswer.LEADER]),
        "delayed": rows[:, GroupAnswer.DELAYED] != 0,
        "heartbeat_ended_at_ms": known_values(
            rows[:, GroupAnswer.HEARTBEAT_ENDED_AT], rows[:, GroupAnswer.HEARTBEAT_ENDED_AT] >= 0
        ),
        "heartbeat_ended_by": name_codes(
            GroupCause.labels(),
            np.where(
                rows[:, GroupAnswer.HEARTBEAT_ENDED_BY] == GroupCause.NO_HEARTBEAT,
                -1,
                rows[:, GroupAnswer.HEARTBEAT_ENDED_BY],
            ),
        ),
    }
    return _build_table(columns, GROUP_REQUESTS, cluster, snapshot)


def _build_transitions(simulation: GroupSimulation, cluster: str, snapshot: str) -> pa.Table:
    packed, rows = simulation.packed, simulation.transitions
    group = rows[:, GroupTransition.GROUP]
    columns = {
        "group_id": name_codes(packed.groups, group),
        "step": np.arange(len(rows)) - np.searchsorted(group, group),
        "at_ms": rows[:, GroupTransition.TIME],
        "event": known_values(rows[:, GroupTransition.REQUEST], rows[:, GroupTransition.REQUEST] >= 0),
        "from_state": name_codes(GroupState.labels(), rows[:, GroupTransition.FROM_STATE]),
        "to_state": name_codes(GroupState.labels(), rows[:, GroupTransition.TO_STATE]),
        "cause": name_codes(GroupCause.labels(), rows[:, GroupTransition.CAUSE]),
        "generation": rows[:, GroupTransition.GENERATION],
        "leader": name_codes(packed.members, rows[:, GroupTransition.LEADER]),
    }
    return _build_table(columns, GROUP_TRANSITIONS, cluster, snapshot)


def _build_table(columns: dict[str, Any], schema: pa.Schema, cluster: str, snapshot: str) -> pa.Table:
    key = {
        "cluster_id": pa.repeat(cluster, len(columns["at_ms"])),
        "snapshot_id": pa.repeat(snapshot, len(columns["at_ms"])),
    }
    return pa.table(key | columns, schema=schema)


def _list_rows(table: pa.Table) -> list[dict[str, Any]]:
    names = {"group_id": "group"}  # in JSON
    rows: list[dict[str, Any]] = (
        table.drop_columns(list(KEY_NAMES))
        .rename_columns([names.get(name, name) for name in table.column_names if name not in KEY_NAMES])
        .to_pylist()
    )
    return rows
