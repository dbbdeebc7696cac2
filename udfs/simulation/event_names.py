"""Names of what is replayed: events, states, causes, errors. Codes are places in these lists: replay_codes.py."""

from __future__ import annotations

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
    "old controller",
    "record",
    "elr cleared",
    "partition removed",
    "fenced",
    "unfenced",
    "controller",
    "leaders rebalanced",
    "topic deletion starts",
    "topic deletion ends",
    "topic held by its deletion",
    "append",
    "fetch",
    "offsets",
    "cluster at first",
    "broker at first",
    "partition at first",
)
CAUSES = (
    "created",
    "leader failed",
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
# Kafka's own names, for partitions and for replicas.
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
# Kafka's own names, where it has one.
ERRORS = (
    "NONE",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "REQUEST_TIMED_OUT",
    "DISCONNECTED",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "BROKER_DOWN",
    "NOT_ASSIGNED_REPLICA",
    "OFFSET_OUT_OF_RANGE",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "STALE_CONTROLLER_EPOCH",
)
# What made a request be answered.
ANSWERS = (
    "waiting",
    "at once",
    "nothing awaited",
    "append",
    "high watermark",
    "timeout",
    "leader changed",
    "broker down",
    "newer fetch",
    "topic deleted",
)
