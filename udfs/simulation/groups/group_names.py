"""Names of what is told of consumer groups. Codes are places in these lists: replay_groups.py.

States and errors are Kafka's own.
"""

from __future__ import annotations

KINDS = ("join", "sync", "heartbeat", "leave", "coordinator lost", "coordinator loaded")
STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
ERRORS = (
    "NONE",
    "UNKNOWN_MEMBER_ID",
    "ILLEGAL_GENERATION",
    "REBALANCE_IN_PROGRESS",
    "MEMBER_ID_REQUIRED",
    "INVALID_SESSION_TIMEOUT",
    "NOT_COORDINATOR",
)
CAUSES = (
    "still waiting",
    "at once",
    "all joined",
    "rebalance timeout",
    "initial delay over",
    "leader's sync",
    "rebalance began",
    "next heartbeat",
    "session timeout",
    "sync timeout",
    "member left",
    "newer request",
    "member joined",
    "leader joined again",
    "member changed",
    "coordinator lost",
    "coordinator loaded",
    "member waits itself",
    "request answered",
    "none made",
)
