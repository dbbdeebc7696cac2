"""Plan requests: the goal of a plan, its constraints, and its targets by priority."""

from __future__ import annotations

from dataclasses import dataclass, field

from udfs.json_output import json_key, json_object

ALL, MIN_BYTES, MIN_MOVES = "all", "min-bytes", "min-moves"
OBJECTIVES = (ALL, MIN_BYTES, MIN_MOVES)

# What a plan evens out over brokers, by name as in plans.priorities, and the default order of importance.
REPLICAS, LEADERS, DISK = "replicas", "leaders", "disk"
BYTES_IN, BYTES_OUT, FAILOVER, COPYSETS = "bytes_in", "bytes_out", "failover", "copysets"
PRIORITIES = (REPLICAS, LEADERS, DISK, BYTES_IN, BYTES_OUT, FAILOVER, COPYSETS)


@json_object
class Targets:
    """Loads of the fullest broker over the mean of all brokers that may hold replicas (1.01 = 1 % more).

    Attributes:
        failover: Leaders of the worst survivor of any single failure, over the survivors' mean.
        failover_out: Bytes out of the worst survivor of any single failure, over the survivors' mean.
        min_over_mean: Replicas and leaders of the emptiest broker over the mean.
        loose_bytes: Disk and bytes in for the goals expand and drain, which move few replicas.
        extra_moves: Share of replicas that expand and drain may copy for that beyond the fewest.
    """

    replicas: float = 1.01
    leaders: float = 1.01
    disk: float = 1.009
    bytes_in: float = 1.009
    bytes_out: float = 1.009
    failover: float = 1.05
    failover_out: float = 1.15
    min_over_mean: float = json_key("least", default=0.955)
    loose_bytes: float = json_key("loose", default=1.03)
    extra_moves: float = 0.02


@dataclass(frozen=True)
class PlanRequest:
    """One plan to make. Brokers are meant by their ids.

    Attributes:
        goal: A name in udfs.planning.goals.GOALS.
        brokers: Brokers to fill (expand) or to empty (drain); by default those that hold nothing, or those that the
            source drains.
        replacements: Pairs of a broker to replace and the broker that takes over.
        factor: Replication factor for the goal rf.
        topics: Topics for the goal rf; empty = all.
        exclude_topics: Topics that stay as they are.
        exclude_brokers: Brokers that get no more replicas.
        max_bytes: Bytes that the plan may copy; None = no limit.
        max_moves: Replicas that the plan may copy; None = no limit.
        broker_replicas: Replicas that any broker can hold; None = no limit.
        broker_bytes: Bytes that any broker can hold; None = no limit.
        objective: One of OBJECTIVES.
        keep_leaders: For the goal failover, whether preferred leaders stay.
        per_topic: Whether the leaders of each topic are spread as well.
        by_bytes: Whether the goals leaders and failover even out bytes out instead of counts.
        allow_fewer_racks: Whether a rack may be left without any broker.
        priorities: Some of PRIORITIES, the most important first; the others have no target.
        seed: Seed of randomized searches.
    """

    goal: str
    brokers: tuple[int, ...] = ()
    replacements: tuple[tuple[int, int], ...] = ()
    factor: int | None = None
    topics: tuple[str, ...] = ()
    exclude_topics: tuple[str, ...] = ()
    exclude_brokers: tuple[int, ...] = ()
    max_bytes: int | None = None
    max_moves: int | None = None
    broker_replicas: int | None = None
    broker_bytes: int | None = None
    objective: str = ALL
    keep_leaders: bool = False
    per_topic: bool = False
    by_bytes: bool = False
    allow_fewer_racks: bool = False
    priorities: tuple[str, ...] = PRIORITIES[:-1]
    targets: Targets = field(default_factory=Targets)
    seed: int = 0
