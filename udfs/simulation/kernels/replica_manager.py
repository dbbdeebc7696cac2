"""Produce and fetch requests at a partition, and offsets that are known from elsewhere.

The rules are those of docs/replay-rules.md. Sources: ReplicaManager, Partition of Kafka 2.8.
"""

from udfs.kernel_compiler import part
from udfs.simulation.kernels.broker_liveness import is_live, serving_leader
from udfs.simulation.kernels.change_log import Cursor
from udfs.simulation.kernels.codes import NONE, AnsweredBy, PartitionState, RequestError
from udfs.simulation.kernels.health_intervals import remember_offsets
from udfs.simulation.kernels.isr_maintenance import advance_high_watermark, can_join_isr, expand_isr
from udfs.simulation.kernels.partition_reassignment import complete_reassignment
from udfs.simulation.kernels.purgatory import (
    abort_replica_fetch,
    complete_replica_fetch,
    complete_replica_fetches,
    complete_request,
    count_readable,
    delay_request,
    read_messages,
    write_progress,
)
from udfs.simulation.kernels.replica_lists import cluster_setting, contains, effective_min_isr
from udfs.simulation.kernels.replica_logs import copy_log, set_common_prefix, set_high_watermark, truncate_log
from udfs.simulation.kernels.simulation_arrays import (
    ClusterSetup,
    Ints,
    Partition,
    PartitionEvent,
    Replica,
    RequestList,
    RequestStatus,
    SimulationArrays,
)


@part
def append_messages(sim: SimulationArrays, p: int, event: int) -> None:
    """Handle a produce request: the event at this row."""
    partition, request = sim.partitions[p], sim.requests[event]
    leader = serving_leader(sim, p)
    acks, messages = sim.events[event, PartitionEvent.ACKS], sim.events[event, PartitionEvent.MESSAGES]
    answered_by = AnsweredBy.NOTHING_AWAITED if acks == 0 else AnsweredBy.AT_ONCE
    error = RequestError.NONE
    if leader == NONE and partition[Partition.STATE] == PartitionState.NON_EXISTENT:
        error = RequestError.UNKNOWN_TOPIC_OR_PARTITION
    elif leader == NONE:
        error = RequestError.LEADER_NOT_AVAILABLE
    elif acks == -1 and partition[Partition.ISR_SIZE] < effective_min_isr(sim, p):
        error = RequestError.NOT_ENOUGH_REPLICAS
    if error != RequestError.NONE:
        complete_request(sim, event, error, answered_by)
        return
    replica = sim.replicas[partition[Partition.REPLICA_BEGIN] + leader]
    request[RequestStatus.BASE_OFFSET], request[RequestStatus.MESSAGES] = replica[Replica.LEO], messages
    if acks == 1:
        answered_by = AnsweredBy.APPEND
    if acks != -1 or messages == 0:
        complete_request(sim, event, RequestError.NONE, answered_by)
    if messages == 0:
        return
    replica[Replica.LEO] += messages
    begin = partition[Partition.EVENT_BEGIN]
    sim.request_lists[RequestList.APPENDS, begin + partition[Partition.APPENDS]] = event
    partition[Partition.APPENDS] += 1
    request[RequestStatus.OFFSET] = replica[Replica.LEO]
    if acks == -1:
        wait_ms = sim.events[event, PartitionEvent.WAIT_MS]
        request[RequestStatus.DEADLINE] = sim.events[event, PartitionEvent.TIME] + wait_ms
        sim.request_lists[RequestList.PRODUCES, begin + partition[Partition.PRODUCE_TAIL]] = event
        partition[Partition.PRODUCE_TAIL] += 1
        delay_request(sim, p, event)
    advance_high_watermark(sim, p)
    if acks == -1 and request[RequestStatus.ANSWERED_BY] != AnsweredBy.WAITING:
        request[RequestStatus.ANSWERED_BY] = AnsweredBy.AT_ONCE
    complete_replica_fetches(sim, p, leader)


@part
def fetch_messages(sim: SimulationArrays, p: int, event: int) -> None:
    """Handle a fetch request of a replica or (no slot) of a consumer: the event at this row."""
    row, request, partition = sim.events[event], sim.requests[event], sim.partitions[p]
    slot, offset, begin = row[PartitionEvent.SLOT], row[PartitionEvent.OFFSET], partition[Partition.REPLICA_BEGIN]
    leader, by_consumer = serving_leader(sim, p), slot == NONE
    if offset < 0 and leader != NONE:
        if by_consumer:
            offset = sim.replicas[begin + leader, Replica.HW]
        else:
            # A log that is longer than the leader's is truncated: the leader would answer OFFSET_OUT_OF_RANGE.
            if is_live(sim, p, slot):
                truncate_log(sim, p, slot, sim.replicas[begin + leader, Replica.LEO])
            offset = sim.replicas[begin + slot, Replica.LEO]
    error = _find_fetch_error(sim, p, row, leader, offset)
    if error != RequestError.NONE:
        if not row[PartitionEvent.VALUE]:  # 1 = one of many fetches that were generated, not requested one by one
            complete_request(sim, event, error, AnsweredBy.AT_ONCE)
        return
    request[RequestStatus.OFFSET] = offset
    request[RequestStatus.DEADLINE] = row[PartitionEvent.TIME] + row[PartitionEvent.WAIT_MS]
    if not by_consumer:
        if partition[Partition.TARGET_SIZE]:
            remember_offsets(sim, p)  # the reassignment may complete below
        abort_replica_fetch(sim, p, slot, RequestError.NONE, AnsweredBy.NEWER_FETCH)
        _update_follower(sim, p, slot, offset)
        sim.replicas[begin + slot, Replica.WAITING_FETCH] = event
    size = count_readable(sim, p, leader, offset, by_consumer)
    size *= cluster_setting(sim, p, ClusterSetup.MESSAGE_BYTES)
    several = by_consumer and row[PartitionEvent.PARTS] > 1  # its partitions are joined in request_results.py
    if row[PartitionEvent.WAIT_MS] > 0 and (several or size < row[PartitionEvent.MIN_BYTES]):
        delay_request(sim, p, event)
        if several:
            read_messages(sim, p, leader, event, True)
            write_progress(sim, event, size)
        if by_consumer:
            place = partition[Partition.EVENT_BEGIN] + partition[Partition.CONSUMER_FETCHES]
            sim.request_lists[RequestList.CONSUMER_FETCHES, place] = event
            partition[Partition.CONSUMER_FETCHES] += 1
    elif by_consumer:
        read_messages(sim, p, leader, event, True)
        complete_request(sim, event, RequestError.NONE, AnsweredBy.AT_ONCE)
    else:
        complete_replica_fetch(sim, p, slot, AnsweredBy.AT_ONCE)
    if not by_consumer and partition[Partition.TARGET_SIZE]:
        complete_reassignment(sim, p)


