"""What a leader maintains: the high watermark, and the ISR as followers catch up or lag.

The rules are those of docs/replay-rules.md. Source: Partition of Kafka 2.8.
"""

from udfs.kernel_compiler import copying_part, part
from udfs.simulation.kernels.broker_liveness import is_shutting_down, serving_leader
from udfs.simulation.kernels.codes import NONE, ChangeCause
from udfs.simulation.kernels.controller_elections import write_isr_change
from udfs.simulation.kernels.purgatory import complete_consumer_fetches, complete_produces
from udfs.simulation.kernels.replica_lists import (
    append_to_list,
    cluster_setting,
    contains,
    effective_min_isr,
    uses_kraft,
)
from udfs.simulation.kernels.replica_logs import set_high_watermark
from udfs.simulation.kernels.simulation_arrays import NEVER, ClusterSetup, Partition, Replica, SimulationArrays


@part
def advance_high_watermark(sim: SimulationArrays, p: int) -> None:
    """Advance the leader's high watermark to the smallest LEO that it knows of the ISR, and complete what waited."""
    partition = sim.partitions[p]
    leader, begin = serving_leader(sim, p), partition[Partition.REPLICA_BEGIN]
    if leader == NONE:
        return
    offset = sim.replicas[begin + leader, Replica.LEO]
    for i in range(partition[Partition.ISR_SIZE]):
        slot = sim.replicas[begin + i, Replica.ISR]
        if slot != leader:
            offset = min(offset, sim.replicas[begin + slot, Replica.REMOTE_LEO])
    # With KRaft (since 3.7) nothing is committed below the minimum: eligible leaders must have all that is committed.
    below_min_isr = partition[Partition.ISR_SIZE] < effective_min_isr(sim, p)
    is_blocked = below_min_isr and uses_kraft(sim, p)
    if offset > sim.replicas[begin + leader, Replica.HW] and not is_blocked:
        set_high_watermark(sim, p, leader, offset)
        partition[Partition.COMMITTED_OFFSET] = max(partition[Partition.COMMITTED_OFFSET], offset)
        complete_consumer_fetches(sim, p)
    complete_produces(sim, p, sim.replicas[begin + leader, Replica.HW])


@part
def can_join_isr(sim: SimulationArrays, p: int, slot: int, leader: int) -> bool:
    """Return whether the replica may join the ISR.

    It is in the AR and its log has reached the high watermark and, since 2.1, the start of the leader's epoch.
    Source: Partition.maybeExpandIsr.
    """
    if contains(sim, Replica.ISR, p, slot) or not contains(sim, Replica.AR, p, slot):
        return False
    if is_shutting_down(sim, p, slot):
        return False
    begin = sim.partitions[p, Partition.REPLICA_BEGIN]
    remote_leo = sim.replicas[begin + slot, Replica.REMOTE_LEO]
    from_epoch_start = cluster_setting(sim, p, ClusterSetup.JOIN_ISR_AT_EPOCH_START)
    if from_epoch_start and remote_leo < sim.partitions[p, Partition.EPOCH_START_OFFSET]:
        return False
    joins: bool = remote_leo >= sim.replicas[begin + leader, Replica.HW]
    return joins


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
    for i in range(partition[Partition.ISR_SIZE]):
        slot = sim.replicas[begin + i, Replica.ISR]
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
    lags: bool = most > 0 and leo - max(remote_leo, 0) > most
    return lags


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
