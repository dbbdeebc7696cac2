"""Names of what is replayed: events, states, causes. Codes are places in these lists."""

from __future__ import annotations

# Of udfs/kernels/replay_control.py, in the order of its codes.
KINDS = (
    "broker down",
    "broker up",
    "broker shutting down",
    "controller lost",
    "partition created",
    "partition deleted",
    "reassignment",
    "preferred election",
    "unclean election allowed",
    "min.insync.replicas",
    "isr",
    "record",
    "elr cleared",
    "partition removed",
    "fenced",
    "unfenced",
    "controller",
)
# Of udfs/kernels/replay_elections.py.
CAUSES = (
    "created",
    "leader died",
    "unclean election",
    "eligible leader replica",
    "last known leader",
    "no leader can be elected",
    "preferred election",
    "auto rebalance",
    "reassignment",
    "controlled shutdown",
    "isr shrunk",
    "isr expanded",
    "told",
    "topic deleted",
)
# Kafka's own names, for partitions and for replicas, by udfs/kernels/replay_state.py.
PARTITION_STATES = ("NonExistentPartition", "NewPartition", "OnlinePartition", "OfflinePartition")
REPLICA_STATES = (
    "NonExistentReplica",
    "NewReplica",
    "OnlineReplica",
    "OfflineReplica",
    "ReplicaDeletionStarted",
    "ReplicaDeletionSuccessful",
    "ReplicaDeletionIneligible",
)
