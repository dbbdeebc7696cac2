"""Text of `apply`: what it would do, and how far the cluster is."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pipelines.cli.check_rendering import render_progress, render_rest
from pipelines.execution.cluster_execution import ExecutionOptions
from pipelines.execution.cluster_view import name_partitions
from pipelines.execution.journal import EarlierConfigs
from pipelines.execution.plan_application import PlanApplication, PlanPreview, RollbackPreview
from pipelines.execution.plan_verification import PlanState, Verification
from pipelines.execution.preflight import WaveWork
from pipelines.execution.replication_throttle import explain_foreign, list_restore_commands, name_throttled
from pipelines.execution.wave_window import WaveWindow, describe_waves
from pipelines.live.kafka_connection import Key
from pipelines.plan_files.fault_sentences import describe_changed, describe_undone, explain_moved_on
from pipelines.verdict.cluster_evidence import name_with_noun
from udfs.wording import count_of, estimate_duration, format_bytes, is_or_are, it_or_them


def render_preview(preview: PlanPreview, options: ExecutionOptions) -> Iterator[str]:
    """Render what would be done, and what forbids it, line by line."""
    lines = render_progress(preview.progress)
    if preview.fits_no_longer:
        next(lines)
        yield f"{preview.progress.status}: the cluster has changed; what is left of the plan can be carried out"
    yield from lines
    if preview.level and not preview.is_done:
        yield f"when it was made, the plan was judged {preview.level}"
    progress = preview.progress
    if preview.is_open or not (progress.undone_plans or progress.moved_on):  # else it is not what the plan would do
        pace = f"; times are {preview.pace}" if str(preview.pace) else ""
        yield f"with --execute, {_describe_throttle(options)}{pace}:"
        yield from _render_work(preview.work, options.window)
    if preview.cordons:
        verb, out = is_or_are(len(preview.cordons)), f"leave {it_or_them(len(preview.cordons))} out"
        yield f"  {name_with_noun(preview.cordons)} {verb} cordoned from the first wave on whose lists {out}"
    if preview.left:
        end = "--cancel removes them" if preview.problems else "they are removed"
        yield f"  throttles of this plan are left on {name_throttled(preview.left)}: {end}"
    yield from _warn_of_foreign(preview.foreign, options)
    for text in preview.warnings:
        yield f"  warning: {text}"
    for problem in preview.problems:
        yield f"  problem: {problem}"
    if preview.is_done:
        yield "Nothing was changed: nothing is left to do."
    elif not preview.problems:
        rest = "carry out the rest" if preview.is_open or preview.progress.done else "carry it out"
        rest = "wait for what is under way, and to carry out the rest" if preview.is_under_way else rest
        yield f"Nothing was changed. Add --execute to {rest}."


def render_rollback(preview: RollbackPreview, options: ExecutionOptions) -> Iterator[str]:
    """Render what would go back, and what forbids it, line by line."""
    yield f"with --rollback --execute, {_describe_throttle(options)}:"
    yield from _render_work(preview.work, options.window)
    yield from _warn_of_foreign(preview.foreign, options)
    if preview.irreversible:
        count, names = count_of(len(preview.irreversible), "partition"), name_partitions(preview.irreversible)
        yield f"  warning: {count} cannot be rolled back, as brokers are down: {names}"
    for problem in preview.problems:
        yield f"  problem: {problem}"
    if not preview.problems:
        has_work = any(work.partitions for work in preview.work)
        end = "Add --execute to roll it back." if has_work else "Nothing is left to roll back."
        yield f"Nothing was changed. {end}"


def _describe_throttle(options: ExecutionOptions) -> str:
    rate = options.throttle_bytes_per_s
    return "without a throttle" if rate is None else f"throttled to {format_bytes(rate)}/s per broker, each way"


def _warn_of_foreign(foreign: EarlierConfigs, options: ExecutionOptions) -> Iterator[str]:
    """Say what becomes of the throttles of other tools."""
    if foreign:
        warning, remedy = explain_foreign(foreign, options.throttle_bytes_per_s)
        yield f"  warning: {warning}"
        yield f"    {remedy}"


def _render_work(work: Sequence[WaveWork], window: WaveWindow) -> Iterator[str]:
    """Render what the waves of a window have to do, and which of them would end in time."""
    chosen = [one for one in work if one.partitions and one.wave in window.waves]
    end, fitting = datetime.now(UTC), list[int]()
    for number, one in enumerate(chosen):
        end += timedelta(seconds=one.seconds or 0)
        text = f"  wave {one.wave}: {_describe_work(one.partitions, one.copies, one.copied_bytes, one.seconds)}"
        if window.until is not None:
            is_late = end > window.until or len(fitting) < number
            fitting += [] if is_late else [one.wave]
            text += f", would end at {window.format(end)}: not begun" if is_late else f", ends at {window.format(end)}"
        yield text
    if not chosen:
        yield "  no partition has to be reassigned"
    elif len(chosen) > 1:
        sizes, times = [one.copied_bytes for one in chosen], [one.seconds for one in chosen]
        size, seconds = (None if None in values else sum(filter(None, values)) for values in (sizes, times))
        sums = (len({key for one in chosen for key in one.keys}), sum(one.copies for one in chosen))
        yield f"  in all: {_describe_work(*sums, None if size is None else int(size), seconds)}"
    if chosen and window.until is not None:
        fit = f"{describe_waves(fitting)} {'fits' if len(fitting) == 1 else 'fit'}" if fitting else "no wave fits"
        yield f"  until {window.format(window.until)}: {fit}"


def _describe_work(partitions: int, copies: int, copied_bytes: int | None, seconds: float | None) -> str:
    size = "" if copied_bytes is None else f", {format_bytes(copied_bytes)}"
    text = f", {count_of(copies, 'replica')} to copy{size}" if copies else ", no copies"
    return f"{count_of(partitions, 'partition')}{text}" + (f", {estimate_duration(seconds)}" if seconds else "")


def render_verification(
    verification: Verification, application: PlanApplication, options: ExecutionOptions
) -> Iterator[str]:
    """Render how far a cluster is on the way through a plan, line by line."""
    partitions = count_of(verification.planned - len(verification.gone), "partition")
    if verification.undone_plans:
        yield f"not applied: {describe_undone(verification.undone_plans)}"
    elif verification.planned and verification.planned == len(verification.gone):
        yield "no partition of the plan is left: its topics were deleted"
    elif verification.state is PlanState.APPLIED:
        yield f"as planned: {partitions}, in the order of the plan; no throttle of the plan is left"
    elif verification.state is PlanState.NOT_APPLIED:
        yield f"as before the plan, which is not applied: {partitions}; no throttle of the plan is left"
    else:
        yield f"{verification.done} of {partitions} as planned, {verification.not_begun} as before"
    cancelled = application.journal.find_cancelled_lists()  # whose order is restored when the plan goes on
    changed = [key for key in verification.differing if key not in cancelled]
    if changed and not verification.undone_plans:
        yield f"  {describe_changed(changed)}: {explain_moved_on(verification.has_begun)}"
    elif verification.waves_left and verification.state is not PlanState.NOT_APPLIED:
        left, waves = len(verification.waves_left), len(application.plan.waves)
        yield from render_rest(left, waves, [verification.bytes_left])
    lists = {
        "being reassigned": verification.moving,
        "going back, by a rollback that is under way or was interrupted": verification.returning,
        "with replicas that the plan does not know": [] if changed else verification.differing,
        "deleted, or deleted and created again": verification.gone,
        "under-replicated": verification.under_replicated,
        "not led by their preferred leader": verification.not_preferred,
    }
    for what, keys in lists.items():
        if keys:
            yield f"  {count_of(len(keys), 'partition')} {what}: {name_partitions(keys)}"
    if not changed and not verification.undone_plans:
        yield from (f"  then: {text}" for text in application.plan.next_steps)
    if verification.state is PlanState.APPLIED and (others := verification.others_not_preferred):
        servers = shlex.quote(application.connection.servers)
        count, them = f"{count_of(others, 'partition')} beside the plan {is_or_are(others)}", it_or_them(others)
        yield f"  {count} not led by the preferred leader, as after failures of brokers. To elect {them}:"
        yield f"    kafka-leader-election --bootstrap-server {servers} --election-type preferred --all-topic-partitions"
    if verification.state is PlanState.APPLIED:
        yield from _render_drained(application.find_drained(), application.connection.servers)
    if verification.restored:
        where = name_throttled(verification.restored)
        yield f"  throttles that were set before this plan are set on {where}"
    if verification.unanswered_brokers:
        brokers = name_with_noun(verification.unanswered_brokers)
        yield f"  whether throttles are left is not known: no answer from {brokers}"
    if verification.throttled:
        where = name_throttled(verification.throttled)
        if (holder := application.lock_holder) is not None:
            is_own = application.running_process is not None
            does = "carries the plan on, and removes them at the end"
            does = does if is_own else "carries out another plan, and may need them: verify again once it has ended"
            yield f"  throttles are set on {where}: {holder} {does}"
            return
        when = "Once no partition is being reassigned" if verification.moving else "If no other tool needs them"
        yield f"  throttles are set on {where}. {when}, remove them:"
        servers = application.connection.servers
        for command in list_restore_commands(verification.throttled, servers, options.command_config):
            yield f"    {command}"


def _render_drained(drained: Mapping[int, Sequence[Key]], servers: str) -> Iterator[str]:
    """Render what the brokers that a plan empties still have, and how to unregister those that are empty."""
    for broker, keys in drained.items():
        if keys:
            yield f"  broker {broker} still has {count_of(len(keys), 'replica')}: {name_partitions(keys)}"
            continue
        yield f"  broker {broker} is empty: it has no replica. To remove it, stop it, and then unregister it (KRaft):"
        yield f"    kafka-cluster unregister --bootstrap-server {shlex.quote(servers)} --id {broker}"
