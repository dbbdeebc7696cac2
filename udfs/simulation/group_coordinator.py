"""The coordinator of a consumer group: requests in order give answers, and every state of the group.

Sources: GroupCoordinator, GroupMetadata, DelayedJoin, DelayedSync and DelayedHeartbeat of Kafka 2.8; see
docs/replay-groups.md.
"""

import heapq
from dataclasses import dataclass
from typing import Any

from udfs.simulation.group_events import GroupCause, GroupError, GroupEvent, GroupEventKind, GroupSettings, GroupState

Row = dict[str, Any]  # of GROUP_REQUESTS or GROUP_TRANSITIONS, without the key of the snapshot
_WAITING = GroupCause.WAITING.label
# Causes of a rebalance that ends at once when all members join.
_JOINS = (GroupCause.MEMBER_JOINED, GroupCause.LEADER_REJOINED, GroupCause.METADATA_CHANGED)
# Timers that are due at the same time run in this order: sessions by place of the member, then syncs, then joins.
_SYNC_TIMER, _JOIN_TIMER = 1 << 60, 1 << 61


@dataclass(eq=False)
class _Member:
    """A member of a group, or a former one. Requests are those that wait, by their rows."""

    name: str
    place: int  # in the order of first requests
    is_joined: bool = False
    is_pending: bool = False  # it has an id and has not joined with it
    is_new: bool = False
    owes_sync: bool = False
    session_ms: int = 0
    rebalance_ms: int = 0
    join: Row | None = None
    sync: Row | None = None
    heartbeat: Row | None = None  # the request that started the delayed heartbeat
    stored: tuple[int, int, int] = (0, 0, 0)  # generation, session and rebalance timeout in __consumer_offsets

    @property
    def needs_no_heartbeat(self) -> bool:
        """Whether the member waits for an answer itself and is not new."""
        return (self.join is not None or self.sync is not None) and not self.is_new


