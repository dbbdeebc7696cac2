"""The choices while brokers are down: to wait for them, or to move their replicas to others."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Exposure:
    """Partitions that are broken, and the most that the failure of one more broker would add to them."""

    offline_partitions: int
    under_min_isr_partitions: int
    under_replicated_partitions: int
    newly_offline_partitions: int
    newly_under_min_isr_partitions: int


@dataclass(frozen=True)
class CopyCost:
    """What copies take. bytes_to_copy, seconds: None = sizes are unknown."""

    replicas: int
    bytes_to_copy: int | None
    seconds: float | None  # an estimate, at the throttle


@dataclass(frozen=True)
class ReplicaMove:
    """The plan of goal repair: what it copies, and what is still broken after its first wave and after all."""

    cost: CopyCost
    waves: int
    throttle_bytes_per_s: float
    first_wave: CopyCost
    after_first_wave: Exposure
    after_all_waves: Exposure
    cost_back: CopyCost  # of moving the replicas back once the brokers return


@dataclass(frozen=True)
class WaitOrMove:
    """Both choices while brokers are down. move: None = no plan can move a replica; obstacle says why."""

    down_brokers: list[int]
    down_since_ms: dict[int, int]  # ms since 1970, of the brokers for which a source shows it
    now: Exposure
    once_returned: Exposure  # with all their replicas in sync
    move: ReplicaMove | None
    obstacle: str | None = None
