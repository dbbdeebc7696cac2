"""The coordinator of consumer groups: requests in order give answers, and every state of the groups.

Source: GroupCoordinator of Kafka 2.8; see docs/replay-groups.md.
"""

import numpy as np

from udfs.kernel_compiler import compiled, copying_part, part
from udfs.simulation.kernels.codes import NONE
from udfs.simulation.kernels.group_arrays import (
    CoordinatorEvent,
    CoordinatorSetting,
    GroupAnswer,
    GroupArrays,
    GroupField,
    GroupTimer,
    GroupTransition,
    JoinFlag,
    Member,
    MemberStatus,
    set_group_state,
    write_answer,
)
from udfs.simulation.kernels.group_codes import GroupCause, GroupError, GroupEventKind, GroupState
from udfs.simulation.kernels.group_rebalance import (
    add_member,
    answer_syncs,
    expect_no_sync,
    expel_member,
    expire_joins,
    expire_syncs,
    forget_pending_member,
    prepare_rebalance,
    try_complete_joins,
)
from udfs.simulation.kernels.group_timers import (
    end_heartbeat,
    join_timer,
    needs_no_heartbeat,
    restart_heartbeat,
    set_timer,
    stop_timer,
    sync_timer,
)
from udfs.simulation.kernels.simulation_arrays import Ints


def simulate_group_events(
    events: Ints, group_offsets: Ints, member_offsets: Ints, settings: Ints, end_at: int
) -> tuple[Ints, Ints]:
    """Simulate consumer groups. Each is independent of the others.

    Timers due at an event's time run before it: by time, then sessions in the order of members, then syncs, then joins.

    Args:
        events: (e, CoordinatorEvent), group by group, by time within each; REQUEST names each row of answers once.
        group_offsets: (g + 1), where the events of each group begin.
        member_offsets: (g + 1), where the members of each group begin, which MEMBER names.
        settings: (CoordinatorSetting).
        end_at: ms, until when timers run; at least until a group's last event.

    Returns:
        Answers (e, GroupAnswer), and transitions (t, GroupTransition).
    """
    answers = np.zeros((len(events), len(GroupAnswer)), np.int64)
    missing = [GroupAnswer.ANSWERED_AT, GroupAnswer.GENERATION, GroupAnswer.LEADER, GroupAnswer.HEARTBEAT_ENDED_AT]
    answers[:, missing] = -1
    answers[:, GroupAnswer.HEARTBEAT_ENDED_BY] = GroupCause.NO_HEARTBEAT
    places = int(np.diff(member_offsets).max(initial=0))
    arrays = GroupArrays(
        group=np.zeros(len(GroupField), np.int64),
        members=np.zeros((places, len(Member)), np.int64),
        timers=np.zeros((places + 2, len(GroupTimer)), np.int64),
        heap=np.zeros(places + 2, np.int64),
        settings=settings,
        answers=answers,
        transitions=np.empty((_count_transitions(events), len(GroupTransition)), np.int64),
    )
    _simulate_groups(arrays, events, group_offsets, member_offsets, end_at)
    return answers, arrays.transitions[: arrays.group[GroupField.TRANSITIONS]].copy()


def _count_transitions(events: Ints) -> int:
    """Return an upper bound on the number of transitions.

    A rebalance begins from Empty (by a join), from CompletingRebalance (which takes a join each) or from Stable (which
    takes a sync or a loading), and ends once. Heartbeats and leaves add no state of their own.
    """
    kinds = np.bincount(events[:, CoordinatorEvent.KIND], minlength=len(GroupEventKind))
    syncs = kinds[GroupEventKind.SYNC] + kinds[GroupEventKind.COORDINATOR_LOADED]
    return int(4 * kinds[GroupEventKind.JOIN] + 3 * syncs + kinds[GroupEventKind.COORDINATOR_LOST])


@compiled
def _simulate_groups(arrays: GroupArrays, events: Ints, group_offsets: Ints, member_offsets: Ints, end_at: int) -> None:
    for group in range(len(group_offsets) - 1):
        _start_group(arrays, group, member_offsets[group], member_offsets[group + 1])
        at = end_at
        for i in range(group_offsets[group], group_offsets[group + 1]):
            at = events[i, CoordinatorEvent.TIME]
            _run_timers(arrays, at)
            arrays.group[GroupField.TIME] = at
            arrays.group[GroupField.REQUEST] = events[i, CoordinatorEvent.REQUEST]
            _handle_event(arrays, events[i])
        _run_timers(arrays, max(at, end_at))


