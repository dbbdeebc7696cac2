"""Text of `check`: the verdict on a plan, what its waves do, and how much of it is done."""

import shlex
from collections.abc import Collection, Iterable, Iterator

from pipelines.cli.text_format import align_rows
from pipelines.execution.wave_window import describe_waves
from pipelines.plan_files import plan_writer
from pipelines.plan_files.fault_sentences import describe_changed, describe_running, describe_undone, explain_moved_on
from pipelines.plan_files.plan_check import ChangedPartition, PlanProgress, PlanStatus, Reassignment
from pipelines.plan_files.plan_judgement import PlanJudgement
from pipelines.plan_files.planned_cluster import RunningReassignment, RunningReassignments
from pipelines.verdict.cluster_evidence import name_with_noun
from udfs.planning.plan_states import PlanLevel
from udfs.wording import count_of, format_bytes, format_duration, is_or_are, join_names

_CANCEL_KEYS = {"the stuck ones": "cancel_stuck", "all": "cancel"}
_LISTED_ITEMS = 10  # of each kind
_FIRST, _LAST = 12, 6  # waves in the table, if there are more than both together
_EXPLANATIONS = {
    PlanStatus.FITS: "the plan fits: the assignment is unchanged since then, and no partition is being reassigned",
    PlanStatus.CHANGED: "the plan does not fit the cluster as it is now, see below. Make a new plan",
    PlanStatus.EXECUTING: "the partitions being reassigned are the plan's own step",
    PlanStatus.ROLLING_BACK: "its rollback is under way, or was interrupted. End it with apply --rollback or --cancel",
    PlanStatus.PARTLY_DONE: "the plan is partly done",
    PlanStatus.DONE: "the plan is done: all partitions are as planned",
}

_SUMMARIES = {
    PlanLevel.SAFE: "no step makes a partition weaker than it is {}, or overloads a broker",
    PlanLevel.RISKY: "it can be executed, but the cluster is weaker during or after it than {}",
    PlanLevel.HARMFUL: "do not execute it: it harms the cluster as it is {}",
    PlanLevel.REJECTED: "Kafka or its tools would not execute it as it is",
}


def render_findings(judgement: PlanJudgement) -> Iterator[str]:
    """Render the verdict on a plan, and its reasons, line by line."""
    yield f"{judgement.level}: {_SUMMARIES[judgement.level].format(judgement.baseline)}"
    yield from (f"  {finding.level}: {finding.text}" for finding in judgement.findings)
    yield from (f"  note: {note}" for note in judgement.notes)


def render_judgement(judgement: PlanJudgement) -> Iterator[str]:
    """Render the verdict on a plan, its reasons, and its waves, line by line."""
    yield from render_findings(judgement)
    if judgement.waves:
        yield from _render_waves(judgement)


def render_rest(left: int, waves: int, sizes: Collection[float | None]) -> Iterator[str]:
    """Render how many waves of stored plans are left, and what they copy: bytes, None = not known."""
    size = "" if None in sizes else f", {format_bytes(sum(filter(None, sizes)))} to copy"
    if left:
        yield f"  {count_of(left, 'wave')} of {waves} left{size}"


def _render_waves(judgement: PlanJudgement) -> Iterator[str]:
    now, has_sizes = judgement.now, judgement.waves[0].bytes_to_copy is not None
    counts = {
        "under-replicated": "under_replicated_partitions",
        "below min ISR": "under_min_isr_partitions",
        "one in sync": "one_in_sync_partitions",
        "offline or blocked if a broker fails, RF > 1": "blocked_if_a_broker_fails",
    }
    headings = ["wave", "partitions", "replicas"]
    headings += ["copied", "in total", f"time at {format_bytes(judgement.throttle_bytes_per_s)}/s"] * has_sizes
    headings += ["slowest broker"] * has_sizes
    headings += [f"{title} ({judgement.moment} {now[name]:,})" for title, name in counts.items()]
    rows, total = [[*headings, "rollback copies"]], 0
    for wave in judgement.waves:
        row = [wave.file, f"{wave.partitions:,}", f"{wave.replicas_added:,}"]
        if has_sizes:
            total += wave.bytes_to_copy or 0
            row += [format_bytes(wave.bytes_to_copy or 0), format_bytes(total), format_duration(wave.seconds or 0)]
            row.append("-" if wave.slowest_broker is None else f"{wave.slowest_broker}")
        row += [f"{getattr(wave, name):,}" for name in counts.values()]
        rows.append([*row, wave.rollback])
    lines = [f"  {line}" for line in align_rows(rows)]
    if (more := len(judgement.waves) - _FIRST - _LAST) > 0:
        lines[_FIRST + 1 : _FIRST + 1 + more] = [f"  ... {count_of(more, 'more wave')}: --json has all"]
    yield from lines


