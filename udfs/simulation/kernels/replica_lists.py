"""Lists of a partition's replicas: AR, ISR, ELR and the target of a reassignment. And the settings of its cluster."""

from udfs.kernel_compiler import part
from udfs.simulation.kernels.simulation_arrays import ClusterSetup, Ints, Partition, Replica, SimulationArrays


@part
def cluster_setting(sim: SimulationArrays, p: int, setting: int) -> int:
    """Return a column (ClusterSetup) of p's cluster."""
    return int(sim.clusters[sim.partitions[p, Partition.CLUSTER], setting])


@part
def uses_kraft(sim: SimulationArrays, p: int) -> bool:
    """Return whether p's cluster runs with KRaft."""
    return cluster_setting(sim, p, ClusterSetup.KRAFT) != 0


@part
def uses_elr(sim: SimulationArrays, p: int) -> bool:
    """Return whether p's cluster keeps eligible leader replicas."""
    return cluster_setting(sim, p, ClusterSetup.ELR_ENABLED) != 0


@part
def effective_min_isr(sim: SimulationArrays, p: int) -> int:
    """Return the ISR size that acks=all needs: with KRaft never more than there are replicas (since 3.7)."""
    partition = sim.partitions[p]
    if uses_kraft(sim, p):
        return int(min(partition[Partition.MIN_ISR], partition[Partition.AR_SIZE]))
    return int(partition[Partition.MIN_ISR])


@part
def find_slot(sim: SimulationArrays, p: int, broker: int) -> int:
    """Return the slot of p for the broker at this place, or -1."""
    begin = sim.partitions[p, Partition.REPLICA_BEGIN]
    for slot in range(sim.partitions[p, Partition.SLOTS]):
        if sim.replicas[begin + slot, Replica.BROKER] == broker:
            return slot
    return -1


@part
def contains(sim: SimulationArrays, which: int, p: int, slot: int) -> bool:
    """Return whether a list of p (Replica.AR, ISR, ELR or TARGET) contains the slot."""
    begin, is_member = sim.partitions[p, Partition.REPLICA_BEGIN], False
    for row in range(begin, begin + sim.partitions[p, which]):
        is_member = is_member or sim.replicas[row, which] == slot
    return is_member


@part
def append_to_list(sim: SimulationArrays, which: int, p: int, slot: int) -> None:
    """Append the slot to a list of p."""
    partition = sim.partitions[p]
    sim.replicas[partition[Partition.REPLICA_BEGIN] + partition[which], which] = slot
    partition[which] += 1


@part
def remove_from_list(sim: SimulationArrays, which: int, p: int, slot: int) -> None:
    """Remove the slot from a list of p. The other slots keep their order."""
    begin, size = sim.partitions[p, Partition.REPLICA_BEGIN], 0
    for i in range(sim.partitions[p, which]):
        entry = sim.replicas[begin + i, which]
        if entry != slot:
            sim.replicas[begin + size, which] = entry
            size += 1
    sim.partitions[p, which] = size


@part
def replace_list(sim: SimulationArrays, which: int, p: int, lists: Ints, place: int) -> None:
    """Replace a list of p by the one at this place of `lists`, which starts with its length."""
    begin, size = sim.partitions[p, Partition.REPLICA_BEGIN], lists[place]
    for i in range(size):
        sim.replicas[begin + i, which] = lists[place + 1 + i]
    sim.partitions[p, which] = size


@part
def set_single_isr(sim: SimulationArrays, p: int, slot: int) -> None:
    """Make the slot the whole ISR."""
    sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN], Replica.ISR] = slot
    sim.partitions[p, Partition.ISR_SIZE] = 1
