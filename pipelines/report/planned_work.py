"""The work of a fleet: what to do by hand, the plans that the verdicts recommend, and what each of them changes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.report.overview import DUE_TIMES, find_due_time
from pipelines.verdict.cluster_evidence import ClusterFindings, PartitionIssue, name_with_noun
from pipelines.verdict.recommended_plans import list_all_plans
from udfs.planning.goal_registry import GOALS
from udfs.wording import count_of, format_bytes, format_duration, is_or_are

_MAX_PARTS = 3
_MIN_CHANGE = 0.1  # of a number of partitions, as a share of the larger number
_MIN_RATIO_CHANGE, _EVEN_RATIO = 0.05, 1.1  # of a ratio to the mean; a ratio up to _EVEN_RATIO is not worse
_LARGE_GROWTH = 1.5  # bytes of the fullest broker after the plan over those before
_BECAUSE = " because of "  # in frozen_reasons, as in `2 because of an ongoing reassignment`
_RACKS = "_of_racks"  # the end of metrics about the failure of a rack
# Metrics of gold.plan_metrics, the most important first.
_COUNTS = {
    "under_replicated_partitions": "under-replicated partitions {} -> {}",
    "newly_offline_partitions": "offline if a broker fails: up to {} -> {}",
    f"newly_offline_partitions{_RACKS}": "offline if a rack fails: up to {} -> {}",
    "under_min_isr_partitions": "acks=all blocked if a broker fails: up to {} -> {}",
    f"under_min_isr_partitions{_RACKS}": "acks=all blocked if a rack fails: up to {} -> {}",
    "rack_violations": "rack violations {} -> {}",
}
_RATIOS = {
    "worst_survivor_ratio": "worst survivor",
    "leaders_max_over_mean": "most leaders on a broker",
    "disk_max_over_mean": "fullest disk",
    "replicas_max_over_mean": "most replicas on a broker",
    "bytes_in_max_over_mean": "most bytes into a broker",
    "bytes_out_max_over_mean": "most bytes out of a broker",
}


class PlanEffects(NamedTuple):
    """What a plan changes, each the most important first, and caveats."""

    better: list[str]
    worse: list[str]
    caveats: list[str]


def describe_effects(plan: Mapping[str, Any] | None, has_racks: bool) -> PlanEffects | None:
    """Describe the effects of a plan (a row of gold.plans with its metrics); None if there is no plan.

    has_racks: whether there are several racks, so that the failure of one matters.
    """
    if not plan or not plan["feasible"]:
        return None
    changes = list(_compare(plan, has_racks))
    better, worse = ([text for is_better, text in changes if is_better is side][:_MAX_PARTS] for side in (True, False))
    return PlanEffects(better, worse, list(_list_caveats(plan)))


def _compare(plan: Mapping[str, Any], has_racks: bool) -> Iterator[tuple[bool, str]]:
    """Yield each metric that changes: whether it is better then, and the change in words."""
    for name, text in (_COUNTS | _RATIOS).items():
        before, after = plan["metrics"][name]
        if before is None or after is None or before == after or (name.endswith(_RACKS) and not has_racks):
            continue
        change, most = abs(after - before), max(before, after)
        if name in _RATIOS:
            if change >= _MIN_RATIO_CHANGE and most > _EVEN_RATIO:
                yield after < before, f"{text} {before:.2f} -> {after:.2f} times the mean"
        elif change >= _MIN_CHANGE * most:
            yield after < before, text.format(f"{before:,.0f}", f"{after:,.0f}")


def _list_caveats(plan: Mapping[str, Any]) -> Iterator[str]:
    frozen, missed = plan["frozen_reasons"], plan["missed_targets"]
    # The missed targets of the goal rf name the partitions of its topics that must stay; the others do not matter.
    if frozen and plan["goal"] != "rf":
        stay = f"{count_of(plan['frozen_partitions'], 'partition')} left unchanged"
        because = f"{_BECAUSE}{frozen[0].partition(_BECAUSE)[2]}" if len(frozen) == 1 else f": {'; '.join(frozen)}"
        yield f"{stay}{because}"
        reasons = tuple(reason.partition(_BECAUSE)[2] for reason in frozen)
        missed = [target for target in missed if not target.endswith(reasons)]
    yield from (f"not reached: {target}" for target in missed)
    if plan["copied_bytes"] and (count := plan["unsized_partitions"]):
        yield f"the size of {count_of(count, 'partition')} is unknown and counts as 0 bytes"
    before, after = plan["metrics"]["fullest_broker_bytes"]
    if before is not None and after > _LARGE_GROWTH * before:
        grows = f"broker {plan['fullest_broker']}: {format_bytes(before)} -> {format_bytes(after)}"
        yield f"{grows}, check that it has room"


_URGENT = DUE_TIMES[:2]  # today and this week
# What has replicas on brokers to restart, in words for its partitions.
_HELPED = {
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
    affected: str  # with replicas there, as in `3 offline and 123 under-replicated partitions`


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


def describe_assumptions(plans: Iterable[PlannedWork]) -> str:
    """Say what the times of plans assume, and that each starts from the cluster as it is now; empty without plans."""
    known = (work.plan["throttle_bytes_per_s"] for work in plans if work.plan and work.plan["feasible"])
    throttles = sorted({throttle for throttle in known if throttle is not None})
    if not throttles:
        return ""
    rates = " to ".join(f"{format_bytes(rate)}/s" for rate in dict.fromkeys((throttles[0], throttles[-1])))
    return (
        f"Times are for copies at {rates} per broker (plans.throttle_bytes_per_s); better and worse are with "
        "all replicas of live brokers in sync. Each plan starts from its cluster as it is now: "
        "after a plan is executed, make the next one again."
    )


def _find_restart(cluster: Mapping[str, Any], index: int) -> Restart | None:
    """Find the brokers to restart: those that are down, if partitions have replicas there; None without any."""
    findings: ClusterFindings = cluster["findings"]
    parts = [(count, words) for issue, words in _HELPED.items() if (count := findings.find(issue).on_down_brokers)]
    if not (down := findings.down_brokers) or not parts:
        return None
    *others, (count, words) = parts
    listed = ", ".join(f"{number:,} {name}" for number, name in others)
    affected = f"{listed} and " * bool(others) + count_of(count, f"{words} partition")
    return Restart(index, cluster["cluster_id"], name_with_noun(down), is_or_are(len(down)), affected)


def list_cluster_plans(cluster: Mapping[str, Any], index: int = 0) -> list[PlannedWork]:
    """List the plans that the verdict of a cluster recommends, in its order. index: of the cluster in the page."""
    restart, plans = _find_restart(cluster, index), []
    for one in list_all_plans(cluster["verdict"]):
        down = cluster["findings"].down_brokers if one.replaces_restart else ()
        plan = cluster["plans"].get(one.goal)
        effects = describe_effects(plan, has_racks=len(cluster["rack_failures"]) > 1)
        if effects and restart and not one.replaces_restart:
            again = f"made while {restart.brokers} {restart.verb} down: make it again after the restart"
            effects = effects._replace(caveats=[again, *effects.caveats])
        racks = one.new_broker_racks
        new = f"{count_of(len(racks), 'new broker')} ({', '.join(Counter(racks))})" if racks else ""
        ids = find_due_time(one.kinds), index, cluster["cluster_id"]
        plans.append(PlannedWork(*ids, one.goal, one.step, plan, effects, down, new))
    return plans


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
        copied = f", {format_bytes(sum(sizes))} to copy, {format_duration(seconds)} one after the other"
        head = f"Due today and this week: {count_of(len(plans), 'plan')}, {changed} to change"
        sentences.append(f"{head}{copied if sizes else ''}.")
    if n := len(plans) - len(sizes):
        sentences.append(f"The sources show no sizes for {count_of(n, 'plan')} of these.")
    reasons = {
        "not computed, or infeasible": len(needed) - len(plans),
        "for new brokers that do not exist yet": len(urgent) - len(possible),
        "needless after a restart": len(possible) - len(needed),
    }
    not_counted = [f"{count_of(n, 'plan')} {reason}" for reason, n in reasons.items() if n]
    if not_counted:
        sentences.append(f"Not counted: {', '.join(not_counted)}.")
    return " ".join(sentences)
