"""The answer of `plan --check` as text."""

from collections.abc import Iterable, Iterator

from pipelines.plan_files.plan_folder import ELECTION, REASSIGNMENT
from pipelines.plan_files.plan_progress import ChangedPartition, PlanProgress, PlanStatus, Reassignment
from udfs.planning.plan_text import join_names

_LISTED = 10  # of each kind
_EXPLANATIONS = {
    PlanStatus.FITS: "the plan fits: the assignment is unchanged since then, and no partition is being reassigned",
    PlanStatus.CHANGED: "the plan does not fit: the cluster has changed since then. Make a new plan",
    PlanStatus.IN_FLIGHT: "wait: partitions are being reassigned",
    PlanStatus.PARTLY_DONE: "the plan is partly done",
    PlanStatus.DONE: "the plan is done: all partitions are as planned",
}


def render_progress(progress: PlanProgress) -> Iterator[str]:
    """Render a plan's progress, line by line."""
    status = progress.status
    yield f"{status}: {_EXPLANATIONS[status]}"
    yield f"  partitions as planned: {progress.done} of {progress.planned}"
    racks = (f"{r.broker} is in {r.now}, was in {r.before or 'an unknown rack'}" for r in progress.changed_racks)
    yield from _list("missing topics", progress.missing_topics)
    yield from _list("new topics", progress.new_topics)
    yield from _list("missing brokers", progress.missing_brokers)
    yield from _list("failed brokers", progress.down_brokers)
    yield from _list("new brokers", progress.new_brokers)
    yield from _list("brokers in another rack than before", racks)
    yield from _list("brokers that the source wants empty, unlike before", progress.drained_brokers)
    yield from _list("changed partitions", map(_describe_change, progress.changed_partitions))
    yield from _list("partitions being reassigned", map(_describe_reassignment, progress.in_flight))
    if progress.done or status == PlanStatus.PARTLY_DONE:
        for wave in progress.waves:
            yield f"  {wave.file}: {wave.done} of {wave.done + wave.missing} done"
    if status in (PlanStatus.FITS, PlanStatus.PARTLY_DONE):
        yield from _render_next_step(progress)
    if status in (PlanStatus.PARTLY_DONE, PlanStatus.DONE):
        leaders = (
            f"{e.topic}-{e.partition} (leader {e.leader}, not {e.preferred})" for e in progress.pending_elections
        )
        yield from _list(f"preferred leaders that do not lead, see {ELECTION}", leaders)
        if not progress.leaders_known:
            yield "  note: no source shows leaders, so elections cannot be checked"
    if not progress.racks_known and status != PlanStatus.DONE:
        yield "  note: no source shows racks now, so changes of racks cannot be checked"


def _render_next_step(progress: PlanProgress) -> Iterator[str]:
    first = next((wave for wave in progress.waves if wave.missing), None)
    if first is None:
        return
    later_done = any(wave.done for wave in progress.waves if wave.wave > first.wave)
    yield f"  next: kafka-reassign-partitions --execute with {REASSIGNMENT if later_done else first.file}"
    if later_done:
        yield "    (not a wave's file: parts of later waves are done, and an earlier file would undo them)"


def _describe_change(change: ChangedPartition) -> str:
    name = f"{change.topic}-{change.partition}"
    if change.now is None:
        return f"{name} is missing"
    if change.planned is None:
        return f"{name} is now {change.now}, and the plan does not change it"
    return f"{name} is now {change.now}, was {change.planned[0]}, and is planned as {change.planned[-1]}"


def _describe_reassignment(move: Reassignment) -> str:
    planned = "as planned" if move.planned else "not in this plan"
    return f"{move.topic}-{move.partition} (adding {move.adding}, removing {move.removing}, {planned})"


def _list(title: str, items: Iterable[object]) -> Iterator[str]:
    texts = [str(item) for item in items]
    if texts:
        yield f"  {title}: {join_names(texts, _LISTED)}"