@compiled
def _start_group(arrays: GroupArrays, group: int, first_member: int, end: int) -> None:
    """Start with a group that no member has joined yet."""
    transitions = arrays.group[GroupField.TRANSITIONS]
    arrays.group[:] = 0
    arrays.group[GroupField.TRANSITIONS], arrays.group[GroupField.GROUP] = transitions, group
    arrays.group[GroupField.FIRST_MEMBER], arrays.group[GroupField.PLACES] = first_member, end - first_member
    arrays.group[GroupField.STORED_LEADER] = NONE
    arrays.members[: end - first_member] = 0
    _clear_group(arrays)


@part
def _clear_group(arrays: GroupArrays) -> None:
    """Remove all members and timers. What is stored stays."""
    group = arrays.group
    for m in range(group[GroupField.PLACES]):
        member = arrays.members[m]
        member[Member.STATUS], member[Member.PENDING_SYNC] = MemberStatus.ABSENT, 0
        member[Member.JOIN_REQUEST] = member[Member.SYNC_REQUEST] = member[Member.HEARTBEAT_REQUEST] = -1
    for timer in range(group[GroupField.PLACES] + 2):
        arrays.timers[timer, GroupTimer.PLACE] = -1
    group[GroupField.LEADER] = group[GroupField.HEAD] = group[GroupField.TAIL] = NONE
    group[GroupField.SIZE] = group[GroupField.WAITING_JOINS] = group[GroupField.PENDING_MEMBERS] = 0
    group[GroupField.PENDING_SYNCS] = group[GroupField.INITIAL_DELAY] = 0
    group[GroupField.NEW_MEMBER_ADDED] = group[GroupField.TIMERS] = 0


@part
def _run_timers(arrays: GroupArrays, until: int) -> None:
    """Run all timers that are due until this time."""
    group = arrays.group
    group[GroupField.REQUEST] = -1
    while group[GroupField.TIMERS] and arrays.timers[arrays.heap[0], GroupTimer.DUE_AT] <= until:
        timer = arrays.heap[0]
        group[GroupField.TIME] = arrays.timers[timer, GroupTimer.DUE_AT]
        stop_timer(arrays, timer)
        if timer == join_timer(arrays):
            expire_joins(arrays)
        elif timer == sync_timer(arrays):
            expire_syncs(arrays)
        else:
            _expire_session(arrays, timer)


@part
def _expire_session(arrays: GroupArrays, m: int) -> None:
    if arrays.members[m, Member.STATUS] == MemberStatus.PENDING:
        forget_pending_member(arrays, m, GroupCause.SESSION_TIMEOUT)
    elif needs_no_heartbeat(arrays, m):
        end_heartbeat(arrays, m, GroupCause.MEMBER_WAITS)
    else:
        expel_member(arrays, m, GroupCause.SESSION_TIMEOUT)


# ---- requests


@copying_part
def _handle_event(arrays: GroupArrays, event: Ints) -> None:
    request, kind = event[CoordinatorEvent.REQUEST], event[CoordinatorEvent.KIND]
    m = event[CoordinatorEvent.MEMBER] - arrays.group[GroupField.FIRST_MEMBER]
    is_unloaded = arrays.group[GroupField.STATE] == GroupState.DEAD
    if kind == GroupEventKind.COORDINATOR_LOST or kind == GroupEventKind.COORDINATOR_LOADED:
        if kind == GroupEventKind.COORDINATOR_LOST and not is_unloaded:
            _unload_group(arrays)
        elif kind == GroupEventKind.COORDINATOR_LOADED and is_unloaded:
            _load_group(arrays)
        write_answer(arrays, request, GroupCause.AT_ONCE, GroupError.NONE)
    elif is_unloaded:
        write_answer(arrays, request, GroupCause.AT_ONCE, GroupError.NOT_COORDINATOR)
    elif kind == GroupEventKind.JOIN:
        _handle_join(arrays, request, m, event)
    elif kind == GroupEventKind.SYNC:
        _handle_sync(arrays, request, m, event)
    elif kind == GroupEventKind.HEARTBEAT:
        _handle_heartbeat(arrays, request, m, event)
    else:
        _handle_leave(arrays, request, m)
    answer = arrays.answers[request]
    answer[GroupAnswer.DELAYED] = answer[GroupAnswer.ANSWERED_BY] == GroupCause.WAITING


