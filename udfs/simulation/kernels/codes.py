"""Codes that replay kernels and their callers share; names are in udfs/simulation/event_names.py, in this order."""

from __future__ import annotations

NOBODY = -1

# Kinds of events. From RECORD on, what a controller has done already, as its own log tells; from APPEND on, data.
# From HELD_CLUSTER on, how all is at first. REBALANCED_LEADERS to TOPIC_HELD: what partitions do together.
(
    BROKER_DOWN,
    BROKER_UP,
    SHUTDOWN,
    CONTROLLER_LOST,
    CREATE,
    DELETE,
    REASSIGN,
    ELECT_PREFERRED,
    SET_UNCLEAN,
    SET_MIN_ISR,
    SET_ISR,
    OLD_CONTROLLER,
    RECORD,
    CLEAR_ELR,
    FORGET,
    FENCED,
    UNFENCED,
    LED_BY,
    REBALANCED_LEADERS,
    DELETION_STARTS,
    DELETION_ENDS,
    TOPIC_HELD,
    APPEND,
    FETCH,
    OFFSETS,
    HELD_CLUSTER,
    HELD_BROKER,
    HELD_PARTITION,
    KINDS,
) = range(29)

# States of partitions, and of replicas.
ABSENT, NEW, ONLINE, OFFLINE = 0, 1, 2, 3
DELETION_STARTED, DELETION_DONE, DELETION_INELIGIBLE = 4, 5, 6

# Why a leadership was written. From SHRUNK to TOLD no leader changes: the ISR, or the epoch alone.
(
    CREATED,
    OFFLINE_LEADER,
    UNCLEAN,
    FROM_ELR,
    FROM_LAST_KNOWN,
    LEADERLESS,
    PREFERRED,
    REBALANCED,
    REASSIGNED,
    SHUTTING_DOWN,
    SHRUNK,
    EXPANDED,
    TOLD,
    REMOVED,
    CAUSES,
) = range(15)

# How a request ends: the error of its answer, and what made it be answered.
(
    NO_ERROR,
    LEADER_NOT_AVAILABLE,
    NOT_LEADER,
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_AFTER_APPEND,
    TIMED_OUT,
    DISCONNECTED,
    UNKNOWN_TOPIC,
    BROKER_IS_DOWN,
    NOT_A_REPLICA,
    OUT_OF_RANGE,
    FENCED_EPOCH,
    UNKNOWN_EPOCH,
    STALE_CONTROLLER,
    ERRORS,
) = range(15)
(
    WAITING,
    AT_ONCE,
    NOTHING_AWAITED,
    BY_APPEND,
    BY_HIGH_WATERMARK,
    BY_TIMEOUT,
    BY_LEADER,
    BY_BROKER_DOWN,
    BY_NEWER_FETCH,
    BY_DELETION,
    ANSWERS,
) = range(11)
