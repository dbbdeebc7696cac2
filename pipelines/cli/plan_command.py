"""The command `plan`."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import BadParameter

from pipelines.cli import common_options
from pipelines.cli.app import app, examples
from pipelines.cli.cluster_options import ClusterOptions
from pipelines.cli.common_options import PlanOptions
from pipelines.cli.option_values import option, parse_broker_ids, parse_output, parse_path, take_groups
from pipelines.cli.source_arguments import SourceArgument, get_servers
from pipelines.cli.text_format import print_message, print_warning
from pipelines.config.plan_parameters import build_request, build_wave_limits
from pipelines.config.setting_sections import Settings, parse_duration
from pipelines.errors import EXIT_INPUT, Infeasible, SourceError
from pipelines.ingest.sources import is_live
from pipelines.plan_files.planned_cluster import UNKNOWN_RACK, NewBroker
from udfs.planning.goal_registry import GOALS, goals_with_option
from udfs.planning.plan_request import ALL, OBJECTIVES, PlanRequest
from udfs.planning.waves import WaveLimits
from udfs.wording import quote_value, shorten_text

if TYPE_CHECKING:
    from pipelines.ingest.snapshot_reader import Snapshot
    from pipelines.plan_files.plan_creation import CreatedPlan


_PREFIXES = ("k", "m", "g", "t", "p")
_UNITS: dict[str, int] = {"": 1, **{name: 1000**power for power, name in enumerate(_PREFIXES, 1)}}
_UNITS |= {f"{name}i": 1024**power for power, name in enumerate(_PREFIXES, 1)}
_MAX_SIZE = 10**18
_CONFLICTING = (("--keep-leaders", "--per-topic"), ("--by-bytes", "--per-topic"))


def parse_request(options: PlanOptions, settings: Settings) -> PlanRequest:
    """Combine options and settings; raise BadParameter if an option is wrong, missing, or not one of the goal's."""
    _check_goal(options)
    fields: dict[str, Any] = {"factor": options.rf, "objective": options.objective or ALL}
    fields |= {name: getattr(options, name) for name in _UNPARSED}
    fields |= {} if options.seed is None else {"seed": options.seed}
    for name, parse in _PARSERS.items():
        if (text := getattr(options, name)) is not None:
            field = "replacements" if name == "replace" else name
            fields[field] = parse_option(f"--{name.replace('_', '-')}", text, parse)
    if options.max_time is not None:
        if options.objective not in (None, ALL):
            raise BadParameter(f"--max-time: needs --objective {ALL}. Use --max-bytes, or leave --objective out")
        seconds = parse_option("--max-time", options.max_time, parse_duration)
        fields["max_broker_bytes"] = int(seconds * parse_limits(options, settings).throttle_bytes_per_s)
    request = build_request(settings, options.goal or "", options.prefer_fewer_copysets, **fields)
    replaced, replacing = ({pair[end] for pair in request.replacements} for end in (0, 1))
    excluded = set(request.exclude_brokers)
    for name, values, problem in (
        ("--brokers", set(request.brokers) & excluded, "named in --exclude-brokers too"),
        ("--replace", replacing & excluded, "to take over, but named in --exclude-brokers"),
        ("--replace", replacing & replaced, "to take over, and replaced itself"),
        ("--topics", set(request.topics) & set(request.exclude_topics), "named in --exclude-topics too"),
    ):
        if values:
            raise BadParameter(f"{name}: {', '.join(sorted(map(str, values)))} is {problem}. Name it once")
    return request


def parse_limits(options: PlanOptions, settings: Settings) -> WaveLimits:
    """Combine the limits of waves in the settings with --throttle; raise BadParameter if it is wrong."""
    limits = build_wave_limits(settings)
    if options.throttle is None:
        return limits
    return replace(limits, throttle_bytes_per_s=float(parse_option("--throttle", options.throttle, parse_throttle)))


def parse_option(option: str, text: str, parse: Callable[[str], Any]) -> Any:
    """Parse the value of an option; raise BadParameter, which names both, if it is wrong."""
    try:
        return parse(text)
    except ValueError as error:
        raise BadParameter(f"{option} {shorten_text(text)}: {error}") from error


def _check_goal(options: PlanOptions) -> None:
    """Check that the goal exists, and takes the options that were written."""
    if options.goal not in GOALS:
        raise BadParameter(f"--goal {shorten_text(str(options.goal))}: must be one of {', '.join(GOALS)}")
    if options.objective not in (None, *OBJECTIVES):
        raise BadParameter(f"--objective {shorten_text(options.objective)}: must be one of {', '.join(OBJECTIVES)}")
    goal, written = GOALS[options.goal], [name for name in options.values if name != "--goal"]
    for name in written:
        if name not in goal.options:
            raise BadParameter(f"{name} is for --goal {' or '.join(goals_with_option(name))}, not {goal.name}")
    if options.objective is not None and options.objective not in goal.objectives:
        others = " or ".join(name for name, other in GOALS.items() if options.objective in other.objectives)
        remedy = f"{goal.name} takes {' or '.join(goal.objectives)}"
        raise BadParameter(f"--objective {options.objective} is for --goal {others}; {remedy}")
    for one, other in _CONFLICTING:
        if one in written and other in written:
            raise BadParameter(f"{one} and {other} cannot be used together: leave one of them out")
    for name, remedy in goal.required_options.items():
        if name not in written:
            raise BadParameter(f"--goal {goal.name}: {remedy}")


