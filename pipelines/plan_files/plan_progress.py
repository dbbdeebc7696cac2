"""Progress of a plan: what `plan --check` finds about it in its cluster."""

from dataclasses import dataclass
from enum import StrEnum

from udfs.json_output import json_key, json_object


class PlanStatus(StrEnum):
    """Status of a plan: unchanged cluster, changed cluster, being reassigned, partly done, done."""

    FITS = "fits"
    CHANGED = "changed"
    IN_FLIGHT = "in flight"
    PARTLY_DONE = "partly done"
    DONE = "done"


@dataclass(frozen=True)
class ChangedPartition:
    """A partition that is as neither the plan nor the cluster before it says."""

    topic: str
    partition: int
    now: list[int] | None  # Its replicas; None = the partition is gone
    # Its replicas before the plan and after each step; None = the plan does not change it
    planned: list[list[int]] | None


@dataclass(frozen=True)
class Reassignment:
    """A reassignment under way."""

    topic: str
    partition: int
    adding: list[int]
    removing: list[int]
    target: list[int]  # The list that it leads to
    planned: bool  # Whether the plan has that list


@dataclass(frozen=True)
class WaveProgress:
    """How many of a wave's partitions are as it leaves them, and how many are not yet."""

    wave: int
    file: str
    done: int
    missing: int


@dataclass(frozen=True)
class PendingPartition:
    """A partition that is not yet as planned: its next wave, its replicas now and the planned ones."""

    topic: str
    partition: int
    wave: int
    now: list[int]
    after: list[int]


@dataclass(frozen=True)
class PendingElection:
    """A partition as planned whose preferred leader does not lead. leader: None = no broker leads."""

    topic: str
    partition: int
    leader: int | None
    preferred: int


@dataclass(frozen=True)
class ChangedRack:
    """A broker that the rest of the plan names, its rack when the plan was made (None = not known), and now."""

    broker: int
    before: str | None
    now: str | None


@json_object
class PlanProgress:
    """Progress of a plan."""

    status: PlanStatus  # Status
    planned: int  # Partitions that the plan changes
    # Those of them that are as planned. new_topics, new_brokers: Not there when the plan was made. missing_brokers,
    # down_brokers: Live when the plan was made.
    done: int
    waves: tuple[WaveProgress, ...]
    pending: tuple[PendingPartition, ...]
    in_flight: tuple[Reassignment, ...]
    changed_partitions: tuple[ChangedPartition, ...]
    missing_topics: tuple[str, ...]
    new_topics: tuple[str, ...]
    missing_brokers: tuple[int, ...]
    down_brokers: tuple[int, ...] = json_key("dead_brokers")
    new_brokers: tuple[int, ...]
    changed_racks: tuple[ChangedRack, ...]  # Of brokers that the rest of the plan names
    # Brokers that the rest of the plan names and the source wants empty, unlike before
    drained_brokers: tuple[int, ...] = json_key("to_empty")
    pending_elections: tuple[PendingElection, ...] = json_key("unelected")
    leaders_known: bool  # Whether a source shows leaders; else no election is pending
    racks_known: bool  # Whether a source shows racks, or none did when the plan was made

    @property
    def may_execute(self) -> bool:
        """Return whether the rest of the plan may be executed now."""
        return self.status not in (PlanStatus.CHANGED, PlanStatus.IN_FLIGHT)
