"""`apply`: carries out a plan on its running cluster, wave by wave; or rolls it back, cancels or verifies it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.option_values import flag, option, parse_path, parse_place, parse_server, whole_number
from pipelines.cli.source_arguments import CommandConfigOption
from pipelines.cli.text_format import print_line
from pipelines.errors import EXIT_INPUT, EXIT_NOT_APPLIED, EXIT_PARTLY_APPLIED, EXIT_SIGNAL, EXIT_THROTTLED
from pipelines.execution.cluster_view import name_partitions
from pipelines.execution.journal import JOURNAL
from pipelines.quantities import format_bytes
from udfs.plurals import count_of

if TYPE_CHECKING:
    from pipelines.config.setting_sections import Settings
    from pipelines.execution.cluster_execution import ExecutionOptions
    from pipelines.execution.plan_application import PlanApplication, PlanPreview
    from pipelines.execution.plan_verification import PlanState, Verification

_NO_THROTTLE = "none"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Mode(StrEnum):
    PREVIEW = "preview"
    EXECUTE = "execute"
    ROLLBACK = "rollback"
    CANCEL = "cancel"
    VERIFY = "verify"


class _Interrupted(KeyboardInterrupt):
    """A signal asks the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@app.command(rich_help_panel="Running clusters", epilog=examples("apply"))