@part
def _handle_join(arrays: GroupArrays, request: int, m: int, event: Ints) -> None:
    status, session_ms = arrays.members[m, Member.STATUS], event[CoordinatorEvent.SESSION_MS]
    settings, error = arrays.settings, GroupError.NONE
    is_known = event[CoordinatorEvent.FLAGS] & JoinFlag.KNOWN_MEMBER != 0
    if (
        session_ms < settings[CoordinatorSetting.MIN_SESSION_MS]
        or session_ms > settings[CoordinatorSetting.MAX_SESSION_MS]
    ):
        error = GroupError.INVALID_SESSION_TIMEOUT
    elif status == MemberStatus.ABSENT and is_known:
        error = GroupError.UNKNOWN_MEMBER_ID
    elif status == MemberStatus.ABSENT and settings[CoordinatorSetting.MEMBER_ID_REQUIRED]:
        error = GroupError.MEMBER_ID_REQUIRED
        arrays.members[m, Member.STATUS] = MemberStatus.PENDING
        arrays.group[GroupField.PENDING_MEMBERS] += 1
        set_timer(arrays, m, session_ms)
    if error != GroupError.NONE:
        write_answer(arrays, request, GroupCause.AT_ONCE, error)
    elif status == MemberStatus.JOINED:
        _rejoin(arrays, request, m, event)
    else:
        _join_as_new_member(arrays, request, m, event)


@part
def _join_as_new_member(arrays: GroupArrays, request: int, m: int, event: Ints) -> None:
    """Add a new member. Until its join is answered it waits NEW_MEMBER_MS (five minutes), not its session timeout."""
    member, group = arrays.members[m], arrays.group
    is_preparing = group[GroupField.STATE] == GroupState.PREPARING_REBALANCE
    group[GroupField.PENDING_MEMBERS] -= member[Member.STATUS] == MemberStatus.PENDING
    if is_preparing and group[GroupField.GENERATION] == 0:
        group[GroupField.NEW_MEMBER_ADDED] = 1
    _set_timeouts(member, event)
    member[Member.IS_NEW], member[Member.JOIN_REQUEST] = 1, request
    add_member(arrays, m)
    group[GroupField.WAITING_JOINS] += 1
    new_member_ms = arrays.settings[CoordinatorSetting.NEW_MEMBER_MS]
    restart_heartbeat(arrays, m, -1, new_member_ms, GroupCause.REQUEST_ANSWERED)
    if is_preparing:
        try_complete_joins(arrays, GroupCause.ALL_JOINED)
    else:
        prepare_rebalance(arrays, GroupCause.MEMBER_JOINED)


@part
def _set_timeouts(member: Ints, event: Ints) -> None:
    member[Member.SESSION_MS] = event[CoordinatorEvent.SESSION_MS]
    member[Member.REBALANCE_MS] = event[CoordinatorEvent.REBALANCE_MS]


@part
def _rejoin(arrays: GroupArrays, request: int, m: int, event: Ints) -> None:
    """Let a member join again: for the present rebalance, to begin one, or only to get the same answer again."""
    member, group = arrays.members[m], arrays.group
    is_preparing = group[GroupField.STATE] == GroupState.PREPARING_REBALANCE
    is_changed = event[CoordinatorEvent.FLAGS] & JoinFlag.CHANGED_METADATA != 0
    leads_stable = group[GroupField.STATE] == GroupState.STABLE and group[GroupField.LEADER] == m
    if not (is_preparing or is_changed or leads_stable):
        write_answer(arrays, request, GroupCause.AT_ONCE, GroupError.NONE)
        return
    if member[Member.JOIN_REQUEST] >= 0:
        arrays.answers[member[Member.JOIN_REQUEST], GroupAnswer.ANSWERED_BY] = GroupCause.NEWER_REQUEST
    else:
        group[GroupField.WAITING_JOINS] += 1
    member[Member.JOIN_REQUEST] = request
    if arrays.settings[CoordinatorSetting.REJOIN_SETS_TIMEOUTS]:
        _set_timeouts(member, event)
    if is_preparing:
        try_complete_joins(arrays, GroupCause.ALL_JOINED)
    else:
        prepare_rebalance(arrays, GroupCause.METADATA_CHANGED if is_changed else GroupCause.LEADER_REJOINED)


@part
def _find_member_error(arrays: GroupArrays, m: int, generation: int) -> int:
    """Return the error of a heartbeat or a sync, whatever the state of the group."""
    if arrays.members[m, Member.STATUS] != MemberStatus.JOINED:
        return GroupError.UNKNOWN_MEMBER_ID
    if generation not in (-1, arrays.group[GroupField.GENERATION]):
        return GroupError.ILLEGAL_GENERATION
    return GroupError.NONE


