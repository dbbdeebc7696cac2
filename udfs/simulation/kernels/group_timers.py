"""Timers of a consumer group, in a heap by time and place; and delayed heartbeats, which they end.

Source: DelayedHeartbeat of Kafka 2.8.
"""

from udfs.kernel_compiler import compiled, part
from udfs.simulation.kernels.group_arrays import GroupAnswer, GroupArrays, GroupField, GroupTimer, Member
from udfs.simulation.kernels.group_codes import GroupCause


@part
def _is_earlier(arrays: GroupArrays, timer: int, other: int) -> bool:
    due_at, other_due_at = arrays.timers[timer, GroupTimer.DUE_AT], arrays.timers[other, GroupTimer.DUE_AT]
    earlier: bool = due_at < other_due_at or (due_at == other_due_at and timer < other)
    return earlier


@compiled
def _put_timer(arrays: GroupArrays, place: int, timer: int) -> None:
    arrays.heap[place] = timer
    arrays.timers[timer, GroupTimer.PLACE] = place


@part
def _sift_timer(arrays: GroupArrays, place: int) -> None:
    """Move the timer at this place of the heap up or down to where it belongs."""
    timer, size = arrays.heap[place], arrays.group[GroupField.TIMERS]
    while place > 0 and _is_earlier(arrays, timer, arrays.heap[(place - 1) // 2]):
        _put_timer(arrays, place, arrays.heap[(place - 1) // 2])
        place = (place - 1) // 2
    while True:
        child = 2 * place + 1
        if child + 1 < size and _is_earlier(arrays, arrays.heap[child + 1], arrays.heap[child]):
            child += 1
        if child >= size or not _is_earlier(arrays, arrays.heap[child], timer):
            break
        _put_timer(arrays, place, arrays.heap[child])
        place = child
    _put_timer(arrays, place, timer)


@part
def set_timer(arrays: GroupArrays, timer: int, after_ms: int) -> None:
    """Set a timer, or set it anew."""
    arrays.timers[timer, GroupTimer.DUE_AT] = arrays.group[GroupField.TIME] + after_ms
    if arrays.timers[timer, GroupTimer.PLACE] < 0:
        _put_timer(arrays, arrays.group[GroupField.TIMERS], timer)
        arrays.group[GroupField.TIMERS] += 1
    _sift_timer(arrays, arrays.timers[timer, GroupTimer.PLACE])


@part
def stop_timer(arrays: GroupArrays, timer: int) -> None:
    """Stop a timer if it is set."""
    place = arrays.timers[timer, GroupTimer.PLACE]
    if place < 0:
        return
    arrays.group[GroupField.TIMERS] -= 1
    arrays.timers[timer, GroupTimer.PLACE] = -1
    last = arrays.heap[arrays.group[GroupField.TIMERS]]
    if last != timer:
        _put_timer(arrays, place, last)
        _sift_timer(arrays, place)


@part
def sync_timer(arrays: GroupArrays) -> int:
    """Return the timer of syncs."""
    return int(arrays.group[GroupField.PLACES])


@part
def join_timer(arrays: GroupArrays) -> int:
    """Return the timer of joins."""
    return int(arrays.group[GroupField.PLACES] + 1)


# ---- delayed heartbeats


@part
def end_heartbeat(arrays: GroupArrays, m: int, cause: int) -> None:
    """End the member's delayed heartbeat if there is one."""
    stop_timer(arrays, m)
    request = arrays.members[m, Member.HEARTBEAT_REQUEST]
    if request >= 0:
        arrays.answers[request, GroupAnswer.HEARTBEAT_ENDED_AT] = arrays.group[GroupField.TIME]
        arrays.answers[request, GroupAnswer.HEARTBEAT_ENDED_BY] = cause
        arrays.members[m, Member.HEARTBEAT_REQUEST] = -1


@part
def needs_no_heartbeat(arrays: GroupArrays, m: int) -> bool:
    """Return whether the member waits for an answer itself and is not new."""
    member = arrays.members[m]
    waits: bool = member[Member.JOIN_REQUEST] >= 0 or member[Member.SYNC_REQUEST] >= 0
    return waits and not member[Member.IS_NEW]


@part
def restart_heartbeat(arrays: GroupArrays, m: int, request: int, after_ms: int, cause: int) -> None:
    """End the member's delayed heartbeat, for this cause, and let `request` (-1 = none) start the next one."""
    end_heartbeat(arrays, m, cause)
    arrays.members[m, Member.HEARTBEAT_REQUEST] = request
    if request >= 0:
        arrays.answers[request, GroupAnswer.HEARTBEAT_ENDED_BY] = GroupCause.WAITING
    if needs_no_heartbeat(arrays, m):
        end_heartbeat(arrays, m, GroupCause.MEMBER_WAITS)
    else:
        set_timer(arrays, m, after_ms)
