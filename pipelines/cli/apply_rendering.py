"""Text of `apply`: what it would do, and how far the cluster is."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.cli.check_rendering import render_progress
from pipelines.execution.cluster_execution import ExecutionOptions
from pipelines.execution.cluster_view import name_partitions
from pipelines.execution.plan_application import PlanApplication, PlanPreview
from pipelines.execution.plan_verification import PlanState, Verification
from pipelines.execution.replication_throttle import list_restore_commands
from pipelines.execution.set_throttles import name_throttled
from pipelines.quantities import format_bytes, format_duration
from pipelines.verdict.naming import name_with_noun
from udfs.plurals import count_of


def render_preview(preview: PlanPreview, options: ExecutionOptions) -> Iterator[str]:
    """Render what would be done, and what forbids it, line by line."""
    lines = render_progress(preview.progress)
    if preview.fits_no_longer:
        next(lines)
        yield f"{preview.progress.status}: the cluster has changed; what is left of the plan can be carried out"
    yield from lines
    rate = options.throttle_bytes_per_s
    throttle = "without a throttle" if rate is None else f"throttled to {format_bytes(rate)}/s per broker, each way"
    yield f"with --execute, {throttle}:"
    for work in preview.work:
        if work.partitions and work.wave in options.window.waves:
            size = "" if work.copied_bytes is None else f", {format_bytes(work.copied_bytes)}"
            copies = f", {count_of(work.copies, 'replica')} to copy{size}" if work.copies else ", no copies"
            duration = f", about {format_duration(work.seconds)}" if work.seconds else ""
            yield f"  wave {work.wave}: {count_of(work.partitions, 'partition')}{copies}{duration}"
    if not any(work.partitions for work in preview.work):
        yield "  no partition has to be reassigned"
    if preview.left:
        end = "--cancel removes them" if preview.problems else "they are removed"
        yield f"  throttles of this plan are left on {name_throttled(preview.left)}: {end}"
    if preview.throttled_brokers:
        have = "has" if len(preview.throttled_brokers) == 1 else "have"
        yield f"  warning: {name_with_noun(preview.throttled_brokers)} {have} a throttle of another tool"
        yield "    it is replaced while a wave runs, and then set again; remove it first if it was left behind"
    for text in preview.unchecked_disks:
        yield f"  warning: {text}"
    for problem in preview.problems:
        yield f"  problem: {problem}"
    if preview.is_done:
        yield "Nothing was changed: nothing is left to do."
    elif not preview.problems:
        rest = "carry out the rest" if preview.is_open or preview.progress.done else "carry it out"
        rest = "wait for what is under way, and to carry out the rest" if preview.is_under_way else rest
        yield f"Nothing was changed. Add --execute to {rest}."


def render_verification(
    verification: Verification, application: PlanApplication, options: ExecutionOptions
) -> Iterator[str]:
    """Render how far a cluster is on the way through a plan, line by line."""
    partitions = count_of(verification.planned - len(verification.gone), "partition")
    if verification.planned and verification.planned == len(verification.gone):
        yield "no partition of the plan is left: its topics were deleted"
    elif verification.state is PlanState.APPLIED:
        yield f"as planned: {partitions}, in the order of the plan; no throttle of the plan is left"
    elif verification.state is PlanState.NOT_APPLIED:
        yield f"as before the plan, which is not applied: {partitions}; no throttle of the plan is left"
    else:
        yield f"{verification.done} of {partitions} as planned, {verification.not_begun} as before"
    lists = {
        "being reassigned": verification.moving,
        "going back, by a rollback that is under way or was interrupted": verification.returning,
        "with replicas that the plan does not know": verification.differing,
        "deleted, or deleted and created again": verification.gone,
        "under-replicated": verification.under_replicated,
        "not led by their preferred leader": verification.not_preferred,
    }
    for what, keys in lists.items():
        if keys:
            yield f"  {count_of(len(keys), 'partition')} {what}: {name_partitions(keys)}"
    if verification.restored:
        where = name_throttled(verification.restored)
        yield f"  throttles that were set before this plan are set again on {where}"
    if verification.unanswered_brokers:
        brokers = name_with_noun(verification.unanswered_brokers)
        yield f"  whether throttles are left is not known: no answer from {brokers}"
    if verification.throttled:
        where = name_throttled(verification.throttled)
        when = "Once no partition is being reassigned" if verification.moving else "If no other tool needs them"
        yield f"  throttles are set on {where}. {when}, remove them:"
        servers = application.connection.servers
        for command in list_restore_commands(verification.throttled, servers, options.command_config):
            yield f"    {command}"