@part
def _handle_sync(arrays: GroupArrays, request: int, m: int, event: Ints) -> None:
    member, group_state = arrays.members[m], arrays.group[GroupField.STATE]
    error = _find_member_error(arrays, m, event[CoordinatorEvent.GENERATION])
    if error == GroupError.NONE and group_state == GroupState.PREPARING_REBALANCE:
        error = GroupError.REBALANCE_IN_PROGRESS
    if error != GroupError.NONE:
        write_answer(arrays, request, GroupCause.AT_ONCE, error)
        return
    expect_no_sync(arrays, m)
    if group_state == GroupState.STABLE:
        write_answer(arrays, request, GroupCause.AT_ONCE, GroupError.NONE)
        restart_heartbeat(arrays, m, request, member[Member.SESSION_MS], GroupCause.REQUEST_ANSWERED)
        return
    if member[Member.SYNC_REQUEST] >= 0:
        arrays.answers[member[Member.SYNC_REQUEST], GroupAnswer.ANSWERED_BY] = GroupCause.NEWER_REQUEST
    member[Member.SYNC_REQUEST] = request
    if arrays.group[GroupField.LEADER] == m:
        _store_group(arrays)
        set_group_state(arrays, GroupState.STABLE, GroupCause.LEADER_SYNC)
        answer_syncs(arrays, GroupCause.LEADER_SYNC, GroupError.NONE)


@part
def _handle_heartbeat(arrays: GroupArrays, request: int, m: int, event: Ints) -> None:
    error = _find_member_error(arrays, m, event[CoordinatorEvent.GENERATION])
    if error == GroupError.NONE:
        restart_heartbeat(arrays, m, request, arrays.members[m, Member.SESSION_MS], GroupCause.NEXT_HEARTBEAT)
        if arrays.group[GroupField.STATE] == GroupState.PREPARING_REBALANCE:
            error = GroupError.REBALANCE_IN_PROGRESS
    write_answer(arrays, request, GroupCause.AT_ONCE, error)


@compiled
def _handle_leave(arrays: GroupArrays, request: int, m: int) -> None:
    status = arrays.members[m, Member.STATUS]
    if status == MemberStatus.JOINED:
        expel_member(arrays, m, GroupCause.MEMBER_LEFT)
    elif status == MemberStatus.PENDING:
        forget_pending_member(arrays, m, GroupCause.MEMBER_LEFT)
    error = GroupError.UNKNOWN_MEMBER_ID if status == MemberStatus.ABSENT else GroupError.NONE
    write_answer(arrays, request, GroupCause.AT_ONCE, error)


# ---- the coordinator's own log


@compiled
def _store_group(arrays: GroupArrays) -> None:
    """Store the group in the log of __consumer_offsets."""
    group = arrays.group
    generation = group[GroupField.GENERATION]
    group[GroupField.STORED_GENERATION], group[GroupField.STORED_LEADER] = generation, group[GroupField.LEADER]
    m = group[GroupField.HEAD]
    while m != NONE:
        member = arrays.members[m]
        member[Member.STORED_GENERATION] = generation
        member[Member.STORED_SESSION_MS] = member[Member.SESSION_MS]
        member[Member.STORED_REBALANCE_MS] = member[Member.REBALANCE_MS]
        m = member[Member.NEXT]


@part
def _unload_group(arrays: GroupArrays) -> None:
    """Stop coordinating the group: requests that wait get an error, and no heartbeat is expected."""
    m = arrays.group[GroupField.HEAD]
    while m != NONE:
        member = arrays.members[m]
        for request in (member[Member.JOIN_REQUEST], member[Member.SYNC_REQUEST]):
            if request >= 0:
                write_answer(arrays, request, GroupCause.COORDINATOR_LOST, GroupError.NOT_COORDINATOR)
        end_heartbeat(arrays, m, GroupCause.COORDINATOR_LOST)
        m = member[Member.NEXT]
    _clear_group(arrays)
    set_group_state(arrays, GroupState.DEAD, GroupCause.COORDINATOR_LOST)


@compiled
def _load_group(arrays: GroupArrays) -> None:
    """Load the group from the log: its last stable generation, or an empty group."""
    group = arrays.group
    generation = group[GroupField.GENERATION] = group[GroupField.STORED_GENERATION]
    for m in range(group[GroupField.PLACES]):
        member = arrays.members[m]
        if generation > 0 and member[Member.STORED_GENERATION] == generation:
            member[Member.SESSION_MS] = member[Member.STORED_SESSION_MS]
            member[Member.REBALANCE_MS] = member[Member.STORED_REBALANCE_MS]
            member[Member.IS_NEW] = 0
            add_member(arrays, m)
            restart_heartbeat(arrays, m, -1, member[Member.SESSION_MS], GroupCause.COORDINATOR_LOADED)
    group[GroupField.LEADER] = group[GroupField.STORED_LEADER]
    to_state = GroupState.STABLE if group[GroupField.SIZE] else GroupState.EMPTY
    set_group_state(arrays, to_state, GroupCause.COORDINATOR_LOADED)
