"""Certificates: what planners prove about the assignments that they propose, as plan.json publishes it."""

from dataclasses import dataclass, field

from udfs.planning.plan_request import MIN_BYTES, MIN_MOVES

BYTES_COPIED, REPLICAS_COPIED, LEADERS_CHANGED = "bytes copied", "replicas copied", "preferred leaders changed"
ZONE_BYTES = "bytes per second between zones"
BYTES_BETWEEN_LOG_DIRS = "bytes moved between log dirs"
FULLEST_LOG_DIR = "fullest log dir of a broker, over the mean of its log dirs"
WORST_SURVIVOR = "leaders of the worst survivor of a failure, over the mean"
CONTINUES = "another plan with this goal continues"  # how texts on what a budget leaves end
_QUANTITIES = {MIN_BYTES: BYTES_COPIED, MIN_MOVES: REPLICAS_COPIED, "all": BYTES_COPIED}


@dataclass(frozen=True)
class Proof:
    """The value of a quantity that a plan minimizes, with a lower bound that holds for every plan."""

    quantity: str
    value: float
    lower_bound: float
    gap: float


@dataclass(frozen=True)
class CopysetChange:
    """Copysets (distinct replica sets of live brokers) before the plan, before and after their reduction."""

    before: int
    of_plan: int
    after: int
    failures: int  # Brokers that fail at once
    # Probability that these failures lose a partition; None with fewer live brokers than failures
    loss_before: float | None
    loss_of_plan: float | None  # The same with the plan before the reduction
    loss: float | None  # The same with the plan after the reduction


@dataclass(frozen=True)
class RackLevelChange:
    """Partitions with two replicas in one rack within a zone: before the plan, before they are spread, and after it."""

    sharing_before: int
    sharing_of_plan: int
    sharing_after: int
    lower_bound: int  # With as many replicas in each zone


@dataclass(frozen=True)
class Certificate:
    """What a planner proves about the assignment that it proposes."""

    copysets: CopysetChange | None = field(default=None, kw_only=True)
    rack_levels: RackLevelChange | None = field(default=None, kw_only=True)
    relaxed: list[str] = field(default_factory=list, kw_only=True)  # Targets that are impossible here, and why
    missed: list[str] = field(default_factory=list, kw_only=True)  # Targets that the plan does not reach

    @property
    def proofs(self) -> list[Proof]:
        """Return the bounds, that of the goal first."""
        return []


@dataclass(frozen=True)
class BoundCertificate(Certificate):
    """One quantity with its lower bound."""

    goal: str
    quantity: str
    value: float
    lower_bound: float
    gap: float

    @property
    def proofs(self) -> list[Proof]:
        """Return the bound."""
        return [Proof(self.quantity, float(self.value), float(self.lower_bound), float(self.gap))]


@dataclass(frozen=True)
class ForcedLeaders:
    """Brokers whose replica sets force one of them above the ceiling, or below the floor, of leaders."""

    text: str
    brokers: list[int]
    partitions: int
    max_at_least: int | None = None
    min_at_most: int | None = None


@dataclass(frozen=True)
class TopicPrice:
    """Preferred leaders with limits for each topic, less those without: changes, and leaders of the extreme brokers."""

    changes: int
    max_leaders: int
    min_leaders: int
    # Topics above their limit where leaders are chosen without these limits
    topics_above_limit_without: int


@dataclass(frozen=True)
class TopicSpread:
    """How the leaders of single topics are spread, against the lowest limits that their replica sets allow."""

    topics_above_limit_before: int
    topics_above_limit: int
    highest_limit: int
    price: TopicPrice


@dataclass(frozen=True)
class FailoverPrice:
    """Preferred leaders that change beyond the fewest, so that failures burden survivors less."""

    changes: int


