"""Members of a consumer group and its rebalances: joins and syncs that wait, and when they are answered.

Sources: GroupMetadata, DelayedJoin, DelayedSync of Kafka 2.8; see docs/replay-groups.md.
"""

from udfs.kernel_compiler import part
from udfs.simulation.kernels.codes import NONE
from udfs.simulation.kernels.group_arrays import (
    CoordinatorSetting,
    GroupAnswer,
    GroupArrays,
    GroupField,
    Member,
    MemberStatus,
    set_group_state,
    write_answer,
)
from udfs.simulation.kernels.group_codes import GroupCause, GroupError, GroupState
from udfs.simulation.kernels.group_timers import (
    end_heartbeat,
    join_timer,
    restart_heartbeat,
    set_timer,
    stop_timer,
    sync_timer,
)


@part
def add_member(arrays: GroupArrays, m: int) -> None:
    """Add a member at the end of the group. It leads a group without a leader."""
    group, tail = arrays.group, arrays.group[GroupField.TAIL]
    member = arrays.members[m]
    member[Member.STATUS] = MemberStatus.JOINED
    member[Member.PREVIOUS], member[Member.NEXT] = tail, NONE
    if tail == NONE:
        group[GroupField.HEAD] = m
    else:
        arrays.members[tail, Member.NEXT] = m
    group[GroupField.TAIL] = m
    group[GroupField.SIZE] += 1
    if group[GroupField.LEADER] == NONE:
        group[GroupField.LEADER] = m


@part
def remove_member(arrays: GroupArrays, m: int, cause: int) -> None:
    """Remove a member. The member that has been in for longest leads if it led (Kafka takes any).

    A sync of it that waits is never answered.
    """
    group, member = arrays.group, arrays.members[m]
    previous, following = member[Member.PREVIOUS], member[Member.NEXT]
    if previous == NONE:
        group[GroupField.HEAD] = following
    else:
        arrays.members[previous, Member.NEXT] = following
    if following == NONE:
        group[GroupField.TAIL] = previous
    else:
        arrays.members[following, Member.PREVIOUS] = previous
    group[GroupField.SIZE] -= 1
    group[GroupField.WAITING_JOINS] -= member[Member.JOIN_REQUEST] >= 0
    if member[Member.SYNC_REQUEST] >= 0:
        arrays.answers[member[Member.SYNC_REQUEST], GroupAnswer.ANSWERED_BY] = cause
    expect_no_sync(arrays, m)
    member[Member.STATUS] = MemberStatus.ABSENT
    member[Member.JOIN_REQUEST] = member[Member.SYNC_REQUEST] = -1
    if group[GroupField.LEADER] == m:
        group[GroupField.LEADER] = group[GroupField.HEAD]
    end_heartbeat(arrays, m, cause)


@part
def expel_member(arrays: GroupArrays, m: int, cause: int) -> None:
    """Remove a member that leaves or has failed: the others rebalance, or no longer wait for it."""
    request = arrays.members[m, Member.JOIN_REQUEST]
    if request >= 0:
        write_answer(arrays, request, cause, GroupError.UNKNOWN_MEMBER_ID)
    remove_member(arrays, m, cause)
    if arrays.group[GroupField.STATE] == GroupState.PREPARING_REBALANCE:
        try_complete_joins(arrays, cause)
    else:
        prepare_rebalance(arrays, cause)


@part
def forget_pending_member(arrays: GroupArrays, m: int, cause: int) -> None:
    """Stop waiting for a member that has an id and has not joined with it."""
    arrays.members[m, Member.STATUS] = MemberStatus.ABSENT
    arrays.group[GroupField.PENDING_MEMBERS] -= 1
    end_heartbeat(arrays, m, cause)
    try_complete_joins(arrays, cause)


# ---- joins


@part
def _longest_rebalance_timeout(arrays: GroupArrays) -> int:
    longest, m = 0, arrays.group[GroupField.HEAD]
    while m != NONE:
        longest = max(longest, arrays.members[m, Member.REBALANCE_MS])
        m = arrays.members[m, Member.NEXT]
    return longest


@part
def prepare_rebalance(arrays: GroupArrays, cause: int) -> None:
    """Begin a rebalance: syncs that wait are answered with an error, and all members are to join again."""
    group = arrays.group
    if group[GroupField.STATE] == GroupState.COMPLETING_REBALANCE:
        answer_syncs(arrays, GroupCause.REBALANCE_STARTED, GroupError.REBALANCE_IN_PROGRESS)
    m = group[GroupField.HEAD]
    while m != NONE and group[GroupField.PENDING_SYNCS]:
        expect_no_sync(arrays, m)
        m = arrays.members[m, Member.NEXT]
    delay = _longest_rebalance_timeout(arrays)
    group[GroupField.INITIAL_DELAY] = group[GroupField.STATE] == GroupState.EMPTY
    if group[GroupField.INITIAL_DELAY]:
        longest, delay = delay, arrays.settings[CoordinatorSetting.INITIAL_REBALANCE_DELAY_MS]
        group[GroupField.DELAY_MS], group[GroupField.REMAINING_MS] = delay, max(longest - delay, 0)
    set_timer(arrays, join_timer(arrays), delay)
    set_group_state(arrays, GroupState.PREPARING_REBALANCE, cause)
    if cause in (GroupCause.MEMBER_JOINED, GroupCause.LEADER_REJOINED, GroupCause.METADATA_CHANGED):
        cause = GroupCause.ALL_JOINED
    try_complete_joins(arrays, cause)


