"""The work of a fleet: what to do by hand, and the plans that the verdicts of all clusters recommend."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.quantities import format_bytes, format_duration
from pipelines.report.horizons import DUE_TIMES, find_due_time
from pipelines.report.plan_effects import PlanEffects, describe_effects
from pipelines.verdict.cluster_evidence import ClusterFindings, PartitionIssue
from pipelines.verdict.naming import name_with_noun
from pipelines.verdict.recommended_plans import list_all_plans
from udfs.planning.goal_registry import GOALS
from udfs.plurals import count_of, is_or_are, it_or_them

_URGENT = DUE_TIMES[:2]  # today and this week
# What a restart of brokers ends, in words for its partitions.
_ENDED = {
    PartitionIssue.OFFLINE: "offline",
    PartitionIssue.UNDER_MIN_ISR: "blocked (acks=all)",
    PartitionIssue.UNDER_REPLICATED: "under-replicated",
}


class Restart(NamedTuple):
    """Brokers of a cluster to restart; due today."""

    cluster_index: int  # in the page
    cluster_id: str
    brokers: str  # as in `brokers 1, 2`
    verb: str  # is, or are for several brokers
    ended: str  # what it ends, as in `3 offline and 123 under-replicated partitions`


class PlannedWork(NamedTuple):
    """A plan that the verdict of a cluster recommends."""

    due: str  # Today, This week or Watch
    cluster_index: int  # in the page
    cluster_id: str
    goal: str
    step: str  # the next step of the verdict, with the command that makes the plan
    plan: Mapping[str, Any] | None  # its row of gold.plans with its metrics; None = not computed
    effects: PlanEffects | None  # None = there is no plan
    down_brokers: Sequence[int]  # not empty = the plan is only needed if these stay down
    new_brokers: str  # brokers that the plan needs, as in `3 new brokers (eu-1c)`; empty = none

    @property
    def label(self) -> str:
        """The goal in words."""
        return GOALS[self.goal].label


class FleetWork(NamedTuple):
    """The work of all clusters, the most urgent first; what the plans of today and this week copy, and assumptions."""

    restarts: list[Restart]
    plans: list[PlannedWork]
    summary: str
    assumptions: str


def list_planned_work(clusters: Sequence[Mapping[str, Any]]) -> FleetWork:
    """List the work of clusters, which are in the order of rank_urgency."""
    restarts = [restart for index, cluster in enumerate(clusters) if (restart := _find_restart(cluster, index))]
    unordered = [work for index, cluster in enumerate(clusters) for work in list_cluster_plans(cluster, index)]
    plans = sorted(unordered, key=lambda work: DUE_TIMES.index(work.due))
    summary = _summarize([work for work in plans if work.due in _URGENT])
    return FleetWork(restarts, plans, summary, describe_assumptions(plans))


def list_cluster_plans(cluster: Mapping[str, Any], index: int = 0) -> list[PlannedWork]:
    """List the plans that the verdict of a cluster recommends, in its order. index: of the cluster in the page."""
    return list(_find_plans(cluster, index))


def describe_assumptions(plans: Iterable[PlannedWork]) -> str:
    """Say what the times of plans assume, and that each starts from the cluster as it is now; empty without plans."""
    known = (work.plan["throttle_bytes_per_s"] for work in plans if work.plan and work.plan["feasible"])
    throttles = sorted({throttle for throttle in known if throttle is not None})
    if not throttles:
        return ""
    rates = " to ".join(f"{format_bytes(rate)}/s" for rate in dict.fromkeys((throttles[0], throttles[-1])))
    return (
        f"Times are for copies at {rates} per broker (plans.throttle_bytes_per_s). Each plan starts from its cluster "
        "as it is now: after a plan is executed, make the next one again."
    )


def _find_restart(cluster: Mapping[str, Any], index: int) -> Restart | None:
    """Find the brokers to restart: those that are down, if partitions have replicas there; None without any."""
    findings: ClusterFindings = cluster["findings"]
    parts = [(count, words) for issue, words in _ENDED.items() if (count := findings.find(issue).on_down_brokers)]
    if not (down := findings.down_brokers) or not parts:
        return None
    *others, (count, words) = parts
    listed = ", ".join(f"{number:,} {name}" for number, name in others)
    ended = f"{listed} and " * bool(others) + count_of(count, f"{words} partition")
    return Restart(index, cluster["cluster_id"], name_with_noun(down), is_or_are(len(down)), ended)


def _find_plans(cluster: Mapping[str, Any], index: int) -> Iterator[PlannedWork]:
    restart = _find_restart(cluster, index)
    for one in list_all_plans(cluster["verdict"]):
        down = cluster["findings"].down_brokers if one.replaces_restart else ()
        plan = cluster["plans"].get(one.goal)
        effects = describe_effects(plan, has_racks=len(cluster["rack_failures"]) > 1)
        if effects and restart and not one.replaces_restart:
            again = f"made while {restart.brokers} {restart.verb} down: make it again after the restart"
            effects = effects._replace(caveats=[again, *effects.caveats])
        new = _name_new_brokers(one.new_broker_racks)
        due = find_due_time(one.kinds)
        yield PlannedWork(due, index, cluster["cluster_id"], one.goal, one.step, plan, effects, down, new)


def _name_new_brokers(racks: Sequence[str]) -> str:
    return f"{count_of(len(racks), 'new broker')} ({', '.join(Counter(racks))})" if racks else ""


def _summarize(urgent: Sequence[PlannedWork]) -> str:
    """Say what the plans of today and this week copy in all, and which of them the sums leave out."""
    if not urgent:
        return "No plan is due today or this week."
    possible = [work for work in urgent if not work.new_brokers]
    needed = [work for work in possible if not work.down_brokers]
    plans = [work.plan for work in needed if work.plan and work.plan["feasible"]]
    sizes = [plan["copied_bytes"] for plan in plans if plan["copied_bytes"] is not None]
    seconds = sum(plan["copy_duration_s"] or 0 for plan in plans)
    sentences = []
    if plans:
        changed = count_of(sum(plan["changed_partitions"] for plan in plans), "partition")
        copied = (
            f", {format_bytes(sum(sizes))} to copy, {format_duration(seconds)} one after the other" if sizes else ""
        )
        sentences.append(f"Due today and this week: {count_of(len(plans), 'plan')}, {changed} to change{copied}.")
    if n := len(plans) - len(sizes):
        sentences.append(f"The sources show no sizes for {count_of(n, 'plan')} of these.")
    if n := len(needed) - len(plans):
        sentences.append(f"{count_of(n, 'more plan')} {is_or_are(n)} not computed, or infeasible.")
    if n := len(urgent) - len(possible):
        sentences.append(f"{count_of(n, 'plan')} {is_or_are(n)} not counted: the new brokers do not exist yet.")
    if n := len(possible) - len(needed):
        sentences.append(
            f"{count_of(n, 'repair')} {is_or_are(n)} not counted: a restart makes {it_or_them(n)} needless."
        )
    return " ".join(sentences)
