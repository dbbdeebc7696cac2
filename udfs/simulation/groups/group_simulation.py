"""Consumer groups replayed: events by name, packed for the kernel, and what it told in plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from udfs.arrow.ragged import offsets_of
from udfs.simulation.groups.group_names import CAUSES, ERRORS, KINDS, STATES
from udfs.simulation.kernels.consumer_groups import (
    A_AT,
    A_BEAT_AT,
    A_BEAT_BY,
    A_BY,
    A_DELAYED,
    A_ERROR,
    A_GENERATION,
    A_LEADER,
    CHANGED,
    COORDINATOR_LOST,
    E_AT,
    E_KIND,
    E_MEMBER,
    E_REQUEST,
    EVENT,
    KNOWN,
    NOBODY,
    NONE_MADE,
    RULES,
    T_AT,
    T_CAUSE,
    T_EVENT,
    T_FROM,
    T_GENERATION,
    T_GROUP,
    T_LEADER,
    T_TO,
    Ints,
    fold_groups,
)
from udfs.simulation.kernels.consumer_groups import KINDS as KIND_COUNT


@dataclass(frozen=True)
class GroupEvent:
    """A request to a group's coordinator, or what happens to the coordinator (member "").

    at_ms: milliseconds, as all times here.   kind: a code of udfs/simulation/kernels/consumer_groups.py.
    member: a name, unique in its group.   session_ms, rebalance_ms: timeouts, of a join.
    generation: of a sync or a heartbeat, None = the one that the group has.
    known: a join that carries the member's id (so it is rejected if the group does not know it); else an outsider joins
    as a new member.   changed: a join that says something else than the member's last, such as other topics.
    """

    at_ms: int
    kind: int
    group: str
    member: str = ""
    session_ms: int = 10_000
    rebalance_ms: int = 60_000
    generation: int | None = None
    known: bool = False
    changed: bool = False


@dataclass(frozen=True)
class GroupRules:
    """How coordinators are run; the values are those of Kafka 2.8.2.

    initial_rebalance_delay_ms, min_session_ms, max_session_ms: Kafka's settings group.initial.rebalance.delay.ms,
    group.min.session.timeout.ms, group.max.session.timeout.ms.
    member_id_required: a new member's first join is answered with an id, and it joins again with it (JoinGroup v4 on).
    sync_timeout: who does not sync within the rebalance timeout is out (2.8.1 on).
    rejoin_sets_timeouts: a member that joins again brings its timeouts (3.3 on); else the first join's hold.
    new_member_ms: how long a new member's join waits, whatever its session timeout.
    """

    initial_rebalance_delay_ms: int = 3_000
    member_id_required: bool = False
    sync_timeout: bool = True
    rejoin_sets_timeouts: bool = False
    new_member_ms: int = 300_000
    min_session_ms: int = 6_000
    max_session_ms: int = 1_800_000

    def packed(self) -> Ints:
        """As the kernel reads them."""
        values = [
            self.initial_rebalance_delay_ms,
            self.member_id_required,
            self.sync_timeout,
            self.rejoin_sets_timeouts,
            self.new_member_ms,
            self.min_session_ms,
            self.max_session_ms,
        ]
        assert len(values) == RULES
        return np.array(values, np.int64)


@dataclass(frozen=True)
class PackedGroups:
    """Events as arrays. events: int64 (e, EVENT), group by group; E_REQUEST is the place of the event as given.

    group_offsets, member_offsets: int64 (g + 1).   groups, members: names, in the order of their codes; groups, and
    members within a group, by first appearance.   group_of: int64 (e), of the events as given.
    """

    events: Ints
    group_offsets: Ints
    member_offsets: Ints
    groups: tuple[str, ...]
    members: tuple[str, ...]
    group_of: Ints


@dataclass(frozen=True)
class GroupsReplayed:
    """What a fold gives: answers (e, ANSWER), by event as given; transitions (t, TRANSITION), group by group."""

    packed: PackedGroups
    answers: Ints
    transitions: Ints


def pack(events: Sequence[GroupEvent]) -> PackedGroups:
    """The events, which are sorted by time, for the kernel.

    ValueError: events out of order, a kind that is none, a request without a member, a timeout below 0.
    """
    table = np.array([_row(event) for event in events], np.int64).reshape(-1, EVENT)
    own = table[:, E_KIND] >= COORDINATOR_LOST
    names = np.array([event.member for event in events], object)
    _check(events, table, (names == "") & ~own)
    group_of, groups = pd.factorize(np.array([event.group for event in events], object))
    name_of, different = pd.factorize(names)
    # A member is a name in a group: the same name elsewhere is another member.
    pair_of, pairs = pd.factorize(group_of[~own] * max(len(different), 1) + name_of[~own])
    pair_group, pair_name = np.divmod(pairs, max(len(different), 1))
    by_group = np.argsort(pair_group, kind="stable")
    rank = np.empty(len(pairs), np.int64)
    rank[by_group] = np.arange(len(pairs))
    table[~own, E_MEMBER] = rank[pair_of]
    table[:, E_REQUEST] = np.arange(len(table))
    return PackedGroups(
        events=table[np.argsort(group_of, kind="stable")],
        group_offsets=offsets_of(np.bincount(group_of, minlength=len(groups))),
        member_offsets=offsets_of(np.bincount(pair_group.astype(np.int64), minlength=len(groups))),
        groups=tuple(groups.tolist()),
        members=tuple(different[pair_name[by_group]].tolist()),
        group_of=group_of.astype(np.int64),
    )


def _row(event: GroupEvent) -> tuple[int, ...]:
    generation = -1 if event.generation is None else event.generation
    flags = KNOWN * event.known + CHANGED * event.changed
    return event.at_ms, event.kind, NOBODY, event.session_ms, event.rebalance_ms, generation, flags, 0


def _check(events: Sequence[GroupEvent], table: Ints, nameless: Any) -> None:
    """ValueError, with the first event that is wrong."""
    early = np.zeros(len(table), np.bool_)
    early[1:] = np.diff(table[:, E_AT]) < 0
    for wrong, what in (
        (early, "is earlier than the event before it"),
        ((table[:, E_KIND] < 0) | (table[:, E_KIND] >= KIND_COUNT), "is of no known kind"),
        (nameless, "is a request without a member"),
        ((table[:, 3:5] < 0).any(axis=1), "has a timeout below 0"),
    ):
        if wrong.any():
            place = int(np.argmax(wrong))
            raise ValueError(f"event {place} {what}: {events[place]}")


def replay_groups(
    events: Sequence[GroupEvent], rules: GroupRules | None = None, end_at: int | None = None
) -> GroupsReplayed:
    """The events folded, then timers until end_at (ms; the last event's time, unless it is given and later)."""
    packed = pack(events)
    last = events[-1].at_ms if events else 0
    end = last if end_at is None else max(last, end_at)
    told = fold_groups(
        packed.events, packed.group_offsets, packed.member_offsets, (rules or GroupRules()).packed(), end
    )
    return GroupsReplayed(packed, *told)


def answers(replayed: GroupsReplayed) -> list[dict[str, Any]]:
    """One row a request, in the order of events, by name; None = never, or nobody.

    event: its place among the events.   answered_by: what completed it, "still waiting" if nothing has; a request that
    was dropped has answered_at_ms None and another reason.   generation, leader: of the group when it was answered.
    heartbeat_ended_by, heartbeat_ended_at_ms: how the delayed heartbeat ended that the request made; None = none.
    """
    packed = replayed.packed
    given = packed.events[np.argsort(packed.events[:, E_REQUEST])]
    rows = []
    for place, (event, row, group) in enumerate(
        zip(given.tolist(), replayed.answers.tolist(), packed.group_of.tolist(), strict=True)
    ):
        if event[E_KIND] >= COORDINATOR_LOST:
            continue
        rows.append(
            {
                "event": place,
                "at_ms": event[E_AT],
                "kind": KINDS[event[E_KIND]],
                "group": packed.groups[group],
                "member": packed.members[event[E_MEMBER]],
                "answered_at_ms": None if row[A_AT] < 0 else row[A_AT],
                "answered_by": CAUSES[row[A_BY]],
                "error": ERRORS[row[A_ERROR]],
                "generation": None if row[A_GENERATION] < 0 else row[A_GENERATION],
                "leader": _named(packed, row[A_LEADER]),
                "delayed": bool(row[A_DELAYED]),
                "heartbeat_ended_at_ms": None if row[A_BEAT_AT] < 0 else row[A_BEAT_AT],
                "heartbeat_ended_by": None if row[A_BEAT_BY] == NONE_MADE else CAUSES[row[A_BEAT_BY]],
            }
        )
    return rows


def transitions(replayed: GroupsReplayed) -> list[dict[str, Any]]:
    """Every change of a group's state, by time. event: the one that made it, None for a timer."""
    packed, table = replayed.packed, replayed.transitions
    return [
        {
            "at_ms": row[T_AT],
            "event": None if row[T_EVENT] < 0 else row[T_EVENT],
            "group": packed.groups[row[T_GROUP]],
            "from_state": STATES[row[T_FROM]],
            "to_state": STATES[row[T_TO]],
            "cause": CAUSES[row[T_CAUSE]],
            "generation": row[T_GENERATION],
            "leader": _named(packed, row[T_LEADER]),
        }
        for row in table[np.argsort(table[:, T_AT], kind="stable")].tolist()
    ]


def _named(packed: PackedGroups, member: int) -> str | None:
    return None if member == NOBODY else packed.members[member]
