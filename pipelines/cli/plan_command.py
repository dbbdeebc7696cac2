"""The command `plan`."""

import shlex
from collections.abc import Callable
from dataclasses import replace as replace_fields
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from pipelines.cli import common_options
from pipelines.cli.app import app, examples
from pipelines.cli.common_options import (
    AfterOption,
    ConfOption,
    FormatOption,
    JsonOption,
    LiveServersOption,
    ReturnOption,
    SetOption,
    StateOptions,
    ignore_topics_option,
)
from pipelines.cli.option_values import parse_path, whole_number
from pipelines.cli.source_arguments import (
    CommandConfigOption,
    MetricsOption,
    MetricsRequest,
    SourceArgument,
    WindowOption,
    open_source,
)
from pipelines.cli.text_format import print_message, print_warning
from pipelines.config.metrics_settings import print_window
from pipelines.errors import EXIT_INPUT, Infeasible, SettingsError, SourceError
from pipelines.ingest.sources import is_live
from pipelines.metrics.metrics_origin import hide_secrets

_GOALS = "leaders, failover, balance, drain, expand, replace, repair, rf, log-dirs or zones."
_DEFAULT_BROKERS = "drain: those that the source marks for draining; expand: empty ones; repair: all"
_MAX_FACTOR = 1000  # replicas of one partition
_OBJECTIVE = "Balance all of plans.priorities (all), or replica counts only (min-bytes, min-moves)."
_ADD = "--add-brokers"
# Other options of a plan that a command for another one repeats.
_REPEATED = {
    **{"out": "--out", "server": "--bootstrap-server", "format_name": "--format", "conf": "--conf"},
    "returned": "--return",
    "command_config": "--command-config",
}
_DEFAULT_OBJECTIVE = "all for balance, drain and expand, else min-bytes"


def _option(text: str, metavar: str, default: str | bool = True, parser: Callable[[str], Any] | None = None) -> Any:
    return typer.Option(help=text, metavar=metavar, show_default=default, parser=parser)


def _flag(name: str, text: str) -> Any:
    return typer.Option(f"--{name}", help=text)


