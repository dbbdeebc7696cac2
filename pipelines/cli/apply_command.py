"""`apply`: carries out a plan on its running cluster, wave by wave; or rolls it back, cancels or verifies it."""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.option_values import (
    flag,
    option,
    parse_deadline,
    parse_path,
    parse_place,
    parse_server,
    parse_waves,
    whole_number,
)
from pipelines.cli.source_arguments import CommandConfigOption
from pipelines.cli.text_format import print_line
from pipelines.errors import (
    EXIT_INPUT,
    EXIT_NOT_APPLIED,
    EXIT_PARTLY_APPLIED,
    EXIT_SIGNAL,
    EXIT_THROTTLED,
    EXIT_WAVES_LEFT,
)
from pipelines.execution.journal import JOURNAL
from pipelines.execution.wave_window import WaveRange, WaveWindow, describe_waves
from udfs.wording import count_of, format_bytes, is_or_are

if TYPE_CHECKING:
    from pipelines.config.setting_sections import Settings
    from pipelines.execution.cluster_execution import ExecutionOptions
    from pipelines.execution.plan_application import PlanApplication
    from pipelines.execution.plan_verification import PlanState

_PLAN = (
    "The folder that `plan --out` made; or reassignment files of any tool, as check takes them, of which apply makes "
    "the folder FILE.plan."
)
_NO_THROTTLE = "none"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Mode(StrEnum):
    PREVIEW = "preview"
    EXECUTE = "execute"
    ROLLBACK = "rollback"
    PREVIEW_ROLLBACK = "preview-rollback"
    CANCEL = "cancel"
    VERIFY = "verify"
    CHANGE_THROTTLE = "change-throttle"


