"""The work of a fleet: the plans that the verdicts of all clusters recommend, and what they copy in all."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.quantities import format_bytes, format_duration
from pipelines.report.horizons import DUE_TIMES, find_due_time
from pipelines.verdict.recommended_plans import list_recommended_plans
from udfs.plurals import count_of, is_or_are, it_or_them

_URGENT = DUE_TIMES[:2]  # today and this week


class PlannedWork(NamedTuple):
    """A plan that the verdict of a cluster recommends."""

    due: str  # Today, This week or Watch
    cluster_index: int  # in the page
    cluster_id: str
    goal: str
    plan: Mapping[str, Any] | None  # its row of gold.plans; None = not computed
    down_brokers: Sequence[int]  # not empty = the plan is only needed if these stay down


class FleetWork(NamedTuple):
    """The plans of all clusters, the most urgent first, and what those of today and this week copy, as a sentence."""

    plans: list[PlannedWork]
    summary: str


def list_planned_work(clusters: Sequence[Mapping[str, Any]]) -> FleetWork:
    """List the recommended plans of clusters, which are in the order of rank_urgency."""
    plans = sorted(_find_plans(clusters), key=lambda work: DUE_TIMES.index(work.due))
    return FleetWork(plans, _summarize([work for work in plans if work.due in _URGENT]))


def _find_plans(clusters: Sequence[Mapping[str, Any]]) -> Iterator[PlannedWork]:
    for index, cluster in enumerate(clusters):
        for one in list_recommended_plans(cluster["verdict"]):
            down = cluster["findings"].down_brokers if one.replaces_restart else ()
            plan = cluster["plans"].get(one.goal)
            yield PlannedWork(find_due_time(one.kinds), index, cluster["cluster_id"], one.goal, plan, down)


def _summarize(urgent: Sequence[PlannedWork]) -> str:
    """Say what the plans of today and this week copy in all, and which of them the sums leave out."""
    needed = [work for work in urgent if not work.down_brokers]
    plans = [work.plan for work in needed if work.plan and work.plan["feasible"]]
    if not urgent:
        return "No plan is due today or this week."
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
    if n := len(urgent) - len(needed):
        sentences.append(
            f"{count_of(n, 'repair')} {is_or_are(n)} not counted: a restart makes {it_or_them(n)} needless."
        )
    return " ".join(sentences)
