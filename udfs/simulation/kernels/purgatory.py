"""Requests that wait at a partition, and how they are answered: delayed produces and delayed fetches.

The rules are those of docs/replay-rules.md. Sources: DelayedProduce, DelayedFetch of Kafka 2.8.
"""

from udfs.kernel_compiler import part
from udfs.simulation.kernels.codes import AnsweredBy, RequestError
from udfs.simulation.kernels.partition_state import (
    cluster_setting,
    copy_log,
    effective_min_isr,
    serving_leader,
    set_high_watermark,
)
from udfs.simulation.kernels.simulation_arrays import (
    NEVER,
    ClusterSetup,
    Cursor,
    Partition,
    PartitionEvent,
    ProgressRow,
    Replica,
    RequestList,
    RequestStatus,
    SimulationArrays,
)


@part
def complete_request(sim: SimulationArrays, event: int, error: int, answered_by: int) -> None:
    """Answer the request of this event now; never, if its connection is lost."""
    request = sim.requests[event]
    request[RequestStatus.ERROR], request[RequestStatus.ANSWERED_BY] = error, answered_by
    request[RequestStatus.ANSWERED_AT] = -1 if error == RequestError.DISCONNECTED else sim.cursor[Cursor.TIME]


@part
def delay_request(sim: SimulationArrays, p: int, event: int) -> None:
    """Let the request wait until its deadline."""
    partition, request = sim.partitions[p], sim.requests[event]
    request[RequestStatus.ANSWERED_BY], request[RequestStatus.DELAYED] = AnsweredBy.WAITING, 1
    partition[Partition.NEXT_DEADLINE] = min(partition[Partition.NEXT_DEADLINE], request[RequestStatus.DEADLINE])


@part
def count_readable(sim: SimulationArrays, p: int, leader: int, offset: int, by_consumer: bool) -> int:
    """Return how many messages of the leader's log a replica, or a consumer, may read from this offset."""
    replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + leader]
    return int(max(0, replica[Replica.HW if by_consumer else Replica.LEO] - offset))


@part
def read_messages(sim: SimulationArrays, p: int, leader: int, event: int, by_consumer: bool) -> None:
    """Note what the fetch of this event reads now."""
    request, row = sim.requests[event], sim.partitions[p, Partition.REPLICA_BEGIN] + leader
    request[RequestStatus.MESSAGES] = count_readable(sim, p, leader, request[RequestStatus.OFFSET], by_consumer)
    request[RequestStatus.HIGH_WATERMARK] = sim.replicas[row, Replica.HW]


@part
def write_progress(sim: SimulationArrays, event: int, size: int) -> None:
    """Log how many bytes this part of a fetch could read from now on; -1 = its leader failed."""
    if not sim.cursor[Cursor.ENABLED]:
        return
    row = sim.progress[sim.cursor[Cursor.PROGRESS]]
    row[ProgressRow.REQUEST], row[ProgressRow.TIME], row[ProgressRow.BYTES] = event, sim.cursor[Cursor.TIME], size
    sim.cursor[Cursor.PROGRESS] += 1


# ---- what completes a request


@part
def complete_replica_fetch(sim: SimulationArrays, p: int, slot: int, answered_by: int) -> None:
    """Answer the slot's waiting fetch: it appends, and takes the leader's high watermark up to its own log end."""
    partition = sim.partitions[p]
    begin, leader = partition[Partition.REPLICA_BEGIN], partition[Partition.LEADER]
    event = sim.replicas[begin + slot, Replica.WAITING_FETCH]
    read_messages(sim, p, leader, event, False)
    sim.replicas[begin + slot, Replica.WAITING_FETCH] = -1
    leo, leader_hw = sim.replicas[begin + leader, Replica.LEO], sim.replicas[begin + leader, Replica.HW]
    copy_log(sim, p, slot, leader, leo)
    set_high_watermark(sim, p, slot, min(leo, leader_hw))
    complete_request(sim, event, RequestError.NONE, answered_by)


