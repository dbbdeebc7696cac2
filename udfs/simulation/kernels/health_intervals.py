"""Health of a partition over time: one row for each interval in which leader, ISR, AR and minimum stay the same."""

from udfs.kernel_compiler import part
from udfs.simulation.kernels.codes import NONE, PartitionState
from udfs.simulation.kernels.partition_state import broker_of, serving_leader
from udfs.simulation.kernels.simulation_arrays import (
    Cursor,
    HealthRow,
    Partition,
    PartitionEvent,
    PartitionHealth,
    Replica,
    RequestList,
    RequestStatus,
    SimulationArrays,
)

NO_PARTITION = -2  # value of PartitionHealth.LEADER: the partition does not exist
# Columns of Partition that PartitionHealth has too, in this order, from LEADER_EPOCH on.
_OBSERVED = (int(Partition.LEADER_EPOCH), int(Partition.ISR_SIZE), int(Partition.AR_SIZE), int(Partition.MIN_ISR))
_MEASURES = 11  # columns from LEADER to EXPOSED_ACKS_ALL, which PartitionHealth and HealthRow share


@part
def remember_offsets(sim: SimulationArrays, p: int) -> None:
    """Remember offsets and exposed messages before the health of p may change: an interval ends with these."""
    partition, health = sim.partitions[p], sim.health[p]
    leader, committed = partition[Partition.PREVIOUS_LEADER], partition[Partition.COMMITTED_OFFSET]
    if not partition[Partition.DATA_STARTED] or health[PartitionHealth.LEADER] == NO_PARTITION or leader == NONE:
        return
    replica = sim.replicas[partition[Partition.REPLICA_BEGIN] + leader]
    health[PartitionHealth.LOG_END_OFFSET] = replica[Replica.LEO]
    health[PartitionHealth.HIGH_WATERMARK] = replica[Replica.HW]
    health[PartitionHealth.COMMITTED_OFFSET] = committed
    health[PartitionHealth.EXPOSED_ACKS_0] = health[PartitionHealth.EXPOSED_ACKS_1] = 0
    health[PartitionHealth.EXPOSED_ACKS_ALL] = 0
    for i in range(partition[Partition.APPENDS] - 1, -1, -1):
        event = sim.request_lists[RequestList.APPENDS, partition[Partition.EVENT_BEGIN] + i]
        request = sim.requests[event]
        base = request[RequestStatus.BASE_OFFSET]
        end = base + request[RequestStatus.MESSAGES] - request[RequestStatus.LOST_MESSAGES]
        if end <= committed:
            return
        acks = sim.events[event, PartitionEvent.ACKS]
        column = PartitionHealth.EXPOSED_ACKS_ALL
        if acks == 0:
            column = PartitionHealth.EXPOSED_ACKS_0
        elif acks == 1:
            column = PartitionHealth.EXPOSED_ACKS_1
        health[column] += end - max(base, committed)


@part
def update_health(sim: SimulationArrays, p: int) -> None:
    """Log the present interval and start another if the health of p has changed."""
    health = sim.health[p]
    is_same = _health_leader(sim, p) == health[PartitionHealth.LEADER]
    for i in range(len(_OBSERVED)):
        is_same = is_same and sim.partitions[p, _OBSERVED[i]] == health[PartitionHealth.LEADER_EPOCH + i]
    if is_same:
        return
    if health[PartitionHealth.LEADER] != NO_PARTITION and health[PartitionHealth.SINCE] < sim.cursor[Cursor.TIME]:
        write_health_interval(sim, p, False)
    start_health_interval(sim, p)


@part
def start_health_interval(sim: SimulationArrays, p: int) -> None:
    """Start an interval with the present health of p."""
    health = sim.health[p]
    health[PartitionHealth.SINCE] = sim.cursor[Cursor.TIME]
    health[PartitionHealth.LEADER] = _health_leader(sim, p)
    for i in range(len(_OBSERVED)):
        health[PartitionHealth.LEADER_EPOCH + i] = sim.partitions[p, _OBSERVED[i]]


@part
def _health_leader(sim: SimulationArrays, p: int) -> int:
    if sim.partitions[p, Partition.STATE] == PartitionState.NON_EXISTENT:
        return NO_PARTITION
    return broker_of(sim, p, serving_leader(sim, p))


@part
def write_health_interval(sim: SimulationArrays, p: int, is_last: bool) -> None:
    """Log the interval that ends now. The last one of a simulation has the offsets of every replica."""
    if not sim.cursor[Cursor.ENABLED]:
        return
    health, row = sim.health[p], sim.health_intervals[sim.cursor[Cursor.HEALTH]]
    row[HealthRow.FROM_TIME], row[HealthRow.TO_TIME] = health[PartitionHealth.SINCE], sim.cursor[Cursor.TIME]
    row[HealthRow.PARTITION], row[HealthRow.REPLICA_LIST] = p, -1
    for i in range(_MEASURES):
        row[HealthRow.LEADER + i] = health[PartitionHealth.LEADER + i]
    if is_last:
        row[HealthRow.REPLICA_LIST] = _write_replicas(sim, p)
    sim.cursor[Cursor.HEALTH] += 1


@part
def _write_replicas(sim: SimulationArrays, p: int) -> int:
    """Log brokers, log end offsets and high watermarks of p's replicas, and return their place in `lists`."""
    partition, place = sim.partitions[p], sim.cursor[Cursor.LISTS]
    begin, size = partition[Partition.REPLICA_BEGIN], partition[Partition.AR_SIZE]
    sim.written_lists[place] = size
    for i in range(size):
        replica = sim.replicas[begin + sim.replicas[begin + i, Replica.AR]]
        sim.written_lists[place + 1 + i] = replica[Replica.BROKER]
        sim.written_lists[place + 1 + size + i] = replica[Replica.LEO]
        sim.written_lists[place + 1 + 2 * size + i] = replica[Replica.HW]
    sim.cursor[Cursor.LISTS] = place + 1 + 3 * size
    return int(place)
