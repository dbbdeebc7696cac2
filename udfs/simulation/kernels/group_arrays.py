"""Arrays of the group coordinator and their columns. All are int64; times are milliseconds.

Groups are simulated one after another in the same working arrays. Inside a group a member is its place in the group;
outside it is its place among the members of all groups.
"""

import enum
from typing import NamedTuple

from udfs.kernel_compiler import compiled, part
from udfs.simulation.kernels.codes import NONE
from udfs.simulation.kernels.simulation_arrays import Ints, columns


@columns
class CoordinatorSetting(enum.IntEnum):
    """Entries of `settings`."""

    INITIAL_REBALANCE_DELAY_MS, MEMBER_ID_REQUIRED, SYNC_TIMEOUT, REJOIN_SETS_TIMEOUTS = range(4)
    NEW_MEMBER_MS, MIN_SESSION_MS, MAX_SESSION_MS = range(4, 7)


@columns
class CoordinatorEvent(enum.IntEnum):
    """Columns of an event of a group. MEMBER: -1 for an event of the coordinator. REQUEST: row of the answer.

    SESSION_MS, REBALANCE_MS: timeouts of a join. GENERATION: of a sync or heartbeat, -1 = the present one.
    """

    TIME, KIND, MEMBER, SESSION_MS, REBALANCE_MS, GENERATION, FLAGS, REQUEST = range(8)


class JoinFlag(enum.IntEnum):
    """Flags of a join: it carries the member's id; the member's metadata, such as its topics, has changed."""

    KNOWN_MEMBER = 1
    CHANGED_METADATA = 2


@columns
class GroupAnswer(enum.IntEnum):
    """Columns of `answers`. The last two: how the delayed heartbeat ended that the request started.

    ANSWERED_AT: -1 = never, or not yet if it is WAITING. GENERATION, LEADER: of the group when it answered.
    DELAYED: 1 = the request had to wait. HEARTBEAT_ENDED_BY: NO_HEARTBEAT = the request started none.
    """

    ANSWERED_AT, ANSWERED_BY, ERROR, GENERATION, LEADER, DELAYED = range(6)
    HEARTBEAT_ENDED_AT, HEARTBEAT_ENDED_BY = range(6, 8)


@columns
class GroupTransition(enum.IntEnum):
    """Columns of `transitions`, changes of a group's state. REQUEST: -1 = a timer."""

    TIME, REQUEST, GROUP, FROM_STATE, TO_STATE, CAUSE, GENERATION, LEADER = range(8)


@columns
class GroupField(enum.IntEnum):
    """Entries of `group`: the moment, then the group.

    HEAD, TAIL: the first and last member in the order of joining. PENDING_MEMBERS: have an id and have not joined with
    it. INITIAL_DELAY: 1 = the rebalance waits for it. STORED_*: in __consumer_offsets. TRANSITIONS: rows used.
    """

    TIME, REQUEST, TIMERS, TRANSITIONS = range(4)
    GROUP, FIRST_MEMBER, PLACES = range(4, 7)  # its members' first place among all, and how many it ever has
    STATE, GENERATION, LEADER, HEAD, TAIL, SIZE = range(7, 13)
    WAITING_JOINS, PENDING_MEMBERS, PENDING_SYNCS = range(13, 16)
    INITIAL_DELAY, NEW_MEMBER_ADDED, DELAY_MS, REMAINING_MS = range(16, 20)
    STORED_GENERATION, STORED_LEADER = range(20, 22)


@columns
class Member(enum.IntEnum):
    """Columns of `members`. *_REQUEST: the request that waits, or that started the delayed heartbeat; -1 = none."""

    STATUS, SESSION_MS, REBALANCE_MS, IS_NEW, PENDING_SYNC, PREVIOUS, NEXT = range(7)
    JOIN_REQUEST, SYNC_REQUEST, HEARTBEAT_REQUEST = range(7, 10)
    STORED_GENERATION, STORED_SESSION_MS, STORED_REBALANCE_MS = range(10, 13)


class MemberStatus(enum.IntEnum):
    """Whether a member is in its group. PENDING: it has an id and has not joined with it."""

    ABSENT, PENDING, JOINED = range(3)


@columns
class GroupTimer(enum.IntEnum):
    """Columns of `timers`. PLACE: in the heap, -1 = not set."""

    DUE_AT, PLACE = range(2)


class GroupArrays(NamedTuple):
    """The group that is simulated, and the results of all groups."""

    group: Ints  # (GroupField)
    members: Ints  # (m, Member); joined members are linked in the order of joining
    timers: Ints  # (m + 2, GroupTimer), one per member for its session, then that of syncs, then that of joins
    heap: Ints  # (m + 2), timers that are set
    settings: Ints  # (CoordinatorSetting)
    answers: Ints  # (e, GroupAnswer)
    transitions: Ints  # (t, GroupTransition)


@part
def leader_member(arrays: GroupArrays) -> int:
    """Return the group's leader as its place among the members of all groups, or NONE."""
    leader = arrays.group[GroupField.LEADER]
    return NONE if leader == NONE else int(arrays.group[GroupField.FIRST_MEMBER] + leader)


@compiled
def write_answer(arrays: GroupArrays, request: int, cause: int, error: int) -> None:
    """Answer a request now."""
    answer = arrays.answers[request]
    answer[GroupAnswer.ANSWERED_AT], answer[GroupAnswer.ANSWERED_BY] = arrays.group[GroupField.TIME], cause
    answer[GroupAnswer.ERROR], answer[GroupAnswer.GENERATION] = error, arrays.group[GroupField.GENERATION]
    answer[GroupAnswer.LEADER] = leader_member(arrays)


@part
def set_group_state(arrays: GroupArrays, to_state: int, cause: int) -> None:
    """Change the state of the group and log it."""
    group = arrays.group
    row = arrays.transitions[group[GroupField.TRANSITIONS]]
    row[GroupTransition.TIME], row[GroupTransition.REQUEST] = group[GroupField.TIME], group[GroupField.REQUEST]
    row[GroupTransition.GROUP], row[GroupTransition.CAUSE] = group[GroupField.GROUP], cause
    row[GroupTransition.FROM_STATE], row[GroupTransition.TO_STATE] = group[GroupField.STATE], to_state
    row[GroupTransition.GENERATION], row[GroupTransition.LEADER] = group[GroupField.GENERATION], leader_member(arrays)
    group[GroupField.TRANSITIONS] += 1
    group[GroupField.STATE] = to_state