@part
def complete_replica_fetches(sim: SimulationArrays, p: int, leader: int) -> None:
    """Answer waiting fetches of replicas that can read enough after an append."""
    partition = sim.partitions[p]
    message_bytes = cluster_setting(sim, p, ClusterSetup.MESSAGE_BYTES)
    for slot in range(partition[Partition.SLOTS]):
        event = sim.replicas[partition[Partition.REPLICA_BEGIN] + slot, Replica.WAITING_FETCH]
        if event < 0:
            continue
        messages = count_readable(sim, p, leader, sim.requests[event, RequestStatus.OFFSET], False)
        if messages * message_bytes >= sim.events[event, PartitionEvent.MIN_BYTES]:
            complete_replica_fetch(sim, p, slot, AnsweredBy.APPEND)


@part
def complete_consumer_fetches(sim: SimulationArrays, p: int) -> None:
    """Let consumers read up to a new high watermark: fetches of one partition may end, others note their progress."""
    partition = sim.partitions[p]
    leader, waiting = partition[Partition.LEADER], 0
    message_bytes = cluster_setting(sim, p, ClusterSetup.MESSAGE_BYTES)
    begin = partition[Partition.EVENT_BEGIN]
    for i in range(partition[Partition.CONSUMER_FETCHES]):
        event = sim.request_lists[RequestList.CONSUMER_FETCHES, begin + i]
        size = count_readable(sim, p, leader, sim.requests[event, RequestStatus.OFFSET], True) * message_bytes
        several = sim.events[event, PartitionEvent.PARTS] > 1
        if not several and size >= sim.events[event, PartitionEvent.MIN_BYTES]:
            read_messages(sim, p, leader, event, True)
            complete_request(sim, event, RequestError.NONE, AnsweredBy.HIGH_WATERMARK)
            continue
        sim.request_lists[RequestList.CONSUMER_FETCHES, begin + waiting] = event
        waiting += 1
        if several:
            write_progress(sim, event, size)
    partition[Partition.CONSUMER_FETCHES] = waiting


@part
def complete_produces(sim: SimulationArrays, p: int, offset: int) -> None:
    """Answer produces that waited for a high watermark up to this offset."""
    partition = sim.partitions[p]
    enough = partition[Partition.ISR_SIZE] >= effective_min_isr(sim, p)
    error = RequestError.NONE if enough else RequestError.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    while partition[Partition.PRODUCE_HEAD] < partition[Partition.PRODUCE_TAIL]:
        place = partition[Partition.EVENT_BEGIN] + partition[Partition.PRODUCE_HEAD]
        event = sim.request_lists[RequestList.PRODUCES, place]
        if sim.requests[event, RequestStatus.ANSWERED_BY] == AnsweredBy.WAITING:
            if sim.requests[event, RequestStatus.OFFSET] > offset:
                return
            complete_request(sim, event, error, AnsweredBy.HIGH_WATERMARK)
        partition[Partition.PRODUCE_HEAD] += 1


@part
def expire_requests(sim: SimulationArrays, p: int, now: int) -> None:
    """Answer requests whose deadline has come, and find the next deadline."""
    partition = sim.partitions[p]
    begin, leader = partition[Partition.EVENT_BEGIN], serving_leader(sim, p)
    next_deadline, waiting = NEVER, 0
    for i in range(partition[Partition.PRODUCE_HEAD], partition[Partition.PRODUCE_TAIL]):
        event = sim.request_lists[RequestList.PRODUCES, begin + i]
        if sim.requests[event, RequestStatus.ANSWERED_BY] != AnsweredBy.WAITING:
            continue
        deadline = sim.requests[event, RequestStatus.DEADLINE]
        if deadline <= now:
            complete_request(sim, event, RequestError.REQUEST_TIMED_OUT, AnsweredBy.TIMEOUT)
        else:
            next_deadline = min(next_deadline, deadline)
    for i in range(partition[Partition.CONSUMER_FETCHES]):
        event = sim.request_lists[RequestList.CONSUMER_FETCHES, begin + i]
        deadline = sim.requests[event, RequestStatus.DEADLINE]
        if deadline <= now:
            if sim.events[event, PartitionEvent.PARTS] == 1:
                read_messages(sim, p, leader, event, True)
            complete_request(sim, event, RequestError.NONE, AnsweredBy.TIMEOUT)
        else:
            next_deadline = min(next_deadline, deadline)
            sim.request_lists[RequestList.CONSUMER_FETCHES, begin + waiting] = event
            waiting += 1
    partition[Partition.CONSUMER_FETCHES] = waiting
    for slot in range(partition[Partition.SLOTS]):
        event = sim.replicas[partition[Partition.REPLICA_BEGIN] + slot, Replica.WAITING_FETCH]
        if event < 0:
            continue
        if sim.requests[event, RequestStatus.DEADLINE] <= now:
            complete_replica_fetch(sim, p, slot, AnsweredBy.TIMEOUT)
        else:
            next_deadline = min(next_deadline, sim.requests[event, RequestStatus.DEADLINE])
    partition[Partition.NEXT_DEADLINE] = next_deadline