@dataclass(frozen=True)
class LeaderCertificate(Certificate):
    """Preferred leaders: the fewest changes, and leaders per broker that may lead."""

    goal: str
    changes: int
    changes_lower_bound: int
    gap: int
    brokers: int
    mean: float
    ceiling: int
    floor: int
    max_leaders: int
    min_leaders: int
    max_leaders_before: int
    min_leaders_before: int
    even: bool  # Whether all brokers are at the floor or the ceiling of the mean
    forced: list[ForcedLeaders]
    # Leaders left on brokers that should not lead, by broker id
    ineligible_leaders: dict[int, int]
    topics: TopicSpread | None = None
    failover_price: FailoverPrice | None = None

    @property
    def proofs(self) -> list[Proof]:
        """Return the bound of changed preferred leaders."""
        return [Proof(LEADERS_CHANGED, float(self.changes), float(self.changes_lower_bound), float(self.gap))]


@dataclass(frozen=True)
class ForcedTakeover:
    """Brokers that keep the worst survivor of a failure from leading less."""

    text: str
    failed_broker: int  # Broker that fails
    brokers: list[int]
    forced_leaders: int  # Leaders that the brokers have whatever is chosen
    only_these_can_take: int  # Partitions that no other broker can take over
    max_at_least: int


@dataclass(frozen=True)
class FailureTakeover:
    """Leaders of the worst survivor of one broker's failure: lowest limit, lower bound, value, mean of survivors."""

    limit: int
    lower_bound: int
    worst: int
    mean: float


@dataclass(frozen=True)
class TakeoverCertificate(Certificate):
    """Successors: the least loaded worst survivor of any single failure, with the fewest changed lists."""

    goal: str
    changes: int  # Lists that change
    cost: int  # Price of these changes; lists that change anyway are cheaper than others
    cost_lower_bound: int
    gap: int
    target: float
    worst_ratio: float  # Leaders of the worst survivor of the worst failure over the survivors' mean
    worst_ratio_before: float
    worst_ratio_lower_bound: float
    failures: dict[int, FailureTakeover]  # By id of the failed broker
    failures_above_target: int
    forced: list[ForcedTakeover]

    @property
    def proofs(self) -> list[Proof]:
        """Return the bound of the worst survivor. The cost of the order says nothing to a person."""
        gap = max(self.worst_ratio - self.worst_ratio_lower_bound, 0.0)
        return [Proof(WORST_SURVIVOR, self.worst_ratio, self.worst_ratio_lower_bound, gap)]


@dataclass(frozen=True)
class LeadershipCertificate(Certificate):
    """Preferred leaders and their successors, ordered one after the other; leaders is None where they were kept."""

    goal: str
    lists_changed: int
    leaders: LeaderCertificate | None
    failover: TakeoverCertificate

    @property
    def proofs(self) -> list[Proof]:
        """Return the bounds of successors, then those of leaders."""
        return self.failover.proofs + (self.leaders.proofs if self.leaders else [])


@dataclass(frozen=True)
class SurvivorCertificate(BoundCertificate):
    """The bytes out of the worst survivor after the failure that is worst for it."""

    failed_broker: int | None


@dataclass(frozen=True)
class BytesOutCertificate(Certificate):
    """Leaders and successors by bytes out: the fullest leader and the fullest survivor, against their lower bounds."""

    goal: str
    changes: int
    by: str = "bytes"
    leaders: BoundCertificate | None = None
    failover: SurvivorCertificate | None = None

    @property
    def proofs(self) -> list[Proof]:
        """Return the bounds, that of the goal first."""
        parts = (self.leaders, self.failover) if self.goal == "leaders" else (self.failover, self.leaders)
        return [proof for part in parts if part for proof in part.proofs]


@dataclass(frozen=True)
class ZoneCertificate(Certificate):
    """Bytes per second between zones: before and after the plan, with a lower bound within the same limits."""

    goal: str
    value: float
    before: float
    lower_bound: float
    gap: float
    moves: int
    bytes: float
    changes: int

    @property
    def proofs(self) -> list[Proof]:
        """Return the bound of the bytes between zones."""
        return [Proof(ZONE_BYTES, self.value, self.lower_bound, self.gap)]


@dataclass(frozen=True)
class RackRepairs:
    """Copies that only repair racks with too many replicas of a partition, whatever else the plan is for."""

    replicas: int
    bytes: int