class _Interrupted(KeyboardInterrupt):
    """A signal asks the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@app.command(rich_help_panel="Running clusters", epilog=examples("apply"))
def apply(
    plans: Annotated[list[Path], typer.Argument(help=_PLAN, metavar="PLAN...", parser=parse_path)],
    server: Annotated[
        str, option("Brokers to connect to.", "HOST:PORT,...", "--bootstrap-server", parser=parse_server)
    ],
    command_config: CommandConfigOption = None,
    execute: Annotated[bool, flag("execute", "Carry out the plan, or the rest of it.")] = False,
    rollback: Annotated[bool, flag("rollback", "With --execute: return to the assignment before the plan.")] = False,
    cancel: Annotated[bool, flag("cancel", "Cancel the reassignments that are under way.")] = False,
    verify: Annotated[bool, flag("verify", "Check that the cluster is as planned, without throttles.")] = False,
    change_throttle: Annotated[
        bool, flag("change-throttle", "Give --throttle to the execution that runs, in another terminal.")
    ] = False,
    throttle: Annotated[
        str | None,
        option(
            "Bytes per second that a broker copies, as in 50MB; none to copy without a throttle.",
            "SIZE",
            default="the plan's",
        ),
    ] = None,
    waves: Annotated[
        WaveRange | None,
        option("Only these waves, in their order, as in 1-2, 3 or 2-.", "WAVES", parser=parse_waves, default="all"),
    ] = None,
    until: Annotated[
        datetime | None,
        option(
            "Begin no wave that would end later than this local time, as in 06:00.",
            "TIME",
            parser=parse_deadline,
            default="no limit",
        ),
    ] = None,
    rf: Annotated[
        int | None, option("The replication factor that files are to give.", "N", "--rf", parser=whole_number(1, 1000))
    ] = None,
    accept_harm: Annotated[bool, flag("accept-harm", "Carry out files that are judged HARMFUL.")] = False,
    cordon: Annotated[
        bool, flag("cordon", "Cordon the brokers that the plan empties, until a rollback (Kafka 4.3 and later).")
    ] = False,
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
    """Carry out a plan on its running cluster, or with --rollback undo it; without --execute, preview that.

    Repeat the command to continue one that was interrupted. PLAN/execution.jsonl is its journal;
    --warehouse writes it to gold.plan_executions, with Spark.
    """
    from pipelines.cli.foreign_plans import choose_folder
    from pipelines.cli.plan_command import parse_option, parse_throttle
    from pipelines.execution.cluster_execution import ExecutionOptions
    from pipelines.execution.plan_application import PlanApplication
    from pipelines.live.kafka_changes import KafkaAdmin
    from pipelines.live.live_sources import select_properties

    flags = {
        _Mode.EXECUTE: execute and not rollback,
        _Mode.ROLLBACK: rollback,
        _Mode.CANCEL: cancel,
        _Mode.VERIFY: verify,
    }
    flags[_Mode.CHANGE_THROTTLE] = change_throttle
    chosen = [mode for mode, flag in flags.items() if flag]
    if len(chosen) > 1:
        raise typer.BadParameter(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    mode = chosen[0] if chosen else _Mode.PREVIEW
    if mode is _Mode.ROLLBACK and not execute:
        mode = _Mode.PREVIEW_ROLLBACK
    _check_window(mode, waves, until)
    rate = None
    if throttle is not None and throttle != _NO_THROTTLE:
        rate = parse_option("--throttle", throttle, parse_throttle)
    if change_throttle and throttle is None:
        raise typer.BadParameter("--change-throttle needs a rate: add --throttle, as in --throttle 80MB, or none")
    properties = select_properties(None, [command_config] if command_config else [])
    settings = common.read_settings(conf, changes, warehouse)
    with KafkaAdmin(server, properties) as connection:
        files = common.select_files(plans)
        may_write = mode in (_Mode.PREVIEW, _Mode.EXECUTE)
        if (accept_harm or rf is not None) and not (files and may_write):
            name = "--accept-harm" if accept_harm else "--rf"
            raise typer.BadParameter(f"{name} is for files of other tools that are carried out. Leave it out")
        if cordon and not may_write:
            raise typer.BadParameter("--cordon is for --execute: --rollback and --cancel undo it. Leave it out")
        plan = plans[0]
        if files:
            plan = choose_folder(files, connection, settings, rate, may_write, factor=rf, accepts_harm=accept_harm)
        application = PlanApplication(plan, connection, print_line)
        if waves is not None and max(waves.first, waves.last or 0) > application.steps.waves:
            count = count_of(application.steps.waves, "wave")
            raise typer.BadParameter(
                f"--waves {waves}: the plan has {count}. Name waves from 1 to {application.steps.waves}"
            )
        if throttle is None:
            rate = application.plan.throttle_bytes_per_s
        config = Path(command_config) if command_config else None
        window = WaveWindow(waves or WaveRange(), until)
        options = ExecutionOptions(rate, max_under_replicated, float(max_pause), window=window, command_config=config)
        options = replace(options, cordons=cordon)
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


def _check_window(mode: _Mode, waves: WaveRange | None, until: datetime | None) -> None:
    """Check that a mode has waves to choose. Raises: typer.BadParameter."""
    if mode in (_Mode.CANCEL, _Mode.VERIFY, _Mode.CHANGE_THROTTLE) and (waves is not None or until is not None):
        name = "--waves" if waves is not None else "--until"
        raise typer.BadParameter(
            f"{name} chooses the waves of --execute: --{mode} is about the whole plan. Leave it out"
        )
    if mode in (_Mode.ROLLBACK, _Mode.PREVIEW_ROLLBACK) and until is not None:
        problem = "--until is not for --rollback, as plans have no estimate of what is copied back"
        raise typer.BadParameter(f"{problem}. Choose waves with --waves")


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
    """Write what the waves took to the warehouse."""
    from pipelines.execution.execution_history import record_executions
    from pipelines.tables.execution_tables import PLAN_EXECUTIONS

    store = common.open_store(settings, small=True, writing=True)
    waves = record_executions(store, application.folder, application.plan)
    print_line(f"{PLAN_EXECUTIONS.name}: {count_of(waves, 'row')} of this plan")


def _act(application: PlanApplication, mode: _Mode, options: ExecutionOptions, settings: Settings, folder: Path) -> int:
    """Do what the options ask for, and return the exit code."""
    from pipelines.cli.apply_rendering import render_preview, render_rollback, render_verification

    if mode is _Mode.CHANGE_THROTTLE:
        rate = options.throttle_bytes_per_s
        process = application.change_throttle(rate)
        limit = "without a throttle" if rate is None else f"{format_bytes(rate)}/s per broker"
        print_line(f"process {process} copies {limit} from its next look at the cluster on")
        return 0
    if mode is _Mode.VERIFY:
        verification = application.verify(settings)
        if journal := application.describe_journal():
            print_line(f"journal: {journal}")
        _print(render_verification(verification, application, options))
        return _get_exit_code(verification.state)
    if mode is _Mode.PREVIEW:
        preview = application.preview(options, settings)
        if journal := application.describe_journal():
            print_line(f"journal: {journal}")
        _print(render_preview(preview, options))
        return EXIT_INPUT if preview.problems else 0
    if mode is _Mode.PREVIEW_ROLLBACK:
        back = application.preview_rollback(options, settings)
        if journal := application.describe_journal():
            print_line(f"journal: {journal}")
        _print(render_rollback(back, options))
        return EXIT_INPUT if back.problems else 0
    left: list[int] | None = None
    if mode is _Mode.EXECUTE:
        left = application.execute(options, settings)
        if left is None:
            print_line("The plan is applied already: nothing to do.")
            return 0
    elif mode is _Mode.ROLLBACK:
        left = application.roll_back(options)
    else:
        application.cancel(options)
    verification = application.verify(settings)
    _print(render_verification(verification, application, options))
    print_line(f"journal: {folder / JOURNAL}")
    if left:
        verb, rest = is_or_are(len(left)), WaveRange(min(left), max(left))
        until = options.window.until
        is_over = until is not None and until <= datetime.now(UTC)
        end = ", with the --until of that night" if is_over else ""
        print_line(f"{describe_waves(left)} of {application.steps.waves} {verb} left. To continue another night{end}:")
        print_line(f"  {_write_command(application, mode, folder, rest, options)}")
        if verification.is_cancelled and not verification.differing:
            return EXIT_WAVES_LEFT
    code = _get_exit_code(verification.state)
    if mode is _Mode.ROLLBACK:
        return 0 if verification.is_rolled_back else code or EXIT_PARTLY_APPLIED
    is_unknown = bool(verification.unanswered_brokers)  # else nothing of the plan is left, or cancel has raised
    return 0 if mode is _Mode.CANCEL and not is_unknown else code


def _write_command(
    application: PlanApplication, mode: _Mode, folder: Path, waves: WaveRange, options: ExecutionOptions
) -> str:
    """Write the command that carries out other waves in the same way."""
    rate = options.throttle_bytes_per_s
    words = ["kafka-placement", "apply", str(folder), "--bootstrap-server", application.connection.servers]
    words += ["--command-config", str(options.command_config)] if options.command_config else []
    words += ["--rollback"] if mode is _Mode.ROLLBACK else []
    words += ["--cordon"] if options.cordons else []
    words += ["--execute", "--waves", str(waves)]
    if rate != application.plan.throttle_bytes_per_s:
        words += ["--throttle", _NO_THROTTLE if rate is None else str(rate)]
    until = options.window.until
    if until is not None and until > datetime.now(UTC):
        words += ["--until", f"{until.astimezone():%H:%M:%S}".removesuffix(":00")]
    return shlex.join(words)


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