@part
def _find_fetch_error(sim: SimulationArrays, p: int, row: Ints, leader: int, offset: int) -> int:
    """Return the error of a fetch that is rejected at once, or RequestError.NONE."""
    partition = sim.partitions[p]
    slot, epoch = row[PartitionEvent.SLOT], row[PartitionEvent.LEADER_EPOCH]
    if slot != NONE and not is_live(sim, p, slot):
        return RequestError.BROKER_DOWN
    if partition[Partition.STATE] == PartitionState.NON_EXISTENT:
        return RequestError.UNKNOWN_TOPIC_OR_PARTITION
    if leader == NONE:
        return RequestError.LEADER_NOT_AVAILABLE
    if slot != NONE and (slot == leader or not contains(sim, Replica.AR, p, slot)):
        return RequestError.NOT_ASSIGNED_REPLICA
    if 0 <= epoch < partition[Partition.LEADER_EPOCH]:
        return RequestError.FENCED_LEADER_EPOCH
    if epoch > partition[Partition.LEADER_EPOCH]:
        return RequestError.UNKNOWN_LEADER_EPOCH
    leo = sim.replicas[partition[Partition.REPLICA_BEGIN] + leader, Replica.LEO]
    return RequestError.OFFSET_OUT_OF_RANGE if offset > leo else RequestError.NONE


@part
def _update_follower(sim: SimulationArrays, p: int, slot: int, offset: int) -> None:
    """Tell the leader the follower's log end, which is where it fetches. ISR and high watermark may follow."""
    partition, now = sim.partitions[p], sim.cursor[Cursor.TIME]
    begin, leader = partition[Partition.REPLICA_BEGIN], partition[Partition.LEADER]
    replica, leo = sim.replicas[begin + slot], sim.replicas[begin + leader, Replica.LEO]
    if not partition[Partition.FETCHES_STARTED]:  # until now it was not known who fetches
        partition[Partition.FETCHES_STARTED] = 1
        for i in range(partition[Partition.AR_SIZE]):
            assigned = sim.replicas[begin + sim.replicas[begin + i, Replica.AR]]
            assigned[Replica.LAST_CAUGHT_UP_AT] = max(assigned[Replica.LAST_CAUGHT_UP_AT], now)
    if offset < replica[Replica.LEO]:
        truncate_log(sim, p, slot, offset)
    elif offset > replica[Replica.LEO]:
        copy_log(sim, p, slot, leader, offset)
    replica[Replica.REMOTE_LEO] = offset
    if offset >= leo:
        replica[Replica.LAST_CAUGHT_UP_AT] = now
    elif offset >= replica[Replica.LAST_FETCH_LEADER_LEO]:
        replica[Replica.LAST_CAUGHT_UP_AT] = max(replica[Replica.LAST_CAUGHT_UP_AT], replica[Replica.LAST_FETCH_AT])
    replica[Replica.LAST_FETCH_LEADER_LEO], replica[Replica.LAST_FETCH_AT] = leo, now
    if can_join_isr(sim, p, slot, leader):
        remember_offsets(sim, p)
        expand_isr(sim, p, slot)
    advance_high_watermark(sim, p)


@part
def set_known_offsets(sim: SimulationArrays, p: int, event: int) -> None:
    """Set a replica's log end and high watermark to those of the event at this row; -1 = not known."""
    partition, slot = sim.partitions[p], sim.events[event, PartitionEvent.SLOT]
    leo, high_watermark = sim.events[event, PartitionEvent.OFFSET], sim.events[event, PartitionEvent.LIST]
    begin = partition[Partition.REPLICA_BEGIN]
    replica = sim.replicas[begin + slot]
    if leo >= 0:
        replica[Replica.LEO] = replica[Replica.REMOTE_LEO] = leo
        for other in range(partition[Partition.SLOTS]):
            set_common_prefix(sim, p, slot, other, min(leo, sim.replicas[begin + other, Replica.LEO]))
    if high_watermark >= 0 or replica[Replica.HW] > replica[Replica.LEO]:
        new_hw = min(high_watermark if high_watermark >= 0 else replica[Replica.HW], replica[Replica.LEO])
        set_high_watermark(sim, p, slot, new_hw)
        if high_watermark >= 0:
            replica[Replica.CHECKPOINTED_HW] = new_hw
        if slot == partition[Partition.LEADER]:
            partition[Partition.COMMITTED_OFFSET] = max(partition[Partition.COMMITTED_OFFSET], new_hw)
    advance_high_watermark(sim, p)
