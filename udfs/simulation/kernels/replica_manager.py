"""What brokers do with a partition's data: produce and fetch requests, high watermark and ISR, changes of the leader.

The rules are those of docs/replay-rules.md. Sources: ReplicaManager, Partition of Kafka 2.8.
"""

from udfs.kernel_compiler import copying_part, part
from udfs.simulation.kernels import purgatory
from udfs.simulation.kernels.codes import NONE, AnsweredBy, ChangeCause, PartitionState, RequestError
from udfs.simulation.kernels.controller_elections import write_isr_change
from udfs.simulation.kernels.health_intervals import remember_offsets
from udfs.simulation.kernels.partition_reassignment import complete_reassignment
from udfs.simulation.kernels.partition_state import (
    append_to_list,
    cluster_setting,
    common_prefix,
    contains,
    copy_log,
    delete_unassigned_logs,
    effective_min_isr,
    is_live,
    is_shutting_down,
    serving_leader,
    set_common_prefix,
    set_high_watermark,
    truncate_log,
    update_checkpoint,
    uses_kraft,
)
from udfs.simulation.kernels.simulation_arrays import (
    LONG_AGO,
    NEVER,
    ClusterSetup,
    Cursor,
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
        purgatory.complete_request(sim, event, error, answered_by)
        return
    replica = sim.replicas[partition[Partition.REPLICA_BEGIN] + leader]
    request[RequestStatus.BASE_OFFSET], request[RequestStatus.MESSAGES] = replica[Replica.LEO], messages
    if acks == 1:
        answered_by = AnsweredBy.APPEND
    if acks != -1 or messages == 0:
        purgatory.complete_request(sim, event, RequestError.NONE, answered_by)
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
        purgatory.delay_request(sim, p, event)
    advance_high_watermark(sim, p)
    if acks == -1 and request[RequestStatus.ANSWERED_BY] != AnsweredBy.WAITING:
        request[RequestStatus.ANSWERED_BY] = AnsweredBy.AT_ONCE
    purgatory.complete_replica_fetches(sim, p, leader)


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
            purgatory.complete_request(sim, event, error, AnsweredBy.AT_ONCE)
        return
    request[RequestStatus.OFFSET] = offset
    request[RequestStatus.DEADLINE] = row[PartitionEvent.TIME] + row[PartitionEvent.WAIT_MS]
    if not by_consumer:
        if partition[Partition.TARGET_SIZE]:
            remember_offsets(sim, p)  # the reassignment may complete below
        purgatory.abort_replica_fetch(sim, p, slot, RequestError.NONE, AnsweredBy.NEWER_FETCH)
        _update_follower(sim, p, slot, offset)
        sim.replicas[begin + slot, Replica.WAITING_FETCH] = event
    size = purgatory.count_readable(sim, p, leader, offset, by_consumer)
    size *= cluster_setting(sim, p, ClusterSetup.MESSAGE_BYTES)
    several = by_consumer and row[PartitionEvent.PARTS] > 1  # its partitions are joined in request_results.py
    if row[PartitionEvent.WAIT_MS] > 0 and (several or size < row[PartitionEvent.MIN_BYTES]):
        purgatory.delay_request(sim, p, event)
        if several:
            purgatory.read_messages(sim, p, leader, event, True)
            purgatory.write_progress(sim, event, size)
        if by_consumer:
            place = partition[Partition.EVENT_BEGIN] + partition[Partition.CONSUMER_FETCHES]
            sim.request_lists[RequestList.CONSUMER_FETCHES, place] = event
            partition[Partition.CONSUMER_FETCHES] += 1
    elif by_consumer:
        purgatory.read_messages(sim, p, leader, event, True)
        purgatory.complete_request(sim, event, RequestError.NONE, AnsweredBy.AT_ONCE)
    else:
        purgatory.complete_replica_fetch(sim, p, slot, AnsweredBy.AT_ONCE)
    if not by_consumer and partition[Partition.TARGET_SIZE]:
        complete_reassignment(sim, p)


@part
def _find_fetch_error(sim: SimulationArrays, p: int, row: Ints, leader: int, offset: int) -> int:
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


@part
def advance_high_watermark(sim: SimulationArrays, p: int) -> None:
    """Advance the leader's high watermark to the smallest LEO that it knows of the ISR, and complete what waited."""
    partition = sim.partitions[p]
    leader, begin = serving_leader(sim, p), partition[Partition.REPLICA_BEGIN]
    if leader == NONE:
        return
    offset = sim.replicas[begin + leader, Replica.LEO]
    for slot in sim.replicas[begin : begin + partition[Partition.ISR_SIZE], Replica.ISR]:
        if slot != leader:
            offset = min(offset, sim.replicas[begin + slot, Replica.REMOTE_LEO])
    # With KRaft (since 3.7) nothing is committed below the minimum: eligible leaders must have all that is committed.
    is_blocked = uses_kraft(sim, p) and partition[Partition.ISR_SIZE] < effective_min_isr(sim, p)
    if offset > sim.replicas[begin + leader, Replica.HW] and not is_blocked:
        set_high_watermark(sim, p, leader, offset)
        partition[Partition.COMMITTED_OFFSET] = max(partition[Partition.COMMITTED_OFFSET], offset)
        purgatory.complete_consumer_fetches(sim, p)
    purgatory.complete_produces(sim, p, sim.replicas[begin + leader, Replica.HW])


@part
def can_join_isr(sim: SimulationArrays, p: int, slot: int, leader: int) -> bool:
    """Return whether the replica, which is in the AR, may join the ISR."""
    # Its log has reached the high watermark and, since 2.1, the start of the leader's epoch: Partition.maybeExpandIsr.
    if not contains(sim, Replica.AR, p, slot) or contains(sim, Replica.ISR, p, slot) or is_shutting_down(sim, p, slot):
        return False
    begin = sim.partitions[p, Partition.REPLICA_BEGIN]
    offset = sim.replicas[begin + leader, Replica.HW]
    if cluster_setting(sim, p, ClusterSetup.JOIN_ISR_AT_EPOCH_START):
        offset = max(offset, sim.partitions[p, Partition.EPOCH_START_OFFSET])
    return bool(sim.replicas[begin + slot, Replica.REMOTE_LEO] >= offset)


@copying_part
def expand_isr(sim: SimulationArrays, p: int, slot: int) -> None:
    """Add the replica to the ISR."""
    begin, size = sim.partitions[p, Partition.REPLICA_BEGIN], sim.partitions[p, Partition.ISR_SIZE]
    old_isr = sim.replicas[begin : begin + size, Replica.ISR].copy()
    append_to_list(sim, Replica.ISR, p, slot)
    write_isr_change(sim, p, old_isr, ChangeCause.ISR_EXPAND)


@part
def next_isr_check(sim: SimulationArrays, p: int) -> int:
    """Return when a check of the ISR next finds a lagging replica: a multiple of half the lag time, or NEVER."""
    partition = sim.partitions[p]
    leader, begin = serving_leader(sim, p), partition[Partition.REPLICA_BEGIN]
    if not partition[Partition.FETCHES_STARTED] or partition[Partition.ISR_SIZE] < 2 or leader == NONE:
        return NEVER
    lag_ms = cluster_setting(sim, p, ClusterSetup.REPLICA_LAG_MS)
    interval, check_at = max(lag_ms // 2, 1), NEVER
    leo = sim.replicas[begin + leader, Replica.LEO]
    for slot in sim.replicas[begin : begin + partition[Partition.ISR_SIZE], Replica.ISR]:
        if slot == leader or sim.replicas[begin + slot, Replica.REMOTE_LEO] == leo:
            continue
        lags_at = partition[Partition.TIME]
        if not _lags_by_messages(sim, p, slot, leo):
            lags_at = max(lags_at, sim.replicas[begin + slot, Replica.LAST_CAUGHT_UP_AT] + lag_ms)
        check_at = min(check_at, (lags_at // interval + 1) * interval)
    return int(check_at)


@part
def _lags_by_messages(sim: SimulationArrays, p: int, slot: int, leo: int) -> bool:
    most = cluster_setting(sim, p, ClusterSetup.REPLICA_LAG_MESSAGES)
    remote_leo = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot, Replica.REMOTE_LEO]
    return bool(most > 0 and leo - max(remote_leo, 0) > most)


@copying_part
def shrink_isr(sim: SimulationArrays, p: int, now: int) -> None:
    """Remove all replicas from the ISR that lag too far. Source: Partition.maybeShrinkIsr."""
    partition = sim.partitions[p]
    begin, leader, size = partition[Partition.REPLICA_BEGIN], partition[Partition.LEADER], 0
    lag_ms = cluster_setting(sim, p, ClusterSetup.REPLICA_LAG_MS)
    leo = sim.replicas[begin + leader, Replica.LEO]
    old_isr = sim.replicas[begin : begin + partition[Partition.ISR_SIZE], Replica.ISR].copy()
    for slot in old_isr:
        replica = sim.replicas[begin + slot]
        lags = now - replica[Replica.LAST_CAUGHT_UP_AT] > lag_ms or _lags_by_messages(sim, p, slot, leo)
        if slot == leader or replica[Replica.REMOTE_LEO] == leo or not lags:
            sim.replicas[begin + size, Replica.ISR] = slot
            size += 1
    partition[Partition.ISR_SIZE], partition[Partition.TIME] = size, now
    if size < len(old_isr):
        write_isr_change(sim, p, old_isr, ChangeCause.ISR_SHRINK)
        advance_high_watermark(sim, p)


@part
def stop_replica(sim: SimulationArrays, p: int, slot: int) -> None:
    """Stop the replica of a broker that goes down: its fetch is lost, and it will know its checkpointed HW."""
    purgatory.abort_replica_fetch(sim, p, slot, RequestError.DISCONNECTED, AnsweredBy.BROKER_DOWN)
    replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
    if is_shutting_down(sim, p, slot):  # a clean stop writes a last checkpoint
        replica[Replica.CHECKPOINTED_HW] = replica[Replica.HW]
    else:
        update_checkpoint(sim, p, slot)
        set_high_watermark(sim, p, slot, min(replica[Replica.CHECKPOINTED_HW], replica[Replica.LEO]))


@part
def restart_replica(sim: SimulationArrays, p: int, slot: int) -> None:
    """Let the replica of a broker that is back follow the leader, after truncating its log."""
    leader = serving_leader(sim, p)
    if leader not in (NONE, slot) and contains(sim, Replica.AR, p, slot):
        _truncate_follower(sim, p, slot, leader)


@part
def _truncate_follower(sim: SimulationArrays, p: int, slot: int, leader: int) -> None:
    """Truncate a follower's log to its high watermark, or (since 0.11) to what it shares with the leader's."""
    leo = common_prefix(sim, p, slot, leader)
    if cluster_setting(sim, p, ClusterSetup.TRUNCATE_TO_HW):
        leo = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot, Replica.HW]
    truncate_log(sim, p, slot, leo)


@part
def apply_leader_change(sim: SimulationArrays, p: int, old_leader: int, old_epoch: int) -> None:
    """Update requests, logs and high watermarks after the controller's write. Partitions without data have none."""
    # `old_leader` is the slot that served before, or NONE; `old_epoch` was its leader epoch.
    partition = sim.partitions[p]
    if not partition[Partition.HAS_DATA]:
        return
    leader = serving_leader(sim, p)
    if partition[Partition.STATE] == PartitionState.NON_EXISTENT:
        purgatory.abort_requests(sim, p, RequestError.UNKNOWN_TOPIC_OR_PARTITION, AnsweredBy.TOPIC_DELETION)
        partition[Partition.APPENDS] = 0
    elif leader == old_leader and leader != NONE:
        if old_epoch != partition[Partition.LEADER_EPOCH]:
            purgatory.abort_fetches(sim, p, RequestError.FENCED_LEADER_EPOCH, AnsweredBy.LEADER_CHANGE)
            leo = sim.replicas[partition[Partition.REPLICA_BEGIN] + leader, Replica.LEO]
            partition[Partition.EPOCH_START_OFFSET] = leo
        advance_high_watermark(sim, p)
    else:
        if old_leader != NONE and is_live(sim, p, old_leader):
            purgatory.abort_requests(sim, p, RequestError.NOT_LEADER_OR_FOLLOWER, AnsweredBy.LEADER_CHANGE)
        elif old_leader != NONE:
            purgatory.abort_requests(sim, p, RequestError.DISCONNECTED, AnsweredBy.BROKER_DOWN)
        if leader != NONE:
            _become_leader(sim, p, leader)
    delete_unassigned_logs(sim, p)


@part
def _become_leader(sim: SimulationArrays, p: int, leader: int) -> None:
    """Make another replica the leader: messages that only the last leader has are lost, the others follow its log."""
    partition = sim.partitions[p]
    begin, previous = partition[Partition.REPLICA_BEGIN], partition[Partition.PREVIOUS_LEADER]
    leo, high_watermark = sim.replicas[begin + leader, Replica.LEO], sim.replicas[begin + leader, Replica.HW]
    if previous not in (NONE, leader):
        purgatory.count_lost_messages(sim, p, common_prefix(sim, p, leader, previous))
    partition[Partition.COMMITTED_OFFSET] = max(min(partition[Partition.COMMITTED_OFFSET], leo), high_watermark)
    partition[Partition.PREVIOUS_LEADER], partition[Partition.EPOCH_START_OFFSET] = leader, leo
    for slot in range(partition[Partition.SLOTS]):
        if slot == leader:
            continue
        replica, in_isr = sim.replicas[begin + slot], contains(sim, Replica.ISR, p, slot)
        replica[Replica.REMOTE_LEO] = -1
        replica[Replica.LAST_CAUGHT_UP_AT] = sim.cursor[Cursor.TIME] if in_isr else LONG_AGO
        replica[Replica.LAST_FETCH_AT], replica[Replica.LAST_FETCH_LEADER_LEO] = LONG_AGO, NEVER
        if contains(sim, Replica.AR, p, slot) and is_live(sim, p, slot):
            _truncate_follower(sim, p, slot, leader)
    advance_high_watermark(sim, p)
