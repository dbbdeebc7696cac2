"""What a user wants of a plan: the goal, what must hold, and what should, in order."""

from __future__ import annotations

from dataclasses import dataclass, field

ALL, MIN_BYTES, MIN_MOVES = "all", "min-bytes", "min-moves"
OBJECTIVES = (ALL, MIN_BYTES, MIN_MOVES)

# What brokers should be alike in, by name as in conf/; the order in conf/ is the order of importance.
REPLICAS, LEADERS, DISK, BYTES_IN, BYTES_OUT, FAILOVER, COPYSETS = (
    "replicas",
    "leaders",
    "disk",
    "bytes_in",
    "bytes_out",
    "failover",
    "copysets",
)
PRIORITIES = (REPLICAS, LEADERS, DISK, BYTES_IN, BYTES_OUT, FAILOVER, COPYSETS)


@dataclass(frozen=True)
class Targets:
    """How much the fullest broker may have over the mean of brokers that may hold replicas (1.01 = 1 % more).

    least: what the emptiest should have of replicas and leaders. failover: the worst survivor of the failure of any one
    broker, over the mean of survivors, by leaders; failover_out: by bytes out.   loose: what expand and drain
    keep disk and bytes to instead; extra_moves: how many more replicas these may copy for that than they must.
    """

    replicas: float = 1.01
    leaders: float = 1.01
    disk: float = 1.009
    bytes_in: float = 1.009
    bytes_out: float = 1.009
    failover: float = 1.05
    failover_out: float = 1.15
    least: float = 0.955
    loose: float = 1.03
    extra_moves: float = 0.02


@dataclass(frozen=True)
class PlanRequest:
    """One plan to make.

    goal: of goals.GOALS.   brokers: ids - to fill (expand), to empty (drain); none = those that hold nothing, those
    that the source wants empty.   replacements: (from, to) ids.   factor: wanted RF (rf).   topics: names that rf is
    for, none = all.   exclude_topics, exclude_brokers: left as they are; get nothing more.
    max_bytes, max_moves: budget.
    broker_replicas, broker_bytes: what any broker can hold, None = no limit.   keep_leaders: failover alone.
    per_topic: each topic's leaders spread too; by_bytes: leaders and failover by bytes out, not by counts alone.
    allow_fewer_racks: a drained rack may leave partitions on fewer racks.
    priorities: of PRIORITIES, the most important first; what is not named is not looked at.
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