@dataclass(frozen=True)
class CopyCertificate(Certificate):
    """What a plan copies: the value of its objective and the number of moves, with their lower bounds."""

    objective: str
    value: float
    lower_bound: float
    gap: float
    moves: int
    moves_lower_bound: int
    bytes: float
    rack_repairs: RackRepairs | None = field(default=None, kw_only=True)

    @property
    def proofs(self) -> list[Proof]:
        """Return the bound of the objective, then that of the moves unless a budget paid for a part of the plan."""
        quantity = _QUANTITIES.get(self.objective, self.objective)
        proofs = [Proof(quantity, float(self.value), float(self.lower_bound), float(self.gap))]
        if quantity != REPLICAS_COPIED and self.moves >= self.moves_lower_bound:
            gap = float(self.moves - self.moves_lower_bound)
            proofs.append(Proof(REPLICAS_COPIED, float(self.moves), float(self.moves_lower_bound), gap))
        return proofs


@dataclass(frozen=True)
class CountCertificate(CopyCertificate):
    """A plan by replica counts."""

    attained: bool  # Whether the lists reach the bound of the flow, but for rounding to steps
    step_bytes: float  # Bytes in one step of the flow's costs
    replicas_min: int  # Fewest replicas on a broker that receives some
    replicas_max: int  # Most replicas on a broker that receives some


@dataclass(frozen=True)
class ReachedLoad:
    """The fullest broker over the mean, its id, and the emptiest broker over the mean."""

    max_over_mean: float
    broker: int
    min_over_mean: float


@dataclass(frozen=True)
class Relief:
    """The fullest broker's load over the mean, where a budget does not pay for its target."""

    load: str  # replicas, disk or bytes_in
    before: float
    value: float
    lower_bound: float  # For any plan within the budget


@dataclass(frozen=True)
class BalanceCertificate(CopyCertificate):
    """A plan that balances all loads at once."""

    goal: str
    bytes_lower_bound: float
    reached: dict[str, ReachedLoad]  # By metric: replicas, leaders, disk, bytes_in, bytes_out
    relief: list[Relief] = field(default_factory=list)  # Of loads above their targets, where a budget limits the plan
    continues: bool = False  # Whether it does what the plan before it left

    @property
    def proofs(self) -> list[Proof]:
        """Return the bounds of the copies, of replicas and of bytes, that of the objective first."""
        proofs = super().proofs
        if any(proof.quantity == BYTES_COPIED for proof in proofs):
            return proofs
        gap = max(self.bytes - self.bytes_lower_bound, 0.0)
        return [*proofs, Proof(BYTES_COPIED, float(self.bytes), float(self.bytes_lower_bound), gap)]


@dataclass(frozen=True)
class BrokerLogDirBalance:
    """The log dirs of one broker: its fullest one over their mean, and what is moved between them."""

    broker: int
    log_dirs: int  # Those that are online
    by_bytes: bool  # False = all of its logs are empty, so that replicas count
    max_over_mean_before: float
    max_over_mean: float
    max_over_mean_lower_bound: float
    replicas_moved: int
    bytes_moved: float
    bytes_lower_bound: float  # For any plan that reaches as much


@dataclass(frozen=True)
class LogDirCertificate(Certificate):
    """How even the log dirs within each broker are. A broker meets its target unless its lower bound is higher."""

    goal: str
    target: float
    brokers: list[BrokerLogDirBalance]

    @property
    def proofs(self) -> list[Proof]:
        """Return the bound of the fullest log dir, then that of the bytes moved."""
        value = max((one.max_over_mean for one in self.brokers), default=0.0)
        bound = max((one.max_over_mean_lower_bound for one in self.brokers), default=0.0)
        moved, least = (
            sum(getattr(one, name) for one in self.brokers) for name in ("bytes_moved", "bytes_lower_bound")
        )
        return [
            Proof(FULLEST_LOG_DIR, value, bound, max(value - bound, 0.0)),
            Proof(BYTES_BETWEEN_LOG_DIRS, moved, least, max(moved - least, 0.0)),
        ]
