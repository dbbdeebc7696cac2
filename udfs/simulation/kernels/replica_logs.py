"""Logs of a partition's replicas: their ends, the prefixes that they share, high watermarks and their checkpoints.

The rules are those of docs/replay-rules.md. Sources: Partition, ReplicaManager of Kafka 2.8.
"""

from udfs.kernel_compiler import part
from udfs.simulation.kernels.change_log import Cursor
from udfs.simulation.kernels.replica_lists import cluster_setting, contains
from udfs.simulation.kernels.simulation_arrays import ClusterSetup, Partition, Replica, SimulationArrays


@part
def common_prefix(sim: SimulationArrays, p: int, slot: int, other: int) -> int:
    """Return how many messages the logs of two slots share."""
    partition = sim.partitions[p]
    return int(sim.common_prefixes[partition[Partition.PREFIX_BEGIN] + slot * partition[Partition.SLOTS] + other])


@part
def set_common_prefix(sim: SimulationArrays, p: int, slot: int, other: int, messages: int) -> None:
    """Set how many messages the logs of two slots share."""
    begin, slots = sim.partitions[p, Partition.PREFIX_BEGIN], sim.partitions[p, Partition.SLOTS]
    sim.common_prefixes[begin + slot * slots + other] = messages
    sim.common_prefixes[begin + other * slots + slot] = messages


@part
def truncate_log(sim: SimulationArrays, p: int, slot: int, leo: int) -> None:
    """Truncate the log of the slot to this end if it is longer."""
    replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
    if leo >= replica[Replica.LEO]:
        return
    replica[Replica.LEO] = leo
    for other in range(sim.partitions[p, Partition.SLOTS]):
        set_common_prefix(sim, p, slot, other, min(common_prefix(sim, p, slot, other), leo))
    if replica[Replica.HW] > leo:
        set_high_watermark(sim, p, slot, leo)


@part
def copy_log(sim: SimulationArrays, p: int, slot: int, leader: int, leo: int) -> None:
    """Give the slot what the leader's log has up to `leo`."""
    partition = sim.partitions[p]
    row = partition[Partition.REPLICA_BEGIN] + slot
    if common_prefix(sim, p, slot, leader) == sim.replicas[row, Replica.LEO]:
        for other in range(partition[Partition.SLOTS]):
            if other == leader:
                set_common_prefix(sim, p, slot, other, leo)
            elif other != slot:
                set_common_prefix(sim, p, slot, other, min(common_prefix(sim, p, leader, other), leo))
    sim.replicas[row, Replica.LEO] = leo
    set_common_prefix(sim, p, slot, slot, leo)


@part
def delete_unassigned_logs(sim: SimulationArrays, p: int) -> None:
    """Delete logs of replicas that are no longer assigned. If one is assigned again, it starts with an empty log."""
    for slot in range(sim.partitions[p, Partition.SLOTS]):
        replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
        if replica[Replica.LEO] == 0 or contains(sim, Replica.AR, p, slot):
            continue
        replica[Replica.LEO] = replica[Replica.HW] = replica[Replica.CHECKPOINTED_HW] = 0
        replica[Replica.REMOTE_LEO] = -1
        for other in range(sim.partitions[p, Partition.SLOTS]):
            set_common_prefix(sim, p, slot, other, 0)


# ---- high watermarks


@part
def set_high_watermark(sim: SimulationArrays, p: int, slot: int, high_watermark: int) -> None:
    """Set the high watermark of the slot. The last checkpoint keeps what it has written."""
    _update_checkpoint(sim, p, slot)
    replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
    replica[Replica.HW], replica[Replica.HW_CHANGED_AT] = high_watermark, sim.cursor[Cursor.TIME]


@part
def restore_checkpointed_hw(sim: SimulationArrays, p: int, slot: int) -> None:
    """Set the high watermark to the last checkpoint: all that the slot's broker will know after its failure."""
    _update_checkpoint(sim, p, slot)
    replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
    replica[Replica.HW] = min(replica[Replica.CHECKPOINTED_HW], replica[Replica.LEO])
    replica[Replica.HW_CHANGED_AT] = sim.cursor[Cursor.TIME]


@part
def _update_checkpoint(sim: SimulationArrays, p: int, slot: int) -> None:
    """Store the high watermark if a checkpoint was due since it changed. A change at the same time is later."""
    replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
    interval = cluster_setting(sim, p, ClusterSetup.CHECKPOINT_MS)
    checkpoint_at = sim.cursor[Cursor.TIME] // interval * interval
    start = cluster_setting(sim, p, ClusterSetup.START_TIME)
    if checkpoint_at > start and replica[Replica.HW_CHANGED_AT] < checkpoint_at:
        replica[Replica.CHECKPOINTED_HW] = replica[Replica.HW]
