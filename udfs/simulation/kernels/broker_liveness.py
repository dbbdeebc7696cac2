"""Which brokers are live now, and which of them leads a partition."""

from udfs.kernel_compiler import part
from udfs.simulation.kernels.change_log import Cursor
from udfs.simulation.kernels.codes import NONE
from udfs.simulation.kernels.simulation_arrays import BrokerFlag, Partition, Replica, SimulationArrays


@part
def broker_flags(sim: SimulationArrays, broker: int) -> int:
    """Return the flags (BrokerFlag) of the broker at this place, at the present step."""
    low, high = sim.brokers[broker, 0], sim.brokers[broker, 1]
    while high - low > 1:
        middle = (low + high) // 2
        if sim.broker_changes[middle, 0] <= sim.cursor[Cursor.STEP]:
            low = middle
        else:
            high = middle
    return int(sim.broker_changes[low, 1])


@part
def slot_flags(sim: SimulationArrays, p: int, slot: int) -> int:
    """Return the flags of the broker of p's slot."""
    row = sim.partitions[p, Partition.REPLICA_BEGIN] + slot
    return broker_flags(sim, sim.replicas[row, Replica.BROKER])


@part
def is_live(sim: SimulationArrays, p: int, slot: int) -> bool:
    """Return whether the broker of p's slot is live."""
    return slot_flags(sim, p, slot) & BrokerFlag.LIVE != 0


@part
def is_shutting_down(sim: SimulationArrays, p: int, slot: int) -> bool:
    """Return whether the broker of p's slot is in a controlled shutdown."""
    return slot_flags(sim, p, slot) & BrokerFlag.SHUTTING_DOWN != 0


@part
def is_active(sim: SimulationArrays, p: int, slot: int) -> bool:
    """Return whether the broker of p's slot may lead: it is live and not shutting down.

    Sources: ControllerContext.isReplicaOnline of 2.8, ClusterControlManager.isActive of 4.1.
    """
    return slot_flags(sim, p, slot) == BrokerFlag.LIVE


@part
def broker_of(sim: SimulationArrays, p: int, slot: int) -> int:
    """Return the place of the broker of p's slot; NONE for no slot."""
    if slot == NONE:
        return NONE
    return int(sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot, Replica.BROKER])


@part
def serving_leader(sim: SimulationArrays, p: int) -> int:
    """Return the slot that leads p if its broker is live, else NONE."""
    leader = sim.partitions[p, Partition.LEADER]
    return int(leader) if leader != NONE and is_live(sim, p, leader) else NONE