@part
def try_complete_joins(arrays: GroupArrays, cause: int) -> None:
    """Answer joins if all members and all pending members have joined. An initial delay is always waited for."""
    group = arrays.group
    is_due = group[GroupField.STATE] == GroupState.PREPARING_REBALANCE and not group[GroupField.INITIAL_DELAY]
    all_joined = group[GroupField.SIZE] == group[GroupField.WAITING_JOINS] and not group[GroupField.PENDING_MEMBERS]
    if is_due and all_joined:
        _complete_joins(arrays, cause)


@part
def expire_joins(arrays: GroupArrays) -> None:
    """Handle the timer of joins: the rebalance timeout or the initial delay.

    The initial delay starts again while new members come, up to the rebalance timeout.
    """
    group = arrays.group
    if not group[GroupField.INITIAL_DELAY]:
        _complete_joins(arrays, GroupCause.REBALANCE_TIMEOUT)
    elif group[GroupField.NEW_MEMBER_ADDED] and group[GroupField.REMAINING_MS]:
        delay = min(arrays.settings[CoordinatorSetting.INITIAL_REBALANCE_DELAY_MS], group[GroupField.REMAINING_MS])
        group[GroupField.NEW_MEMBER_ADDED] = 0
        group[GroupField.REMAINING_MS] = max(group[GroupField.REMAINING_MS] - group[GroupField.DELAY_MS], 0)
        group[GroupField.DELAY_MS] = delay
        set_timer(arrays, join_timer(arrays), delay)
    else:
        _complete_joins(arrays, GroupCause.INITIAL_DELAY)


@part
def _complete_joins(arrays: GroupArrays, cause: int) -> None:
    """Remove members that have not joined, and make the others a new generation. A group without members is empty."""
    group = arrays.group
    stop_timer(arrays, join_timer(arrays))
    group[GroupField.INITIAL_DELAY] = 0
    m = group[GroupField.HEAD]
    while m != NONE:
        following = arrays.members[m, Member.NEXT]
        if arrays.members[m, Member.JOIN_REQUEST] < 0:
            remove_member(arrays, m, cause)
        m = following
    group[GroupField.GENERATION] += 1
    if group[GroupField.SIZE] == 0:
        group[GroupField.STORED_GENERATION], group[GroupField.STORED_LEADER] = group[GroupField.GENERATION], NONE
        set_group_state(arrays, GroupState.EMPTY, cause)
        return
    set_group_state(arrays, GroupState.COMPLETING_REBALANCE, cause)
    m = group[GroupField.HEAD]
    while m != NONE:
        member = arrays.members[m]
        request = member[Member.JOIN_REQUEST]
        member[Member.JOIN_REQUEST], member[Member.IS_NEW], member[Member.PENDING_SYNC] = -1, 0, 1
        write_answer(arrays, request, cause, GroupError.NONE)
        restart_heartbeat(arrays, m, request, member[Member.SESSION_MS], GroupCause.REQUEST_ANSWERED)
        m = member[Member.NEXT]
    group[GroupField.WAITING_JOINS], group[GroupField.PENDING_SYNCS] = 0, group[GroupField.SIZE]
    if arrays.settings[CoordinatorSetting.SYNC_TIMEOUT]:
        set_timer(arrays, sync_timer(arrays), _longest_rebalance_timeout(arrays))


# ---- syncs


@part
def expect_no_sync(arrays: GroupArrays, m: int) -> None:
    """Stop waiting for this member's sync."""
    if arrays.members[m, Member.PENDING_SYNC]:
        arrays.members[m, Member.PENDING_SYNC] = 0
        arrays.group[GroupField.PENDING_SYNCS] -= 1
    if arrays.group[GroupField.PENDING_SYNCS] == 0:
        stop_timer(arrays, sync_timer(arrays))


@part
def answer_syncs(arrays: GroupArrays, cause: int, error: int) -> None:
    """Answer all syncs that wait, and start the next delayed heartbeats of these members."""
    m = arrays.group[GroupField.HEAD]
    while m != NONE:
        member = arrays.members[m]
        request = member[Member.SYNC_REQUEST]
        if request >= 0:
            member[Member.SYNC_REQUEST] = -1
            write_answer(arrays, request, cause, error)
            restart_heartbeat(arrays, m, request, member[Member.SESSION_MS], GroupCause.REQUEST_ANSWERED)
        m = member[Member.NEXT]


@part
def expire_syncs(arrays: GroupArrays) -> None:
    """Remove members that have not synced within the rebalance timeout, and rebalance the others."""
    m = arrays.group[GroupField.HEAD]
    while m != NONE:
        following = arrays.members[m, Member.NEXT]
        if arrays.members[m, Member.PENDING_SYNC]:
            remove_member(arrays, m, GroupCause.SYNC_TIMEOUT)
        m = following
    prepare_rebalance(arrays, GroupCause.SYNC_TIMEOUT)