@part
def abort_requests(sim: SimulationArrays, p: int, error: int, answered_by: int) -> None:
    """Answer all requests that wait at p with this error."""
    partition = sim.partitions[p]
    begin = partition[Partition.EVENT_BEGIN]
    for i in range(partition[Partition.PRODUCE_HEAD], partition[Partition.PRODUCE_TAIL]):
        event = sim.request_lists[RequestList.PRODUCES, begin + i]
        if sim.requests[event, RequestStatus.ANSWERED_BY] == AnsweredBy.WAITING:
            complete_request(sim, event, error, answered_by)
    partition[Partition.PRODUCE_HEAD] = partition[Partition.PRODUCE_TAIL] = 0
    abort_fetches(sim, p, error, answered_by)


@part
def abort_fetches(sim: SimulationArrays, p: int, error: int, answered_by: int) -> None:
    """Answer all fetches that wait at p with this error."""
    partition = sim.partitions[p]
    for i in range(partition[Partition.CONSUMER_FETCHES]):
        event = sim.request_lists[RequestList.CONSUMER_FETCHES, partition[Partition.EVENT_BEGIN] + i]
        if error == RequestError.DISCONNECTED and sim.events[event, PartitionEvent.PARTS] > 1:
            write_progress(sim, event, -1)  # it is never answered: only this row has the time
        complete_request(sim, event, error, answered_by)
    partition[Partition.CONSUMER_FETCHES] = 0
    for slot in range(partition[Partition.SLOTS]):
        abort_replica_fetch(sim, p, slot, error, answered_by)


@part
def abort_replica_fetch(sim: SimulationArrays, p: int, slot: int, error: int, answered_by: int) -> None:
    """Answer the waiting fetch of the slot's replica, if there is one, without messages."""
    replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
    if replica[Replica.WAITING_FETCH] >= 0:
        complete_request(sim, replica[Replica.WAITING_FETCH], error, answered_by)
        replica[Replica.WAITING_FETCH] = -1


@part
def count_lost_messages(sim: SimulationArrays, p: int, kept_messages: int) -> None:
    """Count messages that appends lose: of the last leader's log only the first `kept_messages` remain."""
    partition = sim.partitions[p]
    while partition[Partition.APPENDS] > 0:
        place = partition[Partition.EVENT_BEGIN] + partition[Partition.APPENDS] - 1
        request = sim.requests[sim.request_lists[RequestList.APPENDS, place]]
        base = request[RequestStatus.BASE_OFFSET]
        end = base + request[RequestStatus.MESSAGES] - request[RequestStatus.LOST_MESSAGES]
        if end <= kept_messages:
            return
        request[RequestStatus.LOST_MESSAGES] += end - max(base, kept_messages)
        if request[RequestStatus.LOST_AT] < 0:
            request[RequestStatus.LOST_AT] = sim.cursor[Cursor.TIME]
        if base < kept_messages:
            return
        partition[Partition.APPENDS] -= 1