@app.command(rich_help_panel="Placing and planning, without Spark", epilog=examples("plan"))
def plan(
    context: typer.Context,
    source: SourceArgument,
    goal: Annotated[str | None, _option(_GOALS, "GOAL")] = None,
    out: Annotated[
        Path | None,
        _option(
            "Folder for the plan: a new or empty one, or one that holds a plan; - prints only the reassignment JSON.",
            "DIR",
            "none: a preview",
            parser=parse_path,
        ),
    ] = None,
    check: Annotated[
        Path | None, _option("Check the plan in this folder instead of making one.", "DIR", parser=parse_path)
    ] = None,
    brokers: Annotated[
        str | None, _option("Brokers to drain, to expand onto, or whose partitions to repair.", "IDS", _DEFAULT_BROKERS)
    ] = None,
    replace: Annotated[str | None, _option("Brokers and their replacements, as in 7=66,8=67.", "PAIRS")] = None,
    rf: Annotated[
        int | None, _option("Replication factor for --goal rf.", "N", parser=whole_number(1, _MAX_FACTOR))
    ] = None,
    topics: Annotated[str | None, _option("Topics for --goal rf.", "NAMES", "all")] = None,
    at_min_isr_partitions: Annotated[
        bool, _flag("at-min-isr-partitions", "For repair: only partitions with just min.insync.replicas in sync.")
    ] = False,
    under_min_isr_partitions: Annotated[
        bool, _flag("under-min-isr-partitions", "For repair: only partitions below min.insync.replicas.")
    ] = False,
    exclude_topics: Annotated[str | None, _option("Topics to leave unchanged.", "NAMES")] = None,
    exclude_brokers: Annotated[str | None, _option("Brokers that receive no replicas.", "IDS")] = None,
    add_brokers: Annotated[
        str | None, _option("Live brokers that no source shows, with their racks, as in 13:rack-b.", "BROKERS")
    ] = None,
    max_bytes: Annotated[str | None, _option("Copy at most this much, as in 500GB.", "SIZE")] = None,
    max_moves: Annotated[
        int | None, _option("Copy at most this many replicas.", "N", parser=whole_number(0, 10**12))
    ] = None,
    throttle: Annotated[
        str | None, _option("Bytes per second that a broker copies, as in 50MB.", "SIZE", "plans.throttle_bytes_per_s")
    ] = None,
    objective: Annotated[str | None, _option(_OBJECTIVE, "NAME", _DEFAULT_OBJECTIVE)] = None,
    keep_leaders: Annotated[bool, _flag("keep-leaders", "For failover: only reorder followers.")] = False,
    per_topic: Annotated[bool, _flag("per-topic", "Spread the leaders of each topic as well.")] = False,
    by_bytes: Annotated[bool, _flag("by-bytes", "For leaders and failover: also balance bytes out.")] = False,
    allow_empty_racks: Annotated[bool, _flag("allow-empty-racks", "Allow racks to lose their last broker.")] = False,
    keep_rack_violations: Annotated[
        bool, _flag("keep-rack-violations", "Leave racks that hold too many replicas of a partition as they are.")
    ] = False,
    prefer_fewer_copysets: Annotated[
        bool, _flag("prefer-fewer-copysets", "Among equally good plans, prefer fewer copysets.")
    ] = False,
    seed: Annotated[int | None, _option("Seed of randomized searches.", "N", "run.seed", parser=whole_number())] = None,
    returned: ReturnOption = None,
    after: AfterOption = None,
    server: LiveServersOption = None,
    json_file: JsonOption = None,
    format_name: FormatOption = None,
    command_config: CommandConfigOption = None,
    metrics: MetricsOption = None,
    window: WindowOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
    ignored: Annotated[list[str] | None, ignore_topics_option("A plan leaves them as they are.")] = None,
) -> None:
    """Plan a reassignment, with proofs, as files for Kafka's own tools; or check such a plan. Does not start Spark."""
    from pipelines.cli.plan_command_line import PlanCommandLine
    from pipelines.cli.plan_options import PlanOptions, parse_limits, parse_new_brokers, parse_request
    from pipelines.cli.plan_remedies import list_remedies
    from pipelines.cli.plan_rendering import render_plan, render_progress
    from pipelines.cli.plan_warnings import list_warnings
    from pipelines.config.capacity_file import add_disk_capacities
    from pipelines.config.plan_parameters import build_metric_options
    from pipelines.ingest.merge.live_brokers import get_bootstrap_server
    from pipelines.plan_files.new_brokers import (
        add_new_brokers,
        explain_assumption,
        explain_proposal,
        list_unknown_brokers,
        propose_new_brokers,
    )
    from pipelines.plan_files.plan_check import check_plan
    from pipelines.plan_files.plan_creation import build_answer, build_snapshot_model, create_plan
    from pipelines.plan_files.plan_reader import read_plan
    from pipelines.plan_files.plan_writer import REASSIGNMENT
    from pipelines.setup.compile_on_demand import announce_compilation
    from pipelines.verdict.verdict_points import DEFAULT_SERVER

    settings = common_options.read_settings(conf, options, ignored=ignored)
    defaults, state = settings.topics.defaults, StateOptions(returned, after)
    loads = MetricsRequest.of_options(metrics, window, settings)
    written = PlanOptions(**{name: context.params[name] for name in PlanOptions.__dataclass_fields__})
    try:
        new_brokers = parse_new_brokers(add_brokers)
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from error
    if check is not None:
        others = [*(option for option in written.written if option != _ADD), *["--out"] * (out is not None)]
        if others:
            raise typer.BadParameter(f"--check does not make a plan, so it does not take {' or '.join(others)}.")
        opened = open_source(source, command_config, loads, format_name)
        snapshot = state.apply(common_options.read_snapshot(opened, format_name, settings), defaults)
        common_options.print_findings(snapshot)
        common_options.warn_of_unmatched_patterns(ignored, snapshot.topics)
        stored_plan = read_plan(check)
        snapshot = add_new_brokers(snapshot, new_brokers)
        if assumed := list_unknown_brokers(snapshot, stored_plan.added_brokers):
            snapshot = add_new_brokers(snapshot, assumed)
            print_warning(explain_assumption(assumed))
        progress = check_plan(stored_plan, build_snapshot_model(snapshot, defaults), snapshot.partitions, defaults)
        common_options.write_answer(json_file, progress, render_progress(progress))
        raise typer.Exit(0 if progress.may_execute else EXIT_INPUT)
    if goal is None:
        raise typer.BadParameter("Give --goal to make a plan, or --check to check one.")
    try:
        request, limits = parse_request(written, settings), parse_limits(written, settings)
    except SettingsError as error:  # wrong usage, not a wrong file
        raise typer.BadParameter(str(error)) from error
    snapshot = common_options.read_snapshot(
        open_source(source, command_config, loads, format_name), format_name, settings
    )
    common_options.print_findings(snapshot)
    common_options.warn_of_unmatched_patterns(ignored, snapshot.topics)
    snapshot = state.apply(snapshot, defaults)
    log_dirs = add_disk_capacities(snapshot.log_dirs, snapshot.cluster_id, settings.capacity.file)
    snapshot = replace_fields(snapshot, log_dirs=log_dirs)
    named = server or get_bootstrap_server(snapshot.brokers) or DEFAULT_SERVER
    command = PlanCommandLine(source, written.values | _list_other_options(context))
    snapshot = add_new_brokers(snapshot, new_brokers)
    if proposed := propose_new_brokers(snapshot, request):
        problem, remedy = explain_proposal(snapshot, request, proposed)
        again = command.change({_ADD: (",".join(map(str, proposed)),)})
        raise SourceError(snapshot.cluster_id, problem, f"{remedy}: {again}")
    with TemporaryDirectory() as preview, announce_compilation(print_message):
        printed = out == Path("-")
        folder = Path(preview, "plan") if out is None or printed else out
        try:
            created = create_plan(snapshot, request, folder, limits, build_metric_options(settings), defaults)
        except Infeasible as error:
            model = build_snapshot_model(snapshot, defaults, request.exclude_topics)
            raise Infeasible(*error.args, *list_remedies(model, request, command)) from error
        reassignment = Path(folder, REASSIGNMENT).read_text() if printed else ""
    for warning in list_warnings(created, snapshot, source, named):
        print_warning(warning)
    lines = reassignment.splitlines() if printed else render_plan(created, out, named, command)
    if is_live(source) and out is not None and not printed and not created.moves_log_dirs:
        lines = chain(lines, [f"  or: {_name_apply_command(source, command_config, out)}"])
    common_options.write_answer(json_file, build_answer(created), lines)


def _name_apply_command(source: str, command_config: str | None, out: Path) -> str:
    """Return the command that carries out a plan for a running cluster."""
    from pipelines.live.live_sources import parse_address

    words = ["kafka-placement", "apply", str(out), "--bootstrap-server", parse_address(source).servers]
    words += ["--command-config", command_config] if command_config else []
    return f"{shlex.join(words)}    # shows what it would do; --execute does it"


def _list_other_options(context: typer.Context) -> dict[str, tuple[str, ...]]:
    """List the options that were written beside those of the goal, with their values."""
    written = {
        option: (str(context.params[name]),)
        for name, option in _REPEATED.items()
        if (origin := context.get_parameter_source(name)) is not None and origin.name == "COMMANDLINE"
    }
    repeated = {"--after": "after", "--set": "options", "--ignore-topics": "ignored"}
    values = {option: tuple(map(str, context.params[name] or ())) for option, name in repeated.items()}
    values["--metrics"] = tuple(map(hide_secrets, context.params["metrics"] or ()))
    values["--window"] = (print_window(context.params["window"]),) if context.params["window"] else ()
    return {**written, **{option: texts for option, texts in values.items() if texts}}