def render_running(running: RunningReassignments, servers: str = "HOST:PORT") -> Iterator[str]:
    """Render the reassignments that are under way, those that do not end by themselves first.

    servers: of the cluster, for commands.
    """
    if not running.partitions:
        unknown = "whether a partition is being reassigned is not known: the cluster has not answered that"
        yield "no partition is being reassigned" if running.is_known else unknown
        return
    yield f"{count_of(len(running.partitions), 'partition')} being reassigned, {len(running.stuck):,} of them stuck"
    if running.bytes_left is not None:
        rates = [
            one.rate_bytes_per_s for one in running.partitions if one.rate_bytes_per_s is not None and not one.is_stuck
        ]
        rest = " beside the stuck ones" if running.stuck else ""
        if any(one.bytes_left is None and one.waits_for and not one.is_stuck for one in running.partitions):
            rest += " and those of unknown size" if rest else " beside those of unknown size"
        rate = sum(rates) if rates else None
        left = _describe_left(running.bytes_left, running.seconds_left, rate, running.throttle_bytes_per_s)
        yield f"  in all{rest}: {left}"
    for one in sorted(running.partitions, key=lambda one: not one.is_stuck)[:_LISTED_ITEMS]:
        yield f"  {one.topic}-{one.partition}: {_describe_running(one, running.throttle_bytes_per_s)}"
    if (more := len(running.partitions) - _LISTED_ITEMS) > 0:
        yield f"  and {more:,} more: --json has all"
    groups = {"the stuck ones": (running.cancel_stuck, running.stuck), "all": (running.cancel, running.partitions)}
    for name, (text, partitions) in groups.items():
        if partitions and (name != "all" or text != running.cancel_stuck):
            yield f"  to cancel {name}: kafka-reassign-partitions --cancel --reassignment-json-file FILE, and in FILE:"
            is_short = len(partitions) <= _LISTED_ITEMS
            yield f"    {''.join(text.split())}" if is_short else f"    what --json has as {_CANCEL_KEYS[name]}"
    yield "  to cancel those of a plan that apply carries out, and to remove its throttles:"
    yield f"    kafka-placement apply PLAN --bootstrap-server {shlex.quote(servers)} --cancel"


def _describe_running(one: RunningReassignment, throttle_bytes_per_s: float) -> str:
    parts = [f"{verb} {join_names(ids)}" for verb, ids in (("adds", one.adding), ("removes", one.removing)) if ids]
    if one.waits_for_removed:
        removed = name_with_noun(one.waits_for_removed)
        parts.append(f"waits for {removed}, which it removes: it does not end until it is cancelled")
    elif one.down:
        back = "it is" if len(one.down) == 1 else "they are"
        parts.append(f"waits for {name_with_noun(one.down)}, down: it does not end until {back} back")
    elif one.waits_for:
        parts.append(f"waits for {name_with_noun(one.waits_for)}")
    if one.bytes_left is not None and not one.is_stuck:
        parts.append(_describe_left(one.bytes_left, one.seconds_left, one.rate_bytes_per_s, throttle_bytes_per_s))
    return ", ".join(parts)


def _describe_left(bytes_left: int, seconds_left: float | None, rate_bytes_per_s: float | None, throttle: float) -> str:
    rate = f"a throttle of {format_bytes(throttle)}/s"
    rate = rate if rate_bytes_per_s is None else f"{format_bytes(rate_bytes_per_s)}/s as now"
    time = "nothing is copied" if seconds_left is None else f"{format_duration(seconds_left)} at {rate}"
    return f"{format_bytes(bytes_left)} left, {time}"