class GroupCoordinator:
    """The coordinator of a group, its requests and how they were answered, and its changes of state."""

    def __init__(self, name: str, settings: GroupSettings) -> None:
        """Start with a group that no member has joined yet."""
        self.requests: list[Row] = []
        self.transitions: list[Row] = []
        self._name, self._settings = name, settings
        self._members: dict[str, _Member] = {}  # all that ever sent a request, by place
        self._state, self._generation = GroupState.EMPTY, 0
        self._by_place: list[_Member] = []
        self._stored: tuple[int, _Member | None] = 0, None  # generation and leader in __consumer_offsets
        self._time = 0
        self._event: int | None = None  # None = a timer
        self._delay_ms = self._remaining_ms = 0  # of the initial delay
        self._clear()

    def _clear(self) -> None:
        """Remove all members and timers. What is stored stays."""
        for member in self._members.values():
            member.is_joined = member.is_pending = member.owes_sync = False
            member.join = member.sync = member.heartbeat = None
        self._joined: dict[str, _Member] = {}  # in the order of joining
        self._leader: _Member | None = None
        self._waiting_joins = self._pending_members = self._pending_syncs = 0
        self._has_initial_delay = self._has_new_member = False
        self._due: dict[int, int] = {}  # times of timers that are set
        self._heap: list[tuple[int, int]] = []  # (time, timer); an entry counts only if it is in `_due`

    # ---- timers

    def _set_timer(self, timer: int, after_ms: int) -> None:
        self._due[timer] = self._time + after_ms
        heapq.heappush(self._heap, (self._due[timer], timer))

    def run_timers(self, until: int) -> None:
        """Run all timers that are due until this time."""
        self._event = None
        while self._heap and self._heap[0][0] <= until:
            at, timer = heapq.heappop(self._heap)
            if self._due.get(timer) != at:
                continue
            self._time = at
            self._due.pop(timer, None)
            if timer == _JOIN_TIMER:
                self._expire_joins()
            elif timer == _SYNC_TIMER:
                self._expire_syncs()
            elif self._by_place[timer].is_joined and self._by_place[timer].needs_no_heartbeat:
                self._end_heartbeat(self._by_place[timer], GroupCause.MEMBER_WAITS)
            else:
                self._remove_or_forget(self._by_place[timer], GroupCause.SESSION_TIMEOUT)

    def _expire_joins(self) -> None:
        """Handle the rebalance timeout, or the initial delay, which starts again while new members come."""
        if not self._has_initial_delay:
            self._complete_joins(GroupCause.REBALANCE_TIMEOUT)
        elif self._has_new_member and self._remaining_ms:
            delay = min(self._settings.initial_rebalance_delay_ms, self._remaining_ms)
            self._remaining_ms, self._delay_ms = max(self._remaining_ms - self._delay_ms, 0), delay
            self._has_new_member = False
            self._set_timer(_JOIN_TIMER, delay)
        else:
            self._complete_joins(GroupCause.INITIAL_DELAY)

    def _expire_syncs(self) -> None:
        for member in [member for member in self._joined.values() if member.owes_sync]:
            self._remove(member, GroupCause.SYNC_TIMEOUT)
        self._prepare_rebalance(GroupCause.SYNC_TIMEOUT)

    # ---- delayed heartbeats, answers and states

    def _end_heartbeat(self, member: _Member, cause: GroupCause) -> None:
        self._due.pop(member.place, None)
        if member.heartbeat is not None:
            member.heartbeat |= {"heartbeat_ended_at_ms": self._time, "heartbeat_ended_by": cause.label}
            member.heartbeat = None

    def _restart_heartbeat(self, member: _Member, request: Row | None, after_ms: int, cause: GroupCause) -> None:
        """End the member's delayed heartbeat, for this cause, and let `request` start the next one."""
        self._end_heartbeat(member, cause)
        member.heartbeat = request
        if request is not None:
            request["heartbeat_ended_by"] = _WAITING
        if member.needs_no_heartbeat:
            self._end_heartbeat(member, GroupCause.MEMBER_WAITS)
        else:
            self._set_timer(member.place, after_ms)

    def _answer(self, request: Row, cause: GroupCause, error: GroupError = GroupError.NONE) -> None:
        leader = self._leader and self._leader.name
        request |= {"answered_at_ms": self._time, "answered_by": cause.label, "error": error.label}
        request |= {"generation": self._generation, "leader": leader}

    def _set_state(self, state: GroupState, cause: GroupCause) -> None:
        row = {"group_id": self._name, "step": len(self.transitions), "at_ms": self._time, "event": self._event}
        row |= {"from_state": self._state.label, "to_state": state.label, "cause": cause.label}
        self.transitions.append(row | {"generation": self._generation, "leader": self._leader and self._leader.name})
        self._state = state

    # ---- requests

    def handle_event(self, number: int, event: GroupEvent) -> None:
        """Handle a request, or an event of the coordinator; `number` is its position among all events."""
        self._time, self._event = event.at_ms, number
        is_unloaded = self._state == GroupState.DEAD
        if event.kind >= GroupEventKind.COORDINATOR_LOST:
            if event.kind == GroupEventKind.COORDINATOR_LOST and not is_unloaded:
                self._unload()
            elif event.kind == GroupEventKind.COORDINATOR_LOADED and is_unloaded:
                self._load()
            return
        if event.member not in self._members:
            self._by_place.append(_Member(event.member, len(self._members)))
            self._members[event.member] = self._by_place[-1]
        member, kind = self._members[event.member], GroupEventKind.labels()[event.kind]
        row: Row = {"event": number, "at_ms": event.at_ms, "kind": kind, "group_id": event.group}
        row |= {"member": event.member, "answered_at_ms": None, "answered_by": _WAITING}
        row |= {"error": GroupError.NONE.label, "generation": None, "leader": None, "delayed": False}
        row |= {"heartbeat_ended_at_ms": None, "heartbeat_ended_by": None}
        self.requests.append(row)
        if is_unloaded:
            self._answer(row, GroupCause.AT_ONCE, GroupError.NOT_COORDINATOR)
        else:
            handlers = (self._handle_join, self._handle_sync, self._handle_heartbeat, self._handle_leave)
            handlers[event.kind](row, member, event)
        row["delayed"] = row["answered_by"] == _WAITING

    def _handle_join(self, row: Row, member: _Member, event: GroupEvent) -> None:
        error, is_absent = GroupError.NONE, not (member.is_joined or member.is_pending)
        if not self._settings.min_session_ms <= event.session_ms <= self._settings.max_session_ms:
            error = GroupError.INVALID_SESSION_TIMEOUT
        elif is_absent and event.known:
            error = GroupError.UNKNOWN_MEMBER_ID
        elif is_absent and self._settings.member_id_required:
            error = GroupError.MEMBER_ID_REQUIRED
            member.is_pending = True
            self._pending_members += 1
            self._set_timer(member.place, event.session_ms)
        if error != GroupError.NONE:
            self._answer(row, GroupCause.AT_ONCE, error)
        elif member.is_joined:
            self._rejoin(row, member, event)
        else:
            self._join_as_new_member(row, member, event)

    def _join_as_new_member(self, row: Row, member: _Member, event: GroupEvent) -> None:
        """Add a new member. Until its join is answered it waits `new_member_ms`, not its session timeout."""
        is_preparing = self._state == GroupState.PREPARING_REBALANCE
        self._pending_members -= member.is_pending
        if is_preparing and self._generation == 0:
            self._has_new_member = True
        member.session_ms, member.rebalance_ms = event.session_ms, event.rebalance_ms
        member.is_new, member.join = True, row
        self._add(member)
        self._waiting_joins += 1
        self._restart_heartbeat(member, None, self._settings.new_member_ms, GroupCause.REQUEST_ANSWERED)
        if is_preparing:
            self._try_complete_joins(GroupCause.ALL_JOINED)
        else:
            self._prepare_rebalance(GroupCause.MEMBER_JOINED)

    def _rejoin(self, row: Row, member: _Member, event: GroupEvent) -> None:
        """Let a member join again: for the present rebalance, to begin one, or only to get the same answer again."""
        is_preparing = self._state == GroupState.PREPARING_REBALANCE
        leads_stable = self._state == GroupState.STABLE and self._leader is member
        if not (is_preparing or event.changed or leads_stable):
            self._answer(row, GroupCause.AT_ONCE)
            return
        if member.join is not None:
            member.join["answered_by"] = GroupCause.NEWER_REQUEST.label
        else:
            self._waiting_joins += 1
        member.join = row
        if self._settings.rejoin_sets_timeouts:
            member.session_ms, member.rebalance_ms = event.session_ms, event.rebalance_ms
        if is_preparing:
            self._try_complete_joins(GroupCause.ALL_JOINED)
        else:
            self._prepare_rebalance(GroupCause.METADATA_CHANGED if event.changed else GroupCause.LEADER_REJOINED)

    def _find_member_error(self, member: _Member, event: GroupEvent) -> GroupError:
        if not member.is_joined:
            return GroupError.UNKNOWN_MEMBER_ID
        is_current = event.generation in (None, -1, self._generation)
        return GroupError.NONE if is_current else GroupError.ILLEGAL_GENERATION

    def _handle_sync(self, row: Row, member: _Member, event: GroupEvent) -> None:
        error = self._find_member_error(member, event)
        if error == GroupError.NONE and self._state == GroupState.PREPARING_REBALANCE:
            error = GroupError.REBALANCE_IN_PROGRESS
        if error != GroupError.NONE:
            self._answer(row, GroupCause.AT_ONCE, error)
            return
        self._expect_no_sync(member)
        if self._state == GroupState.STABLE:
            self._answer(row, GroupCause.AT_ONCE)
            self._restart_heartbeat(member, row, member.session_ms, GroupCause.REQUEST_ANSWERED)
            return
        if member.sync is not None:
            member.sync["answered_by"] = GroupCause.NEWER_REQUEST.label
        member.sync = row
        if self._leader is member:
            self._stored = self._generation, member
            for one in self._joined.values():
                one.stored = self._generation, one.session_ms, one.rebalance_ms
            self._set_state(GroupState.STABLE, GroupCause.LEADER_SYNC)
            self._answer_syncs(GroupCause.LEADER_SYNC, GroupError.NONE)

    def _handle_heartbeat(self, row: Row, member: _Member, event: GroupEvent) -> None:
        error = self._find_member_error(member, event)
        if error == GroupError.NONE:
            self._restart_heartbeat(member, row, member.session_ms, GroupCause.NEXT_HEARTBEAT)
            if self._state == GroupState.PREPARING_REBALANCE:
                error = GroupError.REBALANCE_IN_PROGRESS
        self._answer(row, GroupCause.AT_ONCE, error)

    def _handle_leave(self, row: Row, member: _Member, _event: GroupEvent) -> None:
        is_known = member.is_joined or member.is_pending
        if is_known:
            self._remove_or_forget(member, GroupCause.MEMBER_LEFT)
        self._answer(row, GroupCause.AT_ONCE, GroupError.NONE if is_known else GroupError.UNKNOWN_MEMBER_ID)

    def _add(self, member: _Member) -> None:
        member.is_joined, member.is_pending = True, False
        self._joined[member.name] = member
        self._leader = self._leader or member

    def _remove(self, member: _Member, cause: GroupCause) -> None:
        """Remove a member. The member that has been in for longest leads if it led (Kafka takes any)."""
        # A sync of it that waits is never answered.
        del self._joined[member.name]
        self._waiting_joins -= member.join is not None
        if member.sync is not None:
            member.sync["answered_by"] = cause.label
        self._expect_no_sync(member)
        member.is_joined, member.join, member.sync = False, None, None
        if self._leader is member:
            self._leader = next(iter(self._joined.values()), None)
        self._end_heartbeat(member, cause)

    def _remove_or_forget(self, member: _Member, cause: GroupCause) -> None:
        """Remove a member that leaves or has failed: the others rebalance, or no longer wait for it."""
        if member.is_pending:  # it has an id and has not joined with it
            member.is_pending = False
            self._pending_members -= 1
            self._end_heartbeat(member, cause)
            self._try_complete_joins(cause)
            return
        if member.join is not None:
            self._answer(member.join, cause, GroupError.UNKNOWN_MEMBER_ID)
        self._remove(member, cause)
        if self._state == GroupState.PREPARING_REBALANCE:
            self._try_complete_joins(cause)
        else:
            self._prepare_rebalance(cause)

    def _expect_no_sync(self, member: _Member) -> None:
        """Stop waiting for this member's sync."""
        self._pending_syncs -= member.owes_sync
        member.owes_sync = False
        if not self._pending_syncs:
            self._due.pop(_SYNC_TIMER, None)

    def _prepare_rebalance(self, cause: GroupCause) -> None:
        """Begin a rebalance: syncs that wait are answered with an error, and all members are to join again."""
        if self._state == GroupState.COMPLETING_REBALANCE:
            self._answer_syncs(GroupCause.REBALANCE_STARTED, GroupError.REBALANCE_IN_PROGRESS)
        for member in self._joined.values():
            if self._pending_syncs:
                self._expect_no_sync(member)
        delay = self._longest_rebalance_timeout
        self._has_initial_delay = self._state == GroupState.EMPTY
        if self._has_initial_delay:
            longest, delay = delay, self._settings.initial_rebalance_delay_ms
            self._delay_ms, self._remaining_ms = delay, max(longest - delay, 0)
        self._set_timer(_JOIN_TIMER, delay)
        self._set_state(GroupState.PREPARING_REBALANCE, cause)
        self._try_complete_joins(GroupCause.ALL_JOINED if cause in _JOINS else cause)

    @property
    def _longest_rebalance_timeout(self) -> int:
        return max((member.rebalance_ms for member in self._joined.values()), default=0)

    def _try_complete_joins(self, cause: GroupCause) -> None:
        """Answer joins if all members and all pending members have joined. An initial delay is always waited for."""
        all_joined = len(self._joined) == self._waiting_joins and not self._pending_members
        if all_joined and self._state == GroupState.PREPARING_REBALANCE and not self._has_initial_delay:
            self._complete_joins(cause)

    def _complete_joins(self, cause: GroupCause) -> None:
        """Remove members that have not joined, and make the others a new generation. A group without any is empty."""
        self._due.pop(_JOIN_TIMER, None)
        self._has_initial_delay = False
        for member in [member for member in self._joined.values() if member.join is None]:
            self._remove(member, cause)
        self._generation += 1
        if not self._joined:
            self._stored = self._generation, None
            self._set_state(GroupState.EMPTY, cause)
            return
        self._set_state(GroupState.COMPLETING_REBALANCE, cause)
        for member in self._joined.values():
            request = member.join
            assert request is not None
            member.join, member.is_new, member.owes_sync = None, False, True
            self._answer(request, cause)
            self._restart_heartbeat(member, request, member.session_ms, GroupCause.REQUEST_ANSWERED)
        self._waiting_joins, self._pending_syncs = 0, len(self._joined)
        if self._settings.sync_timeout:
            self._set_timer(_SYNC_TIMER, self._longest_rebalance_timeout)

    def _answer_syncs(self, cause: GroupCause, error: GroupError) -> None:
        """Answer all syncs that wait, and start the next delayed heartbeats of these members."""
        for member in self._joined.values():
            request, member.sync = member.sync, None
            if request is not None:
                self._answer(request, cause, error)
                self._restart_heartbeat(member, request, member.session_ms, GroupCause.REQUEST_ANSWERED)

    # ---- the coordinator's own log

    def _unload(self) -> None:
        """Stop coordinating the group: requests that wait get an error, and no heartbeat is expected."""
        for member in self._joined.values():
            for request in (member.join, member.sync):
                if request is not None:
                    self._answer(request, GroupCause.COORDINATOR_LOST, GroupError.NOT_COORDINATOR)
            self._end_heartbeat(member, GroupCause.COORDINATOR_LOST)
        self._clear()
        self._set_state(GroupState.DEAD, GroupCause.COORDINATOR_LOST)

    def _load(self) -> None:
        """Load the group from the log: its last stable generation, or an empty group."""
        self._generation, leader = self._stored
        for member in self._members.values():
            generation, session_ms, rebalance_ms = member.stored
            if generation > 0 and generation == self._generation:
                member.session_ms, member.rebalance_ms, member.is_new = session_ms, rebalance_ms, False
                self._add(member)
                self._restart_heartbeat(member, None, session_ms, GroupCause.COORDINATOR_LOADED)
        self._leader = leader
        self._set_state(GroupState.STABLE if self._joined else GroupState.EMPTY, GroupCause.COORDINATOR_LOADED)
