"""`apply`: carries out a plan on its running cluster, wave by wave; or rolls it back, cancels or verifies it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.app import app, examples
from pipelines.cli.option_values import parse_path, parse_place, parse_server, whole_number
from pipelines.cli.source_arguments import CommandConfigOption
from pipelines.cli.text_format import format_count, print_line
from pipelines.errors import EXIT_INPUT
from pipelines.execution.cluster_view import name_partitions
from pipelines.execution.journal import JOURNAL
from pipelines.quantities import format_bytes

if TYPE_CHECKING:
    from pipelines.execution.plan_application import PlanApplication, PlanPreview
    from pipelines.execution.plan_executor import ExecutionOptions
    from pipelines.execution.plan_verification import Verification
    from udfs.failures.topic_defaults import TopicDefaults

EXIT_INTERRUPTED = 130
_NO_THROTTLE = "none"


class _Mode(StrEnum):
    PREVIEW = "preview"
    EXECUTE = "execute"
    ROLLBACK = "rollback"
    CANCEL = "cancel"
    VERIFY = "verify"


def _flag(name: str, text: str) -> Any:
    return typer.Option(f"--{name}", help=text)


@app.command(rich_help_panel="Running clusters", epilog=examples("apply"))
def apply(
    plan: Annotated[Path, typer.Argument(help="The folder that `plan --out` made.", metavar="PLAN", parser=parse_path)],
    server: Annotated[
        str,
        typer.Option("--bootstrap-server", help="Brokers to connect to.", metavar="HOST:PORT,...", parser=parse_server),
    ],
    command_config: CommandConfigOption = None,
    execute: Annotated[bool, _flag("execute", "Carry out the plan, or the rest of it.")] = False,
    rollback: Annotated[bool, _flag("rollback", "Return to the assignment before the plan.")] = False,
    cancel: Annotated[bool, _flag("cancel", "Cancel the reassignments that are under way.")] = False,
    verify: Annotated[bool, _flag("verify", "Check that the cluster is as planned, without throttles.")] = False,
    throttle: Annotated[
        str | None,
        typer.Option(
            help="Bytes per second that a broker copies, as in 50MB; none to copy without a throttle.",
            metavar="SIZE",
            show_default="the plan's",
        ),
    ] = None,
    max_under_replicated: Annotated[
        int | None,
        typer.Option(
            help="Pause while more partitions are under-replicated.",
            metavar="N",
            show_default="as many as at the start",
            parser=whole_number(0, 10**9),
        ),
    ] = None,
    max_pause: Annotated[
        int,
        typer.Option(
            help="Seconds after which a pause ends the command.", metavar="SECONDS", parser=whole_number(1, 10**7)
        ),
    ] = 3600,
    warehouse: Annotated[
        str | None,
        typer.Option(
            help="Also write the journal to the tables in this folder.",
            metavar="DIR",
            show_default="not written",
            parser=parse_place,
        ),
    ] = None,
) -> None:
    """Carry out a plan on its running cluster; without one of --execute, --rollback, --cancel and --verify, preview it.

    Repeat --execute or --rollback to continue one that was interrupted. PLAN/execution.jsonl is its journal;
    --warehouse writes it to gold.plan_executions, with Spark.
    """
    from pipelines.cli.plan_options import parse_size
    from pipelines.config.settings import load_settings
    from pipelines.execution.plan_application import PlanApplication
    from pipelines.execution.plan_executor import ExecutionOptions
    from pipelines.live.kafka_changes import KafkaAdmin
    from pipelines.live.live_sources import select_properties

    mode = _select_mode({_Mode.EXECUTE: execute, _Mode.ROLLBACK: rollback, _Mode.CANCEL: cancel, _Mode.VERIFY: verify})
    rate = parse_size(throttle, "--throttle") if throttle not in (None, _NO_THROTTLE) else None
    properties = select_properties(None, [command_config] if command_config else [])
    defaults = load_settings([]).topics.defaults
    with KafkaAdmin(server, properties) as connection:
        application = PlanApplication(plan, connection, print_line)
        if throttle is None:
            rate = application.plan.throttle_bytes_per_s
        options = ExecutionOptions(rate, max_under_replicated, float(max_pause))
        try:
            code = _act(application, mode, options, defaults, plan)
        except KeyboardInterrupt:
            print_line("interrupted: reassignments that are under way continue, and throttles stay set after them.")
            print_line("Repeat the command to continue and to remove the throttles, or use --cancel or --rollback.")
            code = EXIT_INTERRUPTED
    if warehouse is not None:
        _write_history(application, warehouse)
    raise typer.Exit(code)


def _write_history(application: PlanApplication, warehouse: str) -> None:
    """Write what the waves took to gold.plan_executions."""
    from pipelines.cli.common_options import open_store, read_settings
    from pipelines.execution.execution_history import get_plan_id, get_snapshot, list_wave_executions
    from pipelines.execution.journal import Journal
    from pipelines.spark.arrow_frames import create_frame
    from pipelines.tables.execution_tables import PLAN_EXECUTIONS

    plan = application.plan
    rows = list_wave_executions(Journal.open(application.folder), plan)
    store = open_store(read_settings(None, None, warehouse), small=True, writing=True)
    key, names = get_snapshot(plan), PLAN_EXECUTIONS.column_names
    others = store.read_rows(PLAN_EXECUTIONS.name, [key], names) if store.exists(PLAN_EXECUTIONS.name) else []
    all_rows = [tuple(row[name] for name in names) for row in others if row["plan_id"] != get_plan_id(plan)] + rows
    store.replace(PLAN_EXECUTIONS, create_frame(store.spark, all_rows, PLAN_EXECUTIONS.schema), [key])
    print_line(f"{PLAN_EXECUTIONS.name}: {format_count(len(rows), 'row')} of this plan")


def _select_mode(flags: dict[_Mode, bool]) -> _Mode:
    chosen = [mode for mode, flag in flags.items() if flag]
    if len(chosen) > 1:
        raise typer.BadParameter(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    return chosen[0] if chosen else _Mode.PREVIEW


def _act(
    application: PlanApplication, mode: _Mode, options: ExecutionOptions, defaults: TopicDefaults, folder: Path
) -> int:
    """Do what the options ask for, and return the exit code."""
    if mode is _Mode.VERIFY:
        verification = application.verify()
        _print(_render_verification(verification))
        return 0 if verification.is_applied or verification.is_rolled_back else EXIT_INPUT
    if mode is _Mode.PREVIEW:
        preview = application.preview(options, defaults)
        if journal := application.describe_journal():
            print_line(f"journal: {journal}")
        _print(_render_preview(preview, options))
        return EXIT_INPUT if preview.problems else 0
    if mode is _Mode.EXECUTE:
        if not application.execute(options, defaults):
            print_line("The plan is applied already: nothing to do.")
            return 0
    elif mode is _Mode.ROLLBACK:
        application.roll_back(options)
    else:
        application.cancel(options)
    verification = application.verify()
    _print(_render_verification(verification))
    print_line(f"journal: {folder / JOURNAL}")
    succeeded = {_Mode.EXECUTE: verification.is_applied, _Mode.ROLLBACK: verification.is_rolled_back}
    return 0 if succeeded.get(mode, True) else EXIT_INPUT


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print_line(line)


def _render_preview(preview: PlanPreview, options: ExecutionOptions) -> Iterator[str]:
    from pipelines.cli.plan_rendering import render_progress

    yield from render_progress(preview.progress)
    rate = options.throttle_bytes_per_s
    throttle = "without a throttle" if rate is None else f"throttled to {format_bytes(rate)}/s per broker, each way"
    yield f"with --execute, {throttle}:"
    for work in preview.work:
        if work.partitions:
            size = "" if work.copied_bytes is None else f", {format_bytes(work.copied_bytes)}"
            copies = f", {format_count(work.copies, 'replica')} to copy{size}" if work.copies else ", no copies"
            yield f"  wave {work.wave}: {format_count(work.partitions, 'partition')}{copies}"
    if not any(work.partitions for work in preview.work):
        yield "  no partition has to be reassigned"
    if preview.throttled_brokers:
        ids = ", ".join(map(str, preview.throttled_brokers))
        yield f"  warning: brokers {ids} have a throttle of another tool, or of a journal that is lost"
        yield "    it is replaced while a wave runs, and then set again; remove it first if it was left behind"
    for text in preview.unchecked_disks:
        yield f"  warning: {text}"
    for problem in preview.problems:
        yield f"  problem: {problem}"
    if not preview.problems:
        rest = "wait for what is under way, and to carry out the rest" if preview.is_under_way else "carry it out"
        yield f"Nothing was changed. Add --execute to {rest}."


def _render_verification(verification: Verification) -> Iterator[str]:
    partitions = format_count(verification.planned - len(verification.gone), "partition")
    if verification.planned == len(verification.gone):
        yield "no partition of the plan is left: its topics were deleted"
    elif verification.is_applied:
        yield f"as planned: {partitions}, in the order of the plan; no throttle is left"
    elif verification.is_rolled_back:
        yield f"as before the plan: {partitions}; no throttle is left"
    else:
        yield f"{verification.done} of {partitions} as planned, {verification.not_begun} as before"
    lists = {
        "being reassigned": verification.moving,
        "with replicas that the plan does not know": verification.differing,
        "deleted": verification.gone,
        "under-replicated": verification.under_replicated,
        "not led by their preferred leader": verification.not_preferred,
    }
    for what, keys in lists.items():
        if keys:
            yield f"  {format_count(len(keys), 'partition')} {what}: {name_partitions(keys)}"
    if verification.throttled_brokers:
        yield f"  throttled brokers: {', '.join(map(str, verification.throttled_brokers))}"
    if verification.throttled_topics:
        yield f"  throttled topics: {', '.join(verification.throttled_topics[:5])}"
    if verification.restored_brokers:
        ids = ", ".join(map(str, verification.restored_brokers))
        yield f"  throttles that were set before this plan are set again on brokers {ids}"
    if verification.unanswered_brokers:
        ids = ", ".join(map(str, verification.unanswered_brokers))
        yield f"  brokers that did not answer, so that their throttles are not known: {ids}"