def render_progress(progress: PlanProgress, earlier: Iterable[object] = ()) -> Iterator[str]:
    """Render a plan's progress, line by line. earlier: plans that must be executed first."""
    status = progress.status
    if progress.follower is not None:
        yield f"{status}: the plan is done, and the plan in {progress.follower} followed it"
        return
    if progress.applied_at is not None:
        changed = describe_changed(progress.moved_on)
        yield f"{status}: the plan was carried out until {progress.applied_at}; since then, {changed}"
        return
    others = [(move.topic, move.partition) for move in progress.in_flight if not (move.planned or move.rolls_back)]
    explanation = _EXPLANATIONS.get(status) or "; ".join(describe_running(others))
    if progress.changes_beside_plan and status == PlanStatus.FITS:
        explanation = "the plan fits: the cluster has changed, but nothing that the plan uses. Its metrics are of then"
    if progress.moved_on:
        explanation = f"{describe_changed(progress.moved_on)}: {explain_moved_on(progress.has_begun)}"
    if status == PlanStatus.EXECUTING:
        waves = describe_waves(sorted({move.wave for move in progress.in_flight if move.wave}))
        explanation = f"{waves}, with {count_of(len(progress.in_flight), 'partition')} being reassigned as planned"
    if progress.needs_only_brokers:
        down = name_with_noun(progress.down_brokers)
        explanation = f"the plan needs {down}, down now: start what is down and go on, or make a new plan"
    if progress.undone_plans:
        explanation = describe_undone(progress.undone_plans)
    pending = len(progress.pending_elections)
    if pending and status == PlanStatus.DONE:
        explanation = f"all replicas are as planned, but {count_of(pending, 'preferred leader')} must still be elected"
    yield f"{status}: {explanation}"
    yield f"  partitions as planned: {progress.done} of {progress.planned}"
    racks = (f"{r.broker} is in {r.now}, was in {r.before or 'an unknown rack'}" for r in progress.changed_racks)
    yield from _list("missing topics", progress.missing_topics)
    yield from _list("new topics", progress.new_topics)
    yield from _list("missing brokers", progress.missing_brokers)
    if progress.missing_brokers:
        them, they = ("it", "it is") if len(progress.missing_brokers) == 1 else ("them", "they are")
        added = ",".join(progress.add_brokers)
        yield f"    no source shows {them} now. If {they} live, check again with --add-brokers {added}"
    yield from _list("failed brokers", progress.down_brokers)
    yield from _list("new brokers", progress.new_brokers)
    yield from _list("brokers that are back, from which this plan moves replicas away", progress.returned_brokers)
    yield from _list("brokers in another rack than before", racks)
    yield from _list("brokers that the source newly marks for draining", progress.drained_brokers)
    yield from _list("log dirs", progress.log_dir_problems)
    yield from _list("changed partitions", map(_describe_change, progress.changed_partitions))
    moves = (
        f"{move.topic}-{move.partition} (adding {move.adding}, removing {move.removing}, {_describe_aim(move)})"
        for move in progress.in_flight
    )
    yield from _list("partitions being reassigned", moves)
    if status in (PlanStatus.EXECUTING, PlanStatus.ROLLING_BACK):
        yield from _explain_apply(progress)
    if progress.done or status in (PlanStatus.PARTLY_DONE, PlanStatus.EXECUTING):
        for wave in progress.waves:
            yield f"  {wave.file}: {wave.done} of {wave.done + wave.missing} done"
    first = next((wave for wave in progress.waves if wave.missing), None)
    if status in (PlanStatus.FITS, PlanStatus.PARTLY_DONE) and first is not None:
        later_done = any(wave.done for wave in progress.waves if wave.wave > first.wave)
        file = plan_writer.REASSIGNMENT if later_done else first.file
        after = "".join(f", after {one}" for one in earlier)
        yield f"  next{after}: kafka-reassign-partitions --execute with {file}"
        if later_done:
            yield "    (not a wave's file: parts of later waves are done, and an earlier file would undo them)"
    if status in (PlanStatus.PARTLY_DONE, PlanStatus.DONE):
        leaders = (
            f"{e.topic}-{e.partition} (leader {e.leader}, not {e.preferred})" for e in progress.pending_elections
        )
        yield from _list(f"preferred leaders that do not lead ({pending:,})", leaders)
        if pending and status == PlanStatus.DONE:
            yield f"  next: kafka-leader-election --election-type preferred with {plan_writer.ELECTION}"
        if not progress.leaders_known:
            yield "  note: no source shows leaders, so elections cannot be checked"
    yield from (f"  then: {text}" for text in progress.next_steps)
    if not progress.racks_known and status != PlanStatus.DONE:
        yield "  note: no source shows racks now, so changes of racks cannot be checked"


def _explain_apply(progress: PlanProgress) -> Iterator[str]:
    """Say what apply does with a plan that is being executed or rolled back."""
    needed = {broker for one in progress.pending for broker in (*one.now, *one.after)}
    if down := sorted(needed.intersection((*progress.down_brokers, *progress.missing_brokers))):
        are = "it is" if len(down) == 1 else "they are"
        yield f"  apply pauses while {name_with_noun(down)} {is_or_are(len(down))} down, and continues once {are} back."
        yield "    Start what is down; or end it with apply --cancel or --rollback"
    elif progress.status is PlanStatus.EXECUTING:
        yield "  next: wait for it; if it was interrupted, continue with apply --execute, --cancel or --rollback"


def _describe_aim(move: Reassignment) -> str:
    if move.rolls_back:
        return f"which rolls back wave {move.wave}"
    return "as planned" if move.planned else "not in this plan"


def _describe_change(change: ChangedPartition) -> str:
    name = f"{change.topic}-{change.partition}"
    if change.now is None:
        return f"{name} is missing"
    if change.planned is None:
        does = "elects its preferred leader" if change.elected else "does not change it"
        return f"{name} is now {change.now}, and the plan {does}"
    return f"{name} is now {change.now}, was {change.planned[0]}, and is planned as {change.planned[-1]}"


def _list(title: str, items: Iterable[object]) -> Iterator[str]:
    texts = [str(item) for item in items]
    if texts:
        yield f"  {title}: {join_names(texts, _LISTED_ITEMS)}"
