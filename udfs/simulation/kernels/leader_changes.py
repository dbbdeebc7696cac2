"""What the controller's decisions mean for data: replicas that become leader or follower, stop and restart.

The rules are those of docs/replay-rules.md. Sources: ReplicaManager.becomeLeaderOrFollower, Partition of Kafka 2.8.
"""

from udfs.kernel_compiler import part
from udfs.simulation.kernels.broker_liveness import is_live, is_shutting_down, serving_leader
from udfs.simulation.kernels.change_log import Cursor
from udfs.simulation.kernels.codes import NONE, AnsweredBy, PartitionState, RequestError
from udfs.simulation.kernels.isr_maintenance import advance_high_watermark
from udfs.simulation.kernels.purgatory import abort_fetches, abort_replica_fetch, abort_requests, count_lost_messages
from udfs.simulation.kernels.replica_lists import cluster_setting, contains
from udfs.simulation.kernels.replica_logs import (
    common_prefix,
    delete_unassigned_logs,
    restore_checkpointed_hw,
    truncate_log,
)
from udfs.simulation.kernels.simulation_arrays import (
    LONG_AGO,
    NEVER,
    ClusterSetup,
    Partition,
    Replica,
    SimulationArrays,
)


@part
def stop_replica(sim: SimulationArrays, p: int, slot: int) -> None:
    """Stop the replica of a broker that goes down: its fetch is lost, and it will know its checkpointed HW."""
    abort_replica_fetch(sim, p, slot, RequestError.DISCONNECTED, AnsweredBy.BROKER_DOWN)
    if is_shutting_down(sim, p, slot):  # a clean stop writes a last checkpoint
        replica = sim.replicas[sim.partitions[p, Partition.REPLICA_BEGIN] + slot]
        replica[Replica.CHECKPOINTED_HW] = replica[Replica.HW]
    else:
        restore_checkpointed_hw(sim, p, slot)


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
    """Update requests, logs and high watermarks after the controller's write. Partitions without data have none.

    `old_leader` is the slot that served before, or NONE; `old_epoch` was its leader epoch.
    """
    partition = sim.partitions[p]
    if not partition[Partition.HAS_DATA]:
        return
    leader = serving_leader(sim, p)
    if partition[Partition.STATE] == PartitionState.NON_EXISTENT:
        error = RequestError.UNKNOWN_TOPIC_OR_PARTITION
        abort_requests(sim, p, error, AnsweredBy.TOPIC_DELETION)
        partition[Partition.APPENDS] = 0
    elif leader == old_leader and leader != NONE:
        if old_epoch != partition[Partition.LEADER_EPOCH]:
            abort_fetches(sim, p, RequestError.FENCED_LEADER_EPOCH, AnsweredBy.LEADER_CHANGE)
            leo = sim.replicas[partition[Partition.REPLICA_BEGIN] + leader, Replica.LEO]
            partition[Partition.EPOCH_START_OFFSET] = leo
        advance_high_watermark(sim, p)
    else:
        if old_leader != NONE and is_live(sim, p, old_leader):
            error = RequestError.NOT_LEADER_OR_FOLLOWER
            abort_requests(sim, p, error, AnsweredBy.LEADER_CHANGE)
        elif old_leader != NONE:
            abort_requests(sim, p, RequestError.DISCONNECTED, AnsweredBy.BROKER_DOWN)
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
        count_lost_messages(sim, p, common_prefix(sim, p, leader, previous))
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