def apply(
    plan: Annotated[Path, typer.Argument(help="The folder that `plan --out` made.", metavar="PLAN", parser=parse_path)],
    server: Annotated[
        str, option("Brokers to connect to.", "HOST:PORT,...", "--bootstrap-server", parser=parse_server)
    ],
    command_config: CommandConfigOption = None,
    execute: Annotated[bool, flag("execute", "Carry out the plan, or the rest of it.")] = False,
    rollback: Annotated[bool, flag("rollback", "Return to the assignment before the plan.")] = False,
    cancel: Annotated[bool, flag("cancel", "Cancel the reassignments that are under way.")] = False,
    verify: Annotated[bool, flag("verify", "Check that the cluster is as planned, without throttles.")] = False,
    throttle: Annotated[
        str | None,
        option(
            "Bytes per second that a broker copies, as in 50MB; none to copy without a throttle.",
            "SIZE",
            default="the plan's",
        ),
    ] = None,
    max_under_replicated: Annotated[
        int | None,
        option(
            "Pause while more partitions are under-replicated.",
            "N",
            parser=whole_number(0, 10**9),
            default="as many as at the start",
        ),
    ] = None,
    max_pause: Annotated[
        int, option("Seconds after which a pause ends the command.", "SECONDS", parser=whole_number(1, 10**7))
    ] = 3600,
    warehouse: Annotated[
        str | None,
        option(
            "Also write the journal to the tables in this folder.", "DIR", parser=parse_place, default="not written"
        ),
    ] = None,
    conf: common.ConfOption = None,
    changes: common.SetOption = None,
) -> None:
    """Carry out a plan on its running cluster; without one of --execute, --rollback, --cancel and --verify, preview it.

    Repeat --execute or --rollback to continue one that was interrupted. PLAN/execution.jsonl is its journal;
    --warehouse writes it to gold.plan_executions, with Spark.
    """
    from pipelines.cli.plan_option_values import parse_option, parse_throttle
    from pipelines.execution.cluster_execution import ExecutionOptions
    from pipelines.execution.plan_application import PlanApplication
    from pipelines.live.kafka_changes import KafkaAdmin
    from pipelines.live.live_sources import select_properties

    flags = {_Mode.EXECUTE: execute, _Mode.ROLLBACK: rollback, _Mode.CANCEL: cancel, _Mode.VERIFY: verify}
    chosen = [mode for mode, flag in flags.items() if flag]
    if len(chosen) > 1:
        raise typer.BadParameter(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    mode = chosen[0] if chosen else _Mode.PREVIEW
    rate = None
    if throttle is not None and throttle != _NO_THROTTLE:
        rate = parse_option("--throttle", throttle, parse_throttle)
    properties = select_properties(None, [command_config] if command_config else [])
    settings = common.read_settings(conf, changes, warehouse)
    with KafkaAdmin(server, properties) as connection:
        application = PlanApplication(plan, connection, print_line)
        if throttle is None:
            rate = application.plan.throttle_bytes_per_s
        config = Path(command_config) if command_config else None
        options = ExecutionOptions(rate, max_under_replicated, float(max_pause), command_config=config)
        try:
            with _raise_signals():
                code = _act(application, mode, options, settings, plan)
        except _Interrupted as interruption:
            code = EXIT_SIGNAL + interruption.number
            with suppress(OSError):  # the terminal may be gone
                first, *others = application.describe_rest()
                print_line(f"interrupted: {first}")
                _print(iter(others))
    if warehouse is not None:
        _write_history(application, settings)
    raise typer.Exit(code)


@contextmanager
def _raise_signals() -> Iterator[None]:
    """Raise _Interrupted on signals that end the process, unless it ignores them, as nohup has it ignore SIGHUP."""

    def interrupt(number: int, _frame: object) -> None:
        raise _Interrupted(number)

    if threading.current_thread() is not threading.main_thread():  # no other may handle signals
        yield
        return
    earlier = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        for number, handler in earlier.items():
            if handler not in (None, signal.SIG_IGN):
                signal.signal(number, interrupt)
        yield
    finally:
        for number, handler in earlier.items():
            if handler is not None:
                signal.signal(number, handler)


def _write_history(application: PlanApplication, settings: Settings) -> None:
    """Write what the waves took to gold.plan_executions."""
    from pipelines.execution.execution_history import get_plan_id, get_snapshot, list_wave_executions
    from pipelines.execution.journal import Journal
    from pipelines.spark.arrow_frames import make_rows
    from pipelines.tables.execution_tables import PLAN_EXECUTIONS

    plan = application.plan
    rows = list_wave_executions(Journal.open(application.folder), plan)
    store = common.open_store(settings, small=True, writing=True)
    key, names = get_snapshot(plan), PLAN_EXECUTIONS.column_names
    others = store.read_rows(PLAN_EXECUTIONS.name, [key], names) if store.exists(PLAN_EXECUTIONS.name) else []
    all_rows = [tuple(row[name] for name in names) for row in others if row["plan_id"] != get_plan_id(plan)] + rows
    store.replace(PLAN_EXECUTIONS, make_rows(all_rows, PLAN_EXECUTIONS.schema), [key])
    print_line(f"{PLAN_EXECUTIONS.name}: {count_of(len(rows), 'row')} of this plan")


def _act(application: PlanApplication, mode: _Mode, options: ExecutionOptions, settings: Settings, folder: Path) -> int:
    """Do what the options ask for, and return the exit code."""
    if mode is _Mode.VERIFY:
        verification = application.verify()
        _print(_render_verification(verification, application, options))
        return _get_exit_code(verification.state)
    if mode is _Mode.PREVIEW:
        preview = application.preview(options, settings)
        if journal := application.describe_journal():
            print_line(f"journal: {journal}")
        _print(_render_preview(preview, options))
        return EXIT_INPUT if preview.problems else 0
    if mode is _Mode.EXECUTE:
        if not application.execute(options, settings):
            print_line("The plan is applied already: nothing to do.")
            return 0
    elif mode is _Mode.ROLLBACK:
        application.roll_back(options)
    else:
        application.cancel(options)
    verification = application.verify()
    _print(_render_verification(verification, application, options))
    print_line(f"journal: {folder / JOURNAL}")
    code = _get_exit_code(verification.state)
    if mode is _Mode.ROLLBACK:
        return 0 if verification.is_rolled_back else code or EXIT_PARTLY_APPLIED
    return 0 if mode is _Mode.CANCEL and verification.is_cancelled else code


def _get_exit_code(state: PlanState) -> int:
    """Return the exit code for how far a cluster is on the way through a plan."""
    from pipelines.execution.plan_verification import PlanState

    codes = {
        PlanState.APPLIED: 0,
        PlanState.NOT_APPLIED: EXIT_NOT_APPLIED,
        PlanState.PARTLY_APPLIED: EXIT_PARTLY_APPLIED,
        PlanState.THROTTLED: EXIT_THROTTLED,
        PlanState.UNKNOWN: EXIT_INPUT,
    }
    return codes[state]


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print_line(line)


def _render_preview(preview: PlanPreview, options: ExecutionOptions) -> Iterator[str]:
    from pipelines.cli.check_rendering import render_progress
    from pipelines.execution.set_throttles import name_throttled
    from pipelines.verdict.naming import name_with_noun

    lines = render_progress(preview.progress)
    if preview.fits_no_longer:
        next(lines)
        yield f"{preview.progress.status}: the cluster has changed; what is left of the plan can be carried out"
    yield from lines
    rate = options.throttle_bytes_per_s
    throttle = "without a throttle" if rate is None else f"throttled to {format_bytes(rate)}/s per broker, each way"
    yield f"with --execute, {throttle}:"
    for work in preview.work:
        if work.partitions:
            size = "" if work.copied_bytes is None else f", {format_bytes(work.copied_bytes)}"
            copies = f", {count_of(work.copies, 'replica')} to copy{size}" if work.copies else ", no copies"
            yield f"  wave {work.wave}: {count_of(work.partitions, 'partition')}{copies}"
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


def _render_verification(
    verification: Verification, application: PlanApplication, options: ExecutionOptions
) -> Iterator[str]:
    from pipelines.execution.plan_verification import PlanState
    from pipelines.execution.replication_throttle import list_restore_commands
    from pipelines.execution.set_throttles import name_throttled
    from pipelines.verdict.naming import name_with_noun

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
