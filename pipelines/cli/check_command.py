"""The command `check`."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli import common_options
from pipelines.cli.app import app, examples
from pipelines.cli.cluster_options import ClusterOptions
from pipelines.cli.common_options import AddBrokersOption, ThrottleOption
from pipelines.cli.option_values import option, parse_output, parse_path, take_groups, whole_number
from pipelines.cli.source_arguments import SourceArgument, get_servers
from pipelines.cli.text_format import print_message, print_warning
from pipelines.errors import EXIT_INPUT
from pipelines.ingest.sources import is_live

if TYPE_CHECKING:
    from pipelines.plan_files.plan_judgement import PlanJudgement

_PLAN = (
    "Folders that plan wrote and reassignment files of any tool, each after the one before it. JSON as "
    "kafka-reassign-partitions takes it, the output of its --generate, or proposals of Cruise Control. Without one: "
    "the reassignments that are under way."
)
_SECONDS_BETWEEN_LOOKS = 10.0  # at a running cluster, for the rate of what is copied: brokers report sizes at once
_SCENARIO = "Write a scenario that shows the worst fault: kafka-placement replay SOURCE FILE."


@app.command(rich_help_panel="Placing and planning, without Spark", epilog=examples("check"))
@take_groups
def check(
    *,
    plans: Annotated[list[Path] | None, typer.Argument(help=_PLAN, metavar="PLAN", parser=parse_path)] = None,
    source: SourceArgument,
    rf: Annotated[
        int | None,
        option("The replication factor that the plan is to give.", "N", "--rf", parser=whole_number(1, 1000)),
    ] = None,
    add_brokers: AddBrokersOption = None,
    throttle: ThrottleOption = None,
    scenario: Annotated[Path | None, option(_SCENARIO, "FILE", parser=parse_output)] = None,
    cluster: ClusterOptions,
    json_file: common_options.JsonOption = None,
) -> None:
    """Judge a plan before it runs, step by step: SAFE, RISKY, HARMFUL or REJECTED BY KAFKA. Does not start Spark.

    Without a plan: what the reassignments that are under way wait for, and how to cancel them.
    """
    from pipelines.cli.check_rendering import render_judgement, render_progress, render_rest, render_running
    from pipelines.cli.plan_command import parse_new_brokers, parse_option, parse_throttle
    from pipelines.config.plan_parameters import build_wave_limits
    from pipelines.execution.checked_plans import check_plans
    from pipelines.ingest.merge.live_brokers import get_releases
    from pipelines.plan_files.fault_sentences import describe_assumption
    from pipelines.plan_files.plan_check import PlanStatus
    from pipelines.plan_files.planned_cluster import add_new_brokers, find_running_reassignments
    from udfs.json_answers import to_json

    settings = cluster.read_settings()
    defaults = settings.topics.defaults
    new_brokers = parse_option("--add-brokers", add_brokers, parse_new_brokers) if add_brokers else ()
    rate = None if throttle is None else float(parse_option("--throttle", throttle, parse_throttle))
    now = cluster.read(source, settings)
    snapshot = cluster.apply(now, defaults)
    common_options.print_findings(snapshot)
    if not plans:
        running_rate = rate or build_wave_limits(settings).throttle_bytes_per_s
        for note in describe_assumption(defaults.adapt_to(get_releases(snapshot.brokers)).assumed_release):
            print_message(note)
        servers = get_servers(source) or "HOST:PORT"
        running, looked = find_running_reassignments(snapshot, running_rate, defaults), time.monotonic()
        if is_live(source) and running.partitions:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            later = cluster.read_later(source, settings, source)
            running = find_running_reassignments(later, running_rate, defaults, running, time.monotonic() - looked)
        common_options.write_answer(json_file, running, render_running(running, servers))
        raise typer.Exit(EXIT_INPUT if running.stuck or not running.is_known else 0)
    snapshot = add_new_brokers(snapshot, new_brokers)
    checked = check_plans(
        plans, snapshot, settings, now=now, rf=rf, throttle_bytes_per_s=rate, preceding_plans=cluster.after or ()
    )
    for assumption in checked.assumptions:
        print_warning(assumption)
    judgement, progress_of = checked.judgement, checked.progress
    if scenario is not None:
        _write_scenario(scenario, judgement)
    verdict = to_json(judgement) if judgement else {"level": None}
    answer = {"progress": [{"folder": str(path), **to_json(one)} for path, one in progress_of], **verdict}
    lines, undone = list[str](), list[Path]()
    for path, progress in progress_of:
        lines += [f"{path}:"] if len(plans) > 1 else []
        lines += render_progress(progress, undone)
        undone += [] if progress.status is PlanStatus.DONE else [path]
        if text := checked.journals[path].describe_open():
            lines.append(f"  journal: {text}")
        if progress.undone_plans:
            after = shlex.join(word for folder in progress.undone_plans for word in ("--after", folder))
            words = f"{shlex.quote(str(path))} {cluster.quote_with(source)} {after}"
            lines.append(f"  to judge it after that: kafka-placement check {words}")
        elif progress.moved_on and progress.has_begun and progress.status is PlanStatus.CHANGED:
            words = f"{shlex.quote(str(path))} LATER... {cluster.quote_with(source)}"
            lines.append(f"  not judged. With the plans that followed it: kafka-placement check {words}")
    if judgement:
        left = [wave.bytes_to_copy for wave in judgement.waves if wave.partitions] if checked.journals else []
        lines += [*render_rest(len(left), len(judgement.waves), left), *render_judgement(judgement)]
    common_options.write_answer(json_file, answer, lines)
    raise typer.Exit(0 if checked.may_execute else EXIT_INPUT)


def _write_scenario(path: Path, judgement: "PlanJudgement | None") -> None:
    """Write the scenario of the worst fault that has one, or say that none has."""
    findings = judgement.findings if judgement else ()
    lines = next((finding.scenario for finding in findings if finding.scenario), ())
    if not lines:
        print_warning(f"--scenario {path} is not written: no fault of this plan can be shown by a scenario")
        return
    common_options.write_text(path, "\n".join(lines) + "\n", "--scenario")
