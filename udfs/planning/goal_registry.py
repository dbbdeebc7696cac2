"""The registry of goals, which settings and all commands read. Planners are imported when they are first called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from udfs.planning.plan_request import ALL, EMPTY_LOG_DIR, LOG_DIRS, MIN_BYTES, MIN_MOVES, RELIEVE, ZONES

if TYPE_CHECKING:
    from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
    from udfs.planning.plan_request import PlanRequest

# Raises udfs.planning.constraints.InfeasibleRequest where no plan meets the constraints.
Planner = Callable[["ClusterModel", "PlanRequest"], "ProposedAssignment"]

_EVERY_GOAL = ("--topics", "--exclude-topics", "--seed")
_COPYING_OPTIONS = ("--add-brokers", "--exclude-brokers", "--max-bytes", "--max-moves", "--throttle")
_REQUIRED = {
    "--replace": "name each broker and its replacement, as in --replace 7=66,8=67",
    "--rf": "set the replication factor, as in --rf 3",
    "--log-dirs": "name the log dirs with their brokers, as in --log-dirs 3:/data1,3:/data2",
}
_COUNTS = (MIN_BYTES, MIN_MOVES)
_ALL = (ALL, *_COUNTS)


@dataclass(frozen=True)
class Goal:
    """A kind of plan."""

    name: str  # Name for `plan --goal`
    title: str  # What the plan does, in a few words
    plan: Planner  # Planner: from a cluster model and a request to replica lists with a certificate
    options: tuple[str, ...] = _EVERY_GOAL  # Options of `plan` that have a meaning for this goal; any other is rejected
    # Options that the goal cannot do without, each with the remedy where it is missing
    required_options: Mapping[str, str] = field(default_factory=dict)
    objectives: tuple[str, ...] = ()  # Values that --objective may have

    @property
    def label(self) -> str:
        """Return the title with the name, as in `even out leaders (leaders)`."""
        return f"{self.title} ({self.name})"


def _import_later(planner: str) -> Planner:
    """Return the planner of that name in goal_planners, which is imported when it is called."""

    def plan(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
        from udfs.planning import goal_planners

        proposal: ProposedAssignment = getattr(goal_planners, planner)(model, request)
        return proposal

    return plan


def _make_goal(name: str, title: str, *options: str, objectives: tuple[str, ...] = ()) -> Goal:
    required = {option: _REQUIRED[option] for option in options if option in _REQUIRED}
    planner = "plan_copies" if objectives else _PLANNERS.get(name, "plan_order")
    copying = (*_COPYING_OPTIONS, "--objective") if objectives else _COPYING_OPTIONS if name in (RELIEVE, ZONES) else ()
    return Goal(name, title, _import_later(planner), (*_EVERY_GOAL, *copying, *options), required, objectives)


_PLANNERS = {
    LOG_DIRS: "even_out_log_dirs",
    EMPTY_LOG_DIR: "empty_log_dirs",
    RELIEVE: "relieve_disks",
    ZONES: "plan_zones",
}
_LEADERS = ("--per-topic", "--by-bytes")
_MIN_ISR = ("--at-min-isr-partitions", "--under-min-isr-partitions")
_EMPTY_RACKS = "--allow-empty-racks"
# Of goals that even out the whole cluster
_EVEN = ("--keep-rack-violations", "--prefer-fewer-copysets")
GOALS: dict[str, Goal] = {
    goal.name: goal
    for goal in (
        _make_goal("leaders", "even out leaders", *_LEADERS),
        _make_goal("failover", "spread takeovers", *_LEADERS, "--keep-leaders"),
        _make_goal("balance", "even out all loads", "--max-time", *_EVEN, objectives=_ALL),
        _make_goal("drain", "empty brokers", "--brokers", _EMPTY_RACKS, *_EVEN, objectives=_ALL),
        _make_goal("expand", "fill new brokers", "--brokers", *_EVEN, objectives=_ALL),
        _make_goal("replace", "replace brokers", "--replace", _EMPTY_RACKS, objectives=_COUNTS),
        _make_goal("repair", "repair replicas", "--brokers", *_MIN_ISR, objectives=_COUNTS),
        _make_goal(RELIEVE, "relieve full disks", "--brokers"),
        _make_goal(LOG_DIRS, "even out the log dirs of each broker", "--throttle"),
        _make_goal(EMPTY_LOG_DIR, "empty log dirs", "--log-dirs", "--throttle"),
        _make_goal("rf", "raise the replication factor", "--rf", objectives=_COUNTS),
        _make_goal(ZONES, "send fewer bytes between zones"),
    )
}


def goals_with_option(option: str) -> list[str]:
    """Return the names of the goals that take an option of `plan`."""
    return [goal.name for goal in GOALS.values() if option in goal.options]
