"""Plan requests: the goal of a plan, its constraints, and its targets by priority; and why partitions stay frozen."""

from dataclasses import dataclass, field
from enum import IntEnum

from udfs.network.traffic_rows import NO_ASSUMPTIONS, NetworkAssumptions

ALL, MIN_BYTES, MIN_MOVES = "all", "min-bytes", "min-moves"
OBJECTIVES = (ALL, MIN_BYTES, MIN_MOVES)
LOG_DIRS, EMPTY_LOG_DIR, RELIEVE, ZONES = "log-dirs", "empty-log-dir", "relieve", "zones"  # some of the goals

# What a plan evens out over brokers, by name as in plans.priorities, and the default order of importance.
REPLICAS, LEADERS, DISK = "replicas", "leaders", "disk"
BYTES_IN, BYTES_OUT, FAILOVER, COPYSETS = "bytes_in", "bytes_out", "failover", "copysets"
PRIORITIES = (REPLICAS, LEADERS, DISK, BYTES_IN, BYTES_OUT, FAILOVER, COPYSETS)


COPY_TIME_TOLERANCE = 0.1  # a copy is as estimated if it took at most this part more or less


@dataclass(frozen=True)
class Targets:
    """Loads of the fullest broker over the mean of all brokers that may hold replicas (1.01 = 1 % more)."""

    replicas: float = 1.01
    leaders: float = 1.01
    disk: float = 1.009
    bytes_in: float = 1.009
    bytes_out: float = 1.009
    failover: float = 1.05  # Leaders of the worst survivor of any single failure, over the survivors' mean
    failover_out: float = 1.15  # Bytes out of the worst survivor of any single failure, over the survivors' mean
    loose_bytes_out: float = 1.05  # The same as bytes_out where failover_out is missed otherwise, or copies much more
    min_over_mean: float = 0.955  # Replicas and leaders of the emptiest broker over the mean
    loose_bytes: float = 1.03  # Disk, bytes in and bytes out for the goals expand and drain, which copy less


@dataclass(frozen=True)
class BrokerSet:
    """Brokers for some topics only."""

    name: str
    brokers: tuple[int, ...]  # Their ids
    topics: tuple[str, ...] = ()  # Patterns of the topics, as in ml-*; empty = those that are there already
    cluster: str = ""  # The cluster; empty = every cluster


@dataclass(frozen=True)
class LaterLists:
    """The lists of partitions that a plan within a budget leaves for later plans: values of each partition."""

    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    before: tuple[tuple[int, ...], ...] = ()  # Broker ids as the plan leaves them
    after: tuple[tuple[int, ...], ...] = ()  # As many ids as the whole plan has them


@dataclass(frozen=True)
class PlanRequest:
    """One plan to make. Brokers are meant by their ids."""

    goal: str  # A name in udfs.planning.goal_registry.GOALS
    # Brokers to fill (expand) or to empty (drain); by default those that hold nothing, or those that the source drains.
    # For the goal repair: only partitions with a replica there are repaired; empty = all. For relieve: only their disks
    brokers: tuple[int, ...] = ()
    replacements: tuple[tuple[int, int], ...] = ()  # Pairs of a broker to replace and the broker that takes over
    factor: int | None = None  # Replication factor for the goal rf
    log_dirs: tuple[tuple[int, str], ...] = ()  # Pairs of a broker and the path of a log dir for the goal empty-log-dir
    topics: tuple[str, ...] = ()  # Topics whose partitions may change; empty = all
    # Whether the goal repair is only for partitions with as many in-sync replicas as min.insync.replicas, or with fewer
    at_min_isr_partitions: bool = False
    under_min_isr_partitions: bool = False
    exclude_topics: tuple[str, ...] = ()  # Topics that stay as they are
    exclude_brokers: tuple[int, ...] = ()  # Brokers that get no more replicas
    max_bytes: int | None = None  # Bytes that the plan may copy; None = no limit
    max_moves: int | None = None  # Replicas that the plan may copy; None = no limit
    # Bytes that any broker may receive, and send to followers: its time at the throttle; None = no limit
    max_broker_bytes: int | None = None
    broker_replicas: int | None = None  # Replicas that any broker can hold; None = no limit
    broker_bytes: int | None = None  # Bytes that any broker can hold; None = no limit
    max_disk_ratio: float = 0.95  # Share of a log dir's volume that moves between log dirs may fill
    strict_disks: bool = False  # Whether what leaves a disk makes no room for copies there: both exist for a while
    objective: str = ALL  # One of OBJECTIVES
    keep_leaders: bool = False  # For the goal failover, whether preferred leaders stay
    per_topic: bool = False  # Whether the leaders of each topic are spread as well
    by_bytes: bool = False  # Whether the goals leaders and failover also even out bytes out
    # Whether a rack may be left without any broker
    allow_empty_racks: bool = False
    # Whether racks that hold too many replicas of a partition may keep them; no plan adds to them
    keep_rack_violations: bool = False
    # Some of PRIORITIES, the most important first; the others have no target
    priorities: tuple[str, ...] = PRIORITIES[:-1]
    broker_sets: tuple[BrokerSet, ...] = ()  # Each is planned by itself, and so are the brokers in none
    soft_broker_sets: bool = False  # Whether partitions with a replica outside of their set may stay
    rack_separator: str = ""  # Between zone and rack in the names of racks; empty = racks are zones
    soft_racks: bool = False  # Whether replicas may share a rack within a zone rather than be copied
    network: NetworkAssumptions = NO_ASSUMPTIONS  # Where clients are, for the goal zones
    targets: Targets = field(default_factory=Targets)
    seed: int = 0  # Seed of randomized searches
    later: LaterLists | None = None  # What an earlier plan of this request left; it is done instead of a new search

    @property
    def budgets(self) -> tuple[int | None, int | None, int | None]:
        """Return the limits of what the plan may copy: bytes, replicas, and bytes of any broker; None = no limit."""
        return self.max_bytes, self.max_moves, self.max_broker_bytes

    @property
    def has_budget(self) -> bool:
        """Return whether any of these limits is set."""
        return self.budgets != (None, None, None)


_EXPLANATIONS = (  # in words that follow `because of`
    "",
    "an excluded topic",
    "an ongoing reassignment",
    "the deletion of a topic",
    "the lack of an in-sync replica on a live broker",
    "a replica on a down broker, which Kafka's tools reject: repair first",
    "an ignored topic",
    "a replica outside of its broker set",
    "a replica in a failed log dir, which would never end its reassignment: repair first",
    "too few live brokers for all replicas",
    "racks that a better plan would leave",
    "more in-sync replicas than the topic's replication factor: set that first (--goal rf)",
    "a topic that --topics does not name",
    "a replica on a cordoned broker, which Kafka 4.4 rejects in every list: uncordon or drain it first",
    "a replica out of sync, as one in sync would leave instead",
)


class FreezeReason(IntEnum):
    """Why a partition stays as it is, whatever the goal: the codes in ClusterModel.frozen."""

    FREE = 0
    EXCLUDED = 1
    IN_FLIGHT = 2
    DELETED = 3
    OFFLINE = 4
    DOWN_REPLICA = 5
    IGNORED = 6
    OUTSIDE_SET = 7
    FAILED_DIR = 8
    FEW_BROKERS = 9
    RACKS = 10
    EXTRA_REPLICAS = 11
    OTHER_TOPIC = 12
    CORDONED = 13
    LAGGING = 14

    @property
    def explanation(self) -> str:
        """Return the reason in words; empty for FREE."""
        return _EXPLANATIONS[self]


FREE = FreezeReason.FREE