def parse_ids(text: str) -> tuple[int, ...]:
    """Parse broker ids with commas between them: rising, each once."""
    return tuple(sorted(parse_broker_ids(text)))


def parse_replacements(text: str) -> tuple[tuple[int, int], ...]:
    """Parse 7=66,8=67 to pairs of a broker and its replacement, by the first ids."""
    pairs: dict[int, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})\s*=\s*([0-9]{1,9})\s*", part)
        if not match or match[1] == match[2] or int(match[1]) in pairs:
            problem = "is not a pair of different broker ids, or replaces a broker twice"
            raise ValueError(f"{quote_value(part.strip())} {problem}. Write each once, as in 7=66,8=67")
        pairs[int(match[1])] = int(match[2])
    return tuple(sorted(pairs.items()))


def parse_new_brokers(text: str) -> tuple[NewBroker, ...]:
    """Parse 13:rack-b,14 to brokers with their racks, by id."""
    brokers: dict[int, NewBroker] = {}
    for part in text.split(","):
        id_text, _, rack = map(str.strip, part.partition(":"))
        (id_,) = parse_broker_ids(id_text, "13:rack-b")
        if rack == UNKNOWN_RACK or not rack.isprintable() or id_ in brokers:
            problem = "has no name of a rack, or names a broker again"
            raise ValueError(
                f"{quote_value(part.strip())} {problem}. Write each broker once, as in 13:rack-b,14:rack-c"
            )
        brokers[id_] = NewBroker(id_, rack or None)
    return tuple(brokers[id_] for id_ in sorted(brokers))


def parse_log_dirs(text: str) -> tuple[tuple[int, str], ...]:
    """Parse 3:/data1,4:/data2 to pairs of a broker and the path of one of its log dirs."""
    pairs = set()
    for part in text.split(","):
        id_text, _, path = map(str.strip, part.partition(":"))
        (id_,) = parse_broker_ids(id_text, "3:/data1")
        if not path.startswith("/"):
            raise ValueError(f"{quote_value(part.strip())} has no path. Write broker:path, as in 3:/data1,3:/data2")
        pairs.add((id_, path))
    return tuple(sorted(pairs))


def parse_names(text: str) -> tuple[str, ...]:
    """Parse topic names with commas between them: in order, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise ValueError("a name is empty. Write names separated by commas, as in orders,clicks")
    return tuple(sorted(set(parts)))


def parse_size(text: str) -> int:
    """Parse a size like 500GB, 1.5 TiB or 1000 to bytes: 1 GB = 10^9, 1 GiB = 2^30."""
    match = re.fullmatch(r"\s*+([0-9]{1,19}(?:\.[0-9]{1,19})?)\s*+(?:([kmgtp]i?)?b)?\s*+", text.lower())
    size = round(float(match[1]) * _UNITS[match[2] or ""]) if match else _MAX_SIZE + 1
    if size > _MAX_SIZE:
        forms = "Write digits, then B, kB to PB, or KiB to PiB, or nothing for bytes: 500GB, 1.5TB, 20GiB, 1000"
        raise ValueError(f"not a size of at most 1,000 PB. {forms}")
    return size


def parse_throttle(text: str) -> int:
    """Parse bytes per second, more than none."""
    if not (throttle := parse_size(text)):
        raise ValueError("nothing would be copied. Write bytes per second, as in 50MB")
    return throttle


_UNPARSED = (
    *("max_moves", "keep_leaders", "per_topic", "by_bytes", "allow_empty_racks", "keep_rack_violations"),
    *("at_min_isr_partitions", "under_min_isr_partitions"),
)
_PARSERS: dict[str, Callable[[str], Any]] = {
    **{"brokers": parse_ids, "exclude_brokers": parse_ids, "topics": parse_names, "exclude_topics": parse_names},
    **{"replace": parse_replacements, "log_dirs": parse_log_dirs, "max_bytes": parse_size},
}


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
    from pipelines.cli.plan_remedies import PlanCommandLine, list_remedies, list_warnings
    from pipelines.cli.plan_rendering import render_plan
    from pipelines.cli.text_format import lay_out_terminal
    from pipelines.config.capacity_file import add_disk_capacities
    from pipelines.config.plan_parameters import build_metric_options
    from pipelines.ingest.merge.live_brokers import get_bootstrap_server
    from pipelines.plan_files.change_ticket import make_ticket
    from pipelines.plan_files.plan_creation import build_answer, build_snapshot_model, create_plan
    from pipelines.plan_files.plan_writer import REASSIGNMENT, TICKET
    from pipelines.plan_files.planned_cluster import add_new_brokers, explain_proposal, propose_new_brokers
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
    snapshot = add_disk_capacities(cluster.apply(now, defaults), settings.capacity.file)
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
            text = make_ticket(created, snapshot, folder, defaults, commands, cluster.after or ())
            for path in (ticket, *([folder / TICKET] if folder == out else [])):
                common_options.write_text(path, text, "--ticket")
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
    if created.facts.judgement.level.is_harmful:  # a script must not go on with it
        raise typer.Exit(EXIT_INPUT)


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
