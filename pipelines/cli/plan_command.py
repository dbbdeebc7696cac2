"""The command `plan`."""

import shlex
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli import common_options
from pipelines.cli.app import app, examples
from pipelines.cli.cluster_options import ClusterOptions
from pipelines.cli.common_options import PlanOptions
from pipelines.cli.option_values import option, parse_output, parse_path, take_groups
from pipelines.cli.source_arguments import SourceArgument, get_servers
from pipelines.cli.text_format import print_message, print_warning
from pipelines.errors import Infeasible, SourceError
from pipelines.ingest.sources import is_live

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipelines.ingest.snapshot_reader import Snapshot
    from pipelines.plan_files.plan_creation import CreatedPlan
    from udfs.failures.topic_defaults import TopicDefaults

_ADD = "--add-brokers"
_EMPTIES = "it empties, so that new topics stay away"
_TICKET = "Write a change ticket, a page for those who approve the plan, to this file; --out has it as ticket.md, too."
_OUT = "Folder for the plan: a new or empty one, or one that holds a plan; - prints only the reassignment JSON."


@dataclass(frozen=True)
class _ClusterOptions(ClusterOptions):
    ignored: Annotated[list[str] | None, common_options.ignore_topics_option("A plan leaves them as they are.")] = None


@app.command(rich_help_panel="Placing and planning, without Spark", epilog=examples("plan"))
@take_groups
def plan(
    source: SourceArgument,
    *,
    out: Annotated[Path | None, option(_OUT, "DIR", parser=parse_path, default="none: a preview")] = None,
    ticket: Annotated[Path | None, option(_TICKET, "FILE", parser=parse_output)] = None,
    written: PlanOptions,
    cluster: _ClusterOptions,
    server: common_options.LiveServersOption = None,
    json_file: common_options.JsonOption = None,
) -> None:
    """Plan a reassignment, with proofs, as files for Kafka's own tools. Does not start Spark."""
    from pipelines.cli.check_rendering import render_findings
    from pipelines.cli.plan_option_values import parse_limits, parse_new_brokers, parse_option, parse_request
    from pipelines.cli.plan_remedies import PlanCommandLine, list_remedies, list_warnings
    from pipelines.cli.plan_rendering import render_plan
    from pipelines.cli.text_format import lay_out_terminal
    from pipelines.config.capacity_file import add_disk_capacities
    from pipelines.config.plan_parameters import build_metric_options
    from pipelines.ingest.merge.live_brokers import get_bootstrap_server
    from pipelines.plan_files.new_brokers import add_new_brokers, explain_proposal, propose_new_brokers
    from pipelines.plan_files.plan_creation import build_answer, build_snapshot_model, create_plan
    from pipelines.plan_files.plan_writer import REASSIGNMENT, TICKET
    from pipelines.setup.compile_on_demand import announce_compilation
    from pipelines.verdict.verdict_points import DEFAULT_SERVER

    settings = cluster.read_settings()
    defaults = settings.topics.defaults
    new_brokers = parse_option(_ADD, written.add_brokers, parse_new_brokers) if written.add_brokers else ()
    if written.goal is None:
        raise typer.BadParameter("Give the --goal of the plan.")
    request, limits = parse_request(written, settings), parse_limits(written, settings)
    now = cluster.read(source, settings)
    common_options.print_findings(now)
    snapshot = cluster.apply(now, defaults)
    log_dirs = add_disk_capacities(snapshot.log_dirs, snapshot.cluster_id, settings.capacity.file)
    snapshot = replace(snapshot, log_dirs=log_dirs)
    named = server or get_bootstrap_server(snapshot.brokers) or DEFAULT_SERVER
    files = {"--out": (str(out),) if out else (), "--bootstrap-server": (server,) if server else ()}
    repeated = {option: values for option, values in files.items() if values} | cluster.values
    command = PlanCommandLine(source, written.values | repeated)
    snapshot = add_new_brokers(snapshot, new_brokers)
    if proposed := propose_new_brokers(snapshot, request):
        problem, remedy = explain_proposal(snapshot, proposed)
        again = command.change({_ADD: (",".join(map(str, proposed)),)})
        raise SourceError(snapshot.cluster_id, problem, f"{remedy}: {again}")
    with TemporaryDirectory() as preview, announce_compilation(print_message):
        printed = out == Path("-")
        folder = Path(preview, "plan") if out is None or printed else out
        try:
            measured = build_metric_options(settings)
            created = create_plan(snapshot, request, folder, limits, measured, defaults, cluster.after or (), now)
        except Infeasible as error:
            model = build_snapshot_model(snapshot, defaults, request.exclude_topics)
            raise Infeasible(*error.args, *list_remedies(model, request, command)) from error
        reassignment = Path(folder, REASSIGNMENT).read_text() if printed else ""
        if ticket is not None:
            name = out if out is not None and not printed else Path("DIR")
            apply = _name_apply_command(get_servers(source) or named, cluster.command_config, name)
            cordon = {" --execute --cordon": f"likewise, and first cordons what {_EMPTIES}"}
            others = cordon if _can_cordon(created, snapshot) else {}
            commands = _list_commands(created, name, get_servers(source) or named, apply, others)
            paths = [ticket, *([folder / TICKET] if folder == out else [])]
            _write_tickets(paths, created, snapshot, folder, defaults, commands, cluster.after or ())
    for warning in list_warnings(created, snapshot, source, named):
        print_warning(warning)
    if printed and created.facts.judgement.findings:
        for line in render_findings(created.facts.judgement):
            print_warning(line.strip())
    lines = reassignment.splitlines() if printed else render_plan(created, out, named, command, ticket is not None)
    if is_live(source) and out is not None and not printed:
        apply = _name_apply_command(get_servers(source) or named, cluster.command_config, out)
        more = f", and with --cordon first cordons what {_EMPTIES}" if _can_cordon(created, snapshot) else ""
        lines = chain(lines, [f"  or: {apply}    # shows what it would do; --execute does it{more}"])
    common_options.write_answer(json_file, build_answer(created), lines if printed else lay_out_terminal(lines))


def _write_tickets(
    paths: "list[Path]",
    created: "CreatedPlan",
    snapshot: "Snapshot",
    folder: Path,
    defaults: "TopicDefaults",
    commands: "Iterable[str]",
    earlier: "Iterable[Path | str]",
) -> None:
    """Write the ticket of a plan to files. folder: of the plan; earlier: of those that are executed before it.

    Raises: SettingsError if a file cannot be written.
    """
    from pipelines.cli.plan_rendering import describe_goal
    from pipelines.plan_files.change_ticket import build_ticket
    from pipelines.plan_files.plan_reader import read_plan
    from pipelines.plan_files.state_after_plan import assume_applied
    from pipelines.what_if.what_if_answers import evaluate_brokers

    after = assume_applied(snapshot, read_plan(folder), folder)
    before, then = (evaluate_brokers(state, defaults).verdict for state in (snapshot, after))
    title = describe_goal(created.summary.model, created.facts.request)
    title += "".join(f", after the plan in {folder}" for folder in earlier)
    text = build_ticket(created, title, before.headline, then.name_moment(1).headline, commands)
    for path in paths:
        common_options.write_text(path, text, "--ticket")


def _can_cordon(created: "CreatedPlan", snapshot: "Snapshot") -> bool:
    """Return whether a plan empties brokers of a cluster whose brokers can be cordoned."""
    from pipelines.ingest.merge.live_brokers import get_releases
    from pipelines.plan_files.plan_creation import find_unemptied
    from udfs.failures.topic_defaults import HAS_CORDONS, holds_since
    from udfs.planning.constraints import list_emptied_brokers

    request, summary = created.facts.request, created.summary
    emptied = {*list_emptied_brokers(summary.model, request)}.difference(find_unemptied(request, summary))
    return bool(emptied) and holds_since(HAS_CORDONS, get_releases(snapshot.brokers)) is True


def _list_commands(
    created: "CreatedPlan", out: Path, server: str, apply: str, other_options: dict[str, str]
) -> "list[str]":
    """List the commands that execute a plan, with this program and with Kafka's tools, and those that roll it back."""
    from pipelines.cli.plan_rendering import render_commands

    options = {"": "shows what it would do", " --execute": "executes it", **other_options}
    options |= {" --verify": "compares the cluster with it"}
    options |= {" --cancel": "cancels what is under way", " --rollback --execute": "rolls it back"}
    lines = [f"{apply}{option}    # {what}" for option, what in options.items()]
    return [*lines, "With Kafka's tools:", *render_commands(created.summary, created.facts.rollback, out, server)]


def _name_apply_command(server: str, command_config: str | None, out: Path) -> str:
    """Return the command that shows what a plan would do on a running cluster."""
    words = ["kafka-placement", "apply", str(out), "--bootstrap-server", server]
    words += ["--command-config", command_config] if command_config else []
    return shlex.join(words)
